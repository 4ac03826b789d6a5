"""Convert an event of any supported coding agent into one form, without text in `<private>` tags."""

import json
import re
from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias, cast

# Text in these tags is not stored. Users write `<private>`. A `<memory-pack>` contains memory that Memolog has sent to the host
# (the coding agent). This memory is stored already.
_TAG: Final = re.compile(r"<\s*+(/?)\s*+(?:private|memory-pack)(?=[\s/>]|$)[^<>]*+>?", re.IGNORECASE)


class PrivateFilter:
    """Removes private text from several texts. A tag that is opened in one text may be closed in a later text."""

    def __init__(self) -> None:
        self.depth = 0
        """Number of open tags."""

    def public(self, text: str) -> str:
        """Return the public part of a text. An unclosed tag hides the rest of the text. A lone closing tag is removed."""
        if not self.depth and not _may_have_tag(text):
            return text
        kept: list[str] = []
        at = 0
        for tag in _TAG.finditer(text):
            if not self.depth:
                kept.append(text[at : tag.start()])
            at = tag.end()
            if tag[1]:
                self.depth = max(0, self.depth - 1)
            elif not tag[0].endswith("/>"):
                self.depth += 1
        if not self.depth:
            kept.append(text[at:])
        return "".join(kept)


def _may_have_tag(text: str) -> bool:
    """Return whether a text may contain a tag. This check is quick, which matters for long outputs of tools."""
    low = text.lower()
    return "private" in low or "memory-pack" in low


def public_text(text: str) -> str:
    """Return the public part of one text."""
    return PrivateFilter().public(text)


def public(value: Any) -> Any:
    """Return a JSON value without private text. A text in the value that is JSON itself is parsed too."""
    if isinstance(value, str):
        return _public_json(value) if value.lstrip()[:1] in {"{", "["} else public_text(value)
    if isinstance(value, dict):
        items = cast("dict[Any, Any]", value).items()
        return {public_text(key) if isinstance(key, str) else key: public(item) for key, item in items}
    if isinstance(value, list):
        return [public(item) for item in cast("list[Any]", value)]
    return value


def _public_json(text: str) -> str:
    """Return the public part of a text that may be JSON. In JSON, tags with escapes are found, and the result is JSON again."""
    if not _may_have_tag(text) and "\\u" not in text:
        return text
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return public_text(text)
    kept = public(value)
    return text if kept == value else json.dumps(kept, ensure_ascii=False)


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
"""The kind of each event, by host and name of the event."""

# Fields of hosts that distinguish two events with equal text. The first field that an event has is used.
_TURN: Final = ("prompt_id", "turn_id", "generation_id", "timestamp")


def record_of(host: Host, data: Data, *, at: float) -> dict[str, Any] | None:
    """Return an event as a record without private text. None means that the event is not stored."""
    kind = HOSTS[host].get(_text(data, "hook_event_name"))
    session = _text(data, "session_id", "conversation_id", "sessionId")
    if kind is None or not session:
        return None
    record: dict[str, Any] = {"kind": kind, "host": host, "session": session, "at": at}
    optional = {
        "agent": _text(data, "agent_id"),
        "transcript": _text(data, "agent_transcript_path", "transcript_path"),
        "turn": _text(data, *_TURN),
    }
    record |= {name: value for name, value in optional.items() if value}
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
    """Return the MCP server of a tool. Return an empty text if the host reports it only as part of the name of the tool."""
    context = data.get("mcp_context")
    return _text(cast("Data", context), "server_name") if isinstance(context, dict) else ""


def _folder(data: Data) -> str:
    roots = data.get("workspace_roots")
    first = cast("list[object]", roots)[:1] if isinstance(roots, list) else []
    return str(*first) or _text(data, "cwd")


def _text(data: Data, *names: str) -> str:
    """Return the first of these fields that is a non-empty text, or an empty text."""
    for name in names:
        value = data.get(name)
        if isinstance(value, str) and value:
            return value
    return ""
