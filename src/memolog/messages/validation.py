"""Check a message before it is saved: the types of its fields, and that JSON can hold its values exactly."""

from collections.abc import Iterable
from types import UnionType
from typing import cast

from memolog.core.clock import to_micros
from memolog.core.exact_json import check_json
from memolog.core.message import (
    ROLES,
    FilePart,
    NewMessage,
    Part,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    UnknownPart,
    parts_to_json,
)
from memolog.core.zones import check_zone
from memolog.errors import InputError, NotJson, UnknownRole


def check_message(message: NewMessage) -> str:
    """Return the parts as JSON text; raises InputError for an unknown role, a wrong type, or a value that JSON would change."""
    check_kinds(message)
    # Encoding refuses circular and too deep values, so that the checks after it end.
    text = parts_to_json(message.parts)
    for part in message.parts:
        _check_values(part)
    return text


def check_kinds(message: NewMessage) -> None:
    """Raise InputError for an unknown role or a field of a wrong type. Does not check whether JSON can hold the values."""
    if message.role not in ROLES:
        raise UnknownRole(message.role, ROLES)
    for name, value in (("speaker", message.speaker), ("zone", message.zone)):
        if value is not None and not isinstance(value, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InputError(f"`{name}` must be a string, got {type(value).__name__}.", then="Pass its text, or None.")
    if message.zone:
        check_zone(message.zone)
    if message.created_at is not None:
        to_micros(message.created_at)
    if not isinstance(message.own, bool):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InputError(
            f"`own` must be True or False, got {message.own!r:.40}.", then="Leave it out, or pass own=True."
        )
    if not isinstance(message.parts, tuple | list):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InputError(
            f"`parts` must be a tuple, got {type(message.parts).__name__}.",
            then='Pass parts=(TextPart(text="…"),), or use UserMessage("…").',
        )
    for part in message.parts:
        _check_part(part)


def _check_part(part: Part) -> None:
    match part:
        case TextPart():
            _check_kind("A text", part.text)
        case ReasoningPart():
            _check_kind("A text", part.text)
            _check_kind("The signature of a thought", part.signature, str | None)
            _check_kind("An encrypted thought", part.encrypted, str | None)
        case ToolCallPart():
            _check_kind("The id of a tool call", part.id)
            _check_kind("The name of a tool", part.name)
        case ToolResultPart():
            _check_kind("The call that a tool result answers", part.call_id)
            _check_kind("The name of the tool of a tool result", part.name, str | None)
            _check_files(part.files)
        case FilePart():
            _check_file(part)
        case UnknownPart():
            pass
        case _:  # pyright: ignore[reportUnnecessaryComparison]
            raise NotJson("A part", f"{type(part).__name__} is not a message part")


def _check_files(files: Iterable[FilePart]) -> None:
    if not isinstance(files, tuple | list) or not all(
        isinstance(file, FilePart) for file in cast("list[object]", files)
    ):
        raise NotJson("A tool result", "one of its files is not a FilePart")
    for file in files:
        _check_file(file)


def _check_file(file: FilePart) -> None:
    _check_kind("The data of a file", file.data, bytes | None)
    _check_kind("The media type of a file", file.media_type)
    for name, value in (("address", file.url), ("name", file.name), ("detail", file.detail)):
        _check_kind(f"The {name} of a file", value, str | None)


def _check_kind(where: str, value: object, kind: type[str] | UnionType = str) -> None:
    # Text and bytes look the same in JSON, so that a wrong type would come back as the other one.
    if not isinstance(value, kind):
        raise NotJson(where, f"got {type(value).__name__}, expected {getattr(kind, '__name__', kind)}")


def _check_values(part: Part) -> None:
    check_json("What a part carries as extra", part.extra)
    match part:
        case ToolCallPart():
            check_json("The arguments of a tool call", part.arguments)
        case ToolResultPart():
            check_json("The content of a tool result", part.content)
            for file in part.files:
                check_json("What a part carries as extra", file.extra)
        case UnknownPart():
            check_json("An unknown part", part.data)
        case _:
            pass
