"""Scope is mandatory: every public method names its resource, and what is foreign answers as if it did not exist.

The methods are found by looking, so one that is added without a case here fails the tests.
"""

import inspect
import io
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pytest

from contract.raw_sql import add_task, lease_of
from kit.rows import render_briefly
from kit.talk import tasks_of
from memolog.admin.transfer_store import BY_KIND, Arrival
from memolog.compaction.store import RowTexts
from memolog.core.config import Config
from memolog.core.item import ItemChange
from memolog.core.message import Message, NewMessage, UserMessage
from memolog.core.observation import Observation, Span
from memolog.core.run import Calibration, Lease, Usage
from memolog.core.thread import Hints
from memolog.db.sqlite import SqliteEngine
from memolog.errors import EmptyId, InputError, MemologError
from memolog.events import TitleChanged
from memolog.log.runs import NewRun, RunClaim, RunResult
from memolog.log.snapshot import GroupRow, OtherLimits
from memolog.log.store import Rendered
from memolog.search.bm25 import TASK, key_of_message, key_of_other
from memolog.search.query import parse
from memolog.search.recall_store import Place, Stretch
from memolog.store import Store
from memolog.tasks.calls import Tasks
from memolog.testing import FakeClock
from memolog.working_memory.document import replaced

# Parts of the store that act for the whole database, or that are no calls.
NOT_OF_A_RESOURCE: Final = {
    "processes",
    "due",
    "survey",
    "measuring",
    "doctor",
    "cache",
    "clock",
    "engine",
    "new_id",
    "render",
    "config",
}
# Pieces of larger scripts: they do no I/O themselves, and what they make runs inside a method that named its resource.
SCRIPTS: Final = {"jobs.deferring", "messages.ready", "messages.ready_soon", "messages.saving"}
# They take a snapshot, which names its resource and which only a method that named it gives out; the log that they change must
# be of that resource.
BY_SNAPSHOT: Final = {"logs.plans", "logs.activate_reflection", "logs.restore"}
MINUTE: Final = timedelta(minutes=1)
NOW: Final = datetime(2026, 3, 14, 9, 0, tzinfo=UTC)
AFTER: Final = NOW + timedelta(days=999)
CONTEXT: Final[dict[str, Any]] = {"turn": "turn-1", "step": 1, "now": NOW, "record": {"a": 1}, "model": "m"}
CLAIM: Final = RunClaim(run="run-1", owner="owner", fence=1)
RESULT: Final = RunResult(group="g", observations=(), hints=None, tokens=0, model="m", prompt_version="1")

PLACE: Final = Place(stretches=(Stretch(thread_pk=1, thread="secret", first=1, last=2),), start=(1, 1, 0, 0))

ROWS: Final = (RowTexts(seq=1, search="x", brief="x"), RowTexts(seq=2, search="x", brief="x"))
QUERY: Final = parse("one two", datetime(2026, 1, 1, tzinfo=UTC))
OBSERVE: Final = NewRun(id="mine", kind="observe", thread="secret", span=Span(first=2, last=2), inputs={})


def learn(known: Calibration) -> Calibration:
    """Learn something."""
    return Calibration(model=known.model, factor=known.factor * 2, samples=known.samples + 1)


def public_methods(store: Store) -> dict[str, Callable[..., Any]]:
    """Return every public method of the store's parts by name."""
    found: dict[str, Callable[..., Any]] = {}
    for part in vars(store).keys() - NOT_OF_A_RESOURCE:
        for name, method in inspect.getmembers(getattr(store, part), callable):
            if not name.startswith("_"):
                found[f"{part}.{name}"] = method
    for name, method in inspect.getmembers(Tasks, inspect.isfunction):
        if not name.startswith("_"):
            found[f"tasks.{name}"] = of_resource(store, name, method)
    return found


def of_resource(store: Store, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method of `Tasks` as a function that also takes the resource."""

    async def call(resource: str, **given: Any) -> Any:
        return await getattr(tasks_of(store, resource, session="holder"), name)(**given)

    signature = inspect.signature(method)
    resource = inspect.Parameter("resource", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    _, *others = signature.parameters.values()
    vars(call)["__signature__"] = signature.replace(parameters=[resource, *others])
    return call


METHODS: Final = public_methods(
    Store(
        SqliteEngine(":memory:"),
        clock=FakeClock(),
        new_id=str,
        weigh=lambda _: 1,
        render=render_briefly,
        config=Config(),
    )
)


async def outcome(method: Callable[..., Any], arguments: dict[str, object]) -> str:
    """Return what a caller gets to see, with its own name taken out."""
    try:
        seen = repr(await method(**arguments))
    except MemologError as error:
        seen = f"{type(error).__name__}: {error}"
    return seen.replace(str(arguments["resource"]), "CALLER")


async def everything(store: Store) -> str:
    """Return all that alice has."""
    tasks = tasks_of(store, "alice")
    return repr(
        (
            await store.threads.list("alice"),
            await store.messages.after("alice", "secret"),
            await lease_of(store, "alice", "lock"),
            await store.ledger.lines("alice"),
            await store.ledger.calibration("alice", "m"),
            await store.settings.get("alice"),
            await store.logs.snapshot("alice", "secret", "thread", create=False),
            await store.logs.history("alice", "secret"),
            await store.runs.list("alice"),
            await store.runs.prompts("alice", CLAIM.run),
            await store.journal.events("alice"),
            await store.journal.contexts("alice", "secret"),
            await tasks.list(),
            [await tasks.show(handle) for handle in ("T-1", "T-2", "T-3")],
            [await tasks.history(handle) for handle in ("T-1", "T-2", "T-3")],
            await tasks.messages("T-1"),
            await store.working_memory.versions("alice"),
            await store.working_memory.versions("alice", "secret"),
            await store.items.under("alice", ()),
            await store.compactions.list("alice", "short"),
            await store.line_edits.get("alice", "line-1"),
            await store.tombstones.find("alice", "gone", [UserMessage("lost", id="m9")]),
        )
    )


async def move_in(store: Store) -> Lease:
    """Give alice one of everything."""
    await store.threads.create("alice", "secret", title="hers")
    messages = [UserMessage("one", id="m1"), UserMessage("two", id="m2")]
    await store.messages.save("alice", "secret", messages, turn="turn-1")
    snapshot = await store.logs.snapshot("alice", "secret", "thread")
    run = NewRun(id=CLAIM.run, kind="observe", thread="secret", span=Span(first=1, last=1), inputs={})
    log = snapshot.log
    await store.runs.start("alice", log.pk, log.version, [run], owner=CLAIM.owner, now=NOW, lease=30)
    await store.runs.keep_prompt("alice", CLAIM.run, '{"text": "hers"}', "answered")
    await store.journal.add("alice", [TitleChanged(at=NOW, resource="alice", thread="secret", title="hers")])
    await store.journal.add_context("alice", snapshot.thread.pk, **CONTEXT)
    await add_task(store, "alice", "task")
    tasks = tasks_of(store, "alice", session="holder", who="alice")
    await tasks.create("First", created_from=("m1",))
    await tasks.create("Second", blocked_by=("T-1",))
    await tasks.create("First of all, done")
    await tasks.claim("T-1", lease=3600, thread="secret")
    await tasks.close("T-3", summary="done")
    lease = await store.leases.acquire("alice", "lock", "owner", lasts=MINUTE)
    assert lease is not None
    await store.ledger.add("alice", Usage(model="m", cost=2.0, thread="secret", task="task", run=CLAIM.run))
    await store.ledger.calibrate("alice", "m", learn)
    await store.settings.put("alice", {"scope": "thread"})
    for text in ("hers", "still hers"):
        await store.working_memory.change("alice", replaced(text), who="alice", most=100)
    await store.working_memory.change("alice", replaced("of one thread"), thread="secret", who="alice", most=100)
    await store.items.change("alice", [ItemChange(("notes",), "hers", {"text": "hers"})])
    await store.messages.save("alice", "short", [UserMessage("one"), UserMessage("two")])
    await store.compactions.compact("alice", "short", ROWS, summary="hers", now=store.clock.now())
    await observe(store)
    await store.messages.save("alice", "gone", UserMessage("lost", id="m9"))
    await store.forgetting.thread("alice", "gone")
    return lease


def observed_again(_thread: str, _group: str, _messages: Sequence[Message]) -> tuple[Observation, ...]:
    """Observe nothing again."""
    return ()


async def observe(store: Store) -> None:
    """Give alice a line in the log of a thread."""
    log = (await store.logs.snapshot("alice", "short", "thread")).log
    run = NewRun(id="run-2", kind="observe", thread="short", span=Span(first=1, last=2), inputs={})
    claims = await store.runs.start("alice", log.pk, log.version, [run], owner="owner", now=NOW, lease=30)
    line = Observation(id="line-1", group="group-1", ordinal=1, priority="high", text="hers")
    await store.runs.finish("alice", claims[0], replace(RESULT, group="group-1", observations=(line,)), now=NOW)
    log = (await store.logs.snapshot("alice", "short", "thread")).log
    await store.logs.activate("alice", log.pk, log.version, [Rendered(id="group-1", text="hers", tokens=1)], now=NOW)


# A good value for each parameter without a default, and for each that is an id.
GOOD: Final[dict[str, object]] = {
    "choose": list[GroupRow],
    "resource": "alice",
    "thread": "secret",
    "threads": ["secret"],
    "limits": OtherLimits(threads=8, messages=30),
    "settings": {"scope": "resource"},
    "new_thread": "copy",
    "message_id": "m1",
    "messages": UserMessage("other words", id="m1"),
    "name": "lock",
    "owner": "me",
    "turn": "turn",
    "task": "task",
    "run": CLAIM.run,
    "model": "m",
    "learn": learn,
    "span": Span(first=1, last=2),
    "spans": [("secret", Span(first=1, last=2))],
    "reference": "m1",
    "rows": ROWS,
    "compaction": "c1",
    "keep": 0,
    "days": 30,
    "place": PLACE,
    "position": PLACE.start,
    "seq": 3,
    "redact": str,
    "left": str.upper,
    "keys": [key_of_message(1, 1, 1, 0), key_of_other(1, 1, TASK)],
    "lasts": MINUTE,
    "usage": Usage(model="m"),
    "scope": "thread",
    "at": NOW,
    "log_pk": 1,
    "thread_pk": 1,
    "version": 0,
    "runs": [OBSERVE],
    "now": NOW,
    "lease": 30.0,
    "claim": CLAIM,
    "result": RESULT,
    "results": [(CLAIM, RESULT)],
    "error": "broken",
    "retry_at": NOW,
    "events": [TitleChanged(at=NOW, resource="alice", thread="secret", title="mine")],
    "number": 1,
    "render": render_briefly,
    "who": "me",
    "source": "T-1",
    "target": "T-2",
    "session": "holder",
    "summary": "done",
    "title": "First",
    "id": "mine",
    "until": NOW,
    "when": NOW,
    "query": QUERY,
    "change": replaced("mine"),
    "most": 100,
    "observation": "line-1",
    "text": "mine",
    "tokens": 1,
    "file": io.BytesIO(),
    "arrival": Arrival(resource="alice", is_fresh=False),
    "created_at": NOW,
    "hints": Hints(),
    "texts": {"group-1": "mine"},
    "generation": 0,
    "entries": 99,
    "last_seq": 1,
    "ids": ["line-1"],
    "groups": ["group-1"],
    "fence": 1,
    "why": "broken",
    "claims": [CLAIM],
    "prompt": "{}",
    "reply": "answered",
    "step": 1,
    "record": {},
    "count": len,
    "to": 0,
    "again": observed_again,
    "branch": "b1",
    "updated_at": NOW,
    "last": 0,
    "limit": 10,
    "shared": False,
    "before": None,
    "namespace": ("notes",),
    "key": "hers",
    "changes": [ItemChange(("notes",), "hers", {"text": "mine"})],
}
# Where no thread is meant, it is the log that all threads share.
NONE_IS_MEANT: Final = {("logs.history", "thread"), ("logs.as_of", "thread")}
# What a caller's model is called is noted as it was said.
# A name that is no id may be the title of a task.
NO_ID: Final = {("journal.add_context", "model"), ("tasks.find", "name")}
IDS: Final = {
    *("resource", "thread", "new_thread", "message_id", "name", "owner", "turn", "task", "run", "model"),
    *("who", "session", "source", "target", "compaction", "observation", "branch", "id"),
}
# Values of parameters that mean something else in other methods.
OTHER_GOOD: Final[dict[tuple[str, str], object]] = {
    ("logs.activate", "groups"): [],
    ("transfers.put", "rows"): [(BY_KIND["task-label"], {"task": "task", "label": "mine"})],
    ("runs.stored", "runs"): [CLAIM.run, "run-2"],
    ("tombstones.find", "messages"): [UserMessage("lost", id="m9")],
    ("tombstones.lift", "messages"): [UserMessage("lost", id="m9")],
    ("tombstones.threads", "threads"): [("gone", 0)],
    ("messages.report_files", "tokens"): {1: 5},
    ("tasks.attach", "messages"): ["m1"],
    ("tasks.detach", "messages"): ["m1"],
    ("tasks.search", "query"): "First",
    ("inspection.log_page", "messages"): None,
}
# Further values of a parameter: keys are small numbers and easily guessed, and things have several names.
OTHER_NAMES: Final[dict[str, Sequence[object]]] = {
    "log_pk": range(1, 6),
    "thread_pk": range(1, 6),
    "version": range(6),
    "task": ("T-1", "T-2", "T-3"),
    "thread": ("secret", "short", "gone"),
    "reference": ("secret 1-2", 1, "g1"),
    "runs": ([OBSERVE], [replace(OBSERVE, kind="reflect", thread=None, span=None)]),
    "number": (1, 2),
    "at": (NOW, NOW + MINUTE),
    "now": (NOW, AFTER),
    "scope": ("thread", "resource"),
    "query": (QUERY, replace(QUERY, threads=frozenset({"secret"}))),
}
FURTHER: Final[dict[str, Sequence[dict[str, object]]]] = {
    "threads.list": [{"after": f"{2**62}.{2**62}"}],
    "threads.clone": [{"new_thread": "secret"}],
    "messages.save": [{"thread": "new"}],
    "messages.page": [{"before": 3}],
    "logs.snapshot": [{"create": False}],
    "logs.others": [{"log_pk": 2, "limits": OtherLimits(threads=0, messages=30)}],
    "tombstones.find": [{"messages": [UserMessage("lost")], "is_history": True}],
    "forgetting.older": [{"messages": AFTER, "prompts": AFTER, "events": AFTER}],
    "working_memory.versions": [{"before": 2}],
    "journal.sizes": [{"before": 99}],
    "inspection.log_page": [{"shared": True}, {"messages": Span(first=1, last=2)}],
    "tasks.create": [{"created_from": ("m1",)}, {"blocked_by": ("task",)}, {"parent": "T-1"}],
    "tasks.edit": [{"task": "T-1", "title": "changed"}],
    "tasks.find": [{"name": "T-1"}, {"name": "First"}],
    "tasks.release": [{"task": "T-1", "force": True}],
    "tasks.close": [{"task": "T-1", "force": True}],
    "tasks.list": [{"parent": "T-1"}],
    "tasks.stale": [{"days": 0}],
    "tasks.duplicates": [{"task": None, "title": title, "least": 0.0} for title in (None, "First")],
    "tasks.attach": [{"task": "T-1", "messages": Span(first=1, last=2)}],
    "tasks.search": [{"related": True}],
}
# They make an id where none is given, another one each time.
MAKE_IDS: Final = {"threads.create", "threads.clone", "tasks.create"}
EMPTY: Final[tuple[object, ...]] = ("", " ", "\t\n ", "\u3000")
BAD: Final[tuple[object, ...]] = (
    *("a\x00b", "a\nb", "\x7f", "\x1b[0m", "\ud800", "\u202eabc", "\ufeff"),
    *("x" * 513, "é" * 100_000),
    *(5, 1.5, True, b"alice", ["alice"], {"alice"}, object()),
)


def arguments(full_name: str, method: Callable[..., Any], lease: Lease) -> dict[str, object]:
    """Return good arguments for a method; an unknown required parameter fails the test."""
    given: dict[str, object] = {}
    for name, parameter in inspect.signature(method).parameters.items():
        if name in IDS or parameter.default is inspect.Parameter.empty:
            good = OTHER_GOOD.get((full_name, name), GOOD[name])
            given[name] = lease if name == "lease" and parameter.annotation in {Lease, "Lease"} else good
    return given


def calls(full_name: str, method: Callable[..., Any], resource: str, lease: Lease) -> Iterator[dict[str, object]]:
    """Return the arguments of the calls that are tried: with each value that may name something, with ids and without."""
    whole = {**arguments(full_name, method, lease), "resource": resource}
    if "arrival" in whole:
        whole["arrival"] = Arrival(resource=resource, is_fresh=False)
    parameters = inspect.signature(method).parameters
    optional = [name for name in whole if parameters[name].default is not inspect.Parameter.empty]
    needed = {name: value for name, value in whole.items() if name not in optional}
    yield whole
    if full_name not in MAKE_IDS:
        yield needed
        yield from ({**needed, name: whole[name]} for name in optional)
    others = {
        name: values for name, values in OTHER_NAMES.items() if name in whole and (full_name, name) not in OTHER_GOOD
    }
    for values in itertools.product(*others.values()):
        yield {**whole, **dict(zip(others, values, strict=True))}
    yield from ({**whole, **further} for further in FURTHER.get(full_name, ()))


def test_every_method_has_a_case() -> None:
    """A method names its resource first, and a new parameter needs a value here."""
    for name, method in METHODS.items():
        first = "snapshot" if name in BY_SNAPSHOT else "resource"
        assert next(iter(inspect.signature(method).parameters)) == first, name
    assert SCRIPTS | BY_SNAPSHOT | set(FURTHER) | MAKE_IDS <= set(METHODS)


def test_the_store_itself_names_a_resource(store: Store) -> None:
    """Its own methods too, except for those that act for the whole database."""
    alone = {name for name, _ in inspect.getmembers(store, inspect.iscoroutinefunction) if not name.startswith("_")}
    assert {name for name in alone if "resource" not in inspect.signature(getattr(store, name)).parameters} == {
        "close",
        "resources",
        "spent",
    }


@pytest.mark.parametrize("name", sorted(METHODS.keys() - SCRIPTS - BY_SNAPSHOT))
async def test_what_is_foreign_does_not_exist(store: Store, clock: FakeClock, name: str) -> None:
    """A stranger gets the same answer whether or not the thing exists, and changes nothing of it."""
    lease = Lease(name="lock", owner="owner", fence=1, expires_at=clock.now() + MINUTE)
    method = public_methods(store)[name]
    before = [await outcome(method, given) for given in calls(name, method, "stranger-1", lease)]
    assert await move_in(store) == lease
    hers = await everything(store)
    after = [await outcome(method, given) for given in calls(name, method, "stranger-2", lease)]
    assert after == before
    assert await everything(store) == hers
    clock.advance(hours=1)
    for given in calls(name, method, "stranger-3", lease):
        await outcome(method, given)
    assert await everything(store) == hers


# ---------------------------------------------------------------- ids that are none


async def test_ids_that_are_none_are_refused(store: Store) -> None:
    """Empty, blank, unprintable, overlong and non-text ids: every id of every method, with nothing changed."""
    lease = await move_in(store)
    hers = await everything(store)
    tried = 0
    for full_name, method in public_methods(store).items():
        if full_name in SCRIPTS | BY_SNAPSHOT:
            continue
        good = arguments(full_name, method, lease)
        assert "resource" in good, full_name
        for name in (name for name in IDS & set(good) if (full_name, name) not in NO_ID):
            required = inspect.signature(method).parameters[name].default is inspect.Parameter.empty
            required = required and (full_name, name) not in NONE_IS_MEANT
            for value in (*EMPTY, *BAD, *((None,) if required else ())):
                with pytest.raises(EmptyId if value in EMPTY else InputError) as caught:
                    await method(**{**good, name: value})
                assert caught.value.what, (full_name, name)
                assert caught.value.then, (full_name, name)
                assert len(str(caught.value)) < 1000
                tried += 1
    assert tried > 500
    assert await everything(store) == hers


async def test_sessions_and_authors_are_ids(store: Store) -> None:
    """What changes a task names its session and its author; a bad one changes nothing."""
    for value in BAD:
        for given in ({"session": value}, {"who": value}):
            with pytest.raises(InputError):
                await tasks_of(store, "alice", **given).create("task")  # pyright: ignore[reportArgumentType]
    assert (await tasks_of(store, "alice").list()).items == ()


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
