"""Grounding holds for any text: it never raises, a text grounds itself, and time grows with the text alone."""

import time
from collections.abc import Callable
from datetime import datetime

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from core.strategies import moments, new_messages, texts
from kit.effort import counts
from memolog.core.deadline import at_once
from memolog.core.message import Message, NewMessage
from memolog.core.observation import Observation, Source, Span
from memolog.core.thread import Hints
from memolog.observer.evidence import ungrounded
from memolog.observer.judge import Judge, trusted_hints
from memolog.observer.loss import ResultLine, lost, lost_lines, unsaid, vague
from memolog.text.identifiers import mentions

PIECES = (
    "src/auth.ts", "LoginSchema", "foo_bar", "v1.2.3", "42", "1,500 ms", "3.5%", "2026-03-14", "14:00", "--force", "Anna Schmidt",
    '"so it goes"', "`x<y`", "https://a.example/b?c=d", "3f2a9bc", "npm test", "用户", "Берлине", "&lt;b&gt;", "and", "the",
    ".", ":", "\n", "User wants", "[redacted: key]", "C:\\new\\x", "(meaning 2026-03-20)", "٣٤", "½", "ﬁ", "İ", "ß", "１２",
)  # fmt: skip
prose = st.lists(st.sampled_from(PIECES), max_size=12).map(" ".join) | texts


@settings(max_examples=counts(150, 2_000), deadline=None)
@given(prose)
@example("an area of 10² fields")
def test_a_text_grounds_itself(text: str) -> None:
    """Whatever can be found in a text is found again in the same text: the two sides read alike."""
    assert ungrounded(text, [text]) == ()


@settings(max_examples=counts(100, 1_000), deadline=None)
@given(prose, prose, moments)
def test_what_is_missing_was_in_the_line(text: str, source: str, said_at: datetime) -> None:
    """What is told to be missing is some of what was found, and more sources never make it more."""
    missing = ungrounded(text, [source], said_at=[said_at])
    assert set(missing) <= {mention.text for mention in mentions(text)}
    assert set(ungrounded(text, [source], text, said_at=[said_at])) == set()


@settings(max_examples=counts(100, 1_000), deadline=None)
@given(st.lists(prose, max_size=5), st.lists(prose, max_size=3))
def test_lines_that_are_kept_lose_nothing(before: list[str], after: list[str]) -> None:
    """What is lost was named; a result that repeats the lines loses nothing, says every statement, and is never vague."""
    lines = [
        Observation(id=str(place), group="g", ordinal=place, priority="high", text=text)
        for place, text in enumerate(before, start=1)
    ]
    gone = at_once(lost_lines(lines, after))
    assert bool(gone) == bool(at_once(lost(lines, after)))
    assert {line.id for line in gone} <= {line.id for line in lines}
    assert at_once(lost(lines, [*after, *before])) == ()
    repeated = [ResultLine(text, [str(place)]) for place, text in enumerate(before, start=1)]
    assert at_once(unsaid(lines, [*map(ResultLine, after), *repeated])) == ()
    assert vague(lines, repeated) == ()


@settings(max_examples=counts(80, 800), deadline=None)
@given(st.lists(new_messages, min_size=1, max_size=4), st.lists(prose, max_size=4), moments)
def test_judging_any_messages_never_raises(messages: list[NewMessage], lines: list[str], at: datetime) -> None:
    """Parts of any shape are read, no line is rewritten, and no line is worth more than it claimed."""
    rows = [_stored(seq, message, at) for seq, message in enumerate(messages, start=1)]
    span = (Source(thread="t", span=Span(first=1, last=len(rows))),)
    made = [
        Observation(id=str(place), group="g", ordinal=place, priority="high", text=text, sources=span)
        for place, text in enumerate(lines, start=1)
    ]
    result = Judge(rows).judge(made)
    assert [one.text for one in result.observations] == lines
    has_user = any(row.role == "user" for row in rows)
    assert all(one.priority == "medium" or has_user for one in result.observations)
    hints = Hints(current_task="".join(lines) or None)
    assert trusted_hints(hints, rows, Hints()).current_task in {hints.current_task, None}


def _stored(seq: int, message: NewMessage, at: datetime) -> Message:
    return Message(
        id=f"m{seq}", resource="r", thread="t", seq=seq, role=message.role, parts=message.parts, created_at=at, tokens=0,
        speaker=message.speaker, own=message.own,
    )  # fmt: skip


LONG_TEXTS = (
    '"', "“", "'a", "a", "1", "1.", "1,", "1 234 ", "a.", "Ab ", "/", "\\", "-", "_a", "&amp;", "[redacted:", "may 1", "http://a=",
    "用", "x.y:1 ", "3f2a9bc", "v1.", "٣", "((", "12:3", "2026-", "\\n",
)  # fmt: skip


@pytest.mark.parametrize("piece", LONG_TEXTS)
def test_time_grows_with_the_text_alone(piece: str) -> None:
    """A text of one piece, repeated, takes a time in proportion to its length, whatever the piece."""
    short, long = (piece * (size // len(piece)) for size in (10_000, 80_000))
    for work in (mentions, _checked):
        # Eight times the text; a quadratic step would take sixty-four times as long, each time that it is tried.
        assert any(_seconds(work, long) < 30 * _seconds(work, short) for _ in range(10))


def _checked(text: str) -> tuple[str, ...]:
    return ungrounded("Saw 7 of x_y in q/w.", [text])


def _seconds(work: Callable[[str], object], text: str) -> float:
    # Only our own time counts: other tests run beside this one.
    start = time.process_time()
    work(text)
    return time.process_time() - start
