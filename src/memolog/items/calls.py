"""Put, get, delete, list and find the items of a resource."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from memolog.core.clock import Clock
from memolog.core.exact_json import JsonObject, json_texts
from memolog.core.item import Item, ItemChange, Namespace
from memolog.search.facts import scores_of
from memolog.search.query import parse

if TYPE_CHECKING:
    from memolog.connection import Components

_Open: TypeAlias = "Callable[[], Awaitable[Components]]"


class Items:
    """JSON objects that a program stores under namespaces and keys. A context shows none of them.

    The adapter for LangGraph stores the items of its store here.
    """

    resource: str

    def __init__(self, open_components: _Open, open_to_write: _Open, resource: str, clock: Clock) -> None:
        self.resource = resource
        self._open, self._open_to_write, self._clock = open_components, open_to_write, clock

    async def get(self, namespace: Namespace, key: str) -> Item | None:
        """Return an item, or None if it does not exist."""
        return await (await self._open()).store.items.get(self.resource, namespace, key)

    async def put(self, namespace: Namespace, key: str, value: JsonObject) -> None:
        """Store an item. An item with the same namespace and key is replaced, and keeps the time of its creation."""
        await self.change([ItemChange(namespace, key, value)])

    async def delete(self, namespace: Namespace, key: str) -> None:
        """Delete an item. If it does not exist, nothing happens."""
        await self.change([ItemChange(namespace, key, None)])

    async def change(self, changes: Sequence[ItemChange]) -> None:
        """Make several changes in one transaction, in their order."""
        await (await self._open_to_write()).store.items.change(self.resource, changes)

    async def list(self, namespace: Namespace = ()) -> tuple[Item, ...]:
        """Return all items whose namespace begins with these labels, the latest changed first."""
        return await (await self._open()).store.items.under(self.resource, namespace)

    async def namespaces(self, namespace: Namespace = ()) -> tuple[Namespace, ...]:
        """Return the namespaces that begin with these labels and have items."""
        return await (await self._open()).store.items.namespaces(self.resource, namespace)

    async def search(
        self, query: str, namespace: Namespace = (), *, where: Callable[[Item], bool] | None = None
    ) -> tuple[Item, ...]:
        """Return the items of `list`, those that contain words of a query first, with their scores. Any text is a query.

        Only items for which `where` returns True are returned. All items below the namespace are read and compared with the
        query, so a namespace should not have more than some ten thousand.
        """
        found = [item for item in await self.list(namespace) if where is None or where(item)]
        # Comparing many items takes long, and must not block the event loop.
        scores = await asyncio.to_thread(scores_of, parse(query, self._clock.now()), [_text(item) for item in found])
        scored = [replace(item, score=score or None) for item, score in zip(found, scores, strict=True)]
        return tuple(sorted(scored, key=lambda item: -(item.score or 0)))


def _text(item: Item) -> str:
    return "\n".join((item.key, *json_texts(item.value)))
