"""Validate JSON with a subset of JSON Schema.

A schema with an unsupported keyword is refused, because a rule of the schema would be ignored otherwise.
"""

import json
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, cast

from memolog.core.exact_json import JsonObject, JsonValue
from memolog.errors import DocumentInvalid, InputError
from memolog.text.escape import fixed_text


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
_SIZES: Final = (("string", "Length", "characters"), ("array", "Items", "items"), ("object", "Properties", "fields"))
_LIMITS: Final = (
    ("minimum", operator.lt, "at least"),
    ("maximum", operator.gt, "at most"),
    ("exclusiveMinimum", operator.le, "more than"),
    ("exclusiveMaximum", operator.ge, "less than"),
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
            why="Rules that are not supported would be ignored.",
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
        yield f"{place} refers to {rules['$ref']!r}, which does not exist"


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
    """Return all violations of a schema by a value, each with its path."""
    return tuple(_problems(value, schema, "", schema, 0))


def _problems(value: Any, schema: object, at: str, root: JsonObject, depth: int) -> Iterator[str]:
    place = at.lstrip(".") or "the whole"
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
        kinds = (name for name, is_kind in _TYPES.items() if name != "integer" and is_kind(value))
        yield f"{place} must be {' or '.join(types)}, not {next(kinds, 'something else')}"
        return
    yield from (f"{place} {problem}" for problem in _own_problems(value, rules))
    tried = [list(_problems(value, one, at, root, depth + 1)) for one in rules.get("anyOf", ())]
    if tried and all(tried):
        yield f"{place} fits no alternative: {min(tried, key=len)[0]}"
    for step, item, inner in _inside(value, rules):
        yield from _problems(item, inner, f"{at}{step}", root, depth + 1)


def _own_problems(value: Any, rules: Mapping[str, Any]) -> Iterator[str]:
    """Yield the violations of the value itself, without those of its fields and items."""
    if "enum" in rules and not any(_same(value, one) for one in rules["enum"]):
        yield f"must be one of {', '.join(map(_shown, rules['enum']))}, not {_shown(value)}"
    if "const" in rules and not _same(value, rules["const"]):
        yield f"must be {_shown(rules['const'])}"
    yield from _sizes(value, rules)
    if _TYPES["number"](value):
        yield from (
            f"must be {words} {rules[name]}"
            for name, is_wrong, words in _LIMITS
            if name in rules and is_wrong(value, rules[name])
        )
    elif isinstance(value, str) and "pattern" in rules and not re.search(rules["pattern"], value):
        yield f"does not match {rules['pattern']}"
    else:
        yield from _of_members(value, rules)


def _sizes(value: Any, rules: Mapping[str, Any]) -> Iterator[str]:
    for kind, what, unit in _SIZES:
        if _TYPES[kind](value):
            least, most = rules.get(f"min{what}", 0), rules.get(f"max{what}")
            if len(value) < least:
                yield f"has {len(value)} {unit}, fewer than {least}"
            if most is not None and len(value) > most:
                yield f"has {len(value)} {unit}, more than {most}"


def _of_members(value: Any, rules: Mapping[str, Any]) -> Iterator[str]:
    if _TYPES["array"](value) and rules.get("uniqueItems"):
        if any(_same(one, other) for number, one in enumerate(value) for other in value[:number]):
            yield "has the same item twice"
    elif isinstance(value, Mapping):
        known = rules.get("properties", {})
        yield from (f"lacks {name!r}" for name in rules.get("required", ()) if name not in value)
        if rules.get("additionalProperties") is False:
            foreign = (name for name in cast("Mapping[str, Any]", value) if name not in known)
            yield from (
                f"has the field {name!r}, which is not one of: {', '.join(known) or 'none'}" for name in foreign
            )


def _inside(value: Any, rules: Mapping[str, Any]) -> Iterator[tuple[str, Any, object]]:
    """Yield the path, the value and the schema of each field or item."""
    if _TYPES["array"](value) and "items" in rules:
        yield from ((f"[{number}]", item, rules["items"]) for number, item in enumerate(value))
    if isinstance(value, Mapping):
        known, other = rules.get("properties", {}), rules.get("additionalProperties", True)
        for name, item in cast("Mapping[str, Any]", value).items():
            if name in known or other is not False:
                yield f".{name}", item, known.get(name, other)


def _same(one: object, other: object) -> bool:
    # Unlike in Python, True is not equal to 1 here.
    return one == other and isinstance(one, bool) == isinstance(other, bool)


def _shown(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 60 else f"{text[:59]}…"  # noqa: PLR2004 - a glance


TEMPLATES: Final = ("coding", "personal")


def template(name: str) -> str:
    """Return the Markdown of a template."""
    if name not in TEMPLATES:
        raise InputError(
            f"`template` must be one of {', '.join(TEMPLATES)}, got {name!r}.", then="Or pass your own Markdown."
        )
    return fixed_text(f"working_memory/{name}") + "\n"
