"""Compaction: contexts and the search index use a summary instead of old messages. It can be undone."""
