"""Export resources as JSON lines, and logs as Markdown.

The first line of an export is a header, and the last line contains the number of lines between them.
"""

import asyncio
import contextlib
import io
import os
import re
import tempfile
from collections import Counter
from collections.abc import Generator, Sequence
from datetime import datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final, TypeAlias

from memolog.admin.backup import refuse_own
from memolog.core.exact_json import dumps
from memolog.core.observation import MARKS, Observation
from memolog.core.reports import ExportReport
from memolog.db.sqlite import SqliteEngine
from memolog.db.sqlite_files import new_file
from memolog.errors import InputError, NotFound
from memolog.text.dates import local
from memolog.version import __version__

if TYPE_CHECKING:
    from memolog.connection import Connection
    from memolog.store import Store

FORMAT: Final = "memolog-export"
FORMAT_VERSION: Final = 1
# Characters with which a tag, a link, an image or a character reference begins, and the backslash.
_ACTIVE: Final = re.compile(r"[\\<\[\]]|&(?=#?\w)")
_LITERAL: Final = {"<": "&lt;", "&": "&amp;"}
Target: TypeAlias = "str | os.PathLike[str] | IO[str]"


async def write_text(connection: "Connection", target: "str | os.PathLike[str]", text: str, *, overwrite: bool) -> None:
    """Write a text to a new file that only its owner can read. Raise InputError if the file is the database itself."""
    await _open(connection, target)

    def write() -> None:
        path = Path(target)
        with _errors_of(path), new_file(path, overwrite=overwrite) as partial:
            partial.write_bytes(text.encode("utf-8", "replace"))

    await asyncio.to_thread(write)


@contextlib.contextmanager
def _errors_of(path: Path) -> Generator[None]:
    """Raise InputError if a file cannot be written."""
    try:
        yield
    except FileExistsError:
        raise InputError(
            f"{path} exists already.",
            why="An export does not replace a file by default.",
            then="Choose another file, or pass overwrite=True.",
        ) from None
    except OSError as error:
        raise InputError(
            f"The export cannot be written to {path}.", why=f"The system reports: {error}.", then="Choose another file."
        ) from error


async def _open(connection: "Connection", target: Target) -> "Store":
    store = (await connection.open()).store
    if isinstance(store.engine, SqliteEngine) and isinstance(target, str | os.PathLike):
        refuse_own(store.engine.path, Path(target))
    return store


async def export(connection: "Connection", target: Target, resource: str | None, *, overwrite: bool) -> ExportReport:
    """Write all rows of one resource, or of all resources, as JSON lines to a path or to an open text file.

    A new file is readable by its owner only. It is renamed to `target` when it is complete.
    """
    store, now = await _open(connection, target), connection.clock.now()
    if not isinstance(target, str | os.PathLike) and not hasattr(target, "write"):
        raise InputError(
            f"`target` must be a path or an open text file, got {type(target).__name__}.", then='Pass "memory.jsonl".'
        )
    # Also export the tombstones of forgotten resources, so that they stay forgotten in the other database.
    known = await store.resources(also_forgotten=True)
    if resource is not None and resource not in known:
        raise NotFound(f"The database has no resource {resource!r}.", then="Check the spelling, or export everything.")
    resources = known if resource is None else (resource,)
    if not isinstance(target, str | os.PathLike):
        # After a lost connection a resource is written again. Lines that a stream has received cannot be removed, so write to a
        # temporary file first.
        with tempfile.TemporaryFile() as spool:
            report = await _write(store, spool, resources, now)
            spool.seek(0)
            with io.TextIOWrapper(spool, "utf-8", newline="\n") as text:
                for line in text:
                    target.write(line)
        return report
    path = Path(target)
    with _errors_of(path), new_file(path, overwrite=overwrite) as partial, partial.open("rb+") as file:
        return await _write(store, file, resources, now)


async def _write(store: "Store", file: IO[bytes], resources: tuple[str, ...], now: datetime) -> ExportReport:
    header = {
        "kind": "header",
        "format": FORMAT,
        "version": FORMAT_VERSION,
        "release": __version__,
        "created_at": now.isoformat(),
        "resources": list(resources),
    }
    file.write(dumps(header).encode() + b"\n")
    lines: Counter[str] = Counter()
    for resource in resources:
        lines.update(await store.transfers.export(resource, file))
    file.write(dumps({"kind": "end", "lines": sum(lines.values())}).encode() + b"\n")
    del lines["resource"]
    return ExportReport(resources=resources, lines=dict(lines))


def log_as_markdown(title: str, lines: Sequence[Observation]) -> str:
    """Return observations as Markdown, in sections by date. Each has its priority mark, its local time and its sources.

    The text of observations is escaped, so that it cannot contain markup, links or images.
    """
    written, day = [f"# {_plain(title)}", ""], None
    for line in lines:
        said = local(line.said_at, line.zone) if line.said_at else None
        if said is not None and said.date() != day:
            day = said.date()
            written += [*([""] if written[-1] else []), f"## {day:%Y-%m-%d}", ""]
        spans = (f"{source.thread} {source.span.first}-{source.span.last}" for source in line.sources)
        at = f" ({said:%H:%M})" if said else ""
        cited = _plain(", ".join(spans))
        indent = "  " if line.parent is not None else ""
        written.append(f"{indent}- {MARKS[line.priority]}{at} {_plain(line.text)}" + (f" *[{cited}]*" if cited else ""))
        if line.verbatim:
            # Write a code block, because Markdown has no markup inside it.
            written += ["", *(f"{indent}        {row}" for row in line.verbatim.splitlines()), ""]
    if not lines:
        written.append("Nothing has been observed yet.")
    return "\n".join(written) + "\n"


def _plain(text: str) -> str:
    """Return a text on one line, with the special characters of Markdown and HTML escaped."""
    return _ACTIVE.sub(lambda match: _LITERAL.get(match[0], f"\\{match[0]}"), " ".join(text.split()))
