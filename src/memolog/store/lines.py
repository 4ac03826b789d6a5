"""The lines of the log: observations with their sources and what they merge.

Knows the rows of observations. Knows nothing of logs beyond their key.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import Final

from memolog.context.dates import local
from memolog.domain.codec import loads, unpack
from memolog.domain.moments import from_micros, to_micros
from memolog.domain.observation import Observation, Source, Span
from memolog.grounding.folding import content_words
from memolog.store.sql import Row, Script, load_queries

__all__ = ["observation_from_row", "reading_lines", "reading_lines_by_id", "reading_observations", "reading_plans"]

q = load_queries("logs")

# More plans of one week than this are no help, and what is compared with them has a bound too.
_MOST_PLANS: Final = 50
_MOST_LATER: Final = 500
_NO_PLANS: Final = frozenset({"question", "finding", "error", "test", "source", "change"})
_ASKED: Final = ("User asked", "User asks")
# Two lines are about one thing if so many of the words of the one are in the other, by their beginnings.
_SAME_SHARE: Final = 0.6
_STEM: Final = 4
_DAYS: Final = """
    mond tues wedn thur frid satu sund janu febr marc apri june july augu sept octo nove dece next last week mont year toda
    tomo yest mean date"""
_DAY_WORDS: Final = frozenset(_DAYS.split())


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


def reading_lines_by_id(log_pk: int, ids: Sequence[str]) -> Script[tuple[Observation, ...]]:
    """Read some lines of a log, in the order of their ids as given; those that were deleted are left out."""
    rows = yield q.lines_by_id(log_pk=log_pk, ids=ids)
    found = {row[0]: observation_from_row(row, (), ()) for row in rows}
    return tuple(found[id_] for id_ in ids if id_ in found and found[id_].state != "deleted")


def reading_plans(
    log_pk: int, generation: int, *, entries: int, since: date, before: date
) -> Script[tuple[Observation, ...]]:
    """Read what was planned for one of these days and of which no later line says how it went, the latest day first.

    `before` is not among the days. `entries` is up to which place the log is looked at.
    """
    where = {"log_pk": log_pk, "generation": generation, "entries": entries}
    days = {"since": since.isoformat(), "before": before.isoformat()}
    rows = yield q.lines_about(**where, **days, limit=_MOST_PLANS)
    plans = [line for line in (observation_from_row(row, (), ()) for row in rows) if _is_plan(line)]
    if not plans:
        return ()
    first = min((to_micros(plan.said_at) for plan in plans if plan.said_at), default=0)
    rows = yield q.lines_since(**where, since=first, limit=_MOST_LATER)
    # The newest comes first: what stands before a plan in this list was said after it.
    newest = [(row[0], _stems(unpack(row[4]) or "")) for row in rows]
    places = {id_: place for place, (id_, _) in enumerate(newest)}
    return tuple(
        plan
        for plan in plans
        if not any(_is_same(_stems(plan.text), words) for _, words in newest[: places.get(plan.id, 0)])
    )


def _is_plan(line: Observation) -> bool:
    """Return whether a line speaks of a day that lay ahead when it was said, as of something to be done."""
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
