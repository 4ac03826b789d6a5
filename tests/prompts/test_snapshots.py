"""The prompts as they are sent, word for word.

When a prompt changes on purpose, run the tests once with MEMOLOG_SNAPSHOTS=write, read the difference, and raise the edition
in `prompt.py` if the meaning changed.
"""

import os
from collections.abc import Callable
from datetime import date
from pathlib import Path

import pytest

from memolog.core.observation import Observation, Source, Span
from memolog.core.thread import Hints
from memolog.observer.prompt import (
    MODES,
    PROMPT_VERSION,
    VOICES,
    Gaps,
    ObserveInput,
    Prompt,
    ReflectInput,
    observer_batch_prompt,
    observer_prompt,
    observer_system,
    reflector_prompt,
)
from memolog.text.tokens import HeuristicCounter
from prompts.talk import START, TALK, ZONE, message

FOLDER = Path(__file__).parent / "snapshots"
COUNTER = HeuristicCounter()

PREVIOUS = "Date: 2026-03-13\n* 🔴 (17:02) User bakes in Ghent <Belgium>\n* (17:10) rates.csv was bought in 2024"
HINTS = Hints(current_task="repair the VAT total", title="VAT of bread", suggested_response="read rates.csv")


def line(ordinal: int, text: str, thread: str = "thread-1", **fields: object) -> Observation:
    """Return a line of the log."""
    values: dict[str, object] = {"said_at": START, "priority": "medium", **fields}
    source = Source(thread=thread, span=Span(first=1, last=2))
    return Observation(id=f"id-{ordinal}", group="g", ordinal=ordinal, text=text, sources=(source,), **values)  # pyright: ignore[reportArgumentType]


LOG = (
    line(0, "User bakes in Ghent <Belgium> & sells bread", priority="high"),
    line(1, "Assistant read rates.csv"),
    line(2, "row 12: bread;19", parent=1),
    line(3, "Agreed opening of the letter", verbatim="Dear <tax> office,\nplease", thread="thread-2"),
    line(
        4, "User files the return next Friday", priority="high", about=date(2026, 3, 20), said_at=START.replace(day=15)
    ),
    line(
        5,
        "Total is right (meaning 2026-03-15)",
        priority="done",
        about=date(2026, 3, 15),
        said_at=START.replace(day=15),
    ),
)

SPAN = ObserveInput(messages=TALK, previous=PREVIOUS, hints=HINTS, zone=ZONE)

PROMPTS: dict[str, Callable[[], Prompt]] = {
    "observer": lambda: observer_prompt(SPAN, COUNTER),
    "observer_first": lambda: observer_prompt(
        ObserveInput(messages=TALK[:1], mode="research", voice="general", custom="Answer in French."), COUNTER
    ),
    "observer_batch": lambda: observer_batch_prompt(
        [SPAN, ObserveInput(messages=(message(1, "user", "Any news?", thread="thread-2"),), alias='t2"<', zone=ZONE)],
        COUNTER,
    ),
    "reflector": lambda: reflector_prompt(ReflectInput(observations=LOG, target_tokens=20_000, zone=ZONE)),
    "reflector_again": lambda: reflector_prompt(
        ReflectInput(
            observations=LOG,
            target_tokens=12_000,
            level=3,
            gaps=Gaps(names=("rates.csv", "<b>")),
            hints=HINTS,
            aliases={"thread-1": "t1", "thread-2": "t2"},
            custom="Keep amounts.",
        )
    ),
}


def check(name: str, text: str) -> None:
    """Compare a text with its snapshot, or write it when asked to."""
    path = FOLDER / f"{name}.txt"
    if os.environ.get("MEMOLOG_SNAPSHOTS") == "write":
        path.write_text(text, "utf-8")
    assert path.is_file(), f"there is no snapshot {name}; see the top of this file"
    assert text == path.read_text("utf-8")


@pytest.mark.parametrize("name", PROMPTS)
def test_prompts_are_as_they_were(name: str) -> None:
    """A prompt changes only on purpose."""
    prompt = PROMPTS[name]()
    check(name, f"{prompt.system}\n\n{'=' * 100}\n\n{prompt.text}\n")


@pytest.mark.parametrize("mode", MODES)
def test_instructions_are_as_they_were(mode: str) -> None:
    """The instructions of each mode and voice, where they differ."""
    parts = [observer_system(mode, voice).partition("# Setting") for voice in VOICES]
    check(f"mode_{mode}", "\n\n".join(f"{heading}{rest}" for _, heading, rest in parts) + "\n")


def test_the_version_follows_the_wording() -> None:
    """A changed word is a changed version: runs of the two can be told apart."""
    check("version", f"{PROMPT_VERSION}\n")
