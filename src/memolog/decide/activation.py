"""Choose which buffered groups enter the log."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from memolog.decide.state import Ready, State, Tail

__all__ = ["activatable", "choose"]

# An activation that empties the tail takes the last exchange from the model's eyes: some of it stays, if it can.
_LEAST_LEFT = 1_000
_OVERSHOOT = 0.95
# A conversation in which something was said within this time may go on.
_RECENT = timedelta(hours=1)


def activatable(state: State, now: datetime) -> tuple[tuple[Ready, int], ...]:
    """Return the groups that continue their thread's cursor without a gap, oldest first, each with its raw tokens.

    A group over a message that no model has seen is not among them, nor is any group after it. Where threads share a log, the
    last answer of a conversation that goes on leaves after everything else, and that of the thread whose turn it is last of all.
    """
    found: list[tuple[Ready, int]] = []
    ages: dict[str, tuple[int, float]] = {}
    for tail in state.tails:
        next_seq = tail.cursor + 1
        for group in sorted((g for g in state.ready if g.thread == tail.thread), key=lambda g: g.span.first):
            if group.span.first != next_seq or not tail.is_seen(group.span.last):
                break
            first = next((w for w in tail.weights if w.seq >= group.span.first), None)
            # A group never comes before an earlier one of its thread, whatever the clocks said.
            age = (_place(state, tail, group.span.last, now), first.at.timestamp() if first else 0.0)
            ages[group.id] = max(age, max((ages[g.id] for g, _ in found if g.thread == tail.thread), default=age))
            found.append((group, tail.tokens_in(group.span)))
            next_seq = group.span.last + 1
    return tuple(sorted(found, key=lambda item: (ages[item[0].id], item[0].thread, item[0].span.first)))


def _place(state: State, tail: Tail, last: int, now: datetime) -> int:
    """Return 0 for a group that leaves when its age says, 1 or 2 if it ends after the last answer, which is to stay longer."""
    answers = [weight.seq for weight in tail.weights if weight.role == "assistant" and tail.is_seen(weight.seq)]
    if not answers or last < answers[-1]:
        return 0
    if tail.thread == state.thread:
        return 2
    return int(tail.weights[-1].at > now - _RECENT)


def choose(
    groups: Sequence[tuple[Ready, int]], tail_tokens: int, floor: int, *, at_least: int = 1
) -> tuple[Ready, ...]:
    """Return the first groups, as many as leave the tail nearest to the floor, but `at_least` so many.

    The fewest that reach the floor, unless that leaves far too little; then the most that stay above it.
    """
    target = tail_tokens - floor
    removed = 0
    for count, (_, tokens) in enumerate(groups, start=1):
        before, removed = removed, removed + tokens
        if removed < target:
            continue
        too_far = removed - target > _OVERSHOOT * floor or tail_tokens - removed < min(_LEAST_LEFT, floor)
        keep = count - 1 if too_far and (before > 0 or not at_least) else count
        return tuple(group for group, _ in groups[: max(at_least, keep)])
    return tuple(group for group, _ in groups)
