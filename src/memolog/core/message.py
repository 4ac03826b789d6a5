"""Messages and their parts, and their exact JSON form."""

import base64
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any, ClassVar, Final, Literal, TypeAlias, assert_never, cast, get_args

from memolog.core.exact_json import JsonObject, JsonValue, content_text, dumps, loads, nothing, text_to_json
from memolog.errors import InputError, NotJson

Role: TypeAlias = Literal["system", "user", "assistant", "tool"]
ROLES: Final[tuple[str, ...]] = get_args(Role)

LONGEST_SPEAKER: Final = 200
"""The maximum length of the name of a speaker, in characters. A longer name is cut."""
# Messages with more parts than this are processed on a worker thread.
_MANY_PARTS: Final = 1_000

MessageState: TypeAlias = Literal["live", "withdrawn", "forgotten"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TextPart:
    """Plain text."""

    text: str
    extra: JsonObject | None = None
    """Fields of the provider that Memolog does not have. They are sent back unchanged. Every kind of part may have them."""
    type: Literal["text"] = "text"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReasoningPart:
    """Reasoning of the model. A signature or an encrypted text is stored and sent back, and is never interpreted."""

    text: str = ""
    signature: str | None = None
    encrypted: str | None = None
    extra: JsonObject | None = None
    type: Literal["reasoning"] = "reasoning"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallPart:
    """A request to run a tool; `arguments` is a JSON text or an object, as the provider sent it."""

    id: str
    name: str
    arguments: JsonValue = None
    extra: JsonObject | None = None
    type: Literal["tool_call"] = "tool_call"


@dataclass(frozen=True, slots=True, kw_only=True)
class FilePart:
    """A file or an image, as bytes or as a URL. Width, height, pages and seconds make the token count more accurate."""

    media_type: str
    data: bytes | None = None
    url: str | None = None
    name: str | None = None
    width: int | None = None
    height: int | None = None
    pages: int | None = None
    seconds: float | None = None
    detail: str | None = None
    extra: JsonObject | None = None
    type: Literal["file"] = "file"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResultPart:
    """The result of a tool; `call_id` is the id of the call."""

    call_id: str
    content: JsonValue = None
    name: str | None = None
    is_error: bool = False
    files: tuple[FilePart, ...] = ()
    extra: JsonObject | None = None
    type: Literal["tool_result"] = "tool_result"


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownPart:
    """A part of an unknown kind, stored and returned unchanged."""

    data: JsonValue
    extra: JsonObject | None = None
    type: Literal["unknown"] = "unknown"


Part: TypeAlias = TextPart | ReasoningPart | ToolCallPart | ToolResultPart | FilePart | UnknownPart


@dataclass(frozen=True, slots=True, kw_only=True)
class NewMessage:
    """A message to save. A missing id and time are set when the message is saved."""

    role: Role
    parts: tuple[Part, ...]
    id: str | None = None
    created_at: datetime | None = None
    zone: str | None = None
    speaker: str | None = None
    """The name of the speaker, cut to 200 characters (LONGEST_SPEAKER)."""
    own: bool = False
    """Whether it has only calls or only results of Memolog's own tools. Such a message is not indexed and not observed."""
    metadata: JsonObject = field(default_factory=nothing)

    def __post_init__(self) -> None:
        # Other types are not cut here. They are refused when the message is saved.
        if isinstance(self.speaker, str) and len(self.speaker) > LONGEST_SPEAKER:
            object.__setattr__(self, "speaker", self.speaker[:LONGEST_SPEAKER])


@dataclass(frozen=True, slots=True, kw_only=True, weakref_slot=True)
class Message:
    """One stored row of a message. A message may have several rows, numbered from 0 by `continuation`."""

    html_columns: ClassVar = ("seq", "role", "created_at", "text")
    id: str
    resource: str
    thread: str
    seq: int
    role: Role
    parts: tuple[Part, ...]
    created_at: datetime
    tokens: int
    continuation: int = 0
    zone: str | None = None
    speaker: str | None = None
    task: str | None = None
    own: bool = False
    metadata: JsonObject = field(default_factory=nothing)
    state: MessageState = "live"
    level: int = 0
    """The level of compaction: 0 is none, 1 is indexed by summary and identifiers, 2 is indexed by summary only."""
    injection: str | None = None
    """The text that a context shows instead of the parts if the message is compacted."""
    search: str | None = None
    """The text that is indexed instead of the parts if the message is compacted."""
    pruned: bool = False
    """Whether the parts were deleted. `injection` stays. Of `search`, names and numbers stay."""
    turn: str | None = None
    """The id of the turn that saved the message. None means that it was saved outside of a turn."""
    file_tokens: int = 0
    """The tokens of large files such as PDFs, which are part of `tokens`: as the provider reported them, else an estimate."""
    is_file_reported: bool = False
    """Whether `file_tokens` is a number that the provider reported."""

    @property
    def text(self) -> str:
        """Return the text parts, joined by blank lines."""
        return "\n\n".join(part.text for part in self.parts if isinstance(part, TextPart))


Content: TypeAlias = str | Part | Iterable[str | Part]


def _parts(content: Content | None) -> tuple[Part, ...]:
    match content:
        case str():
            return (TextPart(text=content),)
        case TextPart() | ReasoningPart() | ToolCallPart() | ToolResultPart() | FilePart() | UnknownPart():
            return (content,)
        case Iterable() if not isinstance(content, bytes | bytearray | Mapping):
            return tuple(TextPart(text=item) if isinstance(item, str) else item for item in content)
        case _:
            # Some providers send None as the content of a message with tool calls.
            raise InputError(
                f"`content` must be text or message parts, got {'None' if content is None else type(content).__name__}.",
                then='Pass a string, or TextPart(text="…"), ToolCallPart(…) and the like, one or a list of them.',
            )


# These functions have names like classes, because they are called like constructors.
def UserMessage(content: Content, *, id: str | None = None, speaker: str | None = None) -> NewMessage:  # noqa: A002, N802
    """Return a message of the user, from a text or from parts."""
    return NewMessage(role="user", parts=_parts(content), id=id, speaker=speaker)


def AssistantMessage(content: Content, *, id: str | None = None, speaker: str | None = None) -> NewMessage:  # noqa: A002, N802
    """Return a message of the model, from a text or from parts."""
    return NewMessage(role="assistant", parts=_parts(content), id=id, speaker=speaker)


def SystemMessage(content: Content, *, id: str | None = None) -> NewMessage:  # noqa: A002, N802
    """Return a system message of the application, from a text or from parts."""
    return NewMessage(role="system", parts=_parts(content), id=id)


def ToolMessage(  # noqa: N802
    call_id: str,
    content: JsonValue,
    *,
    name: str | None = None,
    is_error: bool = False,
    id: str | None = None,  # noqa: A002
) -> NewMessage:
    """Return the result of one tool call as a message."""
    part = ToolResultPart(call_id=call_id, content=content, name=name, is_error=is_error)
    return NewMessage(role="tool", parts=(part,), id=id)


# ---------------------------------------------------------------- JSON

_KINDS: Final[tuple[type[Part], ...]] = get_args(Part)
_KIND_OF: Final = {field.default: kind for kind in _KINDS for field in fields(kind) if field.name == "type"}
_DEFAULTS: Final = {kind: tuple((f.name, f.default) for f in fields(kind) if f.name != "type") for kind in _KINDS}


def file_content(part: FilePart) -> bytes | None:
    """Return the bytes of a file from the part or from its `data:` URL. Return None if the part has another URL."""
    if part.data is not None:
        return part.data
    if part.url is None or part.url[:5].lower() != "data:":
        return None
    head, _, payload = part.url.partition(",")
    if not head.lower().endswith(";base64"):
        from urllib.parse import unquote_to_bytes  # noqa: PLC0415 - slow to import, and few files need it

        return unquote_to_bytes(payload)
    try:
        return base64.b64decode(payload + "==")
    except ValueError:
        # The base64 is broken. The undecoded text is returned, because it is at least as long as the file.
        return payload.encode("utf-8", "surrogatepass")


def part_text(part: Part) -> str:
    """Return the text of a part: its text, a tool's arguments or result, a file's description, or the data of an unknown part."""
    match part:
        case TextPart() | ReasoningPart():
            return part.text
        case ToolCallPart():
            return content_text(part.arguments)
        case ToolResultPart():
            return content_text(part.content)
        case FilePart():
            data = file_content(part)
            # A `data:` URL contains the file, and is not a description.
            where = f"{len(data):,} bytes" if data is not None else part.url
            return ", ".join(filter(None, (part.name, part.media_type, where)))
        case UnknownPart():
            return content_text(part.data)
        case _:
            assert_never(part)


def parts_to_json(parts: tuple[Part, ...]) -> str:
    """Return the parts as compact JSON text. Fields that have their default value are omitted."""
    if len(parts) == 1 and type(parts[0]) is TextPart and parts[0].extra is None:
        # Most messages are a single text. This is faster than the general encoder, which takes longer than saving the row.
        return f'[{{"type":"text","text":{text_to_json(parts[0].text)}}}]'
    try:
        return dumps([_part_to_json(part) for part in parts])
    except (TypeError, ValueError, RecursionError) as error:
        raise NotJson("A part", str(error)) from error


def parts_from_json(text: str) -> tuple[Part, ...]:
    """Return the parts of a JSON text that `parts_to_json` returned."""
    return tuple(map(_part_from_json, loads(text)))


def _part_to_json(part: Part) -> dict[str, object]:
    data: dict[str, object] = {"type": part.type}
    for name, default in _DEFAULTS[type(part)]:
        value: object = getattr(part, name)
        if value is not default:
            data[name] = _field_to_json(name, value)
    return data


def _field_to_json(name: str, value: object) -> object:
    if name == "files":
        return [_part_to_json(file) for file in cast("tuple[FilePart, ...]", value)]
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value


# Earlier releases did not check that these fields are texts. Other values in stored rows are converted to JSON text.
_TEXTS: Final = ("name", "signature", "encrypted", "media_type", "url", "detail")


def _part_from_json(data: dict[str, Any]) -> Part:
    if data.get("type") == "text":
        return TextPart(**data)
    kind = _KIND_OF.get(str(data.get("type")))
    if kind is None:
        # A newer release may have stored a kind of part that this release does not have.
        return UnknownPart(data=data)
    changed: dict[str, Any] = {name: dumps(data[name]) for name in _TEXTS if not isinstance(data.get(name), str | None)}
    if kind is FilePart:
        changed["media_type"] = changed.get("media_type") or data.get("media_type") or ""
        if isinstance(content := data.get("data"), str):
            changed["data"] = base64.b64decode(content)
    if kind is ToolResultPart:
        changed["files"] = tuple(_part_from_json(file) for file in data.get("files", ()))
    return kind(**{**data, **changed})


# ---------------------------------------------------------------- rules


def continues(stored: tuple[Part, ...], offered: tuple[Part, ...]) -> tuple[Part, ...] | None:
    """Return the parts of `offered` after the parts that both have. None means that the parts differ before that point."""
    shared = min(len(stored), len(offered))
    old, new = stored[:shared], offered[:shared]
    # NaN differs from itself, and stored tuples are read as lists, so compare the JSON if the values differ.
    return offered[shared:] if old == new or parts_to_json(old) == parts_to_json(new) else None


def has_content(parts: Iterable[Part]) -> bool:
    """Return whether parts have content that every API accepts: more than blank text and reasoning."""
    for part in parts:
        if isinstance(part, TextPart):
            if part.text and not part.text.isspace():
                return True
        elif not isinstance(part, ReasoningPart):
            return True
    return False


def has_many_parts(messages: Iterable[Message]) -> bool:
    """Return whether the messages have so many parts that a worker thread should process them."""
    return sum([len(message.parts) for message in messages]) > _MANY_PARTS


def texts_of(
    part: Part, values: Callable[[JsonValue], Iterator[str]], file: Callable[[FilePart], Iterator[str]]
) -> Iterator[str]:
    """Yield the texts of a part. `values` yields the texts of a JSON value, and `file` those of a file."""
    match part:
        case TextPart() | ReasoningPart():
            yield part.text
        case ToolCallPart():
            yield part.name
            yield from values(part.arguments)
        case ToolResultPart():
            yield part.name or ""
            yield from values(part.content)
            for one in part.files:
                yield from file(one)
        case FilePart():
            yield from file(part)
        case UnknownPart():
            yield from values(part.data)


def tool_key(part: Part) -> tuple[str, str] | None:
    """Return the kind and the id of a tool call, or of the call of a result. None for other parts."""
    match part:
        case ToolCallPart():
            return "call", part.id
        case ToolResultPart():
            return "result", part.call_id
        case _:
            return None


def pairs_of(parts: tuple[Part, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the ids of the tool calls in these parts, and the ids of the calls that the results in these parts answer."""
    calls = tuple(part.id for part in parts if isinstance(part, ToolCallPart))
    results = tuple(part.call_id for part in parts if isinstance(part, ToolResultPart))
    return calls, results
