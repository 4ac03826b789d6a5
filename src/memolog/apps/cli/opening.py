"""Which configuration, database, resource and thread a command means.

Knows the defaults: the settings file beside it, the only resource, the thread that was active last. Where there is a doubt it
asks instead of guessing. Nothing is made that was not asked for: a misspelt file name is an error, not a new database.
"""

import getpass
import os
from datetime import datetime, timedelta
from pathlib import Path
from re import fullmatch
from typing import TYPE_CHECKING

from memolog.domain.errors import InputError, NotFound, StoreUnavailable

if TYPE_CHECKING:
    from memolog.config import Config
    from memolog.store import Store

__all__ = [
    "acting_user",
    "chosen_resource",
    "chosen_thread",
    "is_missing",
    "load_config",
    "moment_in",
    "refuse_missing",
    "refuse_unknown",
    "settings_file",
]

_BESIDE = "memolog.toml"
_SHOWN = 12
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def settings_file(named: str | None) -> str | None:
    """Return the file that settings are read from: the one that is named, or `memolog.toml` if it is here."""
    return named or (_BESIDE if Path(_BESIDE).is_file() else None)


def load_config(named: str | None, *, read_only: bool = False) -> "Config":
    """Return the settings of the file and of the environment; raises ConfigError with all that is wrong in them."""
    from memolog.config import Config

    config = Config.load(toml=settings_file(named), environment=os.environ)
    return config.with_overrides({"read_only": True}) if read_only else config


def refuse_missing(address: str) -> None:
    """Raise where a file is named that is not there: only `init`, `import`, `restore` and `demo` make one."""
    if is_missing(address):
        from memolog.store.postgres_address import safe_url

        path = safe_url(_path_in(address))
        raise StoreUnavailable(
            f"There is no database {path}.",
            then=f"Name another with --db or MEMOLOG_DB, make it with `memolog init --db {path}`, or see `memolog demo`.",
        )


def is_missing(address: str) -> bool:
    """Return whether an address names a file that is not there."""
    if "://" in address and not address.startswith("sqlite:"):
        return False
    path = _path_in(address)
    return path != ":memory:" and bool(path.strip()) and not Path(path).exists()


def _path_in(address: str) -> str:
    return address.removeprefix("sqlite:///").removeprefix("sqlite://")


async def chosen_resource(store: "Store", named: str | None) -> str:
    """Return the resource that is meant: the one that is named, or the only one there is."""
    if named is not None:
        return named
    known = await store.resources()
    if len(known) == 1:
        return known[0]
    if not known:
        raise NotFound(
            "Nobody's memory is in this database yet.",
            then="Save a conversation with the library, or `memolog import`.",
        )
    names = ", ".join(known[:_SHOWN]) + (", …" if len(known) > _SHOWN else "")
    raise InputError(
        "It is not clear whose memory is meant.",
        why=f"The database holds that of {names}.",
        then="Name one with --resource or MEMOLOG_RESOURCE.",
    )


async def chosen_thread(store: "Store", resource: str, named: str | None) -> str:
    """Return the thread that is meant: the one that is named, or the one that was active last."""
    if named is not None:
        return (await store.threads.get(resource, named)).id
    newest = list((await store.threads.list(resource, limit=2)).items)
    if not newest:
        raise NotFound(f"{resource} has no thread.", then="Check --resource; `memolog threads` lists what there is.")
    if len(newest) > 1 and newest[0].updated_at == newest[1].updated_at:
        raise InputError(
            "It is not clear which thread is meant.",
            why=f"{newest[0].id} and {newest[1].id} were active at the same moment.",
            then="Name one with --thread or MEMOLOG_THREAD.",
        )
    return newest[0].id


async def refuse_unknown(store: "Store", resource: str, thread: str | None) -> None:
    """Raise where a resource or a thread is named that is not there: a misspelt name would find nothing for ever."""
    if resource not in await store.resources():
        raise NotFound(
            f"{resource} has no memory in this database.",
            then="Check --resource; `memolog threads` lists what there is.",
        )
    if thread is not None:
        await store.threads.get(resource, thread)


def moment_in(text: str, now: datetime, *, ahead: bool = False) -> datetime:
    """Return the moment that a person means: `2026-03-14`, `2026-03-14T09:30`, or `90m`, `3h`, `2d` before now, or after it."""
    try:
        if found := fullmatch(r"(\d{1,6})([smhdw])", text.strip()):
            length = timedelta(**{_UNITS[found[2]]: int(found[1])})
            return now + length if ahead else now - length
        moment = datetime.fromisoformat(text.strip())
    except (ValueError, OverflowError):
        raise InputError(
            f"{text!r} is no moment.",
            then="Write a date (2026-03-14), a time (2026-03-14T09:30, UTC unless it names a zone), or "
            + ("how far off it is (90m, 3h, 2d)." if ahead else "an age (90m, 3h, 2d)."),
        ) from None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=now.tzinfo)


def acting_user() -> str:
    """Return a name that stays the same from one command to the next: what one claims, the other may close."""
    try:
        return f"cli:{getpass.getuser()}"
    except (OSError, KeyError, ImportError):
        return "cli"
