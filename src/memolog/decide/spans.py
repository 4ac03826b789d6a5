"""Choose which messages are observed next. Spans cover a thread without gap or overlap and keep tool pairs together."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from memolog.decide.state import State, Tail, Weight
from memolog.domain.observation import Span
from memolog.domain.pairs import OpenCalls

__all__ = ["Stretch", "closed_ends", "free_stretch", "longest_span"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """Consecutive messages of a thread that no span holds yet."""

    thread: str
    weights: tuple[Weight, ...]
    is_hole: bool
    """True where later messages have been observed already: nothing behind it can be activated before it is filled."""
    is_seen: bool = True
    """False where it holds a message that no model has seen."""

    @property
    def tokens(self) -> int:
        """Return what it weighs."""
        return sum(weight.tokens for weight in self.weights)


def closed_ends(weights: Sequence[Weight]) -> list[int]:
    """Return the positions after which a cut separates no tool call from its result.

    A call that was not answered before the next user message no longer holds a cut back, but for one whose own turn has
    answered it beside that of the user: the two stay together.
    """
    reach = _reach(weights)
    ends: list[int] = []
    held = -1
    for position in range(len(weights)):
        held = max(held, reach[position])
        if held <= position:
            ends.append(position)
    return ends


def _reach(weights: Sequence[Weight]) -> list[int]:
    """Return up to which position each message must stay with those after it."""
    reach = list(range(len(weights)))
    waiting = OpenCalls()
    for position, weight in enumerate(weights):
        if weight.role == "user" and not weight.closes and not weight.is_gone:
            for opened, _ in waiting.unasked():
                reach[opened] = max(reach[opened], position)
            waiting.ask(weight.turn)
        # A message that has a call and its result is whole by itself.
        within = set(weight.opens)
        for call in weight.closes:
            if (answered := waiting.answer(call, weight.turn)) is None:
                within.discard(call)
            elif answered.is_in_time:
                reach[answered.call[0]] = max(reach[answered.call[0]], position)
        for number, call in enumerate(weight.opens):
            if call in within:
                waiting.add(call, (position, number), weight.turn)
    for opened, _ in waiting.unasked():
        reach[opened] = len(weights)
    return reach


def free_stretch(state: State, tail: Tail, *, apart_from: int = 0) -> Stretch:
    """Return the first messages of a tail that neither a buffered group nor a run holds.

    It ends before the first unseen message if a span of at least `apart_from` tokens can end before it.
    """
    taken = sorted(state.taken.get(tail.thread, ()), key=lambda span: span.first)
    start, end, is_hole = tail.cursor + 1, None, False
    for span in taken:
        if span.first > start:
            end, is_hole = span.first - 1, True
            break
        start = max(start, span.last + 1)
    weights = tuple(w for w in tail.weights if w.seq >= start and (end is None or w.seq <= end))
    stretch = Stretch(thread=tail.thread, weights=weights, is_hole=is_hole)
    if is_hole or not weights or tail.is_seen(weights[-1].seq):
        return stretch
    seen = tuple(w for w in weights if tail.is_seen(w.seq))
    ends = closed_ends(seen)
    closed = replace(stretch, weights=seen[: ends[-1] + 1] if ends else ())
    return closed if closed.weights and closed.tokens >= apart_from else replace(stretch, is_seen=False)


def longest_span(stretch: Stretch, most: int, least: int = 0) -> Span | None:
    """Return the longest span from the start of a stretch that ends at a closed pair and weighs at most that much.

    One that would be lighter than `least` goes on to the next closed end, and one that is too heavy but cannot be shorter is
    returned all the same. None: nothing is closed yet. A hole is bounded by spans that were cut at closed pairs, so its end is
    closed as well.
    """
    ends = closed_ends(stretch.weights)
    if stretch.is_hole and stretch.weights:
        ends = [*ends, len(stretch.weights) - 1]
    if not ends:
        return None
    chosen, total, position = ends[0], 0, 0
    for end in ends:
        before = total
        while position <= end:
            total += stretch.weights[position].tokens
            position += 1
        if total > most and end != ends[0] and before >= least:
            break
        chosen = end
    return Span(first=stretch.weights[0].seq, last=stretch.weights[chosen].seq)
