"""Report the progress of long calls, such as an import, to a listener that the caller has set around them."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, TypeAlias

Listener: TypeAlias = Callable[[str, int, int | None], None]
"""Called with what is counted ("messages"), how many are done, and how many there are. None means that the total is unknown.

It may be called on a worker thread, and again with smaller numbers after a transaction was repeated.
"""

_listener: Final[ContextVar[Listener | None]] = ContextVar("memolog_progress", default=None)


@contextmanager
def listening(listener: Listener) -> Generator[None]:
    """Send the progress of every call inside the block to a listener."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


def is_heard() -> bool:
    """Return whether there is a listener. Without one, it is not worth counting how much there is to do."""
    return _listener.get() is not None


def report(what: str, done: int, total: int | None = None) -> None:
    """Tell the listener, if there is one, how far the call has come."""
    listener = _listener.get()
    if listener is not None:
        listener(what, done, total)
