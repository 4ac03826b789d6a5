"""Calls and results as the model sees them: together, answered, and shown once."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from kit.rows import SAID, row
from memolog.context.context import ContextMessage
from memolog.context.tail import closed_cuts, mend
from memolog.core.message import FilePart, Message, Part, TextPart, ToolCallPart, ToolResultPart, UnknownPart


def call(id_: str, name: str = "grep") -> ToolCallPart:
    """Return a call of a tool."""
    return ToolCallPart(id=id_, name=name, arguments={"q": id_})


def result(id_: str, content: object = "found", **fields: Any) -> ToolResultPart:
    """Return what a tool answered."""
    return ToolResultPart(call_id=id_, content=content, **fields)


def outline(messages: tuple[ContextMessage, ...]) -> list[str]:
    """Return each message in a few words: its role, and the ids or the text of its parts."""
    return [f"{message.role}: {' '.join(map(_short, message.parts))}" for message in messages]


def _short(part: Part) -> str:
    match part:
        case TextPart():
            return part.text
        case ToolCallPart():
            return f"call-{part.id}"
        case ToolResultPart():
            return f"result-{part.call_id}"
        case _:
            return part.type


def later(message: Message, **passed: float) -> Message:
    """Return a row as it would be, had it been said so much later than the first."""
    return replace(message, created_at=SAID + timedelta(**passed))


def gone(state: str) -> list[Message]:
    """Return rows that were taken back, and one that was not."""
    said: list[Any] = [("user", "secret"), ("assistant", call("a")), ("tool", result("a"))]
    return [*(row(seq, role, part, state=state) for seq, (role, part) in enumerate(said, 1)), row(4, "user", "hello")]


SHOWN: dict[str, tuple[list[Message], list[str]]] = {
    "what another turn saved between a call and its result comes after it": (
        [
            row(1, "assistant", call("a"), turn="one"),
            row(2, "user", "meanwhile", turn="two"),
            row(3, "tool", result("a"), turn="one"),
        ],
        ["assistant: call-a", "tool: result-a", "user: meanwhile"],
    ),
    "results of one message go to the messages that asked for each": (
        [row(1, "assistant", call("a")), row(2, "assistant", call("b")), row(3, "tool", result("b"), result("a"))],
        ["assistant: call-a", "tool: result-a", "assistant: call-b", "tool: result-b"],
    ),
    "a message that brings a result and asks answers first": (
        [row(1, "assistant", call("a")), row(2, "user", result("a"), "and now?")],
        ["assistant: call-a", "tool: result-a", "user: and now?"],
    ),
    "also if it asks before the result": (
        [row(1, "assistant", call("a")), row(2, "user", "and now?", result("a"))],
        ["assistant: call-a", "tool: result-a", "user: and now?"],
    ),
    "a continuation after something else stands alone": (
        [row(1, "assistant", "a", id="m"), row(2, "user", "x"), row(3, "assistant", "b", id="m", continuation=1)],
        ["assistant: a", "user: x", "assistant: b"],
    ),
    "what was withdrawn is not shown": (gone("withdrawn"), ["user: hello"]),
    "what was forgotten is not shown": (gone("forgotten"), ["user: hello"]),
    "what was compacted without a summary is shown in full": ([row(1, "user", "text", level=1)], ["user: text"]),
    "nothing": ([], []),
    "rows without parts, rules and unknown parts": (
        [row(1, "user"), row(2, "system", "rule"), row(3, "user", UnknownPart(data={"x": 1}))],
        ["system: rule", "user: unknown"],
    ),
    "a mark waits until calls are answered, and says all that has passed": (
        [
            later(row(1, "user", "deploy it"), hours=0),
            later(row(2, "assistant", call("a")), hours=0),
            later(row(3, "tool", result("a")), hours=5),
            later(row(4, "assistant", "deployed"), hours=7),
            later(row(5, "user", "thanks"), hours=7, minutes=1),
        ],
        [
            "user: deploy it",
            "assistant: call-a",
            "tool: result-a",
            "assistant: deployed",
            "user: [7 hours later: Saturday 2026-03-14, 16:16]",
            "user: thanks",
        ],
    ),
    "a mark stays with a message said beside a call": (
        [
            later(row(1, "assistant", call("a"), turn="one"), hours=0),
            later(row(2, "user", "meanwhile", turn="two"), hours=2),
            later(row(3, "tool", result("a"), turn="one"), hours=2),
        ],
        [
            "assistant: call-a",
            "tool: result-a",
            "user: [2 hours later: Saturday 2026-03-14, 11:15]",
            "user: meanwhile",
        ],
    ),
    "a mark says when a message was said, in the zone of the speaker": (
        [
            later(row(1, "user", "I fly tomorrow"), hours=0),
            later(row(2, "assistant", "Have a good trip"), hours=1),
            later(row(3, "user", "Back again", zone="Europe/Berlin"), days=24, hours=1),
            later(row(4, "assistant", "Welcome"), days=24, hours=2),
            later(row(5, "assistant", "A reminder"), days=24, hours=4, minutes=5),
        ],
        [
            "user: I fly tomorrow",
            "assistant: Have a good trip",
            "user: [3 weeks later: Tuesday 2026-04-07, 12:15]",
            "user: Back again",
            "assistant: Welcome",
            "user: [2 hours later: Tuesday 2026-04-07, 15:20]",
            "assistant: A reminder",
        ],
    ),
    "a message with its own results is divided": (
        [row(1, "assistant", "first", call("a"), result("a"), "then")],
        ["assistant: first call-a", "tool: result-a", "assistant: then"],
    ),
    "clocks that go back mark nothing": (
        [later(row(1, "user", "a"), days=9), later(row(2, "user", "b"), days=1), later(row(3, "user", "c"), days=1)],
        ["user: a", "user: b", "user: c"],
    ),
}


@pytest.mark.parametrize("case", SHOWN)
def test_what_is_shown(case: str) -> None:
    """Each result follows its call, and the rest keeps its order."""
    rows, expected = SHOWN[case]
    assert outline(mend(rows)) == expected


CUTS: dict[str, tuple[list[Message], tuple[int, ...]]] = {
    "between a call and the last of its results there is none": (
        [
            row(1, "user", "q"),
            row(2, "assistant", call("a"), call("b"), turn="one"),
            row(3, "tool", result("a"), turn="one"),
            row(4, "user", "meanwhile", turn="two"),
            row(5, "tool", result("b"), turn="one"),
            row(6, "assistant", "done"),
        ],
        (0, 1, 5, 6),
    ),
    "none after a call that may still be answered": ([row(1, "user", "q"), row(2, "assistant", call("a"))], (0, 1)),
    "the next question closes a call": (
        [row(1, "user", "q"), row(2, "assistant", call("a")), row(3, "user", "never mind")],
        (0, 1, 2, 3),
    ),
    "the rows of one message stay together": (
        [row(1, "assistant", "a", id="m"), row(2, "assistant", "b", id="m", continuation=1), row(3, "user", "x")],
        (0, 2, 3),
    ),
    "an empty tail": ([], (0,)),
}


@pytest.mark.parametrize("case", CUTS)
def test_where_a_tail_may_be_cut(case: str) -> None:
    """No cut separates what belongs together."""
    rows, expected = CUTS[case]
    assert closed_cuts(rows) == expected


def test_plain_messages_stay_as_they_are() -> None:
    """Role, parts, number, speaker and time are those of the row, and nothing is marked as made up."""
    (shown,) = mend([row(1, "user", "hello", speaker="Ana")])
    assert shown == ContextMessage(
        role="user",
        parts=(TextPart(text="hello"),),
        seq=1,
        speaker="Ana",
        created_at=SAID + timedelta(minutes=1),
        synthetic=False,
    )


def test_turns_side_by_side_may_use_the_same_call_id() -> None:
    """Each result stays with the call of its own turn, in whichever order they come."""
    begun = [
        row(1, "user", "weather?", turn="one"),
        row(2, "assistant", call("a"), turn="one"),
        row(3, "user", "time?", turn="two"),
        row(4, "assistant", call("a"), turn="two"),
    ]
    first, second = (result("a", "sunny"), "one"), (result("a", "noon"), "two")
    for early, late in ((first, second), (second, first)):
        rows = [*begun, row(5, "tool", early[0], turn=early[1]), row(6, "tool", late[0], turn=late[1])]
        shown = mend(rows)
        assert outline(shown) == [
            "user: weather?",
            "assistant: call-a",
            "tool: result-a",
            "user: time?",
            "assistant: call-a",
            "tool: result-a",
        ]
        assert [part.content for one in shown for part in one.parts if isinstance(part, ToolResultPart)] == [
            "sunny",
            "noon",
        ]
        assert closed_cuts(rows) == (0, 1, 6)
    half = mend([*begun, row(5, "tool", result("a", "sunny"), turn="one")])
    assert [(one.role, one.synthetic) for one in half[1:]] == [
        ("assistant", False),
        ("tool", False),
        ("user", False),
        ("assistant", False),
        ("tool", True),
    ]


def test_several_results_stay_together() -> None:
    """The calls of one message, answered over several messages and with others in between, are one stretch."""
    rows = [
        row(1, "assistant", "looking", call("a"), call("b"), call("c"), turn="one"),
        row(2, "tool", result("b"), turn="one"),
        row(3, "user", "hurry", turn="two"),
        row(4, "tool", result("a"), result("c"), turn="one"),
    ]
    shown = mend(rows)
    assert outline(shown) == [
        "assistant: looking call-a call-b call-c",
        "tool: result-b",
        "tool: result-a result-c",
        "user: hurry",
    ]
    assert [message.seq for message in shown] == [1, 2, 4, 3]


@pytest.mark.parametrize(
    ("asked", "answered"), [("one", "one"), ("two", "two"), ("two", "three"), (None, "one"), (None, None)]
)
def test_result_after_the_next_question_is_a_note(asked: str | None, answered: str | None) -> None:
    """The call stays as it was shown, unanswered, and the result stands at its own place; a second one says that it is one."""
    rows = [
        row(1, "assistant", call("a"), turn="one"),
        row(2, "user", "never mind", turn=asked),
        row(3, "tool", result("a", "late"), turn=answered),
        row(4, "tool", result("a", "again"), turn=answered),
    ]
    shown = mend(rows)
    assert shown[:3] == mend(rows[:2])
    assert [(message.role, message.synthetic, message.seq) for message in shown[1:]] == [
        ("tool", True, None),
        ("user", False, 2),
        ("user", True, 3),
        ("user", True, 4),
    ]
    assert "answered late: grep." in shown[3].text
    assert '<late-result tool="grep" call="a">\nlate\n</late-result>' in shown[3].text
    assert "answered again: grep." in shown[4].text
    assert 2 in closed_cuts(rows)


def test_unanswered_call_is_answered_by_a_note() -> None:
    """Each call without a result gets one that says so, right after it and after the real ones."""
    rows = [row(1, "assistant", call("a"), call("b", "ls")), row(2, "tool", result("a")), row(3, "user", "and?")]
    shown = mend(rows)
    assert outline(shown) == ["assistant: call-a call-b", "tool: result-a", "tool: result-b", "user: and?"]
    missing = shown[2]
    assert missing.synthetic
    assert missing.seq is None
    part = missing.parts[0]
    assert isinstance(part, ToolResultPart)
    assert part.is_error
    assert part.name == "ls"
    assert "No result" in str(part.content)


def test_orphan_result_becomes_a_note() -> None:
    """It says which tool answered and what, is escaped, and keeps the files."""
    image = FilePart(media_type="image/png", data=b"x")
    late = result("gone", {"k": "</late-result>"}, name="fetch", files=(image,), is_error=True)
    (shown,) = mend([row(7, "tool", late)])
    assert (shown.role, shown.synthetic, shown.seq) == ("user", True, 7)
    assert "answered late: fetch." in shown.text
    assert '<late-result tool="fetch" call="gone" error="true">' in shown.text
    assert '{"k":"&lt;/late-result>"}' in shown.text
    assert shown.text.count("</late-result>") == 1
    assert shown.parts[1:] == (image,)


def test_result_before_its_call_answers_nothing() -> None:
    """A call is answered by what follows it: here the result is a note, and the call has no result."""
    shown = mend([row(1, "tool", result("a")), row(2, "assistant", call("a"))])
    assert [message.role for message in shown] == ["user", "assistant", "tool"]
    assert [message.synthetic for message in shown] == [True, False, True]


def test_reused_ids_go_to_the_latest_call() -> None:
    """Providers that count their calls from zero in each turn do not mix up their results."""
    rows = [
        row(1, "assistant", call("0", "old")),
        row(2, "user", "again"),
        row(3, "assistant", call("0", "new")),
        row(4, "tool", result("0", "fresh")),
        row(5, "tool", result("0", "double")),
    ]
    shown = mend(rows)
    assert [message.role for message in shown] == ["assistant", "tool", "user", "assistant", "tool", "user"]
    assert [message.synthetic for message in shown] == [False, True, False, False, False, True]
    assert "answered again: new." in shown[5].text


def test_continuations_are_joined() -> None:
    """Rows of one message that follow each other are one message again, numbered by the first."""
    rows = [
        row(1, "assistant", "a", id="m"),
        row(2, "assistant", "b", id="m", continuation=1),
        row(3, "assistant", "c", id="m", continuation=2),
        row(4, "assistant", "d"),
    ]
    shown = mend(rows)
    assert outline(shown) == ["assistant: a b c", "assistant: d"]
    assert [message.seq for message in shown] == [1, 4]


def test_summary_of_a_batch_is_shown_once() -> None:
    """Compacted rows show their summary, escaped, at the first of them; a further batch shows its own."""
    rows = [
        row(1, "user", "long", level=1, injection="sum <1>"),
        row(2, "assistant", "longer", level=1, injection="sum <1>"),
        row(3, "user", "more", level=2, injection=""),
        row(4, "user", "other", level=1, injection="sum 2"),
        row(5, "user", "now"),
    ]
    shown = mend(rows)
    assert [message.seq for message in shown] == [1, 4, 5]
    assert [message.synthetic for message in shown] == [True, True, False]
    assert "sum <1>" in shown[0].text
    assert "sum 2" in shown[1].text
    assert "long" not in shown[0].text.replace("longer", "")


def test_late_result_that_cannot_be_written_down_is_named() -> None:
    """A content that is no JSON does not stop the turn."""
    (shown,) = mend([row(1, "tool", result("x", {1, 2}))])
    assert "(set, which cannot be shown)" in shown.text
    assert "call x" in shown.text


# ---------------------------------------------------------------- time that passed


def test_what_passed_within_a_batch_is_not_marked() -> None:
    """A summary is marked as one message; the time after its last row counts."""
    batch = [
        later(row(seq, "user", f"m{seq}", level=1, injection="a summary"), hours=hours)
        for seq, hours in ((2, 3), (3, 30), (4, 60))
    ]
    shown = mend([row(1, "user", "first"), *batch, later(row(5, "user", "next"), hours=60, minutes=30)])
    assert [message.text[:8] for message in shown] == ["first", "[2 hours", "[Earlier", "next"]
