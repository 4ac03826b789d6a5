"""Over-estimate the tokens of any object without raising."""

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, cast

__all__ = ["guarded", "over_estimate"]

# Real texts have about four bytes a token; three leaves a third to spare.
_BYTES_PER_TOKEN: Final = 3
_WRAPPING: Final = 8
# A cyclic value ends here; a value this large is far above every threshold anyway.
_MOST_NODES: Final = 100_000
_MOST_BYTES: Final = 60_000
_UNREADABLE: Final = 300
_NUMBER: Final = 24


def guarded(measure: Callable[[], int], value: object) -> int:
    """Return what `measure` says, or an over-estimate of `value` if anything at all goes wrong."""
    try:
        return max(int(measure()), 0)
    except Exception:  # noqa: BLE001 - a count must never stop a turn
        return over_estimate(value)


def over_estimate(value: object) -> int:
    """Return more tokens than `value` is likely to cost; never raises."""
    size, todo, left = 0, [value], _MOST_NODES
    while todo and left:
        left -= 1
        item = todo.pop()
        try:
            size += _own_size(item)
            todo.extend(_inside(item))
        except Exception:  # noqa: BLE001 - objects may raise anything when looked at
            size += _UNREADABLE
    return _WRAPPING + -(-size // _BYTES_PER_TOKEN)


def _own_size(item: object) -> int:
    match item:
        case str():
            return len(item.encode("utf-8", "surrogatepass")) + 2
        case bytes() | bytearray() | memoryview():
            # Raw bytes are a file, and no file is shown to a model byte by byte.
            return min(len(cast("bytes", item)), _MOST_BYTES)
        case int():
            # Digits without printing them: Python refuses to print very long numbers.
            return item.bit_length() // 3 + 2
        case None | float():
            return _NUMBER
        case Mapping() | list() | tuple() | set() | frozenset():
            return 2 + 2 * len(cast("list[object]", item))
        case _:
            return _WRAPPING if _is_value(item) else len(repr(item))


def _inside(item: object) -> Iterable[object]:
    match item:
        case Mapping():
            entries = cast("Mapping[object, object]", item)
            return [*entries.keys(), *entries.values()]
        case list() | tuple() | set() | frozenset():
            return cast("list[object]", item)
        case _ if _is_value(item):
            return [getattr(item, field.name, None) for field in dataclasses.fields(cast("Any", item))]
        case _:
            return ()


def _is_value(item: object) -> bool:
    return dataclasses.is_dataclass(item) and not isinstance(item, type)
