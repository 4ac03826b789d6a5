"""The synchronous face, made from the asynchronous one: every call runs on the event loop of one portal.

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
"""The synchronous class of each asynchronous one."""

# An async iterator has no synchronous form; `subscribe` takes a callback instead. `aclose` is named `close`.
_ASYNC_ONLY: Final = frozenset({"aclose", "events"})


class _Driven:
    """An asynchronous object and the portal that runs its calls.

    A subclass gets the public methods and values of its `source`, except those that it writes out.
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
        """Return a public method or value of the asynchronous class in its synchronous form."""
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
        """Return the turn itself; its coroutines run with `SyncMemory.run`."""
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
    """Memory without `await`; close it, or use it as `with SyncMemory(…) as memory`."""

    def __init__(self, address: str = "memolog.db", **options: Any) -> None:
        """Take what `Memory` takes."""
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
        """Return the memory itself; its coroutines run with `run`, on the event loop that it belongs to."""
        return self._inner

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the event loop of this memory and wait for it."""
        return self._portal.call(work)

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Start a coroutine on the event loop of this memory; returns its future."""
        return self._portal.begin(work)

    def open(self) -> None:
        """Open the database, if that has not been done."""
        self._portal.call(self.asynchronous.open())

    def close(self) -> None:
        """Let background work finish, then let go of the database and the thread."""
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
            # An event has reported it; the error that ended the block comes first.
            if error is None:
                raise


def _close_at_exit(memory: SyncMemory) -> None:
    """Close a memory that a script did not close, before Python waits for the threads that the memory started."""
    close = weakref.WeakMethod(memory.close)
    # The hook that ends thread pools: it runs before Python waits for threads, `atexit` only after that.
    register: Callable[[Callable[[], None]], None] | None = getattr(threading, "_register_atexit", None)
    if register is not None:
        register(lambda: call() if (call := close()) else None)


async def _make(address: str, options: dict[str, Any]) -> Memory:
    # A coroutine, so that the memory is made on the loop that it will live on.
    return Memory(address, **options)
