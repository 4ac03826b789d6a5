"""Shorten texts to a number of tokens by leaving out their middle, with a mark that says how much.

The work is bounded by what may be kept, not by the length of the text.
"""

import re
from typing import Final

from memolog.tokens import TokenCounter, cut, cut_end, cut_tokens

__all__ = ["ends_of", "last_lines", "shorten"]

# The most characters of a token in any text, and on average in ordinary text.
_MOST_CHARACTERS: Final = 128
_USUAL_CHARACTERS: Final = 16
_MARK: Final = re.compile(r"\[… ([1-9][0-9,]{0,12}) characters left out …\]")
_MARK_TOKENS: Final = 16
_OPEN_ENTITY: Final = re.compile(r"&[a-z]{0,4}\Z")
_ENTITY: Final = 5
# A key that a cut would tear is shorter than this.
_WORD: Final = 2_000
_LAST_WORD: Final = re.compile(r"(?<![!-~])[!-~]++\Z")
_FIRST_WORD: Final = re.compile(rf"[!-~]{{1,{_WORD}}}")


def _mark(characters: int) -> str:
    return f"[… {characters:,} characters left out …]"


def _characters(middle: str) -> int:
    """Return how long a middle is, with what was left out of it before."""
    before = sum(int(hit[1].replace(",", "")) - len(hit[0]) - 2 for hit in _MARK.finditer(middle))
    return max(len(middle) + before, 0)


def _fits(text: str, tokens: int, counter: TokenCounter) -> bool:
    """Return whether a text has at most so many tokens, without counting one that is far too long."""
    return len(text) <= _MOST_CHARACTERS * max(tokens, 0) and counter.count(text) <= tokens


def ends_of(text: str, tokens: int) -> str:
    """Return the two ends of a huge text, generously; cut between words, so that no secret is torn in two."""
    room = max(_USUAL_CHARACTERS * tokens // 2, 2 * _WORD)
    if len(text) <= 2 * room + _WORD:
        return text
    head, tail = cut(text, room), cut_end(text, room)
    torn = _LAST_WORD.search(head, len(head) - _WORD)
    head = head[: torn.start()] if torn and len(torn[0]) < _WORD else head
    torn = _FIRST_WORD.match(tail)
    tail = tail[torn.end() :] if torn and len(torn[0]) < _WORD else tail
    return f"{head}\n{_mark(len(text) - len(head) - len(tail))}\n{tail}"


def shorten(text: str, tokens: int, counter: TokenCounter) -> str:
    """Return an escaped text within so many tokens: its two ends, and between them how much was left out."""
    if _fits(text, tokens, counter):
        return text
    room = tokens - _MARK_TOKENS
    while room > 0:
        head = cut_tokens(text, (room + 1) // 2, counter)
        head = head[: len(head) - _torn(head)]
        tail = _end_tokens(text[len(head) :], room // 2, counter)
        short = f"{head}\n{_mark(_characters(text[len(head) : len(text) - len(tail)]))}\n{tail}"
        over = counter.count(short) - tokens
        if over <= 0:
            return short
        # The parts of a text may count less than the whole of it.
        room -= max(over, 1)
    head = cut_tokens(text, tokens, counter)
    return head[: len(head) - _torn(head)]


def _torn(head: str) -> int:
    """Return how long the piece of an entity is that a cut left at the end."""
    entity = _OPEN_ENTITY.search(head, max(len(head) - _ENTITY, 0))
    return len(head) - entity.start() if entity else 0


def _end_tokens(text: str, tokens: int, counter: TokenCounter) -> str:
    """Return a long suffix of at most so many tokens that starts at a boundary, outside an entity."""
    size = min(4 * max(tokens, 1), len(text))
    while size < len(text) and counter.count(cut_end(text, size)) <= tokens:
        size = min(2 * size, len(text))
    low, high = 0, size + 1
    while high - low > 1:
        middle = (low + high) // 2
        if counter.count(cut_end(text, middle)) <= tokens:
            low = middle
        else:
            high = middle
    tail = cut_end(text, low)
    torn = _torn(text[: len(text) - len(tail)][-_ENTITY:])
    return tail[tail.find(";") + 1 :] if torn and 0 <= tail.find(";") < _ENTITY else tail


def last_lines(text: str, tokens: int, counter: TokenCounter) -> str:
    """Return the last lines of a text within so many tokens; of a single huge line, its end."""
    kept: list[str] = []
    room = tokens
    for line in reversed(text.rstrip().split("\n")):
        cost = counter.count(line) + 1 if len(line) <= _MOST_CHARACTERS * max(room, 0) else room + 1
        if cost > room:
            break
        kept.append(line)
        room -= cost
    if not kept:
        # A few tokens of a line are useless.
        return "" if tokens < 2 * _MARK_TOKENS else shorten(text.rstrip().rpartition("\n")[2], tokens, counter)
    return "\n".join(reversed(kept))
