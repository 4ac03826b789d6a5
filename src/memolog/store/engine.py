"""What an engine must offer: connect, run a script in a transaction, map errors. Nothing else.

Knows the contract. Policy (what to store, who wins) lives in the scripts, which are the same for every engine.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TypeAlias, TypeVar

from memolog.store.sql import Script

__all__ = ["CommitHook", "Engine", "Work"]

T = TypeVar("T")
R = TypeVar("R")

Work: TypeAlias = Callable[[], Script[R]]
"""Makes a fresh script: a lost race runs it again from the start, on what is there then."""

CommitHook: TypeAlias = Callable[[str], None]
"""Called with `NAME:before` and `NAME:after` around the commit of each write; crash tests stop the world there."""


class Engine(ABC):
    """A database that runs scripts."""

    commit_hook: CommitHook | None = None
    file: str | None = None
    """The one file that holds the database, where it is a file of ours."""

    @abstractmethod
    async def read(self, work: Work[T], *, brief: bool = True) -> T:
        """Run a script on one consistent snapshot. `brief` promises that it touches few rows."""

    @abstractmethod
    async def write(self, work: Work[T], *, name: str, brief: bool = True) -> T:
        """Run a script in one transaction and commit it; on any error nothing of it stays.

        Writers of one thread wait for each other in the order in which they commit. A race that the database refuses is
        run again with a fresh script. `name` is the commit point's name; `brief` promises that it writes little.
        """

    async def write_and_read(self, writing: Work[T], reading: Work[R], *, name: str, brief: bool = True) -> tuple[T, R]:
        """Write, and read what is there after it at one moment.

        A transaction that writes sees what others commit meanwhile, from one statement to the next, unless an engine lets
        only one write at a time: so what must fit together is read in another.
        """
        written = await self.write(writing, name=name, brief=brief)
        return written, await self.read(reading)

    async def settled(self) -> None:  # noqa: B027 - most engines leave nothing behind
        """Wait until nothing is left of calls that were cancelled."""

    @abstractmethod
    async def close(self) -> None:
        """Finish what is running and let go of the database. Closing twice is harmless."""

    def reached(self, name: str, moment: str) -> None:
        """Tell whoever listens that a commit point is reached."""
        if self.commit_hook is not None:
            self.commit_hook(f"{name}:{moment}")
