"""Convert the stored rows of a tail to messages for a model, and shorten them to a limit if there is one.

Every tool call is followed by its result. A call without a result gets the result "no result". When the tail grows, the messages
that were shown before do not change, except that "no result" is replaced by a result that arrives in time. A user message closes
the calls before it, so a later result is shown as a note at its own position. There is one exception: the turn that made the call
may still answer it after a user message of another turn, and then call and result are shown together.

If more than an hour lies between two rows, a time mark before the later row says how much time has passed. The time mark is a
separate message, because adapters store data with the first part of a message. After a call or a result there is no time mark,
unless a user message or a summary follows.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import groupby
from operator import attrgetter
from typing import Final, Generic, NamedTuple, TypeVar

from memolog.context.context import ContextMessage
from memolog.core.cache import grown
from memolog.core.exact_json import content_text
from memolog.core.message import (
    FilePart,
    Message,
    Part,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    UnknownPart,
)
from memolog.core.pairs import OpenCalls, is_question
from memolog.text.cut import cut_end, cut_tokens
from memolog.text.dates import is_gap, time_mark
from memolog.text.escape import element, escape, fixed_text, fold
from memolog.text.lookalikes import label, quoted_label
from memolog.text.message_tokens import count_message, count_parts, count_text
from memolog.text.tokens import TokenCounter, share

_CUT: Final = fixed_text("context/cut")
_CUT_FILE: Final = fixed_text("context/cut_file")
_EARLIER_MESSAGES: Final = fixed_text("context/earlier_messages")
_LATE_RESULT: Final = fixed_text("context/late_result")
LEFT_OUT: Final = fixed_text("context/left_out")
_NO_RESULT: Final = fixed_text("context/no_result")
_REPEATED_RESULT: Final = fixed_text("context/repeated_result")
_TOOL_PARTS: Final = (ToolCallPart, ToolResultPart)


def mend(messages: Sequence[Message]) -> tuple[ContextMessage, ...]:
    """Return the messages for a model. Each call is followed by its result, tombstones are left out, and summaries come once."""
    shown = _shown(messages)
    return (*shown.mended, *_mended(shown.items, shown.names))


def closed_cuts(messages: Sequence[Message]) -> tuple[int, ...]:
    """Return the positions, 0 to the length, at which a cut separates neither a call from its result nor the rows of a message.

    After a call without a result there is no cut before the next user message.
    """
    items = [
        _item(
            message if _is_live(message) and not is_compacted(message) else replace(message, parts=()),
            message.turn,
            asks=is_question(message),
        )
        for message in messages
    ]
    reach = _reach(messages, items)
    cuts: list[int] = []
    furthest = -1
    for position in range(len(messages) + 1):
        furthest = max(furthest, reach[position - 1]) if position else furthest
        if furthest < position and not _continues(messages, position):
            cuts.append(position)
    return tuple(cuts)


def is_compacted(message: Message) -> bool:
    """Return whether a context shows a summary instead of the message's parts."""
    return message.level > 0 and message.injection is not None


def _is_live(message: Message) -> bool:
    return message.state == "live"


_T = TypeVar("_T", Message, ContextMessage)


class _Item(NamedTuple, Generic[_T]):
    """A piece, with the values that are needed to match calls with results."""

    piece: _T
    turn: str | None
    """The turn that saved the parts."""
    asks: bool
    """Whether this is the last piece of a user message."""
    ends: bool
    """Whether this is the last piece of a row."""
    has_tools: bool


def _item(piece: _T, turn: str | None, *, asks: bool, ends: bool = True) -> _Item[_T]:
    return _Item(piece, turn, asks and ends, ends, any(isinstance(part, _TOOL_PARTS) for part in piece.parts))


class _Row(NamedTuple):
    """A message for the model, the turn that saved it, whether it is a user message, and the time mark before it."""

    message: ContextMessage
    turn: str | None
    asks: bool
    mark: ContextMessage | None = None

    def pieces(self) -> Iterator[ContextMessage]:
        """Yield the time mark, then the message in pieces. A piece has either only results or no results."""
        if self.mark is not None:
            yield self.mark
        yield from _runs(self.message)


class _MarkState(NamedTuple):
    """The last row, and the values that are needed for the next time mark."""

    last: Message | None = None
    zone: str | None = None
    """The last known time zone of a speaker."""
    since: datetime | None = None
    """The time of the last row before a gap, if the gap has no time mark yet."""
    before: Message | None = None
    """The last row with parts before `last`."""

    def at(self, message: Message) -> "_MarkState":
        """Return the state after the next row."""
        since, last = self.since, self.last
        if last is not None and is_gap(last.created_at, message.created_at):
            since = last.created_at if since is None else min(since, last.created_at)
        before = last if last is not None and last.parts else self.before
        return _MarkState(message, message.zone or self.zone, since, before)

    def mark(self) -> ContextMessage | None:
        """Return the time mark before the last row. None if the row needs none, or if none is allowed before it."""
        row, since, before = self.last, self.since, self.before
        if row is None or since is None or not row.parts or not is_gap(since, row.created_at):
            return None
        is_free = is_compacted(row) or is_question(row)
        if not is_free and row.role == "assistant" and before is not None:
            # After calls and results some providers accept only results or messages of the assistant.
            is_free = is_compacted(before) or not any(isinstance(part, _TOOL_PARTS) for part in before.parts)
        return _mark(since, row.created_at, self.zone) if is_free else None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shown:
    """The messages for the rows so far, and the state that is needed for the next row."""

    mended: tuple[ContextMessage, ...] = ()
    """Finished messages. Later rows cannot change them, because none of their calls is open."""
    names: Mapping[str, str] = field(default_factory=dict[str, str])
    """The names of the tools in the finished messages, by the id of the call."""
    items: tuple[_Item[ContextMessage], ...] = ()
    """The messages after `mended`, in pieces. A piece has either only results or no results."""
    row: _Row | None = None
    """The last row. The next message may continue it."""
    last: Message | None = None
    summary: str | None = None
    time: _MarkState = field(default_factory=_MarkState)


def _show_more(shown: _Shown, messages: Sequence[Message]) -> _Shown:
    """Return the state after more rows. A row that continues a message is joined to it, and a summary is shown once."""
    rows, last, summary, time = [shown.row] if shown.row else [], shown.last, shown.summary, shown.time
    grown: dict[int, list[Part]] = {}
    for message in filter(_is_live, messages):
        time = time.at(message)
        if is_compacted(message):
            # All rows of a compaction have the same summary, or an empty one. Show it once.
            if message.injection and message.injection != summary:
                rows.append(_Row(_summary(message, message.injection), message.turn, asks=False, mark=time.mark()))
            # There is no time mark for a gap between the summarised messages.
            summary, last, time = message.injection or summary, None, time._replace(since=None)
        elif last and (last.id, last.role) == (message.id, message.role):
            row = rows[-1]
            grown.setdefault(len(rows) - 1, list(row.message.parts)).extend(message.parts)
            rows[-1] = row._replace(asks=row.asks or is_question(message))
        else:
            mark = time.mark()
            rows.append(_Row(ContextMessage.of(message), message.turn, is_question(message), mark))
            summary, last, time = None, message, time._replace(since=None) if mark else time
    for at, parts in grown.items():
        rows[at] = rows[at]._replace(message=replace(rows[at].message, parts=tuple(parts)))
    return _with_rows(shown, rows, last, summary, time)


def _with_rows(
    shown: _Shown, rows: Sequence[_Row], last: Message | None, summary: str | None, time: _MarkState
) -> _Shown:
    """Return the state after new rows. The first of `rows` replaces the last row of `shown`."""
    settled = len(shown.items) - (len(tuple(shown.row.pieces())) if shown.row else 0)
    items = list(shown.items[:settled])
    for row in rows:
        settled, pieces = len(items), tuple(row.pieces())
        items += [_item(piece, row.turn, asks=row.asks, ends=piece is pieces[-1]) for piece in pieces]
    closed = _match(items[:settled]).closed
    done = items[:closed]
    named = _named(item.piece for item in done if item.has_tools)
    return _Shown(
        mended=(*shown.mended, *_mended(done, shown.names)),
        names={**shown.names, **named} if named else shown.names,
        items=tuple(items[closed:]),
        row=rows[-1] if rows else None,
        last=last,
        summary=summary,
        time=time,
    )


# A tail grows by a few messages per request. The state is cached, so that only the new messages are processed.
_shown = grown(_Shown(), _show_more, attrgetter("tokens"))


def _mark(earlier: datetime, later: datetime, zone: str | None) -> ContextMessage:
    return ContextMessage.note(time_mark(earlier, later, zone), created_at=later)


def _summary(message: Message, text: str) -> ContextMessage:
    body = element("earlier-messages", escape(text))
    return ContextMessage.note(f"{_EARLIER_MESSAGES}\n{body}", seq=message.seq, created_at=message.created_at)


def _runs(row: ContextMessage) -> Iterator[ContextMessage]:
    """Yield the row in pieces. A piece has either only results or no results. A row without parts has no piece."""
    if len(row.parts) == 1:
        yield row
        return
    for _, parts in groupby(row.parts, key=lambda part: isinstance(part, ToolResultPart)):
        yield replace(row, parts=tuple(parts))


def _named(pieces: Iterable[ContextMessage]) -> dict[str, str]:
    return {part.id: part.name for piece in pieces for part in piece.parts if isinstance(part, ToolCallPart)}


class _Matched(NamedTuple):
    """Which calls the results answer. A result is identified by the position of its item and its position in the item."""

    owners: dict[tuple[int, int], int]
    """The item with the call, by result."""
    late: Collection[tuple[int, int]]
    """The results that came after the next user message."""
    closed: int
    """The number of items at the beginning that are whole rows, and after which no call is open."""


def _mended(items: Sequence[_Item[ContextMessage]], names: Mapping[str, str]) -> Iterator[ContextMessage]:
    """Yield the pieces with each result after its call. `names` has the tools of earlier calls."""
    owners, late, _ = _match(items)
    answers = _answers(items, owners)
    # The tool of a late result is taken from earlier calls only. A later call with the same id must not change shown messages.
    named = dict(names)
    for index, item in enumerate(items):
        piece = item.piece
        if not item.has_tools:
            yield piece
        elif isinstance(piece.parts[0], ToolResultPart):
            yield from _notes(index, piece, owners, late, named)
        else:
            named.update(_named([piece]))
            yield piece
            yield from answers.get(index, ())
            yield from _missing(piece, answers.get(index, ()))


def _match(items: Sequence[_Item[_T]]) -> _Matched:
    """Return which calls the results answer. A result that is in neither `owners` nor `late` has no call."""
    owners: dict[tuple[int, int], int] = {}
    late: set[tuple[int, int]] = set()
    closed = 0
    waiting = OpenCalls()
    for index, item in enumerate(items):
        for place, part in enumerate(item.piece.parts if item.has_tools else ()):
            if isinstance(part, ToolCallPart):
                waiting.add(part.id, (index, place), item.turn)
            elif isinstance(part, ToolResultPart) and (answered := waiting.answer(part.call_id, item.turn)):
                if answered.is_in_time:
                    owners[index, place] = answered.call[0]
                else:
                    late.add((index, place))
        if item.asks:
            waiting.add_question(item.turn)
        if item.ends and not waiting:
            closed = index + 1
    return _Matched(owners, late, closed)


def _answers(
    items: Sequence[_Item[ContextMessage]], owners: Mapping[tuple[int, int], int]
) -> Mapping[int, Sequence[ContextMessage]]:
    """Return the tool messages that follow each piece with calls, in the order in which the results were saved."""
    together: dict[tuple[int, int], list[Part]] = {}
    for (index, place), owner in owners.items():
        together.setdefault((index, owner), []).append(items[index].piece.parts[place])
    answers: dict[int, list[ContextMessage]] = {}
    for (index, owner), parts in together.items():
        answers.setdefault(owner, []).append(replace(items[index].piece, role="tool", parts=tuple(parts)))
    return answers


def _missing(piece: ContextMessage, answers: Iterable[ContextMessage]) -> Iterator[ContextMessage]:
    """Yield a result with the text `_NO_RESULT` for each call of the piece without a result."""
    results = [part for answer in answers for part in answer.parts if isinstance(part, ToolResultPart)]
    answered = Counter(part.call_id for part in results)
    for call in (part for part in piece.parts if isinstance(part, ToolCallPart)):
        answered[call.id] -= 1
        if answered[call.id] < 0:
            result = ToolResultPart(call_id=call.id, content=_NO_RESULT, name=call.name, is_error=True)
            at, turn = piece.created_at, piece.turn
            yield ContextMessage(role="tool", parts=(result,), created_at=at, synthetic=True, turn=turn)


def _notes(
    index: int,
    piece: ContextMessage,
    owners: Mapping[tuple[int, int], int],
    late: Collection[tuple[int, int]],
    names: Mapping[str, str],
) -> Iterator[ContextMessage]:
    """Yield a note for each result of the piece that does not follow a call: it came too late, or a second time."""
    for place, part in enumerate(piece.parts):
        if isinstance(part, ToolResultPart) and (index, place) not in owners:
            is_second = part.call_id in names and (index, place) not in late
            words = _REPEATED_RESULT if is_second else _LATE_RESULT
            tool = str(part.name or names.get(part.call_id) or f"call {part.call_id}")
            named = words.format(tool=escape(quoted_label(tool, is_tool=True)) or "a tool")
            content, error = escape(content_text(part.content)), "true" if part.is_error else None
            result = element("late-result", content, tool=label(tool), call=part.call_id, error=error)
            text = f"{named}\n{result}"
            yield replace(piece, role="user", parts=(TextPart(text=text), *part.files), synthetic=True)


def _reach(messages: Sequence[Message], items: Sequence[_Item[Message]]) -> list[int]:
    """Return for each row the position of the last row that must stay together with it."""
    reach = list(range(len(items)))
    owners = _match(items).owners
    for (index, _), owner in owners.items():
        reach[owner] = max(reach[owner], index)
    answered = Counter(owners.values())
    questions = [index for index, message in enumerate(messages) if is_question(message)]
    last_question = questions[-1] if questions else -1
    for index, item in enumerate(items):
        calls = sum(isinstance(part, ToolCallPart) for part in item.piece.parts)
        if calls > answered[index] and index > last_question:
            reach[index] = len(items)
    return reach


def _continues(messages: Sequence[Message], position: int) -> bool:
    inside = 0 < position < len(messages)
    return inside and messages[position].id == messages[position - 1].id


# ---------------------------------------------------------------- within a limit


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownTail:
    """The shown messages, their tokens, their stored rows, and the number of rows that were left out."""

    messages: tuple[ContextMessage, ...]
    tokens: int
    rows: tuple[Message, ...] = ()
    trimmed: int = 0


def show(
    repeated: Sequence[Message], tail: Sequence[Message], counter: TokenCounter, before: datetime | None = None
) -> ShownTail:
    """Return the whole tail, preceded by the repeated messages.

    `before` is the time of the message before the tail. If more than an hour has passed since, the tail begins with a time mark.
    """
    present = {message.seq for message in tail}
    again = [message for message in repeated if message.seq not in present]
    rows = [*again, *tail]
    messages = mend(rows)
    first = next((row for row in rows if row.state == "live"), None)
    if before is not None and first is not None and not again and is_gap(before, first.created_at):
        messages = (_mark(before, first.created_at, first.zone), *messages)
    return ShownTail(messages=messages, tokens=_weight(rows, messages, counter), rows=tuple(rows))


@dataclass(frozen=True, slots=True, kw_only=True)
class TailCutter:
    """Leaves out rows of a tail until it fits. Messages that no model has seen are not left out."""

    repeated: Sequence[Message]
    tail: Sequence[Message]
    counter: TokenCounter
    before: datetime | None = None
    unseen_from: int | None = None

    def without_older(self, room: int) -> ShownTail:
        """Return the tail without its oldest exchanges. As few as necessary are left out."""
        start = _last_question(self.tail)
        most = min(_last_exchange(self.tail) if start is None else start, _position_of(self.tail, self.unseen_from))
        return self._first_fitting(room, [cut for cut in closed_cuts(self.tail) if cut <= most])

    def without_steps(self, room: int) -> ShownTail:
        """Return the last user message and the newest exchanges after it: as many as fit, but at least the last one.

        This shortens a turn of so many steps that the provider would refuse the whole turn.
        """
        start = _last_question(self.tail)
        most = min(_last_exchange(self.tail), _position_of(self.tail, self.unseen_from))
        least = min(start or 0, most)
        closed = closed_cuts(self.tail)
        # If the user message is between a call and its result, cut before the call.
        cuts = [cut for cut in closed if least <= cut <= most] or [max(cut for cut in closed if cut <= least)]
        return self._first_fitting(room, cuts)

    def _first_fitting(self, room: int, cuts: Sequence[int]) -> ShownTail:
        """Return the tail from the first cut after which it fits. If it does not fit after any cut, use the last cut."""
        # Later cuts leave fewer tokens, so a binary search finds the first cut that fits.
        first = bisect_left(cuts, True, key=lambda cut: self._from(cut).tokens <= room)
        return self._from(cuts[min(first, len(cuts) - 1)])

    def _from(self, cut: int) -> ShownTail:
        tail, start = self.tail, _last_question(self.tail)
        asked = tail[start].id if start is not None and start < cut else None
        question = [message for message in tail[:cut] if message.id == asked]
        dropped = [message for message in tail[:cut] if message.id != asked and message.state == "live"]
        rows = [*question, *tail[cut:]]
        earlier = (m.created_at for m in reversed(dropped) if rows and m.seq < rows[0].seq)
        shown = show(self.repeated, rows, self.counter, next(earlier, self.before))
        if not dropped:
            return shown
        note = ContextMessage.note(LEFT_OUT)
        tokens = shown.tokens + count_parts(note.role, note.parts, self.counter)
        return ShownTail(messages=(note, *shown.messages), tokens=tokens, rows=shown.rows, trimmed=len(dropped))


def _position_of(tail: Sequence[Message], seq: int | None) -> int:
    """Return the position of the first message with this number or a higher one. Return the length if there is none."""
    return len(tail) if seq is None else bisect_left(tail, seq, key=lambda message: message.seq)


def _last_question(tail: Sequence[Message]) -> int | None:
    """Return the position of the first row of the last user message. None if there is no user message."""
    positions = [index for index, message in enumerate(tail) if is_question(message)]
    if not positions:
        return None
    return next(index for index in positions if tail[index].id == tail[positions[-1]].id)


def _last_exchange(tail: Sequence[Message]) -> int:
    """Return the last possible cut with a live message after it."""
    live = [index for index, message in enumerate(tail) if message.state == "live"]
    return max((cut for cut in closed_cuts(tail) if live and cut <= live[-1]), default=0)


def _weight(rows: Sequence[Message], messages: Sequence[ContextMessage], counter: TokenCounter) -> int:
    """Return the stored tokens of the rows plus the tokens of the notes.

    For a row that is shown only as notes, only the notes count. For a row that is shown as a message and as notes, both count,
    so that the result is never too low.
    """
    notes = [message for message in messages if message.synthetic]
    noted = {message.seq for message in notes}
    if noted:
        noted -= {message.seq for message in messages if not message.synthetic}
    stored = sum(
        row.tokens
        for row in rows
        if row.state == "live" and row.seq not in noted and not (row.level and is_compacted(row))
    )
    return stored + sum(count_parts(message.role, message.parts, counter) for message in notes)


LEAST_SHOWN: Final = 64
"""Messages of at most this many tokens are not cut, because the mark that replaces the cut text has almost as many."""
# The maximum characters of a file name or media type in a mark.
_NAME: Final = 80


def shortened(message: Message, most: int, counter: TokenCounter) -> Message:
    """Return the message cut to at most `most` tokens, including marks. A shorter message is returned as it is."""
    most = max(most, LEAST_SHOWN)
    if message.tokens <= most or message.state != "live" or is_compacted(message):
        return message
    # Counting takes time. If there is only one part, use the count of the message.
    sizes = [message.tokens] if len(message.parts) == 1 else [_size(message, part, counter) for part in message.parts]
    around = count_message(replace(message, parts=()), counter)
    cap = share(sizes, most - around)
    parts = tuple(
        one
        for part, size in zip(message.parts, sizes, strict=True)
        for one in ((part,) if size <= cap else _smaller(part, size, cap, message, counter))
    )
    if not parts:
        parts = (TextPart(text=_cut_mark(0, message.id)),)
    short = replace(message, parts=parts)
    return replace(short, tokens=count_message(short, counter))


def _size(message: Message, part: Part, counter: TokenCounter) -> int:
    return count_parts(message.role, (part,), counter) - count_parts(message.role, (), counter)


def _smaller(part: Part, size: int, most: int, message: Message, counter: TokenCounter) -> tuple[Part, ...]:
    """Return a part after the cut, or the part itself if the mark would make it longer."""
    short = tuple(_cut(part, most, message.id, counter))
    return short if sum(_size(message, one, counter) for one in short) < size else (part,)


def _cut_mark(count: int, message: str) -> str:
    return _CUT.format(count=f"{count:,}", id=fold(message))


def _cut(part: Part, most: int, message: str, counter: TokenCounter) -> Iterator[Part]:
    """Yield a shorter part for a part that is too large. `extra` is removed, because it may contain a copy of the content."""
    match part:
        case TextPart():
            yield TextPart(text=_cut_middle(part.text, most, message, counter))
        case ToolResultPart():
            around = count_parts("tool", (replace(part, content=None, files=()),), counter)
            files = tuple(file for file in part.files if count_parts("tool", (file,), counter) <= most // 4)
            room = most - around - sum(count_parts("tool", (file,), counter) for file in files)
            gone = "".join(f"\n{_file(file, message)}" for file in part.files if file not in files)
            text = _cut_middle(content_text(part.content), room - count_text(gone, counter), message, counter) + gone
            yield replace(part, content=text, files=files, extra=None)
        case ToolCallPart():
            # Providers accept only an object as the arguments of a call.
            around = count_parts("assistant", (replace(part, arguments={"left_out": ""}),), counter)
            text = _cut_middle(content_text(part.arguments), most - around, message, counter)
            yield replace(part, arguments={"left_out": text}, extra=None)
        case FilePart():
            yield TextPart(text=_file(part, message))
        case ReasoningPart():
            # Reasoning is left out, because the provider checks its signature against the whole text.
            return
        case UnknownPart():
            yield TextPart(text=_cut_mark(len(content_text(part.data)), message))


def _file(part: FilePart, message: str) -> str:
    kind = " ".join(filter(None, (label(part.name or "", _NAME), label(part.media_type, _NAME))))
    return _CUT_FILE.format(kind=kind, id=fold(message))


def _cut_middle(text: str, most: int, message: str, counter: TokenCounter) -> str:
    """Return the beginning and the end of a text with a mark between them, at most `most` tokens, but at least the mark."""
    if len(text) <= 4 * max(most, 0) and count_text(text, counter) <= most:
        return text
    room = most - count_text(_cut_mark(len(text), message), counter) - 2
    if room <= 0:
        return _cut_mark(len(text), message)
    head = cut_tokens(text, (room + 1) // 2, counter)
    size = min(len(head), len(text) - len(head))
    while size and count_text(cut_end(text, size), counter) > room // 2:
        size = size * 9 // 10
    tail = cut_end(text, size) if size else ""
    return f"{head}\n{_cut_mark(len(text) - len(head) - len(tail), message)}\n{tail}"
