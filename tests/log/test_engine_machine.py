"""A machine that does whatever it likes with a memory, and finds the invariants of the log unbroken after every step."""

import asyncio
import contextlib
import itertools
import random
import shutil
import tempfile
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from kit.effort import LONG, counts
from log.engine_invariants import Rows, check_log, read_rows
from memolog import AssistantMessage, Config, KeepRecent, ObservationConfig, ReflectionConfig, UserMessage
from memolog import ToolCallPart as Call
from memolog import ToolMessage as Result
from memolog.context.context import Context
from memolog.errors import MemologError
from memolog.events import Degraded, Event
from memolog.memory import Memory
from memolog.testing import FakeClock, ScriptedModel
from memolog.turn import Turn

RESOURCE = "alice"
CONFIG = Config(
    observation=ObservationConfig(message_tokens=300, previous_tokens=100, deadline=120),
    reflection=ReflectionConfig(observation_tokens=200, keep_recent=KeepRecent(hours=0, observations=3)),
    # Who asks by hand waits for a lease of somebody who died to end, and the clock stands still meanwhile.
    close_timeout=120,
    lease=1,
    heartbeat=0.3,
)
TAKEN_BACK = "swordfish"

threads = st.sampled_from(["one", "two"])
words = st.integers(1, 60)


class Machine(RuleBasedStateMachine):
    """Uses a memory in every way; knows what must be stored, and nothing of how."""

    address: ClassVar[str | None] = None
    config: ClassVar[Config] = CONFIG
    schemas: ClassVar[Any] = itertools.count()

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.clock, self.model = FakeClock(), ScriptedModel()
        self.folder = tempfile.mkdtemp(prefix="memolog-machine-")
        self.where = str(Path(self.folder) / "memolog.db")
        if self.address is not None:
            self.where = f"{self.address}_{next(self.schemas)}"
        self.seed = itertools.count()
        self.degraded: list[Event] = []
        self.has_crashed = False
        self.memory = self._memory()
        self.number = itertools.count()
        self.said: dict[str, list[str]] = {}
        self.waiting: dict[str, list[str]] = {}
        self.last: Rows | None = None

    def _memory(self) -> Memory:
        chance = random.Random(next(self.seed)).getrandbits
        # Who died may hold a run: to wait for that one would take as long as it is let.
        config = self.config.with_overrides({"observation.deadline": 1}) if self.has_crashed else self.config
        memory = Memory(self.where, model=self.model, config=config, clock=self.clock, chance=chance)
        memory.subscribe(self._listen)
        return memory

    def _listen(self, event: Event) -> None:
        """Note what failed. Who died may hold a run until its lease ends: to wait for that in vain is as it should be."""
        # A model that fails again and again is asked about part by part or stood in for, and that is told.
        is_told = isinstance(event, Degraded) and event.what in {
            "observing a part of the conversation",
            "condensing the log",
        }
        is_late = isinstance(event, Degraded) and self.has_crashed and event.what == "waiting for the model"
        if isinstance(event, Degraded) and not (is_told or is_late):
            self.degraded.append(event)

    def do(self, work: Any) -> Any:
        """Run a coroutine; whatever is in the background goes on meanwhile."""
        return self.runner.run(asyncio.wait_for(work, 300))

    # ------------------------------------------------------------ speaking

    def _text(self, count: int) -> str:
        return f"message {next(self.number)} " + "word " * count

    async def _say(self, turn: Turn, thread: str, text: str) -> None:
        context = await turn.prepare(UserMessage(text))
        self._keep(thread, text)
        self._check(context, thread)

    async def _answer(self, turn: Turn, thread: str, text: str, *calls: str) -> None:
        await turn.record(AssistantMessage([text, *(Call(id=call, name="look") for call in calls)]))
        self._keep(thread, text)

    async def _return(self, turn: Turn, thread: str, call: str) -> None:
        context = await turn.prepare(Result(call, "found " * 10))
        self._keep(thread, "")
        self._check(context, thread)

    def _keep(self, thread: str, text: str) -> None:
        self.said.setdefault(thread, []).append(text)

    def _check(self, context: Context, thread: str) -> None:
        """Check that a context shows the end of what was said, nothing that was taken back, and every call with its result."""
        assert TAKEN_BACK not in context.render()
        parts = [part for message in context.messages for part in message.parts]
        calls = {part.id for part in parts if part.type == "tool_call"}
        assert {part.call_id for part in parts if part.type == "tool_result"} == calls
        shown = [message.text for message in context.tail if not message.synthetic and message.role == "user"]
        spoken = [text for text in self.said[thread] if text.startswith("message")]
        assert set(shown) <= set(spoken)

    @rule(thread=threads, count=words, reply=words)
    def chat(self, thread: str, count: int, reply: int) -> None:
        """Hold a turn."""

        async def work() -> None:
            async with self.memory.thread(thread, resource=RESOURCE).turn(model="m") as turn:
                await self._say(turn, thread, self._text(count))
                await self._answer(turn, thread, "answer " + "word " * reply)

        self.do(work())

    @rule(thread=threads, calls=st.integers(1, 5), settle=st.booleans())
    def tool_loop(self, thread: str, calls: int, settle: bool) -> None:
        """Ask, and look things up, one or several at a time."""

        async def work() -> None:
            async with self.memory.thread(thread, resource=RESOURCE).turn() as turn:
                await self._say(turn, thread, self._text(5))
                for number in range(calls):
                    names = [f"call-{next(self.number)}" for _ in range(1 + number % 2)]
                    await self._answer(turn, thread, "I look it up", *names)
                    for name in names:
                        await self._return(turn, thread, name)
                    if settle:
                        await self.memory.settled()

        self.do(work())

    @rule(thread=threads)
    def unanswered_call(self, thread: str) -> None:
        """Call a tool that does not answer in time."""

        async def work() -> None:
            name = f"call-{next(self.number)}"
            async with self.memory.thread(thread, resource=RESOURCE).turn() as turn:
                await self._say(turn, thread, self._text(5))
                await self._answer(turn, thread, "I look it up", name)
            self.waiting.setdefault(thread, []).append(name)

        self.do(work())

    @precondition(lambda self: any(self.waiting.values()))
    @rule(data=st.data())
    def late_result(self, data: st.DataObject) -> None:
        """Let a tool answer after all."""
        thread = data.draw(st.sampled_from(sorted(name for name, calls in self.waiting.items() if calls)))
        call = self.waiting[thread].pop(0)

        async def work() -> None:
            async with self.memory.thread(thread, resource=RESOURCE).turn() as turn:
                await self._return_late(turn, thread, call)

        self.do(work())

    async def _return_late(self, turn: Turn, thread: str, call: str) -> None:
        await turn.prepare(Result(call, "found " * 10))
        self._keep(thread, "")

    @rule(thread=threads, calls=st.integers(0, 6), settle=st.booleans())
    def discard(self, thread: str, calls: int, settle: bool) -> None:
        """Say something, let some of it be observed, and take it all back."""

        async def work() -> None:
            async with self.memory.thread(thread, resource=RESOURCE).turn() as turn:
                await turn.prepare(UserMessage(f"{TAKEN_BACK} " * 12))
                for _ in range(calls):
                    name = f"call-{next(self.number)}"
                    await turn.record(AssistantMessage([TAKEN_BACK, Call(id=name, name="look")]))
                    await turn.prepare(Result(name, f"{TAKEN_BACK} " * 8))
                    if settle:
                        await self.memory.settled()
                await turn.discard()
            self.said.setdefault(thread, [])

        self.do(work())

    @rule(thread=threads)
    def discard_between_call_and_result(self, thread: str) -> None:
        """Another turn comes between a call and its result, and is taken back."""

        async def work() -> None:
            name = f"call-{next(self.number)}"
            async with self.memory.thread(thread, resource=RESOURCE).turn() as turn:
                await self._say(turn, thread, self._text(20))
                await self._answer(turn, thread, "I look it up", name)
                async with self.memory.thread(thread, resource=RESOURCE).turn() as other:
                    await other.prepare(UserMessage(TAKEN_BACK))
                    await other.discard()
                await self.memory.settled()
                await self._return(turn, thread, name)

        self.do(work())

    # ------------------------------------------------------------ the world

    @rule()
    def settle(self) -> None:
        """Let the background finish."""
        self.do(self.memory.settled())

    @rule(times=st.integers(1, 3), answer=st.sampled_from([RuntimeError("down"), "", "garbage \x00 <b>"]))
    def model_failure(self, times: int, answer: Any) -> None:
        """Let the model fail the next times."""
        self.model.answers += [answer] * times

    @rule(seconds=st.sampled_from([1, 20, 40, 400, 100_000, -30]))
    def clock_advance(self, seconds: int) -> None:
        """Let time pass, or jump back a little."""
        self.clock.advance(seconds=seconds)

    @rule()
    def reopen(self) -> None:
        """Close the memory in good order and open it again."""
        self.do(self.memory.aclose())
        self.memory = self._memory()

    @rule()
    def crash(self) -> None:
        """Lose the memory with everything that is under way."""

        async def work() -> None:
            kit = await self.memory.open()
            for task in asyncio.all_tasks() - {asyncio.current_task()}:
                if task.get_name().startswith("memolog-run"):
                    task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await kit.runner.settled()
            await kit.store.close()

        self.do(work())
        self.has_crashed = True
        self.memory = self._memory()

    # ------------------------------------------------------------ by hand

    @precondition(lambda self: self.said)
    @rule(data=st.data(), what=st.sampled_from(["buffer", "activate", "observe", "reflect", "status"]))
    def by_hand(self, data: st.DataObject, what: str) -> None:
        """Ask for a step of the lifecycle."""
        thread = data.draw(st.sampled_from(sorted(self.said)))
        self.do(getattr(self.memory.thread(thread, resource=RESOURCE), what)())

    @precondition(lambda self: self.said)
    @rule(data=st.data(), place=st.integers(0, 1_000))
    def restore(self, data: st.DataObject, place: int) -> None:
        """Bring an old generation back; how many there are depends on the background, so a story must not."""
        thread = data.draw(st.sampled_from(sorted(self.said)))
        made = self.do(self.memory.thread(thread, resource=RESOURCE).history())
        if made:
            generation = place % (made[-1].number + 1)
            assert (
                self.do(self.memory.thread(thread, resource=RESOURCE).restore(generation)).restored_from == generation
            )

    # ------------------------------------------------------------ what holds

    @invariant()
    def holds(self) -> None:
        """Check that the rows are as they must be, and that what was said is there, in its order."""

        async def look() -> Rows:
            return await read_rows((await self.memory.open()).store)

        rows = self.do(look())
        check_log(rows, self.last)
        self.last = rows
        assert self.degraded == []
        stored = dict.fromkeys(self.said, 0)
        for row in rows.messages:
            if row[4] == "live":
                stored[row[1]] += 1
        assert stored == {name: len(texts) for name, texts in self.said.items()}
        assert not any(TAKEN_BACK in text for (text,) in rows.texts)

    def teardown(self) -> None:
        """In the end, with a model that works and some time, everything that can be observed is."""
        try:
            # What the model failed at before the day passes may be tried again after it: the clock stands still from then on.
            self.do(self.memory.settled())
            self.model.answers.clear()
            self.clock.advance(days=1)
            for thread in self.said:
                status = self.do(self.memory.thread(thread, resource=RESOURCE).observe())
                assert status.cursor == status.last_seq or self.waiting.get(thread)
            self.do(self.memory.settled())
            self.holds()
            assert self.last is not None
            # A reflection may have nothing to shorten; what was said is observed in any case.
            assert not {("observe", "running"), ("observe", "failed")} & set(self.last.runs)
        finally:
            with contextlib.suppress(MemologError):
                self.do(self.memory.aclose())
            self.runner.close()
            shutil.rmtree(self.folder, ignore_errors=True)


class SharedMachine(Machine):
    """The same with one log for all threads."""

    config = CONFIG.with_overrides({"scope": "resource"})


def _run(machine: type[Machine], examples: int, steps: int) -> None:
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            suppress_health_check=(HealthCheck.too_slow, HealthCheck.filter_too_much),
            print_blob=True,
            # A story that fails is told as it was found; shortening it may take longer than all the others.
            phases=set(Phase) - ({Phase.explain} if LONG else {Phase.explain, Phase.shrink}),
        ),
    )


@pytest.mark.parametrize("machine", [Machine, SharedMachine], ids=["thread", "resource"])
def test_machine_on_sqlite(machine: type[Machine]) -> None:
    """Thread scope and resource scope, on SQLite."""
    _run(machine, counts(12, 300), counts(30, 60))


@pytest.mark.parametrize("machine", [Machine, SharedMachine], ids=["thread", "resource"])
def test_machine_on_postgres(machine: type[Machine], postgres_url: str) -> None:
    """The same on PostgreSQL, fewer times."""
    kind = type(machine.__name__, (machine,), {"address": postgres_url})
    _run(kind, counts(2, 40), counts(20, 50))
