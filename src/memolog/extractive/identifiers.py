"""Identifiers: paths, symbols, numbers and names that must not disappear when a text is condensed.

Knows how they look, and which of them a text has lost. Knows nothing of logs.
"""

import re
from collections.abc import Iterable
from typing import Final

from memolog.extractive.words import STOP, is_name, words_of

__all__ = ["identifiers_of", "lost_from"]

_MEANING: Final = re.compile(r"\(meaning ([^)]*)\)")
_BREAKS: Final = re.compile(r"[.!?;:|]\s+|\s[–—|]\s|[\n(]")
_LONGEST: Final = 200


def identifiers_of(text: str) -> list[str]:
    """Return the names of a text in their order, those that stand together as one."""
    found: list[str] = []
    for stretch in _BREAKS.split(_MEANING.sub(" ", text)):
        run: list[str] = []
        for place, word in enumerate(words_of(stretch)):
            # A capital at the beginning says nothing, unless there is more to the word.
            named = is_name(word) and (place > 0 or not (word[1:].islower() and word[1:].isalpha()))
            if named and word.lower() not in STOP and len(word) <= _LONGEST:
                run.append(word)
            elif run:
                found.append(" ".join(run))
                run = []
        if run:
            found.append(" ".join(run))
    return list(dict.fromkeys(found))


def lost_from(texts: Iterable[str], kept: Iterable[str]) -> list[str]:
    """Return the identifiers of some texts that are no longer in what was kept; of a name, the words that are missing."""
    there = {_key(word) for text in kept for word in words_of(text)}
    lost: list[str] = []
    for text in texts:
        for name in identifiers_of(text):
            words = [word for word in name.split(" ") if _key(word) not in there]
            if words:
                lost.append(" ".join(words))
                there.update(map(_key, words))
    return lost


def _key(word: str) -> str:
    """Return a word as it is compared: a capital at its front may come from its place, one inside it does not."""
    return word.lower() if word[1:].islower() or word.isupper() else word
