"""The real PgBouncer in transaction mode: web processes behind it, a worker beside it. Skipped where it is not installed."""

import asyncio
import contextlib
import os
import pwd
import shutil
import socket
import sys
import tempfile
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, cast
from urllib.parse import parse_qs, urlsplit

import asyncpg
import pytest

from contract.test_pooler import is_pooled, tell_story
from kit.clock import until
from kit.engines import store_at
from memolog import Memory
from memolog.errors import StoreUnavailable
from worker.children import LIMIT
from worker.test_short_processes import once
from worker.test_stop import worker_here
from worker.worker_child import CONFIG

PROGRAM = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")
pytestmark = pytest.mark.skipif(PROGRAM is None, reason="needs the program pgbouncer")

_WEB_PROCESSES, _THREADS, _TURNS = 2, 8, 5
# A web process: its threads talk at the same time, over fewer connections than there are threads.
_WEB = """
import asyncio, sys
from memolog import Memory
from memolog.testing import ScriptedModel
from worker.worker_child import CONFIG

async def talk(memory, thread, turns):
    for number in range(turns):
        async with memory.thread(thread, resource="alice").turn() as turn:
            await turn.prepare(f"question {number} " + "one two three four five " * 12)
            await turn.record(f"answer {number} " + "six seven eight nine ten " * 12)

async def main():
    address, background, name, threads, turns = sys.argv[1:]
    # A turn that degrades fails the test, so none may run out of time on a busy machine.
    patient = {"turn_timeout": 600, "queue_timeout": 600, "lease": 600, "heartbeat": 60, "observation.deadline": 600}
    config = CONFIG.with_overrides({"background": background, "strict": True, **patient})
    async with Memory(address, model=ScriptedModel(), config=config) as memory:
        await asyncio.gather(*(talk(memory, f"{name}-{thread}", int(turns)) for thread in range(int(threads))))
        await memory.settled()

asyncio.run(main())
"""


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def _command(sockets: str, port: int) -> tuple[Path, list[str]]:
    """Write the configuration into a new folder. Return the folder and the command that starts PgBouncer."""
    folder = Path(tempfile.mkdtemp(prefix="memolog-pgbouncer-"))
    folder.chmod(0o755)
    (folder / "pgbouncer.ini").write_text(
        f"[databases]\npostgres = host={sockets} user=postgres\n"
        f"[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\nauth_type = any\n"
        "pool_mode = transaction\ndefault_pool_size = 3\nmax_client_conn = 200\n",
        "utf-8",
    )
    # PgBouncer does not run as root, and the socket belongs to the user of the server.
    owner = pwd.getpwuid(Path(sockets).stat().st_uid).pw_name
    user = ["-u", owner] if os.geteuid() == 0 else []
    return folder, [cast("str", PROGRAM), *user, str(folder / "pgbouncer.ini")]


@contextlib.asynccontextmanager
async def _pgbouncer(direct: str) -> AsyncGenerator[str]:
    """Start PgBouncer in front of a server, with three connections to it. Yield the address of the same schema behind it."""
    query = parse_qs(urlsplit(direct).query)
    (sockets,), (schema,), port = query["host"], query["schema"], _free_port()
    folder, command = _command(sockets, port)
    with (folder / "log.txt").open("wb") as log:
        started = await asyncio.create_subprocess_exec(*command, stdout=log, stderr=log)

    async def answers() -> bool:
        assert started.returncode is None, (folder / "log.txt").read_text("utf-8")
        try:
            connection: Any = await cast("Any", asyncpg).connect(f"postgresql://postgres@127.0.0.1:{port}/postgres")
        except (OSError, asyncpg.PostgresError):
            return False
        await connection.close()
        return True

    try:
        await until(answers, LIMIT)
        yield f"postgresql://postgres@127.0.0.1:{port}/postgres?schema={schema}"
    finally:
        if started.returncode is None:
            started.kill()
        await started.wait()
        shutil.rmtree(folder, ignore_errors=True)


async def _talk(address: str, background: str) -> None:
    """Run the web processes at the same time until each has held its turns."""
    path = os.pathsep.join([*sys.path, *filter(None, [os.environ.get("PYTHONPATH")])])
    arguments = [(address, background, f"web{number}", str(_THREADS), str(_TURNS)) for number in range(_WEB_PROCESSES)]
    processes = [
        await asyncio.create_subprocess_exec(sys.executable, "-c", _WEB, *given, env={**os.environ, "PYTHONPATH": path})
        for given in arguments
    ]
    assert [await process.wait() for process in processes] == [0] * _WEB_PROCESSES


async def _check(memory: Memory) -> None:
    """Every message is there once, in its order, and the doctor finds nothing."""
    expected = [f"{word} {number}" for number in range(_TURNS) for word in ("question", "answer")]
    for web in range(_WEB_PROCESSES):
        for number in range(_THREADS):
            page = await memory.thread(f"web{web}-{number}", resource="alice").messages(limit=100)
            assert [" ".join(message.text.split()[:2]) for message in page.items] == expected
            assert [message.seq for message in page.items] == list(range(1, len(expected) + 1))
    assert (await memory.doctor()).is_healthy


@pytest.mark.parametrize("told", ["&pooler=transaction", ""])
async def test_the_store(postgres_url: str, told: str) -> None:
    """The same story as behind the strict pooler of the tests, with the parameter in the address and without it."""
    async with _pgbouncer(postgres_url) as address, await store_at(address + told) as store:
        await tell_story(store)
        assert is_pooled(store)


async def test_turns_in_the_process(postgres_url: str) -> None:
    """Sixteen conversations of two processes share three connections; each process observes what it saved."""
    async with _pgbouncer(postgres_url) as address:
        await _talk(address, "loop")
        async with Memory(address, config=CONFIG) as memory:
            await _check(memory)
            runs = await memory.thread("web0-0", resource="alice").runs()
            assert [run.status for run in runs if run.kind == "observe"].count("done") >= 1


async def test_a_worker_beside_it(postgres_url: str) -> None:
    """Turns behind PgBouncer leave jobs, and a worker that is connected to the server itself does them."""
    async with _pgbouncer(postgres_url) as address:
        await _talk(address, "worker")
        told = await asyncio.to_thread(once, postgres_url)
        assert (told[-1]["event"], told[-1]["failed"], told[-1]["errors"]) == ("ended", 0, 0)
        assert told[-1]["runs"] >= _WEB_PROCESSES * _THREADS
        async with Memory(address, config=CONFIG) as memory:
            await _check(memory)
            assert await memory.due() == ()


@pytest.mark.parametrize("is_once", [True, False])
async def test_a_worker_behind_it(postgres_url: str, *, is_once: bool) -> None:
    """It ends at once with an error that names the pooler, and never says that it has started."""
    async with _pgbouncer(postgres_url) as address:
        here = worker_here(address, once=is_once)
        async with asyncio.timeout(LIMIT):
            with pytest.raises(StoreUnavailable, match="there is a pooler") as caught:
                await here.task
        assert "options" in str(caught.value.why)
        assert here.told == []
