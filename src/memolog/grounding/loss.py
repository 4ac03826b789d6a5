"""The loss guard: what a reflection no longer names, and one line that names it after all.

Knows what is worth keeping first. Knows nothing of models: whoever asks again is told what is missing.
"""

from collections.abc import Sequence
from typing import Final

from memolog.domain.observation import Observation
from memolog.grounding.evidence import Evidence, is_found
from memolog.grounding.identifiers import Kind, Mention, mentions
from memolog.tokens import TokenCounter

__all__ = ["KEEP", "keep_line", "lost"]

KEEP: Final = "Also mentioned: "
"""How the line begins that names what would be lost."""

_BY_LINE: Final = {"high": 0, "done": 1, "medium": 2, "low": 3}
_BY_KIND: Final[dict[Kind, int]] = {
    "path": 0,
    "symbol": 1,
    "command": 1,
    "flag": 2,
    "url": 2,
    "version": 2,
    "hash": 2,
    "name": 3,
    "number": 4,
}
"""Quotes are no identifiers, and days are told by the lines' own dates."""
_VERBATIM: Final = 10
_SMALL: Final = 1


def lost(lines: Sequence[Observation], result: Sequence[str]) -> tuple[str, ...]:
    """Return the paths, symbols, numbers and names of some lines that no text of the result has, the most valuable first.

    A bare number below ten counts something and names nothing; it is not missed. Other bare numbers come with the word
    beside them, which says what they are.
    """
    texts = [Evidence("\n".join(result))]
    found: dict[str, tuple[int, int, int]] = {}
    known: dict[Mention, bool] = {}
    for place, line in enumerate(lines):
        for text, extra in ((line.text, 0), (line.verbatim or "", _VERBATIM)):
            for mention in mentions(text):
                if mention.kind not in _BY_KIND or _is_small(mention):
                    continue
                if mention not in known:
                    known[mention] = is_found(mention, texts)
                if not known[mention]:
                    key = (_BY_LINE[line.priority] + extra, _BY_KIND[mention.kind], place)
                    found[mention.phrase] = min(found.get(mention.phrase, key), key)
    return tuple(sorted(found, key=found.__getitem__))


def _is_small(mention: Mention) -> bool:
    return mention.kind == "number" and mention.text.isdecimal() and len(mention.text) <= _SMALL


def keep_line(names: Sequence[str], most_tokens: int, counter: TokenCounter) -> tuple[str, tuple[str, ...]]:
    """Return one line of at most so many tokens that names what it can, in order, and what it has no room for."""
    kept: list[str] = []
    rest: list[str] = []
    room = most_tokens - counter.count(KEEP)
    for name in names:
        size = counter.count(f"{name}, ")
        (kept if size <= room else rest).append(name)
        room -= size if size <= room else 0
    # Tokens do not simply add up: the line as a whole has the last word.
    while kept and counter.count(_line(kept)) > most_tokens:
        rest.insert(0, kept.pop())
    return (_line(kept) if kept else ""), tuple(rest)


def _line(names: Sequence[str]) -> str:
    return f"{KEEP}{', '.join(names)}"
