"""What was done: each tool call and what came of it, one line for both.

Knows which result answers which call, and joins calls of a kind that follow one another. Knows nothing of what was said; what
our own memory answered is not read.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, cast

from memolog.domain.codec import JsonValue, dumps
from memolog.domain.message import Message, TextPart, ToolCallPart, ToolResultPart
from memolog.domain.observation import Priority
from memolog.domain.pairs import part_at, results_of_calls
from memolog.extractive.calls import Target, is_edit, is_read, target_of
from memolog.extractive.outcomes import Outcome, outcome_of
from memolog.prompt.escape import clean, one_line
from memolog.prompt.redact import REDACTION

__all__ = ["Doing", "doings_of"]


@dataclass(frozen=True, slots=True)
class Doing:
    """One line about one call, or about several of a kind."""

    number: int
    """The message that it stands with."""
    tool: str
    text: str
    cites: tuple[int, ...]
    priority: Priority = "medium"
    category: str | None = None
    files: tuple[str, ...] = ()
    verb: str = ""
    """How the line begins."""
    joins: bool = False
    """True where the line only names what was looked at or changed, so that the next such line can be added to it."""


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
        re.compile(r"(?:edit|write|create|update|multi_?edit|apply_patch|str_replace\w*)(?:_?\w*)", re.IGNORECASE),
        "changed",
    ),
    (re.compile(r"(?:read|view|open|cat|show)(?:_?file)?", re.IGNORECASE), "read"),
    (re.compile(r"(?:list|ls)(?:_?(?:files|dir\w*))?", re.IGNORECASE), "looked into"),
    (re.compile(r"\w*(?:search|grep|glob|find)\w*", re.IGNORECASE), "searched for"),
    (re.compile(r"(?:web_?)?fetch\w*", re.IGNORECASE), "fetched"),
)
_TEXT_TYPES: Final = frozenset({"text", "input_text", "output_text"})


def doings_of(messages: Sequence[Message]) -> dict[int, list[Doing]]:
    """Return the lines about tools, by the number of the message that they stand with."""
    found: list[Doing] = []
    for doing in _doings(messages):
        last = found[-1] if found else None
        is_same = (
            last is not None
            and last.tool == doing.tool
            and last.joins
            and doing.joins
            and last.verb == doing.verb
            and last.category == doing.category
        )
        if is_same and last and _spoke(messages, last.number, doing.number) is False and len(last.text) < _MOST_JOINED:
            found[-1] = _joined(last, doing)
        else:
            found.append(doing)
    by_number: dict[int, list[Doing]] = {}
    for doing in found:
        by_number.setdefault(doing.number, []).append(doing)
    return by_number


def _spoke(messages: Sequence[Message], first: int, last: int) -> bool:
    """Tell whether a user spoke between two messages."""
    return any(message.role == "user" and message.text for message in messages[first:last])


def _joined(last: Doing, doing: Doing) -> Doing:
    added = doing.text.removeprefix(doing.verb).lstrip()
    return replace(
        last,
        # What is done twice in the same words is said once; every call is cited.
        text=last.text if added in last.text else f"{last.text}, {added}",
        cites=(*last.cites, *doing.cites),
        files=tuple(dict.fromkeys((*last.files, *doing.files))),
    )


def _doings(messages: Sequence[Message]) -> Iterator[Doing]:
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
                yield _answered(number, (number,), part.name or "tool", Target(""), part)
            elif isinstance(part, TextPart) and message.role == "tool" and not message.own and part.text.strip():
                yield _line("tool", Target(""), _read("tool", part.text, is_error=False), number, (number,))


def _call(number: int, call: ToolCallPart, result: tuple[int, ToolResultPart, bool] | None, *, own: bool) -> Doing:
    name = REDACTION.redact(one_line(call.name, _NAME)) or "tool"
    if own or (result is not None and result[2]):
        cites = (number,) if result is None else (number, result[0])
        return Doing(number, name, _own(name, call.arguments), cites, "low")
    target = target_of(name, call.arguments)
    if result is None:
        return _line(name, target, Outcome("no result", "finding"), number, (number,))
    answer_number, part, _ = result
    return _answered(number, tuple(dict.fromkeys((number, answer_number))), name, target, part)


def _answered(number: int, cites: tuple[int, ...], name: str, target: Target, part: ToolResultPart) -> Doing:
    name = REDACTION.redact(one_line(name, _NAME)) or "tool"
    outcome = _read(name, _text_of(part.content), is_error=part.is_error)
    return _line(name, target, outcome, number, cites)


def _read(name: str, text: str, *, is_error: bool) -> Outcome:
    return outcome_of(text, name=name, is_error=is_error, reads=is_read(name), edits=is_edit(name))


def _line(name: str, target: Target, outcome: Outcome, number: int, cites: tuple[int, ...]) -> Doing:
    """Return a call and what came of it as a sentence."""
    files = tuple(dict.fromkeys((*target.files, *outcome.files)))
    said = outcome.text
    category = outcome.category
    made = _CHANGE.match(said) if category == "change" else None
    if category == "change" and files:
        # Both name the file: it is said once.
        verb = f"Assistant {made[1].lower() if made else 'changed'}"
        return Doing(number, name, f"{verb} {', '.join(files)}", cites, "medium", category, files, verb, joins=True)
    is_plain = is_read(name) and category == "finding" and (target.files or "lines: " in said or said == target.text)
    if is_plain and target.text:
        # What a file holds can be read again; that it was looked at is all that happened.
        verb = f"Assistant {'searched' if _SEARCH.search(name) else 'read'}"
        return Doing(number, name, f"{verb} {target.text}", cites, "medium", category, files, verb, joins=True)
    verb = _verb(name, has_target=bool(target.text))
    text = f"{verb} {target.text}: {said}" if target.text else f"{verb}: {said}"
    return Doing(number, name, text, cites, "medium", category, files, verb)


def _verb(name: str, *, has_target: bool) -> str:
    """Return who did what; the name of a tool where it is no common one."""
    if has_target:
        for pattern, verb in _VERBS:
            if pattern.fullmatch(name):
                return f"Assistant {verb}"
    return f"Assistant called {name} on" if has_target else f"Assistant called {name}"


def _own(name: str, arguments: JsonValue) -> str:
    """Return one line: what the memory answered is in the log already."""
    value = arguments
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            value = None
    query = cast("Mapping[str, object]", value).get("query") if isinstance(value, Mapping) else None
    if isinstance(query, str) and query.strip():
        return f"Assistant searched the memory for “{REDACTION.redact(one_line(query, _QUERY))}”"
    return f"Assistant used {name}"


def _text_of(value: JsonValue) -> str:
    """Return the text of a tool's answer: as it is, the texts of its parts, or JSON."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        texts = [_part_text(item) for item in cast("list[object]", value)]
        if texts and None not in texts:
            return "\n".join(filter(None, texts))
    try:
        return dumps(value)
    except (TypeError, ValueError, RecursionError):
        return ""


def _part_text(item: object) -> str | None:
    if isinstance(item, Mapping):
        part = cast("Mapping[str, object]", item)
        text = part.get("text")
        if part.get("type") in _TEXT_TYPES and isinstance(text, str):
            return clean(text)
    return None
