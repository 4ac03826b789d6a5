"""Recognise calls and results of Memolog's own tools, under the names that frameworks give them.

Their messages are stored with `own` set, so that memory is not observed again.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cache
from typing import Final

from memolog.core.message import NewMessage, Part, ToolCallPart, ToolResultPart

OWN_TOOLS: Final = ("task-query", "task-mutate", "memory-search")
_SPELT: Final = {name.replace("-", ""): name for name in OWN_TOOLS}
# Prefixes of tools of our server: mcp__memolog__task-query, mcp_memolog_task-query, memolog.task_query. Other servers have
# other names.
_OURS: Final = re.compile(r"(?:functions[.:/])?(?:mcp(?:__?|[.:/]))?(?:memolog(?:__?|[.:/]))?")
# Any server or namespace.
_PREFIX: Final = re.compile(r"\A.*(?:__|[.:/])", re.DOTALL)
_MARKS: Final = re.compile(r"[-_\s]")


def own_tool(name: object) -> str | None:
    """Return our tool that a call in a conversation names, or None for a tool of another server.

    A name without a server counts as ours, since our adapters offer the tools that way.
    """
    return _tool(name, _OURS)


def called_tool(name: object) -> str | None:
    """Return our tool that a call to us names, with any prefix."""
    return _tool(name, _PREFIX)


def _tool(name: object, prefix: re.Pattern[str]) -> str | None:
    if not isinstance(name, str):
        return None
    spelt = name.strip().lower()
    # Match at the beginning only: a search would take quadratic time for a long name.
    found = prefix.match(spelt)
    return _SPELT.get(_MARKS.sub("", spelt[found.end() :] if found else spelt))


def with_own_apart(messages: Iterable[NewMessage], own_calls: set[str]) -> Iterator[NewMessage]:
    """Yield messages; set `own` for those that hold only calls or results of our own tools.

    A message with results of our tools and of others is split in two. `own_calls` holds the ids of our calls in earlier
    messages and is extended, since a result need not name its tool.
    """
    # Thousands of parts may name the same few tools.
    known = cache(own_tool)

    def is_own(name: object) -> bool:
        return isinstance(name, str) and known(name) is not None

    for message in messages:
        own_calls.update(part.id for part in message.parts if isinstance(part, ToolCallPart) and is_own(part.name))
        if message.own or not message.parts:
            yield message
            continue
        results, rest = list[Part](), list[Part]()
        for part in message.parts:
            is_ours = isinstance(part, ToolResultPart) and (part.call_id in own_calls or is_own(part.name))
            (results if is_ours else rest).append(part)
        if results and rest:
            # The id is derived from the original one, so that saving the message again stores nothing twice.
            yield replace(message, parts=tuple(rest))
            yield replace(
                message, parts=tuple(results), own=True, id=None if message.id is None else f"{message.id}:own"
            )
        elif results or all(isinstance(part, ToolCallPart) and part.id in own_calls for part in message.parts):
            yield replace(message, own=True)
        else:
            yield message
