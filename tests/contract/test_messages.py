"""What every engine does with messages: saving them once, keeping them as they are, finding them again."""

import asyncio
import random
from collections.abc import Sequence
from datetime import timedelta

import pytest

from contract.raw_sql import run_sql, set_state
from kit.effort import counts
from kit.engines import weigh
from memolog.core.message import (
    AssistantMessage,
    Message,
    NewMessage,
    ReasoningPart,
    Role,
    TextPart,
    UserMessage,
)
from memolog.core.observation import Span
from memolog.errors import MessageConflict, MessageNotFound, ThreadNotFound
from memolog.store import Store
from memolog.testing import FakeClock


def said(*texts: str) -> list[NewMessage]:
    """Return a user message for each text, with the text as its id."""
    return [UserMessage(text, id=text) for text in texts]


async def texts(store: Store, thread: str = "t", resource: str = "alice") -> list[tuple[int, str]]:
    """Return number and text of what is live in a thread."""
    return [(message.seq, message.text) for message in await store.messages.after(resource, thread)]


# ---------------------------------------------------------------- saving


Rows = list[tuple[str, int, Role, list[str]]]
"""What a thread holds: id, continuation, role and texts of each row."""


def booked(rows: Rows, batch: Sequence[NewMessage]) -> Rows | None:
    """Return the rows after a batch by the rules alone; None if an item contradicts what is there."""
    rows = list(rows)
    for message in batch:
        offered = [part.text for part in message.parts if isinstance(part, TextPart)]
        known = [row for row in rows if row[0] == message.id]
        stored = [text for row in known for text in row[3]]
        shared = min(len(stored), len(offered))
        if known and (known[0][2] != message.role or stored[:shared] != offered[:shared]):
            return None
        if not known or len(offered) > len(stored):
            rows.append((message.id or "", len(known), message.role, offered[len(stored) :]))
    return rows


@pytest.mark.parametrize("seed", range(counts(4, 30)))
async def test_a_message_is_saved_once_and_may_grow(store: Store, seed: int) -> None:
    """New, repeated, shorter, longer and contradicting messages, alone and in batches, in three threads with the same ids.

    Growth is a further row with its own tokens. A contradiction saves nothing of its batch and uses no number up.
    """
    chance, book = random.Random(seed), dict[tuple[str, str], Rows]()
    for number in range(counts(60, 1000)):
        place = chance.choice((("alice", "t"), ("alice", "t2"), ("bob", "t")))
        batch: list[NewMessage] = []
        for _ in range(chance.choice((0, 1, 1, 1, 2, 4))):
            name = chance.choice(("a", "b", f"m{number}", f"n{number}"))
            texts_ = list("abcd"[: chance.randrange(5)]) if chance.random() < 0.95 else ["x"]
            make = UserMessage if (name == "b") is (chance.random() < 0.95) else AssistantMessage
            batch.append(make(texts_, id=name))
        before = book.get(place, [])
        after = booked(before, batch)
        if after is None:
            with pytest.raises(MessageConflict, match=f"in thread {place[1]} with other content.*new id"):
                await store.messages.save(*place, batch)
        else:
            saved = await store.messages.save(*place, batch if len(batch) != 1 else batch[0])
            assert saved.added == len(after) - len(before)
            book[place] = after
        if place not in book:
            with pytest.raises(ThreadNotFound):
                await store.threads.get(*place)
            continue
        found = await store.messages.after(*place)
        assert [(row.id, row.continuation, row.role, [part.text for part in row.parts]) for row in found] == book[place]  # pyright: ignore[reportAttributeAccessIssue]
        assert numbers(found) == list(range(1, len(found) + 1))
        assert [row.tokens for row in found] == [weigh(NewMessage(role=row.role, parts=row.parts)) for row in found]
        assert (await store.threads.get(*place)).last_seq == len(found)


async def test_the_same_again_ignores_what_is_not_content(store: Store, clock: FakeClock) -> None:
    """A repetition with another time or speaker is still one: the first stands."""
    await store.messages.save("alice", "t", UserMessage("a", id="m", speaker="Al"))
    clock.advance(days=1)
    again = await store.messages.save("alice", "t", UserMessage("a", id="m", speaker="Bo"))
    assert again.added == 0
    assert again.messages[0].speaker == "Al"
    assert again.messages[0].created_at == clock.now() - timedelta(days=1)


@pytest.mark.parametrize(
    "other",
    [
        AssistantMessage(["x"], id="m"),
        AssistantMessage(["a", "x"], id="m"),
        AssistantMessage(["a", "b", "x"], id="m"),
        AssistantMessage(["b", "a"], id="m"),
        UserMessage(["a", "b", "c"], id="m"),
        UserMessage([], id="m"),
        AssistantMessage([TextPart(text="a", extra={"x": 1}), "b", "c"], id="m"),
        AssistantMessage([ReasoningPart(text="a"), "b", "c"], id="m"),
    ],
)
async def test_other_content_is_refused(store: Store, other: NewMessage) -> None:
    """Another text, order, kind of part or role under a known id is a clear error that changes nothing."""
    await store.messages.save("alice", "t", AssistantMessage(["a", "b"], id="m"))
    await store.messages.save("alice", "t", AssistantMessage(["a", "b", "c"], id="m"))
    before = await store.messages.get("alice", "m")
    with pytest.raises(MessageConflict, match="Message m is already stored in thread t with other content") as caught:
        await store.messages.save("alice", "t", other)
    assert "new id" in str(caught.value)
    assert await store.messages.get("alice", "m") == before
    assert (await store.threads.get("alice", "t")).last_seq == 2
    assert (await store.messages.save("alice", "t", UserMessage("next"))).messages[0].seq == 3


async def test_numbers_stay_dense_among_many_writers(store: Store) -> None:
    """Batches of many callers at once neither mix nor leave gaps."""
    writers, rounds = counts(6, 20), counts(4, 20)

    async def write(writer: int) -> None:
        for turn in range(rounds):
            batch = [UserMessage(f"{writer}.{turn}.{part}") for part in range(3)]
            saved = await store.messages.save("alice", "t", batch)
            first = saved.messages[0].seq
            assert [row.seq for row in saved.messages] == [first, first + 1, first + 2]

    await asyncio.gather(*(write(writer) for writer in range(writers)))
    rows = await store.messages.after("alice", "t")
    assert [row.seq for row in rows] == list(range(1, writers * rounds * 3 + 1))
    for first in rows[::3]:
        # A batch is never torn apart by another writer.
        stem = first.text.rsplit(".", maxsplit=1)[0]
        assert [rows[first.seq - 1 + part].text for part in range(3)] == [f"{stem}.{part}" for part in range(3)]


async def test_growing_from_two_sides_keeps_one_order(store: Store) -> None:
    """Callers that stream the same message in steps end with each part once."""
    letters = "abcdefgh"

    async def stream() -> None:
        for length in range(1, len(letters) + 1):
            await store.messages.save("alice", "t", AssistantMessage(list(letters[:length]), id="m"))

    await asyncio.gather(stream(), stream(), stream())
    rows = await store.messages.get("alice", "m")
    assert "".join(row.text.replace("\n\n", "") for row in rows) == letters
    assert [row.continuation for row in rows] == list(range(len(rows)))


async def test_a_batch_larger_than_one_lookup(store: Store) -> None:
    """Known ids are found also in batches that need several lookups."""
    many = counts(600, 3000)
    batch = said(*(f"m{index}" for index in range(many)))
    assert (await store.messages.save("alice", "t", batch)).added == many
    assert (await store.messages.save("alice", "t", [*batch[-2:], *said("new")])).added == 1
    again = await store.messages.save("alice", "t", [*batch[:300], *said("newer")])
    assert again.added == 1
    assert (await store.threads.get("alice", "t")).last_seq == many + 2


# ---------------------------------------------------------------- loading


@pytest.fixture
async def ten(store: Store) -> Store:
    """Return a store with ten messages in a thread, m1 to m10."""
    await store.messages.save("alice", "t", said(*(f"m{index}" for index in range(1, 11))))
    return store


def numbers(messages: tuple[Message, ...]) -> list[int]:
    """Return the sequence numbers."""
    return [message.seq for message in messages]


async def test_the_tail_begins_after_the_cursor(ten: Store) -> None:
    """Oldest first, as many as asked for; a cursor at or past the end leaves nothing."""
    assert numbers(await ten.messages.after("alice", "t", 7)) == [8, 9, 10]
    assert numbers(await ten.messages.after("alice", "t", 0, limit=2)) == [1, 2]
    assert numbers(await ten.messages.after("alice", "t", -5, limit=1)) == [1]
    for cursor in (10, 99, 2**63, 2**80):
        assert await ten.messages.after("alice", "t", cursor) == ()


async def test_a_span_holds_both_its_ends(ten: Store) -> None:
    """First and last are included; what lies beyond the end is not there."""
    assert numbers(await ten.messages.span("alice", "t", Span(first=3, last=5))) == [3, 4, 5]
    assert numbers(await ten.messages.span("alice", "t", Span(first=10, last=2**80))) == [10]
    assert await ten.messages.span("alice", "t", Span(first=11, last=20)) == ()


async def test_a_missing_thread_has_no_tail(ten: Store) -> None:
    """A thread that is not there is told apart from one that is empty."""
    await ten.threads.create("alice", "empty")
    assert await ten.messages.after("alice", "empty") == ()
    assert (await ten.messages.page("alice", "empty")).items == ()
    for thread in ("nowhere", "T"):
        with pytest.raises(ThreadNotFound):
            await ten.messages.after("alice", thread)
        with pytest.raises(ThreadNotFound):
            await ten.messages.span("alice", thread, Span(first=1, last=1))
        with pytest.raises(ThreadNotFound):
            await ten.messages.page("alice", thread)
        with pytest.raises(ThreadNotFound):
            await ten.messages.page("alice", thread, before=5)


async def test_a_missing_message_is_not_found(ten: Store) -> None:
    """Neither by a wrong id nor in a wrong thread."""
    await ten.threads.create("alice", "empty")
    with pytest.raises(MessageNotFound, match="no message m11"):
        await ten.messages.get("alice", "m11")
    for thread in ("empty", "nowhere"):
        with pytest.raises(MessageNotFound):
            await ten.messages.get("alice", "m1", thread=thread)


@pytest.mark.parametrize(
    ("where", "shown", "more"),
    [
        ({"limit": 4}, range(1, 5), "4"),
        ({"after": 4, "limit": 4}, range(5, 9), "8"),
        ({"after": 8, "limit": 4}, range(9, 11), None),
        ({"after": 8, "limit": 2}, range(9, 11), None),
        ({"after": 2**80}, (), None),
        ({"before": 2**80, "limit": 4}, range(7, 11), "7"),
        ({"before": 7, "limit": 4}, range(3, 7), "3"),
        ({"before": 3, "limit": 4}, range(1, 3), None),
        ({"before": 1}, (), None),
    ],
    ids=str,
)
async def test_pages_lead_to_the_end_and_to_the_start(
    ten: Store, where: dict[str, int], shown: Sequence[int], more: str | None
) -> None:
    """Each page starts where the last one ended, and is shown oldest first also on the way back."""
    page = await ten.messages.page("alice", "t", **where)
    assert (numbers(page.items), page.next) == (list(shown), more)


# ---------------------------------------------------------------- tombstones


async def test_a_tombstone_keeps_its_place(ten: Store) -> None:
    """What was withdrawn or forgotten is in no tail, and in every span and page."""
    await set_state(ten, "m3", "withdrawn")
    await set_state(ten, "m5", "forgotten")
    live = [1, 2, 4, 6, 7, 8, 9, 10]
    assert numbers(await ten.messages.after("alice", "t")) == live
    span = await ten.messages.span("alice", "t", Span(first=2, last=6))
    assert [(row.seq, row.state) for row in span] == [
        (2, "live"),
        (3, "withdrawn"),
        (4, "live"),
        (5, "forgotten"),
        (6, "live"),
    ]
    assert span[3].parts == ()
    assert numbers((await ten.messages.page("alice", "t")).items) == list(range(1, 11))
    assert (await ten.messages.save("alice", "t", UserMessage("next"))).messages[0].seq == 11


async def test_what_was_withdrawn_can_be_said_again(store: Store) -> None:
    """It is as if it had not been said: the same id is saved anew, behind, with other words and role if need be."""
    await store.messages.save("alice", "t", [UserMessage("a", id="m"), UserMessage("b", id="n")])
    await set_state(store, "m", "withdrawn")
    again = await store.messages.save("alice", "t", AssistantMessage("other", id="m"))
    assert again.added == 1
    assert [(row.seq, row.continuation, row.text) for row in again.messages] == [(3, 1, "other")]
    assert await texts(store) == [(2, "b"), (3, "other")]
    repeated = await store.messages.save("alice", "t", AssistantMessage("other", id="m"))
    assert (repeated.messages, repeated.added) == (again.messages, 0)
    with pytest.raises(MessageConflict):
        await store.messages.save("alice", "t", UserMessage("a", id="m"))
    assert [row.state for row in await store.messages.get("alice", "m")] == ["withdrawn", "live"]


async def test_what_was_forgotten_does_not_come_back(store: Store) -> None:
    """Saving it again, longer, with other words or in a batch is refused: nothing is left that it could be compared with."""
    batch = said("a", "b")
    await store.messages.save("alice", "t", batch)
    await set_state(store, "a", "forgotten")
    for offered in (batch[0], UserMessage(["a", "more"], id="a"), AssistantMessage("else", id="a")):
        with pytest.raises(MessageConflict, match="was forgotten") as caught:
            await store.messages.save("alice", "t", offered)
        assert caught.value.is_forgotten
    with pytest.raises(MessageConflict, match="Message a of thread t was forgotten"):
        await store.messages.save("alice", "t", [*batch, *said("c")])
    assert await texts(store) == [(2, "b")]
    assert (await store.threads.get("alice", "t")).last_seq == 2
    assert await store.messages.not_stored("alice", "t", [*batch, *said("c")]) == tuple(said("c"))


async def test_a_forgotten_row_among_several_stops_growth(store: Store) -> None:
    """A message of which one row was forgotten does not grow any more."""
    await store.messages.save("alice", "t", AssistantMessage(["a"], id="m"))
    await store.messages.save("alice", "t", AssistantMessage(["a", "b"], id="m"))
    await run_sql(store, "UPDATE messages SET state = 'forgotten', parts = '[]' WHERE continuation = 1")
    with pytest.raises(MessageConflict, match="was forgotten"):
        await store.messages.save("alice", "t", AssistantMessage(["a", "b", "c"], id="m"))
    assert await texts(store) == [(1, "a")]
