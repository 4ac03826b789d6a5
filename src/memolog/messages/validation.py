"""Check a message before it is saved: the types of its fields, and whether JSON can represent its values exactly."""

from dataclasses import fields
from typing import Final, cast, get_args

from memolog.core.clock import to_micros
from memolog.core.exact_json import JsonObject, JsonValue, check_json
from memolog.core.message import ROLES, FilePart, NewMessage, Part, ToolResultPart, parts_to_json
from memolog.core.zones import check_zone
from memolog.errors import InputError, NotJson, UnknownRole

_KINDS: Final[tuple[type[Part], ...]] = get_args(Part)


def check_message(message: NewMessage) -> str:
    """Return the parts as JSON text. Raise InputError for an unknown role, a wrong type, or a value that JSON would change."""
    check_kinds(message)
    # Encode first: it raises an error for circular values, for which `_check_values` would not end.
    text = parts_to_json(message.parts)
    for part in message.parts:
        _check_values(part)
    return text


def check_kinds(message: NewMessage) -> None:
    """Raise InputError for an unknown role or a field of a wrong type. Values inside of JSON are not checked."""
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


# The fields of each kind of part that must be text or bytes, with their types, and the fields that may have any JSON value.
_PLAIN: Final = {
    kind: tuple((field.name, field.type) for field in fields(kind) if field.type in {str, str | None, bytes | None})
    for kind in _KINDS
}
_JSON: Final = {
    kind: tuple(field.name for field in fields(kind) if field.type in (JsonValue, JsonObject | None)) for kind in _KINDS
}


def _check_part(part: Part) -> None:
    plain = _PLAIN.get(type(part))
    if plain is None:
        raise NotJson("A part", f"{type(part).__name__} is not a message part")
    for name, kind in plain:
        # Text and bytes look the same in JSON, so a value of the wrong type would be read as the other type.
        if not isinstance(value := getattr(part, name), cast("type", kind)):
            expected = getattr(kind, "__name__", kind)
            raise NotJson(_named(part, name), f"got {type(value).__name__}, expected {expected}")
    if isinstance(part, ToolResultPart):
        files = cast("object", part.files)
        if not isinstance(files, tuple | list) or not all(isinstance(file, FilePart) for file in part.files):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise NotJson("A tool result", "one of its files is not a FilePart")
        for file in part.files:
            _check_part(file)


def _check_values(part: Part) -> None:
    for name in _JSON[type(part)]:
        if (value := getattr(part, name)) is not None:
            check_json(_named(part, name), value)
    for file in part.files if isinstance(part, ToolResultPart) else ():
        _check_values(file)


def _named(part: Part, field: str) -> str:
    return f"The field `{field}` of a {type(part).__name__}"
