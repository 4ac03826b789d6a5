"""The model sees what is new, whatever its size: an agent that calls its tool again until it sees the result always ends."""

import asyncio
from typing import Any

import pytest

from kit.engines import OpenMemory, memories
from kit.talk import hold
from memolog import AssistantMessage, Config, ObservationConfig, ToolCallPart, ToolMessage, UserMessage
from memolog.context.context import Context
from memolog.core.message import NewMessage, ToolResultPart
from memolog.events import Activated, Decided, Event, Trimmed
from memolog.memory import Memory
from memolog.observer.model import ModelRequest
from memolog.testing import FakeClock, ScriptedModel, observations_of

RESOURCE, THREAD = "alice", "t1"
opened = memories(make_model=ScriptedModel)


def text_of(tokens: int, name: str) -> str:
    """Return a text of about so many tokens that says what it is at both ends."""
    return f"begin {name} " + "lorem ipsum dolor " * (tokens * 4 // 18) + f" end {name}"


def results_in(context: Context) -> dict[str, str]:
    """Return the tool results that a context shows, by call."""
    parts = [part for message in context.tail for part in message.parts if isinstance(part, ToolResultPart)]
    return {part.call_id: str(part.content) for part in parts}


class Agent:
    """Asks a scripted model that calls its tools again whenever it does not see every result whole."""

    def __init__(self, memory: Memory, results: dict[str, str], *, failures: int = 0) -> None:
        self._memory, self._results, self._failures = memory, results, failures
        self.steps = 0
        self.contexts: list[Context] = []

    async def ask(self, question: str, *, most_steps: int = 4) -> None:
        """Hold one turn: question, calls, results, answer."""
        async with self._memory.thread(THREAD, resource=RESOURCE).turn() as turn:
            news: tuple[NewMessage, ...] = (UserMessage(question),)
            asked: set[str] = set()
            while self.steps < most_steps:
                context = await self._request(turn, news)
                assert any(message.text == question for message in context.tail), "the question is out of sight"
                seen = results_in(context)
                if asked and all(seen.get(call) == self._results[call] for call in asked):
                    await turn.record(AssistantMessage("I have read all of it."))
                    return
                self.steps += 1
                asked = set(self._results)
                await turn.record(AssistantMessage([ToolCallPart(id=call, name="read") for call in sorted(asked)]))
                news = tuple(ToolMessage(call, self._results[call], name="read") for call in sorted(asked))
        pytest.fail(f"the agent called its tools {self.steps} times and never saw the results")

    async def _request(self, turn: Any, news: tuple[NewMessage, ...]) -> Context:
        """Prepare a request; a provider that fails is asked again with nothing new to say."""
        context = await turn.prepare(*news)
        while self._failures:
            self._failures -= 1
            again = await turn.prepare()
            assert again.render_without_edge() == context.render_without_edge()
        self.contexts.append(context)
        return context


@pytest.mark.parametrize("model", ["scripted", "extractive"])
@pytest.mark.parametrize("buffering", [True, False])
async def test_two_large_results_are_seen(opened: OpenMemory, model: str, buffering: bool) -> None:
    """Two parallel results of 20,000 tokens, with the default settings, are in the next request, word for word."""
    config = None if buffering else Config(observation=ObservationConfig(buffer_tokens=False))
    memory = opened(config, ScriptedModel() if model == "scripted" else "extractive")
    for number in range(6):
        await hold(memory, text_of(2_500, f"question {number}"), text_of(2_000, f"answer {number}"))
        await memory.settled()
    agent = Agent(memory, {"a": text_of(20_000, "a"), "b": text_of(20_000, "b")}, failures=2)
    await agent.ask("What do both files say?")
    assert agent.steps == 1
    # Once they were answered they are like any other message: the log takes them over.
    await memory.settled()
    for number in range(3):
        await Agent(memory, {"c": text_of(2_000, "c")}).ask(f"And then {number}?")
        await memory.settled()
    status = await memory.thread(THREAD, resource=RESOURCE).status()
    assert status.messages.tokens < 30_000
    assert status.health == "ok"


async def test_five_hundred_parallel_results_are_seen(opened: OpenMemory) -> None:
    """Each of them, and the call that they belong to."""
    agent = Agent(opened(), {f"c{number:03}": text_of(150, f"result {number}") for number in range(500)})
    await agent.ask("Read all of them.")
    assert agent.steps == 1
    assert agent.contexts[-1].trimmed == agent.contexts[-1].shortened == 0


async def test_a_long_paste_is_seen_on_first_sight(opened: OpenMemory) -> None:
    """A text of 40,000 tokens is in the context of its own turn, also when it is prepared again, and goes later."""
    memory = opened()
    for number in range(10):
        await Agent(memory, {"c": text_of(1_500, "c")}).ask(f"Question {number}")
    paste = text_of(40_000, "paste")
    async with memory.thread(THREAD, resource=RESOURCE).turn() as turn:
        first = await turn.prepare(UserMessage(paste))
        await memory.settled()
        again = await turn.prepare()
        assert first.tail[-1].text == again.tail[-1].text == paste
        # The exchange before it is still there: the floor is kept beside what is new.
        assert sum(len(message.render()) for message in first.tail[:-1]) > 4 * 1_000
        await turn.record(AssistantMessage("Thank you."))
    await memory.settled()
    later = await hold(memory, "Shorter, please.")
    assert later.tokens.tail < 30_000


async def test_a_provider_that_fails_leaves_the_words_in_sight(opened: OpenMemory) -> None:
    """The turn ends without a reply; the same message in the next turn is still shown whole."""
    memory = opened()
    paste = text_of(40_000, "paste")
    message = UserMessage(paste, id="m1")
    for _ in range(3):
        async with memory.thread(THREAD, resource=RESOURCE).turn() as turn:
            context = await turn.prepare(message)
            assert [m.text for m in context.tail] == [paste]
        await memory.settled()


async def test_a_sibling_does_not_take_what_is_unseen(address: str, engine_name: str, clock: FakeClock) -> None:
    """In a shared log another thread's turn, of this process or of another one, activates nothing that waits for a reply."""
    config = Config(scope="resource", observation=ObservationConfig(message_tokens=4_000))
    first = Memory(address, model=ScriptedModel(), clock=clock, config=config)
    second = first if engine_name == "memory" else Memory(address, model=ScriptedModel(), clock=clock, config=config)
    async with first, second:
        async with first.thread("a", resource=RESOURCE).turn() as turn:
            await turn.prepare(UserMessage("Look."))
            await turn.record(AssistantMessage([ToolCallPart(id="c", name="read")]))
            result = text_of(3_000, "result")
            context = await turn.prepare(ToolMessage("c", result))
            for number in range(6):
                clock.advance(minutes=6)
                # As time passes, a process says that it is alive.
                await (await first.open()).runner.heartbeat.now()
                async with second.thread("b", resource=RESOURCE).turn(model=f"m{number}") as other:
                    await other.prepare(UserMessage(text_of(900, f"b {number}")))
                    await other.record(AssistantMessage("ok"))
                await second.settled()
            again = await turn.prepare()
            assert results_in(again) == results_in(context) == {"c": result}
            await turn.record(AssistantMessage("Done."))
        clock.advance(minutes=10)
        async with first.thread("a", resource=RESOURCE).turn() as turn:
            await turn.prepare(UserMessage("Next."))
        status = await first.thread("a", resource=RESOURCE).observe()
        assert status.cursor == status.last_seq


@pytest.mark.parametrize("buffering", [True, False])
async def test_the_answer_that_the_user_replies_to_stays(opened: OpenMemory, buffering: bool) -> None:
    """Where the tail is full, about the floor stays of it, however it is observed."""
    observation = ObservationConfig(message_tokens=10_000, buffer_tokens=0.2 if buffering else False)
    memory = opened(Config(observation=observation))
    least = 10_000
    for number in range(90):
        async with memory.thread(THREAD, resource=RESOURCE).turn() as turn:
            context = await turn.prepare(UserMessage(text_of(100, f"question {number}")))
            if number:
                assert f"end answer {number - 1}" in context.tail[-2].text
            if context.note is not None:
                least = min(least, context.tokens.tail)
            await turn.record(AssistantMessage(text_of(120, f"answer {number}")))
        await memory.settled()
    assert 1_000 < least < 10_000


async def test_a_repeated_request_makes_no_second_activation(opened: OpenMemory) -> None:
    """A long request that the log covers is shown again, and the last answer stays beside it."""
    memory = opened(Config(observation=ObservationConfig(message_tokens=2_000)))
    activations: list[Event] = []
    memory.subscribe(lambda event: activations.append(event) if isinstance(event, Activated) else None)
    request = text_of(1_000, "request")
    async with memory.thread(THREAD, resource=RESOURCE).turn() as turn:
        await turn.prepare(UserMessage(request))
        for number in range(4):
            await turn.record(AssistantMessage([ToolCallPart(id=f"c{number}", name="read")]))
            await memory.settled()
            context = await turn.prepare(ToolMessage(f"c{number}", text_of(500, f"result {number}")))
            assert request in [message.text for message in context.tail]
            if number:
                assert f"c{number - 1}" in results_in(context), "the result before this one is gone"
        await turn.record(AssistantMessage("Done."))
    assert len(activations) <= 2


async def test_the_known_window_of_a_model_is_a_limit(opened: OpenMemory) -> None:
    """What is unseen and larger than the model's window is shortened in the middle, evenly, marked, and can be recalled."""
    memory = opened()
    told: list[Trimmed] = []
    memory.subscribe(lambda event: told.append(event) if isinstance(event, Trimmed) else None)
    texts = {"a": text_of(120_000, "a"), "b": text_of(120_000, "b")}
    async with memory.thread(THREAD, resource=RESOURCE).turn(model="openai:gpt-4o") as turn:
        await turn.prepare(UserMessage("Read both."))
        await turn.record(AssistantMessage([ToolCallPart(id=call, name="read") for call in texts]))
        context = await turn.prepare(*(ToolMessage(call, text) for call, text in texts.items()))
        assert context.tokens.total <= 128_000
        shown = results_in(context)
        assert {len(text) // 1_000 for text in shown.values()} == {len(shown["a"]) // 1_000}
        for call, text in shown.items():
            assert text.startswith(f"begin {call}")
            assert text.endswith(f"end {call}")
            assert "characters are left out here" in text
        assert len(told) == 1
    found = await memory.resource(RESOURCE).search("lorem ipsum", sources=["raw"])
    assert found.results


async def test_several_messages_at_once_are_all_shown_within_a_hard_limit(opened: OpenMemory) -> None:
    """A hard limit shortens what is new; it leaves none of it out."""
    memory = opened(Config(observation=ObservationConfig(message_tokens=2_000), context_tokens=4_000))
    async with memory.thread(THREAD, resource=RESOURCE).turn() as turn:
        context = await turn.prepare(*(UserMessage(text_of(2_000, f"part {number}")) for number in range(5)))
    assert context.tokens.total <= 4_000
    assert context.trimmed == 0
    assert [f"begin part {n}" in context.render() for n in range(5)] == [True] * 5


@pytest.mark.parametrize("buffering", [True, False])
async def test_a_new_thread_does_not_wait_for_its_sibling(opened: OpenMemory, buffering: bool) -> None:
    """A sibling left 30 full tails behind, and the model never answers: the first turn of a new thread goes on at once."""
    never = asyncio.Event()

    async def hang(request: ModelRequest) -> str:
        await never.wait()
        return observations_of(request)

    observation = ObservationConfig(message_tokens=1_000, buffer_tokens=0.2 if buffering else False, deadline=600)
    memory = opened(Config(scope="resource", observation=observation), ScriptedModel([hang] * 100))
    decisions: list[str] = []
    memory.subscribe(lambda event: decisions.append(event.decision) if isinstance(event, Decided) else None)
    store = (await memory.open()).store
    await store.messages.save(RESOURCE, "old", [UserMessage(text_of(200, f"m {number}")) for number in range(150)])
    async with memory.thread("new", resource=RESOURCE).turn() as turn:
        context = await turn.prepare(UserMessage("Hello."))
        assert context.tail[-1].text == "Hello."
        await turn.record(AssistantMessage("Hello."))
    assert "Buffer" in decisions
    assert "Observe" not in decisions
    never.set()
    status = await memory.thread("new", resource=RESOURCE).observe()
    assert status.backlog_tokens == 0


async def test_who_observes_by_hand_leaves_what_comes_meanwhile(opened: OpenMemory, clock: FakeClock) -> None:
    """A result that a turn hands in while somebody observes the same thread by hand stays until it is answered."""
    model = ScriptedModel()
    memory = opened(model=model)
    await hold(memory, "I live in Utrecht.", "Noted.")
    async with memory.thread(THREAD, resource=RESOURCE).turn() as turn:
        await turn.prepare(UserMessage("Look."))
        await turn.record(AssistantMessage([ToolCallPart(id="c", name="read")]))
        shown: list[Context] = []
        times: list[asyncio.Task[None]] = []

        async def fail_while_a_result_comes(request: ModelRequest) -> str:
            """Take so long that the tool answers first, and fail."""
            del request
            shown.append(await turn.prepare(ToolMessage("c", text_of(2_000, "result"))))
            times.append(asyncio.create_task(pass_time()))
            raise ConnectionError("the model is away")

        async def pass_time() -> None:
            """Let the pause after a failure pass."""
            while len(model.requests) < 2:
                await asyncio.sleep(0.01)
                clock.advance(seconds=1)

        model.answers.append(fail_while_a_result_comes)
        await memory.thread(THREAD, resource=RESOURCE).observe()
        await times[0]
        again = await turn.prepare()
        assert results_in(again) == results_in(shown[0])
        assert list(results_in(again)) == ["c"]
        await turn.record(AssistantMessage("Done."))
    # On a slow machine the clock may have overtaken a lease, so let the pause after such a failure pass too.
    await memory.settled()
    clock.advance(minutes=30)
    status = await memory.thread(THREAD, resource=RESOURCE).observe()
    assert status.cursor == status.last_seq


async def test_who_observes_a_thread_by_hand_leaves_its_siblings_alone(opened: OpenMemory) -> None:
    """An open turn of another thread of the same log still sees its result; its own thread would count as seen."""
    memory = opened(Config(scope="resource"))
    async with memory.thread("a", resource=RESOURCE).turn() as turn:
        await turn.prepare(UserMessage("Look."))
        await turn.record(AssistantMessage([ToolCallPart(id="c", name="read")]))
        before = await turn.prepare(ToolMessage("c", text_of(2_000, "result")))
        await hold(memory, "Hello.", "Hello.", thread="b")
        status = await memory.thread("b", resource=RESOURCE).observe()
        assert status.cursor == status.last_seq
        again = await turn.prepare()
        assert results_in(again) == results_in(before)
        assert list(results_in(again)) == ["c"]
        await turn.record(AssistantMessage("Done."))
    status = await memory.thread("a", resource=RESOURCE).observe()
    assert status.cursor == status.last_seq
