"""Handles of resources and threads, messages in the forms of providers, and contexts as requests."""

import json
from pathlib import Path
from typing import Any, cast

import pytest

from kit.engines import engines
from memolog import Config, ConfigError, InputError, Memory, ObservationConfig, Usage, UserMessage
from memolog.errors import EmptyId, MessageNotFound, ThreadExists, ThreadNotFound
from memolog.events import Degraded, Event
from memolog.sync import SyncMemory
from memolog.testing import FakeClock, ScriptedModel

SMALL = Config(observation=ObservationConfig(message_tokens=1_000, previous_tokens=200), keep_prompts=True)


engine_name = engines("sqlite", "postgres")


def make(address: str, clock: FakeClock) -> Memory:
    """Return a memory with small windows."""
    return Memory(address, model=ScriptedModel(), config=SMALL, clock=clock)


class Dumped:
    """An object of a provider's library, as far as it matters here."""

    def __init__(self, **data: Any) -> None:
        self._data = data

    def model_dump(self, *, mode: str = "python", exclude_unset: bool = False) -> dict[str, Any]:
        """Return the object as JSON."""
        assert (mode, exclude_unset) == ("json", True)
        return self._data


# ---------------------------------------------------------------- handles


def test_handles_hold_ids_alone() -> None:
    """Equal ids make equal handles, a repr is short, and a wrong id is refused when the handle is made."""
    memory = Memory("never-opened.db")
    alice = memory.resource("alice")
    thread = alice.thread("t1")
    assert thread == memory.thread("t1", resource="alice")
    assert {thread, memory.thread("t1", resource="alice")} == {thread}
    assert thread != memory.thread("t1", resource="bob")
    assert alice != thread
    assert (repr(alice), repr(thread)) == ("Resource('alice')", "Thread('t1', resource='alice')")
    assert repr(memory) == "Memory('never-opened.db')"
    with pytest.raises(EmptyId):
        memory.resource(" ")
    with pytest.raises(EmptyId):
        memory.thread("", resource="alice")
    with pytest.raises(InputError):
        memory.thread(5, resource="alice")  # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError):
        memory.thread("t1", "alice")  # pyright: ignore[reportCallIssue]


async def test_a_thread_from_first_word_to_log(address: str, clock: FakeClock) -> None:
    """Talk, look without saving, observe, read the log and the runs, change the title."""
    async with make(address, clock) as memory:
        alice = memory.resource("alice")
        thread = alice.thread("t1")
        with pytest.raises(ThreadNotFound):
            await thread.info()
        async with thread.turn() as turn:
            await turn.prepare("My sister Nora lives in Oslo.")
            await turn.record("Noted.")
        shown = await thread.context("And where do I live?")
        assert [message.text for message in shown.messages][-1] == "And where do I live?"
        assert [message.role for message in (await thread.messages()).items] == ["user", "assistant"]
        status = await thread.observe()
        assert (status.cursor, status.health) == (2, "ok")
        lines = await thread.log()
        assert lines
        assert await thread.log(generation=0) == lines
        runs = await thread.runs()
        assert [run.status for run in runs] == ["done"]
        assert "Nora" in str((await thread.prompts(runs[0].id))[0].asked)
        changed = await thread.update(title="Family", metadata={"a": 1})
        assert (changed.title, changed.metadata) == ("Family", {"a": 1})
        assert (await thread.update(metadata={"b": 2})).title == "Family"
        assert [info.id for info in (await alice.threads()).items] == ["t1"]
        assert await memory.resources() == ("alice",)
        assert (await alice.search("Nora")).total == (await thread.search("Nora")).total > 0
        assert (await thread.forget()).messages == 2
        assert (await alice.threads()).items == ()


def test_handles_without_await(address: str, clock: FakeClock) -> None:
    """The synchronous face has the same handles."""
    with SyncMemory(address, model=ScriptedModel(), config=SMALL, clock=clock) as memory:
        thread = memory.resource("alice").thread("t1")
        assert thread == memory.thread("t1", resource="alice")
        assert (thread.id, thread.resource, repr(thread)) == ("t1", "alice", "SyncThread('t1', resource='alice')")
        with thread.turn() as turn:
            turn.prepare("hello")
            assert (turn.thread, turn.resource, turn.step, bool(turn.id)) == ("t1", "alice", 1, True)
            turn.record("hi")
        assert thread.status().last_seq == 2
        assert thread.tasks().create("Answer").title == "Answer"


# ---------------------------------------------------------------- what adapters and apps need


async def test_a_text_and_dicts_are_saved_as_prepare_reads_them(address: str, clock: FakeClock) -> None:
    """A text is one message of the user, not one for each character; another value is refused."""
    async with make(address, clock) as memory:
        thread = memory.thread("t1", resource="alice")
        assert [(row.role, row.text) for row in await thread.save("one")] == [("user", "one")]
        await thread.save([{"role": "user", "content": "two"}, {"role": "assistant", "content": "three"}])
        assert [row.text for row in (await thread.messages()).items] == ["one", "two", "three"]
        for wrong in (7, [7], ["four", "five"]):
            with pytest.raises(InputError):
                await thread.save(cast("Any", wrong))


async def test_messages_without_a_turn(address: str, clock: FakeClock) -> None:
    """A thread is made with settings of its own, messages are saved as they are, and read back one by one."""
    async with make(address, clock) as memory:
        alice = memory.resource("alice")
        thread = alice.thread("t1")
        made = await thread.create(title="Notes", metadata={"a": 1}, settings={"observe": False})
        assert (made.title, made.metadata, made.overrides) == ("Notes", {"a": 1}, {"observe": False})
        with pytest.raises(ThreadExists):
            await thread.create()
        with pytest.raises(ConfigError):
            await alice.thread("t2").create(settings={"scope": "resource"})
        said = [UserMessage("one", id="m1"), UserMessage("two", id="m2")]
        assert [row.seq for row in await thread.save(said)] == [1, 2]
        await thread.save(said)
        assert (await thread.info()).last_seq == 2
        assert [row.text for row in await alice.message("m2")] == ["two"]
        with pytest.raises(MessageNotFound):
            await alice.message("m2", thread="t2")


async def test_messages_of_another_record(address: str, clock: FakeClock) -> None:
    """Importing twice adds nothing, what was forgotten is recognised and stays away."""
    async with make(address, clock) as memory:
        thread = memory.thread("t1", resource="alice")
        said = [UserMessage("one", id="m1"), UserMessage("two", id="m2")]
        assert (await thread.import_messages(said, source="elsewhere", title="Old")).messages == 2
        info = await thread.info()
        assert (info.title, info.metadata) == ("Old", {"source": "elsewhere"})
        again = await thread.import_messages(said, source="elsewhere")
        assert (again.messages, again.unchanged["message"]) == (0, 2)
        await thread.forget(message="m2")
        assert await thread.forgotten(said) == {1}
        await thread.import_messages(said, source="elsewhere")
        assert [row.id for row in (await thread.messages()).items if row.state == "live"] == ["m1"]


async def test_a_turn_is_withdrawn_after_it_ended(address: str, clock: FakeClock) -> None:
    """What it saved is gone from contexts; other turns stay."""
    async with make(address, clock) as memory:
        thread = memory.thread("t1", resource="alice")
        with pytest.raises(ThreadNotFound):
            await thread.withdraw("no turn")
        for words in ("stays", "goes"):
            async with thread.turn() as turn:
                await turn.prepare(words)
                await turn.record("Yes.")
        await thread.withdraw(turn.id)
        assert [message.text for message in (await thread.context()).messages] == ["stays", "Yes."]


async def test_what_is_due_is_started(address: str, clock: FakeClock) -> None:
    """Messages that no turn saved are observed as those of a turn are: when they are enough."""
    async with make(address, clock) as memory:
        thread = memory.thread("t1", resource="alice")
        await thread.save([UserMessage("Nora lives in Oslo.")])
        await thread.advance()
        await memory.settled()
        assert (await thread.runs()) == ()
        await thread.save([UserMessage("word " * 2_000)])
        await thread.advance()
        await memory.settled()
        assert [run.status for run in await thread.runs()] == ["done"]


async def test_the_groups_of_a_log(address: str, clock: FakeClock) -> None:
    """Groups have handles and the text that the model sees; retracted lines are shown when asked for."""
    async with make(address, clock) as memory:
        alice = memory.resource("alice")
        thread = alice.thread("t1")
        async with thread.turn() as turn:
            await turn.prepare("My sister Nora lives in Oslo.")
            await turn.record("Noted.")
        await thread.observe()
        (group,) = await thread.groups()
        assert (group.handle, group.text in (await thread.context()).system) == ("g1", True)
        assert await thread.groups(generation=0) == (group,)
        line = (await thread.log())[0]
        await alice.retract(line.id)
        assert line.id not in {one.id for one in await thread.log()}
        assert line.id in {one.id for one in await thread.log(retracted=True)}


async def test_looking_after_a_resource(address: str, clock: FakeClock) -> None:
    """Usage by model, settings in use, stored events, a number that changes, a pack and the lines of tasks."""
    async with make(address, clock) as memory:
        alice = memory.resource("alice")
        thread = alice.thread("t1")
        before = await alice.revision()
        async with thread.turn() as turn:
            await turn.prepare("My sister Nora lives in Oslo.")
            await turn.record("Noted.", usage=Usage(kind="turn", model="gpt", input_tokens=7, output_tokens=1))
        assert await alice.revision() != before
        await thread.observe()
        lines = await alice.usage_by_model(thread="t1")
        assert {line.model: line.total.input_tokens for line in lines if line.kind == "turn"} == {"gpt": 7}
        (used,) = await alice.usage_by_thread()
        assert (used.thread, used.total) == ("t1", await alice.usage())
        assert (await alice.config()).observation.message_tokens == 1_000
        events = await alice.journal(thread="t1")
        assert "RunEnded" in {event.kind for event in events}
        assert await alice.journal(limit=1) == events[-1:]
        assert await alice.journal(after=events[-2].number) == events[-1:]
        assert await alice.journal(before=events[-1].number) == events[:-1]
        assert {event.kind for event in await alice.journal(kinds="RunEnded")} == {"RunEnded"}
        assert await alice.runs() == await thread.runs()
        (size,) = await thread.sizes()
        assert (size.number, size.whole) == (
            1,
            sum(message.tokens for message in (await thread.messages(limit=1)).items),
        )
        assert await thread.sizes(before=1) == ()
        assert "<observations" in (await alice.pack(thread="t1", tokens=1_000)).text
        assert (await memory.resource("bob").pack()).text == ""
        assert await alice.task_lines() == ()
        task = await thread.tasks().create("Call Nora")
        assert task.handle in (await alice.task_lines(thread="t1"))[0]


async def test_the_log_as_a_file(tmp_path: Path, clock: FakeClock) -> None:
    """Markdown goes to a new file; neither another file nor the database is overwritten by accident."""
    database = tmp_path / "memolog.db"
    async with make(str(database), clock) as memory:
        thread = memory.thread("t1", resource="alice")
        await thread.save([UserMessage("Nora lives in Oslo.")])
        await thread.observe()
        text = await thread.export_markdown(tmp_path / "log.md")
        assert (tmp_path / "log.md").read_text("utf-8") == text
        with pytest.raises(InputError, match=r"log\.md exists already[^|]*overwrite=True"):
            await thread.export_markdown(tmp_path / "log.md")
        with pytest.raises(InputError, match=r"cannot be written to [^|]*missing"):
            await thread.export_markdown(tmp_path / "missing" / "log.md")
        await thread.export_markdown(tmp_path / "log.md", overwrite=True)
        with pytest.raises(InputError):
            await thread.export_markdown(database, overwrite=True)


def test_the_memory_behind_the_synchronous_face(address: str, clock: FakeClock) -> None:
    """Its coroutines run on its own event loop, waited for or not."""
    with SyncMemory(address, model=ScriptedModel(), config=SMALL, clock=clock) as memory:
        with memory.thread("t1", resource="alice").turn() as turn:
            memory.run(turn.asynchronous.prepare("hello"))
        assert memory.run(memory.asynchronous.resources()) == ("alice",)
        assert memory.submit(memory.asynchronous.resources()).result(timeout=120) == ("alice",)


MARKUP = "<script>alert('x')</script> & \"quoted\""


async def test_tables_for_notebooks(clock: FakeClock) -> None:
    """The log, a status, answers of a search, tasks and pages are tables; markup in texts stays text."""
    async with make(":memory:", clock) as memory:
        alice = memory.resource("alice")
        thread = alice.thread(MARKUP)
        async with thread.turn() as turn:
            await turn.prepare(f"My sister Nora lives in Oslo. {MARKUP}")
            await turn.record("Noted.")
        await thread.observe()
        line = (await thread.log())[0]
        await alice.edit_observation(line.id, MARKUP)
        tasks = alice.tasks()
        await tasks.create(MARKUP)
        await thread.update(title=MARKUP)
        shown: list[Any] = [
            await thread.log(),
            await thread.status(),
            await alice.search("script"),
            await tasks.list(),
            await tasks.ready(),
            await alice.threads(),
            await thread.messages(),
        ]
        for value in shown:
            html = value._repr_html_()
            assert html.startswith("<table>"), type(value)
            assert "script" in html, type(value)
            assert "<script" not in html, type(value)
            assert '"quoted"' not in html, type(value)
        assert (await tasks.list(status="closed"))._repr_html_().startswith("<table>")


# ---------------------------------------------------------------- what a turn takes


CALL = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
ANSWERS: dict[str, Any] = {
    "text": "Four.",
    "dict": {"role": "assistant", "content": "Four."},
    "chat message": Dumped(role="assistant", content="Four."),
    "chat completion": Dumped(
        model="gpt", choices=[{"message": {"role": "assistant", "content": "Four."}}], usage={"prompt_tokens": 7}
    ),
    "anthropic message": Dumped(
        type="message",
        role="assistant",
        model="claude",
        stop_reason="end_turn",
        content=[{"type": "text", "text": "Four."}],
        usage={"input_tokens": 7, "output_tokens": 1},
    ),
    "responses": Dumped(
        object="response",
        model="gpt",
        output=[{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Four."}]}],
        usage={"input_tokens": 7, "output_tokens": 1},
    ),
    "items": [Dumped(type="message", role="assistant", content=[{"type": "output_text", "text": "Four."}])],
}


@pytest.mark.parametrize("kind", ANSWERS)
async def test_an_answer_in_any_form(kind: str, clock: FakeClock) -> None:
    """A text, a dict and the objects of providers are one message of the model; a whole response brings its usage."""
    async with make(":memory:", clock) as memory:
        thread = memory.thread("t1", resource="alice")
        async with thread.turn() as turn:
            await turn.prepare({"role": "user", "content": "Two and two?"})
            await turn.record(ANSWERS[kind])
        said = (await thread.messages()).items
        assert [(message.role, message.text) for message in said] == [("user", "Two and two?"), ("assistant", "Four.")]
        spent = (await memory.resource("alice").usage()).input_tokens
        assert spent == (7 if kind in {"chat completion", "anthropic message", "responses"} else 0)


async def test_tools_in_the_form_of_a_provider(clock: FakeClock) -> None:
    """A call and its result come back in every form; Anthropic's blocks are recognised."""
    async with make(":memory:", clock) as memory:
        async with memory.thread("t1", resource="alice").turn() as turn:
            await turn.prepare("Look.")
            await turn.record({"role": "assistant", "content": None, "tool_calls": [CALL]})
            context = await turn.prepare({"role": "tool", "tool_call_id": "c1", "content": "a cat"})
        chat = context.to_openai(system="Be brief.")
        assert (chat[0]["role"], chat[0]["content"].startswith("Be brief.")) == ("system", True)
        assert [message["role"] for message in chat if message["role"] == "tool"] == ["tool"]
        made = context.to_anthropic(system="Be brief.")
        assert "cache_control" in str(made)
        assert "cache_control" not in str(context.to_anthropic(cache=None))
        assert {"input"} <= set(context.to_responses(system="Be brief."))
        async with memory.thread("t2", resource="alice").turn() as turn:
            await turn.prepare("Look.")
            await turn.record(
                {"role": "assistant", "content": [{"type": "tool_use", "id": "u1", "name": "look", "input": {}}]}
            )
            block = {"type": "tool_result", "tool_use_id": "u1", "content": "a cat"}
            context = await turn.prepare({"role": "user", "content": [block]})
            assert context.messages[-1].role == "tool"


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"content": "hello"}, "UserMessage"),
        ([UserMessage("hello")], "UserMessage"),
        ({"role": "User", "content": "x"}, "`role` must be one of"),
        ({"role": "user"}, "`content` of a message"),
        ({"role": "user", "content": 5}, "`content` of a message"),
        ({"role": "user", "parts": [{"text": "x"}]}, "`content` of a message"),
        ({"choices": []}, "The response has no message"),
    ],
)
async def test_a_dict_without_words_is_refused(given: Any, problem: str, clock: FakeClock) -> None:
    """A list, a missing or unknown role, and a message without content are refused and not saved as something empty."""
    async with Memory(":memory:", clock=clock) as memory:
        thread = memory.thread("t1", resource="alice")
        async with thread.turn() as turn:
            with pytest.raises(InputError, match=problem):
                await turn.prepare(given)
            await turn.prepare("The queue holds 100.")
        assert [message.text for message in (await thread.messages()).items] == ["The queue holds 100."]


async def test_an_empty_response_is_reported(clock: FakeClock) -> None:
    """A provider may answer with nothing: an event says so, and the turn goes on."""
    events: list[Event] = []
    async with Memory(":memory:", clock=clock) as memory:
        memory.subscribe(events.append)
        async with memory.thread("t1", resource="alice").turn() as turn:
            await turn.prepare("The queue holds 100.")
            await turn.record({"choices": []})
            await turn.record("Noted.")
        assert len((await memory.thread("t1", resource="alice").messages()).items) == 2
    assert [event.what for event in events if isinstance(event, Degraded)] == ["recording the answer"]


async def test_a_dict_keeps_its_id_and_its_image(clock: FakeClock) -> None:
    """The same id twice is one message; a block of Anthropic is read as one, and shown to every provider."""
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}
    asked = {"role": "user", "id": "m1", "content": [{"type": "text", "text": "See."}, image]}
    async with Memory(":memory:", clock=clock) as memory:
        thread = memory.thread("t1", resource="alice")
        async with thread.turn() as turn:
            await turn.prepare(asked)
            context = await turn.prepare(asked)
        assert [message.id for message in (await thread.messages()).items] == ["m1"]
    assert context.to_anthropic()["messages"][0]["content"][1]["source"] == image["source"]
    assert context.to_openai()[-1]["content"][1]["type"] == "image_url"


async def test_what_cannot_be_encoded_is_sent_without_it(clock: FakeClock) -> None:
    """A lone surrogate is stored as it is; in a request it is replaced, since no client can send it."""
    async with Memory(":memory:", clock=clock) as memory:
        thread = memory.thread("t1", resource="alice")
        async with thread.turn() as turn:
            context = await turn.prepare("broken \ud800 char")
        assert [message.text for message in (await thread.messages()).items] == ["broken \ud800 char"]
    for request in (context.to_openai(), context.to_anthropic(), context.to_responses()):
        assert "broken \ufffd char" in json.dumps(request, ensure_ascii=False).encode().decode()
