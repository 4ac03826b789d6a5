"""The embedded observer and reflector: they select and shorten what was said, without a model."""
