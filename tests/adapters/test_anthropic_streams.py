"""Streams of Anthropic put together: as the library's own helper does, and what is left of one that was cut."""

import json
from typing import Any

from anthropic.types import Message, RawMessageStreamEvent
from pydantic import TypeAdapter

from adapters.corpus import ANSWER
from adapters.kit import exact
from memolog.adapters.anthropic.messages import MessageStream

_EMPTY: dict[str, dict[str, Any]] = {
    "text": {"text": ""},
    "thinking": {"thinking": "", "signature": ""},
    "tool_use": {"input": {}},
    "server_tool_use": {"input": {}},
}


def deltas_of(block: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the deltas of a block, in two pieces each."""
    match block["type"]:
        case "text":
            pieces = [
                {"type": "text_delta", "text": block["text"][:2]},
                {"type": "text_delta", "text": block["text"][2:]},
            ]
            return [*pieces, *({"type": "citations_delta", "citation": one} for one in block.get("citations") or ())]
        case "thinking":
            return [
                {"type": "thinking_delta", "thinking": block["thinking"]},
                {"type": "signature_delta", "signature": block["signature"]},
            ]
        case "tool_use" | "server_tool_use":
            text = json.dumps(block["input"])
            return [{"type": "input_json_delta", "partial_json": piece} for piece in ("", text[:3], text[3:])]
        case _:
            return []


def events() -> list[dict[str, Any]]:
    """Return the answer as the API streams it; the library's types take every event."""
    start = {**ANSWER, "content": [], "stop_reason": None, "usage": {**ANSWER["usage"], "output_tokens": 1}}
    made: list[dict[str, Any]] = [{"type": "message_start", "message": start}]
    for place, block in enumerate(ANSWER["content"]):
        begun = {**block, **_EMPTY.get(block["type"], {})}
        if block.get("citations"):
            begun["citations"] = []
        made.append({"type": "content_block_start", "index": place, "content_block": begun})
        made += [{"type": "content_block_delta", "index": place, "delta": delta} for delta in deltas_of(block)]
        made.append({"type": "content_block_stop", "index": place})
    made.append(
        {
            "type": "message_delta",
            "delta": {"stop_reason": ANSWER["stop_reason"], "stop_sequence": None},
            "usage": {"output_tokens": ANSWER["usage"]["output_tokens"]},
        }
    )
    made.append({"type": "message_stop"})
    kind: TypeAdapter[Any] = TypeAdapter(RawMessageStreamEvent)
    for event in made:
        kind.validate_python(event)
    return made


def test_a_message_is_put_together() -> None:
    """Pieces of text, thinking, signatures, citations and inputs make the whole message."""
    stream = MessageStream()
    for event in events():
        stream.add(event)
    assert stream.is_whole
    assert exact(stream.response()) == exact(ANSWER)
    Message.model_validate(stream.response())


def test_malformed_input_is_kept() -> None:
    """An input that is no JSON stays the text that it was."""
    stream = MessageStream()
    stream.add({"type": "content_block_start", "index": 0, "content_block": ANSWER["content"][-1]})
    stream.add(
        {"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": '{"a": '}}
    )
    stream.add({"type": "message_stop"})
    assert stream.response()["content"][0]["input"] == '{"a": '


def test_a_message_that_was_cut() -> None:
    """The words stay; thoughts without their signature and calls that nobody will run do not."""
    stream = MessageStream()
    for event in events()[:-1]:
        stream.add(event)
    assert not stream.is_whole
    assert [block["text"] for block in stream.response()["content"]] == ["I look.", "Found."]
    assert MessageStream().response()["content"] == []
