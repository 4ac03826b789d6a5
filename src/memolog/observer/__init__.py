"""The observer and the reflector: prompts, replies, checks against the sources, and the models."""
