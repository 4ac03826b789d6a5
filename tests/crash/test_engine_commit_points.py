"""A crash is a pause: killed at any commit point of the engine, the conversation goes on and ends with the same log."""

import ast
import signal
import subprocess
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

import memolog
from contract.raw_sql import run_sql
from crash import engine_child
from crash.children import Deadly, Death, order, started
from crash.engine_child import RESOURCE, THREAD, Conversation
from crash.survivors import check_sound, select
from crash.writer_child import OPERATIONS, open_fixed
from kit.effort import LONG, counts
from kit.engines import engines
from memolog.admin.transfer_store import BY_KIND
from memolog.compaction.store import RowTexts
from memolog.core.message import FilePart, Message, UserMessage
from memolog.core.observation import Observation, Span
from memolog.core.thread import Hints
from memolog.log.runs import NewRun, RunClaim, RunResult
from memolog.log.store import Rendered
from memolog.search.vectors import Vectors, Wanted
from memolog.store import Store

# What the conversation comes by. A new commit point belongs here, among the operations of the foundation, or below.
ENGINE: Final = (
    *(
        "store.save_and_snapshot",
        "store.save_and_book",
        "messages.save",
        "messages.end_turn",
        "usage.add",
        "usage.calibrate",
        "logs.snapshot",
        "settings.put",
    ),
    *("journal.add", "journal.add_context", "withdrawals.withdraw"),
    *("runs.start", "runs.finish", "runs.fail", "runs.take_over", "runs.heartbeat", "runs.note_stall"),
    *("logs.activate", "logs.activate_reflection", "logs.restore", "processes.beat"),
)
# How often a process comes by depends on how fast it is: only the first time is sure.
_TIMED: Final = {"runs.heartbeat", "processes.beat"}
POINTS: Final = [f"{name}:{moment}" for name in ENGINE for moment in ("before", "after")]
engine_name = engines("sqlite", "postgres")


# ---------------------------------------------------------------- what a conversation leaves behind

_MESSAGES = "SELECT m.seq, m.id, m.role, m.state, m.parts FROM messages m ORDER BY m.seq"
_LINES = """SELECT g.id, o.text, s.first_seq, s.last_seq FROM observations o JOIN groups g ON g.pk = o.group_pk
JOIN observation_sources s ON s.observation_pk = o.pk WHERE g.state = 'active' AND o.state = 'active'
ORDER BY g.pk, o.ordinal, s.first_seq"""
_HEADS = "SELECT c.seq, t.current_task, t.hinted_seq FROM cursors c JOIN threads t ON t.pk = c.thread_pk"


async def _left(store: Store) -> dict[str, Any]:
    """Return the final log in terms of what was said: a repeated withdrawal may leave one more tombstone."""
    messages, lines, heads = await select(store, _MESSAGES, _LINES, _HEADS)
    live = [(seq, id_) for seq, id_, _, state, _ in messages if state == "live"]

    def said(first: int, last: int) -> list[str]:
        return [id_ for seq, id_ in live if first <= seq <= last]

    texts: dict[str, list[Any]] = {}
    for group, text, first, last in lines:
        texts.setdefault(group, []).append((text, said(first, last)))
    return {
        "messages": [(id_, role, parts) for _, id_, role, state, parts in messages if state == "live"],
        # How lines are divided into groups, and which of them are condensed by now, depends on which of two runs in the
        # background ended first. What the log stands for does not.
        "cited": sorted({id_ for found in texts.values() for _, ids in found for id_ in ids}),
        "cursor": [(said(0, cursor), task, said(0, hinted)) for cursor, task, hinted in heads],
    }


async def _hold(address: str, first: int, attempt: int, hook: Deadly) -> list[Any]:
    """Hold the conversation in this process until its end, or until it is as good as dead; return what it told."""
    told: list[Any] = []
    conversation = Conversation(address, told.append)
    kit = await conversation.memory.open()
    kit.store.engine.commit_hook = hook
    with suppress(Death):
        await conversation.hold(first, attempt)
    with suppress(Death):
        # It tries to save what is left, and dies of it again.
        await conversation.memory.aclose()
    return told


_reference: dict[str, Any] = {}


async def _whole(address: str) -> tuple[dict[str, Any], Counter[str]]:
    """Return the log of a conversation without a crash, and how often it comes by each commit point."""
    if not _reference:
        hook = Deadly()
        await _hold(address, 0, 0, hook)
        async with await open_fixed(address) as store:
            _reference.update(log=await _left(store), reached=hook.reached)
    return _reference["log"], _reference["reached"]


def _next_step(told: list[Any]) -> int:
    return max((line[1] for line in told if line[0] == "done"), default=-1) + 1


def _occasions(point: str, reached: int, most: int) -> list[int]:
    """Choose at which of its times a commit point is the last: the middle, then the first and the last, then others."""
    if point.rpartition(":")[0] in _TIMED:
        return [1]
    spread = [reached // 2 + 1, 1, reached, reached // 3 + 1, reached * 3 // 4]
    return sorted({min(max(1, nth), reached) for nth in spread[:most]})


async def _check_same(address: str, expected: dict[str, Any]) -> None:
    async with await open_fixed(address) as store:
        await check_sound(store)
        left = await _left(store)
    for part, found in left.items():
        assert found == expected[part], part


# ---------------------------------------------------------------- killed


@pytest.fixture(scope="module")
def processes() -> Iterator[subprocess.Popen[str]]:
    """Start the process that forks one for each part of a conversation."""
    with started("engine_child.py") as process:
        yield process


@pytest.mark.parametrize("point", POINTS)
async def test_a_kill_is_a_pause(point: str, tmp_path: Path, processes: subprocess.Popen[str]) -> None:
    """Killed at a commit point, a new process takes over what was under way and reaches the log of no crash."""
    expected, reached = await _whole(str(tmp_path / "whole.db"))
    for nth in _occasions(point, reached[point], counts(1, 5)):
        where = str(tmp_path / f"{nth}.db")
        ended, told = order(processes, where, 0, 0, {point: nth})
        assert ended == signal.SIGKILL, f"{point} was not reached {nth} times"
        ended, told_after = order(processes, where, _next_step(told), 1, {})
        assert (ended, _next_step(told_after)) == (0, len(engine_child.STEPS))
        await _check_same(where, expected)
        if point == "runs.finish:before":
            _check_asked_again(told, told_after)


def _check_asked_again(told: list[Any], told_after: list[Any]) -> None:
    """Whoever takes a run over asks the very question of its row."""
    _, _, transcript, request = next(line for line in reversed(told) if line[0] == "asked")
    again = {line[2]: line[3] for line in told_after if line[0] == "asked"}
    assert again[transcript] == request


async def test_killed_again_and_again(address: str, tmp_path: Path, processes: subprocess.Popen[str]) -> None:
    """Each process dies at the first commit point where none has died before; together they reach the log of no crash."""
    expected, _ = await _whole(str(tmp_path / "whole.db"))
    alive, number = set(POINTS), 0
    while alive:
        where, first, attempt, ended = f"{address}_{number}", 0, 0, int(signal.SIGKILL)
        started_with = len(alive)
        while ended == signal.SIGKILL:
            ended, told = order(processes, where, first, attempt, dict.fromkeys(alive, 1))
            alive -= {line[1] for line in told if line[0] == "died"}
            reached = _next_step(told)
            first, attempt = (reached, 1) if reached else (first, attempt + 1)
        assert ended == 0
        assert len(alive) < started_with, f"nobody comes by {alive}"
        await _check_same(where, expected)
        number += 1


@pytest.mark.parametrize("point", POINTS)
async def test_an_error_at_a_commit_point_is_a_pause(point: str, tmp_path: Path) -> None:
    """The same in one process: a memory that can write nothing more is left, and another one goes on."""
    expected, reached = await _whole(str(tmp_path / "whole.db"))
    # The kills above are in the middle; here the first and the last time. The last reflection is one that a person asked for:
    # asked again after a death it begins from another log, so only the first is compared.
    name = point.rpartition(":")[0]
    is_first_only = name == "logs.activate_reflection" or name in _TIMED
    for nth in {1} if is_first_only else {1, reached[point]} if LONG else {reached[point]}:
        address = str(tmp_path / f"{nth}.db")
        hook = Deadly(point, nth)
        told = await _hold(address, 0, 0, hook)
        assert hook.dead, f"{point} was not reached {nth} times"
        await _hold(address, _next_step(told), 1, Deadly())
        await _check_same(address, expected)


async def test_the_conversation_comes_by_every_point(tmp_path: Path) -> None:
    """What is killed is reached, and what is reached is killed."""
    _, reached = await _whole(str(tmp_path / "whole.db"))
    assert set(reached) == set(POINTS)


def _names(called: ast.Call) -> list[ast.expr]:
    """Return the name of the write that a call makes, if it makes one: a method of an engine, or the decorator of a script."""
    match called.func:
        case ast.Attribute(value=ast.Attribute(attr="engine" | "_engine") | ast.Name(id="engine"), attr=name):
            is_write = name in {"write", "write_and_read"}
            return [keyword.value for keyword in called.keywords if keyword.arg == "name"] if is_write else []
        case ast.Name(id="writes"):
            return called.args
        case ast.Name(id="write_or_try"):
            return [keyword.value for keyword in called.keywords if keyword.arg == "name"]
        case _:
            return []


def test_every_write_of_the_store_is_killed() -> None:
    """Whoever adds a write to the store adds it here, or to the operations of the foundation."""
    folder = Path(str(memolog.__file__)).parent
    # An engine passes on the names that it is given.
    paths = set(folder.rglob("*.py")) - set((folder / "db").glob("*.py"))
    nodes = [node for path in paths for node in ast.walk(ast.parse(path.read_text()))]
    found = [name for node in nodes if isinstance(node, ast.Call) for name in _names(node)]
    # `write_or_try` passes on the name that it is given.
    named = {ast.literal_eval(name) for name in found if not isinstance(name, ast.Name)}
    # Only PostgreSQL has a job queue: log/test_job_queue.py stops the write of a job. Only PostgreSQL with pgvector has a mirror
    # of vectors: it is one statement, and search/test_semantic.py compares it with the vectors.
    assert named == {*ENGINE, *ALONE, *VECTORS, *OPERATIONS, "jobs.defer", "vectors.mirror"}


# ---------------------------------------------------------------- writes that no turn makes


_LAW: Final = FilePart(media_type="application/pdf", url="https://example.com/law.pdf")


async def _start(store: Store, span: Span) -> RunClaim:
    snapshot = await store.logs.snapshot(RESOURCE, THREAD, "thread")
    run = NewRun(id=f"run-{span.first}", kind="observe", thread=THREAD, span=span, inputs={})
    log, now = snapshot.log, store.clock.now()
    return (await store.runs.start(RESOURCE, log.pk, log.version, [run], owner="me", now=now, lease=30))[0]


async def _prologue(store: Store) -> RunClaim:
    """Make a log of one group, and a run that is under way over what follows; return its claim."""
    await store.messages.save(RESOURCE, THREAD, [UserMessage("one", id="m1"), UserMessage(["two", _LAW], id="m2")])
    claim = await _start(store, Span(first=1, last=1))
    line = Observation(id="line", group="group", ordinal=1, priority="high", text="one was said")
    back = Observation(id="back", group="group", ordinal=2, priority="high", text="it is taken back")
    made = RunResult(group="group", observations=(line, back), hints=None, tokens=0, model="m", prompt_version="1")
    await store.runs.finish(RESOURCE, claim, made, now=store.clock.now())
    log = (await store.logs.snapshot(RESOURCE, THREAD, "thread")).log
    await store.logs.activate(
        RESOURCE, log.pk, log.version, [Rendered(id="group", text="", tokens=0)], now=store.clock.now()
    )
    await store.line_edits.retract(RESOURCE, "back")
    await store.leases.acquire(RESOURCE, "task:gone", "me", lasts=timedelta(minutes=1))
    rows = [RowTexts(seq=1, search="one", brief="1")]
    await store.compactions.compact(RESOURCE, THREAD, rows, summary="first", now=store.clock.now())
    await store.messages.save(RESOURCE, "gone", UserMessage("lost", id="m9"))
    await store.forgetting.thread(RESOURCE, "gone")
    await store.messages.save(RESOURCE, THREAD, UserMessage("three", id="m3"))
    await store.branches.rewind(RESOURCE, THREAD, 2, again=_again)
    # As an import leaves it until its lines are there.
    await run_sql(store, "UPDATE groups SET text = '', tokens = 0 RETURNING pk")
    return await _start(store, Span(first=2, last=2))


def _again(_thread: str, _group: str, _messages: Sequence[Message]) -> tuple[Observation, ...]:
    return ()


async def _restore_compaction(store: Store) -> None:
    made = (await store.compactions.list(RESOURCE, THREAD))[0]
    await store.compactions.restore(RESOURCE, THREAD, made.id, now=store.clock.now())


async def _repair(store: Store) -> None:
    found = await store.doctor.examine(
        RESOURCE, count=len, redact=str, render=lambda group, _lines, _aliases: (group.text, group.tokens)
    )
    # The prologue's claim is of a task that is not there.
    assert [one.finding.kind for one in found if one.repair] == ["lease"]
    await store.doctor.repair(found)


async def _put(store: Store) -> None:
    row = dict.fromkeys(BY_KIND["event"].columns) | {"at": 1, "of": "Told", "data": "{}"}
    await store.transfers.put(RESOURCE, await store.transfers.begin(RESOURCE), [(BY_KIND["event"], row)])


def _later(store: Store, days: int) -> datetime:
    return store.clock.now() + timedelta(days=days)


# Offered by the store, not used by a turn: killed by themselves. Each is given the store and a claim of a run.
async def _mark(store: Store) -> None:
    page = await store.due.page(scope="thread", now=store.clock.now())
    await store.due.mark([(log, thread) for log in page.logs for thread in log.threads])


ALONE: Final[dict[str, Callable[[Store, RunClaim], Awaitable[object]]]] = {
    "runs.abandon": lambda s, claim: s.runs.abandon(RESOURCE, claim, "given up", now=s.clock.now()),
    "runs.give_back": lambda s, claim: s.runs.give_back(RESOURCE, [claim]),
    "runs.keep_prompt": lambda s, claim: s.runs.keep_prompt(RESOURCE, claim.run, "asked", "answered"),
    "messages.report": lambda s, _: s.messages.report_files(RESOURCE, THREAD, {2: 900}),
    "compactions.compact": lambda s, _: s.compactions.compact(
        RESOURCE, THREAD, [RowTexts(seq=2, search="two", brief="2")], summary="second", now=s.clock.now()
    ),
    "compactions.deepen": lambda s, _: s.compactions.deepen(RESOURCE, THREAD, keep=0),
    "compactions.restore": lambda s, _: _restore_compaction(s),
    "compactions.prune": lambda s, _: s.compactions.prune(RESOURCE, THREAD, days=30, now=_later(s, 40), left=str.upper),
    "forgetting.message": lambda s, _: s.forgetting.message(RESOURCE, "m1"),
    "forgetting.thread": lambda s, _: s.forgetting.thread(RESOURCE, THREAD),
    "forgetting.resource": lambda s, _: s.forgetting.resource(RESOURCE),
    "forgetting.older": lambda s, _: s.forgetting.older(RESOURCE, messages=_later(s, 1)),
    "line_edits.edit": lambda s, _: s.line_edits.edit(RESOURCE, "line", "two was said", tokens=1),
    "line_edits.retract": lambda s, _: s.line_edits.retract(RESOURCE, "line"),
    "line_edits.reinstate": lambda s, _: s.line_edits.reinstate(RESOURCE, "back"),
    "line_edits.delete": lambda s, _: s.line_edits.delete(RESOURCE, "line"),
    "branches.rewind": lambda s, _: s.branches.rewind(RESOURCE, THREAD, 1, again=_again),
    "branches.restore": lambda s, _: s.branches.restore(RESOURCE, THREAD, "b1", again=_again),
    "doctor.repair": lambda s, _: _repair(s),
    "transfers.put": lambda s, _: _put(s),
    "transfers.date": lambda s, _: s.transfers.date(
        RESOURCE, THREAD, created_at=_later(s, -9), updated_at=_later(s, -9)
    ),
    "transfers.hint": lambda s, _: s.transfers.hint(RESOURCE, THREAD, Hints(current_task="imported", last_seq=1_000)),
    "transfers.render": lambda s, _: s.transfers.render(
        RESOURCE, {"group": "not what its lines say"}, render=s.render, count=len
    ),
    "tombstones.lift": lambda s, _: s.tombstones.lift(RESOURCE, "gone", [UserMessage("lost", id="m9")]),
    "search.index": lambda s, _: s.indexing.catch_up(RESOURCE, str),
    "copies.merge": lambda s, _: s.copies.merge(RESOURCE),
    "due.mark": lambda s, _: _mark(s),
}


# What these writes may change.
_TOUCHED: Final = (
    "SELECT id, state, text FROM observations ORDER BY pk",
    "SELECT name, owner FROM leases",
    "SELECT id, status, error, fence, lease_until FROM runs ORDER BY pk",
    "SELECT prompt, reply FROM run_prompts",
    "SELECT version, generation FROM logs ORDER BY pk",
    "SELECT handle, state, text FROM groups ORDER BY pk",
    "SELECT log_pk, seq, alias FROM cursors ORDER BY log_pk",
    "SELECT kind, number FROM generations ORDER BY 1, 2",
    "SELECT seq, level, pruned, injection, search, parts, reported_file_tokens FROM messages ORDER BY seq",
    "SELECT first_seq, level, restored_at, summary FROM compactions ORDER BY pk",
    "SELECT doc FROM search_docs ORDER BY doc",
    "SELECT indexed_seq, waits_since, created_at, current_task FROM threads",
    "SELECT kind FROM events",
    "SELECT word FROM search_words",
    "SELECT kind, value FROM tombstones ORDER BY pk",
)


@pytest.mark.parametrize("name", ALONE)
async def test_writes_that_no_turn_makes(name: str, address: str) -> None:
    """Stopped before the commit, nothing of it is there; stopped after it, all of it."""
    async with await open_fixed(address) as store:
        claim = await _prologue(store)
        before = await select(store, *_TOUCHED)
        for moment in ("before", "after"):
            store.engine.commit_hook = Deadly(f"{name}:{moment}", 1)
            with pytest.raises(Death):
                await ALONE[name](store, claim)
            store.engine.commit_hook = None
            assert (await select(store, *_TOUCHED) == before) == (moment == "before")


# ---------------------------------------------------------------- vectors


async def _queue(vectors: Vectors, embedder: int) -> list[Wanted]:
    """Put all documents into the queue of an embedder, and return the first of them."""
    return await vectors.batch(embedder, str, limit=1) or []


async def _add(vectors: Vectors, embedder: int) -> None:
    await vectors.add(embedder, [(one, np.ones(4, np.float32)) for one in await _queue(vectors, embedder)])


async def _forget_older(vectors: Vectors, embedder: int) -> None:
    await _add(vectors, embedder)
    newer = await vectors.choose("newer", 4)
    while await vectors.forget_older(newer):
        pass


async def _release(vectors: Vectors, embedder: int) -> None:
    await vectors.claim(embedder, "me", datetime(2026, 3, 14, tzinfo=UTC))
    await vectors.release(embedder, "me")


VECTORS: Final[dict[str, Callable[[Vectors, int], Awaitable[object]]]] = {
    "vectors.choose": lambda vectors, _: vectors.choose("another", 8),
    "vectors.claim": lambda vectors, embedder: vectors.claim(embedder, "me", datetime(2026, 3, 14, tzinfo=UTC)),
    "vectors.release": _release,
    "vectors.fill": _queue,
    "vectors.add": _add,
    "vectors.forget": _forget_older,
}

# The last query has the documents without a vector, which the next maker looks for.
_VECTORS: Final = (
    "SELECT name, dimension, filled, maker, made_until FROM search_embedders ORDER BY chosen",
    "SELECT embedder_pk, resource, last FROM search_vector_sets ORDER BY pk",
    "SELECT place, scale FROM search_vectors ORDER BY pk",
    "SELECT embedder_pk, scope_pk, doc FROM search_vector_queue ORDER BY embedder_pk, doc",
)


@pytest.mark.parametrize("name", VECTORS)
async def test_writes_of_vectors(name: str, address: str) -> None:
    """Stopped before the commit or after it, the same call again comes to what it comes to without a stop."""
    ends: list[object] = []
    for moment in (None, "before", "after"):
        async with await open_fixed(f"{address}{'' if moment is None else f'_{moment}'}") as store:
            await store.messages.save(RESOURCE, THREAD, UserMessage("one", id="m1"))
            await store.indexing.catch_up(RESOURCE, str)
            vectors = Vectors(store.engine)
            embedder = await vectors.choose("first", 4)
            if moment is not None:
                store.engine.commit_hook = Deadly(f"{name}:{moment}", 1)
                with pytest.raises(Death):
                    await VECTORS[name](vectors, embedder)
                store.engine.commit_hook = None
            await VECTORS[name](vectors, embedder)
            ends.append(await select(store, *_VECTORS))
    assert ends[1:] == ends[:1] * 2
