"""A memory with one of everything: what an export must carry."""

from collections.abc import Sequence
from typing import Any

from conftest import FakeClock
from contract.raw_sql import run_sql
from memolog import AssistantMessage, Config, ObservationConfig, ReflectionConfig, UserMessage
from memolog.core.message import FilePart, NewMessage, ReasoningPart, ToolCallPart, ToolMessage, UnknownPart
from memolog.core.run import Usage
from memolog.memory import Memory
from memolog.testing import ScriptedModel

CONFIG = Config(
    observation=ObservationConfig(message_tokens=1_000, previous_tokens=200),
    reflection=ReflectionConfig(observation_tokens=900),
    keep_prompts=True,
)
RESOURCES = ("alice", "bob ünïcode", "Zoë")


def memory_at(address: str, clock: FakeClock, **options: Any) -> Memory:
    """Return a memory with small windows."""
    chosen: dict[str, Any] = {"model": ScriptedModel(), "config": CONFIG, **options}
    return Memory(address, clock=clock, **chosen)


async def live(memory: Memory, clock: FakeClock, resources: Sequence[str] = RESOURCES) -> None:
    """Let several people talk for days, with tools, tasks, facts, compaction, a withdrawal and a forgotten message."""
    for number, resource in enumerate(resources):
        tasks = memory.resource(resource).tasks(session="s1", who="tester", thread="t1")
        first = await tasks.create("Write the parser", labels=("b", "a", "ä", "Z"))
        second = await tasks.create("Ship it", blocked_by=(first.handle,))
        for thread in ("t1", "t2") if number == 0 else ("t1",):
            await _talk(memory, clock, resource, thread)
        await tasks.claim(first.handle)
        await _talk(memory, clock, resource, "t1")
        await tasks.link(second.handle, first.handle, "related")
        await tasks.close(first.handle, "completed", summary="The parser reads everything.")
        facts = memory.resource(resource).working_memory()
        await facts.replace("# Facts\n- likes tea", who="tester")
        await facts.replace("# Facts\n- likes tea and \x00 nulls", who="tester")
        await memory.resource(resource).working_memory(thread="t1").replace("of the thread", who="tester")
        await memory.thread("t1", resource=resource).reflect()
        await memory.thread("t1", resource=resource).compact(keep=4)
        await _exotic(memory, resource)
        clock.advance(days=3)
    await memory.settled()


async def _talk(memory: Memory, clock: FakeClock, resource: str, thread: str) -> None:
    for turn_number in range(12):
        async with memory.thread(thread, resource=resource).turn(model="m-1", zone="Europe/Berlin") as turn:
            await turn.prepare(UserMessage(f"Question {turn_number} about src/app_{turn_number}.py " + "word " * 60))
            call = f"call-{clock.now():%j%H%M}"
            await turn.record(AssistantMessage([ToolCallPart(id=call, name="read", arguments={"n": turn_number})]))
            await turn.prepare(ToolMessage(call, {"lines": [1, 2.5, None], "text": "body " * 40}))
            usage = Usage(model="m-1", input_tokens=900, output_tokens=50, cost=0.01)
            await turn.record(AssistantMessage("I have read it. " + "done " * 40), usage=usage)
        clock.advance(minutes=37)
        await memory.settled()
    async with memory.thread(thread, resource=resource).turn() as turn:
        await turn.prepare(UserMessage("Forget that I said this."))
        await turn.discard()
    handle = memory.thread(thread, resource=resource)
    saved = await handle.save([UserMessage("Make it blue."), UserMessage("No, green.")])
    await handle.rewind(to=saved[0].seq)
    await handle.observe()


async def _exotic(memory: Memory, resource: str) -> None:
    """Add what is rare: odd characters, files, unknown parts, a tombstone."""
    odd = [
        NewMessage(
            role="user",
            parts=(
                FilePart(media_type="image/png", data=bytes(range(256)), name="a\x00b \ud800.png"),
                UnknownPart(data={"kind": "new", "n": 1e300, "deep": [[{"x": -0.0}]]}),
            ),
            id="odd-1",
            speaker="Zoë",
            metadata={"a": [1, {"b": None}]},
        ),
        NewMessage(
            role="assistant", parts=(ReasoningPart(text="\ud83d\ude00 \u2028 \x01", signature="s"),), id="odd-2"
        ),
        NewMessage(role="user", parts=(), id="gone-1"),
    ]
    kit = await memory.open()
    await kit.store.messages.save(resource, "t1", odd)
    await kit.store.task_messages.attach(resource, "T-1", ["odd-1", "odd-2"], "reference", who="tester")
    await kit.store.task_messages.attach(resource, "T-1", ["odd-1"], "output", who="tester")
    sql = "UPDATE messages SET state = 'forgotten', parts = '[]' WHERE id = 'gone-1' RETURNING seq"
    await run_sql(kit.store, sql)
    hashed = (
        "INSERT INTO tombstones (resource, kind, value, said_at, forgotten_at) "
        "VALUES (:resource, 'key', 'a key', 0, 5), (:resource, 'words', '0123abcd', 3, 5) RETURNING pk"
    )
    await run_sql(kit.store, hashed, resource=resource)
    event = "INSERT INTO events (resource, at, kind, data) VALUES (:resource, 5, 'Same', '{}') RETURNING pk"
    for _ in range(2):
        await run_sql(kit.store, event, resource=resource)
    await kit.store.settings.put(resource, {"scope": "thread", "observation.message_tokens": 900})
    extract = (
        "INSERT INTO extracts (thread_pk, first_seq, last_seq, at, key, who, run, value) "
        "SELECT pk, 1, 2, 7, 'k', 'me', 'r', '{\"a\": 1}' FROM threads WHERE resource = :resource AND id = 't1' RETURNING pk"
    )
    await run_sql(kit.store, extract, resource=resource)
