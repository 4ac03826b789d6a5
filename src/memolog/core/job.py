"""The job that asks a worker to look at a log. A job holds no work: what is to be done follows from the rows of the log."""

import hashlib
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from memolog.core.exact_json import JsonObject

QUEUE: Final = "memolog"
LOOK: Final = "memolog.look"


@dataclass(frozen=True, slots=True, kw_only=True)
class LookJob:
    """The request to look at the log of a thread."""

    resource: str
    thread: str
    """A thread of the log. Of a shared log, any thread."""
    is_shared: bool
    rest: bool = False
    """Whether messages are observed too that are fewer than a step."""

    @property
    def key(self) -> str:
        """Return the same short text for all jobs of a log. No two jobs with one key wait at the same time."""
        log = f"{self.resource}\0{'' if self.is_shared else self.thread}"
        return f"{LOOK}:{hashlib.sha256(log.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}"

    @property
    def arguments(self) -> JsonObject:
        """Return the arguments of the job."""
        return {"resource": self.resource, "thread": self.thread, "shared": self.is_shared, "rest": self.rest}


@dataclass(frozen=True, slots=True, kw_only=True)
class DueLog:
    """A log that has background work."""

    job: LookJob
    reason: str
    state: tuple[object, ...]
    """A value that differs after every change of the log. If a worker found nothing to do, it can wait until this changes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldRuns:
    """Runs that processes have claimed. The processes may be dead, which shows when the leases end."""

    count: int
    until: datetime
    """When the first of the leases ends, unless it is renewed."""

    def __str__(self) -> str:
        """Return a sentence about them, for a process that has none of them."""
        until = f"until {self.until:%Y-%m-%d %H:%M:%S} UTC"
        if self.count == 1:
            return f"1 run is held by another process {until}."
        return f"{self.count:,} runs are held by other processes, the first {until}."
