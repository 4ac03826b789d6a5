"""Messages and threads: saving, validating, copying and keeping what could not be saved yet."""
