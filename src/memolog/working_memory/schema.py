"""Validate JSON against the part of JSON Schema that small documents need.

An unsupported keyword is refused when the schema is set, never ignored when a value is checked.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, Final, cast

from memolog.core.exact_json import JsonObject, JsonValue
from memolog.errors import DocumentInvalid, InputError


def _is_whole(value: object) -> bool:
    return not isinstance(value, bool) and (isinstance(value, int) or (isinstance(value, float) and value.is_integer()))


_NOTES: Final = frozenset(
    {"title", "description", "default", "examples", "deprecated", "readOnly", "format", "$schema", "$id", "$comment"}
)
"""Annotations, which check nothing."""
_TYPES: Final[dict[str, Callable[[object], bool]]] = {
    "object": lambda value: isinstance(value, Mapping),
    "array": lambda value: isinstance(value, list | tuple),
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "integer": _is_whole,
}
_SINGLE: Final = ("items", "additionalProperties")
_NAMED: Final = ("properties", "$defs", "definitions")
_COUNTS: Final = ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties")
_BOUNDS: Final = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
_KNOWN: Final = frozenset(
    {"type", "required", "enum", "const", "pattern", "uniqueItems", "anyOf", "$ref"}
    | {*_SINGLE, *_NAMED, *_COUNTS, *_BOUNDS}
    | _NOTES
)
_REFERENCE: Final = re.compile(r"#/(\$defs|definitions)/([^/]+)")
_DEEPEST: Final = 100


def check_schema(schema: JsonObject) -> None:
    """Raise DocumentInvalid if a schema uses an unsupported keyword."""
    wrong = list(_faults(schema, "", schema))
    if not wrong and schema.get("type", "object") != "object":
        wrong.append("the whole must be of type object")
    if wrong:
        raise DocumentInvalid(
            f"The schema cannot be used: {'; '.join(wrong)}.",
            why="A rule that is not understood would not be kept.",
            then=f"Use only {', '.join(sorted(_KNOWN - _NOTES))}, and notes such as title and description.",
        )


def _faults(schema: object, at: str, root: JsonObject, depth: int = 0) -> Iterator[str]:
    place = at or "the schema"
    if isinstance(schema, bool):
        return
    if not isinstance(schema, Mapping) or depth > _DEEPEST:
        yield f"{place} is not a schema"
        return
    rules = cast("Mapping[str, Any]", schema)
    yield from (f"{place} uses {name!r}, which is not known" for name in rules if name not in _KNOWN)
    yield from _wrong_words(rules, place, root)
    for name in _SINGLE:
        if name in rules:
            yield from _faults(rules[name], f"{at}.{name}", root, depth + 1)
    for name in _NAMED:
        inner = rules.get(name, {})
        if not isinstance(inner, Mapping):
            yield f"{place}.{name} is not an object"
            continue
        for key, value in cast("Mapping[str, Any]", inner).items():
            yield from _faults(value, f"{at}.{name}.{key}", root, depth + 1)
    for number, value in enumerate(_list(rules.get("anyOf", ()))):
        yield from _faults(value, f"{at}.anyOf[{number}]", root, depth + 1)


def _wrong_words(rules: Mapping[str, Any], place: str, root: JsonObject) -> Iterator[str]:
    yield from (f"{place} has the type {name!r}" for name in _list(rules.get("type", ())) if name not in _TYPES)
    checks: tuple[tuple[tuple[str, ...], Callable[[Any], bool], str], ...] = (
        (_COUNTS, lambda value: _is_whole(value) and value >= 0, "count"),
        (_BOUNDS, _TYPES["number"], "number"),
        (("required", "enum", "anyOf"), lambda value: isinstance(value, list | tuple), "list"),
        (("pattern",), _is_pattern, "regular expression"),
    )
    for names, is_right, words in checks:
        yield from (f"{place}.{name} is not a {words}" for name in names if name in rules and not is_right(rules[name]))
    if "$ref" in rules and _target(rules["$ref"], root) is None:
        yield f"{place} refers to {rules['$ref']!r}, which is not in it"


def _is_pattern(value: Any) -> bool:
    try:
        re.compile(value)
    except (re.error, TypeError):
        return False
    return True


def _list(value: object) -> Sequence[Any]:
    return cast("Sequence[Any]", value) if isinstance(value, list | tuple) else (value,)


def _target(reference: object, root: JsonObject) -> object | None:
    hit = _REFERENCE.fullmatch(reference) if isinstance(reference, str) else None
    return root.get(hit[1], {}).get(hit[2]) if hit else None


def problems(value: JsonValue, schema: JsonObject) -> tuple[str, ...]:
    """Return all violations of a schema by a value, each with its place."""
    return tuple(_problems(value, schema, "", schema, 0))


def _problems(value: Any, schema: object, at: str, root: JsonObject, depth: int) -> Iterator[str]:
    place = _place(at)
    if isinstance(schema, bool):
        if not schema:
            yield f"{place} is not allowed"
        return
    if depth > _DEEPEST:
        yield f"{place} is nested too deep"
        return
    rules = cast("Mapping[str, Any]", schema)
    if "$ref" in rules:
        yield from _problems(value, _target(rules["$ref"], root), at, root, depth + 1)
    types = _list(rules["type"]) if "type" in rules else ()
    if types and not any(_TYPES[name](value) for name in types):
        yield f"{place} must be {' or '.join(types)}, not {_kind(value)}"
        return
    yield from _choices(value, rules, place)
    tried = [list(_problems(value, one, at, root, depth + 1)) for one in rules.get("anyOf", ())]
    if tried and all(tried):
        yield f"{place} fits no alternative: {min(tried, key=len)[0]}"
    yield from _of_kind(value, rules, at, root, depth)


def _place(at: str) -> str:
    return at.lstrip(".") or "the whole"


def _choices(value: Any, rules: Mapping[str, Any], place: str) -> Iterator[str]:
    if "enum" in rules and not any(_same(value, one) for one in rules["enum"]):
        yield f"{place} must be one of {', '.join(map(_shown, rules['enum']))}, not {_shown(value)}"
    if "const" in rules and not _same(value, rules["const"]):
        yield f"{place} must be {_shown(rules['const'])}"


def _of_kind(value: Any, rules: Mapping[str, Any], at: str, root: JsonObject, depth: int) -> Iterator[str]:
    place = _place(at)
    match value:
        case str():
            yield from _of_text(value, rules, place)
        case bool() | None:
            pass
        case int() | float():
            yield from _of_number(value, rules, place)
        case list() | tuple():
            yield from _of_list(cast("Sequence[Any]", value), rules, at, root, depth)
        case _:
            yield from _of_object(cast("Mapping[str, Any]", value), rules, at, root, depth)


def _of_text(value: str, rules: Mapping[str, Any], place: str) -> Iterator[str]:
    yield from _counted(len(value), rules, place, "Length", "characters")
    if "pattern" in rules and not re.search(rules["pattern"], value):
        yield f"{place} does not match {rules['pattern']}"


def _of_number(value: float, rules: Mapping[str, Any], place: str) -> Iterator[str]:
    tests: tuple[tuple[str, bool, str], ...] = (
        ("minimum", value < rules.get("minimum", value), "at least"),
        ("maximum", value > rules.get("maximum", value), "at most"),
        ("exclusiveMinimum", value <= rules.get("exclusiveMinimum", value - 1), "more than"),
        ("exclusiveMaximum", value >= rules.get("exclusiveMaximum", value + 1), "less than"),
    )
    yield from (f"{place} must be {words} {rules[name]}" for name, is_wrong, words in tests if is_wrong)


def _of_list(value: Sequence[Any], rules: Mapping[str, Any], at: str, root: JsonObject, depth: int) -> Iterator[str]:
    place = _place(at)
    yield from _counted(len(value), rules, place, "Items", "items")
    if rules.get("uniqueItems") and any(_same(one, other) for n, one in enumerate(value) for other in value[:n]):
        yield f"{place} names something twice"
    if "items" in rules:
        for number, item in enumerate(value):
            yield from _problems(item, rules["items"], f"{at}[{number}]", root, depth + 1)


def _of_object(
    value: Mapping[str, Any], rules: Mapping[str, Any], at: str, root: JsonObject, depth: int
) -> Iterator[str]:
    place = _place(at)
    yield from (f"{place} lacks {name!r}" for name in rules.get("required", ()) if name not in value)
    yield from _counted(len(value), rules, place, "Properties", "fields")
    known = rules.get("properties", {})
    for name, item in value.items():
        if name in known:
            yield from _problems(item, known[name], f"{at}.{name}", root, depth + 1)
        elif rules.get("additionalProperties") is False:
            listed = ", ".join(known) or "none"
            yield f"{place} has the field {name!r}, which is not one of: {listed}"
        elif "additionalProperties" in rules:
            yield from _problems(item, rules["additionalProperties"], f"{at}.{name}", root, depth + 1)


def _counted(count: int, rules: Mapping[str, Any], place: str, what: str, unit: str) -> Iterator[str]:
    least, most = rules.get(f"min{what}", 0), rules.get(f"max{what}")
    if count < least:
        yield f"{place} has {count} {unit}, fewer than {least}"
    if most is not None and count > most:
        yield f"{place} has {count} {unit}, more than {most}"


def _same(one: object, other: object) -> bool:
    # Unlike in Python, True is not equal to 1 here.
    return one == other and isinstance(one, bool) == isinstance(other, bool)


def _kind(value: object) -> str:
    return next((name for name, is_kind in _TYPES.items() if name != "integer" and is_kind(value)), "something else")


def _shown(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 60 else f"{text[:59]}…"  # noqa: PLR2004 - a glance


TEMPLATES: Final = ("coding", "personal")


@cache
def template(name: str) -> str:
    """Return a template's Markdown."""
    if name not in TEMPLATES:
        raise InputError(
            f"`template` must be one of {', '.join(TEMPLATES)}, got {name!r}.", then="Or pass your own Markdown."
        )
    text = files("memolog.working_memory").joinpath("texts", f"{name}.md").read_text("utf-8")
    # A checkout may have changed the line ends.
    return "\n".join(text.splitlines()).strip() + "\n"
