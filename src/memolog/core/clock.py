"""Clocks, random bits, time zones, and the conversion of moments to microseconds."""

import re
import secrets
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from typing import Final, Protocol
from zoneinfo import ZoneInfo, available_timezones

from memolog.errors import InputError

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_FIRST = (datetime.min.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND
_LAST = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND

_OFFSET: Final = re.compile(r"(?:UTC|GMT)?\s*([+-])(\d{1,2})(?::?(\d{2}))?", re.IGNORECASE)


class Clock(Protocol):
    """A source of the present time."""

    def now(self) -> datetime:
        """Return the present moment, with a zone."""
        ...


class SystemClock:
    """The time of this machine, in UTC."""

    def now(self) -> datetime:
        """Return the present moment."""
        return datetime.now(UTC)


def to_micros(moment: datetime) -> int:
    """Return the microseconds since 1970; refuses a moment without a zone, since it names no moment."""
    if not isinstance(moment, datetime):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InputError(
            f"A time must be a datetime, got {type(moment).__name__}.",
            then="Pass an aware datetime, for example datetime.now(timezone.utc).",
        )
    if moment.tzinfo is None:
        raise InputError(
            f"The time {moment.isoformat()} has no zone.",
            why="Without one it names no moment, and dates in the log would be wrong.",
            then="Pass an aware datetime, for example datetime.now(timezone.utc).",
        )
    micros = (moment - _EPOCH) // _MICROSECOND
    if not _FIRST <= micros <= _LAST:
        raise InputError(
            f"The time {moment.isoformat()} cannot be kept.",
            why="In UTC it lies before the year 1 or after the year 9999.",
            then="Pass a moment within these years.",
        )
    return micros


def from_micros(micros: int) -> datetime:
    """Return the moment in UTC."""
    return _EPOCH + timedelta(microseconds=micros)


@lru_cache(maxsize=256)
def zone_of(name: str | None) -> tuple[tzinfo, str]:
    """Return the zone of an IANA name or an offset such as "+02:00", and how it is called; UTC where it is unknown."""
    try:
        return _known_zone((name or "").strip())
    except Exception:  # noqa: BLE001 - any text may stand here, and system files may be missing
        return UTC, "UTC"


@lru_cache(maxsize=256)
def is_zone(name: str) -> bool:
    """Return whether this is a zone, as far as this machine has zone data."""
    try:
        _known_zone(name.strip())
    except Exception:  # noqa: BLE001 - as above
        return not available_timezones()
    return True


def check_zone(name: str) -> None:
    """Refuse an unknown zone."""
    if not is_zone(name):
        raise InputError(
            f"Unknown time zone {name!r}.",
            why="Messages never change, and this one could not be dated.",
            then='Pass a name such as "Europe/Lisbon" or an offset such as "+02:00", or None.',
        )


def _known_zone(name: str) -> tuple[tzinfo, str]:
    if name.upper() in {"", "Z", "UTC", "GMT"}:
        return UTC, "UTC"
    if (offset := _OFFSET.fullmatch(name)) is None:
        return ZoneInfo(name), name
    sign, hours, minutes = offset.groups()
    shift = timedelta(hours=int(hours), minutes=int(minutes or 0))
    return timezone(-shift if sign == "-" else shift), f"{sign}{int(hours):02}:{minutes or '00'}"


def system_chance(bits: int) -> int:
    """Return that many random bits."""
    return secrets.randbits(bits)
