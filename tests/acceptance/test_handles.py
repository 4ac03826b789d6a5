"""Handles of resources and threads, messages in the forms of providers, and contexts as requests."""

from typing import Any

import pytest

from conftest import FakeClock
from memolog import Config, InputError, Memory, ObservationConfig, UserMessage
from memolog.errors import EmptyId, ThreadNotFound
from memolog.sync import SyncMemory
from memolog.testing import ScriptedModel

SMALL = Config(observation=ObservationConfig(message_tokens=1_000, previous_tokens=200), keep_prompts=True)


@pytest.fixture(params=("sqlite", "postgres"))
def engine_name(request: pytest.FixtureRequest) -> str:
    """Name the engines."""
    return request.param


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
            turn.record("hi")
        assert thread.status().last_seq == 2
        assert thread.tasks().create("Answer").title == "Answer"


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


async def test_what_is_no_message_is_refused(clock: FakeClock) -> None:
    """A dict without a role, a list of messages and a number are refused, with what to pass instead."""
    async with make(":memory:", clock) as memory, memory.thread("t1", resource="alice").turn() as turn:
        given: Any
        for given in ({"content": "hello"}, [UserMessage("hello")], 5):
            with pytest.raises(InputError, match="UserMessage"):
                await turn.prepare(given)
