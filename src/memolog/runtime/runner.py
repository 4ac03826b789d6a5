"""Runs in the background: on the caller's event loop, tracked, renewed, never orphaned.

Knows how a claimed run is carried out: a heartbeat beside it, its result stored under its fence, its failure noted. What is
thought about lives elsewhere.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Literal, Protocol, TypeAlias

from memolog.config import Config
from memolog.decide import back_off
from memolog.domain.clock import Clock
from memolog.domain.errors import LeaseLost, MemologError, StoreError
from memolog.domain.run import Usage
from memolog.prompt.redact import REDACTION
from memolog.runtime.events import Degraded, Event, RunEnded, RunFailed
from memolog.runtime.heartbeat import Heartbeat
from memolog.store import Store
from memolog.store.runs import Claim, Made

__all__ = ["Job", "RunFault", "Runner", "Thinker", "Thought", "Trouble", "retry_at"]

Then: TypeAlias = Callable[[str, str, Config], Awaitable[None]]

# Several calls, each with a limit of its own; beyond this something hangs that is no model.
_RUN_SECONDS = 900.0
_RUN_CALLS = 8
_GIVE_BACK_SECONDS = 2.0
_STORE_DELAYS = (0.05, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0)


Cause: TypeAlias = Literal["answer", "refused", "denied", "away", "incompressible"]


class RunFault(Exception):
    """A run's answer cannot be used; says why, what was spent on it, and whether another try could end otherwise.

    The cause is an answer without use, a call that was refused, a call that is not allowed at all (a wrong key, an unknown
    model), a model that is not there, or a log of which nothing can be left out: that run is given up. `declines` says that the
    model would not speak about these words: it refused them in its answer, or answered with nothing. The reason is stored and
    shown: it holds no secret, whatever a model says when it fails.
    """

    def __init__(
        self,
        reason: str,
        usage: Usage | None = None,
        *,
        is_final: bool = False,
        cause: Cause = "answer",
        declines: bool = False,
    ) -> None:
        super().__init__(REDACTION.redact(reason))
        self.usage, self.is_final, self.declines = usage, is_final or cause == "incompressible", declines
        self.cause: Cause = cause

    @property
    def is_about_words(self) -> bool:
        """Tell whether it is the words that the model does not take."""
        return self.cause == "refused" or self.declines

    def billed(self, usage: Usage | None) -> "RunFault":
        """Return the same fault with what was spent."""
        return RunFault(
            str(self), self.usage or usage, is_final=self.is_final, cause=self.cause, declines=self.declines
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """Something that failed beside a run, which went on without it."""

    what: str
    error: str

    def __post_init__(self) -> None:
        """Take secrets out of the error: functions of an application raise what they like."""
        object.__setattr__(self, "error", REDACTION.redact(self.error))


@dataclass(frozen=True, slots=True, kw_only=True)
class Thought:
    """What one run of a call came to: what it made, or why it failed."""

    claim: Claim
    made: Made | None
    kind: str
    thread: str | None
    faults: tuple[str, ...] = ()
    error: str | None = None
    usage: Usage | None = None
    """What was spent on it; where it made something, that says so too."""
    troubles: tuple[Trouble, ...] = ()


class Thinker(Protocol):
    """Carries out the thinking of claimed runs: prompts, model calls, parsing."""

    async def think(self, resource: str, thread: str, claims: Sequence[Claim], config: Config) -> tuple[Thought, ...]:
        """Return what each claimed run came to; raises RunFault where the call as a whole failed."""
        ...


@dataclass(slots=True, kw_only=True)
class Job:
    """A call in flight."""

    claims: tuple[Claim, ...]
    resource: str
    thread: str
    config: Config
    then: Then
    task: "asyncio.Task[None]" = field(init=False)
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    """Set once the runs have ended; the task goes on to decide what follows from it."""


class Runner:
    """Carries out claimed runs as tasks of the running loop."""

    def __init__(
        self,
        store: Store,
        thinker: Thinker,
        *,
        clock: Clock,
        heartbeat: Heartbeat,
        tell: Callable[[Event], Awaitable[None]],
        chance: Callable[[], float],
    ) -> None:
        self._store, self._thinker, self._clock, self.heartbeat = store, thinker, clock, heartbeat
        self._tell, self._chance = tell, chance
        self._jobs: dict[str, Job] = {}
        # A job is over before its task is: what follows from it is decided in the same task.
        self._tasks: set[asyncio.Task[None]] = set()
        self._closing = False

    def job(self, run: str) -> Job | None:
        """Return the job that carries out a run in this process, if it is here."""
        return self._jobs.get(run)

    def launch(self, claims: tuple[Claim, ...], *, resource: str, thread: str, config: Config, then: Then) -> Job:
        """Carry out claimed runs in the background."""
        job = Job(claims=claims, resource=resource, thread=thread, config=config, then=then)
        for claim in claims:
            self._jobs[claim.run] = job
        job.task = asyncio.get_running_loop().create_task(self._carry_out(job), name=f"memolog-run-{claims[0].run}")
        self._tasks.add(job.task)
        job.task.add_done_callback(self._ended)
        return job

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            # Only an exit or an interrupt comes this far: it has gone through the loop already.
            task.exception()

    def spawn(self, work: Coroutine[object, object, None]) -> None:
        """Do something else in the background; it is waited for like a run."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def finished(self, resource: str, thread: str | None, seconds: float) -> None:
        """Wait for the runs of a thread, or (None) of all threads of the resource, that are in flight here; not for long."""
        mine = (job for job in self._jobs.values() if job.resource == resource)
        if tasks := {job.task for job in mine if thread is None or job.thread == thread}:
            await asyncio.wait(tasks, timeout=seconds)

    async def settled(self) -> None:
        """Wait until no run of this process is in flight, and none follows."""
        while self._tasks:
            await asyncio.wait(set(self._tasks))
        await self.heartbeat.ended()

    async def close(self, patience: float) -> None:
        """Let runs finish for so long, then stop them and give their leases back: another process takes them over."""
        self._closing = True
        loop = asyncio.get_running_loop()
        end = loop.time() + patience
        while self._tasks:
            _, late = await asyncio.wait(set(self._tasks), timeout=max(0.0, end - loop.time()))
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late)
        await self.heartbeat.stop()

    # ------------------------------------------------------------ one job

    async def _carry_out(self, job: Job) -> None:
        with self.heartbeat.under_way():
            try:
                await self._carry_on(job)
            finally:
                job.ended.set()
        if not self._closing:
            with contextlib.suppress(MemologError):
                await job.then(job.resource, job.thread, job.config)

    async def _carry_on(self, job: Job) -> None:
        try:
            await self._attempt(job)
        except asyncio.CancelledError:
            # The memory is closed, or the loop ends without that: whoever comes next need not wait for the leases to end.
            with contextlib.suppress(MemologError, TimeoutError):
                async with asyncio.timeout(_GIVE_BACK_SECONDS):
                    await self._store.runs.give_back(job.resource, job.claims)
            raise
        except Exception as error:  # noqa: BLE001 - nobody awaits a background task's error; the journal and the breaker hold it
            with contextlib.suppress(MemologError):
                await self._fail(job, job.claims, f"{type(error).__name__}: {error}", None)
        finally:
            for claim in job.claims:
                # A run that was taken over may be carried out here again: that is another job.
                if self._jobs.get(claim.run) is job:
                    del self._jobs[claim.run]

    async def _attempt(self, job: Job) -> None:
        work = asyncio.ensure_future(self._think(job))
        beat = asyncio.ensure_future(self._beat(job))
        try:
            seconds = max(_RUN_SECONDS, _RUN_CALLS * job.config.model_timeout)
            done, _ = await asyncio.wait({work, beat}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            if work not in done and beat in done:
                beat.result()
            for thought in _result(work, seconds):
                try:
                    await self._store_thought(job, thought)
                except LeaseLost as lost:
                    # One thread of a call was deleted or withdrawn: what the others came to is kept.
                    await self._refused(job, thought.claim, str(lost))
        except RunFault as fault:
            if fault.is_final:
                await self._give_up(job, fault)
            else:
                await self._fail(job, job.claims, str(fault), fault.usage)
        except LeaseLost as lost:
            await self._refused(job, job.claims[0], str(lost))
        finally:
            # Stopping the first raises what ended the program in it.
            try:
                await _stop(work)
            finally:
                await _stop(beat)

    async def _think(self, job: Job) -> tuple[Thought, ...]:
        try:
            return await self._thinker.think(job.resource, job.thread, job.claims, job.config)
        except (KeyboardInterrupt, SystemExit) as stop:
            # It ends the loop, which cancels all that is under way, this too; and nobody else comes to note it.
            noting = asyncio.ensure_future(self._fail(job, job.claims, f"{type(stop).__name__}: {stop}", None))
            while not noting.done():
                with contextlib.suppress(asyncio.CancelledError, MemologError):
                    await asyncio.shield(noting)
            raise

    async def _beat(self, job: Job) -> None:
        """Renew the leases until all are lost."""
        claims = list(job.claims)
        while True:
            await asyncio.sleep(job.config.heartbeat)
            for claim in tuple(claims):
                try:
                    await self._store.runs.heartbeat(job.resource, claim, now=self._clock.now(), lease=job.config.lease)
                except LeaseLost:
                    claims.remove(claim)
                    if not claims:
                        raise
                except StoreError:
                    # A beat that cannot be written is tried again at the next; the lease outlasts two of them.
                    continue

    async def _store_thought(self, job: Job, thought: Thought) -> None:
        now = self._clock.now()
        for trouble in thought.troubles:
            who = thought.thread or job.thread
            await self._tell(
                Degraded(at=now, resource=job.resource, thread=who, what=trouble.what, error=trouble.error)
            )
        if thought.made is None:
            await self._fail(job, (thought.claim,), thought.error or "no answer", thought.usage)
            return
        usage = _billed(thought.made.usage, thought.thread, job)
        await self._finish(job, thought.claim, replace(thought.made, usage=usage))
        await self._tell(
            RunEnded(
                at=now,
                resource=job.resource,
                thread=thought.thread or job.thread,
                run=thought.claim.run,
                run_kind=thought.kind,
                observations=len(thought.made.observations),
                faults=thought.faults,
                input_tokens=usage.input_tokens if usage else 0,
                output_tokens=usage.output_tokens if usage else 0,
                cost=usage.cost if usage else 0.0,
            )
        )

    async def _finish(self, job: Job, claim: Claim, made: Made) -> None:
        """Store a result; while the database is away it is kept in hand, so that no model is asked twice."""
        for delay in (*_STORE_DELAYS, None):
            try:
                await self._store.runs.finish(job.resource, claim, made, now=self._clock.now())
            except StoreError as error:
                if delay is None or not error.retryable:
                    raise
                await asyncio.sleep(delay)
            else:
                return

    async def _fail(self, job: Job, claims: Sequence[Claim], error: str, usage: Usage | None) -> None:
        now, error = self._clock.now(), REDACTION.redact(error)
        for index, claim in enumerate(claims):
            run = await self._store.runs.get(job.resource, claim.run)
            attempt = run.attempt if run else 1
            later = retry_at(attempt, now, self._chance())
            spent = _billed(usage, run.thread if run else None, job) if index == 0 else None
            failures = await self._store.runs.fail(job.resource, claim, error, now=now, retry_at=later, usage=spent)
            await self._tell(
                RunFailed(
                    at=now,
                    resource=job.resource,
                    thread=(run.thread if run else None) or job.thread,
                    run=claim.run,
                    run_kind=run.kind if run else "observe",
                    error=error,
                    retry_at=later if failures is not None else None,
                )
            )

    async def _give_up(self, job: Job, fault: RunFault) -> None:
        """End runs for good: to try them again would only hold up the rest of the log."""
        is_full = fault.cause == "incompressible"
        for claim in job.claims:
            await self._store.runs.abandon(
                job.resource, claim, str(fault), now=self._clock.now(), incompressible=is_full
            )
            await self._refused(job, claim, str(fault))

    async def _refused(self, job: Job, claim: Claim, why: str) -> None:
        run = await self._store.runs.get(job.resource, claim.run)
        await self._tell(
            RunFailed(
                at=self._clock.now(),
                resource=job.resource,
                thread=job.thread,
                run=claim.run,
                run_kind=run.kind if run else "observe",
                error=why,
                retry_at=None,
            )
        )


def retry_at(failures: int, now: datetime, chance: float) -> datetime:
    """Return when a failed run may be tried again."""
    return now + timedelta(seconds=back_off(failures, chance))


def _result(work: "asyncio.Future[tuple[Thought, ...]]", seconds: float) -> tuple[Thought, ...]:
    if not work.done():
        raise RunFault(f"the run did not end within {seconds:g} s", cause="away")
    return work.result()


def _billed(usage: Usage | None, thread: str | None, job: Job) -> Usage | None:
    """Return what was spent under the thread it was spent for; a log that many share has no thread of its own."""
    owner = thread or (job.thread if job.config.scope == "thread" else None)
    return replace(usage, thread=owner) if usage is not None else None


async def _stop(task: "asyncio.Future[Any]") -> None:
    if not task.done():
        task.cancel()
    with contextlib.suppress(asyncio.CancelledError, Exception):
        await task
