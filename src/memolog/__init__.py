"""A long memory for AI agents."""
