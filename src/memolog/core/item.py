"""An item: a JSON object that a program stores for a resource under a namespace and a key."""

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple, TypeAlias

from memolog.core.exact_json import JsonObject

Namespace: TypeAlias = tuple[str, ...]
"""A path of labels, such as `("memories", "preferences")`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """A stored object."""

    namespace: Namespace
    key: str
    value: JsonObject
    created_at: datetime
    updated_at: datetime
    score: float | None = None
    """How well the item answers a query. None if there was no query, or if the item contains no word of it."""


class ItemChange(NamedTuple):
    """A change of one item. With the value None the item is deleted."""

    namespace: Namespace
    key: str
    value: JsonObject | None
