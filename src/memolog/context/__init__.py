"""The context of a model request: the log as a stable prefix, the tail of raw messages, and the edge."""
