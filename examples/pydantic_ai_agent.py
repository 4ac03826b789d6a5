"""A Pydantic AI agent with a long memory, a helper agent and a guard. The model is scripted, so no key is needed.

Run it with `python examples/pydantic_ai_agent.py`. To use a real model, pass its name, such as "anthropic:claude-sonnet-5".
"""

import asyncio
from typing import Any

from pydantic_ai import Agent, RunContext
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from memolog import Memory
from memolog.adapters.pydantic_ai import MemoryCapability, child_memory


class Blocked(Exception):
    """The exception of the guard."""


def scripted(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Answer like a model: ask the helper about code, search the memory for a question, or say that a fact is noted."""
    results = [part for part in messages[-1].parts if isinstance(part, ToolReturnPart)]
    if results:
        found: Any = results[0].content
        hit = str(found if isinstance(found, str) else found["results"][0]["text"])
        return ModelResponse([TextPart(f"Here is what I found. {hit}")])
    prompts = [part.content for part in messages[-1].parts if isinstance(part, UserPromptPart)]
    asked = str(prompts[0])
    tools = {tool.name for tool in info.function_tools}
    if "code" in asked and "research" in tools:
        return ModelResponse([ToolCallPart("research", {"question": "Where is the limit set?"})])
    if asked.startswith("What"):
        return ModelResponse([ToolCallPart("memory-search", {"action": "search", "query": "rate limit requests"})])
    return ModelResponse([TextPart("Noted.")])


helper = Agent(FunctionModel(scripted), name="helper", instructions="Find things in the code.")


async def research(ctx: RunContext[object], question: str) -> str:
    """Ask a helper agent, which has a separate thread."""
    result = await helper.run(question, capabilities=[child_memory(ctx, "own", mode="research")])
    return f"The helper says: {result.output}"


def guard(output: str) -> str:
    """Stop an answer that contains a password."""
    if "hunter2" in output:
        raise Blocked("an answer held a password")
    return output


async def main() -> None:
    """Hold a conversation in several agent runs. They share only the conversation id."""
    async with Memory("pydantic_ai.db") as memory:
        agent = Agent(
            FunctionModel(scripted),
            instructions="You are a careful engineer.",
            tools=[research],
            capabilities=[MemoryCapability(memory, "alice", discard_on=(Blocked,))],
        )
        agent.output_validator(guard)
        for said in (
            "The rate limit is 4,096 requests, and Dana owns it.",
            "Look into the code, please.",
            "What is the rate limit?",
        ):
            result = await agent.run(said, conversation_id="limits")
            print(f"> {said}\n{result.output}\n")

        status = await memory.thread("limits", resource="alice").status()
        print(f"{status.last_seq} messages are kept, {status.usage.requests} requests were made.")


if __name__ == "__main__":
    asyncio.run(main())
