"""What must hold for every log at every moment: what the doctor checks, and what rows must keep between two moments."""

from dataclasses import dataclass
from typing import Any

from crash.survivors import select
from memolog.admin.doctor import checking_logs
from memolog.core.clock import to_micros
from memolog.core.reports import Finding
from memolog.db.queries import Script
from memolog.store import Store

__all__ = ["Rows", "check_log", "read_rows"]

_MESSAGES = """SELECT t.pk, t.id, m.seq, m.role, m.state, m.parts FROM messages m JOIN threads t ON t.pk = m.thread_pk
    ORDER BY t.pk, m.seq"""
_CURSORS = "SELECT log_pk, thread_pk, seq, alias FROM cursors"
_RUNS = "SELECT kind, status FROM runs"
_TEXTS = "SELECT text FROM groups WHERE state = 'active'"
# A source of a merged line that the line does not have.
_LOST_SOURCES = """SELECT x.observation_pk, s.thread_pk, s.first_seq FROM observation_merges x
    JOIN observation_sources s ON s.observation_pk = x.merged_pk
    WHERE NOT EXISTS (SELECT 1 FROM observation_sources o WHERE o.observation_pk = x.observation_pk
        AND o.thread_pk = s.thread_pk AND o.first_seq <= s.first_seq AND o.last_seq >= s.first_seq)"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """What was read at one moment, and what the doctor found."""

    messages: list[tuple[Any, ...]]
    cursors: list[tuple[Any, ...]]
    runs: list[tuple[Any, ...]]
    texts: list[tuple[Any, ...]]
    lost_sources: list[tuple[Any, ...]]
    findings: list[Finding]


async def read_rows(store: Store) -> Rows:
    """Read what the invariants are about."""
    now = to_micros(store.clock.now())

    def script() -> Script[list[Finding]]:
        return [one.finding for one in (yield from checking_logs(None, now))]

    messages, cursors, runs, texts, lost = await select(store, _MESSAGES, _CURSORS, _RUNS, _TEXTS, _LOST_SOURCES)
    findings = await store.engine.read(script)
    return Rows(messages=messages, cursors=cursors, runs=runs, texts=texts, lost_sources=lost, findings=findings)


def check_log(rows: Rows, before: Rows | None) -> None:
    """Check all invariants; `before` is the moment of the last check."""
    assert rows.findings == []
    assert rows.lost_sources == []
    if before is None:
        return
    # What was saved never changes but for its state.
    saved = {row[:3]: (row[3], row[5]) for row in rows.messages}
    assert all(saved[row[:3]] == (row[3], row[5]) for row in before.messages)
    # Cursors never go back, and aliases never change.
    cursors = {row[:2]: row[2:] for row in rows.cursors}
    for log, thread, seq, alias in before.cursors:
        assert cursors[log, thread][0] >= seq
        assert cursors[log, thread][1] == alias
