"""Recognise calls and results of Memolog's own tools, also if a framework has changed the name of the tool.

Messages with only such calls or results are stored with `own` set. They are not observed, because they repeat stored memory.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from memolog.core.cache import remembered
from memolog.core.message import NewMessage, Part, ToolCallPart, ToolResultPart

OWN_TOOLS: Final = ("task-query", "task-mutate", "memory-search")
_SPELT: Final = {name.replace("-", ""): name for name in OWN_TOOLS}
# Prefixes that mean Memolog's own server: mcp__memolog__task-query, mcp_memolog_task-query, memolog.task_query. A prefix with the
# name of another server does not match.
_OURS: Final = re.compile(r"(?:functions[.:/])?(?:mcp(?:__?|[.:/]))?(?:memolog(?:__?|[.:/]))?")
# The prefix of any server or namespace.
_PREFIX: Final = re.compile(r"\A.*(?:__|[.:/])", re.DOTALL)
_MARKS: Final = re.compile(r"[-_\s]")


def own_tool(name: object) -> str | None:
    """Return the name of Memolog's tool that a call in a conversation uses. None means that it is a tool of another server.

    A name without a server counts as Memolog's, because the adapters offer the tools under such names.
    """
    return _tool(name, _OURS)


def called_tool(name: object) -> str | None:
    """Return the name of Memolog's tool in a call that Memolog received, with any prefix. None means that the tool is unknown."""
    return _tool(name, _PREFIX)


def _tool(name: object, prefix: re.Pattern[str]) -> str | None:
    if not isinstance(name, str):
        return None
    spelt = name.strip().lower()
    # Match at the beginning only: a search would take quadratic time for a long name.
    found = prefix.match(spelt)
    return _SPELT.get(_MARKS.sub("", spelt[found.end() :] if found else spelt))


def _is_own(name: object) -> bool:
    return isinstance(name, str) and _own_tool(name) is not None


# Thousands of parts may call the same few tools.
_own_tool: Final = remembered(1_024)(own_tool)


def with_own_apart(messages: Iterable[NewMessage], own_calls: set[str]) -> Iterator[NewMessage]:
    """Yield the messages, with `own` set if a message has only calls or only results of Memolog's own tools.

    A message is split in two if it has such results beside other parts. `own_calls` has the ids of the own calls in earlier
    messages, because a result may lack the name of its tool. The ids of new own calls are added to it.
    """
    for message in messages:
        if not any(isinstance(part, ToolCallPart | ToolResultPart) for part in message.parts):
            yield message
            continue
        own_calls.update(part.id for part in message.parts if isinstance(part, ToolCallPart) and _is_own(part.name))
        if message.own:
            yield message
            continue
        results, rest = list[Part](), list[Part]()
        for part in message.parts:
            is_ours = isinstance(part, ToolResultPart) and (part.call_id in own_calls or _is_own(part.name))
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
