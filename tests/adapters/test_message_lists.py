"""Messages that are passed to `prepare` and `record` in one list: each is read like a message that is passed alone."""

from typing import Any, Final

import pytest

from adapters.kit import stored
from adapters.rules import Rules
from memolog import Memory, ToolResultPart
from memolog.messages.provider_messages import answers_in, messages_in

Json = dict[str, Any]


def _call(number: int) -> Json:
    return {"id": f"c{number}", "type": "function", "function": {"name": "f", "arguments": "{}"}}


CALLS: Final[dict[str, Any]] = {
    "chat": {"role": "assistant", "content": None, "tool_calls": [_call(1), _call(2)]},
    "messages": {
        "role": "assistant",
        "content": [{"type": "tool_use", "id": f"c{n}", "name": "f", "input": {}} for n in (1, 2)],
    },
    "blocks": [
        {"type": "text", "text": "I look."},
        *({"type": "tool_use", "id": f"c{n}", "name": "f", "input": {}} for n in (1, 2)),
    ],
    "responses": [
        {"type": "reasoning", "id": "rs_1", "summary": []},
        *({"type": "function_call", "call_id": f"c{n}", "name": "f", "arguments": "{}"} for n in (1, 2)),
    ],
}
_BLOCKS: Final = [{"type": "tool_result", "tool_use_id": f"c{n}", "content": f"r{n}"} for n in (1, 2)]
_CHAT: Final = [{"role": "tool", "tool_call_id": f"c{n}", "content": f"r{n}"} for n in (1, 2)]
_ITEMS: Final = [{"type": "function_call_output", "call_id": f"c{n}", "output": f"r{n}"} for n in (1, 2)]
RESULTS: Final[dict[str, list[Json]]] = {
    "chat": _CHAT,
    "messages": [{"role": "user", "content": _BLOCKS}],
    "one message each": [{"role": "user", "content": [block]} for block in _BLOCKS],
    "blocks": _BLOCKS,
    "responses": _ITEMS,
    "mixed": [_CHAT[0], _ITEMS[1]],
    "also mixed": [_ITEMS[0], {"role": "user", "content": [_BLOCKS[1]]}],
}


@pytest.mark.parametrize("results", RESULTS.values(), ids=RESULTS)
@pytest.mark.parametrize("calls", CALLS.values(), ids=CALLS)
async def test_results_in_a_list_answer_their_calls(calls: Any, results: list[Json]) -> None:
    """Results keep the ids of their calls, and no provider refuses the next request."""
    async with Memory(":memory:") as memory, memory.thread("t1", resource="a").turn() as turn:
        await turn.prepare("What is it?")
        await turn.record(calls)
        context = await turn.prepare(results)
        rows = await stored(memory, "a", "t1")
    results_of = [part for row in rows for part in row.parts if isinstance(part, ToolResultPart)]
    assert [(part.call_id, part.content) for part in results_of] == [("c1", "r1"), ("c2", "r2")]
    rules = Rules()
    assert rules.chat({"messages": context.to_openai()}) == []
    assert rules.responses(context.to_responses()) == []
    assert rules.messages(context.to_anthropic()) == []


ALONE: Final[list[Json]] = [
    {"role": "user", "content": "hello", "id": "mine"},
    {"role": "assistant", "content": "one"},
    {"role": "assistant", "content": [{"type": "text", "text": "two"}]},
    {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}]},
    {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "r"}]},
    {"role": "user", "content": [_BLOCKS[0], {"type": "text", "text": "and?"}]},
    CALLS["chat"],
    CALLS["messages"],
]


def test_a_list_is_read_like_its_messages() -> None:
    """One list of messages gives the same messages as the messages passed one by one."""
    assert messages_in([ALONE]) == messages_in(ALONE)
    assert answers_in([ALONE]) == answers_in(ALONE)


def test_items_of_one_answer_stay_one_message() -> None:
    """Items of Responses that the model sent together are one message."""
    said = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Yes."}]}
    [message], _ = answers_in([[*CALLS["responses"], said]])
    assert [part.type for part in message.parts] == ["reasoning", "tool_call", "tool_call", "text"]
    question, answer = messages_in([[{"role": "user", "content": "Hi"}, *CALLS["responses"]]])
    assert (question.role, answer.role, len(answer.parts)) == ("user", "assistant", 3)


def test_blocks_are_one_message() -> None:
    """A list of blocks is the content of one message: of the user in `prepare`, of the model in `record`."""
    [asked] = messages_in(
        [[{"type": "text", "text": "Look:"}, {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}]]
    )
    assert (asked.role, [part.type for part in asked.parts]) == ("user", ["text", "file"])
    [said], _ = answers_in([CALLS["blocks"]])
    assert (said.role, [part.type for part in said.parts]) == ("assistant", ["text", "tool_call", "tool_call"])
