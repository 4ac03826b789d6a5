"""The loss guard: no identifier disappears in a reflection without a trace."""

from collections.abc import Callable
from typing import Any

import pytest

from conftest import FakeClock
from memolog import AssistantMessage, Config, ObservationConfig, ReflectionConfig, UserMessage
from memolog.config.kinds import KeepRecent
from memolog.domain.observation import Observation, Priority
from memolog.grounding import keep_line, lost
from memolog.runtime.events import Event, RunEnded
from memolog.runtime.memory import Memory
from memolog.runtime.model import ModelRequest
from memolog.testing import ScriptedModel, reflection_of
from memolog.tokens import HeuristicCounter


def line(text: str, priority: Priority = "medium", ordinal: int = 1, **fields: Any) -> Observation:
    """Return an observation."""
    return Observation(id=f"o{ordinal}", group="g", ordinal=ordinal, priority=priority, text=text, **fields)


def test_what_no_line_names_is_lost() -> None:
    """Paths, symbols, versions, names and numbers are missed; what is written otherwise is not."""
    lines = (
        line("Added LoginSchema in src/schemas/auth.ts for Anna Schmidt"),
        line("Upgraded to v1.2.3 with npm test: 42 passed, 1,500 ms", ordinal=2),
    )
    result = ["Anna Schmidt's login_schema is in /repo/src/schemas/auth.ts; 1500 ms"]
    assert lost(lines, result) == ("npm test", "v1.2.3", "42 passed")
    assert lost(lines, [lines[0].text, lines[1].text]) == ()


def test_the_most_valuable_is_first() -> None:
    """What the user said comes before what was noted beside it; a path before a number."""
    lines = (
        line("Saw 4096 entries in low.txt", "low"),
        line("Looked at mid.txt", ordinal=2),
        line("User wants 77 copies of top.txt", "high", ordinal=3),
        line("Draft", "high", ordinal=4, verbatim="see verse.txt"),
    )
    assert lost(lines, ["nothing"]) == (
        "top.txt", "77 copies", "mid.txt", "low.txt", "4096 entries", "verse.txt",
    )  # fmt: skip


def test_small_counts_dates_and_quotes_are_not_missed() -> None:
    """They name nothing: a line's own date tells the day, and what is named inside a quote is looked for itself."""
    lines = (line('Tried 3 times on 2026-03-14, said "no luck with auth.ts"'),)
    assert lost(lines, ["it failed"]) == ("auth.ts",)


def test_each_name_is_told_once() -> None:
    """A name in ten lines is one loss, as valuable as its best line."""
    lines = [line("Read auth.ts", "low", ordinal=place) for place in range(1, 10)]
    lines.append(line("Fix auth.ts", "high", ordinal=10))
    lines.append(line("Fix other.ts", "medium", ordinal=11))
    assert lost(lines, [""]) == ("auth.ts", "other.ts")


@pytest.mark.parametrize("most", [0, 3, 5, 9, 14, 1_000])
def test_the_line_keeps_within_its_tokens_and_nothing_falls_between(most: int) -> None:
    """What is not in the line is in the rest, in order."""
    counter = HeuristicCounter()
    names = ("src/schemas/auth.ts", "LoginSchema", "a-very-long-name-that-will-not-fit-in-many-a-line.txt", "42 passed")
    text, rest = keep_line(names, most, counter)
    assert counter.count(text) <= most
    kept = [name for name in names if name not in rest]
    assert text == (f"Also mentioned: {', '.join(kept)}" if kept else "")
    assert [name for name in names if name in rest] == list(rest)
    assert bool(kept) == (most > 5)


def test_a_counter_that_does_not_add_up_is_obeyed() -> None:
    """The line as a whole has the last word: a counter may charge more for the whole than for its parts."""

    class Steep:
        def count(self, text: str) -> int:
            return len(text.split()) ** 2

    text, rest = keep_line([f"n{place}" for place in range(20)], 30, Steep())
    assert Steep().count(text) <= 30
    assert text.startswith("Also mentioned: n0")
    assert rest[-1] == "n19"


# ---------------------------------------------------------------- through the engine

CONFIG = Config(
    observation=ObservationConfig(message_tokens=1_000, previous_tokens=200),
    reflection=ReflectionConfig(observation_tokens=1_000, keep_recent=KeepRecent(hours=0, observations=0)),
)
WORDS = "and this line goes on for a while so that there is something to condense in it"


def observer(request: ModelRequest) -> str:
    """Note a file and a number for every message."""
    numbers = [part.split("]")[0] for part in request.text.split("\n<message>[")[1:]]
    lines = "\n".join(f"* 🟡 Assistant wrote src/part{n}.py on port 80{int(n):02}, {WORDS} [{n}]" for n in numbers)
    return f"<observations>\n{lines}\n</observations>"


async def reflected(
    answer: Callable[[ModelRequest], str], **changes: Any
) -> tuple[list[Observation], list[ModelRequest], Event]:
    """Return what a reflection made of a short conversation, what the reflector was asked, and how the run ended."""
    requests: list[ModelRequest] = []
    events: list[Event] = []

    def reply(request: ModelRequest) -> str:
        if request.purpose == "observe":
            return observer(request)
        requests.append(request)
        return answer(request)

    model = ScriptedModel([reply] * 100)
    clock = FakeClock()
    async with Memory(":memory:", model=model, config=CONFIG.with_overrides(changes), clock=clock) as memory:
        memory.subscribe(events.append)
        async with memory.turn("t1", "alice") as turn:
            await turn.prepare(UserMessage("please write the parts"))
            await turn.record(*(AssistantMessage(f"part {number} is written") for number in range(12)))
        await memory.observe("t1", "alice")
        await memory.reflect("t1", "alice")
        await memory.settled()
        kit = await memory.open()
        snapshot = await kit.store.logs.snapshot("alice", "t1", "thread")
        names = [group.id for group in (*snapshot.groups, *snapshot.buffered)]
        lines = await kit.store.logs.observations(snapshot.log.pk, names)
    ended = next(event for event in events if isinstance(event, RunEnded) and event.run_kind == "reflect")
    made = [one for one in lines if one.merges]
    return made, requests, ended


async def test_the_reflector_is_asked_once_more_for_what_it_lost() -> None:
    """The second question names what is missing, and an answer that has it needs no help of ours."""

    def answer(request: ModelRequest) -> str:
        if "<missing>" not in request.text:
            return reflection_of(request)
        names = [row[2:] for row in request.text.split("<missing>")[1].split("\n") if row.startswith("- ")]
        return reflection_of(request).replace("in short", f"in short: {', '.join(names)}")

    made, requests, ended = await reflected(answer)
    assert len(requests) == 2
    assert "- src/part1.py" in requests[1].text
    assert [one.priority for one in made] == ["high"]
    assert "src/part12.py" in made[0].text
    assert isinstance(ended, RunEnded)
    assert "lost" not in ended.faults


async def test_what_is_lost_twice_is_appended_by_code() -> None:
    """One line of low priority names it, stands for the lines it came from, and says so as a fault of the run."""
    made, requests, ended = await reflected(reflection_of)
    assert len(requests) == 2
    assert [one.priority for one in made] == ["high", "low"]
    assert made[1].text.startswith("Also mentioned: src/part")
    assert made[1].ordinal == 2
    assert HeuristicCounter().count(made[1].text) <= 100
    assert set(made[1].merges) <= set(made[0].merges)
    assert made[1].sources
    assert isinstance(ended, RunEnded)
    assert "lost" in ended.faults


async def test_what_has_no_room_stays_searchable() -> None:
    """Between the lines and the metadata of the last one, every name is somewhere."""
    made, _, _ = await reflected(reflection_of, **{"reflection.observation_tokens": 400})
    rest = made[-1].metadata["dropped_identifiers"]
    everything = f"{made[-1].text} {' '.join(rest)}"
    named = [f"src/part{place}.py" for place in range(1, 14)] + [f"port 80{place:02}" for place in range(1, 14)]
    assert [name for name in named if name not in everything] == []
    assert rest


async def test_a_second_answer_that_is_worse_is_not_taken() -> None:
    """A model that fails when asked again costs nothing of the first answer."""

    def answer(request: ModelRequest) -> str:
        return "" if "<missing>" in request.text else reflection_of(request)

    made, _, _ = await reflected(answer)
    assert made[0].text == "All of it, in short"
    assert made[-1].text.startswith("Also mentioned: ")


async def test_the_reflection_stays_smaller_than_what_it_stands_for() -> None:
    """What is appended never makes memory larger."""
    made, _, _ = await reflected(reflection_of)
    before = sum(HeuristicCounter().count(f"Assistant wrote src/part1.py on port 8001, {WORDS}") for _ in range(13))
    assert sum(one.tokens for one in made) < before
