"""Define the interface of an engine: it runs scripts in transactions. The scripts are the same for every engine."""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from datetime import datetime
from functools import partial, wraps
from typing import Any, Concatenate, ParamSpec, TypeAlias, TypeVar

from memolog.core.clock import Clock, to_micros
from memolog.db.queries import Row, Script, Step

T = TypeVar("T")
R = TypeVar("R")
P = ParamSpec("P")

Work: TypeAlias = Callable[[], Script[R]]
"""A function that returns a new script. A transaction that lost a race runs again from the start, with a new script."""

CommitHook: TypeAlias = Callable[[str], None]
"""Called with `NAME:before` and `NAME:after` around the commit of each write, for crash tests."""


class Engine(ABC):
    """A database that runs scripts."""

    commit_hook: CommitHook | None = None
    wrote: CommitHook | None = None
    """Called with `NAME` after the commit of each write, on the thread of the write."""
    file: str | None = None
    """The path of the database, if it is one file."""
    dialect: str
    """The name of the engine in the names of migration files."""
    has_queue: bool = False
    """Whether the database has the tables of a job queue, so that jobs for workers can be added to it."""

    def __init__(self) -> None:
        self.repeated: Counter[str] = Counter()
        """How often a transaction was repeated, or had to wait for the lock of another process, by reason."""

    @abstractmethod
    async def read(self, work: Work[T], *, brief: bool = True) -> T:
        """Run a script on one consistent snapshot. Pass `brief=False` if the script reads many rows."""

    @abstractmethod
    async def write(self, work: Work[T], *, name: str, brief: bool = True) -> T:
        """Run a script in one transaction and commit it. After an error nothing is changed.

        Transactions that write to the same thread run one after the other. A transaction that lost a race runs again with a new
        script. `name` is passed to the commit hook. Pass `brief=False` if the script writes many rows.
        """

    async def fetch(self, step: Step, make: Callable[[Row], T], *, brief: bool = True) -> tuple[T, ...]:
        """Run one query and return its rows, each converted with `make`."""

        def script() -> Script[tuple[T, ...]]:
            rows = yield step
            return tuple(map(make, rows))

        return await self.read(script, brief=brief)

    async def write_and_read(self, writing: Work[T], reading: Work[R], *, name: str, brief: bool = True) -> tuple[T, R]:
        """Run a script that writes, then run one that reads on one consistent snapshot. Return both results.

        These are two transactions, because a transaction that writes may see rows that others commit while it runs.
        """
        written = await self.write(writing, name=name, brief=brief)
        return written, await self.read(reading)

    async def settled(self) -> None:  # noqa: B027 - most engines have nothing to clean up
        """Wait until the transactions of cancelled calls are rolled back."""

    @abstractmethod
    async def close(self) -> None:
        """Wait for running calls and close the database. A second call does nothing."""

    def reached(self, name: str, moment: str) -> None:
        """Call the commit hook, if one is set, and `wrote` after a commit."""
        if moment == "after" and self.wrote is not None:
            self.wrote(name)
        if self.commit_hook is not None:
            self.commit_hook(f"{name}:{moment}")


class Calls:
    """Base class of the attributes of a `Store`. `reads` and `writes` turn a method that is a script into a coroutine method."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine


@dataclass(frozen=True, slots=True)
class _StoppedClock:
    moment: datetime

    def now(self) -> datetime:
        return self.moment


class TimedCalls(Calls):
    """Base class for calls that need the time. In a script, `clock` returns the time at which the call began, even in a retry."""

    def __init__(self, engine: Engine, clock: Clock) -> None:
        super().__init__(engine)
        self.clock = clock

    def _now(self) -> int:
        return to_micros(self.clock.now())


C = TypeVar("C", bound=Calls)


def _begun(calls: C) -> C:
    """Return the object that a script gets as `self`: for `TimedCalls` a copy with a stopped clock, else `calls` itself."""
    if not isinstance(calls, TimedCalls):
        return calls
    # `copy.copy` takes several times as long.
    call = object.__new__(type(calls))
    call.__dict__.update(calls.__dict__)
    call.clock = _StoppedClock(calls.clock.now())
    return call


def reads(script: Callable[Concatenate[C, P], Script[T]]) -> Callable[Concatenate[C, P], Coroutine[Any, Any, T]]:
    """Return a coroutine method that runs a script on one consistent snapshot."""

    @wraps(script)
    async def call(self: C, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.engine.read(partial(script, _begun(self), *args, **kwargs))

    return call


def writes(
    name: str,
) -> Callable[[Callable[Concatenate[C, P], Script[T]]], Callable[Concatenate[C, P], Coroutine[Any, Any, T]]]:
    """Return a decorator for a method that runs its script in one transaction. `name` is passed to the commit hook."""

    def decorate(script: Callable[Concatenate[C, P], Script[T]]) -> Callable[Concatenate[C, P], Coroutine[Any, Any, T]]:
        @wraps(script)
        async def call(self: C, *args: P.args, **kwargs: P.kwargs) -> T:
            return await self.engine.write(partial(script, _begun(self), *args, **kwargs), name=name)

        return call

    return decorate
