"""The rules of `decide`, in the order in which they are tried; the first that applies decides.

Each rule is a pure function of state, configuration and time. The table in `docs/architecture.md` is generated from `RULES`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Final, TypeAlias

from memolog.config import Config
from memolog.decide.activation import activatable, choose
from memolog.decide.backoff import breaker_is_open, is_due
from memolog.decide.decisions import (
    Activate,
    ActivateReflection,
    Buffer,
    Decision,
    Observe,
    Recover,
    Reflect,
    SpanOf,
    Trim,
    Wait,
)
from memolog.decide.slices import oldest_slice
from memolog.decide.spans import Stretch, free_stretch, longest_span
from memolog.decide.state import Entry, State

__all__ = ["RULES", "Rule", "decide"]

# One call may carry several short threads; more than this and a failure costs too much.
_BATCH_TOKENS = 10_000
# After a reflection the log must grow by this share of its limit before the next.
_GROWTH = 0.1

Test: TypeAlias = Callable[[State, Config, datetime], Decision | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One row of the table: what is done, when, in words, and the function that says so."""

    decision: type[Decision]
    when: str
    test: Test


def recover(state: State, config: Config, now: datetime) -> Recover | None:
    """Take over a run whose lease has ended, or try a failed one again when its time has come."""
    del config
    for flight in sorted(state.flights, key=lambda flight: (flight.span.first if flight.span else 0, flight.id)):
        if flight.status == "running" and flight.has_ended(now):
            return Recover(run=flight.id, fence=flight.fence, reason="its owner let the lease run out")
        if flight.status == "failed" and is_due(flight.retry_at, now) and is_due(state.retry_at, now):
            return Recover(run=flight.id, fence=flight.fence, reason=f"try {flight.attempt + 1} after a failure")
    return None


def activate(state: State, config: Config, now: datetime) -> Activate | None:
    """Move buffered groups into the log once the tail is full, or when that costs no cache."""
    if not state.may_activate or not state.ready:
        return None
    limit = config.threshold_for(state.log_tokens)
    is_by_hand = False
    if _is_full(state, config):
        reason = f"the tail has {state.uncovered_tokens:,} tokens, the limit is {limit:,}"
    elif "activate" in state.by_hand:
        reason, is_by_hand = "asked for by hand", True
    elif why := _free_of_charge(state, config, now):
        reason = why
    else:
        return None
    groups = activatable(state, now)
    if is_by_hand:
        chosen = tuple(group for group, _ in groups)
    elif state.seen_tokens > config.floor:
        # The floor is kept beside what is unseen. Only a tail that is full of seen messages must give something up.
        at_least = int(state.seen_tokens >= limit)
        chosen = choose(groups, state.seen_tokens, config.floor, at_least=at_least)
    else:
        return None
    return Activate(groups=tuple(group.id for group in chosen), reason=reason) if chosen else None


def activate_reflection(state: State, config: Config, now: datetime) -> ActivateReflection | None:
    """Let a buffered reflection take over once the log is full: below its limit the log keeps its detail."""
    del now
    if state.reflection is None or not state.may_activate:
        return None
    if state.log_tokens >= config.reflect_at:
        reason = f"the log has {state.log_tokens:,} tokens, the limit is {config.reflect_at:,}"
    elif state.by_hand & {"reflect", "activate_reflection"}:
        reason = "asked for by hand"
    else:
        return None
    return ActivateReflection(group=state.reflection.id, reason=reason)


def buffer(state: State, config: Config, now: datetime) -> Buffer | None:
    """Observe ahead of time, whenever the tail has grown by a step."""
    if _is_resting(state, now) or len(state.running("observe")) >= config.observation.parallel:
        return None
    step = _step(state, config)
    stretches = _stretches(state, apart_from=(step or 0) // 2)
    free = sum(stretch.tokens for stretch in stretches)
    # A long span must leave the floor: it can only be activated as a whole.
    most = min(config.threshold, max((step or 0) * 3 // 2, free - config.floor))
    hole = next((stretch for stretch in stretches if stretch.is_hole), None)
    if hole is not None:
        spans = _pick((hole,), config.threshold)
        reason = "finished observations wait for what comes before them"
    elif state.by_hand & {"buffer", "observe"} or (state.ending and config.buffer_on_idle):
        spans = _pick(stretches, config.threshold)
        reason = "asked for by hand" if state.by_hand else "the turn is over and the observer is idle"
    elif step is not None and free >= step:
        spans = _pick(stretches, most, step // 2)
        reason = f"{free:,} tokens are new since the last span, a step is {step:,}"
    elif _is_full(state, config) and not _is_underway(state) and (step is not None or not _is_own_full(state, config)):
        # Without buffering a turn observes its own thread in time, but waits for no other thread.
        spans = _pick(stretches, most, (step or 0) // 2)
        reason = f"the tail has {state.uncovered_tokens:,} tokens and nothing is buffered"
    else:
        return None
    return Buffer(spans=spans, reason=reason) if spans else None


def observe(state: State, config: Config, now: datetime) -> Observe | None:
    """Wait for an observation, but only far above the limit, with nothing to activate and a model that answers.

    A turn waits for its own thread alone, and only for what could be activated then: what a model has seen, above the floor.
    """
    if not state.may_wait or breaker_is_open(state.failures, state.retry_at, now):
        return None
    limit = config.block_at_for(state.log_tokens)
    if config.buffer_step is None:
        # Nothing is observed ahead of time, so it is observed in time.
        limit = config.threshold_for(state.log_tokens)
    own, is_by_hand = state.own_tail, "observe" in state.by_hand
    can_help = own.tokens >= limit and own.seen_tokens > config.floor
    if not (can_help or is_by_hand) or activatable(state, now):
        return None
    reason = f"the tail has {own.tokens:,} tokens, a turn waits from {limit:,} on"
    under_way = sorted(state.running("observe"), key=lambda flight: flight.id)
    tails = {tail.thread: tail for tail in (state.tails if is_by_hand else (own,))}
    for flight in under_way:
        tail = tails.get(flight.thread or "")
        if tail is not None and flight.span is not None and flight.span.first == tail.cursor + 1:
            return Observe(run=flight.id, spans=(), reason=reason) if tail.is_seen(flight.span.last) else None
    if _is_resting(state, now):
        return None
    if len(under_way) >= config.observation.parallel:
        # A message was taken back, and what is left before these runs finds no place: the first that ends makes room.
        return Observe(run=under_way[0].id, spans=(), reason=reason)
    most = config.threshold if is_by_hand else min(config.threshold, own.seen_tokens - config.floor)
    seen = tuple(stretch for stretch in _stretches(state, apart_from=0) if stretch.thread in tails and stretch.is_seen)
    spans = _pick(seen, most)
    return Observe(run=None, spans=spans, reason=reason) if spans else None


def reflect(state: State, config: Config, now: datetime) -> Reflect | None:
    """Condense the oldest part of the log ahead of time; wait for it only far above the limit."""
    by_hand = "reflect" in state.by_hand
    if state.reflection is not None or _is_resting(state, now):
        return None
    is_urgent = state.log_tokens >= config.reflect_block_at
    may_wait = state.may_wait and (is_urgent or by_hand) and not breaker_is_open(state.failures, state.retry_at, now)
    for flight in state.flights:
        if flight.kind == "reflect":
            waiting = may_wait and flight.status == "running"
            return Reflect(run=flight.id, groups=(), reason=_full(state, config), wait=True) if waiting else None
    if not by_hand:
        is_untried = state.generation == 0 and not state.settled_at
        has_grown = is_untried or state.log_tokens >= state.settled_at + _GROWTH * config.reflect_at
        if state.log_tokens < config.reflect_background_at or not has_grown:
            return None
        if not is_urgent and not _all_observed_once(state):
            return None
    groups = oldest_slice(state, config, now)
    if by_hand and _is_condensed(groups):
        groups = state.entries
    # What was condensed before, with nothing added to it, is condensed again only if the log would not fit otherwise.
    if _is_condensed(groups) and (by_hand or not groups or state.log_tokens < config.reflect_at):
        return None
    if not (by_hand or is_urgent) and sum(entry.tokens for entry in groups) < _GROWTH * config.reflect_at:
        # A line or two cannot be said any shorter: a slice is worth a call once it weighs something.
        return None
    reason = "asked for by hand" if by_hand else _full(state, config)
    return Reflect(groups=tuple(entry.id for entry in groups), reason=reason, wait=may_wait)


def trim(state: State, config: Config, now: datetime) -> Trim | None:
    """Cut the context when a hard limit is set and everything else has failed to keep it."""
    total = state.tail_tokens + state.log_tokens
    if config.context_tokens is None or total <= config.context_tokens:
        return None
    reason = f"the context has {total:,} tokens, the hard limit is {config.context_tokens:,}"
    return Trim(limit=config.context_tokens, reason=_rest(state, now) + reason)


def wait(state: State, config: Config, now: datetime) -> Wait:
    """Do nothing: the context is good as it is."""
    limit = config.threshold_for(state.log_tokens)
    sizes = f"tail {state.tail_tokens:,} of {limit:,}, log {state.log_tokens:,} of {config.reflect_at:,}"
    if _is_resting(state, now):
        return Wait(reason=_rest(state, now) + sizes)
    return Wait(reason=f"{sizes}, {len(state.ready)} buffered, {len(state.flights)} under way")


RULES: Final[tuple[Rule, ...]] = (
    Rule(decision=Recover, when="a run's lease has ended, or a failed run's time has come", test=recover),
    Rule(
        decision=Activate, when="groups are buffered and the tail is full, or the cache is cold anyway", test=activate
    ),
    Rule(
        decision=ActivateReflection,
        when="a reflection is buffered and the log is full",
        test=activate_reflection,
    ),
    Rule(decision=Buffer, when="the tail has grown by a step since the last span", test=buffer),
    Rule(decision=Observe, when="this thread's tail is far too full and nothing can be activated", test=observe),
    Rule(decision=Reflect, when="the log is half full", test=reflect),
    Rule(decision=Trim, when="a hard limit is set and still exceeded", test=trim),
    Rule(decision=Wait, when="nothing of this applies", test=wait),
)


def decide(state: State, config: Config, now: datetime) -> Decision:
    """Return the first decision that a rule comes to."""
    for rule in RULES:
        decision = rule.test(state, config, now)
        if decision is not None:
            return decision
    raise AssertionError("the last rule always decides")


# ---------------------------------------------------------------- parts of rules


def _is_resting(state: State, now: datetime) -> bool:
    """Return whether no new run may start: the model failed, and its time has not come or a failed run goes first."""
    return breaker_is_open(state.failures, state.retry_at, now)


def _rest(state: State, now: datetime) -> str:
    """Say, before a reason, why nothing is observed now."""
    return f"the observer is given a rest after {state.failures} failures; " if _is_resting(state, now) else ""


def _is_underway(state: State) -> bool:
    return bool(state.ready or [flight for flight in state.flights if flight.kind == "observe"])


def _is_condensed(groups: tuple[Entry, ...]) -> bool:
    return not groups or (len(groups) == 1 and groups[0].is_reflection)


def _full(state: State, config: Config) -> str:
    return f"the log has {state.log_tokens:,} tokens, of {config.reflect_at:,}"


def _free_of_charge(state: State, config: Config, now: datetime) -> str | None:
    """Say why rewriting the prompt costs nothing now: the cache is cold, and nothing was activated since."""
    asked, activated = state.last_request_at, state.last_activation_at
    if asked is None or (activated is not None and activated > asked):
        return None
    if config.activate_on_model_change and state.has_other_model:
        return f"the model changed from {state.last_model} to {state.model}"
    idle = (now - asked).total_seconds()
    if state.cache_seconds is not None and idle > state.cache_seconds:
        return f"no request for {idle:,.0f} s, so the prompt cache is cold"
    return None


def _step(state: State, config: Config) -> int | None:
    """Return how much the tail grows between two spans: half as much once the limit is near, more while runs are under way.

    An observer that is still busy is falling behind: longer spans then free more of the tail each, and an agent that outruns
    its observer is held up less often. A quarter is what a model of steps of 2,000 tokens and answers of 0.5 to 2 s came to.
    """
    step, busy = config.buffer_step, len(state.running("observe"))
    if step is None:
        return None
    if busy:
        return step * (4 + busy) // 4
    is_near = state.uncovered_tokens >= config.threshold_for(state.log_tokens) - step
    return max(1, step // 2) if is_near else step


def _is_full(state: State, config: Config) -> bool:
    return state.uncovered_tokens >= config.threshold_for(state.log_tokens)


def _is_own_full(state: State, config: Config) -> bool:
    return state.own_tail.tokens >= config.threshold_for(state.log_tokens)


def _stretches(state: State, *, apart_from: int) -> tuple[Stretch, ...]:
    """Return what is free in each thread, the oldest message first.

    Seen messages of at least `apart_from` tokens stand alone, so that the log can take them while the others are still unseen.
    """
    free = (free_stretch(state, tail, apart_from=apart_from) for tail in state.tails)
    found = [stretch for stretch in free if stretch.weights]
    return tuple(sorted(found, key=lambda stretch: (stretch.weights[0].at, stretch.thread)))


def _pick(stretches: tuple[Stretch, ...], most: int, least: int = 0) -> tuple[SpanOf, ...]:
    """Return the spans of one call: one long one, or several threads' short ones."""
    picked: list[SpanOf] = []
    total = 0
    for stretch in stretches:
        span = longest_span(stretch, most, least) if not picked else longest_span(stretch, _BATCH_TOKENS)
        if span is None:
            continue
        tokens = sum(weight.tokens for weight in stretch.weights if weight.seq in span)
        if picked and total + tokens > _BATCH_TOKENS:
            break
        picked.append(SpanOf(thread=stretch.thread, span=span))
        total += tokens
    return tuple(picked)


def _all_observed_once(state: State) -> bool:
    return state.scope == "thread" or all(tail.hinted or not tail.weights for tail in state.tails)
