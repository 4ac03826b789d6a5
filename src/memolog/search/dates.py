"""Find the dates that a question names: "in March", "last week", "two days ago", "on 5 May 2023".

They are a preference in ranking, never a filter.
"""

import math
import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from memolog.domain.calendar_names import ENGLISH_WEEKDAYS, FULL_MONTHS
from memolog.domain.moments import to_micros

__all__ = ["Window", "closeness", "moment", "windows_in"]


class Window(NamedTuple):
    """From a moment up to another one."""

    first: datetime
    end: datetime

    def in_micros(self) -> tuple[int, int]:
        """Return both moments in microseconds since 1970."""
        return to_micros(self.first), to_micros(self.end)


_COUNTS: Final = {
    word: number
    for number, words in enumerate(
        ("a an one", "couple two", "few three", "four", "five", "six", "seven", "eight", "nine", "ten"), start=1
    )
    for word in words.split()
}
_UNITS: Final = {"day": 1.0, "week": 7.0, "weekend": 7.0, "month": 30.4, "year": 365.25}
_MONTH: Final = "|".join(sorted(FULL_MONTHS, key=len, reverse=True))
_DAYS: Final = [name.lower() for name in ENGLISH_WEEKDAYS]
_COUNT: Final = rf"(\d{{1,3}}|{'|'.join(_COUNTS)})(?: of)?"

_DATED: Final = re.compile(
    rf"\b(\d{{1,2}})(?:st|nd|rd|th|er|\.|º|°)?(?: of| de| di)? ({_MONTH})\b(?:,?(?: de| del)? (\d{{4}}))?"
    rf"|\b({_MONTH}) (\d{{1,2}})(?:st|nd|rd|th)?\b(?!\d)(?:,? (\d{{4}}))?"
    rf"|\b(?:(in|of|during|early|late|mid|since|last|this|until|by)[ -])?({_MONTH})\b(?:,? (\d{{4}}))?"
)
_ISO: Final = re.compile(r"\b(\d{4})-(\d{2})(?:-(\d{2}))?\b")
_YEAR: Final = re.compile(r"\b((?:19|20)\d\d)\b")
_AGO: Final = re.compile(rf"\b{_COUNT} (day|week|month|year)s? ago\b")
_PAST: Final = re.compile(rf"\b(?:past|last) {_COUNT} (day|week|month|year)s\b")
_LAST: Final = re.compile(r"\b(?:last|past|previous) (weekend|week|month|year)\b")
_LAST_DAY: Final = re.compile(rf"\b(?:last|on) ({'|'.join(_DAYS)})\b")
# How far back a month without a year may lie: longer than any memory here.
_YEARS_BACK = 10
# What is a week off is still a third as close: people err by days, not by months.
_FORGIVEN_DAYS = 7.0
_DAY_MICROS = 86_400_000_000


def windows_in(text: str, now: datetime) -> tuple[Window, ...]:
    """Return the spans of time that a text names, seen from the present."""
    plain = text.lower()
    found = [*_dated(plain, now), *_iso(plain), *_relative(plain, now)]
    if not found:
        found = [_year(int(hit[1]), now) for hit in _YEAR.finditer(plain)]
    return tuple(found)


def closeness(at: int, spans: Sequence[tuple[int, int]]) -> float:
    """Return 1 for a moment (microseconds) inside one of the spans, and less the further outside it lies."""
    if not spans:
        return 0.0
    outside = min(max(first - at, at - end, 0) for first, end in spans)
    return math.exp(-outside / _DAY_MICROS / _FORGIVEN_DAYS)


def moment(text: str, now: datetime) -> Window | None:
    """Return the span that a single date means: `2024`, `2024-03`, `2024-03-05`, `today`, `yesterday`."""
    plain = text.strip().lower()
    if plain in {"today", "yesterday"}:
        first = _midnight(now) - timedelta(days=plain == "yesterday")
        return Window(first, first + timedelta(days=1))
    if re.fullmatch(r"(?:19|20)\d\d", plain):
        return _year(int(plain), now)
    if _ISO.fullmatch(plain):
        return next(iter(_iso(plain)), None)
    try:
        exact = datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    exact = exact if exact.tzinfo else exact.replace(tzinfo=now.tzinfo)
    try:
        exact.astimezone(UTC)
    except OverflowError:
        # The first and the last hours of the calendar are no moments everywhere.
        return None
    return Window(exact, exact)


def _midnight(now: datetime) -> datetime:
    return now.replace(hour=0, minute=0, second=0, microsecond=0)


def _year(year: int, now: datetime) -> Window:
    # Only years from 1900 to 2099 are taken for years.
    first = _midnight(now).replace(year=year, month=1, day=1)
    return Window(first, first.replace(year=year + 1))


def _span(year: int, month: int, day: int | None, now: datetime) -> Window | None:
    try:
        first = _midnight(now).replace(year=year, month=month, day=day or 1)
        if day:
            return Window(first, first + timedelta(days=1))
        return Window(first, first.replace(year=year + month // 12, month=month % 12 + 1))
    except (ValueError, OverflowError):
        # A day that no calendar has.
        return None


def _dated(plain: str, now: datetime) -> Iterator[Window]:
    for hit in _DATED.finditer(plain):
        day, month, year = hit[1] or hit[5], hit[2] or hit[4] or hit[8], hit[3] or hit[6] or hit[9]
        # "may" is mostly a verb, "mars" a planet, "mai" never: only a preposition, a day or a year makes it a month.
        if month in {"may", "mars", "mai"} and not (day or year or hit[7]):
            continue
        years = [int(year)] if year else range(now.year - _YEARS_BACK, now.year + 1)
        for number in years:
            window = _span(max(1, number), FULL_MONTHS[month], int(day) if day else None, now)
            if window and (year or window.first <= now):
                yield window


def _iso(plain: str) -> Iterator[Window]:
    for hit in _ISO.finditer(plain):
        try:
            start = datetime.fromisoformat(f"{hit[1]}-{hit[2]}-{hit[3] or '01'}T00:00:00+00:00")
        except ValueError:
            continue
        window = _span(start.year, start.month, start.day if hit[3] else None, start)
        if window:
            yield window


def _relative(plain: str, now: datetime) -> Iterator[Window]:
    for hit in _AGO.finditer(plain):
        unit = _UNITS[hit[2]]
        middle = _back(now, _number(hit[1]) * unit)
        yield Window(_back(middle, unit / 2), middle + timedelta(days=unit / 2))
    for hit in _PAST.finditer(plain):
        yield Window(_back(now, _number(hit[1]) * _UNITS[hit[2]]), now)
    for hit in _LAST.finditer(plain):
        # "Last week" is the calendar week before this one to some, and the past seven days to others.
        yield Window(_back(now, 2 * _UNITS[hit[1]]), now)
    for hit in _LAST_DAY.finditer(plain):
        back = (now.weekday() - _DAYS.index(hit[1])) % 7 or 7
        day = _midnight(now) - timedelta(days=back)
        yield Window(day, day + timedelta(days=1))
    if "yesterday" in plain:
        day = _midnight(now) - timedelta(days=1)
        yield Window(day, day + timedelta(days=1))


def _number(text: str) -> int:
    return int(text) if text.isdigit() else _COUNTS[text]


def _back(now: datetime, days: float) -> datetime:
    try:
        return now - timedelta(days=days)
    except OverflowError:
        return datetime.min.replace(tzinfo=now.tzinfo)
