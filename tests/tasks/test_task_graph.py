"""Blocking: what the store keeps equals the definition, and the search for circles finds exactly the circles."""

import contextlib
import itertools
import random
from collections.abc import Iterable, Mapping
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contract.raw_sql import run_sql
from kit.effort import LONG, counts
from kit.talk import tasks_of
from memolog.db.queries import named_rows
from memolog.errors import TaskBlocked, TaskCycle, TaskHeld, TaskMoveRefused
from memolog.store import Store
from memolog.tasks.calls import Tasks
from memolog.tasks.dependencies import finding_path
from memolog.tasks.rules import ORDERING, like_pairs
from memolog.tasks.task import LINK_KINDS, LinkKind

Edge = tuple[int, int]

edges = st.lists(st.tuples(st.integers(0, 11), st.integers(0, 11)), max_size=40)


def reachable(graph: Iterable[Edge], start: int) -> set[int]:
    """Return everything that can be reached, the simple way."""
    seen, todo = {start}, [start]
    links = list(graph)
    while todo:
        here = todo.pop()
        for source, target in links:
            if source == here and target not in seen:
                seen.add(target)
                todo.append(target)
    return seen


def blocked_of(is_closed: Mapping[int, bool], links: Iterable[tuple[int, int, str]]) -> frozenset[int]:
    """Return the blocked tasks, by the definition in `memolog.tasks.rules` alone."""
    above = {kind: [(source, target) for source, target, of in links if of == kind] for kind in ORDERING}

    @cache
    def is_blocked(task: int) -> bool:
        if is_closed[task]:
            return False
        waits = any(not is_closed[source] for source, target in above["blocks"] if target == task)
        return waits or any(is_blocked(source) for source, target in above["parent-child"] if target == task)

    return frozenset(filter(is_blocked, is_closed))


@given(edges, st.integers(0, 11), st.integers(0, 11))
def test_a_circle_is_found_exactly_where_there_is_one(graph: list[Edge], source: int, target: int) -> None:
    """The search from both ends agrees with reachability, and the way it shows is a way."""
    script = finding_path(target, source)
    path: list[int] = []
    try:
        step = next(script)
        while True:
            pks, is_forward = step.values["pks"], step.statement.name == "after_these"
            assert pks
            found = [edge for edge in graph if edge[0 if is_forward else 1] in pks]  # pyright: ignore[reportOperatorIssue]
            step = script.send(named_rows(("source_pk", "target_pk"), found))
    except StopIteration as end:
        path = end.value
    if source in reachable(graph, target):
        assert (path[0], path[-1]) == (target, source)
        assert all(step in graph for step in itertools.pairwise(path))
    else:
        assert path == []


@given(st.lists(st.text(alphabet="abcde fg", max_size=20), min_size=1, max_size=8), st.data())
def test_likeness_is_a_likeness(texts: list[str], data: st.DataObject) -> None:
    """It is symmetric, between 0 and 1, and 1 for the same words; asking for one text finds its pairs among all."""
    pairs = like_pairs(texts, least=0.3)
    assert all(0.3 <= likeness <= 1.0000001 and one < other for one, other, likeness in pairs)
    of = data.draw(st.integers(0, len(texts) - 1))
    mine = {(one, other) for one, other, _ in like_pairs(texts, least=0.3, of=of)}
    assert mine == {(one, other) for one, other, _ in pairs if of in (one, other)}
    turned = like_pairs(texts[::-1], least=0.3)
    last = len(texts) - 1
    assert {(last - other, last - one) for one, other, _ in turned} == {(one, other) for one, other, _ in pairs}


# ---------------------------------------------------------------- the store


class Graph:
    """What the graph of tasks should be, kept beside the store by the simplest means."""

    def __init__(self) -> None:
        self.closed: dict[int, bool] = {}
        self.links: set[tuple[int, int, LinkKind]] = set()

    def has_circle_with(self, source: int, target: int) -> bool:
        """Return whether a link would close a circle."""
        return source in reachable([(s, t) for s, t, kind in self.links if kind in ORDERING], target)


async def _one_operation(tasks: Tasks, graph: Graph, chance: random.Random, most: int) -> str:
    """Do something at random to the store, and the same to the graph; refusals must be right."""
    numbers = list(graph.closed)
    kind = chance.choices(
        ("create", "link", "unlink", "close", "reopen", "claim", "release"),
        (4 if len(numbers) < most else 0, 8, 3, 5, 4, 2, 2),
    )[0]
    if kind == "create" or not numbers:
        return await _create(tasks, graph, chance, numbers)
    task = chance.choice(numbers)
    other = chance.choice(numbers)
    name = f"T-{task}"
    match kind:
        case "link" if task != other:
            link: LinkKind = chance.choices(LINK_KINDS, (6, 4, 1, 1))[0]
            return await _link(tasks, graph, task, other, link)
        case "unlink" if graph.links:
            source, target, link = chance.choice(sorted(graph.links))
            graph.links.discard((source, target, link))
            await tasks.unlink(f"T-{source}", f"T-{target}", link)
        case "close" if not graph.closed[task]:
            before = _blocked(graph)
            graph.closed[task] = True
            closed = await tasks.close(name, summary="done", force=True)
            freed = before - _blocked(graph) - {task}
            assert {ref.handle for ref in closed.unblocked} == {f"T-{number}" for number in freed}
        case "reopen" if graph.closed[task]:
            graph.closed[task] = False
            await tasks.reopen(name)
        case "claim" | "release":
            await _claim_or_release(tasks, graph, task, kind)
        case _:
            pass
    return f"{kind} {task} {other}"


async def _create(tasks: Tasks, graph: Graph, chance: random.Random, numbers: list[int]) -> str:
    number = len(numbers) + 1
    before = tuple(chance.sample(numbers, min(len(numbers), chance.choice((0, 0, 1, 2)))))
    parent = chance.choice(numbers) if numbers and chance.random() < 0.4 else None
    made = await tasks.create(
        f"Task {number}",
        blocked_by=tuple(f"T-{one}" for one in before),
        parent=f"T-{parent}" if parent else None,
    )
    graph.closed[number] = False
    graph.links |= {(one, number, "blocks") for one in before}
    if parent:
        graph.links.add((parent, number, "parent-child"))
    assert made.handle == f"T-{number}"
    assert made.blocked == (number in _blocked(graph))
    return f"create {number} {before} {parent}"


async def _link(tasks: Tasks, graph: Graph, task: int, other: int, kind: LinkKind) -> str:
    call = tasks.link(f"T-{task}", f"T-{other}", kind)
    if kind in ORDERING and graph.has_circle_with(task, other):
        with pytest.raises(TaskCycle) as caught:
            await call
        path = [int(handle[2:]) for handle in caught.value.path]
        assert (path[0], path[1], path[-1]) == (task, other, task)
        ordering = {(s, t) for s, t, link in graph.links if link in ORDERING}
        assert all(step in ordering for step in itertools.pairwise(path[1:]))
        return f"no link {task} {other} {kind}"
    await call
    pair = (min(task, other), max(task, other)) if kind == "related" else (task, other)
    graph.links.add((*pair, kind))
    return f"link {task} {other} {kind}"


async def _claim_or_release(tasks: Tasks, graph: Graph, task: int, kind: str) -> None:
    name = f"T-{task}"
    if kind == "claim":
        try:
            await tasks.claim(name, lease=3600)
        except TaskBlocked:
            assert task in _blocked(graph)
        except TaskMoveRefused:
            assert graph.closed[task]
        else:
            assert not graph.closed[task]
            assert task not in _blocked(graph)
    else:
        with contextlib.suppress(TaskHeld, TaskMoveRefused):
            await tasks.release(name)


def _blocked(graph: Graph) -> frozenset[int]:
    return blocked_of(graph.closed, graph.links)


async def _compare(tasks: Tasks, graph: Graph, story: list[str]) -> None:
    found: dict[int, tuple[bool, bool]] = {}
    after = None
    while True:
        page = await tasks.list(limit=500, after=after)
        found |= {int(task.handle[2:]): (task.status == "closed", task.blocked) for task in page.items}
        after = page.next
        if after is None:
            break
    blocked = _blocked(graph)
    expected = {number: (is_closed, number in blocked) for number, is_closed in graph.closed.items()}
    assert found == expected, story[-5:]
    counts_ = await tasks.counts()
    assert counts_.blocked == len(blocked)


@pytest.mark.parametrize("engine_name", ["memory", "postgres"])
@pytest.mark.parametrize("seed", range(counts(2, 6)))
async def test_blocked_equals_its_definition(store: Store, seed: int) -> None:
    """Random operations on a random graph: after each the kept state is what the definition says, and refusals are right."""
    chance = random.Random(seed)
    graph = Graph()
    tasks = tasks_of(store, "alice", session="s", who="x")
    most, operations = (300, 2_000) if LONG else (60, 200)
    story: list[str] = []
    for number in range(operations):
        story.append(await _one_operation(tasks, graph, chance, most))
        if not LONG or number % 10 == 0:
            await _compare(tasks, graph, story)
    await _compare(tasks, graph, story)
    counted = await run_sql(store, "SELECT COUNT(*) FROM task_links")
    assert counted[0][0] == len(graph.links)
    assert len(graph.closed) > most // 3
    assert any("no link" in line for line in story)
