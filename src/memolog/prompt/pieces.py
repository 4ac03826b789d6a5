"""Render the parts of a message for the observer: readable, escaped, bounded, without secrets."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, cast

from memolog.domain.codec import JsonValue, dumps
from memolog.domain.lookalikes import quoted_label
from memolog.domain.message import (
    FilePart,
    Message,
    Part,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    UnknownPart,
)
from memolog.domain.pairs import part_at, results_of_calls
from memolog.prompt.escape import clean, escape, short_line, quoted
from memolog.prompt.redact import REDACTION, Redactor
from memolog.prompt.shorten import ends_of, shorten
from memolog.tokens import TokenCounter, image_size

__all__ = ["Calls", "PartWriter", "Piece", "calls_of", "parsed", "pieces_of", "texts_of_parts"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartWriter:
    """Renders names and texts for a transcript of at most so many tokens."""

    counter: TokenCounter
    most_tokens: int = 100_000
    redactor: Redactor = REDACTION

    def body(self, text: str, tokens: int) -> str:
        """Return foreign text escaped and redacted, within so many tokens."""
        text = self.redactor.redact(clean(ends_of(text, tokens)))
        text = _BLOB.sub(lambda hit: f"[data: {len(hit[0]):,} characters left out]", text)
        return shorten(quoted(escape(text)).strip("\n"), tokens, self.counter)

    def name(self, text: str, most: int = 60, *, is_tool: bool = False) -> str:
        """Return the name of a speaker, a file or a tool, cleaned and quoted; a tool's plain identifier as it is."""
        return escape(quoted_label(self.redactor.redact(short_line(text, most)), most, is_tool=is_tool))

    def tool(self, text: str) -> str:
        """Return the name of a tool, which cannot look like a role."""
        return self.name(text, 80, is_tool=True)

    def line(self, text: str, most: int = 200) -> str:
        """Return foreign text escaped and redacted on one line."""
        return escape(self.redactor.redact(short_line(text, most)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A part between its tags; only what is between them may be shortened."""

    open: str = ""
    body: str = ""
    close: str = ""

    @property
    def text(self) -> str:
        """Return the piece as it is shown."""
        return f"{self.open}{self.body}{self.close}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Calls:
    """The tool calls of some messages, and which of them were answered."""

    of_results: Mapping[int, ToolCallPart]
    """The call of each result, by the identity of the result's part: ids of calls may come again."""
    by_id: Mapping[str, ToolCallPart]
    answered: frozenset[int]

    def call_of(self, result: ToolResultPart) -> ToolCallPart | None:
        """Return the call that a result answers, or seems to answer once more."""
        return self.of_results.get(id(result)) or self.by_id.get(result.call_id)


# Encoded files and encrypted data: no run of letters in prose is that long.
_BLOB: Final = re.compile(
    r"data:[\w.+/-]{1,100}(?:;[\w=.-]{1,60}){0,4};base64,[A-Za-z0-9+/=_-]{64,}+|(?<![A-Za-z0-9+/_-])[A-Za-z0-9+/_-]{1000,}+=*+"
)
_TEXT_TYPES: Final = frozenset({"text", "input_text", "output_text"})
_OPAQUE: Final = re.compile(r"signature|encrypted|redacted|cipher|blob", re.IGNORECASE)
_DEEPEST: Final = 40
_MANY: Final = 5_000
# How much is shown of one tool call or result, of one stretch of reasoning, and of a part of unknown type.
_TOOL_TOKENS: Final = 10_000
_REASONING_TOKENS: Final = 200
_OTHER_TOKENS: Final = 500


def calls_of(messages: Sequence[Message]) -> Calls:
    """Return the calls in these messages."""
    pairs = [
        (part_at(messages, call), part_at(messages, result)) for call, result in results_of_calls(messages).items()
    ]
    parts = [part for message in messages for part in message.parts]
    return Calls(
        by_id={part.id: part for part in parts if isinstance(part, ToolCallPart)},
        of_results={id(result): call for call, result in pairs if isinstance(call, ToolCallPart)},
        answered=frozenset(id(call) for call, _ in pairs),
    )


def pieces_of(message: Message, calls: Calls, writer: PartWriter) -> tuple[Piece, ...]:
    """Return the parts of a message, those with something to show."""
    if message.own:
        return tuple(dict.fromkeys(_own(part, calls, writer) for part in message.parts)) or (Piece(body=_OWN),)
    return tuple(piece for part in message.parts for piece in _pieces(part, calls, writer) if piece.text.strip())


def _pieces(part: Part, calls: Calls, writer: PartWriter) -> tuple[Piece, ...]:
    match part:
        case TextPart():
            return (Piece(body=writer.body(part.text, writer.most_tokens)),)
        case ReasoningPart():
            # Signatures and encrypted reasoning are of use only to the provider.
            body = writer.body(part.text, _REASONING_TOKENS)
            return (Piece(open="<reasoning>", body=body, close="</reasoning>"),) if body.strip() else ()
        case ToolCallPart():
            return (_call(part, calls, writer),)
        case ToolResultPart():
            return (_result(part, calls, writer), *(_file(file, writer) for file in part.files))
        case FilePart():
            return (_file(part, writer),)
        case UnknownPart():
            body = writer.body(_json_text(part.data, writer), _OTHER_TOKENS)
            return (Piece(open="<other>", body=body, close="</other>"),)


def _call(part: ToolCallPart, calls: Calls, writer: PartWriter) -> Piece:
    state = "" if id(part) in calls.answered else ' state="no result"'
    body = writer.body(_json_text(part.arguments, writer), _TOOL_TOKENS)
    return Piece(open=f"<call{state}>{writer.tool(part.name)} ", body=body, close="</call>")


def _result(part: ToolResultPart, calls: Calls, writer: PartWriter) -> Piece:
    call = calls.call_of(part)
    name = part.name or (call.name if call else "")
    state = ' state="error"' if part.is_error else ""
    body = writer.body(_json_text(part.content, writer), _TOOL_TOKENS)
    return Piece(open=f"<result{state}>{writer.tool(name)}\n", body=body, close="</result>")


# ---------------------------------------------------------------- files


def _file(part: FilePart, writer: PartWriter) -> Piece:
    """Return a placeholder with the name, type and size of a file."""
    facts = [writer.tool(part.name) if part.name else "", writer.tool(part.media_type), *_measures(part)]
    if part.url and part.url[:5].lower() != "data:":
        # What follows the path may be a signature that opens the file.
        facts.append(writer.line(re.split(r"[?#]", part.url, maxsplit=1)[0]))
    return Piece(open="<file>", body=", ".join(filter(None, facts)), close="</file>")


def _measures(part: FilePart) -> Iterable[str]:
    sides = (part.width, part.height) if part.width and part.height else image_size(part.data) if part.data else None
    if sides:
        yield f"{sides[0]}×{sides[1]}"
    if part.pages:
        yield f"{part.pages} pages"
    if part.seconds:
        yield f"{part.seconds:g} s"
    if part.data is not None:
        yield _size(len(part.data))


def _size(count: int) -> str:
    for unit in ("bytes", "kB", "MB"):
        if count < 1_000:  # noqa: PLR2004 - the next unit
            return f"{count} {unit}"
        count = round(count / 1_000)
    return f"{count} GB"


# ---------------------------------------------------------------- our own tools

_OWN: Final = "used the memory; the answer is not shown"


def _own(part: Part, calls: Calls, writer: PartWriter) -> Piece:
    """Return a line about a call of a memory tool; its answer is in the log already."""
    call = calls.call_of(part) if isinstance(part, ToolResultPart) else part
    if not isinstance(call, ToolCallPart):
        return Piece(body=_OWN)
    given = parsed(call.arguments)
    arguments = cast("Mapping[str, object]", given if isinstance(given, Mapping) else {})
    query, action = arguments.get("query"), arguments.get("action")
    if isinstance(query, str) and query.strip():
        return Piece(body=f"searched for “{writer.line(query)}”; the answer is not shown")
    done = f"{writer.tool(call.name)} {writer.tool(action)}" if isinstance(action, str) else writer.tool(call.name)
    return Piece(body=f"used {done}; the answer is not shown")


# ---------------------------------------------------------------- JSON


def parsed(arguments: JsonValue) -> object:
    """Return the arguments of a call, parsed where they are the text of a JSON object or array."""
    if isinstance(arguments, str) and arguments.lstrip()[:1] in {"{", "["}:
        try:
            return json.loads(arguments)
        except (ValueError, RecursionError):
            return arguments
    return arguments


def _json_text(value: JsonValue, writer: PartWriter) -> str:
    """Return a JSON value as readable text: a string as it is, a list of text parts as their texts.

    Values are redacted before they are joined, since a key such as "password" shows what its value is.
    """
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    plain = writer.redactor.value(cast("JsonValue", _plain(value, 0)))
    texts = texts_of_parts(plain)
    if texts is not None:
        return "\n".join(texts)
    try:
        return dumps(plain)
    except (TypeError, ValueError, RecursionError):
        return f"[unreadable {type(value).__name__}]"


def texts_of_parts(value: object) -> list[str] | None:
    """Return the texts of a list of text parts; None if the value is anything else."""
    if not isinstance(value, list) or not value:
        return None
    items = cast("list[object]", value)
    parts = [cast("dict[str, object]", item) for item in items if isinstance(item, dict)]
    texts = [part.get("text") for part in parts if part.get("type") in _TEXT_TYPES]
    found = [text for text in texts if isinstance(text, str)]
    return found if len(found) == len(items) else None


def _plain(value: object, depth: int) -> object:
    """Return the value without signatures, encrypted data, bytes and deep nesting."""
    if depth > _DEEPEST:
        return "…"
    if isinstance(value, Mapping):
        entries = list(cast("Mapping[object, object]", value).items())[:_MANY]
        return {str(key): _plain(item, depth + 1) for key, item in entries if not _OPAQUE.search(str(key))}
    if isinstance(value, list | tuple):
        return [_plain(item, depth + 1) for item in cast("list[object]", value)[:_MANY]]
    if isinstance(value, bytes | bytearray):
        return f"[data: {len(value):,} bytes left out]"
    return value
