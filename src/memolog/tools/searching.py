"""Perform `memory-search`: search, recall."""

import re
from contextlib import suppress
from typing import Any, Final

from memolog.domain.errors import ThreadNotFound
from memolog.domain.search import SearchResult
from memolog.tools.actions import Recall, Search
from memolog.tools.scope import Scope
from memolog.tools.showing import ROOM, clip, fitting, minute

__all__ = ["search_memory"]

_PAGE_TOKENS: Final = 1_700
_SNIPPET: Final = 600
_MOST_RELAXED: Final = 8
# Numbers and groups are those of this thread, unless another is named; ids are found wherever they are.
_OF_THREAD: Final = re.compile(r"\s*(?:#?\d+(?:\s*(?:-|–|—|\.\.|to)\s*#?\d+)?|g\d+(?:\.\d+)?)\s*", re.IGNORECASE)
_HERE: Final = frozenset({"this", "current", "here"})
_DOCUMENT: Final = frozenset({"workingmemory", "context", "facts"})


async def search_memory(scope: Scope, action: Search | Recall) -> dict[str, Any]:
    """Return what was found, or what was said."""
    return await (_search(scope, action) if isinstance(action, Search) else _recall(scope, action))


def _thread(scope: Scope, name: str | None) -> str | None:
    if name is None or name.casefold() in {"all", "any", "*"}:
        return None
    return scope.thread if name.casefold() in _HERE else name


async def _search(scope: Scope, action: Search) -> dict[str, Any]:
    query = " ".join([action.query, *_operators(action)])
    thread = _thread(scope, action.thread)

    async def page(limit: int) -> Any:
        return await scope.memory.resource(scope.resource).search(
            query, thread=thread, limit=limit, sources=action.sources or None, cursor=action.cursor
        )

    found = await page(action.limit)
    shown = fitting(found.results, _hit, ROOM)
    if len(shown) < len(found.results):
        found = await page(len(shown))
        shown = [_hit(result) for result in found.results]
    answer: dict[str, Any] = {"results": shown, "total": found.total}
    if found.relaxed:
        answer["not_found_as_written"] = list(found.relaxed)[:_MOST_RELAXED]
    if not shown:
        quoted = "leave out the quotes, or " if '"' in action.query else ""
        answer["hint"] = f"Nothing was found. To find more, {quoted}try other words, or a part of a name with *."
    if found.next is not None:
        answer["cursor"] = found.next
    return answer


def _operators(action: Search) -> list[str]:
    """Return the narrowing fields as search's own operators."""
    given = {
        "role": action.role,
        "task": action.task,
        "after": action.since.date().isoformat() if action.since else None,
        "before": action.until.date().isoformat() if action.until else None,
    }
    return [f'{name}:"{value.replace(chr(34), " ")}"' for name, value in given.items() if value]


def _hit(result: SearchResult) -> dict[str, Any]:
    told = {
        "source": result.source,
        "id": result.id,
        "at": minute(result.at),
        "thread": result.thread,
        "number": result.seq,
        "role": result.role,
        "task": result.task,
        "text": clip(result.snippet or result.content, _SNIPPET),
        # Marks inside code make it useless to copy.
        "exact": clip(result.exact, _SNIPPET) if result.exact != result.snippet else None,
    }
    return {name: value for name, value in told.items() if value is not None}


async def _recall(scope: Scope, action: Recall) -> dict[str, Any]:
    if "".join(filter(str.isalpha, action.target.casefold())) in _DOCUMENT:
        return await _working_memory(scope)
    page = await scope.memory.resource(scope.resource).recall(
        action.target,
        thread=_thread(scope, action.thread) or (scope.thread if _OF_THREAD.fullmatch(action.target) else None),
        detail=action.detail,
        tokens=_PAGE_TOKENS,
        cursor=action.cursor,
    )
    answer: dict[str, Any] = {"text": page.text, "messages": len(page.items)}
    if page.next is not None:
        answer["cursor"] = page.next
    if page.previous is not None:
        answer["previous_cursor"] = page.previous
    return answer


async def _working_memory(scope: Scope) -> dict[str, Any]:
    """Return the documents as they are now."""
    found: dict[str, Any] = {}
    for name, of_thread in (("all", False), ("thread", True)):
        if of_thread and scope.thread is None:
            continue
        # A thread in which nothing has been said yet has no document either.
        with suppress(ThreadNotFound):
            document = await scope.document(of_thread=of_thread).read()
            if document is not None and document.current.text.strip():
                found[name] = clip(document.current.text, ROOM // 2)
    return {"working_memory": found or "There is none yet. Write one with task-mutate update_context."}
