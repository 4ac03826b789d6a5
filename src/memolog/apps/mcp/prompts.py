"""Build the MCP prompts for the start and the hand-over of a session. Their templates are `texts/*.md`."""

import re
from collections.abc import Mapping
from typing import Final

import mcp_types as types

from memolog.apps.mcp.resources import Served, wire_text
from memolog.errors import NotFound
from memolog.text.escape import fixed_text, one_line
from memolog.tools.definitions import guidance

START: Final = "start-session"
HAND_OVER: Final = "hand-over"
_TASK_TOKENS: Final = 600
_LONGEST: Final = 2_000
_PLACE: Final = re.compile(r"\{(\w+)\}")


def listed(*, is_read_only: bool = False) -> list[types.Prompt]:
    """Return the list of prompts for clients. A read-only server has no hand-over prompt."""
    start = types.Prompt(
        name=START,
        title="Start of a session",
        description="Continue earlier work: what is remembered, and how to use it.",
        arguments=[types.PromptArgument(name="goal", description="Goal of this session.", required=False)],
    )
    over = types.Prompt(
        name=HAND_OVER,
        title="Hand-over",
        description="End a session so that another can continue: tasks, notes and a short text.",
        arguments=[types.PromptArgument(name="to", description="Who continues.", required=False)],
    )
    return [start] if is_read_only else [start, over]


def instructions(*, is_read_only: bool = False) -> str:
    """Return the instructions of the server, which explain to a model how to use the tools."""
    text = guidance(read_only=is_read_only)
    return f"{text}\n\n{_text('only_looking')}" if is_read_only else text


async def prompt(
    served: Served, name: str, given: Mapping[str, str], session: str | None = None
) -> types.GetPromptResult:
    """Return a prompt with its placeholders filled in. Raises NotFound for an unknown name.

    `session` is the session of the client. Tasks that this session has claimed are shown as active.
    """
    holder = session or served.tools.session
    if name == START:
        text, description = await _start(served, given, holder), "Start of a session."
    elif name == HAND_OVER and not served.is_read_only:
        text, description = await _hand_over(served, given, holder), "Hand-over of a session."
    else:
        raise NotFound(f"There is no prompt {name[:80]!r}.", then=f"Use {START}.")
    content = types.TextContent(type="text", text=wire_text(text))
    return types.GetPromptResult(description=description, messages=[types.PromptMessage(role="user", content=content)])


async def _start(served: Served, given: Mapping[str, str], session: str) -> str:
    resource = served.memory.resource(served.resource)
    pack = await resource.pack(thread=served.thread, session=session, tokens=served.tokens)
    goal = given.get("goal", "").strip()[:_LONGEST]
    end = _filled(_text("start_goal"), goal=goal) if goal else _text("start_no_goal")
    words = _text("start_to_look" if served.is_read_only else "start_of_session")
    return _filled(words, pack=pack.text or "(nothing yet)", goal=end)


async def _hand_over(served: Served, given: Mapping[str, str], session: str) -> str:
    resource = served.memory.resource(served.resource)
    lines = await resource.task_lines(thread=served.thread, session=session, tokens=_TASK_TOKENS)
    to = one_line(given.get("to", "")[:_LONGEST])
    tasks = "\n".join(f"* {one_line(line)}" for line in lines)
    return _filled(_text("hand_over"), tasks=tasks or "(none)", to=f": {to}" if to else "")


def _text(name: str) -> str:
    return fixed_text(f"apps/mcp/{name}")


def _filled(text: str, **values: str) -> str:
    """Return a text with its placeholders filled in. Braces in the values are not treated as placeholders."""
    return _PLACE.sub(lambda found: values[found[1]], text)
