"""Show a tail: stored rows as messages in which every tool call is followed by its result, cut to a limit if there is one.

A tail that grows keeps the messages it had. A user message closes the calls before it: they stay unanswered as they were
shown, and a result that comes later is a note at its own place. The call's own turn may still answer it after a user message
of another turn, and the two are shown together. One thing cannot be stable: an open call, whose result later takes the place
of "no result".

Where more than an hour lies between two rows, a note before the later row says how much time has passed. It is a message of
its own, since adapters store data with a message's first part. It never follows a call or a result unless a user
message follows.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import groupby
from typing import Final, NamedTuple

from memolog.context.context import ContextMessage
from memolog.context.wording import CUT, CUT_FILE, EARLIER_MESSAGES, LATE_RESULT, LEFT_OUT, NO_RESULT, REPEATED_RESULT
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
from memolog.text.cutting import cut_end, cut_tokens
from memolog.text.dates import is_gap, time_mark
from memolog.text.escape import element, escape, fold
from memolog.text.lookalikes import label, quoted_label
from memolog.text.message_tokens import count_message, count_parts, count_text
from memolog.text.tokens import TokenCounter, share

_TOOL_PARTS: Final = (ToolCallPart, ToolResultPart)


def mend(messages: Sequence[Message]) -> tuple[ContextMessage, ...]:
    """Return the messages as a model must see them: each call with its result, no withdrawn messages, summaries once."""
    shown = _shown(messages)
    return (*shown.mended, *_mended(shown.pieces, shown.items, shown.names))


def closed_cuts(messages: Sequence[Message]) -> tuple[int, ...]:
    """Return the positions, 0 to the length, at which a cut separates neither a call from its result nor the rows of a message.

    After a call without a result there is no cut until a user message follows, as for spans.
    """
    items = [
        _item(
            message.parts if _is_live(message) and not is_compacted(message) else (),
            message.turn,
            asks=is_question(message),
        )
        for message in messages
    ]
    reach = _reach(messages, items)
    cuts: list[int] = []
    held = -1
    for position in range(len(messages) + 1):
        held = max(held, reach[position - 1]) if position else held
        if held < position and not _continues(messages, position):
            cuts.append(position)
    return tuple(cuts)


def is_compacted(message: Message) -> bool:
    """Return whether a context shows a summary instead of the parts."""
    return message.level > 0 and message.injection is not None


def _is_live(message: Message) -> bool:
    return message.state == "live"


class _Item(NamedTuple):
    """Parts as calls and results are matched: who saved them, and what the row that they end says."""

    parts: Sequence[Part]
    turn: str | None
    asks: bool
    """Whether a row ends here in which a user asks something."""
    ends: bool
    has_tools: bool


def _item(parts: Sequence[Part], turn: str | None, *, asks: bool, ends: bool = True) -> _Item:
    return _Item(parts, turn, asks and ends, ends, any(isinstance(part, _TOOL_PARTS) for part in parts))


class _Row(NamedTuple):
    """A message as it is shown, the turn that saved it, whether a user asks something there, and the mark before it."""

    message: ContextMessage
    turn: str | None
    asks: bool
    mark: ContextMessage | None = None

    def pieces(self) -> Iterator[ContextMessage]:
        """Yield the mark, then the message in pieces that hold either results or everything else."""
        if self.mark is not None:
            yield self.mark
        yield from _runs(self.message)


class _MarkState(NamedTuple):
    """The time of the last row, and what the next time mark needs."""

    last: Message | None = None
    zone: str | None = None
    """The last known time zone of a speaker."""
    since: datetime | None = None
    """The time of the last row before a gap, if no mark could be placed at that gap yet."""
    before: Message | None = None
    """The row before the last one that has anything to show."""

    def at(self, message: Message) -> "_MarkState":
        """Return the time at the next row."""
        since, last = self.since, self.last
        if last is not None and is_gap(last.created_at, message.created_at):
            since = last.created_at if since is None else min(since, last.created_at)
        before = last if last is not None and last.parts else self.before
        return _MarkState(message, message.zone or self.zone, since, before)

    def mark(self) -> ContextMessage | None:
        """Return the mark that this row needs, if one may be placed before it."""
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
    """What is shown of the rows so far, and the state that the next row needs."""

    mended: tuple[ContextMessage, ...] = ()
    """Messages that later rows cannot change: no call is open after them."""
    names: Mapping[str, str] = field(default_factory=dict[str, str])
    """The tools of the calls among these."""
    pieces: tuple[ContextMessage, ...] = ()
    """Later messages, in pieces that hold either results or everything else."""
    items: tuple[_Item, ...] = ()
    """What matching needs of each piece."""
    row: _Row | None = None
    """The last row, which may still grow."""
    last: Message | None = None
    summary: str | None = None
    time: _MarkState = field(default_factory=_MarkState)


def _show_more(shown: _Shown, messages: Sequence[Message]) -> _Shown:
    """Return what is shown with more rows: continuations joined to what they continue, a batch's summary once."""
    rows, last, summary, time = [shown.row] if shown.row else [], shown.last, shown.summary, shown.time
    grown: dict[int, list[Part]] = {}
    for message in filter(_is_live, messages):
        time = time.at(message)
        if is_compacted(message):
            # The rows of a batch repeat its summary or leave theirs empty.
            if message.injection and message.injection != summary:
                summed = _summary(message, message.injection)
                rows.append(_Row(summed, message.turn, asks=False, mark=time.mark()))
            # Time that passed within a batch is not marked: the summary covers it.
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
    """Return what is shown with new rows; the first of them replaces the last row before."""
    known = len(shown.pieces) - (len(tuple(shown.row.pieces())) if shown.row else 0)
    pieces, items = list(shown.pieces[:known]), list(shown.items[:known])
    settled = known
    for row in rows:
        settled, some = len(pieces), tuple(row.pieces())
        pieces += some
        items += [_item(piece.parts, row.turn, asks=row.asks, ends=piece is some[-1]) for piece in some]
    closed = _match(items[:settled]).closed
    names = (
        {**shown.names, **_named(pieces[:closed])} if any(item.has_tools for item in items[:closed]) else shown.names
    )
    return _Shown(
        mended=(*shown.mended, *_mended(pieces[:closed], items[:closed], shown.names)),
        names=names,
        pieces=tuple(pieces[closed:]),
        items=tuple(items[closed:]),
        row=rows[-1] if rows else None,
        last=last,
        summary=summary,
        time=time,
    )


# A tail grows by a few messages per request, so only these are processed.
_shown = grown(_Shown(), _show_more)


def _mark(earlier: datetime, later: datetime, zone: str | None) -> ContextMessage:
    return ContextMessage.note(time_mark(earlier, later, zone), created_at=later)


def _summary(message: Message, text: str) -> ContextMessage:
    body = element("earlier-messages", escape(text))
    return ContextMessage.note(f"{EARLIER_MESSAGES}\n{body}", seq=message.seq, created_at=message.created_at)


def _runs(row: ContextMessage) -> Iterator[ContextMessage]:
    """Yield the row in pieces that hold either results or everything else; a row without parts has none."""
    if len(row.parts) == 1:
        # Most rows are one piece.
        yield row
        return
    for _, parts in groupby(row.parts, key=lambda part: isinstance(part, ToolResultPart)):
        yield replace(row, parts=tuple(parts))


def _named(pieces: Iterable[ContextMessage]) -> dict[str, str]:
    return {part.id: part.name for piece in pieces for part in piece.parts if isinstance(part, ToolCallPart)}


def _is_results(piece: ContextMessage) -> bool:
    return isinstance(piece.parts[0], ToolResultPart)


class _Matched(NamedTuple):
    """Which item's call a result answers, by the result's item and place, and which results came too late."""

    owners: dict[tuple[int, int], int]
    late: Collection[tuple[int, int]]
    closed: int
    """How many of the items are whole rows behind which no call is open."""


def _mended(
    pieces: Sequence[ContextMessage], items: Sequence[_Item], names: Mapping[str, str]
) -> Iterator[ContextMessage]:
    """Yield the pieces with each result behind its call. `names` are the tools of the calls before them."""
    owners, late, _ = _match(items)
    answers = _answers(pieces, owners)
    # Only the calls so far may name a late result: a later call with the same id must not change what was shown.
    named = dict(names)
    for index, (piece, item) in enumerate(zip(pieces, items, strict=True)):
        if not item.has_tools:
            yield piece
        elif _is_results(piece):
            yield from _notes(index, piece, owners, late, named)
        else:
            named.update(_named([piece]))
            yield piece
            yield from answers.get(index, ())
            yield from _missing(piece, answers.get(index, ()))


def _match(items: Sequence[_Item]) -> _Matched:
    """Return which calls the results answer; what is in neither answers nothing."""
    owners: dict[tuple[int, int], int] = {}
    late: set[tuple[int, int]] = set()
    closed = 0
    waiting = OpenCalls()
    for index, item in enumerate(items):
        for place, part in enumerate(item.parts if item.has_tools else ()):
            if isinstance(part, ToolCallPart):
                waiting.add(part.id, (index, place), item.turn)
            elif isinstance(part, ToolResultPart) and (answered := waiting.answer(part.call_id, item.turn)):
                if answered.is_in_time:
                    owners[index, place] = answered.call[0]
                else:
                    late.add((index, place))
        if item.asks:
            waiting.ask(item.turn)
        if item.ends and not waiting:
            closed = index + 1
    return _Matched(owners, late, closed)


def _answers(
    pieces: Sequence[ContextMessage], owners: Mapping[tuple[int, int], int]
) -> Mapping[int, Sequence[ContextMessage]]:
    """Return the tool messages that follow each piece with calls, in the order of their arrival."""
    together: dict[tuple[int, int], list[Part]] = {}
    for (index, place), owner in owners.items():
        together.setdefault((index, owner), []).append(pieces[index].parts[place])
    answers: dict[int, list[ContextMessage]] = {}
    for (index, owner), parts in together.items():
        answers.setdefault(owner, []).append(replace(pieces[index], role="tool", parts=tuple(parts)))
    return answers


def _missing(piece: ContextMessage, answers: Iterable[ContextMessage]) -> Iterator[ContextMessage]:
    """Yield a result with the text `NO_RESULT` for each call of the piece without a result."""
    results = [part for answer in answers for part in answer.parts if isinstance(part, ToolResultPart)]
    answered = Counter(part.call_id for part in results)
    for call in (part for part in piece.parts if isinstance(part, ToolCallPart)):
        answered[call.id] -= 1
        if answered[call.id] < 0:
            result = ToolResultPart(call_id=call.id, content=NO_RESULT, name=call.name, is_error=True)
            yield ContextMessage(role="tool", parts=(result,), created_at=piece.created_at, synthetic=True)


def _notes(
    index: int,
    piece: ContextMessage,
    owners: Mapping[tuple[int, int], int],
    late: Collection[tuple[int, int]],
    names: Mapping[str, str],
) -> Iterator[ContextMessage]:
    """Yield a note for each result of the piece without a call: it came too late, or a second time."""
    for place, part in enumerate(piece.parts):
        if isinstance(part, ToolResultPart) and (index, place) not in owners:
            is_second = part.call_id in names and (index, place) not in late
            words = REPEATED_RESULT if is_second else LATE_RESULT
            tool = str(part.name or names.get(part.call_id) or f"call {part.call_id}")
            text = (
                f"{words.format(tool=escape(quoted_label(tool, is_tool=True)) or 'a tool')}\n{_late_result(part, tool)}"
            )
            yield replace(piece, role="user", parts=(TextPart(text=text), *part.files), synthetic=True)


def _late_result(part: ToolResultPart, tool: str) -> str:
    error = "true" if part.is_error else None
    return element("late-result", escape(content_text(part.content)), tool=label(tool), call=part.call_id, error=error)


def _reach(messages: Sequence[Message], items: Sequence[_Item]) -> list[int]:
    """Return for each row the last row that must not be separated from it."""
    reach = list(range(len(items)))
    owners = _match(items).owners
    for (index, _), owner in owners.items():
        reach[owner] = max(reach[owner], index)
    answered = Counter(owners.values())
    questions = [index for index, message in enumerate(messages) if is_question(message)]
    last_question = questions[-1] if questions else -1
    for index, item in enumerate(items):
        calls = sum(isinstance(part, ToolCallPart) for part in item.parts)
        if calls > answered[index] and index > last_question:
            reach[index] = len(items)
    return reach


def _continues(messages: Sequence[Message], position: int) -> bool:
    inside = 0 < position < len(messages)
    return inside and messages[position].id == messages[position - 1].id


# ---------------------------------------------------------------- within a limit


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownTail:
    """The shown messages, their tokens, the rows they come from, and how many rows were left out."""

    messages: tuple[ContextMessage, ...]
    tokens: int
    rows: tuple[Message, ...] = ()
    trimmed: int = 0


def show(
    repeated: Sequence[Message], tail: Sequence[Message], counter: TokenCounter, before: datetime | None = None
) -> ShownTail:
    """Return the whole tail, preceded by the repeated messages.

    `before` is the time of the message before the tail; a time mark opens the tail if more than an hour has passed since.
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
    """Leaves out rows of a tail until it fits; messages that no model has seen stay."""

    repeated: Sequence[Message]
    tail: Sequence[Message]
    counter: TokenCounter
    before: datetime | None = None
    unseen_from: int | None = None

    def without_older(self, room: int) -> ShownTail:
        """Return the tail without the oldest exchanges, as few as necessary."""
        start = _last_question(self.tail)
        most = min(_last_exchange(self.tail) if start is None else start, _place_of(self.tail, self.unseen_from))
        return self._first_fitting(room, [cut for cut in closed_cuts(self.tail) if cut <= most])

    def without_steps(self, room: int) -> ShownTail:
        """Return the last question and the newest exchanges after it, as many as fit, at least the last.

        A turn of many steps may not fit as a whole, and the provider would refuse it.
        """
        start = _last_question(self.tail)
        most = min(_last_exchange(self.tail), _place_of(self.tail, self.unseen_from))
        least = min(start or 0, most)
        closed = closed_cuts(self.tail)
        # If the question is between a call and its result, the nearest cut is before the call.
        cuts = [cut for cut in closed if least <= cut <= most] or [max(cut for cut in closed if cut <= least)]
        return self._first_fitting(room, cuts)

    def _first_fitting(self, room: int, cuts: Sequence[int]) -> ShownTail:
        """Return the tail from the first cut at which it fits, or from the last cut if it never does."""
        # The rest has fewer tokens from cut to cut.
        first = bisect_left(cuts, True, key=lambda cut: self._from(cut).tokens <= room)
        return self._from(cuts[min(first, len(cuts) - 1)])

    def _from(self, cut: int) -> ShownTail:
        tail, start = self.tail, _last_question(self.tail)
        asked = tail[start].id if start is not None and start < cut else None
        kept = [message for message in tail[:cut] if message.id == asked]
        dropped = [message for message in tail[:cut] if message.id != asked and message.state == "live"]
        rows = [*kept, *tail[cut:]]
        earlier = (m.created_at for m in reversed(dropped) if rows and m.seq < rows[0].seq)
        shown = show(self.repeated, rows, self.counter, next(earlier, self.before))
        if not dropped:
            return shown
        note = ContextMessage.note(LEFT_OUT)
        tokens = shown.tokens + count_parts(note.role, note.parts, self.counter)
        return ShownTail(messages=(note, *shown.messages), tokens=tokens, rows=shown.rows, trimmed=len(dropped))


def _place_of(tail: Sequence[Message], seq: int | None) -> int:
    """Return the position of the first message with at least this number; the end of the tail if there is none."""
    return len(tail) if seq is None else bisect_left(tail, seq, key=lambda message: message.seq)


def _last_question(tail: Sequence[Message]) -> int | None:
    """Return the position of the last user message; of its first row, if it has several."""
    places = [index for index, message in enumerate(tail) if is_question(message)]
    if not places:
        return None
    return next(index for index in places if tail[index].id == tail[places[-1]].id)


def _last_exchange(tail: Sequence[Message]) -> int:
    """Return the last cut that is followed by a live message."""
    live = [index for index, message in enumerate(tail) if message.state == "live"]
    return max((cut for cut in closed_cuts(tail) if live and cut <= live[-1]), default=0)


def _weight(rows: Sequence[Message], messages: Sequence[ContextMessage], counter: TokenCounter) -> int:
    """Return the tokens of the rows, as counted when they were saved, and of the notes.

    A row that is shown only as notes counts as these; a row that is shown in both ways counts twice, to be safe.
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
"""Messages of up to this many tokens are not cut: little more than the mark would be left."""
_NAME: Final = 80


def shortened(message: Message, most: int, counter: TokenCounter) -> Message:
    """Return the message cut to at most `most` tokens, marks included; short messages stay unchanged."""
    most = max(most, LEAST_SHOWN)
    if message.tokens <= most or message.state != "live" or is_compacted(message):
        return message
    # Counting takes time; the count of a single part is that of the message.
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
    """Return a part cut, or unchanged if the mark would make it longer."""
    short = tuple(_cut(part, most, message.id, counter))
    return short if sum(_size(message, one, counter) for one in short) < size else (part,)


def _cut_mark(count: int, message: str) -> str:
    return CUT.format(count=f"{count:,}", id=fold(message))


def _cut(part: Part, most: int, message: str, counter: TokenCounter) -> Iterator[Part]:
    """Yield a part that is too large, cut. `extra` may hold a copy of it, so it is removed too."""
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
            # Providers accept only an object.
            around = count_parts("assistant", (replace(part, arguments={"left_out": ""}),), counter)
            text = _cut_middle(content_text(part.arguments), most - around, message, counter)
            yield replace(part, arguments={"left_out": text}, extra=None)
        case FilePart():
            yield TextPart(text=_file(part, message))
        case ReasoningPart():
            # Cut reasoning would not match its signature.
            return
        case UnknownPart():
            yield TextPart(text=_cut_mark(len(content_text(part.data)), message))


def _file(part: FilePart, message: str) -> str:
    kind = " ".join(filter(None, (label(part.name or "", _NAME), label(part.media_type, _NAME))))
    return CUT_FILE.format(kind=kind, id=fold(message))


def _cut_middle(text: str, most: int, message: str, counter: TokenCounter) -> str:
    """Return the two ends of a text with a mark between them, within `most` tokens; only the mark if no more fits."""
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
