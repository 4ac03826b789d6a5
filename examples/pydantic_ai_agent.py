"""A Pydantic AI agent with a long memory, a helper that it spawns, and a guard; the model is scripted, so no key is needed.

Run it with `python examples/pydantic_ai_agent.py`. For a real model write its name, such as "anthropic:claude-sonnet-5".
"""

import asyncio
from typing import Any

from pydantic_ai import Agent, RunContext
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from memolog import Memory
from memolog.adapters.pydantic_ai import MemoryCapability, child_memory


class Blocked(Exception):
    """What the guard raises."""


def scripted(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Answer as a model might: ask the helper about code, search memory for what is asked, else say that it is noted."""
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
    """Let a helper look into it, with a thread of its own."""
    result = await helper.run(question, capabilities=[child_memory(ctx, "own", mode="research")])
    return f"The helper says: {result.output}"


def guard(output: str) -> str:
    """Refuse to say a password aloud."""
    if "hunter2" in output:
        raise Blocked("an answer held a password")
    return output


async def main() -> None:
    """Hold a conversation in runs that share nothing but their conversation id."""
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
