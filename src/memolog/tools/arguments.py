"""Parse the arguments of a tool call of a model into an action, or refuse them with an error that shows an example.

Common mistakes are tolerated: JSON in a string, an object in a list, other names of fields and actions, unknown fields.
"""

import json
import re
from collections.abc import Mapping
from typing import Any, Final, cast

from pydantic import ValidationError

from memolog.tools.actions import ACTIONS, Action, choice, plain

# The maximum depth of wrappers around the arguments, and the maximum problems in an error message.
_DEEPEST: Final = 4
_MOST_PROBLEMS: Final = 4
_FENCED: Final = re.compile(r"\s*+```[a-z]*+\n?(.*?)\n?```\s*+", re.DOTALL)
_WRAPPERS: Final = (
    "arguments",
    "args",
    "input",
    "params",
    "parameters",
    "kwargs",
    "payload",
    "data",
    "request",
    "body",
)
_OTHER_ACTIONS: Final[dict[str, dict[str, str]]] = {
    "task-query": {
        **dict.fromkeys(("next", "what is ready", "get ready", "ready tasks", "list ready", "available"), "ready"),
        **dict.fromkeys(("get", "view", "read", "details", "describe", "get task", "show task", "inspect"), "show"),
        **dict.fromkeys(("ls", "all", "list tasks", "index", "filter"), "list"),
        **dict.fromkeys(("find", "query", "lookup", "search tasks", "grep"), "search"),
    },
    "task-mutate": {
        **dict.fromkeys(("new", "add", "add task", "create task", "insert", "open"), "create"),
        **dict.fromkeys(("start", "take", "begin", "assign to me", "claim task", "claim next", "pick"), "claim"),
        **dict.fromkeys(("done", "complete", "finish", "resolve", "close task"), "close"),
        **dict.fromkeys(("dependency", "depend", "depends", "dep add", "add dep", "add dependency", "block"), "dep"),
        **dict.fromkeys(("dep remove", "remove dep", "remove dependency", "unblock", "undep"), "dep"),
        **dict.fromkeys(("attach", "link message", "link messages", "reference"), "link"),
        **dict.fromkeys(
            ("note", "remember", "context", "update working memory", "add note", "save context"), "update_context"
        ),
    },
    "memory-search": {
        **dict.fromkeys(("find", "query", "lookup", "grep", "search memory"), "search"),
        **dict.fromkeys(("get", "read", "fetch", "show", "open", "retrieve", "expand"), "recall"),
    },
}
_REMOVING: Final = frozenset({"depremove", "removedep", "removedependency", "unblock", "undep"})
_OTHER_FIELDS: Final = {
    "task": ("task_id", "id", "handle", "task_handle", "ticket", "issue", "taskname", "task_title", "title", "name"),
    "query": ("q", "text", "keywords", "search", "term", "terms", "question", "search_query"),
    "target": ("id", "group", "group_id", "message", "message_id", "observation", "span", "ref", "reference", "range"),
    "title": ("name", "subject", "task", "task_title", "summary"),
    "description": ("desc", "details", "body", "content"),
    "summary": ("result", "outcome", "notes", "comment", "message", "close_summary"),
    "reason": ("close_reason", "resolution", "status"),
    "blocked_by": ("depends_on", "dependencies", "deps", "blockers", "after", "requires"),
    "depends_on": ("blocked_by", "blocker", "depends", "on", "dependency", "target", "other", "parent"),
    "discovered_from": ("origin", "found_in"),
    "due": ("due_date", "deadline", "due_at"),
    "defer_until": ("defer", "start_date", "not_before"),
    "labels": ("label", "tags", "tag"),
    "type": ("kind", "task_type", "category"),
    "kind": ("link_type", "dep_type", "relation", "type"),
    "max_priority": ("priority", "min_priority", "priority_max"),
    "assignee": ("owner", "assigned_to"),
    "status": ("state", "statuses"),
    "messages": ("message", "message_ids", "message_id", "ids", "span", "seqs"),
    "as": ("kind", "as_", "link_type", "relation", "type"),
    "op": ("operation", "mode", "sub_action", "subaction", "command"),
    "mode": ("op", "operation", "how"),
    "text": ("content", "context", "note", "value", "body", "update", "message"),
    "section": ("heading", "header", "section_name", "key"),
    "related": ("include_messages", "with_messages", "include_related", "messages", "with_related"),
    "limit": ("max", "count", "n", "top_k", "max_results", "size", "page_size"),
    "cursor": ("next", "page", "after", "page_token", "next_cursor", "continue"),
    "sources": ("source", "kinds", "in"),
    "thread": ("thread_id", "conversation", "session"),
    "since": ("from", "after", "start", "from_date"),
    "until": ("to", "before", "end", "to_date"),
    "claim_next": ("next", "then_claim_next"),
    "detail": ("level", "details", "verbosity"),
    "claim": ("claim_it", "start"),
    "parent": ("parent_id", "epic", "parent_task"),
}
_IMPLIED_ACTIONS: Final[dict[str, tuple[tuple[str, frozenset[str]], ...]]] = {
    "task-query": (("search", frozenset({"query"})), ("show", frozenset({"task"}))),
    "task-mutate": (
        ("close", frozenset({"task", "summary"})),
        ("dep", frozenset({"task", "depends_on"})),
        ("link", frozenset({"task", "messages"})),
        ("create", frozenset({"title"})),
        ("update_context", frozenset({"section", "text"})),
    ),
    "memory-search": (("search", frozenset({"query"})), ("recall", frozenset({"target"}))),
}
"""The fields that imply an action if it is not named."""


class Misunderstood(Exception):
    """A call that cannot be interpreted. The text is for the model and shows what was expected."""


def understand(tool: str, arguments: object) -> tuple[Action, tuple[str, ...]]:
    """Return the action of a tool call, and the names of unknown fields. Raise Misunderstood if the call makes no sense."""
    given = _object(tool, arguments, 0)
    fields = {_snake(key): value for key, value in given.items() if value is not None}
    action, fields = _action(tool, fields)
    kind = ACTIONS[tool][action]
    taken, ignored = _fields(kind, fields)
    try:
        value = kind.model_validate(taken)
    except ValidationError as error:
        raise Misunderstood(f"{_problems(error)} {shape_of(tool, action)}") from error
    return value, ignored


def shape_of(tool: str, action: str | None = None) -> str:
    """Return the text "Expected …" with an example of a call: for one action with a list of its fields, or for all actions."""
    if action is None:
        examples = " or ".join(_json(kind.example) for kind in ACTIONS[tool].values())
        return f"Expected one object with an action: {examples}."
    kind = ACTIONS[tool][action]
    needed, optional = _fields_of(kind)
    more = f" Also possible: {', '.join(optional)}." if optional else ""
    return f"Expected {_json(kind.example)}. Needed: {', '.join(['action', *needed])}.{more}"


def _fields_of(kind: type[Action]) -> tuple[list[str], list[str]]:
    """Return the names of the required fields and of the optional fields of an action."""
    named = [(field.alias or name, field.is_required()) for name, field in kind.model_fields.items()]
    return [name for name, is_required in named if is_required], [
        name for name, is_required in named if not is_required
    ]


def _object(tool: str, given: object, depth: int) -> Mapping[str, Any]:
    """Return the arguments as an object. They may be JSON in a string, a list with one object, or an object in a wrapper."""
    if isinstance(given, bytes | bytearray):
        given = bytes(given).decode("utf-8", "replace")
    if isinstance(given, str):
        return _object(tool, _from_text(tool, given, depth), depth + 1)
    if isinstance(given, list | tuple) and len(cast("list[Any]", given)) == 1:
        return _object(tool, cast("list[Any]", given)[0], depth + 1)
    if isinstance(given, list | tuple):
        raise Misunderstood(
            f"One call takes one object, not a list of {len(cast('list[Any]', given))}. {shape_of(tool)}"
        )
    if given is None or not isinstance(given, Mapping) or depth > _DEEPEST:
        raise Misunderstood(f"The arguments must be one object. {shape_of(tool)}")
    value = {str(key): item for key, item in cast("Mapping[object, Any]", given).items()}
    return _unwrapped(tool, value, depth)


def _from_text(tool: str, text: str, depth: int) -> object:
    fenced = _FENCED.fullmatch(text)
    bare = (fenced[1] if fenced else text).strip()
    if depth > _DEEPEST or not bare:
        return None
    try:
        return json.loads(bare)
    except (ValueError, RecursionError):
        pass
    try:
        # Trailing commas and typographic quotation marks are the most common mistakes.
        return json.loads(re.sub(r",\s*([}\]])", r"\1", bare.replace("“", '"').replace("”", '"')))
    except (ValueError, RecursionError):
        pass
    if _read_exactly(tool, bare):
        return {"action": bare}
    raise Misunderstood(f"The arguments are text, but not a JSON object. {shape_of(tool)}")


def _unwrapped(tool: str, value: dict[str, Any], depth: int) -> Mapping[str, Any]:
    if "action" in {key.lower() for key in value}:
        inner = next((value[key] for key in value if key.lower() in _WRAPPERS and _is_object(value[key])), None)
        if inner is None:
            return value
        outer = {key: item for key, item in value.items() if key.lower() not in _WRAPPERS}
        return {**_object(tool, inner, depth + 1), **outer}
    if len(value) == 1:
        ((key, inner),) = value.items()
        if _is_object(inner) and (key.lower() in _WRAPPERS or plain(key) == plain(tool)):
            return _object(tool, inner, depth + 1)
        if _is_object(inner) and (action := _read_action(tool, key)) is not None:
            # The action is the key, and its fields are the value.
            return {**_object(tool, inner, depth + 1), "action": action}
    return value


def _is_object(value: object) -> bool:
    return isinstance(value, Mapping) or (isinstance(value, str) and value.lstrip().startswith("{"))


def _read_action(tool: str, word: object) -> str | None:
    known = tuple(ACTIONS[tool])
    read = choice(known, _OTHER_ACTIONS[tool])(word)
    return read if read in known else None


def _action(tool: str, fields: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    fields = dict(fields)
    named = next(
        (fields.pop(key) for key in ("action", "operation_name", "method", "type_of_action") if key in fields), None
    )
    if named is None:
        return _action_from_fields(tool, fields), fields
    is_foreign = isinstance(named, str) and not _read_exactly(tool, named) and _is_action_elsewhere(tool, named)
    action = None if is_foreign else _read_action(tool, named)
    if action is None:
        elsewhere = [
            other for other in ACTIONS if other != tool and isinstance(named, str) and _read_exactly(other, named)
        ]
        hint = f" It is an action of {elsewhere[0]}." if elsewhere else ""
        raise Misunderstood(
            f"{_short(named)} is not an action of {tool}.{hint} Its actions are {', '.join(ACTIONS[tool])}. {shape_of(tool)}"
        )
    if action == "dep" and isinstance(named, str) and plain(named) in _REMOVING:
        fields.setdefault("op", "remove")
    return action, fields


def _is_action_elsewhere(tool: str, word: str) -> bool:
    """Return whether a word is an action of another tool. If so, it is not a misspelt action of this tool."""
    return any(plain(word) in map(plain, actions) for other, actions in ACTIONS.items() if other != tool)


def _read_exactly(tool: str, word: str) -> bool:
    return plain(word) in {plain(one) for one in (*ACTIONS[tool], *_OTHER_ACTIONS[tool])}


def _action_from_fields(tool: str, fields: Mapping[str, Any]) -> str:
    """Return the action that the fields imply. Raise Misunderstood if they imply none."""
    for action, needed in _IMPLIED_ACTIONS[tool]:
        if needed <= set(fields):
            return action
    raise Misunderstood(f"The action is missing. {shape_of(tool)}")


def _fields(kind: type[Action], given: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the fields of an action under their right names, and the names of unknown fields."""
    known = [field.alias or name for name, field in kind.model_fields.items()]
    taken = {name: given[name] for name in known if name in given}
    left = {name: value for name, value in given.items() if name not in taken}
    for name in known:
        if name not in taken:
            other = next((word for word in _OTHER_FIELDS.get(name, ()) if word in left), None)
            if other is not None:
                taken[name] = left.pop(other)
    needed, _ = _fields_of(kind)
    # An empty optional field counts as missing.
    given_empty = {name for name, value in taken.items() if value in ("", [], {}) and name not in needed}
    return {name: value for name, value in taken.items() if name not in given_empty}, tuple(left)


def _problems(error: ValidationError) -> str:
    problems: list[str] = []
    for problem in error.errors(include_url=False, include_input=True, include_context=False)[:_MOST_PROBLEMS]:
        place = ".".join(str(step) for step in problem["loc"]) or "the call"
        if problem["type"] == "missing":
            problems.append(f"`{place}` is missing.")
        else:
            words = problem["msg"].removeprefix("Value error, ")
            problems.append(f"`{place}`: {words[:1].lower()}{words[1:]}, not {_short(problem['input'])}.")
    return " ".join(problems)


def _snake(key: str) -> str:
    return re.sub(r"[\s\-]+", "_", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", key.strip())).lower()


def _short(value: object) -> str:
    text = _json(value)
    return text if len(text) <= 80 else f"{text[:79]}…"  # noqa: PLR2004 - a glance


def _json(value: object) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, default=str)
    except (TypeError, ValueError, RecursionError):
        return f"a {type(value).__name__}"
