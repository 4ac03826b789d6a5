"""Store the usage of models and the calibration of token counts.

The caller passes the costs. They are rounded to nanodollars, and a negative cost is stored as 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from memolog.core.clock import to_micros
from memolog.core.model_names import canonical_model
from memolog.core.run import USAGE_KINDS, Calibration, Usage, UsageTotal
from memolog.db.engine import TimedCalls, reads, writes
from memolog.db.queries import Row, Script, Step, load_queries
from memolog.db.rows import NANO
from memolog.db.scope import FIRST, check_ids, check_limit, check_number, check_optional_ids
from memolog.errors import InputError
from memolog.text.tokens import learn

q = load_queries("log/usage")

# Maximum tokens and US dollars of one request. Sums of thousands of such requests still fit into 64 bits.
_MOST_TOKENS = 10**15
_MOST_COST = 10**6
_COUNTS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageLine:
    """The usage of one model for one kind of work."""

    kind: str
    model: str
    total: UsageTotal


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadUsage:
    """The usage of one thread. `thread` is None for requests outside of threads, and for those of forgotten threads."""

    thread: str | None
    total: UsageTotal


@dataclass(frozen=True, slots=True, kw_only=True)
class Lesson:
    """The tokens of one request, as Memolog counted them and as the provider reported them, to calibrate a model with."""

    model: str
    counted: int
    reported: int
    thread: str | None = None
    """The thread whose last model is `model`. None if the last model of the thread is known already."""
    files: Mapping[int, int] = field(default_factory=dict[int, int])
    """The tokens of large files, by the number of the message. With files the factor does not change."""

    def learn(self, known: Calibration) -> Calibration:
        """Return the calibration after this request."""
        return known if self.files else learn(known, self.counted, self.reported)


class Ledger(TimedCalls):
    """Stores and sums usage, and stores calibrations. Every call is for one resource."""

    @writes("usage.add")
    def add(self, resource: str, usage: Usage) -> Script[None]:
        """Add one model request."""
        check_ids(resource=resource)
        check_usage(usage)
        yield usage_step(resource, usage, usage.run, self._now() if usage.at is None else to_micros(usage.at))

    async def lines(
        self,
        resource: str,
        *,
        thread: str | None = None,
        task: str | None = None,
        since: datetime | None = None,
    ) -> tuple[UsageLine, ...]:
        """Return the usage, one line for each kind of work and model."""
        check_ids(resource=resource)
        check_optional_ids(thread=thread, task=task)
        start = FIRST if since is None else to_micros(since)
        step = q.sum_usage(resource=resource, thread=thread, task=task, since=start)
        return await self.engine.fetch(step, _line)

    async def by_thread(
        self, resource: str, *, since: datetime | None = None, limit: int = 50
    ) -> tuple[ThreadUsage, ...]:
        """Return the usage of the threads that cost the most."""
        check_ids(resource=resource)
        start = FIRST if since is None else to_micros(since)
        step = q.sum_by_thread(resource=resource, since=start, limit=check_limit(limit))
        return await self.engine.fetch(step, lambda row: ThreadUsage(thread=row.thread, total=_total(row)))

    async def total(
        self,
        resource: str,
        *,
        thread: str | None = None,
        task: str | None = None,
        since: datetime | None = None,
    ) -> UsageTotal:
        """Return the total usage."""
        lines = await self.lines(resource, thread=thread, task=task, since=since)
        sums = {name: sum(getattr(line.total, name) for line in lines) for name in ("requests", *_COUNTS)}
        return UsageTotal(cost=sum(line.total.cost for line in lines), **sums)

    @reads
    def spent_outside(self, resource: str) -> Script[float]:
        """Return the cost of all requests but those of turns that belong to no thread of a resource."""
        check_ids(resource=resource)
        rows = yield q.sum_spent_outside(resource=resource)
        return int(rows[0].cost) / NANO

    @reads
    def calibration(self, resource: str, model: str) -> Script[Calibration]:
        """Return the calibration of a model. `model` may be any of its names. The factor is 1 if no calibration is stored."""
        check_ids(resource=resource, model=model)
        return (yield from _known_calibration(resource, canonical_model(model)))

    @writes("usage.calibrate")
    def calibrate(
        self, resource: str, model: str, learn: Callable[[Calibration], Calibration], *, thread: str | None = None
    ) -> Script[Calibration]:
        """Update the calibration of a model atomically: `learn` computes the new calibration from the stored one.

        If `thread` is passed, the model is stored as the last model of that thread.
        """
        return (yield from calibrating(resource, model, learn, thread=thread))


def calibrating(
    resource: str, model: str, learn: Callable[[Calibration], Calibration], *, thread: str | None = None
) -> Script[Calibration]:
    """Update the calibration of a model, as part of a larger script. `Ledger.calibrate` explains the arguments."""
    check_ids(resource=resource, model=model)
    check_optional_ids(thread=thread)
    name = canonical_model(model)
    if thread is not None:
        # First, because a transaction that also saves a message has locked the row of the thread already.
        yield q.set_last_model(resource=resource, thread=thread, model=model)
    rows = yield q.take_calibration(resource=resource, model=name)
    if not rows:
        known = yield from _known_calibration(resource, name)
        rows = yield q.start_calibration(resource=resource, model=name, factor=known.factor, samples=known.samples)
    new = learn(_calibration(rows[0]))
    yield q.put_calibration(resource=resource, model=name, factor=new.factor, samples=new.samples)
    return new


def check_usage(usage: Usage) -> None:
    """Raise InputError if the usage cannot be stored."""
    check_ids(model=usage.model)
    check_optional_ids(thread=usage.thread, task=usage.task, run=usage.run)
    for name in _COUNTS:
        count = check_number(name, getattr(usage, name), then="Pass what the provider reported, or leave it out.")
        if count > _MOST_TOKENS:
            raise InputError(
                f"`{name}` must be at most {_MOST_TOKENS:,}, got {count!r:.40}.", then="Pass the tokens of one request."
            )
    cost: object = getattr(usage, "cost")  # noqa: B009 - the value can have any type at run time
    # The comparison is also false for NaN.
    if isinstance(cost, bool) or not isinstance(cost, int | float) or not -_MOST_COST <= cost <= _MOST_COST:
        raise InputError(
            f"`cost` must be a number of dollars up to {_MOST_COST:,}, got {cost!r:.40}.",
            then="Pass the cost in dollars, or leave it out.",
        )
    if usage.kind not in USAGE_KINDS:
        raise InputError(
            f"Unknown kind of usage: {usage.kind!r:.40}.", then=f"Use one of {', '.join(USAGE_KINDS)}, or leave it out."
        )
    if usage.at is not None:
        to_micros(usage.at)


def summing_spent() -> Script[float]:
    """Return the cost of all requests but those of turns, the sum of all resources."""
    rows = yield q.sum_spent()
    return int(rows[0].cost) / NANO


def stored_cost(usage: Usage) -> int:
    """Return the cost of a request in the unit in which it is stored, nanodollars."""
    return max(0, round(usage.cost * NANO))


def usage_step(resource: str, usage: Usage, run: str | None, at: int) -> Step:
    """Return the step that adds a request to the ledger."""
    counts = {name: max(0, getattr(usage, name)) for name in _COUNTS}
    return q.add_usage(
        resource=resource,
        thread=usage.thread,
        task=usage.task,
        run=run,
        kind=usage.kind,
        model=usage.model,
        at=at,
        cost=stored_cost(usage),
        **counts,
    )


def _line(row: Row) -> UsageLine:
    return UsageLine(kind=row.kind, model=row.model, total=_total(row))


def _total(row: Row) -> UsageTotal:
    counts = {name: int(getattr(row, name)) for name in ("requests", *_COUNTS)}
    return UsageTotal(cost=int(row.cost) / NANO, **counts)


def _known_calibration(resource: str, name: str) -> Script[Calibration]:
    """Return the calibration of a model. Earlier releases stored one for each name of a model. Prefer the canonical name's."""
    rows = yield q.calibrations_of(resource=resource)
    known = [found for found in map(_calibration, rows) if canonical_model(found.model) == name]
    known.sort(key=lambda found: found.model != name)
    return replace(known[0], model=name) if known else Calibration(model=name)


def _calibration(row: Row) -> Calibration:
    return Calibration(model=row.model, factor=row.factor, samples=row.samples)
