"""Convert values to JSON, exactly.

Handles dataclasses, datetimes, tuples and any Python string. NUL characters and lone surrogates are escaped, because not every
database can store them.
"""

import base64
import dataclasses
import json
import re
import typing
from collections.abc import Iterable, Iterator, Mapping
from datetime import date, datetime
from json.encoder import encode_basestring
from typing import Any, TypeVar, cast

from memolog.core.clock import from_micros, to_micros
from memolog.errors import NotJson

JsonValue = Any
JsonObject = Mapping[str, JsonValue]

T = TypeVar("T")

_to_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
_SURROGATE = re.compile("[\ud800-\udfff]")
# A stored text that starts with this character was packed. An original text that starts with it is packed too, so that
# `unpack` returns it unchanged.
_PACKED = "\x01"
# The most levels of nesting. Reading uses one stack frame per level, so a caller with a deep stack could not read more levels.
_DEEPEST = 200


def nothing() -> JsonObject:
    """Return an empty object, as the default of a dataclass field."""
    return {}


def dumps(value: JsonValue) -> str:
    """Return compact JSON that is always valid Unicode. Lone surrogates and control characters are escaped."""
    return _escaped(_to_json(value))


def text_to_json(text: str) -> str:
    """Return the JSON of one string, as `dumps` would write it."""
    try:
        quoted = encode_basestring(text)
    except TypeError as error:
        raise NotJson("A text", f"{type(text).__name__} is not a string") from error
    return _escaped(quoted)


def _escaped(text: str) -> str:
    if not _has_surrogate(text):
        return text
    # JSON reads the escapes of a surrogate pair as one character, so join such pairs to that character.
    text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    # The remaining surrogates are inside JSON strings, where an escape has the same meaning.
    return _SURROGATE.sub(lambda hit: f"\\u{ord(hit[0]):04x}", text)


def object_text(where: str, value: JsonObject) -> str:
    """Return the JSON text of an object. Raises NotJson if reading the text would return a different value."""
    try:
        text = dumps(value if isinstance(value, dict) else dict(value))
    except (TypeError, ValueError, RecursionError) as error:
        raise NotJson(where, str(error)) from error
    check_json(where, value)
    return text


def loads(text: str) -> JsonValue:
    """Return the value of a JSON text."""
    return json.loads(text)


def pack(text: str | None) -> str | None:
    """Return a text that both databases can store: the same text, or escaped JSON if it contains NUL or a lone surrogate."""
    if text is None or not ("\x00" in text or text.startswith(_PACKED) or _has_surrogate(text)):
        return text
    return _PACKED + dumps(text)


def unpack(text: str | None) -> str | None:
    """Return the original of a text that `pack` returned."""
    if text is None or not text.startswith(_PACKED):
        return text
    return cast("str", loads(text[1:]))


def _has_surrogate(text: str) -> bool:
    if text.isascii():
        return False
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def well_formed(text: str) -> str:
    """Return the text with surrogate pairs joined and lone surrogates replaced, so that it can be encoded as UTF-8."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace") if _has_surrogate(text) else text


def sendable(value: JsonValue) -> JsonValue:
    """Return a JSON value with `well_formed` applied to every text, so that an HTTP client can send it."""
    if isinstance(value, str):
        return well_formed(value)
    if isinstance(value, dict):
        fields = cast("dict[str, JsonValue]", value)
        return {well_formed(name): sendable(item) for name, item in fields.items()}
    return [sendable(item) for item in cast("list[JsonValue]", value)] if isinstance(value, list) else value


def encode(value: object) -> JsonValue:
    """Return the JSON form of a value: dataclasses as objects with every field, datetimes as ISO 8601, bytes as base64."""
    if value is None or isinstance(value, str | int | float):
        return value
    if dataclasses.is_dataclass(value):
        return {field.name: encode(getattr(value, field.name)) for field in dataclasses.fields(value)}
    return _encode_other(value)


def _encode_other(value: object) -> JsonValue:
    match value:
        case datetime():
            return from_micros(to_micros(value)).isoformat()
        case date():
            return value.isoformat()
        case bytes():
            return base64.b64encode(value).decode()
        case tuple() | list():
            return [encode(item) for item in cast("tuple[object, ...]", value)]
        case frozenset():
            return sorted(encode(item) for item in cast("frozenset[str]", value))
        case Mapping():
            return {_key(key): encode(item) for key, item in cast("Mapping[object, object]", value).items()}
        case _:
            raise NotJson("A value", f"{type(value).__name__} has no JSON form")


def _key(key: object) -> str:
    if isinstance(key, str):
        return key
    raise NotJson("A dict", f"its key {key!r} is not a string")


def decode(kind: type[T], data: JsonObject) -> T:
    """Return a dataclass from its JSON form. The fields must be texts, numbers or datetimes.

    A missing field has its default value and an unknown field is ignored, so that values of other releases can be read.
    """
    kinds = typing.get_type_hints(kind)
    known = {name: value for name, value in data.items() if name in kinds}
    moments = [name for name, value in known.items() if value is not None and datetime in typing.get_args(kinds[name])]
    return kind(**known | {name: datetime.fromisoformat(known[name]) for name in moments})


def check_json(where: str, value: object) -> None:
    """Raise NotJson if the value would differ after it is written and read, or if it is nested too deep."""
    level, depth = [value], 0
    while level:
        depth += 1
        if depth > _DEEPEST:
            raise NotJson(where, f"it is nested more than {_DEEPEST} levels deep")
        level = [child for item in level for child in _children(where, item)]


def _children(where: str, item: object) -> Iterable[object]:
    if item is None or isinstance(item, str | int | float):
        return ()
    if isinstance(item, Mapping):
        entries = cast("Mapping[object, object]", item)
        for key in entries:
            if not isinstance(key, str):
                raise NotJson(where, f"the key {key!r} is not a string")
        return entries.values()
    if isinstance(item, list | tuple):
        return cast("list[object]", item)
    raise NotJson(where, f"{type(item).__name__} is not a JSON value")


def json_texts(value: JsonValue) -> Iterator[str]:
    """Yield the keys and values in a JSON value as texts. A string that contains a JSON object or list is parsed first."""
    if isinstance(value, str) and value.lstrip()[:1] in {"{", "["}:
        try:
            value = loads(value)
        except (ValueError, RecursionError):
            yield str(value)
            return
    # A list instead of recursion, because values may be nested deeply.
    todo: list[object] = [value]
    while todo:
        item = todo.pop()
        if isinstance(item, Mapping):
            for key, inner in reversed(list(cast("Mapping[object, object]", item).items())):
                todo += (inner, str(key))
        elif isinstance(item, list | tuple):
            todo += reversed(cast("list[object]", item))
        elif item is not None:
            yield str(item)


def content_text(content: JsonValue) -> str:
    """Return the content or the arguments of a tool call as text. If JSON cannot represent the value, return its type."""
    if content is None or isinstance(content, str):
        return content or ""
    try:
        return dumps(content)
    except (TypeError, ValueError, RecursionError):
        return f"({type(content).__name__}, which cannot be shown)"
