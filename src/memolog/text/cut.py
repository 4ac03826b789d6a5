"""Cut texts without dividing a grapheme (a character as a reader sees it).

The rules are stricter than Unicode's text segmentation (UAX #29). Every boundary that this module accepts is also a boundary in
UAX #29, but this module rejects some boundaries of UAX #29. Only the text near a cut is read, except in a long row of marks or
flags.
"""

from bisect import bisect_right
from typing import Final
from unicodedata import category, combining

from memolog.text.tokens import TokenCounter

# The first combining mark. A text can be cut between any two characters below it, except between CR and LF.
_FIRST_MARK: Final = "\u0300"
# Characters that extend the character before them, although their category is not M (mark): joiners, halfwidth voicing marks,
# skin tones, and the vowel AM of Thai and Lao. Tag characters are tested as a range in `_extends`.
_EXTENDING: Final = frozenset("\u200c\u200d\uff9e\uff9f\u0e33\u0eb3\U0001f3fb\U0001f3fc\U0001f3fd\U0001f3fe\U0001f3ff")
# Characters that belong to the character after them: number signs of several scripts, and letters that begin a cluster. The
# joiner U+200D is included because it may join two emoji.
_LEADING: Final = frozenset(
    "\u200d\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u0890\u0891\u08e2\u0d4e"
    "\U000110bd\U000110cd\U000111c2\U000111c3\U000113d1\U0001193f\U00011941\U00011a3a"
    "\U00011a84\U00011a85\U00011a86\U00011a87\U00011a88\U00011a89\U00011d46\U00011f02"
)
# A mark binds the consonants around it if it has the combining class of a virama or is in `_BINDING`.
_VIRAMA_CLASS: Final = 9
_BINDING: Final = frozenset("\u1cf5\u1cf6\U000113d0\U00011a3a\U00011f42")
# At most this many characters before a letter are read. If all of them are marks, there is no boundary before the letter.
# Real clusters are far shorter.
_MAX_MARKS: Final = 32


def is_boundary(text: str, index: int) -> bool:
    """Return whether the text can be cut before `index` without dividing a grapheme."""
    if not 0 < index < len(text):
        return index in {0, len(text)}
    before, after = text[index - 1], text[index]
    if before < _FIRST_MARK and after < _FIRST_MARK:
        return not (before == "\r" and after == "\n")
    if _is_control(before) or _is_control(after):
        return True
    is_joined = _extends(after) or _leads(before) or _is_inside_pair(text, index)
    return not (is_joined or _splits_flag(text, index) or _is_conjunct(text, index))


def cut(text: str, limit: int) -> str:
    """Return the longest prefix of at most `limit` code points that ends at a boundary.

    If the first grapheme is longer than `limit`, it is cut at the limit, but never between the halves of a surrogate pair.
    """
    if limit >= len(text):
        return text
    limit = max(limit, 0)
    return text[: _boundary_before(text, limit) or limit - _is_inside_pair(text, limit)]


def cut_end(text: str, limit: int) -> str:
    """Return the longest suffix of at most `limit` code points that starts at a boundary, with the same exception as `cut`."""
    if limit >= len(text):
        return text
    first = len(text) - max(limit, 0)
    start = _boundary_after(text, first)
    return text[start:] or text[first + _is_inside_pair(text, first) :]


def cut_middle(text: str, limit: int) -> str:
    """Return the beginning and the end of the text with an ellipsis between them, in at most `limit` code points.

    If `limit` is too small for the ellipsis, return only the beginning. A grapheme that fits on neither side is left out. It is
    cut only if otherwise nothing of the text would remain.
    """
    if len(text) <= limit:
        return text
    mark = " … "
    room = limit - len(mark)
    if room <= 0:
        return cut(text, limit)
    head = _boundary_before(text, (room + 1) // 2)
    tail = _boundary_after(text, len(text) - (room - head))
    if head == 0 and tail == len(text):
        return cut(text, room) + mark
    return text[:head] + mark + text[tail:]


def cut_tokens(text: str, tokens: int, counter: TokenCounter) -> str:
    """Return a long prefix of at most `tokens` tokens that ends at a boundary, with the same exception as `cut`."""
    end = min(4 * max(tokens, 0), len(text))
    # Start with a short prefix and double it, so that the tokens of a long text are never all counted.
    while end < len(text) and counter.count(text[:end]) <= tokens:
        end = min(2 * end, len(text)) or len(text)
    limit = bisect_right(range(1, end + 1), tokens, key=lambda length: counter.count(text[:length]))
    return cut(text, limit)


def _boundary_before(text: str, index: int) -> int:
    while not is_boundary(text, index):
        index -= 1
    return index


def _boundary_after(text: str, index: int) -> int:
    while not is_boundary(text, index):
        index += 1
    return index


def _is_control(char: str) -> bool:
    return char < " " or "\x7f" <= char < "\xa0"


def _extends(char: str) -> bool:
    return (
        category(char)[0] == "M"
        or char in _EXTENDING
        or "\U000e0000" <= char <= "\U000e0fff"  # tags and code points reserved for tags
        or "\u1160" <= char <= "\u11ff"  # Hangul vowels and finals
        or "\ud7b0" <= char <= "\ud7fb"
        or "\U00016d63" <= char <= "\U00016d6a"  # Kirat Rai vowels
        or _is_unassigned(char)
    )


def _leads(char: str) -> bool:
    return (
        char in _LEADING
        or "\u1100" <= char <= "\u115f"  # leading Hangul jamo
        or "\ua960" <= char <= "\ua97c"
        or _is_unassigned(char)
    )


def _is_unassigned(char: str) -> bool:
    """Return whether this Python's Unicode version does not know the character, so that it may be a mark in a newer version.

    Ideographs (planes 2 and 3) and emoji are excluded, because new characters there are never marks.
    """
    return (
        category(char) == "Cn" and not "\U00020000" <= char <= "\U0003ffff" and not "\U0001f000" <= char <= "\U0001faff"
    )


def _is_inside_pair(text: str, index: int) -> bool:
    """Return whether a cut before `index` would separate the halves of a surrogate pair."""
    return 0 < index < len(text) and "\ud800" <= text[index - 1] <= "\udbff" and "\udc00" <= text[index] <= "\udfff"


def _splits_flag(text: str, index: int) -> bool:
    """Return whether a cut before `index` would separate the two regional indicators of a flag."""
    start = index
    while start and _is_indicator(text[start]) and _is_indicator(text[start - 1]):
        start -= 1
    return (index - start) % 2 == 1


def _is_indicator(char: str) -> bool:
    return "\U0001f1e6" <= char <= "\U0001f1ff"


def _is_conjunct(text: str, index: int) -> bool:
    """Return whether the character at `index` is a letter that a mark before it binds to another consonant.

    Other marks may lie between the binding mark and the letter.
    """
    if category(text[index]) != "Lo":
        return False
    for at in range(index - 1, max(index - 1 - _MAX_MARKS, -1), -1):
        if combining(text[at]) == _VIRAMA_CLASS or text[at] in _BINDING:
            return True
        if not _extends(text[at]):
            return False
    return True
