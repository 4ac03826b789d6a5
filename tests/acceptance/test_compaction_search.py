"""What is found before, between and after the levels of compaction."""

from kit.engines import a_memory
from memolog import AssistantMessage, Config, UserMessage
from memolog.runtime.memory import Memory
from memolog.testing import FakeClock

LONG = "We walked along the river for hours and spoke of nothing in particular, as friends do. " * 6
NAMES = [f"wug{letter}{other}zim" for letter in "abcdef" for other in "aeiou"]
CODE = "```python\n" + "\n".join(f"{name} = prepare(rows)" for name in NAMES) + "\n```"
memory = a_memory(config=Config(observe=False))


async def found(memory: Memory, query: str) -> list[tuple[str, str]]:
    """Return the messages that a query finds, with their source."""
    answer = await memory.search(query, "alice", sources=("raw", "compacted"))
    return [(result.id, result.source) for result in answer.results]


async def test_search_at_each_level(memory: Memory, clock: FakeClock) -> None:
    """Raw words first; then the summary with code and names; then the summary; after a restore all of it again."""
    store = (await memory.open()).store
    text = f"I prefer Fastify over Express. {LONG} Zebrafinch sang. {LONG}\n{CODE}\n{LONG}"
    await store.messages.save("alice", "t1", [UserMessage(text, id="hit"), AssistantMessage(LONG, id="other")])
    assert await found(memory, "river friends")
    assert ("hit", "raw") in await found(memory, NAMES[-1])
    done = await memory.compact("t1", "alice")
    # A name that nobody wrote down, and that only the code has.
    name = next(name for name in reversed(NAMES) if name not in done.summary)
    assert ("hit", "compacted") in await found(memory, name)
    assert ("hit", "compacted") in await found(memory, "Fastify")
    assert await store.compactions.deepen("alice", "t1", keep=0) == 2
    assert ("hit", "compacted") in await found(memory, "Fastify")
    assert await found(memory, name) == []
    for made in done.compactions:
        await memory.restore_compaction("t1", "alice", made.id)
    assert ("hit", "raw") in await found(memory, name)
    assert await found(memory, "river friends")
