"""What is handed to an adapter, looked at before anything is done with it.

Knows what a memory is, and what can stand in an `except`. Knows no framework.
"""

from typing import Any, TypeGuard, cast

from memolog.domain.errors import InputError
from memolog.runtime.memory import Memory
from memolog.runtime.sync import SyncMemory

__all__ = ["check_errors", "check_memory", "check_sync_memory"]


def check_memory(memory: object, *, sync_too: bool = False) -> None:
    """Refuse what is no open memory; a `SyncMemory` too, unless the adapter can serve callers that do not await."""
    if isinstance(memory, Memory) or (sync_too and isinstance(memory, SyncMemory)):
        return
    if isinstance(memory, SyncMemory):
        raise InputError(
            "A SyncMemory cannot be used here.",
            why="This is awaited, and a SyncMemory is for callers that do not await.",
            then="Hand in a Memory: `async with Memory(…) as memory`.",
        )
    raise _no_memory(memory, "Memory or a SyncMemory" if sync_too else "Memory")


def check_sync_memory(memory: object) -> None:
    """Refuse what is no `SyncMemory`, for callers that do not await."""
    if not isinstance(memory, SyncMemory):
        raise _no_memory(memory, "SyncMemory")


def check_errors(name: str, given: object) -> None:
    """Refuse what is neither an exception class nor a tuple of them: nothing would ever match it."""
    classes: tuple[object, ...] = cast("tuple[Any, ...]", given) if isinstance(given, tuple) else (given,)
    for one in classes:
        if not _is_error(one):
            raise InputError(
                f"{name} holds {one!r}, which is no exception class.",
                why="An error is compared with these, and nothing is ever one of that.",
                then=f"Pass a class or a tuple of classes: {name}=(Blocked,).",
            )


def _is_error(one: object) -> TypeGuard[type[BaseException]]:
    return isinstance(one, type) and issubclass(one, BaseException)


def _no_memory(given: object, wanted: str) -> InputError:
    # Not the value itself: it may be an address, with a password in it.
    return InputError(
        f"A {type(given).__name__} was handed in where a {wanted} belongs.",
        then=f'Open one first and hand that in: {wanted.rsplit(maxsplit=1)[-1]}("memolog.db").',
    )
