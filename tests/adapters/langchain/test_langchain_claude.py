"""Claude through LangChain: cache marks after the log and at the last message before the edge, at most four in a request."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from adapters.kit import SMALL, answer, brief, calls, expected, question, split_edge, stored
from adapters.langchain.scripted import Scripted, called, told
from adapters.langchain.test_langchain_agent import HERE, agent, said
from memolog import Memory, ReflectionConfig

MARK = {"type": "ephemeral"}
WITHOUT_REFLECTIONS = replace(SMALL, reflection=ReflectionConfig(observation_tokens=50_000))


class Claude(Scripted):
    """A scripted model with the type that `ChatAnthropic` has."""

    @property
    def _llm_type(self) -> str:
        return "anthropic-chat"


def blocks_of(message: BaseMessage) -> list[dict[str, Any]]:
    """Return the content of a message as blocks."""
    content: Any = message.content
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content)


def question_of(messages: list[BaseMessage]) -> str:
    """Return the last question, without the edge."""
    return next(blocks_of(one)[0]["text"] for one in reversed(messages) if isinstance(one, HumanMessage))


def talk(messages: list[BaseMessage]) -> AIMessage:
    """Answer; some questions need a tool first."""
    number = int(question_of(messages).split()[1])
    needed: Any = [
        {"name": "weather", "args": {"city": "Rome"}, "id": id_, "type": "tool_call"} for id_ in calls(number)
    ]
    return told("", tool_calls=needed) if needed and not isinstance(messages[-1], ToolMessage) else told(answer(number))


def noted(_: list[BaseMessage]) -> AIMessage:
    """Answer without a tool."""
    return told("noted")


def look(messages: list[BaseMessage]) -> AIMessage:
    """Call a tool, then answer."""
    return told("sunny") if isinstance(messages[-1], ToolMessage) else called("weather", "c1", city="Rome")


def flat(request: list[BaseMessage]) -> list[tuple[str, str, bool]]:
    """Return the blocks of a request: role, exact content, and whether the block has a mark."""
    found: list[tuple[str, str, bool]] = []
    for message in request:
        if isinstance(message, AIMessage):
            found.append(("ai", message.model_dump_json(), False))
            continue
        for block in blocks_of(message):
            mark = block.get("cache_control")
            assert mark in (None, MARK)
            found.append(
                (message.type, str({k: v for k, v in block.items() if k != "cache_control"}), mark is not None)
            )
    return found


async def test_the_stable_part_is_marked(tmp_path: Path) -> None:
    """Over thresholds and tool calls: a mark after the log, one at the last message before the edge, and growing blocks."""
    model = Claude(script=talk)
    async with Memory(tmp_path / "m.db", config=WITHOUT_REFLECTIONS) as memory:
        bot = agent(memory, model)
        for number in range(1, 41):
            await bot.ainvoke(said(question(number)), HERE)
        await memory.settled()
        rows = await stored(memory, "alice", "t1")
    assert brief(rows) == expected(range(1, 41))
    has_log = 0
    before: list[tuple[str, str]] = []
    for request in model.received:
        blocks = flat(request)
        system = [block for block in blocks if block[0] == "system"]
        marked = [n for n, block in enumerate(blocks) if block[2]]
        is_logged = "<observations" in "".join(text for _, text, _ in system)
        has_log += is_logged
        assert len(marked) == 1 + is_logged
        if is_logged:
            assert marked[0] == len(system) - 1
        edges = [n for n, (_, text, _) in enumerate(blocks) if "<now" in text]
        assert len(edges) == 1
        # The mark is at the question if the edge follows it, else at the last tool result.
        last = len(blocks) - 1
        assert marked[-1] == (last - 1 if edges == [last] else last)
        stable = [block[:2] for n, block in enumerate(blocks) if n not in edges]
        kept = [block for block in before if block[0] == "system"]
        assert stable[: len(kept)] == kept, "a new group changed an earlier block"
        if len(kept) == len(system):
            assert stable[: len(before)] == before, "the messages before this one changed"
        before = stable
    assert has_log > 10


async def test_marks_of_the_caller_count(tmp_path: Path) -> None:
    """A request has at most four marks. Those of the caller's instructions stay, and old ones in messages are removed."""
    model = Claude(script=noted)
    mine: Any = [{"type": "text", "text": f"Rule {n}.", "cache_control": MARK} for n in range(4)]
    async with Memory(tmp_path / "m.db") as memory:
        bot = agent(memory, model)
        await bot.ainvoke({"messages": [SystemMessage(content=mine[:3]), HumanMessage("one")]}, HERE)
        await bot.ainvoke({"messages": [SystemMessage(content=mine), HumanMessage("two")]}, HERE)
        marked = {"type": "text", "text": "three", "cache_control": MARK}
        await bot.ainvoke({"messages": [HumanMessage(content=[marked])]}, HERE)
        await bot.ainvoke(said("four"), HERE)
    assert [sum(block[2] for block in flat(request)) for request in model.received] == [4, 4, 1, 1]
    assert [text for role, text, is_marked in flat(model.received[-1]) if role == "human" and is_marked] == [
        str({"type": "text", "text": "four"})
    ]


async def test_a_result_is_marked(tmp_path: Path) -> None:
    """`ChatAnthropic` takes the mark of a tool result from a text block of its content."""
    model = Claude(script=look)
    async with Memory(tmp_path / "m.db") as memory:
        await agent(memory, model).ainvoke(said("weather?"), HERE)
        (_, _, result, _) = await stored(memory, "alice", "t1")
    sent = model.received[-1][-1]
    assert isinstance(sent, ToolMessage)
    assert [block["cache_control"] for block in blocks_of(sent)] == [MARK]
    assert "cache_control" not in str(result.parts)


@pytest.mark.parametrize("kind", [Scripted, Claude])
async def test_only_claude_gets_marks(kind: type[Scripted], tmp_path: Path) -> None:
    """The text is the same for every model. Other models get plain text, because some servers accept nothing else."""
    model = kind(script=noted)
    async with Memory(tmp_path / "m.db") as memory:
        await agent(memory, model).ainvoke(said("hello"), HERE)
    system, asked = model.received[0]
    assert isinstance(asked.content, str) is (kind is Scripted)
    assert isinstance(system.content, str) is (kind is Scripted)
    text = "\n\n".join(block["text"] for block in blocks_of(asked))
    assert split_edge(text)[0] == "hello"
    assert split_edge(text)[1]
