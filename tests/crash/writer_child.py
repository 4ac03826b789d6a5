"""The programs that crash tests run as processes of their own, so that they can be killed.

writer_child.py write ADDRESS SEED           saves until it is killed; a line on stdout for every finished save
writer_child.py crowd ADDRESS NAME COUNT     eight tasks wait for a line, save COUNT messages each, and tell where
writer_child.py points                       forks a victim for each line of stdin; it dies at a commit point
writer_child.py claim ADDRESS NAME COUNT     each line of stdin is a task; COUNT claimers try it, and it tells who won
writer_child.py hold ADDRESS NAME TASK       claims a task for three seconds, tells so, and sleeps until it is killed
"""

import asyncio
import itertools
import os
import random
import signal
import sys
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from crash.children import fork_for_each_line, tell
from kit.talk import forget_thread, tasks_of
from memolog.core.clock import SystemClock, system_chance
from memolog.core.config import Config
from memolog.core.item import ItemChange
from memolog.core.message import Message, NewMessage, TextPart, UserMessage
from memolog.core.run import Calibration, Lease, Usage
from memolog.errors import TaskHeld
from memolog.store import Store, open_store
from memolog.tasks.calls import Tasks
from memolog.text.message_tokens import count_message
from memolog.text.tokens import HeuristicCounter
from memolog.working_memory.document import edited_section, replaced

__all__ = [
    "CROWD_TASKS",
    "OPERATIONS",
    "RESOURCE",
    "SHORT",
    "THREADS",
    "open_fixed",
    "open_real",
    "prologue",
    "text_of",
]

RESOURCE = "crash"
THREADS = ("one", "two", "three", "four", "five")
CROWD_TASKS = 8
_WRITERS = 3
_MOST_SAVES = 100_000
_MINUTE = timedelta(minutes=1)
SHORT = timedelta(seconds=3)
_PATIENCE = 120.0


def _weigh(message: NewMessage) -> int:
    return count_message(message, HeuristicCounter())


async def open_real(address: str) -> Store:
    """Open a store with the time and chance of the system, that waits for others as long as a slow machine takes."""
    config = Config(busy_timeout=_PATIENCE, statement_timeout=_PATIENCE)
    return await open_store(address, clock=SystemClock(), chance=system_chance, weigh=_weigh, config=config)


class _Still:
    """A clock that stands where it was put."""

    def __init__(self, minutes: float) -> None:
        self._now = datetime(2026, 3, 14, 9, 0, tzinfo=UTC) + minutes * _MINUTE

    def now(self) -> datetime:
        """Return that moment."""
        return self._now


async def open_fixed(address: str, *, minutes: float = 0) -> Store:
    """Open a store in which everything that happens is the same each time."""
    chance = random.Random(f"{minutes}").getrandbits
    return await open_store(address, clock=_Still(minutes), chance=chance, weigh=_weigh)


# ---------------------------------------------------------------- saving until killed


def text_of(message_id: str, part: int) -> str:
    """Return the text that a part of a message must have."""
    return f"{message_id} says {part}: " + "é✓ " * (sum(message_id.encode()) % 40)


def _message(message_id: str, parts: int, batch: str, size: int) -> NewMessage:
    texts = tuple(TextPart(text=text_of(message_id, number)) for number in range(parts))
    return NewMessage(role="user", parts=texts, id=message_id, metadata={"batch": batch, "size": size})


class _Writer:
    """Saves singles, batches, repetitions and growing messages."""

    def __init__(self, store: Store, name: str) -> None:
        self._store, self._name = store, name
        self._chance = random.Random(name)
        self._numbers = itertools.count()
        self._lengths: dict[tuple[str, str], int] = {}

    async def run(self) -> None:
        """Save until killed."""
        for number in range(_MOST_SAVES):
            await self._save(f"{self._name}-{number}")

    async def _save(self, batch: str) -> None:
        thread = self._chance.choice(THREADS)
        known = [message_id for where, message_id in self._lengths if where == thread]
        fresh = [f"{self._name}.{next(self._numbers)}" for _ in range(self._chance.choice((1, 1, 1, 2, 5, 12)))]
        grown = [self._chance.choice(known)] if known and self._chance.random() < 0.3 else []
        repeated = [self._chance.choice(known)] if known and self._chance.random() < 0.3 else []
        lengths = dict.fromkeys(fresh, 1)
        lengths |= {message_id: self._lengths[thread, message_id] + 1 for message_id in grown}
        size = len(lengths)
        lengths |= {message_id: self._lengths[thread, message_id] for message_id in repeated if message_id not in grown}
        order = self._chance.sample(sorted(lengths), len(lengths))
        messages = [_message(message_id, lengths[message_id], batch, size) for message_id in order]
        saved = await self._store.messages.save(RESOURCE, thread, messages)
        tell([thread, batch, _places(saved.messages, batch)])
        for message_id, length in lengths.items():
            self._lengths[thread, message_id] = length


def _places(messages: Sequence[Message], batch: str) -> list[list[object]]:
    return [
        [message.id, message.continuation, message.seq] for message in messages if message.metadata["batch"] == batch
    ]


async def _write(address: str, seed: str) -> None:
    async with await open_real(address) as store, asyncio.TaskGroup() as group:
        for number in range(_WRITERS):
            group.create_task(_Writer(store, f"{seed}.{number}").run())


# ---------------------------------------------------------------- a crowd


async def _crowd(address: str, name: str, count: int) -> None:
    async with await open_real(address) as store:
        tell("ready")
        sys.stdin.readline()
        stories = await asyncio.gather(*(_one_of_crowd(store, f"{name}.{task}", count) for task in range(CROWD_TASKS)))
    tell(dict(itertools.chain.from_iterable(story.items() for story in stories)))


async def _one_of_crowd(store: Store, name: str, count: int) -> dict[str, list[list[object]]]:
    """Save so many messages, one or a few at a time; return where each went, in the order of saving."""
    chance, places = random.Random(name), list[list[object]]()
    while len(places) < count:
        size = min(chance.choice((1, 1, 2, 3)), count - len(places))
        ids = [f"{name}.{len(places) + number}" for number in range(size)]
        thread = chance.choice(THREADS)
        saved = await store.messages.save(RESOURCE, thread, [UserMessage(id_, id=id_) for id_ in ids])
        places.extend([thread, message.id, message.seq] for message in saved.messages)
    return {name: places}


# ---------------------------------------------------------------- claiming


async def _try(store: Store, task: str, session: str) -> str | None:
    try:
        await tasks_of(store, RESOURCE, session=session, who=session).claim(task, lease=3600)
    except TaskHeld:
        return None
    return session


async def _claim(address: str, name: str, claimers: int) -> None:
    async with await open_real(address) as store:
        tell("ready")
        while task := (await asyncio.to_thread(sys.stdin.readline)).strip():
            tries = [_try(store, task, f"{name}.{number}") for number in range(claimers)]
            tell([won for won in await asyncio.gather(*tries) if won is not None])


async def _hold(address: str, name: str, task: str) -> None:
    async with await open_real(address) as store:
        await tasks_of(store, RESOURCE, session=name, who=name).claim(task, thread="old", lease=SHORT.total_seconds())
        tell("held")
        await asyncio.sleep(3600)


# ---------------------------------------------------------------- dying at a commit point


async def prologue(store: Store) -> None:
    """Make what the operations need: threads with messages, and leases, one of which has ended by the time of `open_fixed`."""
    await store.threads.create(RESOURCE, "old", title="Old", metadata={"a": 1})
    messages = [UserMessage(f"message {number}", id=f"m{number}") for number in range(5)]
    await store.messages.save(RESOURCE, "old", messages)
    await store.messages.save(RESOURCE, "other", UserMessage("hello", id="m0"))
    await store.messages.save(RESOURCE, "open", UserMessage("no reply yet", id="m0"), turn="turn-1", owner="me")
    await store.leases.acquire(RESOURCE, "held", "me", lasts=60 * _MINUTE)
    await store.leases.acquire(RESOURCE, "ended", "me", lasts=_MINUTE)
    await store.ledger.add(RESOURCE, Usage(kind="turn", model="m", input_tokens=5))
    await store.working_memory.change(RESOURCE, replaced("# Facts\n\none\n"), who="me", most=1_000)
    await _prologue_of_tasks(store)


async def _prologue_of_tasks(store: Store) -> None:
    """Make tasks: T-1 held and blocking T-2 with its child T-3, T-4 free, T-5 closed, T-6 closed and decayed."""
    tasks = _tasks(store)
    await tasks.create("First", id="a", labels=["x"])
    await tasks.create("Second", id="b", blocked_by=("T-1",))
    await tasks.create("Third", id="c", parent="T-2")
    await tasks.create("Fourth", id="d")
    await tasks.claim("T-1", thread="old", lease=3600)
    await tasks.attach("T-1", ["m1"])
    for name in ("e", "f"):
        await tasks.create(name, id=name, description="long é\x00", metadata={"k": [1, "é"]})
    await tasks.close("T-6", summary="it is done")
    await _decay(store)
    await tasks.close("T-5", summary="it is done")


def _tasks(store: Store, session: str = "session") -> Tasks:
    return tasks_of(store, RESOURCE, session=session, who="me")


async def _decay(store: Store) -> None:
    """Let closed tasks decay as if forty days had passed."""
    await tasks_of(store, RESOURCE, session="session", who="me", clock=_Still(60 * 24 * 40)).decay()


async def _save_batch(store: Store) -> None:
    batch = [
        UserMessage(["message 4", "and more"], id="m4"),
        UserMessage("new", id="m5"),
        UserMessage("message 0", id="m0"),
    ]
    await store.messages.save(RESOURCE, "old", batch)


async def _release(store: Store) -> None:
    held = Lease(name="held", owner="me", fence=1, expires_at=store.clock.now())
    assert await store.leases.release(RESOURCE, held)


def _learn(known: Calibration) -> Calibration:
    return Calibration(model=known.model, factor=known.factor * 1.5, samples=known.samples + 1)


OPERATIONS: dict[str, Callable[[Store], Awaitable[Any]]] = {
    "threads.create": lambda store: store.threads.create(RESOURCE, "new", title="New"),
    "threads.update": lambda store: store.threads.update(RESOURCE, "old", title="Changed", metadata={"b": 2}),
    "threads.clone": lambda store: store.threads.clone(RESOURCE, "old", "copy"),
    "forgetting.thread": lambda store: forget_thread(store, "old", RESOURCE),
    "messages.save": _save_batch,
    "messages.end_turn": lambda store: store.messages.end_turn(RESOURCE, "open", "turn-1"),
    "leases.acquire": lambda store: store.leases.acquire(RESOURCE, "fresh", "me", lasts=_MINUTE),
    "leases.release": _release,
    "usage.add": lambda store: store.ledger.add(
        RESOURCE, Usage(kind="observe", model="m", output_tokens=7, thread="old")
    ),
    "working_memory.change": lambda store: store.working_memory.change(
        RESOURCE, edited_section("Facts", "two"), who="me", most=1_000
    ),
    "items.change": lambda store: store.items.change(RESOURCE, [ItemChange(("notes",), "k", {"text": "new"})]),
    "settings.put": lambda store: store.settings.put(RESOURCE, {"scope": "resource"}),
    "usage.calibrate": lambda store: store.ledger.calibrate(RESOURCE, "m", _learn),
    "tasks.create": lambda store: _tasks(store).create(
        "New", labels=["y"], blocked_by=("T-4",), blocks=("T-3",), discovered_from="T-1", created_from=("m2",)
    ),
    "tasks.edit": lambda store: _tasks(store).edit("T-1", title="Changed", priority=0, labels=["y"]),
    "task_links.link": lambda store: _tasks(store).link("T-2", "T-4"),
    "task_links.unlink": lambda store: _tasks(store).unlink("T-1", "T-2"),
    "task_claims.claim": lambda store: _tasks(store, "other").claim("T-4", thread="other", lease=60),
    "task_claims.heartbeat": lambda store: _tasks(store).heartbeat("T-1", lease=5400),
    "task_claims.release": lambda store: _tasks(store).release("T-1"),
    "task_claims.close": lambda store: _tasks(store).close("T-1", summary="it is done"),
    "task_claims.reopen": lambda store: _tasks(store).reopen("T-6"),
    "task_messages.attach": lambda store: _tasks(store).attach("T-2", ["m3"], "output"),
    "task_messages.detach": lambda store: _tasks(store).detach("T-1", ["m1"]),
    "task_decay.decay": _decay,
    "task_decay.restore": lambda store: _tasks(store).restore("T-6"),
}
"""One call for every name of a write: each changes what `prologue` left."""


async def _die_at(point: str, address: str) -> None:
    def hook(reached: str) -> None:
        if reached == point:
            os.kill(os.getpid(), signal.SIGKILL)

    store = await open_fixed(address, minutes=10)
    store.engine.commit_hook = hook
    await OPERATIONS[point.split(":", maxsplit=1)[0]](store)


def main(arguments: Sequence[str]) -> None:
    """Run one of the programs."""
    match arguments:
        case ["write", address, seed]:
            asyncio.run(_write(address, seed))
        case ["crowd", address, name, count]:
            asyncio.run(_crowd(address, name, int(count)))
        case ["claim", address, name, count]:
            asyncio.run(_claim(address, name, int(count)))
        case ["hold", address, name, task]:
            asyncio.run(_hold(address, name, task))
        case ["points"]:
            fork_for_each_line(_die_at)
        case _:
            sys.exit(f"what is {arguments}?")


if __name__ == "__main__":
    main(sys.argv[1:])
