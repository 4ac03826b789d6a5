"""The names of the faults, their probabilities, and the counts of faults that happened."""

import random
from collections import Counter
from dataclasses import dataclass
from typing import Final

KINDS: Final = (
    "model raises",
    "model hangs",
    "model says nothing",
    "model says garbage",
    "model repeats one text for ever",
    "model writes a huge text",
    "model outage",
    "listener raises",
    "database busy once",
    "database busy for a while",
    "database gone once",
    "crash before a commit",
    "crash after a commit",
    "crash anywhere",
    "lease lost while paused",
    "clock jumps back",
    "thread deleted during a run",
    "restart",
    "turn cancelled",
    "turn raises",
    "turn discarded",
    "thread rewound",
    "branch restored",
)

CRASH_POINTS: Final = (
    "store.save_and_snapshot",
    "store.save_and_book",
    "messages.save",
    "logs.snapshot",
    "logs.activate",
    "logs.activate_reflection",
    "logs.restore",
    "runs.start",
    "runs.take_over",
    "runs.heartbeat",
    "runs.finish",
    "runs.fail",
    "runs.note_stall",
    "runs.abandon",
    "withdrawals.withdraw",
    "branches.rewind",
    "branches.restore",
    "forgetting.thread",
)


class Crash(BaseException):
    """The process died here: nothing that runs afterwards may matter."""


@dataclass(slots=True, kw_only=True)
class Rates:
    """How likely each fault is, at each chance it has."""

    model: float
    """For each request to a model."""
    store: float
    """For each call of the database."""
    world: float
    """For each step: crashes, pauses, clocks, deletions, restarts."""
    listener: float

    @classmethod
    def drawn(cls, rng: random.Random) -> "Rates":
        """Return the rates of a world: some are calm, some are stormy."""
        return cls(
            model=rng.choice((0.05, 0.15, 0.4)),
            store=rng.choice((0.0, 0.003, 0.015)),
            world=rng.choice((0.02, 0.06, 0.12)),
            listener=0.05,
        )

    def stop(self) -> None:
        """End all faults."""
        self.model = self.store = self.world = self.listener = 0.0


class Struck(Counter[str]):
    """How often each kind of fault struck."""

    def note(self, kind: str) -> None:
        """Count a fault."""
        if kind not in KINDS:
            raise KeyError(kind)
        self[kind] += 1
