"""What an application can say about observing and reflecting, each from the setting to what comes of it."""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from kit.engines import engines
from kit.models import PRICE, Priced
from kit.talk import RESOURCE, THREAD, Story, hold, logged, stories
from memolog import AssistantMessage, Config, FilePart, NewMessage, TextPart, Usage, UserMessage
from memolog.events import Degraded, HintsChanged, RunEnded, RunFailed
from memolog.log.runs import NewRun, RunResult
from memolog.log.store import Rendered
from memolog.memory import Memory
from memolog.observer.model import ModelReply, ModelRequest
from memolog.testing import FakeClock, ScriptedModel, observations_of, reflection_of
from memolog.text.tokens import HeuristicCounter

SMALL: dict[str, Any] = {
    "observation": {"message_tokens": 1_000, "previous_tokens": 200},
    "reflection": {"observation_tokens": 600},
}


class Talk(Story):
    """A story with small windows and these settings."""

    def __init__(self, address: str, clock: FakeClock, model: Any = None, **settings: Any) -> None:
        super().__init__(address, clock, model, config=Config.from_dict(SMALL).with_overrides(settings))

    async def chat(self, turns: int, *, thread: str = THREAD, resource: str = RESOURCE, **options: Any) -> None:
        """Hold some turns; each has its own words in its context."""
        for number in range(turns):
            words = f"question {number} " + "about the weather " * 10
            async with self.memory.thread(thread, resource=resource).turn() as turn:
                context = await turn.prepare(UserMessage(words))
                assert context.messages[-1].text == words
                await turn.record(AssistantMessage(f"answer {number} " + "it will rain " * 15), **options)
            await self.memory.settled()
            self.clock.advance(minutes=1)

    async def say(self, *messages: NewMessage) -> None:
        """Say something and have it observed."""
        async with self.memory.thread(THREAD, resource=RESOURCE).turn() as turn:
            await turn.prepare(*messages)
        await self.memory.thread(THREAD, resource=RESOURCE).observe()


Open = Callable[..., Talk]
engine_name = engines("sqlite", "postgres")
tell = stories(Talk)


def asked(model: ScriptedModel, purpose: str) -> Sequence[ModelRequest]:
    """Return what a model was asked for one purpose."""
    return [request for request in model.requests if request.purpose == purpose]


# ---------------------------------------------------------------- wording


async def test_voice_and_instructions(tell: Open) -> None:
    """The voice is chosen and the application's words are appended, for observer and reflector each its own."""
    own = {
        "observation.instructions": "Prices are all that matters.",
        "reflection.instructions": "Prices outlive names.",
    }
    story = tell(voice="general", **own)
    await story.chat(12)
    await story.memory.thread(THREAD, resource=RESOURCE).reflect()
    for purpose, words, others in (("observe", "Prices are all", "outlive"), ("reflect", "outlive", "are all")):
        systems = {request.system for request in asked(story.model, purpose)}
        assert len(systems) == 1
        system = systems.pop()
        assert "# Setting: everyday conversation" in system.replace("##", "#")
        assert "Setting: software" not in system
        assert words in system.split("# Instructions of this application")[1]
        assert others not in system


# ---------------------------------------------------------------- spans that no prompt holds

COUNTER = HeuristicCounter()
# Instructions, the end of the log, hints and the request itself come on top of the messages.
BESIDE = 6_000


def sizes(model: ScriptedModel) -> list[int]:
    """Return how large the prompts were."""
    return [COUNTER.count(request.system) + COUNTER.count(request.text) for request in model.requests]


async def test_a_huge_first_message(tell: Open) -> None:
    """All of it is read, in prompts that each fit; one run makes one group whose lines cite that message."""
    words = [f"Item {number} of the inventory is a chair in room {number % 90}." for number in range(17_000)]
    text = "\n".join(words)
    assert COUNTER.count(text) > 200_000
    story = tell()
    await story.say(UserMessage(text))
    assert len(story.model.requests) > 3
    assert max(sizes(story.model)) < 50_000 + BESIDE
    # Nothing between the first and the last word was left out.
    seen = "\n".join(request.text for request in story.model.requests)
    assert all(f"Item {number} of" in seen for number in range(0, 17_000, 97))
    (ended,) = story.told(RunEnded)
    assert ended.observations == len(story.model.requests)
    snapshot = await (await story.memory.open()).store.logs.snapshot(RESOURCE, THREAD, "thread")
    assert [(group.span.first, group.span.last) for group in snapshot.groups if group.span] == [(1, 1)]
    assert ended.input_tokens == sum((len(r.system) + len(r.text)) // 4 for r in story.model.requests)


async def test_a_message_beyond_all_measure(tell: Open) -> None:
    """The number of calls is bounded as well: of two million tokens each prompt shows beginning and end of its share."""
    story = tell(**{"observation.prompt_tokens": 5_000})
    await story.say(UserMessage("word " * 400_000 + "the end"))
    assert len(story.model.requests) <= 13
    assert max(sizes(story.model)) < 5_000 + BESIDE
    # Parts of a span are asked about at the same time, so the last part need not be asked about last.
    assert any("the end" in request.text for request in story.model.requests)
    assert (await story.memory.thread(THREAD, resource=RESOURCE).status()).cursor == 1


async def test_many_messages_at_once(tell: Open) -> None:
    """A span of many messages is asked about in pieces whose numbers run on; one that fails, fails the run as a whole."""
    story = tell(observation={"message_tokens": 30_000, "buffer_tokens": False, "prompt_tokens": 2_000})
    said = [UserMessage(f"note {number}: " + "flour, butter and sugar " * 40) for number in range(40)]
    story.model.answers[:] = [observations_of, ""]
    await story.say(*said)
    assert story.told(RunFailed) != []
    story.clock.advance(hours=2)
    story.model.answers.clear()
    story.model.requests.clear()
    await story.memory.thread(THREAD, resource=RESOURCE).observe()
    assert len(story.model.requests) > 3
    assert max(sizes(story.model)) < 2_000 + BESIDE
    numbers = [
        int(n)
        for request in story.model.requests
        for n in re.findall(r"^<message>\[(\d+)\]", request.text, re.MULTILINE)
    ]
    assert sorted(numbers) == list(range(1, 41))
    status = await story.memory.thread(THREAD, resource=RESOURCE).status()
    assert (status.cursor, status.groups, status.health) == (40, 1, "ok")
    lines = await story.lines()
    # The script writes a line for two messages: each leads to the messages it was made of.
    assert len(lines) >= 20
    assert all(f"Message {line.sources[0].span.first} was said" == line.text for line in lines)


# ---------------------------------------------------------------- files

PICTURE = FilePart(media_type="image/png", data=b"\x89PNG" + b"\x00" * 40, name="receipt.png")
LAW = FilePart(media_type="application/pdf", url="https://example.com/law.pdf", name="law.pdf")
SOUND = FilePart(media_type="audio/mpeg", data=b"\x00" * 40, name="call.mp3")
NEAR = FilePart(media_type="image/png", url="http://127.0.0.1/secret.png")


async def test_files_are_placeholders_unless_they_are_attached(tell: Open) -> None:
    """By default no byte of a file leaves; attached, what a model can see goes along, listed with its message."""
    said = UserMessage([TextPart(text="What is on it?"), PICTURE, SOUND, LAW, NEAR])
    story = tell()
    await story.say(said)
    assert story.model.requests[-1].files == ()
    assert "<file>receipt.png, image/png" in story.model.requests[-1].text
    open_hearted = tell(**{"observation.attach_files": True})
    await open_hearted.say(said)
    request = open_hearted.model.requests[-1]
    assert request.files == (PICTURE, LAW)
    assert "<attached>\n1. receipt.png, of message [1]\n2. law.pdf, of message [1]\n</attached>" in request.text


# ---------------------------------------------------------------- prompts


async def test_prompts_are_kept_only_on_request(tell: Open) -> None:
    """A run keeps each call: what was sent and answered, and what failed."""
    story = tell()
    await story.chat(4)
    store = (await story.memory.open()).store
    for run in await store.runs.list(RESOURCE):
        assert await store.runs.prompts(RESOURCE, run.id) == ()
    keeping = tell(ScriptedModel([RuntimeError("no such model"), "The same again. " * 400]), keep_prompts=True)
    await keeping.chat(6)
    story.clock.advance(hours=2)
    await keeping.chat(4)
    kept = [
        (call, run)
        for run in reversed(await store.runs.list(RESOURCE))
        for call in await store.runs.prompts(RESOURCE, run.id)
    ]
    assert len(kept) == len(keeping.model.requests)
    texts = {(request.system, request.text) for request in keeping.model.requests}
    assert {(call.asked["system"], call.asked["text"]) for call, _ in kept} == texts
    errors = [(call.asked["error"], call.reply) for call, _ in kept if call.asked["error"]]
    assert errors == [("RuntimeError: no such model", None)]
    # An answer that ran away and the one that was asked for instead are two calls of one run.
    twice = [run.id for _, run in kept if [r.id for _, r in kept].count(run.id) > 1]
    assert any(len({call.reply for call, run in kept if run.id == name}) > 1 for name in twice)
    assert await store.runs.prompts("bob", kept[0][1].id) == ()


# ---------------------------------------------------------------- budget


async def test_a_budget_holds_and_the_embedded_observer_goes_on(tell: Open) -> None:
    """Calls stop at the limit, in this process and the next; an event and the status say so; the log goes on growing."""
    story = tell(Priced(), budget=0.03)
    # What the agent's own model costs is in the ledger too, and is no part of this budget.
    await story.chat(30, usage=Usage(model="agent", cost=5.0))
    status = await story.memory.thread(THREAD, resource=RESOURCE).status()
    assert len(story.model.requests) == 3
    assert (status.budget_left, status.health, status.failures) == (0.0, "ok", 0)
    assert status.cursor > 30
    assert status.messages.tokens < 1_200
    # Told once, and seen on each run that went without.
    (spent,) = story.told(Degraded)
    assert spent.what == "asking the model"
    assert "0.03 US dollars for this resource is spent: 0.0300 so far" in spent.error
    assert "embedded observer is used" in spent.error
    assert sum("over_budget" in event.faults for event in story.told(RunEnded)) > 3
    await story.memory.aclose()
    again = tell(Priced(), budget=0.03)
    await again.chat(8)
    assert again.model.requests == []
    assert (await again.memory.thread(THREAD, resource=RESOURCE).status()).cursor > status.cursor
    # Another resource has money of its own; and more money is more calls.
    await again.chat(8, resource="bob")
    assert len(again.model.requests) > 0
    await again.memory.aclose()
    richer = tell(Priced(), budget=0.05)
    await richer.chat(20)
    # Runs that are under way do not know of each other's calls: observer and reflector may each have asked once more.
    assert 2 <= len(richer.model.requests) <= 4


@pytest.mark.parametrize(("scope", "calls"), [("thread", (2, 2, 2)), ("resource", (2, 0, 2)), ("all", (2, 0, 0))])
async def test_whose_money_it_is(tell: Open, scope: str, calls: tuple[int, ...]) -> None:
    """Each thread's, each resource's, or that of the whole database."""
    story = tell(Priced(), budget=0.02, budget_scope=scope)
    made: list[int] = []
    for thread, resource in (("t1", "alice"), ("t2", "alice"), ("t3", "bob")):
        before = len(story.model.requests)
        await story.chat(20, thread=thread, resource=resource)
        made.append(len(story.model.requests) - before)
        assert (await story.memory.thread(thread, resource=resource).status()).budget_left == 0.0
    assert tuple(made) == calls


async def test_without_money_messages_can_wait(tell: Open) -> None:
    """With `wait` nothing else observes: raw messages pile up, the run fails and says why, and money mends it."""
    story = tell(Priced(), budget=0.01, over_budget="wait")
    await story.chat(20)
    status = await story.memory.thread(THREAD, resource=RESOURCE).status()
    assert len(story.model.requests) == 1
    assert (status.health, status.budget_left) == ("failing", 0.0)
    assert status.messages.tokens > 1_200
    assert "is spent" in story.told(RunFailed)[0].error
    assert all(event.run_kind == "observe" for event in story.told(RunEnded))
    await story.memory.aclose()
    story.clock.advance(hours=2)
    richer = tell(Priced(), budget=1.0, over_budget="wait")
    await richer.chat(4)
    status = await richer.memory.thread(THREAD, resource=RESOURCE).observe()
    assert (status.health, status.backlog_tokens) == ("ok", 0)


async def test_what_failed_calls_cost_counts(tell: Open) -> None:
    """An answer that could not be used was paid for all the same."""
    story = tell(Priced(["", "", ""]), budget=1.0)
    await story.chat(4)
    failures = len(story.told(RunFailed))
    assert failures > 0
    status = await story.memory.thread(THREAD, resource=RESOURCE).status()
    assert status.usage.cost == pytest.approx(PRICE * len(story.model.requests))
    assert status.budget_left == pytest.approx(1.0 - status.usage.cost)


# ---------------------------------------------------------------- what a reflector says of the work


def reflecting(*sections: str) -> Callable[[ModelRequest], str]:
    """Return an answer that condenses everything, with these sections behind it."""
    return lambda request: "\n".join([reflection_of(request), *sections])


class Reflecting(ScriptedModel):
    """Observes as ever, and reflects by a script of its own."""

    def __init__(self, *answers: Callable[[ModelRequest], str]) -> None:
        super().__init__()
        self.reflections = list(answers)

    async def complete(self, request: ModelRequest) -> ModelReply:
        if request.purpose == "reflect" and self.reflections:
            self.answers.append(self.reflections.pop(0))
        return await super().complete(request)


async def hints(story: Talk) -> tuple[str | None, str | None]:
    """Return the task and the suggested response of the thread."""
    found = (await (await story.memory.open()).store.threads.get(RESOURCE, THREAD)).hints
    return found.current_task, found.suggested_response


async def test_a_reflection_may_update_the_hints(tell: Open) -> None:
    """Shown where the work stands, it says where it should: off track is told with the way back, once it is activated."""
    answer = reflecting(
        "<off-track>The weather was asked for; talk of rain has drifted. Return to the question.</off-track>",
        "<current-task>answer the question about the weather</current-task>",
    )
    story = tell(Reflecting(answer, answer, answer))
    await story.chat(6)
    await story.memory.thread(THREAD, resource=RESOURCE).observe()
    before = await hints(story)
    story.events.clear()
    await story.memory.thread(THREAD, resource=RESOURCE).reflect()
    asked_for = asked(story.model, "reflect")[0].text
    assert before[0] is not None
    assert f"current task: {before[0]}" in asked_for
    task, response = await hints(story)
    assert task == "answer the question about the weather"
    assert response == (
        "The work has left what was asked for. The weather was asked for; talk of rain has drifted. Return to the question."
    )
    (told,) = story.told(HintsChanged)
    assert (told.current_task, told.suggested_response) == (task, response)
    assert "Return to the question." in (await hold(story.memory, "And now?")).edge_text


async def test_a_reflection_that_says_nothing_of_the_work(tell: Open) -> None:
    """The hints stay as they were, and nobody is told of a change."""
    story = tell(Reflecting(reflecting("<off-track>no</off-track>", "<current-task>unchanged</current-task>")))
    await story.chat(6)
    await story.memory.thread(THREAD, resource=RESOURCE).observe()
    before = await hints(story)
    story.events.clear()
    await story.memory.thread(THREAD, resource=RESOURCE).reflect()
    assert (await story.memory.thread(THREAD, resource=RESOURCE).status()).generation == 1
    assert await hints(story) == before
    assert story.told(HintsChanged) == []


async def test_newer_hints_outlive_a_reflection(tell: Open) -> None:
    """A reflection that was thought about before the newest observation does not overrule it."""
    story = tell(Reflecting(), observation={"buffer_tokens": False})
    await story.chat(6)
    await story.memory.thread(THREAD, resource=RESOURCE).observe()
    store = (await story.memory.open()).store
    snapshot = await store.logs.snapshot(RESOURCE, THREAD, "thread")
    inputs = {
        "groups": [group.id for group in snapshot.groups],
        "generation": 0,
        "thread": THREAD,
        "hinted": snapshot.thread.hints.last_seq,
    }
    run = NewRun(id="late", kind="reflect", thread=None, span=None, inputs=inputs)
    log, now = snapshot.log, story.clock.now()
    (claim,) = await store.runs.start(RESOURCE, log.pk, log.version, [run], owner="me", now=now, lease=60)
    stale = replace(snapshot.thread.hints, current_task="something old")
    made = RunResult(group="r", observations=(), hints=stale, tokens=0, model="m", prompt_version="1")
    await store.runs.finish(RESOURCE, claim, made, now=now)
    await story.chat(2)
    await story.memory.thread(THREAD, resource=RESOURCE).observe()
    newest = await hints(story)
    snapshot = await store.logs.snapshot(RESOURCE, THREAD, "thread")
    row = next(group for group in snapshot.buffered if group.id == "r")
    rendered = Rendered(id="r", text="", tokens=0)
    assert await store.logs.activate_reflection(snapshot, row.pk, row.covers, rendered, now=now) is not None
    assert await hints(story) == newest


async def test_what_a_reflection_no_longer_names_is_listed_and_found(address: str, clock: FakeClock) -> None:
    """With the embedded reflector too: no line is a bare list, and each path is in a line or in one that is listed as dropped."""
    config = Config.from_dict(
        {
            "observation": {"message_tokens": 2_000, "previous_tokens": 200},
            "reflection": {"observation_tokens": 2_000, "target": 0.2, "keep_recent": {"hours": 0, "observations": 0}},
        }
    )
    paths = [f"src/module_{number}/handler_{number}.py" for number in range(90)]
    async with Memory(address, clock=clock, config=config) as memory:
        for path in paths:
            async with memory.thread(THREAD, resource=RESOURCE).turn() as turn:
                await turn.prepare(UserMessage(f"Please look at {path}, it is slow and nobody knows why."))
                await turn.record(AssistantMessage(f"I changed {path}: the cache is used now."))
        await memory.thread(THREAD, resource=RESOURCE).observe()
        await memory.thread(THREAD, resource=RESOURCE).reflect()
        store = (await memory.open()).store
        snapshot = await store.logs.snapshot(RESOURCE, THREAD, "thread")
        lines = await logged(memory)
        dropped = {
            name
            for generation in await memory.thread(THREAD, resource=RESOURCE).history()
            for name in generation.dropped
        }
        gone = [path for path in paths if not any(path.rpartition("/")[2] in line.text for line in lines)]
        for path in gone:
            hits = (await memory.resource(RESOURCE).search(path, sources=("observation", "reflection"))).results
            is_archived = any(line.metadata.get("archived") for line in lines)
            noted = [hit for hit in hits if path in hit.content]
            # What the observer itself did not note is no matter of the reflector.
            assert not noted or is_archived or any(hit.id in dropped for hit in noted), path
        assert dropped
        assert (await memory.thread(THREAD, resource=RESOURCE).status()).dropped == len(dropped)
    assert snapshot.log.generation > 0
    assert not [line for line in lines if line.text.startswith(("Also named: ", "Also mentioned: "))]


async def test_the_embedded_observer_dates_what_is_said_in_other_languages(address: str, clock: FakeClock) -> None:
    """The day before the hour is the day, and no sentence ends in the middle of it."""
    said = (
        "Ich habe den Termin beim Zahnarzt Nr. 17 am 28. Juni 14 Uhr.",
        "Das Treffen mit Frau Weber ist am 2. Juli 9 Uhr in Hamburg.",
    )
    clock.advance(days=88)
    async with Memory(address, clock=clock) as memory:
        async with memory.thread(THREAD, resource=RESOURCE).turn() as turn:
            for text in said:
                await turn.prepare(UserMessage(text))
                await turn.record(AssistantMessage("Notiert."))
        await memory.thread(THREAD, resource=RESOURCE).observe()
        shown = (await hold(memory, "Was steht an?")).system
    assert "Nr. 17 am 28. Juni (meaning 2026-06-28) 14 Uhr" in shown
    assert "2. Juli (meaning 2026-07-02) 9 Uhr" in shown
    assert "2026-06-14" not in shown
    assert "2026-07-09" not in shown
