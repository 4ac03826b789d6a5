"""Answer the start of a session with a context pack, in the form of its host.

If the database cannot be read in time, the session starts without memory and the user is told in one line.
"""

import asyncio
import json
import os
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any, Final, Self, cast

from memolog import Store, open_store
from memolog.apps.hooks.spool import note, spool_of
from memolog.context.pack import context_pack
from memolog.core.clock import SystemClock
from memolog.core.config import Config
from memolog.errors import MemologError, StoreBusy
from memolog.text.tokens import HeuristicCounter

if TYPE_CHECKING:
    from memolog.memory import Memory

_LONGEST_WAIT: Final = 3.0


def greeting(record: dict[str, Any], *, db: str, config_file: str | None, tokens: int) -> str:
    """Return the answer to the start of a session in the form of the host; empty if there is nothing to say."""
    text, error = _in_time(record, db, config_file, tokens)
    if error is None:
        return _said(record["host"], text, "")
    note(spool_of(db, os.environ), os.environ, SystemClock().now().timestamp(), f"start: {error}")
    # The host may show this to its model; details are only in the file that `note` writes.
    plain = error.for_outside if isinstance(error, MemologError) else "Its database cannot be read."
    return _said(record["host"], text, f"{plain} The errors.log of its hooks says more.")


def _in_time(record: dict[str, Any], db: str, config_file: str | None, tokens: int) -> tuple[str, Exception | None]:
    """Return the pack, or the error. A database that hangs is abandoned: the process exits without waiting for it."""
    if "://" not in db and not Path(db).exists():
        return "", None
    found: list[tuple[str, Exception | None]] = []

    def work() -> None:
        try:
            found.append((asyncio.run(_pack(record, db, config_file, tokens)), None))
        except (MemologError, OSError) as error:
            found.append(("", error))

    thread = Thread(target=work, daemon=True)
    thread.start()
    thread.join(_LONGEST_WAIT)
    return found[0] if found else ("", StoreBusy("The database did not answer in time."))


async def _pack(record: dict[str, Any], db: str, config_file: str | None, tokens: int) -> str:
    config = Config.load(toml=config_file, environment=os.environ).with_overrides({"read_only": True})
    async with await open_store(db, config) as store:
        memory = cast("Memory", _Reading(store, config))
        pack = await context_pack(memory, record["resource"], record["session"], tokens=tokens)
    return pack.text


class _Reading:
    """The part of a memory that a context pack needs; loading all of it would take twice as long."""

    def __init__(self, store: Store, config: Config) -> None:
        self.store, self.config = store, config
        self.clock, self.counter = SystemClock(), HeuristicCounter()

    async def open(self) -> Self:
        return self


def _said(host: str, text: str, wrong: str) -> str:
    answer: dict[str, Any] = {}
    if host == "cursor":
        answer = {"additional_context": text} if text else {"continue": True}
    elif text:
        answer["hookSpecificOutput"] = {"hookEventName": "SessionStart", "additionalContext": text}
    if wrong and host != "cursor":
        answer["systemMessage"] = f"Memolog: this session begins without its memory. {wrong}"
    return json.dumps(answer) + "\n" if answer else ""
