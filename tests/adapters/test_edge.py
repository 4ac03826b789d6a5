"""The edge and messages for one request are in the last question: nothing follows tool results, in any form of a request."""

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic_ai.messages import ModelRequest, ToolReturnPart
from pydantic_ai.models.test import TestModel

from adapters.kit import context_of
from adapters.rules import Rules
from memolog import AssistantMessage, Context, SystemMessage, ToolCallPart, ToolMessage, UserMessage
from memolog.adapters.agent_framework.messages import to_agent_framework
from memolog.adapters.anthropic import messages as anthropic
from memolog.adapters.langchain.messages import to_langchain
from memolog.adapters.openai import chat, responses
from memolog.adapters.pydantic_ai import capability
from memolog.context.context import ContextMessage
from memolog.core.message import NewMessage

Sent = list[tuple[str, str]]
"""The parts of a request in their order: the kind of each part, and its text."""


def _of_chat(context: Context) -> Sent:
    return [(one["role"], str(one["content"])) for one in chat.to_request(context)["messages"]]


def _of_responses(context: Context) -> Sent:
    kinds = {"function_call": "assistant", "function_call_output": "tool"}
    return [(kinds.get(one.get("type", "")) or one["role"], str(one)) for one in responses.to_request(context)["input"]]


def _of_anthropic(context: Context) -> Sent:
    made: Sent = []
    for message in anthropic.to_request(context)["messages"]:
        for block in message["content"]:
            made.append(("tool" if block["type"] == "tool_result" else message["role"], str(block)))
    return made


def _of_langchain(context: Context) -> Sent:
    kinds = {"human": "user", "ai": "assistant"}
    made = [one for message in context.joined() for one in to_langchain(message)]
    return [(kinds.get(one.type, one.type), str(one.content)) for one in made]


def _of_agent_framework(context: Context) -> Sent:
    return [(str(one.role), one.text) for one in map(to_agent_framework, context.joined())]


def _of_pydantic_ai(context: Context) -> Sent:
    given = [ModelRequest(parts=[ToolReturnPart(tool_name="count", content="3", tool_call_id="c1")])]
    request: Any = SimpleNamespace(messages=given, model=TestModel(), model_settings=None)
    kinds = {"user-prompt": "user", "tool-return": "tool", "system-prompt": "system"}
    sent = capability._messages(request, context)  # pyright: ignore[reportPrivateUsage]
    return [
        (kinds.get(part.part_kind, "assistant"), str(getattr(part, "content", ""))) for m in sent for part in m.parts
    ]


FORMS = {
    "chat": _of_chat,
    "responses": _of_responses,
    "anthropic": _of_anthropic,
    "langchain": _of_langchain,
    "agent-framework": _of_agent_framework,
    "pydantic-ai": _of_pydantic_ai,
}
every_form = pytest.mark.parametrize("form", FORMS.values(), ids=FORMS.keys())
REMINDER = "Reminder: answer in French."


def step(number: int) -> list[NewMessage]:
    """Return a tool call and its result."""
    return [
        AssistantMessage([ToolCallPart(id=f"c{number}", name="count", arguments={})]),
        ToolMessage(f"c{number}", "3", name="count"),
    ]


def request_of(*said: NewMessage, ephemeral: tuple[NewMessage, ...] = ()) -> Context:
    """Return a context with an edge, and with messages for one request."""
    context = context_of(said, log=["- a"], edge="EDGE")
    return replace(context, ephemeral=tuple(map(ContextMessage.of, ephemeral)))


@every_form
@pytest.mark.parametrize("steps", [1, 2])
@pytest.mark.parametrize("role", ["user", "system", None])
def test_nothing_follows_tool_results(form: Callable[[Context], Sent], steps: int, role: str | None) -> None:
    """At a later step the last part is the result of the tool. The question ends with the reminder and the edge."""
    results = [message for number in range(1, steps + 1) for message in step(number)]
    make = {"user": UserMessage, "system": SystemMessage}
    ephemeral = (make[role](REMINDER),) if role else ()
    sent = form(
        request_of(UserMessage("Hello."), AssistantMessage("Hi."), UserMessage("Count."), *results, ephemeral=ephemeral)
    )
    kinds = [kind for kind, _ in sent if kind != "system"]
    last = len(kinds) - kinds[::-1].index("user")
    assert kinds[last:] == ["assistant", "tool"] * steps
    text = "\n".join(text for _, text in sent)
    assert text.count("EDGE") == 1
    assert text.index("Hi.") < text.index("Count.") < text.index("EDGE")
    if role:
        assert text.count(REMINDER) == 1
        assert sent[-1][0] == "tool"
        assert text.index("Count.") < text.index(REMINDER)


@pytest.mark.parametrize("steps", [0, 1, 2])
@pytest.mark.parametrize("speaker", [None, "Nora"])
def test_a_message_for_one_request_is_part_of_the_question(steps: int, speaker: str | None) -> None:
    """Strict servers refuse two user messages in a row, also if the question names its speaker."""
    results = [message for number in range(1, steps + 1) for message in step(number)]
    context = request_of(UserMessage("Count.", speaker=speaker), *results, ephemeral=(UserMessage(REMINDER),))
    rules = Rules()
    assert rules.chat({"messages": context.to_openai()}) == rules.responses(context.to_responses()) == []
    for form in FORMS.values():
        asked = [text for kind, text in form(context) if kind == "user"]
        assert sum(REMINDER in text for text in asked) == 1


@every_form
def test_the_first_step(form: Callable[[Context], Sent]) -> None:
    """At the first step, messages for one request follow the question, and the edge is last."""
    sent = form(request_of(UserMessage("Count."), ephemeral=(UserMessage(REMINDER),)))
    text = "\n".join(text for kind, text in sent if kind == "user")
    assert text.index("Count.") < text.index(REMINDER) < text.index("EDGE")


@pytest.mark.parametrize("form", [_of_chat, _of_anthropic], ids=["chat", "anthropic"])
def test_the_beginning_of_the_answer_stays_last(form: Callable[[Context], Sent]) -> None:
    """An answer that the caller began is continued, so it is the end of the request."""
    sent = form(request_of(UserMessage("Count."), *step(1), ephemeral=(AssistantMessage("The number is"),)))
    assert sent[-1][0] == "assistant"
    assert "The number is" in sent[-1][1]
