"""Pairs: tool calls and their results, as a model must be shown them.

Knows how stored rows become messages in which every call is followed by its result. The rows stay as they are.

Mending looks at what came before, so a tail that grows keeps the messages it had. A user message that follows closes the calls
before it: they stay unanswered as they were shown, and a result that comes after it is a note at its own place. A call's own
turn may still answer it after a user message of another turn: such turns overlap, and the two are shown together. One thing
cannot be stable: a call that is shown while it may still be answered. Its result takes the place of "no result".
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Final, NamedTuple, TypeAlias

from memolog.context.escape import element, escape, one_line
from memolog.context.value import ContextMessage
from memolog.context.wording import EARLIER_MESSAGES, LATE_RESULT, NO_RESULT, REPEATED_RESULT
from memolog.domain.codec import JsonValue, dumps
from memolog.domain.message import Message, Part, TextPart, ToolCallPart, ToolResultPart
from memolog.domain.once import grown

__all__ = ["closed_cuts", "content_text", "is_compacted", "is_question", "mend"]

_TOOL_PARTS: Final = (ToolCallPart, ToolResultPart)


def mend(messages: Sequence[Message]) -> tuple[ContextMessage, ...]:
    """Return the messages as a model must be shown them: each call with its result, nothing withdrawn, summaries once."""
    shown = _shown(messages)
    if not shown.has_tools:
        # Without calls and results nothing can be torn apart, and a long chat is shown at every step.
        return tuple(row for row in shown.rows if row.parts) if shown.has_gaps else shown.rows
    pieces, items = shown.pieces, shown.items
    owners, late = _match(items)
    answers = _answers(pieces, owners)
    mended: list[ContextMessage] = []
    # Only the calls so far may name a late result: a later call with the same id must not change what was shown.
    names: dict[str, str] = {}
    for index, (piece, item) in enumerate(zip(pieces, items, strict=True)):
        if not item.has_tools:
            mended.append(piece)
            continue
        if _is_results(piece):
            mended.extend(_notes(index, piece, owners, late, names))
            continue
        mended.append(piece)
        calls = [part for part in piece.parts if isinstance(part, ToolCallPart)]
        if calls:
            names.update({call.id: call.name for call in calls})
            mended.extend(answers.get(index, ()))
            mended.extend(_missing(piece, calls, answers.get(index, ())))
    return tuple(mended)


def closed_cuts(messages: Sequence[Message]) -> tuple[int, ...]:
    """Return the positions, 0 to the length, at which a cut tears neither a call from its result nor a message apart.

    A call without a result holds the cuts behind it back until a user message follows, as when spans are cut.
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


def is_question(message: Message) -> bool:
    """Return whether a user says something here, beside or without results of tools."""
    said = any(not isinstance(part, ToolResultPart) for part in message.parts)
    return message.role == "user" and _is_live(message) and said


# ---------------------------------------------------------------- rows to pieces


def _is_live(message: Message) -> bool:
    return message.state == "live"


class _Item(NamedTuple):
    """Parts as calls and results are matched: who saved them, and whether a user asks something there."""

    parts: Sequence[Part]
    turn: str | None
    asks: bool
    has_tools: bool


def _item(parts: Sequence[Part], turn: str | None, *, asks: bool) -> _Item:
    return _Item(parts, turn, asks, any(isinstance(part, _TOOL_PARTS) for part in parts))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shown:
    """What is shown of the rows so far, and what the next row may have to do with it."""

    rows: tuple[ContextMessage, ...] = ()
    asked: tuple[tuple[str | None, bool], ...] = ()
    """The turn of each row, and whether a user asks something there."""
    pieces: tuple[ContextMessage, ...] = ()
    """The rows in pieces that hold either results or everything else."""
    items: tuple[_Item, ...] = ()
    """What matching needs of each piece: a question counts from the end of its row on."""
    settled: int = 0
    """How many pieces belong to the rows before the last, which may still grow."""
    last: Message | None = None
    summary: str | None = None
    has_tools: bool = False
    has_gaps: bool = False


def _show_more(shown: _Shown, messages: Sequence[Message]) -> _Shown:
    """Return what is shown with more rows: continuations joined to what they continue, a batch's summary once."""
    rows, asked, last, summary = list(shown.rows), list(shown.asked), shown.last, shown.summary
    for message in filter(_is_live, messages):
        if is_compacted(message):
            # The rows of a batch repeat its summary or leave theirs empty.
            if message.injection and message.injection != summary:
                rows.append(_summary(message, message.injection))
                asked.append((message.turn, False))
            summary, last = message.injection or summary, None
        elif last and (last.id, last.role) == (message.id, message.role):
            rows[-1] = replace(rows[-1], parts=(*rows[-1].parts, *message.parts))
            asked[-1] = asked[-1][0], asked[-1][1] or is_question(message)
        else:
            rows.append(_as_is(message))
            asked.append((message.turn, is_question(message)))
            summary, last = None, message
    before = max(len(shown.rows) - 1, 0)
    fresh = rows[before:]
    pieces, items, settled = list(shown.pieces[: shown.settled]), list(shown.items[: shown.settled]), shown.settled
    for row, (turn, asks) in zip(fresh, asked[before:], strict=True):
        settled, some = len(pieces), tuple(_runs(row))
        pieces += some
        items += [_item(piece.parts, turn, asks=asks and piece is some[-1]) for piece in some]
    return _Shown(
        rows=tuple(rows),
        asked=tuple(asked),
        pieces=tuple(pieces),
        items=tuple(items),
        settled=settled,
        last=last,
        summary=summary,
        has_tools=shown.has_tools or any(isinstance(part, _TOOL_PARTS) for row in fresh for part in row.parts),
        has_gaps=shown.has_gaps or not all(row.parts for row in fresh),
    )


# A tail grows by a message or two from one request to the next.
_shown = grown(_Shown(), _show_more)


def _as_is(message: Message) -> ContextMessage:
    return ContextMessage(
        role=message.role,
        parts=tuple(message.parts),
        seq=message.seq,
        speaker=message.speaker,
        created_at=message.created_at,
    )


def _summary(message: Message, text: str) -> ContextMessage:
    body = element("earlier-messages", escape(text))
    part = TextPart(text=f"{EARLIER_MESSAGES}\n{body}")
    return ContextMessage(role="user", parts=(part,), seq=message.seq, created_at=message.created_at, synthetic=True)


def _runs(row: ContextMessage) -> Iterator[ContextMessage]:
    """Yield the row in pieces that hold either results or everything else; a row without parts has none."""
    if len(row.parts) == 1:
        # Nearly every row is of one piece: itself.
        yield row
        return
    for _, parts in groupby(row.parts, key=lambda part: isinstance(part, ToolResultPart)):
        yield replace(row, parts=tuple(parts))


def _is_results(piece: ContextMessage) -> bool:
    return isinstance(piece.parts[0], ToolResultPart)


# ---------------------------------------------------------------- calls and results


@dataclass(slots=True)
class _Open:
    """A call that waits for its result, and whether users have gone on meanwhile."""

    index: int
    turn: str | None
    is_closed: bool = False
    is_only_for_its_turn: bool = False

    def asked(self, turn: str | None) -> None:
        """Note that a user asked something in a turn: the call's own turn goes on beside another one, others do not."""
        if turn is None or self.turn is None or turn == self.turn:
            self.is_closed = True
        self.is_only_for_its_turn = True

    def takes(self, turn: str | None) -> bool:
        """Tell whether a result of that turn is in time."""
        return not self.is_closed and (not self.is_only_for_its_turn or turn == self.turn)


_Places: TypeAlias = dict[tuple[int, int], int]


def _match(items: Sequence[_Item]) -> tuple[_Places, frozenset[tuple[int, int]]]:
    """Return which item's call a result answers, by the result's item and place, and which results came too late.

    What is in neither answers nothing. Some providers use the same ids again: a result belongs to the latest call of its id,
    and to one call only.
    """
    owners: _Places = {}
    late: set[tuple[int, int]] = set()
    waiting: dict[str, list[_Open]] = {}
    for index, item in enumerate(items):
        for place, part in enumerate(item.parts if item.has_tools else ()):
            if isinstance(part, ToolCallPart):
                beside = [call for call in waiting.get(part.id, ()) if call.index == index]
                waiting[part.id] = [*beside, _Open(index, item.turn)]
            elif isinstance(part, ToolResultPart) and waiting.get(part.call_id):
                call = waiting[part.call_id].pop()
                if not waiting[part.call_id]:
                    del waiting[part.call_id]
                if call.takes(item.turn):
                    owners[index, place] = call.index
                else:
                    late.add((index, place))
        if item.asks and waiting:
            for call in (call for calls in waiting.values() for call in calls):
                call.asked(item.turn)
    return owners, frozenset(late)


def _answers(
    pieces: Sequence[ContextMessage], owners: Mapping[tuple[int, int], int]
) -> dict[int, tuple[ContextMessage, ...]]:
    """Return the tool messages that follow each piece with calls, in the order of their arrival."""
    together: dict[tuple[int, int], tuple[Part, ...]] = {}
    for (index, place), owner in owners.items():
        together[index, owner] = (*together.get((index, owner), ()), pieces[index].parts[place])
    answers: dict[int, tuple[ContextMessage, ...]] = {}
    for (index, owner), parts in together.items():
        answers[owner] = (*answers.get(owner, ()), replace(pieces[index], role="tool", parts=parts))
    return answers


def _missing(
    piece: ContextMessage, calls: Iterable[ToolCallPart], answers: Iterable[ContextMessage]
) -> Iterator[ContextMessage]:
    """Yield a result that says so for each call of the piece without one."""
    results = [part for answer in answers for part in answer.parts if isinstance(part, ToolResultPart)]
    answered = Counter(part.call_id for part in results)
    for call in calls:
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
    """Yield a note for each result of the piece that no shown call takes: come too late, or a second time."""
    for place, part in enumerate(piece.parts):
        if isinstance(part, ToolResultPart) and (index, place) not in owners:
            is_second = part.call_id in names and (index, place) not in late
            words = REPEATED_RESULT if is_second else LATE_RESULT
            tool = part.name or names.get(part.call_id) or f"call {part.call_id}"
            text = f"{words.format(tool=one_line(tool))}\n{_late_result(part, tool)}"
            yield replace(piece, role="user", parts=(TextPart(text=text), *part.files), synthetic=True)


def _late_result(part: ToolResultPart, tool: str) -> str:
    error = "true" if part.is_error else None
    return element("late-result", escape(content_text(part.content)), tool=tool, call=part.call_id, error=error)


def content_text(content: JsonValue) -> str:
    """Return what a tool answered, or was given, as text; what cannot be written down is named."""
    if content is None or isinstance(content, str):
        return content or ""
    try:
        return dumps(content)
    except (TypeError, ValueError, RecursionError):
        return f"({type(content).__name__}, which cannot be shown)"


# ---------------------------------------------------------------- cuts


def _reach(messages: Sequence[Message], items: Sequence[_Item]) -> list[int]:
    """Return up to which row each row must stay with those after it."""
    reach = list(range(len(items)))
    owners, _ = _match(items)
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
