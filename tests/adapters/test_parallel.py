"""Two agent runs in one thread at the same time: their answers follow each other, and the next request breaks no rule."""

import asyncio
from typing import Any

import pytest

from adapters import callers
from adapters.provider import APIS, Json, Provider, Reply
from adapters.story import Caller
from memolog import Memory

AGENTS = (
    *(callers.PydanticAI, callers.PydanticResponses, callers.PydanticMessages),
    *(callers.OpenAIAgents, callers.OpenAIAgentsChat),
    *(callers.AgentFramework, callers.AgentFrameworkResponses),
    *(callers.LangChain, callers.Chat, callers.Responses, callers.Messages),
)
_QUESTIONS = ("Question 1?", "Question 2?")


def _look(n: int) -> str:
    """Look something up."""
    return f"Found {n}."


@pytest.mark.parametrize("kind", AGENTS, ids=lambda kind: kind.__name__)
async def test_parallel_answers_are_one_message(kind: type[Caller]) -> None:
    """Both questions are asked before one of them is answered. The next request has both answers, as one message."""
    both_asked, numbers = asyncio.Event(), iter(range(1, 9))

    async def answer(_: Json) -> Reply:
        number = next(numbers)
        if number == 2:
            both_asked.set()
        await both_asked.wait()
        return Reply(text=f"Answer {number}.")

    provider = Provider(APIS[kind.api], answer)
    programs: list[Any] = [kind(None, _look) for _ in range(3)]  # pyright: ignore[reportArgumentType]
    async with Memory(":memory:") as memory:
        for program in programs:
            await program.open(memory, provider)
        await asyncio.gather(*(one.ask(text, streamed=False) for one, text in zip(programs, _QUESTIONS, strict=False)))
        await programs[2].ask("And now?", streamed=False)
    said = str(provider.bodies[-1].get("messages") or provider.bodies[-1]["input"])
    assert [said.count(f"Answer {n}.") for n in (1, 2)] == [1, 1]
    places = [[said.index(text) for text in texts] for texts in (_QUESTIONS, ("Answer 1.", "Answer 2."), ("And now?",))]
    assert max(places[0]) < min(places[1]) <= max(places[1]) < places[2][0]
