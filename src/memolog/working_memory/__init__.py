"""Working memory: one small document a resource or thread, its schema, storage and calls."""
