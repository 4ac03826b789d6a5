"""Simulate several processes on one database, with turns, sweeps and faults. The seed decides everything.

In each step one actor makes one call, a turn or a sweep starts, or a fault happens. Then virtual time passes, and the invariants
are checked. At the end the faults stop, and all work must finish.
"""

import asyncio
import logging
import random
import shutil
import tempfile
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

from memolog import Config, ObservationConfig, ReflectionConfig, Thread
from memolog.connection import open_store
from memolog.core.setting_kinds import KeepRecent
from memolog.db import sqlite
from memolog.errors import MemologError
from simulation.actor import Actor, Conversation
from simulation.checker import Broken, Checker, Expected
from simulation.faults import CRASH_POINTS, Crash, Rates, Struck
from simulation.loop import VirtualLoop
from simulation.process import Process, owned_tasks
from simulation.rest import Rest
from simulation.seen import Seen
from simulation.turns import SHAPES

_LEASE = 30.0
_SHORT, _MIDDLE, _LONG = (0.0, 0.4), (0.5, 8.0), (20.0, 90.0)
_ENDLESS = 400.0


class Violation(AssertionError):
    """A simulation broke an invariant; says which seed, and what happened last."""

    def __init__(self, seed: int, problem: str, trace: list[str]) -> None:
        super().__init__(f"seed {seed}: {problem}\n" + "\n".join(trace[-40:]) + f"\nseed {seed}: {problem}")
        self.seed, self.problem, self.trace = seed, problem, trace


@dataclass(slots=True, kw_only=True)
class Outcome:
    """What a run came to."""

    seed: int
    steps: int
    struck: Counter[str]
    decisions: Counter[str]
    shapes: Counter[str]
    counts: Counter[str]
    trace: list[str]


def drawn_config(rng: random.Random) -> Config:
    """Return small windows, so that everything happens often."""
    window = rng.randrange(600, 2_000)
    buffer: Any = rng.choice((0.2, 0.2, 0.3, False))
    return Config(
        observation=ObservationConfig(
            message_tokens=window,
            buffer_tokens=buffer,
            previous_tokens=rng.choice((0, 200)),
            parallel=rng.choice((1, 2, 3)),
            deadline=rng.choice((2.0, 30.0)),
        ),
        reflection=ReflectionConfig(
            observation_tokens=rng.randrange(500, 1_500),
            keep_recent=rng.choice((KeepRecent(), KeepRecent(hours=0, observations=3))),
        ),
        scope=rng.choice(("thread", "thread", "resource")),
        buffer_on_idle=bool(buffer) and rng.random() < 0.2,
        share_token_budget=rng.random() < 0.1,
        activate_after_idle=rng.choice(("auto", "auto", 30.0, False)),
        context_tokens=window * 6 if rng.random() < 0.1 else None,
        lease=_LEASE,
        heartbeat=10.0,
    )


class World:
    """Everything that one seed decides."""

    def __init__(self, seed: int, path: str, loop: asyncio.AbstractEventLoop, *, verbose: bool = False) -> None:
        self.seed, self.path, self._loop, self._verbose = seed, path, loop, verbose
        self.rng = random.Random(seed)
        self.rates = Rates.drawn(self.rng)
        self.config = drawn_config(self.rng)
        self.window = self.config.threshold
        self.struck, self.decisions, self.shapes = Struck(), Counter[str](), Counter[str]()
        self.by_hand = Counter[str]()
        """How many calls of observe or activate have begun, in each resource."""
        self.at_hand = Counter[str]()
        """How many of these calls are running."""
        self.expected = Expected()
        self.checker = Checker(path, self.expected)
        self.seen = Seen(self.checker, self.expected, self.config)
        self.threads = [
            Conversation(f"r{resource}", f"t{number}")
            for resource in range(self.rng.choice((1, 2, 2)))
            for number in range(self.rng.choice((1, 2, 3)))
        ]
        self.processes = [Process(self, f"p{number}", loop) for number in range(self.rng.choice((1, 2, 3)))]
        self.sweeper = Process(self, "sweeper", loop)
        self.seen.alive = lambda: {p.owner for p in (*self.processes, self.sweeper) if p.is_up and not p.was_paused}
        self.trace: deque[str] = deque(maxlen=400)
        self.step = 0
        self.failures: list[str] = []
        self.actors: list[Actor] = []
        self.waiting: dict[Actor, asyncio.Future[None]] = {}
        self._chores: set[asyncio.Task[Any]] = set()
        self._numbers = 0
        # In some worlds turns rarely overlap: there contexts extend each other.
        self._most_actors = self.rng.choice((1, 3, 5))

    # ------------------------------------------------------------ what others tell it

    def note(self, text: str) -> None:
        """Add a line to the trace."""
        line = f"{self.step:4} {self._loop.time():9.2f}  {text}"
        self.trace.append(line)
        if self._verbose:
            print(line)  # noqa: T201 - a replay is read by a person

    def fail(self, text: str) -> None:
        """Note that an invariant is broken; the step that broke it ends the run."""
        self.note(f"BROKEN {text}")
        self.failures.append(text)

    def number(self) -> int:
        """Return a number that was not given before."""
        self._numbers += 1
        return self._numbers

    def asked(self, process: Process, words: list[str]) -> None:
        """Check that no model is asked about messages that have been observed already."""
        for word in {words[0], words[-1]} if words else ():
            found = self.checker.rows(
                "SELECT r.id, r.owner, r.fence, EXISTS (SELECT 1 FROM runs a WHERE a.thread_pk = m.thread_pk "
                "  AND ((a.owner = ? AND a.status = 'abandoned') OR (a.fence > 1 AND a.pk <> r.pk)) "
                "  AND m.seq BETWEEN a.first_seq AND a.last_seq) "
                "FROM messages m JOIN groups g ON g.thread_pk = m.thread_pk "
                "AND g.kind = 'observer' AND g.state <> 'void' AND m.seq BETWEEN g.first_seq AND g.last_seq "
                "JOIN runs r ON r.pk = g.run_pk WHERE m.id = ? AND m.state = 'live' AND INSTR(m.parts, ?)",
                process.owner,
                self.expected.of_marker[word],
                word,
            )
            for run, owner, fence, was_lost in found:
                # Who lost its lease, or its run to a withdrawal, may not know it yet, also if what the next owner made of it was
                # withdrawn meanwhile and observed anew. One that was paused may have lost it to
                # itself: it took the run over anew, and what it began before goes on until it comes to the fence. Where
                # clocks differ by more than a lease, a run may go from one process to another and back.
                may_be_its_own = process.was_paused or self.struck["clock jumps back"] > 0
                is_known = fence == 1 or (owner == process.owner and not may_be_its_own)
                if is_known and not was_lost:
                    self.fail(f"{process.name} asks about {word} again, which run {run} has observed")

    async def wait_for_turn(self, actor: Actor) -> None:
        """Wait until the world lets an actor go on."""
        future: asyncio.Future[None] = self._loop.create_future()
        self.waiting[actor] = future
        try:
            await future
        finally:
            self.waiting.pop(actor, None)

    # ------------------------------------------------------------ steps

    async def run(self, steps: int) -> None:
        """Simulate this many steps, then end the faults and wait until all work is finished."""
        for process in (*self.processes, self.sweeper):
            await process.open()
        for self.step in range(1, steps + 1):
            await self._act()
            await asyncio.sleep(self._pause())
            self.check()
        self.note("the faults end")
        await Rest(self).come()
        self.check(full=True)

    def check(self, *, full: bool = False) -> None:
        """Raise Violation if anything is broken."""
        if not self.failures:
            try:
                self.checker.check(full=full)
                self._check_unseen()
                if full:
                    self.checker.check_acknowledged()
            except Broken as broken:
                self.fail(str(broken))
        if self.failures:
            raise Violation(self.seed, self.failures[0], list(self.trace))

    def _check_unseen(self) -> None:
        """Check that no group of a log covers a message that waits for its reply."""
        for thread in self.threads:
            for unseen in thread.unseen.values():
                for text in unseen.still(self.by_hand[thread.resource]):
                    marker = text.split(" ", 1)[0]
                    covered = self.checker.rows(
                        "SELECT m.seq, c.seq FROM messages m JOIN cursors c ON c.thread_pk = m.thread_pk "
                        "JOIN threads t ON t.pk = m.thread_pk "
                        "WHERE t.resource = ? AND t.id = ? AND m.id = ? AND m.state = 'live' AND m.seq <= c.seq",
                        thread.resource,
                        thread.name,
                        self.expected.of_marker.get(marker, ""),
                    )
                    if covered:
                        raise Broken(f"{thread.resource}/{thread.name}: {marker} has no reply and is in the log")

    def _pause(self) -> float:
        chance = self.rng.random()
        if chance < 0.6:
            return self.rng.uniform(*_SHORT)
        if chance < 0.93:
            return self.rng.uniform(*_MIDDLE)
        return self.rng.uniform(*_LONG) if chance < 0.99 else _ENDLESS

    async def _act(self) -> None:
        rng = self.rng
        if rng.random() < self.rates.world:
            self._strike()
        for process in (*self.processes, self.sweeper):
            if not process.is_up and not process.is_leaving and not process.tasks and rng.random() < 0.4:
                await self.start(process)
        if rng.random() < 0.06:
            self._start_chore()
        if len(self.actors) < self._most_actors and (not self.waiting or rng.random() < 0.3):
            self._start_turn()
        elif self.waiting:
            self.let_go_on(rng.choice(list(self.waiting)))

    async def start(self, process: Process) -> None:
        """Start a process again."""
        await process.open()
        self.note(f"{process.name} starts again")

    def let_go_on(self, actor: Actor) -> None:
        """Let a waiting actor make its next call."""
        future = self.waiting.pop(actor)
        if not future.done():
            future.set_result(None)

    def up(self) -> list[Process]:
        """Return the processes that can hold turns now."""
        return [process for process in self.processes if process.is_up and not process.is_leaving]

    def _start_turn(self) -> None:
        rng, up = self.rng, self.up()
        if not up:
            return
        busy = [thread for thread in self.threads if thread.active]
        thread = rng.choice(busy) if busy and rng.random() < 0.25 else rng.choice(self.threads)
        shape = rng.choices([s for s, _ in SHAPES], [w for _, w in SHAPES])[0]
        self.play(rng.choice(up), thread, shape)

    def play(self, process: Process, thread: Conversation, shape: Callable[..., Any]) -> Actor:
        """Start a turn."""
        actor = Actor(self, process, thread, shape)
        self.note(f"{actor} begins")
        actor.task = process.spawn(actor.play(), str(actor))
        self.actors.append(actor)
        actor.task.add_done_callback(lambda _: self.actors.remove(actor))
        return actor

    # ------------------------------------------------------------ chores

    def _start_chore(self) -> None:
        rng = self.rng
        process = self.sweeper if rng.random() < 0.5 else rng.choice(self.processes)
        if not process.is_up or process.is_leaving:
            return
        thread = rng.choice(self.threads)
        what = (
            "sweep"
            if process is self.sweeper
            else rng.choice(
                (
                    *("sweep", "observe", "activate", "buffer", "reflect", "restore", "status", "seen", "seen"),
                    *("rewind", "rewind", "return"),
                )
            )
        )
        self.chore(process, what, thread)

    def chore(self, process: Process, what: str, thread: Conversation, after: float = 0.0) -> "asyncio.Task[Any]":
        """Do something by hand, in the background."""
        task = process.spawn(self._chore(process, what, thread, after), f"{what} in {process.name}")
        self._chores.add(task)
        task.add_done_callback(self._chores.discard)
        return task

    async def _chore(self, process: Process, what: str, thread: Conversation, after: float) -> None:
        await asyncio.sleep(after)
        memory = process.memory
        try:
            match what:
                case "sweep":
                    result: object = await memory.resource(thread.resource).sweep()
                case "restore":
                    count = len(await memory.thread(thread.name, resource=thread.resource).history())
                    result = await memory.thread(thread.name, resource=thread.resource).restore(
                        self.rng.randrange(count or 1)
                    )
                    result = f"generation {result.number} of {result.restored_from}"
                case "seen":
                    result = await self._see_again(process, thread)
                case "observe" | "activate" | "rewind" | "return":
                    self.by_hand[thread.resource] += 1
                    self.at_hand[thread.resource] += 1
                    try:
                        handle = memory.thread(thread.name, resource=thread.resource)
                        result = await (self._go_back(handle, what) if what[:2] == "re" else getattr(handle, what)())
                    finally:
                        self.at_hand[thread.resource] -= 1
                case _:
                    await getattr(memory.thread(thread.name, resource=thread.resource), what)()
                    result = "done"
        except MemologError as error:
            # Who works by hand is told what is wrong, and tries again.
            result = error
        except (Crash, asyncio.CancelledError):
            return
        except Exception as error:
            self.fail(f"{what} of {thread.resource}/{thread.name} in {process.name} raised {error!r}")
            return
        self.note(f"{process.name} {what} {thread.resource}/{thread.name}: {result}")

    async def _go_back(self, thread: Thread, what: str) -> object:
        """Rewind a thread, mostly to one of its latest messages, or restore a branch of it. If it has none, rewind it first."""
        branches = [branch.id for branch in await thread.branches()]
        if what == "rewind" or not branches:
            latest = (await thread.messages(before=1 << 40, limit=self.rng.choice((3, 12, 12, 60)))).items
            branch = await thread.rewind(to=self.rng.choice([0, *(row.seq for row in latest)]) if latest else 0)
            if branch is None:
                return None
            self.struck.note("thread rewound")
            branches = [branch.id]
        if what == "return":
            chosen = self.rng.choice(branches)
            self.struck.note("branch restored")
            await thread.restore_branch(chosen)
            return chosen
        return branches[0]

    async def _see_again(self, process: Process, thread: Conversation) -> object:
        """Build the last context of a thread again: it is what the model saw."""
        number = self.seen.number(thread.resource, thread.name)
        if number is None:
            return None
        context = await process.memory.thread(thread.name, resource=thread.resource).seen(number)
        try:
            self.seen.check_again(thread.resource, thread.name, number, context)
        except Broken as broken:
            self.fail(str(broken))
        return number

    async def finish_chores(self) -> None:
        """Wait until nothing is done by hand."""
        while self._chores:
            await asyncio.wait(set(self._chores))

    # ------------------------------------------------------------ faults

    def _strike(self) -> None:
        kinds = (self._crash_at_commit, self._crash_at_commit, self._crash, self._freeze, self._freeze)
        others = (self._lock, self._jump_back, self._delete, self._restart, self._cancel)
        self.rng.choice((*kinds, *others))()

    def _any_up(self) -> Process | None:
        up = [process for process in (*self.processes, self.sweeper) if process.is_up]
        return self.rng.choice(up) if up else None

    def _crash_at_commit(self) -> None:
        if (process := self._any_up()) is not None:
            moment = self.rng.choice(("before", "after"))
            process.armed = (self.rng.choice(CRASH_POINTS), moment, self._loop.time() + 120)

    def _crash(self) -> None:
        busy = [p for p in (*self.processes, self.sweeper) if p.is_up and p.tasks]
        if busy:
            self.rng.choice(busy).die("crash anywhere")

    def _freeze(self) -> None:
        """Pause a process that holds a lease for longer than it lasts; another looks at its work meanwhile."""
        owners = {row[0] for row in self.checker.rows("SELECT owner FROM runs WHERE status = 'running'")}
        holders = [p for p in (*self.processes, self.sweeper) if p.is_up and p.owner in owners]
        if not holders:
            return
        process = self.rng.choice(holders)
        process.pause(self.rng.uniform(_LEASE + 5, 3 * _LEASE))
        self.note(f"{process.name} is paused until {process.paused_until:.1f}")
        others = [p for p in (*self.processes, self.sweeper) if p.is_up and p is not process]
        for resource in sorted({thread.resource for thread in self.threads}) if others else ():
            thread = next(t for t in self.threads if t.resource == resource)
            self.chore(self.rng.choice(others), "sweep", thread, after=_LEASE + 4)

    def _lock(self) -> None:
        if (process := self._any_up()) is not None:
            process.busy_until = self._loop.time() + self.rng.uniform(0.5, 20)
            self.note(f"the database is busy for {process.name} until {process.busy_until:.1f}")

    def _jump_back(self) -> None:
        if (process := self._any_up()) is not None:
            jump = self.rng.choice((0.5, 20.0, 200.0))
            process.clock.skew -= jump
            self.struck.note("clock jumps back")
            self.note(f"the clock of {process.name} jumps back by {jump} s")

    def _delete(self) -> None:
        keys = self.checker.rows(
            "SELECT DISTINCT t.resource, t.id FROM runs r JOIN threads t ON t.pk = r.thread_pk WHERE r.status = 'running'"
        )
        found = [thread for thread in self.threads if (thread.resource, thread.name) in keys]
        process = self._any_up()
        if found and process is not None:
            process.spawn(self._deleting(process, self.rng.choice(found)), "delete")

    async def _deleting(self, process: Process, thread: Conversation) -> None:
        query = "SELECT pk FROM threads WHERE resource = ? AND id = ?"
        before = self.checker.rows(query, thread.resource, thread.name)
        try:
            parts = await process.memory.open()
            await parts.store.forgetting.thread(thread.resource, thread.name)
        except (MemologError, Crash) as error:
            self.note(f"{process.name} could not delete {thread.resource}/{thread.name}: {error!r}")
        finally:
            if before and self.checker.rows(query, thread.resource, thread.name) != before:
                self._deleted(process, thread)

    def _deleted(self, process: Process, thread: Conversation) -> None:
        self.struck.note("thread deleted during a run")
        self.note(f"{process.name} deleted {thread.resource}/{thread.name}")
        self.expected.delete(thread.resource, thread.name)
        self.checker.start_over()
        for conversation in self.threads:
            if conversation.resource == thread.resource:
                # A shared log is rewritten for every thread that it serves.
                self.seen.forget(conversation.resource, conversation.name)
        thread.open_calls.clear()
        thread.orphans.update(thread.mine)

    def _restart(self) -> None:
        idle = [p for p in self.up() if not any(actor.process is p for actor in self.actors)]
        if idle:
            process = self.rng.choice(idle)
            self.struck.note("restart")
            self.note(f"{process.name} restarts")
            process.is_leaving = True
            self._chores.add(task := self._loop.create_task(process.leave()))
            task.add_done_callback(self._chores.discard)

    def _cancel(self) -> None:
        if self.actors:
            actor = self.rng.choice(self.actors)
            self.struck.note("turn cancelled")
            self.note(f"{actor} is cancelled")
            actor.task.cancel()


# ---------------------------------------------------------------- running


@cache
def _folder() -> Path:
    """Return where databases live: in memory where there is such a place."""
    shared = Path("/dev/shm")  # noqa: S108 - looked at, not relied on
    return shared if shared.is_dir() else Path(tempfile.gettempdir())


@cache
def _template() -> bytes:
    """Return an empty database with its tables, made once."""
    with tempfile.TemporaryDirectory(dir=_folder(), prefix="memolog-sim-") as folder:
        path = Path(folder) / "memolog.db"

        async def make() -> None:
            async with await open_store(str(path)):
                pass

        with asyncio.Runner(loop_factory=VirtualLoop) as runner:
            runner.run(make())
        return path.read_bytes()


def _ignore(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Let what a dead process left behind be: what matters is noted where it happens."""


async def _live(seed: int, steps: int, path: str, *, verbose: bool) -> Outcome:
    loop = asyncio.get_running_loop()
    loop.set_task_factory(owned_tasks)
    loop.set_exception_handler(_ignore)
    world = World(seed, path, loop, verbose=verbose)
    try:
        await world.run(steps)
    finally:
        for process in (*world.processes, world.sweeper):
            if process.is_up:
                process.is_up = False
                process._bury()
        world.checker.close()
    requests = sum(process.model.requests for process in (*world.processes, world.sweeper))
    return Outcome(
        seed=seed,
        steps=steps,
        struck=world.struck,
        decisions=world.decisions,
        shapes=world.shapes,
        counts=world.seen.counts + Counter(checks=world.checker.checks, requests=requests),
        trace=list(world.trace),
    )


def simulate(seed: int, steps: int = 200, *, verbose: bool = False) -> Outcome:
    """Live through one world. Raises Violation if anything breaks that must hold."""
    template = _template()
    folder = tempfile.mkdtemp(dir=_folder(), prefix="memolog-sim-")
    try:
        path = Path(folder) / "memolog.db"
        path.write_bytes(template)
        # Without real time and other threads in the engine, the seed decides everything.
        with (
            patch.multiple(sqlite, _BREATH_SECONDS=float("inf"), _COMMITS_BETWEEN_LOOKS=1 << 60),
            patch.object(logging.getLogger("memolog"), "disabled", new=True),
            asyncio.Runner(loop_factory=VirtualLoop) as runner,
        ):
            return runner.run(_live(seed, steps, str(path), verbose=verbose))
    except SystemExit as endless:
        raise Violation(seed, f"never comes to rest: {endless}", []) from endless
    finally:
        shutil.rmtree(folder, ignore_errors=True)
