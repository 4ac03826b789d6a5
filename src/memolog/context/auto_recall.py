"""Search earlier messages for the words of the newest user message, and show the results at the edge of the context.

The results are not stored. If the search fails, the context is built without them.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from memolog.context.tail import is_compacted
from memolog.core.config import Config
from memolog.core.exact_json import JsonObject
from memolog.core.message import FilePart, Message, ReasoningPart, ToolCallPart, ToolResultPart, part_text
from memolog.core.observation import Span
from memolog.core.pairs import is_question
from memolog.log.snapshot import Snapshot
from memolog.search.search import SearchOptions, search_memory
from memolog.search.snippets import Marker
from memolog.text.cut import cut, cut_end, cut_middle
from memolog.text.dates import clock
from memolog.text.escape import fold
from memolog.text.lookalikes import quoted_label
from memolog.text.tokens import TokenCounter

if TYPE_CHECKING:
    from memolog.store import Store

# In characters: the maximum of a neighbour, the size below which a found message is not cut, and the maximum of a name.
_NEIGHBOUR: Final = 240
_LEAST: Final = 80
_NAME: Final = 60
_BEFORE, _AFTER = "… ", " …"
# Search operators are removed from the message, because a user writes them as normal punctuation.
_OPERATORS: Final = re.compile(r"""["“”«»]|(?<!\S)-+|[:*]""")
_QUERY_CHARACTERS: Final = 2_000
# Hits that the tail already shows are skipped, so more hits are requested: one for each shown message, but at most this many.
_MOST_MORE: Final = 50
Place: TypeAlias = tuple[int, int]
"""The start and end of the matched words in the text of a message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """A found message and its neighbours, in the order of the thread."""

    hit: int
    """The sequence number of the found message."""
    messages: tuple[Message, ...]
    places: Mapping[int, Place] = field(default_factory=dict[int, Place])
    """By sequence number, the matched words of a message. A long message is cut around them, or in the middle if it has none."""


def newest_question(snapshot: Snapshot) -> Message | None:
    """Return the newest user message of the tail, or the repeated one. None if there is none or it has no text."""
    asked = [message for message in (*snapshot.repeated, *snapshot.tail) if is_question(message)]
    return asked[-1] if asked and asked[-1].text.strip() else None


async def find_passages(
    store: "Store", snapshot: Snapshot, question: Message, config: Config, now: datetime
) -> tuple[Passage, ...]:
    """Return the best earlier messages for a question, with their neighbours, without messages that the tail shows."""
    settings = config.recall
    tail = snapshot.tail if config.observe else snapshot.tail[-config.last_messages :]
    seen = {(snapshot.thread.id, m.seq) for m in (*snapshot.repeated, *tail) if not is_compacted(m)}
    wanted = SearchOptions(
        thread=snapshot.thread.id if settings.scope == "thread" else None,
        limit=settings.results + min(len(seen), _MOST_MORE),
        sources=("raw", "compacted"),
        # Neighbours are added below.
        beside=False,
    )
    query = _OPERATORS.sub(" ", cut(question.text, _QUERY_CHARACTERS))
    answer = await search_memory(store, config, query, snapshot.resource, wanted, now)
    marker = Marker(answer.rarity)
    passages: list[Passage] = []
    for result in answer.results:
        if result.thread is None or result.seq is None or (result.thread, result.seq) in seen:
            continue
        first = max(1, result.seq - settings.neighbours)
        span = Span(first=first, last=result.seq + settings.neighbours)
        rows = await store.messages.span(snapshot.resource, result.thread, span)
        shown = tuple(row for row in rows if _is_shown(row) and (row.thread, row.seq) not in seen)
        seen |= {(row.thread, row.seq) for row in shown}
        if any(row.seq == result.seq for row in shown):
            passages.append(Passage(hit=result.seq, messages=shown, places=_places(shown, marker)))
        if len(passages) == settings.results:
            break
    return tuple(passages)


async def read_passages(store: "Store", resource: str, record: JsonObject) -> tuple[Passage, ...]:
    """Return the passages that are listed in the record of a context."""
    recalled: list[list[Any]] = record.get("recalled", [])
    # Records of older releases have no places, so their messages are cut in the middle.
    at: list[list[list[int] | None]] = record.get("recalled_at", [[] for _ in recalled])
    passages: list[Passage] = []
    for (thread, hit, *seqs), places in zip(recalled, at, strict=True):
        rows = await store.messages.span(resource, thread, Span(first=min(seqs), last=max(seqs)))
        shown = tuple(row for row in rows if _is_shown(row) and row.seq in seqs)
        known: dict[int, Place] = {seq: (place[0], place[1]) for seq, place in zip(seqs, places, strict=False) if place}
        passages.append(Passage(hit=hit, messages=shown, places=known))
    return tuple(passages)


def _places(messages: Sequence[Message], marker: Marker) -> dict[int, Place]:
    """Return the place in each message where the words of the question are closest together."""
    found = {message.seq: marker.place(message_line(message)) for message in messages}
    return {seq: place for seq, place in found.items() if place is not None}


def _is_shown(message: Message) -> bool:
    return message.state == "live" and not message.own and not message.pruned


def passage_texts(
    passages: Sequence[Passage], thread: str, *, budget: int, zone: str | None, counter: TokenCounter
) -> tuple[str, ...]:
    """Return the passages as texts, the best first. Together they have at most `budget` tokens."""
    texts: list[str] = []
    for left, passage in zip(range(len(passages), 0, -1), passages, strict=True):
        # The tokens that better passages did not need are available to the passages after them.
        text = _text(passage, thread, budget // left, zone, counter)
        size = counter.count(text)
        if text and size <= budget:
            texts.append(text)
            budget -= size
    return tuple(texts)


def _text(passage: Passage, thread: str, budget: int, zone: str | None, counter: TokenCounter) -> str:
    """Return a passage as a text that fits. The found message is shortened first, then neighbours are left out."""
    messages = passage.messages
    most = max(_LEAST, 4 * budget)
    while True:
        text = "\n".join(_line(message, thread, _shown(message, passage, most), zone) for message in messages)
        if counter.count(text) <= budget:
            return text
        if most > _LEAST:
            most = max(_LEAST, most // 2)
        elif len(messages) > 1:
            messages = tuple(message for message in messages if message.seq == passage.hit)
            most = max(_LEAST, 4 * budget)
        else:
            return ""


def message_line(message: Message) -> str:
    """Return all parts of a message except reasoning, as one line."""
    return " ".join(filter(None, map(_part_line, message.parts)))


def _shown(message: Message, passage: Passage, most: int) -> str:
    text, most = message_line(message), most if message.seq == passage.hit else _NEIGHBOUR
    place = passage.places.get(message.seq)
    return cut_middle(text, most) if place is None else _around(text, place, most)


def _around(text: str, place: Place, most: int) -> str:
    """Return at most `most` characters of a text, with the place in their middle."""
    if len(text) <= most:
        return text
    first, last = place
    room = most - len(_BEFORE) - len(_AFTER)
    start = min(first - max(0, room - (last - first)) // 2, len(text) - room)
    rest = cut_end(text, len(text) - start) if start > 0 else text
    shown = cut(rest, room)
    before, after = _BEFORE if len(rest) < len(text) else "", _AFTER if len(shown) < len(rest) else ""
    return f"{before}{shown}{after}"


def _line(message: Message, thread: str, shown: str, zone: str | None) -> str:
    speaker = f" {quoted_label(message.speaker, _NAME)}" if message.speaker else ""
    elsewhere = "" if message.thread == thread else ", in another conversation"
    return f"({clock(message.created_at, zone)}{elsewhere}) {message.role}{speaker}: {shown}"


def _part_line(part: object) -> str:
    match part:
        case ReasoningPart():
            return ""
        case ToolCallPart():
            return f"[call {quoted_label(part.name, _NAME, is_tool=True)}] {fold(part_text(part))}".strip()
        case ToolResultPart():
            return f"[result] {fold(part_text(part))}".strip()
        case FilePart():
            return f"[file] {fold(part_text(part))}"
        case _:
            return fold(part_text(part))  # pyright: ignore[reportArgumentType]
