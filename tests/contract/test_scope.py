"""Scope is mandatory: every public method names its resource, and what is foreign answers as if it did not exist.

The methods are found by looking, so one that is added without a case here fails the tests.
"""

import inspect
import io
import itertools
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pytest

from contract.raw_sql import add_task, lease_of
from memolog.admin.export_tables import BY_KIND
from memolog.admin.transfer_store import Arrival
from memolog.compaction.store import RowTexts
from memolog.core.message import NewMessage, UserMessage
from memolog.core.observation import Observation, Span
from memolog.core.run import Calibration, Lease, RunKind, Usage
from memolog.core.thread import Hints
from memolog.errors import EmptyId, InputError, MemologError
from memolog.log.journal import NewEvent
from memolog.log.rows import GroupRow
from memolog.log.runs import NewRun, RunClaim, RunResult
from memolog.log.snapshot import OtherLimits
from memolog.log.store import Rendered
from memolog.search.bm25 import TASK, key_of_message, key_of_other
from memolog.search.query import parse
from memolog.search.recall_store import Place, Stretch
from memolog.store import Store
from memolog.tasks.rows import TaskFilter
from memolog.tasks.task import NewTask
from memolog.testing import FakeClock
from memolog.working_memory.document import replaced

PARTS: Final = (
    *("threads", "messages", "leases", "ledger", "logs", "runs", "journal", "withdrawals", "copies"),
    *("tasks", "task_links", "task_claims", "task_views", "task_ready", "task_messages", "task_decay"),
    *(
        "recall",
        "compactions",
        "settings",
        "extracts",
        "working_memory",
        "indexing",
        "searching",
        "forgetting",
        "line_edits",
    ),
    "transfers",
    "tombstones",
)
# Pieces of larger scripts: they do no I/O themselves, and what they make runs inside a method that named its resource.
SCRIPTS: Final = {"messages.ready", "messages.ready_soon", "messages.saving"}
# They take a snapshot, which names its resource and which only a method that named it gives out; the log that they change must
# be of that resource.
BY_SNAPSHOT: Final = {"logs.plans", "logs.activate_reflection", "logs.restore"}
MINUTE: Final = timedelta(minutes=1)
NOW: Final = datetime(2026, 3, 14, 9, 0, tzinfo=UTC)
AFTER: Final = NOW + timedelta(days=999)
CONTEXT: Final[dict[str, Any]] = {"turn": "turn-1", "step": 1, "now": NOW, "record": {"a": 1}, "model": "m"}
CLAIM: Final = RunClaim(run="run-1", owner="owner", fence=1)
RESULT: Final = RunResult(group="g", observations=(), hints=None, tokens=0, model="m", prompt_version="1")

PLACE: Final = Place(stretches=(Stretch(thread_pk=1, thread="secret", first=1, last=2),), start=(1, 1, 0, 0))

ROWS: Final = (RowTexts(seq=1, search="x", brief="x"), RowTexts(seq=2, search="x", brief="x"))
QUERY: Final = parse("one two", datetime(2026, 1, 1, tzinfo=UTC))

Call = Callable[[Store, str, Lease], Awaitable[object]]
# A line of an export about a message of hers: her thread is not there for anybody else.
HERS: Final = [(BY_KIND["task-label"], {"task": "task", "label": "mine"})]


async def exported(store: Store, resource: str) -> list[str]:
    """Return the lines of an export."""
    file = io.BytesIO()
    await store.transfers.export(resource, file)
    return file.getvalue().decode().splitlines()[1:]


def learn(known: Calibration) -> Calibration:
    """Learn something."""
    return Calibration(model=known.model, factor=known.factor * 2, samples=known.samples + 1)


def render(group: GroupRow, observations: Sequence[Observation], aliases: Mapping[str, str]) -> tuple[str, int]:
    """Render a group in the shortest way."""
    return f"{group.handle} {len(observations)} {aliases}", 1


async def start_anywhere(store: Store, resource: str, kind: RunKind) -> list[str]:
    """Try to start a run on any log that there may be, at any version."""
    seen: list[str] = []
    for log_pk, version in itertools.product(range(1, 4), range(6)):
        is_over_span = kind == "observe"
        run = NewRun(
            id=f"{resource}-{log_pk}-{version}",
            kind=kind,
            thread="secret" if is_over_span else None,
            span=Span(first=2, last=2) if is_over_span else None,
            inputs={},
        )
        try:
            await store.runs.start(resource, log_pk, version, [run], owner="me", now=NOW, lease=30)
        except MemologError as error:
            seen.append(str(error))
    return seen


async def each_log(call: Callable[[int], Awaitable[object]]) -> list[str]:
    """Try every key that a log or a thread may have: keys are small numbers, and easily guessed."""
    seen: list[str] = []
    for key in range(1, 6):
        try:
            seen.append(repr(await call(key)))
        except MemologError as error:
            seen.append(f"{type(error).__name__}: {error}")
    return seen


TASK_CASES: Final[dict[str, list[Call]]] = {
    "tasks.create": [
        lambda s, r, _: s.tasks.create(r, NewTask(title="mine", id="mine", blocked_by=("task",)), who="me"),
        lambda s, r, _: s.tasks.create(r, NewTask(title="mine", id="mine"), who="me", created_from=("m1",)),
    ],
    "tasks.edit": [
        lambda s, r, _: s.tasks.edit(r, "task", {"title": "mine now"}, who="me"),
        lambda s, r, _: s.tasks.edit(r, "T-1", {"title": "mine now"}, who="me"),
    ],
    "tasks.label": [lambda s, r, _: s.tasks.label(r, "T-1", add=["mine"], who="me")],
    "tasks.history": [lambda s, r, _: s.tasks.history(r, "T-1")],
    "task_links.link": [lambda s, r, _: s.task_links.link(r, "T-1", "T-2", "blocks", who="me")],
    "task_links.unlink": [lambda s, r, _: s.task_links.unlink(r, "T-1", "T-2", "blocks", who="me")],
    "task_claims.claim": [
        lambda s, r, _: s.task_claims.claim(r, "T-1", "holder", lasts=MINUTE, who="me"),
        lambda s, r, _: s.task_claims.claim(r, "T-2", "holder", lasts=MINUTE, who="me", thread="secret"),
    ],
    "task_claims.heartbeat": [lambda s, r, _: s.task_claims.heartbeat(r, "T-1", "holder", lasts=MINUTE)],
    "task_claims.release": [lambda s, r, _: s.task_claims.release(r, "T-1", "holder", who="me", force=True)],
    "task_claims.close": [
        lambda s, r, _: s.task_claims.close(r, "T-1", "completed", "done", session="holder", who="me", force=True)
    ],
    "task_claims.reopen": [lambda s, r, _: s.task_claims.reopen(r, "T-3", who="me")],
    "task_views.get": [lambda s, r, _: s.task_views.get(r, "T-1"), lambda s, r, _: s.task_views.get(r, "task")],
    "task_views.some": [lambda s, r, _: s.task_views.some(r, ["task"])],
    "task_views.named": [lambda s, r, _: s.task_views.named(r, "First")],
    "task_views.show": [lambda s, r, _: s.task_views.show(r, "T-1")],
    "task_views.list": [
        lambda s, r, _: s.task_views.list(r),
        lambda s, r, _: s.task_views.list(r, TaskFilter(parent="T-1")),
    ],
    "task_views.stale": [lambda s, r, _: s.task_views.stale(r, days=0)],
    "task_views.duplicates": [
        lambda s, r, _: s.task_views.duplicates(r, least=0.0),
        lambda s, r, _: s.task_views.duplicates(r, "T-1", least=0.0),
        lambda s, r, _: s.task_views.duplicates(r, title="First", least=0.0),
    ],
    "task_ready.ready": [lambda s, r, _: s.task_ready.ready(r)],
    "task_ready.counts": [lambda s, r, _: s.task_ready.counts(r)],
    "task_ready.explain": [lambda s, r, _: s.task_ready.explain(r, "T-2")],
    "task_ready.edge": [lambda s, r, _: s.task_ready.edge(r, "secret", now=NOW)],
    "task_messages.attach": [
        lambda s, r, _: s.task_messages.attach(r, "T-1", ["m1"], "output", who="me"),
        lambda s, r, _: s.task_messages.attach(r, "T-1", Span(first=1, last=2), "output", who="me", thread="secret"),
    ],
    "task_messages.detach": [lambda s, r, _: s.task_messages.detach(r, "T-1", ["m1"], who="me")],
    "task_messages.messages": [lambda s, r, _: s.task_messages.messages(r, "T-1")],
    "task_messages.count": [lambda s, r, _: s.task_messages.count(r, "T-1")],
    "task_messages.observations": [lambda s, r, _: s.task_messages.observations(r, "T-1")],
    "task_decay.decay": [lambda s, r, _: s.task_decay.decay(r)],
    "task_decay.restore": [lambda s, r, _: s.task_decay.restore(r, "T-3")],
}
# Each case calls one method for a resource that owns nothing, with the ids of somebody else's things.
CASES: Final[dict[str, list[Call]]] = {
    "threads.create": [lambda s, r, _: s.threads.create(r, "t", title="mine")],
    "threads.get": [lambda s, r, _: s.threads.get(r, "secret")],
    "threads.list": [
        lambda s, r, _: s.threads.list(r),
        lambda s, r, _: s.threads.list(r, after=f"{2**62}.{2**62}"),
    ],
    "threads.count": [lambda s, r, _: s.threads.count(r)],
    "threads.update": [lambda s, r, _: s.threads.update(r, "secret", title="mine now")],
    "threads.clone": [
        lambda s, r, _: s.threads.clone(r, "secret", "copy"),
        lambda s, r, _: s.threads.clone(r, "secret", "secret"),
    ],
    "threads.delete": [lambda s, r, _: s.threads.delete(r, "secret")],
    "messages.save": [
        lambda s, r, _: s.messages.save(r, "secret", UserMessage("x", id="m1"), create=False),
        lambda s, r, _: s.messages.save(r, "new", UserMessage("other words", id="m1")),
    ],
    "messages.end_turn": [lambda s, r, _: s.messages.end_turn(r, "secret", "turn-1")],
    "messages.not_stored": [lambda s, r, _: s.messages.not_stored(r, "secret", UserMessage("x", id="m1"))],
    "messages.after": [lambda s, r, _: s.messages.after(r, "secret")],
    "messages.span": [lambda s, r, _: s.messages.span(r, "secret", Span(first=1, last=2))],
    "messages.get": [
        lambda s, r, _: s.messages.get(r, "m2"),
        lambda s, r, _: s.messages.get(r, "m2", thread="secret"),
    ],
    "messages.page": [
        lambda s, r, _: s.messages.page(r, "secret"),
        lambda s, r, _: s.messages.page(r, "secret", before=3),
    ],
    "messages.totals": [
        lambda s, r, _: s.messages.totals(r, "secret"),
        lambda s, r, _: s.messages.totals(r),
    ],
    "recall.find": [
        lambda s, r, _: s.recall.find(r, "m1"),
        lambda s, r, _: s.recall.find(r, "secret 1-2"),
        lambda s, r, _: s.recall.find(r, 1, thread="secret"),
        lambda s, r, _: s.recall.find(r, "g1"),
    ],
    "recall.rows": [lambda s, r, _: s.recall.rows(r, PLACE, PLACE.start)],
    "recall.calls_before": [lambda s, r, _: s.recall.calls_before(r, "secret", 3)],
    "compactions.candidates": [lambda s, r, _: s.compactions.candidates(r, "secret")],
    "compactions.due": [lambda s, r, _: s.compactions.due(r, "secret", keep=0)],
    "compactions.list": [lambda s, r, _: s.compactions.list(r, "secret")],
    "compactions.noted": [lambda s, r, _: s.compactions.noted(r, "secret", Span(first=1, last=2))],
    "compactions.compact": [
        lambda s, r, _: s.compactions.compact(r, "secret", ROWS, summary="mine", now=s.clock.now())
    ],
    "compactions.deepen": [lambda s, r, _: s.compactions.deepen(r, "secret", keep=0)],
    "compactions.restore": [lambda s, r, _: s.compactions.restore(r, "secret", "c1", now=s.clock.now())],
    "compactions.prune": [lambda s, r, _: s.compactions.prune(r, "secret", days=30, now=s.clock.now(), left=str.upper)],
    "leases.acquire": [lambda s, r, _: s.leases.acquire(r, "lock", "me", lasts=MINUTE)],
    "leases.release": [lambda s, r, lease: s.leases.release(r, lease)],
    "ledger.add": [lambda s, r, _: s.ledger.add(r, Usage(model="m", cost=1.0, thread="secret", task="task"))],
    "ledger.lines": [
        lambda s, r, _: s.ledger.lines(r),
        lambda s, r, _: s.ledger.lines(r, thread="secret"),
        lambda s, r, _: s.ledger.lines(r, task="task"),
        lambda s, r, _: s.ledger.lines(r, run="run"),
    ],
    "ledger.total": [
        lambda s, r, _: s.ledger.total(r),
        lambda s, r, _: s.ledger.total(r, thread="secret"),
    ],
    "ledger.calibration": [lambda s, r, _: s.ledger.calibration(r, "m")],
    "working_memory.get": [
        lambda s, r, _: s.working_memory.get(r),
        lambda s, r, _: s.working_memory.get(r, "secret"),
    ],
    "working_memory.change": [
        lambda s, r, _: s.working_memory.change(r, replaced("mine"), who="me", most=100),
        lambda s, r, _: s.working_memory.change(r, replaced("mine"), thread="secret", who="me", most=100),
    ],
    "working_memory.version": [
        lambda s, r, _: s.working_memory.version(r, 2),
        lambda s, r, _: s.working_memory.version(r, 1, thread="secret"),
    ],
    "working_memory.versions": [
        lambda s, r, _: s.working_memory.versions(r, before=2),
        lambda s, r, _: s.working_memory.versions(r, "secret"),
    ],
    "settings.get": [lambda s, r, _: s.settings.get(r)],
    "settings.put": [lambda s, r, _: s.settings.put(r, {"scope": "resource"})],
    "ledger.calibrate": [lambda s, r, _: s.ledger.calibrate(r, "m", learn)],
    "logs.snapshot": [
        lambda s, r, _: s.logs.snapshot(r, "secret", "thread"),
        lambda s, r, _: s.logs.snapshot(r, "secret", "resource"),
        lambda s, r, _: s.logs.snapshot(r, "secret", "thread", create=False),
    ],
    "logs.history": [
        lambda s, r, _: s.logs.history(r, "secret"),
        lambda s, r, _: s.logs.history(r, None),
    ],
    "logs.as_of": [
        lambda s, r, _: s.logs.as_of(r, "secret", NOW + MINUTE),
        lambda s, r, _: s.logs.as_of(r, None, NOW + MINUTE),
    ],
    "logs.others": [
        lambda s, r, _: s.logs.others(r, 1, 0, limits=OtherLimits(threads=8, messages=30)),
        lambda s, r, _: s.logs.others(r, 2, 0, limits=OtherLimits(threads=8, messages=30)),
        lambda s, r, _: s.logs.others(r, 2, 0, limits=OtherLimits(threads=0, messages=30)),
    ],
    "logs.aliases": [
        lambda s, r, _: s.logs.aliases(r, 1, ["secret"]),
        lambda s, r, _: s.logs.aliases(r, 2, ["secret"]),
    ],
    "logs.observations": [lambda s, r, _: each_log(lambda pk: s.logs.observations(r, pk, ["group-1"]))],
    "logs.lines": [lambda s, r, _: each_log(lambda pk: s.logs.lines(r, pk, ["group-1"]))],
    "logs.lines_by_id": [lambda s, r, _: each_log(lambda pk: s.logs.lines_by_id(r, pk, ["line-1"]))],
    "logs.groups_at": [lambda s, r, _: each_log(lambda pk: s.logs.groups_at(r, pk, 0, entries=99))],
    "logs.hints_of": [lambda s, r, _: each_log(lambda pk: s.logs.hints_of(r, pk, 2, 2))],
    "logs.hinted": [lambda s, r, _: each_log(lambda pk: s.logs.hinted(r, pk, ["group-1"], most=9))],
    "logs.count_dropped": [lambda s, r, _: each_log(lambda pk: s.logs.count_dropped(r, pk))],
    "logs.activate": [
        lambda s, r, _: each_log(lambda pk: s.logs.activate(r, pk, 1, [], now=NOW)),
        lambda s, r, _: each_log(lambda pk: s.logs.activate(r, pk, 2, [], now=NOW)),
        lambda s, r, _: each_log(lambda pk: s.logs.activate(r, pk, 3, [], now=NOW)),
    ],
    "logs.alias": [lambda s, r, _: s.logs.alias(r, 1, "secret"), lambda s, r, _: s.logs.alias(r, 2, "secret")],
    "runs.start": [
        lambda s, r, _: start_anywhere(s, r, "observe"),
        lambda s, r, _: start_anywhere(s, r, "reflect"),
    ],
    "runs.take_over": [lambda s, r, _: s.runs.take_over(r, CLAIM.run, 1, owner="me", now=AFTER, lease=30)],
    "runs.heartbeat": [lambda s, r, _: s.runs.heartbeat(r, CLAIM, now=NOW, lease=30)],
    "runs.abandon": [lambda s, r, _: s.runs.abandon(r, CLAIM, "mine", now=NOW)],
    "runs.give_back": [lambda s, r, _: s.runs.give_back(r, [CLAIM])],
    "runs.note_stall": [
        lambda s, r, _: each_log(lambda pk: s.runs.note_stall(r, pk, CLAIM.run, "mine", now=NOW, retry_at=AFTER))
    ],
    "runs.keep_prompt": [lambda s, r, _: s.runs.keep_prompt(r, CLAIM.run, "{}", "mine")],
    "journal.add_context": [lambda s, r, _: each_log(lambda pk: s.journal.add_context(r, pk, **CONTEXT))],
    "runs.finish": [lambda s, r, _: s.runs.finish(r, CLAIM, RESULT, now=NOW)],
    "runs.fail": [lambda s, r, _: s.runs.fail(r, CLAIM, "broken", now=NOW, retry_at=NOW)],
    "runs.get": [lambda s, r, _: s.runs.get(r, "run-1")],
    "runs.stored": [lambda s, r, _: s.runs.stored(r, "run-1")],
    "runs.prompts": [lambda s, r, _: s.runs.prompts(r, "run-1")],
    "runs.list": [lambda s, r, _: s.runs.list(r)],
    "journal.add": [
        lambda s, r, _: s.journal.add(r, [NewEvent(kind="Mine", thread="secret", at=NOW, data={"about": "hers"})])
    ],
    "journal.pulse": [lambda s, r, _: s.journal.pulse(r)],
    "journal.newest": [
        lambda s, r, _: s.journal.newest(r, thread="secret"),
        lambda s, r, _: s.journal.newest(r),
    ],
    "journal.events": [
        lambda s, r, _: s.journal.events(r, thread="secret"),
        lambda s, r, _: s.journal.events(r),
    ],
    "journal.context": [lambda s, r, _: s.journal.context(r, "secret", 1)],
    "journal.contexts": [lambda s, r, _: s.journal.contexts(r, "secret")],
    "withdrawals.withdraw": [
        lambda s, r, _: s.withdrawals.withdraw(r, "secret", "turn-1", after=0, now=NOW, render=render)
    ],
    "extracts.list": [lambda s, r, _: s.extracts.list(r, "secret")],
    "copies.merge": [lambda s, r, _: s.copies.merge(r, now=NOW, render=render)],
    "forgetting.message": [
        lambda s, r, _: s.forgetting.message(r, "m1", render=render),
        lambda s, r, _: s.forgetting.message(r, "m1", thread="secret", render=render),
    ],
    "forgetting.thread": [lambda s, r, _: s.forgetting.thread(r, "secret", render=render)],
    "forgetting.resource": [lambda s, r, _: s.forgetting.resource(r)],
    "forgetting.older": [
        lambda s, r, _: s.forgetting.older(r, messages=AFTER, prompts=AFTER, events=AFTER, render=render)
    ],
    "line_edits.get": [lambda s, r, _: s.line_edits.get(r, "line-1")],
    "line_edits.edit": [lambda s, r, _: s.line_edits.edit(r, "line-1", "mine", tokens=1, render=render)],
    "line_edits.retract": [lambda s, r, _: s.line_edits.retract(r, "line-1", render=render)],
    "line_edits.reinstate": [lambda s, r, _: s.line_edits.reinstate(r, "line-1", render=render)],
    "line_edits.delete": [lambda s, r, _: s.line_edits.delete(r, "line-1", render=render)],
    "indexing.catch_up": [lambda s, r, _: s.indexing.catch_up(r, str)],
    "searching.search": [
        lambda s, r, _: s.searching.search(r, QUERY),
        lambda s, r, _: s.searching.search(r, replace(QUERY, threads=frozenset({"secret"}))),
    ],
    "tombstones.find": [
        lambda s, r, _: s.tombstones.find(r, "gone", [UserMessage("lost", id="m9")]),
        lambda s, r, _: s.tombstones.find(r, "gone", [UserMessage("lost")], is_history=True),
    ],
    "tombstones.forgotten_until": [lambda s, r, _: s.tombstones.forgotten_until(r)],
    "tombstones.threads": [lambda s, r, _: s.tombstones.threads(r, [("gone", 0)])],
    "tombstones.lift": [lambda s, r, _: s.tombstones.lift(r, "gone", [UserMessage("lost", id="m9")])],
    "transfers.render": [
        lambda s, r, _: s.transfers.render(r, {"group-1": "mine"}, render=render, count=len),
    ],
    "transfers.export": [lambda s, r, _: exported(s, r)],
    "transfers.begin": [lambda s, r, _: s.transfers.begin(r)],
    "transfers.put": [lambda s, r, _: s.transfers.put(r, Arrival(resource=r, is_fresh=False), HERS)],
    "transfers.date": [lambda s, r, _: s.transfers.date(r, "secret", created_at=NOW, updated_at=NOW)],
    "transfers.hint": [lambda s, r, _: s.transfers.hint(r, "secret", Hints(current_task="x", last_seq=1_000))],
    "searching.rows": [lambda s, r, _: s.searching.rows(r, [key_of_message(1, 1, 1, 0), key_of_other(1, 1, TASK)])],
    **TASK_CASES,
}


def public_methods(store: Store) -> dict[str, Callable[..., Any]]:
    """Return every public method of the store's parts by name."""
    found: dict[str, Callable[..., Any]] = {}
    for part in PARTS:
        for name, method in inspect.getmembers(getattr(store, part), callable):
            if not name.startswith("_"):
                found[f"{part}.{name}"] = method
    return found


async def outcome(call: Call, store: Store, resource: str, lease: Lease) -> str:
    """Return what a caller gets to see, with its own name taken out."""
    try:
        seen = repr(await call(store, resource, lease))
    except MemologError as error:
        seen = f"{type(error).__name__}: {error}"
    return seen.replace(resource, "CALLER")


async def everything(store: Store) -> str:
    """Return all that alice has."""
    return repr(
        (
            await store.threads.list("alice"),
            await store.messages.after("alice", "secret"),
            await lease_of(store, "alice", "lock"),
            await store.ledger.lines("alice"),
            await store.ledger.calibration("alice", "m"),
            await store.settings.get("alice"),
            await store.logs.snapshot("alice", "secret", "thread", create=False),
            await store.logs.history("alice", "secret"),
            await store.runs.list("alice"),
            await store.runs.prompts("alice", CLAIM.run),
            await store.journal.events("alice"),
            await store.journal.contexts("alice", "secret"),
            await store.task_views.list("alice"),
            [await store.task_views.show("alice", handle) for handle in ("T-1", "T-2", "T-3")],
            [await store.tasks.history("alice", handle) for handle in ("T-1", "T-2", "T-3")],
            await store.task_messages.messages("alice", "T-1"),
            await store.working_memory.versions("alice"),
            await store.working_memory.versions("alice", "secret"),
            await store.compactions.list("alice", "short"),
            await store.line_edits.get("alice", "line-1"),
            await store.tombstones.find("alice", "gone", [UserMessage("lost", id="m9")]),
        )
    )


async def move_in(store: Store) -> Lease:
    """Give alice one of everything."""
    await store.threads.create("alice", "secret", title="hers")
    messages = [UserMessage("one", id="m1"), UserMessage("two", id="m2")]
    await store.messages.save("alice", "secret", messages, turn="turn-1")
    snapshot = await store.logs.snapshot("alice", "secret", "thread")
    run = NewRun(id=CLAIM.run, kind="observe", thread="secret", span=Span(first=1, last=1), inputs={})
    log = snapshot.log
    await store.runs.start("alice", log.pk, log.version, [run], owner=CLAIM.owner, now=NOW, lease=30)
    await store.runs.keep_prompt("alice", CLAIM.run, '{"text": "hers"}', "answered")
    await store.journal.add("alice", [NewEvent(kind="Hers", thread="secret", at=NOW, data={})])
    await store.journal.add_context("alice", snapshot.thread.pk, **CONTEXT)
    await add_task(store, "alice", "task")
    await store.tasks.create("alice", NewTask(title="First"), who="alice", created_from=("m1",))
    await store.tasks.create("alice", NewTask(title="Second", blocked_by=("T-1",)), who="alice")
    await store.tasks.create("alice", NewTask(title="First of all, done"), who="alice")
    await store.task_claims.claim("alice", "T-1", "holder", lasts=60 * MINUTE, who="alice", thread="secret")
    await store.task_claims.close("alice", "T-3", "completed", "done", session="holder", who="alice")
    lease = await store.leases.acquire("alice", "lock", "owner", lasts=MINUTE)
    assert lease is not None
    await store.ledger.add("alice", Usage(model="m", cost=2.0, thread="secret", task="task", run="run"))
    await store.ledger.calibrate("alice", "m", learn)
    await store.settings.put("alice", {"scope": "thread"})
    for text in ("hers", "still hers"):
        await store.working_memory.change("alice", replaced(text), who="alice", most=100)
    await store.working_memory.change("alice", replaced("of one thread"), thread="secret", who="alice", most=100)
    await store.messages.save("alice", "short", [UserMessage("one"), UserMessage("two")])
    await store.compactions.compact("alice", "short", ROWS, summary="hers", now=store.clock.now())
    await observe(store)
    await store.messages.save("alice", "gone", UserMessage("lost", id="m9"))
    await store.forgetting.thread("alice", "gone", render=render)
    return lease


async def observe(store: Store) -> None:
    """Give alice a line in the log of a thread."""
    log = (await store.logs.snapshot("alice", "short", "thread")).log
    run = NewRun(id="run-2", kind="observe", thread="short", span=Span(first=1, last=2), inputs={})
    claims = await store.runs.start("alice", log.pk, log.version, [run], owner="owner", now=NOW, lease=30)
    line = Observation(id="line-1", group="group-1", ordinal=1, priority="high", text="hers")
    await store.runs.finish("alice", claims[0], replace(RESULT, group="group-1", observations=(line,)), now=NOW)
    log = (await store.logs.snapshot("alice", "short", "thread")).log
    await store.logs.activate("alice", log.pk, log.version, [Rendered(id="group-1", text="hers", tokens=1)], now=NOW)


def test_every_method_has_a_case(store: Store) -> None:
    """A new public method needs a case here, and a case needs a method."""
    methods = public_methods(store)
    assert set(methods) - SCRIPTS - BY_SNAPSHOT == set(CASES)
    for name in SCRIPTS | set(CASES):
        assert next(iter(inspect.signature(methods[name]).parameters)) == "resource", name
    for name in BY_SNAPSHOT:
        assert next(iter(inspect.signature(methods[name]).parameters)) == "snapshot", name


def test_every_part_of_the_store_is_looked_at(store: Store) -> None:
    """What is added to the store is added here, or is for whoever runs the database and not for one who acts for a resource."""
    of_everyone = {"processes", "doctor"}
    parts = {name for name, part in vars(store).items() if type(part).__module__.startswith("memolog.")}
    assert {name for name in parts if not name.startswith("_")} - of_everyone - {
        "cache",
        "clock",
        "engine",
        "new_id",
        "options",
    } == set(PARTS)
    alone = {name for name, _ in inspect.getmembers(store, inspect.iscoroutinefunction) if not name.startswith("_")}
    assert {name for name in alone if "resource" not in inspect.signature(getattr(store, name)).parameters} == {
        "close",
        "resources",
        "spent",
    }


@pytest.mark.parametrize("name", CASES)
async def test_what_is_foreign_does_not_exist(store: Store, clock: FakeClock, name: str) -> None:
    """A stranger gets the same answer whether or not the thing exists, and changes nothing of it."""
    lease = Lease(name="lock", owner="owner", fence=1, expires_at=clock.now() + MINUTE)
    before = [await outcome(call, store, "stranger-1", lease) for call in CASES[name]]
    assert await move_in(store) == lease
    hers = await everything(store)
    after = [await outcome(call, store, "stranger-2", lease) for call in CASES[name]]
    assert after == before
    assert await everything(store) == hers
    clock.advance(hours=1)
    for call in CASES[name]:
        await outcome(call, store, "stranger-3", lease)
    assert await everything(store) == hers


# ---------------------------------------------------------------- ids that are none

# A good value for each parameter without a default, and for each that is an id.
GOOD: Final[dict[str, object]] = {
    "resource": "alice",
    "thread": "secret",
    "threads": ["secret"],
    "limits": OtherLimits(threads=8, messages=30),
    "settings": {"scope": "resource"},
    "new_thread": "copy",
    "message_id": "m1",
    "messages": UserMessage("x"),
    "name": "lock",
    "owner": "owner",
    "turn": "turn",
    "task": "task",
    "run": "run",
    "model": "m",
    "learn": learn,
    "span": Span(first=1, last=2),
    "reference": "m1",
    "rows": ROWS,
    "compaction": "c1",
    "keep": 0,
    "days": 30,
    "place": PLACE,
    "position": PLACE.start,
    "seq": 3,
    "redact": str,
    "left": str.upper,
    "keys": [],
    "lasts": MINUTE,
    "usage": Usage(model="m"),
    "scope": "thread",
    "at": NOW,
    "log_pk": 1,
    "thread_pk": 1,
    "version": 0,
    "runs": (),
    "now": NOW,
    "lease": 30.0,
    "claim": CLAIM,
    "result": RESULT,
    "error": "broken",
    "retry_at": NOW,
    "events": (),
    "number": 1,
    "after": 0,
    "render": render,
    "new": NewTask(title="new"),
    "who": "me",
    "changes": {"title": "changed"},
    "source": "T-1",
    "target": "T-2",
    "kind": "blocks",
    "session": "holder",
    "reason": "completed",
    "summary": "done",
    "title": "First",
    "query": QUERY,
    "change": replaced("mine"),
    "most": 100,
    "tasks": ["task"],
    "observation": "line-1",
    "text": "mine",
    "tokens": 1,
    "file": io.BytesIO(),
    "arrival": Arrival(resource="alice", is_fresh=False),
    "created_at": NOW,
    "hints": Hints(),
    "texts": {},
    "generation": 0,
    "entries": 1,
    "last_seq": 1,
    "ids": [],
    "groups": [],
    "fence": 1,
    "why": "broken",
    "claims": [],
    "prompt": "{}",
    "reply": "answered",
    "step": 1,
    "record": {},
    "count": len,
    "updated_at": NOW,
}
# Where no thread is meant, it is the log that all threads share.
NONE_IS_MEANT: Final = {("logs.history", "thread"), ("logs.as_of", "thread")}
# What a caller's model is called is noted as it was said.
NO_ID: Final = {("journal.add_context", "model")}
IDS: Final = {
    *("resource", "thread", "new_thread", "message_id", "name", "owner", "turn", "task", "run", "model"),
    *("who", "session", "source", "target", "compaction", "observation"),
}
# One name for two things: what links tasks, and what links a message to one.
OTHER_GOOD: Final[dict[tuple[str, str], object]] = {
    ("transfers.put", "rows"): [],
    ("tombstones.find", "messages"): [UserMessage("x")],
    ("tombstones.lift", "messages"): [UserMessage("x")],
    ("tombstones.threads", "threads"): [("secret", 0)],
    ("task_messages.attach", "kind"): "output",
    ("task_messages.attach", "messages"): ["m1"],
    ("task_messages.detach", "messages"): ["m1"],
}
EMPTY: Final[tuple[object, ...]] = ("", " ", "\t\n ", "\u3000")
BAD: Final[tuple[object, ...]] = (
    *("a\x00b", "a\nb", "\x7f", "\x1b[0m", "\ud800", "\u202eabc", "\ufeff"),
    *("x" * 513, "é" * 100_000),
    *(5, 1.5, True, b"alice", ["alice"], {"alice"}, object()),
)


def arguments(full_name: str, method: Callable[..., Any], lease: Lease) -> dict[str, object]:
    """Return good arguments for a method; an unknown required parameter fails the test."""
    given: dict[str, object] = {}
    for name, parameter in inspect.signature(method).parameters.items():
        if name in IDS or parameter.default is inspect.Parameter.empty:
            good = OTHER_GOOD.get((full_name, name), GOOD[name])
            given[name] = lease if name == "lease" and parameter.annotation in {Lease, "Lease"} else good
    return given


async def test_ids_that_are_none_are_refused(store: Store) -> None:
    """Empty, blank, unprintable, overlong and non-text ids: every id of every method, with nothing changed."""
    lease = await move_in(store)
    hers = await everything(store)
    tried = 0
    for full_name, method in public_methods(store).items():
        if full_name in SCRIPTS or full_name in BY_SNAPSHOT:
            continue
        good = arguments(full_name, method, lease)
        assert "resource" in good, full_name
        for name in (name for name in IDS & set(good) if (full_name, name) not in NO_ID):
            required = inspect.signature(method).parameters[name].default is inspect.Parameter.empty
            required = required and (full_name, name) not in NONE_IS_MEANT
            for value in (*EMPTY, *BAD, *((None,) if required else ())):
                with pytest.raises(EmptyId if value in EMPTY else InputError) as caught:
                    await method(**{**good, name: value})
                assert caught.value.what, (full_name, name)
                assert caught.value.then, (full_name, name)
                assert len(str(caught.value)) < 1000
                tried += 1
    assert tried > 500
    assert await everything(store) == hers


async def test_message_ids_are_ids(store: Store) -> None:
    """An id inside a message obeys the same rule; a bad one saves nothing."""
    for value in (*EMPTY, *BAD):
        message: Any = NewMessage(role="user", parts=(), id=value)  # pyright: ignore[reportArgumentType]
        with pytest.raises(EmptyId if value in EMPTY else InputError):
            await store.messages.save("alice", "t", [UserMessage("good"), message])
    assert await store.threads.count("alice") == 0


async def test_ids_inside_a_usage_are_ids(store: Store) -> None:
    """What a request names obeys the same rule."""
    for field in ("model", "thread", "task", "run"):
        for value in (*EMPTY, *BAD):
            usage: Any = Usage(**{"model": "m", field: value})  # pyright: ignore[reportArgumentType]
            with pytest.raises(EmptyId if value in EMPTY else InputError):
                await store.ledger.add("alice", usage)
    assert (await store.ledger.total("alice")).requests == 0


@pytest.mark.parametrize(
    "name", ["x", "x" * 512, "日本語", "a b", "'; DROP TABLE threads; --", "%_\\", "Ω≈ç", "🧵", "../etc"]
)
async def test_printable_text_is_an_id(store: Store, name: str) -> None:
    """Anything that can be shown may name things, and names itself alone."""
    await store.messages.save(name, name, UserMessage("x", id=name))
    assert (await store.threads.get(name, name)).id == name
    assert (await store.messages.get(name, name))[0].id == name
    assert await store.threads.count(name) == 1
    assert await store.threads.count(f"{name[:-1]}y") == 0


async def test_ids_are_compared_exactly(store: Store) -> None:
    """Case, blanks, composed and decomposed letters tell ids apart."""
    ids = ["a", "A", " a", "a ", "é", "e\u0301", "ａ"]
    for name in ids:
        await store.messages.save("alice", name, UserMessage(name, id=name))
        await store.messages.save(name, "t", UserMessage(name))
    for name in ids:
        assert [row.text for row in await store.messages.after("alice", name)] == [name]
        assert [row.text for row in await store.messages.after(name, "t")] == [name]
    assert await store.threads.count("alice") == len(ids)
