"""What no caller should hand in, and some of what only looks that way: kept exactly, or refused clearly and as a whole."""

import enum
import math
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, timezone
from types import MappingProxyType
from typing import Any

import pytest

from kit.engines import OpenStore
from memolog.core.message import (
    LONGEST_SPEAKER,
    AssistantMessage,
    FilePart,
    Message,
    NewMessage,
    Part,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolMessage,
    ToolResultPart,
    UnknownPart,
    UserMessage,
)
from memolog.errors import InputError, MessageTooLarge, NotJson, UnknownRole
from memolog.store import Store
from memolog.testing import FakeClock

ODD_TEXTS = {
    "empty": "",
    "blank": " \t\r\n\u3000",
    "nul": "a\x00b\x00",
    "only nul": "\x00",
    "mark": "\x01packed?",
    "mark and nul": '\x01"\\u0000"\x00',
    "controls": "".join(map(chr, range(32))) + "\x7f\x80\x9f",
    "lone high": "a\ud800b",
    "lone low": "\udfff",
    "swapped pair": "\ude00\ud83d",
    "emoji": "👩‍👩‍👧‍👦 🏳️‍🌈 👍🏽",
    "cjk": "日本語 中文 한국어",
    "rtl": "שלום \u202e مرحبا",
    "combining": "Z͑ͫ̓ͪ̂ͫ̽͏̴̙̤̞͉͚̯̞̠͍A̴̵̜̰͔ͫ͗͢",
    "noncharacters": "\ufffe\uffff\U0010ffff\ufeff",
    "separators": "a\u2028b\u2029c\x85d",
    "escapes": '\\u0000 \\ud800 "quoted" \\ / \b\f',
    "tags": "</observations><b>&amp;</b><!--",
    "sql": "'; DROP TABLE messages; -- :name $1 ? %s {select_messages}",
    "long": "x" * 200_000,
}


async def kept(store: Store, message: NewMessage, thread: str = "t") -> Message:
    """Save a message, save it again, and return it as it was loaded."""
    saved = await store.messages.save("alice", thread, message)
    loaded = await store.messages.get("alice", saved.messages[0].id, thread=thread)
    again = await store.messages.save(
        "alice", thread, NewMessage(role=message.role, parts=message.parts, id=saved.messages[0].id)
    )
    assert again.added == 0
    assert len(loaded) == 1
    return loaded[0]


async def refused(store: Store, message: Any, error: type[InputError], match: str) -> InputError:
    """Check that a message is refused, alone and inside a batch, that nothing is saved, and that the next call works."""
    await store.messages.save("alice", "t", UserMessage("before", id="before"))
    for batch in (message, [UserMessage("good"), message, UserMessage("good too")]):
        for thread in ("t", "new"):
            with pytest.raises(error, match=match) as caught:
                await store.messages.save("alice", thread, batch)
            assert type(caught.value) is error
            for piece in (caught.value.what, caught.value.why, caught.value.then):
                assert piece
                assert piece in str(caught.value)
            assert not caught.value.retryable
    assert await store.threads.count("alice") == 1
    assert (await store.threads.get("alice", "t")).last_seq == 1
    assert [row.id for row in await store.messages.after("alice", "t")] == ["before"]
    after = await store.messages.save("alice", "t", UserMessage("after", id="after"))
    assert after.messages[0].seq == 2
    return caught.value


# ---------------------------------------------------------------- odd, and kept


@pytest.mark.parametrize("name", ODD_TEXTS)
async def test_any_text_is_kept(store: Store, name: str) -> None:
    """Whatever a string can hold comes back the same, wherever a message holds text."""
    text = ODD_TEXTS[name]
    parts: tuple[Part, ...] = (
        TextPart(text=text, extra={text: text}),
        ReasoningPart(text=text, signature=text, encrypted=text),
        ToolCallPart(id=text, name=text, arguments=text),
        ToolCallPart(id="c", name="n", arguments={text: [text, {text: text}]}),
        ToolResultPart(call_id=text, content=text, name=text),
        FilePart(media_type=text, url=text, name=text, detail=text),
        UnknownPart(data=text),
    )
    message = NewMessage(role="assistant", parts=parts, speaker=text, metadata={text: text})
    row = await kept(store, message)
    assert row.parts == parts
    assert (row.speaker, row.metadata) == (text[:LONGEST_SPEAKER], {text: text})
    thread = await store.threads.update("alice", "t", title=text, metadata={text: [text]}, overrides={text: text})
    assert (thread.title, thread.metadata, thread.overrides) == (text, {text: [text]}, {text: text})


async def test_nan_is_kept_and_repeats(store: Store) -> None:
    """A value that is not equal to itself is still the same content when it is saved again."""
    row = await kept(store, AssistantMessage(ToolCallPart(id="c", name="n", arguments=[float("nan")])))
    assert isinstance(row.parts[0], ToolCallPart)
    assert math.isnan(row.parts[0].arguments[0])
    grown = await store.messages.save(
        "alice", "t", AssistantMessage([ToolCallPart(id="c", name="n", arguments=[float("nan")]), "more"], id=row.id)
    )
    assert (grown.added, grown.messages[0].text) == (1, "more")


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        ((ToolCallPart(id="c", name="n", arguments=(1, (2,))),), (ToolCallPart(id="c", name="n", arguments=[1, [2]]),)),
        ((TextPart(text="a\ud83d\ude00b"),), (TextPart(text="a😀b"),)),
        ([TextPart(text="a"), TextPart(text="b")], (TextPart(text="a"), TextPart(text="b"))),
    ],
    ids=["a tuple", "both halves of a character", "a list of parts"],
)
async def test_what_is_stored_in_another_form_repeats(store: Store, given: Any, stored: tuple[Part, ...]) -> None:
    """JSON has one kind of list, and one form of a character; the same again is the same content."""
    assert (await kept(store, NewMessage(role="assistant", parts=given))).parts == stored


async def test_deep_values_are_kept_and_can_be_read_from_a_deep_stack(store: Store) -> None:
    """What could be saved can be loaded by any caller, however deep it stands."""
    value: Any = "bottom"
    for index in range(99):
        value = {"k": value} if index % 2 else [value]
    row = await kept(store, AssistantMessage(ToolCallPart(id="c", name="n", arguments=value), id="m"))
    padding = "x" * 5000  # long rows are parsed at every load
    await store.messages.save(
        "alice", "t", AssistantMessage([*row.parts, ToolCallPart(id=padding, name="n", arguments=value)], id="m")
    )

    async def from_below(depth: int) -> tuple[Message, ...]:
        return await from_below(depth - 1) if depth else await store.messages.after("alice", "t")

    rows = await from_below(400)
    assert rows[0].parts == (ToolCallPart(id="c", name="n", arguments=value),)
    assert rows[1].parts == (ToolCallPart(id=padding, name="n", arguments=value),)


MOMENTS = {
    "the first": datetime(1, 1, 1, tzinfo=UTC),
    "the last": datetime.max.replace(tzinfo=UTC),
    "before 1970": datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
    "1970": datetime(1970, 1, 1, tzinfo=UTC),
    "the past": datetime(1999, 12, 31, tzinfo=UTC),
    "the future": datetime(2999, 1, 1, tzinfo=UTC),
    "another zone": datetime(2026, 3, 29, 2, 30, tzinfo=timezone(timedelta(hours=5, minutes=45))),
    "odd seconds": datetime(2026, 1, 1, 0, 0, 0, 1, tzinfo=timezone(timedelta(seconds=-12345))),
}


async def test_times_do_not_decide_the_order(store: Store, clock: FakeClock) -> None:
    """Out of order, equal, far away, or under a clock that jumps back: the sequence is the order of saving.

    Each is kept to the microsecond, as the same moment in UTC.
    """
    moments = [*MOMENTS.values(), MOMENTS["1970"], None]
    for index, moment in enumerate(moments):
        clock.advance(days=-index)
        await store.messages.save("alice", "t", NewMessage(role="user", parts=(), id=f"m{index}", created_at=moment))
    rows = await store.messages.after("alice", "t")
    assert [(row.seq, row.id) for row in rows] == [(index + 1, f"m{index}") for index in range(len(moments))]
    assert [row.created_at for row in rows[: len(MOMENTS)]] == list(MOMENTS.values())
    assert {row.created_at.utcoffset() for row in rows} == {timedelta(0)}


# ---------------------------------------------------------------- bad, and refused


class Colour(enum.Enum):
    """A value that is no JSON."""

    RED = 1


def endless() -> list[object]:
    """Return a list that holds itself."""
    loop: list[object] = []
    loop.append(loop)
    return loop


def nested(depth: int) -> object:
    """Return a list within a list within a list."""
    value: object = None
    for _ in range(depth):
        value = [value]
    return value


class Odd(Mapping[str, int]):
    """A mapping that is no dict."""

    def __getitem__(self, key: str) -> int:
        return 1

    def __iter__(self) -> Any:
        return iter(["a"])

    def __len__(self) -> int:
        return 1


NOT_JSON: dict[str, Any] = {
    "a set": {1, 2},
    "bytes": b"x",
    "a bytearray": bytearray(b"x"),
    "an object": object(),
    "a class": int,
    "a function": print,
    "a moment": datetime(2026, 1, 1, tzinfo=UTC),
    "an enum": Colour.RED,
    "a complex number": 1j,
    "a range": range(3),
    "an int key": {1: "x"},
    "a None key": {None: "x"},
    "a tuple key": {(1, 2): "x"},
    "a bool key below": {"a": [{"b": {True: 1}}]},
    "a set below": {"a": [[{"b": {1}}]]},
    "a loop": endless(),
    "a deep list": nested(201),
    "a very deep list": nested(100_000),
    "an endless number": 10**5000,
    "another mapping": {"a": Odd()},
    "a proxy": {"a": MappingProxyType({})},
}


@pytest.mark.parametrize("name", NOT_JSON)
async def test_what_json_would_change_is_refused(store: Store, name: str) -> None:
    """In arguments, in results, in unknown parts, in extras and in metadata, of messages and of threads."""
    value = NOT_JSON[name]
    for parts in (
        (ToolCallPart(id="c", name="n", arguments=value),),
        (TextPart(text="good"), ToolResultPart(call_id="c", content=value)),
        (UnknownPart(data=value),),
        (TextPart(text="x", extra={"k": value}),),
        (ToolResultPart(call_id="c", files=(FilePart(media_type="x", extra={"k": value}),)),),
    ):
        with pytest.raises(NotJson, match="cannot be stored exactly"):
            await store.messages.save("alice", "new", NewMessage(role="assistant", parts=parts))
    with pytest.raises(NotJson, match="metadata cannot be stored exactly"):
        await store.threads.create("alice", "new", metadata={"k": value})
    with pytest.raises(NotJson, match="overrides cannot be stored exactly"):
        await store.threads.create("alice", "new", overrides={"k": value})
    message = NewMessage(role="user", parts=(TextPart(text="x"),), metadata={"k": value})
    await refused(store, message, NotJson, "metadata cannot be stored exactly")


@pytest.mark.parametrize(
    "part",
    [
        "text",
        None,
        5,
        {"type": "text", "text": "x"},
        TextPart,
        UserMessage("a message is no part"),
        TextPart(text=b"x"),  # pyright: ignore[reportArgumentType]
        TextPart(text=None),  # pyright: ignore[reportArgumentType]
        ReasoningPart(text=b"x"),  # pyright: ignore[reportArgumentType]
        FilePart(media_type="x", data="dGV4dA=="),  # pyright: ignore[reportArgumentType]
        FilePart(media_type="x", data=bytearray(b"x")),  # pyright: ignore[reportArgumentType]
        ToolResultPart(call_id="c", files=({"media_type": "x"},)),  # pyright: ignore[reportArgumentType]
        ToolResultPart(call_id="c", files=(TextPart(text="x"),)),  # pyright: ignore[reportArgumentType]
        ToolResultPart(call_id="c", files=(FilePart(media_type="x", data="x"),)),  # pyright: ignore[reportArgumentType]
    ],
    ids=str,
)
async def test_what_is_no_part_is_refused(store: Store, part: Any) -> None:
    """Things of the wrong type are told apart before anything is written: they could not be read again."""
    await refused(store, NewMessage(role="user", parts=(part,)), NotJson, "cannot be stored exactly")


@pytest.mark.parametrize("role", ["", "User", "developer", "function", " user", "user\x00", None, 5, ("user",)])
async def test_an_unknown_role_is_refused(store: Store, role: Any) -> None:
    """The error names the roles that there are."""
    error = await refused(
        store, NewMessage(role=role, parts=(TextPart(text="x"),)), UnknownRole, "`role` must be one of"
    )
    assert "system, user, assistant, tool" in str(error)


async def test_a_time_without_a_zone_is_refused(store: Store) -> None:
    """It names no moment, wherever a moment is asked for."""
    naive = datetime(2026, 1, 1)  # noqa: DTZ001
    await refused(store, NewMessage(role="user", parts=(), created_at=naive), InputError, "has no zone")
    with pytest.raises(InputError, match="has no zone"):
        await store.ledger.total("alice", since=naive)


@pytest.mark.parametrize(
    "moment",
    [
        datetime.min.replace(tzinfo=timezone(timedelta(hours=14))),
        datetime.max.replace(tzinfo=timezone(timedelta(hours=-12))),
    ],
)
async def test_a_time_outside_the_calendar_is_refused(store: Store, moment: datetime) -> None:
    """A moment that has no year in UTC could not be read again."""
    await refused(store, NewMessage(role="user", parts=(), created_at=moment), InputError, "cannot be stored")


@pytest.mark.parametrize("size", [1000, 1001])
@pytest.mark.parametrize("letter", ["x", "é", "漢", "🙂", "\x00", "\ud800"])
async def test_a_message_has_a_size(open_a_store: OpenStore, letter: str, size: int) -> None:
    """What is stored is measured in bytes: at the limit it is kept, one byte above it is refused."""
    store = await open_a_store(max_message_bytes=1000)
    each = len(letter.encode()) if letter not in "\x00\ud800" else 6
    frame = len('[{"type":"text","text":""}]')
    many, rest = divmod(size - frame, each)
    message = UserMessage(letter * many + "x" * rest, id="m")
    if size <= 1000:
        assert (await store.messages.save("alice", "t", message)).added == 1
        return
    error = await refused(store, message, MessageTooLarge, "Message m has 1,001 bytes, more than the limit of 1,000")
    assert "max_message_bytes" in error.then


async def test_growth_has_a_size_too(open_a_store: OpenStore) -> None:
    """A message that grows beyond the limit keeps what it had."""
    store = await open_a_store(max_message_bytes=200)
    await store.messages.save("alice", "t", AssistantMessage(["a"], id="m"))
    with pytest.raises(MessageTooLarge):
        await store.messages.save("alice", "t", AssistantMessage(["a", "x" * 300], id="m"))
    assert [row.text for row in await store.messages.get("alice", "m")] == ["a"]
    with pytest.raises(MessageTooLarge):
        await store.messages.save("alice", "t", ToolMessage("c", ["y" * 300]))
    assert (await store.threads.get("alice", "t")).last_seq == 1


@pytest.mark.parametrize(
    "zone", ["Mars/Olympus", "+99:00", "../../etc/passwd", "a\x00b", "\ud800", "Europe", "x" * 5000]
)
async def test_a_zone_that_nobody_knows_is_refused(store: Store, zone: str) -> None:
    """A message never changes: one that could not be dated would stay so for ever."""
    await refused(store, NewMessage(role="user", parts=(TextPart(text="x"),), zone=zone), InputError, "time zone")
