"""Parse dates and times as models write them: ISO dates, month names in several languages, times of day."""

import re
from dataclasses import dataclass
from datetime import date, time
from typing import Final

from memolog.domain.calendar_names import MONTHS, RISKY_MONTHS

__all__ = ["TIME", "FoundDate", "date_heading", "find_date", "read_time"]

_DATE: Final = re.compile(
    r"(?<!\d)(?:(?P<y1>\d{4})[-/.年] ?(?P<m1>\d{1,2})[-/.月] ?(?P<d1>\d{1,2})日?"
    r"|(?P<d2>\d{1,2})\. ?(?P<m2>\d{1,2})\. ?(?P<y2>\d{4})"
    r"|(?P<d3>\d{1,2})(?:st|nd|rd|th|er|e|\.|\.?[ºª]|°)? (?:of |de |di )?(?P<m3>[^\W\d_]{3,10})\.?"
    r",? (?:de |del |do )?(?P<y3>\d{4})"
    r")(?!\d)"
    r"|\b(?P<m4>[^\W\d_]{3,10})\.? (?P<d4>\d{1,2})(?:st|nd|rd|th)?,? (?P<y4>\d{4})(?!\d)"
)

TIME: Final = r"\d{1,2}[:：h]\d{2}(?:[:：]\d{2})?(?:\.\d{1,6})?\s?(?:[AaPp]\.?[Mm]\.?)?"
_TIME: Final = re.compile(r"(\d{1,2})[:：h](\d{2})(?:[:：]\d{2})?(?:\.\d+)?\s?([AaPp])?")
_NOON: Final = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundDate:
    """Where a text names a date; None if the calendar has no such day."""

    day: date | None
    start: int
    end: int


def find_date(text: str) -> FoundDate | None:
    """Return the first date that a text names."""
    for hit in _DATE.finditer(text):
        groups = hit.groupdict()
        for form in "1234":
            year, month, number = groups[f"y{form}"], groups[f"m{form}"], groups[f"d{form}"]
            if year and (month_number := _month(month)) is not None:
                return FoundDate(day=_day(int(year), month_number, int(number)), start=hit.start(), end=hit.end())
    return None


def _month(name: str) -> int | None:
    return int(name) if name.isdecimal() else MONTHS.get(name.lower(), RISKY_MONTHS.get(name.lower()))


def _day(year: int, month: int, number: int) -> date | None:
    try:
        return date(year, month, number)
    except ValueError:
        return None


def read_time(text: str) -> time | None:
    """Return the first time of day in a text; of a range, its beginning."""
    hit = _TIME.search(text)
    if not hit:
        return None
    hour, minute, half = int(hit[1]), int(hit[2]), (hit[3] or "").lower()
    if half and 1 <= hour <= _NOON:
        hour = hour % _NOON + (_NOON if half == "p" else 0)
    try:
        return time(hour, minute)
    except ValueError:
        return None


# ---------------------------------------------------------------- headings

_BEFORE: Final = re.compile(r"[\s#*_=\-–—•]*(?:[^\W\d]{2,15}[ ]?[,:：][\s*_]*)?(?:[^\W\d]{2,15},\s*)?")
_AFTER: Final = re.compile(r"[ ,(（]{0,3}(?:UTC\S{0,7}|[^\W\d]{2,15})?[)）]?[\s:：*_=#\-–—]*")
_LONGEST: Final = 80


def date_heading(line: str) -> FoundDate | None:
    """Return the date of a line that is nothing but one, with a label or a weekday at most."""
    if len(line) > _LONGEST:
        return None
    found = find_date(line)
    if not found:
        return None
    is_alone = _BEFORE.fullmatch(line[: found.start]) and _AFTER.fullmatch(line[found.end :])
    return found if is_alone else None
