"""What hosts tell, in their own words, and the one form in which it is written down.

Knows the names and fields that each host uses. Decides nothing, and loads nothing else. A field that a newer host adds is left
alone; an event that is not known is no event.
"""

from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias, cast

from memolog.apps.hook.private import public, public_text

__all__ = ["HOSTS", "Host", "Kind", "record_of"]

Host: TypeAlias = Literal["claude-code", "codex", "cursor", "gemini"]
Kind: TypeAlias = Literal["start", "prompt", "tool", "answer", "stop", "compact", "end"]
Data: TypeAlias = Mapping[str, Any]

_CLAUDE: Final[dict[str, Kind]] = {
    "SessionStart": "start",
    "UserPromptSubmit": "prompt",
    "PostToolUse": "tool",
    "PostToolUseFailure": "tool",
    "Stop": "stop",
    "SubagentStop": "stop",
    "PreCompact": "compact",
    "SessionEnd": "end",
}
HOSTS: Final[dict[Host, dict[str, Kind]]] = {
    "claude-code": _CLAUDE,
    "codex": {name: kind for name, kind in _CLAUDE.items() if name != "PostToolUseFailure"},
    "cursor": {
        "sessionStart": "start",
        "beforeSubmitPrompt": "prompt",
        "postToolUse": "tool",
        "postToolUseFailure": "tool",
        "afterAgentResponse": "answer",
        "stop": "stop",
        "preCompact": "compact",
        "sessionEnd": "end",
    },
    "gemini": {
        "SessionStart": "start",
        "BeforeAgent": "prompt",
        "AfterTool": "tool",
        "AfterAgent": "stop",
        "PreCompress": "compact",
        "SessionEnd": "end",
    },
}
"""The events that each host tells of, and what they are."""

# Which of a host's own ids tells one event from another that says the same; the first that is there.
_TURN: Final = ("prompt_id", "turn_id", "generation_id", "timestamp")


def record_of(host: Host, data: Data, *, at: float) -> dict[str, Any] | None:
    """Return an event in our form, without what is private; None if it is none that matters."""
    kind = HOSTS[host].get(_text(data, "hook_event_name"))
    session = _text(data, "session_id", "conversation_id", "sessionId")
    if kind is None or not session:
        return None
    record: dict[str, Any] = {"kind": kind, "host": host, "session": session, "at": at}
    agent = _text(data, "agent_id")
    if agent:
        record["agent"] = agent
    transcript = _text(data, "agent_transcript_path") or _text(data, "transcript_path")
    if transcript:
        record["transcript"] = transcript
    turn = _text(data, *_TURN)
    if turn:
        record["turn"] = turn
    record["cwd"] = _folder(data)
    match kind:
        case "prompt":
            record["text"] = public_text(_text(data, "prompt", "user_message"))
        case "tool":
            record |= _tool(data)
        case "answer" | "stop":
            record["text"] = public_text(_text(data, "last_assistant_message", "prompt_response", "text"))
        case "start":
            record["source"] = _text(data, "source", "trigger")
        case "compact" | "end":
            pass
    return record


def _tool(data: Data) -> dict[str, Any]:
    """Return a tool call with its result."""
    output = next((data[key] for key in ("tool_response", "tool_output", "result_json") if key in data), None)
    error = data.get("error") or data.get("error_message")
    return {
        "call": _text(data, "tool_use_id"),
        "tool": _text(data, "tool_name"),
        "server": _server(data),
        "input": public(data.get("tool_input")),
        "output": public(error if output is None and error else output),
        "is_error": output is None and bool(error),
    }


def _server(data: Data) -> str:
    """Return the server of a tool where the host names it beside the tool, and not in its name."""
    context = data.get("mcp_context")
    return _text(cast("Data", context), "server_name") if isinstance(context, dict) else ""


def _folder(data: Data) -> str:
    roots = data.get("workspace_roots")
    first = cast("list[object]", roots)[:1] if isinstance(roots, list) else []
    return str(*first) or _text(data, "cwd")


def _text(data: Data, *names: str) -> str:
    """Return the first of these fields that is a text."""
    for name in names:
        value = data.get(name)
        if isinstance(value, str) and value:
            return value
    return ""
