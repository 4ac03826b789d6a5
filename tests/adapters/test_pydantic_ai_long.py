"""Two hundred turns of a Pydantic AI agent, in every way that it can be run: all is there, once, in order."""

from pathlib import Path

import pytest
from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo

from adapters.kit import SMALL, Prompts, brief, check_pairs, stored
from adapters.pydantic_ai_world import Script, cancelled
from memolog import Memory
from memolog.adapters.pydantic_ai import MemoryCapability

FILLER = "The parser moved to src/parse.py, the limit is 4,096 and the owner is Dana. " * 3


class Talk:
    """A conversation that knows what was said in it."""

    def __init__(self, thread: str) -> None:
        self.thread, self.said = thread, list[str]()
        self.script = Script(self.answer, prompts=Prompts())
        self.agent = Agent(
            self.script.model, instructions="You are a careful engineer.", system_prompt="Answer briefly."
        )
        self.agent.tool_plain(self.weigh)
        self.memory: Memory | None = None

    @staticmethod
    def weigh(item: str) -> dict[str, int | str]:
        """Return the weight of an item."""
        return {"item": item, "grams": len(item) * 100, "note": FILLER}

    def answer(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        del info
        said = self.script.said(messages)
        if "weigh" in said:
            turn = said.split()[1]
            return ModelResponse(
                [TextPart("let me see"), *(ToolCallPart("weigh", {"item": i}, f"c{turn}{i}") for i in ("a", "b"))]
            )
        return ModelResponse([TextPart(f"noted: {said or 'weighed'} {FILLER}".strip())])

    async def open(self, address: str) -> None:
        self.memory = Memory(address, config=SMALL)
        self.script.prompts.watch(self.memory)

    async def turn(self, number: int) -> None:
        """Say one thing, in one of the ways in which an agent is run."""
        assert self.memory is not None
        capability = MemoryCapability(self.memory, "alice")
        if number % 10 == 3:
            said = f"turn {number} weigh both"
            await self.agent.run(said, conversation_id=self.thread, capabilities=[capability])
            calls = [f"c{number}a", f"c{number}b"]
            self.said += [f"user: {said}", "assistant: let me see", *(f"call {c}: weigh" for c in calls)]
            self.said += [*(f"result {c}" for c in calls), f"assistant: noted: weighed {FILLER}".strip()]
        elif number % 10 == 5:
            said = f"turn {number} streamed"
            async with self.agent.run_stream(said, conversation_id=self.thread, capabilities=[capability]) as stream:
                text = [piece async for piece in stream.stream_text(delta=True, debounce_by=None)]
            self.said += [f"user: {said}", f"assistant: {''.join(text)}"]
            assert "".join(text).startswith(f"noted: {said}")
        elif number % 50 == 7:
            said = f"turn {number} break"
            with pytest.raises(RuntimeError, match="down"):
                await self.agent.run(said, conversation_id=self.thread, capabilities=[capability])
            self.said.append(f"user: {said}")
        elif number % 50 == 17:
            said = f"turn {number} hang"
            await cancelled(self.script, self.agent.run(said, conversation_id=self.thread, capabilities=[capability]))
            self.said.append(f"user: {said}")
        else:
            said = f"turn {number} plain"
            result = await self.agent.run(said, conversation_id=self.thread, capabilities=[capability])
            self.said += [f"user: {said}", f"assistant: {result.output}"]


async def talk(address: str, turns: int, *, least_changes: int) -> None:
    """Hold a conversation with a restart in the middle, then look at everything."""
    one = Talk("t1")
    for half in (range(turns // 2), range(turns // 2, turns)):
        await one.open(address)
        assert one.memory is not None
        for number in half:
            await one.turn(number)
            await one.memory.settled()
        rows = await stored(one.memory, "alice", "t1")
        assert brief(rows) == one.said
        check_pairs(rows)
        await one.memory.aclose()
    one.script.prompts.check(least_changes=least_changes)


async def test_two_hundred_turns(tmp_path: Path) -> None:
    """Every message is stored once, in order, pairs intact; prompts extend each other outside activations."""
    await talk(str(tmp_path / "memolog.db"), 200, least_changes=10)


@pytest.mark.parametrize("engine_name", ["sqlite", "postgres"])
async def test_a_short_talk_on_both_engines(address: str) -> None:
    """The same on either engine."""
    await talk(address, 30, least_changes=1)
