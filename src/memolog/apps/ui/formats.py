"""Write numbers, times and texts as a page shows them. Templates use these functions as filters."""

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

from markupsafe import Markup

from memolog.core.clock import short
from memolog.core.exact_json import dumps, encode
from memolog.core.message import part_text
from memolog.core.observation import Span
from memolog.text.dates import age, duration

_OPEN: Final = Markup("<mark>")
_CLOSE: Final = Markup("</mark>")
_THOUSAND: Final = 1_000
_MILLION: Final = 1_000_000
# Control characters, and characters that turn the direction of the text around them. They are shown by their number, because a
# page in which a text reads differently from what is stored misleads.
_UNSEEN: Final = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff\ud800-\udfff]"
)


def number(value: float) -> str:
    """Return a number with separators of thousands: 12,345."""
    return f"{value:,.0f}"


def brief(value: float) -> str:
    """Return a number in at most five characters: 950, 12.3k, 4.6M."""
    if value < _THOUSAND:
        return f"{value:.0f}"
    if value < _MILLION:
        return f"{value / _THOUSAND:.1f}k".replace(".0k", "k")
    return f"{value / _MILLION:.1f}M".replace(".0M", "M")


def counted(value: int, noun: str, plural: str = "") -> str:
    """Return a number and its noun: 1 group, 2 groups."""
    return f"{value:,} {noun if value == 1 else plural or f'{noun}s'}"


def dollars(value: float) -> str:
    """Return US dollars. Small amounts have four decimals."""
    return f"${value:,.2f}" if value >= 1 or not value else f"${value:.4f}"


def percent(value: float) -> str:
    """Return a share from 0 to 1 in percent."""
    return f"{value * 100:.0f} %"


def moment(at: datetime | None, form: str = "%Y-%m-%d %H:%M") -> Markup | str:
    """Return a moment in the time zone of this machine, as a `time` element. None becomes a dash."""
    if at is None:
        return "–"
    here = at.astimezone()
    return Markup('<time datetime="{}" title="{}">{}</time>').format(
        here.isoformat(), f"{here:%A %Y-%m-%d %H:%M:%S %Z} · {at.astimezone(UTC):%H:%M} UTC", f"{here:{form}}"
    )


def clock(at: datetime | None) -> Markup | str:
    """Return the time of day of a moment."""
    return moment(at, "%H:%M")


def day(at: datetime | None) -> str:
    """Return weekday and date of a moment in the time zone of this machine."""
    return "without a date" if at is None else f"{at.astimezone():%A, %Y-%m-%d}"


def ago(at: datetime | None, now: datetime) -> Markup | str:
    """Return how long ago a moment was, as a `time` element: 3 hours ago."""
    if at is None:
        return "never"
    here = at.astimezone()
    return Markup('<time datetime="{}" title="{}">{}</time>').format(
        here.isoformat(), f"{here:%A %Y-%m-%d %H:%M:%S %Z}", age(at, now)
    )


def seconds(value: float) -> str:
    """Return a duration in words."""
    return duration(value)


def span(value: Span | None) -> str:
    """Return the numbers of a span: 12–30, or 12 for one message."""
    if value is None:
        return ""
    return str(value.first) if value.first == value.last else f"{value.first}–{value.last}"


def plain(text: str | None) -> str:
    """Return a text in which characters that cannot be seen are written by their number, such as ⟨U+202E⟩."""
    return _UNSEEN.sub(lambda hit: f"⟨U+{ord(hit[0]):04X}⟩", text or "")


def cut(text: str | None, most: int = 160) -> str:
    """Return a text on one line, cut to `most` characters."""
    line = " ".join(plain(text).split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


def marked(snippet: str, exact: str = "") -> Markup:
    """Return a snippet of a search, whose matches « and » enclose, with `mark` elements.

    `exact` is the same part of the text without marks. Signs that are in it are of the text, and stay.
    """
    own = _own_signs(snippet, exact)
    pieces: list[Markup] = []
    is_open, done = False, 0
    for hit in re.finditer("[«»]", snippet):
        if hit.start() in own or (hit[0] == "«") is is_open:
            continue
        pieces += [Markup.escape(plain(snippet[done : hit.start()])), _CLOSE if is_open else _OPEN]
        is_open, done = not is_open, hit.end()
    return Markup("").join([*pieces, Markup.escape(plain(snippet[done:])), _CLOSE if is_open else ""])


def _own_signs(snippet: str, exact: str) -> frozenset[int]:
    """Return the places of those « and » in a snippet that its text has itself. All, if marks cannot be told from them."""
    if not re.search("[«»]", exact):
        return frozenset()
    signs = frozenset(hit.start() for hit in re.finditer("[«»]", snippet))
    whole = " ".join(exact.split())
    letters = [at for at, char in enumerate(whole) if char not in "«»"]
    first = len(snippet) - len(snippet.lstrip("…"))
    words = re.sub("[«»]", "", snippet.strip("…"))
    place = "".join(whole[at] for at in letters).find(words)
    if place < 0 or not words:
        return signs
    at = letters[place]
    while snippet[first] in "«»" and at and whole[at - 1] in "«»":
        at -= 1
    own: set[int] = set()
    for here in range(first, len(snippet)):
        if at < len(whole) and snippet[here] == whole[at]:
            at += 1
            if here in signs:
                own.add(here)
    return frozenset(own)


def changed(diff: str) -> list[tuple[str, str]]:
    """Return the lines of a difference in the form of `diff -u`, each with its kind: add, cut, place or same."""
    kinds = {"+": "add", "-": "cut", "@": "place"}
    return [(kinds.get(line[:1], "same"), plain(line)) for line in diff.splitlines()[2:]]


def as_json(value: object) -> str:
    """Return a value as JSON on one line."""
    return dumps(encode(value))


FILTERS: Final[dict[str, Callable[..., Any]]] = {
    "ago": ago,
    "brief": brief,
    "changed": changed,
    "clock": clock,
    "counted": counted,
    "cut": cut,
    "day": day,
    "dollars": dollars,
    "json": as_json,
    "marked": marked,
    "moment": moment,
    "number": number,
    "part_text": part_text,
    "percent": percent,
    "plain": plain,
    "seconds": seconds,
    "short": short,
    "span": span,
}
"""The filters of all templates."""
