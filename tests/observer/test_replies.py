"""What a model answers becomes memory only if it is whole and plausible; what it leaves out is observed all the same."""

import asyncio
import re
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

import pytest

from kit.talk import RESOURCE, Story, hold, stories
from memolog import AssistantMessage, Config, FilePart, UserMessage
from memolog.events import Degraded, RunEnded, RunFailed
from memolog.log.status import Status
from memolog.observer.drafts import HintsDraft, Parsed
from memolog.observer.llm import Observed, join_answers
from memolog.observer.model import ModelReply, ModelRequest
from memolog.observer.model_choice import FallbackModel, TieredModel
from memolog.testing import FakeClock, ScriptedModel, observations_of, reflection_of

THREAD = "t"

TALK: tuple[tuple[str, str], ...] = (
    (
        "I am allergic to peanuts and I never eat shellfish.",
        "Noted, I will keep peanuts and shellfish out of the plan.",
    ),
    ("We decided to go with the Hotel Miramar in Lisbon.", "Good choice. It is near the river."),
    ("My budget for the trip is 1,850 euros.", "That is enough for five nights."),
    ("My sister Paula joins us on the second day.", "I will book a second room for Paula."),
)
FACTS = ("peanuts", "shellfish", "Miramar", "Lisbon", "1,850", "Paula")


class Talk(Story):
    """A story with a model that follows a script and turns a day apart."""

    thread = THREAD

    def __init__(
        self, address: str, clock: FakeClock, answers: Sequence[Any] = (), model: Any = None, **settings: Any
    ) -> None:
        super().__init__(address, clock, model or ScriptedModel(answers), config=Config.from_dict(settings))

    async def say(self, *talk: tuple[str, str]) -> None:
        """Hold some turns, a day apart."""
        for said, answer in talk:
            await hold(self.memory, said, answer, thread=THREAD)
            self.clock.advance(days=1)
        await self.memory.settled()

    async def observed(self, *talk: tuple[str, str]) -> Status:
        """Hold some turns, a day apart, and observe what is not observed yet."""
        await self.say(*talk)
        return await self.memory.thread(THREAD, resource=RESOURCE).observe()

    async def failed(self, *talk: tuple[str, str]) -> str:
        """Hold some turns, observe in the background, and return the error of the only run that failed."""
        await self.say(*talk)
        await self.memory.thread(THREAD, resource=RESOURCE).buffer()
        await self.memory.settled()
        (event,) = self.told(RunFailed)
        return event.error


Open = Callable[..., Talk]
tell = stories(Talk)


def tagged(*lines: str) -> str:
    """Return lines in their section."""
    return "<observations>\n" + "\n".join(lines) + "\n</observations>"


WHOLE = tagged(
    "* 🔴 (09:00) User is allergic to peanuts and never eats shellfish [1]",
    "* 🔴 (09:00) User decided on the Hotel Miramar in Lisbon [3]",
    "* 🔴 (09:00) User's budget for the trip is 1,850 euros [5]",
    "* 🔴 (09:00) User's sister Paula joins on the second day [7]",
)
CUT = WHOLE[: WHOLE.index("* 🔴 (09:00) User's budget") + 20]


# ---------------------------------------------------------------- in other words

FAMILY = ("I'm vegetarian since 2019 and moved from Porto to Ghent two years ago w/ my 3 kids.", "Noted.")


async def test_a_statement_in_quite_other_words_stays_in_doubt(tell: Open) -> None:
    """If other lines have words of the messages, such a line is kept, but lowered in priority and marked."""
    answer = tagged(
        "* 🔴 (09:00) User has been vegetarian since 2019 [1]",
        "* 🔴 (09:00) User has three children [1]",
        "* 🔴 (09:00) User does not eat meat [1]",
    )
    story = tell([answer])
    await story.observed(FAMILY)
    found = {line.text: (line.priority, line.is_unverified) for line in await story.lines()}
    assert found["User has been vegetarian since 2019"] == ("high", False)
    assert found["User has three children"] == ("medium", True)
    assert found["User does not eat meat"] == ("medium", True)


async def test_a_reply_without_a_word_of_the_messages_is_no_memory(tell: Open) -> None:
    """If a reply has one line about the messages and invents the others, the others are left out."""
    invented = [f"* 🔴 (09:00) User has bought boat {name} [1]" for name in ("Zephyr", "Orca", "Gannet", "Marlin")]
    mixed = tagged("* 🔴 (09:00) User moved from Porto to Ghent [1]", *invented)
    story = tell([tagged(*invented)] * 2 + [mixed] * 2)
    await story.observed(FAMILY)
    assert await story.lines() == []
    story.clock.advance(days=1)
    await story.observed()
    assert [line.text for line in await story.lines()] == ["User moved from Porto to Ghent"]


# ---------------------------------------------------------------- cut off


async def test_every_request_has_a_limit_in_proportion_to_its_span(tell: Open) -> None:
    """A longer span may have a longer answer, up to the setting."""
    story = tell(reply_tokens=3_000)
    await story.observed(TALK[0])
    await story.observed(*TALK * 4)
    await story.observed(*[(said * 150, answer) for said, answer in TALK])
    first, second, *_, last = [request.max_tokens for request in story.model.requests]
    assert 0 < first < second < last == 3_000


async def test_a_reply_that_is_cut_off_is_asked_for_once_more(tell: Open) -> None:
    """The second answer may be longer, and is taken if it is whole."""
    story = tell([CUT, WHOLE])
    await story.observed(*TALK)
    first, second = story.model.requests
    assert second.text == first.text
    assert second.max_tokens > first.max_tokens
    assert [line.text for line in await story.lines()] == [
        "User is allergic to peanuts and never eats shellfish",
        "User decided on the Hotel Miramar in Lisbon",
        "User's budget for the trip is 1,850 euros",
        "User's sister Paula joins on the second day",
    ]


@pytest.mark.parametrize("by", ["tag", "finish reason"])
async def test_a_reply_that_is_cut_off_twice(tell: Open, by: str) -> None:
    """What it cites is kept; the messages after it are observed again, and each message once."""
    bare = CUT.removeprefix("<observations>\n")
    reply: Any = CUT if by == "tag" else ModelReply(text=bare, finish_reason="length")
    rest = tagged(
        "* 🔴 (09:00) User's budget for the trip is 1,850 euros [2]", "* 🔴 (09:00) User's sister Paula joins [4]"
    )
    story = tell([reply, reply, rest])
    await story.observed(*TALK)
    assert "peanuts" not in story.model.requests[2].text.split("<transcript>")[1]
    store = (await story.memory.open()).store
    snapshot = await store.logs.snapshot(RESOURCE, THREAD, "thread")
    assert [(group.span.first, group.span.last) for group in snapshot.groups if group.span] == [(1, 3), (4, 8)]
    status = await story.memory.thread(THREAD, resource=RESOURCE).status()
    assert (status.cursor, status.health) == (8, "ok")
    log = await story.log()
    assert all(fact in log for fact in FACTS)
    assert any("cut_off" in event.faults for event in story.told(RunEnded))
    assert (await story.memory.doctor()).is_healthy


async def test_a_reply_that_is_cut_off_before_its_first_citation(tell: Open) -> None:
    """Nothing of such a reply can be kept, so the run fails and is tried again."""
    story = tell([CUT[:40], CUT[:40], WHOLE])
    error = await story.failed(*TALK)
    assert "cut off" in error or "empty" in error
    story.clock.advance(hours=1)
    await story.observed()
    assert len(await story.lines()) == 4


@pytest.mark.parametrize("by", ["tag", "finish reason"])
async def test_a_reflection_that_is_cut_off_is_never_accepted(tell: Open, by: str) -> None:
    """A reflection that is cut off is not used, however short it is. The next level is asked for."""

    class Cut(ScriptedModel):
        async def complete(self, request: ModelRequest) -> ModelReply:
            if request.purpose == "observe":
                return await super().complete(request)
            self.requests.append(request)
            whole = ModelReply(text=reflection_of(request), finish_reason="length")
            return whole if by != "tag" else ModelReply(text=whole.text.removesuffix("\n</observations>"))

    model = Cut([WHOLE])
    story = tell(model=model)
    await story.observed(*TALK)
    await story.memory.thread(THREAD, resource=RESOURCE).reflect()
    assert any(request.purpose == "reflect" for request in model.requests)
    assert (await story.memory.thread(THREAD, resource=RESOURCE).status()).generation == 0
    assert any("cut off" in event.error for event in story.told(RunFailed))
    assert len(await story.lines()) == 4


# ---------------------------------------------------------------- copied, echoed, too long


async def test_a_reply_that_copies_the_log_is_a_failure(tell: Open) -> None:
    """The log is no evidence for its own lines: nothing is left of the reply, and the messages are asked about again."""
    copy = WHOLE.replace("09:00", "21:15").replace("[3]", "[1]").replace("[5]", "[1]").replace("[7]", "[1]")
    new = tagged("* 🔴 (09:00) User's flight to Lisbon leaves at 6:40 from Porto [1]")
    story = tell([WHOLE, copy, copy, new])
    await story.observed(*TALK)
    error = await story.failed(("My flight to Lisbon leaves at 6:40 from Porto.", "That is early."))
    assert "empty" in error
    story.clock.advance(hours=1)
    await story.observed()
    texts = [line.text for line in await story.lines()]
    assert len(texts) == 5
    assert texts[-1] == "User's flight to Lisbon leaves at 6:40 from Porto"


async def test_a_short_line_of_the_log_is_no_answer_either(tell: Open) -> None:
    """A copied line says nothing about the new messages, whatever it cites."""
    tea = tagged("* 🔴 (09:00) User drinks tea [1]")
    story = tell([tea, tea, tea])
    await story.observed(("I drink tea.", "Fine."))
    await story.failed(("My dentist appointment is on 4 May.", "Noted."))
    assert len(await story.lines()) == 1


async def test_copied_lines_beside_new_ones_are_dropped(tell: Open) -> None:
    """A copy with a changed word is dropped too. With a changed number it is another line."""
    mixed = tagged(
        "* 🔴 (09:00) User is allergic to peanuts and never eats any shellfish [1]",
        "* 🔴 (09:00) User's budget for the trip is 2,400 euros [1]",
    )
    story = tell([WHOLE, mixed])
    await story.observed(*TALK)
    await story.observed(("I raised it: my budget for the trip is 2,400 euros.", "Good."))
    assert [line.text for line in await story.lines()][4:] == ["User's budget for the trip is 2,400 euros"]
    assert "copied" in story.told(RunEnded)[-1].faults


async def test_what_is_said_again_on_another_day_is_kept(tell: Open) -> None:
    """A diary says the same each day; on the same day once is enough, and that is no failure."""
    line = "* 🔴 (09:00) User took the 5 mg ramipril tablet before breakfast [1]"
    story = tell([tagged(line), tagged(line), tagged(line)])
    said = ("I took the 5 mg ramipril tablet before breakfast.", "Well done.")
    await story.observed(said)
    await story.observed(said)
    assert len({line.said_at for line in await story.lines()}) == 2
    story.clock.advance(days=-1)
    status = await story.observed(said)
    assert len(await story.lines()) == 2
    assert (status.cursor, status.health) == (6, "ok")


async def test_placeholders_of_the_format_are_no_hints(tell: Open) -> None:
    """Example lines and hints of the instructions are refused in a reply."""
    story = tell()
    await story.observed(TALK[0])
    system = story.model.requests[0].system
    shown = {
        tag: body.strip()
        for tag, body in re.findall(r"<(current-task|suggested-response|thread-title)>(.*?)</\1>", system, re.DOTALL)
    }
    assert len(shown) == 3
    example = re.findall(r"^\* .*\[\d+\]$", system, re.MULTILINE)[0]
    echo = "\n".join(f"<{tag}>{body}</{tag}>" for tag, body in shown.items())
    line = "* 🔴 (09:00) User decided on the Hotel Miramar in Lisbon [1]"
    story.model.answers[:] = [f"{tagged(example, line)}\n{echo}"]
    await story.observed(TALK[1])
    store = (await story.memory.open()).store
    hints = (await store.threads.get(RESOURCE, THREAD)).hints
    assert not {hints.current_task, hints.suggested_response, hints.title} & set(shown.values())
    assert [line.text for line in await story.lines()][1:] == ["User decided on the Hotel Miramar in Lisbon"]
    assert "echo" in story.told(RunEnded)[-1].faults


@pytest.mark.parametrize("part", ["system", "transcript", "all"])
async def test_a_reply_that_repeats_the_prompt_is_a_failure(tell: Open, part: str) -> None:
    """The reply may repeat the instructions, the transcript, or both."""

    def echo(request: ModelRequest) -> str:
        shown = request.text.split("<transcript>")[1].split("</transcript>")[0]
        return {"system": request.system, "transcript": shown, "all": f"{request.system}\n{request.text}"}[part]

    story = tell([echo, echo])
    await story.failed(*TALK)
    assert await story.lines() == []


async def test_an_answer_far_longer_than_its_span_is_a_failure(tell: Open) -> None:
    """A reply that is many times as long as its messages is refused."""
    novel = tagged(*(f"* 🟡 (09:00) User told chapter {n} of the {n * 7}th story about boats [1]" for n in range(60)))
    story = tell([novel, novel])
    error = await story.failed(("Ahoy, boats it is!", "Aye."))
    assert "too large" in error


# ---------------------------------------------------------------- covered


async def test_statements_without_a_line_are_asked_for_once_more(tell: Open) -> None:
    """The second prompt shows only the messages without a line. The lines are ordered by message."""
    first = tagged(*WHOLE.split("\n")[1:2], *WHOLE.split("\n")[4:5])
    second = tagged(
        "* 🔴 (09:00) User decided on the Hotel Miramar in Lisbon [A]",
        "* 🔴 (09:00) User's budget for the trip is 1,850 euros [B]",
    )

    def again(request: ModelRequest) -> str:
        numbers = re.findall(r"^<message>\[(\d+)\]", request.text, re.MULTILINE)
        return second.replace("[A]", f"[{numbers[0]}]").replace("[B]", f"[{numbers[1]}]")

    story = tell([first, again])
    await story.observed(*TALK)
    assert len(story.model.requests) == 2
    shown = story.model.requests[1].text.split("<transcript>")[1]
    assert ("Miramar" in shown, "1,850" in shown, "peanuts" in shown, "Paula" in shown) == (True, True, False, False)
    lines = await story.lines()
    assert [line.sources[0].span.first for line in lines] == [1, 3, 5, 7]
    assert not any("observer" in line.metadata for line in lines)


async def test_what_stays_uncovered_is_observed_by_the_embedded_observer(tell: Open) -> None:
    """The lines of the embedded observer are marked with its name."""
    poor = tagged(*WHOLE.split("\n")[1:2])
    story = tell([poor, tagged("nothing worth keeping")])
    await story.observed(*TALK)
    lines = await story.lines()
    assert all(any(fact in line.text for line in lines) for fact in FACTS)
    assert [line.sources[0].span.first for line in lines if "observer" not in line.metadata] == [1]
    embedded = [line for line in lines if line.metadata.get("observer") == "extractive"]
    assert {line.sources[0].span.first for line in embedded if line.priority == "high"} == {3, 5, 7}
    assert "uncovered" in story.told(RunEnded)[-1].faults


async def test_lines_of_a_span_that_was_asked_about_in_pieces(tell: Open) -> None:
    """What each piece leaves out is found and cites the messages it comes from."""

    def poor(request: ModelRequest) -> str:
        number, words = re.findall(r"^<message>\[(\d+)\][^\n]*\n([^\n]+)", request.text, re.MULTILINE)[0]
        return tagged(f"* 🔴 (09:00) User said: {words[:60]} [{number}]")

    story = tell([poor] * 99, observation={"prompt_tokens": 1_000})
    said = [f"The code of room {n} is {n * 7}, and I keep the key in box {n}." for n in range(1, 61)]
    async with story.memory.thread(THREAD, resource=RESOURCE).turn() as turn:
        await turn.prepare(*map(UserMessage, said))
        await turn.record(AssistantMessage("All noted."))
    await story.observed()
    assert len(story.model.requests) > 3
    lines = await story.lines()
    for number in range(1, 61):
        found = [line for line in lines if re.search(rf"room {number}\b", line.text)]
        assert [source.span.first for line in found for source in line.sources] == [number]


async def test_the_better_of_two_replies_that_are_cut_off(tell: Open) -> None:
    """A second answer that is worse does not take the place of the first."""
    story = tell([CUT, CUT[:30], tagged("nothing worth keeping")])
    await story.say(*TALK)
    await story.memory.thread(THREAD, resource=RESOURCE).buffer()
    await story.memory.settled()
    await story.memory.thread(THREAD, resource=RESOURCE).activate()
    assert [line.sources[0].span.first for line in await story.lines()][:2] == [1, 3]


async def test_nothing_worth_keeping_where_nothing_was_stated(tell: Open) -> None:
    """Thanks and questions are no statements: the answer is taken as it is."""
    story = tell([tagged("nothing worth keeping")])
    status = await story.observed(("Thanks!", "You are welcome."), ("What is the time in Lisbon?", "It is nine."))
    assert len(story.model.requests) == 1
    assert (status.cursor, await story.lines()) == (4, [])


async def test_lines_in_another_language_cover_what_they_cite(tell: Open) -> None:
    """Words of two languages cannot be compared, so the citation is enough and nothing is asked twice."""
    story = tell(
        [
            tagged(
                "* 🔴 (09:00) User has been living in the south of the city for ten years [1]",
                "* 🔴 (09:00) User drinks no coffee and is not fond of tea [3]",
            )
        ]
    )
    await story.say(
        ("Ich wohne seit zehn Jahren im Süden der Stadt.", "Schön dort."),
        ("Kaffee trinke ich keinen, und Tee mag ich auch nicht besonders.", "Dann eben Wasser."),
    )
    await story.observed()
    assert len(story.model.requests) == 1
    assert len(await story.lines()) == 2


async def test_a_vague_line_about_everything_covers_nothing(tell: Open) -> None:
    """A line covers a message only if it shares a word with it."""
    vague = tagged("* 🟡 (09:00) Various topics were discussed at length [1-8]")
    story = tell([vague, vague])
    await story.observed(*TALK)
    log = await story.log()
    assert all(fact in log for fact in FACTS)


async def test_a_model_whose_answers_are_of_no_use(tell: Open) -> None:
    """After some tries the embedded observer observes the span; nothing is declared to be unobservable."""
    story = tell([tagged("* 🟡 (09:00) Ocean waves remember ancient whispers") for _ in range(99)])
    await story.say(*TALK)
    for _ in range(8):
        story.clock.advance(hours=1)
        await story.observed()
    log = await story.log()
    assert all(fact in log for fact in FACTS)
    assert "could not be observed" not in log
    assert "waves" not in log
    assert any("embedded observer" in event.error for event in story.told(Degraded))


async def test_a_line_that_cites_hundreds_of_messages_keeps_its_citations(tell: Open) -> None:
    """All citations are kept, also a list of hundreds."""
    numbers = ", ".join(str(number) for number in range(1, 501, 2))
    line = "* 🟡 (09:00) User counted sheep, hundreds of them"
    story = tell([tagged(f"{line} [{numbers}]")])
    async with story.memory.thread(THREAD, resource=RESOURCE).turn() as turn:
        await turn.prepare(*(UserMessage(f"sheep, hundreds: {number}?") for number in range(500)))
        await turn.record(AssistantMessage("Good night."))
    await story.observed()
    lines = await story.lines()
    (counted,) = [line for line in lines if "counted" in line.text]
    assert counted.text == "User counted sheep, hundreds of them"
    assert [source.span.first for source in counted.sources] == list(range(1, 501, 2))


@pytest.mark.parametrize(
    "words", ["on Friday (meaning 2026-03-20) (meaning 2026-03-20)", "on Friday (meaning 20 March 2026)"]
)
async def test_the_day_that_is_meant_is_said_once(tell: Open, words: str) -> None:
    """A reply may repeat the day or write it in another form. The log has it once."""
    story = tell([tagged(f"* 🔴 (09:00) User flies to Porto {words} [1]")])
    await story.observed(("I fly to Porto on Friday.", "Have a good flight."))
    log = await story.log()
    assert log.split("flies to Porto")[1].split("\n")[0].count("(meaning") == 1


# ---------------------------------------------------------------- errors and time


class Running(FakeClock):
    """A clock that runs: whoever looks at it finds it half a second later."""

    def now(self) -> datetime:
        self.advance(seconds=0.5)
        return super().now()


async def test_observing_by_hand_waits_through_a_back_off(tell: Open, clock: FakeClock) -> None:
    """A model that fails twice and then answers has observed all of it when the call returns."""
    story = tell([ConnectionError("down"), ConnectionError("down"), WHOLE])
    story.memory._connection.clock = Running(clock.time)
    status = await story.observed(*TALK)
    assert len(story.told(RunFailed)) == 2
    assert (status.cursor, status.health) == (8, "ok")


class ProviderError(Exception):
    """An error of somebody's own client."""

    def __init__(self, status_code: int, text: str = "error") -> None:
        super().__init__(text)
        self.status_code = status_code


@pytest.mark.parametrize("status", [401, 404, 429, 500, 503])
async def test_errors_of_the_own_function_never_make_words_unobservable(tell: Open, status: int) -> None:
    """An outage or a wrong key says nothing about what was said, however often some of it is observed meanwhile."""

    async def mine(request: ModelRequest) -> str:
        if "Miramar" in request.text.split("<transcript>")[1] and is_down:
            raise ProviderError(status)
        return observations_of(request)

    is_down = True
    story = tell(model=mine, observation={"message_tokens": 100, "previous_tokens": 0})
    await story.say(TALK[1])
    for number in range(7):
        await story.say((f"The limit of q{number} is {number * 100} and it stays.", "Done. " * 15))
        story.clock.advance(hours=1)
    assert "could not be observed" not in await story.log()
    assert story.told(RunFailed)
    is_down = False
    story.clock.advance(hours=1)
    status_after = await story.observed()
    assert (status_after.health, status_after.cursor) == ("ok", status_after.last_seq)


async def test_an_image_that_the_own_function_does_not_take(tell: Open) -> None:
    """A 400 on a request with files is asked again without them."""
    asked: list[int] = []

    async def mine(request: ModelRequest) -> str:
        asked.append(len(request.files))
        if request.files:
            raise ProviderError(400, "this model cannot see")
        return observations_of(request)

    story = tell(model=mine, observation={"attach_files": True})
    await hold(
        story.memory, UserMessage([FilePart(media_type="image/png", data=b"\x89PNG")]), "A fine cat.", thread=THREAD
    )
    status = await story.observed()
    assert asked == [1, 0]
    assert (status.health, status.cursor) == ("ok", status.last_seq)


async def test_the_time_of_a_call_is_a_setting_for_every_form_of_model(tell: Open) -> None:
    """A model that takes longer fails, the error says after how many seconds, and the request told it how many it had."""
    asked: list[float | None] = []

    async def slow(request: ModelRequest) -> str:
        asked.append(request.timeout)
        await asyncio.Event().wait()
        return ""

    class Slow:
        name = "slow"

        async def complete(self, request: ModelRequest) -> ModelReply:
            return ModelReply(text=await slow(request))

    for model in (slow, Slow(), FallbackModel(Slow(), slow), TieredModel({10: Slow()}, above=slow)):
        story = tell(model=model, model_timeout=0.05)
        await story.say(TALK[0])
        await story.memory.thread(THREAD, resource=RESOURCE).buffer()
        await story.memory.settled()
        assert "did not answer within 0.05 s" in story.told(RunFailed)[-1].error
        await story.memory.aclose()
    assert set(asked) == {0.05}


@pytest.mark.parametrize(
    ("proposed", "expected"),
    [(("one", None), "one"), ((None, "two"), "two"), (("one", "two"), "two"), ((None, None), None)],
)
def test_joined_answers_keep_a_proposed_working_memory(proposed: tuple[str | None, ...], expected: str | None) -> None:
    """A span may be observed in several calls. The newest text counts, because each is the whole working memory."""
    answers = [Observed(parsed=Parsed(hints=HintsDraft(working_memory=text))) for text in proposed]
    assert join_answers(answers).parsed.hints.working_memory == expected
