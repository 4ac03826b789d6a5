"""What goes in comes out: through JSON, through packed text, through the calendar, and through a store."""

import dataclasses
import itertools
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core.strategies import VALUES, ids, json_objects, moments, new_messages, parts, texts
from kit.effort import counts
from kit.engines import weigh
from memolog.core.cache import empty_caches
from memolog.core.clock import from_micros, to_micros
from memolog.core.document import Proposal
from memolog.core.exact_json import decode, dumps, encode, loads, object_text, pack, unpack
from memolog.core.message import NewMessage, Part, TextPart, parts_from_json, parts_to_json
from memolog.core.thread import Hints
from memolog.messages.validation import check_message
from memolog.store import Store
from memolog.testing import FakeClock

QUICK = settings(deadline=None, max_examples=counts(100, 2000), suppress_health_check=[HealthCheck.too_slow])
# Each example is a thread of its own in one store.
STORED = settings(
    deadline=None,
    max_examples=counts(30, 500),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)


def same(one: object, other: object) -> bool:
    """Tell whether two values are equal in content and in the types within: 1, 1.0 and True are three things."""
    return one == other and repr(one) == repr(other)


# ---------------------------------------------------------------- JSON


@pytest.mark.parametrize("kind", VALUES, ids=lambda kind: kind.__name__)
def test_every_value_of_the_domain_has_a_form(kind: Any) -> None:
    """Encoded and written it is valid Unicode without NUL; what is stored so is equal when it is read and decoded."""

    @settings(QUICK, max_examples=counts(40, 1000))
    @given(VALUES[kind])
    def check(value: object) -> None:
        text = dumps(encode(value))
        assert "\x00" not in text
        assert text.encode().decode() == text
        assert loads(text).keys() == {field.name for field in dataclasses.fields(kind)}
        if kind in {Hints, Proposal}:
            assert decode(kind, loads(text)) == value

    check()


@QUICK
@given(st.lists(parts, max_size=5).map(tuple))
def test_parts_come_back(value: tuple[Part, ...]) -> None:
    """With every type within, and byte for byte the same when they are written again."""
    text = parts_to_json(value)
    text.encode()
    back = parts_from_json(text)
    assert same(back, value)
    assert parts_to_json(back) == text


@QUICK
@given(json_objects)
def test_objects_come_back(value: dict[str, Any]) -> None:
    """Any nesting of any values, with their types."""
    assert same(loads(object_text("It", value)), value)


@QUICK
@given(new_messages)
def test_a_message_that_is_accepted_is_written_as_its_parts(message: NewMessage) -> None:
    """Checking returns the text that is stored."""
    assert check_message(message) == parts_to_json(message.parts)


@QUICK
@given(texts)
def test_packed_text_comes_back(text: str) -> None:
    """And is text that any database takes. Since each text comes back, no two texts are stored alike."""
    packed = pack(text)
    assert packed is not None
    assert "\x00" not in packed
    packed.encode()
    assert unpack(packed) == text


# ---------------------------------------------------------------- moments


@QUICK
@given(moments)
def test_moments_come_back(moment: datetime) -> None:
    """To the microsecond, in UTC."""
    back = from_micros(to_micros(moment))
    assert back == moment
    assert back.tzinfo is UTC


@QUICK
@given(st.integers(min_value=-62135596800_000000, max_value=253402300799_999999))
def test_microseconds_come_back(micros: int) -> None:
    """Every number of the calendar is a moment."""
    assert to_micros(from_micros(micros)) == micros


@QUICK
@given(moments, moments)
def test_moments_keep_their_order(one: datetime, other: datetime) -> None:
    """Numbers compare as the moments do."""
    assert (to_micros(one) < to_micros(other)) == (one < other)


# ---------------------------------------------------------------- a store


# An id that occurs twice in a batch is a repetition or a conflict: the contract tests are about those.
batches = st.lists(new_messages, min_size=1, max_size=4, unique_by=lambda message: message.id or id(message))
names = map("t{}".format, itertools.count())


@STORED
@given(batch=batches)
async def test_messages_come_back(store: Store, clock: FakeClock, batch: list[NewMessage]) -> None:
    """Whatever was saved is loaded the same, and known when it is saved again, on every engine."""
    thread = next(names)
    saved = await store.messages.save("alice", thread, batch)
    loaded = await store.messages.after("alice", thread)
    assert same(saved.messages, loaded)
    assert [row.seq for row in loaded] == list(range(1, len(batch) + 1))
    for row, message in zip(loaded, batch, strict=True):
        assert same(row.parts, message.parts)
        assert same(row.metadata, message.metadata)
        assert row.created_at == (message.created_at or clock.now())
        assert row.id == (message.id or row.id)
        assert row.tokens == weigh(message)
        assert row.text == "\n\n".join(part.text for part in message.parts if isinstance(part, TextPart))
        for name in ("role", "zone", "speaker", "own"):
            assert getattr(row, name) == getattr(message, name), name
    named = [dataclasses.replace(message, id=row.id) for row, message in zip(loaded, batch, strict=True)]
    again = await store.messages.save("alice", thread, named)
    assert (again.added, again.messages) == (0, loaded)


@STORED
@given(title=texts, metadata=json_objects, overrides=json_objects)
async def test_threads_come_back(store: Store, title: str, metadata: Any, overrides: Any) -> None:
    """Every field of a thread is loaded as it was given, on every engine."""
    thread = next(names)
    made = await store.threads.create("alice", thread, title=title, metadata=metadata, overrides=overrides)
    loaded = await store.threads.get("alice", thread)
    assert same(made, loaded)
    assert loaded.title == title
    assert same(loaded.metadata, metadata)
    assert same(loaded.overrides, overrides)


@STORED
@given(resource=ids, thread=ids, message=ids)
async def test_ids_come_back(store: Store, resource: str, thread: str, message: str) -> None:
    """Any id names what it was given to, on every engine."""
    saved = await store.messages.save(resource, thread, NewMessage(role="user", parts=(), id=message))
    row = (await store.messages.get(resource, message, thread=thread))[0]
    assert (row.resource, row.thread, row.id) == (resource, thread, message)
    assert saved.messages[0].id == message
    assert (await store.threads.get(resource, thread)).id == thread


@pytest.mark.parametrize("engine_name", ["memory"], indirect=True)
@STORED
@given(message=new_messages)
async def test_what_is_remembered_equals_what_is_read(store: Store, message: NewMessage) -> None:
    """A row that was read before is not parsed again; parsed again it is the same."""
    thread = next(names)
    await store.messages.save("alice", thread, message)
    remembered = [await store.messages.after("alice", thread) for _ in range(2)][1]
    empty_caches()
    assert same(await store.messages.after("alice", thread), remembered)
