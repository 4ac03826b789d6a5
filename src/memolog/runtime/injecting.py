"""Search earlier messages for the newest user message and show them at the edge of its context.

Results are not stored; if the search fails, the context is built without them.
"""

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from memolog.config import Config
from memolog.context import is_compacted
from memolog.context.passages import Passage, Place, said
from memolog.domain.codec import JsonObject
from memolog.domain.message import Message
from memolog.domain.observation import Span
from memolog.domain.pairs import is_question
from memolog.runtime.searching import Wanted, search_memory
from memolog.search.snippets import Marker
from memolog.store import Store
from memolog.store.snapshot import Snapshot
from memolog.tokens import cut

__all__ = ["find_passages", "newest_question", "read_passages"]

# A message is prose: search operators in it are ignored.
_OPERATORS: Final = re.compile(r"""["“”«»]|(?<!\S)-+|[:*]""")
_QUERY_CHARACTERS: Final = 2_000
# Messages of the tail match themselves best: so many more hits are requested, and those left out.
_MOST_MORE: Final = 50


def newest_question(snapshot: Snapshot) -> Message | None:
    """Return the newest user message, in the tail or repeated before it."""
    said = [message for message in (*snapshot.repeated, *snapshot.tail) if is_question(message)]
    return said[-1] if said and said[-1].text.strip() else None


async def find_passages(
    store: Store, snapshot: Snapshot, question: Message, config: Config, now: datetime
) -> tuple[Passage, ...]:
    """Return the best earlier messages for a question, with their neighbours, without what the tail shows."""
    settings = config.recall
    seen = {(snapshot.thread.id, m.seq) for m in (*snapshot.repeated, *_tail(snapshot, config)) if not is_compacted(m)}
    wanted = Wanted(
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


async def read_passages(store: Store, resource: str, record: JsonObject) -> tuple[Passage, ...]:
    """Read the passages that a record of a context names."""
    recalled: list[list[Any]] = record.get("recalled", [])
    # Older records have no places: they left out the middle of a message.
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
    found = {message.seq: marker.place(said(message)) for message in messages}
    return {seq: place for seq, place in found.items() if place is not None}


def _tail(snapshot: Snapshot, config: Config) -> tuple[Message, ...]:
    return snapshot.tail if config.observe else snapshot.tail[-config.last_messages :]


def _is_shown(message: Message) -> bool:
    return message.state == "live" and not message.own and not message.pruned
