"""An agent of the OpenAI Agents SDK with a long memory. It needs no key, because a scripted model of the SDK answers.

    pip install "memolog[openai-agents]"
    python examples/openai_agents.py

To use a real model, remove `model=` and set OPENAI_API_KEY.
"""

import asyncio
import tempfile
from pathlib import Path

from agents import Agent, RunConfig
from agents.testing import ScriptedModel, assistant_message, function_call

from memolog import Memory
from memolog.adapters.openai_agents import MemologSession


async def main() -> None:
    """State a fact in one thread, close the memory, and ask for the fact in another thread."""
    quiet = RunConfig(tracing_disabled=True)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "memolog.db"

        async with Memory(path) as memory:
            session = MemologSession(memory, thread="atlas", resource="alice")
            model = ScriptedModel([[assistant_message("Noted.", item_id="msg_1")]])
            agent = Agent(name="helper", instructions="Be brief.", tools=session.tools(), model=model)
            result = await session.run(agent, "We deploy on Fridays, never on Mondays.", run_config=quiet)
            print("model:", result.final_output)

        async with Memory(path) as memory:
            session = MemologSession(memory, thread="beta", resource="alice")
            search = {"action": "search", "query": "deploy"}
            model = ScriptedModel(
                [
                    [function_call("memory-search", search, call_id="call_1")],
                    [assistant_message("On Fridays.", item_id="msg_2")],
                ]
            )
            agent = Agent(name="helper", instructions="Be brief.", tools=session.tools(), model=model)
            async with session.stream(agent, "When do we deploy?", run_config=quiet) as stream:
                async for event in stream.stream_events():
                    if event.type == "run_item_stream_event" and event.name == "tool_output":
                        print("found:", "never on Mondays" in str(event.item))
            print("model:", stream.final_output)


if __name__ == "__main__":
    asyncio.run(main())
