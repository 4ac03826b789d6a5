"""The lines of the log: observations with their sources and what they merge.

Knows the rows of observations. Knows nothing of logs beyond their key.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

from memolog.domain.codec import loads, unpack
from memolog.domain.moments import from_micros
from memolog.domain.observation import Observation, Source, Span
from memolog.store.sql import Row, Script, load_queries

__all__ = ["observation_from_row", "reading_lines", "reading_observations"]

q = load_queries("logs")


def reading_observations(log_pk: int, groups: Sequence[str]) -> Script[tuple[Observation, ...]]:
    """Read the observations of some groups, in the order of the groups' making."""
    rows = yield q.group_observations(log_pk=log_pk, groups=groups)
    sources: dict[str, list[Source]] = {}
    for observation, thread, first, last in (yield q.observation_sources(log_pk=log_pk, groups=groups)):
        sources.setdefault(observation, []).append(Source(thread=thread, span=Span(first=first, last=last)))
    merges: dict[str, list[str]] = {}
    for observation, merged in (yield q.observation_merges(log_pk=log_pk, groups=groups)):
        merges.setdefault(observation, []).append(merged)
    found = (observation_from_row(row, tuple(sources.get(row[0], ())), tuple(merges.get(row[0], ()))) for row in rows)
    return tuple(found)


def reading_lines(log_pk: int, groups: Sequence[str]) -> Script[tuple[Observation, ...]]:
    """Read the observations of some groups without their sources and what they merge, which no text shows."""
    rows = yield q.group_observations(log_pk=log_pk, groups=groups)
    return tuple(observation_from_row(row, (), ()) for row in rows)


def observation_from_row(row: Row, sources: tuple[Source, ...], merges: tuple[str, ...]) -> Observation:
    """Return the observation of a row: the columns of `group_observations`, in their order."""
    return Observation(
        id=row[0],
        group=row[1],
        ordinal=row[2],
        priority=row[3],
        text=unpack(row[4]) or "",
        said_at=None if row[5] is None else from_micros(row[5]),
        zone=unpack(row[6]),
        about=None if row[7] is None else date.fromisoformat(row[7]),
        parent=row[8],
        verbatim=unpack(row[9]),
        trust=row[10],
        grounded=bool(row[11]),
        category=unpack(row[12]),
        files=tuple(loads(row[13])) if row[13] != "[]" else (),
        metadata=loads(row[14]) if row[14] != "{}" else {},
        state=row[15],
        tokens=row[16],
        sources=sources,
        merges=merges,
    )
