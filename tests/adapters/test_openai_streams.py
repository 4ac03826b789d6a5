"""Streams of OpenAI put together: as the library's own helpers would, and what is left of one that was cut."""

import json
from typing import Any

import pytest
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from adapters.corpus import OUTPUTS, RESPONSE
from adapters.kit import exact
from memolog import Memory, UserMessage
from memolog.adapters.exchange import Events
from memolog.adapters.openai.chat import ChatStream
from memolog.adapters.openai.responses import ResponseStream, from_response

DELTAS: list[dict[str, Any]] = [
    {"role": "assistant", "content": "", "refusal": None},
    {"reasoning_content": "six "},
    {"reasoning_content": "times"},
    {"content": "Let me"},
    {"content": " look."},
    {"tool_calls": [{"index": 0, "id": "call_1", "type": "function", "function": {"name": "look", "arguments": ""}}]},
    {"tool_calls": [{"index": 0, "function": {"arguments": '{"at":'}}]},
    {"tool_calls": [{"index": 1, "id": "call_2", "type": "function", "function": {"name": "see", "arguments": "{}"}}]},
    {"tool_calls": [{"index": 0, "function": {"arguments": " 1}"}}]},
]


def chunk(delta: dict[str, Any], finish: str | None = None, index: int = 0) -> dict[str, Any]:
    """Return a chunk as the API sends it."""
    choice = {"index": index, "delta": delta, "finish_reason": finish, "logprobs": None}
    whole = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "gpt-x", "choices": [choice]}
    return ChatCompletionChunk.model_validate(whole).to_dict()


def test_a_chat_is_put_together() -> None:
    """Pieces of text and of calls make the completion that the library's type describes; the second choice is left."""
    stream = ChatStream()
    for delta in DELTAS:
        stream.add(chunk(delta))
        stream.add(chunk({"content": "other"}, index=1))
    stream.add(chunk({}, "tool_calls"))
    usage = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
    stream.add({"id": "c1", "model": "gpt-x", "choices": [], "usage": usage})
    assert stream.is_whole
    made = stream.response()
    ChatCompletion.model_validate(made)
    assert made["usage"] == usage
    message = made["choices"][0]["message"]
    assert (message["content"], message["reasoning_content"]) == ("Let me look.", "six times")
    assert message["tool_calls"] == [
        {"id": "call_1", "type": "function", "function": {"name": "look", "arguments": '{"at": 1}'}},
        {"id": "call_2", "type": "function", "function": {"name": "see", "arguments": "{}"}},
    ]


def test_a_chat_that_was_cut() -> None:
    """What was said stays, calls that nobody will run do not; nothing said is nothing."""
    stream = ChatStream()
    assert stream.response()["choices"] == []
    for delta in DELTAS:
        stream.add(chunk(delta))
    assert not stream.is_whole
    message = stream.response()["choices"][0]["message"]
    assert message["content"] == "Let me look."
    assert "tool_calls" not in message


def events() -> list[dict[str, Any]]:
    """Return a response as the API streams it."""
    made: list[dict[str, Any]] = [
        {"type": "response.created", "response": {**RESPONSE, "status": "in_progress", "output": []}}
    ]
    for place, item in enumerate(OUTPUTS):
        made.append({"type": "response.output_item.added", "output_index": place, "item": item})
        for index, block in enumerate(item.get("content") or ()):
            if block["type"] == "output_text":
                halves = block["text"][: len(block["text"]) // 2], block["text"][len(block["text"]) // 2 :]
                made += [
                    {"type": "response.output_text.delta", "output_index": place, "content_index": index, "delta": half}
                    for half in halves
                ]
        made.append({"type": "response.output_item.done", "output_index": place, "item": item})
    return [*made, {"type": "response.completed", "response": RESPONSE}]


def test_a_response_is_put_together() -> None:
    """The last event has the whole response; without its items, those that were done are it."""
    for last in (RESPONSE, {**RESPONSE, "output": []}):
        stream = ResponseStream()
        for event in [*events()[:-1], {"type": "response.completed", "response": last}]:
            stream.add(event)
        assert stream.is_whole
        assert exact(stream.response()) == exact(RESPONSE)


def test_a_response_that_was_cut() -> None:
    """Words stay, also of an item that is not done; calls and a thought at the end do not."""
    stream = ResponseStream()
    for event in events():
        stream.add(event)
        if event["type"] == "response.output_text.delta":
            break
    [*thoughts, said] = stream.response()["output"]
    assert [item["id"] for item in thoughts] == ["rs_1", "rs_2", "rs_3"]
    assert said["content"] == [{"type": "output_text", "text": "Let me", "annotations": []}]
    stream = ResponseStream()
    for event in events()[:3]:
        stream.add(event)
    assert stream.response()["output"] == []
    stream = ResponseStream()
    for event in events()[:-1]:
        stream.add(event)
    assert not [item for item in stream.response()["output"] if "call_id" in item]


def test_reasoning_before_a_call_that_was_cut() -> None:
    """The API refuses reasoning without the item that followed it, so both are left out."""
    stream = ResponseStream()
    thought = {"type": "reasoning", "id": "rs_9", "summary": [], "encrypted_content": "x"}
    call = {"type": "function_call", "id": "fc_9", "call_id": "c9", "name": "look", "arguments": "{}"}
    said = {"type": "message", "id": "msg_9", "role": "assistant", "content": []}
    for place, item in enumerate((said, thought, call)):
        stream.add({"type": "response.output_item.done", "output_index": place, "item": item})
    assert stream.response()["output"] == [said]


async def test_reasoning_that_was_stored_without_its_item() -> None:
    """It is not sent: a database from before may have it, and a response that ended at its limit has it."""
    thought = {"type": "reasoning", "id": "rs_9", "summary": [], "encrypted_content": "x"}
    answer = from_response({"id": "resp_9", "status": "incomplete", "output": [thought]})
    assert answer.message is not None
    async with Memory(":memory:") as memory:
        thread = memory.thread("t1", resource="alice")
        await thread.save([UserMessage("Hello."), answer.message])
        request = (await thread.context("And?")).to_responses()
    assert not [item for item in request["input"] if item.get("type") == "reasoning"]


@pytest.mark.parametrize("size", [1, 2, 7, 10_000])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_events_survive_any_cut(size: int, end: str) -> None:
    """However the bytes arrive, the same events come out; comments, names and nonsense are passed over."""
    sent = [{"type": "a", "text": "ünïcode\n"}, {"type": "b"}]
    lines = [": hello", "event: a", f"data: {json.dumps(sent[0])}", "", "data: nonsense", "", "data: [1]", ""]
    lines += ["data: {", 'data: "type": "b"}', "", "data: [DONE]", "", ""]
    text = end.join(lines).encode()
    reader = Events()
    found = [event for at in range(0, len(text), size) for event in reader.feed(text[at : at + size])]
    assert found == sent
    assert reader.is_done
