"""Rewind a thread to an earlier message, and restore the messages that a rewind withdrew.

A rewind withdraws the later messages and stores a branch: the numbers of the messages that were live before. The withdrawn rows
stay as tombstones. Restoring a branch appends copies of its rows, so that sequence numbers and cursors never go back.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime
from functools import partial
from typing import ClassVar, TypeAlias

from memolog.core.clock import Clock, from_micros
from memolog.core.exact_json import decode, dumps, loads
from memolog.core.message import FilePart, Message, NewMessage, Part, TextPart, ToolCallPart, ToolResultPart
from memolog.core.observation import Observation
from memolog.core.thread import Hints
from memolog.db.engine import Engine, reads, writes
from memolog.db.queries import Row, Script, load_queries
from memolog.db.rows import message_from_row
from memolog.db.scope import check_id, check_ids, check_number, reading_thread, taking_thread
from memolog.errors import BranchNotFound, InputError, MessageNotFound, TurnRunning
from memolog.log.runs import storing_lines
from memolog.log.store import hint_values
from memolog.log.withdrawals import LogChanges, Render, WithdrawnRows, ranges, taking_logs, withdrawing_derived
from memolog.messages.store import Messages, reading_grown
from memolog.text.cut import cut
from memolog.text.escape import one_line

q = load_queries("messages/branches")
logs = load_queries("log/logs")
lines_q = load_queries("log/lines")
messages_q = load_queries("messages/messages")

Again: TypeAlias = Callable[[str, str, Sequence[Message]], Sequence[Observation]]
"""Observes the remaining messages of a group again. The arguments are the thread, the id of the group and the messages."""

_PREVIEW = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """The messages that a rewind withdrew from a thread."""

    html_columns: ClassVar = ("id", "kept_to", "messages", "created_at", "preview")

    id: str
    kept_to: int
    """The sequence number of the last message that stayed. 0 means that no message stayed."""
    messages: int
    """The number of withdrawn messages, without those that were forgotten later."""
    created_at: datetime
    preview: str
    """The first words of the withdrawn messages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewound:
    """The result of a rewind: the new branch and the withdrawn rows. Without withdrawn rows, the branch is None."""

    branch: Branch | None
    rows: WithdrawnRows


_NOTHING = Rewound(branch=None, rows=WithdrawnRows(messages=(), runs=(), groups=(), observations=()))


class Branches(LogChanges):
    """Rewinds threads and lists their branches. Every call is for one resource."""

    def __init__(
        self, engine: Engine, clock: Clock, new_id: Callable[[], str], render: Render, messages: Messages
    ) -> None:
        super().__init__(engine, clock, new_id, render)
        self._messages = messages

    @writes("branches.rewind")
    def rewind(
        self,
        resource: str,
        thread: str,
        to: int | str,
        *,
        again: Again,
        only_turns: str | None = None,
        running: Container[str] = (),
    ) -> Script[Rewound]:
        """Withdraw every message after `to`, the number or the id of the last message that stays. 0 withdraws all messages.

        Raises TurnRunning if one of them belongs to a turn in `running`. With `only_turns`, every message after `to` must belong
        to an ended turn whose id begins with `only_turns`. Otherwise nothing is withdrawn. A turn has not ended while it waits
        for an answer or is in `running`.
        """
        check_ids(resource=resource, thread=thread)
        _check_target(to)
        at = self._now()
        thread_pk = (yield from taking_thread(resource, thread)).pk
        yield from taking_logs(thread_pk)
        kept_to = to if isinstance(to, int) else (yield from _last_row(thread_pk, to))
        if only_turns is not None:
            if (yield q.unseen_after(thread_pk=thread_pk, after=kept_to)):
                return _NOTHING
            turns = [str(row.turn or "") for row in (yield q.turns_after(thread_pk=thread_pk, after=kept_to))]
            if not all(turn.startswith(only_turns) and turn not in running for turn in turns):
                return _NOTHING
        yield from _refusing(thread, thread_pk, kept_to, running)
        return (yield from self._rewinding(resource, thread, thread_pk, kept_to, at, again))

    @writes("branches.restore")
    def restore(
        self, resource: str, thread: str, branch: str, *, again: Again, running: Container[str] = ()
    ) -> Script[Rewound]:
        """Restore a branch: keep the first messages, which thread and branch have in common, and append the rest of the branch.

        The other messages of the thread are withdrawn and become a new branch. The restored branch is no longer listed. Raises
        BranchNotFound, and TurnRunning if a message that would be withdrawn belongs to a turn in `running`.
        """
        check_ids(resource=resource, thread=thread, branch=branch)
        at = self._now()
        thread_pk = (yield from taking_thread(resource, thread)).pk
        yield from taking_logs(thread_pk)
        found = [row for row in (yield q.branches(resource=resource, thread=thread)) if _name(row) == branch]
        if not found:
            raise BranchNotFound(branch, thread)
        seqs = list(_seqs(found[0]))
        kept_to = _shared_end(seqs, [row.seq for row in (yield q.live_seqs(thread_pk=thread_pk))])
        yield from _refusing(thread, thread_pk, kept_to, running)
        rewound = yield from self._rewinding(resource, thread, thread_pk, kept_to, at, again)
        rows = yield from _reading_rows(resource, thread, [seq for seq in seqs if seq > kept_to])
        yield from self._appending(resource, thread, thread_pk, [row for row in rows if row.state != "forgotten"], at)
        yield q.mark_restored(branch_pk=found[0].pk, now=at)
        return rewound

    @reads
    def list(self, resource: str, thread: str) -> Script[tuple[Branch, ...]]:
        """Return the branches of a thread, oldest first. Raises ThreadNotFound."""
        check_ids(resource=resource, thread=thread)
        yield from reading_thread(resource, thread)
        found: list[Branch] = []
        for row in (yield q.branches(resource=resource, thread=thread)):
            rows = yield from _reading_rows(resource, thread, [seq for seq in _seqs(row) if seq > row.kept_to])
            found.append(_branch(row, rows))
        return tuple(found)

    @reads
    def waiting(self, resource: str, thread: str) -> Script[tuple[Row, ...]]:
        """Return the turns of a thread that wait for an answer, each with its owner and the last beat of the owner."""
        check_ids(resource=resource, thread=thread)
        thread_pk = (yield from reading_thread(resource, thread)).pk
        return tuple((yield logs.unseen(resource=resource, thread_pk=thread_pk)))

    @reads
    def withdrawn_since(self, resource: str, thread: str, last: int) -> Script[frozenset[int]]:
        """Return the numbers of the messages that rewinds have withdrawn since `last` was the last message of the thread."""
        check_ids(resource=resource, thread=thread)
        gone: set[int] = set()
        for row in (yield q.all_branches(resource=resource, thread=thread, last=last)):
            live = list(_seqs(row))
            # New messages get higher numbers. So if the branch ends before `last`, the rewind was earlier.
            if last <= live[-1]:
                gone.update(seq for seq in live if seq > row.kept_to)
        return frozenset(gone)

    def _appending(self, resource: str, thread: str, thread_pk: int, rows: Sequence[Message], at: int) -> Script[None]:
        """Append copies of withdrawn rows. They have the same ids and content, and the same links to tasks."""
        pairs: list[dict[str, int]] = []
        for row in rows:
            copy = NewMessage(**{field.name: getattr(row, field.name) for field in fields(NewMessage)})
            # A message may have several rows. Saving it again needs its live parts too, and adds the others as a further row.
            live = (yield from reading_grown(resource, thread, [row.id])).get(row.id)
            offered = replace(copy, parts=(*live.parts, *copy.parts)) if live and not live.is_pruned else copy
            ready, _ = self._messages.ready(resource, thread, [offered], row.turn)
            saved = yield from self._messages.saving(resource, thread, ready, at)
            if saved.added:
                pairs.append({"thread_pk": thread_pk, "old": row.seq, "new": saved.messages[-1].seq})
        if pairs:
            yield q.copy_task.many(pairs)
            yield q.copy_task_links.many(pairs)

    def _rewinding(
        self, resource: str, thread: str, thread_pk: int, kept_to: int, at: int, again: Again
    ) -> Script[Rewound]:
        live = [row.seq for row in (yield q.live_seqs(thread_pk=thread_pk))]
        gone = [seq for seq in live if seq > kept_to]
        if not gone:
            return _NOTHING
        taken = yield from _reading_rows(resource, thread, gone)
        yield q.withdraw_after(thread_pk=thread_pk, after=kept_to)
        yield q.clear_unseen_after(thread_pk=thread_pk, after=kept_to)
        mend = partial(_mending, resource, thread, kept_to, again)
        rows = yield from withdrawing_derived(thread_pk, gone, at, self._render, self._new_id, "rewind", mend)
        yield from _resetting_hints(thread_pk, kept_to)
        made = yield q.add_branch(thread_pk=thread_pk, kept_to=kept_to, now=at, live=dumps(ranges(live)))
        return Rewound(branch=_branch(made[0], taken), rows=rows)


def _check_target(to: object) -> None:
    if isinstance(to, str):
        check_id("message", to)
    elif check_number("to", to, then="Pass the number or the id of the last message that stays.") < 0:
        raise InputError(f"`to` must be 0 or more, got {to}.", then="Pass 0 to withdraw every message.")


def _refusing(thread: str, thread_pk: int, kept_to: int, running: Container[str]) -> Script[None]:
    """Raise TurnRunning if a message after `kept_to` belongs to a running turn."""
    for row in (yield q.turns_after(thread_pk=thread_pk, after=kept_to)):
        if row.turn in running:
            raise TurnRunning(row.turn, thread, kept_to)


def _last_row(thread_pk: int, message: str) -> Script[int]:
    """Return the number of the last row of a message. Raises MessageNotFound."""
    seq: int | None = (yield q.last_row_of(thread_pk=thread_pk, id=message))[0].seq
    if seq is None:
        raise MessageNotFound(message)
    return seq


def _name(row: Row) -> str:
    return f"b{row.number}"


def _seqs(row: Row) -> Iterator[int]:
    """Yield the numbers of the messages that were live when a branch was made."""
    for first, last in loads(row.live):
        yield from range(first, last + 1)


def _shared_end(one: Iterable[int], other: Iterable[int]) -> int:
    """Return the last number of the common beginning of two lists. 0 means that they have no common beginning."""
    last = 0
    for a, b in zip(one, other, strict=False):
        if a != b:
            break
        last = a
    return last


def _reading_rows(resource: str, thread: str, seqs: Sequence[int]) -> Script[list[Message]]:
    wanted = set(seqs)
    rows: list[Message] = []
    for first, last in ranges(sorted(seqs)):
        span = yield messages_q.after(resource=resource, thread=thread, after=first - 1, up_to=last, limit=last)
        rows += [message for row in span if (message := message_from_row(row)).seq in wanted]
    return rows


def _text(part: Part) -> str:
    """Return the words of a part for a preview. Reasoning is not shown."""
    match part:
        case TextPart():
            return part.text
        case ToolCallPart():
            return f"{part.name}({part.arguments if isinstance(part.arguments, str) else dumps(part.arguments or {})})"
        case ToolResultPart():
            return part.content if isinstance(part.content, str) else dumps(part.content)
        case FilePart():
            return part.name or part.media_type or ""
        case _:
            return ""


def _branch(row: Row, rows: Sequence[Message]) -> Branch:
    left = [message for message in rows if message.state != "forgotten"]
    texts = (text for message in left for part in message.parts if (text := one_line(_text(part)).strip()))
    return Branch(
        id=_name(row),
        kept_to=row.kept_to,
        messages=len(left),
        created_at=from_micros(row.created_at),
        preview=cut(next(texts, ""), _PREVIEW),
    )


def _mending(
    resource: str, thread: str, kept_to: int, again: Again, lines: Sequence[Row]
) -> Script[dict[int, tuple[int, ...]]]:
    """Observe the remaining messages again if their observations are lost. Return the keys of new observations, by lost key."""
    instead: dict[int, tuple[int, ...]] = {}
    across = [line for line in lines if line.kind == "observer" and line.first_seq <= kept_to]
    for group_pk in sorted({line.group_pk for line in across}):
        lost = [line for line in across if line.group_pk == group_pk]
        new = yield from _observing_again(resource, thread, kept_to, again, lost)
        instead |= dict.fromkeys((line.pk for line in lost), new)
    return instead


def _observing_again(
    resource: str, thread: str, kept_to: int, again: Again, lost: Sequence[Row]
) -> Script[tuple[int, ...]]:
    """Observe again the messages that only lost observations of a group cite. Return the keys of the new observations."""
    group = lost[0]
    pks = {line.pk for line in lost}
    cited = yield q.cited(group_pk=group.group_pk, up_to=kept_to)
    uncited = _numbers([row for row in cited if row.pk in pks], kept_to)
    uncited -= _numbers([row for row in cited if row.pk not in pks], kept_to)
    if not uncited:
        return ()
    span = yield messages_q.after(
        resource=resource, thread=thread, after=group.first_seq - 1, up_to=kept_to, limit=kept_to
    )
    rows = [message for row in span if (message := message_from_row(row)).state == "live"]
    found = [line for line in again(thread, group.group_id, rows) if any(seq in uncited for seq in _cited(line))]
    after = (yield q.last_ordinal(group_pk=group.group_pk))[0].ordinal
    lines = [replace(line, ordinal=after + place, parent=None) for place, line in enumerate(found, 1)]
    yield from storing_lines(resource, [(group.group_pk, line) for line in lines])
    yield lines_q.count_lines(group_pk=group.group_pk)
    new: tuple[int, ...] = ()
    for line in lines:
        new += ((yield lines_q.find_line(resource=resource, observation=line.id))[0].pk,)
    if new and group.group_state == "covered":
        # If a reflection contains one of the lost observations, it gets copies of the new ones.
        state = "superseded" if any(line.state == "superseded" for line in lost) else "dropped"
        yield lines_q.set_state(pks=new, state=state)
    return new


def _numbers(rows: Sequence[Row], kept_to: int) -> set[int]:
    return {seq for row in rows for seq in range(row.first_seq, min(row.last_seq, kept_to) + 1)}


def _cited(line: Observation) -> Iterator[int]:
    return (seq for source in line.sources for seq in range(source.span.first, source.span.last + 1))


def _resetting_hints(thread_pk: int, kept_to: int) -> Script[None]:
    """Replace hints from withdrawn messages by the hints of the last group before these messages."""
    if not (yield q.clear_hints_after(thread_pk=thread_pk, after=kept_to)):
        return
    for row in (yield q.hints_before(thread_pk=thread_pk, after=kept_to)):
        yield logs.apply_hints(**hint_values(decode(Hints, loads(row.hints)), thread_pk, row.last_seq))
