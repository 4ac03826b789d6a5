"""Store, get, delete and list items. A call for one resource never finds an item of another resource."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, cast

from memolog.core.clock import Clock, from_micros
from memolog.core.exact_json import JsonObject, dumps, loads, object_text
from memolog.core.item import Item, ItemChange, Namespace
from memolog.db.engine import Engine, TimedCalls, reads, writes
from memolog.db.queries import Row, Script, load_queries
from memolog.db.scope import CleanValue, check_id, check_ids
from memolog.errors import InputError

q = load_queries("items/items")

# Namespace and key are columns of an index, whose entries PostgreSQL limits to about 2,700 bytes.
_MOST_NAME_BYTES: Final = 2_000
_SHOWN: Final = 40


class StoredItems(TimedCalls):
    """Reads and writes items. Each call is for one resource."""

    def __init__(self, engine: Engine, clock: Clock, most: int, clean: CleanValue | None = None) -> None:
        """`most` is the maximum size of a value in bytes. `clean` removes secrets from a value."""
        super().__init__(engine, clock)
        self._most, self._clean = most, clean

    @reads
    def get(self, resource: str, namespace: Namespace, key: str) -> Script[Item | None]:
        """Return an item, or None if it does not exist."""
        check_ids(resource=resource)
        rows = yield q.get_item(resource=resource, namespace=_path(namespace, key), key=key)
        return _item(rows[0]) if rows else None

    @reads
    def under(self, resource: str, namespace: Namespace) -> Script[tuple[Item, ...]]:
        """Return the items whose namespace begins with these labels, the latest changed first."""
        check_ids(resource=resource)
        rows = yield q.items_under(resource=resource, prefix=_prefix(namespace))
        return tuple(map(_item, rows))

    @reads
    def namespaces(self, resource: str, namespace: Namespace) -> Script[tuple[Namespace, ...]]:
        """Return the namespaces that begin with these labels and have items, in the order of their labels."""
        check_ids(resource=resource)
        rows = yield q.namespaces(resource=resource, prefix=_prefix(namespace))
        return tuple(sorted(_labels(row.namespace) for row in rows))

    @writes("items.change")
    def change(self, resource: str, changes: Sequence[ItemChange]) -> Script[None]:
        """Put and delete items in one transaction, in their order."""
        check_ids(resource=resource)
        now = self._now()
        ready = [(_path(one.namespace, one.key), one.key, self._text(one)) for one in changes]
        for namespace, key, value in ready:
            name = {"resource": resource, "namespace": namespace, "key": key}
            yield q.delete_item(**name) if value is None else q.put_item(**name, value=value, now=now)

    def _text(self, change: ItemChange) -> str | None:
        if change.value is None:
            return None
        if self._clean is not None and any(self._clean(name) != name for name in (*change.namespace, change.key)):
            raise InputError(
                "The key or the namespace of the item contains a secret.",
                why="With `redact_raw` no secret is stored. Without the secret, the names of two items could become the same.",
                then="Use another name, and put the secret into the value, where it is removed.",
            )
        value = change.value if self._clean is None else cast("JsonObject", self._clean(change.value))
        text = object_text(f"The value of the item {change.key!r:.{_SHOWN}}", value)
        if (size := len(text.encode())) > self._most:
            raise InputError(
                f"The item {change.key!r:.{_SHOWN}} has {size:,} bytes, more than the limit of {self._most:,}.",
                then="Store the large part elsewhere and its URL in the item, or raise max_message_bytes.",
            )
        return text


def _path(namespace: Namespace, key: str) -> str:
    """Return the stored form of a namespace. Raise InputError if the namespace is empty, or the key is not a valid id."""
    check_id("item", key)
    if not namespace:
        raise InputError("The namespace of the item is empty.", then='Pass at least one label: ("memories",).')
    path = f"{_prefix(namespace)}]"
    if (size := len(path.encode()) + len(key.encode())) > _MOST_NAME_BYTES:
        raise InputError(
            f"Namespace and key have {size:,} bytes, more than the limit of {_MOST_NAME_BYTES:,}.",
            then="Use shorter labels, and put long texts into the value.",
        )
    return path


def _prefix(namespace: Namespace) -> str:
    """Return the beginning of the stored form of all namespaces that begin with these labels."""
    if isinstance(namespace, str) or not isinstance(namespace, list | tuple):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InputError(
            f"The namespace must be a tuple of labels, got {namespace!r:.{_SHOWN}}.", then='Pass ("memories",).'
        )
    for label in namespace:
        check_id("label", label)
    return dumps(list(namespace))[:-1]


def _labels(stored: str) -> Namespace:
    return tuple(cast("list[str]", loads(stored)))


def _item(row: Row) -> Item:
    return Item(
        namespace=_labels(row.namespace),
        key=row.key,
        value=loads(row.value),
        created_at=from_micros(row.created_at),
        updated_at=from_micros(row.updated_at),
    )
