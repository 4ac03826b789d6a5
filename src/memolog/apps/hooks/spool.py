"""Keep hook events in files until a sweep stores them in the database. Each session has a file of JSON lines.

A writer appends lines to the file. A sweep renames the file and then reads it. If the file was renamed while a writer wrote, the
sweep may have read it before the lines were in it. So the writer writes its lines again, to a new file.
"""

import json
import os
from binascii import crc32
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final, cast

# Do not import pathlib, because the import would take a fifth of the time of a hook.
# ruff: noqa: PTH100, PTH103, PTH105, PTH108, PTH110, PTH111, PTH116, PTH118, PTH123


_ENDING: Final = ".jsonl"
_TAKEN: Final = ".taken"
_LONGEST_NAME: Final = 120
# Maximum size of `errors.log` in bytes. A larger file is renamed.
_LARGEST_LOG: Final = 200_000
# Maximum number of attempts of a writer to write its lines.
_TRIES: Final = 5

Record = dict[str, Any]


def home(environment: Mapping[str, str]) -> str:
    """Return the folder for files that belong to no single project: `MEMOLOG_HOME`, or `~/.memolog`."""
    return environment.get("MEMOLOG_HOME") or os.path.join(os.path.expanduser("~"), ".memolog")


def default_db(environment: Mapping[str, str]) -> str:
    """Return the default database of hooks, which all projects of a user share."""
    return environment.get("MEMOLOG_DB") or os.path.join(home(environment), "memolog.db")


def make_private(folder: str) -> None:
    """Create a folder and its parent folder if they are missing. Only the owner can read new folders."""
    for path in (os.path.split(folder)[0] or ".", folder):
        os.makedirs(path, mode=0o700, exist_ok=True)


def spool_of(address: str, environment: Mapping[str, str]) -> "Spool":
    """Return the spool of a database: a folder beside a database file, or a folder in `home` for a database server."""
    path = address.removeprefix("sqlite:///").removeprefix("sqlite://")
    if "://" in path:
        return Spool(os.path.join(home(environment), f"hooks-{crc32(address.encode()):08x}"))
    return Spool(f"{os.path.abspath(os.path.expanduser(path))}.hooks")


class Spool:
    """A folder of events that are not stored in the database yet, with one file per session."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def _path(self, name: str, ending: str = _ENDING) -> str:
        return os.path.join(self.folder, name + ending)

    # ------------------------------------------------------------ writing

    def append(self, name: str, *records: Record) -> int:
        """Append events to the file of a session, and return their number of bytes. Readers ignore a half-written line."""
        # Begin with a line break, because an interrupted writer may have left half a line. `json.dumps` escapes lone surrogates.
        line = b"".join(b"\n" + json.dumps(record).encode() + b"\n" for record in records)
        path = self._path(safe_name(name))
        for attempt in range(_TRIES):
            try:
                file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            except FileNotFoundError:
                if attempt:
                    raise
                make_private(self.folder)
                continue
            try:
                rest = line
                while rest:
                    rest = rest[os.write(file, rest) :]
                if _is_same(path, file):
                    break
                # A sweep has renamed the file, and may have read it before these lines were in it. So write the lines again.
            finally:
                os.close(file)
        return len(line)

    # ------------------------------------------------------------ reading

    def sizes(self) -> dict[str, int]:
        """Return the size in bytes of the events of each session."""
        sizes: dict[str, int] = {}
        with suppress(FileNotFoundError), os.scandir(self.folder) as entries:
            for entry in entries:
                if entry.name.endswith((_ENDING, _ENDING + _TAKEN)):
                    name = entry.name.removesuffix(_TAKEN).removesuffix(_ENDING)
                    sizes[name] = sizes.get(name, 0) + entry.stat().st_size
        return sizes

    def peek(self, name: str) -> list[Record]:
        """Return the events of a session without taking them."""
        return _records(self._path(name, _ENDING + _TAKEN)) + _records(self._path(name))

    def take(self, name: str) -> list[Record]:
        """Rename the file of a session and return its events in order. Later events are written to a new file.

        The renamed file exists until `drop`, so after a crash the next sweep takes the same events again.
        """
        taken = self._path(name, _ENDING + _TAKEN)
        if not os.path.exists(taken):
            try:
                os.replace(self._path(name), taken)
            except FileNotFoundError:
                return []
        return _records(taken)

    def drop(self, name: str) -> None:
        """Delete the taken events of a session, after they were stored or written back."""
        with suppress(FileNotFoundError):
            os.unlink(self._path(name, _ENDING + _TAKEN))


def _records(path: str) -> list[Record]:
    """Return the events of a file. A broken line is skipped."""
    try:
        with open(path, "rb") as file:
            lines = file.read().split(b"\n")
    except FileNotFoundError:
        return []
    records: list[Record] = []
    for line in lines:
        with suppress(ValueError):
            found = json.loads(line)
            if isinstance(found, dict):
                records.append(cast("Record", found))
    return records


def safe_name(name: str) -> str:
    """Return a safe file name for a session. Two sessions may get the same name. It is harmless if they share a file."""
    return "".join(char if char.isalnum() or char in "._-" else "_" for char in name)[:_LONGEST_NAME].lstrip(".") or "_"


def _is_same(path: str, file: int) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(file))
    except FileNotFoundError:
        return False


def note(spool: Spool, environment: Mapping[str, str], at: float, words: str) -> None:
    """Append an error to `errors.log` in the folder of the spool or, if that fails, in `home`. A second failure is ignored."""
    line = f"{at:.0f} {' '.join(words.split())[:2000]}\n"
    for folder in (spool.folder, home(environment)):
        path = os.path.join(folder, "errors.log")
        try:
            make_private(folder)
            if os.path.exists(path) and os.stat(path).st_size > _LARGEST_LOG:
                os.replace(path, f"{path}.1")
            with open(path, "a", encoding="utf-8", errors="replace") as file:
                file.write(line)
        except OSError:
            continue
        return
