"""What a library's JSON says beyond our parts, kept beside them, so that it can be handed back exactly.

Knows how one JSON value differs from another, where such notes live in a part's `extra`, and how the content of a tool's result
is taken apart and put together. Knows no library: an adapter has its own key and its own plain form.
"""

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, TypeVar, cast

from memolog.context import Context, ContextMessage
from memolog.domain.codec import JsonValue
from memolog.domain.lookalikes import quoted_label
from memolog.domain.message import FilePart, Message, NewMessage, Part, ReasoningPart, TextPart, ToolResultPart
from memolog.domain.run import Usage

__all__ = [
    "Answer",
    "Json",
    "Said",
    "applied",
    "arguments_object",
    "difference",
    "edge_of",
    "json_text",
    "note",
    "noted",
    "read_result",
    "with_speaker",
    "write_result",
]

Json: TypeAlias = dict[str, Any]
Said: TypeAlias = NewMessage | Message | ContextMessage
P = TypeVar("P", bound=Part)
S = TypeVar("S", bound=Said)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a model answered: the message to record, if it said anything, and what it cost, if that was told."""

    message: NewMessage | None
    usage: Usage | None = None


# ---------------------------------------------------------------- differences


def difference(plain: JsonValue, actual: JsonValue) -> Json | None:
    """Return what makes `plain` into `actual`, small where they have much in common; None if they are the same JSON."""
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
    """Return what `difference` was taken from. A place that a later release writes no more is passed over."""
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
    kept = {name: applied(value, inside.get(name)) for name, value in old.items() if name not in dropped}
    return {**kept, **change.get("put", {})}


def _is_same(one: JsonValue, other: JsonValue) -> bool:
    # True equals 1 in Python, and 1 equals 1.0; in JSON they differ.
    return type(one) is type(other) and one == other and json.dumps(one) == json.dumps(other)


# ---------------------------------------------------------------- notes


def note(part: Part, key: str) -> Json | None:
    """Return what an adapter kept at a part; None if the part did not come from there."""
    found: object = (part.extra or {}).get(key)
    return cast("Json", found) if isinstance(found, dict) else None


def noted(part: P, key: str, **values: Any) -> P:
    """Return the part with more kept at it; what is None is left out, nothing at all still says where it came from."""
    kept = {**(note(part, key) or {}), **{name: value for name, value in values.items() if value is not None}}
    return replace(part, extra={**(part.extra or {}), key: kept})


def with_speaker(said: S) -> S:
    """Return a user's message that begins with who speaks, for an API that has no field for it."""
    place = next((n for n, part in enumerate(said.parts) if isinstance(part, TextPart)), None)
    if not said.speaker or said.role != "user" or place is None:
        return said
    part = cast("TextPart", said.parts[place])
    # In quotation marks, so that a user who is called "System" does not pass for one.
    named = replace(part, text=f"{quoted_label(said.speaker)}: {part.text}")
    return replace(said, parts=(*said.parts[:place], named, *said.parts[place + 1 :]))


def edge_of(context: Context, key: str) -> str:
    """Return the edge; nothing between two calls of a model that thinks, since words of a user there would end its thought."""
    if not context.messages or context.messages[-1].role != "tool":
        return context.edge_text
    for said in reversed(context.messages):
        if said.role == "assistant" and any(
            isinstance(part, ReasoningPart) and note(part, key) is not None for part in said.parts
        ):
            return ""
        if said.role not in {"assistant", "tool"}:
            break
    return context.edge_text


# ---------------------------------------------------------------- arguments of calls


def json_text(value: JsonValue) -> str:
    """Return a call's arguments or a result as text, malformed ones as they came."""
    return value if isinstance(value, str) else json.dumps({} if value is None else value, ensure_ascii=False)


def arguments_object(arguments: JsonValue) -> Json:
    """Return a call's arguments as the object that Anthropic sends, malformed ones as a text inside it."""
    value: object = arguments
    if isinstance(arguments, str):
        with suppress(ValueError):
            value = json.loads(arguments) if arguments.strip() else None
    if isinstance(value, Mapping):
        return dict(cast("Mapping[str, Any]", value))
    return {} if value is None else {"arguments": value}


# ---------------------------------------------------------------- results of tools


def read_result(
    content: JsonValue, read: Callable[[Json], Part], write: Callable[[Part], JsonValue]
) -> tuple[JsonValue, tuple[FilePart, ...], list[Json] | None]:
    """Return a result's text, its files, and the shape in which a list had them; anything but a list stays as it is."""
    if not isinstance(content, list):
        return content, (), None
    given = cast("list[Any]", content)
    texts: list[str] = []
    files: list[FilePart] = []
    shape: list[Json] = []
    for block in given:
        part = read(cast("Json", block)) if isinstance(block, dict) else None
        change = None if part is None else difference(write(part), block)
        kept = {"change": change} if change else {}
        if isinstance(part, TextPart):
            texts.append(part.text)
            shape.append({"text": len(part.text), **kept})
        elif isinstance(part, FilePart):
            files.append(part)
            shape.append({"file": len(files) - 1, **kept})
        else:
            shape.append({"block": block})
    if not texts and not files:
        return given, (), None
    return "\n".join(texts), tuple(files), shape


def write_result(part: ToolResultPart, shape: list[Json] | None, write: Callable[[Part], JsonValue]) -> JsonValue:
    """Return a result's content in the shape it had; without one, a text, or a list if there are files."""
    text: Any = part.content
    if shape is None:
        if not part.files:
            return text
        said: list[Part] = [] if text in (None, "") else [TextPart(text=json_text(text))]
        return [write(one) for one in [*said, *part.files]]
    blocks: list[JsonValue] = []
    place = 0
    for entry in shape:
        if "block" in entry:
            blocks.append(entry["block"])
        elif "file" in entry:
            blocks.append(applied(write(part.files[int(entry["file"])]), entry.get("change")))
        else:
            end = place + entry["text"]
            blocks.append(applied(write(TextPart(text=str(text)[place:end])), entry.get("change")))
            place = end + 1
    return blocks
