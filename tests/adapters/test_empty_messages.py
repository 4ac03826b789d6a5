"""Messages without content: an empty result is sent, an empty answer is not, and the rules of the providers hold."""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import pytest

from adapters.kit import context_of
from adapters.provider import APIS, Driver, Provider, Reply, wrap
from adapters.rules import Rules, signature
from memolog import AssistantMessage, Memory, NewMessage, ToolMessage, UserMessage
from memolog.adapters.anthropic import messages as anthropic
from memolog.adapters.openai import chat, responses
from memolog.context.context import ContextMessage
from memolog.core.message import Part, ReasoningPart, TextPart, ToolCallPart, UnknownPart

each = pytest.mark.parametrize("driver", APIS.values(), ids=lambda driver: driver.name)

_ASKED: Final = chat.from_messages(
    [
        {"role": "user", "content": "Delete it."},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
        },
    ]
)


def _results(content: Any) -> dict[str, tuple[NewMessage, ...]]:
    block = {"type": "tool_result", "tool_use_id": "c1", "content": content}
    return {
        "chat": chat.from_messages([{"role": "tool", "tool_call_id": "c1", "content": content}]),
        "responses": responses.from_items([{"type": "function_call_output", "call_id": "c1", "output": content}]),
        "messages": anthropic.from_messages([{"role": "user", "content": [block]}]),
        "ours": (ToolMessage("c1", content),),
    }


@pytest.mark.parametrize("content", ["", None, [], [{"type": "text", "text": ""}]], ids=repr)
@pytest.mark.parametrize("form", ["chat", "responses", "messages", "ours"])
def test_an_empty_result_is_sent(form: str, content: Any) -> None:
    """A result without content is sent as an empty text in every API, whatever form it had."""
    context, rules = context_of([*_ASKED, *_results(content)[form]]), Rules()
    written, items, said = context.to_openai(), context.to_responses(), context.to_anthropic(cache=None)
    assert written[-1] == {"role": "tool", "tool_call_id": "c1", "content": ""}
    assert items["input"][-1] == {"type": "function_call_output", "call_id": "c1", "output": ""}
    assert said["messages"][-1]["content"] == [{"type": "tool_result", "tool_use_id": "c1", "content": ""}]
    assert rules.chat({"messages": written}) == rules.responses(items) == rules.messages(said) == []


@each
async def test_an_empty_result_of_a_wrapped_client(driver: Driver) -> None:
    """The provider accepts the request after an empty result, and the next one."""
    replies = iter([Reply(calls=(("c1", "f"),)), Reply(text="Done."), Reply(text="Yes.")])
    provider = Provider(driver, lambda _: next(replies))
    async with Memory(":memory:") as memory:
        call = driver.call(wrap(driver, provider.async_client(), memory, thread="t1", resource="alice"))
        await call(**driver.said("Delete it."))
        assert driver.text(await call(**driver.results([("c1", "")]))) == "Done."
        assert driver.text(await call(**driver.said("Is it gone?"))) == "Yes."


EMPTY: Final[dict[str, tuple[NewMessage, ...]]] = {
    "text": chat.from_messages([{"role": "assistant", "content": ""}]),
    "None": chat.from_messages([{"role": "assistant", "content": None}]),
    "list": chat.from_messages([{"role": "assistant", "content": []}]),
    "blank": chat.from_messages([{"role": "assistant", "content": " \n"}]),
    "reasoning": chat.from_messages([{"role": "assistant", "content": "", "reasoning_content": "Hm."}]),
    "item": responses.from_items([{"type": "message", "role": "assistant", "content": []}]),
    "thinking": anthropic.from_messages(
        [{"role": "assistant", "content": [{"type": "thinking", "thinking": "Hm.", "signature": signature("Hm.")}]}]
    ),
}


def _check(messages: Sequence[NewMessage]) -> list[list[str]]:
    """Return the roles of the request in each API, which must break no rule."""
    context, rules = context_of(messages, edge="<now>it is late</now>"), Rules()
    written, items, said = context.to_openai(), context.to_responses(), context.to_anthropic()
    broken = [*rules.chat({"messages": written}), *rules.responses(items), *rules.messages(said)]
    assert broken == []
    return [[one["role"] for one in sent] for sent in (written, items["input"], said["messages"])]


@pytest.mark.parametrize("empty", EMPTY.values(), ids=EMPTY)
def test_questions_around_an_empty_answer_are_one_message(empty: tuple[NewMessage, ...]) -> None:
    """An empty answer is not sent, so the questions before and after it follow each other."""
    asked = [UserMessage("One?"), *empty, UserMessage("Two?"), AssistantMessage("Both."), UserMessage("Three?")]
    assert _check(asked) == [["user", "assistant", "user"]] * 3


@pytest.mark.parametrize("content", ["", " \n", []])
@pytest.mark.parametrize("is_last", [True, False])
def test_an_empty_question_is_sent_as_such(content: Any, *, is_last: bool) -> None:
    """The edge is not sent in its place: a text says that the message was empty, also when it is no longer the last message."""
    asked = [UserMessage("One?"), AssistantMessage("Yes."), UserMessage(content)]
    asked += [] if is_last else [AssistantMessage("Go on."), UserMessage("Two?")]
    assert _check(asked) == [["user", "assistant", "user", "assistant", "user"][: len(asked)]] * 3
    context = context_of(asked, edge="<now>it is late</now>")
    for sent in (context.to_openai(), context.to_responses()["input"], context.to_anthropic()["messages"]):
        assert "empty message" in str(sent[2])
        assert "<now>" in str(sent[-1])


@pytest.mark.parametrize("extra", [{}, {"refusal": None, "annotations": []}], ids=["bare", "with null fields"])
def test_answers_of_parallel_requests_are_one_message(extra: dict[str, Any]) -> None:
    """Text answers that follow each other are joined. Nothing of them is lost."""
    said = [{"role": "assistant", "content": f"Answer {n}.", **extra} for n in range(4)]
    asked = [UserMessage("One?"), UserMessage("Two?"), *chat.from_messages(said), UserMessage("Three?")]
    assert _check(asked) == [["user", "assistant", "user"]] * 3
    context = context_of(asked)
    for sent in (context.to_openai(), context.to_responses(), context.to_anthropic()):
        assert [f"Answer {n}." in str(sent) for n in range(4)] == [True] * 4
        assert len(re.findall(r"(One|Two|Three)\?", str(sent))) == 3


@pytest.mark.parametrize(
    "other",
    [
        ReasoningPart(text="Hm.", signature="s"),
        ToolCallPart(id="c1", name="f", arguments="{}"),
        TextPart(text="I cannot.", extra={"openai-chat": {"field": "refusal"}}),
        UnknownPart(data={"type": "odd"}),
    ],
    ids=lambda part: part.type,
)
def test_only_text_is_joined(other: Part) -> None:
    """An answer with anything else than text is sent as it was, because calls and signed reasoning belong to their message."""
    said = [UserMessage("One?"), AssistantMessage("Yes."), AssistantMessage([TextPart(text="No."), other])]
    context = context_of(said)
    assert [one.role for one in context.joined()] == ["user", "assistant", "assistant"]
    assert [one["role"] for one in context.to_anthropic()["messages"]] == ["user", "assistant", "assistant"]


def test_an_answer_that_the_caller_began_is_not_joined() -> None:
    """The model continues only the message that the caller began."""
    context = context_of([UserMessage("One?"), AssistantMessage("Yes.")])
    begun = replace(context, ephemeral=(ContextMessage(role="assistant", parts=(TextPart(text="And"),)),))
    assert [one.text for one in begun.joined()] == ["One?", "Yes.", "And"]


@each
async def test_an_empty_answer_of_a_wrapped_client(driver: Driver) -> None:
    """The provider accepts the question after an empty answer."""
    replies = iter([Reply(text=""), Reply(text="Here.")])
    provider = Provider(driver, lambda _: next(replies))
    async with Memory(":memory:") as memory:
        call = driver.call(wrap(driver, provider.async_client(), memory, thread="t1", resource="alice"))
        await call(**driver.said("One?"))
        assert driver.text(await call(**driver.said("Two?"))) == "Here."
