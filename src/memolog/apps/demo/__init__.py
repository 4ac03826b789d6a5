"""Play ten days of work on a small project through a real memory, without a key."""
