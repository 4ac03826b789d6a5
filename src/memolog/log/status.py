"""Compute the status of a thread from a snapshot: token counts, backlog, health and cost. Create events of windows and hints."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypeAlias

from memolog.core.config import Config
from memolog.core.observation import Scope
from memolog.core.run import UsageTotal
from memolog.core.thread import Hints
from memolog.events import Degraded, Event, HintsChanged, TitleChanged, Windows
from memolog.log.decide import breaker_is_open
from memolog.log.snapshot import Snapshot
from memolog.log.state import Asked, State, state_of
from memolog.text.html import html_table

Health: TypeAlias = Literal["ok", "behind", "failing"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """The tokens of the tail or of the log, and their limit."""

    tokens: int
    limit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """Token counts, backlog, health and cost of one thread."""

    resource: str
    thread: str
    scope: Scope
    health: Health
    messages: Window
    observations: Window
    buffered_groups: int
    buffered_tokens: int
    backlog_tokens: int
    """Tokens that are neither in the log nor in a buffered group."""
    groups: int
    generation: int
    cursor: int
    last_seq: int
    running: int
    failed: int
    breaker_open: bool
    failures: int
    last_success_at: datetime | None
    last_error_at: datetime | None
    last_error: str | None
    usage: UsageTotal
    unsaved: int = 0
    """How many messages this process has not been able to save yet. It tries again."""
    dropped: int = 0
    """How many observations reflections have dropped. Search still finds them, and `restore` activates them again."""
    live: int = 0
    """How many messages of the thread are neither withdrawn nor forgotten."""
    covered: int = 0
    """How many of the live messages the log covers."""
    budget_left: float | None = None
    """The US dollars left for observing, reflecting and embedding. 0 if the budget is spent, None if no budget is set."""

    def _repr_html_(self) -> str:
        rows = [
            ("thread", f"{self.thread} of {self.resource}"),
            ("health", self.health),
            ("messages", f"{self.messages.tokens:,} of {self.messages.limit:,} tokens"),
            ("observations", f"{self.observations.tokens:,} of {self.observations.limit:,} tokens"),
            ("not observed", f"{self.backlog_tokens:,} tokens"),
            ("log", f"{self.groups} groups, generation {self.generation}, {self.covered} of {self.live} messages"),
            ("last error", self.last_error),
            ("cost", f"{self.usage.requests} requests, ${self.usage.cost:.4f}"),
        ]
        return html_table(("", ""), rows)


def windows_of(snapshot: Snapshot, config: Config, now: datetime) -> Windows:
    """Return the event with the token counts and limits of the tail and the log."""
    state = state_of(snapshot, config, Asked())
    return Windows(
        at=now,
        resource=snapshot.resource,
        thread=snapshot.thread.id,
        message_tokens=state.tail_tokens,
        message_limit=config.threshold_for(state.log_tokens),
        observation_tokens=state.log_tokens,
        observation_limit=config.reflect_at,
        buffered_groups=len(snapshot.buffered),
        runs=len(snapshot.runs),
    )


def hint_events(snapshot: Snapshot, hints: Hints, now: datetime) -> list[Event]:
    """Return the events for new hints (current task, suggested response and title) of a thread."""
    resource, thread = snapshot.resource, snapshot.thread.id
    task, response = hints.current_task, hints.suggested_response
    events: list[Event] = [
        HintsChanged(at=now, resource=resource, thread=thread, current_task=task, suggested_response=response)
    ]
    if hints.title and hints.title != snapshot.thread.hints.title:
        events.append(TitleChanged(at=now, resource=resource, thread=thread, title=hints.title))
    return events


def _is_stuck(state: State) -> bool:
    """Return whether the run over the first messages of a tail has failed. No later group is activated before its result."""
    heads = {(tail.thread, tail.cursor + 1) for tail in state.tails}
    return any(
        (run.status == "failed" or run.attempt > 1) and run.span is not None and (run.thread, run.span.first) in heads
        for run in state.runs
    )


def outage_of(snapshot: Snapshot, config: Config, asked: Asked) -> str | None:
    """Return the last error if runs fail and the tail exceeds the limit at which turns wait for the model. Else return None."""
    if not snapshot.log.failures:
        return None
    state = state_of(snapshot, config, asked)
    is_behind = state.seen_tokens > config.block_at_for(state.log_tokens)
    return snapshot.log.last_error or "no answer" if is_behind else None


def status_of(
    snapshot: Snapshot,
    config: Config,
    usage: UsageTotal,
    now: datetime,
    factor: float,
    spent: float = 0.0,
    *,
    unsaved: int | None = None,
    trouble: Degraded | None = None,
    dropped: int = 0,
    live: tuple[int, int] = (0, 0),
) -> Status:
    """Return the status of a thread.

    `unsaved` is the number of messages that this process could not save, or None if there are none. `trouble` is the last failure
    in this process. `live` has the number of live messages, and how many of them the log covers.
    """
    state = state_of(snapshot, config, Asked(factor=factor))
    log = snapshot.log
    buffered = sum(tail.tokens_in(g.span) for tail in state.tails for g in state.ready if g.thread == tail.thread)
    is_open = breaker_is_open(log.failures, log.retry_at, now)
    limit = config.threshold_for(state.log_tokens)
    # With `observe=False` there is no log, so the thread is never behind.
    is_behind = config.observe and state.seen_tokens > config.block_at_for(state.log_tokens)
    is_failing = log.failures > 0 or _is_stuck(state) or unsaved is not None
    last_error_at, last_error = log.last_error_at, log.last_error
    if trouble is not None and (last_error_at is None or trouble.at > last_error_at):
        last_error_at, last_error = trouble.at, f"{trouble.what}: {trouble.error}"
    return Status(
        resource=snapshot.resource,
        thread=snapshot.thread.id,
        scope=snapshot.scope,
        health="failing" if is_failing else "behind" if is_behind else "ok",
        messages=Window(tokens=state.tail_tokens, limit=limit),
        observations=Window(tokens=state.log_tokens, limit=config.reflect_at),
        buffered_groups=len(snapshot.buffered),
        buffered_tokens=buffered,
        backlog_tokens=state.uncovered_tokens - buffered,
        groups=len(snapshot.groups),
        generation=log.generation,
        cursor=snapshot.cursor,
        last_seq=snapshot.thread.last_seq,
        running=sum(run.status == "running" for run in snapshot.runs),
        failed=sum(run.status == "failed" for run in snapshot.runs),
        breaker_open=is_open,
        failures=log.failures,
        last_success_at=log.last_success_at,
        last_error_at=last_error_at,
        last_error=last_error,
        usage=usage,
        unsaved=unsaved or 0,
        dropped=dropped,
        live=live[0],
        covered=live[1],
        budget_left=None if config.budget is None else max(0.0, config.budget - spent),
    )
