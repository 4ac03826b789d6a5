"""Decide what is due for a log and perform it, until nothing is left to do. Used by turns, manual calls and background work."""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Container, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, assert_never
from weakref import WeakValueDictionary

from memolog.core.clock import Clock
from memolog.core.config import Config
from memolog.core.deadline import Budget, offload
from memolog.core.exact_json import JsonObject
from memolog.core.message import has_many_parts
from memolog.core.observation import Observation, Scope
from memolog.db.queries import Row
from memolog.errors import Conflict, LeaseLost, MemologError
from memolog.events import Activated, Decided, Event, GenerationMade, Recovered, RunStarted, changed_document
from memolog.log.decide import decide
from memolog.log.journal import EventJournal
from memolog.log.rendering import render_group
from memolog.log.rows import GroupRow, RunRow, beat_of
from memolog.log.runner import RunBatch, Runner, retry_at
from memolog.log.runs import NewRun, RunClaim
from memolog.log.snapshot import Snapshot
from memolog.log.state import (
    Activate,
    ActivateReflection,
    Asked,
    Buffer,
    Decision,
    Observe,
    Recover,
    Reflect,
    SpanOf,
    Trim,
    Wait,
    observer_inputs,
    others_for,
    state_of,
)
from memolog.log.status import hint_events
from memolog.log.store import Rendered
from memolog.text.tokens import TokenCounter

if TYPE_CHECKING:
    from memolog.store import Store

_log = logging.getLogger("memolog")

# Far more rounds than any state needs: stops a rule that would loop forever.
_MOST_ROUNDS = 64
# A group of more lines is rendered in a worker thread.
_MANY_LINES = 200
_POLL_SECONDS = 0.05
# A process with an open turn counts as dead after this silence while watched, or after this age of its last beat. Keeping the
# messages of a dead turn in the tail costs little; activating those of a living one hides them from its model.
_TURN_SILENCE_SECONDS = 60.0
_TURN_SECONDS = 600.0
# A lost race means that another process advanced the log.
_MOST_LOST = 2
_PAUSE_SECONDS = 0.005
_MOST_DOUBLED = 5
# The most threads of a shared log whose hints a reflector is shown.
_HINTED_THREADS = 20


class _Gate:
    """Serialises the callers of this process that advance the same log."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.waiting = 0
        self.is_queued = False
        """Whether a background task already waits to decide for the log again."""


class Hold:
    """The right of one caller of this process to advance a log.

    Other processes are excluded by the version that every change of a log names.
    """

    def __init__(self, gate: _Gate, budget: Budget | None = None) -> None:
        self._gate, self._budget = gate, budget
        self.is_held = False

    async def take(self) -> bool:
        """Acquire it; returns whether another caller had it or waited for it."""
        is_late = self._gate.lock.locked() or self._gate.waiting > 0
        self._gate.waiting += 1
        try:
            await self._gate.lock.acquire()
        finally:
            self._gate.waiting -= 1
        self.is_held = True
        return is_late

    async def try_take(self) -> bool:
        """Acquire it unless another caller has it or waits for it; returns whether it is held."""
        if not self.is_held and not self._gate.lock.locked() and not self._gate.waiting:
            # The lock is free, so this does not wait.
            await self.take()
        return self.is_held

    def paused(self) -> AbstractContextManager[None]:
        """Do not count the time inside in the budget of the caller: a model is waited for."""
        return self._budget.paused() if self._budget else contextlib.nullcontext()

    def give(self) -> None:
        """Release it."""
        if self.is_held:
            self.is_held = False
            self._gate.lock.release()


class Core:
    """Decides and performs for every thread of a memory."""

    def __init__(
        self,
        store: "Store",
        runner: Runner,
        journal: EventJournal,
        *,
        clock: Clock,
        counter: TokenCounter,
        owner: str,
        open_turns: Container[str],
        chance: Callable[[], float],
    ) -> None:
        self.store, self.runner = store, runner
        self._journal, self.bus, self.tell, self.degraded = journal, journal.bus, journal.tell, journal.degraded
        self._open_turns = open_turns
        self.clock, self.counter, self.owner, self._chance = clock, counter, owner, chance
        self._gates: WeakValueDictionary[tuple[str, str | None], _Gate] = WeakValueDictionary()

    # ------------------------------------------------------------ the loop

    def hold(self, resource: str, thread: str, scope: Scope, budget: Budget | None = None) -> Hold:
        """Return the hold of a log, not acquired yet."""
        return Hold(self._gate(resource, thread, scope), budget)

    def _gate(self, resource: str, thread: str, scope: Scope) -> _Gate:
        key = resource, thread if scope == "thread" else None
        gate = self._gates.get(key)
        if gate is None:
            gate = self._gates[key] = _Gate()
        return gate

    async def advance(
        self, snapshot: Snapshot, config: Config, asked: Asked, hold: Hold | None = None
    ) -> tuple[Snapshot, list[str]]:
        """Decide and perform until there is nothing to do; returns the snapshot after it, and the names of the decisions.

        A turn passes its hold. If that is not held, because another caller has the log, the turn only waits for running runs
        and goes on with what it has read. A caller without a hold waits for the log.
        """
        if hold is not None:
            return await self._advance(snapshot, config, asked, hold, is_turn=True)
        hold = self.hold(snapshot.resource, snapshot.thread.id, config.scope)
        try:
            if await hold.take():
                snapshot = await self.store.logs.snapshot(snapshot.resource, snapshot.thread.id, config.scope)
            return await self._advance(snapshot, config, asked, hold, is_turn=False)
        finally:
            hold.give()

    async def _advance(
        self, snapshot: Snapshot, config: Config, asked: Asked, hold: Hold, *, is_turn: bool
    ) -> tuple[Snapshot, list[str]]:
        resource, thread = snapshot.resource, snapshot.thread.id
        waited, lost, names = 0.0, 0, list[str]()
        # Only turns have a deadline.
        deadline = None if asked.by_hand else config.observation.deadline
        decision: Decision = Wait(reason="too many rounds")
        for _ in range(_MOST_ROUNDS):
            now = self.clock.now()
            asked = replace(asked, silent=self._silent(snapshot), unseen=self.unseen(snapshot))
            # Matching calls with their results takes long for many parts.
            is_long = has_many_parts(snapshot.tail)
            decision = await offload(_decided, snapshot, config, asked, now, when=is_long)
            if not hold.is_held and not _is_wait(decision):
                decision = Wait(reason="another turn is at the log")
            name = type(decision).__name__
            names.append(name)
            decided = Decided(at=now, resource=resource, thread=thread, decision=name, reason=decision.reason)
            # Stored with what follows from it: a decision holds only until another process changes the log.
            self._journal.tell_later(decided)
            if isinstance(decision, Wait | Trim):
                break
            started = asyncio.get_running_loop().time()
            patience = None if deadline is None else deadline - waited
            try:
                is_in_time = await self._perform(decision, snapshot, config, patience, hold)
            except (Conflict, LeaseLost):
                # Another process was first: the next round reads what it did. A turn gives up soon.
                lost += 1
                if is_turn and lost > _MOST_LOST:
                    break
                await asyncio.sleep(self._chance() * _PAUSE_SECONDS * 2 ** min(lost, _MOST_DOUBLED))
                snapshot = await self._read(resource, thread, config, hold)
                continue
            if isinstance(decision, Observe) or (isinstance(decision, Reflect) and decision.wait):
                waited += asyncio.get_running_loop().time() - started
                is_late = not is_in_time or (deadline is not None and waited >= deadline)
                asked = replace(asked, may_wait=not is_late)
            asked = asked.after(decision)
            if not hold.is_held:
                # Released while a model was waited for. Acquire it again to use the result; others hold it only briefly.
                await (hold.take() if waited or not is_turn else hold.try_take())
            snapshot = await self._read(resource, thread, config, hold)
        await self._journal.flush(resource)
        return snapshot, names

    async def _read(self, resource: str, thread: str, config: Config, hold: Hold) -> Snapshot:
        others = others_for(config, decides=hold.is_held)
        return await self.store.logs.snapshot(resource, thread, config.scope, others=others)

    def unseen(self, snapshot: Snapshot) -> dict[str, int]:
        """Return the first message of each thread that a running turn has saved and no model has answered."""
        first: dict[str, int] = {}
        for row in snapshot.unseen:
            if self._is_running(row):
                first[row.thread] = min(row.first_seq, first.get(row.thread, row.first_seq))
        return first

    def _is_running(self, row: Row) -> bool:
        """Return whether the turn is open here, or in another process that is alive."""
        if row.owner == self.owner:
            return row.turn in self._open_turns
        life = self.store.processes.judge(row.owner, beat_of(row), silence=_TURN_SILENCE_SECONDS, lease=_TURN_SECONDS)
        return life in {"moving", "fresh"}

    async def _perform(
        self, decision: Decision, snapshot: Snapshot, config: Config, patience: float | None, hold: Hold
    ) -> bool:
        """Perform one decision; returns False if a wait ended without a result. Raises Conflict where a race was lost."""
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
                return await self._observe(decision, snapshot, config, patience, hold)
            case Reflect():
                return await self._reflect(decision, snapshot, config, patience, hold)
            case Wait() | Trim():
                pass
            case _:
                assert_never(decision)
        return True

    # ------------------------------------------------------------ activating

    async def _activate(self, decision: Activate, snapshot: Snapshot) -> None:
        groups = await self._render(snapshot, decision.groups)
        now = self.clock.now()
        done = await self.store.logs.activate(snapshot.resource, snapshot.log.pk, snapshot.log.version, groups, now=now)
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
        """Render groups for activation, each after the one before it."""
        ready = {group.id: group for group in snapshot.buffered}
        resource, log_pk = snapshot.resource, snapshot.log.pk
        observations = await self.store.logs.observations(resource, log_pk, ids)
        aliases: dict[str, str] = {}
        if snapshot.scope == "resource":
            threads = {thread for name in ids if (thread := ready[name].thread)}
            threads.update(source.thread for line in observations for source in line.sources)
            numbers = await self.store.logs.aliases(resource, log_pk, sorted(threads))
            aliases = {thread: f"t{number}" for thread, number in numbers.items()}
        previous = max((g.last_at for g in snapshot.groups if g.last_at), default=None)
        rendered: list[Rendered] = []
        for name in ids:
            lines = [line for line in observations if line.group == name and line.state == "active"]
            row = ready[name]
            is_reflection = row.kind == "reflection"
            render = partial(
                render_group,
                handle=row.handle,
                observations=lines,
                previous=previous.date() if previous else None,
                alias=aliases.get(row.thread or ""),
                is_reflection=is_reflection,
                aliases=aliases if is_reflection else {},
            )
            text = await offload(render, when=len(lines) > _MANY_LINES)
            rendered.append(Rendered(id=name, text=text, tokens=self.counter.count(text) if text else 0))
            previous = max([o.said_at for o in lines if o.said_at] + ([previous] if previous else []), default=None)
        return rendered

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
        """Render a group again after a part was forgotten, or under a new handle; `aliases` name the threads of its lines."""
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

    async def _start(self, spans: Sequence[SpanOf], snapshot: Snapshot, config: Config) -> RunBatch:
        """Claim spans and observe them in the background, with one model call."""
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

    async def _launch(self, runs: Sequence[NewRun], snapshot: Snapshot, config: Config) -> RunBatch:
        await self.runner.heartbeat.now()
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

    def _run(self, claims: Sequence[RunClaim], snapshot: Snapshot, config: Config) -> RunBatch:
        # Decides again after the runs have ended: the next span may be due.
        then = partial(self._look_again, ending=False)
        return self.runner.launch(
            tuple(claims), resource=snapshot.resource, thread=snapshot.thread.id, config=config, then=then
        )

    def look_later(self, resource: str, thread: str, config: Config) -> None:
        """Decide in the background at the end of a turn, because another caller has the log now."""
        self.runner.spawn(self._look_again(resource, thread, config, ending=True))

    async def _look_again(self, resource: str, thread: str, config: Config, *, ending: bool) -> None:
        """Decide for a log once it is free, once for all requests until then."""
        gate = self._gate(resource, thread, config.scope)
        if gate.is_queued and not ending:
            return
        hold, gate.is_queued = Hold(gate), True
        try:
            try:
                await hold.take()
            finally:
                gate.is_queued = False
            snapshot = await self.store.logs.snapshot(resource, thread, config.scope)
            asked = Asked(may_wait=False, may_activate=False, ending=ending)
            await self._advance(snapshot, config, asked, hold, is_turn=False)
        except MemologError as error:
            _log.info("looking at the log of %s again failed: %s", thread, error)
        finally:
            hold.give()

    async def _recover(self, decision: Recover, snapshot: Snapshot, config: Config) -> None:
        now = self.clock.now()
        if await self._is_still_ours(decision.run, now, config):
            return
        row = next((run for run in snapshot.runs if run.id == decision.run), None)
        silent = row.owner_beat if row and row.id in self._silent(snapshot) else None
        await self.runner.heartbeat.now()
        claim = await self.store.runs.take_over(
            snapshot.resource,
            decision.run,
            decision.fence,
            owner=self.owner,
            now=now,
            lease=config.lease,
            silent=silent,
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
        """Renew the lease of a run that is running here: the clock jumped, and no other process has taken it over."""
        batch = self.runner.batch(run)
        for claim in batch.claims if batch else ():
            if batch is not None and claim.run == run:
                with contextlib.suppress(LeaseLost):
                    await self.store.runs.heartbeat(batch.resource, claim, now=now, lease=config.lease)
                    return True
        return False

    async def _observe(
        self, decision: Observe, snapshot: Snapshot, config: Config, patience: float | None, hold: Hold
    ) -> bool:
        run = decision.run
        if run is None:
            batch = await self._start(decision.spans, snapshot, config)
            run = batch.claims[0].run
        return await self._join(run, snapshot, config, patience, hold)

    async def _reflect(
        self, decision: Reflect, snapshot: Snapshot, config: Config, patience: float | None, hold: Hold
    ) -> bool:
        run = decision.run
        if run is None:
            inputs: JsonObject = {
                "groups": list(decision.groups),
                "generation": snapshot.log.generation,
                "log_tokens": sum(group.tokens for group in snapshot.groups),
                "mode": config.mode,
            }
            if snapshot.scope == "thread":
                inputs |= {"thread": snapshot.thread.id, "hinted": snapshot.thread.hints.last_seq}
            else:
                inputs["hinted"] = await self.store.logs.hinted(
                    snapshot.resource, snapshot.log.pk, decision.groups, most=_HINTED_THREADS
                )
            new = NewRun(id=self.store.new_id(), kind="reflect", thread=None, span=None, inputs=inputs)
            batch = await self._launch([new], snapshot, config)
            run = batch.claims[0].run
        return not decision.wait or await self._join(run, snapshot, config, patience, hold)

    async def _join(self, run: str, snapshot: Snapshot, config: Config, patience: float | None, hold: Hold) -> bool:
        """Wait for a run of this process or of another; False if patience ran out, which is recorded for the next turns.

        Without a limit, a run of another process is waited for as long as a lease.
        """
        # Other callers may advance the log while this one waits for a model.
        hold.give()
        loop = asyncio.get_running_loop()
        end = loop.time() + (config.lease if patience is None else max(0.0, patience))
        batch = self.runner.batch(run)
        if batch is not None:
            with hold.paused(), contextlib.suppress(TimeoutError):
                async with asyncio.timeout(None if patience is None else max(0.0, patience)):
                    await batch.ended.wait()
            if batch.ended.is_set():
                return True
        else:
            row = next((known for known in snapshot.runs if known.id == run), None)
            if patience is not None and not self._is_moving(row):
                # Its process may be dead: the run is taken over once that is certain.
                return False
            while loop.time() < end:
                with hold.paused():
                    await asyncio.sleep(_POLL_SECONDS)
                current = await self.store.runs.get(snapshot.resource, run)
                if current is None or current.status != "running":
                    return True
                if row is not None and await self.store.processes.life(row.owner) == "silent":
                    return True
        if patience is not None and config.observation.deadline:
            await self._note_stall(run, snapshot, config)
        return False

    def _silent(self, snapshot: Snapshot) -> frozenset[str]:
        """Return the running runs whose processes are dead, whatever their leases say."""
        judge = self.store.processes.judge
        others = (run for run in snapshot.runs if run.status == "running" and run.owner != self.owner)
        return frozenset(run.id for run in others if judge(run.owner, run.owner_beat) == "silent")

    def _is_moving(self, run: RunRow | None) -> bool:
        """Return whether the process of a run was seen to make progress."""
        return run is not None and self.store.processes.judge(run.owner, run.owner_beat) == "moving"

    async def _note_stall(self, run: str, snapshot: Snapshot, config: Config) -> None:
        now = self.clock.now()
        error = f"no answer within {config.observation.deadline:g} s"
        later = retry_at(snapshot.log.failures + 1, now, self._chance())
        await self.store.runs.note_stall(snapshot.resource, snapshot.log.pk, run, error, now=now, retry_at=later)
        await self.degraded(snapshot.resource, snapshot.thread.id, "waiting for the model", error)


def _decided(snapshot: Snapshot, config: Config, asked: Asked, now: datetime) -> Decision:
    return decide(state_of(snapshot, config, asked), config, now)


def _is_wait(decision: Decision) -> bool:
    """Return whether a decision changes nothing, or only waits for a running run."""
    return isinstance(decision, Wait | Trim) or (isinstance(decision, Observe | Reflect) and decision.run is not None)
