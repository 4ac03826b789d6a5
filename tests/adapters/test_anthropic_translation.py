"""Anthropic messages to ours and back: the library's own types, exact, and fit to be sent, with marks for the cache."""

from typing import Any

import pytest
from anthropic.types import Message as TheirMessage
from anthropic.types import MessageParam
from hypothesis import given
from hypothesis import strategies as st

from adapters.corpus import ANSWER, MESSAGES, is_theirs
from adapters.kit import JSON_VALUES, context_of, exact, through_the_store
from kit.rows import row
from memolog import (
    AssistantMessage,
    FilePart,
    NewMessage,
    ReasoningPart,
    SystemMessage,
    TextPart,
    ToolCallPart,
    ToolMessage,
    UserMessage,
)
from memolog.adapters.anthropic import messages as anthropic
from memolog.context.context import Context
from memolog.context.tail import mend


def test_the_corpus_is_what_the_library_takes() -> None:
    """But for a block of a kind that nobody knows yet, every message is one that the library's types describe."""
    assert [one for one in MESSAGES if not is_theirs(MessageParam, one) and "hologram" not in exact(one)] == []
    TheirMessage.model_validate(ANSWER)


BLOCKS = st.sampled_from([block for one in MESSAGES if isinstance(one["content"], list) for block in one["content"]])


def with_more(block: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    """Return a block with fields that nobody knows."""
    return {**more, **block}


FIELDS = st.dictionaries(st.text(max_size=6), JSON_VALUES, max_size=2)


@given(
    st.sampled_from(["user", "assistant", "system"]),
    st.text(max_size=8) | st.lists(st.builds(with_more, BLOCKS, FIELDS), max_size=4) | JSON_VALUES,
    FIELDS,
)
def test_any_message_comes_back(role: str, content: Any, more: dict[str, Any]) -> None:
    """Whatever a message holds, sense or nonsense, it comes back."""
    message = {**more, "role": role, "content": content}
    assert exact(anthropic.to_messages(map(through_the_store, anthropic.from_messages([message])))) == exact([message])


def test_the_answer() -> None:
    """The library's own message gives ours, its id and its cost; signed thinking is untouched and in order."""
    answer = anthropic.from_response(TheirMessage.model_validate(ANSWER).to_dict())
    assert answer.message is not None
    assert exact(anthropic.to_messages([through_the_store(answer.message)])[0]["content"]) == exact(ANSWER["content"])
    thinking = answer.message.parts[0]
    assert isinstance(thinking, ReasoningPart)
    assert (thinking.text, thinking.signature) == ("Let me see.", "EqQBCg==")
    # A tool that the provider runs is no call of ours: nobody will answer it.
    assert [part.id for part in answer.message.parts if isinstance(part, ToolCallPart)] == ["toolu_1", "toolu_2"]
    assert answer.usage is not None
    assert (answer.usage.input_tokens, answer.usage.cache_read_tokens, answer.usage.cache_write_tokens) == (12, 56, 78)


def test_a_request_has_its_order_and_its_marks() -> None:
    """The caller's system, the log, what was said, the edge; marked after the log and at the last message before the edge."""
    context = context_of(anthropic.from_messages(MESSAGES[:1]), log=["- a", "- b"], edge="now")
    mark = {"cache_control": {"type": "ephemeral"}}
    assert anthropic.to_request(context, system="Be exact.") == {
        "system": [
            {"type": "text", "text": "Be exact."},
            {"type": "text", "text": "- a"},
            {"type": "text", "text": "\n\n- b", **mark},
        ],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "Hello", **mark}, {"type": "text", "text": "now"}]}
        ],
    }
    assert "cache_control" not in exact(anthropic.to_request(context, mark=None))
    long = anthropic.to_request(context, mark={"type": "ephemeral", "ttl": "1h"})
    assert exact(long).count('"ttl": "1h"') == 2


@pytest.mark.parametrize(("used", "ours"), [(0, 2), (2, 2), (3, 1), (4, 0)])
def test_a_request_has_at_most_four_marks(used: int, ours: int) -> None:
    """What the caller marked counts, and the last message comes first; marks of earlier requests are not repeated."""
    context = context_of(anthropic.from_messages(MESSAGES), log=["- a"])
    system = [{"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}] * min(used, 1)
    request = anthropic.to_request(context, system=system, marks_elsewhere=used - len(system))
    assert exact(request).count("cache_control") == ours + len(system)
    assert ("cache_control" in exact(request["messages"][-1])) == (ours > 0)


def test_what_is_sent_is_what_the_library_takes() -> None:
    """The whole corpus in one request: valid, without empty messages; thinking untouched, and never marked."""
    said = [one for one in MESSAGES if "hologram" not in exact(one)]
    sent = anthropic.to_request(context_of(anthropic.from_messages(said)))["messages"]
    assert [one for one in sent if not is_theirs(MessageParam, one)] == []
    assert MESSAGES[6]["content"] in [one["content"] for one in sent]
    only_thought = context_of(
        anthropic.from_messages([MESSAGES[0], {"role": "assistant", "content": ANSWER["content"][:2]}])
    )
    sent = anthropic.to_request(only_thought)["messages"]
    # The API refuses an assistant message that ends with thinking.
    assert [one["role"] for one in sent] == ["user"]
    assert "cache_control" in sent[0]["content"][0]


def test_results_of_one_step_are_one_message() -> None:
    """What the store and the pairs took apart goes out together: results first, then what the user added."""
    call = AssistantMessage(
        [ToolCallPart(id="a", name="f", arguments={}), ToolCallPart(id="b", name="f", arguments={})]
    )
    mixed = UserMessage([*ToolMessage("b", "2").parts, TextPart(text="Go on.")])
    rows = [
        row(n, one.role, *one.parts)
        for n, one in enumerate([UserMessage("Start"), call, ToolMessage("a", "1"), mixed], start=1)
    ]
    context = Context(tail=mend(rows))
    sent = anthropic.to_request(context, mark=None)["messages"]
    assert [one["role"] for one in sent] == ["user", "assistant", "user"]
    assert [block["type"] for block in sent[2]["content"]] == ["tool_result", "tool_result", "text"]


def test_what_was_said_elsewhere_can_be_sent() -> None:
    """Messages that another provider or nobody made become a valid request; malformed arguments are kept inside an object."""
    said = [
        AssistantMessage("I begin."),
        SystemMessage("Be kind."),
        UserMessage([TextPart(text="See"), FilePart(media_type="image/png", data=b"x")], speaker="Mira"),
        AssistantMessage(
            [
                ReasoningPart(text="secret", encrypted="x"),
                ToolCallPart(id="t1", name="look", arguments='{"at": 1}'),
                ToolCallPart(id="t2", name="look", arguments='{"at": '),
            ]
        ),
        ToolMessage("t1", {"found": True}),
        ToolMessage("t2", "no", is_error=True),
        UserMessage(FilePart(media_type="audio/wav", data=b"x", name="a.wav")),
    ]
    sent = anthropic.to_request(context_of(said, edge="now"), mark=None)["messages"]
    assert [one for one in sent if not is_theirs(MessageParam, one)] == []
    assert [one["role"] for one in sent] == ["user", "assistant", "user", "user", "assistant", "user", "user"]
    assert sent[3]["content"][0]["text"] == '"Mira": See'
    assert [block["input"] for block in sent[4]["content"]] == [{"at": 1}, {"arguments": '{"at": '}]
    assert sent[5]["content"][0]["content"] == '{"found": true}'
    assert sent[5]["content"][1]["is_error"] is True
    assert [block["text"] for block in sent[6]["content"]] == ["[audio/wav a.wav]", "now"]


@pytest.mark.parametrize(
    "after",
    [
        [AssistantMessage("One,")],
        [AssistantMessage([ToolCallPart(id="c", name="look")]), ToolMessage("c", "seen")],
    ],
    ids=["the beginning of an answer", "a tool result"],
)
def test_the_edge_is_in_the_last_question(after: list[NewMessage]) -> None:
    """It is not after the beginning of an answer, which the model continues, and not after a tool result."""
    context = context_of([UserMessage("Count."), *after], edge="now")
    sent = anthropic.to_request(context, mark=None)["messages"]
    assert [block["text"] for block in sent[0]["content"]] == ["Count.", "now"]
    assert sent[1:] == anthropic.to_request(context_of(after), mark=None)["messages"][1:]


def test_an_edge_without_a_question_comes_first() -> None:
    """A request that has only tool results gets the edge before the call."""
    said = [AssistantMessage([ToolCallPart(id="c", name="look")]), ToolMessage("c", "seen")]
    sent = anthropic.to_request(context_of(said, edge="now"), mark=None)["messages"]
    assert sent[0]["role"] == "user"
    assert sent[0]["content"][-1] == {"type": "text", "text": "now"}
