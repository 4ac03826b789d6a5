"""Carry out claimed runs in the background, on the event loop of the caller.

The lease is renewed during the model call. The result is stored only if the run's fence has not changed. Failures are recorded.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from memolog.core.clock import Clock
from memolog.core.config import Config
from memolog.core.deadline import background_task
from memolog.core.run import Run, Usage
from memolog.errors import LeaseLost, MemologError, StoreError
from memolog.events import Degraded, Event, RunEnded, RunFailed
from memolog.log.decide import back_off
from memolog.log.heartbeat import Heartbeat
from memolog.log.runs import RunClaim, RunResult
from memolog.text.redaction import REDACTION

if TYPE_CHECKING:
    from memolog.store import Store

Then: TypeAlias = Callable[[str, str, Config], Awaitable[None]]

# A run is stopped after _RUN_SECONDS, or after _RUN_CALLS times the timeout of a model call if that is longer.
_RUN_SECONDS = 900.0
_RUN_CALLS = 8
_log = logging.getLogger("memolog")

_GIVE_BACK_SECONDS = 2.0
# The maximum seconds that a task may take to end after it was cancelled. They are part of the `patience` of `close`.
_STOP_SECONDS = 0.5
# The seconds before each new attempt to store a result.
_STORE_DELAYS = (0.05, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0)


FaultCause: TypeAlias = Literal["answer", "refused", "denied", "away", "incompressible"]


class RunFault(Exception):
    """Raised if a run has failed. It has the reason and the usage. `is_final` means that a retry is useless.

    `cause` is "answer" if the answer cannot be used, "refused" if the provider refused the prompt, "denied" if the call is not
    allowed at all (a wrong key, an unknown model), "away" if the model cannot be reached, and "incompressible" if a reflection
    failed to shorten the log. An incompressible fault is always final. `declines` means that the model refused to answer, or that
    its answer is empty. The reason is stored and shown, so secrets are redacted from it.
    """

    def __init__(
        self,
        reason: str,
        usage: Usage | None = None,
        *,
        is_final: bool = False,
        cause: FaultCause = "answer",
        declines: bool = False,
    ) -> None:
        super().__init__(REDACTION.redact(reason))
        self.usage, self.is_final, self.declines = usage, is_final or cause == "incompressible", declines
        self.cause: FaultCause = cause

    @property
    def is_about_words(self) -> bool:
        """Return whether the provider or the model refused the text of the messages."""
        return self.cause == "refused" or self.declines

    def billed(self, usage: Usage | None) -> "RunFault":
        """Return the same fault with this usage. If the fault has a usage already, that usage stays."""
        return RunFault(
            str(self), self.usage or usage, is_final=self.is_final, cause=self.cause, declines=self.declines
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A failure during a run that did not end the run."""

    what: str
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOutcome:
    """The result of one run, or the error if it failed."""

    claim: RunClaim
    result: RunResult | None
    kind: str
    thread: str | None
    faults: tuple[str, ...] = ()
    error: str | None = None
    usage: Usage | None = None
    """The usage of the run. The result, if there is one, has the same usage."""
    problems: tuple[Problem, ...] = ()


Execute: TypeAlias = Callable[[str, str, Sequence[RunClaim], Config], Awaitable[tuple[RunOutcome, ...]]]
"""Return the outcome of each claimed run of a resource and thread. Raises RunFault if the whole model call failed."""


@dataclass(slots=True, kw_only=True)
class RunBatch:
    """Claimed runs that one model call carries out."""

    claims: tuple[RunClaim, ...]
    resource: str
    thread: str
    config: Config
    then: Then
    task: "asyncio.Task[None]" = field(init=False)
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the runs have ended. After that the task calls `then`."""


class Runner:
    """Carries out claimed runs as tasks of the running loop."""

    def __init__(
        self,
        store: "Store",
        execute: Execute,
        *,
        clock: Clock,
        heartbeat: Heartbeat,
        tell: Callable[[*tuple[Event, ...]], Awaitable[None]],
        chance: Callable[[], float],
    ) -> None:
        self._store, self._execute_claims, self._clock, self.heartbeat = store, execute, clock, heartbeat
        self._tell, self._chance = tell, chance
        self._batches: dict[str, RunBatch] = {}
        # A task outlives its batch, because it calls `then` after the runs have ended.
        self._tasks: dict[asyncio.Task[None], RunBatch | None] = {}
        self.is_ending = False
        """Whether no more runs are started. Runs under way go on."""

    def batch(self, run: str) -> RunBatch | None:
        """Return the batch that carries out a run in this process. None if this process does not carry out the run."""
        return self._batches.get(run)

    def launch(
        self, claims: tuple[RunClaim, ...], *, resource: str, thread: str, config: Config, then: Then
    ) -> RunBatch:
        """Carry out claimed runs in the background."""
        batch = RunBatch(claims=claims, resource=resource, thread=thread, config=config, then=then)
        for claim in claims:
            self._batches[claim.run] = batch
        batch.task = background_task(self._carry_out(batch), name=f"memolog-run-{claims[0].run}")
        self._tasks[batch.task] = batch
        batch.task.add_done_callback(self._ended)
        return batch

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._tasks.pop(task, None)
        if not task.cancelled():
            # Only SystemExit or KeyboardInterrupt can be here. The loop has raised it, so mark it as retrieved.
            task.exception()

    def spawn(self, work: Coroutine[object, object, None]) -> None:
        """Run a coroutine in the background. `settled` and `close` wait for it too."""
        task = background_task(work)
        self._tasks[task] = None
        task.add_done_callback(lambda done: self._tasks.pop(done, None))

    async def finished(self, resource: str, thread: str | None, seconds: float | None) -> bool:
        """Wait for the batches of a thread, at most `seconds` if there is a limit, and return whether there were any.

        `thread=None` means all threads of the resource.
        """
        mine = [batch for batch in self._tasks.values() if batch is not None and batch.resource == resource]
        tasks = {batch.task for batch in mine if thread is None or batch.thread == thread}
        if tasks:
            await asyncio.wait(tasks, timeout=seconds)
        return bool(tasks)

    async def settled(self) -> None:
        """Wait until this process has no run and no other background task."""
        while self._tasks:
            await asyncio.wait(set(self._tasks))
        await self.heartbeat.ended()

    async def close(self, patience: float) -> None:
        """Wait for runs at most `patience` seconds, then cancel them and release their leases for another process.

        A model call that goes on although it was cancelled is left alone, and its answer is dropped.
        """
        self.is_ending = True
        loop = asyncio.get_running_loop()
        end = loop.time() + patience - _STOP_SECONDS
        while self._tasks:
            _, late = await asyncio.wait(set(self._tasks), timeout=max(0.0, end - loop.time()))
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late)
        await self.heartbeat.stop()

    # ------------------------------------------------------------ one batch

    async def _carry_out(self, batch: RunBatch) -> None:
        with self.heartbeat.under_way():
            try:
                await self._attempt(batch)
            except asyncio.CancelledError:
                # The Memory or the loop is closing. Release the leases, so that another process need not wait for their end.
                with contextlib.suppress(MemologError, TimeoutError):
                    async with asyncio.timeout(_GIVE_BACK_SECONDS):
                        await self._store.runs.give_back(batch.resource, batch.claims)
                raise
            except Exception as error:  # noqa: BLE001 - a background task has no caller; the journal and the breaker record the error
                with contextlib.suppress(MemologError):
                    await self._fail(batch, batch.claims, f"{type(error).__name__}: {error}", None)
            finally:
                for claim in batch.claims:
                    # This process may have taken the run over itself, in another batch. Do not remove that batch.
                    if self._batches.get(claim.run) is batch:
                        del self._batches[claim.run]
                batch.ended.set()
        if not self.is_ending:
            with contextlib.suppress(MemologError):
                await batch.then(batch.resource, batch.thread, batch.config)

    async def _attempt(self, batch: RunBatch) -> None:
        work = asyncio.ensure_future(self._execute(batch))
        beat = asyncio.ensure_future(self._beat(batch))
        try:
            seconds = max(_RUN_SECONDS, _RUN_CALLS * batch.config.model_timeout)
            done, _ = await asyncio.wait({work, beat}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            if work not in done and beat in done:
                beat.result()
            if not work.done():
                raise RunFault(f"the run did not end within {seconds:g} s", cause="away")  # noqa: TRY301
            await self._store_outcomes(batch, work.result())
        except RunFault as fault:
            if fault.is_final:
                await self._give_up(batch, fault)
            else:
                await self._fail(batch, batch.claims, str(fault), fault.usage)
        except LeaseLost as lost:
            await self._refused(batch, batch.claims[0], str(lost))
        finally:
            # `_stop(work)` raises a SystemExit or KeyboardInterrupt of the task. The second task must be stopped even then.
            try:
                await _stop(work)
            finally:
                await _stop(beat)

    async def _execute(self, batch: RunBatch) -> tuple[RunOutcome, ...]:
        try:
            return await self._execute_claims(batch.resource, batch.thread, batch.claims, batch.config)
        except (KeyboardInterrupt, SystemExit) as stop:
            # This exception ends the loop, which cancels this task. So record the failure before that.
            noting = asyncio.ensure_future(self._fail(batch, batch.claims, f"{type(stop).__name__}: {stop}", None))
            while not noting.done():
                with contextlib.suppress(asyncio.CancelledError, MemologError):
                    await asyncio.shield(noting)
            raise

    async def _beat(self, batch: RunBatch) -> None:
        """Renew the leases until all are lost."""
        claims = list(batch.claims)
        while True:
            await asyncio.sleep(batch.config.heartbeat)
            for claim in tuple(claims):
                try:
                    await self._store.runs.heartbeat(
                        batch.resource, claim, now=self._clock.now(), lease=batch.config.lease
                    )
                except LeaseLost:
                    claims.remove(claim)
                    if not claims:
                        raise
                except StoreError:
                    # The next beat tries again. A lease is longer than two beats.
                    continue

    async def _store_outcomes(self, batch: RunBatch, outcomes: Sequence[RunOutcome]) -> None:
        """Store the results of a batch in one transaction, and record the runs that failed or have lost their lease."""
        now = self._clock.now()
        for outcome in outcomes:
            for problem in outcome.problems:
                who = outcome.thread or batch.thread
                await self._tell(
                    Degraded(at=now, resource=batch.resource, thread=who, what=problem.what, error=problem.error)
                )
        made = [
            (outcome, replace(outcome.result, usage=_billed(outcome.result.usage, outcome.thread, batch)))
            for outcome in outcomes
            if outcome.result is not None
        ]
        unstored = await self._finish(batch, [(outcome.claim, result) for outcome, result in made])
        await self._tell(
            *(_ended(batch, outcome, result, now) for outcome, result in made if outcome.claim not in unstored)
        )
        for outcome in outcomes:
            error = unstored.get(outcome.claim)
            if isinstance(error, LeaseLost):
                # This thread was deleted, or its messages were withdrawn. Results of other threads are stored.
                await self._refused(batch, outcome.claim, str(error))
            elif error is not None:
                await self._fail(batch, (outcome.claim,), f"{type(error).__name__}: {error}", outcome.usage)
            elif outcome.result is None:
                await self._fail(batch, (outcome.claim,), outcome.error or "no answer", outcome.usage)

    async def _finish(
        self, batch: RunBatch, results: Sequence[tuple[RunClaim, RunResult]]
    ) -> dict[RunClaim, MemologError]:
        """Store results, and return why a result was not stored. If they cannot be stored together, each is stored alone."""
        if not results:
            return {}
        try:
            return await self._finish_together(batch, results)
        except MemologError as error:
            if len(results) == 1 or (isinstance(error, StoreError) and error.retryable):
                raise
        unstored: dict[RunClaim, MemologError] = {}
        for claim, result in results:
            try:
                unstored |= await self._finish_together(batch, [(claim, result)])
            except MemologError as error:
                unstored[claim] = error
        return unstored

    async def _finish_together(
        self, batch: RunBatch, results: Sequence[tuple[RunClaim, RunResult]]
    ) -> dict[RunClaim, MemologError]:
        """Store results, and return why a result was refused.

        Retries while the database cannot be reached, because a new run would call the model again.
        """
        for delay in (*_STORE_DELAYS, None):
            try:
                lost = await self._store.runs.finish_all(batch.resource, results, now=self._clock.now())
            except StoreError as error:
                if delay is None or not error.retryable:
                    raise
                await asyncio.sleep(delay)
            else:
                return {claim: LeaseLost(claim.run, claim.owner, claim.fence) for claim in lost}
        raise AssertionError("unreachable: the last attempt returns or raises")

    async def _fail(self, batch: RunBatch, claims: Sequence[RunClaim], error: str, usage: Usage | None) -> None:
        now, error = self._clock.now(), REDACTION.redact(error)
        for index, claim in enumerate(claims):
            run = await self._store.runs.get(batch.resource, claim.run)
            attempt = run.attempt if run else 1
            later = retry_at(attempt, now, self._chance())
            spent = _billed(usage, run.thread if run else None, batch) if index == 0 else None
            failures = await self._store.runs.fail(batch.resource, claim, error, now=now, retry_at=later, usage=spent)
            await self._tell_failed(batch, claim, run, error, later if failures is not None else None)

    async def _give_up(self, batch: RunBatch, fault: RunFault) -> None:
        """Abandon runs for which a retry is useless. If they stayed failed, no later group could be activated."""
        is_full = fault.cause == "incompressible"
        for claim in batch.claims:
            await self._store.runs.abandon(
                batch.resource, claim, str(fault), now=self._clock.now(), incompressible=is_full
            )
            await self._refused(batch, claim, str(fault))

    async def _refused(self, batch: RunBatch, claim: RunClaim, why: str) -> None:
        run = await self._store.runs.get(batch.resource, claim.run)
        await self._tell_failed(batch, claim, run, why, None)

    async def _tell_failed(
        self, batch: RunBatch, claim: RunClaim, run: Run | None, error: str, later: datetime | None
    ) -> None:
        await self._tell(
            RunFailed(
                at=self._clock.now(),
                resource=batch.resource,
                thread=(run.thread if run else None) or batch.thread,
                run=claim.run,
                run_kind=run.kind if run else "observe",
                error=error,
                retry_at=later,
            )
        )


def _ended(batch: RunBatch, outcome: RunOutcome, result: RunResult, now: datetime) -> RunEnded:
    usage = result.usage
    return RunEnded(
        at=now,
        resource=batch.resource,
        thread=outcome.thread or batch.thread,
        run=outcome.claim.run,
        run_kind=outcome.kind,
        observations=len(result.observations),
        faults=outcome.faults,
        input_tokens=usage.input_tokens if usage else 0,
        output_tokens=usage.output_tokens if usage else 0,
        cost=usage.cost if usage else 0.0,
    )


def retry_at(failures: int, now: datetime, chance: float) -> datetime:
    """Return when a failed run may be tried again."""
    return now + timedelta(seconds=back_off(failures, chance))


def _billed(usage: Usage | None, thread: str | None, batch: RunBatch) -> Usage | None:
    """Return the usage with the thread that it is recorded for. A reflection of a shared log is recorded for no thread."""
    owner = thread or (batch.thread if batch.config.scope == "thread" else None)
    return replace(usage, thread=owner) if usage is not None else None


async def _stop(task: "asyncio.Future[Any]") -> None:
    """Cancel a task and wait for its end, but not long: a model may ignore that its call was cancelled."""
    task.cancel()
    await asyncio.wait({task}, timeout=_STOP_SECONDS)
    if not task.done():
        _log.warning("A model call goes on although it was cancelled. Its answer will be dropped.")
        task.add_done_callback(_retrieve)
        return
    with contextlib.suppress(asyncio.CancelledError, Exception):
        task.result()


def _retrieve(task: "asyncio.Future[Any]") -> None:
    """Retrieve the result, because asyncio warns about errors that were not retrieved."""
    if not task.cancelled():
        task.exception()
