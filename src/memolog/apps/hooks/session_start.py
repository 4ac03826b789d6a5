"""Answer the start of a session with a context pack, in the format of the host.

If the database cannot be read in time, the session starts without memory, and the user gets a one-line message. Cursor gets none.
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

_MAX_SECONDS: Final = 3.0


def greeting(record: dict[str, Any], *, db: str, config_file: str | None, tokens: int) -> str:
    """Return the answer to the start of a session in the format of the host. Without memory it is empty, except for Cursor."""
    text, error = _in_time(record, db, config_file, tokens)
    if error is None:
        return _answer(record["host"], text, "")
    note(spool_of(db, os.environ), os.environ, SystemClock().now().timestamp(), f"start: {error}")
    # The host may show this message to its model, so details are only in the file that `note` writes.
    problem = error.for_outside if isinstance(error, MemologError) else "Its database cannot be read."
    return _answer(record["host"], text, f"{problem} Details are in the errors.log of its hooks.")


def _in_time(record: dict[str, Any], db: str, config_file: str | None, tokens: int) -> tuple[str, Exception | None]:
    """Return the context pack, or the error. After `_MAX_SECONDS` return an error. The reading thread ends with this process."""
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
    thread.join(_MAX_SECONDS)
    return found[0] if found else ("", StoreBusy("The database did not answer in time."))


async def _pack(record: dict[str, Any], db: str, config_file: str | None, tokens: int) -> str:
    config = Config.load(toml=config_file, environment=os.environ).with_overrides({"read_only": True})
    async with await open_store(db, config) as store:
        memory = cast("Memory", _PackReader(store, config))
        pack = await context_pack(memory, record["resource"], record["session"], tokens=tokens)
    return pack.text


class _PackReader:
    """The attributes of a Memory that a context pack needs. Importing the whole class would take twice as long."""

    def __init__(self, store: Store, config: Config) -> None:
        self.store, self.config = store, config
        self.clock, self.counter = SystemClock(), HeuristicCounter()

    async def open(self) -> Self:
        return self


def _answer(host: str, text: str, problem: str) -> str:
    answer: dict[str, Any] = {}
    if host == "cursor":
        answer = {"additional_context": text} if text else {"continue": True}
    elif text:
        answer["hookSpecificOutput"] = {"hookEventName": "SessionStart", "additionalContext": text}
    if problem and host != "cursor":
        answer["systemMessage"] = f"Memolog: this session begins without its memory. {problem}"
    return json.dumps(answer) + "\n" if answer else ""
