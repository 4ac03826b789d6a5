"""The embedded observer and reflector: no model, no key, no network.

Pure: the same messages give the same lines, byte for byte. It selects and shortens what was said and never rewrites a fact.
"""

from memolog.extractive.compacting import CompactRow, CompactTexts, Line, compact_texts, words_left
from memolog.extractive.observer import observe
from memolog.extractive.reflector import reflect

__all__ = ["CompactRow", "CompactTexts", "Line", "compact_texts", "observe", "reflect", "words_left"]
