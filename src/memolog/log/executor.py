"""Call `decide` for a log and perform the decisions, until nothing is left to do. Turns and manual calls use `Core`."""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, assert_never
from weakref import WeakValueDictionary

from memolog.core.clock import Clock
from memolog.core.config import Config
from memolog.core.deadline import Budget, in_slices, offload, ranked
from memolog.core.exact_json import JsonObject
from memolog.core.message import has_many_parts
from memolog.core.observation import Scope
from memolog.db.queries import Row
from memolog.errors import Conflict, LeaseLost, MemologError
from memolog.events import Activated, Decided, Event, Recovered, RunStarted, changed_document, new_generation_event
from memolog.log.decide import decide
from memolog.log.heartbeat import beat_of
from memolog.log.journal import EventJournal
from memolog.log.render import rendering_group
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

# The maximum number of rounds. No log needs as many, so an endless loop ends here.
_MOST_ROUNDS = 64
_POLL_SECONDS = 0.05
# A process with an open turn counts as dead if no new beat is seen for _TURN_SILENCE_SECONDS, or if its last beat is older than
# _TURN_SECONDS. Both are long, because it costs little if the messages of a dead turn stay in the tail, but the model of a
# running turn must not lose its messages.
_TURN_SILENCE_SECONDS = 60.0
_TURN_SECONDS = 600.0
# A turn gives up after it has lost more than this many races against other processes, which then advance the log instead.
_MOST_LOST = 2
# The pause after a lost race: at most this many seconds, doubled with each loss at most _MOST_DOUBLED times.
_PAUSE_SECONDS = 0.005
_MOST_DOUBLED = 5
# The prompt of a reflector contains the hints of at most this many threads of a shared log.
_HINTED_THREADS = 20


class _Gate:
    """Serialises the callers of this process that advance the same log."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.waiting = 0
        self.is_queued = False
        """Whether a background task already waits to decide for the log again."""


class Hold:
    """A lock on a log for one caller of this process.

    It does not exclude other processes. If another process has changed the log, the version of the log differs and a write raises
    Conflict.
    """

    def __init__(self, gate: _Gate, budget: Budget | None = None) -> None:
        self._gate, self._budget = gate, budget
        self.is_held = False

    async def take(self) -> bool:
        """Acquire the lock, and return whether another caller had it or waited for it before."""
        is_late = self._gate.lock.locked() or self._gate.waiting > 0
        self._gate.waiting += 1
        try:
            await self._gate.lock.acquire()
        finally:
            self._gate.waiting -= 1
        self.is_held = True
        return is_late

    async def try_take(self) -> bool:
        """Acquire the lock unless another caller has it or waits for it, and return whether this hold has it."""
        if not self.is_held and not self._gate.lock.locked() and not self._gate.waiting:
            # The lock is free, so this does not wait.
            await self.take()
        return self.is_held

    def paused(self) -> AbstractContextManager[None]:
        """Do not count the time inside the block in the caller's time budget, because it is spent waiting for a model."""
        return self._budget.paused() if self._budget else contextlib.nullcontext()

    def give(self) -> None:
        """Release the lock."""
        if self.is_held:
            self.is_held = False
            self._gate.lock.release()


class Core:
    """Calls `decide` and performs the decisions, for every thread of a `Memory`."""

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
        self._journal, self.bus, self.tell = journal, journal.bus, journal.tell
        self._open_turns = open_turns
        self.clock, self.counter, self.owner, self._chance = clock, counter, owner, chance
        self._gates: WeakValueDictionary[tuple[str, str | None], _Gate] = WeakValueDictionary()

    # ------------------------------------------------------------ the loop

    def hold(self, resource: str, thread: str, scope: Scope, budget: Budget | None = None) -> Hold:
        """Return a lock on a log, not acquired yet."""
        return Hold(self._gate(resource, thread, scope), budget)

    def _gate(self, resource: str, thread: str, scope: Scope) -> _Gate:
        return self._gates.setdefault((resource, thread if scope == "thread" else None), _Gate())

    async def advance(
        self, snapshot: Snapshot, config: Config, asked: Asked, hold: Hold | None = None
    ) -> tuple[Snapshot, list[str]]:
        """Decide and perform until nothing is left to do. Return the last snapshot and the names of the decisions.

        A turn passes its `hold`. If another caller has the lock, the turn only waits for running runs and continues with its
        snapshot. Without `hold` this call waits until it has acquired the lock.
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
        # Manual calls have no deadline.
        deadline = None if asked.by_hand else config.observation.deadline
        decision: Decision = Wait(reason="too many rounds")
        for _ in range(_MOST_ROUNDS):
            now = self.clock.now()
            asked = replace(asked, silent=self._silent(snapshot), unseen=self.unseen(snapshot))
            # Matching tool calls with their results takes long if messages have many parts.
            is_long = has_many_parts(snapshot.tail)
            decision = await offload(_decided, snapshot, config, asked, now, when=is_long)
            if not hold.is_held and not _is_wait(decision):
                decision = Wait(reason="another caller has locked the log")
            name = type(decision).__name__
            names.append(name)
            decided = Decided(at=now, resource=resource, thread=thread, decision=name, reason=decision.reason)
            # The event is stored together with the events of the action, because another process may still win the race.
            self._journal.tell_later(decided)
            if isinstance(decision, Wait | Trim):
                break
            if config.background == "worker" and asked.may_start and not asked.by_hand and _is_background(decision):
                # A worker does this. Decide again, because the turn itself may have to wait for a run or activate a group.
                await self.hand_over(resource, thread, config)
                asked = replace(asked, may_start=False)
                continue
            started = asyncio.get_running_loop().time()
            patience = None if deadline is None else deadline - waited
            try:
                is_in_time = await self._perform(decision, snapshot, config, patience, hold)
            except (Conflict, LeaseLost):
                # Another process changed the log first. The next round reads the log again. A turn gives up after a few losses.
                lost += 1
                if is_turn and lost > _MOST_LOST:
                    break
                await asyncio.sleep(self._chance() * _PAUSE_SECONDS * 2 ** min(lost, _MOST_DOUBLED))
                snapshot = await self._read(resource, thread, config, asked, hold)
                continue
            if isinstance(decision, Observe) or (isinstance(decision, Reflect) and decision.wait):
                waited += asyncio.get_running_loop().time() - started
                is_late = not is_in_time or (deadline is not None and waited >= deadline)
                asked = replace(asked, may_wait=not is_late)
            asked = asked.after(decision)
            if not hold.is_held:
                # `_join` released the lock while it waited for a model. Acquire it again, to activate the result.
                await (hold.take() if waited or not is_turn else hold.try_take())
            # An activation, the new snapshot and the context take milliseconds each, so other tasks run between them.
            await asyncio.sleep(0)
            snapshot = await self._read(resource, thread, config, asked, hold)
            await asyncio.sleep(0)
        await self._journal.flush(resource)
        return snapshot, names

    async def hand_over(self, resource: str, thread: str, config: Config) -> None:
        """Ask a worker to look at the log of a thread. A SQLite worker asks the database itself, so nothing is written there."""
        if self.store.engine.has_queue:
            await self.store.jobs.defer(resource, thread, config.scope)

    async def _read(self, resource: str, thread: str, config: Config, asked: Asked, hold: Hold) -> Snapshot:
        return await self.store.logs.snapshot(
            resource,
            thread,
            config.scope,
            others=others_for(config, decides=hold.is_held),
            limit=None if asked.by_hand else config.block_at_for,
            activates=asked.may_activate,
        )

    def unseen(self, snapshot: Snapshot) -> dict[str, int]:
        """Return, by thread, the first message that a running turn has saved and no model has answered."""
        first: dict[str, int] = {}
        for row in self.running(snapshot.unseen, silence=_TURN_SILENCE_SECONDS, lease=_TURN_SECONDS):
            first[row.thread] = min(row.first_seq, first.get(row.thread, row.first_seq))
        return first

    def running(self, rows: Iterable[Row], **limits: float) -> Iterator[Row]:
        """Yield the rows of `unseen` whose turn is open in this process, or belongs to another process that is alive."""
        for row in rows:
            if row.owner == self.owner:
                is_running = row.turn in self._open_turns
            else:
                is_running = self.store.processes.judge(row.owner, beat_of(row), **limits) in {"moving", "fresh"}
            if is_running:
                yield row

    async def _perform(
        self, decision: Decision, snapshot: Snapshot, config: Config, patience: float | None, hold: Hold
    ) -> bool:
        """Perform a decision. Return False if it waited without a result. Raises Conflict if another process changed the log."""
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
        """Render groups for activation. The text of a group depends on the last date of the group before it."""
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
            rendering = rendering_group(
                handle=row.handle,
                observations=lines,
                previous=previous.date() if previous else None,
                alias=aliases.get(row.thread or ""),
                is_reflection=is_reflection,
                aliases=aliases if is_reflection else {},
            )
            text = await in_slices(rendering)
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
        await self.tell(new_generation_event(made, snapshot.resource, snapshot.thread.id))
        hints = (await self.store.threads.get(snapshot.resource, snapshot.thread.id)).hints
        if hints.current_task != snapshot.thread.hints.current_task or (
            hints.suggested_response != snapshot.thread.hints.suggested_response
        ):
            await self.tell(*hint_events(snapshot, hints, now))

    # ------------------------------------------------------------ runs

    async def _start(self, spans: Sequence[SpanOf], snapshot: Snapshot, config: Config) -> RunBatch:
        """Start a run for each span, and observe the spans in the background with one model call."""
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
        started = (
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
            for run in runs
        )
        await self.tell(*started)
        return self._run(claims, snapshot, config)

    def _run(self, claims: Sequence[RunClaim], snapshot: Snapshot, config: Config) -> RunBatch:
        where = {"resource": snapshot.resource, "thread": snapshot.thread.id}
        # After the runs have ended, decide again, because the next span may be due.
        return self.runner.launch(tuple(claims), **where, config=config, then=self.look_again)

    async def look_again(self, resource: str, thread: str, config: Config, *, ending: bool = False) -> None:
        """Wait for the lock of a log and decide. Skipped if another task already waits, except at the end of a turn."""
        gate = self._gate(resource, thread, config.scope)
        if gate.is_queued and not ending:
            return
        hold, gate.is_queued = Hold(gate), True
        try:
            try:
                await hold.take()
            finally:
                gate.is_queued = False
            # Turns may wait for the lock, so its owner does not wait for its turn longer than they would.
            with ranked("normal"):
                asked = Asked(may_wait=False, may_activate=False, ending=ending)
                snapshot = await self._read(resource, thread, config, asked, hold)
                await self._advance(snapshot, config, asked, hold, is_turn=False)
        except MemologError as error:
            _log.info("deciding again for the log of %s failed: %s", thread, error)
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
                is_takeover=row is None or row.status == "running",
            )
        )
        self._run((claim,), snapshot, config)

    async def _is_still_ours(self, run: str, now: datetime, config: Config) -> bool:
        """Renew the lease if this process is still running the run, and return whether it is.

        If the clock was set forward, the lease of a run of this process may seem to have expired.
        """
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
                "room": decision.room,
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
        """Wait for a run of this process or of another process. Return False if it did not end within `patience` seconds.

        A timeout is recorded, so that the next turns do not wait. If `patience` is None, there is no limit for a run of this
        process; for a run of another process the limit is the length of a lease.
        """
        # Release the lock, so that other callers can advance the log meanwhile.
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
            processes = self.store.processes
            if patience is not None and (row is None or processes.judge(row.owner, row.owner_beat) != "moving"):
                # The process of the run may be dead. A later round takes the run over when this is certain.
                return False
            while loop.time() < end:
                with hold.paused():
                    await asyncio.sleep(_POLL_SECONDS)
                current = await self.store.runs.get(snapshot.resource, run)
                if current is None or current.status != "running":
                    return True
                if row is not None and await processes.life(row.owner) == "silent":
                    return True
        if patience is not None and config.observation.deadline:
            now, error = self.clock.now(), f"no answer within {config.observation.deadline:g} s"
            later = retry_at(snapshot.log.failures + 1, now, self._chance())
            await self.store.runs.note_stall(snapshot.resource, snapshot.log.pk, run, error, now=now, retry_at=later)
            self.bus.degraded(snapshot.resource, snapshot.thread.id, "waiting for the model", error)
        return False

    def _silent(self, snapshot: Snapshot) -> frozenset[str]:
        """Return the running runs of other processes that are dead, including runs whose lease has not expired."""
        judge = self.store.processes.judge
        others = (run for run in snapshot.runs if run.status == "running" and run.owner != self.owner)
        return frozenset(run.id for run in others if judge(run.owner, run.owner_beat) == "silent")


def _decided(snapshot: Snapshot, config: Config, asked: Asked, now: datetime) -> Decision:
    return decide(state_of(snapshot, config, asked), config, now)


def _is_background(decision: Decision) -> bool:
    """Return whether a decision starts a run that the caller does not wait for."""
    return isinstance(decision, Buffer | Recover) or (isinstance(decision, Reflect) and not decision.wait)


def _is_wait(decision: Decision) -> bool:
    """Return whether a decision does not change the log: it does nothing, or only waits for a running run."""
    return isinstance(decision, Wait | Trim) or (isinstance(decision, Observe | Reflect) and decision.run is not None)
