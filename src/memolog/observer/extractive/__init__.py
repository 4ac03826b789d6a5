"""The embedded observer and reflector, which select and shorten sentences of the messages without calling a model."""
