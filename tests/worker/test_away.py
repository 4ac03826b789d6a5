"""A PostgreSQL server that stops and starts again under a running worker."""

import asyncio
import contextlib
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from worker.test_stop import tell, worker_here


class Relay:
    """Passes connections on to the server, until it is cut. Then it refuses new ones."""

    def __init__(self, address: str, port: int) -> None:
        parts = urlsplit(address)
        given = {name: values[0] for name, values in parse_qs(parts.query).items()}
        self._socket, self._port = f"{given['host']}/.s.PGSQL.5432", port
        self.address = f"postgresql://postgres@127.0.0.1:{port}{parts.path}?schema={given['schema']}"
        self._writers: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server

    async def open(self) -> None:
        """Accept connections."""
        self._server = await asyncio.start_server(self._pass, "127.0.0.1", self._port)

    async def cut(self) -> None:
        """End all connections, and accept no more."""
        self._server.close()
        for writer in tuple(self._writers):
            writer.transport.abort()
        await self._server.wait_closed()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, to_there = await asyncio.open_unix_connection(self._socket)
        mine = {writer, to_there}
        self._writers |= mine
        await asyncio.gather(_copy(reader, to_there), _copy(there, writer))
        self._writers -= mine


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
    writer.close()


async def test_a_worker_waits_for_the_database(
    postgres_url: str, unused_tcp_port: int, caplog: pytest.LogCaptureFixture
) -> None:
    """It says once that the database is away and once that it is back, each in one line, and then goes on with its work."""
    relay = Relay(postgres_url, unused_tcp_port)
    await relay.open()
    await tell(postgres_url, "red")
    here = worker_here(relay.address)
    here.model.gate.set()
    await here.heard("looked")
    await relay.cut()
    await here.heard("away")
    await tell(postgres_url, "green")
    await relay.open()
    await here.heard("back")
    await here.heard("looked", 2)
    here.stop.set()
    await here.task
    await relay.cut()
    told: list[dict[str, Any]] = [one for one in here.told if one["event"] in {"away", "back", "error"}]
    assert [one["event"] for one in told[:2]] == ["away", "back"]
    assert told[0]["words"].startswith("The database is away, trying again. ")
    assert not any("\n" in one["words"] for one in here.told)
    assert not [one for one in caplog.records if one.name.startswith(("asyncpg", "psycopg", "procrastinate"))]
