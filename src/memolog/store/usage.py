"""The usage ledger and the calibration of token counts.

Knows what was spent by whom, on what. Prices are not its business: it keeps what it is told.
"""

# Scripts are made at every call; their annotations need not be evaluated each time.
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime

from memolog.domain.clock import Clock
from memolog.domain.errors import InputError
from memolog.domain.model_names import canonical_model
from memolog.domain.moments import to_micros
from memolog.domain.run import USAGE_KINDS, Calibration, Usage, UsageTotal
from memolog.store.engine import Engine
from memolog.store.scope import FIRST, check_id, check_number
from memolog.store.sql import Row, Script, load_queries

__all__ = ["Ledger", "UsageLine", "check_usage", "summing_spent"]

q = load_queries("usage")

_NANO = 1_000_000_000
# Far above any request, and far below what a sum of thousands of them could no longer hold.
_MOST_TOKENS = 10**15
_MOST_COST = 10**6
_COUNTS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageLine:
    """What one model cost for one kind of work."""

    kind: str
    model: str
    total: UsageTotal


class Ledger:
    """What every resource spent, one resource at a time."""

    def __init__(self, engine: Engine, clock: Clock) -> None:
        self._engine, self._clock = engine, clock

    async def add(self, resource: str, usage: Usage) -> None:
        """Enter one model request."""
        check_id("resource", resource)
        check_usage(usage)
        at = to_micros(usage.at or self._clock.now())
        step = q.add_usage(
            resource=resource,
            thread=usage.thread,
            task=usage.task,
            run=usage.run,
            kind=usage.kind,
            model=usage.model,
            at=at,
            input_tokens=max(0, usage.input_tokens),
            output_tokens=max(0, usage.output_tokens),
            cache_read_tokens=max(0, usage.cache_read_tokens),
            cache_write_tokens=max(0, usage.cache_write_tokens),
            cost=max(0, round(usage.cost * _NANO)),
        )

        def script() -> Script[None]:
            yield step

        await self._engine.write(script, name="usage.add")

    async def lines(
        self,
        resource: str,
        *,
        thread: str | None = None,
        task: str | None = None,
        run: str | None = None,
        since: datetime | None = None,
    ) -> tuple[UsageLine, ...]:
        """Return what was spent, a line for each kind of work and model."""
        check_id("resource", resource)
        _check_filter(thread, task, run)
        start = FIRST if since is None else to_micros(since)

        def script() -> Script[tuple[UsageLine, ...]]:
            rows = yield q.sum_usage(resource=resource, thread=thread, task=task, run=run, since=start)
            return tuple(UsageLine(kind=row[0], model=row[1], total=_total(row)) for row in rows)

        return await self._engine.read(script)

    async def total(
        self,
        resource: str,
        *,
        thread: str | None = None,
        task: str | None = None,
        run: str | None = None,
        since: datetime | None = None,
    ) -> UsageTotal:
        """Return the sum of what was spent."""
        lines = await self.lines(resource, thread=thread, task=task, run=run, since=since)
        totals = [line.total for line in lines]
        return UsageTotal(
            requests=sum(total.requests for total in totals),
            input_tokens=sum(total.input_tokens for total in totals),
            output_tokens=sum(total.output_tokens for total in totals),
            cache_read_tokens=sum(total.cache_read_tokens for total in totals),
            cache_write_tokens=sum(total.cache_write_tokens for total in totals),
            cost=sum(total.cost for total in totals),
        )

    async def calibration(self, resource: str, model: str) -> Calibration:
        """Return what is known of how a model counts, under any of its names; a factor of one if nothing is."""
        check_id("resource", resource)
        check_id("model", model)

        def script() -> Script[Calibration]:
            return (yield from _known_calibration(resource, canonical_model(model)))

        return await self._engine.read(script)

    async def calibrate(
        self, resource: str, model: str, learn: Callable[[Calibration], Calibration], *, thread: str | None = None
    ) -> Calibration:
        """Change what is known of a model by a pure function; two callers at once both count.

        `thread` is a thread whose requests go to this model: where no model is named later, this one is meant.
        """
        check_id("resource", resource)
        check_id("model", model)
        if thread is not None:
            check_id("thread", thread)
        name = canonical_model(model)

        def script() -> Script[Calibration]:
            known = yield from _known_calibration(resource, name)
            rows = yield q.start_calibration(resource=resource, model=name, factor=known.factor, samples=known.samples)
            new = learn(_calibration(rows[0]))
            yield q.put_calibration(resource=resource, model=name, factor=new.factor, samples=new.samples)
            if thread is not None:
                yield q.set_last_model(resource=resource, thread=thread, model=model)
            return new

        return await self._engine.write(script, name="usage.calibrate")


def check_usage(usage: Usage) -> None:
    """Refuse what could never be entered."""
    check_id("model", usage.model)
    _check_filter(usage.thread, usage.task, usage.run)
    for name in _COUNTS:
        count = check_number(name, getattr(usage, name), then="Pass what the provider reported, or leave it out.")
        if count > _MOST_TOKENS:
            raise InputError(f"A request cannot have {count!r:.40} tokens.", then=f"Pass its own {name} alone.")
    cost: object = getattr(usage, "cost")  # noqa: B009 - whatever stands there
    # What is no number is neither above nor below.
    if isinstance(cost, bool) or not isinstance(cost, int | float) or not -_MOST_COST <= cost <= _MOST_COST:
        raise InputError(f"A request cannot cost {cost!r:.40}.", then="Pass the cost in dollars, or leave it out.")
    if usage.kind not in USAGE_KINDS:
        raise InputError(
            f"{usage.kind!r:.40} is no kind of usage.", then=f"Use one of {', '.join(USAGE_KINDS)}, or leave it out."
        )
    if usage.at is not None:
        to_micros(usage.at)


def summing_spent() -> Script[float]:
    """Return what observing and reflecting cost for all resources together: one number, and nothing of what was said."""
    rows = yield q.sum_spent()
    return int(rows[0][0]) / _NANO


def _check_filter(thread: str | None, task: str | None, run: str | None) -> None:
    for kind, value in (("thread", thread), ("task", task), ("run", run)):
        if value is not None:
            check_id(kind, value)


def _total(row: Row) -> UsageTotal:
    _, _, requests, input_tokens, output_tokens, cache_read, cache_write, cost = row
    return UsageTotal(
        requests=int(requests),
        input_tokens=int(input_tokens),
        output_tokens=int(output_tokens),
        cache_read_tokens=int(cache_read),
        cache_write_tokens=int(cache_write),
        cost=int(cost) / _NANO,
    )


def _known_calibration(resource: str, name: str) -> Script[Calibration]:
    """Return what is known of the model of that canonical name; earlier releases stored each of its names apart."""
    rows = yield q.calibrations_of(resource=resource)
    known = [found for found in map(_calibration, rows) if canonical_model(found.model) == name]
    known.sort(key=lambda found: found.model != name)
    return replace(known[0], model=name) if known else Calibration(model=name)


def _calibration(row: Row) -> Calibration:
    return Calibration(model=row[0], factor=row[1], samples=row[2])
