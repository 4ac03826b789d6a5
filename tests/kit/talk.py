"""Conversations: hold a turn, read back what is stored and logged, and stories that keep a memory with its events."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import suppress
from types import SimpleNamespace
from typing import Any, TypeVar

import pytest

from kit.rows import render_briefly
from memolog import AssistantMessage, Config, NewMessage, UserMessage
from memolog.context.context import Context
from memolog.core.clock import Clock
from memolog.core.observation import Observation, Scope
from memolog.core.reports import Forgotten
from memolog.errors import NotSaved, StoreError
from memolog.events import Event
from memolog.memory import Memory
from memolog.store import Store
from memolog.tasks.calls import Tasks
from memolog.testing import FakeClock, ScriptedModel

THREAD, RESOURCE = "t1", "alice"
_Event = TypeVar("_Event", bound=Event)


async def hold(
    memory: Memory,
    said: str | NewMessage,
    answer: str | NewMessage | None = None,
    *,
    thread: str = THREAD,
    resource: str = RESOURCE,
    **options: Any,
) -> Context:
    """Hold a turn: say something, record the answer if there is one, and return what the model was shown."""
    async with memory.thread(thread, resource=resource).turn(**options) as turn:
        context = await turn.prepare(UserMessage(said) if isinstance(said, str) else said)
        if answer is not None:
            await turn.record(AssistantMessage(answer) if isinstance(answer, str) else answer)
    return context


async def forget_thread(store: Store, thread: str = THREAD, resource: str = RESOURCE) -> Forgotten:
    """Forget a thread without rewriting the database file."""
    return await store.forgetting.thread(resource, thread, render=render_briefly)


async def store_of(memory: Memory) -> Store:
    """Return the store of a memory."""
    return (await memory.open()).store


async def stored_texts(memory: Memory, thread: str = THREAD, resource: str = RESOURCE) -> list[str]:
    """Return the texts of the messages that are stored, in order."""
    return [row.text for row in await (await store_of(memory)).messages.after(resource, thread, 0)]


async def save_texts(memory: Memory, thread: str, *texts: str, resource: str = RESOURCE) -> None:
    """Save user messages, each with its text as its id."""
    rows = [UserMessage(text, id=text[:80]) for text in texts]
    await (await store_of(memory)).messages.save(resource, thread, rows)


async def found(memory: Memory, query: str, resource: str = RESOURCE, **options: Any) -> list[str]:
    """Return the ids of what a search finds, best first."""
    return [result.id for result in (await memory.resource(resource).search(query, **options)).results]


async def logged(
    memory: Memory, thread: str = THREAD, resource: str = RESOURCE, *, scope: Scope = "thread"
) -> list[Observation]:
    """Return the lines of the current log of a thread."""
    store = await store_of(memory)
    snapshot = await store.logs.snapshot(resource, thread, scope)
    groups = [group.id for group in snapshot.groups]
    return list(await store.logs.observations(snapshot.resource, snapshot.log.pk, groups))


def edge_of(context: Context, name: str) -> str:
    """Return the text of a block of the edge, or nothing."""
    return next((block.text for block in context.edge if block.name == name), "")


async def kill(memory: Memory) -> None:
    """End a process without notice: it writes nothing more, and nothing of it goes on."""

    def fall(point: str) -> None:
        raise StoreError(f"Nothing is written at {point}.")

    (await store_of(memory)).engine.commit_hook = fall
    ours = {task for task in asyncio.all_tasks() if task.get_name().startswith("memolog-")}
    for task in ours:
        task.cancel()
    if ours:
        await asyncio.wait(ours)


def listen(memory: Memory) -> list[Event]:
    """Return a list to which every later event of a memory is added."""
    events: list[Event] = []
    memory.subscribe(events.append)
    return events


def of_kind(events: Iterable[Event], kind: type[_Event]) -> list[_Event]:
    """Return the events of one kind."""
    return [event for event in events if isinstance(event, kind)]


class Story:
    """A memory with its model, its clock and the events it sent."""

    thread = THREAD
    resource = RESOURCE

    def __init__(
        self, address: str, clock: FakeClock, model: Any = None, *, config: Config | None = None, **options: Any
    ) -> None:
        self.clock = clock
        self.model: Any = ScriptedModel() if model is None else model
        self.memory = Memory(address, model=self.model, clock=clock, config=config, **options)
        self.events = listen(self.memory)

    def told(self, kind: type[Event]) -> list[Any]:
        """Return the events of one kind."""
        return of_kind(self.events, kind)

    async def store(self) -> Store:
        """Return the store of the memory."""
        return await store_of(self.memory)

    async def stored(self) -> list[str]:
        """Return the texts of the messages that are stored, in order."""
        return await stored_texts(self.memory, self.thread, self.resource)

    async def lines(self) -> list[Observation]:
        """Return the lines of the current log."""
        return await logged(self.memory, self.thread, self.resource)

    async def log(self) -> str:
        """Return the log as the model of an agent is shown it."""
        return (await hold(self.memory, "And?", thread=self.thread, resource=self.resource)).system


def stories(make: Callable[..., Any], *, may_lose: bool = False) -> Any:
    """Return the fixture `tell`: a function that begins a story on the database of a test.

    At the end every story is closed, and no task of them may be left. With `may_lose` closing may report lost messages.
    """

    @pytest.fixture
    async def tell(address: str, clock: FakeClock) -> AsyncIterator[Callable[..., Any]]:
        begun: list[Any] = []

        def begin(*args: Any, **options: Any) -> Any:
            begun.append(make(options.pop("address", address), clock, *args, **options))
            return begun[-1]

        yield begin
        for story in begun:
            with suppress(*[NotSaved] * may_lose):
                await story.memory.aclose()
        assert asyncio.all_tasks() == {asyncio.current_task()}

    return tell


def tasks_of(store: Store, resource: str, *, session: str = "s", who: str = "me", clock: Clock | None = None) -> Tasks:
    """Return the tasks of a resource in a store that no `Memory` has opened."""
    components = SimpleNamespace(store=store, clock=clock or store.clock, config=store.config, writer=None)

    async def opened() -> Any:
        return components

    return Tasks(opened, resource, store.config, session=session, who=who, thread=None)
