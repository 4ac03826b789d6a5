"""Render messages as a transcript for an observer, with numbers, times in the zone of the user, and a limited length."""

import json
import re
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, tzinfo
from typing import Final, cast

from memolog.core.cache import remembered
from memolog.core.exact_json import JsonValue, dumps
from memolog.core.message import (
    FilePart,
    Message,
    Part,
    ReasoningPart,
    Role,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    UnknownPart,
)
from memolog.core.observation import Observation
from memolog.core.pairs import part_at, results_of_calls
from memolog.core.zones import zone_of
from memolog.text.cut import cut, cut_end, cut_tokens
from memolog.text.dates import ENGLISH_WEEKDAYS
from memolog.text.escape import clean, escape, short_line
from memolog.text.lookalikes import quoted, quoted_label
from memolog.text.message_tokens import image_size
from memolog.text.redaction import REDACTION, Redactor
from memolog.text.tokens import TokenCounter, share

_LEAST_TOKENS: Final = 200  # a smaller limit for a transcript is replaced by this one
# A message with fewer tokens is useless. So messages are left out before all of them are shortened below this size.
_LEAST_MESSAGE: Final = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A message in a transcript, with the number by which lines cite it."""

    number: int
    thread: str
    seq: int
    role: Role
    at: datetime
    """The time of the message in the zone of the transcript."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transcript:
    """The text of a span for an observer."""

    text: str
    shown: tuple[Shown, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Piece:
    """A rendered part of a message. Only its body may be shortened, not its tags."""

    open: str = ""
    body: str = ""
    close: str = ""

    @property
    def text(self) -> str:
        return f"{self.open}{self.body}{self.close}"


class _Calls:
    """The tool calls of messages, and whether they have results. Parts are compared by identity, because call ids may repeat."""

    def __init__(self, messages: Sequence[Message]) -> None:
        places = results_of_calls(messages).items()
        pairs = [(part_at(messages, call), part_at(messages, result)) for call, result in places]
        parts = [part for message in messages for part in message.parts]
        self._by_id = {part.id: part for part in parts if isinstance(part, ToolCallPart)}
        self._of_results = {id(result): call for call, result in pairs if isinstance(call, ToolCallPart)}
        self.answered = frozenset(id(call) for call, _ in pairs)

    def call_of(self, result: ToolResultPart) -> ToolCallPart | None:
        """Return the call that a result answers; None if there is none. A second result of a call has the same call."""
        return self._of_results.get(id(result)) or self._by_id.get(result.call_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    shown: Shown
    header: str
    pieces: tuple[_Piece, ...]
    tokens: int

    @property
    def text(self) -> str:
        return _entry_text(self.header, self.pieces)

    @property
    def day(self) -> str:
        at = self.shown.at
        # UTC is also the zone of speakers whose zone is not known.
        zone = f", UTC{at.isoformat()[-6:]}" if at.utcoffset() else ""
        return f"<day>{ENGLISH_WEEKDAYS[at.weekday()]} {at.date().isoformat()}{zone}</day>"


def _entry_text(header: str, pieces: Sequence[_Piece]) -> str:
    bodies = "\n".join([piece.text for piece in pieces])
    return f"<message>{header}\n{bodies}\n</message>"


def numbered(messages: Sequence[Message], zone: tzinfo | None = None, first: int = 1) -> tuple[Shown, ...]:
    """Return the messages with consecutive numbers from `first`. If a zone is given, the times are in that zone."""
    times = [message.created_at if zone is None else in_zone(message.created_at, zone) for message in messages]
    return tuple(
        Shown(number=number, thread=message.thread, seq=message.seq, role=message.role, at=at)
        for number, (message, at) in enumerate(zip(messages, times, strict=True), first)
    )


# Encoded files and encrypted data: a `data:` URL, or at least 1,000 characters without a space, which no prose has.
# A blob is part of a word of at least this many characters.
_SHORTEST_BLOB: Final = 64
_BLOB: Final = re.compile(
    r"data:[\w.+/-]{1,100}(?:;[\w=.-]{1,60}){0,4};base64,[A-Za-z0-9+/=_-]{64,}+|(?<![A-Za-z0-9+/_-])[A-Za-z0-9+/_-]{1000,}+=*+"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartWriter:
    """Renders names, texts and times for a transcript of at most `most_tokens` tokens."""

    counter: TokenCounter
    zone: tzinfo = UTC
    most_tokens: int = 100_000
    redactor: Redactor = REDACTION

    def body(self, text: str, tokens: int) -> str:
        """Return text from a message, escaped, redacted and shortened to at most `tokens` tokens."""
        given = self.redactor, _ends_of(text, tokens)
        shown = _shown_text(given) if len(given[1]) <= _MAX_REMEMBERED else _as_shown(given)
        return _shorten(shown, tokens, self.counter)

    def name(self, text: str, most: int = 60, *, is_tool: bool = False) -> str:
        """Return the name of a speaker, a file or a tool, cleaned and quoted. A plain identifier of a tool is not quoted."""
        return escape(quoted_label(self.redactor.redact(short_line(text, most)), most, is_tool=is_tool))

    def tool(self, text: str) -> str:
        """Return the name of a tool in a form that cannot be mistaken for a role."""
        return self.name(text, 80, is_tool=True)

    def line(self, text: str, most: int = 200) -> str:
        """Return text from a message, escaped and redacted, on one line."""
        return escape(self.redactor.redact(short_line(text, most)))


def _as_shown(given: tuple[Redactor, str]) -> str:
    redactor, text = given
    text = redactor.redact(clean(text))
    if max(map(len, text.split()), default=0) >= _SHORTEST_BLOB:
        text = _BLOB.sub(lambda hit: f"[data: {len(hit[0]):,} characters left out]", text)
    return quoted(escape(text)).strip("\n")


# A span is written once to split it, and once or more for its prompts. At most 4 million characters are cached.
_MAX_REMEMBERED: Final = 64_000
_shown_text = remembered(64)(_as_shown)


def transcript(messages: Sequence[Message], writer: PartWriter, first: int = 1) -> Transcript:
    """Return the transcript of the messages, numbered from `first`. If `writer.most_tokens` is below 200, it counts as 200.

    Withdrawn and forgotten messages are left out. The middle of a long text is replaced by a mark with the number of missing
    characters. If there are too many messages to show a part of each, the messages in the middle are replaced by a mark too.
    """
    entries, counter = _entries(messages, writer, first), writer.counter
    budget = most = max(writer.most_tokens, _LEAST_TOKENS)
    kept, text = entries, _written(entries, 0)
    tokens = counter.count(text)
    while tokens > most:
        kept, left_out = _fitting(entries, budget, counter)
        text = _written(kept, left_out)
        tokens = counter.count(text)
        # The budget does not include tags and dates, so a further try has a smaller budget.
        budget -= max(tokens - most, most // 20)
    return Transcript(text=text, shown=tuple(entry.shown for entry in kept))


def split(messages: Sequence[Message], writer: PartWriter) -> tuple[tuple[Message, ...], ...]:
    """Split messages into consecutive pieces whose transcripts have at most `writer.most_tokens` tokens each.

    A tool call and its result are in the same piece, even if the piece is then too long; `transcript` shortens it. Every
    message is in exactly one piece, even a message that is not shown.
    """
    pieces: list[list[Message]] = []
    room, day = 0, ""
    for unit in units(messages):
        entries = _entries(unit, writer, 1)
        cost, day_after = _cost(entries, day, writer.counter)
        if not pieces or cost > room:
            pieces.append([])
            room = max(writer.most_tokens, _LEAST_TOKENS)
            cost, day_after = _cost(entries, "", writer.counter)
        pieces[-1].extend(unit)
        room, day = room - cost, day_after
    return tuple(map(tuple, pieces))


def _cost(entries: Sequence[_Entry], day: str, counter: TokenCounter) -> tuple[int, str]:
    """Return the tokens that messages add to a piece whose last day is `day`, and the new last day."""
    cost = 0
    for entry in entries:
        if (new := entry.day) != day:
            day = new
            cost += counter.count(day) + 1
        cost += entry.tokens
    return cost, day


def units(messages: Sequence[Message]) -> Iterable[list[Message]]:
    """Yield the shortest sequences of messages that separate no tool call from its result."""
    unit: list[Message] = []
    # The index of the last result for each message with calls. A call without a result is not included.
    last_results: dict[int, int] = {}
    for (call, _), (result, _) in results_of_calls(messages).items():
        last_results[call] = max(last_results.get(call, 0), result)
    end = -1
    for number, message in enumerate(messages):
        unit.append(message)
        end = max(end, last_results.get(number, number))
        if end <= number:
            yield unit
            unit = []
    if unit:
        yield unit


def said_in_zone(observation: Observation, zone: tzinfo) -> datetime | None:
    """Return the time of a line in the zone of the line, or in `zone` if the line has no zone; None if it has no time."""
    if observation.said_at is None:
        return None
    return in_zone(observation.said_at, zone_of(observation.zone)[0] if observation.zone else zone)


def in_zone(moment: datetime, zone: tzinfo) -> datetime:
    """Return a time in the zone, without fractions of a second. A time that is out of range in the zone is in UTC."""
    try:
        local = moment.astimezone(zone)
    except (OverflowError, ValueError):
        local = moment.astimezone(UTC)
    return local.replace(microsecond=0)


# ---------------------------------------------------------------- rendering


def _entries(messages: Sequence[Message], writer: PartWriter, first: int) -> list[_Entry]:
    live = [message for message in messages if message.state == "live"]
    calls = _Calls(live)
    entries: list[_Entry] = []
    for message, shown in zip(live, numbered(live, writer.zone, first), strict=True):
        # The role precedes the name and the name is quoted, so that a name cannot look like a role.
        speaker = f" {writer.name(message.speaker)}" if message.speaker else ""
        again = " (continued)" if message.continuation else ""
        header = f"[{shown.number}] {shown.at:%H:%M} {message.role}{speaker}{again}:"
        pieces = _pieces_of(message, calls, writer)
        tokens = writer.counter.count(_entry_text(header, pieces)) + 1
        entries.append(_Entry(shown=shown, header=header, pieces=pieces, tokens=tokens))
    return entries


def _written(entries: Sequence[_Entry], left_out: int) -> str:
    lines: list[str] = []
    day, mark = "", f"<left-out>{left_out:,} messages</left-out>"
    for place, entry in enumerate(entries):
        if left_out and place == (len(entries) + 1) // 2:
            lines.append(mark)
        if (new := entry.day) != day:
            day = new
            lines.append(day)
        lines.append(entry.text)
    if left_out and len(entries) <= 1:
        lines.append(mark)
    return "\n".join(lines)


# ---------------------------------------------------------------- fitting


def _fitting(entries: Sequence[_Entry], budget: int, counter: TokenCounter) -> tuple[list[_Entry], int]:
    """Return the messages, shortened to a budget of tokens, and the number of messages in the middle that were left out."""
    most = max(budget // _LEAST_MESSAGE, 0)
    kept = list(entries)
    if len(entries) > most and share([entry.tokens for entry in entries], budget) < _LEAST_MESSAGE:
        kept = [*entries[: (most + 1) // 2], *entries[len(entries) - most // 2 :]]
    cap = share([entry.tokens for entry in kept], budget)
    return [_cut(entry, cap, counter) for entry in kept], len(entries) - len(kept)


def _cut(entry: _Entry, most: int, counter: TokenCounter) -> _Entry:
    """Return the message with at most `most` tokens. The longest parts are shortened to the same size."""
    if entry.tokens <= most:
        return entry
    entry = _fewer(entry, most, counter)
    bodies = [counter.count(piece.body) for piece in entry.pieces]
    cap = share(bodies, most - _frame(entry, counter))
    pieces = tuple(
        piece if size <= cap else replace(piece, body=_shorten(piece.body, cap, counter))
        for piece, size in zip(entry.pieces, bodies, strict=True)
    )
    return replace(entry, pieces=pieces, tokens=min(entry.tokens, most))


def _fewer(entry: _Entry, most: int, counter: TokenCounter) -> _Entry:
    """Return the message without its middle parts, if the tags of all parts would need more than half of `most` tokens."""
    each = _frame(entry, counter) / max(len(entry.pieces), 1)
    many = max(int(most / 2 / max(each, 1)), 2)
    left_out = len(entry.pieces) - many
    if left_out <= 0:
        return entry
    mark = _Piece(open=f"<left-out>{left_out:,} parts</left-out>")
    return replace(entry, pieces=(*entry.pieces[: many // 2], mark, *entry.pieces[-(many - many // 2) :]))


def _frame(entry: _Entry, counter: TokenCounter) -> int:
    bare = tuple(replace(piece, body="") for piece in entry.pieces)
    return counter.count(replace(entry, pieces=bare).text)


# ---------------------------------------------------------------- parts

_TEXT_TYPES: Final = frozenset({"text", "input_text", "output_text"})
_OPAQUE: Final = re.compile(r"signature|encrypted|redacted|cipher|blob", re.IGNORECASE)
_DEEPEST: Final = 40  # maximum nesting of JSON that is shown
_MANY: Final = 5_000  # maximum items of a JSON object or array that are shown
# Maximum tokens of a tool call or result, of a reasoning part, and of a part of unknown type.
_TOOL_TOKENS: Final = 10_000
_REASONING_TOKENS: Final = 200
_OTHER_TOKENS: Final = 500


def _pieces_of(message: Message, calls: _Calls, writer: PartWriter) -> tuple[_Piece, ...]:
    if message.own:
        return tuple(dict.fromkeys(_own(part, calls, writer) for part in message.parts)) or (_Piece(body=_OWN),)
    return tuple(piece for part in message.parts for piece in _pieces(part, calls, writer) if piece.text.strip())


def _pieces(part: Part, calls: _Calls, writer: PartWriter) -> tuple[_Piece, ...]:
    match part:
        case TextPart():
            return (_Piece(body=writer.body(part.text, writer.most_tokens)),)
        case ReasoningPart():
            # Only the text is shown. Signatures and encrypted reasoning are useful only to the provider.
            body = writer.body(part.text, _REASONING_TOKENS)
            return (_Piece(open="<reasoning>", body=body, close="</reasoning>"),) if body.strip() else ()
        case ToolCallPart():
            return (_call(part, calls, writer),)
        case ToolResultPart():
            return (_result(part, calls, writer), *(_file(file, writer) for file in part.files))
        case FilePart():
            return (_file(part, writer),)
        case UnknownPart():
            body = writer.body(_json_text(part.data, writer), _OTHER_TOKENS)
            return (_Piece(open="<other>", body=body, close="</other>"),)


def _call(part: ToolCallPart, calls: _Calls, writer: PartWriter) -> _Piece:
    state = "" if id(part) in calls.answered else ' state="no result"'
    body = writer.body(_json_text(part.arguments, writer), _TOOL_TOKENS)
    return _Piece(open=f"<call{state}>{writer.tool(part.name)} ", body=body, close="</call>")


def _result(part: ToolResultPart, calls: _Calls, writer: PartWriter) -> _Piece:
    call = calls.call_of(part)
    name = part.name or (call.name if call else "")
    state = ' state="error"' if part.is_error else ""
    body = writer.body(_json_text(part.content, writer), _TOOL_TOKENS)
    return _Piece(open=f"<result{state}>{writer.tool(name)}\n", body=body, close="</result>")


# ---------------------------------------------------------------- files


def _file(part: FilePart, writer: PartWriter) -> _Piece:
    facts = [writer.tool(part.name) if part.name else "", writer.tool(part.media_type), *_measures(part)]
    if part.url and part.url[:5].lower() != "data:":
        # The query of a URL is left out, because it may contain a signature that gives access to the file.
        facts.append(writer.line(re.split(r"[?#]", part.url, maxsplit=1)[0]))
    return _Piece(open="<file>", body=", ".join(filter(None, facts)), close="</file>")


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
        if count < 1_000:  # noqa: PLR2004 - from here the next unit is used
            return f"{count} {unit}"
        count = round(count / 1_000)
    return f"{count} GB"


# ---------------------------------------------------------------- memory tools

_OWN: Final = "used the memory; the answer is not shown"


def _own(part: Part, calls: _Calls, writer: PartWriter) -> _Piece:
    """Return a line about a call of a memory tool. The answer is left out, because it comes from the log."""
    call = calls.call_of(part) if isinstance(part, ToolResultPart) else part
    if not isinstance(call, ToolCallPart):
        return _Piece(body=_OWN)
    given = parsed(call.arguments)
    arguments = cast("Mapping[str, object]", given if isinstance(given, Mapping) else {})
    query, action = arguments.get("query"), arguments.get("action")
    if isinstance(query, str) and query.strip():
        return _Piece(body=f"searched for “{writer.line(query)}”; the answer is not shown")
    done = f"{writer.tool(call.name)} {writer.tool(action)}" if isinstance(action, str) else writer.tool(call.name)
    return _Piece(body=f"used {done}; the answer is not shown")


# ---------------------------------------------------------------- JSON


def parsed(arguments: JsonValue) -> object:
    """Return the arguments of a call. If they are the text of a JSON object or array, they are parsed."""
    if isinstance(arguments, str) and arguments.lstrip()[:1] in {"{", "["}:
        try:
            return json.loads(arguments)
        except (ValueError, RecursionError):
            return arguments
    return arguments


def _json_text(value: JsonValue, writer: PartWriter) -> str:
    """Return a JSON value as readable text. A string stays unchanged, and a list of text parts becomes their texts.

    Secrets in a list or object are redacted first, because a key such as "password" shows that its value is a secret.
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
    """Return the texts of a list of text parts; None if the value is not such a list."""
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


# ---------------------------------------------------------------- shortening

# Maximum characters of one token, and maximum average characters of a token in ordinary text.
_MOST_CHARACTERS: Final = 128
_USUAL_CHARACTERS: Final = 16
_MARK: Final = re.compile(r"\[… ([1-9][0-9,]{0,12}) characters left out …\]")
_MARK_TOKENS: Final = 16  # maximum tokens of a mark
_ENTITY: Final = re.compile(r"&(?:amp|lt|#\d{3,5});")
_LONGEST_ENTITY: Final = 8
# A word with fewer characters may be a secret key, so it is not divided.
_WORD: Final = 2_000
_LAST_WORD: Final = re.compile(r"(?<![!-~])[!-~]++\Z")
_FIRST_WORD: Final = re.compile(rf"[!-~]{{1,{_WORD}}}")


def _mark(characters: int) -> str:
    return f"[… {characters:,} characters left out …]"


def _characters(middle: str) -> int:
    """Return the length of a text, including the characters that marks in it report as left out."""
    before = sum(int(hit[1].replace(",", "")) - len(hit[0]) - 2 for hit in _MARK.finditer(middle))
    return max(len(middle) + before, 0)


def _ends_of(text: str, tokens: int) -> str:
    """Return the beginning and the end of a huge text. It is cut between words, so that no secret is divided."""
    room = max(_USUAL_CHARACTERS * tokens // 2, 2 * _WORD)
    if len(text) <= 2 * room + _WORD:
        return text
    head, tail = cut(text, room), cut_end(text, room)
    torn = _LAST_WORD.search(head, len(head) - _WORD)
    head = head[: torn.start()] if torn and len(torn[0]) < _WORD else head
    torn = _FIRST_WORD.match(tail)
    tail = tail[torn.end() :] if torn and len(torn[0]) < _WORD else tail
    return f"{head}\n{_mark(len(text) - len(head) - len(tail))}\n{tail}"


def _shorten(text: str, tokens: int, counter: TokenCounter) -> str:
    """Return the beginning and the end of an escaped text, with at most `tokens` tokens and a mark for the missing middle."""
    # The tokens of a text that is far too long are not counted.
    if len(text) <= _MOST_CHARACTERS * max(tokens, 0) and counter.count(text) <= tokens:
        return text
    room = tokens - _MARK_TOKENS
    while room > 0:
        head = cut_tokens(text, (room + 1) // 2, counter)
        head = head[: _before_entity(text, len(head))]
        tail = _end_tokens(text[len(head) :], room // 2, counter)
        short = f"{head}\n{_mark(_characters(text[len(head) : len(text) - len(tail)]))}\n{tail}"
        over = counter.count(short) - tokens
        if over <= 0:
            return short
        # The whole text may have more tokens than its parts together, so the next try is shorter.
        room -= max(over, 1)
    head = cut_tokens(text, tokens, counter)
    return head[: _before_entity(text, len(head))]


def _entity_at(text: str, at: int) -> re.Match[str] | None:
    """Return the HTML entity that a cut at a position would divide; None if there is none."""
    found = _ENTITY.finditer(text, max(at - _LONGEST_ENTITY, 0), at + _LONGEST_ENTITY)
    return next((hit for hit in found if hit.start() < at < hit.end()), None)


def _before_entity(text: str, at: int) -> int:
    return hit.start() if (hit := _entity_at(text, at)) else at


def _end_tokens(text: str, tokens: int, counter: TokenCounter) -> str:
    """Return a suffix of the text with at most `tokens` tokens. It does not begin inside a grapheme or an HTML entity."""
    size = min(4 * max(tokens, 1), len(text))
    while size < len(text) and counter.count(cut_end(text, size)) <= tokens:
        size = min(2 * size, len(text))
    limit = bisect_right(range(1, size + 1), tokens, key=lambda length: counter.count(cut_end(text, length)))
    tail = cut_end(text, limit)
    torn = _entity_at(text, len(text) - len(tail))
    return text[torn.end() :] if torn else tail


def last_lines(text: str, tokens: int, counter: TokenCounter) -> str:
    """Return the last lines of a text with at most `tokens` tokens. If the last line alone is too long, it is shortened."""
    kept: list[str] = []
    room = tokens
    for line in reversed(text.rstrip().split("\n")):
        cost = counter.count(line) + 1 if len(line) <= _MOST_CHARACTERS * max(room, 0) else room + 1
        if cost > room:
            break
        kept.append(line)
        room -= cost
    if not kept:
        # A line that is shortened to a few tokens is useless.
        return "" if tokens < 2 * _MARK_TOKENS else _shorten(text.rstrip().rpartition("\n")[2], tokens, counter)
    return "\n".join(reversed(kept))
