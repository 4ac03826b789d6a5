"""Messages and answers of the OpenAI and Anthropic APIs, one of every kind; each is checked against the types of its library."""

from functools import cache
from typing import Any

from pydantic import TypeAdapter, ValidationError

from adapters.kit import foreign


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def is_theirs(kind: Any, value: Any) -> bool:
    """Return whether a type of the library accepts a value."""
    try:
        _adapter(kind).validate_python(value)
    except ValidationError:
        return False
    return True


CHAT = foreign("openai-chat")
ITEMS = foreign("openai-responses")[:33]
OUTPUTS = ITEMS[7:22]
MESSAGES = foreign("anthropic")

CHAT_ANSWERS: list[dict[str, Any]] = [
    {"role": "assistant", "content": "Hi.", "refusal": None, "annotations": []},
    {
        "role": "assistant",
        "content": "See there.",
        "refusal": None,
        "annotations": [
            {
                "type": "url_citation",
                "url_citation": {"start_index": 0, "end_index": 3, "title": "T", "url": "https://example.com"},
            }
        ],
    },
    {
        "role": "assistant",
        "content": None,
        "refusal": None,
        "audio": {"id": "audio_2", "data": "UklGRg==", "expires_at": 1, "transcript": "Good day."},
    },
    {"role": "assistant", "content": "42", "reasoning_content": "six times seven"},
    {
        "role": "assistant",
        "content": "",
        "reasoning": "hm",
        "reasoning_details": [{"type": "reasoning.encrypted", "data": "xyz"}],
        "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}, "index": 0}],
    },
]

RESPONSE: dict[str, Any] = {
    "id": "resp_1",
    "object": "response",
    "created_at": 1,
    "model": "gpt-x",
    "status": "completed",
    "output": OUTPUTS,
    "parallel_tool_calls": True,
    "tool_choice": "auto",
    "tools": [],
    "usage": {
        "input_tokens": 100,
        "input_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 10},
        "output_tokens": 7,
        "output_tokens_details": {"reasoning_tokens": 3},
        "total_tokens": 107,
    },
}

ANSWER: dict[str, Any] = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude-x",
    "content": MESSAGES[6]["content"],
    "stop_reason": "tool_use",
    "stop_sequence": None,
    "usage": {
        "input_tokens": 12,
        "output_tokens": 34,
        "cache_read_input_tokens": 56,
        "cache_creation_input_tokens": 78,
    },
}
