"""Turn tool calls and their results into lines of the log, one line for a call and its result.

Consecutive calls of one kind are joined. Results of the memory's own tools are not read.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, cast

from memolog.domain.codec import JsonValue, dumps
from memolog.domain.lookalikes import quoted_label
from memolog.domain.message import Message, TextPart, ToolCallPart, ToolResultPart
from memolog.domain.observation import Priority
from memolog.domain.pairs import part_at, results_of_calls
from memolog.extractive.outcomes import Outcome, outcome_of
from memolog.prompt.escape import clean, short_line
from memolog.prompt.pieces import parsed, texts_of_parts
from memolog.prompt.redact import REDACTION

__all__ = ["ToolLine", "tool_lines_of"]


@dataclass(frozen=True, slots=True)
class ToolLine:
    """A line about one tool call, or about several of one kind."""

    number: int
    """The message under which it stands."""
    tool: str
    text: str
    cites: tuple[int, ...]
    priority: Priority = "medium"
    category: str | None = None
    files: tuple[str, ...] = ()
    verb: str = ""
    """How the line begins."""
    joins: bool = False
    """True if the line only names what was read or changed, so that the next such line can be joined to it."""


@dataclass(frozen=True, slots=True)
class _Target:
    """What a call is about."""

    text: str
    files: tuple[str, ...] = ()


_NAME: Final = 60
_MOST_JOINED: Final = 500
_QUERY: Final = 160
_CHANGE: Final = re.compile(
    r"(updated|created|wrote|written|deleted|edited|modified|overwritten|renamed)\b", re.IGNORECASE
)
_SEARCH: Final = re.compile(r"search|grep|find|glob", re.IGNORECASE)
_VERBS: Final = (
    (re.compile(r"(?:run|bash|shell|sh|terminal|exec\w*|command|powershell|run_\w+)", re.IGNORECASE), "ran"),
    (
        re.compile(r"(?:edit|write|create|update|multi_?edit|apply_patch|str_replace)\w*", re.IGNORECASE),
        "changed",
    ),
    (re.compile(r"(?:read|view|open|cat|show)(?:_?file)?", re.IGNORECASE), "read"),
    (re.compile(r"(?:list|ls)(?:_?(?:files|dir\w*))?", re.IGNORECASE), "looked into"),
    (re.compile(r"(?=\w*+\Z)\w*(?:search|grep|glob|find)\w*", re.IGNORECASE), "searched for"),
    (re.compile(r"(?:web_?)?fetch\w*", re.IGNORECASE), "fetched"),
)


def tool_lines_of(messages: Sequence[Message]) -> dict[int, list[ToolLine]]:
    """Return the lines about tool calls, by the number of the message under which they stand."""
    found: list[ToolLine] = []
    for tool_line in _tool_lines(messages):
        last = found[-1] if found else None
        is_same = (
            last is not None
            and last.tool == tool_line.tool
            and last.joins
            and tool_line.joins
            and last.verb == tool_line.verb
            and last.category == tool_line.category
        )
        if (
            is_same
            and last
            and _spoke(messages, last.number, tool_line.number) is False
            and len(last.text) < _MOST_JOINED
        ):
            found[-1] = _joined(last, tool_line)
        else:
            found.append(tool_line)
    by_number: dict[int, list[ToolLine]] = {}
    for tool_line in found:
        by_number.setdefault(tool_line.number, []).append(tool_line)
    return by_number


def _spoke(messages: Sequence[Message], first: int, last: int) -> bool:
    """Return whether a user spoke between two messages."""
    return any(message.role == "user" and message.text for message in messages[first:last])


def _joined(last: ToolLine, tool_line: ToolLine) -> ToolLine:
    added = tool_line.text.removeprefix(tool_line.verb).lstrip()
    return replace(
        last,
        # A repeated call is named once; every call is cited.
        text=last.text if added in last.text else f"{last.text}, {added}",
        cites=(*last.cites, *tool_line.cites),
        files=tuple(dict.fromkeys((*last.files, *tool_line.files))),
    )


def _tool_lines(messages: Sequence[Message]) -> Iterator[ToolLine]:
    results = results_of_calls(messages)
    called = {part.id for message in messages for part in message.parts if isinstance(part, ToolCallPart)}
    for number, message in enumerate(messages, 1):
        for place, part in enumerate(message.parts):
            if isinstance(part, ToolCallPart):
                found = results.get((number - 1, place))
                result = part_at(messages, found) if found else None
                answer = (
                    (found[0] + 1, result, messages[found[0]].own)
                    if found and isinstance(result, ToolResultPart)
                    else None
                )
                yield _call(number, part, answer, own=message.own)
            elif isinstance(part, ToolResultPart) and part.call_id not in called and not message.own:
                yield _answered(number, (number,), part.name or "tool", _Target(""), part)
            elif isinstance(part, TextPart) and message.role == "tool" and not message.own and part.text.strip():
                yield _line("tool", _Target(""), _read("tool", part.text, is_error=False), number, (number,))


def _call(number: int, call: ToolCallPart, result: tuple[int, ToolResultPart, bool] | None, *, own: bool) -> ToolLine:
    name = REDACTION.redact(short_line(call.name, _NAME)) or "tool"
    if own or (result is not None and result[2]):
        cites = (number,) if result is None else (number, result[0])
        return ToolLine(number, name, _own(name, call.arguments), cites, "low")
    target = _target_of(name, call.arguments)
    if result is None:
        return _line(name, target, Outcome("no result", "finding"), number, (number,))
    answer_number, part, _ = result
    return _answered(number, tuple(dict.fromkeys((number, answer_number))), name, target, part)


def _answered(number: int, cites: tuple[int, ...], name: str, target: _Target, part: ToolResultPart) -> ToolLine:
    name = REDACTION.redact(short_line(name, _NAME)) or "tool"
    outcome = _read(name, _text_of(part.content), is_error=part.is_error)
    return _line(name, target, outcome, number, cites)


def _read(name: str, text: str, *, is_error: bool) -> Outcome:
    return outcome_of(text, name=name, is_error=is_error, reads=_is_read(name), edits=_is_edit(name))


def _line(name: str, target: _Target, outcome: Outcome, number: int, cites: tuple[int, ...]) -> ToolLine:
    """Return the line for a call and its outcome."""
    files = tuple(dict.fromkeys((*target.files, *outcome.files)))
    said = outcome.text
    category = outcome.category
    made = _CHANGE.match(said) if category == "change" else None
    if category == "change" and files:
        # The call and its output name the same file: it is named once.
        verb = f"Assistant {made[1].lower() if made else 'changed'}"
        return ToolLine(number, name, f"{verb} {', '.join(files)}", cites, "medium", category, files, verb, joins=True)
    is_plain = _is_read(name) and category == "finding" and (target.files or "lines: " in said or said == target.text)
    if is_plain and target.text:
        # The content of a file can be read again; the line only names the file.
        verb = f"Assistant {'searched' if _SEARCH.search(name) else 'read'}"
        return ToolLine(number, name, f"{verb} {target.text}", cites, "medium", category, files, verb, joins=True)
    verb = _verb(name, has_target=bool(target.text))
    text = f"{verb} {target.text}: {said}" if target.text else f"{verb}: {said}"
    return ToolLine(number, name, text, cites, "medium", category, files, verb)


def _verb(name: str, *, has_target: bool) -> str:
    """Return the opening of a line; the name of the tool if it is not a common one."""
    if has_target:
        for pattern, verb in _VERBS:
            if pattern.fullmatch(name):
                return f"Assistant {verb}"
    called = f"Assistant called {quoted_label(name, _NAME, is_tool=True)}"
    return f"{called} on" if has_target else called


def _own(name: str, arguments: JsonValue) -> str:
    """Return a line about a call of a memory tool; its answer is in the log already."""
    value = parsed(arguments)
    query = cast("Mapping[str, object]", value).get("query") if isinstance(value, Mapping) else None
    if isinstance(query, str) and query.strip():
        return f"Assistant searched the memory for “{REDACTION.redact(short_line(query, _QUERY))}”"
    return f"Assistant used {quoted_label(name, _NAME, is_tool=True)}"


def _text_of(value: JsonValue) -> str:
    """Return the text of a tool's answer: as it is, the texts of its parts, or JSON."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    texts = texts_of_parts(value)
    if texts is not None:
        return "\n".join(filter(None, map(clean, texts)))
    try:
        return dumps(value)
    except (TypeError, ValueError, RecursionError):
        return ""


# ---------------------------------------------------------------- what a call is about


# Names of arguments that hold a file, and of those that describe the call best, in this order.
_FILE_KEYS: Final = "file_path path filename file notebook_path target_file relative_path filepath uri"
_OTHER_KEYS: Final = "command cmd script pattern query url description prompt question text code input"
_READ: Final = re.compile(r"read|view|open|cat|fetch|get|show|list|ls|glob|grep|search|find|look", re.IGNORECASE)
_EDIT: Final = re.compile(r"edit|write|create|replace|patch|insert|update|delete|move|rename|apply", re.IGNORECASE)
# Placeholders that some tools send instead of arguments.
_NOTHING: Final = re.compile(r"(?:tool use:?)?[\s*`]*+\w*+[\s*`]*+\Z", re.IGNORECASE)
_QUOTED: Final = re.compile(r"`([^`\n]+)`")
_PATH: Final = re.compile(r"(?:[A-Za-z]:)?[\w.@~+-]*(?:[/\\][\w.@~+-]+)+|[\w@+-]+\.[A-Za-z]\w{0,7}\Z")
_PATCHED: Final = re.compile(r"^(?:\*\*\* (?:Add|Update|Delete) File: |\+\+\+ (?:b/)?)(\S.*)$", re.MULTILINE)
_LONGEST: Final = 110
_LONGEST_VALUE: Final = 40
_LONGEST_PATH: Final = 400
_MOST_VALUES: Final = 6
_SCANNED: Final = 4_000
_MOST_FILES: Final = 20


def _is_read(name: str) -> bool:
    """Return whether a tool only reads."""
    return bool(_READ.search(name)) and not _is_edit(name)


def _is_edit(name: str) -> bool:
    """Return whether a tool changes files."""
    return bool(_EDIT.search(name))


def _target_of(name: str, arguments: JsonValue) -> _Target:
    """Return what a call is about: the file, the command, or the values it was given."""
    value = parsed(arguments)
    if isinstance(value, Mapping):
        return _from_object(cast("Mapping[str, object]", value), name)
    text = REDACTION.redact(clean(value[:_SCANNED])) if isinstance(value, str) else ""
    if _NOTHING.match(text):
        return _Target("")
    return _from_text(text, name)


def _from_object(value: Mapping[str, object], name: str) -> _Target:
    files = tuple(_arguments(value, _FILE_KEYS, _LONGEST_PATH)[:1])
    others = _arguments(value, _OTHER_KEYS, _LONGEST)
    if _is_edit(name):
        patch = next((item for item in value.values() if isinstance(item, str) and "File: " in item[:_SCANNED]), "")
        files = files or tuple(_argument(path, _LONGEST_PATH) for path in _PATCHED.findall(patch))[:_MOST_FILES]
        return _Target(", ".join(files) or (others[0] if others else _values(value)), files)
    text = " ".join([*others[:1], *files])
    return _Target(text or _values(value), files if _is_read(name) else ())


def _arguments(value: Mapping[str, object], keys: str, most: int) -> list[str]:
    """Return the arguments with these names that are non-empty strings."""
    texts = (value.get(key) for key in keys.split())
    return [_argument(text, most) for text in texts if isinstance(text, str) and text.strip()]


def _values(value: Mapping[str, object]) -> str:
    """Return a few short arguments as they were given."""
    plain = [
        (key, item) for key, item in list(value.items())[:50] if isinstance(item, str | int | float) and item != ""
    ]
    return ", ".join(
        f"{_argument(str(key), 30)}={_argument(str(item), _LONGEST_VALUE)}" for key, item in plain[:_MOST_VALUES]
    )


def _from_text(text: str, name: str) -> _Target:
    first = short_line(text.strip().split("\n", 1)[0].replace("`", ""), _LONGEST)
    quoted = [short_line(part, _LONGEST) for part in _QUOTED.findall(text)]
    files = tuple(part for part in quoted if _PATH.fullmatch(part))[:1]
    patched = tuple(short_line(path, _LONGEST_PATH) for path in _PATCHED.findall(text)) if _is_edit(name) else ()
    if patched:
        return _Target(", ".join(patched[:_MOST_FILES]), patched[:_MOST_FILES])
    if quoted and quoted[0] not in first:
        return _Target(f"{first} `{quoted[0]}`", files)
    return _Target(first, files if _is_read(name) or _is_edit(name) else ())


def _argument(text: str, most: int) -> str:
    return REDACTION.redact(short_line(text, most))
