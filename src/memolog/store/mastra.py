"""Reading a database that Mastra keeps: a SQLite (LibSQL) file or the tables of a PostgreSQL schema.

Knows its tables and columns, and never writes to it. Knows not what the contents mean: `memolog.transfer.mastra` does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from memolog.domain.errors import InputError
from memolog.store.engine import Engine
from memolog.store.postgres_address import PostgresOptions
from memolog.store.sql import Script, Step, load_queries
from memolog.store.sqlite import SqliteEngine, SqliteOptions

__all__ = ["MastraTables", "open_mastra"]

q = load_queries("mastra")

_THREAD = ("id", "resource", "title", "metadata", "created_at", "updated_at")
_MESSAGE = ("id", "role", "type", "content", "created_at")
_RESOURCE = ("id", "working_memory")
_RECORD = (
    *("id", "scope", "resource", "thread", "observations", "origin", "generation", "observed_at", "created_at"),
    *("chunks", "reflection"),
)
_NEEDED = {"mastra_threads", "mastra_messages"}

Rows = list[Mapping[str, Any]]


class MastraTables:
    """The tables, open for reading. Close them."""

    def __init__(self, engine: Engine, tables: frozenset[str]) -> None:
        self._engine, self._tables = engine, tables

    async def threads(self) -> Rows:
        """Return every thread."""
        return await self._rows("mastra_threads", q.threads(), _THREAD)

    async def messages(self, thread: str) -> Rows:
        """Return the messages of a thread, oldest first."""
        return await self._rows("mastra_messages", q.messages(thread=thread), _MESSAGE)

    async def resources(self) -> Rows:
        """Return the resources that have a row of their own."""
        return await self._rows("mastra_resources", q.resources(), _RESOURCE)

    async def records(self) -> Rows:
        """Return the records of observational memory, every generation, oldest first."""
        return await self._rows("mastra_observational_memory", q.records(), _RECORD)

    async def close(self) -> None:
        """Let go of the database."""
        await self._engine.close()

    async def _rows(self, table: str, step: Step, names: Sequence[str]) -> Rows:
        # Older versions of Mastra have fewer tables.
        if table not in self._tables:
            return []

        def script() -> Script[Rows]:
            rows = yield step
            return [dict(zip(names, row, strict=True)) for row in rows]

        return await self._engine.read(script, brief=False)


async def open_mastra(address: str) -> MastraTables:
    """Open a file, or a schema of a server (`public`, or the one that the address names), for reading only."""
    is_server = address.startswith(("postgresql://", "postgres://"))
    engine: Engine
    if is_server:
        # The driver is an extra.
        from memolog.store.postgres import PostgresEngine  # noqa: PLC0415

        server = PostgresEngine(address, PostgresOptions(schema="public"))
        await server.start()
        engine = server
    else:
        file = SqliteEngine(address, SqliteOptions(read_only=True))
        await file.start(lambda _: None, lambda _: None)
        engine = file

    def script() -> Script[frozenset[str]]:
        rows = yield (q.tables_of_schema() if is_server else q.tables_of_file())
        return frozenset(row[0] for row in rows)

    try:
        tables = await engine.read(script)
    except BaseException:
        await engine.close()
        raise
    if not tables >= _NEEDED:
        await engine.close()
        raise InputError(
            "There are no tables of Mastra here.",
            why=f"Neither threads nor messages of it were found in {len(tables)} tables of its kind.",
            then="Name its database; for PostgreSQL with ?schema=NAME if they are not in `public`.",
        )
    return MastraTables(engine, tables)
