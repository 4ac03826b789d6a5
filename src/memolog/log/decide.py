"""Decide what to do next for a log. `RULES` is a table of rules, and the first rule that applies decides.

Each rule is a pure function of state, configuration and time. The table in `docs/architecture.md` is generated from `RULES`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import takewhile
from operator import attrgetter
from typing import Final, NamedTuple, TypeAlias

from memolog.core.config import Config
from memolog.core.model_names import canonical_model
from memolog.core.observation import Span
from memolog.core.pairs import OpenCalls
from memolog.log.snapshot import GroupRow
from memolog.log.state import (
    Activate,
    ActivateReflection,
    Buffer,
    Decision,
    Observe,
    ReadyGroup,
    Recover,
    Reflect,
    SpanOf,
    State,
    Tail,
    Trim,
    Wait,
    Weight,
    scaled_sum,
)
from memolog.text.dates import duration

# An activation leaves at least this many tokens in the tail if possible, so that the model still sees the last exchange.
_LEAST_LEFT = 1_000
# If possible, the tokens left in the tail are below the floor by at most this share of the floor.
_OVERSHOOT = 0.95
# A thread with a message younger than this counts as active.
_RECENT = timedelta(hours=1)

# Seconds until the retry after the first failure, doubled with each failure up to the maximum, times a random factor.
_FIRST_SECONDS = 2.0
_LONGEST_SECONDS = 600.0
_LEAST_FACTOR, _MOST_FACTOR = 0.75, 1.25

# One model call can observe short spans of several threads. Together they have at most this many tokens, because a failed call
# loses all of them.
_BATCH_TOKENS = 10_000
# After a reflection the log must grow by at least this share of its limit before the next reflection.
_GROWTH = 0.1

_OPENS: Callable[[Weight], tuple[str, ...]] = attrgetter("opens")

Test: TypeAlias = Callable[[State, Config, datetime], Decision | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One row of the table: a decision, its condition in words, and the function that checks the condition."""

    decision: type[Decision]
    when: str
    test: Test


class FreeStretch(NamedTuple):
    """Consecutive messages of a thread that belong to no buffered group and no run.

    A named tuple, because a shared log has one for each of its threads in every turn.
    """

    thread: str
    weights: tuple[Weight, ...]
    is_hole: bool
    """Whether a group or a run over later messages exists. That group cannot be activated before this stretch is observed."""
    is_seen: bool = True
    """False if the stretch contains a message that no model has seen."""
    factor: float = 1.0
    """The calibration factor, as in `Tail`."""
    known_tokens: int | None = None
    """The tokens of the stretch, if they are known."""

    @property
    def tokens(self) -> int:
        """Return the tokens of the stretch."""
        return scaled_sum(self.weights, self.factor) if self.known_tokens is None else self.known_tokens


def recover(state: State, config: Config, now: datetime) -> Recover | None:
    """Take over a run whose lease has ended, or retry a failed run whose retry is due.

    If background runs are left to a worker, a turn does so only if the tail or the log is so large that turns wait.
    """
    if not (state.asked.may_start or _is_urgent(state, config)):
        return None
    for run in sorted(state.runs, key=lambda run: (run.span.first if run.span else 0, run.id)):
        if run.status == "running" and (run.is_silent or run.lease_until <= now):
            return Recover(run=run.id, fence=run.fence, reason="the lease of its owner has ended")
        if run.status == "failed" and is_due(run.retry_at, now) and is_due(state.log.retry_at, now):
            return Recover(run=run.id, fence=run.fence, reason=f"try {run.attempt + 1} after a failure")
    return None


def activate(state: State, config: Config, now: datetime) -> Activate | None:
    """Move buffered groups into the log when the tail is full, or when the prompt cache is lost anyway."""
    if not state.asked.may_activate or not state.ready:
        return None
    limit = config.threshold_for(state.log_tokens)
    is_by_hand = False
    if _is_full(state, config):
        reason = f"the tail has {state.uncovered_tokens:,} tokens, the limit is {limit:,}"
    elif "activate" in state.asked.by_hand:
        reason, is_by_hand = "asked for by hand", True
    elif why := _free_of_charge(state, config, now):
        reason = why
    else:
        return None
    groups = activatable(state, now)
    if state.own_tail.is_backlog and not is_by_hand:
        groups = groups[:1] if _has_room(state, config) else ()
    if is_by_hand:
        chosen = tuple(group for group, _ in groups)
    elif state.seen_tokens > config.floor:
        # Only seen messages count towards the floor. If they alone reach the limit, at least one group is activated.
        at_least = int(state.seen_tokens >= limit)
        chosen = choose(groups, state.seen_tokens, config.floor, at_least=at_least)
    else:
        return None
    return Activate(groups=tuple(group.id for group in chosen), reason=reason) if chosen else None


def _has_room(state: State, config: Config) -> bool:
    """Return whether the log can take another group of a backlog, which must not fill the log faster than it is condensed.

    The tokens of the next group are not known yet, so it is assumed to be like the largest one in the log.
    """
    largest = max((entry.tokens for entry in state.entries if entry.kind == "observer"), default=0)
    until_reflected = state.log.settled_tokens + round(_GROWTH * config.reflect_at)
    most = max(config.reflect_block_at - state.scaled(largest), until_reflected)
    return state.log_tokens < most


def activate_reflection(state: State, config: Config, now: datetime) -> ActivateReflection | None:
    """Activate a buffered reflection when the log is full. A log below its limit keeps its details."""
    del now
    if state.reflection is None or not state.asked.may_activate:
        return None
    if state.log_tokens >= config.reflect_at:
        reason = f"the log has {state.log_tokens:,} tokens, the limit is {config.reflect_at:,}"
    elif state.asked.by_hand & {"reflect", "activate_reflection"}:
        reason = "asked for by hand"
    else:
        return None
    return ActivateReflection(group=state.reflection.id, reason=reason)


def buffer(state: State, config: Config, now: datetime) -> Buffer | None:
    """Observe in the background whenever the tail has grown by a step."""
    is_busy = len(state.running("observe")) >= config.observation.parallel
    if _is_resting(state, now) or is_busy or not state.asked.may_start:
        return None
    step = _step(state, config)
    stretches = _stretches(state, apart_from=(step or 0) // 2)
    tokens = [stretch.tokens for stretch in stretches]
    free = sum(tokens)
    # A group is activated as a whole, so a span that is longer than usual must leave at least the floor in the tail.
    # Half a step starts a run near the limit, but does not shorten its span, because each run repeats the instructions.
    most = min(config.threshold, max(max(step or 0, config.buffer_step or 0) * 3 // 2, free - config.floor))
    hole = next((stretch for stretch in stretches if stretch.is_hole), None)
    if hole is not None:
        spans = _pick((hole,), config.threshold)
        reason = "buffered groups wait until earlier messages are observed"
    elif state.asked.by_hand & {"buffer", "observe"} or (state.asked.ending and config.buffer_on_idle):
        spans = _pick(stretches, config.threshold)
        reason = "asked for by hand" if state.asked.by_hand else "the turn is over and the observer is idle"
    elif step is not None and free >= (step := filled_step(tokens, step, config.threshold_for(state.log_tokens))):
        spans = _pick(stretches, most, step // 2)
        reason = f"{free:,} tokens are new since the last span, a step is {step:,}"
    elif _is_full(state, config) and not state.ready and not any(run.kind == "observe" for run in state.runs):
        own = state.own_tail
        if step is None and not own.is_backlog and own.tokens >= config.threshold_for(state.log_tokens):
            # Without a buffer step a turn waits for its own thread (rule `observe`), so only other threads are observed here.
            return None
        spans = _pick(stretches, most, (step or 0) // 2)
        reason = f"the tail has {state.uncovered_tokens:,} tokens and nothing is buffered"
    else:
        return None
    return Buffer(spans=spans, reason=reason) if spans else None


def observe(state: State, config: Config, now: datetime) -> Observe | None:
    """Wait for an observation if the tail is far above its limit, nothing can be activated, and the model has not just failed.

    A turn waits for its own thread only, and only if the result can be activated: the messages are seen and exceed the floor.
    """
    if not state.asked.may_wait or _is_resting(state, now):
        return None
    limit = config.block_at_for(state.log_tokens)
    if config.buffer_step is None:
        # Without buffering, observe as soon as the tail is full.
        limit = config.threshold_for(state.log_tokens)
    own, is_by_hand = state.own_tail, "observe" in state.asked.by_hand
    can_help = own.tokens >= limit and own.seen_tokens > config.floor and not own.is_backlog
    if not (can_help or is_by_hand) or activatable(state, now):
        return None
    reason = f"the tail has {own.tokens:,} tokens, a turn waits from {limit:,} on"
    under_way = sorted(state.running("observe"), key=lambda run: run.id)
    tails = {tail.thread: tail for tail in (state.tails if is_by_hand else (own,))}
    for run in under_way:
        tail = tails.get(run.thread or "")
        if tail is not None and run.span is not None and run.span.first == tail.cursor + 1:
            return Observe(run=run.id, spans=(), reason=reason) if tail.is_seen(run.span.last) else None
    if len(under_way) >= config.observation.parallel:
        # After a withdrawal the messages before these runs must be observed again, but no further run may start. Wait for a run.
        return Observe(run=under_way[0].id, spans=(), reason=reason)
    most = config.threshold if is_by_hand else min(config.threshold, own.seen_tokens - config.floor)
    seen = tuple(stretch for stretch in _stretches(state, apart_from=0) if stretch.thread in tails and stretch.is_seen)
    spans = _pick(seen, most)
    return Observe(run=None, spans=spans, reason=reason) if spans else None


def reflect(state: State, config: Config, now: datetime) -> Reflect | None:
    """Condense the oldest part of the log in the background. Wait for the result only if the log is far above its limit."""
    by_hand = "reflect" in state.asked.by_hand
    if state.reflection is not None or _is_resting(state, now):
        return None
    is_urgent = state.log_tokens >= config.reflect_block_at
    may_wait = state.asked.may_wait and ((is_urgent and not state.own_tail.is_backlog) or by_hand)
    if not (state.asked.may_start or may_wait):
        return None
    for run in state.runs:
        if run.kind == "reflect":
            waiting = may_wait and run.status == "running"
            return Reflect(run=run.id, groups=(), reason=_full(state, config), wait=True) if waiting else None
    if not by_hand:
        if not may_reflect(config, state.log.generation, state.log_tokens, state.log.settled_tokens):
            return None
        # A shared log is not reflected before each of its threads was observed once.
        is_new = state.scope == "resource" and any(tail.weights and not tail.hinted for tail in state.tails)
        if is_new and not is_urgent:
            return None
    groups = condensable(state, config, now)
    if not groups:
        return None
    reason = "asked for by hand" if by_hand else _full(state, config)
    room = _room(state, config, groups)
    return Reflect(groups=tuple(entry.id for entry in groups), reason=reason, wait=may_wait, room=room)


def trim(state: State, config: Config, now: datetime) -> Trim | None:
    """Shorten the context if a hard limit is set and the context still exceeds the limit, or while a backlog is observed."""
    total = state.tail_tokens + state.file_tokens + state.log_tokens
    if config.context_tokens is None or total <= config.context_tokens:
        if not state.own_tail.is_backlog:
            return None
        limit = config.block_at_for(state.log_tokens)
        reason = f"imported messages are not observed yet, so the tail is cut to {limit:,} tokens"
        return Trim(limit=limit, reason=_rest(state, now) + reason)
    reason = f"the context has {total:,} tokens, the hard limit is {config.context_tokens:,}"
    return Trim(limit=config.context_tokens, reason=_rest(state, now) + reason)


def wait(state: State, config: Config, now: datetime) -> Wait:
    """Do nothing, and use the context as it is."""
    limit = config.threshold_for(state.log_tokens)
    sizes = f"tail {state.tail_tokens:,} of {limit:,}, log {state.log_tokens:,} of {config.reflect_at:,}"
    if _is_resting(state, now):
        return Wait(reason=_rest(state, now) + sizes)
    return Wait(reason=f"{sizes}, {len(state.ready)} buffered, {len(state.runs)} under way")


RULES: Final[tuple[Rule, ...]] = (
    Rule(decision=Recover, when="a run's lease has ended, or a failed run may be retried", test=recover),
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
    Rule(decision=Trim, when="a hard limit is set and still exceeded, or an import is not observed yet", test=trim),
    Rule(decision=Wait, when="no other rule applies", test=wait),
)


def decide(state: State, config: Config, now: datetime) -> Decision:
    """Return the decision of the first rule that applies."""
    for rule in RULES:
        decision = rule.test(state, config, now)
        if decision is not None:
            return decision
    raise AssertionError("the last rule always decides")


# ---------------------------------------------------------------- parts of rules


def _is_resting(state: State, now: datetime) -> bool:
    """Return whether no new run may start, because the model failed and the next attempt is not due yet."""
    return breaker_is_open(state.log.failures, state.log.retry_at, now)


def _rest(state: State, now: datetime) -> str:
    """Return the beginning of a reason, which names the failures, if no run may start because of them. Else return ""."""
    return f"the observer waits after {state.log.failures} failures; " if _is_resting(state, now) else ""


def _is_condensed(groups: tuple[GroupRow, ...]) -> bool:
    return not groups or (len(groups) == 1 and groups[0].kind == "reflection")


def may_reflect(config: Config, generation: int, tokens: int, settled: int) -> bool:
    """Return whether a log is large enough to be reflected, and has grown since it had its `settled` tokens."""
    is_untried = generation == 0 and not settled
    return tokens >= config.reflect_background_at and (is_untried or tokens >= settled + _GROWTH * config.reflect_at)


def condensable(state: State, config: Config, now: datetime) -> tuple[GroupRow, ...]:
    """Return the groups of a new reflection: the oldest ones, without earlier reflections if the log fits with them.

    Return () if a reflection is not worth a model call.
    """
    groups, by_hand = oldest_slice(state, config, now), "reflect" in state.asked.by_hand
    if by_hand:
        groups = state.entries if _is_condensed(groups) else groups
    elif _fits_after(state, config, groups):
        groups = groups[len(_head(groups)) :]
    # A single reflection is condensed again only if the log would not fit otherwise.
    if _is_condensed(groups) and (by_hand or state.log_tokens < config.reflect_at):
        return ()
    # A few observations can hardly be shortened.
    is_small = state.scaled(sum(entry.tokens for entry in groups)) < _GROWTH * config.reflect_at
    return () if is_small and not by_hand and state.log_tokens < config.reflect_block_at else groups


def _head(groups: tuple[GroupRow, ...]) -> tuple[GroupRow, ...]:
    """Return the reflections at the beginning of some groups."""
    return tuple(takewhile(lambda group: group.kind == "reflection", groups))


def _fits_after(state: State, config: Config, groups: tuple[GroupRow, ...]) -> bool:
    """Return whether the log will fit if the reflections at the beginning of `groups` stay as they are.

    Then they are not condensed again, because that would change the beginning of every context, and cost time in proportion to
    the whole log instead of to what is new.
    """
    new = sum(group.tokens for group in groups[len(_head(groups)) :])
    rest = sum(group.tokens for group in state.entries) - new
    return new > 0 and state.scaled(rest + config.reflection_target_for(new)) <= config.reflect_at


def _room(state: State, config: Config, groups: tuple[GroupRow, ...]) -> int | None:
    """Return the tokens that the log has room for in place of `groups`. None if older reflections precede them.

    The oldest lines leave a log first, so a reflection that does not begin with them moves no line to the archive. The log should
    have room to grow afterwards, so that the next reflections can leave this one as it is. But half of the log is always there
    for lines that must be kept, because the recent groups take up at most the other half.
    """
    if groups[0] is not state.entries[0]:
        return None
    rest = sum(group.tokens for group in state.entries) - sum(group.tokens for group in groups)
    return max(
        state.counted(config.reflect_at // 2), state.counted(round((1 - 2 * _GROWTH) * config.reflect_at)) - rest
    )


def _full(state: State, config: Config) -> str:
    return f"the log has {state.log_tokens:,} tokens, of {config.reflect_at:,}"


def _free_of_charge(state: State, config: Config, now: datetime) -> str | None:
    """Return why the provider's prompt cache is lost anyway, so that an activation costs nothing. None if the cache may be warm.

    After an activation there must be a request before the next activation is free.
    """
    asked, activated = state.thread.last_request_at, state.last_activation_at
    if asked is None or (activated is not None and activated > asked):
        return None
    model, last = state.asked.model, state.thread.last_model
    # Two names of one model do not differ.
    is_other = model and last and canonical_model(model) != canonical_model(last)
    if config.activate_on_model_change and is_other:
        return f"the model changed from {last} to {model}"
    idle = (now - asked).total_seconds()
    if state.cache_seconds is not None and idle > state.cache_seconds:
        return f"no request for {duration(idle)}, so the prompt cache is cold"
    return None


def _step(state: State, config: Config) -> int | None:
    """Return how many tokens the tail must grow before the next span is observed. None if buffering is off.

    The result is that of `next_step`, or longer than `buffer_step` by a quarter for each running run. With longer spans an
    observer that falls behind catches up faster, so that turns wait less often. A quarter was the best value in a simulation with
    steps of 2,000 tokens and answers of 0.5 to 2 s.
    """
    step, busy = config.buffer_step, len(state.running("observe"))
    if step is None or busy:
        return None if step is None else step * (4 + busy) // 4
    return next_step(config, log=state.log_tokens, uncovered=state.uncovered_tokens, taken=state.taken_tokens)


def next_step(config: Config, *, log: int, uncovered: int, taken: int) -> int | None:
    """Return how many tokens the tail must grow before the next span is observed, if no run is under way. None: never.

    The result is `buffer_step`, or half of it close to the limit, unless the buffered groups suffice for an activation. `log` has
    the tokens of the log, `uncovered` those of all messages that the log does not cover, `taken` those in buffered groups.
    """
    step, limit = config.buffer_step, config.threshold_for(log)
    if step is None:
        return None
    return max(1, step // 2) if uncovered >= limit - step and taken <= limit - config.floor else step


def filled_step(tokens: Sequence[int], step: int, limit: int) -> int:
    """Return the step for stretches with these tokens. Short stretches of several threads wait until one call is full.

    Each call repeats the instructions and the end of the log. Every thread has a group of its own, so a larger step does not make
    the groups larger. `limit` has the tokens at which the tail is full.
    """
    is_batch = len(tokens) > 1 and max(tokens) < step // 2
    return max(step, min(_BATCH_TOKENS, limit // 3)) if is_batch else step


def _is_urgent(state: State, config: Config) -> bool:
    """Return whether the tail of the thread or the log is so large that a turn may wait for a model."""
    limit = config.block_at_for(state.log_tokens) if config.buffer_step is not None else config.threshold
    return state.own_tail.tokens >= limit or state.log_tokens >= config.reflect_block_at


def _is_full(state: State, config: Config) -> bool:
    return state.uncovered_tokens >= config.threshold_for(state.log_tokens)


def _stretches(state: State, *, apart_from: int) -> tuple[FreeStretch, ...]:
    """Return the free stretch of each thread, sorted by the time of its first message. `free_stretch` explains `apart_from`."""
    free = (free_stretch(state, tail, apart_from=apart_from) for tail in state.tails)
    found = [stretch for stretch in free if stretch.weights]
    return tuple(sorted(found, key=lambda stretch: (stretch.weights[0].at, stretch.thread)))


def _pick(stretches: tuple[FreeStretch, ...], most: int, least: int = 0) -> tuple[SpanOf, ...]:
    """Return the spans of one model call: one long span, or short spans of several threads.

    `most` and `least` are the tokens of the first span, as in `longest_span`.
    """
    picked: list[SpanOf] = []
    total = 0
    for stretch in stretches:
        span = longest_span(stretch, most, least) if not picked else longest_span(stretch, _BATCH_TOKENS)
        if span is None:
            continue
        tokens = scaled_sum((weight for weight in stretch.weights if weight.seq in span), stretch.factor)
        if picked and total + tokens > _BATCH_TOKENS:
            break
        picked.append(SpanOf(thread=stretch.thread, span=span))
        total += tokens
    return tuple(picked)


def activatable(state: State, now: datetime) -> tuple[tuple[ReadyGroup, int], ...]:
    """Return the groups that can be activated, oldest first, each with the tokens of its messages.

    The groups of a thread continue its cursor without a gap and have no unseen message. In a shared log, groups with the last
    answer of an active thread come after all others, and the group with the last answer of the current thread comes last.
    """
    found: list[tuple[ReadyGroup, int]] = []
    ages: dict[str, tuple[int, float]] = {}
    by_thread: dict[str, list[ReadyGroup]] = {}
    for group in state.ready:
        by_thread.setdefault(group.thread, []).append(group)
    for tail in state.tails:
        next_seq = tail.cursor + 1
        for group in sorted(by_thread.get(tail.thread, ()), key=lambda g: g.span.first):
            if group.span.first != next_seq or not tail.is_seen(group.span.last):
                break
            first = next(iter(tail.between(group.span.first, None)), None)
            # The groups of one thread stay in their order even if the clocks of its messages differ.
            age = (_rank(state, tail, group.span.last, now), first.at.timestamp() if first else 0.0)
            ages[group.id] = max(age, max((ages[g.id] for g, _ in found if g.thread == tail.thread), default=age))
            found.append((group, tail.tokens_in(group.span)))
            next_seq = group.span.last + 1
    return tuple(sorted(found, key=lambda item: (ages[item[0].id], item[0].thread, item[0].span.first)))


def _rank(state: State, tail: Tail, last: int, now: datetime) -> int:
    """Return the rank of the group that ends at message `last`. Groups of a lower rank are activated first.

    The rank is 2 if the group contains the last answer of the current thread, 1 for that of another active thread, else 0.
    """
    answers = [weight.seq for weight in tail.weights if weight.role == "assistant" and tail.is_seen(weight.seq)]
    if not answers or last < answers[-1]:
        return 0
    if tail.thread == state.thread.id:
        return 2
    return int(tail.weights[-1].at > now - _RECENT)


def choose(
    groups: Sequence[tuple[ReadyGroup, int]], tail_tokens: int, floor: int, *, at_least: int = 1
) -> tuple[ReadyGroup, ...]:
    """Return the first groups, at least `at_least`, so that after their activation the tail is close to the floor.

    These are the fewest groups that bring the tail down to the floor. If they would leave far too little in the tail, the last of
    them is not returned.
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


def back_off(failures: int, jitter: float) -> float:
    """Return the seconds until the next attempt after `failures` failures in a row. `jitter` is a random number from 0 to 1."""
    base = min(_LONGEST_SECONDS, _FIRST_SECONDS * 2.0 ** min(max(0, failures - 1), 20))
    return base * (_LEAST_FACTOR + (_MOST_FACTOR - _LEAST_FACTOR) * jitter)


def is_due(retry_at: datetime | None, now: datetime) -> bool:
    """Return whether a retry is due.

    If `retry_at` is later than the longest back-off allows, the clock that set it was wrong, and the retry is due.
    """
    return retry_at is None or not timedelta(0) < retry_at - now <= timedelta(seconds=_LONGEST_SECONDS * _MOST_FACTOR)


def breaker_is_open(failures: int, retry_at: datetime | None, now: datetime) -> bool:
    """Return whether the model has failed and the next attempt is not due, so that no turn should wait for it."""
    return failures > 0 and not is_due(retry_at, now)


def oldest_slice(state: State, config: Config, now: datetime) -> tuple[GroupRow, ...]:
    """Return the groups of the log without the recent ones.

    A group is recent if it is from the last hours or contains some of the last observations (`keep_recent`). Recent groups have
    at most `keep_recent_at_most` tokens, because otherwise the log of a busy day could never be condensed.
    """
    since = now - timedelta(hours=config.reflection.keep_recent.hours)
    kept = observations = 0
    cut = len(state.entries)
    for entry in reversed(state.entries):
        is_recent = entry.last_at is not None and entry.last_at >= since
        is_among_last = observations < config.reflection.keep_recent.observations
        if entry.kind == "reflection" or not (is_recent or is_among_last):
            break
        if state.scaled(kept + entry.tokens) > config.keep_recent_at_most:
            break
        kept += entry.tokens
        observations += entry.observations
        cut -= 1
    return state.entries[:cut]


def closed_ends(weights: Sequence[Weight]) -> list[int]:
    """Return the positions after which a cut separates no tool call from its result.

    A call without a result before the next user message does not prevent a cut, with one exception. If its own turn answers the
    call while another turn is running, call and result stay together.
    """
    if not any(map(_OPENS, weights)):
        return list(range(len(weights)))
    reach = _reach(weights)
    ends: list[int] = []
    furthest = -1
    for position in range(len(weights)):
        furthest = max(furthest, reach[position])
        if furthest <= position:
            ends.append(position)
    return ends


def _reach(weights: Sequence[Weight]) -> list[int]:
    """Return for each message the last position that must stay together with it."""
    reach = list(range(len(weights)))
    waiting = OpenCalls()
    for position, weight in enumerate(weights):
        if weight.role == "user" and not weight.closes and not weight.is_gone:
            for opened, _ in waiting.since_question():
                reach[opened] = max(reach[opened], position)
            waiting.add_question(weight.turn)
        # A call whose result is in the same message does not depend on another message.
        within = set(weight.opens)
        for call in weight.closes:
            if (answered := waiting.answer(call, weight.turn)) is None:
                within.discard(call)
            elif answered.is_in_time:
                reach[answered.call[0]] = max(reach[answered.call[0]], position)
        for number, call in enumerate(weight.opens):
            if call in within:
                waiting.add(call, (position, number), weight.turn)
    for opened, _ in waiting.since_question():
        reach[opened] = len(weights)
    return reach


def free_stretch(state: State, tail: Tail, *, apart_from: int = 0) -> FreeStretch:
    """Return the first messages of a tail that belong to no buffered group and no run.

    If the messages before the first unseen message have at least `apart_from` tokens, the stretch ends before that message,
    because a group that contains only seen messages can be activated earlier.
    """
    taken = state.taken.get(tail.thread)
    if not taken and tail.weights and tail.unseen_from is None and not tail.later:
        # Most threads of a shared log are so.
        return FreeStretch(tail.thread, tail.weights, is_hole=False, factor=tail.factor, known_tokens=tail.tokens)
    taken = sorted(taken or (), key=lambda span: span.first)
    start, end, is_hole = tail.cursor + 1, None, False
    for span in taken:
        if span.first > start:
            end, is_hole = span.first - 1, True
            break
        start = max(start, span.last + 1)
    weights = tail.between(start, end)
    stretch = FreeStretch(thread=tail.thread, weights=weights, is_hole=is_hole, factor=tail.factor)
    if is_hole or not weights or tail.unseen_from is None or tail.is_seen(weights[-1].seq):
        return stretch
    seen = tail.between(start, tail.unseen_from - 1)
    ends = closed_ends(seen)
    closed = stretch._replace(weights=seen[: ends[-1] + 1] if ends else ())
    return closed if closed.weights and closed.tokens >= apart_from else stretch._replace(is_seen=False)


def longest_span(stretch: FreeStretch, most: int, least: int = 0) -> Span | None:
    """Return the longest span of at most `most` tokens at the start of a stretch. It separates no tool call from its result.

    A span of fewer than `least` tokens is extended to the next possible end, even beyond `most`. The shortest possible span is
    returned even if it exceeds `most`. None means that a tool call without a result allows no end yet. A span may always end at
    the end of a hole, because the next group or run begins there.
    """
    ends = closed_ends(stretch.weights)
    if stretch.is_hole and stretch.weights:
        ends = [*ends, len(stretch.weights) - 1]
    if not ends:
        return None
    chosen, total, position = ends[0], 0, 0
    for end in ends:
        before = total
        total += scaled_sum(stretch.weights[position : end + 1], stretch.factor)
        position = end + 1
        if total > most and end != ends[0] and before >= least:
            break
        chosen = end
    return Span(first=stretch.weights[0].seq, last=stretch.weights[chosen].seq)
