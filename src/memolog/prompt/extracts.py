"""Ask for extracts in a prompt, and read and validate them in a reply.

Supports the subset of JSON Schema that application values need.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, cast

from memolog.domain.codec import JsonObject, JsonValue, dumps
from memolog.domain.word_lists import NOTHING
from memolog.prompt.escape import clean, escape, unescape
from memolog.prompt.sections import without_fence
from memolog.tokens import cut

__all__ = ["Wanted", "mismatches", "read_value", "taken", "wanted_section"]

_MOST_KNOWN: Final = 2_000
_MOST_TEXT: Final = 10_000
_MOST_PROBLEMS: Final = 5
_OPEN: Final = re.compile(r"<[ \t]*observations?\b[^<>\n]{0,100}>", re.IGNORECASE)
_CLOSE: Final = re.compile(r"</[ \t]*observations?[ \t]*>", re.IGNORECASE)
_SECTION: Final = re.compile(
    r"<[ \t]*extract\b[^<>\n]{0,60}?(?:name|key|id)[ \t]*=[ \t]*[\"']?([\w-]{1,64})[\"']?[^<>\n]{0,60}>"
    r"([\s\S]*?)(?:</[ \t]*extract[ \t]*>|(?=<[ \t]*extract\b)"
    r"|(?=</?[ \t]*(?:observations|current-task|suggested-response|thread-title)\b)|\Z)",
    re.IGNORECASE,
)
_ASK: Final = (
    'Answer these as well, after your other sections, each in a section of its own: <extract name="…">the value</extract>. '
    "Draw it from this transcript alone. If the transcript adds nothing to what is known, the value is: unchanged"
)
_NOTHING: Final = re.compile(
    rf"\s*|\W{{0,5}}(?:{NOTHING}|nothing new|unchanged|no change|unknown)\W{{0,5}}", re.IGNORECASE
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """One value that is asked for."""

    key: str
    instructions: str
    schema: JsonObject | None = None
    """What the value must look like; None is plain text."""
    known: JsonValue = None
    """The value so far."""


def wanted_section(wanted: Sequence[Wanted]) -> str:
    """Return what else a prompt asks for; empty if nothing."""
    if not wanted:
        return ""
    rows = [_ASK]
    for item in wanted:
        form = "plain text" if item.schema is None else f"JSON by this schema: {escape(dumps(item.schema))}"
        known = "" if item.known is None else f"\n  known so far: {escape(cut(_shown(item.known), _MOST_KNOWN))}"
        rows.append(f"- {item.key}: {escape(item.instructions.strip())} ({form}){known}")
    return "\n".join(rows)


def _shown(value: JsonValue) -> str:
    return clean(value) if isinstance(value, str) else dumps(value)


def taken(reply: str, keys: Sequence[str]) -> tuple[str, dict[str, str]]:
    """Return a reply without its sections of extracts, and the first of each that was asked for.

    What stands among the observations is not looked at: it may be an echo of what was said.
    """
    if not keys or "extract" not in reply.lower():
        return reply, {}
    found: dict[str, str] = {}
    opened, closed = _OPEN.search(reply), list(_CLOSE.finditer(reply))
    start = opened.start() if opened and closed else 0
    end = closed[-1].end() if opened and closed and closed[-1].end() > start else start
    rest = [_without(reply[:start], keys, found), reply[start:end], _without(reply[end:], keys, found)]
    return "".join(rest), {key: body for key, body in found.items() if not _NOTHING.fullmatch(body)}


def _without(text: str, keys: Sequence[str], found: dict[str, str]) -> str:
    def note(hit: re.Match[str]) -> str:
        if hit[1] in keys:
            found.setdefault(hit[1], hit[2].strip())
        return "\n"

    return _SECTION.sub(note, text)


# ---------------------------------------------------------------- values


def read_value(text: str, schema: JsonObject | None) -> JsonValue:
    """Return the value of a section: its text, or the JSON in it. Raises ValueError."""
    plain = without_fence(clean(text)).strip()
    if schema is None:
        return cut(unescape(plain), _MOST_TEXT)
    for candidate in (plain, unescape(plain)):
        try:
            return json.loads(candidate)
        except (ValueError, RecursionError):
            pass
    start = min((place for place in map(plain.find, "{[") if place >= 0), default=-1)
    if start < 0:
        if schema.get("type") == "string":
            return unescape(plain)
        raise ValueError("it is not valid JSON")
    try:
        value, _ = json.JSONDecoder().raw_decode(plain[start:])
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    return value


_KINDS: Final[Mapping[str, tuple[type, ...]]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "number": (int, float),
    "integer": (int,),
    "boolean": (bool,),
    "null": (type(None),),
}


def mismatches(value: JsonValue, schema: JsonObject, path: str = "the value") -> list[str]:
    """Return where a value differs from its schema: types, required and unknown names, choices, items."""
    problems: list[str] = []
    kinds = schema.get("type")
    allowed = [kinds] if isinstance(kinds, str) else list(cast("Sequence[str]", kinds or ()))
    if allowed and not any(_is(value, kind) for kind in allowed):
        return [f"{path} is not of type {' or '.join(allowed)}"]
    choices = cast("Sequence[JsonValue] | None", schema.get("enum"))
    if choices is not None and value not in choices:
        problems.append(f"{path} is none of {dumps(list(choices))}")
    if isinstance(value, dict):
        problems += _wrong_names(cast("dict[str, JsonValue]", value), schema, path)
    if isinstance(value, list) and isinstance(schema.get("items"), Mapping):
        items = cast("list[JsonValue]", value)
        for number, item in enumerate(items):
            problems += mismatches(item, schema["items"], f"{path}[{number}]")
    return problems[:_MOST_PROBLEMS]


def _wrong_names(value: dict[str, JsonValue], schema: JsonObject, path: str) -> list[str]:
    names = cast("Mapping[str, JsonObject]", schema.get("properties") or {})
    problems = [f"{path}.{name} is missing" for name in schema.get("required") or () if name not in value]
    for name, item in value.items():
        if name in names:
            problems += mismatches(item, names[name], f"{path}.{name}")
        elif schema.get("additionalProperties") is False:
            problems.append(f"{path}.{name} is not in the schema")
    return problems


def _is(value: JsonValue, kind: str) -> bool:
    # In Python, bool is a subclass of int.
    if isinstance(value, bool):
        return kind == "boolean"
    return isinstance(value, _KINDS.get(kind, (object,)))
