"""The synchronous classes, generated from the asynchronous ones. All calls of a SyncMemory run on the event loop of one portal.

The types of the generated methods are in `sync.pyi`, which `make docs` writes from the asynchronous classes.
"""

import atexit
import inspect
import threading
import weakref
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from functools import wraps
from types import TracebackType
from typing import Any, Final, Self

from memolog.core.portal import Portal, T
from memolog.errors import NotSaved, StoreClosed
from memolog.memory import Memory, Resource, Thread, Tools
from memolog.tasks.calls import Tasks
from memolog.turn import Turn
from memolog.working_memory.calls import WorkingMemory

__all__ = [
    "TWINS",
    "SyncMemory",
    "SyncResource",
    "SyncTasks",
    "SyncThread",
    "SyncTools",
    "SyncTurn",
    "SyncWorkingMemory",
]

TWINS: Final[dict[type, type]] = {}
"""The synchronous class for each asynchronous class."""

# `events` returns an async iterator; synchronous callers use `subscribe` with a callback. `aclose` has the name `close` here.
_ASYNC_ONLY: Final = frozenset({"aclose", "events"})


class _Driven:
    """An asynchronous object and the portal that runs its calls.

    A subclass gets a synchronous form of each public method and value of its `source` that it does not define itself.
    """

    def __init_subclass__(cls, *, source: type) -> None:
        for name in {*dir(source), *inspect.get_annotations(source)} - _ASYNC_ONLY:
            if not name.startswith("_") and name not in vars(cls):
                setattr(cls, name, cls._member(name, getattr(source, name, None)))
        TWINS[source] = cls

    def __init__(self, inner: Any, portal: Portal) -> None:
        self._inner, self._portal = inner, portal

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Driven) and type(other) is type(self) and bool(self._inner == other._inner)

    def __hash__(self) -> int:
        return hash((type(self), self._inner))

    def __repr__(self) -> str:
        return f"Sync{self._inner!r}"

    @staticmethod
    def _member(name: str, member: Any) -> Any:
        """Return the synchronous form of a public method or value of the asynchronous class."""
        if not inspect.isfunction(member):
            return property(lambda self: getattr(self._inner, name), doc=getattr(member, "__doc__", None))
        if inspect.iscoroutinefunction(member):

            @wraps(member)
            def wait(self: "_Driven", *args: Any, **options: Any) -> Any:
                return self._portal.call(getattr(self._inner, name)(*args, **options))

            return wait
        returned = inspect.signature(member).return_annotation

        @wraps(member)
        def call(self: "_Driven", *args: Any, **options: Any) -> Any:
            result = getattr(self._inner, name)(*args, **options)
            return TWINS[returned](result, self._portal) if returned in TWINS else result

        return call


class SyncWorkingMemory(_Driven, source=WorkingMemory):
    """A working memory without `await`."""


class SyncTasks(_Driven, source=Tasks):
    """The tasks of one resource, without `await`."""


class SyncTools(_Driven, source=Tools):
    """The three tools for a model, without `await`."""


class SyncTurn(_Driven, source=Turn):
    """A turn without `await`. Use it as `with thread.turn() as turn`."""

    @property
    def asynchronous(self) -> Turn:
        """Return the asynchronous turn. Run its coroutines with `SyncMemory.run`."""
        return self._inner

    def __enter__(self) -> Self:
        self._portal.call(self.asynchronous.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._portal.call(self.asynchronous.__aexit__(kind, error, trace))


class SyncThread(_Driven, source=Thread):
    """One conversation of a resource, without `await`."""


class SyncResource(_Driven, source=Resource):
    """The memory of one user, project or team, without `await`."""


class SyncMemory(_Driven, source=Memory):
    """A Memory without `await`. Close it, or use it as `with SyncMemory(…) as memory`."""

    def __init__(self, address: str = "memolog.db", **options: Any) -> None:
        """Create a Memory on the event loop of a new thread. The arguments are those of `Memory`."""
        portal = Portal()
        try:
            super().__init__(portal.call(_make(address, options)), portal)
        except BaseException:
            portal.close()
            raise
        atexit.register(self.close)
        _close_at_exit(self)

    @property
    def asynchronous(self) -> Memory:
        """Return the asynchronous Memory. Run its coroutines with `run`."""
        return self._inner

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the event loop of this memory, wait for it, and return its result."""
        return self._portal.call(work)

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Start a coroutine on the event loop of this memory, and return its future."""
        return self._portal.begin(work)

    def open(self) -> None:
        """Open the database if it is not open."""
        self._portal.call(self.asynchronous.open())

    def close(self) -> None:
        """Let background work finish, then close the database and end the thread. Closing twice is harmless."""
        try:
            self._portal.call(self.asynchronous.aclose())
        except StoreClosed:
            return
        except NotSaved:
            self._end()
            raise
        self._end()

    def _end(self) -> None:
        self._portal.close()
        atexit.unregister(self.close)

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.close()
        except NotSaved:
            # An event has reported the loss. Raise the error that ended the block, if there is one.
            if error is None:
                raise


def _close_at_exit(memory: SyncMemory) -> None:
    """Close the memory at exit, before Python waits for the threads that the memory started."""
    close = weakref.WeakMethod(memory.close)
    # This hook, which also ends thread pools, runs before Python waits for threads. `atexit` runs after that.
    register: Callable[[Callable[[], None]], None] | None = getattr(threading, "_register_atexit", None)
    if register is not None:
        register(lambda: call() if (call := close()) else None)


async def _make(address: str, options: dict[str, Any]) -> Memory:
    # This is a coroutine, so that the Memory is created on the event loop that runs its calls.
    return Memory(address, **options)
