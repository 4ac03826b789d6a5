"""Merge two changes of one document: both are kept where they touch different sections or top-level fields."""

from collections.abc import Hashable, Mapping
from typing import Final, TypeVar, cast

from memolog.documents.markdown import pieces_of
from memolog.domain.codec import JsonObject

__all__ = ["merged", "merged_values"]

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

_GONE: Final = object()
"""Stands for what is not there, where None is a value."""


def merged(base: str, present: str, wanted: str) -> tuple[str, tuple[str, ...]]:
    """Return the present Markdown with what `wanted` changed of `base`, and the sections that both changed."""
    if wanted in {base, present}:
        return present, ()
    if present == base:
        return wanted, ()
    pieces, both = _three(pieces_of(base), pieces_of(present), pieces_of(wanted))
    text = "\n\n".join(piece.strip("\n") for piece in pieces.values() if piece.strip())
    return (f"{text}\n" if text else ""), tuple(" > ".join(path) or "the beginning" for path in both)


def merged_values(base: JsonObject, present: JsonObject, wanted: JsonObject) -> tuple[JsonObject, tuple[str, ...]]:
    """Return the present object with the fields that `wanted` changed of `base`, and those that both changed."""
    return _three(base, present, wanted)


def _three(base: Mapping[K, V], present: Mapping[K, V], wanted: Mapping[K, V]) -> tuple[dict[K, V], tuple[K, ...]]:
    """Merge by key. The order is the present one; what is new comes before the key that follows it in `wanted`."""
    order = list(present)
    place = len(order)
    for key in reversed(list(wanted)):
        if key in order:
            place = order.index(key)
        else:
            order.insert(place, key)
    result: dict[K, V] = {}
    both: list[K] = []
    for key in order:
        was, now, new = base.get(key, _GONE), present.get(key, _GONE), wanted.get(key, _GONE)
        is_ours, is_theirs = new != was, now != was
        if is_ours and is_theirs and new != now:
            both.append(key)
        kept = now if is_theirs else new
        if kept is not _GONE:
            result[key] = cast("V", kept)
    return result, tuple(both)
