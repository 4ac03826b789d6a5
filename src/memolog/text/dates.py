"""Tables of month and weekday names in seven languages, and functions that write time differences in words and find dates.

The keys of the tables are names in lower case. The values are the number of the month (from 1) or of the weekday (Monday is 0).
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Final

from memolog.core.zones import zone_of

ENGLISH_WEEKDAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
ENGLISH_MONTHS: Final = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
_FULL: Final = (
    " ".join(ENGLISH_MONTHS).lower(),
    "januar februar märz april mai juni juli august september oktober november dezember",
    "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre",
    "janvier février mars avril mai juin juillet août septembre octobre novembre décembre",
    "janeiro fevereiro março abril maio junho julho agosto setembro outubro novembro dezembro",
    "gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre dicembre",
    "januari februari maart april mei juni juli augustus september oktober november december",
    # Regional forms, and names typed without their accents. A dash fills the place of a month without such a form.
    "jänner feber maerz - - - - - setiembre - - -",
    "- fevrier - - - - - aout - - - decembre",
)
_SHORT: Final = (
    "jan feb mar apr may jun jul aug sep oct nov dec",
    "jan feb mär apr mai jun jul aug sept okt nov dez",
    "- - mrz - - - - - - - - -",
    "ene feb mar abr may jun jul ago sept oct nov dic",
    "janv févr mars avr mai juin juil août sept oct nov déc",
    "jan fev mar abr mai jun jul ago set out nov dez",
    "gen feb mar apr mag giu lug ago set ott nov dic",
    "jan feb mrt apr mei jun jul aug sep okt nov dec",
)
# Short forms that are common words in another language: "3 days ago", "a set of 5", "5 lug nuts", "ich mag 3".
_ALSO_WORDS: Final = frozenset({"ago", "gen", "lug", "mag", "out", "set"})


def _numbered(rows: tuple[str, ...]) -> dict[str, int]:
    return {name: number for row in rows for number, name in enumerate(row.split(), 1) if name != "-"}


FULL_MONTHS: Final[dict[str, int]] = _numbered(_FULL)
"""Unabbreviated names of months."""
MONTHS: Final[dict[str, int]] = {
    **FULL_MONTHS,
    **{name: number for name, number in _numbered(_SHORT).items() if name not in _ALSO_WORDS},
}
"""Names and short forms that are read as a month if the number of a day is beside them."""
RISKY_MONTHS: Final[dict[str, int]] = {
    name: number for name, number in _numbered(_SHORT).items() if name in _ALSO_WORDS
}
"""Short forms that are read as a month only in a date with a day and a year."""

_WEEKDAYS: Final = (
    " ".join(ENGLISH_WEEKDAYS).lower(),
    "montag dienstag mittwoch donnerstag freitag samstag sonntag",
    "lunes martes miércoles jueves viernes sábado domingo",
    "lundi mardi mercredi jeudi vendredi samedi dimanche",
    "segunda-feira terça-feira quarta-feira quinta-feira sexta-feira sábado domingo",
    "lunedì martedì mercoledì giovedì venerdì sabato domenica",
    "maandag dinsdag woensdag donderdag vrijdag zaterdag zondag",
)
WEEKDAYS: Final[dict[str, int]] = {
    **{name: number for row in _WEEKDAYS for number, name in enumerate(row.split())},
    "sonnabend": 5,
}
"""Unabbreviated names of weekdays."""


# ---------------------------------------------------------------- moments and durations in words

_FRIDAY: Final = 4
# (minimum, length, unit): a duration of at least `minimum` days is written in units of `length` days.
_UNITS: Final = ((730, 365, "year"), (60, 30, "month"), (14, 7, "week"))
_MINUTE: Final = 60
_HOUR: Final = 3600
_DAY: Final = 86400
# A duration of fewer seconds than this, but of at least an hour, is written in hours.
_HOURS_UNTIL: Final = 48 * _HOUR


def local(moment: datetime, zone: str | None) -> datetime:
    """Return the moment in a time zone. A moment without a time zone is read as UTC."""
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    try:
        return aware.astimezone(zone_of(zone)[0])
    except (OverflowError, ValueError):
        return aware


def clock(moment: datetime, zone: str | None) -> str:
    """Return the date and the time of day in a time zone, such as "2026-03-14 09:15"."""
    when = local(moment, zone)
    return f"{when.date().isoformat()} {when:%H:%M}"


def age(then: datetime, now: datetime) -> str:
    """Return how long ago a moment was, such as "3 weeks ago". For a moment in the future (a skewed clock) return "just now"."""
    seconds = _seconds(then, now)
    return "just now" if seconds < _MINUTE else f"{duration(seconds)} ago"


def is_gap(earlier: datetime, later: datetime) -> bool:
    """Return whether more than an hour lies between two messages."""
    return (local(later, None) - local(earlier, None)).total_seconds() > _HOUR


def time_mark(earlier: datetime, later: datetime, zone: str | None) -> str:
    """Return a mark such as "[3 weeks later: Tuesday 2026-04-07, 09:15]". It does not depend on the current time."""
    when = local(later, zone)
    passed = duration(_seconds(earlier, later))
    return f"[{passed} later: {day_name(when.date())}, {when.hour:02}:{when.minute:02}]"


def gap_mark(earlier: date | None, later: date | None) -> str | None:
    """Return a mark such as "[3 weeks later]", or None if `later` is not after `earlier` or a date is None.

    The mark does not depend on the current date.
    """
    if earlier is None or later is None or later <= earlier:
        return None
    return f"[{_days((later - earlier).days)} later]"


def day_name(day: date) -> str:
    """Return the weekday and the date, such as "Saturday 2026-03-14"."""
    return f"{ENGLISH_WEEKDAYS[day.weekday()]} {day.isoformat()}"


def shifted(day: date, days: int) -> date:
    """Return the date that is `days` days after `day`, or `day` unchanged if the result is outside the calendar of Python."""
    try:
        return day + timedelta(days=days)
    except OverflowError:
        return day


def relative_days(today: date) -> Iterable[tuple[str, str]]:
    """Yield pairs of a relative word such as "tomorrow" and its date, seen from `today`. Weeks begin on Monday."""
    monday = shifted(today, -today.weekday())
    friday = shifted(today, (_FRIDAY - today.weekday() - 1) % 7 + 1)
    yield "today", day_name(today)
    yield "yesterday", day_name(shifted(today, -1))
    yield "tomorrow", day_name(shifted(today, 1))
    yield "this week", f"{day_name(monday)} to {day_name(shifted(monday, 6))}"
    yield "last week", f"{day_name(shifted(monday, -7))} to {day_name(shifted(monday, -1))}"
    yield "next Friday", f"{friday.isoformat()}, the first Friday after today"


def _seconds(earlier: datetime, later: datetime) -> int:
    return int((local(later, None) - local(earlier, None)).total_seconds())


def duration(seconds: float) -> str:
    """Return a length of time in words, such as "3 hours". It is rounded down to its largest unit."""
    seconds = int(seconds)
    if seconds < _MINUTE:
        return _counted(seconds, "second")
    if seconds < _HOUR:
        return _counted(seconds // _MINUTE, "minute")
    if seconds < _HOURS_UNTIL:
        return _counted(seconds // _HOUR, "hour")
    return _days(seconds // _DAY)


def _days(days: int) -> str:
    for minimum, length, unit in _UNITS:
        if days >= minimum:
            return _counted(days // length, unit)
    return _counted(days, "day")


def _counted(number: int, unit: str) -> str:
    return f"{number} {unit}" if number == 1 else f"{number} {unit}s"


# ---------------------------------------------------------------- dates and times in a text

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
    """A date in a text and its position. `day` is None if the calendar does not have this day, such as 31 February."""

    day: date | None
    start: int
    end: int


def find_date(text: str) -> FoundDate | None:
    """Return the first date with a year in a text, or None if there is none."""
    for hit in _DATE.finditer(text):
        groups = hit.groupdict()
        for form in "1234":
            year, month, number = groups[f"y{form}"], groups[f"m{form}"], groups[f"d{form}"]
            if year and (month_number := _month(month)) is not None:
                return FoundDate(day=day_of(int(year), month_number, int(number)), start=hit.start(), end=hit.end())
    return None


def _month(name: str) -> int | None:
    return int(name) if name.isdecimal() else MONTHS.get(name.lower(), RISKY_MONTHS.get(name.lower()))


def day_of(year: int, month: int, number: int) -> date | None:
    """Return a date, or None if the calendar does not have this day."""
    try:
        return date(year, month, number)
    except ValueError:
        return None


def read_time(text: str) -> time | None:
    """Return the first time of day in a text, which is the beginning if the text has a range.

    Return None if the text has no time, or if the first one is invalid, such as 25:00.
    """
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
_LONGEST_HEADING: Final = 80


def date_heading(line: str) -> FoundDate | None:
    """Return the date of a line that has only a date and perhaps a label, a weekday or a time zone, or None for another line."""
    if len(line) > _LONGEST_HEADING:
        return None
    found = find_date(line)
    if not found:
        return None
    is_alone = _BEFORE.fullmatch(line[: found.start]) and _AFTER.fullmatch(line[found.end :])
    return found if is_alone else None
