"""Compaction: replace the text of old tool results by a shorter one that can be undone."""
