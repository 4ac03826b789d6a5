"""Messages and answers as the Anthropic API has them, one of every kind; each is checked against the library's own types."""

from typing import Any

from adapters.kit import PIXEL

_IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}}

_BLOCKS: list[dict[str, Any]] = [
    {"type": "thinking", "thinking": "Let me see.", "signature": "EqQBCg=="},
    {"type": "redacted_thinking", "data": "EmwKAh=="},
    {"type": "text", "text": "I look.", "citations": None},
    {
        "type": "server_tool_use",
        "id": "srvtoolu_1",
        "name": "web_search",
        "input": {"query": "memory"},
        "caller": {"type": "direct"},
    },
    {
        "type": "web_search_tool_result",
        "tool_use_id": "srvtoolu_1",
        "caller": {"type": "direct"},
        "content": [
            {
                "type": "web_search_result",
                "url": "https://example.com",
                "title": "T",
                "encrypted_content": "EoAD==",
                "page_age": None,
            }
        ],
    },
    {
        "type": "text",
        "text": "Found.",
        "citations": [
            {
                "type": "web_search_result_location",
                "url": "https://example.com",
                "title": "T",
                "encrypted_index": "Eo8B==",
                "cited_text": "…",
            }
        ],
    },
    {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"at": "a.py", "deep": True}},
    {"type": "tool_use", "id": "toolu_2", "name": "look", "input": {}, "caller": {"type": "direct"}},
]

MESSAGES: list[dict[str, Any]] = [
    {"role": "user", "content": "Hello"},
    {"role": "user", "content": [{"type": "text", "text": "Hello"}]},
    {"role": "system", "content": "From now on, in French."},
    {"role": "system", "content": [{"type": "text", "text": "From now on, in French."}]},
    {
        "role": "user",
        "content": [
            {"type": "text", "text": "What is this?", "cache_control": {"type": "ephemeral", "ttl": "1h"}},
            _IMAGE,
            {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}},
            {"type": "image", "source": {"type": "file", "file_id": "file_1"}},
            {
                "type": "document",
                "title": "a.pdf",
                "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="},
                "citations": {"enabled": True},
            },
            {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "plain ünïcode"}},
            {"type": "document", "source": {"type": "content", "content": [{"type": "text", "text": "inner"}]}},
            {"type": "search_result", "source": "s", "title": "T", "content": [{"type": "text", "text": "r"}]},
        ],
    },
    {"role": "assistant", "content": "Hi."},
    {"role": "assistant", "content": _BLOCKS},
    {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "toolu_1", "content": "print('a')"},
            {
                "type": "tool_result",
                "tool_use_id": "toolu_2",
                "is_error": True,
                "content": [
                    {"type": "text", "text": "one\ntwo", "cache_control": {"type": "ephemeral"}},
                    _IMAGE,
                    {"type": "text", "text": "three"},
                ],
            },
        ],
    },
    {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "toolu_3", "is_error": False},
            {"type": "tool_result", "tool_use_id": "toolu_4", "content": []},
            {
                "type": "tool_result",
                "tool_use_id": "toolu_5",
                "content": [{"type": "tool_reference", "tool_name": "look"}],
            },
            {"type": "text", "text": "And one more thing."},
        ],
    },
    {"role": "assistant", "content": []},
    {"role": "user", "content": [{"type": "container_upload", "file_id": "file_2"}]},
    {"role": "user", "content": [{"type": "hologram", "beams": [1, 2.0, True, None]}]},
]

ANSWER: dict[str, Any] = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude-x",
    "content": _BLOCKS,
    "stop_reason": "tool_use",
    "stop_sequence": None,
    "usage": {
        "input_tokens": 12,
        "output_tokens": 34,
        "cache_read_input_tokens": 56,
        "cache_creation_input_tokens": 78,
    },
}
