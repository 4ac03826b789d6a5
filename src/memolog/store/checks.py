"""Define the checks of the doctor that one query answers: what it looks for, the explanation, and the repair."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from memolog.domain.diagnosis import Finding, FindingKind
from memolog.store.sql import Row, Script, Step, load_queries

__all__ = ["CHECKS", "Check", "Found", "checking", "found_at"]

q = load_queries("doctor")

_YEAR_MICROS: Final = 365 * 24 * 3600 * 1_000_000
_Query = Callable[..., Step]


@dataclass(frozen=True, slots=True)
class Check:
    """One invariant: the query for the rows that violate it, an explanation, and the statement that repairs a row.

    A row has a key and a place; the explanation names its other columns.
    """

    kind: FindingKind
    look: _Query
    explain: str
    repair: _Query | None = None
    needs: tuple[str, ...] = ()
    """The columns that the repair takes besides the key."""
    is_safe: Callable[[Row], bool] = bool
    of_resource: bool = True
    """Whether the query can be limited to a resource."""
    reindexes: bool = False
    """Whether rebuilding the index of the resource repairs it."""
    has_end: bool = False
    """Whether the query looks for what ends after `latest`, a year from now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A finding and its repair."""

    finding: Finding
    repair: Callable[[], Script[None]] | None = None
    reindex: str | None = None
    """The resource whose index must be rebuilt."""


def found_at(
    kind: FindingKind,
    where: str,
    explanation: str,
    repair: Callable[[], Script[None]] | None = None,
    reindex: str | None = None,
) -> Found:
    """Return a finding; it is safe to repair if there is a repair."""
    is_safe = repair is not None or reindex is not None
    finding = Finding(kind=kind, where=where, explanation=explanation, is_safe=is_safe)
    return Found(finding=finding, repair=repair, reindex=reindex)


def checking(check: Check, resource: str | None, now: int) -> Script[list[Found]]:
    """Return what one check finds."""
    values = ({"resource": resource} if check.of_resource else {}) | (
        {"latest": now + _YEAR_MICROS} if check.has_end else {}
    )
    rows = yield check.look(**values)
    return [
        found_at(
            check.kind,
            row.place,
            check.explain.format(**row._asdict()),
            _repairing(check, row),
            row.resource if check.reindexes else None,
        )
        for row in rows
    ]


def _repairing(check: Check, row: Row) -> Callable[[], Script[None]] | None:
    repair = check.repair
    if repair is None or not check.is_safe(row):
        return None

    def script() -> Script[None]:
        yield repair(key=row.key, **{name: getattr(row, name) for name in check.needs})

    return script


CHECKS: Final = (
    Check(
        "sequence",
        q.sequences,
        "The thread says that its last message is {last_seq}; it has {messages} rows, the last of which is {newest}.",
        q.fix_sequence,
        # Numbers only rise: if rows are missing at the end, their numbers must not be used again.
        is_safe=lambda row: row.messages == row.newest > row.last_seq,
    ),
    Check("forgotten-text", q.tombstones, "It was forgotten but still has text.", q.fix_tombstone),
    Check("forgotten-text", q.deleted_lines, "It was deleted but still has text.", q.fix_deleted_line),
    Check(
        "dead-source",
        q.dead_sources,
        "It is shown but cites a message that was withdrawn or forgotten. Retract or delete it.",
    ),
    Check("provenance", q.no_sources, "It names no source message."),
    Check("provenance", q.strange_sources, "It names messages that are missing or not of its group."),
    Check(
        "count", q.line_counts, "It says that it has {observations} observations but has {counted}.", q.fix_line_count
    ),
    Check("tokens", q.message_tokens, "It has content but no tokens, so windows are fuller than reported."),
    Check(
        "version",
        q.generations,
        "The log is at generation {generation}; the newest one is {newest}.",
        q.fix_generation,
        is_safe=lambda row: row.newest >= 0,
    ),
    Check("log-entry", q.unlisted, "It is active but not part of the log, so it is not shown.", q.fix_unlisted),
    Check("log-entry", q.wrongly_listed, "It is part of the log but its state is {state}."),
    Check("run", q.unmade, "Its run is {status}, not done."),
    Check(
        "lease",
        q.endless_runs,
        "Its lease ends in more than a year: if its owner is gone, it is not taken over.",
        q.fix_endless_run,
        has_end=True,
    ),
    Check(
        "lease",
        q.endless_leases,
        "It ends in more than a year: if its owner is gone, it stays blocked.",
        q.fix_lease,
        ("resource",),
        has_end=True,
    ),
    Check("lease", q.idle_leases, "It claims a task that is closed or missing.", q.fix_lease, ("resource",)),
    Check(
        "hints",
        q.hints,
        "Its hints are from message {hinted_seq}, but its last message is {last_seq}: newer hints would be refused.",
        q.fix_hints,
    ),
    Check("alias", q.aliases, "Its alias t{alias} is not valid.", q.fix_alias, ("log_pk",)),
    Check(
        "alias", q.foreign_cursors, "The thread belongs to {resource} or has its own log; this log must not cover it."
    ),
    Check(
        "task-link",
        q.handles_given,
        "{tasks} tasks have handles, but only {last_handle} were given out: the next would be given twice.",
    ),
    Check(
        "working-memory",
        q.documents,
        "It is at version {version}; {versions} versions are stored, the last of which is {newest}.",
        q.fix_document,
        is_safe=lambda row: row.versions == row.newest > 0,
    ),
    Check("orphan", q.lost_lines, "Its group does not exist.", of_resource=False),
    Check("orphan", q.lost_messages, "Its thread does not exist.", of_resource=False),
    Check("orphan", q.lost_entries, "It lists a group that does not exist.", q.fix_lost_entry, of_resource=False),
    Check("orphan", q.lost_links, "Its task or its message does not exist.", q.fix_lost_link, of_resource=False),
    Check("orphan", q.lost_prompts, "Its run does not exist.", q.fix_lost_prompt, of_resource=False),
    Check(
        "index-extra", q.stale_docs, "The index finds something that is deleted, withdrawn or internal.", reindexes=True
    ),
    Check(
        "index-stats",
        q.wrong_stats,
        "The index counts {documents} documents, but there are {counted}: ranks are wrong.",
        reindexes=True,
    ),
    Check(
        "index-behind", q.unwatched, "Some of its messages are not indexed and not queued for indexing.", reindexes=True
    ),
)
