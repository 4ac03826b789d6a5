"""What a worker does, on either database: look at logs, index, decay tasks, apply the retention, and count all of it."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, TypeAlias

from memolog.core.job import DueLog, HeldRuns, LookJob
from memolog.errors import MemologError, StoreUnavailable
from memolog.events import Event, Recovered, RunEnded, RunFailed
from memolog.memory import Memory

Report: TypeAlias = Callable[[str, dict[str, object]], None]
"""Receives what has happened, as a sentence and as values."""

# A log in which a worker found nothing to do is looked at again after this many seconds, even if it has not changed.
_AGAIN_SECONDS: Final = 60.0


@dataclass(slots=True, kw_only=True)
class WorkerCounts:
    """What a worker has done since it started."""

    started_at: datetime
    looks: int = 0
    """How many times it looked at a log."""
    looking: int = 0
    """How many logs it is working on now."""
    runs: int = 0
    """Runs that ended with a result."""
    failed_runs: int = 0
    recovered_runs: int = 0
    """Runs that it took over or tried again."""
    errors: int = 0
    """Looks that ended with an error."""
    sweeps: int = 0
    """How many times it asked the database which logs have work."""
    due: int = 0
    """How many logs had work at the last sweep."""
    indexed: int = 0
    """How many times it brought the index of a resource up to date."""
    last_look_at: datetime | None = None
    last_error: str | None = None
    """Why the last run failed that has failed."""
    unreported: list[RunEnded | RunFailed] = field(default_factory=list[RunEnded | RunFailed])
    """Ends of runs that no look has reported yet."""
    held: HeldRuns | None = None
    """The runs that a worker that runs once has left to other processes."""
    is_interrupted: bool = False
    """Whether a worker that runs once was stopped before all work was done."""

    @property
    def summary(self) -> str:
        """Return what a worker says when it ends."""
        words = f"The worker has ended. Runs: {self.runs:,} done, {self.failed_runs:,} failed. Errors: {self.errors:,}."
        if self.last_error is not None:
            words += f" The last failed run: {self.last_error.rstrip('.')}."
        if self.held is not None:
            words += f" {self.held} If that process is dead, a worker can do the rest after that time."
        if self.is_interrupted:
            words += " It was stopped before all work was done; the next worker goes on."
        return words

    @property
    def exit_code(self) -> int:
        """Return the exit code of a worker that runs once."""
        if self.is_interrupted:
            return 130
        if self.errors or self.failed_runs:
            return 3
        return 4 if self.held else 0

    def hear(self, event: Event) -> None:
        """Count an event of the memory."""
        if isinstance(event, RunEnded):
            self.runs += 1
            self.unreported.append(event)
        elif isinstance(event, RunFailed):
            self.failed_runs += 1
            self.last_error = " ".join(event.error.split())
            self.unreported.append(event)
        elif isinstance(event, Recovered):
            self.recovered_runs += 1

    def take(self, job: LookJob) -> tuple[int, int]:
        """Return how many runs of a log have ended with a result and how many have failed, since the last call for this log."""
        mine = [one for one in self.unreported if _is_of(one, job)]
        self.unreported = [one for one in self.unreported if not _is_of(one, job)]
        done = sum(isinstance(one, RunEnded) for one in mine)
        return done, len(mine) - done

    def values(self) -> dict[str, object]:
        """Return the counts that a worker reports when it ends."""
        return {
            "looks": self.looks,
            "runs": self.runs,
            "failed": self.failed_runs,
            "recovered": self.recovered_runs,
            "errors": self.errors,
            "indexed": self.indexed,
            "last_error": self.last_error,
            "held": self.held.count if self.held else 0,
            "held_until": self.held.until.isoformat() if self.held else None,
            "interrupted": self.is_interrupted,
        }


def _is_of(event: Event, job: LookJob) -> bool:
    return event.resource == job.resource and (job.is_shared or event.thread == job.thread)


@dataclass(slots=True, kw_only=True)
class Work:
    """The work of one worker."""

    memory: Memory
    report: Report
    counts: WorkerCounts
    _found_nothing: dict[str, tuple[float, tuple[object, ...]]] = field(
        default_factory=dict[str, tuple[float, tuple[object, ...]]]
    )
    """By log, when nothing was found to do, and the state of the log at that time."""
    _states: dict[str, tuple[object, ...]] = field(default_factory=dict[str, tuple[object, ...]])
    """The states of the logs that were due at the last sweep."""
    _is_away: bool = False

    async def due(self) -> Sequence[DueLog]:
        """Return the logs that have work, without those in which nothing could be done and nothing has changed since."""
        found, time = await self.memory.due(), asyncio.get_running_loop().time()
        known = {key: one for key, one in self._found_nothing.items() if time - one[0] < _AGAIN_SECONDS}
        self._found_nothing = known
        self.counts.sweeps += 1
        due = [one for one in found if one.job.key not in known or known[one.job.key][1] != one.state]
        self.counts.due, self._states = len(due), {one.job.key: one.state for one in due}
        return due

    async def look(self, job: LookJob) -> None:
        """Do the work of a log and wait for it."""
        counts, loop = self.counts, asyncio.get_running_loop()
        counts.looks, counts.looking, counts.last_look_at = (
            counts.looks + 1,
            counts.looking + 1,
            self.memory.clock.now(),
        )
        state = self._states.get(job.key)
        try:
            started = await self.memory.thread(job.thread, resource=job.resource).work(rest=job.rest)
        finally:
            counts.looking -= 1
        if not started:
            if state is not None:
                self._found_nothing[job.key] = (loop.time(), state)
            return
        runs, failed = counts.take(job)
        if not runs and not failed:
            return
        where = f"{job.resource}, {'the shared log' if job.is_shared else job.thread}"
        self.report(
            f"{where}: {runs:,} {'run' if runs == 1 else 'runs'} done"
            + (f", {failed:,} failed: {counts.last_error}" if failed else ""),
            {"event": "looked", "resource": job.resource, "thread": job.thread, "runs": runs, "failed": failed},
        )

    async def seconds_held(self) -> float | None:
        """Return the seconds until the first lease of another process ends. None if no process has a run. Say so once."""
        before, self.counts.held = self.counts.held, await self.memory.held()
        held = self.counts.held
        if held is None:
            return None
        if before is None:
            values = {"runs": held.count, "until": held.until.isoformat()}
            self.report(str(held), {"event": "held", **values})
        return max(0.0, (held.until - self.memory.clock.now()).total_seconds())

    async def index(self) -> None:
        """Bring the search index of every resource up to date."""
        self.counts.indexed += await self.memory.index()

    async def upkeep(self) -> None:
        """Decay old tasks and forget what is older than the settings allow, in every resource."""
        for name in await self.memory.resources():
            resource = self.memory.resource(name)
            while (decayed := await resource.tasks().decay()) and (decayed.summarised or decayed.archived):
                pass
            forgotten = await resource.apply_retention()
            if forgotten.messages:
                self.report(
                    f"{name}: forgot {forgotten.messages:,} messages that are older than the retention allows",
                    {"event": "forgot", "resource": name, "messages": forgotten.messages},
                )

    def failed(self, what: str, error: BaseException) -> None:
        """Report an error after which the worker goes on."""
        if isinstance(error, StoreUnavailable) and error.retryable:
            self.lost(error)
            return
        self.counts.errors += 1
        text = _line(error)
        self.report(f"{what} failed: {text}", {"event": "error", "what": what, "error": text})

    def works(self, what: str) -> None:
        """Report that something works again that has failed. If the database was away, `found` reports it."""
        if not self._is_away:
            self.report(f"{what} works again", {"event": "works", "what": what})

    def lost(self, error: BaseException) -> None:
        """Report that the database cannot be reached, once until it is back."""
        if not self._is_away:
            self._is_away = True
            self.counts.errors += 1
            text = _line(error)
            self.report(f"The database is away, trying again. {text}", {"event": "away", "error": text})

    def found(self) -> None:
        """Report that the database is back, if it was away."""
        if self._is_away:
            self._is_away = False
            self.report("The database is back.", {"event": "back"})


def _line(error: BaseException) -> str:
    """Return an error as one line."""
    text = str(error) if isinstance(error, MemologError) else f"{type(error).__name__}: {error}"
    return " ".join(text.split())
