"""Read the lines of a log: observations with their sources and merges."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import Final

from memolog.context.dates import local
from memolog.domain.codec import loads, unpack
from memolog.domain.moments import to_micros
from memolog.domain.observation import Observation, Source, Span
from memolog.grounding.folding import content_words
from memolog.store.rows import moment, object_in
from memolog.store.sql import Row, Script, load_queries

__all__ = ["observation_from_row", "reading_lines", "reading_lines_by_id", "reading_observations", "reading_plans"]

q = load_queries("logs")

# Limits of the plans shown, and of the lines that they are compared with.
_MOST_PLANS: Final = 50
_MOST_LATER: Final = 500
_NO_PLANS: Final = frozenset({"question", "finding", "error", "test", "source", "change"})
_ASKED: Final = ("User asked", "User asks")
# Two lines are about the same thing if the other has this share of the words of the first, compared by their beginnings.
_SAME_SHARE: Final = 0.6
_STEM: Final = 4
_DAYS: Final = """
    mond tues wedn thur frid satu sund janu febr marc apri june july augu sept octo nove dece next last week mont year toda
    tomo yest mean date"""
_DAY_WORDS: Final = frozenset(_DAYS.split())


def reading_observations(log_pk: int, groups: Sequence[str]) -> Script[tuple[Observation, ...]]:
    """Read the observations of some groups in the order in which the groups were created."""
    rows = yield q.group_observations(log_pk=log_pk, groups=groups)
    sources = sources_by_line((yield q.observation_sources(log_pk=log_pk, groups=groups)))
    merges: dict[str, tuple[str, ...]] = {}
    for row in (yield q.observation_merges(log_pk=log_pk, groups=groups)):
        merges[row.observation] = (*merges.get(row.observation, ()), row.merged)
    return tuple(observation_from_row(row, sources.get(row.id, ()), merges.get(row.id, ())) for row in rows)


def sources_by_line(rows: Sequence[Row]) -> dict[str, tuple[Source, ...]]:
    """Return the sources of observations by their ids."""
    sources: dict[str, tuple[Source, ...]] = {}
    for row in rows:
        source = Source(thread=row.thread, span=Span(first=row.first_seq, last=row.last_seq))
        sources[row.observation] = (*sources.get(row.observation, ()), source)
    return sources


def reading_lines(log_pk: int, groups: Sequence[str]) -> Script[tuple[Observation, ...]]:
    """Read the observations of some groups without sources and merges, which rendered text does not show."""
    rows = yield q.group_observations(log_pk=log_pk, groups=groups)
    return tuple(observation_from_row(row) for row in rows)


def reading_lines_by_id(log_pk: int, ids: Sequence[str]) -> Script[tuple[Observation, ...]]:
    """Read the lines with these ids in this order, without deleted ones."""
    rows = yield q.lines_by_id(log_pk=log_pk, ids=ids)
    found = {row.id: observation_from_row(row) for row in rows}
    return tuple(found[id_] for id_ in ids if id_ in found and found[id_].state != "deleted")


def reading_plans(
    log_pk: int, generation: int, *, entries: int, since: date, before: date
) -> Script[tuple[Observation, ...]]:
    """Read the plans for days from `since` to before `before` whose outcome no later line tells, the latest day first.

    Looks at the first `entries` groups of the log.
    """
    where = {"log_pk": log_pk, "generation": generation, "entries": entries}
    days = {"since": since.isoformat(), "before": before.isoformat()}
    rows = yield q.lines_about(**where, **days, limit=_MOST_PLANS)
    plans = [line for line in (observation_from_row(row) for row in rows) if _is_plan(line)]
    if not plans:
        return ()
    first = min((to_micros(plan.said_at) for plan in plans if plan.said_at), default=0)
    rows = yield q.lines_since(**where, since=first, limit=_MOST_LATER)
    # The newest line is first, so lines before a plan in this list are later than the plan.
    newest = [(row.id, _stems(unpack(row.text) or "")) for row in rows]
    places = {id_: place for place, (id_, _) in enumerate(newest)}
    return tuple(
        plan
        for plan in plans
        if not any(_is_same(_stems(plan.text), words) for _, words in newest[: places.get(plan.id, 0)])
    )


def _is_plan(line: Observation) -> bool:
    """Return whether a line is about a day that was in the future when it was said, and about something to do."""
    if line.about is None or line.priority not in {"high", "medium"} or line.trust == "tool" or line.is_unverified:
        return False
    if line.category in _NO_PLANS or line.text.startswith(_ASKED) or line.text.rstrip().endswith(("?", "？", "؟")):
        return False
    if line.said_at is None:
        return line.category == "plan"
    return line.about > local(line.said_at, line.zone).date()


def _stems(text: str) -> frozenset[str]:
    return frozenset(word[:_STEM] for word in content_words(text) if not word.isdecimal()) - _DAY_WORDS


def _is_same(plan: frozenset[str], later: frozenset[str]) -> bool:
    return bool(plan) and len(plan & later) >= _SAME_SHARE * len(plan)


def observation_from_row(row: Row, sources: tuple[Source, ...] = (), merges: tuple[str, ...] = ()) -> Observation:
    """Return the observation of a row with the columns of `select_lines`."""
    return Observation(
        id=row.id,
        group=row.group_id,
        ordinal=row.ordinal,
        priority=row.priority,
        text=unpack(row.text) or "",
        said_at=moment(row.said_at),
        zone=unpack(row.zone),
        about=None if row.about is None else date.fromisoformat(row.about),
        parent=row.parent,
        verbatim=unpack(row.verbatim),
        trust=row.trust,
        grounded=bool(row.grounded),
        category=unpack(row.category),
        files=tuple(loads(row.files)) if row.files != "[]" else (),
        metadata=object_in(row.metadata),
        state=row.state,
        tokens=row.tokens,
        sources=sources,
        merges=merges,
    )
