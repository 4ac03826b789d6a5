"""Read the tables of a Mastra database: a SQLite (LibSQL) file or a PostgreSQL schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memolog.domain.errors import InputError
from memolog.store.engine import Engine
from memolog.store.postgres_address import PostgresOptions
from memolog.store.sql import Step, load_queries
from memolog.store.sqlite import SqliteEngine, SqliteOptions

__all__ = ["MastraTables", "open_mastra"]

q = load_queries("mastra")

_NEEDED = {"mastra_threads", "mastra_messages"}

Rows = tuple[Mapping[str, Any], ...]


class MastraTables:
    """The tables, open for reading. Close them."""

    def __init__(self, engine: Engine, tables: frozenset[str]) -> None:
        self._engine, self._tables = engine, tables

    async def threads(self) -> Rows:
        """Return every thread."""
        return await self._rows("mastra_threads", q.threads())

    async def messages(self, thread: str) -> Rows:
        """Return the messages of a thread, oldest first."""
        return await self._rows("mastra_messages", q.messages(thread=thread))

    async def resources(self) -> Rows:
        """Return the resources that have a row of their own."""
        return await self._rows("mastra_resources", q.resources())

    async def records(self) -> Rows:
        """Return the records of observational memory, every generation, oldest first."""
        return await self._rows("mastra_observational_memory", q.records())

    async def close(self) -> None:
        """Let go of the database."""
        await self._engine.close()

    async def _rows(self, table: str, step: Step) -> Rows:
        # Older versions of Mastra have fewer tables.
        if table not in self._tables:
            return ()
        return await self._engine.fetch(step, lambda row: row._asdict(), brief=False)


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

    step = q.tables_of_schema() if is_server else q.tables_of_file()
    try:
        tables = frozenset(await engine.fetch(step, lambda row: str(row.name)))
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
