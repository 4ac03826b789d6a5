"""The tools at work: bounded answers with cursors, errors as values, names, notes, and nothing of one user for another."""

import asyncio
import base64
import json
from pathlib import Path
from typing import Any

import pytest

from kit.talk import hold
from memolog import AssistantMessage, Config, FilePart, Memory, SyncMemory, ToolCallPart, ToolMessage, UserMessage
from memolog.core.message import NewMessage, TextPart, ToolResultPart
from memolog.core.own_tools import own_tool, with_own_apart
from memolog.memory import Tools
from memolog.testing import FakeClock, ScriptedModel
from memolog.tools.toolset import MOST_CHARACTERS
from tools.world import CODE, world


async def through(tools: Tools, name: str, call: dict[str, Any]) -> list[dict[str, Any]]:
    """Follow the cursor of a call to its end; return all answers, each of which has its size."""
    found: list[dict[str, Any]] = []
    while not found or "cursor" in found[-1]:
        cursor = {"cursor": found[-1]["cursor"]} if found else {}
        found.append(await tools.call(name, call | cursor))
        assert found[-1]["success"], found[-1]
        assert len(json.dumps(found[-1], ensure_ascii=False)) <= MOST_CHARACTERS + 1_000
        assert len(found) <= 200, "the cursor never ends"
    return found


@pytest.mark.parametrize(
    "call",
    [
        {"action": "ready", "limit": 50},
        {"action": "list", "limit": 50},
        {"action": "list", "limit": 7},
        {"action": "search", "query": "wall", "limit": 9},
    ],
    ids=str,
)
async def test_long_lists_continue(call: dict[str, Any]) -> None:
    """Following the cursor shows every task once."""
    async with Memory(":memory:", clock=FakeClock()) as memory:
        tasks = memory.resource("alice").tasks(session="s")
        for number in range(60):
            labels = [f"label-{number}-{n}" for n in range(5)]
            await tasks.create(f"Paint wall {number} " + "with much care " * 20, labels=labels)
        answers = await through(memory.resource("alice").tools(), "task-query", call)
        found = [task["handle"] for answer in answers for task in answer["tasks"]]
        assert sorted(found) == sorted(f"T-{number}" for number in range(1, 61))


async def test_a_long_description_continues() -> None:
    """A description of any length is shown in pieces that put together are the whole."""
    text = "".join(f"line {number}: something to remember\n" for number in range(600))
    async with Memory(":memory:", clock=FakeClock()) as memory:
        await memory.resource("alice").tasks(session="s").create("Long", description=text)
        answers = await through(memory.resource("alice").tools(), "task-query", {"action": "show", "task": "Long"})
        assert "".join(answer["task"]["description"] for answer in answers) == text


async def test_a_file_is_recalled() -> None:
    """A model gets the address of a file, or its bytes in pieces, one file at a time."""
    plan = FilePart(media_type="application/pdf", data=bytes(range(256)) * 40, name="plan.pdf")
    law = FilePart(media_type="application/pdf", url="https://example.com/law.pdf")
    async with Memory(":memory:", model=ScriptedModel()) as memory:
        await hold(memory, UserMessage(["Look.", plan, law], id="m1"))
        tools = memory.thread("t1", resource="alice").tools()
        whole = await tools.call("memory-search", {"action": "recall", "target": "m1"})
        assert "[file, part 1]\nplan.pdf, application/pdf, 10,240 bytes" in whole["text"]
        answers = await through(tools, "memory-search", {"action": "recall", "target": "m1", "part": 1})
        files = [answer["file"] for answer in answers]
        assert {(file["name"], file["media_type"], file["bytes"]) for file in files} == {
            ("plan.pdf", "application/pdf", 10_240)
        }
        assert base64.b64decode("".join(file["base64"] for file in files)) == plan.data
        address = await tools.call("memory-search", {"action": "recall", "target": "m1", "part": 2})
        assert address["file"] == {"media_type": "application/pdf", "url": "https://example.com/law.pdf"}


async def test_a_long_message_is_recalled_in_pages() -> None:
    """The pages hold every line."""
    lines = [f"const value{number} = compute({number}) // line" for number in range(800)]
    async with Memory(":memory:", model=ScriptedModel(), clock=FakeClock()) as memory:
        await hold(memory, UserMessage("\n".join(lines), id="big"))
        tools = memory.resource("alice").tools(thread="t1")
        answers = await through(tools, "memory-search", {"action": "recall", "target": "1-1"})
        seen = "".join(answer["text"] for answer in answers)
        assert all(f"value{number} = compute({number})" in seen for number in range(0, 800, 50))


async def test_code_can_be_copied_from_a_hit() -> None:
    """Beside the marked snippet stands what was written, with its spaces and line breaks; the answer stays bounded."""
    code = "class LoginSchema:\n    email: str\n\n    def check(self) -> bool:\n        return '@' in self.email"
    noise = "\n".join(f"value_{number} = compute_login({number})  # " + "x" * 80 for number in range(200))
    async with Memory(":memory:", clock=FakeClock()) as memory:
        await hold(memory, "Write it, please.", AssistantMessage(f"Here it is:\n{code}\nDone.", id="code"))
        for number in range(30):
            await hold(memory, UserMessage(f"{number} {noise}", id=f"n{number}"))
        tools = memory.resource("alice").tools(thread="t1")
        found = await tools.call("memory-search", {"action": "search", "query": "LoginSchema email"})
        hit = next(hit for hit in found["results"] if hit["id"] == "code")
        assert "«LoginSchema»" in hit["text"]
        assert code in hit["exact"]
        assert not [hit for hit in found["results"] if "«" in hit.get("exact", "")]
        call = {"action": "search", "query": "compute_login", "limit": 50, "sources": ["raw"]}
        seen = {hit["id"] for answer in await through(tools, "memory-search", call) for hit in answer["results"]}
        assert seen >= {f"n{number}" for number in range(30)}


# ---------------------------------------------------------------- errors


async def test_errors_are_values(tmp_path: Path) -> None:
    """A closed memory, a read-only one, a lost race: nothing raises, and `retryable` tells what to do."""
    async with world() as here:
        tools = here.tools
        assert (
            await here.memory.resource("alice").tools(session="s2").call("task-mutate", {"action": "claim", "task": 4})
        )["success"]
        held = await tools.call("task-mutate", {"action": "claim", "task": "T-4"})
        assert not held["success"]
        assert held["retryable"]
        assert "s2" in held["error"]
        assert not (await tools.call("task-mutate", {"action": "claim", "task": "T-99"}))["retryable"]
    gone = await tools.call("task-query", {"action": "ready"})
    assert gone == {
        "success": False,
        "error": "The memory is closed. Go on without it.",
        "retryable": False,
    }
    address = str(tmp_path / "memolog.db")
    async with world(address):
        pass
    async with Memory(address, config=Config(read_only=True)) as memory:
        tools = memory.resource("alice").tools(thread="t1")
        assert (await tools.call("task-query", {"action": "ready"}))["success"]
        for name, call in (
            ("task-mutate", {"action": "create", "title": "x"}),
            ("task-mutate", {"action": "claim", "task": "T-4"}),
            ("memory-search", {"action": "update_context", "text": "x"}),
            ("memory-search", {"action": "remember", "text": "x"}),
        ):
            answer = await tools.call(name, call)
            assert "read-only" in answer["error"]
            assert not answer["retryable"]


async def test_a_fault_of_ours_is_a_value_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even what never should happen does not stop the agent; being cancelled does."""
    async with world() as here:

        def explode(*_: object) -> None:
            raise ZeroDivisionError

        monkeypatch.setattr("memolog.tools.toolset.understand", explode)
        answer = await here.tools.call("task-query", {"action": "ready"})
        assert not answer["success"]
        assert answer["retryable"]
        assert "ZeroDivision" not in answer["error"]

        def stop(*_: object) -> None:
            raise asyncio.CancelledError

        monkeypatch.setattr("memolog.tools.toolset.understand", stop)
        with pytest.raises(asyncio.CancelledError):
            await here.tools.call("task-query", {"action": "ready"})


async def test_another_resource_is_another_world() -> None:
    """Handles, ids, messages and documents of one resource do not exist for another."""
    async with world() as here:
        shown = await here.tools.call("task-query", {"action": "show", "task": "T-3"})
        stranger = here.memory.resource("mallory").tools(session="s9")
        for name, call in (
            ("task-query", {"action": "show", "task": "T-3"}),
            ("task-query", {"action": "show", "task": shown["task"]["id"]}),
            ("task-mutate", {"action": "claim", "task": "T-3"}),
            ("task-mutate", {"action": "close", "task": "T-3", "summary": "x"}),
            ("memory-search", {"action": "recall", "target": "m2"}),
            ("memory-search", {"action": "recall", "target": "g1", "thread": "t1"}),
        ):
            assert not (await stranger.call(name, call))["success"], call
        assert (await stranger.call("task-query", {"action": "list"}))["tasks"] == []
        found = await stranger.call("memory-search", {"action": "recall", "target": "working-memory"})
        assert "Tally" not in json.dumps(found)


# ---------------------------------------------------------------- working


async def test_the_task_in_hand() -> None:
    """What is claimed is "current" in its thread, and closing it reports what it unblocked."""
    async with world() as here:
        await here.tools.call("task-mutate", {"action": "claim", "task": "T-1"})
        shown = await here.tools.call("task-query", {"action": "show", "task": "current"})
        assert shown["task"]["handle"] == "T-1"
        noted = await here.tools.call(
            "memory-search", {"action": "update_context", "task": "this", "text": "zod, not yup"}
        )
        assert "zod, not yup" in noted["task"]["description"]
        closed = await here.tools.call(
            "task-mutate", {"action": "close", "task": "current", "summary": "done", "claim_next": True}
        )
        assert [ref["handle"] for ref in closed["unblocked"]] == ["T-2"]
        assert closed["next"]["task"]["status"] == "in_progress"


@pytest.mark.parametrize("name", ["T-99", "t-99", "task T-99", "`T-99`", "#T-99"])
async def test_a_handle_is_never_a_part_of_a_title(name: str) -> None:
    """A handle without a task is an error, also if the title of another task contains the handle."""
    async with world() as here:
        made = await here.tools.call("task-mutate", {"action": "create", "title": "Follow up on task T-99 of Bob"})
        for tool, call in (("task-query", {"action": "show"}), ("task-mutate", {"action": "claim"})):
            answer = await here.tools.call(tool, call | {"task": name})
            assert not answer["success"]
            assert answer["error"].startswith("There is no task T-99. Near to it: ")
            assert made["task"]["handle"] in answer["error"]


async def test_tools_before_the_first_message() -> None:
    """A thread in which nothing was said yet is no error: its tools look, write and claim."""
    async with Memory(":memory:", clock=FakeClock()) as memory:
        tools = memory.resource("alice").tools(thread="new")
        for name, call in (
            ("task-mutate", {"action": "create", "title": "Write it"}),
            ("task-query", {"action": "ready"}),
            ("task-query", {"action": "show", "task": "T-1", "related": True}),
            ("memory-search", {"action": "search", "query": "it"}),
            ("memory-search", {"action": "recall", "target": "working-memory"}),
        ):
            answer = await tools.call(name, call)
            assert answer["success"], answer
        nothing = await tools.call("task-query", {"action": "show", "task": "current"})
        assert "No task is in hand" in nothing["error"]
        assert await (await memory.open()).store.threads.count("alice") == 0
        assert (await tools.call("task-mutate", {"action": "claim", "task": "T-1"}))["success"]
        assert (await tools.call("task-query", {"action": "show", "task": "current"}))["task"]["handle"] == "T-1"


async def test_the_working_memory_of_this_thread_and_of_all() -> None:
    """Notes go to the document that is meant, and the author is the session."""
    async with world() as here:
        one = {"action": "update_context", "section": "Decisions", "text": "- pnpm"}
        assert "- Fastify\n- pnpm" in (await here.tools.call("memory-search", one))["working_memory"]
        two = one | {"scope": "thread", "mode": "replace"}
        assert (await here.tools.call("memory-search", two))["working_memory"] == "## Decisions\n\n- pnpm\n"
        three = {"action": "update_context", "section": "Decisions", "mode": "remove"}
        assert "Decisions" not in (await here.tools.call("memory-search", three))["working_memory"]
        seen = await here.tools.call("memory-search", {"action": "recall", "target": "working-memory"})
        assert set(seen["working_memory"]) == {"all", "thread"}
        document = await here.memory.resource("alice").working_memory().read()
        assert document is not None
        assert document.current.by == "s1"


async def test_a_json_working_memory_is_merged() -> None:
    """Fields as an object, or one field by its name; what the schema refuses is told."""
    schema = {"type": "object", "properties": {"name": {"type": "string"}}, "additionalProperties": False}
    async with Memory(":memory:", clock=FakeClock()) as memory:
        facts = memory.resource("bob").working_memory()
        await facts.start(schema=schema, who="app")
        tools = memory.resource("bob").tools()
        assert (await tools.call("memory-search", {"action": "update_context", "text": '{"name": "Bob"}'}))["success"]
        assert await facts.value() == {"name": "Bob"}
        assert (await tools.call("memory-search", {"action": "update_context", "section": "name", "text": "Rob"}))[
            "success"
        ]
        assert await facts.value() == {"name": "Rob"}
        wrong = await tools.call("memory-search", {"action": "update_context", "section": "age", "text": "5"})
        assert "'age'" in wrong["error"]
        prose = await tools.call("memory-search", {"action": "update_context", "text": "likes tea"})
        assert "JSON" in prose["error"]
        not_a_list = await tools.call("memory-search", {"action": "remember", "text": "tea", "section": "name"})
        assert "'name'" in not_a_list["error"]


def test_without_await(tmp_path: Path) -> None:
    """The synchronous face has the same tools."""
    with SyncMemory(str(tmp_path / "memolog.db")) as memory:
        tools = memory.resource("alice").tools(session="s1")
        assert tools.names == ("task-query", "task-mutate", "memory-search")
        assert len(tools.definitions("mcp")) == 3
        assert tools.guidance.startswith("# Memory and tasks")
        assert tools.call("task-mutate", {"action": "create", "title": "Try it"})["success"]
        assert tools.call("task-query", "ready")["tasks"][0]["title"] == "Try it"


# ---------------------------------------------------------------- what is our own


@pytest.mark.parametrize(
    ("name", "tool"),
    [
        ("task-query", "task-query"),
        ("task_mutate", "task-mutate"),
        ("MemorySearch", "memory-search"),
        ("mcp__memolog__memory-search", "memory-search"),
        ("memolog.task_query", "task-query"),
        ("functions:task-query", "task-query"),
        ("functions.mcp__memolog__task_query", "task-query"),
        ("mcp_memolog_memory-search", "memory-search"),
        ("memolog_task_mutate", "task-mutate"),
        ("MCP:memory-search", "memory-search"),
        ("mcp__other__memory-search", None),
        ("mcp__notmemolog__memory-search", None),
        ("mcp__memolog2__memory-search", None),
        ("mcp__other__memolog__memory-search", None),
        ("mcp__memolog__other__memory-search", None),
        ("mcp_other_memory-search", None),
        ("other.task_query", None),
        ("other/memolog/task-query", None),
        ("memologmemory-search", None),
        ("search", None),
        ("my-task-query-tool", None),
        ("task-queryx", None),
        ("", None),
        (None, None),
        (5, None),
    ],
)
def test_the_names_of_our_own_tools(name: object, tool: str | None) -> None:
    """They are known in every spelling that a host makes of them; a tool of another server is none, whatever its name."""
    assert own_tool(name) == tool


def flags(*messages: NewMessage, known: tuple[str, ...] = ()) -> list[tuple[bool, list[str]]]:
    """Return for each message that is saved whether it is own, and the types of its parts."""
    made = with_own_apart(messages, set(known))
    return [(message.own, [part.type for part in message.parts]) for message in made]


def test_what_is_own() -> None:
    """Calls and results of our tools alone; an assistant's words beside a call stay; mixed results are taken apart."""
    ours = ToolCallPart(id="c1", name="memory-search", arguments={"action": "search", "query": "x"})
    other = ToolCallPart(id="c2", name="read_file", arguments={})
    mine = ToolResultPart(call_id="c1", content="found")
    theirs = ToolResultPart(call_id="c2", content="read")
    assert flags(AssistantMessage([ours])) == [(True, ["tool_call"])]
    assert flags(AssistantMessage(["Let me look.", ours])) == [(False, ["text", "tool_call"])]
    assert flags(AssistantMessage([ours, other])) == [(False, ["tool_call", "tool_call"])]
    assert flags(AssistantMessage([ours]), ToolMessage("c1", "found")) == [
        (True, ["tool_call"]),
        (True, ["tool_result"]),
    ]
    assert flags(ToolMessage("c1", "found")) == [(False, ["tool_result"])]
    assert flags(ToolMessage("c1", "found", name="task_query")) == [(True, ["tool_result"])]
    assert flags(ToolMessage("c1", "found"), known=("c1",)) == [(True, ["tool_result"])]
    mixed = NewMessage(role="user", parts=(mine, theirs, TextPart(text="go on")), id="m")
    parts = list(with_own_apart([mixed], {"c1"}))
    assert [(m.own, m.id, [part.type for part in m.parts]) for m in parts] == [
        (False, "m", ["tool_result", "text"]),
        (True, "m:own", ["tool_result"]),
    ]


async def test_memory_does_not_remember_itself() -> None:
    """What our tools answered is stored, shown to the model, and neither observed nor recalled as something said."""
    model = ScriptedModel()
    async with Memory(":memory:", model=model, clock=FakeClock()) as memory:
        async with memory.thread("t1", resource="alice").turn() as turn:
            await turn.prepare(UserMessage("What was the schema again?"))
            call = ToolCallPart(id="c1", name="memory_search", arguments={"action": "search", "query": "schema"})
            await turn.record(AssistantMessage([call]))
            context = await turn.prepare(ToolMessage("c1", f"found: {CODE}"))
            assert CODE in context.render()
            await turn.record(AssistantMessage("It is LoginSchema."))
        store = (await memory.open()).store
        assert [row.own for row in await store.messages.after("alice", "t1")] == [False, True, True, False]
        await memory.thread("t1", resource="alice").observe()
        shown = model.requests[0].text
        assert "searched for “schema”; the answer is not shown" in shown
        assert CODE not in shown
        recalled = (
            await memory.resource("alice")
            .tools(thread="t1")
            .call("memory-search", {"action": "recall", "target": "1-4"})
        )
        assert "LoginSchema" in recalled["text"]
        assert "z.object" not in recalled["text"]


async def test_the_task_in_hand_without_a_thread() -> None:
    """What the session has claimed is "current", also if the tools have no thread."""
    async with world() as here:
        tools = here.memory.resource("alice").tools(session="s7")
        assert "No task is in hand" in (await tools.call("task-query", {"action": "show", "task": "current"}))["error"]
        await tools.call("task-mutate", {"action": "claim", "task": "T-4"})
        shown = await tools.call("task-query", {"action": "show", "task": "current"})
        assert shown["task"]["handle"] == "T-4"
        assert (await tools.call("task-mutate", {"action": "release", "task": "current"}))["task"]["status"] == "open"
        await tools.call("task-mutate", {"action": "claim", "task": "T-3"})
        await tools.call("task-mutate", {"action": "claim", "task": "T-4"})
        two = await tools.call("task-mutate", {"action": "close", "task": "current", "summary": "x"})
        assert "could be several tasks" in two["error"]


async def test_a_task_is_reopened_released_and_updated() -> None:
    """Each action does what its name says, and none creates a task."""
    async with world() as here:
        tools = here.tools
        count = len((await here.memory.resource("alice").tasks().list()).items)
        opened = await tools.call("task-mutate", {"action": "reopen", "task": "T-5", "why": "pnpm is missing"})
        assert opened["task"]["status"] == "open"
        await tools.call("task-mutate", {"action": "claim", "task": "T-4"})
        other = here.memory.resource("alice").tools(session="s2")
        refused = await other.call("task-mutate", {"action": "release", "task": "T-4"})
        assert not refused["success"]
        assert "s1" in refused["error"]
        assert (await tools.call("task-mutate", {"action": "release", "task": "T-4"}))["task"]["status"] == "open"
        changes = {"title": "Fix both tests", "labels": ["ci"], "due": "2026-04-01", "assignee": "ann"}
        before = await here.memory.resource("alice").tasks().get("T-4")
        assert (await tools.call("task-mutate", {"action": "update", "task": "T-4", **changes}))["success"]
        task = await here.memory.resource("alice").tasks().get("T-4")
        assert (task.title, set(task.labels), task.assignee) == ("Fix both tests", {"ci"}, "ann")
        assert task.version == before.version + 1
        cleared = {"action": "update", "task": "T-4", "clear": ["labels", "due", "assignee"]}
        assert (await tools.call("task-mutate", cleared))["success"]
        task = await here.memory.resource("alice").tasks().get("T-4")
        assert (task.title, set(task.labels), task.assignee, task.due) == ("Fix both tests", set(), None, None)
        assert len((await here.memory.resource("alice").tasks().list()).items) == count


async def test_a_fact_is_remembered_once_with_its_source() -> None:
    """The line names the message of the user and the day; the same fact again changes nothing; headings cannot be forged."""
    async with world() as here:
        say = {"action": "remember", "text": "Deploys run on Fridays"}
        first = await here.tools.call("memory-search", say)
        assert first["remembered"].startswith("- Deploys run on Fridays [t1 #3, 20")
        assert (await here.tools.call("memory-search", say))["known"]
        await here.tools.call("memory-search", {"action": "remember", "text": "a\n# Decisions\nb", "kind": "note"})
        document = await here.memory.resource("alice").working_memory().read()
        assert document is not None
        assert document.current.text.count("Deploys run on Fridays") == 1
        assert "# Facts" in document.current.text
        assert document.current.text.count("\n# Decisions") == 1
        source = first["remembered"].split("[")[1].split(",")[0]
        found = await here.tools.call("memory-search", {"action": "recall", "target": source})
        assert "Now the endpoint." in found["text"]


@pytest.mark.parametrize("form", ["markdown", "json", "none"])
async def test_facts_remembered_at_the_same_time_are_all_kept_once(address: str, form: str) -> None:
    """Twelve calls at once, each fact twice: no call overwrites another, and the second call of each fact changes nothing."""
    async with Memory(address, clock=FakeClock()) as memory:
        alice = memory.resource("alice")
        first: dict[str, Any] = {"markdown": "# Project\n\nTally\n", "json": {"name": "Tally"}}
        if form in first:
            await alice.working_memory().replace(first[form], who="setup")
        calls = [{"action": "remember", "text": f"Fact number\n{number % 6}"} for number in range(12)]
        answers = await asyncio.gather(*(alice.tools().call("memory-search", call) for call in calls))
        assert all(answer["success"] for answer in answers), answers
        assert [answer.get("known", False) for answer in answers].count(True) == 6
        document = await alice.working_memory().read()
        assert document is not None
        assert document.current.number == 6 + (form in first)
        if form == "json":
            value = dict(await alice.working_memory().value())
            assert sorted(fact.split(" [")[0] for fact in value.pop("facts")) == [
                f"Fact number\n{number}" for number in range(6)
            ]
            assert value == first[form]
        else:
            assert all(document.current.text.count(f"- Fact number\n    {number} [") == 1 for number in range(6))


@pytest.mark.parametrize("scope", ["all", "thread"])
async def test_a_fact_is_found_by_search(scope: str) -> None:
    """What update_context and remember save is found by its words, page by page, and gone when it is removed."""
    async with world() as here:
        saved = {"action": "update_context", "section": "Decisions", "text": "- Use pnpm workspaces", "scope": scope}
        assert (await here.tools.call("memory-search", saved))["success"]
        said = {"action": "remember", "text": "Deployments run on Fridays", "scope": scope}
        assert (await here.tools.call("memory-search", said))["success"]
        for query, words in (("pnpm", "«pnpm» workspaces"), ("when do deployments run?", "Fridays"), ("pnp*", "pnpm")):
            found = await here.tools.call("memory-search", {"action": "search", "query": query})
            hit = found["results"][0]
            assert (hit["source"], hit["id"]) == ("working-memory", "working-memory")
            assert words in hit["text"]
        only = {"action": "search", "query": "pnpm", "sources": ["raw"]}
        assert (await here.tools.call("memory-search", only))["results"] == []
        both = {"action": "search", "query": "pnpm OR LoginSchema", "limit": 1}
        pages = await through(here.tools, "memory-search", both)
        sources = [hit["source"] for page in pages for hit in page["results"]]
        assert sources.count("working-memory") <= 1
        recalled = await here.tools.call("memory-search", {"action": "recall", "target": hit["id"]})
        assert "pnpm workspaces" in json.dumps(recalled)
        gone = saved | {"mode": "remove", "text": ""}
        assert (await here.tools.call("memory-search", gone))["success"]
        after = await here.tools.call("memory-search", {"action": "search", "query": "pnpm workspaces"})
        assert "working-memory" not in [hit["source"] for hit in after["results"]]
        stranger = here.memory.resource("mallory").tools()
        assert (await stranger.call("memory-search", {"action": "search", "query": "Fridays"}))["results"] == []
