"""Generate the tool definitions in the forms of OpenAI, Anthropic and MCP.

The arguments of a tool are one flat object with the fields of all its actions. The description of a field lists these actions.
"""

from collections.abc import Mapping
from functools import cache
from typing import Any, Final, cast, get_args

from memolog.core.own_tools import OWN_TOOLS
from memolog.errors import InputError
from memolog.memory import Form
from memolog.text.escape import fixed_text
from memolog.tools.actions import ACTIONS, Action

FORMS: Final[tuple[str, ...]] = get_args(Form)

_DESCRIPTIONS: Final = {
    "task-query": "Look at tasks: ready (what can be done now), show, list, search.",
    "task-mutate": "Change tasks: create, update (fields), claim, release, close, reopen, dep (what comes first), "
    "link (messages to a task).",
    "memory-search": "Long memory of all conversations: search by words, recall the exact words, remember (save a fact or a "
    "note), update_context (change the working memory, or note progress at a task).",
}
_READING: Final = {"memory-search": "Long memory of all conversations: search by words, then recall the exact words."}
_TITLES: Final = {"task-query": "Look at tasks", "task-mutate": "Change tasks", "memory-search": "Search memory"}


def definitions(form: Form = "openai", *, read_only: bool = False) -> list[dict[str, Any]]:
    """Return the definitions of all tools in one of the forms. With `read_only`, leave out actions that write."""
    return [definition(tool, form, read_only=read_only) for tool in OWN_TOOLS if _actions(tool, read_only=read_only)]


def definition(tool: str, form: Form = "openai", *, read_only: bool = False) -> dict[str, Any]:
    """Return the definition of a tool in one of the forms. With `read_only`, leave out actions that write."""
    schema = schema_of(tool, read_only=read_only)
    words = _READING.get(tool, _DESCRIPTIONS[tool]) if read_only else _DESCRIPTIONS[tool]
    match form:
        case "openai":
            return {"type": "function", "function": {"name": tool, "description": words, "parameters": schema}}
        case "openai-responses":
            return {"type": "function", "name": tool, "description": words, "parameters": schema, "strict": False}
        case "anthropic":
            return {"name": tool, "description": words, "input_schema": schema}
        case "mcp":
            is_reading = not any(kind.writes for kind in _actions(tool, read_only=read_only).values())
            hints = {
                "readOnlyHint": is_reading,
                "destructiveHint": False,
                "idempotentHint": is_reading,
                "openWorldHint": False,
            }
            title = _TITLES[tool]
            return {"name": tool, "title": title, "description": words, "inputSchema": schema, "annotations": hints}
        case _:  # pyright: ignore[reportUnnecessaryComparison] - callers write any text
            raise InputError(f"`form` must be one of {', '.join(FORMS)}, got {form!r}.")


def _actions(tool: str, *, read_only: bool) -> dict[str, type[Action]]:
    return {name: kind for name, kind in ACTIONS[tool].items() if not (read_only and kind.writes)}


@cache
def schema_of(tool: str, *, read_only: bool = False) -> dict[str, Any]:
    """Return the JSON schema of a tool's arguments: one flat object. With `read_only`, leave out actions that write."""
    actions = _actions(tool, read_only=read_only)
    users: dict[str, list[str]] = {}
    shapes: dict[str, dict[str, Any]] = {}
    for action, kind in actions.items():
        for name, shape in _properties(kind).items():
            users.setdefault(name, []).append(action)
            # If several actions have the field, the first schema with a description is used.
            if name not in shapes or ("description" in shape and "description" not in shapes[name]):
                shapes[name] = shape
    properties: dict[str, Any] = {"action": {"type": "string", "enum": list(actions)}}
    for name, shape in shapes.items():
        properties[name] = _with_users(shape, users[name], actions)
    return {"type": "object", "properties": properties, "required": ["action"]}


def _with_users(shape: dict[str, Any], users: list[str], actions: Mapping[str, type[Action]]) -> dict[str, Any]:
    """Return the schema of a field. Its description lists the actions that have the field, unless all actions have it."""
    words = shape.get("description", "")
    which = "" if len(users) == len(actions) else ", ".join(users)
    description = f"{which}: {words}" if which and words else which or words
    return {**shape, "description": description} if description else shape


def _properties(kind: type[Action]) -> dict[str, dict[str, Any]]:
    schema = kind.model_json_schema(mode="validation")
    found = cast("dict[str, dict[str, Any]]", schema["properties"])
    return {name: _slim(shape) for name, shape in found.items()}


_KEPT: Final = ("type", "enum", "items", "description")


def _slim(shape: Mapping[str, Any]) -> dict[str, Any]:
    """Return only the keys of the schema of a field that a model needs: type, choices and description."""
    choices = [one for one in shape.get("anyOf", ()) if one.get("type") != "null"]
    merged: dict[str, Any] = {**(choices[0] if choices else {}), **{k: v for k, v in shape.items() if k != "anyOf"}}
    if "const" in merged:
        merged["enum"] = [merged["const"]]
    if "items" in merged:
        merged["items"] = _slim(merged["items"])
    if merged.get("format") == "date-time":
        merged["type"] = "string"
    return {name: merged[name] for name in _KEPT if name in merged}


def guidance(*, read_only: bool = False) -> str:
    """Return instructions for the system prompt on how to use the tools. With `read_only`, leave out how to write."""
    texts = ["guidance", *([] if read_only else ["guidance_changes"]), "guidance_answers"]
    return "\n".join(fixed_text(f"tools/{name}") for name in texts)


assert set(_DESCRIPTIONS) == set(OWN_TOOLS) == set(ACTIONS)  # noqa: S101 - the three must have the same tools
