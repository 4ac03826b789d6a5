"""Proves that nothing was lost: every message is there word for word, and in front of the model or behind its log.

Knows what was said and asks the memory for it. Assumes nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from memolog.apps.demo.script import RESOURCE
from memolog.domain.message import NewMessage, parts_to_json
from memolog.runtime.memory import Memory
from memolog.store import Store
from memolog.store.snapshot import Snapshot

__all__ = ["Proof", "prove"]

_ALL = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """What was looked at, and what was found."""

    said: int
    word_for_word: int
    """How many messages are stored once, in their order, with the content that was said."""
    in_prompt: int
    behind_log: int
    """How many messages are inside a span that the log stands for."""

    @property
    def holds(self) -> bool:
        """Tell whether nothing was lost."""
        return self.said == self.word_for_word == self.in_prompt + self.behind_log


async def prove(memory: Memory, said: Mapping[str, Sequence[NewMessage]]) -> Proof:
    """Read everything back and compare it with what was said."""
    count = same = in_prompt = behind = 0
    store = (await memory.open()).store
    for thread, messages in said.items():
        rows = await store.messages.after(RESOURCE, thread, 0)
        count += len(messages)
        same += sum(
            (row.seq, row.id, row.role, parts_to_json(row.parts))
            == (number, one.id, one.role, parts_to_json(one.parts))
            for number, (row, one) in enumerate(zip(rows, messages, strict=False), start=1)
        )
        snapshot = await store.logs.snapshot(RESOURCE, thread, "thread")
        in_prompt += len({message.seq for message in snapshot.tail})
        behind += await _behind(store, snapshot)
    return Proof(said=count, word_for_word=same, in_prompt=in_prompt, behind_log=behind)


async def _behind(store: Store, snapshot: Snapshot) -> int:
    """Return how many messages the log stands for; none, if its spans leave a gap, overlap or end elsewhere."""
    log = snapshot.log
    spans: set[tuple[int, int]] = set()
    for generation in range(log.generation + 1):
        # What a reflection covers was in the log of the generation before it.
        groups = await store.logs.groups_at(snapshot.resource, log.pk, generation, entries=_ALL)
        spans |= {(group.span.first, group.span.last) for group in groups if group.span is not None}
    end = 0
    for first, last in sorted(spans):
        if first != end + 1:
            return 0
        end = last
    return end if end == snapshot.cursor else 0
