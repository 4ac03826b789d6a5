"""The input of `decide` (`State`), its results, and the functions that compute a State from a snapshot.

Token counts in a State are calibrated to the model in use.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from operator import attrgetter
from typing import NamedTuple, TypeAlias

from memolog.core.cache import each_once, remembered
from memolog.core.config import Config
from memolog.core.exact_json import JsonObject
from memolog.core.message import Message, TextPart, pairs_of
from memolog.core.model_names import context_window
from memolog.core.observation import Scope, Span
from memolog.core.run import RunKind
from memolog.db.queries import Row
from memolog.log.snapshot import (
    BufferedRow,
    GroupRow,
    LogHead,
    OtherLimits,
    OtherThread,
    RunRow,
    Snapshot,
    ThreadHead,
    Weight,
    weights_of_rows,
)
from memolog.text.message_tokens import LARGE_FILE
from memolog.text.tokens import calibrated, uncalibrated

# For how many seconds providers cache a prompt, from their documentation. If they give a range, this is its minimum.
_CACHE_SECONDS = {"anthropic": 300.0, "openai": 300.0, "google": 300.0, "gemini": 300.0}
_DEFAULT_CACHE_SECONDS = 300.0

# While the large files of a tail fit into this share of the context window, they count like images. See `without_files`.
_FILE_SHARE = 0.75
# The number of backlogs whose weights are cached. They have no text.
_REMEMBERED_TAILS = 64
_UNKNOWN_WINDOW = 128_000


_SEQ: Callable[[Weight], int] = attrgetter("seq")
_FILE_TOKENS: Callable[[Weight], int] = attrgetter("file_tokens")


def scaled_sum(weights: Iterable[Weight], factor: float) -> int:
    """Return the tokens of messages, as the model counts them."""
    return _scaled(sum([weight.tokens for weight in weights]), factor)


class Tail(NamedTuple):
    """The messages of one thread that the log does not cover yet.

    A named tuple, because the tails of all threads of a shared log are made in every turn.
    """

    thread: str
    cursor: int
    weights: tuple[Weight, ...]
    """Every message after the cursor, without a gap. Tombstones are included and have 0 tokens."""
    hinted: bool = False
    """Whether a run has observed this thread before."""
    unseen_from: int | None = None
    """The first message that a running turn has saved and no model has seen. It and all later messages stay in the tail."""
    factor: float = 1.0
    """The calibration factor. Sums of tokens are multiplied by it. The weights themselves have counted tokens."""
    later: tuple[Weight, ...] = ()
    """With a backlog, the newest messages, if messages between `weights` and them were not read."""
    is_backlog: bool = False
    """Whether a context does not show the first messages, because they were imported and are too many. No turn waits for them."""
    counted: int | None = None
    """The sum of the tokens of `weights`, if it is known."""

    @property
    def tokens(self) -> int:
        """Return the tokens of the messages that were read."""
        if self.counted is not None and not self.later:
            return _scaled(self.counted, self.factor)
        return scaled_sum((*self.weights, *self.later), self.factor)

    @property
    def seen_tokens(self) -> int:
        """Return the tokens of the messages that were read and a model has seen."""
        if self.unseen_from is None:
            return self.tokens
        later = (weight for weight in self.later if weight.seq < self.unseen_from)
        return scaled_sum((*self.between(0, self.unseen_from - 1), *later), self.factor)

    def is_seen(self, seq: int) -> bool:
        """Return whether a model has seen this message and all messages before it."""
        return self.unseen_from is None or seq < self.unseen_from

    def tokens_in(self, span: Span) -> int:
        """Return the tokens of a span of the tail."""
        return scaled_sum(self.between(span.first, span.last), self.factor)

    def between(self, first: int, last: int | None) -> tuple[Weight, ...]:
        """Return the messages from `first` to `last`, or to the end if `last` is None."""
        start = bisect_left(self.weights, first, key=_SEQ)
        return self.weights[start : None if last is None else bisect_right(self.weights, last, key=_SEQ)]


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanOf:
    """A span of one thread."""

    thread: str
    span: Span


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadyGroup(SpanOf):
    """A buffered group. Contexts do not show it until it is activated."""

    id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """Do nothing: use the context as it is."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Activate:
    """Move these buffered groups into the log, in this order."""

    groups: tuple[str, ...]
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Buffer:
    """Observe these spans in the background, with one model call."""

    spans: tuple[SpanOf, ...]
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Observe:
    """Wait for a running run or, if `run` is None, start a run over these spans and wait for it."""

    run: str | None
    spans: tuple[SpanOf, ...]
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Reflect:
    """Start a reflection of these groups, or use the running run `run`. The caller waits for the result if `wait` is True."""

    groups: tuple[str, ...]
    reason: str
    run: str | None = None
    wait: bool = False
    room: int | None = None
    """The most tokens of 🔴 and ✅ lines that the log has room for in place of `groups`. None: no line needs to leave the log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActivateReflection:
    """Activate a buffered reflection: it replaces the groups that it covers."""

    group: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Recover:
    """Take over a run whose owner let the lease expire, or retry a failed run."""

    run: str
    fence: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Trim:
    """Shorten the context to stay below the hard limit. Stored messages do not change."""

    limit: int
    reason: str


Decision: TypeAlias = Wait | Activate | Buffer | Observe | Reflect | ActivateReflection | Recover | Trim

_FOLLOWS = {"observe": "activate", "reflect": "activate_reflection"}
_DONE_BY: dict[type[object], frozenset[str]] = {
    Buffer: frozenset({"buffer", "observe"}),
    Observe: frozenset({"buffer", "observe"}),
    Reflect: frozenset({"reflect"}),
    ActivateReflection: frozenset({"reflect", "activate_reflection"}),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The part of the input of `decide` that the caller passes."""

    model: str | None = None
    may_wait: bool = False
    """Whether the caller may wait for a model. False in the background, and when a turn has used up its deadline."""
    may_activate: bool = True
    """False in the background, because the log changes only right before a context is built from it."""
    may_start: bool = True
    """False if background runs are left to a worker. Then only runs that the caller must wait for are started."""
    ending: bool = False
    """True at the end of a turn."""
    by_hand: frozenset[str] = frozenset()
    """The actions that a manual call requests: `buffer`, `observe`, `activate`, `reflect`, `activate_reflection`."""
    through: int = 0
    """The last message of the thread when the manual call was made."""
    factor: float = 1.0
    """The calibration factor: counted tokens times this factor are the tokens of the model."""
    silent: frozenset[str] = frozenset()
    """The runs of dead processes, including runs whose lease has not expired."""
    unseen: Mapping[str, int] = field(default_factory=dict[str, int])
    """By thread, the first message that a running turn has saved and no model has seen."""

    def after(self, decision: Decision) -> "Asked":
        """Return the input of the next round: without the manual request that was performed, but with the activation after it."""
        done = self.by_hand & _DONE_BY.get(type(decision), frozenset())
        if not done:
            return self
        # A buffered reflection that was activated fulfils the request, so no further activation follows.
        follows = (
            () if isinstance(decision, ActivateReflection) else (_FOLLOWS[what] for what in done & _FOLLOWS.keys())
        )
        by_hand = (self.by_hand - done).union(follows)
        # A manual call waits only while one of its own requests is left.
        return replace(self, by_hand=by_hand, may_wait=self.may_wait and not by_hand.isdisjoint(_FOLLOWS))


@dataclass(frozen=True, kw_only=True)
class State:
    """The input of `decide`."""

    scope: Scope
    thread: ThreadHead
    """The thread of the turn, or of the call, that decides."""
    log: LogHead = field(default_factory=LogHead)
    asked: Asked = field(default_factory=Asked)
    tails: tuple[Tail, ...]
    repeated_tokens: int = 0
    """Tokens of the user message that the tail continues. The log covers this message, but the context shows it again."""
    entries: tuple[GroupRow, ...] = ()
    """The active groups, in the order of the log."""
    ready: tuple[ReadyGroup, ...] = ()
    runs: tuple[RunRow, ...] = ()
    reflection: BufferedRow | None = None
    last_activation_at: datetime | None = None
    cache_seconds: float | None = None
    """For how many seconds the provider caches a prompt. None means that the cache is ignored."""

    @cached_property
    def uncovered_tokens(self) -> int:
        """Return the tokens of messages that the log does not cover, of all threads of the log."""
        return sum(tail.tokens for tail in self.tails)

    @cached_property
    def seen_tokens(self) -> int:
        """Return the tokens of messages that the log does not cover and a model has seen, of all threads of the log."""
        return sum(tail.seen_tokens for tail in self.tails)

    @cached_property
    def file_tokens(self) -> int:
        """Return the tokens of large files of the own tail that `tail_tokens` does not include."""
        return self.scaled(sum(weight.uncounted for weight in self.own_tail.weights))

    @cached_property
    def tail_tokens(self) -> int:
        """Return `uncovered_tokens` plus `repeated_tokens`.

        The limit of the tail applies to `uncovered_tokens` only, because a repeated message was counted when it was new.
        """
        return self.uncovered_tokens + self.repeated_tokens

    @cached_property
    def log_tokens(self) -> int:
        """Return the tokens of the log."""
        return self.scaled(sum(entry.tokens for entry in self.entries))

    def scaled(self, tokens: int) -> int:
        """Return counted tokens as tokens of the model. The entries of the log have counted tokens."""
        return _scaled(tokens, self.asked.factor)

    def counted(self, tokens: int) -> int:
        """Return how many counted tokens are at most this many tokens of the model."""
        return tokens if self.asked.factor == 1.0 else uncalibrated(self.asked.factor, tokens)

    @cached_property
    def taken(self) -> dict[str, list[Span]]:
        """Return the spans of buffered groups and runs, by thread."""
        found: dict[str, list[Span]] = {}
        for holder in (*self.ready, *self.runs):
            if holder.thread is not None and holder.span is not None:
                found.setdefault(holder.thread, []).append(holder.span)
        return found

    @cached_property
    def taken_tokens(self) -> int:
        """Return the tokens of the messages in buffered groups and runs, of all threads of the log."""
        return sum(tail.tokens_in(span) for tail in self.tails for span in self.taken.get(tail.thread, ()))

    @property
    def own_tail(self) -> Tail:
        """Return the tail of `thread`."""
        return next((tail for tail in self.tails if tail.thread == self.thread.id), self.tails[0])

    def running(self, kind: RunKind) -> tuple[RunRow, ...]:
        """Return the running runs of a kind."""
        return tuple(run for run in self.runs if run.kind == kind and run.status == "running")


def cache_seconds(config: Config, model: str | None) -> float | None:
    """Return after how many seconds without a request the provider's cache expires. None means that the cache is ignored."""
    setting = config.activate_after_idle
    if setting is False:
        return None
    if setting == "auto":
        provider = (model or "").split(":", maxsplit=1)[0].removesuffix("-chat").removesuffix("-responses")
        return _CACHE_SECONDS.get(provider, _DEFAULT_CACHE_SECONDS)
    return float(setting)


def others_for(config: Config, *, decides: bool) -> bool | OtherLimits:
    """Return the `others` argument of a snapshot: True if the caller calls `decide`, else the limits of a context."""
    if decides:
        return True
    if not (config.observe and config.other_tokens and config.other_threads):
        return False
    return OtherLimits(threads=config.other_threads, messages=config.other_messages, tokens=config.other_tokens)


def state_of(snapshot: Snapshot, config: Config, asked: Asked) -> State:
    """Return the input of `decide`."""
    unseen = dict(asked.unseen)
    if asked.by_hand & {"observe", "activate"}:
        # For a manual call, all messages that its thread had at that time count as seen. Other threads are not affected.
        first = unseen.get(snapshot.thread.id)
        unseen |= {} if first is None else {snapshot.thread.id: max(first, asked.through + 1)}
    own = _own_tail(snapshot, unseen, asked.factor)
    window = context_window(asked.model or snapshot.thread.last_model or "") or _UNKNOWN_WINDOW
    room = int(window * _FILE_SHARE)
    others = [_other_tail(other, unseen.get(other.thread), asked.factor, room) for other in snapshot.others]
    # A tail without a live message shows no message again.
    repeated = snapshot.repeated if any(message.state == "live" for message in snapshot.tail) else ()
    return State(
        scope=snapshot.scope,
        thread=snapshot.thread,
        log=_scaled_log(snapshot.log, asked.factor),
        asked=asked,
        tails=(own._replace(weights=without_files(own.weights, room, asked.factor)), *others),
        repeated_tokens=_scaled(sum(min(m.tokens, config.repeated_tokens) for m in repeated), asked.factor),
        entries=snapshot.groups,
        ready=tuple(
            ReadyGroup(id=group.id, thread=group.thread, span=group.span)
            for group in snapshot.buffered
            if group.thread is not None
            and group.span is not None
            # Without a backlog this is always true. With a backlog that begins after some groups, these cannot be activated now.
            and (group.thread != own.thread or group.span.first > own.cursor)
        ),
        runs=tuple(replace(run, is_silent=True) if run.id in asked.silent else run for run in snapshot.runs),
        reflection=next((group for group in snapshot.buffered if group.kind == "reflection"), None),
        last_activation_at=max((g.activated_at for g in snapshot.groups if g.activated_at), default=None),
        cache_seconds=cache_seconds(config, asked.model or snapshot.thread.last_model),
    )


def _own_tail(snapshot: Snapshot, unseen: Mapping[str, int], factor: float) -> Tail:
    """Return the tail of the thread of a snapshot. With a backlog it begins with the oldest messages of the backlog."""
    backlog, newest = snapshot.backlog, weights_of(snapshot.tail)
    own = Tail(
        thread=snapshot.thread.id,
        cursor=snapshot.cursor,
        weights=newest,
        hinted=snapshot.thread.hints.last_seq > 0,
        unseen_from=unseen.get(snapshot.thread.id),
        factor=factor,
    )
    if backlog is None:
        return own
    oldest = _backlog_weights(backlog.oldest)
    end = oldest[-1].seq if oldest else backlog.after
    after = newest[bisect_right(newest, end, key=_SEQ) :]
    is_whole = not after or after[0].seq == end + 1
    return own._replace(
        cursor=backlog.after,
        weights=(*oldest, *after) if is_whole else oldest,
        later=() if is_whole else after,
        is_backlog=True,
    )


def _scaled(tokens: int, factor: float) -> int:
    return tokens if factor == 1.0 or not tokens else calibrated(factor, tokens)


def _scaled_log(log: LogHead, factor: float) -> LogHead:
    settled = _scaled(log.settled_tokens, factor)
    return log if settled == log.settled_tokens else replace(log, settled_tokens=settled)


def weights_of(messages: Sequence[Message]) -> tuple[Weight, ...]:
    """Return the `Weight` of each message. A tombstone has no tokens and no calls."""
    return _weights(messages)


def without_files(weights: tuple[Weight, ...], room: int, factor: float) -> tuple[Weight, ...]:
    """Return the weights with large files counted like images, from the newest message back, while the files fit into `room`.

    Users ask several questions about a document, and an observation does not replace it. So the text of the conversation, not the
    size of the document, determines when the document leaves the tail. Files that do not fit into `room` count in full. `factor`
    is the calibration factor of the model that `room` belongs to.
    """
    if not any(map(_FILE_TOKENS, weights)):
        return weights
    counted: list[Weight] = []
    used = 0
    for weight in reversed(weights):
        used += weight.file_tokens
        rest = max(0, weight.file_tokens - LARGE_FILE) if _scaled(used, factor) <= room else 0
        counted.append(weight._replace(tokens=weight.tokens - rest, uncounted=rest) if rest else weight)
    return tuple(reversed(counted))


def _weight(message: Message) -> Weight:
    if message.state != "live":
        return Weight(seq=message.seq, tokens=0, role=message.role, at=message.created_at, is_gone=True)
    calls, results = ((), ()) if _is_plain(message) else pairs_of(message.parts)
    return Weight(
        seq=message.seq,
        tokens=message.tokens,
        role=message.role,
        at=message.created_at,
        opens=calls,
        closes=results,
        turn=message.turn,
        file_tokens=message.file_tokens,
    )


# A tail grows by only a few messages between two calls of `decide`, so the weights of the other messages are cached.
_weights = each_once(_weight, attrgetter("tokens"))


def _is_plain(message: Message) -> bool:
    """Return whether a message has no calls and no results, because it is a system message or a single text."""
    parts = message.parts
    return message.role == "system" or (len(parts) == 1 and type(parts[0]) is TextPart)


def _other_tail(other: OtherThread, unseen_from: int | None, factor: float, room: int) -> Tail:
    weights, counted = other.weights, other.tokens
    if other.has_files:
        weights = without_files(weights, room, factor)
        counted = sum([weight.tokens for weight in weights])
    return Tail(
        thread=other.thread,
        cursor=other.cursor,
        weights=weights,
        hinted=other.hinted_seq > 0,
        unseen_from=unseen_from,
        factor=factor,
        counted=counted,
    )


# While a backlog is observed, most of its rows are the same as before.
@remembered(_REMEMBERED_TAILS)
def _backlog_weights(rows: tuple[Row, ...]) -> tuple[Weight, ...]:
    return weights_of_rows(rows)


def observer_inputs(snapshot: Snapshot, config: Config, thread: str, *, batch: int) -> JsonObject:
    """Return the inputs of a run over a span of this thread. `batch` is the number of runs in the same model call."""
    hinted = {other.thread: other.hinted_seq for other in snapshot.others}
    hinted[snapshot.thread.id] = snapshot.thread.hints.last_seq
    return {
        "generation": snapshot.log.generation,
        "entries": len(snapshot.groups),
        "mode": config.mode,
        "batch": batch,
        "hinted": hinted.get(thread, 0),
        **_document_to_keep(snapshot, config, thread),
    }


def _document_to_keep(snapshot: Snapshot, config: Config, thread: str) -> JsonObject:
    """Return which document a run updates: the one of the thread if there is one, else of the resource. {} if it updates none."""
    if not config.manage_working_memory:
        return {}
    versions = snapshot.facts.versions
    is_own = thread == snapshot.thread.id and "thread" in versions
    _, version = versions.get("thread" if is_own else "resource", (0, 0))
    return {"document": {"of_thread": is_own, "version": version}}
