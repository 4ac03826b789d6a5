"""Chat Completions and Responses to our messages and back: the library's own types, exact, and fit to be sent."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.chat import ChatCompletion, ChatCompletionMessage, ChatCompletionMessageParam
from openai.types.responses import Response, ResponseInputItemParam

from adapters.corpus import CHAT, CHAT_ANSWERS, ITEMS, OUTPUTS, RESPONSE, is_theirs
from adapters.kit import JSON_VALUES, PIXEL, context_of, exact, through_the_store
from memolog import AssistantMessage, FilePart, ReasoningPart, TextPart, ToolCallPart, ToolMessage, UserMessage
from memolog.adapters.openai import chat, responses
from memolog.core.message import parts_to_json


def test_the_corpus_is_what_the_library_takes() -> None:
    """But for a block of a kind that nobody knows yet, every message and item is one that the library's types describe."""
    assert [
        one for one in CHAT if not is_theirs(ChatCompletionMessageParam, one) and "hologram" not in exact(one)
    ] == []
    items = [{name: value for name, value in one.items() if value is not None} for one in ITEMS]
    assert [one for one in items if not is_theirs(ResponseInputItemParam, one) and "hologram" not in exact(one)] == []
    assert [one for one in CHAT_ANSWERS if not is_theirs(ChatCompletionMessage, one)] == []
    assert is_theirs(Response, RESPONSE)


@pytest.mark.parametrize("message", CHAT_ANSWERS, ids=lambda one: exact(one)[:60])
def test_an_answer_comes_back_exactly(message: dict[str, Any]) -> None:
    """Through our parts, the store and back: the same JSON."""
    [ours] = chat.from_messages([message])
    assert exact(chat.to_messages([through_the_store(ours)])) == exact([message])


def test_items_come_back_exactly() -> None:
    """A whole input, of every kind of item."""
    assert exact(responses.to_items(map(through_the_store, responses.from_items(ITEMS)))) == exact(ITEMS)


BLOCKS = st.sampled_from([block for one in CHAT if isinstance(one.get("content"), list) for block in one["content"]])
FIELDS = st.sampled_from(["content", "name", "refusal", "audio", "tool_calls", "tool_call_id", "reasoning", "extra"])


@given(
    st.fixed_dictionaries(
        {"role": st.sampled_from(["system", "developer", "user", "assistant", "tool", "function", "critic"])},
        optional={"content": st.text(max_size=8) | st.lists(BLOCKS, max_size=3) | JSON_VALUES},
    ),
    st.dictionaries(FIELDS, JSON_VALUES, max_size=3),
)
def test_any_chat_message_comes_back(message: dict[str, Any], more: dict[str, Any]) -> None:
    """Whatever a message holds, sense or nonsense, it comes back."""
    whole = {**more, **message}
    assert exact(chat.to_messages(map(through_the_store, chat.from_messages([whole])))) == exact([whole])


@given(st.lists(st.sampled_from(ITEMS), max_size=5), st.dictionaries(st.text(max_size=6), JSON_VALUES, max_size=2))
def test_any_items_come_back(items: list[dict[str, Any]], more: dict[str, Any]) -> None:
    """In any order, with fields that nobody knows, items come back one by one."""
    odd = [{**more, **item} for item in items]
    assert exact(responses.to_items(map(through_the_store, responses.from_items(odd)))) == exact(odd)


def test_what_is_kept_beside_a_part_is_small() -> None:
    """Texts and files are stored once: only what our parts cannot say is kept beside them."""
    long = "word " * 2_000
    items = [
        {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": long, "annotations": [], "logprobs": []}],
        },
        {"type": "function_call_output", "call_id": "c", "output": [{"type": "input_text", "text": long}]},
        {"role": "user", "content": [{"type": "input_image", "image_url": f"data:image/png;base64,{PIXEL * 40}"}]},
    ]
    for item in items:
        [ours] = responses.from_items([item])
        assert len(parts_to_json(ours.parts)) < len(json.dumps(item)) + 200
    [ours] = chat.from_messages([{"role": "assistant", "content": long, "refusal": None, "annotations": []}])
    assert len(parts_to_json(ours.parts)) < len(long) + 200


def test_the_answer_of_a_chat() -> None:
    """The library's own completion gives the message, its id and its cost; cached tokens are told apart."""
    completion = ChatCompletion.model_validate(
        {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 1,
            "model": "gpt-x",
            "choices": [{"index": 0, "finish_reason": "stop", "logprobs": None, "message": CHAT_ANSWERS[0]}],
            "usage": {
                "prompt_tokens": 100,
                "completion_tokens": 5,
                "total_tokens": 105,
                "prompt_tokens_details": {"cached_tokens": 80},
            },
        }
    )
    answer = chat.from_response(completion.to_dict())
    assert answer.message is not None
    assert exact(chat.to_messages([answer.message])) == exact([CHAT_ANSWERS[0]])
    assert answer.message.metadata == {"openai": {"id": "chatcmpl-1", "model": "gpt-x", "finish_reason": "stop"}}
    assert answer.usage is not None
    assert (answer.usage.model, answer.usage.input_tokens, answer.usage.cache_read_tokens) == ("gpt-x", 20, 80)
    assert chat.from_response({"choices": []}).message is None


def test_the_answer_of_a_response() -> None:
    """All items of the library's own response are one message, and come back as they were."""
    answer = responses.from_response(Response.model_validate(RESPONSE).to_dict())
    assert answer.message is not None
    assert exact(responses.to_items([through_the_store(answer.message)])) == exact(OUTPUTS)
    reasoning = answer.message.parts[0]
    assert isinstance(reasoning, ReasoningPart)
    assert (reasoning.text, reasoning.encrypted) == ("First.\nThen.", "gAAAA==")
    assert [part.id for part in answer.message.parts if isinstance(part, ToolCallPart)] == [
        f"call_{number}" for number in range(1, 8)
    ]
    assert answer.usage is not None
    assert (answer.usage.input_tokens, answer.usage.cache_read_tokens, answer.usage.cache_write_tokens) == (30, 60, 10)


def test_a_chat_request_has_its_order() -> None:
    """The caller's instructions, the log, and the messages with the edge in the last one of the user."""
    ours = chat.from_messages([{"role": "user", "content": "Hello", "name": "mira"}, *CHAT_ANSWERS[:3]])
    context = context_of(ours, log=["- a", "- b"], edge="now")
    assert chat.to_request(context, instructions=[{"role": "developer", "content": "Be exact."}])["messages"] == [
        {"role": "developer", "content": "Be exact.\n\n- a\n\n- b"},
        {"role": "user", "content": "Hello\n\nnow", "name": "mira"},
        {"role": "assistant", "content": "Hi.\n\nSee there."},
        {"role": "assistant", "content": "Good day."},
    ]
    opening = [{"role": "system", "content": [{"type": "text", "text": "x"}]}]
    assert chat.to_request(context, instructions=opening)["messages"][:2] == [
        *opening,
        {"role": "system", "content": "- a\n\n- b"},
    ]
    assert chat.to_request(context_of(ours[:1]))["messages"] == [{"role": "user", "content": "Hello", "name": "mira"}]


def test_a_responses_request_has_its_order() -> None:
    """Instructions go on with the log; with messages of instructions, the log follows those."""
    context = context_of(responses.from_items("Hello"), log=["- a"], edge="now")
    said = [{"role": "user", "content": "Hello\n\nnow"}]
    assert responses.to_request(context, instructions="Be exact.") == {
        "instructions": "Be exact.\n\n- a",
        "input": said,
    }
    opening, rest = responses.split(
        [{"role": "developer", "content": "Be brief."}, {"role": "user", "content": "Hello"}]
    )
    assert rest == ({"role": "user", "content": "Hello"},)
    assert responses.to_request(context, opening=opening)["input"] == [
        {"role": "developer", "content": "Be brief."},
        {"role": "developer", "content": "- a"},
        *said,
    ]


def test_reasoning_is_sent_back_only_where_it_can_be_read() -> None:
    """Encrypted reasoning always goes back; what the provider would look up, only if it stores; another's never."""
    context = context_of([*responses.from_items(OUTPUTS), AssistantMessage(ReasoningPart(text="x", signature="s"))])

    def ids(*, is_stored: bool) -> list[str]:
        sent = responses.to_request(context, is_stored=is_stored)["input"]
        return [item["id"] for item in sent if item.get("type") == "reasoning"]

    assert ids(is_stored=True) == ["rs_1", "rs_2", "rs_3"]
    assert ids(is_stored=False) == ["rs_1"]
    assert chat.to_request(context_of([AssistantMessage([ReasoningPart(text="x"), TextPart(text="y")])]))[
        "messages"
    ] == [{"role": "assistant", "content": "y"}]


def test_what_was_said_elsewhere_can_be_sent() -> None:
    """Messages that another provider or nobody made become valid requests of either API."""
    said = [
        UserMessage([TextPart(text="See"), FilePart(media_type="image/png", url="https://example.com/a.png")]),
        AssistantMessage([TextPart(text="I look."), ToolCallPart(id="t1", name="look", arguments={"at": 1})]),
        ToolMessage("t1", {"found": True}),
        AssistantMessage(FilePart(media_type="image/png", data=b"x", name="made.png")),
        UserMessage([FilePart(media_type="video/mp4", url="https://example.com/a.mp4")]),
    ]
    context = context_of(said)
    messages = chat.to_request(context)["messages"]
    assert [one for one in messages if not is_theirs(ChatCompletionMessageParam, one)] == []
    assert messages[1]["tool_calls"][0]["function"] == {"name": "look", "arguments": '{"at": 1}'}
    assert messages[2] == {"role": "tool", "tool_call_id": "t1", "content": '{"found": true}'}
    assert messages[3]["content"] == [{"type": "text", "text": "[image/png made.png]"}]
    items = responses.to_request(context)["input"]
    assert [one["type"] for one in items if "type" in one] == ["function_call", "function_call_output", "message"]
    assert items[3] == {"type": "function_call_output", "call_id": "t1", "output": '{"found": true}'}
