"""The provider of these tests refuses what real providers refuse. Each request breaks one rule."""

from typing import Any

import pytest

from adapters.rules import FAULTS, Rules, signature

USER = {"role": "user", "content": "Hello."}
CALL = {"role": "assistant", "content": None, "tool_calls": [{"id": "c1"}]}
RESULT = {"role": "tool", "tool_call_id": "c1", "content": "1"}
SAID = {"role": "assistant", "content": "Hello."}
EDGE = "<now>\nSaturday\n</now>"

CHAT: dict[str, list[Any]] = {
    "is not the first": [USER, {"role": "system", "content": "Be kind."}],
    "is empty": [{"role": "user", "content": " "}],
    "no tool message directly after": [USER, CALL, USER],
    "no tool message after": [USER, CALL],
    "has no call before it": [USER, RESULT],
    "is there twice": [USER, CALL, RESULT, RESULT],
    "the call c1 is there twice": [USER, CALL, RESULT, CALL, RESULT],
    "do not alternate": [USER, CALL, RESULT, USER],
    "at 1": [USER, USER],
    "not of the user": [USER, CALL, RESULT, {"role": "user", "content": EDGE}],
}
THOUGHT = {"type": "reasoning", "id": "rs_1", "summary": []}
ITEM = {"type": "message", "id": "msg_1", "role": "assistant", "content": [{"type": "output_text", "text": "Hello."}]}
RESPONSES: dict[str, list[Any]] = {
    "is not found": [{"type": "item_reference", "id": "msg_9"}],
    "duplicate item": [USER, THOUGHT, ITEM, THOUGHT, ITEM],
    "without its following item": [THOUGHT, USER],
    "without its reasoning rs_1": [USER, ITEM],
    "has no encrypted content": [THOUGHT, ITEM],
    "no function_call_output": [USER, {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "look"}, USER],
    "has no call before it": [USER, {"type": "function_call_output", "call_id": "c1", "output": "1"}],
    "two user messages": [USER, USER],
}


def _of_user(*blocks: dict[str, Any]) -> dict[str, Any]:
    return {"role": "user", "content": list(blocks)}


def _of_model(*blocks: dict[str, Any]) -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks)}


TEXT = {"type": "text", "text": "Hello."}
USE = {"type": "tool_use", "id": "c1", "name": "look", "input": {}}
ANSWER = {"type": "tool_result", "tool_use_id": "c1", "content": "1"}
THINKING = {"type": "thinking", "thinking": "hm", "signature": signature("hm")}
MARKED = {**TEXT, "cache_control": {"type": "ephemeral"}}
MESSAGES: dict[str, list[Any]] = {
    "is not of the user": [_of_model(TEXT)],
    "text block is empty": [_of_user({"type": "text", "text": ""})],
    "5 blocks have a cache mark": [_of_user(*[MARKED] * 5)],
    "no tool_result": [USER, _of_model(THINKING, USE), USER],
    "has no call before it": [_of_user(ANSWER)],
    "do not come first": [USER, _of_model(THINKING, USE), _of_user(TEXT, ANSWER)],
    "that is not of the user follows": [USER, _of_model(THINKING, USE), _of_user(ANSWER, {**TEXT, "text": EDGE})],
    "signature": [USER, _of_model({**THINKING, "thinking": "ha"}, TEXT), USER],
    "ends with thinking": [USER, _of_model(TEXT, THINKING), USER],
    "without its thinking": [USER, _of_model(USE), _of_user(ANSWER)],
}
CASES = [
    *(("chat", {"messages": messages}, words) for words, messages in CHAT.items()),
    *(("responses", {"input": items, "store": False}, words) for words, items in RESPONSES.items()),
    *(("messages", {"messages": messages}, words) for words, messages in MESSAGES.items()),
]


@pytest.mark.parametrize(("api", "body", "words"), CASES, ids=[f"{api}: {words}" for api, _, words in CASES])
def test_a_broken_rule(api: str, body: dict[str, Any], words: str) -> None:
    """The refusal names the rule, and the test with this request would fail."""
    rules = Rules()
    rules.remember("responses", {"output": [THOUGHT, ITEM]})
    rules.remember("messages", {"content": [THINKING, USE]})
    assert any(words in one for one in rules.check(api, body)), rules.check(api, body)
    assert FAULTS != []
    FAULTS.clear()


def test_requests_that_keep_the_rules() -> None:
    """An ordinary conversation with tools is not refused."""
    rules = Rules()
    rules.remember("responses", {"output": [THOUGHT, ITEM]})
    rules.remember("messages", {"content": [THINKING, USE]})
    rules.check("chat", {"messages": [{"role": "system", "content": "Be kind."}, USER, CALL, RESULT, SAID, USER]})
    call = {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "look"}
    result = {"type": "function_call_output", "call_id": "c1", "output": "1"}
    reference = {"type": "item_reference", "id": "rs_1"}
    rules.check("responses", {"input": [USER, call, result, reference, ITEM, USER]})
    rules.check("messages", {"messages": [USER, _of_model(THINKING, USE), _of_user(ANSWER), _of_model(TEXT), USER]})
