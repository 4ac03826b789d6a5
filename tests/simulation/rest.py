"""The end of a simulation, without faults: all runs must finish, little is left to observe, and every thread can be used."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

from simulation.turns import chat

if TYPE_CHECKING:
    from simulation.world import World

# Longer than any back-off, any lease, and any clock's jump.
_NIGHT = 900.0
# A night observes one step of what a thread has left behind, and a run of tools may leave a dozen of them.
_MOST_NIGHTS = 40


class Rest:
    """Brings a world to rest."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._all = [*world.processes, world.sweeper]

    async def come(self) -> None:
        """End the faults, let everything finish, and look at what is left."""
        world = self._world
        world.rates.stop()
        # A process that sleeps through its pause wakes at the end of it, whatever is set here, and may hold the database.
        now = asyncio.get_running_loop().time()
        pause = max(process.paused_until - now for process in self._all)
        for process in self._all:
            process.paused_until = process.busy_until = 0.0
            process.armed = None
        await asyncio.sleep(max(0.0, pause))
        await self._finish_turns()
        for process in self._all:
            if not process.is_up:
                await world.start(process)
        for night in range(_MOST_NIGHTS):
            await self._sweep()
            world.check()
            if not self._undone():
                break
            world.note(f"night {night}: {self._undone()}")
            await asyncio.sleep(_NIGHT)
        if undone := self._undone():
            world.fail(f"after {_MOST_NIGHTS} nights without faults: {undone}")
        await self._use_every_thread()

    async def _finish_turns(self) -> None:
        world = self._world
        for _ in range(2_000):
            if not world.actors:
                break
            for actor in list(world.waiting):
                world.let_go_on(actor)
            await asyncio.sleep(1.0)
        if world.actors:
            world.fail(f"turns that never end: {[str(actor) for actor in world.actors]}")
        await world.finish_chores()

    async def _sweep(self) -> None:
        world = self._world
        for resource in sorted({thread.resource for thread in world.threads}):
            thread = next(t for t in world.threads if t.resource == resource)
            await world.chore(world.sweeper, "sweep", thread)
        for process in self._all:
            await process.memory.settled()

    async def _use_every_thread(self) -> None:
        """Hold a plain turn in every thread: nothing may be in its way."""
        world = self._world
        for number, thread in enumerate(world.threads):
            process = world.processes[number % len(world.processes)]
            degraded = world.seen.counts["degraded"]
            await world.play(process, thread, _patient_chat).task
            if world.seen.counts["degraded"] != degraded:
                world.fail(f"{thread.resource}/{thread.name} cannot be used: {process.degraded[-1]}")
        for process in self._all:
            await process.memory.settled()

    def _undone(self) -> list[str]:
        """Return what is still to be done though nothing stands in its way."""
        rows = self._world.checker.rows
        left = [
            f"run {run} ({kind}, {status}, try {attempt}): {error}"
            for run, kind, status, attempt, error in rows(
                "SELECT id, kind, status, attempt, error FROM runs WHERE status IN ('running', 'failed')"
            )
        ]
        step = self._world.config.buffer_step or self._world.config.threshold
        for pk, resource, name, cursor in rows(
            "SELECT t.pk, t.resource, t.id, COALESCE(MAX(c.seq), 0) FROM threads t "
            "LEFT JOIN cursors c ON c.thread_pk = t.pk GROUP BY t.pk"
        ):
            backlog = self._backlog(pk, cursor)
            if backlog >= step:
                left.append(f"{resource}/{name}: {backlog} tokens are unobserved, a step is {step}")
        return left

    def _backlog(self, thread: int, cursor: int) -> int:
        rows = self._world.checker.rows
        spans = rows(
            "SELECT first_seq, last_seq FROM groups WHERE thread_pk = ? AND kind = 'observer' AND state <> 'void'",
            thread,
        )
        total = closed = 0
        opened: set[str] = set()
        tail = [
            (seq, tokens, role, *(json.loads(pairs) if pairs else ((), ())))
            for seq, tokens, role, pairs in rows(
                "SELECT seq, tokens, role, pairs FROM messages "
                "WHERE thread_pk = ? AND seq > ? AND state = 'live' ORDER BY seq",
                thread,
                cursor,
            )
        ]
        answered = {result: seq for seq, *_, results in tail for result in results}
        for seq, tokens, role, calls, results in tail:
            if role == "user" and not results:
                # A question ends the calls that nothing answers; results that came after it stay with their calls.
                opened = {call for call in opened if answered.get(call, 0) > seq}
            opened.difference_update(results)
            opened.update(calls)
            total += 0 if any(first <= seq <= last for first, last in spans) else tokens
            if not opened:
                closed = total
        return closed


async def _patient_chat(talk: Any) -> None:
    talk.point = _no_wait
    await chat(talk)


async def _no_wait() -> None:
    await asyncio.sleep(0.1)
