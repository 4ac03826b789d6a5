"""The values of the domain: frozen, compared by content, and strict about what they hold."""

import dataclasses
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any, get_args

import pytest

from core.strategies import VALUES
from memolog.core.clock import from_micros, to_micros
from memolog.core.exact_json import decode, encode, pack, unpack
from memolog.core.message import (
    AssistantMessage,
    NewMessage,
    SystemMessage,
    TextPart,
    ToolCallPart,
    ToolMessage,
    ToolResultPart,
    UnknownPart,
    UserMessage,
    pairs_of,
    parts_from_json,
    parts_to_json,
)
from memolog.core.observation import MARKS, Priority, Span
from memolog.core.thread import Hints
from memolog.errors import NotJson

NOON = datetime(2026, 3, 14, 12, tzinfo=UTC)


@pytest.mark.parametrize("kind", VALUES, ids=lambda kind: kind.__name__)
def test_every_value_is_frozen_slotted_and_keyword_only(kind: Any) -> None:
    """A value cannot change, takes no stray attribute, and is made with names."""
    assert kind.__dataclass_params__.frozen
    assert "__slots__" in vars(kind)
    assert all(field.kw_only for field in dataclasses.fields(kind))
    assert kind.__doc__


def test_the_domain_has_values() -> None:
    """The search above finds what it is meant to find."""
    assert {"Message", "ThreadInfo", "Observation", "Run", "Task", "Document"} <= {kind.__name__ for kind in VALUES}


# ---------------------------------------------------------------- spans and moves


@pytest.mark.parametrize(("first", "last"), [(0, 1), (2, 1), (-1, 3), (-2, -1)])
def test_a_span_runs_forward_from_one(first: int, last: int) -> None:
    """Anything else is refused."""
    with pytest.raises(ValueError, match="1 <= first <= last"):
        Span(first=first, last=last)


def test_a_span_includes_both_ends() -> None:
    """Its length and what it contains agree."""
    span = Span(first=3, last=5)
    assert [seq for seq in range(10) if seq in span] == [3, 4, 5]
    assert len(span) == 3
    assert len(Span(first=7, last=7)) == 1


def test_every_priority_has_a_mark() -> None:
    """The marks are all different."""
    assert set(MARKS) == set(get_args(Priority))
    assert len(set(MARKS.values())) == len(MARKS)


# ---------------------------------------------------------------- messages


def test_makers_of_messages() -> None:
    """A text, a part, or a mixture of both becomes parts under the right role."""
    assert UserMessage("a", id="m", speaker="Al") == NewMessage(
        role="user", parts=(TextPart(text="a"),), id="m", speaker="Al"
    )
    call = ToolCallPart(id="c", name="n", arguments={"x": 1})
    assert AssistantMessage(["a", call]).parts == (TextPart(text="a"), call)
    assert AssistantMessage(call).parts == (call,)
    assert AssistantMessage(part for part in ("a", "b")).parts == (TextPart(text="a"), TextPart(text="b"))
    assert UserMessage([]).parts == ()
    assert SystemMessage("s").role == "system"
    answer = ToolMessage("c", {"ok": 1}, name="n", is_error=True, id="m")
    assert answer == NewMessage(
        role="tool", parts=(ToolResultPart(call_id="c", content={"ok": 1}, name="n", is_error=True),), id="m"
    )


A = TextPart(text="a")


def test_pairs_of_parts() -> None:
    """Which calls are opened and which are answered, in order."""
    parts = (
        ToolCallPart(id="1", name="n"),
        A,
        ToolCallPart(id="2", name="n"),
        ToolResultPart(call_id="1"),
    )
    assert pairs_of(parts) == (("1", "2"), ("1",))
    assert pairs_of((A,)) == ((), ())


def test_defaults_are_not_written() -> None:
    """A short message has a short row, and key order is fixed."""
    assert parts_to_json((A,)) == '[{"type":"text","text":"a"}]'
    assert parts_to_json((ToolResultPart(call_id="c"),)) == '[{"type":"tool_result","call_id":"c"}]'
    assert parts_to_json(()) == "[]"


def test_a_part_of_a_later_release_is_kept_whole() -> None:
    """A kind that is not known is an unknown part; it keeps every field."""
    parts = parts_from_json('[{"type":"hologram","x":[1]},{"x":2}]')
    assert parts == (UnknownPart(data={"type": "hologram", "x": [1]}), UnknownPart(data={"x": 2}))
    assert parts_from_json(parts_to_json(parts)) == parts


# ---------------------------------------------------------------- codec


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        ("plain", "plain"),
        ("", ""),
        (None, None),
        ("日本語 🙂", "日本語 🙂"),
        ("a\x00b", '\x01"a\\u0000b"'),
        ("\ud800", '\x01"\\ud800"'),
        ("\x01", '\x01"\\u0001"'),
        ("a\x01", "a\x01"),
    ],
)
def test_only_what_must_be_is_packed(text: str | None, stored: str | None) -> None:
    """Ordinary text is stored as it is."""
    assert pack(text) == stored
    assert unpack(stored) == text


def test_an_older_value_is_read_with_defaults() -> None:
    """Fields that were not written take their default; fields that we do not know are left out."""
    assert decode(Hints, {"title": "t", "colour": "red"}) == Hints(title="t")


def test_dates_moments_bytes_and_sets_have_a_form() -> None:
    """Those of ISO 8601, base64, and a sorted list."""
    data = encode({"at": NOON, "about": date(2026, 3, 20), "data": b"\x00\xff", "labels": frozenset("ba")})
    assert data == {"at": "2026-03-14T12:00:00+00:00", "about": "2026-03-20", "data": "AP8=", "labels": ["a", "b"]}


@pytest.mark.parametrize("value", [object(), {1, 2}, 1j, {1: 2}, [object()]])
def test_what_has_no_form_is_refused(value: object) -> None:
    """Nothing is guessed."""
    with pytest.raises(NotJson):
        encode(value)


# ---------------------------------------------------------------- moments


def test_moments_are_whole_microseconds() -> None:
    """Exact at both ends of the calendar, before 1970 and in any zone."""
    assert to_micros(datetime(1970, 1, 1, tzinfo=UTC)) == 0
    assert to_micros(datetime(1970, 1, 1, 0, 0, 0, 1, tzinfo=UTC)) == 1
    assert to_micros(datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)) == -1
    assert to_micros(datetime(1970, 1, 1, 2, tzinfo=timezone(timedelta(hours=2)))) == 0
    for moment in (datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)):
        assert from_micros(to_micros(moment)) == moment
