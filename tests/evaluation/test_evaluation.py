"""Evaluations from the beginning to the report: without a model, with a scripted one, and with a server on this machine."""

import asyncio
import json
import re
import sqlite3
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from evaluation import samples
from evaluation.samples import write_samples
from memolog import Config, Memory, ModelRequest
from memolog.apps.eval.arms import arm_of
from memolog.apps.eval.budget import BudgetReached
from memolog.apps.eval.datasets import DataSet, read
from memolog.apps.eval.evaluation import Evaluation, Outcome, Plan
from memolog.apps.eval.figures import Figures, figures_of, interval
from memolog.apps.eval.forecast import forecast
from memolog.apps.eval.readers import UNKNOWN, best_line
from memolog.apps.eval.report import report
from memolog.apps.eval.results import open_results
from memolog.errors import InputError, StoreBusy
from memolog.models import Price
from memolog.testing import ScriptedModel
from observer.test_model_server import Reply, Server, completion

ARMS = ("memory", "memory+search", "search", "full", "last:20", "oracle")


def one_talk() -> DataSet:
    """Return the first conversation with its thirteen questions."""
    return read("talks").part(limit=13)


async def evaluated(path: Path, arms: tuple[str, ...] = ARMS, **given: Any) -> tuple[Outcome, Figures, str]:
    """Run a plan, and return its outcome, its figures and its report."""
    given.setdefault("data", one_talk())
    plan = Plan(config=Config(), arms=tuple(map(arm_of, arms)), **given)
    with await open_results(path) as results:
        outcome = await Evaluation(plan, results).run()
        figures = figures_of(plan, results)
    return outcome, figures, report(plan, figures)


# ---------------------------------------------------------------- without a model


async def test_histories_that_were_lived_through_in_part_go_on(tmp_path: Path) -> None:
    """A process may end after the last message of a session, before the whole history is stored as complete."""
    write_samples(tmp_path)
    for data in (one_talk(), read("longmemeval", tmp_path / "longmemeval_oracle.json")):
        file = tmp_path / f"{data.kind}.db"
        (first, *_) = data.histories
        async with Memory(file) as memory:
            session = first.sessions[0]
            for said in session.messages:
                await memory.thread(session.thread, resource=first.id).save(said.message())
        outcome, figures, _ = await evaluated(file, ("memory",), data=data)
        assert outcome.stopped is None
        assert outcome.done == outcome.total
        assert not figures.problems


async def test_the_floor_that_everyone_can_compute(tmp_path: Path) -> None:
    """All arms of one conversation, with a reader and a judge that need no model."""
    outcome, figures, page = await evaluated(tmp_path / "eval.db")
    assert outcome == Outcome(done=78, total=78)
    arms = {arm.arm: arm for arm in figures.arms}
    assert all(arm.judged == arm.questions == 13 for arm in figures.arms)
    assert arms["full"].evidence["history"] == arms["oracle"].evidence["any"] == 1
    assert arms["memory"].evidence["any"] >= 0.8
    assert arms["memory"].evidence["tail"] > 0
    assert arms["memory+search"].evidence["any"] >= arms["memory"].evidence["any"]
    assert arms["oracle"].tokens < arms["last:20"].tokens < arms["memory"].tokens < arms["full"].tokens
    assert arms["oracle"].plain is not None
    assert arms["oracle"].plain > 0.5
    assert figures.dollars == figures.observer_tokens == 0
    assert 0 < figures.log_tokens < figures.raw_tokens
    # Failures come first, nothing is loaded from elsewhere, and nothing runs.
    assert page.index("<h2>Failures") < page.index("<h2>Right answers")
    assert page.count("<details>") == 78
    assert page.count("<svg ") == 3
    assert not re.search(r"<script|<link|<img|url\(|src=", page)


async def test_a_finished_evaluation_is_not_repeated(tmp_path: Path) -> None:
    """The same command reads what is stored; another configuration needs another file."""
    first = await evaluated(tmp_path / "eval.db", ("memory",))
    again = await evaluated(tmp_path / "eval.db", ("memory",))
    assert again[1] == first[1]
    plan = Plan(data=one_talk(), config=Config(mode="research"), arms=(arm_of("memory"),))
    with await open_results(tmp_path / "eval.db") as results, pytest.raises(InputError, match="another configuration"):
        await Evaluation(plan, results).run()


async def test_two_evaluations_never_use_one_file_at_the_same_time(tmp_path: Path) -> None:
    """Both would live through the same conversations, and every message would be in the memories twice."""
    file = tmp_path / "eval.db"
    with await open_results(file), pytest.raises(StoreBusy, match="Another evaluation"):
        await open_results(file)
    with await open_results(file):
        pass


async def test_sessions_of_a_user_share_a_log(tmp_path: Path) -> None:
    """The newest of two sessions holds, what was never said is unknown, and a preference is left to a model."""
    write_samples(tmp_path)
    data = read("longmemeval", tmp_path / "longmemeval_oracle.json")
    _, figures, _ = await evaluated(tmp_path / "eval.db", ("memory", "search", "oracle"), data=data)
    answers = {(case.question.id, case.arm): case for case in figures.cases}
    for arm in ("memory", "search", "oracle"):
        assert answers["q1", arm].verdict.score == 1, answers["q1", arm]
        assert answers["q2_abs", arm].answer.text == UNKNOWN
        assert answers["q3", arm].verdict.score is None
    assert answers["q1", "memory"].answer.evidence["log"] == 1
    assert {arm.judged for arm in figures.arms} == {2}
    async with Memory(tmp_path / "eval.db") as memory:
        (line,) = [one for one in await memory.thread("answer_b", resource="q1").log() if "nine" in one.text]
        assert line.said_at is not None
        assert line.said_at.date().isoformat() == "2024-05-07"


def test_the_best_line() -> None:
    """A sentence with the rare words of the question; of equal ones the last; never a question."""
    from memolog.apps.eval.arms import Piece

    said = [
        "[2024-05-02 09:15] user: Hello. I water seven plants on the balcony.",
        "[2024-05-07 09:15] user: I water nine plants on the balcony.",
        "[2024-05-07 09:16] assistant: Do you water plants on the balcony?",
    ]
    pieces = [Piece(place="history", text=text) for text in said]
    line = best_line("How many plants do I water on the balcony?", pieces)
    assert line == "[2024-05-07 09:15] user: I water nine plants on the balcony."
    assert best_line("What is my parrot called?", pieces) == UNKNOWN


def test_the_interval_of_a_mean() -> None:
    """It contains the mean, and is the same each time."""
    scores = [1.0] * 30 + [0.0] * 10
    low, high = interval(scores) or (0, 0)
    assert 0.55 < low < 0.75 < high < 0.92
    assert interval(scores) == (low, high)
    assert interval([]) is None


# ---------------------------------------------------------------- with a scripted model


def knows(request: ModelRequest) -> str:
    """Answer questions of the first conversation from the text that is shown."""
    if request.purpose == "other":
        return json.dumps({"score": float("Azores" in request.text), "why": "Azores"})
    return "A las Azores." if "Azores" in request.text else "No lo sé."


async def test_a_scripted_model_answers_and_judges(tmp_path: Path) -> None:
    """A model that takes only text gets search results instead of tools; each call is counted."""
    model = ScriptedModel([knows] * 1_000)
    outcome, figures, page = await evaluated(
        tmp_path / "eval.db", ("memory+search", "full"), answer=model, judge=model, votes=3
    )
    assert outcome.stopped is None
    asked = Counter(request.purpose for request in model.requests)
    assert asked == {"turn": 26, "other": 78}
    assert sum("<results>" in request.text for request in model.requests) == 13
    assert {case.verdict.votes for case in figures.cases} <= {(0, 0, 0), (1, 1, 1)}
    assert {(one.role, one.arm, one.count) for one in figures.calls} == {
        *(("answer", arm, 13) for arm in ("memory+search", "full")),
        *(("judge", arm, 39) for arm in ("memory+search", "full")),
    }
    assert all(arm.paid_tokens > 0 for arm in figures.arms)
    assert "scripted (3 votes)" in page


async def test_a_context_that_is_too_long_is_not_sent(tmp_path: Path) -> None:
    """It counts as a failure of the arm, and says why."""
    row = json.loads(json.dumps(samples.LONGMEMEVAL[0]))
    row["haystack_sessions"][0][0]["content"] += " And so on." * 4_000
    file = tmp_path / "long.json"
    file.write_text(json.dumps([row]))
    model = ScriptedModel(name="gpt-4")
    _, figures, _ = await evaluated(tmp_path / "eval.db", ("full",), data=read("longmemeval", file), answer=model)
    (case,) = figures.cases
    assert model.requests == []
    assert case.verdict.score == 0
    assert "exceeds the 8,192 tokens" in case.answer.text


async def test_an_observing_model_is_counted(tmp_path: Path) -> None:
    """The tokens of the observer are named for each token of the conversations."""
    model = ScriptedModel()
    _, figures, _ = await evaluated(tmp_path / "eval.db", ("memory",), observer=model, reflector=model)
    assert {request.purpose for request in model.requests} == {"observe"}
    assert figures.observer_tokens == sum(one.input_tokens + one.output_tokens for one in figures.calls) > 0
    assert figures.observer_tokens / figures.raw_tokens > 1


async def test_a_forecast_calls_no_model() -> None:
    """It names every role, and leaves a price open that nobody has told."""
    model = ScriptedModel(name="small")
    plan = Plan(
        data=one_talk(),
        config=Config(),
        arms=(arm_of("memory+search"), arm_of("full")),
        answer=model,
        observer=model,
        reflector=model,
        judge=model,
        votes=3,
        prices={"small": Price(input=1, output=2)},
    )
    rows = {(row.role, row.arm): row for row in forecast(plan)}
    assert rows.keys() == {("observe", ""), *((role, arm.name) for role in ("answer", "judge") for arm in plan.arms)}
    assert rows["judge", "full"].calls == 39
    full = rows["answer", "full"]
    assert full.dollars == pytest.approx((full.read + 2 * full.written) / 1e6)
    assert model.requests == []


# ---------------------------------------------------------------- with a server


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    """Start an OpenAI-compatible server on this machine. It answers questions and calls the tools that it is offered."""
    made = Server(handler=answers)
    listening = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    made.port = listening.sockets[0].getsockname()[1]
    async with listening:
        yield made
    for task in made.tasks:
        task.cancel()


async def answers(body: dict[str, Any]) -> Reply:
    """Search once if there are tools, then answer."""
    said = body["messages"]
    status, headers, answer = completion("A las Azores.", body["model"])
    if body.get("tools") and said[-1]["role"] != "tool":
        call = {"name": "memory-search", "arguments": json.dumps({"action": "search", "query": "Azores"})}
        message: dict[str, Any] = {"role": "assistant", "content": None}
        message["tool_calls"] = [{"id": "call-1", "type": "function", "function": call}]
        answer["choices"][0] |= {"message": message, "finish_reason": "tool_calls"}
    return status, headers, answer


async def test_a_model_with_tools_searches_for_itself(server: Server, tmp_path: Path) -> None:
    """The arm with search offers the tools that read; what they found is evidence. Other arms offer none."""
    outcome, figures, _ = await evaluated(
        tmp_path / "eval.db", ("memory+search", "full"), answer=f"{server.address}#m", parallel=2
    )
    assert outcome.stopped is None
    offered = [{tool["function"]["name"] for tool in body.get("tools", ())} for body in server.bodies]
    assert Counter(map(len, offered)) == {2: 26, 0: 13}
    assert {"memory-search", "task-query"} in offered
    found = [body["messages"][-1]["content"] for body in server.bodies if body["messages"][-1]["role"] == "tool"]
    assert len(found) == 13
    assert all('"success": true' in text and "Azores" in text for text in found)
    (right,) = [case for case in figures.cases if case.arm == "memory+search" and "luna de miel" in case.question.text]
    assert right.answer.searches == 1
    assert right.answer.evidence["search"] == 1
    assert {body["temperature"] for body in server.bodies} == {0}


async def test_the_budget_is_kept_and_can_be_raised(server: Server, tmp_path: Path) -> None:
    """The evaluation stops before the call that could exceed it. With more money, only what is missing is asked."""
    name = f"{server.address}#m"
    given: dict[str, Any] = {"answer": name, "prices": {name: Price(input=100, output=100)}, "parallel": 1}
    outcome, figures, _ = await evaluated(tmp_path / "eval.db", ("full",), budget=0.6, **given)
    assert isinstance(outcome.stopped, BudgetReached)
    assert 0 < outcome.done < 13
    assert 0 < figures.dollars <= 0.6
    assert len(server.bodies) == outcome.done
    outcome, figures, _ = await evaluated(tmp_path / "eval.db", ("full",), budget=100.0, **given)
    assert outcome == Outcome(done=13, total=13)
    assert len(server.bodies) == 13


async def test_a_budget_needs_a_price(server: Server, tmp_path: Path) -> None:
    """A model whose calls cost nothing by all that is known cannot be kept within a budget."""
    outcome, _, _ = await evaluated(tmp_path / "eval.db", ("full",), answer=f"{server.address}#m", budget=1.0)
    assert isinstance(outcome.stopped, InputError)
    assert "--price" in str(outcome.stopped)


async def test_without_a_price_a_budget_allows_one_call(server: Server, tmp_path: Path) -> None:
    """Questions that are asked side by side wait for the first one, which shows that the price is unknown."""
    given: dict[str, Any] = {"answer": f"{server.address}#m", "budget": 1.0, "parallel": 8}
    outcome, _, _ = await evaluated(tmp_path / "eval.db", ("full",), **given)
    assert isinstance(outcome.stopped, InputError)
    assert len(server.bodies) == 1


async def test_what_was_paid_before_the_budget_was_reached_is_kept(server: Server, tmp_path: Path) -> None:
    """Calls that are under way when another one does not fit are awaited and counted."""
    name = f"{server.address}#m"
    given: dict[str, Any] = {"answer": name, "prices": {name: Price(input=100, output=100)}, "parallel": 8}
    outcome, figures, _ = await evaluated(tmp_path / "eval.db", ("full",), budget=1.2, **given)
    assert isinstance(outcome.stopped, BudgetReached)
    assert outcome.done == len(server.bodies) == sum(one.count for one in figures.calls) > 0


async def test_calls_without_usage_are_estimated(server: Server, tmp_path: Path) -> None:
    """A server that does not count tokens cannot make calls that cost nothing."""

    async def uncounted(body: dict[str, Any]) -> Reply:
        status, extra, answer = await answers(body)
        return status, extra, {name: value for name, value in answer.items() if name != "usage"}

    server.handler = uncounted
    name = f"{server.address}#m"
    given: dict[str, Any] = {"answer": name, "prices": {name: Price(input=100, output=100)}, "parallel": 1}
    outcome, figures, _ = await evaluated(tmp_path / "eval.db", ("full",), budget=1.2, **given)
    assert isinstance(outcome.stopped, BudgetReached)
    assert 0 < figures.dollars <= 1.2


async def test_a_killed_evaluation_goes_on(server: Server, tmp_path: Path) -> None:
    """Kill the command in the middle. The same command asks only what was not answered, and lives through nothing twice."""
    file = tmp_path / "eval.db"
    enough = asyncio.Event()
    asked = Counter[str]()

    async def counting(body: dict[str, Any]) -> Reply:
        asked[body["messages"][-1]["content"]] += 1
        if sum(asked.values()) == 9:
            enough.set()
            await asyncio.sleep(600)
        return await answers(body)

    server.handler = counting
    words = ["eval", "talks", "--limit", "26", "--arms", "memory,last:20", "--parallel", "2", "--json"]
    command = [sys.executable, "-m", "memolog", *words, "--answer", f"{server.address}#m", "--file", str(file)]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    await enough.wait()
    process.kill()
    await process.communicate()
    server.handler = answers
    before = len(server.bodies)
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    out, _ = await process.communicate()
    done = json.loads(out)
    assert (done["done"], done["total"], done["stopped"]) == (52, 52, None)
    # At most the two questions that were under way are asked again.
    assert len(server.bodies) - before <= 52 - 9 + 2
    assert file.with_suffix(".html").exists()
    with closing(sqlite3.connect(file)) as db:
        (stored,) = db.execute("SELECT count(*) FROM messages WHERE state = 'live'").fetchone()
    assert stored == sum(len(history.messages) for history in read("talks").part(limit=26).histories)
