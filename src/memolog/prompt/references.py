"""Parse references to messages or lines: [3], [7,8], [3-5], 【3】, [o1, o4-o6], (from o1).

References to what was not shown are dropped.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from memolog.prompt.faults import FaultNotes

__all__ = ["Known", "is_reference", "take_leading_references", "take_references"]

_WORD: Final = r"(?:messages?|msgs?|merge[sd]?|merging|from|ids?|sources?|cites?|see|lines?)[ .:]*"
_ITEM: Final = r"[#mo]?\d{1,9}"
_BETWEEN: Final = r"(?:[ ]*(?:[,;、，،/&+–—-]|\band\b|\bto\b|\.\.)[ ]*|[ ]+)"
# Items must be separated, so that a run of digits can be read in one way only.
_LIST: Final = rf"[ ]*(?:{_WORD})?{_ITEM}(?:{_BETWEEN}(?:{_WORD})?{_ITEM}){{0,5000}}[ ]*"
_AT_END: Final = re.compile(rf"(?:[\[【]{_LIST}[\]】]|[(（][ ]*{_WORD}{_LIST}[)）])[ .;,]*\Z", re.IGNORECASE)
_IN_FRONT: Final = re.compile(rf"[\[【(（]({_LIST})[\]】)）][ ]*+(?:[:–—-](?=\s))?[ ]*+(?=\S)", re.IGNORECASE)
_ALONE: Final = re.compile(rf"\s*[\[【(（]({_LIST})[\]】)）][ .;,]*", re.IGNORECASE)
_INSIDE: Final = re.compile(rf"(?<=\s)[\[【]({_LIST})[\]】](?=[\s.,;:)]|\Z)", re.IGNORECASE)
_RANGE: Final = re.compile(rf"({_ITEM})[ ]*(?:–|—|-|\.\.|\bto\b)[ ]*({_ITEM})|({_ITEM})", re.IGNORECASE)
# The longest bracket that is looked at, so that a line of brackets is read in bounded time.
_LONGEST: Final = 20_000
_MOST_GROUPS: Final = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """The numbers that may be cited."""

    numbers: tuple[int, ...]
    """In order."""
    members: frozenset[int] = field(default=frozenset())

    @classmethod
    def of(cls, numbers: Iterable[int]) -> "Known":
        """Return what may be cited, from any collection of numbers."""
        members = frozenset(numbers)
        return cls(numbers=tuple(sorted(members)), members=members)

    def between(self, first: int, last: int) -> tuple[int, ...]:
        """Return the numbers of a range, both ends included; the range may be huge."""
        return self.numbers[bisect_left(self.numbers, first) : bisect_right(self.numbers, last)]


def take_references(text: str, known: Known, notes: FaultNotes) -> tuple[str, tuple[int, ...]]:
    """Return the text without its references, and the numbers of it that were shown, in order."""
    found: set[int] = set()
    for _ in range(_MOST_GROUPS):
        window = text[-_LONGEST:]
        opened = max(window.rfind("["), window.rfind("【"), window.rfind("("), window.rfind("（"))
        if opened < 0 or not (hit := _AT_END.match(window, opened)):
            break
        found.update(_numbers(hit[0], known, notes))
        text = text[: len(text) - len(window) + opened].rstrip()
    text = _inside(text, known, found)
    return text, tuple(sorted(found))


def take_leading_references(text: str, known: Known) -> tuple[str, tuple[int, ...]]:
    """Return the text without numbers in brackets at its beginning, and these; they stay unless all of them were shown."""
    hit = _IN_FRONT.match(text[:_LONGEST])
    numbers = _shown(hit[1], known) if hit else ()
    return (text[hit.end() :], numbers) if hit and numbers else (text, ())


def is_reference(row: str, known: Known) -> bool:
    """Return whether a row holds numbers in brackets that were shown, and nothing else."""
    hit = _ALONE.fullmatch(row) if len(row) <= _LONGEST else None
    return bool(hit and _shown(hit[1], known))


def _shown(group: str, known: Known) -> tuple[int, ...]:
    """Return the numbers of a group if all that it names were shown."""
    notes = FaultNotes()
    numbers = _numbers(group, known, notes)
    return () if notes.faults() else tuple(sorted(set(numbers)))


def _inside(text: str, known: Known, found: set[int]) -> str:
    """Take references from the middle of a line: only known ones, and never out of code."""
    if "[" not in text and "【" not in text:
        return text
    pieces = text.split("`")
    step = 2 if len(pieces) % 2 else 1

    def swap(hit: re.Match[str]) -> str:
        numbers = [int(item.lstrip("#moMO")) for item in re.findall(_ITEM, hit[1], re.IGNORECASE)]
        if not known.members.issuperset(numbers):
            return hit[0]
        found.update(_numbers(hit[1], known, FaultNotes()))
        return ""

    for at in range(0, len(pieces), step):
        bare = _INSIDE.sub(swap, pieces[at])
        if bare != pieces[at]:
            pieces[at] = re.sub(r" {2,}| (?=[.,;:])", lambda gap: " " if len(gap[0]) > 1 else "", bare)
    return "`".join(pieces).rstrip()


def _numbers(group: str, known: Known, notes: FaultNotes) -> list[int]:
    numbers: list[int] = []
    for first, last, single in _RANGE.findall(group):
        low, high = sorted(int(item.lstrip("#moMO")) for item in (first or single, last or single))
        if not {low, high} <= known.members:
            notes.note("unknown_citation", group.strip())
        numbers.extend(known.between(low, high))
    return numbers
