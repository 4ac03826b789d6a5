"""Fill a page of recalled messages up to a number of tokens, with their exact text or with one line for each message.

A part that is too large for a page is shown in pieces on several pages. Put together, the pieces are the text of the part.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, assert_never

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
from memolog.search.values import Detail, PartType, Recalled, RecalledPiece
from memolog.text.cut import cut, cut_end, cut_middle, cut_tokens, is_boundary
from memolog.text.dates import clock
from memolog.text.escape import element, escape, one_line
from memolog.text.lookalikes import label, quoted_label
from memolog.text.tokens import TokenCounter

LEAST_TOKENS: Final = 200
"""A page has at least this many tokens, so that it has room for the head of a message and some text."""

_LINE_CHARACTERS: Final = 240
_RESULT_CHARACTERS: Final = 120
_NAME_CHARACTERS: Final = 60
# A token has at most this many characters. So only the beginning of a long text must be read.
_CHARACTERS_A_TOKEN: Final = 10
# Tokens that are added to each size, for line breaks between messages and for rounding.
_SLACK: Final = 6
# A piece is started only if at least this many tokens are free.
_LEAST_ROOM: Final = 24
_TOMBSTONES: Final = {"withdrawn": "[withdrawn]", "forgotten": "[forgotten]"}


@dataclass(frozen=True, slots=True, kw_only=True)
class PartFilter:
    """Selects the parts to show: by type, by tool, or by index."""

    types: frozenset[PartType] = frozenset()
    tool: str | None = None
    part: int | None = None

    @property
    def is_all(self) -> bool:
        """Return whether all parts are shown."""
        return not self.types and self.tool is None and self.part is None

    def takes(self, index: int, part: Part, tool: str | None) -> bool:
        """Return whether a part is shown."""
        return (
            (not self.types or part.type in self.types)
            and (self.tool is None or tool == self.tool)
            and (self.part is None or index == self.part)
        )


@dataclass(slots=True, kw_only=True)
class PageDraft:
    """A page that is filled with messages: forwards from its first message, or backwards from its last message."""

    counter: TokenCounter
    tokens: int
    detail: Detail
    wanted: PartFilter
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    tools: dict[str, str] = field(default_factory=dict[str, str])
    """The name of the tool for the id of each call."""
    items: list[Recalled] = field(default_factory=list[Recalled])
    _texts: list[str] = field(default_factory=list[str])
    _used: int = 0

    def learn(self, messages: Iterable[Message]) -> None:
        """Store the name of the tool of each call, because the result of a call may have no name."""
        for message in messages:
            self.tools |= {part.id: part.name for part in message.parts if isinstance(part, ToolCallPart)}

    def add(self, message: Message, at: tuple[int, int] | None = None, *, back: bool = False) -> tuple[int, int] | None:
        """Add a message to the page: the text after `at` (a part and a character in it), or with `back` the text before `at`.

        If the page is full before the end of the message, return the part and character where the next page continues; else None.
        """
        everything = (max(1, len(message.parts)), 0) if back else (0, 0)
        stopped = edge = at or everything
        shown = self._shown(message)
        if shown is not None:
            return None if self._put(shown, first=back) else everything if back else edge
        pieces: list[RecalledPiece] = []
        for index, part in reversed(self._parts(message)) if back else self._parts(message):
            if (index, 0) >= edge if back else index < edge[0]:
                continue
            whole = self._whole(index, part)
            outer = whole.length if back else 0
            place = min(edge[1], whole.length) if index == edge[0] else outer
            piece = self._fitting(message, pieces, whole, place, back=back)
            if piece is not None:
                pieces.insert(0 if back else len(pieces), piece)
                stopped = index, piece.start if back else piece.start + len(piece.text)
            elif not back:
                stopped = index, place
            if piece is None or stopped[1] != whole.length - outer:
                self._finish(message, pieces, first=back)
                return stopped
        self._finish(message, pieces, first=back)
        return None

    @property
    def text(self) -> str:
        """Return the page as text for a model."""
        return "\n".join(self._texts)

    # ------------------------------------------------------------ messages

    def _shown(self, message: Message) -> Recalled | None:
        """Return a message that is not divided between pages; None if the message may be divided."""
        if message.state != "live" or not (message.parts or message.pruned):
            return _head(message)
        if message.pruned:
            text = message.injection or message.search or ""
            piece = RecalledPiece(part=0, type="text", text=cut(text, _LINE_CHARACTERS), start=0, length=len(text))
            return replace(_head(message), pieces=(piece,), pruned=True)
        if self.detail == "full":
            return None
        return replace(_head(message), pieces=tuple(self._line(i, part) for i, part in self._parts(message)))

    def _parts(self, message: Message) -> Sequence[tuple[int, Part]]:
        parts = enumerate(message.parts)
        return [(index, part) for index, part in parts if self.wanted.takes(index, part, self._tool(part))]

    def _put(self, item: Recalled, *, first: bool = False) -> bool:
        """Add a message to the page if it fits or if the page is empty. Return False if it does not fit.

        A message without a part that the filter selects is not shown, and the result is True.
        """
        is_empty = not item.pieces and item.state == "live"
        if is_empty and not self.wanted.is_all:
            return True
        text = self._render(item)
        size = self._count(text) + _SLACK
        if self.items and self._used + size > self.tokens:
            return False
        self._used += size
        self.items.insert(0 if first else len(self.items), item)
        self._texts.insert(0 if first else len(self._texts), text)
        return True

    def _finish(self, message: Message, pieces: Sequence[RecalledPiece], *, first: bool = False) -> None:
        if pieces:
            # The tokens of each piece and of the head are in `_used` already.
            item = replace(_head(message), pieces=tuple(pieces))
            self.items.insert(0 if first else len(self.items), item)
            self._texts.insert(0 if first else len(self._texts), self._render(item))

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
        text = part_text(part)
        result = part if isinstance(part, ToolResultPart) else None
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
            files=tuple(map(part_text, result.files)) if result else (),
        )

    def _line(self, index: int, part: Part) -> RecalledPiece:
        whole = self._whole(index, part)
        most = _RESULT_CHARACTERS if whole.type in {"tool_result", "reasoning"} else _LINE_CHARACTERS
        # Shorten the text first, because only its beginning and its end are needed.
        ends = cut_middle(whole.text, 8 * most, " … ")
        return replace(whole, text=cut_middle(" ".join(ends.split()), most, " … "))

    def _head_size(self, message: Message, pieces: Sequence[RecalledPiece]) -> int:
        """Return the number of tokens of the head of a message; 0 after the first piece, which includes them."""
        return 0 if pieces else self._count(self._render(_head(message))) + _SLACK

    def _room(self, message: Message, pieces: Sequence[RecalledPiece]) -> int:
        """Return the maximum number of tokens for the next piece, including its heading."""
        room = self.tokens - self._used - self._head_size(message, pieces) - _SLACK
        # An empty page shows at least a short piece, so that the last page is always reached.
        return max(room, _LEAST_ROOM) if not self.items and not pieces else room

    def _spend(self, message: Message, pieces: Sequence[RecalledPiece], piece: RecalledPiece) -> RecalledPiece:
        self._used += self._head_size(message, pieces) + self._count(_body(piece)) + _SLACK
        return piece

    def _fitting(
        self, message: Message, pieces: Sequence[RecalledPiece], whole: RecalledPiece, place: int, *, back: bool
    ) -> RecalledPiece | None:
        """Return the largest piece that begins at a place, or with `back` ends there, and fits the page; None if none fits."""
        room = self._room(message, pieces)
        # A piece of a few tokens is useless, so the text continues on the next page.
        if room < _LEAST_ROOM:
            return None
        most = room
        while True:
            start, end = self._stretch(whole.text, place, most, back=back)
            piece = replace(whole, text=whole.text[start:end], start=start)
            size = self._count(_body(piece))
            if size <= room:
                return self._spend(message, pieces, piece)
            if most <= 1:
                # Not even one character fits, so it is shown only if the page is empty.
                return None if self.items or pieces else self._spend(message, pieces, piece)
            most = min(most - 1, max(1, most * room // size))

    def _stretch(self, text: str, place: int, most: int, *, back: bool) -> tuple[int, int]:
        """Return start and end of about `most` tokens of a text. They do not divide a visible character."""
        if back:
            return place - len(cut_end(text[:place], min(place, _CHARACTERS_A_TOKEN * most))), place
        stretch = text[place : place + _CHARACTERS_A_TOKEN * most]
        taken = cut_tokens(stretch, most, self.counter) or cut(stretch, 1) or stretch[:1]
        end = place + len(taken)
        while end - 1 > place and not is_boundary(text, end):
            end -= 1
        return place, end if is_boundary(text, end) else place + len(taken)

    # ------------------------------------------------------------ text

    def _count(self, text: str) -> int:
        return self.counter.count(text)

    def _render(self, item: Recalled) -> str:
        when = clock(item.at, item.zone)
        speaker = label(item.speaker or "", _NAME_CHARACTERS)
        who = f'{item.role} "{escape(speaker)}"' if speaker else item.role
        thread = self.labels.get(item.thread)
        if item.state != "live":
            return f"{_place(item, thread)} ({when}) {who}: {_TOMBSTONES[item.state]}"
        if self.detail == "low" or item.pruned:
            shown = " | ".join(filter(None, map(_in_line, item.pieces))) or "[nothing to show]"
            note = "[raw text removed] " if item.pruned else ""
            return f"{_place(item, thread)} ({when}) {who}: {note}{shown}"
        body = "\n".join(map(_body, item.pieces))
        return element("message", body, thread=thread, seq=str(item.seq), at=when, role=item.role, speaker=speaker)


def part_text(part: Part) -> str:
    """Return the text of a part: its text, the arguments or the result of a tool, or the description of a file."""
    match part:
        case TextPart() | ReasoningPart():
            return part.text
        case ToolCallPart():
            return content_text(part.arguments)
        case ToolResultPart():
            return content_text(part.content)
        case FilePart():
            size = f"{len(part.data):,} bytes" if part.data is not None else None
            return ", ".join(filter(None, (part.name, part.media_type, size, part.url)))
        case UnknownPart():
            return content_text(part.data)
        case _:
            assert_never(part)


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
        case "reasoning" | "file" | "unknown":
            return piece.type
        case _:
            assert_never(piece.type)


def _in_line(piece: RecalledPiece) -> str:
    name, text = _named(piece), one_line(piece.text)
    return f"[{name}] {text}".strip() if name else text


def _body(piece: RecalledPiece) -> str:
    """Return the text of a piece, with a heading in brackets unless the piece is a whole text part."""
    name = _named(piece)
    if not piece.is_whole:
        end = piece.start + len(piece.text)
        name = f"{name or 'text'}, characters {piece.start:,} to {end:,} of {piece.length:,}"
    files = "".join(f"\n[file] {one_line(cut(name, _LINE_CHARACTERS))}" for name in piece.files[:10])
    return (f"[{name}]\n" if name else "") + escape(piece.text) + (files if piece.start == 0 else "")
