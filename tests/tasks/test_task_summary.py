"""The drafted summary of a task: which lines it takes, in which order, and what it cites."""

from datetime import UTC, datetime
from typing import Any

from memolog.core.observation import Observation, Priority, Source, Span
from memolog.tasks.calls import draft
from memolog.tasks.task import Task

NOW = datetime(2026, 3, 14, 9, 0, tzinfo=UTC)
TASK = Task(id="1", handle="T-1", resource="alice", title="Stop double bookings", created_at=NOW, updated_at=NOW)


def line(number: int, text: str, priority: Priority = "medium", **fields: Any) -> Observation:
    """Return a line that cites the message of its number."""
    values: dict[str, Any] = {"id": f"o{number}", "sources": (cites(number, number),), **fields}
    return Observation(group="g", ordinal=number, priority=priority, text=text, **values)


def cites(first: int, last: int) -> Source:
    """Return a citation."""
    return Source(thread="api", span=Span(first=first, last=last))


def test_what_only_names_is_not_quoted() -> None:
    """A line that names what a reflection left out says nothing about the task."""
    made = draft(
        TASK, [line(1, "Also named: 7, 38, api.py"), line(2, "User: keep it", "high"), line(3, "Also mentioned: 9")]
    )
    assert made.text == "Stop double bookings:\n* User: keep it [1]"
    assert made.sources == (("api", 2, 2),)


def test_what_only_names_is_better_than_nothing() -> None:
    """Where there is nothing else, it is quoted."""
    assert draft(TASK, [line(1, "Also named: api.py")]).text.endswith("* Also named: api.py [1]")


def test_the_end_tells_what_came_of_it() -> None:
    """The latest lines are taken, users' words beside what was found, in the order in which they were said."""
    lines = [line(n, f"User: {n}", "high") if n % 2 else line(n, f"-> {n}") for n in range(1, 9)]
    assert draft(TASK, lines, most=4).text.splitlines()[1:] == [
        "* User: 5 [1]",
        "* -> 6 [2]",
        "* User: 7 [3]",
        "* -> 8 [4]",
    ]


def test_an_answer_tells_more_than_a_tool_and_a_request_least() -> None:
    """Of what was found, the assistant's words come before a tool's output, and what was asked for comes last."""
    lines = [
        line(1, "-> the table refuses overlaps"),
        line(2, "run pytest: 33 passed", trust="tool"),
        line(3, "asked: please fix it", category="request"),
    ]
    assert draft(TASK, lines, most=1).sources == (("api", 1, 1),)
    assert draft(TASK, lines, most=2).sources == (("api", 1, 1), ("api", 2, 2))
    assert len(draft(TASK, lines, most=3).sources) == 3


def test_what_was_confirmed_is_said_once() -> None:
    """A user's words that confirm the work are not repeated as a statement of theirs."""
    confirmed = (cites(2, 3),)
    lines = [
        line(1, "User: keep the day", "high"),
        line(3, "User confirmed: it works", "done", sources=confirmed),
        line(3, "User: it works", "high", id="o4"),
    ]
    assert draft(TASK, lines).text.splitlines()[1:] == ["* User: keep the day [1]", "* User confirmed: it works [2]"]


def test_room_that_one_kind_leaves_is_for_the_other() -> None:
    """Where users said little, more of what was found is taken, and the other way round."""
    found = [line(n, f"-> {n}") for n in range(1, 7)]
    stated = [line(n, f"User: {n}", "high") for n in range(1, 7)]
    assert len(draft(TASK, found, most=5).sources) == len(draft(TASK, stated, most=5).sources) == 5
