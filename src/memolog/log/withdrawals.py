"""Withdraw the messages of a turn, and rebuild reflections after observations were deleted, corrected or retracted.

Runs over a withdrawn message are abandoned, buffered groups over it become void, and observations that cite it are deleted.
Reflected lines that merge such an observation are replaced by the other observations that they merge. The message's row stays
as a tombstone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Literal, TypeAlias

from memolog.compaction.store import undoing_compactions
from memolog.core.clock import Clock
from memolog.core.exact_json import dumps, loads, pack
from memolog.core.observation import GenerationCause, Observation
from memolog.db.engine import Engine, TimedCalls, writes
from memolog.db.queries import Row, Script, load_queries
from memolog.db.scope import check_ids, chunks, taking_thread
from memolog.events import Withdrawn
from memolog.log.render import render_group
from memolog.log.snapshot import GroupRow, group_row, new_generation
from memolog.log.store import reading_observations

due_queries = load_queries("log/due")
extract_queries = load_queries("log/extracts")
q = load_queries("log/logs")
line_queries = load_queries("log/lines")

_HIDDEN: Final = frozenset({"deleted", "retracted"})

Gone: TypeAlias = Literal["deleted", "retracted"]

_KEYS_A_QUERY = 500
_SHOWN_GROUPS = frozenset({"active", "covered"})

Render = Callable[[GroupRow, Sequence[Observation], Mapping[str, str]], tuple[str, int]]
"""Renders a group from its observations and the aliases of threads in a shared log. Returns text and tokens."""

Mend: TypeAlias = Callable[[Sequence[Row]], Script[dict[int, tuple[int, ...]]]]
"""Observes the remaining messages again after observations were lost. Returns the keys of new observations, by lost key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WithdrawnRows:
    """The messages that were withdrawn, and the runs, groups and observations that were removed with them."""

    messages: tuple[int, ...]
    runs: tuple[str, ...]
    groups: tuple[str, ...]
    observations: tuple[str, ...]

    def event(self, resource: str, thread: str, at: datetime) -> Withdrawn:
        """Return the event of this withdrawal."""
        counts = {name: len(getattr(self, name)) for name in ("messages", "runs", "groups", "observations")}
        return Withdrawn(at=at, resource=resource, thread=thread, **counts)


def render_again(
    count: Callable[[str], int], group: GroupRow, observations: Sequence[Observation], aliases: Mapping[str, str]
) -> tuple[str, int]:
    """Render a group after its observations or its handle changed. Return the text and its tokens, counted by `count`."""
    text = render_group(
        handle=group.handle,
        observations=observations,
        previous=None,
        alias=None,
        is_reflection=group.kind == "reflection",
        aliases=aliases,
    )
    return text, count(text) if text else 0


class LogChanges(TimedCalls):
    """Base class for calls that change observations and render their groups again."""

    def __init__(self, engine: Engine, clock: Clock, new_id: Callable[[], str], render: Render) -> None:
        super().__init__(engine, clock)
        self._new_id, self._render = new_id, render


class Withdrawals(LogChanges):
    """Withdraws messages, one resource at a time."""

    @writes("withdrawals.withdraw")
    def withdraw(
        self,
        resource: str,
        thread: str,
        turn: str,
        *,
        also: Sequence[int] = (),
        keep_answered: bool = False,
    ) -> Script[WithdrawnRows]:
        """Withdraw the messages that a turn saved, and the messages in `also` that no answer follows.

        With `keep_answered` the messages up to the last answer of the turn are not withdrawn.
        """
        check_ids(resource=resource, thread=thread, turn=turn)
        at = self._now()
        thread_pk = (yield from taking_thread(resource, thread)).pk
        yield from taking_logs(thread_pk)
        answered = (yield q.last_answer(thread_pk=thread_pk, turn=turn))[0].seq if keep_answered else 0
        rows = yield q.withdraw(thread_pk=thread_pk, turn=turn, after=answered)
        yield q.withdraw_unseen(thread_pk=thread_pk, turn=turn)
        more = (yield q.withdraw_unanswered(thread_pk=thread_pk, seqs=list(also))) if also else ()
        gone = [row.seq for row in (*rows, *more)]
        return (yield from withdrawing_derived(thread_pk, gone, at, self._render, self._new_id, "discard"))


def withdrawing_derived(
    thread_pk: int,
    gone: Sequence[int],
    at: int,
    render: Render,
    new_id: Callable[[], str],
    cause: GenerationCause,
    mend: Mend | None = None,
) -> Script[WithdrawnRows]:
    """Remove the compactions, runs, extracts, groups and observations that were derived from withdrawn messages.

    `mend` may add observations to a group that lost some. They replace the reflected lines that merged the lost observations.
    """
    runs: list[str] = []
    groups: list[str] = []
    lost: dict[int, dict[int, Row]] = {}
    for first, last in ranges(sorted(gone)):
        where = {"thread_pk": thread_pk, "first_seq": first, "last_seq": last}
        yield from undoing_compactions(thread_pk, first, last)
        runs += [row.id for row in (yield q.abandon_runs_over(now=at, **where))]
        yield extract_queries.delete_extracts_over(**where)
        groups += [row.id for row in (yield q.void_groups_over(**where))]
        for line in (yield line_queries.citing(**where)):
            if line.group_state in _SHOWN_GROUPS:
                lost.setdefault(line.log_pk, {})[line.pk] = line
    if groups:
        yield due_queries.look_again(thread_pk=thread_pk)
    observations: list[str] = []
    for log_pk, lines in sorted(lost.items()):
        instead = (yield from mend(list(lines.values()))) if mend is not None else {}
        loss = Loss(log_pk=log_pk, lines=tuple(lines), how="deleted", kind="forget", instead=instead, cause=cause)
        observations += (yield from rederiving(loss, new_id, render, at)).lines
    return WithdrawnRows(
        messages=tuple(sorted(gone)), runs=tuple(runs), groups=tuple(groups), observations=tuple(observations)
    )


def ranges(seqs: Sequence[int]) -> list[tuple[int, int]]:
    """Return sorted numbers as ranges of consecutive numbers, each as (first, last)."""
    ranges: list[tuple[int, int]] = []
    for seq in seqs:
        if ranges and ranges[-1][1] == seq - 1:
            ranges[-1] = (ranges[-1][0], seq)
        else:
            ranges.append((seq, seq))
    return ranges


def taking_logs(thread_pk: int) -> Script[None]:
    """Lock the logs that have a cursor for a thread until the transaction ends. Call it before reading these logs."""
    for row in (yield q.logs_of_thread(thread_pk=thread_pk)):
        yield q.touch_version(log_pk=row.pk)


def rendering(log_pk: int, name: str, render: Render) -> Script[tuple[GroupRow, str, int]]:
    """Return a group, its rendered text, and the tokens of that text."""
    group = group_row((yield q.groups_by_id(log_pk=log_pk, groups=[name]))[0])
    lines = yield from reading_observations(log_pk, [name])
    threads = sorted({source.thread for line in lines for source in line.sources})
    # Only the threads of a shared log have aliases.
    rows = (yield q.shared_aliases(log_pk=log_pk, threads=threads)) if threads else ()
    aliases = {row.id: f"t{row.alias}" for row in rows}
    text, tokens = render(group, [line for line in lines if line.state not in _HIDDEN], aliases)
    return group, text, tokens


def storing_rendering(log_pk: int, name: str, render: Render) -> Script[int]:
    """Render a group again, store its text, and return the tokens of the text."""
    group, text, tokens = yield from rendering(log_pk, name, render)
    yield q.set_group_text(group_pk=group.pk, text=pack(text), tokens=tokens)
    return tokens


# ---------------------------------------------------------------- deriving reflections again


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """The observations of a log that are deleted or retracted."""

    log_pk: int
    lines: tuple[int, ...]
    how: Gone
    kind: Literal["forget", "edit"]
    instead: Mapping[int, tuple[int, ...]] = field(default_factory=dict[int, tuple[int, ...]])
    """The observations that replace a lost one, by the key of the lost one."""
    cause: GenerationCause | None = None
    by_hand: bool = False
    """Whether a user chose these observations. If so, the observations that they merge do not replace them."""
    without_thread: int | None = None
    """A thread that is about to be deleted. Its groups are removed from the log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rederived:
    """The ids of the observations that were deleted or retracted, and the handles of the reflections that were rebuilt."""

    lines: tuple[str, ...]
    reflections: tuple[str, ...]


def rederiving(loss: Loss, new_id: Callable[[], str], render: Render, at: int) -> Script[Rederived]:
    """Delete or retract observations and all reflected lines that merge them, add replacements, and create a generation.

    A reflected line is replaced by the other observations that it merges, without a model call. The spans of groups do not
    change, nor do the groups that a reflection covers.
    """
    tainted = yield from _tainted(loss)
    pks = [row.pk for row in tainted]
    for chunk in chunks(pks, _KEYS_A_QUERY):
        yield (
            line_queries.erase(pks=chunk)
            if loss.how == "deleted"
            else line_queries.set_state(pks=chunk, state=loss.how)
        )
    direct = set(loss.lines) if loss.by_hand else set[int]()
    instead = dict(loss.instead)
    for row in tainted:
        if row.pk not in direct and row.pk not in instead:
            instead[row.pk] = yield from _standing_in(row, instead, new_id)
    touched = yield from reading_groups([*pks, *(new for several in instead.values() for new in several)])
    yield from rewriting(loss, touched, render, at)
    reflections = tuple(
        group.handle for group in touched.values() if group.kind == "reflection" and group.state in _SHOWN_GROUPS
    )
    return Rederived(lines=tuple(row.id for row in tainted), reflections=reflections)


def _tainted(loss: Loss) -> Script[list[Row]]:
    """Return the lost observations and all reflected lines that merge them, directly or indirectly, the oldest first."""
    over = {"deleted"} if loss.how == "deleted" else {"deleted", "retracted"}
    found: dict[int, Row] = {}
    for chunk in chunks(loss.lines, _KEYS_A_QUERY):
        found |= {row.pk: row for row in (yield line_queries.states(pks=chunk))}
    todo: list[int] = list(found)
    while todo:
        rows: list[Row] = []
        for chunk in chunks(todo, _KEYS_A_QUERY):
            rows += yield line_queries.mergers(pks=chunk)
        fresh = {row.pk: row for row in rows if row.pk not in found and row.state not in over}
        found |= fresh
        todo = list(fresh)
    return sorted(found.values(), key=lambda row: (row.group_pk, row.ordinal))


def _standing_in(
    line: Row, instead: Mapping[int, tuple[int, ...]], new_id: Callable[[], str]
) -> Script[tuple[int, ...]]:
    """Copy the remaining observations that a reflected line merges into the group of that line. Return the keys of the copies."""
    remaining: dict[int, None] = {}
    for merged in (yield line_queries.merged_of(observation_pk=line.pk)):
        if merged.pk in instead:
            remaining |= dict.fromkeys(instead[merged.pk])
        elif merged.state not in _HIDDEN:
            remaining[merged.pk] = None
    # Skip observations that another line of the same reflection merges.
    for row in (yield line_queries.stood_for(group_pk=line.group_pk)):
        remaining.pop(row.merged_pk, None)
    copies: list[int] = []
    for source_pk in remaining:
        copies += [(yield from copying_line(source_pk, line.group_pk, line.state, new_id))]
    return tuple(copies)


def copying_line(
    source_pk: int, group_pk: int, state: str, new_id: Callable[[], str], *, merges: bool = True
) -> Script[int]:
    """Copy an observation with its sources into a group, and return the key of the copy."""
    rows = yield line_queries.copy_line(
        id=new_id(), group_pk=group_pk, source_pk=source_pk, state="active" if state == "retracted" else state
    )
    pk: int = rows[0].pk
    yield line_queries.copy_sources(observation_pk=pk, source_pk=source_pk)
    if merges:
        yield line_queries.add_merge(observation_pk=pk, merged_pk=source_pk)
    yield line_queries.count_lines(group_pk=group_pk)
    return pk


def reading_groups(lines: Iterable[int]) -> Script[dict[int, Row]]:
    """Return the groups of some observations, by the key of the group."""
    found: dict[int, Row] = {}
    for chunk in chunks(list(lines), _KEYS_A_QUERY):
        found |= {row.pk: row for row in (yield line_queries.groups_of_lines(pks=chunk))}
    return found


def rewriting(loss: Loss, touched: Mapping[int, Row], render: Render, at: int) -> Script[None]:
    """Render the touched groups again, and create a generation if the log shows one of them or loses a thread."""
    log_pk = loss.log_pk
    number = (yield q.touch_version(log_pk=log_pk))[0].generation
    present = [group_row(row) for row in (yield q.active_groups(log_pk=log_pk, generation=number))]
    before = sum(group.tokens for group in present)
    tokens = {group.pk: group.tokens for group in present}
    for group in touched.values():
        if group.state in _SHOWN_GROUPS:
            tokens[group.pk] = yield from storing_rendering(log_pk, group.id, render)
        else:
            yield q.set_group_text(group_pk=group.pk, text="", tokens=0)
    yield q.void_buffered_reflections(log_pk=log_pk)
    yield q.abandon_reflections(log_pk=log_pk, now=at)
    if loss.how == "deleted":
        yield line_queries.erase_void_reflections(log_pk=log_pk)
    gone = (yield from _leaving(log_pk, loss.without_thread)) if loss.without_thread is not None else set[int]()
    order = [group.pk for group in present if group.pk not in gone]
    if len(order) < len(present) or not touched.keys().isdisjoint(order):
        after = sum(tokens[pk] for pk in order)
        yield from new_generation(
            log_pk, number + 1, loss.kind, order, at, before=before, after=after, cause=loss.cause
        )


def _leaving(log_pk: int, thread_pk: int) -> Script[set[int]]:
    """Remove the groups of a thread from the lists of groups that reflections cover.

    Return the keys of these groups and of the reflections that cover no other group. Such a reflection becomes void.
    """
    rows = yield line_queries.groups_of_thread(log_pk=log_pk, thread_pk=thread_pk)
    gone = {row.pk for row in rows}
    names = {row.id for row in rows}
    # A reflection is newer than all groups that it covers.
    for group in (yield q.reflections(log_pk=log_pk)):
        inputs = loads(group.inputs)
        left = [covered for covered in inputs.get("groups", ()) if covered not in names]
        yield line_queries.set_inputs(group_pk=group.pk, inputs=dumps({**inputs, "groups": left}))
        if not left:
            gone.add(group.pk)
            names.add(group.id)
            yield q.set_group_state(group_pk=group.pk, state="void")
    return gone
