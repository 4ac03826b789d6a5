"""A PostgreSQL that does not wait for the disk: these tests make hundreds of schemas, and none outlives the server."""

import asyncio
from typing import Any, cast

import pytest


@pytest.fixture(scope="session")
def postgres_server(postgres_server: str) -> str:
    """Return the address of a server that leaves writing to the system; the end of the session is quick then."""
    asyncio.run(_do_not_wait(postgres_server))
    return postgres_server


async def _do_not_wait(address: str) -> None:
    # The driver is an extra: it is needed only where this server is.
    import asyncpg

    connection: Any = await cast("Any", asyncpg).connect(address)
    for setting in ("fsync", "full_page_writes", "synchronous_commit"):
        await connection.execute(f"ALTER SYSTEM SET {setting} = off")
    await connection.execute("SELECT pg_reload_conf()")
    await connection.close()
