"""Compaction: show and index old messages by a summary. It can be undone."""
