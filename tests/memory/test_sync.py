"""The synchronous face: the same memory without `await`, in a plain script, from several threads, with nothing left behind."""

import inspect
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import pytest

from kit.engines import engines
from memolog import AssistantMessage, Config, ObservationConfig, ReflectionConfig, UserMessage
from memolog.core.run import Usage
from memolog.errors import ConfigError, InputError, StoreClosed
from memolog.events import Activated, Event
from memolog.memory import Memory
from memolog.observer.model import ModelReply, ModelRequest
from memolog.sync import SyncMemory, SyncTasks, SyncTurn, SyncWorkingMemory
from memolog.tasks.calls import Tasks
from memolog.testing import FakeClock, ScriptedModel
from memolog.turn import Turn
from memolog.working_memory.calls import WorkingMemory

RESOURCE, THREAD = "alice", "t1"
SMALL = Config(
    observation=ObservationConfig(message_tokens=1_000, previous_tokens=200),
    reflection=ReflectionConfig(observation_tokens=2_000),
)

# What differs on purpose, and why.
RENAMED: Final = {"aclose": "close"}
ASYNC_ONLY: Final = {
    "events": "an async iterator; a callback by `subscribe` serves a script",
}
SYNC_ONLY: Final = {
    "run": "runs a coroutine of the memory behind it; asynchronous code awaits it",
    "submit": "starts one; asynchronous code makes a task",
}
OTHER_PARAMETERS: Final = {
    "__init__": "takes the options of Memory as they are, so that there is one list of them",
}
engine_name = engines("sqlite", "postgres")


def portals() -> list[threading.Thread]:
    """Return the threads of open memories."""
    return [thread for thread in threading.enumerate() if thread.name.startswith("memolog")]


def make(address: str, clock: FakeClock, **options: Any) -> SyncMemory:
    """Return a memory with small windows."""
    return SyncMemory(address, model=ScriptedModel(), config=SMALL, clock=clock, **options)


def chat(memory: SyncMemory, turns: int, thread: str = THREAD) -> None:
    """Hold some turns."""
    for number in range(turns):
        with memory.thread(thread, resource=RESOURCE).turn() as turn:
            context = turn.prepare(UserMessage(f"question {number} " + "word " * 40))
            assert any(message.text.startswith(f"question {number} ") for message in context.messages)
            turn.record(AssistantMessage("word " * 40), usage=Usage(model="m", input_tokens=5))
        memory.settled()


# ---------------------------------------------------------------- working


def test_the_whole_lifecycle(address: str, clock: FakeClock) -> None:
    """Every method works, and says what its twin says."""
    with make(address, clock) as memory:
        events: list[Event] = []
        stop = memory.subscribe(events.append)
        chat(memory, 8)
        assert memory.thread(THREAD, resource=RESOURCE).status().buffered_groups > 0
        memory.thread(THREAD, resource=RESOURCE).buffer()
        memory.settled()
        assert memory.thread(THREAD, resource=RESOURCE).activate().groups > 0
        assert any(isinstance(event, Activated) for event in events)
        status = memory.thread(THREAD, resource=RESOURCE).observe()
        assert status.cursor == status.last_seq == 16
        assert memory.thread(THREAD, resource=RESOURCE).reflect().generation == 1
        assert [generation.number for generation in memory.thread(THREAD, resource=RESOURCE).history()] == [0, 1]
        assert memory.thread(THREAD, resource=RESOURCE).restore(0).restored_from == 0
        assert len(memory.thread(THREAD, resource=RESOURCE).as_of(clock.now())) == status.groups
        assert memory.thread(THREAD, resource=RESOURCE).seen(1).messages[0].text.startswith("question 0")
        assert memory.thread(THREAD, resource=RESOURCE).clone("copy").cloned_from == THREAD
        assert memory.resource(RESOURCE).sweep() >= 0
        assert memory.thread("copy", resource=RESOURCE).finalize().backlog_tokens == 0
        stop()
        told = len(events)
        with memory.thread(THREAD, resource=RESOURCE).turn() as turn:
            turn.prepare(UserMessage("secret"), ephemeral=[UserMessage("whisper")])
            turn.discard()
        assert len(events) == told
        with memory.thread(THREAD, resource=RESOURCE).turn() as turn:
            assert "secret" not in turn.prepare(UserMessage("hello")).render()
    assert portals() == []


def test_several_threads_share_a_memory(address: str, clock: FakeClock) -> None:
    """Calls from any number of threads are taken one after the other, each with its own answer and its own errors."""
    with make(address, clock) as memory, ThreadPoolExecutor(6) as pool:
        for done in [pool.submit(chat, memory, 5, f"thread-{number % 3}") for number in range(6)]:
            done.result(60)
        with pytest.raises(InputError):
            pool.submit(memory.thread("", resource=RESOURCE).status).result(10)
        for number in range(3):
            status = memory.thread(f"thread-{number}", resource=RESOURCE).observe()
            assert status.cursor == status.last_seq == 20
    assert portals() == []


def test_errors_are_the_callers(address: str, clock: FakeClock) -> None:
    """What the body raises passes through, what was said is saved, and an error of ours is raised where it was made."""
    with make(address, clock) as memory:

        def fall() -> None:
            with memory.thread(THREAD, resource=RESOURCE).turn() as turn:
                turn.prepare(UserMessage("before the fall"))
                raise KeyError("fallen")

        with pytest.raises(KeyError):
            fall()
        assert memory.thread(THREAD, resource=RESOURCE).status().last_seq == 1
        with memory.thread(THREAD, resource=RESOURCE).turn() as turn, pytest.raises(InputError):
            turn.prepare(UserMessage("bad id", id=""))
        with pytest.raises(InputError):
            turn.prepare(UserMessage("too late"))


def test_a_memory_that_cannot_be_made_leaves_no_thread(tmp_path: Path) -> None:
    """Neither a wrong argument nor a wrong address leaves a thread behind."""
    with pytest.raises(TypeError):
        SyncMemory(str(tmp_path / "x.db"), nonsense=True)  # pyright: ignore[reportCallIssue]
    assert portals() == []
    memory = SyncMemory("nonsense://x", model=ScriptedModel())
    with pytest.raises(ConfigError):
        memory.open()
    memory.close()
    assert portals() == []


def test_closing(address: str, clock: FakeClock) -> None:
    """Closing ends the thread; closing twice is harmless; a closed memory says so instead of hanging."""
    memory = make(address, clock)
    chat(memory, 2)
    assert [thread.name for thread in portals() if not thread.name.startswith("memolog-sqlite")] == ["memolog-portal"]
    memory.close()
    memory.close()
    assert portals() == []
    for call in (
        memory.settled,
        memory.open,
        lambda: memory.thread(THREAD, resource=RESOURCE).status(),
        lambda: memory.resource(RESOURCE).sweep(),
    ):
        with pytest.raises(StoreClosed):
            call()
    with pytest.raises(StoreClosed), memory.thread(THREAD, resource=RESOURCE).turn():
        pass


def test_a_listener_that_calls_back_is_told(address: str, clock: FakeClock) -> None:
    """A callback runs on the memory's own thread: a call from there would wait for itself, so it is refused."""
    with make(address, clock) as memory:
        refused: list[Exception] = []

        def call_back(event: Event) -> None:
            try:
                memory.thread(THREAD, resource=RESOURCE).status()
            except InputError as error:
                refused.append(error)

        memory.subscribe(call_back)
        chat(memory, 1)
    assert refused
    assert "own thread" in str(refused[0])


SCRIPT = """
import sys, threading
from memolog import AssistantMessage, UserMessage
from memolog.sync import SyncMemory
from memolog.testing import ScriptedModel

memory = SyncMemory(sys.argv[1], model=ScriptedModel())
with memory.thread("t1", resource="alice").turn() as turn:
    print(len(turn.prepare(UserMessage("hello")).messages))
    turn.record(AssistantMessage("hi"))
if sys.argv[2] == "close":
    memory.close()
    print([thread.name for thread in threading.enumerate()])
"""


@pytest.mark.parametrize("ending", ["close", "forget"])
def test_a_plain_script(tmp_path: Path, ending: str) -> None:
    """A script without an event loop ends, also if it forgets to close its memory, and what was said is there."""
    address = str(tmp_path / "memolog.db")
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", SCRIPT, address, ending],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == ("1\n['MainThread']\n" if ending == "close" else "1\n")
    with SyncMemory(address, model=ScriptedModel()) as memory:
        assert memory.thread("t1", resource="alice").status().last_seq == 2


# ---------------------------------------------------------------- parity


def methods(kind: type) -> dict[str, Callable[..., Any]]:
    """Return the public methods of a class."""
    return {name: method for name, method in inspect.getmembers(kind, callable) if not name.startswith("_")}


def parameters(method: Callable[..., Any]) -> list[tuple[str, Any, Any, Any]]:
    """Return what a method takes."""
    found = inspect.signature(method).parameters.values()
    return [(parameter.name, parameter.kind, parameter.default, parameter.annotation) for parameter in found]


@pytest.mark.parametrize(
    ("one", "other"),
    [(Memory, SyncMemory), (Turn, SyncTurn), (Tasks, SyncTasks), (WorkingMemory, SyncWorkingMemory)],
    ids=["memory", "turn", "tasks", "working_memory"],
)
def test_nothing_is_missing(one: type, other: type) -> None:
    """Every public method has a twin with the same parameters; the differences are listed, and none of them is idle."""
    mine, twins = methods(one), methods(other)
    expected = {RENAMED.get(name, name) for name in mine if name not in ASYNC_ONLY}
    assert set(twins) == expected | (set(SYNC_ONLY) if one is Memory else set())
    for name, method in mine.items():
        if name not in ASYNC_ONLY:
            twin = twins[RENAMED.get(name, name)]
            assert parameters(twin) == parameters(method), name
            assert not inspect.iscoroutinefunction(twin), name
            assert inspect.getdoc(twin), name
    for name in (*RENAMED, *ASYNC_ONLY):
        assert hasattr(Memory, name)
        assert not hasattr(SyncMemory, name)


def test_the_differences_are_real() -> None:
    """What is listed as different is different."""
    for name in OTHER_PARAMETERS:
        assert parameters(getattr(SyncMemory, name)) != parameters(getattr(Memory, name))
    assert set(inspect.signature(SyncMemory).parameters) == {"address", "options"}


def test_a_model_that_ends_the_program_holds_nobody_up(address: str, clock: FakeClock) -> None:
    """It ends in the background, where nobody waits for it: the turns go on, and the run has failed."""

    class Leaving(ScriptedModel):
        async def complete(self, request: ModelRequest) -> ModelReply:
            raise SystemExit(3)

    with SyncMemory(address, model=Leaving(), config=SMALL, clock=clock) as memory:
        chat(memory, 12)
        status = memory.thread(THREAD, resource=RESOURCE).observe()
    assert (status.health, status.last_seq) == ("failing", 24)
    assert "SystemExit" in str(status.last_error)


def test_a_listener_that_ends_the_program_ends_the_call(address: str, clock: FakeClock) -> None:
    """Whoever waits for the call gets the exit, and can close the memory."""

    def leave(event: Event) -> None:
        raise SystemExit(4)

    with make(address, clock) as memory:
        unsubscribe = memory.subscribe(leave)
        with pytest.raises(SystemExit), memory.thread(THREAD, resource=RESOURCE).turn() as turn:
            turn.prepare(UserMessage("hello"))
        unsubscribe()
        chat(memory, 1)
