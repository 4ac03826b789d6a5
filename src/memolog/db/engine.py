"""Define what an engine offers: run a script in a transaction, and close. The scripts are the same for every engine."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from functools import partial, wraps
from typing import Any, Concatenate, ParamSpec, TypeAlias, TypeVar

from memolog.db.queries import Row, Script, Step

T = TypeVar("T")
R = TypeVar("R")
P = ParamSpec("P")

Work: TypeAlias = Callable[[], Script[R]]
"""Makes a fresh script, since a transaction that lost a race runs again from the start."""

CommitHook: TypeAlias = Callable[[str], None]
"""Called with `NAME:before` and `NAME:after` around the commit of each write, for crash tests."""


class Engine(ABC):
    """A database that runs scripts."""

    commit_hook: CommitHook | None = None
    file: str | None = None
    """The path of the database, if it is one file."""

    @abstractmethod
    async def read(self, work: Work[T], *, brief: bool = True) -> T:
        """Run a script on one consistent snapshot. Pass `brief=False` if it reads many rows."""

    @abstractmethod
    async def write(self, work: Work[T], *, name: str, brief: bool = True) -> T:
        """Run a script in one transaction and commit it; after an error nothing is changed.

        Writers of one thread wait for each other in the order in which they commit. After a lost race the transaction runs again
        with a fresh script. `name` is the name of the commit point. Pass `brief=False` if it writes much.
        """

    async def fetch(self, step: Step, make: Callable[[Row], T], *, brief: bool = True) -> tuple[T, ...]:
        """Run one query and return its rows as values."""

        def script() -> Script[tuple[T, ...]]:
            rows = yield step
            return tuple(map(make, rows))

        return await self.read(script, brief=brief)

    async def write_and_read(self, writing: Work[T], reading: Work[R], *, name: str, brief: bool = True) -> tuple[T, R]:
        """Write, then read the result at one moment.

        Unless an engine allows one writer only, a transaction that writes sees what others commit meanwhile. So the second
        script runs on a snapshot of its own.
        """
        written = await self.write(writing, name=name, brief=brief)
        return written, await self.read(reading)

    async def settled(self) -> None:  # noqa: B027 - most engines leave nothing behind
        """Wait until cancelled calls have been cleaned up."""

    @abstractmethod
    async def close(self) -> None:
        """Finish what is running and close the database. Closing twice is harmless."""

    def reached(self, name: str, moment: str) -> None:
        """Call the commit hook, if there is one."""
        if self.commit_hook is not None:
            self.commit_hook(f"{name}:{moment}")


class Calls:
    """The calls of a room on one engine. A method that is a script becomes a call by `reads` or `writes`."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine


C = TypeVar("C", bound=Calls)


def reads(script: Callable[Concatenate[C, P], Script[T]]) -> Callable[Concatenate[C, P], Coroutine[Any, Any, T]]:
    """Run a script on one consistent snapshot when the method is called."""

    @wraps(script)
    async def call(self: C, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.engine.read(partial(script, self, *args, **kwargs))

    return call


def writes(
    name: str,
) -> Callable[[Callable[Concatenate[C, P], Script[T]]], Callable[Concatenate[C, P], Coroutine[Any, Any, T]]]:
    """Run a script in one transaction with this commit point when the method is called."""

    def decorate(script: Callable[Concatenate[C, P], Script[T]]) -> Callable[Concatenate[C, P], Coroutine[Any, Any, T]]:
        @wraps(script)
        async def call(self: C, *args: P.args, **kwargs: P.kwargs) -> T:
            return await self.engine.write(partial(script, self, *args, **kwargs), name=name)

        return call

    return decorate
