"""Keep hook events until a sweep stores them: one file of JSON lines a session, beside the database.

Writers append in one call. A sweep takes a file by renaming it; a writer that notices this writes again.
"""

import json
import os
from binascii import crc32
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final, cast

# No pathlib: importing it would take a fifth of the time of a hook.
# ruff: noqa: PTH100, PTH103, PTH105, PTH108, PTH110, PTH111, PTH116, PTH118, PTH123


_ENDING: Final = ".jsonl"
_TAKEN: Final = ".taken"
_LONGEST_NAME: Final = 120
_LARGEST_LOG: Final = 200_000
_TRIES: Final = 5

Record = dict[str, Any]


def home(environment: Mapping[str, str]) -> str:
    """Return the folder for files of no project: `MEMOLOG_HOME`, or `~/.memolog`."""
    return environment.get("MEMOLOG_HOME") or os.path.join(os.path.expanduser("~"), ".memolog")


def default_db(environment: Mapping[str, str]) -> str:
    """Return the default database of hooks: one for all projects of a user."""
    return environment.get("MEMOLOG_DB") or os.path.join(home(environment), "memolog.db")


def make_private(folder: str) -> None:
    """Create a folder and, if missing, its parent (the folder of the database), readable only by the owner."""
    for path in (os.path.split(folder)[0] or ".", folder):
        os.makedirs(path, mode=0o700, exist_ok=True)


def spool_of(address: str, environment: Mapping[str, str]) -> "Spool":
    """Return the spool of a database: beside a file, or in `home` for a server."""
    path = address.removeprefix("sqlite:///").removeprefix("sqlite://")
    if "://" in path:
        return Spool(os.path.join(home(environment), f"hooks-{crc32(address.encode()):08x}"))
    return Spool(f"{os.path.abspath(os.path.expanduser(path))}.hooks")


class Spool:
    """Events of a database that are not stored yet, by session."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def _path(self, name: str, ending: str = _ENDING) -> str:
        return os.path.join(self.folder, name + ending)

    # ------------------------------------------------------------ writing

    def append(self, name: str, *records: Record) -> int:
        """Append events. After a crash in the middle, the broken line is recognised and ignored.

        Returns the number of bytes written.
        """
        # Start on a new line: an interrupted writer may have left half of one. JSON escapes lone surrogates.
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
                if _is(path, file):
                    break
                # The file was taken meanwhile, perhaps without this line: write it again.
            finally:
                os.close(file)
        return len(line)

    # ------------------------------------------------------------ reading

    def sizes(self) -> dict[str, int]:
        """Return the sessions that have events, with their sizes in bytes."""
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
        """Take the events of a session in order; later events go into a new file.

        They are kept until `drop`: after a crash the next process takes them again.
        """
        taken = self._path(name, _ENDING + _TAKEN)
        if not os.path.exists(taken):
            try:
                os.replace(self._path(name), taken)
            except FileNotFoundError:
                return []
        return _records(taken)

    def drop(self, name: str) -> None:
        """Remove the taken events after they were stored or written back."""
        with suppress(FileNotFoundError):
            os.unlink(self._path(name, _ENDING + _TAKEN))


def _records(path: str) -> list[Record]:
    """Return the events of a file, without broken lines."""
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
    """Return a safe file name; sessions whose names become equal share a file, which is harmless."""
    return "".join(char if char.isalnum() or char in "._-" else "_" for char in name)[:_LONGEST_NAME].lstrip(".") or "_"


def _is(path: str, file: int) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(file))
    except FileNotFoundError:
        return False


def note(spool: Spool, environment: Mapping[str, str], at: float, words: str) -> None:
    """Append an error to `errors.log`; ignore a disk that cannot be written."""
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
