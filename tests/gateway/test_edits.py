"""Chat programs let users edit a question and ask for another answer: the thread follows, and nothing is stored twice."""

import json
from dataclasses import replace
from pathlib import Path

import anthropic
import openai
import pytest

from adapters.provider import APIS as DRIVERS
from adapters.provider import Reply
from gateway.upstream import Call, Seen
from gateway.world import APIS, Conversation, World, opened


class Model:
    """Answers with a number, so that each answer differs."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, seen: Seen) -> str | Call:
        """Answer, or call a tool if the last question asks for it."""
        self.count += 1
        if "look it up" in seen.raw.decode() and b"It rains." not in seen.raw:
            return Call("c1", "weather", {"place": "Oslo"})
        return f"Answer {self.count}."


async def lines(world: World) -> list[str]:
    """Return what is live in the thread, without reasoning."""
    return [line for line in await world.lines() if line != "reasoning"]


def again(talk: Conversation, question: str) -> None:
    """Take the client's history back to before a question."""
    place = next(n for n, said in enumerate(talk.history) if said.get("content") == question)
    del talk.history[place:]


@pytest.mark.parametrize("api", APIS)
async def test_another_answer_three_times(api: str, tmp_path: Path) -> None:
    """One question and the last answer are left; the others are branches."""
    async with opened(tmp_path / "memolog.db", Model()) as world:
        talk = world.talk(api, is_whole=True)
        await talk.say("One.")
        await talk.say("Two.")
        for _ in range(3):
            again(talk, "Two.")
            await talk.say("Two.")
        assert await lines(world) == ["user: One.", "assistant: Answer 1.", "user: Two.", "assistant: Answer 5."]
        assert world.upstream.seen[-1].raw.count(b"Two.") == 1
        assert b"Answer 4" not in world.upstream.seen[-1].raw
        branches = await world.memory.thread("t1", resource="alice").branches()
        assert [branch.preview for branch in branches] == ["Answer 2.", "Answer 3.", "Answer 4."]


async def test_a_running_turn_is_not_withdrawn(tmp_path: Path) -> None:
    """Another answer is wanted while a later turn waits for its own: the question is asked again, and both stay."""
    async with opened(tmp_path / "memolog.db", Model()) as world:
        talk = world.talk("chat", is_whole=True)
        await talk.say("One.")
        await talk.say("Two.")
        thread = world.memory.thread("t1", resource="alice")
        async with thread.turn() as turn:
            await turn.prepare("Three.")
            again(talk, "Two.")
            await talk.say("Two.")
        assert await thread.branches() == ()
        assert await lines(world) == [
            *("user: One.", "assistant: Answer 1.", "user: Two.", "assistant: Answer 2."),
            *("user: Three.", "user: Two.", "assistant: Answer 3."),
        ]


@pytest.mark.parametrize("api", APIS)
async def test_another_first_answer(api: str, tmp_path: Path) -> None:
    """The first question again, with nothing after its answer, is one question."""
    async with opened(tmp_path / "memolog.db", Model()) as world:
        talk = world.talk(api, is_whole=True)
        for _ in range(3):
            talk.history.clear()
            await talk.say("One.")
        assert await lines(world) == ["user: One.", "assistant: Answer 3."]


@pytest.mark.parametrize("api", APIS)
async def test_after_another_first_answer(api: str, tmp_path: Path) -> None:
    """The first question was asked again later. The client goes on after its new answer, which contains the old one."""
    answers = iter(("Yes.", "Two.", "Yes. And more.", "Three.", "Four."))
    async with opened(tmp_path / "memolog.db", lambda _: next(answers)) as world:
        talk = world.talk(api, is_whole=True)
        await talk.say("Is it so?")
        await talk.say("And then?")
        talk.history.clear()
        await talk.say("Is it so?")
        await talk.say("Why?")
        again(talk, "Why?")
        await talk.say("Why, edited?")
        assert (await lines(world))[4:] == [
            *("user: Is it so?", "assistant: Yes. And more.", "user: Why, edited?", "assistant: Four."),
        ]


def looking(seen: Seen) -> str | Call:
    """Call a tool for each question, and answer each result with the same words."""
    raw = seen.raw.decode()
    questions, results = raw.count("Go on."), raw.count("It rains.")
    return Call(f"c{questions}", "weather", {}) if questions > results else "Done."


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("more", [False, True])
async def test_equal_questions_with_tools(api: str, more: bool, tmp_path: Path) -> None:
    """The third of three equal questions is edited: the calls and results of the others stay, and are not stored again."""
    async with opened(tmp_path / "memolog.db", looking) as world:
        talk = world.talk(api, is_whole=True)
        lengths: list[int] = []
        for n in (1, 2, 3):
            lengths.append(len(talk.history))
            await talk.say("Go on.")
            await talk.answer((f"c{n}", "It rains."))
        if more:
            await talk.say("And now?")
        before = (await lines(world))[:8]
        del talk.history[lengths[2] :]
        await talk.say("Stop.")
        assert await lines(world) == [*before, "user: Stop.", "assistant: Done."]


@pytest.mark.parametrize("api", APIS)
async def test_an_edited_question(api: str, tmp_path: Path) -> None:
    """The model sees the edited words, and nothing that came after the old ones."""
    async with opened(tmp_path / "memolog.db", Model()) as world:
        talk = world.talk(api, is_whole=True)
        for question in ("One.", "Two.", "Three."):
            await talk.say(question)
        again(talk, "Two.")
        await talk.say("Two, edited.")
        sent = world.upstream.seen[-1].raw
        assert b"Two, edited." in sent
        assert b"Two." not in sent
        assert b"Three." not in sent
        expected = ["user: One.", "assistant: Answer 1.", "user: Two, edited.", "assistant: Answer 4."]
        assert await lines(world) == expected
        thread = world.memory.thread("t1", resource="alice")
        await thread.restore_branch("b1")
        assert [line for line in await lines(world) if line.startswith("user")] == [
            "user: One.",
            "user: Two.",
            "user: Three.",
        ]


@pytest.mark.parametrize("api", APIS)
async def test_an_answer_that_the_client_changed(api: str, tmp_path: Path) -> None:
    """It is the same answer at its place: nothing is stored again."""
    async with opened(tmp_path / "memolog.db", Model()) as world:
        talk = world.talk(api, is_whole=True)
        for question in ("One.", "Two.", "Three."):
            await talk.say(question)
            for said in talk.history:
                if said.get("role") == "assistant" and said.get("type") != "reasoning":
                    said["content"] = "(removed)"
            talk.history = [said for said in talk.history if said.get("type") != "reasoning"]
        assert await lines(world) == [
            line
            for n, word in enumerate(("One.", "Two.", "Three."), 1)
            for line in (f"user: {word}", f"assistant: Answer {n}.")
        ]


@pytest.mark.parametrize("api", APIS)
async def test_another_answer_to_tool_results(api: str, tmp_path: Path) -> None:
    """The calls and the results stay, and the last answer is replaced."""
    async with opened(tmp_path / "memolog.db", Model()) as world:
        talk = world.talk(api, is_whole=True)
        await talk.say("One.")
        await talk.say("Please look it up.")
        await talk.answer(("c1", "It rains."))
        place = max(n for n, said in enumerate(talk.history) if "It rains." in str(said))
        del talk.history[place:]
        await talk.answer(("c1", "It rains."))
        assert (await lines(world))[2:] == [
            "user: Please look it up.",
            "call c1: weather",
            "result c1",
            "assistant: Answer 4.",
        ]


@pytest.mark.parametrize("api", APIS)
async def test_a_late_parallel_result(api: str, address: str) -> None:
    """The answer that was made without the result is withdrawn, and the model answers both results."""

    def calling(seen: Seen) -> str | Reply:
        if b"It rains." not in seen.raw:
            return Reply(calls=(("c1", "weather"), ("c2", "weather")))
        return "Both." if b"It snows." in seen.raw else "One of two."

    async with opened(address, calling) as world:
        talk = world.talk(api, is_whole=True)
        await talk.say("Oslo and Bergen?")
        place = len(talk.history)
        await talk.answer(("c1", "It rains."))
        del talk.history[place:]
        assert await talk.answer(("c1", "It rains."), ("c2", "It snows.")) == "Both."
        assert b"One of two." not in world.upstream.seen[-1].raw
        assert (await lines(world))[3:] == ["result c1", "result c2", "assistant: Both."]
        # A message of Anthropic has all results, so the message with one result is withdrawn too.
        [branch] = await world.memory.thread("t1", resource="alice").branches()
        assert branch.preview == ("It rains." if api == "messages" else "One of two.")


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("is_whole", [False, True])
async def test_a_request_again_after_a_cut_stream(api: str, is_whole: bool, tmp_path: Path) -> None:
    """The question is stored once and the incomplete answer is withdrawn, also if the client sends only new messages."""
    half = Reply(text="Half of it.", thinks=False)
    events = DRIVERS[api].events(DRIVERS[api].answer(half, 1, 1))
    words = next(number for number, event in enumerate(events, start=1) if '"Hal"' in json.dumps(event))
    replies = iter(("First.", replace(half, cut=words), "Whole."))
    async with opened(tmp_path / "memolog.db", lambda _: next(replies)) as world:
        talk = world.talk(api, is_whole=is_whole, is_streamed=True)
        await talk.say("One.")
        with pytest.raises((openai.APIError, anthropic.APIError)):
            await talk.say("Two.")
        await talk.say("Two.")
        assert await lines(world) == ["user: One.", "assistant: First.", "user: Two.", "assistant: Whole."]
        [branch] = await world.memory.thread("t1", resource="alice").branches()
        assert branch.preview == "Hal"


@pytest.mark.parametrize("api", APIS)
async def test_messages_of_others_are_not_withdrawn(api: str, tmp_path: Path) -> None:
    """Another program says something in the thread; a client that does not know it goes on, edits, and asks again."""
    async with opened(tmp_path / "memolog.db", Model()) as world:
        talk = world.talk(api, is_whole=True)
        await talk.say("One.")
        async with world.memory.thread("t1", resource="alice").turn() as turn:
            await turn.prepare("Said by phone.")
            await turn.record("Noted by phone.")
        await talk.say("Two.")
        again(talk, "Two.")
        await talk.say("Two, edited.")
        again(talk, "One.")
        await talk.say("One.")
        assert (await lines(world))[2:4] == ["user: Said by phone.", "assistant: Noted by phone."]
        assert (await lines(world))[-2] == "user: One."


@pytest.mark.parametrize("api", APIS)
async def test_an_edit_after_a_side_request(api: str, address: str) -> None:
    """A chat program asks for a title in the same thread: a later question can be edited, and the title stays."""
    async with opened(address, Model()) as world:
        talk = world.talk(api, is_whole=True)
        await talk.say("One.")
        await world.talk(api, is_whole=True).say("Make a title.")
        await talk.say("Two.")
        await talk.say("Three.")
        again(talk, "Two.")
        await talk.say("Two, edited.")
        sent = world.upstream.seen[-1].raw
        assert b"Two." not in sent
        assert b"Three." not in sent
        assert await lines(world) == [
            *("user: One.", "assistant: Answer 1.", "user: Make a title.", "assistant: Answer 2."),
            *("user: Two, edited.", "assistant: Answer 5."),
        ]


@pytest.mark.parametrize("api", APIS)
async def test_an_edit_before_a_side_request(api: str, tmp_path: Path) -> None:
    """The side request came after the edited question. It is not withdrawn, so the edited question follows it."""
    async with opened(tmp_path / "memolog.db", Model()) as world:
        talk = world.talk(api, is_whole=True)
        await talk.say("One.")
        await talk.say("Two.")
        await world.talk(api, is_whole=True).say("Make a title.")
        await talk.say("Three.")
        again(talk, "Two.")
        await talk.say("Two, edited.")
        said = [line for line in await lines(world) if line.startswith("user")]
        assert said == [f"user: {text}" for text in ("One.", "Two.", "Make a title.", "Three.", "Two, edited.")]
