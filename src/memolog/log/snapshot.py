"""Read a snapshot: all rows that one call of `decide` and one context need, as of one moment.

Tails and groups of recently used logs are cached. The cache contains only committed rows and values computed from them, so it can
be emptied at any moment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from functools import partial
from itertools import groupby
from operator import attrgetter
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

from memolog.core.cache import Cache, remembered
from memolog.core.clock import from_micros
from memolog.core.exact_json import JsonObject, JsonValue, dumps, loads, unpack
from memolog.core.message import Message, Role, pairs_of
from memolog.core.observation import Generation, GenerationCause, Observation, Scope, Span
from memolog.core.run import RunKind, RunStatus
from memolog.core.thread import Hints
from memolog.db.queries import Row, Script, load_queries
from memolog.db.rows import (
    file_tokens_in,
    from_row,
    hints_from_row,
    message_from_row,
    moment,
    object_in,
    span_from_row,
    tokens_in,
)
from memolog.db.scope import LAST, chunks, no_thread
from memolog.errors import Conflict
from memolog.log.heartbeat import Beat, beat_of
from memolog.working_memory.store import NO_FACTS, Facts, present_versions, reading_facts

q = load_queries("log/logs")
messages = load_queries("messages/messages")

BACKLOG_ROWS = 2_000
"""One snapshot for `decide` reads at most this many messages of a backlog, the oldest first."""

OTHER_ROWS = 4_000
"""One snapshot for `decide` reads at most this many messages of other threads, the oldest threads first."""

# The first query reads this many messages of each thread. If they are too few, later queries read more.
_FIRST_READ = 6
# A tail with at most this many messages that are not cached is read at once, even if a context shows only its end.
_WHOLE_ROWS = 256
# So many sizes of messages are read at once to find the part of a backlog that a context shows.
_SIZES = 512
# So many messages before that part are read too, because a tool call there may belong to a result in it.
_LEAD_IN = 64
# Room for the mark that says how many messages a context does not show.
_MARK_TOKENS = 64
# A context shows at most this many tokens of each message of another thread.
_LINE_TOKENS = 100

KnownRows: TypeAlias = dict[int, Message]
"""Short, unchanged messages by sequence number, in rising order."""

# Maximum sizes of the cache, in entries and in tokens. A token has about four characters, so that the tails need at most about
# 8 MB and the logs as much. That is enough for 200 conversations that take turns: if the cache were smaller than their tails,
# each would be dropped just before its next turn. Messages of more than _SHORT_CHARACTERS are not cached.
_TAILS = 1_024
_LOGS = 1_024
_OTHERS = 1_024
_OTHER_WEIGHTS = 8_192
_TOKENS = 2_000_000
_RESOURCES = 10_000
_SHORT_CHARACTERS = 16_384
_BUFFERED = 1_024
_KEYS_A_QUERY = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadHead:
    """The columns of a thread that turns need."""

    id: str
    pk: int = 0
    last_seq: int = 0
    hints: Hints = field(default_factory=Hints)
    last_request_at: datetime | None = None
    last_model: str | None = None
    overrides: JsonObject = field(default_factory=dict[str, JsonValue])
    title: str | None = None
    created_at: int = 0
    has_tasks: bool = False
    """Whether the resource of the thread ever had a task."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogHead:
    """The row of a log: its version, and the failures of its observer. The defaults stand for a log that does not exist."""

    pk: int = 0
    id: str = ""
    version: int = 0
    generation: int = 0
    failures: int = 0
    retry_at: datetime | None = None
    last_success_at: datetime | None = None
    last_error_at: datetime | None = None
    last_error: str | None = None
    settled_tokens: int = 0
    """The tokens of the log when its generation began or, if later, when a reflection failed to shorten it."""
    working_memory: str | None = None
    """The versions of the working memory at the start of the generation, as JSON."""
    run_changes: int = 0
    """How many increments of `version` did not change the active groups."""
    appends: int = 0
    """How many increments of `version` only added active groups at the end."""

    @property
    def rewrites(self) -> int:
        """Return how many increments of `version` may have changed active groups."""
        return self.version - self.run_changes - self.appends


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRow:
    """An active group with its rendered text."""

    id: str
    handle: str
    tokens: int
    text: str = ""
    kind: str = "observer"
    observations: int = 0
    first_at: datetime | None = None
    last_at: datetime | None = None
    activated_at: datetime | None = None
    position: int = 0
    span: Span | None = None
    pk: int = 0
    thread_pk: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BufferedRow:
    """A buffered group: observed, but not part of the log until it is activated."""

    id: str
    kind: str
    covers: tuple[str, ...] = ()
    """The groups that a reflection replaces."""
    thread: str | None = None
    span: Span | None = None
    handle: str = ""
    pk: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """A run without a result: running, or failed and waiting for its next attempt."""

    id: str
    kind: RunKind
    status: RunStatus
    lease_until: datetime
    fence: int
    attempt: int
    thread: str | None = None
    span: Span | None = None
    retry_at: datetime | None = None
    owner: str = ""
    """The process that carries out the run."""
    beat_at: datetime
    """When the lease of the run was last renewed."""
    owner_beat: Beat | None = None
    """The last heartbeat of that process. None if it has not written one."""
    is_silent: bool = False
    """Whether that process is dead, even if the lease has not expired."""


class Weight(NamedTuple):
    """The properties of a message that `decide` uses: its position, its size, and the tool calls that it makes or answers.

    A named tuple, because the weights of a whole tail are scaled in every turn, and a changed copy of a dataclass takes longer.
    """

    seq: int
    tokens: int
    role: Role
    at: datetime
    opens: tuple[str, ...] = ()
    closes: tuple[str, ...] = ()
    turn: str | None = None
    """The turn that saved the message. A result belongs to the call of the same turn."""
    is_gone: bool = False
    """True for a tombstone, which has a sequence number but no content."""
    file_tokens: int = 0
    """The tokens of large files, which are part of `tokens`."""
    uncounted: int = 0
    """The tokens of large files that are not part of `tokens`. See `without_files`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherThread:
    """The messages of another thread that the log does not cover, without their texts. Most are the same as in the last turn."""

    thread: str
    cursor: int
    last_seq: int
    alias: int
    hinted_seq: int
    weights: tuple[Weight, ...]
    tokens: int
    """The sum of the tokens of `weights`."""
    has_files: bool
    """Whether a message has a large file."""
    said: int
    """How many of the messages a context may show: they are live and not Memolog's own."""


class _KnownTail(NamedTuple):
    """The cached messages of a tail, and whether one of them may have changed since it was saved."""

    rows: KnownRows
    may_differ: bool


class _NewestOf(NamedTuple):
    """The newest messages of another thread, as long as it is the same `OtherThread`, and how many were asked for."""

    thread: OtherThread
    asked: int
    messages: tuple[Message, ...]


class _Groups(NamedTuple):
    """The groups of a log, as of one version of it."""

    log: LogHead
    groups: tuple[GroupRow, ...]


class Plans(NamedTuple):
    """Plans for days from `since` to before `before` without a known outcome, as of one version of a log."""

    version: int
    generation: int
    since: date
    before: date
    lines: tuple[Observation, ...]


class MemoryCache:
    """All cached values of one open `Memory`. Every part has a maximum size."""

    def __init__(self) -> None:
        self.tails = Cache[tuple[object, ...], KnownRows](_TAILS, heaviest=_TOKENS)
        """Messages of recently used tails, by log and thread."""
        self.beside = Cache[tuple[int, int, str], Message](_OTHERS, heaviest=_TOKENS)
        """Messages of other threads of a shared log, by thread, sequence number and id."""
        self.others = Cache[tuple[object, ...], OtherThread](_OTHERS, heaviest=_OTHER_WEIGHTS)
        """The other threads of a shared log, by log and thread."""
        self.newest = Cache[int, _NewestOf](_OTHERS, heaviest=_TOKENS)
        """The newest messages of other threads of a shared log, by thread."""
        self.plans = Cache[str, Plans](_LOGS, heaviest=_TOKENS)
        self.settings = Cache[str, JsonObject](_RESOURCES)
        """Stored settings by resource, so that a turn does not read them again. Filled after this `Memory` has stored its own."""
        self.factors = Cache[tuple[str, str], float](_RESOURCES)
        """Calibration factors by resource and model."""
        self._groups = Cache[str, _Groups](_LOGS, heaviest=_TOKENS)

    def clear(self) -> None:
        """Empty the cache, so that forgotten messages do not stay in RAM."""
        for part in (
            self.tails,
            self.beside,
            self.others,
            self.newest,
            self.plans,
            self.settings,
            self.factors,
            self._groups,
        ):
            part.clear()

    def groups(self, log: LogHead) -> tuple[tuple[GroupRow, ...], bool]:
        """Return the cached groups of a log, and whether they are all of them.

        Every change of a log increments its version. If no increment since then may have changed groups, the cached ones are
        still the first groups of the log. An imported log has the id of the exported one, but a key of its own.
        """
        cached = self._groups.get(log.id)
        if cached is None:
            return (), False
        old = cached.log
        if (old.pk, old.generation, old.rewrites) != (log.pk, log.generation, log.rewrites):
            return (), False
        return cached.groups, old.appends == log.appends

    def known_groups(self, log: LogHead, groups: Iterable[GroupRow]) -> Iterable[GroupRow]:
        """Replace groups by equal ones that are cached, because other caches use a group as their key."""
        cached = self._groups.get(log.id)
        known = {group.pk: group for group in cached.groups} if cached else {}
        return [known[group.pk] if known.get(group.pk) == group else group for group in groups]

    def keep_groups(self, log: LogHead, groups: tuple[GroupRow, ...]) -> None:
        """Cache the groups of a log, unless one of them was imported and has no text yet."""
        if any(group.observations and not group.text for group in groups):
            return
        self._groups.put(log.id, _Groups(log, groups), weight=sum(group.tokens for group in groups))


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherTail:
    """The newest messages of another thread that the log does not cover."""

    thread: str
    alias: int
    title: str | None
    messages: tuple[Message, ...]
    earlier: int = 0
    """How many messages before `messages` the log does not cover either."""

    @property
    def name(self) -> str:
        """Return the alias of the thread in the log, such as `t3`, or its id if it has no alias yet."""
        return f"t{self.alias}" if self.alias else self.thread


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherTails:
    """The newest messages of the latest active other threads, and counts of the threads that were not read."""

    tails: tuple[OtherTail, ...] = ()
    more_threads: int = 0
    """How many further threads have messages that the log does not cover."""
    more_messages: int = 0
    """How many messages of these further threads the log does not cover."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherLimits:
    """How much of the other threads to read."""

    threads: int
    messages: int
    """The maximum number of messages of each thread. The newest are read."""
    tokens: int | None = None
    """The maximum tokens that a context shows of all threads together. Reading stops when they are reached. None: no limit."""


TailLimit: TypeAlias = Callable[[int], int]
"""Returns the most tokens of imported messages that a context shows, for a log of so many tokens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Backlog:
    """The state of a tail that is too long for a context, because messages were imported and are not observed yet."""

    shown_from: int
    """The number of the first message that a context shows. A context may begin a little later, to keep pairs together."""
    after: int
    """The number after which `oldest` begins: the cursor, or the end of the buffered groups that continue it."""
    oldest: tuple[Row, ...] = ()
    """The first messages, as rows of `oldest_of`. Empty if only a context is built."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A thread and its log at one moment."""

    resource: str
    scope: Scope
    thread: ThreadHead
    log: LogHead = field(default_factory=LogHead)
    cursor: int = 0
    alias: int = 1
    """The short number of the thread in a shared log."""
    tail: tuple[Message, ...] = ()
    """Every message after the cursor, including tombstones. With a `backlog` only the newest of them."""
    backlog: Backlog | None = None
    """None if the tail is complete."""
    covered_at: datetime | None = None
    """The time of the message at the cursor."""
    repeated: tuple[Message, ...] = ()
    """The last user message, if the log covers that message and the tail continues its turn. A context shows it again."""
    groups: tuple[GroupRow, ...] = ()
    buffered: tuple[BufferedRow, ...] = ()
    runs: tuple[RunRow, ...] = ()
    others: tuple[OtherThread, ...] = ()
    """The other threads with messages that the log does not cover. Empty unless `others` was True."""
    beside: OtherTails | None = None
    """The messages of other threads that a context shows. None unless `others` was an `OtherLimits`."""
    unseen: tuple[Row, ...] = ()
    """The messages that turns saved and no model has answered, as rows of `unseen`. Of all threads if `others` was True."""
    facts: Facts = field(default_factory=Facts)
    """The working memory: the version at the start of the generation, and the current version."""
    known: KnownRows = field(default_factory=dict[int, Message])
    """The messages of the tail that the next snapshot takes from the cache."""
    is_complete: bool = False
    """Whether the log exists, and has a cursor for this thread and for every other thread that was read."""

    @property
    def ends(self) -> dict[str, int]:
        """Return the cursors of the other threads that were read."""
        return {other.thread: other.cursor for other in self.others}

    def keep(self, cache: MemoryCache) -> None:
        """Cache the messages and groups that the next snapshot need not read again. Call it after the commit."""
        weight = sum(message.tokens for message in self.known.values())
        cache.tails.put(_tail_key(self.log, self.thread), self.known, weight=weight)
        cache.keep_groups(self.log, self.groups)


def reading_snapshot(
    resource: str,
    thread: str,
    scope: Scope,
    cache: MemoryCache,
    *,
    newest: int | None = None,
    others: bool | OtherLimits = True,
    limit: TailLimit | None = None,
    activates: bool = True,
) -> Script[Snapshot]:
    """Read the snapshot. If the log does not exist yet, the snapshot has an empty log. A missing cursor counts as 0.

    `newest` limits the number of messages in the tail, for threads without a log. `others` is for a shared log: True reads the
    messages of other threads that `decide` needs, `OtherLimits` the messages that a context shows. Above `limit` tokens a tail of
    imported messages is a backlog. With `activates=False` the backlog begins after the groups that could be activated.
    """
    row = yield from _heads(resource, thread, scope)
    head = _thread_head(thread, row)
    log = LogHead() if row.log_pk is None else _log_head(row, pk=row.log_pk, id=row.log_id)
    cursor, is_covering = row.cursor_seq or 0, row.cursor_seq is not None
    groups = yield from reading_groups(log, cache)
    # Buffered groups, runs and open turns of the other threads are only needed by `decide`.
    only = None if scope == "resource" and others is True else head.pk
    buffered = (yield q.buffered_groups(log_pk=log.pk, only=only)) if row.has_buffered else ()
    runs = (yield q.open_runs(log_pk=log.pk, only=only)) if row.has_runs else ()
    unseen = yield q.unseen(resource=resource, thread_pk=only)
    known = cache.tails.get(_tail_key(log, head)) or {}
    most = None if limit is None else limit(sum(group.tokens for group in groups)) - _MARK_TOKENS
    # `may_differ` is about the messages after the cursor. With `newest`, earlier messages are read too.
    known_tail = _KnownTail(known, may_differ=newest is not None or bool(row.may_differ))
    tail, known, shown_from = yield from _reading_own_tail(head, cursor, known_tail, newest, most, unseen)
    after = cursor if activates else _end_of_buffered(cursor, thread, buffered)
    backlog = yield from _reading_backlog(head, shown_from, after, decides=others is True)
    repeated = (yield from _repeated(head.pk, cursor, tail)) if backlog is None else ()
    facts = NO_FACTS
    if row.has_documents:
        facts = yield from reading_facts(resource, head.pk, log.working_memory, has_log=bool(log.pk))
    read, beside = yield from _reading_beside(resource, scope, log, head.pk, others, cache)
    return Snapshot(
        resource=resource,
        scope=scope,
        thread=head,
        log=log,
        cursor=cursor,
        alias=row.alias if is_covering else 1,
        tail=tail,
        backlog=backlog,
        covered_at=moment(row.covered_at),
        repeated=repeated,
        groups=groups,
        buffered=tuple(map(_buffered_row, buffered)),
        runs=tuple(map(_run_row, runs)),
        others=read,
        beside=beside,
        unseen=tuple(unseen),
        facts=facts,
        known=known,
        is_complete=is_covering and all(other.alias for other in read),
    )


def _reading_beside(
    resource: str, scope: Scope, log: LogHead, thread_pk: int, others: bool | OtherLimits, cache: MemoryCache
) -> Script[tuple[tuple[OtherThread, ...], OtherTails | None]]:
    """Return the other threads of a shared log: for `decide`, or what a context shows of them."""
    if scope != "resource" or others is False:
        return (), None
    if others is True:
        return (yield from _reading_weights(resource, log, thread_pk, cache)), None
    return (), (yield from reading_others(resource, log.pk, thread_pk, (), others, cache))


def _reading_weights(
    resource: str, log: LogHead, thread_pk: int, cache: MemoryCache
) -> Script[tuple[OtherThread, ...]]:
    """Return the other threads with messages that the log does not cover, at most OTHER_ROWS messages, the oldest thread first.

    Reads only the messages of threads that have changed since they were cached.
    """
    read, found, left = dict[int, tuple[Row, int]](), dict[int, OtherThread](), OTHER_ROWS
    for row in (yield q.other_heads(resource=resource, log_pk=log.pk, thread_pk=thread_pk, limit=OTHER_ROWS)):
        if left <= 0:
            break
        read[row.pk] = row, left
        left -= row.last_seq - row.cursor
        known = None if row.may_differ else cache.others.get((log.id, row.pk, row.created_at))
        if known is not None and _is_same(known, row):
            found[row.pk] = known
    for some in chunks([pk for pk in read if pk not in found], _KEYS_A_QUERY):
        rows = yield q.other_messages(log_pk=log.pk, threads=some, limit=OTHER_ROWS)
        for pk, of_thread in groupby(rows, key=attrgetter("thread_pk")):
            row, most = read[pk]
            other = found[pk] = _other_thread(row, [*of_thread][:most])
            if not row.may_differ and len(other.weights) == row.last_seq - row.cursor:
                cache.others.put((log.id, pk, row.created_at), other, weight=len(other.weights))
    return tuple([found[pk] for pk in read if pk in found])


def _is_same(known: OtherThread, row: Row) -> bool:
    """Return whether a cached thread is still as in an `other_heads` row. Its messages were not changed then."""
    return (
        known.last_seq == row.last_seq
        and known.cursor == row.cursor
        and known.alias == row.alias
        and known.hinted_seq == row.hinted_seq
    )


def _other_thread(row: Row, messages: Sequence[Row]) -> OtherThread:
    weights = weights_of_rows(messages)
    return OtherThread(
        thread=row.thread,
        cursor=row.cursor,
        last_seq=row.last_seq,
        alias=row.alias,
        hinted_seq=row.hinted_seq,
        weights=weights,
        tokens=sum([weight.tokens for weight in weights]),
        has_files=any(weight.file_tokens for weight in weights),
        said=sum([message.state == "live" and not message.own for message in messages]),
    )


def weights_of_rows(rows: Iterable[Row]) -> tuple[Weight, ...]:
    """Return the `Weight` of each row of `other_messages` or `oldest_of`."""
    return tuple(map(_weight_of_row, rows))


def _weight_of_row(row: Row) -> Weight:
    at = from_micros(row.created_at)
    if row.state != "live":
        return Weight(seq=row.seq, tokens=0, role=row.role, at=at, turn=row.turn, is_gone=True)
    opens, closes = loads(row.pairs) if row.pairs else ((), ())
    return Weight(
        seq=row.seq,
        tokens=tokens_in(row),
        role=row.role,
        at=at,
        opens=tuple(opens),
        closes=tuple(closes),
        turn=row.turn,
        file_tokens=file_tokens_in(row),
    )


def reading_groups(log: LogHead, cache: MemoryCache) -> Script[tuple[GroupRow, ...]]:
    """Return the groups of a log, from the cache if possible."""
    groups, is_complete = cache.groups(log)
    if is_complete:
        return groups
    after = groups[-1].position if groups else 0
    rows = yield q.newer_groups(log_pk=log.pk, generation=log.generation, after=after)
    return (*groups, *cache.known_groups(log, map(group_row, rows)))


def reading_tail(
    thread_pk: int, start: int, last_seq: int, cached: _KnownTail
) -> Script[tuple[tuple[Message, ...], KnownRows]]:
    """Return the messages after `start`, and those of them that the next snapshot can take from the cache.

    Reads only the messages that are not cached or have changed since they were saved.
    """
    known = cached.rows
    newest = next(reversed(known), 0)
    first = max(newest, start + 1)
    if cached.may_differ and first > start + 1:
        rows = yield messages.tail(thread_pk=thread_pk, after=start, known=first)
    else:
        rows = yield messages.since(thread_pk=thread_pk, first=first)
    fresh = {row.seq: message_from_row(row) for row in rows}
    kept = dict(known)
    if next(iter(known), LAST) <= start:
        kept = {seq: message for seq, message in known.items() if seq > start}
    for seq in fresh:
        kept.pop(seq, None)
    is_same = newest <= start or (newest in fresh and fresh[newest].id == known[newest].id)
    if not is_same or len(kept) + len(fresh) != last_seq - start:
        # Rows are missing, or `thread_pk` now belongs to another thread, so read all rows.
        rows = yield messages.since(thread_pk=thread_pk, first=start + 1)
        fresh, kept = {row.seq: message_from_row(row) for row in rows}, {}
    tail = (*kept.values(), *fresh.values())
    if kept and fresh and next(iter(fresh)) < next(reversed(kept)):
        tail = tuple(sorted(tail, key=attrgetter("seq")))
    for row in rows:
        # A task may be added later, a compaction may be undone, and the count of a large file is corrected by reported usage.
        may_change = row.state != "live" or row.level != 0 or row.task is not None or row.file_tokens is not None
        if not (may_change or row.pruned or len(row.parts) > _SHORT_CHARACTERS):
            kept[row.seq] = fresh[row.seq]
    return tail, kept


def _reading_own_tail(
    head: ThreadHead, cursor: int, cached: _KnownTail, newest: int | None, most: int | None, unseen: Iterable[Row]
) -> Script[tuple[tuple[Message, ...], KnownRows, int | None]]:
    """Return the tail, the messages that the next snapshot can take from the cache, and the third value of `_reading_end`."""
    if newest is not None or most is None:
        # With `observe=False` a context shows the newest messages, even if a log from earlier covers them.
        start = cursor if newest is None else max(0, head.last_seq - newest)
        return *(yield from reading_tail(head.pk, start, head.last_seq, cached)), None
    first_unseen = min((row.first_seq for row in unseen if row.thread == head.id), default=head.last_seq + 1)
    return (yield from _reading_end(head, cursor, cached, most, first_unseen))


def _reading_end(
    head: ThreadHead, cursor: int, cached: _KnownTail, most: int, first_unseen: int
) -> Script[tuple[tuple[Message, ...], KnownRows, int | None]]:
    """Return the messages after the cursor, or the end of them that a context shows, and the number of its first message.

    The number is None if a context shows the whole tail.
    """
    first_shown = partial(_first_shown, last_seq=head.last_seq, most=most, first_unseen=first_unseen)
    if head.last_seq - cursor - len(cached.rows) <= _WHOLE_ROWS:
        tail, known = yield from reading_tail(head.pk, cursor, head.last_seq, cached)
        shown_from = None
        if sum([m.tokens for m in tail]) > most:
            shown_from = first_shown((m.seq, m.tokens if m.state == "live" else 0, m.turn) for m in reversed(tail))
        start = cursor if shown_from is None else shown_from - 1 - _LEAD_IN
        return tail if start <= cursor else tuple(m for m in tail if m.seq > start), known, shown_from
    sizes, count, shown_from = list[tuple[int, int, str | None]](), _SIZES, None
    while shown_from is None and len(sizes) < head.last_seq - cursor:
        before = sizes[-1][0] if sizes else head.last_seq + 1
        rows = yield messages.sizes(thread_pk=head.pk, after=cursor, before=before, limit=count)
        if not rows:
            break
        sizes += ((row.seq, tokens_in(row) if row.state == "live" else 0, row.turn) for row in rows)
        shown_from, count = first_shown(sizes), len(sizes)
    start = cursor if shown_from is None else max(cursor, shown_from - 1 - _LEAD_IN)
    return *(yield from reading_tail(head.pk, start, head.last_seq, cached)), shown_from


def _first_shown(
    sizes: Iterable[tuple[int, int, str | None]], *, last_seq: int, most: int, first_unseen: int
) -> int | None:
    """Return the number of the first message that a context shows. None if it shows all of them.

    `sizes` has the number, the tokens and the turn of each message, the newest first. Only imported messages, which have no turn,
    are left out, and only if they and the later messages have more than `most` tokens. The result is rounded up, so that it stays
    the same while a few messages are added.
    """
    total, first_of_turn = 0, first_unseen
    for seq, tokens, turn in sizes:
        total += tokens
        if turn is not None:
            first_of_turn = min(first_of_turn, seq)
        elif total > most and seq < first_unseen:
            return min(_rounded(seq + 1, last_seq - seq), first_of_turn)
    return None


def _rounded(seq: int, shown: int) -> int:
    """Return the next number that is a multiple of a power of two, at most a quarter of the shown messages later."""
    step = 1 << max(0, (shown // 4).bit_length() - 1)
    return -(-seq // step) * step


def _reading_backlog(head: ThreadHead, shown_from: int | None, after: int, *, decides: bool) -> Script[Backlog | None]:
    """Return the backlog of which a context shows the messages from `shown_from` on. None if it shows the whole tail."""
    if shown_from is None:
        return None
    oldest: Any = ()
    if decides:
        oldest = yield messages.oldest_of(thread_pk=head.pk, after=after, limit=BACKLOG_ROWS)
    return Backlog(shown_from=shown_from, after=after, oldest=tuple(oldest))


def _end_of_buffered(cursor: int, thread: str, buffered: Sequence[Row]) -> int:
    """Return the last message of the buffered groups that continue the cursor without a gap."""
    spans = sorted((row.first_seq, row.last_seq) for row in buffered if row.thread == thread and row.first_seq)
    for first, last in spans:
        if first != cursor + 1:
            break
        cursor = last
    return cursor


def completing_log(resource: str, thread: str, scope: Scope, new_id: Callable[[], str], now: int) -> Script[None]:
    """Create the log of a thread, and its cursor there, if they are missing."""
    thread_pk = (yield from _heads(resource, thread, scope)).pk
    log = yield from ensure_log(resource, thread_pk if scope == "thread" else None, new_id, now)
    yield q.lock_log(log_pk=log.pk)
    yield q.create_cursor(log_pk=log.pk, thread_pk=thread_pk, seq=0)
    if scope == "resource":
        yield q.create_cursors(resource=resource, log_pk=log.pk)


def checking_version(log_pk: int, version: int, resource: str | None = None) -> Script[None]:
    """Raise Conflict if the log has changed or belongs to another resource, before any row is locked."""
    if not (yield q.version_is(log_pk=log_pk, version=version, resource=resource)):
        raise Conflict("The log has changed since it was read.", then="Read it again and decide again.")


def _tail_key(log: LogHead, thread: ThreadHead) -> tuple[object, ...]:
    # A new thread may get the primary key of a deleted thread, but not the same time of creation.
    return log.id, thread.pk, thread.created_at


def goes_on(tail: Sequence[Message], asked: Sequence[Message]) -> bool:
    """Return whether a tail continues the turn of `asked`, the last user message before the tail, if there is one.

    It does if the tail is empty, or begins with a tool call or a result. It also does if it begins with an answer of another turn
    than the question: then the question was answered again after a rewind.
    """
    first = _first(tail)
    if first is None or any(pairs_of(first.parts)):
        return True
    return first.role == "assistant" and any(first.turn != one.turn for one in asked)


def _first(tail: Sequence[Message]) -> Message | None:
    return next((message for message in tail if message.state == "live" and message.role != "system"), None)


def _repeated(thread_pk: int, cursor: int, tail: Sequence[Message]) -> Script[tuple[Message, ...]]:
    """Return the user message that the tail continues, if the log covers that message."""
    first = _first(tail)
    if cursor == 0 or (first is not None and first.role == "user" and not any(pairs_of(first.parts))):
        return ()
    rows = yield messages.last_user(thread_pk=thread_pk, up_to=cursor)
    asked = tuple(map(message_from_row, rows))
    return asked if goes_on(tail, asked) else ()


def find_log(resource: str, thread_pk: int | None) -> Script[LogHead | None]:
    """Return the log of a thread, or the shared log of the resource if `thread_pk` is None. None if there is none."""
    rows = yield q.find_log(resource=resource, thread_pk=thread_pk or 0)
    return _log_head(rows[0]) if rows else None


def ensure_log(resource: str, thread_pk: int | None, new_id: Callable[[], str], now: int) -> Script[LogHead]:
    """Return the log of a thread, or the shared log of the resource if `thread_pk` is None. A missing log is created."""
    log = yield from find_log(resource, thread_pk)
    if log is None:
        created = yield q.create_log(id=new_id(), resource=resource, thread_pk=thread_pk, now=now)
        if created:
            yield from new_generation(created[0].pk, 0, "start", (), now, before=0, after=0)
        log = yield from find_log(resource, thread_pk)
    if log is None:
        raise Conflict("The log was deleted while it was read.", then="Read it again and decide again.")
    return log


def new_generation(
    log_pk: int,
    number: int,
    kind: str,
    groups: Sequence[int],
    at: int,
    *,
    before: int,
    after: int,
    dropped: Sequence[str] = (),
    restored_from: int | None = None,
    cause: GenerationCause | None = None,
) -> Script[Generation]:
    """Create a generation from `groups`, in this order, and make it the current one."""
    rows = yield q.create_generation(
        log_pk=log_pk,
        number=number,
        kind=kind,
        now=at,
        restored_from=restored_from,
        tokens_before=before,
        tokens_after=after,
        dropped=dumps(list(dropped)),
        working_memory=(yield from present_versions(log_pk)),
        cause=cause,
    )
    entries = [
        {"log_pk": log_pk, "generation": number, "position": position, "group_pk": group_pk, "now": at}
        for position, group_pk in enumerate(groups, start=1)
    ]
    yield q.add_entry.many(entries)
    yield q.set_generation(log_pk=log_pk, generation=number)
    return generation_from_row(rows[0])


def reading_others(
    resource: str,
    log_pk: int,
    thread_pk: int,
    known: Sequence[OtherThread],
    limits: OtherLimits,
    cache: MemoryCache,
    *,
    version: int | None = None,
) -> Script[OtherTails]:
    """Return the newest messages of other threads.

    `known` are the threads that the log did not cover in an earlier snapshot, when the log had this `version`.
    """
    where = {"resource": resource, "log_pk": log_pk, "thread_pk": thread_pk}
    known_by_name = {other.thread: other for other in known}
    # In the same version no cursor has moved, so the threads of `known` are found without their names.
    is_same = version is not None and bool((yield q.version_is(log_pk=log_pk, version=version, resource=resource)))
    ends = [] if is_same else list(known_by_name)
    rows = yield q.other_threads(**where, ends=ends, limit=limits.threads)
    if not rows:
        return OtherTails()
    covered: dict[str, int] = {}
    same = dict[int, OtherThread]()
    for row in rows:
        before = known_by_name.get(row.id)
        covered[row.id] = row.cursor if before is None else before.cursor
        if before is not None and before.last_seq == row.last_seq:
            same[row.pk] = before
    tails = yield from _newest({row.pk: covered[row.id] for row in rows}, covered, limits, cache, same)
    totals, more = yield from _counting(where, known, rows)
    found: list[OtherTail] = []
    for row in rows:
        end, earlier = covered[row.id], 0
        tail = tuple(m for m in tails.get(row.id, ()) if m.seq > end and m.state == "live" and not m.own)
        tail = tail[-limits.messages :]
        if tail and row.id in totals:
            earlier = max(0, totals[row.id] - len(tail))
        elif tail:
            # The cursor has moved or the thread has grown since that snapshot, so count the messages after the old cursor.
            earlier = (yield messages.count_said(thread_pk=row.pk, after=end, before=tail[0].seq))[0].messages
        title = unpack(row.title) or unpack(row.hinted_title)
        found.append(OtherTail(thread=row.id, alias=row.alias, title=title, messages=tail, earlier=earlier))
    return OtherTails(tails=tuple(found), more_threads=more[0], more_messages=more[1])


def _counting(
    where: Mapping[str, object], known: Sequence[OtherThread], rows: Sequence[Row]
) -> Script[tuple[dict[str, int], tuple[int, int]]]:
    """Return how many messages of the threads in `rows` the log does not cover, and how many other threads and messages.

    They are counted in an earlier snapshot if there is one. A thread that has grown since then is not in the first result.
    """
    if known and sum([len(other.weights) for other in known]) < OTHER_ROWS:
        shown = {row.id: row.last_seq for row in rows}
        totals = {one.thread: one.said for one in known if shown.get(one.thread) == one.last_seq}
        rest = [one.said for one in known if one.said and one.thread not in shown]
        return totals, (len(rest), sum(rest))
    counted = {row.place: row for row in (yield q.count_other_messages(**where, read=[row.pk for row in rows]))}
    ends = {one.thread: one.cursor for one in known}
    totals = {
        row.id: counted[row.pk].messages
        for row in rows
        if row.pk in counted and ends.get(row.id, row.cursor) == row.cursor
    }
    return totals, (counted[0].threads, counted[0].messages) if 0 in counted else (0, 0)


def _newest(
    after: Mapping[int, int],
    covered: Mapping[str, int],
    limits: OtherLimits,
    cache: MemoryCache,
    same: Mapping[int, OtherThread],
) -> Script[dict[str, Sequence[Message]]]:
    """Return the newest messages of each thread that the log does not cover: as many as a context can show, or more.

    Reads only the messages of threads that have changed since they were cached. `same` has the threads that have not changed
    since the snapshot of the caller.
    """
    # Tombstones and Memolog's own messages are not shown, so read up to twice as many as are shown.
    most = 2 * limits.messages
    reach = most if limits.tokens is None else min(_FIRST_READ, most)
    while True:
        tails = dict[str, Sequence[Message]]()
        for pk, thread in same.items():
            cached = cache.newest.get(pk)
            if cached is not None and cached.thread is thread and cached.asked == reach:
                tails[thread.thread] = cached.messages
        rest = [pk for pk in after if pk not in same or same[pk].thread not in tails]
        read = (yield from reading_newest(rest, reach, cache, after)) if rest else ()
        for name, of_thread in groupby(read, key=attrgetter("thread")):
            tails[name] = tuple(of_thread)
        for pk in rest:
            if pk in same and (tail := tails.get(same[pk].thread, ())) and all(map(_is_as_saved, tail)):
                weight = sum([message.tokens for message in tail])
                cache.newest.put(pk, _NewestOf(same[pk], reach, tuple(tail)), weight=weight)
        if reach == most or _is_enough(tails.values(), covered, limits.tokens or 0):
            return tails
        reach = min(4 * reach, most)


def _is_as_saved(message: Message) -> bool:
    """Return whether a message has not changed since it was saved. The count of a large file may change without a trace."""
    is_plain = message.level == 0 and not message.pruned and message.task is None
    return is_plain and message.state == "live" and not message.file_tokens


def reading_newest(
    pks: Sequence[int], newest: int, cache: MemoryCache, after: Mapping[int, int] = MappingProxyType({})
) -> Script[list[Message]]:
    """Return the newest messages of several threads in their order. Reads only the messages that are not cached.

    `after` has the sequence number after which the messages of a thread are wanted, by the key of the thread.
    """
    keys = [
        key for key in (yield messages.newest_of(threads=pks, newest=newest)) if key.seq > after.get(key.thread_pk, 0)
    ]
    found: dict[int, Message] = {}
    for key in keys:
        known = None if key.may_differ else cache.beside.get((key.thread_pk, key.seq, key.id))
        if known is not None:
            found[key.pk] = known
    for missing in chunks([key for key in keys if key.pk not in found], _KEYS_A_QUERY):
        rows = yield messages.by_keys(keys=[key.pk for key in missing])
        for key, row in zip(missing, rows, strict=True):
            found[key.pk] = message = message_from_row(row)
            if not key.may_differ and len(row.parts) <= _SHORT_CHARACTERS:
                cache.beside.put((key.thread_pk, key.seq, key.id), message, weight=message.tokens)
    return [found[key.pk] for key in keys]


def _is_enough(tails: Iterable[Sequence[Message]], covered: Mapping[str, int], tokens: int) -> bool:
    """Return whether these messages fill `tokens`, or no thread has older messages that the log does not cover."""
    read = list(tails)
    begun = [tail[0].created_at for tail in read if tail[0].seq > covered[tail[0].thread] + 1]
    if not begun:
        return True
    newer = (m for tail in read for m in tail if m.created_at >= max(begun) and m.state == "live" and not m.own)
    return sum(min(message.tokens, _LINE_TOKENS) for message in newer) >= tokens


# ---------------------------------------------------------------- rows as values


def _heads(resource: str, thread: str, scope: Scope) -> Script[Row]:
    """Return the row with a thread, its log and its cursor. Raise ThreadNotFound if there is no such thread."""
    rows = yield q.heads(resource=resource, thread=thread, shared=int(scope == "resource"))
    if not rows:
        raise (yield from no_thread(resource, thread))
    return rows[0]


def _thread_head(thread: str, row: Row) -> ThreadHead:
    return from_row(
        ThreadHead,
        row,
        id=thread,
        hints=hints_from_row(row),
        last_request_at=moment(row.last_request_at),
        overrides=object_in(row.overrides),
        title=unpack(row.title),
        has_tasks=row.last_handle is not None,
    )


def _log_head(row: Row, **keys: object) -> LogHead:
    """Return the log of a `find_log` row, or of a `heads` row with the keys of the log."""
    return from_row(
        LogHead,
        row,
        **keys,
        retry_at=moment(row.retry_at),
        last_success_at=moment(row.last_success_at),
        last_error_at=moment(row.last_error_at),
        last_error=unpack(row.last_error),
        settled_tokens=max(row.tokens_after, _incompressible_tokens(row.abandoned, row.generation)),
    )


def _incompressible_tokens(inputs: str | None, generation: int) -> int:
    """Return the tokens of the log when a reflection of this generation failed to shorten it. Return 0 if none failed."""
    if not inputs or '"incompressible"' not in inputs:
        return 0
    found: JsonObject = loads(inputs)
    return int(found.get("log_tokens", 0)) if found.get("generation") == generation else 0


def group_row(row: Row) -> GroupRow:
    """Return the group of a row with the columns of `select_groups` and `position`."""
    return from_row(
        GroupRow,
        row,
        text=unpack(row.text) or "",
        first_at=moment(row.first_at),
        last_at=moment(row.last_at),
        activated_at=moment(row.activated_at),
        span=span_from_row(row),
    )


@remembered(_BUFFERED)
def _buffered_row(row: Row) -> BufferedRow:
    # Only the inputs of a reflection contain the groups that it covers.
    inputs: JsonObject = loads(row.inputs) if row.kind == "reflection" and row.inputs else {}
    return from_row(BufferedRow, row, span=span_from_row(row), covers=tuple(inputs.get("groups", ())))


def _run_row(row: Row) -> RunRow:
    return from_row(
        RunRow,
        row,
        span=span_from_row(row),
        lease_until=from_micros(row.lease_until),
        retry_at=moment(row.retry_at),
        beat_at=from_micros(row.heartbeat_at),
        owner_beat=beat_of(row),
    )


def generation_from_row(row: Row) -> Generation:
    """Return the generation of a `create_generation` or `generations` row."""
    return from_row(Generation, row, created_at=from_micros(row.created_at), dropped=tuple(loads(row.dropped)))
