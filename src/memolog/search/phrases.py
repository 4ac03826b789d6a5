"""Return whether phrases occur in a text, with a quick test before the exact one."""

import re
from collections.abc import Sequence
from typing import Final

from memolog.domain.caches import remembered
from memolog.search.query import phrase_of
from memolog.search.words import folded, normal

__all__ = ["among_ascii", "stand_in"]

_REMEMBERED: Final = 512
_BEGINS_A_WORD: Final = re.compile(r"\w")


def stand_in(text: str, phrases: Sequence[str]) -> bool:
    """Return whether all of some phrases, as `phrase_of` returns them, stand in a text."""
    # To take a text apart takes a hundred times as long as to look through it.
    plain = folded(normal(text))
    if text.isascii():
        # Two spaces: a lone accent stood between them.
        return all("  " not in phrase and among_ascii(phrase).search(plain) for phrase in phrases)
    if not all(_roughly(phrase).search(plain) for phrase in phrases):
        return False
    words = phrase_of(text)
    return all(phrase in words for phrase in phrases)


@remembered(_REMEMBERED)
def among_ascii(phrase: str) -> re.Pattern[str]:
    """Return where a phrase stands in a plain text of ASCII: there only letters and digits make words."""
    words = r"[^a-z0-9]+".join(map(re.escape, phrase.split()))
    return re.compile(rf"(?<![a-z0-9]){words}(?![a-z0-9])")


@remembered(_REMEMBERED)
def _roughly(phrase: str) -> re.Pattern[str]:
    """Return where a phrase may stand in a plain text of any script, and does not stand elsewhere."""
    words = phrase.split()
    # What begins with a mark may itself stand among signs: a long run of them would be gone through again and again.
    if not all(_BEGINS_A_WORD.match(word) for word in words):
        words = words[:1]
    return re.compile(r"[\W_]*".join(map(re.escape, words)))
