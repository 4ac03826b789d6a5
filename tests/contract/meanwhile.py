"""Lets something else happen in the middle of a transaction: what a slow network does to two processes on one PostgreSQL."""

import asyncio
from collections.abc import Awaitable, Coroutine, Sequence
from typing import Any

import pytest

from memolog.core.observation import Observation, Source, Span
from memolog.core.run import RunKind
from memolog.db import postgres as engine
from memolog.log.runs import NewRun, RunResult
from memolog.log.store import Rendered
from memolog.store import Store
from memolog.testing import FakeClock

__all__ = ["Race", "Scribe"]

RESOURCE = "alice"
_PATIENCE = 120
_EXECUTE = "_execute"


class Race:
    """Two stores on one database, as two processes have them."""

    def __init__(self, one: Store, other: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        self.one, self.other, self._monkeypatch = one, other, monkeypatch

    async def run(self, slow: Coroutine[Any, Any, Any], after: str, other: Awaitable[Any], *, times: int = 1) -> Any:
        """Run `slow` until a statement of this name has ended so many times, then `other`, then the rest; return what both did.

        Where `other` waits for a row that `slow` has taken, it comes to its end after it.
        """
        left, held = times, None
        there, go_on = asyncio.Event(), asyncio.Event()
        execute = getattr(engine, _EXECUTE)

        async def executing(connection: Any, step: Any) -> Any:
            nonlocal left, held
            rows = await execute(connection, step)
            left -= step.statement.name == after
            if left == 0 and not there.is_set():
                held = connection
                there.set()
                await go_on.wait()
            return rows

        with self._monkeypatch.context() as patched:
            patched.setattr(engine, _EXECUTE, executing)
            first = asyncio.ensure_future(slow)
            waiting = asyncio.ensure_future(there.wait())
            await asyncio.wait({first, waiting}, return_when=asyncio.FIRST_COMPLETED)
            assert there.is_set(), f"nothing named {after} was run: {first}"
            second = asyncio.ensure_future(other)
            async with asyncio.timeout(_PATIENCE):
                while not second.done() and not await _waits(held):
                    await asyncio.wait({second}, timeout=0.01)
            go_on.set()
            return await asyncio.gather(first, second, return_exceptions=True)

    async def run_well(self, slow: Coroutine[Any, Any, Any], after: str, other: Awaitable[Any]) -> None:
        """Do the same, and expect that neither fails."""
        assert not [done for done in await self.run(slow, after, other) if isinstance(done, BaseException)]


async def _waits(connection: Any) -> bool:
    """Tell whether somebody waits for a row, by the connection of whoever has taken it."""
    return await connection.fetchval("SELECT count(*) FROM pg_locks WHERE NOT granted") > 0


class Scribe:
    """Observes threads of one resource, in their own logs or in the one that they share."""

    def __init__(self, store: Store, clock: FakeClock, scope: Any = "thread") -> None:
        self.store, self.clock, self.scope = store, clock, scope

    async def observe(self, thread: str, *texts: str) -> str:
        """Bring a line for each text, about all that is not observed yet; out of sight. Returns the group."""
        seen = await self.store.logs.snapshot(RESOURCE, thread, self.scope)
        held = max((g.span.last for g in seen.buffered if g.span and g.thread == thread), default=seen.cursor)
        span = Span(first=held + 1, last=seen.thread.last_seq)
        sources = (Source(thread=thread, span=span),)
        return await self._run("observe", thread, span, {}, [(text, sources, ()) for text in texts])

    async def reflect(self, thread: str, text: str) -> None:
        """Let one line take the place of the whole log."""
        seen = await self.store.logs.snapshot(RESOURCE, thread, self.scope)
        covers = [group.id for group in seen.groups]
        lines = await self.store.logs.observations(seen.resource, seen.log.pk, covers)
        sources = tuple(source for line in lines for source in line.sources)
        line = (text, sources, tuple(line.id for line in lines))
        group = await self._run("reflect", thread, None, {"groups": covers}, [line])
        seen = await self.store.logs.snapshot(RESOURCE, thread, self.scope)
        (buffered,) = [row for row in seen.buffered if row.id == group]
        shown = Rendered(id=group, text=text, tokens=1)
        await self.store.logs.activate_reflection(seen, buffered.pk, covers, shown, now=self.clock.now())

    async def _run(self, kind: RunKind, thread: str, span: Span | None, inputs: Any, lines: Sequence[Any]) -> str:
        store, now = self.store, self.clock.now()
        seen = await store.logs.snapshot(RESOURCE, thread, self.scope)
        name = store.new_id()
        run = NewRun(id=name, kind=kind, thread=thread if span else None, span=span, inputs=inputs)
        (claim,) = await store.runs.start(RESOURCE, seen.log.pk, seen.log.version, [run], owner="o", now=now, lease=30)
        made = tuple(
            Observation(
                id=store.new_id(),
                group=name,
                ordinal=number,
                priority="medium",
                text=text,
                sources=sources,
                merges=merges,
            )
            for number, (text, sources, merges) in enumerate(lines, start=1)
        )
        result = RunResult(group=name, observations=made, hints=None, tokens=5, model="m", prompt_version="1")
        await store.runs.finish(RESOURCE, claim, result, now=now)
        return name

    async def activate(self, thread: str) -> None:
        """Let the log take over what was observed."""
        seen = await self.store.logs.snapshot(RESOURCE, thread, self.scope)
        shown = [Rendered(id=group.id, text=f"text of {group.handle}", tokens=5) for group in seen.buffered]
        await self.store.logs.activate(seen.resource, seen.log.pk, seen.log.version, shown, now=self.clock.now())

    async def lines(self, thread: str) -> list[Observation]:
        """Return the lines of the log that are not gone."""
        seen = await self.store.logs.snapshot(RESOURCE, thread, self.scope)
        lines = await self.store.logs.observations(seen.resource, seen.log.pk, [group.id for group in seen.groups])
        return [line for line in lines if line.state not in {"deleted", "retracted"}]
