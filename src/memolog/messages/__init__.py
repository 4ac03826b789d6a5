"""Messages and threads: saving, validating, copying, rewinding and recognising forgotten messages."""
