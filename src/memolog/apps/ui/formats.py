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


def marked(snippet: str) -> Markup:
    """Return a snippet of a search, whose matches « and » enclose, with `mark` elements."""
    escaped = Markup.escape(plain(snippet))
    return Markup(str(escaped).replace("«", "<mark>").replace("»", "</mark>"))  # noqa: S704 - escaped above


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
