"""Build a context from a view: prefix, note, tail and edge, cut to a limit if there is one. The same view gives the same bytes.

The prefix and the note depend on the log alone, the tail on the messages, and only the edge on the present.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from memolog.context.auto_recall import Passage
from memolog.context.context import Block, Context, ContextMessage, Counts
from memolog.context.edge import OTHERS, edge_blocks
from memolog.context.pairs import closed_cuts, is_compacted, mark_between, mend
from memolog.context.wording import (
    CONTINUATION,
    CONTINUATION_ALIAS,
    CUT,
    CUT_FILE,
    LEFT_OUT,
    PASSED_ALONG,
    USAGE,
    USAGE_DONE,
    USAGE_RESOURCE,
    working_memory_text,
)
from memolog.core.config import Config
from memolog.core.exact_json import content_text
from memolog.core.message import (
    FilePart,
    Message,
    NewMessage,
    Part,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    UnknownPart,
)
from memolog.core.observation import Observation
from memolog.core.pairs import is_question
from memolog.log.snapshot import Snapshot
from memolog.text.cutting import cut_end, cut_tokens
from memolog.text.escape import element, escape, fold
from memolog.text.lookalikes import label
from memolog.text.message_tokens import count_message, count_parts, count_text
from memolog.text.tokens import TokenCounter, share


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """Everything that a context is built from: a snapshot, and what one request adds."""

    snapshot: Snapshot
    now: datetime
    counter: TokenCounter
    config: Config = field(default_factory=Config)
    instructions: str | None = None
    """The instructions of the application; they come first, unchanged."""
    zone: str | None = None
    """The time zone of the user: an IANA name or an offset such as "+02:00"; UTC if it is unknown."""
    ephemeral: tuple[NewMessage, ...] = ()
    """Messages for this request only, neither stored nor observed."""
    passed: tuple[int, int] = (0, 0)
    """The number and tokens of ephemeral messages of a recorded request, which are not stored."""
    repeated_tokens: int | None = None
    """The most tokens of each repeated message; None: as configured."""
    task_lines: tuple[str, ...] = ()
    plans: tuple[Observation, ...] = ()
    """Plans of the last days without a known result."""
    passages: tuple[Passage, ...] = ()
    """Earlier messages that a search found for the newest one."""
    recalled: tuple[str, ...] = ()
    """These as texts."""
    limit: int | None = None
    """The most tokens of the whole; the tail and the other threads are shortened."""
    unseen_from: int | None = None
    """The first message that no model has seen: a limit may cut it and later ones, but never leaves them out."""

    @property
    def most_repeated(self) -> int:
        """Return the most tokens of each repeated message."""
        return self.config.repeated_tokens if self.repeated_tokens is None else self.repeated_tokens


def bare(
    messages: Iterable[Message | NewMessage], ephemeral: Iterable[NewMessage], instructions: str | None
) -> Context:
    """Return a context of only these messages and the application's instructions."""
    blocks = (Block(name="instructions", text=instructions, tokens=0, stable=True),) if instructions else ()
    shown = tuple(map(ContextMessage.of, messages))
    return Context(blocks=blocks, tail=shown, ephemeral=tuple(map(ContextMessage.of, ephemeral)))


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
    # Repeated messages are shown unchanged, even if they are compacted.
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
        parts = (TextPart(text=_mark(0, message.id)),)
    short = replace(message, parts=parts)
    return replace(short, tokens=count_message(short, counter))


def _size(message: Message, part: Part, counter: TokenCounter) -> int:
    return count_parts(message.role, (part,), counter) - count_parts(message.role, (), counter)


def _smaller(part: Part, size: int, most: int, message: Message, counter: TokenCounter) -> tuple[Part, ...]:
    """Return a part cut, or unchanged if the mark would make it longer."""
    short = tuple(_cut(part, most, message.id, counter))
    return short if sum(_size(message, one, counter) for one in short) < size else (part,)


def _mark(count: int, message: str) -> str:
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
            yield TextPart(text=_mark(len(content_text(part.data)), message))


def _file(part: FilePart, message: str) -> str:
    kind = " ".join(filter(None, (label(part.name or "", _NAME), label(part.media_type, _NAME))))
    return CUT_FILE.format(kind=kind, id=fold(message))


def _cut_middle(text: str, most: int, message: str, counter: TokenCounter) -> str:
    """Return the two ends of a text with a mark between them, within `most` tokens; only the mark if no more fits."""
    if len(text) <= 4 * max(most, 0) and count_text(text, counter) <= most:
        return text
    room = most - count_text(_mark(len(text), message), counter) - 2
    if room <= 0:
        return _mark(len(text), message)
    head = cut_tokens(text, (room + 1) // 2, counter)
    size = min(len(head), len(text) - len(head))
    while size and count_text(cut_end(text, size), counter) > room // 2:
        size = size * 9 // 10
    tail = cut_end(text, size) if size else ""
    return f"{head}\n{_mark(len(text) - len(head) - len(tail), message)}\n{tail}"


def build(view: View) -> Context:
    """Return the context of a request: prefix, note, tail, ephemeral messages and edge."""
    prefix, note = tuple(_prefix(view)), _note(view)
    passed = view.passed[1] + sum(count_message(message, view.counter) for message in view.ephemeral)
    opening, fixed = note.tokens if note else 0, _sum(prefix)
    tail, edge = _fitted(view, fixed + opening + passed)
    return Context(
        blocks=prefix,
        note=note,
        tail=tail.messages,
        ephemeral=(*_ephemeral_note(view), *map(ContextMessage.of, view.ephemeral)),
        edge=edge,
        tokens=Counts(prefix=fixed, tail=opening + tail.tokens, edge=passed + _sum(edge)),
        trimmed=tail.trimmed,
        shortened=_shortened(view, tail),
    )


def _prefix(view: View) -> Iterable[Block]:
    """Yield the blocks of the prefix. Groups come last, so that an activation only extends the text."""
    if view.instructions and view.instructions.strip():
        yield _stable(view, "instructions", view.instructions)
    snapshot = view.snapshot
    groups = [
        Block(name=f"group {group.handle}", text=group.text, tokens=group.tokens, stable=True)
        for group in snapshot.groups
        if group.text
    ]
    kept = working_memory_text(snapshot.facts.before) or ""
    if groups or kept.strip():
        usage = USAGE_DONE if view.config.assume_done else USAGE
        yield _stable(view, "usage", f"{usage}\n{USAGE_RESOURCE}" if snapshot.scope == "resource" else usage)
    if kept.strip():
        yield _stable(view, "working-memory", element("working-memory", escape(kept)))
    yield from groups


def _note(view: View) -> Block | None:
    snapshot = view.snapshot
    if snapshot.cursor <= 0:
        return None
    own = f"\n{CONTINUATION_ALIAS.format(alias=f't{snapshot.alias}')}" if snapshot.scope == "resource" else ""
    return _stable(view, "continuation", CONTINUATION + own)


def _stable(view: View, name: str, text: str) -> Block:
    return Block(name=name, text=text, tokens=count_text(text, view.counter), stable=True)


def _ephemeral_note(view: View) -> Iterable[ContextMessage]:
    """Yield a note in place of ephemeral messages that are not stored."""
    if count := view.passed[0]:
        yield ContextMessage.note(PASSED_ALONG.format(count=count))


def _fitted(view: View, fixed: int) -> tuple[ShownTail, tuple[Block, ...]]:
    """Return tail and edge within the limit, as far as possible."""
    edge = edge_blocks(view, others_tokens=view.config.other_tokens)
    tail = show(*_sized(view, None), view.counter, view.snapshot.covered_at)
    if view.limit is None or fixed + tail.tokens + _sum(edge) <= view.limit:
        return tail, edge
    if view.recalled:
        # Recalled messages are removed first.
        return _fitted(replace(view, recalled=()), fixed)
    snapshot = view.snapshot
    if snapshot.repeated and any(map(is_question, snapshot.tail)):
        # Then repeated messages, if a newer user message follows.
        tail, edge = _fitted(replace(view, snapshot=replace(snapshot, repeated=())), fixed)
        return replace(tail, trimmed=tail.trimmed + len(snapshot.repeated)), edge
    room = view.limit - fixed
    most: int | None = None
    while True:
        tail, edge = _left_out(view, most, room, edge)
        if tail.tokens + _sum(edge) <= room or (most is not None and most <= LEAST_SHOWN):
            return tail, edge
        most = _next_size(view, tail, most, room - _sum(edge))


def _next_size(view: View, tail: ShownTail, most: int | None, room: int) -> int:
    """Return the next smaller size of a message at which the shown rows may fit.

    The sizes depend only on the limit, so that a message is cut in the same way in the next context.
    """
    shown = {row.seq for row in tail.rows}
    sizes = [message.tokens for message in (*view.snapshot.repeated, *view.snapshot.tail) if message.seq in shown]
    even = max(share(sizes, room), LEAST_SHOWN)
    size = (view.limit or 0) // 2 if most is None else most * 3 // 4
    while size > even:
        size = size * 3 // 4
    return size


def _left_out(view: View, most: int | None, room: int, edge: tuple[Block, ...]) -> tuple[ShownTail, tuple[Block, ...]]:
    """Return tail and edge without what can be left out, with no message longer than `most`."""
    repeated, rows = _sized(view, most)
    cutter = TailCutter(
        repeated=repeated,
        tail=rows,
        counter=view.counter,
        before=view.snapshot.covered_at,
        unseen_from=view.unseen_from,
    )
    tail = cutter.without_older(room - _sum(edge))
    if tail.tokens + _sum(edge) > room:
        excess = tail.tokens + _sum(edge) - room
        others = _sum(block for block in edge if block.name == OTHERS)
        edge = edge_blocks(view, others_tokens=max(others - excess, 0))
    if tail.tokens + _sum(edge) > room:
        tail = cutter.without_steps(room - _sum(edge))
    return tail, edge


def _sized(view: View, most: int | None) -> tuple[tuple[Message, ...], tuple[Message, ...]]:
    """Return the repeated messages and the tail, cut to `most`; if it is None, cut only messages that exceed the limit alone.

    The cut depends only on the message and the limit, so that each context still extends the last one.
    """
    limit, counter, tail = view.limit, view.counter, view.snapshot.tail
    least = view.most_repeated if most is None else min(view.most_repeated, most)
    # Repeated messages are shown unchanged, even if they are compacted.
    plain = (replace(m, level=0, injection=None) if is_compacted(m) else m for m in view.snapshot.repeated)
    # A message that needs no change stays the same object, so that cached results are found.
    repeated = tuple(shortened(message, least, counter) for message in plain)
    if limit is None:
        return repeated, tail
    over, size = (limit, limit // 2) if most is None else (most, most)
    if all(message.tokens <= over for message in tail):
        return repeated, tail
    return repeated, tuple(shortened(m, size, counter) if m.tokens > over else m for m in tail)


def _shortened(view: View, tail: ShownTail) -> int:
    """Return how many of the shown rows were cut."""
    if view.limit is None and not view.snapshot.repeated:
        return 0
    whole = {message.seq: message.parts for message in (*view.snapshot.repeated, *view.snapshot.tail)}
    return sum(row.parts is not whole[row.seq] for row in tail.rows)


def _sum(blocks: Iterable[Block]) -> int:
    return sum(block.tokens for block in blocks)
