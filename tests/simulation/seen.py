"""Check every context against the database: a provider accepts it, it shows what it must, and it extends the last context."""

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from memolog import Config
from memolog.context.context import Context, ContextMessage
from memolog.core.message import ToolCallPart, ToolResultPart
from simulation.checker import Broken, Checker, Expected
from simulation.model import MARKER


@dataclass(slots=True, kw_only=True)
class Request:
    """One call of `prepare`, and what is known about it besides its answer."""

    resource: str
    thread: str
    turn: str
    step: int
    mine: list[str]
    """The markers of all that this turn has handed in so far."""
    owner: str
    """The process that asks, as its runs name it."""
    unseen: list[str]
    """The texts that this turn has handed in since its last reply, word for word."""
    last_seq: int
    """The thread's last message when the call began."""
    thread_pk: int
    """The thread's row when the call began; 0 if there was none."""
    is_degraded: bool
    has_waited: bool
    """It waited for the model and went on when its time was up, or did not wait: the model was being given a rest, another
    caller was at the log, or a run was lost to a fault and waits for its lease to end."""
    is_repeatable: bool
    """Nothing in it was passed along for this request only."""
    is_alone: bool
    """No other turn of the thread was under way since the last context of it."""


@dataclass(slots=True)
class _Last:
    """The last context of a thread."""

    text: str
    key: tuple[Any, ...]
    open_calls: frozenset[str]


@dataclass(slots=True)
class _Kept:
    """A context that can be built again: its number, its text, and what would change it."""

    number: int
    text: str
    key: tuple[Any, ...]


class Seen:
    """Checks contexts."""

    def __init__(self, checker: Checker, expected: Expected, config: Config) -> None:
        self._checker, self._expected, self._config = checker, expected, config
        self._last: dict[tuple[str, str], _Last] = {}
        self._kept: dict[tuple[str, str], _Kept] = {}
        self.counts = Counter[str]()
        self.alive: Callable[[], set[str]] = set[str]

    def forget(self, resource: str, thread: str) -> None:
        """Do not compare the next context of a thread with the last one."""
        self._last.pop((resource, thread), None)

    def check(self, context: Context, request: Request) -> None:
        """Check one context. Raises Broken."""
        self.counts.update(contexts=1, degraded=int(request.is_degraded))
        where = f"context {request.resource}/{request.thread} step {request.step}"
        if leak := self._expected.leak(request.resource, context.render()):
            raise Broken(f"{where} of {request.resource} says {leak}")
        if problem := _illegal(context.tail):
            raise Broken(f"{where}: {problem}")
        rows = self._checker.rows(
            "SELECT pk FROM threads WHERE resource = ? AND id = ?", request.resource, request.thread
        )
        pk = rows[0][0] if rows else 0
        if context.trimmed or (request.thread_pk and pk != request.thread_pk):
            self.forget(request.resource, request.thread)
            return
        self._check_unseen(where, context, request)
        tail = set(MARKER.findall("".join(message.render() for message in context.tail)))
        record = self._record(pk, request)
        if request.is_degraded or record is None:
            self.forget(request.resource, request.thread)
            self._check_degraded(where, tail, request, pk)
            return
        self._check_in_sight(where, tail, request, pk, record)
        self._check_groups(where, context, pk, record)
        self._check_extends(where, context, request, pk, record)
        self._check_size(where, request, pk, record)
        if request.is_repeatable:
            self._keep(context, request, pk)

    # ------------------------------------------------------------ again

    def _keep(self, context: Context, request: Request, pk: int) -> None:
        rows = self._checker.rows(
            "SELECT number FROM contexts WHERE thread_pk = ? AND turn = ? AND step = ?", pk, request.turn, request.step
        )
        key = (pk, self._gone(request.resource))
        self._kept[request.resource, request.thread] = _Kept(rows[0][0], context.render_without_edge(), key)

    def _gone(self, resource: str) -> tuple[Any, ...]:
        """Return what a withdrawal or a deletion changes."""
        return self._checker.rows(
            "SELECT COUNT(*), (SELECT COUNT(*) FROM generations g JOIN logs l ON l.pk = g.log_pk "
            "  WHERE l.resource = ? AND g.kind = 'forget') "
            "FROM messages m JOIN threads t ON t.pk = m.thread_pk WHERE t.resource = ? AND m.state <> 'live'",
            resource,
            resource,
        )[0]

    def number(self, resource: str, thread: str) -> int | None:
        """Return the number of a context that can be built again now; None if there is none."""
        kept = self._kept.get((resource, thread))
        rows = self._checker.rows("SELECT pk FROM threads WHERE resource = ? AND id = ?", resource, thread)
        is_same = kept is not None and rows and kept.key == (rows[0][0], self._gone(resource))
        return kept.number if kept is not None and is_same else None

    def check_again(self, resource: str, thread: str, number: int, context: Context) -> None:
        """Check that a context built again is the one that was seen. Raises Broken."""
        if number != self.number(resource, thread):
            return
        self.counts["repeated"] += 1
        text, again = self._kept[resource, thread].text, context.render_without_edge()
        if text != again:
            raise Broken(
                f"context {number} of {resource}/{thread} is another one when built again: {_difference(text, again)}"
            )

    def _record(self, pk: int, request: Request) -> dict[str, Any] | None:
        rows = self._checker.rows(
            "SELECT record FROM contexts WHERE thread_pk = ? AND turn = ? AND step = ?", pk, request.turn, request.step
        )
        return json.loads(rows[0][0]) if rows else None

    # ------------------------------------------------------------ nothing is lost

    def _check_unseen(self, where: str, context: Context, request: Request) -> None:
        """Check that a request shows all that no request has shown before, word for word, unless a limit is set."""
        if self._config.context_tokens is not None:
            return
        shown = [
            str(part.content) if isinstance(part, ToolResultPart) else getattr(part, "text", "")
            for message in context.tail
            for part in message.parts
        ]
        self.counts["unseen"] += len(request.unseen)
        for text in request.unseen:
            if not any(text in one for one in shown):
                raise Broken(f"{where}: what no model has seen is out of sight: {text[:60]!r}")

    def _check_degraded(self, where: str, tail: set[str], request: Request, pk: int) -> None:
        """Without the database a context holds at least all that its own turn has said, or the log that covers it."""
        missing = [marker for marker in request.mine if marker not in tail]
        if missing:
            covered = [*self._markers(pk, 0, self._cursor(pk), live=False), *self._withdrawn(pk)]
            if lost := [marker for marker in missing if marker not in covered]:
                raise Broken(f"{where}, degraded: {lost} of its own turn are out of sight")

    def _check_in_sight(self, where: str, tail: set[str], request: Request, pk: int, record: dict[str, Any]) -> None:
        cursor = record["cursor"]
        shown = self._markers(pk, cursor, max(request.last_seq, record["last"]), live=True)
        if missing := [marker for marker in shown if marker not in tail]:
            raise Broken(f"{where}: {missing} come after the cursor ({cursor}) and are not in the tail")
        covered = self._markers(pk, 0, cursor, live=False)
        known = {marker for marker in request.mine if marker not in tail and marker not in covered}
        gone = self._markers(pk, cursor, 1 << 40, live=False)
        if lost := known - set(gone):
            raise Broken(f"{where}: {sorted(lost)} of its own turn are neither stored nor in sight")

    def _markers(self, pk: int, after: int, up_to: int, *, live: bool) -> list[str]:
        rows = self._checker.rows(
            "SELECT parts, state FROM messages WHERE thread_pk = ? AND seq > ? AND seq <= ?", pk, after, up_to
        )
        return [word for parts, state in rows if state == "live" or not live for word in MARKER.findall(parts)]

    def _withdrawn(self, pk: int) -> list[str]:
        rows = self._checker.rows("SELECT parts FROM messages WHERE thread_pk = ? AND state = 'withdrawn'", pk)
        return [word for (parts,) in rows for word in MARKER.findall(parts)]

    def _cursor(self, pk: int) -> int:
        return self._checker.rows("SELECT COALESCE(MAX(seq), 0) FROM cursors WHERE thread_pk = ?", pk)[0][0]

    def _check_groups(self, where: str, context: Context, pk: int, record: dict[str, Any]) -> None:
        """Check that the log that is shown stands for all that the cursor has passed."""
        log = self._log(pk)
        forgotten = self._checker.rows(
            "SELECT number FROM generations WHERE log_pk = ? AND number > ? AND kind = 'forget'",
            log,
            record["generation"],
        )
        if forgotten:
            # Another thread of this log was deleted since the context was built: its groups are gone from every generation.
            return
        groups = self._checker.groups(log)
        by_pk = {group.pk: group for group in groups}
        by_id = {group.id: group for group in groups}
        entries = [
            by_pk[row[0]]
            for row in self._checker.rows(
                "SELECT group_pk FROM log_entries WHERE log_pk = ? AND generation = ? ORDER BY position LIMIT ?",
                log,
                record["generation"],
                record["entries"],
            )
        ]
        shown = [block.name.removeprefix("group ") for block in context.blocks if block.name.startswith("group ")]
        listed = [group.handle for group in entries]
        if not set(shown) <= set(listed) or shown != [handle for handle in listed if handle in shown]:
            raise Broken(f"{where} shows {shown}, its log lists {listed}")
        hidden = {group.handle for group in entries if group.has_text and group.handle not in shown}
        if hidden:
            raise Broken(f"{where} does not show {sorted(hidden)}")
        spans = sorted(
            (leaf.first or 0, leaf.last or 0)
            for entry in entries
            for leaf in self._checker.leaves(entry, by_id, is_past=True)
            if leaf.thread == pk
        )
        end = 0
        for first, last in spans:
            if first != end + 1:
                raise Broken(f"{where}: its log covers {spans}")
            end = last
        if end != record["cursor"]:
            raise Broken(f"{where}: its log covers 1–{end}, its tail begins after {record['cursor']}")

    def _log(self, pk: int) -> int:
        resource = self._config.scope == "resource"
        rows = self._checker.rows(
            "SELECT l.pk FROM logs l JOIN threads t ON t.resource = l.resource "
            "WHERE t.pk = ? AND COALESCE(l.thread_pk, 0) = ?",
            pk,
            0 if resource else pk,
        )
        return rows[0][0]

    # ------------------------------------------------------------ the prefix

    def _check_extends(self, where: str, context: Context, request: Request, pk: int, record: dict[str, Any]) -> None:
        """Until the log changes, each context begins with the last one, byte for byte."""
        gone = self._checker.rows("SELECT COUNT(*) FROM messages WHERE thread_pk = ? AND state <> 'live'", pk)[0][0]
        # Where a hard limit leaves no other way, messages are shown in part: that is a cut, as `trimmed` is.
        key = (pk, record["generation"], record["entries"], record["cursor"], gone, context.shortened)
        text = context.render_without_edge()
        last = self._last.get((request.resource, request.thread))
        opened = frozenset(
            part.call_id
            for message in context.tail
            if message.synthetic
            for part in message.parts
            if isinstance(part, ToolResultPart)
        )
        # A call that was shown without a result and has one now is the one thing that may change.
        # How much is left of such a message depends on what came after it.
        is_comparable = last is not None and last.key == key and request.is_alone and last.open_calls <= opened
        is_comparable = is_comparable and not context.shortened
        if last is not None and is_comparable:
            self.counts["extended"] += 1
            if not text.startswith(last.text):
                raise Broken(f"{where} does not extend the last one: {_difference(last.text, text)}")
        # While nothing comes after the log, the last question stands in for it; it makes room for the next one.
        if request.is_alone and record["first"]:
            self._last[request.resource, request.thread] = _Last(text, key, opened)
        else:
            self.forget(request.resource, request.thread)

    # ------------------------------------------------------------ the size

    def _check_size(self, where: str, request: Request, pk: int, record: dict[str, Any]) -> None:
        """Check that the tail stays below where a turn waits.

        Not where the model is away, the turn has waited, a call is open, or another process is at a run: it may be gone.
        """
        config = self._config
        rows = self._checker.rows(
            "SELECT tokens, role, pairs, seq FROM messages WHERE thread_pk = ? AND seq > ? AND seq <= ? AND state = 'live' "
            "ORDER BY seq",
            pk,
            record["cursor"],
            record["last"],
        )
        total = sum(row[0] for row in rows)
        log = self._log(pk)
        limit = config.block_at_for(0)
        left = self._checker.rows("SELECT owner, first_seq FROM unseen WHERE thread_pk = ?", pk)
        # Turns that overlap: what others said after the first message without a reply cannot leave before it either.
        first = min((seq for _, seq in left), default=record["last"])
        newest = max(
            (rows[-1][0] if rows else 0) + sum(len(text) // 4 + 20 for text in request.unseen),
            sum(row[0] for row in rows if row[3] >= first),
        )
        if total <= limit + newest:
            return
        self.counts["exceeded"] += 1
        if request.has_waited or not request.is_alone:
            return
        failures = self._checker.rows("SELECT failures FROM logs WHERE pk = ?", log)[0][0]
        runs = self._checker.rows("SELECT status, owner FROM runs WHERE log_pk = ?", log)
        # One that has ended in these seconds was still running when this call decided.
        now = datetime.fromisoformat(record["now"]).timestamp() * 1_000_000
        runs += self._checker.rows(
            "SELECT 'running', owner FROM runs WHERE log_pk = ? AND ABS(finished_at - ?) < 5000000", log, now
        )
        alive = self.alive()
        # Nobody waits for a run of another process that was not seen to go on.
        broken = any(status == "failed" or (status == "running" and owner != request.owner) for status, owner in runs)
        # Whether the owner of an open turn is gone is known once it has been watched.
        broken = broken or any(owner not in alive for owner, _ in left)
        # A call that only the newest message closes can be observed once that message has been seen.
        seen = rows[: len(rows) - max(1, len(request.unseen))]
        # Where turns overlap, the question that ends the wait for a call may stand behind the first message without a reply.
        before = [row for row in rows if row[3] < first]
        if failures or broken or any(_has_open_call(some) for some in (rows, seen, before)):
            return
        raise Broken(f"{where}: the tail has {total} tokens, {limit} + {newest} are the most, and nothing is wrong")


def _difference(one: str, other: str) -> str:
    """Show where two texts part."""
    at = next(i for i, (a, b) in enumerate(zip(one + "\0", other + "\1", strict=False)) if a != b)
    return f"{one[max(0, at - 80) : at + 120]!r} became {other[max(0, at - 80) : at + 120]!r}"


def _has_open_call(rows: list[tuple[Any, ...]]) -> bool:
    opened: set[str] = set()
    for _, role, pairs, _ in rows:
        calls, results = json.loads(pairs) if pairs else ((), ())
        if role == "user" and not results:
            opened.clear()
        opened.difference_update(results)
        opened.update(calls)
    return bool(opened)


def _illegal(tail: tuple[ContextMessage, ...]) -> str | None:
    """Return why a provider would refuse the messages, or None: a result must follow its call immediately."""
    waiting: list[str] = []
    for place, message in enumerate(tail):
        results = [part.call_id for part in message.parts if isinstance(part, ToolResultPart)]
        if message.role == "tool":
            for result in results:
                if result not in waiting:
                    return f"message {place} answers {result}, which nobody has asked just before"
                waiting.remove(result)
            continue
        if waiting:
            return f"message {place} comes before the results of {waiting}"
        if results:
            return f"message {place} ({message.role}) holds results"
        waiting = [part.id for part in message.parts if isinstance(part, ToolCallPart)]
    return f"the results of {waiting} are missing" if waiting else None
