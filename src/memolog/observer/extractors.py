"""Extract values that the application defines: ask a model for them, parse the reply, and check each value with its schema."""

import asyncio
import inspect
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, cast

from memolog.core.exact_json import JsonObject, JsonValue, check_json, dumps
from memolog.core.message import Message
from memolog.core.observation import NewExtract
from memolog.errors import ConfigError
from memolog.log.runner import Problem
from memolog.observer.reply_lines import without_fence
from memolog.text.cut import cut
from memolog.text.escape import clean, escape, unescape
from memolog.text.redaction import Redactor
from memolog.text.word_lists import NOTHING

_KEY: Final = re.compile(r"[a-z][a-z0-9_-]{0,63}")
# An extractor must not have the name of another section of a reply.
_RESERVED: Final = frozenset(
    {"observations", "current-task", "suggested-response", "thread-title", "off-track", "extract"}
)
_SECONDS: Final = 30.0  # time limit for the function of an extractor


@dataclass(frozen=True, slots=True, kw_only=True)
class Extractor:
    """Defines one value that is stored for each thread, with instructions for a model, a function of the messages, or both.

    `schema` is a pydantic model, any class with `json_schema()`, a JSON schema as a mapping, or None for plain text. If a model
    observes and there are instructions, the model supplies the value. Otherwise the function returns the value.
    """

    key: str
    instructions: str = ""
    schema: Any = None
    function: Callable[[Sequence[Message]], Any] | None = None

    def __post_init__(self) -> None:
        if not _KEY.fullmatch(self.key) or self.key in _RESERVED:
            raise ConfigError(
                f"`key` of an extractor must be a short name that is not reserved, got {self.key!r}.",
                then=f"Use up to 64 of a-z, 0-9, - and _, starting with a letter. Reserved: {', '.join(sorted(_RESERVED))}.",
            )
        if not self.instructions.strip() and self.function is None:
            raise ConfigError(
                f"The extractor {self.key} has neither instructions nor a function.",
                then="Pass instructions for a model, a function of the messages, or both.",
            )
        self.json_schema()

    def json_schema(self) -> JsonObject | None:
        """Return the JSON schema of the value; None if the value is plain text."""
        if self.schema is None or isinstance(self.schema, Mapping):
            return cast("JsonObject | None", self.schema)
        for name in ("model_json_schema", "json_schema"):
            schema_of = getattr(self.schema, name, None)
            if callable(schema_of):
                return cast("JsonObject", schema_of())
        raise ConfigError(
            f"`schema` of the extractor {self.key} has an unsupported type: {type(self.schema).__name__}.",
            then="Pass a pydantic model, a class with json_schema(), a JSON schema, or None for plain text.",
        )

    def checked(self, value: Any) -> JsonValue:
        """Return a value as JSON. Raises ValueError, or an error of the schema class, if the value does not fit the schema."""
        validate = getattr(self.schema, "model_validate", None)
        if callable(validate):
            value = validate(value)
        if hasattr(value, "model_dump"):
            return value.model_dump(mode="json")
        schema = self.json_schema()
        problems = mismatches(value, schema) if schema else []
        if schema is None and not isinstance(value, str):
            problems = [f"{type(value).__name__} is not text"]
        if problems:
            raise ValueError("; ".join(problems))
        check_json("The value", value)
        return value


Wanted: TypeAlias = tuple[Extractor, JsonValue]
"""An extractor whose value a model is asked for, and the stored value of the thread (None if there is none)."""


class Extractors:
    """All extractors of a memory."""

    def __init__(self, extractors: Sequence[Extractor] = ()) -> None:
        keys = [extractor.key for extractor in extractors]
        twice = sorted({key for key in keys if keys.count(key) > 1})
        if twice:
            raise ConfigError(f"Two extractors have the key {twice[0]}.", then="Give each extractor a different key.")
        self._all = tuple(extractors)

    def __bool__(self) -> bool:
        return bool(self._all)

    def wanted(self, known: Mapping[str, JsonValue]) -> tuple[Wanted, ...]:
        """Return the extractors that have instructions for a model, each with its stored value from `known`."""
        return tuple((each, known.get(each.key)) for each in self._all if each.instructions.strip())

    async def extract(
        self,
        messages: Sequence[Message],
        said: Mapping[str, str] | None,
        known: Mapping[str, JsonValue],
        redactor: Redactor,
    ) -> tuple[tuple[NewExtract, ...], tuple[Problem, ...]]:
        """Return the values that changed, and a problem for each extractor that failed.

        `said` are the sections of a model's reply by key, or None if no model was asked. `known` are the stored values.
        """
        values, problems = list[NewExtract](), list[Problem]()
        for extractor in self._all:
            try:
                value = await _value(extractor, messages, said)
                if value is None:
                    continue
                value = redactor.value(extractor.checked(value))
            except Exception as error:  # noqa: BLE001 - a failing extractor must not stop the others
                problems.append(Problem(what=f"extracting {extractor.key}", error=f"{type(error).__name__}: {error}"))
                continue
            if extractor.key not in known or known[extractor.key] != value:
                values.append(NewExtract(key=extractor.key, value=value))
        return tuple(values), tuple(problems)


async def _value(extractor: Extractor, messages: Sequence[Message], said: Mapping[str, str] | None) -> Any:
    if said is not None and extractor.instructions.strip():
        text = said.get(extractor.key)
        return None if text is None else read_value(text, extractor.json_schema())
    if extractor.function is None:
        return None
    async with asyncio.timeout(_SECONDS):
        # The function may block, so it runs in a worker thread.
        value = await asyncio.to_thread(extractor.function, messages)
        return await value if inspect.isawaitable(value) else value


# ---------------------------------------------------------------- the request and the reply

_MOST_KNOWN: Final = 2_000  # maximum characters of a stored value in a prompt
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


def wanted_section(wanted: Sequence[Wanted]) -> str:
    """Return the section of a prompt that asks for the values; empty if no value is wanted."""
    if not wanted:
        return ""
    rows = [_ASK]
    for item, known in wanted:
        schema = item.json_schema()
        form = "plain text" if schema is None else f"JSON by this schema: {escape(dumps(schema))}"
        value = clean(known) if isinstance(known, str) else dumps(known)
        more = "" if known is None else f"\n  known so far: {escape(cut(value, _MOST_KNOWN))}"
        rows.append(f"- {item.key}: {escape(item.instructions.strip())} ({form}){more}")
    return "\n".join(rows)


def take_extracts(reply: str, keys: Sequence[str]) -> tuple[str, dict[str, str]]:
    """Return a reply without its `<extract>` sections, and the first section of each key in `keys`.

    A section that says that nothing changed is not returned. An `<extract>` inside the observations stays in the reply, because
    it may be a quotation from the conversation.
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

_MOST_TEXT: Final = 10_000  # maximum characters of a value that is plain text
_MOST_PROBLEMS: Final = 5
_KINDS: Final[Mapping[str, tuple[type, ...]]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "number": (int, float),
    "integer": (int,),
    "boolean": (bool,),
    "null": (type(None),),
}


def read_value(text: str, schema: JsonObject | None) -> JsonValue:
    """Return the text of a section or, with a schema, the JSON value in it. Raises ValueError if the value is not JSON."""
    plain = without_fence(clean(text)).strip()
    if schema is None:
        return cut(unescape(plain), _MOST_TEXT)
    for candidate in (plain, unescape(plain)):
        try:
            return json.loads(candidate)
        except (ValueError, RecursionError):
            pass
    start = min((at for at in map(plain.find, "{[") if at >= 0), default=-1)
    if start < 0:
        if schema.get("type") == "string":
            return unescape(plain)
        raise ValueError("the section is not valid JSON")
    try:
        value, _ = json.JSONDecoder().raw_decode(plain[start:])
    except RecursionError as error:
        raise ValueError("the JSON value is nested too deeply") from error
    return value


def mismatches(value: JsonValue, schema: JsonObject, path: str = "the value") -> list[str]:
    """Return a sentence for each difference between a value and its schema: types, required and unknown keys, enums, items."""
    problems: list[str] = []
    kinds = schema.get("type")
    allowed = [kinds] if isinstance(kinds, str) else list(cast("Sequence[str]", kinds or ()))
    if allowed and not any(_is(value, kind) for kind in allowed):
        return [f"{path} is not of type {' or '.join(allowed)}"]
    choices = cast("Sequence[JsonValue] | None", schema.get("enum"))
    if choices is not None and value not in choices:
        problems.append(f"{path} must be one of {dumps(list(choices))}")
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
    # In Python, bool is a subclass of int, but JSON schema does not accept true as a number.
    if isinstance(value, bool):
        return kind == "boolean"
    return isinstance(value, _KINDS.get(kind, (object,)))
