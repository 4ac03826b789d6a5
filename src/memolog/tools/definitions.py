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
    "task-mutate": "Change tasks: create, claim, close, dep (what comes first), link (messages to a task), "
    "update_context (note lasting facts in the working memory, or progress at a task).",
    "memory-search": "Long memory of all conversations: search by words, then recall the exact words.",
}
_TITLES: Final = {"task-query": "Look at tasks", "task-mutate": "Change tasks", "memory-search": "Search memory"}


def definition(tool: str, form: Form = "openai") -> dict[str, Any]:
    """Return the definition of a tool in one of the forms."""
    words, schema = _DESCRIPTIONS[tool], schema_of(tool)
    match form:
        case "openai":
            return {"type": "function", "function": {"name": tool, "description": words, "parameters": schema}}
        case "openai-responses":
            return {"type": "function", "name": tool, "description": words, "parameters": schema, "strict": False}
        case "anthropic":
            return {"name": tool, "description": words, "input_schema": schema}
        case "mcp":
            is_reading = tool != "task-mutate"
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


@cache
def schema_of(tool: str) -> dict[str, Any]:
    """Return the JSON schema of a tool's arguments: one flat object."""
    actions = ACTIONS[tool]
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


def guidance() -> str:
    """Return instructions for the system prompt on how to use the tools."""
    return fixed_text("tools/guidance")


assert set(_DESCRIPTIONS) == set(OWN_TOOLS) == set(ACTIONS)  # noqa: S101 - the three must have the same tools
