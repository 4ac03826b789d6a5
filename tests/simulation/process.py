"""A process: one Memory with its own clock, model and engine. It can crash, pause and start again, and its database can fail."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Coroutine, Iterable
from typing import TYPE_CHECKING, Any

from memolog.db.sqlite import SqliteEngine
from memolog.errors import NotSaved, StoreBusy, StoreCorrupt, StoreUnavailable
from memolog.events import Decided, Degraded, Event, RunFailed
from memolog.log.runner import Runner
from memolog.memory import Memory
from memolog.messages.store import Saved
from simulation.faults import Crash
from simulation.loop import SkewedClock
from simulation.model import FaultyModel

if TYPE_CHECKING:
    from simulation.world import World

PROCESS: contextvars.ContextVar[Process | None] = contextvars.ContextVar("process", default=None)

# A run makes a few hundred.
_MOST_DECISIONS = 20_000
_SAVES = {"messages.save", "store.save_and_snapshot", "store.save_and_book"}


def owned_tasks(loop: asyncio.AbstractEventLoop, coro: Any, **options: Any) -> asyncio.Task[Any]:
    """Make a task that belongs to the process whose code made it; the loop's task factory."""
    task: asyncio.Task[Any] = asyncio.Task(coro, loop=loop, **options)
    context: contextvars.Context | None = options.get("context")
    owner = PROCESS.get() if context is None else context.get(PROCESS)
    if owner is not None:
        owner.tasks[task] = None
        task.add_done_callback(owner.ended)
    return task


class Process:
    """One operating-system process, as far as a database can tell."""

    def __init__(self, host: World, name: str, loop: asyncio.AbstractEventLoop) -> None:
        self._host, self.name, self._loop = host, name, loop
        self.clock = SkewedClock(loop, host.rng.choice((0.0, 0.0, -2.0, 3.0)))
        self.model = FaultyModel(
            host.rng, host.rates, host.struck, lambda words: host.asked(self, words), host.rng.choice((0.5, 2.0, 6.0))
        )
        self.memory: Memory
        self.engine: SqliteEngine
        self.owner = ""
        self.is_up = self.is_leaving = False
        self.tasks: dict[asyncio.Task[Any], None] = {}
        self.degraded: list[Degraded] = []
        self.rests = 0
        self.was_paused = False
        self.paused_until = self.busy_until = 0.0
        self.armed: tuple[str, str, float] | None = None
        self._runner: Runner
        self._read: Callable[..., Coroutine[Any, Any, Any]]
        self._write: Callable[..., Coroutine[Any, Any, Any]]

    # ------------------------------------------------------------ life

    async def open(self) -> None:
        """Start, on the same file as every other."""
        host = self._host
        self.memory = Memory(
            host.path, model=self.model, config=host.config, clock=self.clock, chance=host.rng.getrandbits
        )
        self.memory.subscribe(self._listen)
        kit = await self.memory.open()
        engine = kit.store.engine
        assert isinstance(engine, SqliteEngine)
        self.engine, self.owner, self._runner = engine, kit.core.owner, kit.core.runner
        self._read, self._write = engine.read, engine.write
        setattr(engine, "read", self.read)  # noqa: B010 - methods of this one engine, whoever holds it
        setattr(engine, "write", self.write)  # noqa: B010
        engine.commit_hook = self._reached
        self.paused_until = self.busy_until = 0.0
        self.was_paused = False
        self.armed = None
        self.degraded.clear()
        self.is_up, self.is_leaving = True, False

    def has_lost_a_run(self, runs: Iterable[str]) -> bool:
        """Return whether one of these runs is no longer worked on: it failed, and the failure could not be stored."""
        return any(self._runner.batch(run) is None for run in runs)

    def spawn(self, coro: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
        """Run something as code of this process."""
        context = contextvars.copy_context()
        context.run(PROCESS.set, self)
        return self._loop.create_task(coro, name=name, context=context)

    def ended(self, task: asyncio.Task[Any]) -> None:
        """Remove a task that has ended. Work in the background must not end in an error."""
        self.tasks.pop(task, None)
        error = None if task.cancelled() else task.exception()
        if task.get_name().startswith("memolog-run") and not isinstance(error, Crash | None):
            self._host.fail(f"background work of {self.name} ended in {error!r}")

    def die(self, kind: str) -> None:
        """Stop for good, between two instructions; nothing that still runs here reaches the database."""
        self._host.struck.note(kind)
        self._host.note(f"{self.name} dies: {kind}")
        self.is_up = False
        self._loop.call_soon(self._bury)

    def _bury(self) -> None:
        for task in list(self.tasks):
            task.cancel()
        self.engine._shut()

    async def leave(self) -> None:
        """Stop in good order; what the database would not take by then is lost, and told."""
        try:
            await self.memory.aclose()
        except NotSaved:
            self._host.note(f"{self.name} could not save everything")
        finally:
            self.is_up = self.is_leaving = False

    # ------------------------------------------------------------ the database

    async def read(self, work: Any, *, brief: bool = True) -> Any:
        """Read, unless a fault strikes."""
        await self._reach()
        return await self._read(work, brief=brief)

    async def write(self, work: Any, *, name: str, brief: bool = True) -> Any:
        """Write, unless a fault strikes; what was saved is noted at the very moment of its commit."""
        await self._reach()
        try:
            result = await self._write(work, name=name, brief=brief)
        except StoreCorrupt as error:
            self._host.fail(f"{name} of {self.name} was refused by a guard of the database: {error}")
            raise
        if name in _SAVES:
            self._host.expected.acknowledge(result if isinstance(result, Saved) else result[0])
        return result

    async def _reach(self) -> None:
        host, rng = self._host, self._host.rng
        self._check_up()
        if rng.random() < 0.1:
            await asyncio.sleep(rng.choice((0.0, 0.01, 0.3)))
            self._check_up()
        while self.paused_until > self._loop.time():
            await asyncio.sleep(self.paused_until - self._loop.time() + 0.001)
            self._check_up()
        if self._loop.time() < self.busy_until:
            host.struck.note("database busy for a while")
            raise StoreBusy("The database is locked.")
        if host.rates.store and rng.random() < host.rates.store:
            kind = rng.choice(("database busy once", "database gone once"))
            host.struck.note(kind)
            host.note(f"{self.name}: {kind}")
            raise StoreBusy("The database is locked.") if "busy" in kind else StoreUnavailable("The database is gone.")

    def _check_up(self) -> None:
        if not self.is_up:
            raise Crash

    def _reached(self, point: str) -> None:
        self._check_up()
        if self.armed is None:
            return
        name, moment, until = self.armed
        if self._loop.time() > until:
            self.armed = None
        elif point == f"{name}:{moment}":
            self.armed = None
            self._host.note(f"{self.name} reaches {point}")
            self.die(f"crash {moment} a commit")
            raise Crash

    def pause(self, seconds: float) -> None:
        """Freeze: nothing that is done here reaches the database before it is over."""
        self.paused_until = self._loop.time() + seconds
        self.was_paused = True

    def _fenced_out(self) -> None:
        if self._loop.time() - self.paused_until < 150 and self.paused_until:
            self._host.struck.note("lease lost while paused")

    # ------------------------------------------------------------ events

    def _listen(self, event: Event) -> None:
        if isinstance(event, Degraded):
            self.degraded.append(event)
        if isinstance(event, Decided):
            self._host.decisions[event.decision] += 1
            if self._host.decisions.total() > _MOST_DECISIONS:
                # Nothing else gets out of a loop that never comes to rest.
                raise SystemExit(
                    f"{_MOST_DECISIONS:,} decisions, the last by {self.name}: {event.decision}, {event.reason}"
                )
            # What a turn may wait for is settled by the state that it saw, which may be mended a moment later.
            self.rests += event.reason.startswith(("the observer waits after", "another caller has locked the log"))
        host = self._host
        if isinstance(event, RunFailed) and "no longer holds" in event.error:
            self._fenced_out()
        if host.rates.listener and host.rng.random() < host.rates.listener:
            host.struck.note("listener raises")
            raise ValueError("a listener fails")
