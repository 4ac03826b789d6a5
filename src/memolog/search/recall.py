"""Read the exact messages behind a reference page by page, with their whole text or with one line for each message.

With the whole text, a part that is too large for a page is shown in pieces on several pages. Joined, the pieces are its text.
"""

import base64
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Literal, assert_never, get_args

from memolog.core.message import FilePart, Message, Part, ToolCallPart, ToolResultPart, file_content, part_text
from memolog.db.scope import FIRST, check_choices, check_number, page_key, page_token
from memolog.errors import InputError
from memolog.search.recall_store import Place, Position, Reference
from memolog.search.values import Detail, PartType, Recalled, RecalledPiece, RecallPage
from memolog.text.cut import cut, cut_end, cut_middle, cut_tokens, is_boundary
from memolog.text.dates import clock
from memolog.text.escape import element, escape, one_line
from memolog.text.lookalikes import label, quoted_label
from memolog.text.message_tokens import file_text
from memolog.text.tokens import TokenCounter

if TYPE_CHECKING:
    from memolog.store import Store

LEAST_TOKENS: Final = 200
"""The minimum of `tokens` (the maximum size of a page), so that a page has room for the head of a message and some text."""

# Rows are read in batches of growing size, because most pages need few rows, but a filter may skip many.
_FIRST_BATCH: Final = 12
_LAST_BATCH: Final = 200
# A page ends after about this many rows even if none of them is shown. The next page continues after them.
_MOST_ROWS: Final = 5_000
# The first character of a cursor is the direction.
_FORWARD: Final = "f"
_BACK: Final = "b"
# Maximum lengths in characters.
_LINE_CHARACTERS: Final = 240
_RESULT_CHARACTERS: Final = 120
_NAME_CHARACTERS: Final = 60
# A token is assumed to have at most this many characters. So only a limited stretch of a long text is read for one page.
_CHARACTERS_A_TOKEN: Final = 10
# Tokens that are added to the count of each message and piece, for line breaks between messages and for rounding.
_SLACK: Final = 6
# A piece is started only if at least this many tokens are free.
_LEAST_ROOM: Final = 24
_TOMBSTONES: Final = {"withdrawn": "[withdrawn]", "forgotten": "[forgotten]"}


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallRequest:
    """The arguments of a recall. `types`, `tool` and `part` select the parts to show."""

    reference: Reference
    thread: str | None = None
    detail: Detail = "low"
    types: Collection[PartType] | PartType = ()
    tool: str | None = None
    part: int | None = None
    tokens: int = 2_000
    cursor: str | None = None

    def __post_init__(self) -> None:
        if self.detail not in get_args(Detail):
            raise InputError(f"`detail` must be 'low' or 'full', got {self.detail!r}.", then='Pass detail="full".')
        # A single type may be passed without a list.
        object.__setattr__(self, "types", check_choices("type of part", self.types, get_args(PartType)))
        if check_number("tokens", self.tokens, then="Pass a number, such as tokens=2000.") < LEAST_TOKENS:
            raise InputError(
                f"`tokens` must be {LEAST_TOKENS} or more, got {self.tokens}.",
                then=f"Pass tokens={LEAST_TOKENS} or more.",
            )
        if self.part is not None and check_number("part", self.part) < 0:
            raise InputError(f"`part` must be 0 or more, got {self.part}.", then="Count the parts of a message from 0.")

    def shows(self, index: int, part: Part, tool: str | None) -> bool:
        """Return whether a part is shown. `index` is the index of the part in its message, and `tool` the name of its tool."""
        return (
            (not self.types or part.type in self.types)
            and (self.tool is None or tool == self.tool)
            and (self.part is None or index == self.part)
        )


async def recall(
    store: "Store", counter: TokenCounter, resource: str, request: RecallRequest, *, shared: bool
) -> RecallPage:
    """Return a page of the messages behind a reference."""
    place = await store.recall.find(
        resource, request.reference, thread=request.thread, shared=shared, alone=request.part is not None
    )
    labels = {stretch.thread: stretch.label for stretch in place.stretches if stretch.label}
    if len({stretch.thread for stretch in place.stretches}) > 1:
        labels = {stretch.thread: stretch.label or stretch.thread for stretch in place.stretches}
    is_back, position = _read_cursor(request.cursor, place.start)
    draft = PageDraft(counter=counter, request=request, back=is_back, labels=labels)
    stopped = await _fill(store, resource, place, draft, position)
    if request.part is not None and draft.most_parts and request.part >= draft.most_parts:
        raise InputError(
            f"There is no part {request.part}: the message has {draft.most_parts}.",
            then=f"Pass a `part` from 0 to {draft.most_parts - 1}, or none.",
        )
    if is_back:
        after, before = f"{_FORWARD}.{page_token(position)}", stopped and f"{_BACK}.{page_token(stopped)}"
    else:
        after = stopped and f"{_FORWARD}.{page_token(stopped)}"
        before = f"{_BACK}.{page_token(position)}" if position > place.begins else None
    text = draft.text
    return RecallPage(
        items=tuple(draft.items),
        text=text,
        tokens=counter.count(text),
        detail=request.detail,
        next=after,
        previous=before,
    )


def _read_cursor(cursor: str | None, start: Position) -> tuple[bool, Position]:
    """Return whether a cursor goes back, and its position. Without a cursor, the position is `start`."""
    if cursor is None:
        return False, start
    direction, _, rest = cursor.partition(".") if isinstance(cursor, str) else ("", "", "")  # pyright: ignore[reportUnnecessaryIsInstance]
    if direction not in {_FORWARD, _BACK}:
        raise InputError(
            f"`cursor` must be the `next` or `previous` of a page, got {cursor!r}.", then="Pass it unchanged."
        )
    thread_pk, seq, part, character = page_key(rest, (FIRST,) * 4)
    return direction == _BACK, (thread_pk, max(seq, 0), max(part, 0), max(character, 0))


async def _fill(store: "Store", resource: str, place: Place, draft: "PageDraft", position: Position) -> Position | None:
    """Fill a page from a position. Return the position where the following page continues; None if no message is left."""
    keys = {stretch.thread: stretch.thread_pk for stretch in place.stretches}
    batch, read = _FIRST_BATCH, 0
    while read < _MOST_ROWS:
        rows = await store.recall.rows(resource, place, position, back=draft.back, limit=batch)
        await _learn_tools(store, resource, draft, rows[::-1] if draft.back else rows)
        for message in rows:
            if message.own:
                continue
            here = keys[message.thread], message.seq
            stopped = draft.add(message, position[2:] if position[:2] == here else None)
            if stopped is not None:
                return *here, *stopped
        if len(rows) < batch:
            return None
        position = keys[rows[-1].thread], rows[-1].seq + (0 if draft.back else 1), 0, 0
        read, batch = read + len(rows), min(2 * batch, _LAST_BATCH)
    return position


async def _learn_tools(store: "Store", resource: str, draft: "PageDraft", rows: Sequence[Message]) -> None:
    """Store in `draft` the tool name of each call in `rows`. If a result has no name and no call there, read older messages."""
    draft.learn(rows)
    nameless = {
        part.call_id: message
        for message in reversed(rows)
        for part in message.parts
        if isinstance(part, ToolResultPart) and not part.name and part.call_id not in draft.tools
    }
    for message in {message.seq: message for message in nameless.values()}.values():
        if any(call not in draft.tools for call, owner in nameless.items() if owner is message):
            draft.learn(await store.recall.calls_before(resource, message.thread, message.seq))


@dataclass(slots=True, kw_only=True)
class PageDraft:
    """A page that is filled with messages: forwards from its first message, or with `back` backwards from its last message."""

    counter: TokenCounter
    request: RecallRequest
    back: bool = False
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    tools: dict[str, str] = field(default_factory=dict[str, str])
    """The name of the tool of each call, by the id of the call."""
    items: list[Recalled] = field(default_factory=list[Recalled])
    most_parts: int = 0
    """The number of parts of the message that has the most."""
    _used: int = 0

    @property
    def text(self) -> str:
        """Return the page as text for a model."""
        return "\n".join(map(self._render, self.items))

    def learn(self, messages: Iterable[Message]) -> None:
        """Store the name of the tool of each call, because the result of a call may have no name."""
        for message in messages:
            self.tools |= {part.id: part.name for part in message.parts if isinstance(part, ToolCallPart)}

    def add(self, message: Message, at: tuple[int, int] | None = None) -> tuple[int, int] | None:
        """Add a message to the page: the text after `at`, or with `back` the text before `at`; the whole text if `at` is None.

        `at` is the index of a part and the index of a character in this part. If the page has no room for the rest of the
        message, return the place where the following page continues, in the same form; else None.
        """
        self.most_parts = max(self.most_parts, len(message.parts))
        back = self.back
        everything = (max(1, len(message.parts)), 0) if back else (0, 0)
        stopped = edge = at or everything
        undivided = self._undivided(message)
        if undivided is not None:
            return None if self._put(undivided) else everything if back else edge
        pieces: list[RecalledPiece] = []
        for index, part in reversed(self._parts(message)) if back else self._parts(message):
            if (index, 0) >= edge if back else index < edge[0]:
                continue
            whole = self._whole(index, part)
            outer = whole.length if back else 0
            place = min(edge[1], whole.length) if index == edge[0] else outer
            piece = self._fitting(message, pieces, whole, place)
            if piece is not None:
                pieces.insert(0 if back else len(pieces), piece)
                stopped = index, piece.start if back else piece.start + len(piece.text)
            elif not back:
                stopped = index, place
            if piece is None or stopped[1] != whole.length - outer:
                self._finish(message, pieces)
                return stopped
        self._finish(message, pieces)
        return None

    # ------------------------------------------------------------ messages

    def _undivided(self, message: Message) -> Recalled | None:
        """Return the message as it is shown, if it must be on one page; None if it may be divided between pages."""
        if message.state != "live" or not (message.parts or message.pruned):
            return _head(message)
        if message.pruned:
            text = message.injection or message.search or ""
            piece = RecalledPiece(part=0, type="text", text=cut(text, _LINE_CHARACTERS), start=0, length=len(text))
            return replace(_head(message), pieces=(piece,), pruned=True)
        if self.request.detail == "full":
            return None
        return replace(_head(message), pieces=tuple(self._line(i, part) for i, part in self._parts(message)))

    def _parts(self, message: Message) -> Sequence[tuple[int, Part]]:
        parts = enumerate(message.parts)
        return [(index, part) for index, part in parts if self.request.shows(index, part, self._tool(part))]

    def _put(self, item: Recalled) -> bool:
        """Add a message to the page, and return True. If the page has no room for it and is not empty, return False.

        A message without a part that the request selects is skipped, and the result is True.
        """
        request = self.request
        is_selecting = request.types or request.tool is not None or request.part is not None
        if is_selecting and not item.pieces and item.state == "live":
            return True
        size = self.counter.count(self._render(item)) + _SLACK
        if self.items and self._used + size > self.request.tokens:
            return False
        self._used += size
        self.items.insert(0 if self.back else len(self.items), item)
        return True

    def _finish(self, message: Message, pieces: Sequence[RecalledPiece]) -> None:
        if pieces:
            # The tokens of each piece and of the head are in `_used` already.
            item = replace(_head(message), pieces=tuple(pieces))
            self.items.insert(0 if self.back else len(self.items), item)

    # ------------------------------------------------------------ pieces

    def _tool(self, part: Part) -> str | None:
        match part:
            case ToolCallPart():
                return part.name
            case ToolResultPart():
                return part.name or self.tools.get(part.call_id)
            case _:
                return None

    def _whole(self, index: int, part: Part) -> RecalledPiece:
        text, encoding = self._text(part)
        result = part if isinstance(part, ToolResultPart) else None
        stored = result.files if result else (part,) if isinstance(part, FilePart) else ()
        described = () if isinstance(part, FilePart) and text == part_text(part) else stored
        call = part.id if isinstance(part, ToolCallPart) else result.call_id if result else None
        return RecalledPiece(
            part=index,
            type=part.type,
            text=text,
            start=0,
            length=len(text),
            tool=self._tool(part),
            call=call,
            is_error=bool(result and result.is_error),
            files=tuple(map(part_text, described)),
            encoding=encoding,
            stored=stored if self.request.detail == "full" else (),
        )

    def _text(self, part: Part) -> tuple[str, Literal["base64"] | None]:
        """Return the text of a part and its encoding. With `detail="full"`, a text file has its content as its text."""
        if isinstance(part, FilePart) and self.request.detail == "full":
            if (text := file_text(part)) is not None:
                return text, None
            # Other content is Base64. It is long and no model reads it well, so it is shown only if one part was requested.
            if self.request.part is not None and (data := file_content(part)) is not None:
                return base64.b64encode(data).decode(), "base64"
        return part_text(part), None

    def _line(self, index: int, part: Part) -> RecalledPiece:
        whole = self._whole(index, part)
        most = _RESULT_CHARACTERS if whole.type in {"tool_result", "reasoning"} else _LINE_CHARACTERS
        # Shorten the text before its lines are joined, because only its beginning and its end are needed.
        ends = cut_middle(whole.text, 8 * most)
        return replace(whole, text=cut_middle(" ".join(ends.split()), most))

    def _fitting(
        self, message: Message, pieces: Sequence[RecalledPiece], whole: RecalledPiece, place: int
    ) -> RecalledPiece | None:
        """Return a large piece that begins at `place`, or with `back` ends there, and fits the page; None if no piece fits."""
        # The head of a message is counted with its first piece.
        around = _SLACK if pieces else self.counter.count(self._render(_head(message))) + 2 * _SLACK
        room = self.request.tokens - self._used - around
        is_page_empty = not self.items and not pieces
        if is_page_empty:
            # An empty page shows at least a short piece, so that the last page is always reached.
            room = max(room, _LEAST_ROOM)
        # A piece of a few tokens is useless, so the text continues on the next page.
        if room < _LEAST_ROOM:
            return None
        most = room
        while True:
            start, end = self._stretch(whole.text, place, most)
            piece = replace(whole, text=whole.text[start:end], start=start)
            size = self.counter.count(_body(piece))
            # If even the smallest piece (`most` is 1) is too large, it is shown only if the page is empty.
            if size <= room or (most <= 1 and is_page_empty):
                self._used += around + size
                return piece
            if most <= 1:
                return None
            most = min(most - 1, max(1, most * room // size))

    def _stretch(self, text: str, place: int, most: int) -> tuple[int, int]:
        """Return the start and end of a stretch of text that begins at `place`, or with `back` ends there.

        The stretch has at most `most` tokens, or with `back` at most 10 * `most` characters. If possible, no grapheme is divided.
        """
        if self.back:
            return place - len(cut_end(text[:place], min(place, _CHARACTERS_A_TOKEN * most))), place
        stretch = text[place : place + _CHARACTERS_A_TOKEN * most]
        taken = cut_tokens(stretch, most, self.counter) or cut(stretch, 1) or stretch[:1]
        end = place + len(taken)
        while end - 1 > place and not is_boundary(text, end):
            end -= 1
        return place, end if is_boundary(text, end) else place + len(taken)

    # ------------------------------------------------------------ text

    def _render(self, item: Recalled) -> str:
        when = clock(item.at, item.zone)
        speaker = label(item.speaker or "", _NAME_CHARACTERS)
        who = f'{item.role} "{escape(speaker)}"' if speaker else item.role
        thread = self.labels.get(item.thread)
        if item.state != "live":
            return f"{_place(item, thread)} ({when}) {who}: {_TOMBSTONES[item.state]}"
        if self.request.detail == "low" or item.pruned:
            named = ((_named(piece), one_line(piece.text)) for piece in item.pieces)
            lines = (f"[{name}] {text}".strip() if name else text for name, text in named)
            shown = " | ".join(filter(None, lines)) or "[nothing to show]"
            note = "[raw text removed] " if item.pruned else ""
            return f"{_place(item, thread)} ({when}) {who}: {note}{shown}"
        body = "\n".join(map(_body, item.pieces))
        return element("message", body, thread=thread, seq=str(item.seq), at=when, role=item.role, speaker=speaker)


def _head(message: Message) -> Recalled:
    return Recalled(
        thread=message.thread,
        seq=message.seq,
        id=message.id,
        role=message.role,
        at=message.created_at,
        state=message.state,
        zone=message.zone,
        speaker=message.speaker,
    )


def _place(item: Recalled, thread: str | None) -> str:
    return f"{thread} #{item.seq}" if thread else f"#{item.seq}"


def _named(piece: RecalledPiece) -> str:
    tool = escape(quoted_label(piece.tool or "", _NAME_CHARACTERS, is_tool=True))
    match piece.type:
        case "text":
            return ""
        case "tool_call":
            return f"call {tool}"
        case "tool_result":
            return f"{'error' if piece.is_error else 'result'} {tool}".strip()
        case "file":
            # The index of the part is needed to recall the content of the file.
            return f"file, part {piece.part}" + (f", {piece.encoding}" if piece.encoding else "")
        case "reasoning" | "unknown":
            return piece.type
        case _:
            assert_never(piece.type)


def _body(piece: RecalledPiece) -> str:
    """Return the text of a piece and its files. A heading in brackets precedes it, unless the piece is a whole text part."""
    name = _named(piece)
    if not piece.is_whole:
        end = piece.start + len(piece.text)
        name = f"{name or 'text'}, characters {piece.start:,} to {end:,} of {piece.length:,}"
    files = "".join(f"\n[file] {one_line(cut(name, _LINE_CHARACTERS))}" for name in piece.files[:10])
    return (f"[{name}]\n" if name else "") + escape(piece.text) + (files if piece.start == 0 else "")
