"""Holes: a library's own JSON object, kept beside a part with nothing where the part's own fields go.

Knows how to make them and how to fill them, so that the object comes back as it was, in its order, and no text or data is
kept twice. Knows no library.
"""

import base64
from collections.abc import Mapping
from typing import Any, TypeAlias, cast

from memolog.domain.message import Part

__all__ = ["JsonDict", "Path", "filled", "holding", "value_at"]

JsonDict: TypeAlias = dict[str, Any]
Path: TypeAlias = tuple[str | int, ...]


def holding(block: JsonDict, /, **holes: Path) -> JsonDict:
    """Return the object with a hole for each field of a part, and where they are."""
    hollow = _copied(block)
    for path in holes.values():
        _put(hollow, path, None)
    return {"block": hollow, "at": {name: list(path) for name, path in holes.items()}}


def filled(part: Part, kept: Mapping[str, Any]) -> JsonDict:
    """Return the object that `holding` made hollow, with the part's fields in their places."""
    block: JsonDict = _copied(kept["block"])
    holes: Mapping[str, Any] = kept.get("at") or {}
    for name, path in holes.items():
        value: Any = getattr(part, name)
        if isinstance(value, bytes):
            value = kept.get("head", "") + base64.b64encode(value).decode()
        _put(block, tuple(path), value)
    return block


def value_at(block: Any, path: Path) -> Any:
    """Return what an object holds at a path; None where it ends before."""
    for key in path:
        if not isinstance(block, Mapping):
            return None
        block = cast("Mapping[str | int, Any]", block).get(key)
    return block


def _copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copied(one) for key, one in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [_copied(one) for one in cast("list[Any]", value)]
    return value


def _put(block: Any, path: Path, value: Any) -> None:
    for key in path[:-1]:
        block = block[key]
    block[path[-1]] = value
