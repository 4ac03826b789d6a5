"""Parse the arguments of a tool call of a model into an action, or refuse them with an error that shows an example.

Common wrappers are tolerated, such as JSON in a string or an object in a list. An unknown action or field is refused, because a
wrong guess could change data. The error suggests the name that was probably meant.
"""

import difflib
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from pydantic import ValidationError

from memolog.tools.actions import ACTIONS, Action, plain

# The maximum depth of wrappers around the arguments, and the maximum number of problems in an error message.
_DEEPEST: Final = 4
_MOST_PROBLEMS: Final = 4
# A longer name is not compared with the known names.
_LONGEST_NAME: Final = 100
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
_HINTED_ACTIONS: Final[dict[str, dict[str, str]]] = {
    "task-query": {
        **dict.fromkeys(("next", "what is ready", "get ready", "ready tasks", "list ready", "available"), "ready"),
        **dict.fromkeys(("get", "view", "read", "details", "describe", "get task", "show task", "inspect"), "show"),
        **dict.fromkeys(("ls", "all", "list tasks", "index", "filter"), "list"),
        **dict.fromkeys(("find", "query", "lookup", "search tasks", "grep"), "search"),
    },
    "task-mutate": {
        **dict.fromkeys(("new", "add", "add task", "create task", "insert"), "create"),
        **dict.fromkeys(("edit", "change", "modify", "set", "rename", "label", "defer", "prioritize"), "update"),
        **dict.fromkeys(("start", "take", "begin", "assign to me", "claim task", "claim next", "pick"), "claim"),
        **dict.fromkeys(("unclaim", "give back", "drop", "unassign", "abandon", "put back"), "release"),
        **dict.fromkeys(("done", "complete", "finish", "resolve", "close task", "cancel"), "close"),
        **dict.fromkeys(("open", "undo", "unclose", "restore", "reactivate"), "reopen"),
        **dict.fromkeys(("dependency", "depend", "depends", "add dep", "add dependency", "block"), "dep"),
        **dict.fromkeys(("remove dep", "remove dependency", "unblock", "undep"), "dep"),
        **dict.fromkeys(("attach", "link message", "link messages", "reference"), "link"),
    },
    "memory-search": {
        **dict.fromkeys(("find", "query", "lookup", "grep", "search memory"), "search"),
        **dict.fromkeys(("get", "read", "fetch", "show", "open", "retrieve", "expand"), "recall"),
        **dict.fromkeys(("save", "store", "add", "note", "memorize", "fact", "add fact", "add note"), "remember"),
        **dict.fromkeys(("context", "update", "working memory", "update working memory", "edit"), "update_context"),
    },
}
"""Other names of the actions. An error suggests the action, but the call is not performed."""
_LINKS: Final = {"depadd": "add", "depremove": "remove"}
_HINTED_FIELDS: Final = {
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
"""Other names of the fields. An error suggests the field, but its value is not used."""
_IMPLIED_ACTIONS: Final = {
    "task-query": {"query": "search", "task": "show"},
    "memory-search": {"query": "search", "target": "recall"},
}
"""The fields that imply a reading action if none is named. An action that writes must be named."""
_EMPTY: Final[tuple[object, ...]] = ("", [], {}, False)
# The minimum similarity of a misspelt name to the name that is suggested.
_NEAR: Final = 0.7


class Misunderstood(Exception):
    """A call that cannot be interpreted. The text is for the model and shows what was expected."""


def understand(tool: str, arguments: object) -> Action:
    """Return the action of a tool call. Raise Misunderstood if the arguments are not a valid call of one of its actions."""
    action, given = _action(tool, _named_once(tool, _object(tool, arguments, 0)))
    kind = ACTIONS[tool][action]
    try:
        return kind.model_validate(_fields(tool, action, given))
    except ValidationError as error:
        raise Misunderstood(f"{_problems(error)} {shape_of(tool, action)}") from error


def _named_once(tool: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields under names in snake case, without those that are null. Refuse a field that has two values."""
    fields: dict[str, Any] = {}
    for key, value in given.items():
        if value is None:
            continue
        name = _snake(key)
        if name in fields and fields[name] != value:
            raise Misunderstood(f"`{name[:80]}` has two values. {shape_of(tool)}")
        fields[name] = value
    return fields


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
    if _read_action(tool, bare):
        return {"action": bare}
    raise Misunderstood(f"The arguments are text, but not a JSON object. {shape_of(tool)}")


def _unwrapped(tool: str, value: dict[str, Any], depth: int) -> Mapping[str, Any]:
    if "action" in {key.lower() for key in value}:
        inner = next((value[key] for key in value if key.lower() in _WRAPPERS and _is_object(value[key])), None)
        if inner is None:
            return value
        outer = {key: item for key, item in value.items() if key.lower() not in _WRAPPERS}
        within = _object(tool, inner, depth + 1)
        if twice := [key for key in outer if key in within and within[key] != outer[key]]:
            raise Misunderstood(f"`{twice[0][:80]}` has two values. {shape_of(tool)}")
        return {**within, **outer}
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
    """Return the action with this name; None if the tool has no such action. Case and punctuation are ignored."""
    return {plain(one): one for one in ACTIONS[tool]}.get(plain(word)) if isinstance(word, str) else None


def _action(tool: str, fields: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the action of a call, and its other fields."""
    fields = dict(fields)
    if "action" not in fields:
        return _implied_action(tool, fields), fields
    named = fields.pop("action")
    op = _LINKS.get(plain(named)) if tool == "task-mutate" and isinstance(named, str) else None
    if op is not None and fields.setdefault("op", op) == op:
        return "dep", fields
    action = _read_action(tool, named)
    if action is None:
        owner, meant = _meant_action(tool, named)
        if meant is None:
            hint = shape_of(tool)
        elif _read_action(owner, named):
            hint = f"It is an action of {owner}. {shape_of(owner, meant)}"
        else:
            of = "" if owner == tool else f" of {owner}"
            hint = f"Did you mean {meant}{of}? {shape_of(owner, meant)}"
        raise Misunderstood(
            f"{_short(named)} is not an action of {tool}. Its actions are {', '.join(ACTIONS[tool])}. {hint}"
        )
    return action, fields


def _meant_action(tool: str, named: object) -> tuple[str, str | None]:
    """Return the tool and the action that a wrong name probably means. The action is None if nothing is similar."""
    if not isinstance(named, str):
        return tool, None
    for owner in ACTIONS:
        if action := _read_action(owner, named):
            return owner, action
    given = plain(named)
    for owner in (tool, *ACTIONS):
        spelt = {plain(word): action for word, action in _HINTED_ACTIONS[owner].items()}
        if given in spelt:
            return owner, spelt[given]
        if near := _near(given, [plain(action) for action in ACTIONS[owner]]):
            return owner, _read_action(owner, near[0])
    return tool, None


def _near(word: str, known: Sequence[str]) -> list[str]:
    # The comparison takes quadratic time, so a long word is not compared.
    return difflib.get_close_matches(word, known, n=1, cutoff=_NEAR) if len(word) <= _LONGEST_NAME else []


def _implied_action(tool: str, fields: Mapping[str, Any]) -> str:
    """Return the reading action that the fields imply. Raise Misunderstood if they imply none."""
    for field, action in _IMPLIED_ACTIONS.get(tool, {}).items():
        if field in fields and set(fields) <= set(_names_of(ACTIONS[tool][action])):
            return action
    raise Misunderstood(f"The action is missing. {shape_of(tool)}")


def _names_of(kind: type[Action]) -> list[str]:
    return [field.alias or name for name, field in kind.model_fields.items()]


def _fields(tool: str, action: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of an action. Raise Misunderstood if a field is unknown.

    Some models fill in all fields of a tool, so an empty field of another action counts as missing.
    """
    kind = ACTIONS[tool][action]
    known, (needed, _) = _names_of(kind), _fields_of(kind)
    elsewhere = {name for other in ACTIONS[tool].values() for name in _names_of(other)}
    unknown = [
        name for name, value in given.items() if name not in known and not (name in elsewhere and value in _EMPTY)
    ]
    if unknown:
        told = " ".join(_unknown_field(tool, action, name, given) for name in unknown[:_MOST_PROBLEMS])
        raise Misunderstood(f"{told} {shape_of(tool, action)}")
    # An empty optional field counts as missing.
    return {
        name: given[name] for name in known if name in given and (name in needed or given[name] not in ("", [], {}))
    }


def _unknown_field(tool: str, action: str, name: str, given: Mapping[str, Any]) -> str:
    text = f"`{name[:80]}` is not a field of {action}."
    if action == "update" and name in {"status", "state"}:
        return f"{text} Use the action claim, release, close or reopen."
    known = [one for one in _names_of(ACTIONS[tool][action]) if one not in given]
    owners = [other for other, kind in ACTIONS[tool].items() if name in _names_of(kind)]
    hinted = [one for one in known if name in _HINTED_FIELDS.get(one, ())]
    if meant := hinted or (_near(name, known) if not owners else []):
        return f"{text} Did you mean `{meant[0]}`?"
    return f"{text} It is a field of {', '.join(owners)}." if owners else text


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
    return text if len(text) <= 80 else f"{text[:79]}…"  # noqa: PLR2004 - short enough for an error message


def _json(value: object) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, default=str)
    except (TypeError, ValueError, RecursionError):
        return f"a {type(value).__name__}"
