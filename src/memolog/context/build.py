"""Build a context from a view; the same view gives the same bytes.

The prefix and the note depend on the log alone, the tail on the messages, and only the edge on the present.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from memolog.context.edge import OTHERS, edge_blocks
from memolog.context.escape import element, escape, one_line
from memolog.context.pairs import is_compacted
from memolog.context.shortening import LEAST_SHOWN, shortened
from memolog.context.trim import ShownTail, TailCutter, show
from memolog.context.value import Block, Context, ContextMessage, Counts
from memolog.context.view import GroupView, View
from memolog.context.wording import CONTINUATION, CONTINUATION_ALIAS, PASSED_ALONG, USAGE, USAGE_DONE, USAGE_RESOURCE
from memolog.domain.message import Message
from memolog.domain.once import grown
from memolog.domain.pairs import is_question
from memolog.tokens import count_message, count_text, share

__all__ = ["build"]


def build(view: View) -> Context:
    """Return the context of a request: prefix, note, tail, what is passed along once, edge."""
    prefix, note = tuple(_prefix(view)), _note(view)
    passed = view.passed_tokens + sum(count_message(message, view.counter) for message in view.ephemeral)
    opening, fixed = note.tokens if note else 0, _sum(prefix)
    tail, edge = _fitted(view, fixed + opening + passed)
    return Context(
        blocks=prefix,
        note=note,
        tail=tail.messages,
        ephemeral=(*_forgotten(view), *map(ContextMessage.of, view.ephemeral)),
        edge=edge,
        tokens=Counts(prefix=fixed, tail=opening + tail.tokens, edge=passed + _sum(edge)),
        trimmed=tail.trimmed,
        shortened=_shortened(view, tail),
    )


def _prefix(view: View) -> Iterable[Block]:
    """Yield the blocks of the prefix. What an activation adds comes last, so that it only adds to the text."""
    if view.instructions and view.instructions.strip():
        yield _stable(view, "instructions", view.instructions)
    groups = _blocks(view.groups)
    kept = view.working_memory or ""
    if groups or kept.strip():
        usage = USAGE_DONE if view.assume_done else USAGE
        yield _stable(view, "usage", f"{usage}\n{USAGE_RESOURCE}" if view.scope == "resource" else usage)
    if kept.strip():
        yield _stable(view, "working-memory", element("working-memory", escape(kept)))
    yield from groups


def _add_blocks(blocks: tuple[Block, ...], groups: Sequence[GroupView]) -> tuple[Block, ...]:
    more = (
        Block(name=f"group {group.handle}", text=group.text, tokens=group.tokens, stable=True)
        for group in groups
        if group.text
    )
    return (*blocks, *more)


# A log grows at its end from one activation to the next.
_blocks = grown((), _add_blocks)


def _note(view: View) -> Block | None:
    if view.cursor <= 0:
        return None
    own = (
        f"\n{CONTINUATION_ALIAS.format(alias=one_line(view.alias))}" if view.alias and view.scope == "resource" else ""
    )
    return _stable(view, "continuation", CONTINUATION + own)


def _stable(view: View, name: str, text: str) -> Block:
    return Block(name=name, text=text, tokens=count_text(text, view.counter), stable=True)


def _forgotten(view: View) -> Iterable[ContextMessage]:
    """Yield a note in place of what was passed along once and is not kept."""
    if view.passed:
        yield ContextMessage.note(PASSED_ALONG.format(count=view.passed))


# ---------------------------------------------------------------- limits


def _fitted(view: View, fixed: int) -> tuple[ShownTail, tuple[Block, ...]]:
    """Return tail and edge, within the limit if there is one and as far as what must stay allows."""
    edge = edge_blocks(view, others_tokens=view.others_tokens)
    tail = show(*_sized(view, None), view.counter, view.before)
    if view.limit is None or fixed + tail.tokens + _sum(edge) <= view.limit:
        return tail, edge
    if view.recalled:
        # What was not asked for goes first.
        return _fitted(replace(view, recalled=()), fixed)
    if view.repeated and any(map(is_question, view.tail)):
        # Then what the log covers, once the user has asked something else.
        tail, edge = _fitted(replace(view, repeated=()), fixed)
        return replace(tail, trimmed=tail.trimmed + len(view.repeated)), edge
    room = view.limit - fixed
    most: int | None = None
    while True:
        tail, edge = _left_out(view, most, room, edge)
        if tail.tokens + _sum(edge) <= room or (most is not None and most <= LEAST_SHOWN):
            return tail, edge
        most = _next_size(view, tail, most, room - _sum(edge))


def _next_size(view: View, tail: ShownTail, most: int | None, room: int) -> int:
    """Return the next smaller size for a message, at which the shown rows may fit if each is cut alike.

    Sizes come from one ladder that depends on the limit alone, so that a message stays as it is shown from step to step.
    """
    shown = {row.seq for row in tail.rows}
    sizes = [message.tokens for message in (*view.repeated, *view.tail) if message.seq in shown]
    even = max(share(sizes, room), LEAST_SHOWN)
    size = (view.limit or 0) // 2 if most is None else most * 3 // 4
    while size > even:
        size = size * 3 // 4
    return size


def _left_out(view: View, most: int | None, room: int, edge: tuple[Block, ...]) -> tuple[ShownTail, tuple[Block, ...]]:
    """Return tail and edge without what can be left out, no message longer than `most`."""
    repeated, rows = _sized(view, most)
    cutter = TailCutter(
        repeated=repeated, tail=rows, counter=view.counter, before=view.before, unseen_from=view.unseen_from
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
    """Return what is repeated and the tail, no message longer than `most`; without it, those cut that break the limit alone.

    Where a message is cut depends on itself and the limit, not on what else there is: contexts go on extending each other.
    """
    limit, counter = view.limit, view.counter
    repeated = view.repeated
    if view.repeated_tokens is not None or most is not None:
        least = min(size for size in (view.repeated_tokens, most) if size is not None)
        # Repeated is repeated word for word, also where a summary would stand in its place.
        plain = (replace(m, level=0, injection=None) if is_compacted(m) else m for m in repeated)
        # A message that needs no change stays the very same: what follows from the tail that it opens is known then.
        repeated = tuple(shortened(message, least, counter) for message in plain)
    if limit is None:
        return repeated, view.tail
    over, size = (limit, limit // 2) if most is None else (most, most)
    if all(message.tokens <= over for message in view.tail):
        return repeated, view.tail
    return repeated, tuple(shortened(m, size, counter) if m.tokens > over else m for m in view.tail)


def _shortened(view: View, tail: ShownTail) -> int:
    """Return how many of the shown rows are not shown whole."""
    if view.limit is None and not view.repeated:
        return 0
    whole = {message.seq: message.parts for message in (*view.repeated, *view.tail)}
    return sum(row.parts is not whole[row.seq] for row in tail.rows)


def _sum(blocks: Iterable[Block]) -> int:
    return sum(block.tokens for block in blocks)
