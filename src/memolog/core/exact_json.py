"""Convert values to JSON, exactly.

Covers frozen dataclasses, moments, tuples, and any Python string: NUL and lone surrogates become text that engines can store.
"""

import base64
import dataclasses
import json
import re
import typing
from collections.abc import Iterable, Mapping
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
# A text that starts with this mark was packed; a text of the user that starts with it is packed too.
_PACKED = "\x01"
# Reading takes one stack frame per level, so a caller with a deep stack could not read deeper values.
_DEEPEST = 200


def nothing() -> JsonObject:
    """Return an empty object: the default of fields that hold one."""
    return {}


def dumps(value: JsonValue) -> str:
    """Return compact JSON that is always valid Unicode: lone surrogates and control characters stay as escapes."""
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
    # In JSON the two halves of a surrogate pair mean the character itself, so they are joined.
    text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    # The remaining halves are inside strings, where an escape means the same.
    return _SURROGATE.sub(lambda hit: f"\\u{ord(hit[0]):04x}", text)


def object_text(where: str, value: JsonObject) -> str:
    """Return the JSON text of an object; raises NotJson for values that would be read back different."""
    try:
        text = dumps(value if isinstance(value, dict) else dict(value))
    except (TypeError, ValueError, RecursionError) as error:
        raise NotJson(where, str(error)) from error
    check_json(where, value)
    return text


def loads(text: str) -> JsonValue:
    """Read what `dumps` wrote."""
    return json.loads(text)


def pack(text: str | None) -> str | None:
    """Return a text that any engine can store: verbatim, or escaped where it holds NUL or a lone surrogate."""
    if text is None or not ("\x00" in text or text.startswith(_PACKED) or _has_surrogate(text)):
        return text
    return _PACKED + dumps(text)


def unpack(text: str | None) -> str | None:
    """Return the text that was packed."""
    if text is None or not text.startswith(_PACKED):
        return text
    return cast("str", loads(text[1:]))


def _has_surrogate(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def well_formed(text: str) -> str:
    """Return the text with surrogate pairs joined and lone surrogates replaced, so that it can be encoded."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace") if _has_surrogate(text) else text


def sendable(value: JsonValue) -> JsonValue:
    """Return a JSON value with every text well formed, so that a client can send it; equal if it was already."""
    if isinstance(value, str):
        return well_formed(value)
    if isinstance(value, dict):
        fields = cast("dict[str, JsonValue]", value)
        return {well_formed(name): sendable(item) for name, item in fields.items()}
    return [sendable(item) for item in cast("list[JsonValue]", value)] if isinstance(value, list) else value


def encode(value: object) -> JsonValue:
    """Return the JSON form of a value: dataclasses as objects with every field, moments as ISO 8601, bytes as base64."""
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
    """Return the dataclass of texts, numbers and moments that `encode` wrote.

    Missing fields take their default and unknown ones are left out, so that values of other releases can be read.
    """
    kinds = typing.get_type_hints(kind)
    known = {name: value for name, value in data.items() if name in kinds}
    moments = [name for name, value in known.items() if value is not None and datetime in typing.get_args(kinds[name])]
    return kind(**known | {name: datetime.fromisoformat(known[name]) for name in moments})


def check_json(where: str, value: object) -> None:
    """Raise NotJson for values that would be read back different, or are nested too deep."""
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


def content_text(content: JsonValue) -> str:
    """Return the content or the arguments of a tool call as text; for a value that JSON cannot hold, its type."""
    if content is None or isinstance(content, str):
        return content or ""
    try:
        return dumps(content)
    except (TypeError, ValueError, RecursionError):
        return f"({type(content).__name__}, which cannot be shown)"
