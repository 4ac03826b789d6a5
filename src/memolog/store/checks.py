"""The checks that one query answers: what is looked for, how it is explained, and how it is put right.

Knows each invariant as a query that finds the rows which break it. What needs more than a query is in `log_checks`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from memolog.domain.diagnosis import Finding, FindingKind
from memolog.store.sql import Row, Script, Step, load_queries

__all__ = ["CHECKS", "Check", "Found", "checking"]

q = load_queries("doctor")

_YEAR_MICROS: Final = 365 * 24 * 3600 * 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One invariant: the query for what breaks it, its explanation, and the statement that repairs a row, if that is safe.

    The rows begin with a key and where it is; the explanation names the other columns by number.
    """

    kind: FindingKind
    look: Callable[[str | None, int], Step]
    explain: str
    repair: Callable[[Row], Step] | None = None
    is_safe: Callable[[Row], bool] = bool
    reindexes: bool = False
    """Whether starting the index of the resource (the third column) over repairs it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A finding, and what would put it right."""

    finding: Finding
    repair: Callable[[], Script[None]] | None = None
    reindex: str | None = None
    """The resource whose index must be started over."""


def checking(check: Check, resource: str | None, now: int) -> Script[list[Found]]:
    """Return what one check finds."""
    found: list[Found] = []
    for row in (yield check.look(resource, now)):
        is_safe = check.reindexes or (check.repair is not None and check.is_safe(row))
        finding = Finding(kind=check.kind, where=row[1], explanation=check.explain.format(*row), is_safe=is_safe)
        reindex = row[2] if check.reindexes else None
        found.append(Found(finding=finding, repair=_repairing(check, row) if is_safe else None, reindex=reindex))
    return found


def _repairing(check: Check, row: Row) -> Callable[[], Script[None]] | None:
    repair = check.repair
    if repair is None:
        return None

    def script() -> Script[None]:
        yield repair(row)

    return script


def _dense(row: Row) -> bool:
    return row[3] == row[4]


CHECKS: Final = (
    Check(
        kind="sequence",
        look=lambda resource, _: q.sequences(resource=resource),
        explain="The thread says that its last message is {2}; it has {3} rows, the last of which is {4}.",
        repair=lambda row: q.fix_sequence(key=row[0]),
        # Numbers only ever rise: where rows are missing at the end, theirs must not be given again.
        is_safe=lambda row: _dense(row) and row[4] > row[2],
    ),
    Check(
        kind="forgotten-text",
        look=lambda resource, _: q.tombstones(resource=resource),
        explain="It was forgotten, and still has words.",
        repair=lambda row: q.fix_tombstone(key=row[0]),
    ),
    Check(
        kind="forgotten-text",
        look=lambda resource, _: q.deleted_lines(resource=resource),
        explain="It was deleted, and still has words.",
        repair=lambda row: q.fix_deleted_line(key=row[0]),
    ),
    Check(
        kind="dead-source",
        look=lambda resource, _: q.dead_sources(resource=resource),
        explain="It is shown, and cites a message that was taken back or forgotten. Retract or delete it.",
    ),
    Check(
        kind="provenance",
        look=lambda resource, _: q.no_sources(resource=resource),
        explain="It names no message that it comes from.",
    ),
    Check(
        kind="provenance",
        look=lambda resource, _: q.strange_sources(resource=resource),
        explain="It names messages that are not its group's, or not there.",
    ),
    Check(
        kind="count",
        look=lambda resource, _: q.line_counts(resource=resource),
        explain="It says that it has {2} observations, and has {3}.",
        repair=lambda row: q.fix_line_count(key=row[0]),
    ),
    Check(
        kind="tokens",
        look=lambda resource, _: q.message_tokens(resource=resource),
        explain="It has content and no tokens, so that windows are fuller than they say.",
    ),
    Check(
        kind="version",
        look=lambda resource, _: q.generations(resource=resource),
        explain="The log is at generation {2}; the newest that there is is {3}.",
        repair=lambda row: q.fix_generation(key=row[0]),
        is_safe=lambda row: row[3] >= 0,
    ),
    Check(
        kind="log-entry",
        look=lambda resource, _: q.unlisted(resource=resource),
        explain="It is active, and the log does not list it: nobody sees it.",
        repair=lambda row: q.fix_unlisted(key=row[0]),
    ),
    Check(
        kind="log-entry",
        look=lambda resource, _: q.wrongly_listed(resource=resource),
        explain="The log lists it, and it is {2}.",
    ),
    Check(
        kind="run",
        look=lambda resource, _: q.unmade(resource=resource),
        explain="The run that made it is {2}, not done.",
    ),
    Check(
        kind="lease",
        look=lambda resource, now: q.endless_runs(resource=resource, latest=now + _YEAR_MICROS),
        explain="Its lease ends in more than a year: if its owner is gone, nobody takes it over.",
        repair=lambda row: q.fix_endless_run(key=row[0]),
    ),
    Check(
        kind="lease",
        look=lambda resource, now: q.endless_leases(resource=resource, latest=now + _YEAR_MICROS),
        explain="It ends in more than a year: if its owner is gone, nobody else gets it.",
        repair=lambda row: q.fix_lease(key=row[0], resource=row[2]),
    ),
    Check(
        kind="lease",
        look=lambda resource, _: q.idle_leases(resource=resource),
        explain="It claims a task that is closed, or that does not exist.",
        repair=lambda row: q.fix_lease(key=row[0], resource=row[2]),
    ),
    Check(
        kind="hints",
        look=lambda resource, _: q.hints(resource=resource),
        explain="Its hints are from message {2}, and its last message is {3}: newer hints would be refused.",
        repair=lambda row: q.fix_hints(key=row[0]),
    ),
    Check(
        kind="alias",
        look=lambda resource, _: q.aliases(resource=resource),
        explain="Its short name is t{2}, which is none.",
        repair=lambda row: q.fix_alias(key=row[0], log_pk=row[3]),
    ),
    Check(
        kind="alias",
        look=lambda resource, _: q.foreign_cursors(resource=resource),
        explain="The thread belongs to {2}, or has a log of its own, and is not this log's to cover.",
    ),
    Check(
        kind="task-link",
        look=lambda resource, _: q.handles_given(resource=resource),
        explain="{3} tasks have numbers, and only {2} were given out: the next would be given twice.",
    ),
    Check(
        kind="working-memory",
        look=lambda resource, _: q.documents(resource=resource),
        explain="It is at version {2}; {3} versions are there, the last of which is {4}.",
        repair=lambda row: q.fix_document(key=row[0]),
        is_safe=lambda row: row[4] > 0 and _dense(row),
    ),
    Check(
        kind="orphan",
        look=lambda _, __: q.lost_lines(),
        explain="Its group does not exist.",
    ),
    Check(
        kind="orphan",
        look=lambda _, __: q.lost_messages(),
        explain="Its thread does not exist.",
    ),
    Check(
        kind="orphan",
        look=lambda _, __: q.lost_entries(),
        explain="It lists a group that does not exist.",
        repair=lambda row: q.fix_lost_entry(key=row[0]),
    ),
    Check(
        kind="orphan",
        look=lambda _, __: q.lost_links(),
        explain="Its task or its message does not exist.",
        repair=lambda row: q.fix_lost_link(key=row[0]),
    ),
    Check(
        kind="orphan",
        look=lambda _, __: q.lost_prompts(),
        explain="Its run does not exist.",
        repair=lambda row: q.fix_lost_prompt(key=row[0]),
    ),
    Check(
        kind="index-extra",
        look=lambda resource, _: q.stale_docs(resource=resource),
        explain="The index finds something that is gone, taken back or our own.",
        reindexes=True,
    ),
    Check(
        kind="index-stats",
        look=lambda resource, _: q.wrong_stats(resource=resource),
        explain="The index counts {3} documents where there are {4}: ranks are off.",
        reindexes=True,
    ),
    Check(
        kind="index-behind",
        look=lambda resource, _: q.unwatched(resource=resource),
        explain="Some of its messages are not indexed, and nothing waits to index them.",
        reindexes=True,
    ),
)
