"""Time zones by IANA name or by offset."""

import re
from datetime import UTC, timedelta, timezone, tzinfo
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo, available_timezones

from memolog.errors import InputError

_OFFSET: Final = re.compile(r"(?:UTC|GMT)?\s*([+-])(\d{1,2})(?::?(\d{2}))?", re.IGNORECASE)


@lru_cache(maxsize=256)
def zone_of(name: str | None) -> tuple[tzinfo, str]:
    """Return the zone of an IANA name or an offset such as "+02:00", and its name to show. For an unknown name, return UTC."""
    try:
        return _known_zone((name or "").strip())
    except Exception:  # noqa: BLE001 - the name may be any text, and system files may be missing
        return UTC, "UTC"


@lru_cache(maxsize=256)
def is_zone(name: str) -> bool:
    """Return whether a name is a time zone. Without zone data on this machine, every name counts as one."""
    try:
        _known_zone(name.strip())
    except Exception:  # noqa: BLE001 - as above
        return not available_timezones()
    return True


def check_zone(name: str) -> None:
    """Raise InputError for an unknown zone."""
    if not is_zone(name):
        raise InputError(
            f"Unknown time zone {name!r}.",
            why="The local dates of messages could not be computed, and stored messages cannot be corrected.",
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
