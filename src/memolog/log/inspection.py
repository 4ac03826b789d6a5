"""Read what a person looks at: the threads of all resources with their sizes, pages of a log, and where a line of it comes from.

Everything is read in pages, so that a reading takes as long for a thread of 100,000 messages as for a thread of 1,000.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime

from memolog.core.clock import from_micros, to_micros
from memolog.core.config import Config
from memolog.core.exact_json import JsonValue, loads
from memolog.core.measures import RunState
from memolog.core.observation import Observation, Span
from memolog.core.run import Run, UsageTotal
from memolog.core.thread import ThreadInfo
from memolog.db.engine import Calls, reads
from memolog.db.queries import Row, Script, load_queries
from memolog.db.rows import NANO, moment, run_from_row, span_from_row, thread_from_row
from memolog.db.scope import LAST, Page, check_ids, check_limit, check_optional_ids, page_key, page_of, reading_thread
from memolog.errors import InputError, NotFound
from memolog.log.render import reading_order
from memolog.log.snapshot import find_log
from memolog.log.status import Health, Window
from memolog.log.store import observation_from_row, sources_by_line

q = load_queries("log/inspection")
runs = load_queries("log/runs")
measures = load_queries("log/measures")
search = load_queries("search/search")
threads = load_queries("messages/threads")

# The most lines that one line replaces or that a reflection drops, of those that are read.
_MOST_RELATED = 200
_DAY_SECONDS = 86_400
_COUNTED = 10_000

ConfigFor = Callable[[Mapping[str, JsonValue], ThreadInfo], Config]
"""Returns the configuration of a thread, from the stored settings of its resource."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceSummary:
    """A resource with threads."""

    id: str
    threads: int
    messages: int
    """How many messages its threads have, including withdrawn and forgotten ones."""
    updated_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadSummary:
    """A thread with the sizes of its tail and its log. The sums are those of stored tokens, without a model's calibration."""

    thread: ThreadInfo
    health: Health
    messages: Window
    """The tail and its limit."""
    observations: Window
    """The log and its limit. Threads with a shared log have the same."""
    buffered_tokens: int
    """The tokens of the messages in the tail that buffered groups cover."""
    live: int
    running: int
    failed: int
    last_error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Activity:
    """The work under way in a database, from a few quick sums. `Memory.measures` says which of it is due."""

    unobserved: int
    """How many threads have messages that no log covers."""
    runs: Mapping[tuple[str, RunState], int]
    """The runs without a result, by kind and state."""
    unindexed: int
    """How many rows the search index does not have yet, of at most 10,000 that are counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageDay:
    """The usage of one day, for one kind of work."""

    day: date
    """The day in UTC."""
    kind: str
    total: UsageTotal


@dataclass(frozen=True, slots=True, kw_only=True)
class LogGroup:
    """A group of observations, and the run that made it."""

    id: str
    handle: str
    kind: str
    state: str
    """buffered, active, covered (a reflection replaces it) or void."""
    tokens: int
    observations: int
    thread: str | None
    span: Span | None
    activated_at: datetime | None
    run: Run | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPage:
    """Some lines of a log in their order, with their groups by id. `next` leads to the lines before them."""

    lines: tuple[Observation, ...] = ()
    groups: Mapping[str, LogGroup] = field(default_factory=dict[str, LogGroup])
    next: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where an observation comes from, and what became of it."""

    observation: Observation
    group: LogGroup
    replaces: tuple[Observation, ...] = ()
    """The observations that this one merges, if a reflection made it."""
    replaced_by: tuple[Observation, ...] = ()
    """The observations of reflections that merge this one."""
    dropped: tuple[Observation, ...] = ()
    """The observations that the reflection which made this one dropped."""


class Survey(Calls):
    """Reads across resources, for a person who looks at the whole database."""

    @reads
    def resources(self, limit: int) -> Script[tuple[ResourceSummary, ...]]:
        """Return the resources with threads, the latest active first."""
        rows = yield q.resources(limit=check_limit(limit))
        return tuple(
            ResourceSummary(
                id=row.resource, threads=row.threads, messages=row.messages, updated_at=from_micros(row.updated_at)
            )
            for row in rows
        )

    @reads
    def activity(self, now: datetime) -> Script[Activity]:
        """Return the work under way in the whole database."""
        unobserved = (yield q.unobserved())[0].threads
        found: dict[tuple[str, RunState], int] = {
            (row.kind, row.state): row.runs for row in (yield measures.open_runs(now=to_micros(now)))
        }
        unindexed = (yield search.count_all_waiting(limit=_COUNTED))[0].waiting
        return Activity(unobserved=unobserved, runs=found, unindexed=unindexed)

    @reads
    def threads(
        self, resource: str | None, limit: int, after: str | None, config_for: ConfigFor
    ) -> Script[Page[ThreadSummary]]:
        """Return a page of the threads of all resources, or of one, the latest active first."""
        check_optional_ids(resource=resource)
        before_at, before_pk = page_key(after, (LAST, LAST))
        asked = threads.newest_threads(
            resource=resource, before_at=before_at, before_pk=before_pk, limit=check_limit(limit) + 1
        )
        rows, more = page_of((yield asked), limit, "updated_at", "pk")
        found = {row.pk: thread_from_row(row) for row in rows}
        settings: dict[str, dict[str, JsonValue]] = defaultdict(dict)
        if found:
            named = sorted({thread.resource for thread in found.values()})
            for row in (yield measures.settings_among(resources=named)):
                settings[row.resource][row.name] = loads(row.value)
        configs = {pk: config_for(settings[thread.resource], thread) for pk, thread in found.items()}
        states: dict[int, Row] = {}
        for shared in (0, 1):
            keys = [pk for pk, config in configs.items() if (config.scope == "resource") == bool(shared)]
            if keys:
                states |= {row.pk: row for row in (yield q.states(threads=keys, shared=shared))}
        return Page(items=tuple(_summary(thread, configs[pk], states[pk]) for pk, thread in found.items()), next=more)

    @reads
    def usage_by_day(self, resource: str | None, thread: str | None, since: datetime) -> Script[tuple[UsageDay, ...]]:
        """Return the usage of each day in UTC, of the whole database, a resource or a thread."""
        check_optional_ids(resource=resource, thread=thread)
        if thread is not None and resource is None:
            raise InputError("`thread` needs its `resource`.", then='Pass resource="…".')
        key = None if thread is None or resource is None else (yield from reading_thread(resource, thread)).pk
        rows = yield q.usage_by_day(resource=resource, thread_pk=key, since=to_micros(since))
        return tuple(map(_usage_day, rows))

    async def pulse(self) -> tuple[int, ...]:
        """Return numbers that differ after a change of any resource. See `Memory.revision`."""
        return (await self.engine.fetch(runs.pulse_all(), tuple[int, ...]))[0]


class Inspection(Calls):
    """Reads pages of a log, and where its lines come from. Every call is for one resource."""

    @reads
    def log_page(
        self,
        resource: str,
        thread: str,
        *,
        shared: bool,
        messages: Span | None,
        before: str | None,
        limit: int,
    ) -> Script[LogPage]:
        """Return a page of a log: the newest lines before a place or, with `messages`, the lines with a source among them."""
        check_ids(resource=resource, thread=thread)
        owner = yield from reading_thread(resource, thread)
        head = yield from find_log(resource, None if shared else owner.pk)
        if head is None:
            return LogPage()
        position, ordinal = page_key(before, (LAST, LAST))
        place = {"log_pk": head.pk, "position": position, "ordinal": ordinal, "limit": check_limit(limit) + 1}
        rows = yield (
            q.newest_lines(generation=head.generation, **place)
            if messages is None
            else q.lines_of_messages(thread_pk=owner.pk, first=messages.first, last=messages.last, **place)
        )
        shown, more = page_of(rows, limit, "position", "ordinal")
        read = yield from _reading_lines(shown[::-1])
        # A corrected line has the last number of its group, and its place in the order of time.
        lines = tuple(reading_order(read, list(dict.fromkeys(line.group for line in read))))
        found = yield from _reading_groups(resource, {line.group for line in lines})
        return LogPage(lines=lines, groups=found, next=more)

    @reads
    def origin(self, resource: str, observation: str) -> Script[Origin]:
        """Return where an observation comes from. Raises NotFound."""
        check_ids(resource=resource, observation=observation)
        rows = yield q.line(resource=resource, observation=observation)
        if not rows:
            raise NotFound(
                f"There is no observation {observation}.", then="It may have been forgotten. Take an id from the log."
            )
        (line,) = yield from _reading_lines(rows)
        group = (yield from _reading_groups(resource, {line.group}))[line.group]
        of_line = {"line": rows[0].pk, "limit": _MOST_RELATED}
        replaces = yield from _reading_lines((yield q.merged_lines(**of_line)))
        replaced_by = yield from _reading_lines((yield q.replacing_lines(**of_line)))
        dropped: tuple[Observation, ...] = ()
        if group.kind == "reflection" and group.run is not None:
            made = yield q.dropped(resource=resource, run=group.run.id)
            ids = [name for row in made for name in loads(row.dropped)][:_MOST_RELATED]
            if ids:
                dropped = yield from _reading_lines((yield q.lines_by_id(resource=resource, ids=ids)))
        return Origin(observation=line, group=group, replaces=replaces, replaced_by=replaced_by, dropped=dropped)


def _summary(thread: ThreadInfo, config: Config, row: Row) -> ThreadSummary:
    log, tail = row.log_tokens or 0, row.tail_tokens
    is_failing = bool(row.failures) or row.failed > 0
    is_behind = config.observe and tail > config.block_at_for(log)
    return ThreadSummary(
        thread=thread,
        health="failing" if is_failing else "behind" if is_behind else "ok",
        messages=Window(tokens=tail, limit=config.threshold_for(log)),
        observations=Window(tokens=log, limit=config.reflect_at),
        buffered_tokens=row.buffered_tokens or 0,
        live=row.live,
        running=row.running,
        failed=row.failed,
        last_error=row.last_error if row.failures else None,
    )


def _usage_day(row: Row) -> UsageDay:
    return UsageDay(
        day=datetime.fromtimestamp(row.day * _DAY_SECONDS, UTC).date(),
        kind=row.kind,
        total=UsageTotal(
            requests=row.requests,
            input_tokens=row.input_tokens,
            output_tokens=row.output_tokens,
            cache_read_tokens=row.cache_read_tokens,
            cache_write_tokens=row.cache_write_tokens,
            cost=row.cost / NANO,
        ),
    )


def _reading_lines(rows: Sequence[Row]) -> Script[tuple[Observation, ...]]:
    """Return the observations of rows, with their sources and the ids of the observations that they merge."""
    if not rows:
        return ()
    keys = [row.pk for row in rows]
    sources = sources_by_line((yield q.sources(lines=keys)))
    merges: dict[str, tuple[str, ...]] = {}
    for row in (yield q.merges(lines=keys)):
        merges[row.observation] = (*merges.get(row.observation, ()), row.merged)
    return tuple(observation_from_row(row, sources.get(row.id, ()), merges.get(row.id, ())) for row in rows)


def _reading_groups(resource: str, ids: set[str]) -> Script[dict[str, LogGroup]]:
    if not ids:
        return {}
    rows = yield q.groups(resource=resource, groups=sorted(ids))
    named = sorted({row.run for row in rows if row.run is not None})
    made = {row.id: run_from_row(row) for row in ((yield runs.get_runs(resource=resource, ids=named)) if named else ())}
    return {
        row.id: LogGroup(
            id=row.id,
            handle=row.handle,
            kind=row.kind,
            state=row.state,
            tokens=row.tokens,
            observations=row.observations,
            thread=row.thread,
            span=span_from_row(row),
            activated_at=moment(row.activated_at),
            run=made.get(row.run) if row.run is not None else None,
        )
        for row in rows
    }
