"""The embedded observer and reflector, which need no model, key or network.

Deterministic: the same messages give the same lines. They select and shorten what was said and never rewrite a fact.
"""

from memolog.extractive.compacting import CompactRow, CompactTexts, Line, compact_texts, words_left
from memolog.extractive.observer import observe
from memolog.extractive.reflector import reflect

__all__ = ["CompactRow", "CompactTexts", "Line", "compact_texts", "observe", "reflect", "words_left"]
