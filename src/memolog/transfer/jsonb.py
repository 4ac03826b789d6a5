"""JSON in the binary form that newer SQLite versions store, read without them.

Knows the format: a byte with kind and length before each value. Knows nothing of databases.
"""

import json
from typing import Any

__all__ = ["read_jsonb"]

_LONG = {12: 1, 13: 2, 14: 4, 15: 8}
_NULL, _TRUE, _FALSE = 0, 1, 2
_NUMBERS = frozenset({3, 4, 5, 6})
_RAW_TEXT = frozenset({7, 10})
_ESCAPED_TEXT = frozenset({8, 9})
_ARRAY, _OBJECT = 11, 12


def read_jsonb(blob: bytes) -> Any:
    """Return the value; raises ValueError if it is none."""
    try:
        value, end = _value(blob, 0)
    except (IndexError, RecursionError) as error:
        raise ValueError("the value ends too early, or is too deep") from error
    if end != len(blob):
        raise ValueError("there is something after the value")
    return value


def _value(blob: bytes, at: int) -> tuple[Any, int]:
    kind, length = blob[at] & 15, blob[at] >> 4
    at += 1
    if length in _LONG:
        size = _LONG[length]
        length, at = int.from_bytes(blob[at : at + size], "big"), at + size
    end = at + length
    if end > len(blob):
        raise ValueError("the value ends too early")
    if kind in {_ARRAY, _OBJECT}:
        return _items(blob, at, end, kind), end
    return _plain(kind, blob[at:end].decode()), end


def _plain(kind: int, text: str) -> Any:
    if kind in _RAW_TEXT:
        return text
    if kind in _ESCAPED_TEXT:
        return json.loads(f'"{text}"')
    if kind in _NUMBERS:
        return int(text, 0) if text.lower().lstrip("+-").startswith("0x") else json.loads(text)
    if kind in {_NULL, _TRUE, _FALSE}:
        return {_NULL: None, _TRUE: True, _FALSE: False}[kind]
    raise ValueError(f"there is no kind {kind}")


def _items(blob: bytes, at: int, end: int, kind: int) -> Any:
    items: list[Any] = []
    while at < end:
        item, at = _value(blob, at)
        items.append(item)
    return items if kind == _ARRAY else dict(zip(items[::2], items[1::2], strict=True))
