"""Store a message of another library exactly: keep the fields that Memolog's parts do not have, and rebuild the original JSON.

These fields are stored in the `extra` of a part, under one key for each library. The value under that key is called the notes of
the part. Notes contain a `change` (see `difference`) or a `block` (see `kept`), and other values that the adapter needs.
"""

import base64
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import replace
from typing import Any, TypeAlias, TypeVar, cast

from memolog.core.exact_json import JsonValue, check_json, dumps
from memolog.core.message import (
    FilePart,
    Part,
    TextPart,
    ToolResultPart,
    UnknownPart,
)
from memolog.errors import NotJson
from memolog.transfer.conversation import as_data

Json: TypeAlias = dict[str, Any]
Path: TypeAlias = tuple[str | int, ...]
P = TypeVar("P", bound=Part)


# ---------------------------------------------------------------- differences


def difference(plain: JsonValue, actual: JsonValue) -> Json | None:
    """Return the change from `plain` to `actual`, or None if they are the same JSON. `applied` applies the change."""
    if isinstance(plain, Mapping) and isinstance(actual, Mapping):
        old, new = cast("Mapping[str, Any]", plain), cast("Mapping[str, Any]", actual)
        inside = {name: change for name in old if name in new and (change := difference(old[name], new[name]))}
        found: Json = {
            "drop": [name for name in old if name not in new],
            "put": {name: value for name, value in new.items() if name not in old},
            "in": inside,
        }
        return {name: value for name, value in found.items() if value} or None
    if isinstance(plain, list) and isinstance(actual, list):
        before, after = cast("list[Any]", plain), cast("list[Any]", actual)
        if len(before) == len(after):
            changes = [difference(old, new) for old, new in zip(before, after, strict=True)]
            at = {str(index): change for index, change in enumerate(changes) if change}
            return {"at": at} if at else None
    return None if _is_same(plain, actual) else {"is": actual}


def applied(plain: JsonValue, change: Mapping[str, Any] | None) -> JsonValue:
    """Return `plain` with a change of `difference` applied. Changes to fields that `plain` does not have are ignored."""
    if not change:
        return plain
    if "is" in change:
        return change["is"]
    if "at" in change and isinstance(plain, list):
        items = cast("list[Any]", plain)
        return [applied(item, change["at"].get(str(index))) for index, item in enumerate(items)]
    if not isinstance(plain, Mapping):
        return plain
    old, dropped, inside = cast("Mapping[str, Any]", plain), change.get("drop", ()), change.get("in", {})
    same = {name: applied(value, inside.get(name)) for name, value in old.items() if name not in dropped}
    return {**same, **change.get("put", {})}


def _is_same(one: JsonValue, other: JsonValue) -> bool:
    # True == 1 == 1.0 in Python, but these values are different in JSON.
    return type(one) is type(other) and one == other and json.dumps(one) == json.dumps(other)


# ---------------------------------------------------------------- notes


def note(part: Part, key: str) -> Json | None:
    """Return the notes of an adapter on a part, or None if the part is not from that adapter."""
    found: object = (part.extra or {}).get(key)
    return cast("Json", found) if isinstance(found, dict) else None


def notes(part: Part, key: str) -> Json:
    """Return the notes of an adapter on a part, or an empty object if the part is not from that adapter."""
    return note(part, key) or {}


def noted(part: P, key: str, **values: Any) -> P:
    """Return the part with added notes. Values that are None are skipped. Empty notes show that the part is from this adapter."""
    kept = {**notes(part, key), **{name: value for name, value in values.items() if value is not None}}
    return replace(part, extra={**(part.extra or {}), key: kept})


def kept(part: P, key: str, block: Json, *, plain: JsonValue = None, **fields: Path) -> P:
    """Return the part with its original block in its notes. If the block equals `plain`, return the part unchanged.

    `fields` has the path in the block of each field that the part has too. The stored block has None at these paths, so that
    nothing is stored twice.
    """
    if block == plain:
        return part
    hollow, head = deepcopy(block), None
    for name, path in fields.items():
        value: object = getattr(part, name)
        if isinstance(value, bytes):
            # In a data URL, the media type precedes the base64 text.
            head = str(value_at(block, path)).removesuffix(base64.b64encode(value).decode()) or None
        _put(hollow, path, None)
    return noted(part, key, block=hollow, at={name: list(path) for name, path in fields.items()}, head=head)


def rebuilt(part: Part, key: str) -> Json:
    """Return the block that `kept` stored, with the fields of the part filled in."""
    stored = notes(part, key)
    block: Json = deepcopy(stored["block"])
    paths: Mapping[str, Any] = stored.get("at") or {}
    for name, path in paths.items():
        value: Any = getattr(part, name)
        if isinstance(value, bytes):
            value = stored.get("head", "") + base64.b64encode(value).decode()
        _put(block, tuple(path), value)
    return block


def value_at(block: Any, path: Path) -> Any:
    """Return the value at a path of an object, or None if there is none."""
    for key in path:
        if not isinstance(block, Mapping):
            return None
        block = cast("Mapping[str | int, Any]", block).get(key)
    return block


def text_at(block: Any, *path: str) -> str | None:
    """Return the text at a path of an object, or None if there is no text."""
    value = value_at(block, path)
    return value if isinstance(value, str) else None


def _put(block: Any, path: Path, value: Any) -> None:
    for key in path[:-1]:
        block = block[key]
    block[path[-1]] = value


# ---------------------------------------------------------------- whole messages


def with_message_note(parts: Sequence[Part], key: str, /, **values: Any) -> tuple[Part, ...]:
    """Return the parts with notes about the whole message. They are stored with the first part."""
    return (noted(parts[0], key, message={**message_note(parts, key), **values}), *parts[1:])


def message_note(parts: Sequence[Part], key: str) -> Json:
    """Return a copy of the notes of an adapter about a whole message."""
    found = notes(parts[0], key).get("message") if parts else None
    return dict(cast("Json", found)) if isinstance(found, dict) else {}


def json_fields(fields: Json, *always: str) -> Json:
    """Return the fields whose values are JSON, and the fields in `always`."""
    return {name: value for name, value in fields.items() if name in always or _is_json(value)}


def _is_json(value: object) -> bool:
    try:
        dumps(value)
        check_json("A field", value)
    except (NotJson, TypeError, ValueError, RecursionError):
        return False
    return True


def decoded(text: str) -> bytes | None:
    """Return the bytes of a base64 text or a data URL. Return None if encoding them again would give another text."""
    body = text.rpartition(",")[2] if text.startswith("data:") else text
    with suppress(ValueError):
        data = base64.b64decode(body, validate=True)
        return data if base64.b64encode(data).decode() == body else None
    return None


def described(part: FilePart | UnknownPart) -> str:
    """Return a short text that replaces a part that an API does not accept."""
    if isinstance(part, FilePart):
        return f"[{' '.join(filter(None, (part.media_type, part.name, part.url)))}]"
    return f"[{as_data(part.data).get('type', 'part')}]"


def sent_result(content: JsonValue) -> JsonValue:
    """Return the content of a tool result for a request: no blocks of empty text, and "" if nothing is left.

    A result must be sent even if it is empty, because every API refuses a call without a result.
    """
    if not isinstance(content, list):
        return "" if content is None else content
    blocks = cast("list[Any]", content)
    return [block for block in blocks if str(as_data(block).get("text", "…")).strip()] or ""


# ---------------------------------------------------------------- arguments of calls


def json_text(value: JsonValue) -> str:
    """Return arguments of a call or a result as JSON text. A string is returned unchanged."""
    return value if isinstance(value, str) else json.dumps({} if value is None else value, ensure_ascii=False)


def arguments_object(arguments: JsonValue, name: str = "arguments") -> Json:
    """Return arguments of a call as an object. Any other value is returned as an object with the key `name`."""
    value: object = arguments
    if isinstance(arguments, str):
        with suppress(ValueError):
            value = json.loads(arguments) if arguments.strip() else None
    if isinstance(value, Mapping):
        return dict(cast("Mapping[str, Any]", value))
    return {} if value is None else {name: value}


# ---------------------------------------------------------------- results of tools


def read_result(
    content: JsonValue, read: Callable[[Json], Part], write: Callable[[Part], JsonValue]
) -> tuple[JsonValue, tuple[FilePart, ...], list[Json] | None]:
    """Return the text and the files of a result, and the shape for `write_result`. Content that is no list has no shape."""
    if not isinstance(content, list):
        return content, (), None
    blocks = cast("list[Any]", content)
    texts: list[str] = []
    files: list[FilePart] = []
    shape: list[Json] = []
    for block in blocks:
        part = read(cast("Json", block)) if isinstance(block, dict) else None
        change = None if part is None else difference(write(part), block)
        changed = {"change": change} if change else {}
        if isinstance(part, TextPart):
            texts.append(part.text)
            shape.append({"text": len(part.text), **changed})
        elif isinstance(part, FilePart):
            files.append(part)
            shape.append({"file": len(files) - 1, **changed})
        else:
            shape.append({"block": block})
    if not texts and not files:
        return blocks, (), None
    return "\n".join(texts), tuple(files), shape


def write_result(part: ToolResultPart, shape: list[Json] | None, write: Callable[[Part], JsonValue]) -> JsonValue:
    """Return the content of a result in its stored shape. Without a shape, return the content, or a list if there are files."""
    text: Any = part.content
    if shape is None:
        if not part.files:
            return text
        texts: list[Part] = [] if text in (None, "") else [TextPart(text=json_text(text))]
        return [write(one) for one in [*texts, *part.files]]
    blocks: list[JsonValue] = []
    start = 0
    for entry in shape:
        if "block" in entry:
            blocks.append(entry["block"])
        elif "file" in entry:
            blocks.append(applied(write(part.files[int(entry["file"])]), entry.get("change")))
        else:
            end = start + entry["text"]
            blocks.append(applied(write(TextPart(text=str(text)[start:end])), entry.get("change")))
            start = end + 1
    return blocks
