"""The order of results on every engine: the newest statement of a fact, what the user decided, and what merely repeats it."""

import pytest

from kit.engines import a_memory
from kit.talk import found, store_of
from memolog import AssistantMessage, Memory, NewMessage, ToolCallPart, ToolMessage, UserMessage
from memolog.testing import FakeClock

RESOURCE = "alice"
TALK = (
    "Tell me a joke about penguins.",
    "We watched a film about lighthouse keepers yesterday.",
    "Thanks, that helped.",
)
memory = a_memory()


async def say(memory: Memory, *messages: NewMessage, thread: str = "t") -> None:
    """Save messages."""
    await (await store_of(memory)).messages.save(RESOURCE, thread, list(messages))


@pytest.mark.parametrize("query", ["dev server port", "Which port does the dev server run on?"])
async def test_the_newest_statement_of_a_fact_comes_first(memory: Memory, query: str) -> None:
    """However it is put, whatever was talked about between, and although the assistant repeats the old value."""
    await say(
        memory,
        UserMessage("The dev server runs on port 3000.", id="3000"),
        *map(UserMessage, TALK),
        UserMessage("Something took 3000, so I moved the dev server to port 4000.", id="4000"),
        *map(AssistantMessage, TALK),
        UserMessage("We gave every dev server a port of its own, ours is 5000 now.", id="5000"),
        AssistantMessage("An old note says that the dev server runs on port 3000.", id="old"),
    )
    ids = await found(memory, query, limit=50)
    assert ids[:3] == ["5000", "4000", "3000"]
    assert ids.index("old") > 2


@pytest.mark.parametrize(
    ("query", "old", "new"),
    [
        ("bakery opens", "The bakery opens at six.", "In winter the bakery opens at seven."),
        ("Wann ist der Termin?", "Der Termin ist um neun.", "Wir haben telefoniert, der Termin ist um elf."),
        ("Who leads the design team?", "The design team is led by Marta.", "Good news, Oskar leads the design team."),
        ("favourite coffee", "My favourite coffee is a flat white.", "My favourite coffee is now a plain espresso."),
    ],
)
async def test_a_change_is_found_in_a_long_message(memory: Memory, query: str, old: str, new: str) -> None:
    """What counts is the sentence that states it, whatever stands around it: a number, a name, or a word of change."""
    around = "We watched a film about lighthouse keepers yesterday, and it was a long evening for all of us."
    await say(
        memory,
        UserMessage(f"{around} {old} Please shorten the letter for me.", id="old"),
        *map(UserMessage, TALK),
        UserMessage(f"Thanks, that helped. {around} {new} Can you look at the other letter, too?", id="new"),
    )
    ids = await found(memory, query, limit=50)
    assert ids.index("new") < ids.index("old")


@pytest.mark.parametrize(
    ("query", "first", "later"),
    [
        (
            "pottery class",
            "I take a pottery class on Friday at 18:30, pottery class!",
            ["Since the pottery class is on Friday at 18:30, I cannot come to dinner with you all."],
        ),
        ("gate code", "They changed the gate code, it is 9052.", ["What was the gate code again?"]),
        (
            "staging database password",
            "The staging database has the password bluewhale.",
            ["The staging server was slow today.", "The database of the shop is full."],
        ),
    ],
    ids=["the same value again", "a question", "other facts"],
)
async def test_what_comes_later_is_not_always_newer(memory: Memory, query: str, first: str, later: list[str]) -> None:
    """A repetition of the value, a question, and messages about something else do not come before the statement."""
    await say(
        memory,
        UserMessage("The gate code is 4417.", id="old"),
        UserMessage(first, id="first"),
        *map(UserMessage, TALK),
        *map(UserMessage, later),
    )
    assert (await found(memory, query))[0] == "first"


async def test_facts_of_two_threads_stay_apart(memory: Memory) -> None:
    """Each conversation has its own newest statement."""
    await say(memory, UserMessage("The gate code is 4417 here, gate code!", id="a1"), thread="a")
    await say(memory, UserMessage("The gate code is 1111.", id="b1"), thread="b")
    await say(memory, UserMessage("The gate code changed to 2222.", id="b2"), thread="b")
    ids = await found(memory, "gate code")
    assert ids.index("b2") < ids.index("b1")


async def test_the_newest_line_of_the_log_comes_first(address: str, clock: FakeClock) -> None:
    """Lines of the log that state one fact are ordered like messages."""
    async with Memory(address, clock=clock) as memory:
        for text in ("The gate gate code is 4417.", "The new gate code is 9052, they changed it."):
            await say(memory, UserMessage(text))
            await memory.thread("t", resource=RESOURCE).observe()
            clock.advance(days=1)
        answer = await memory.resource(RESOURCE).search("gate code", sources=["observation"])
    assert ["9052" in result.content for result in answer.results] == [True, False]


async def test_a_decision_comes_before_what_repeats_its_words(memory: Memory) -> None:
    """Edits, calls and output hold the words more often; the user decided."""
    await say(
        memory,
        UserMessage("Now the late fee: 50 cents a day, and never more than 8 euros a loan.", id="decision"),
        AssistantMessage(
            [
                ToolCallPart(
                    id="c1", name="edit", arguments={"content": "def late_fee(): LATE_FEE = 50; LATE_FEE_CAP = 800"}
                )
            ],
            id="edit",
        ),
        ToolMessage("c1", "late_fee late_fee ok: late fee saved, late fee checked", id="output"),
        AssistantMessage("late_fee() is in: late fee 50, late fee cap 800.", id="report"),
        *map(UserMessage, TALK),
        UserMessage("How much is the late fee a day, and what is the most late fee?", id="question"),
    )
    assert (await found(memory, "late fee"))[0] == "decision"
    # Who names the function looks for the code.
    assert (await found(memory, "late_fee()"))[0] != "decision"
