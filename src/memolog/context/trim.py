"""Show the tail, and leave out its oldest exchanges when a limit is set.

What the user asked last and the last exchange always stay. Cuts keep tool calls and results together.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from memolog.context.pairs import closed_cuts, is_compacted, mark_between, mend
from memolog.context.value import ContextMessage
from memolog.context.wording import LEFT_OUT
from memolog.domain.message import Message
from memolog.domain.pairs import is_question
from memolog.tokens import TokenCounter, count_parts

__all__ = ["ShownTail", "TailCutter", "show"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownTail:
    """The messages that are shown, what they weigh, the rows they come from, and how many rows were left out."""

    messages: tuple[ContextMessage, ...]
    tokens: int
    rows: tuple[Message, ...] = ()
    trimmed: int = 0


def show(
    repeated: Sequence[Message], tail: Sequence[Message], counter: TokenCounter, before: datetime | None = None
) -> ShownTail:
    """Return the whole tail, opened by what is repeated.

    `before` is when the message before the tail was said; a mark opens the tail if more than an hour lies between.
    """
    present = {message.seq for message in tail}
    # Repeated is repeated word for word, also where a summary would stand in its place.
    again = [
        replace(message, level=0, injection=None) if is_compacted(message) else message
        for message in repeated
        if message.seq not in present
    ]
    rows = [*again, *tail]
    messages = mend(rows)
    first = next((row for row in rows if row.state == "live"), None)
    if before is not None and first is not None and not again and (mark := mark_between(before, first)):
        messages = (mark, *messages)
    return ShownTail(messages=messages, tokens=_weight(rows, messages, counter), rows=tuple(rows))


@dataclass(frozen=True, slots=True, kw_only=True)
class TailCutter:
    """Leaves out rows of a tail until it fits; all that no model has seen stays."""

    repeated: Sequence[Message]
    tail: Sequence[Message]
    counter: TokenCounter
    before: datetime | None = None
    unseen_from: int | None = None

    def without_older(self, room: int) -> ShownTail:
        """Return the tail without the oldest exchanges, as few of them as the room demands."""
        start = _last_question(self.tail)
        most = min(_last_exchange(self.tail) if start is None else start, _place_of(self.tail, self.unseen_from))
        return self._first_fitting(room, [cut for cut in closed_cuts(self.tail) if cut <= most])

    def without_steps(self, room: int) -> ShownTail:
        """Return what was asked last and the youngest exchanges after it, as many as the room allows, at least the last.

        A turn of many steps may not fit by itself: without this the provider would refuse it.
        """
        start = _last_question(self.tail)
        most = min(_last_exchange(self.tail), _place_of(self.tail, self.unseen_from))
        least = min(start or 0, most)
        closed = closed_cuts(self.tail)
        # What was asked may stand between a call and its result: then the nearest cut is before the call.
        cuts = [cut for cut in closed if least <= cut <= most] or [max(cut for cut in closed if cut <= least)]
        return self._first_fitting(room, cuts)

    def _first_fitting(self, room: int, cuts: Sequence[int]) -> ShownTail:
        """Return the tail from the first cut at which it fits, or from the last cut if it never does."""
        # What is left gets lighter from cut to cut.
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
    """Return where the messages from a number on begin; the end of the tail if there are none."""
    return len(tail) if seq is None else bisect_left(tail, seq, key=lambda message: message.seq)


def _last_question(tail: Sequence[Message]) -> int | None:
    """Return where what the user said last begins."""
    places = [index for index, message in enumerate(tail) if is_question(message)]
    if not places:
        return None
    return next(index for index in places if tail[index].id == tail[places[-1]].id)


def _last_exchange(tail: Sequence[Message]) -> int:
    """Return the last cut with something to show behind it."""
    live = [index for index, message in enumerate(tail) if message.state == "live"]
    return max((cut for cut in closed_cuts(tail) if live and cut <= live[-1]), default=0)


def _weight(rows: Sequence[Message], messages: Sequence[ContextMessage], counter: TokenCounter) -> int:
    """Return the tokens: a row's own count, made once when it was saved, and what was added to show it.

    A row that is shown as notes alone counts as these; one that is shown both ways counts twice, on the safe side.
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
