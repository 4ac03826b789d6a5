"""Activation: which buffered groups enter the log.

Knows how to leave the tail nearest to its floor. Makes no model call and costs no time.
"""

from collections.abc import Sequence

from memolog.decide.state import Ready, State

__all__ = ["activatable", "choose"]

# An activation that empties the tail takes the last exchange from the model's eyes: some of it stays, if it can.
_LEAST_LEFT = 1_000
_OVERSHOOT = 0.95


def activatable(state: State) -> tuple[tuple[Ready, int], ...]:
    """Return the groups that continue their thread's cursor without a gap, oldest first, each with its raw tokens.

    A group over a message that no model has seen is not among them, nor is any group after it.
    """
    found: list[tuple[Ready, int]] = []
    ages: dict[str, float] = {}
    for tail in state.tails:
        next_seq = tail.cursor + 1
        for group in sorted((g for g in state.ready if g.thread == tail.thread), key=lambda g: g.span.first):
            if group.span.first != next_seq or not tail.is_seen(group.span.last):
                break
            first = next((w for w in tail.weights if w.seq >= group.span.first), None)
            # A group never comes before an earlier one of its thread, whatever the clocks said.
            age = first.at.timestamp() if first else 0.0
            ages[group.id] = max(age, max((ages[g.id] for g, _ in found if g.thread == tail.thread), default=age))
            found.append((group, tail.tokens_in(group.span)))
            next_seq = group.span.last + 1
    return tuple(sorted(found, key=lambda item: (ages[item[0].id], item[0].thread, item[0].span.first)))


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
