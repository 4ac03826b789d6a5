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
# What hosts put before the name of a tool of our server: mcp__memolog__task-query, mcp_memolog_task-query, memolog.task_query.
# The server of another has another name there.
_OURS: Final = re.compile(r"(?:functions[.:/])?(?:mcp(?:__?|[.:/]))?(?:memolog(?:__?|[.:/]))?")
# Any server or namespace.
_PREFIX: Final = re.compile(r"\A.*(?:__|[.:/])", re.DOTALL)
_MARKS: Final = re.compile(r"[-_\s]")


def own_tool(name: object) -> str | None:
    """Return which of our tools a call in a conversation means, or None: a tool of another server is none of ours.

    A name without a server is taken for ours: that is how our adapters offer the tools.
    """
    return _tool(name, _OURS)


def called_tool(name: object) -> str | None:
    """Return which tool is meant by a call that was handed to us, whatever the caller puts before its name."""
    return _tool(name, _PREFIX)


def _tool(name: object, prefix: re.Pattern[str]) -> str | None:
    if not isinstance(name, str):
        return None
    spelt = name.strip().lower()
    # Tried at the beginning alone: from every place of a long name it would take ever longer.
    found = prefix.match(spelt)
    return _SPELT.get(_MARKS.sub("", spelt[found.end() :] if found else spelt))


def with_own_apart(messages: Iterable[NewMessage], own_calls: set[str]) -> Iterator[NewMessage]:
    """Yield messages with those flagged that hold nothing but calls or results of our own tools.

    One that holds results of ours and of others is taken apart, so that what others answered is remembered. `own_calls` is
    what is known of earlier messages, and grows: a result need not name its tool.
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
            # The id follows from the first one's, so that saving the message again saves nothing twice.
            yield replace(message, parts=tuple(rest))
            yield replace(
                message, parts=tuple(results), own=True, id=None if message.id is None else f"{message.id}:own"
            )
        elif results or all(isinstance(part, ToolCallPart) and part.id in own_calls for part in message.parts):
            yield replace(message, own=True)
        else:
            yield message
