"""Format dates, ages and gaps, and explain relative days. The present is passed in; an unknown zone is UTC."""

from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta
from typing import Final

from memolog.domain.calendar_names import ENGLISH_WEEKDAYS
from memolog.domain.zones import zone_of

__all__ = ["age", "clock", "day_name", "gap_mark", "is_gap", "local", "relative_days", "shifted", "time_mark"]

_FRIDAY: Final = 4
# From so many days on, the next larger unit reads better; the dates themselves stand beside it.
_UNITS: Final = ((730, 365, "year"), (60, 30, "month"), (14, 7, "week"))
_MINUTE: Final = 60
_HOUR: Final = 3600
_DAY: Final = 86400
_HOURS_UNTIL: Final = 48 * _HOUR


def local(moment: datetime, zone: str | None) -> datetime:
    """Return the moment in a zone; one without a zone of its own is taken as UTC."""
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    try:
        return aware.astimezone(zone_of(zone)[0])
    except (OverflowError, ValueError):
        return aware


def clock(moment: datetime, zone: str | None) -> str:
    """Return the date and the time of day in a zone: "2026-03-14 09:15"."""
    when = local(moment, zone)
    return f"{when.date().isoformat()} {when:%H:%M}"


def age(then: datetime, now: datetime) -> str:
    """Return how long ago that was; what lies in the future by a skewed clock is "just now"."""
    seconds = _seconds(then, now)
    return "just now" if seconds < _MINUTE else f"{_duration(seconds)} ago"


def is_gap(earlier: datetime, later: datetime) -> bool:
    """Return whether more than an hour lies between two messages."""
    return (local(later, None) - local(earlier, None)).total_seconds() > _HOUR


def time_mark(earlier: datetime, later: datetime, zone: str | None) -> str:
    """Return a mark such as "[3 weeks later: Tuesday 2026-04-07, 09:15]"; it says nothing of the present."""
    when = local(later, zone)
    passed = _duration(_seconds(earlier, later))
    return f"[{passed} later: {day_name(when.date())}, {when.hour:02}:{when.minute:02}]"


def gap_mark(earlier: date | None, later: date | None) -> str | None:
    """Return a mark such as "[3 weeks later]" if at least a day lies between; it says nothing of the present."""
    if earlier is None or later is None or later <= earlier:
        return None
    return f"[{_days((later - earlier).days)} later]"


def day_name(day: date) -> str:
    """Return the day with its weekday: "Saturday 2026-03-14"."""
    return f"{ENGLISH_WEEKDAYS[day.weekday()]} {day.isoformat()}"


def shifted(day: date, days: int) -> date:
    """Return the day so many days later; at the ends of the calendar, the day itself."""
    try:
        return day + timedelta(days=days)
    except OverflowError:
        return day


def relative_days(today: date) -> Iterable[tuple[str, str]]:
    """Yield what relative words mean on a day. Weeks begin on Monday."""
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


def _duration(seconds: int) -> str:
    if seconds < _HOUR:
        return _many(seconds // _MINUTE, "minute")
    if seconds < _HOURS_UNTIL:
        return _many(seconds // _HOUR, "hour")
    return _days(seconds // _DAY)


def _days(days: int) -> str:
    for least, length, unit in _UNITS:
        if days >= least:
            return _many(days // length, unit)
    return _many(days, "day")


def _many(number: int, unit: str) -> str:
    return f"{number} {unit}" if number == 1 else f"{number} {unit}s"
