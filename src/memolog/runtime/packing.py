"""Pack the memory of a resource into one text within a number of tokens, for an agent that starts to work.

Reads only; an unknown thread is not an error, because a session may begin with it.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from memolog.context.pack import Conversation, Pack, PackView, pack
from memolog.context.render import render_group
from memolog.context.working_memory import working_memory_text
from memolog.domain.errors import ThreadNotFound
from memolog.domain.message import Message
from memolog.prompt.redact import Redactor
from memolog.prompt.without_secrets import parts_without_secrets
from memolog.runtime.redacting import redactor_for
from memolog.tasks.worth import edge_lines

if TYPE_CHECKING:
    from memolog.domain.thread import ThreadInfo
    from memolog.runtime.memory import Memory
    from memolog.store import Store
    from memolog.store.snapshot import Snapshot

__all__ = ["Pack", "context_pack"]

# Older sessions are seldom useful, and each costs a read.
_THREADS: Final = 4
_MESSAGES: Final = 30
_NOBODY: Final = "-"


async def context_pack(
    memory: "Memory", resource: str, thread: str | None = None, *, tokens: int = 4000, zone: str | None = None
) -> Pack:
    """Return what matters most of a resource's memory, within so many tokens.

    `thread` is the current conversation; the last active ones follow it. The text is empty if there is nothing.
    """
    store, now = (await memory.open()).store, memory.clock.now()
    threads = await _threads(store, resource, thread)
    scope = memory.config.completed(await store.settings.get(resource)).scope
    snapshots = [
        await store.logs.snapshot(resource, one.id, scope, create=False, newest=_newest(tokens, place))
        for place, one in enumerate(threads[:1] if scope == "resource" else threads)
    ]
    conversations = (
        await _shared(store, threads, snapshots)
        if scope == "resource"
        else [await _own(store, one, snapshot) for one, snapshot in zip(threads, snapshots, strict=True)]
    )
    redactor = redactor_for(memory.config)
    conversations = [replace(one, messages=_clean(one.messages, redactor)) for one in conversations]
    is_going_on = bool(threads) and threads[0].id == thread
    # A new thread has no document of its own; those of other threads are not shown.
    facts = dict(snapshots[0].facts.now) if snapshots else await _facts(store, resource)
    if not is_going_on:
        facts.pop("thread", None)
    tasks = await store.task_ready.edge(resource, thread or _NOBODY, now=now)
    return pack(
        PackView(
            tokens=tokens,
            now=now,
            counter=memory.counter,
            zone=zone,
            working_memory=working_memory_text(facts),
            task_lines=edge_lines(tasks, now=now, budget=tokens // 6, count=memory.counter.count),
            hints=threads[0].hints if is_going_on else None,
            conversations=tuple(conversations),
        )
    )


def _clean(messages: Sequence[Message], redactor: Redactor) -> tuple[Message, ...]:
    """Return the messages without secrets: a pack is read in other conversations."""
    return tuple(replace(one, parts=parts_without_secrets(one.parts, redactor)) for one in messages)


def _newest(tokens: int, place: int) -> int:
    """Return how many messages of a thread are read: more than fit for the first thread, few for the others."""
    return min(max(tokens // (25 if place == 0 else 100), 10), 500)


async def _threads(store: "Store", resource: str, thread: str | None) -> "list[ThreadInfo]":
    """Return the current thread, if it exists, and the last active ones."""
    found: list[ThreadInfo] = []
    if thread is not None:
        with suppress(ThreadNotFound):
            found.append(await store.threads.get(resource, thread))
    newest = (await store.threads.list(resource, limit=_THREADS)).items
    return [*found, *(one for one in newest if one.id != thread)][:_THREADS]


async def _facts(store: "Store", resource: str) -> dict[str, str]:
    document = await store.working_memory.get(resource, None)
    return {} if document is None else {"resource": document.current.text}


async def _own(store: "Store", thread: "ThreadInfo", snapshot: "Snapshot") -> Conversation:
    """Return a thread with its own log."""
    groups = await _groups(store, snapshot)
    return _conversation(thread, snapshot, snapshot.tail, groups)


async def _shared(
    store: "Store", threads: "Sequence[ThreadInfo]", snapshots: "Sequence[Snapshot]"
) -> list[Conversation]:
    """Return the uncovered messages of each thread, then the log that they share."""
    if not snapshots:
        return []
    # The store is loaded by now.
    from memolog.store.other_tails import OtherLimits  # noqa: PLC0415

    snapshot = snapshots[0]
    where = snapshot.resource, snapshot.log.pk, snapshot.thread.pk
    others = await store.logs.others(*where, snapshot.ends, limits=OtherLimits(threads=_THREADS, messages=_MESSAGES))
    tails = {threads[0].id: snapshot.tail, **{other.thread: other.messages for other in others.tails}}
    spoken = [_conversation(one, snapshot, tails.get(one.id, ())) for one in threads]
    return [*spoken, Conversation(thread=None, groups=await _groups(store, snapshot))]


def _conversation(
    thread: "ThreadInfo", snapshot: "Snapshot", read: Sequence[Message], groups: tuple[str, ...] = ()
) -> Conversation:
    """Return a thread with the messages that neither the log nor a buffered group holds."""
    spans = [group.span for group in snapshot.buffered if group.thread == thread.id and group.span is not None]
    is_own = thread.id == snapshot.thread.id
    cursor = snapshot.cursor if is_own else 0

    def is_held(seq: int) -> bool:
        return seq <= cursor or any(span.first <= seq <= span.last for span in spans)

    first = read[0].seq if read and is_own else 1
    return Conversation(
        thread=thread.id,
        title=thread.title or thread.hints.title,
        at=thread.updated_at,
        groups=groups,
        messages=tuple(one for one in read if not is_held(one.seq)),
        earlier=sum(not is_held(seq) for seq in range(cursor + 1, first)),
    )


async def _groups(store: "Store", snapshot: "Snapshot") -> tuple[str, ...]:
    """Return the texts of active and of buffered groups: a pack is no prefix and need not wait for activation."""
    ready = [group for group in snapshot.buffered if group.kind == "observer"]
    texts = [group.text for group in snapshot.groups if group.text]
    lines = await store.logs.observations(snapshot.resource, snapshot.log.pk, [group.id for group in ready])
    for group in ready:
        alias = None
        if snapshot.scope == "resource" and group.thread is not None:
            number = await store.logs.alias(snapshot.resource, snapshot.log.pk, group.thread)
            alias = f"t{number}" if number else None
        own = [line for line in lines if line.group == group.id]
        text = render_group(handle=group.handle, observations=own, previous=None, alias=alias, is_reflection=False)
        if text:
            texts.append(text)
    return tuple(texts)
