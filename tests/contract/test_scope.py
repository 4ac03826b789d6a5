"""Scope is mandatory: every public method names its resource, and what is foreign answers as if it did not exist.

The methods are found by looking, so one that is added without a case here fails the tests.
"""

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pytest

from conftest import FakeClock
from contract.raw_sql import add_task
from memolog.domain.errors import EmptyId, InputError, MemologError
from memolog.domain.message import NewMessage, UserMessage
from memolog.domain.observation import Span
from memolog.domain.run import Calibration, Lease, Usage
from memolog.search.keys import TASK, key_of_message, key_of_other
from memolog.search.query import parse
from memolog.store import Store

PARTS: Final = ("threads", "messages", "leases", "ledger", "indexing", "searching")
# Pieces of larger scripts: they do no I/O themselves, and what they make runs inside a method that named its resource.
SCRIPTS: Final = {"messages.ready", "messages.saving"}
MINUTE: Final = timedelta(minutes=1)
QUERY: Final = parse("one two", datetime(2026, 1, 1, tzinfo=UTC))

Call = Callable[[Store, str, Lease], Awaitable[object]]


def learn(known: Calibration) -> Calibration:
    """Learn something."""
    return Calibration(model=known.model, factor=known.factor * 2, samples=known.samples + 1)


# Each case calls one method for a resource that owns nothing, with the ids of somebody else's things.
CASES: Final[dict[str, list[Call]]] = {
    "threads.create": [lambda s, r, _: s.threads.create(r, "t", title="mine")],
    "threads.get": [lambda s, r, _: s.threads.get(r, "secret")],
    "threads.list": [
        lambda s, r, _: s.threads.list(r),
        lambda s, r, _: s.threads.list(r, after=f"{2**62}.{2**62}"),
    ],
    "threads.count": [lambda s, r, _: s.threads.count(r)],
    "threads.update": [lambda s, r, _: s.threads.update(r, "secret", title="mine now")],
    "threads.clone": [
        lambda s, r, _: s.threads.clone(r, "secret", "copy"),
        lambda s, r, _: s.threads.clone(r, "secret", "secret"),
    ],
    "threads.delete": [lambda s, r, _: s.threads.delete(r, "secret")],
    "messages.save": [
        lambda s, r, _: s.messages.save(r, "secret", UserMessage("x", id="m1"), create=False),
        lambda s, r, _: s.messages.save(r, "new", UserMessage("other words", id="m1")),
    ],
    "messages.after": [lambda s, r, _: s.messages.after(r, "secret")],
    "messages.span": [lambda s, r, _: s.messages.span(r, "secret", Span(first=1, last=2))],
    "messages.get": [
        lambda s, r, _: s.messages.get(r, "m2"),
        lambda s, r, _: s.messages.get(r, "m2", thread="secret"),
    ],
    "messages.page": [
        lambda s, r, _: s.messages.page(r, "secret"),
        lambda s, r, _: s.messages.page(r, "secret", before=3),
    ],
    "messages.of_resource": [
        lambda s, r, _: s.messages.of_resource(r),
        lambda s, r, _: s.messages.of_resource(r, newest_first=True, after=f"{2**62}.{2**62}.{2**62}"),
    ],
    "messages.totals": [
        lambda s, r, _: s.messages.totals(r, "secret"),
        lambda s, r, _: s.messages.totals(r),
    ],
    "leases.acquire": [lambda s, r, _: s.leases.acquire(r, "lock", "me", lasts=MINUTE)],
    "leases.renew": [lambda s, r, lease: s.leases.renew(r, lease, lasts=MINUTE)],
    "leases.release": [lambda s, r, lease: s.leases.release(r, lease)],
    "leases.get": [lambda s, r, _: s.leases.get(r, "lock")],
    "leases.reap": [lambda s, r, _: s.leases.reap(r)],
    "ledger.add": [lambda s, r, _: s.ledger.add(r, Usage(model="m", cost=1.0, thread="secret", task="task"))],
    "ledger.lines": [
        lambda s, r, _: s.ledger.lines(r),
        lambda s, r, _: s.ledger.lines(r, thread="secret"),
        lambda s, r, _: s.ledger.lines(r, task="task"),
        lambda s, r, _: s.ledger.lines(r, run="run"),
    ],
    "ledger.total": [
        lambda s, r, _: s.ledger.total(r),
        lambda s, r, _: s.ledger.total(r, thread="secret"),
    ],
    "ledger.calibration": [lambda s, r, _: s.ledger.calibration(r, "m")],
    "ledger.calibrate": [lambda s, r, _: s.ledger.calibrate(r, "m", learn)],
    "indexing.catch_up": [lambda s, r, _: s.indexing.catch_up(r, str)],
    "indexing.behind": [lambda s, r, _: s.indexing.behind(r)],
    "searching.search": [
        lambda s, r, _: s.searching.search(r, QUERY),
        lambda s, r, _: s.searching.search(r, replace(QUERY, threads=frozenset({"secret"}))),
    ],
    "searching.rows": [lambda s, r, _: s.searching.rows(r, [key_of_message(1, 1, 1, 0), key_of_other(1, 1, TASK)])],
}


def public_methods(store: Store) -> dict[str, Callable[..., Any]]:
    """Return every public method of the store's parts by name."""
    found: dict[str, Callable[..., Any]] = {}
    for part in PARTS:
        for name, method in inspect.getmembers(getattr(store, part), callable):
            if not name.startswith("_"):
                found[f"{part}.{name}"] = method
    return found


async def outcome(call: Call, store: Store, resource: str, lease: Lease) -> str:
    """Return what a caller gets to see, with its own name taken out."""
    try:
        seen = repr(await call(store, resource, lease))
    except MemologError as error:
        seen = f"{type(error).__name__}: {error}"
    return seen.replace(resource, "CALLER")


async def everything(store: Store) -> str:
    """Return all that alice has."""
    return repr(
        (
            await store.threads.list("alice"),
            await store.messages.of_resource("alice"),
            await store.leases.get("alice", "lock"),
            await store.ledger.lines("alice"),
            await store.ledger.calibration("alice", "m"),
        )
    )


async def move_in(store: Store) -> Lease:
    """Give alice one of everything."""
    await store.threads.create("alice", "secret", title="hers")
    await store.messages.save("alice", "secret", [UserMessage("one", id="m1"), UserMessage("two", id="m2")])
    await add_task(store, "alice", "task")
    lease = await store.leases.acquire("alice", "lock", "owner", lasts=MINUTE)
    assert lease is not None
    await store.ledger.add("alice", Usage(model="m", cost=2.0, thread="secret", task="task", run="run"))
    await store.ledger.calibrate("alice", "m", learn)
    return lease


def test_every_method_has_a_case(store: Store) -> None:
    """A new public method needs a case here, and a case needs a method."""
    assert set(public_methods(store)) - SCRIPTS == set(CASES)
    for name in SCRIPTS:
        assert not inspect.iscoroutinefunction(public_methods(store)[name]), name


@pytest.mark.parametrize("name", CASES)
async def test_what_is_foreign_does_not_exist(store: Store, clock: FakeClock, name: str) -> None:
    """A stranger gets the same answer whether or not the thing exists, and changes nothing of it."""
    lease = Lease(name="lock", owner="owner", fence=1, expires_at=clock.now() + MINUTE)
    before = [await outcome(call, store, "stranger-1", lease) for call in CASES[name]]
    assert await move_in(store) == lease
    hers = await everything(store)
    after = [await outcome(call, store, "stranger-2", lease) for call in CASES[name]]
    assert after == before
    assert await everything(store) == hers
    clock.advance(hours=1)
    for call in CASES[name]:
        await outcome(call, store, "stranger-3", lease)
    assert await everything(store) == hers


# ---------------------------------------------------------------- ids that are none

# A good value for each parameter without a default, and for each that is an id.
GOOD: Final[dict[str, object]] = {
    "resource": "alice",
    "thread": "secret",
    "new_thread": "copy",
    "message_id": "m1",
    "messages": UserMessage("x"),
    "name": "lock",
    "owner": "owner",
    "turn": "turn",
    "task": "task",
    "run": "run",
    "model": "m",
    "learn": learn,
    "span": Span(first=1, last=2),
    "redact": str,
    "query": QUERY,
    "keys": [],
    "lasts": MINUTE,
    "usage": Usage(model="m"),
}
IDS: Final = {"resource", "thread", "new_thread", "message_id", "name", "owner", "turn", "task", "run", "model"}
EMPTY: Final[tuple[object, ...]] = ("", " ", "\t\n ", "\u3000")
BAD: Final[tuple[object, ...]] = (
    *("a\x00b", "a\nb", "\x7f", "\x1b[0m", "\ud800", "\u202eabc", "\ufeff"),
    *("x" * 513, "é" * 100_000),
    *(5, 1.5, True, b"alice", ["alice"], {"alice"}, object()),
)


def arguments(method: Callable[..., Any], lease: Lease) -> dict[str, object]:
    """Return good arguments for a method; an unknown required parameter fails the test."""
    given: dict[str, object] = {}
    for name, parameter in inspect.signature(method).parameters.items():
        if name in IDS or parameter.default is inspect.Parameter.empty:
            given[name] = lease if name == "lease" else GOOD[name]
    return given


async def test_ids_that_are_none_are_refused(store: Store) -> None:
    """Empty, blank, unprintable, overlong and non-text ids: every id of every method, with nothing changed."""
    lease = await move_in(store)
    hers = await everything(store)
    tried = 0
    for full_name, method in public_methods(store).items():
        if full_name in SCRIPTS:
            continue
        good = arguments(method, lease)
        assert "resource" in good, full_name
        for name in IDS & set(good):
            required = inspect.signature(method).parameters[name].default is inspect.Parameter.empty
            for value in (*EMPTY, *BAD, *((None,) if required else ())):
                with pytest.raises(EmptyId if value in EMPTY else InputError) as caught:
                    await method(**{**good, name: value})
                assert caught.value.what, (full_name, name)
                assert caught.value.then, (full_name, name)
                assert len(str(caught.value)) < 1000
                tried += 1
    assert tried > 500
    assert await everything(store) == hers


async def test_message_ids_are_ids(store: Store) -> None:
    """An id inside a message obeys the same rule; a bad one saves nothing."""
    for value in (*EMPTY, *BAD):
        message: Any = NewMessage(role="user", parts=(), id=value)  # pyright: ignore[reportArgumentType]
        with pytest.raises(EmptyId if value in EMPTY else InputError):
            await store.messages.save("alice", "t", [UserMessage("good"), message])
    assert await store.threads.count("alice") == 0


async def test_ids_inside_a_usage_are_ids(store: Store) -> None:
    """What a request names obeys the same rule."""
    for field in ("model", "thread", "task", "run"):
        for value in (*EMPTY, *BAD):
            usage: Any = Usage(**{"model": "m", field: value})  # pyright: ignore[reportArgumentType]
            with pytest.raises(EmptyId if value in EMPTY else InputError):
                await store.ledger.add("alice", usage)
    assert (await store.ledger.total("alice")).requests == 0


@pytest.mark.parametrize(
    "name", ["x", "x" * 512, "日本語", "a b", "'; DROP TABLE threads; --", "%_\\", "Ω≈ç", "🧵", "../etc"]
)
async def test_printable_text_is_an_id(store: Store, name: str) -> None:
    """Anything that can be shown may name things, and names itself alone."""
    await store.messages.save(name, name, UserMessage("x", id=name))
    assert (await store.threads.get(name, name)).id == name
    assert (await store.messages.get(name, name))[0].id == name
    assert await store.threads.count(name) == 1
    assert await store.threads.count(f"{name[:-1]}y") == 0


async def test_ids_are_compared_exactly(store: Store) -> None:
    """Case, blanks, composed and decomposed letters tell ids apart."""
    ids = ["a", "A", " a", "a ", "é", "e\u0301", "ａ"]
    for name in ids:
        await store.messages.save("alice", name, UserMessage(name, id=name))
        await store.messages.save(name, "t", UserMessage(name))
    for name in ids:
        assert [row.text for row in await store.messages.after("alice", name)] == [name]
        assert [row.text for row in await store.messages.after(name, "t")] == [name]
    assert await store.threads.count("alice") == len(ids)
