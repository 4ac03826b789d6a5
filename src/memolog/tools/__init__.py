"""The three tools for models: look at tasks, change tasks, search memory."""
