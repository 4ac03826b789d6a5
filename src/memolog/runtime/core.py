"""The core that turns and manual calls share: save, read, decide, perform, until there is nothing to do.

Knows how each decision is performed. State that matters lives in the store; what is here can be lost at any moment.
"""

import asyncio
import contextlib
import logging
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import assert_never

from memolog.config import Config
from memolog.context import render_group
from memolog.decide import (
    Activate,
    ActivateReflection,
    Buffer,
    Decision,
    Observe,
    Recover,
    Reflect,
    SpanOf,
    Trim,
    Wait,
    back_off,
    decide,
)
from memolog.domain.clock import Clock
from memolog.domain.codec import JsonObject
from memolog.domain.errors import Conflict, LeaseLost, MemologError
from memolog.domain.observation import Observation
from memolog.runtime.beats import Beats
from memolog.runtime.events import (
    Activated,
    Bus,
    Decided,
    Degraded,
    Event,
    GenerationMade,
    Recovered,
    RunStarted,
    changed_document,
)
from memolog.runtime.inputs import observer_inputs
from memolog.runtime.runner import Job, Runner
from memolog.runtime.status import hint_events
from memolog.runtime.views import Asked, state_of
from memolog.store import Store
from memolog.store.journal import NewEvent
from memolog.store.logs import Rendered
from memolog.store.runs import Claim, NewRun
from memolog.store.snapshot import GroupRow, Snapshot
from memolog.tokens import TokenCounter

__all__ = ["Core", "Outcome"]

_log = logging.getLogger("memolog")

# Far more rounds than any state needs: a rule that never rests must not hold a turn for ever.
_MOST_ROUNDS = 64
_POLL_SECONDS = 0.05
# So many of the threads that share a log does a reflector hear the hints of.
_HINTED_THREADS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Where a series of decisions ended."""

    snapshot: Snapshot
    last: Decision
    waited: float = 0.0
    decisions: tuple[str, ...] = ()


class Core:
    """Decides and performs for every thread of a memory."""

    def __init__(
        self,
        store: Store,
        runner: Runner,
        bus: Bus,
        *,
        clock: Clock,
        counter: TokenCounter,
        owner: str,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self.store, self.runner, self.bus = store, runner, bus
        self.clock, self.counter, self.owner, self._chance = clock, counter, owner, chance
        self._beats = Beats(lambda: asyncio.get_running_loop().time())

    # ------------------------------------------------------------ events

    async def tell(self, *events: Event) -> None:
        """Hand out events and keep them; a journal that cannot be written harms nobody."""
        for event in events:
            self.bus.emit(event)
            if isinstance(event, Degraded):
                _log.warning("%s of %s failed: %s", event.what, event.thread, event.error)
        # Every request waits, and its record says why; what failed is often the store itself.
        kept = [e for e in events if not isinstance(e, Degraded) and getattr(e, "decision", "") != "Wait"]
        if not kept or self.store.options.read_only:
            return
        rows = [NewEvent(kind=event.kind, thread=event.thread, at=event.at, data=event.data()) for event in kept]
        try:
            await self.store.journal.add(kept[0].resource, rows)
        except MemologError as error:
            self.bus.emit(
                Degraded(
                    at=self.clock.now(),
                    resource=kept[0].resource,
                    thread=kept[0].thread,
                    what="keeping events",
                    error=str(error),
                )
            )

    # ------------------------------------------------------------ the loop

    async def advance(self, snapshot: Snapshot, config: Config, asked: Asked) -> Outcome:
        """Decide and perform until there is nothing to do; returns the state to build a context from."""
        resource, thread = snapshot.resource, snapshot.thread.id
        waited, names = 0.0, list[str]()
        # A deadline is for turns. Who asks by hand waits for the answer.
        deadline = None if asked.by_hand else config.observation.deadline
        decision: Decision = Wait(reason="too many rounds")
        for _ in range(_MOST_ROUNDS):
            now = self.clock.now()
            if (silent := self._beats.silent(snapshot.runs, now)) != asked.silent:
                asked = replace(asked, silent=silent)
            decision = decide(state_of(snapshot, config, asked), config, now)
            name = type(decision).__name__
            names.append(name)
            await self.tell(Decided(at=now, resource=resource, thread=thread, decision=name, reason=decision.reason))
            if isinstance(decision, Wait | Trim):
                break
            started = asyncio.get_running_loop().time()
            patience = None if deadline is None else deadline - waited
            is_in_time = await self._perform(decision, snapshot, config, patience)
            if isinstance(decision, Observe) or (isinstance(decision, Reflect) and decision.wait):
                waited += asyncio.get_running_loop().time() - started
                is_late = not is_in_time or (deadline is not None and waited >= deadline)
                asked = replace(asked, may_wait=not is_late)
            asked = asked.after(decision)
            snapshot = await self.store.logs.snapshot(resource, thread, config.scope)
        return Outcome(snapshot=snapshot, last=decision, waited=waited, decisions=tuple(names))

    async def _perform(self, decision: Decision, snapshot: Snapshot, config: Config, patience: float | None) -> bool:
        """Perform one decision; returns False if a wait ended without a result. A lost race is simply decided again."""
        try:
            match decision:
                case Activate():
                    await self._activate(decision, snapshot)
                case ActivateReflection():
                    await self._activate_reflection(decision, snapshot)
                case Buffer():
                    await self._start(decision.spans, snapshot, config)
                case Recover():
                    await self._recover(decision, snapshot, config)
                case Observe():
                    return await self._observe(decision, snapshot, config, patience)
                case Reflect():
                    return await self._reflect(decision, snapshot, config, patience)
                case Wait() | Trim():
                    pass
                case _:
                    assert_never(decision)
        except (Conflict, LeaseLost):
            # Somebody else was first: the next round sees what they did.
            return True
        return True

    # ------------------------------------------------------------ activating

    async def _activate(self, decision: Activate, snapshot: Snapshot) -> None:
        groups = await self._render(snapshot, decision.groups)
        now = self.clock.now()
        done = await self.store.logs.activate(snapshot.log.pk, snapshot.log.version, groups, now=now)
        resource, thread = snapshot.resource, snapshot.thread.id
        tokens = sum(group.tokens for group in groups)
        last_seq = max((a.last_seq for a in done if a.thread_pk == snapshot.thread.pk), default=snapshot.cursor)
        events: list[Event] = [
            Activated(
                at=now, resource=resource, thread=thread, groups=decision.groups, tokens=tokens, last_seq=last_seq
            )
        ]
        for change in done:
            hints = change.hints
            if change.document is not None:
                events.append(changed_document(change.document, now))
            if hints is None or change.thread_pk != snapshot.thread.pk:
                continue
            events += hint_events(snapshot, hints, now)
        await self.tell(*events)

    async def _render(self, snapshot: Snapshot, ids: Sequence[str]) -> list[Rendered]:
        """Render groups for good, each after the one before it."""
        handles = {group.id: group for group in snapshot.buffered}
        aliases: dict[str, str] = {}
        if snapshot.scope == "resource" and any(handles[name].kind == "reflection" for name in ids):
            observations = await self.store.logs.observations(snapshot.log.pk, ids)
            aliases = await self._aliases(snapshot, observations)
        else:
            observations = await self.store.logs.lines(snapshot.log.pk, ids)
        previous = max((g.last_at for g in snapshot.groups if g.last_at), default=None)
        rendered: list[Rendered] = []
        for group_id in ids:
            lines = [o for o in observations if o.group == group_id and o.state == "active"]
            row = handles[group_id]
            alias = None
            if snapshot.scope == "resource" and row.thread is not None:
                alias = await self._alias(snapshot, row.thread)
            text = render_group(
                handle=row.handle,
                observations=lines,
                previous=previous.date() if previous else None,
                alias=alias,
                is_reflection=row.kind == "reflection",
                aliases=aliases,
            )
            rendered.append(Rendered(id=group_id, text=text, tokens=self.counter.count(text) if text else 0))
            previous = max([o.said_at for o in lines if o.said_at] + ([previous] if previous else []), default=None)
        return rendered

    async def _aliases(self, snapshot: Snapshot, lines: Sequence[Observation]) -> dict[str, str]:
        threads = list(dict.fromkeys(source.thread for line in lines for source in line.sources))
        numbers = await self.store.logs.aliases(snapshot.resource, snapshot.log.pk, threads)
        return {thread: f"t{number}" for thread, number in numbers.items()}

    async def _alias(self, snapshot: Snapshot, thread: str) -> str:
        if thread == snapshot.thread.id:
            return f"t{snapshot.alias}"
        number = await self.store.logs.alias(snapshot.resource, snapshot.log.pk, thread)
        return f"t{number}"

    async def _activate_reflection(self, decision: ActivateReflection, snapshot: Snapshot) -> None:
        row = next(group for group in snapshot.buffered if group.id == decision.group)
        shown = replace(snapshot, groups=())
        rendered = (await self._render(shown, [row.id]))[0]
        now = self.clock.now()
        made = await self.store.logs.activate_reflection(snapshot, row.pk, row.covers, rendered, now=now)
        if made is None:
            return
        await self.tell(
            GenerationMade(
                at=now,
                resource=snapshot.resource,
                thread=snapshot.thread.id,
                number=made.number,
                generation_kind=made.kind,
                tokens_before=made.tokens_before,
                tokens_after=made.tokens_after,
                dropped=len(made.dropped),
            )
        )
        hints = (await self.store.threads.get(snapshot.resource, snapshot.thread.id)).hints
        if hints.current_task != snapshot.thread.hints.current_task or (
            hints.suggested_response != snapshot.thread.hints.suggested_response
        ):
            await self.tell(*hint_events(snapshot, hints, now))

    def rerender(
        self, group: GroupRow, observations: Sequence[Observation], aliases: Mapping[str, str]
    ) -> tuple[str, int]:
        """Render a group anew after some of it was forgotten, or under a new handle; `aliases` name the threads of its lines."""
        text = render_group(
            handle=group.handle,
            observations=list(observations),
            previous=None,
            alias=None,
            is_reflection=group.kind == "reflection",
            aliases=aliases,
        )
        return text, self.counter.count(text) if text else 0

    # ------------------------------------------------------------ runs

    async def _start(self, spans: Sequence[SpanOf], snapshot: Snapshot, config: Config) -> Job:
        """Claim spans and observe them in the background, in one call."""
        runs = [
            NewRun(
                id=self.store.new_id(),
                kind="observe",
                thread=s.thread,
                span=s.span,
                inputs=observer_inputs(snapshot, config, s.thread, batch=len(spans)),
            )
            for s in spans
        ]
        return await self._launch(runs, snapshot, config)

    async def _launch(self, runs: Sequence[NewRun], snapshot: Snapshot, config: Config) -> Job:
        now = self.clock.now()
        claims = await self.store.runs.start(
            snapshot.resource,
            snapshot.log.pk,
            snapshot.log.version,
            runs,
            owner=self.owner,
            now=now,
            lease=config.lease,
        )
        for run in runs:
            await self.tell(
                RunStarted(
                    at=now,
                    resource=snapshot.resource,
                    thread=run.thread or snapshot.thread.id,
                    run=run.id,
                    run_kind=run.kind,
                    first_seq=run.span.first if run.span else None,
                    last_seq=run.span.last if run.span else None,
                    attempt=1,
                )
            )
        return self._run(claims, snapshot, config)

    def _run(self, claims: Sequence[Claim], snapshot: Snapshot, config: Config) -> Job:
        return self.runner.launch(
            tuple(claims), resource=snapshot.resource, thread=snapshot.thread.id, config=config, then=self.go_on
        )

    async def go_on(self, resource: str, thread: str, config: Config) -> None:
        """Decide again in the background, after a run has ended: the next span may be due."""
        snapshot = await self.store.logs.snapshot(resource, thread, config.scope)
        await self.advance(snapshot, config, Asked(may_wait=False, may_activate=False))

    async def _recover(self, decision: Recover, snapshot: Snapshot, config: Config) -> None:
        now = self.clock.now()
        if await self._is_still_ours(decision.run, now, config):
            return
        beat_at = next((run.beat_at for run in snapshot.runs if run.id == decision.run), None)
        claim = await self.store.runs.take_over(
            decision.run, decision.fence, owner=self.owner, now=now, lease=config.lease, beat_at=beat_at
        )
        if claim is None:
            return
        await self.tell(
            Recovered(
                at=now,
                resource=snapshot.resource,
                thread=snapshot.thread.id,
                run=decision.run,
                reason=decision.reason,
            )
        )
        self._run((claim,), snapshot, config)

    async def _is_still_ours(self, run: str, now: datetime, config: Config) -> bool:
        """Renew the lease of a run that is under way here: the clock jumped, and nobody else has taken it over."""
        job = self.runner.job(run)
        for claim in job.claims if job else ():
            if claim.run == run:
                with contextlib.suppress(LeaseLost):
                    await self.store.runs.heartbeat(claim, now=now, lease=config.lease)
                    return True
        return False

    async def _observe(self, decision: Observe, snapshot: Snapshot, config: Config, patience: float | None) -> bool:
        run = decision.run
        if run is None:
            job = await self._start(decision.spans, snapshot, config)
            run = job.claims[0].run
        return await self._join(run, snapshot, config, patience)

    async def _reflect(self, decision: Reflect, snapshot: Snapshot, config: Config, patience: float | None) -> bool:
        run = decision.run
        if run is None:
            inputs: JsonObject = {
                "groups": list(decision.groups),
                "generation": snapshot.log.generation,
                "mode": config.mode,
            }
            if snapshot.scope == "thread":
                inputs |= {"thread": snapshot.thread.id, "hinted": snapshot.thread.hints.last_seq}
            else:
                inputs["hinted"] = await self.store.logs.hinted(snapshot.log.pk, decision.groups, most=_HINTED_THREADS)
            new = NewRun(id=self.store.new_id(), kind="reflect", thread=None, span=None, inputs=inputs)
            job = await self._launch([new], snapshot, config)
            run = job.claims[0].run
        return not decision.wait or await self._join(run, snapshot, config, patience)

    async def _join(self, run: str, snapshot: Snapshot, config: Config, patience: float | None) -> bool:
        """Wait for a run of this process or of another; False if patience ran out, which the next turns remember.

        Without a limit, another's run is looked at for as long as a lease: then it goes on, or nobody is at it any more.
        """
        loop = asyncio.get_running_loop()
        end = loop.time() + (config.lease if patience is None else max(0.0, patience))
        job = self.runner.job(run)
        if job is not None:
            await asyncio.wait({job.task}, timeout=None if patience is None else max(0.0, patience))
            if job.task.done():
                return True
        else:
            while loop.time() < end:
                await asyncio.sleep(_POLL_SECONDS)
                current = await self.store.runs.get(snapshot.resource, run)
                if current is None or current.status != "running":
                    return True
        if patience is not None and config.observation.deadline:
            await self._note_stall(run, snapshot, config)
        return False

    async def _note_stall(self, run: str, snapshot: Snapshot, config: Config) -> None:
        now = self.clock.now()
        error = f"no answer within {config.observation.deadline:g} s"
        retry_at = self.retry_at(snapshot.log.failures + 1, now)
        await self.store.runs.note_stall(snapshot.log.pk, run, error, now=now, retry_at=retry_at)
        await self.tell(
            Degraded(
                at=now, resource=snapshot.resource, thread=snapshot.thread.id, what="waiting for the model", error=error
            )
        )

    def retry_at(self, failures: int, now: datetime) -> datetime:
        """Return when a failed run may be tried again."""
        return now + timedelta(seconds=back_off(failures, self._chance()))
