"""What a reflection may leave out, and what outlives it: on every engine, through the public calls."""

import re
from collections.abc import Callable
from dataclasses import replace

from kit.talk import Story, hold, listen, logged, of_kind
from memolog import AssistantMessage, Config, ToolCallPart, ToolMessage, UserMessage
from memolog.core.observation import Observation
from memolog.events import Degraded, GenerationMade, RunEnded, RunFailed
from memolog.memory import Memory
from memolog.observer.model import ModelRequest
from memolog.testing import FakeClock, ScriptedModel

CONFIG = Config.from_dict(
    {
        "observation": {"message_tokens": 1_000, "previous_tokens": 200},
        "reflection": {"observation_tokens": 1_000, "keep_recent": {"hours": 0, "observations": 0}},
        "activate_after_idle": False,
    }
)
FACTS = (
    "I am allergic to peanuts",
    "Never use an ORM in this project",
    "All money is kept in integer cents",
    "My sister Anna Weber lives in 大阪",
    "The release is on 2026-05-04 at 14:30",
)
WORK = "and this line goes on for a while so that there is something to condense in it"


def observer(request: ModelRequest) -> str:
    """Note what users say as 🔴, and a file for everything else."""
    lines: list[str] = []
    for number, role, text in re.findall(
        r"<message>\[(\d+)\] \S+ (\w+)[^\n]*\n(.*?)\n</message>", request.text, re.DOTALL
    ):
        said = text.strip()
        stated = said if said.startswith("Name") else f"User said: {said}"
        line = f"🔴 {stated}" if role == "user" else f"🟡 Assistant wrote src/part{number}.py, {WORK}"
        lines.append(f"* {line} [{number}]")
    return "<observations>\n" + "\n".join(lines) + "\n</observations>"


def shown(request: ModelRequest) -> list[str]:
    """Return the short ids that a reflector was shown."""
    return list(dict.fromkeys(re.findall(r"^\s*(o\d+) ", request.text, re.MULTILINE)))


def in_one(text: str, mark: str = "🟡") -> Callable[[ModelRequest], str]:
    """Return a reflector that puts everything in one line."""
    return lambda request: f"<observations>\n* {mark} {text} [{', '.join(shown(request))}]\n</observations>"


def as_they_are(request: ModelRequest) -> str:
    """Answer with the lines as they were shown: a reflector that finds nothing to leave out."""
    lines = re.findall(r"^\s*(o\d+) (.*)$", request.text.split("</log>")[0], re.MULTILINE)
    return "<observations>\n" + "\n".join(f"* {text} [{name}]" for name, text in lines) + "\n</observations>"


class Talk(Story):
    """A story whose reflector answers as given."""

    def __init__(self, address: str, clock: FakeClock, reflector: Callable[[ModelRequest], str]) -> None:
        def reply(request: ModelRequest) -> str:
            return observer(request) if request.purpose == "observe" else reflector(request)

        super().__init__(address, clock, ScriptedModel([reply] * 500), config=CONFIG)

    @property
    def asked(self) -> list[ModelRequest]:
        """Return what the reflector was asked."""
        return [request for request in self.model.requests if request.purpose == "reflect"]

    async def tell(self, facts: tuple[str, ...] = FACTS, answers: int = 3) -> None:
        """Say facts and have them observed."""
        for fact in facts:
            async with self.memory.thread("t1", resource="alice").turn() as turn:
                await turn.prepare(UserMessage(fact))
                await turn.record(*(AssistantMessage(f"Part {n} is written.") for n in range(answers)))
        await self.memory.thread("t1", resource="alice").observe()

    async def log(self) -> str:
        """Return the log as a model sees it."""
        async with self.memory.thread("t1", resource="alice").turn() as turn:
            text = (await turn.prepare()).render()
            await turn.discard()
        return text


async def test_no_statement_disappears(address: str, clock: FakeClock) -> None:
    """A reflector that says hardly anything is asked once more; then what the user said is carried over unchanged."""
    story = Talk(address, clock, in_one("User told some things about src/part2.py", "🔴"))
    async with story.memory:
        await story.tell()
        before = await story.log()
        await story.memory.thread("t1", resource="alice").reflect()
        after = await story.log()
        made = (await story.memory.thread("t1", resource="alice").history())[-1]
        assert made.kind == "reflection"
        assert [fact for fact in FACTS if f"🔴 (09:00) User said: {fact}" not in after] == []
        assert len(after) < len(before)
        assert "Also " not in after
        # Once for the answer, once for what it does not say.
        assert len(story.asked) == 2
        assert "no longer says these lines" in story.asked[1].text
        assert "User said: Never use an ORM in this project" in story.asked[1].text.split("<missing>")[1]
        ended = next(event for event in story.told(RunEnded) if event.run_kind == "reflect")
        assert {"carried_over", "lost"} <= set(ended.faults)


async def test_what_is_dropped_is_counted_found_and_restored(address: str, clock: FakeClock) -> None:
    """Lines whose files no line names any more are listed in the generation, whatever claims to stand for them."""
    story = Talk(address, clock, in_one("Assistant wrote several parts, among them src/part2.py"))
    async with story.memory as memory:
        await story.tell()
        assert (await memory.thread("t1", resource="alice").status()).dropped == 0
        await memory.thread("t1", resource="alice").reflect()
        made = (await memory.thread("t1", resource="alice").history())[-1]
        log = await story.log()
        gone = sorted(
            {f"src/part{n}.py" for n in range(2, 21) if n % 4 != 1} - set(re.findall(r"src/part\d+\.py", log))
        )
        assert "src/part3.py" in gone
        assert "src/part2.py" not in gone
        found = {
            hit.id
            for name in gone
            for hit in (await memory.resource("alice").search(name, sources="observation")).results
        }
        assert found >= set(made.dropped)
        assert len(made.dropped) == len(gone)
        assert (await memory.thread("t1", resource="alice").status()).dropped == len(gone)
        (event,) = [event for event in story.told(GenerationMade) if event.generation_kind == "reflection"]
        assert event.dropped == len(gone)
        await memory.thread("t1", resource="alice").restore(0)
        assert (await memory.thread("t1", resource="alice").status()).dropped == 0
        log = await story.log()
        assert [name for name in gone if name not in log] == []
        assert (await memory.doctor()).is_healthy


async def test_a_second_answer_that_says_it_is_taken(address: str, clock: FakeClock) -> None:
    """What the reflector mends itself is not carried over."""

    def answer(request: ModelRequest) -> str:
        if "<missing>" not in request.text:
            return in_one("User told some things", "🔴")(request)
        named = re.findall(r"^- (o\d+) 🔴 (.*)$", request.text, re.MULTILINE)
        rest = [name for name in shown(request) if name not in dict(named)]
        lines = [f"* 🔴 {text} [{name}]" for name, text in named]
        names = ", ".join(re.findall(r"^- (src/\S+)$", request.text, re.MULTILINE))
        return "<observations>\n" + "\n".join([*lines, f"* 🟡 Wrote {names} [{', '.join(rest)}]"]) + "\n</observations>"

    story = Talk(address, clock, answer)
    async with story.memory as memory:
        await story.tell()
        await memory.thread("t1", resource="alice").reflect()
        made = (await memory.thread("t1", resource="alice").history())[-1]
        ended = next(event for event in story.told(RunEnded) if event.run_kind == "reflect")
        assert {"carried_over", "lost"}.isdisjoint(ended.faults)
        assert made.dropped == ()
        log = await story.log()
        assert [fact for fact in FACTS if fact not in log] == []


async def test_many_lines_in_one_vague_one_are_refused(address: str, clock: FakeClock) -> None:
    """The run fails and is tried again; after some tries the embedded reflector does it."""
    config = {"reflection.observation_tokens": 20_000, "observation.message_tokens": 20_000}
    asked: list[ModelRequest] = []

    def reply(request: ModelRequest) -> str:
        if request.purpose == "reflect":
            asked.append(request)
            return in_one("The work went on")(request)
        numbers = re.findall(r"<message>\[(\d+)\]", request.text)
        lines = [f"* 🟡 Assistant built feature{n} for screen{n} with widget{n} and panel{n} [{n}]" for n in numbers]
        return "<observations>\n" + "\n".join(lines) + "\n</observations>"

    model = ScriptedModel([reply] * 500)
    async with Memory(address, model=model, config=CONFIG.with_overrides(config), clock=clock) as memory:
        events = listen(memory)
        async with memory.thread("t1", resource="alice").turn() as turn:
            await turn.prepare(UserMessage("go on"))
            await turn.record(*(AssistantMessage(f"Feature {n} is built.") for n in range(40)))
        await memory.thread("t1", resource="alice").observe()
        await memory.thread("t1", resource="alice").reflect()
        assert "say hardly anything of them" in asked[1].text
        assert len(await memory.thread("t1", resource="alice").history()) == 1
        (failed,) = of_kind(events, RunFailed)
        assert "hardly any of their details" in failed.error


def relatives(first: int, last: int) -> tuple[str, ...]:
    """Return statements that nobody can shorten."""
    return tuple(f"Name{n} keeps {n} dogs near Town{n}, beyond River{n} and Hill{n}" for n in range(first, last))


async def test_a_log_that_cannot_shrink_is_left_alone(address: str, clock: FakeClock) -> None:
    """The next reflection comes once the log has grown by a tenth; no turn waits, and nothing counts as a failure."""
    story = Talk(address, clock, as_they_are)
    async with story.memory as memory:
        facts = relatives(0, 30)
        await story.tell(facts, answers=0)
        await memory.settled()
        status = await memory.thread("t1", resource="alice").status()
        assert (status.health, status.failures, status.generation) == ("ok", 0, 0)
        assert 0.5 < status.observations.tokens / status.observations.limit < 0.9
        assert [event.run_kind for event in story.told(RunFailed)] == ["reflect"]
        asked = len(story.asked)
        await story.tell(("Fine.",), answers=0)
        assert len(story.asked) == asked
        await story.tell(relatives(30, 38), answers=0)
        await story.log()
        await memory.settled()
        assert len(story.asked) > asked
        log = await story.log()
        assert [fact for fact in facts if fact not in log] == []
        # By hand it is tried at once, and ends.
        asked = len(story.asked)
        await memory.thread("t1", resource="alice").reflect()
        assert len(story.asked) > asked
        assert (await memory.thread("t1", resource="alice").status()).generation == 0


async def test_statements_that_no_longer_fit_go_to_the_archive(address: str, clock: FakeClock) -> None:
    """The oldest leave the prefix; a line a subject says how many they are, and they count as kept."""
    story = Talk(address, clock, as_they_are)
    async with story.memory as memory:
        for start in range(0, 90, 10):
            await story.tell(relatives(start, start + 10), answers=0)
            await story.log()
            await memory.settled()
            clock.advance(days=1)
        status = await memory.thread("t1", resource="alice").reflect()
        if status.observations.tokens >= 1.1 * status.observations.limit:
            # A reflection that was begun before the last lines came leaves them out; the next one has them.
            status = await memory.thread("t1", resource="alice").reflect()
        log = await story.log()
        told_of = re.findall(r"Archive: (\d+) statements? about [\w ]+, (\S+) to (\S+);", log)
        shown_facts = [fact for fact in relatives(0, 90) if fact in log]
        assert min(day for _, day, _ in told_of) == "2026-03-14"
        assert sum(int(count) for count, _, _ in told_of) > 1
        assert 0 < len(shown_facts) < 90
        assert shown_facts[-1] == relatives(89, 90)[0]
        assert relatives(0, 1)[0] not in log
        assert (status.dropped, status.failures, status.health) == (0, 0, "ok")
        assert status.observations.tokens < 1.1 * status.observations.limit
        hits = (await memory.resource("alice").search("Name0 keeps dogs", sources="observation")).results
        assert any("Name0 " in hit.content for hit in hits)
        await memory.thread("t1", resource="alice").restore(0)
        log = await story.log()
        assert [fact for fact in relatives(0, 90) if fact not in log] == []
        assert (await memory.doctor()).is_healthy


async def test_a_second_reflection_leaves_the_first_as_it_is(address: str, clock: FakeClock) -> None:
    """While the log fits, only what is new is condensed, so that contexts begin as before. Nothing is lost by that."""
    story = Talk(address, clock, in_one("Assistant wrote the parts of the program"))
    async with story.memory as memory:
        thread, found = memory.thread("t1", resource="alice"), list[list[str]]()
        for number in range(40):
            await story.tell((f"Name{number} keeps {number} dogs near Town{number}",), answers=12)
            await memory.settled()
            clock.advance(days=1)
            found.append(re.findall(r"<reflection .*?</reflection>", await story.log(), re.DOTALL))
        several = next(reflections for reflections in found if len(reflections) > 1)
        before = found[found.index(several) - 1]
        assert len(before) == 1
        assert several[0] == before[0]
        log = await story.log()
        assert [n for n in range(40) if f"Name{n} keeps {n} dogs near Town{n}" not in log] == []
        await thread.restore(0)
        assert "<reflection " not in await story.log()
        assert (await memory.doctor()).is_healthy


async def test_a_log_that_the_model_cannot_condense_is_reported_once(address: str, clock: FakeClock) -> None:
    """It is reported again only after the model has condensed the log meanwhile."""
    reflector = [as_they_are]

    def reflect(request: ModelRequest) -> str:
        return reflector[0](request)

    story = Talk(address, clock, reflect)

    async def reported(first: int, last: int) -> list[str]:
        before, ended = len(story.told(Degraded)), len(story.told(RunEnded))
        for start in range(first, last, 10):
            await story.tell(relatives(start, start + 10), answers=4)
            await story.log()
            await memory.settled()
            clock.advance(days=1)
        kinds = [event.run_kind for event in story.told(RunEnded)[ended:]]
        assert kinds.count("reflect") > 1
        return [event.what for event in story.told(Degraded)[before:]]

    async with story.memory as memory:
        assert await reported(0, 120) == ["condensing the log"]
        reflector[0] = lambda request: as_they_are(request).replace(f", {WORK}", "")
        assert await reported(120, 180) == []
        reflector[0] = as_they_are
        assert await reported(180, 300) == ["condensing the log"]


async def test_a_shared_log_is_in_the_order_of_time(address: str, clock: FakeClock) -> None:
    """However the reflector orders its lines, and whichever thread was observed first; each line keeps its own zone."""
    changes = {"scope": "resource", "reflection.observation_tokens": 20_000}

    def backwards(request: ModelRequest) -> str:
        return "\n".join(reversed(as_they_are(request).splitlines()[1:-1])).join(
            ("<observations>\n", "\n</observations>")
        )

    def reply(request: ModelRequest) -> str:
        if request.purpose == "reflect":
            return backwards(request).replace(f", {WORK}", "")
        names = re.findall(r'^<thread id="(\S+)">$', request.text, re.MULTILINE)
        parts = re.split(r'^<thread id="\S+">$', request.text, flags=re.MULTILINE)[1:]
        told = zip(names, parts, strict=True)
        answers = [f'<thread id="{name}">\n{observer(replace(request, text=text))}\n</thread>' for name, text in told]
        return "\n".join(answers) if answers else observer(request)

    config = CONFIG.with_overrides(changes)
    async with Memory(address, model=ScriptedModel([reply] * 100), config=config, clock=clock) as memory:
        for number, (thread, zone) in enumerate(
            [("b", "Asia/Tokyo"), ("a", "Europe/Berlin"), ("b", "America/New_York"), ("a", "Europe/Berlin")] * 2
        ):
            await hold(memory, f"My fact number {number} is here", "Noted.", thread=thread, zone=zone)
            clock.advance(minutes=7)
        await memory.thread("a", resource="alice").observe()
        await memory.thread("b", resource="alice").observe()
        await memory.thread("a", resource="alice").reflect()
        store = (await memory.open()).store
        snapshot = await store.logs.snapshot("alice", "a", "resource")
        text = snapshot.groups[0].text
    assert snapshot.groups[0].kind == "reflection"
    assert re.findall(r"fact number (\d)", text) == [str(number) for number in range(8)]
    assert text.count("Date: ") == 1
    assert "(18:00) t1: User said: My fact number 0" in text.replace("t2: ", "t1: ")
    assert "(10:07) " in text
    assert "(05:14) " in text


# ---------------------------------------------------------------- modes


async def test_observations_carry_their_mode(address: str, clock: FakeClock) -> None:
    """Whatever a reply says about it; a field that nobody knows is kept."""
    reply = "<observations>\n* 🟡 Assistant fixed it {category=change; mode=forged; owner=Anna} [2]\n</observations>"
    config = CONFIG.with_overrides({"mode": "bug_fixing"})
    async with Memory(address, model=ScriptedModel([reply]), config=config, clock=clock) as memory:
        await hold(memory, "Fix it", "Fixed.")
        await memory.thread("t1", resource="alice").observe()
        (line,) = await logged(memory)
    assert (line.mode, line.metadata, line.category) == (
        "bug_fixing",
        {"mode": "bug_fixing", "owner": "Anna"},
        "change",
    )


async def test_the_embedded_observer_looks_for_what_the_mode_names(address: str, clock: FakeClock) -> None:
    """An error in a result becomes a line with its fields; the default mode does not look for it."""
    found: dict[str, list[Observation]] = {}
    for mode in ("default", "debugging"):
        config = CONFIG.with_overrides({"mode": mode, "observation.message_tokens": 1_000})
        async with Memory(address, config=config, clock=clock) as memory:
            async with memory.thread(mode, resource="alice").turn() as turn:
                await turn.prepare(UserMessage("Why is the report empty?"))
                call = ToolCallPart(id="c", name="run_report", arguments={"month": "march"})
                await turn.record(AssistantMessage(["I run it.", call]))
                printed = "started\nstep 1 ok\nKeyError: 'vat' at report.py:41\nstopped"
                await turn.record(ToolMessage("c", printed, name="run_report"))
                await turn.record(AssistantMessage("The table has no such column."))
            await memory.thread(mode, resource="alice").observe()
            found[mode] = await logged(memory, mode)
    errors = [line for line in found["debugging"] if line.metadata.get("error_type") == "KeyError"]
    assert errors
    assert (errors[0].category, errors[0].metadata["stack_trace"], errors[0].mode) == (
        "error",
        "report.py:41",
        "debugging",
    )
    assert [line for line in found["default"] if "error_type" in line.metadata] == []
    assert {line.mode for line in found["default"]} == {"default"}
