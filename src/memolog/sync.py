"""The synchronous classes, generated from the asynchronous ones. All calls of a SyncMemory run on the event loop of one portal.

The types of the generated methods are in `sync.pyi`, which `make docs` writes from the asynchronous classes.
"""

import asyncio
import atexit
import inspect
import logging
import threading
import weakref
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from functools import wraps
from types import TracebackType
from typing import Any, Final, Self

from memolog.core.deadline import T
from memolog.errors import InputError, NotSaved, StoreClosed
from memolog.items.calls import Items
from memolog.memory import Memory, Resource, Route, Thread, Tools
from memolog.tasks.calls import Tasks
from memolog.turn import Turn
from memolog.working_memory.calls import WorkingMemory

__all__ = [
    "TWINS",
    "SyncItems",
    "SyncMemory",
    "SyncResource",
    "SyncTasks",
    "SyncThread",
    "SyncTools",
    "SyncTurn",
    "SyncWorkingMemory",
]

_log = logging.getLogger("memolog")

TWINS: Final[dict[type, type]] = {}
"""The synchronous class for each asynchronous class."""

# `events` returns an async iterator; synchronous callers use `subscribe` with a callback. `aclose` has the name `close` here.
_ASYNC_ONLY: Final = frozenset({"aclose", "events"})


class Portal:
    """An event loop in its own thread, for callers that cannot await. `close` ends it."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        # A daemon thread, so that a script ends even if it does not call `close`.
        self._thread = threading.Thread(target=self._run, name="memolog-portal", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        """Run the loop until it is stopped. If a coroutine raises SystemExit or KeyboardInterrupt, only its caller gets it."""
        while True:
            try:
                return self._loop.run_forever()
            except (KeyboardInterrupt, SystemExit) as stop:
                _log.error("A model or a listener raised %s. The memory goes on without it.", type(stop).__name__)

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop and wait for it."""
        return self.begin(work).result()

    def begin(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Start a coroutine on the loop. Return a future, which another thread can wait for."""
        if not self._thread.is_alive():
            work.close()
            raise StoreClosed
        if self._thread is threading.current_thread():
            work.close()
            raise InputError(
                "A listener cannot call the memory.",
                why="It runs on the memory's own thread, which would wait for itself.",
                then="Hand the event to another thread, and call from there.",
            )
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def close(self) -> None:
        """Stop the loop and join its thread."""
        if self._thread.is_alive():
            # Ends the worker threads of the loop.
            self.call(self._loop.shutdown_default_executor())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()


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


class SyncItems(_Driven, source=Items):
    """The items of one resource, without `await`."""


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

    def __init__(self, address: str | Route = "memolog.db", **options: Any) -> None:
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
        """Wait for background work, then close the database and end the thread. A second call does nothing."""
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
        self._portal.call(self.asynchronous.__aenter__())
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


async def _make(address: str | Route, options: dict[str, Any]) -> Memory:
    # This is a coroutine, so that the Memory is created on the event loop that runs its calls.
    return Memory(address, **options)
