"""Check the invariants of a database on one snapshot, and repair what can be repaired without loss in one transaction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from memolog.domain.clock import Clock
from memolog.domain.diagnosis import Finding, Report
from memolog.domain.moments import to_micros
from memolog.search.texts import Redact
from memolog.store.checks import CHECKS, Found, checking
from memolog.store.engine import Engine
from memolog.store.log_checks import (
    checking_entries,
    checking_index,
    checking_pairs,
    checking_spans,
    checking_tasks,
    checking_tokens,
)
from memolog.store.reindexing import resetting_index
from memolog.store.renderings import checking_renderings
from memolog.store.scope import check_optional_ids
from memolog.store.sql import Script, load_queries
from memolog.store.withdrawals import Render

__all__ = ["Doctor"]

q = load_queries("doctor")

_EXAMINED: Final = ("threads", "messages", "groups", "observations", "tasks", "documents of the index")


class Doctor:
    """Examines one resource, or the whole database."""

    def __init__(self, engine: Engine, clock: Clock) -> None:
        self._engine, self._clock = engine, clock

    async def examine(
        self, resource: str | None, *, count: Callable[[str], int], redact: Redact, render: Render
    ) -> tuple[Found, ...]:
        """Return every violation of an invariant, as of one moment."""
        check_optional_ids(resource=resource)
        now = to_micros(self._clock.now())

        def script() -> Script[tuple[Found, ...]]:
            found: list[Found] = []
            for check in CHECKS:
                found += yield from checking(check, resource, now)
            found += yield from checking_spans(resource)
            found += yield from checking_entries(resource)
            found += yield from checking_pairs(resource)
            found += yield from checking_tasks(resource)
            found += yield from checking_tokens(resource, count)
            found += yield from checking_index(resource, redact)
            found += yield from checking_renderings(resource, render)
            return tuple(found)

        return await self._engine.read(script, brief=False)

    async def repair(self, found: Sequence[Found]) -> None:
        """Repair what is safe, in one transaction: all of it, or nothing."""

        def script() -> Script[None]:
            for one in found:
                if one.repair is not None:
                    yield from one.repair()
            for resource in sorted({one.reindex for one in found if one.reindex is not None}):
                yield from resetting_index(resource)

        await self._engine.write(script, name="doctor.repair")

    async def report(self, resource: str | None, found: Sequence[Found], left: Sequence[Found] = ()) -> Report:
        """Return a report of the findings; those that a second examination no longer finds count as repaired."""
        rows = (await self._engine.fetch(q.examined(resource=resource), tuple[int, ...]))[0]
        still = {_identity(one.finding) for one in left}
        findings = tuple(
            replace(one.finding, repaired=one.finding.is_safe and _identity(one.finding) not in still) for one in found
        )
        return Report(findings=findings, examined=tuple(zip(_EXAMINED, rows, strict=True)))

    async def resources(self) -> tuple[str, ...]:
        """Return all resources."""
        return await self._engine.fetch(q.resources(), lambda row: row.resource)


def _identity(finding: Finding) -> tuple[str, str, str]:
    return finding.kind, finding.where, finding.explanation
