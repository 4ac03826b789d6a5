"""A store of LangGraph: its items are the items of a resource, and conversations of the resource are found through it too."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, cast

from langgraph.store.base import (
    BaseStore,
    GetOp,
    Item,
    ListNamespacesOp,
    MatchCondition,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
)

from memolog import NotFound, SearchResult
from memolog.adapters import at_once
from memolog.adapters.driver import Driver
from memolog.adapters.guards import check_memory
from memolog.core.item import Item as StoredItem
from memolog.core.item import ItemChange, Namespace
from memolog.errors import InputError
from memolog.memory import Memory, Resource
from memolog.sync import SyncMemory

_ORDERED: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "$gt": lambda a, b: a > b,
    "$gte": lambda a, b: a >= b,
    "$lt": lambda a, b: a < b,
    "$lte": lambda a, b: a <= b,
}
_PAGE: Final = 50


class MemologStore(BaseStore):
    """A store for `builder.compile(store=MemologStore(memory))`.

    Each item belongs to a resource, and a call that does not name its resource is refused. With a query, items are found by their
    words. Items do not expire: LangGraph refuses `ttl`.
    """

    def __init__(
        self, memory: Memory | SyncMemory, *, resource: str | int = 0, conversations: str | None = "conversations"
    ) -> None:
        """Set the memory, and where namespaces name the resource.

        `resource` is the position of the label that names it: 0 for `("alice", "notes")`, 1 for `("notes", "alice")`. Or it is
        the id of the one resource of all namespaces. `conversations` is the label, directly after that of the resource, under
        which the messages and the log are searched: `store.search(("alice", "conversations"), query="…")`. With None there is no
        such label.
        """
        super().__init__()
        check_memory(memory, Memory, SyncMemory)
        is_position = isinstance(resource, int) and not isinstance(resource, bool) and resource >= 0
        if not is_position and not (isinstance(resource, str) and resource):
            raise InputError(
                f"`resource` must be the position of a label or the id of a resource, got {resource!r}.",
                then='Pass resource=0 for namespaces such as ("alice", "notes"), or resource="alice".',
            )
        self._driver = Driver(memory)
        self._resource, self._conversations = resource, conversations

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Run operations. This needs a `SyncMemory`."""
        return at_once(self._driver.now(self._batch(list(ops))))

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Run operations. As in the stores of LangGraph, the operations that read are run before those that write."""
        return await self._driver.later(self._batch(list(ops)))

    async def _batch(self, ops: Sequence[Op]) -> list[Result]:
        results: list[Result] = []
        changes = defaultdict[str, list[ItemChange]](list)
        for op in ops:
            match op:
                case PutOp():
                    changes[self._owner(op.namespace)].append(self._change(op))
                    results.append(None)
                case GetOp():
                    results.append(await self._get(op))
                case SearchOp():
                    results.append(await self._search(op))
                case ListNamespacesOp():
                    results.append(await self._list(op))
        for owner, several in changes.items():
            await self._driver.memory.resource(owner).items().change(several)
        return results

    # ------------------------------------------------------------ namespaces

    def _owner(self, namespace: Sequence[str]) -> str:
        """Return the resource of a namespace. Raise InputError if the namespace does not name it."""
        if isinstance(self._resource, str):
            return self._resource
        if len(namespace) <= self._resource or namespace[self._resource] == "*":
            raise InputError(
                f"The namespace {tuple(namespace)} does not name its resource.",
                why=f"Label {self._resource} of each namespace is the resource, and nobody may read those of all.",
                then="Pass a longer namespace or prefix, or set `resource` of the store.",
            )
        return namespace[self._resource]

    def _thread(self, namespace: Sequence[str]) -> tuple[bool, str | None]:
        """Return whether a namespace is that of the conversations, and the thread in it."""
        place = 0 if isinstance(self._resource, str) else self._resource + 1
        if self._conversations is None or tuple(namespace[place : place + 1]) != (self._conversations,):
            return False, None
        return True, namespace[place + 1] if len(namespace) > place + 1 else None

    # ------------------------------------------------------------ operations

    def _change(self, op: PutOp) -> ItemChange:
        if self._thread(op.namespace)[0]:
            raise InputError(
                f"The label {self._conversations!r} is for searching the conversations. Nothing can be written there.",
                then="Use another label, or MemologStore(…, conversations=None).",
            )
        if op.ttl is not None:
            raise NotImplementedError("The items of this store do not expire. Leave out ttl, or pass ttl=None.")
        return ItemChange(tuple(op.namespace), op.key, None if op.value is None else dict(op.value))

    async def _get(self, op: GetOp) -> Item | None:
        resource = self._driver.memory.resource(self._owner(op.namespace))
        is_conversation, thread = self._thread(op.namespace)
        if is_conversation:
            return await _message(resource, op, thread)
        item = await resource.items().get(tuple(op.namespace), op.key)
        return None if item is None else Item(**_fields(item))

    async def _search(self, op: SearchOp) -> list[SearchItem]:
        resource = self._driver.memory.resource(self._owner(op.namespace_prefix))
        is_conversation, thread = self._thread(op.namespace_prefix)
        end = op.offset + op.limit
        if is_conversation:
            return (await _said(resource, op, thread, end))[op.offset : end]
        wanted = op.filter or {}
        for name, condition in wanted.items():
            _check(name, condition)
        items, prefix = resource.items(), tuple(op.namespace_prefix)
        if op.query:
            found = await items.search(op.query, prefix, where=lambda item: _has_all(item.value, wanted))
        else:
            found = [item for item in await items.list(prefix) if _has_all(item.value, wanted)]
        return [SearchItem(**_fields(item), score=item.score) for item in found[op.offset : end]]

    async def _list(self, op: ListNamespacesOp) -> list[tuple[str, ...]]:
        conditions = op.match_conditions or ()
        prefix = next((one.path for one in conditions if one.match_type == "prefix"), ())
        found = await self._driver.memory.resource(self._owner(prefix)).items().namespaces()
        matching = [one for one in found if all(_matches(condition, one) for condition in conditions)]
        shown = sorted({one[: op.max_depth] for one in matching})
        return shown[op.offset : op.offset + op.limit]


def _fields(item: StoredItem) -> dict[str, Any]:
    return {
        "namespace": item.namespace,
        "key": item.key,
        "value": dict(item.value),
        "created_at": item.created_at,
        "updated_at": item.updated_at,
    }


def _matches(condition: MatchCondition, namespace: Namespace) -> bool:
    path, labels = tuple(condition.path), namespace
    if condition.match_type == "suffix":
        path, labels = path[::-1], labels[::-1]
    return len(labels) >= len(path) and all(want in {"*", label} for want, label in zip(path, labels, strict=False))


# ---------------------------------------------------------------- filters


def _check(name: str, condition: object) -> None:
    """Raise ValueError for an unknown operator, as the stores of LangGraph do."""
    for operator in cast("Mapping[str, object]", condition) if isinstance(condition, Mapping) else ():
        if operator.startswith("$") and operator not in {"$eq", "$ne", *_ORDERED}:
            known = ", ".join(("$eq", "$ne", *_ORDERED))
            raise ValueError(f"Unsupported operator {operator} for {name!r}. Use one of {known}.")


def _has_all(value: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    return all(_has(value.get(name), condition) for name, condition in wanted.items())


def _has(value: Any, wanted: Any) -> bool:
    """Return whether a value is equal to the wanted one, or meets all of its operators. Objects may have further fields."""
    if not isinstance(wanted, Mapping):
        return bool(value == (list(cast("Iterable[Any]", wanted)) if isinstance(wanted, tuple) else wanted))
    conditions = cast("Mapping[str, Any]", wanted)
    if any(name.startswith("$") for name in conditions):
        return all(_meets(value, operator, operand) for operator, operand in conditions.items())
    return isinstance(value, Mapping) and _has_all(cast("Mapping[str, Any]", value), conditions)


def _meets(value: Any, operator: str, operand: Any) -> bool:
    if operator in {"$eq", "$ne"}:
        return (value == operand) is (operator == "$eq")
    # Values that cannot be ordered, such as a missing one, are outside of every range.
    with suppress(TypeError):
        return operator in _ORDERED and _ORDERED[operator](value, operand)
    return False


# ---------------------------------------------------------------- conversations


async def _message(resource: Resource, op: GetOp, thread: str | None) -> Item | None:
    """Return a message by its id."""
    try:
        rows = [row for row in await resource.message(op.key, thread=thread) if row.state == "live"]
    except NotFound:
        return None
    if not rows:
        return None
    value = {"content": "\n\n".join(filter(None, (row.text for row in rows))), "source": "raw", "role": rows[0].role}
    times = {"created_at": rows[0].created_at, "updated_at": rows[-1].created_at}
    return Item(namespace=tuple(op.namespace), key=op.key, value={**value, "thread": rows[0].thread}, **times)


async def _said(resource: Resource, op: SearchOp, thread: str | None, most: int) -> list[SearchItem]:
    """Return what was said and observed, the best results for the query first."""
    if not op.query:
        raise InputError("A search of the conversations needs a query.", then='Pass query="…".')
    found: list[SearchItem] = []
    cursor: str | None = None
    while len(found) < most:
        answer = await resource.search(op.query, thread=thread, limit=_PAGE, cursor=cursor)
        items = [_search_item(result, op, thread) for result in answer.results]
        found += [item for item in items if _has_all(item.value, op.filter or {})]
        cursor = answer.next
        if cursor is None:
            break
    return found


def _search_item(result: SearchResult, op: SearchOp, thread: str | None) -> SearchItem:
    of_thread = () if thread is not None or result.thread is None else (result.thread,)
    value = {"content": result.content, "source": result.source, "role": result.role, "thread": result.thread}
    at: Any = result.at
    return SearchItem((*op.namespace_prefix, *of_thread), result.id, value, at, at, score=result.score)
