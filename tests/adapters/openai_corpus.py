"""Messages, items and answers of the OpenAI APIs, one of every kind; each is checked against the types of the library."""

from typing import Any

from adapters.kit import PIXEL

CHAT: list[dict[str, Any]] = [
    {"role": "system", "content": "Be brief."},
    {"role": "developer", "content": "Be exact."},
    {"role": "developer", "content": [{"type": "text", "text": "In parts."}], "name": "house"},
    {"role": "user", "content": "Hello"},
    {"role": "user", "content": ""},
    {"role": "user", "content": "Hello", "name": "mira"},
    {"role": "user", "content": [{"type": "text", "text": "One"}]},
    {"role": "user", "content": [{"type": "text", "text": "One"}, {"type": "text", "text": "Two"}]},
    {
        "role": "user",
        "content": [
            {"type": "text", "text": "What is this?", "prompt_cache_breakpoint": {"mode": "explicit"}},
            {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}", "detail": "high"}},
            {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}},
            {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}},
            {"type": "file", "file": {"file_data": "data:application/pdf;base64,JVBERi0=", "filename": "a.pdf"}},
            {"type": "file", "file": {"file_id": "file-123"}},
            {"type": "hologram", "beams": [1, 2.0, True, None]},
        ],
    },
    {"role": "assistant", "content": "Hi."},
    {"role": "assistant", "content": None, "refusal": "No."},
    {"role": "assistant", "content": [{"type": "text", "text": "A"}, {"type": "refusal", "refusal": "but no"}]},
    {"role": "assistant", "content": None, "audio": {"id": "audio_1"}},
    {
        "role": "assistant",
        "content": "Let me look.",
        "tool_calls": [
            {"id": "call_1", "type": "function", "function": {"name": "look", "arguments": '{"at": "a.py"}'}},
            {"id": "call_2", "type": "function", "function": {"name": "look", "arguments": '{"at": '}},
            {"id": "call_3", "type": "custom", "custom": {"name": "grammar", "input": "free text"}},
        ],
    },
    {
        "role": "assistant",
        "tool_calls": [{"id": "call_4", "type": "function", "function": {"name": "f", "arguments": ""}}],
    },
    {"role": "assistant", "content": None, "function_call": {"name": "old", "arguments": "{}"}},
    {"role": "tool", "tool_call_id": "call_1", "content": "print('a')"},
    {
        "role": "tool",
        "tool_call_id": "call_2",
        "content": [{"type": "text", "text": "one\ntwo"}, {"type": "text", "text": ""}, {"type": "text", "text": "x"}],
    },
    {"role": "function", "name": "old", "content": "42"},
    {"role": "function", "name": "old", "content": None},
]

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

OUTPUTS: list[dict[str, Any]] = [
    {
        "id": "rs_1",
        "type": "reasoning",
        "summary": [{"type": "summary_text", "text": "First."}, {"type": "summary_text", "text": "Then."}],
        "encrypted_content": "gAAAA==",
    },
    {"id": "rs_2", "type": "reasoning", "summary": []},
    {
        "id": "rs_3",
        "type": "reasoning",
        "summary": [],
        "content": [{"type": "reasoning_text", "text": "raw thought"}],
        "encrypted_content": None,
        "status": None,
    },
    {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": "Let me look.", "annotations": [], "logprobs": []}],
    },
    {
        "id": "msg_2",
        "type": "message",
        "role": "assistant",
        "status": "incomplete",
        "phase": "commentary",
        "content": [
            {
                "type": "output_text",
                "text": "A",
                "annotations": [
                    {
                        "type": "url_citation",
                        "start_index": 0,
                        "end_index": 1,
                        "title": "T",
                        "url": "https://example.com",
                    }
                ],
            },
            {"type": "refusal", "refusal": "No more."},
        ],
    },
    {
        "id": "fc_1",
        "type": "function_call",
        "call_id": "call_1",
        "name": "look",
        "arguments": '{"at": "a.py"}',
        "status": "completed",
    },
    {"id": "fc_2", "type": "function_call", "call_id": "call_2", "name": "look", "arguments": '{"at": '},
    {"id": "ctc_1", "type": "custom_tool_call", "call_id": "call_3", "name": "grammar", "input": "free text"},
    {
        "id": "lsh_1",
        "type": "local_shell_call",
        "call_id": "call_4",
        "status": "completed",
        "action": {"type": "exec", "command": ["ls"], "env": {}},
    },
    {
        "id": "sh_1",
        "type": "shell_call",
        "call_id": "call_5",
        "status": "completed",
        "action": {"commands": ["ls"], "timeout_ms": 100, "max_output_length": None},
    },
    {
        "id": "cu_1",
        "type": "computer_call",
        "call_id": "call_6",
        "status": "completed",
        "pending_safety_checks": [],
        "action": {"type": "click", "button": "left", "x": 1, "y": 2},
    },
    {
        "id": "apc_1",
        "type": "apply_patch_call",
        "call_id": "call_7",
        "status": "completed",
        "operation": {"type": "delete_file", "path": "a.py"},
    },
    {
        "id": "ws_1",
        "type": "web_search_call",
        "status": "completed",
        "action": {"type": "search", "query": "memory", "queries": ["memory"]},
    },
    {"id": "ig_1", "type": "image_generation_call", "status": "completed", "result": PIXEL},
    {"id": "mcpr_1", "type": "mcp_approval_request", "arguments": "{}", "name": "drop", "server_label": "db"},
]

ITEMS: list[dict[str, Any]] = [
    {"role": "user", "content": "Hello"},
    {"role": "user", "content": "Hello", "type": "message"},
    {"role": "developer", "content": "Be exact."},
    {"role": "assistant", "content": "Hi."},
    {"role": "assistant", "content": "Hi again."},
    {"role": "user", "content": []},
    {
        "type": "message",
        "role": "user",
        "status": "completed",
        "content": [
            {"type": "input_text", "text": "What is this?"},
            {"type": "input_image", "image_url": f"data:image/png;base64,{PIXEL}", "detail": "low"},
            {"type": "input_image", "file_id": "file-1", "detail": "auto"},
            {"type": "input_file", "file_url": "https://example.com/a.pdf"},
            {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERi0="},
            {"type": "input_file", "file_id": "file-2"},
            {"type": "hologram", "beams": 3},
        ],
    },
    *OUTPUTS,
    {"type": "function_call_output", "call_id": "call_1", "output": "print('a')"},
    {
        "type": "function_call_output",
        "call_id": "call_2",
        "id": "fco_2",
        "output": [
            {"type": "input_text", "text": "a\nb"},
            {"type": "input_image", "image_url": f"data:image/png;base64,{PIXEL}", "detail": "auto"},
            {"type": "input_text", "text": "c"},
        ],
    },
    {"type": "custom_tool_call_output", "call_id": "call_3", "output": "done"},
    {"type": "local_shell_call_output", "id": "call_4", "output": '{"stdout": ""}'},
    {
        "type": "shell_call_output",
        "call_id": "call_5",
        "output": [{"stdout": "a.py", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}],
    },
    {
        "type": "computer_call_output",
        "call_id": "call_6",
        "output": {"type": "computer_screenshot", "image_url": "https://example.com/s.png"},
    },
    {"type": "apply_patch_call_output", "call_id": "call_7", "status": "failed", "output": "no such file"},
    {"type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": False},
    {"type": "item_reference", "id": "msg_1"},
    {"type": "compaction", "encrypted_content": "gAAAA=="},
    {"role": "user", "content": "And now?"},
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
