"""The whole pipeline on a model of your choice: observing, activating, reflecting, and what it cost.

    MEMOLOG_MODEL=openai:gpt-5-mini python examples/with_a_model.py
    MEMOLOG_MODEL=http://127.0.0.1:8000/v1#qwen3 python examples/with_a_model.py

The user and the agent follow a script, so all that is paid for is the memory. The windows are small: a short conversation fills
them, and about ten calls are made. Needs `pip install "memolog[llm]"` and, for a provider, its key.
"""

import asyncio
import os
import sys

from memolog import Config, ConfigError, Event, Memory
from memolog.apps.demo.script import script

HOW = """MEMOLOG_MODEL is not set, so nothing was asked and nothing was spent. Name a model:
  MEMOLOG_MODEL=openai:gpt-5-mini            with OPENAI_API_KEY
  MEMOLOG_MODEL=anthropic:claude-haiku-4-5   with ANTHROPIC_API_KEY
  MEMOLOG_MODEL=http://127.0.0.1:8000/v1#m   any server that speaks the OpenAI protocol, also a local one
  MEMOLOG_MODEL=extractive                   the embedded observer: no key, no network
"""
EXCHANGES = 11
TOLD = {"RunEnded", "RunFailed", "Activated", "GenerationMade", "TitleChanged", "Degraded"}


async def converse(memory: Memory) -> None:
    """Play the first days of the demo: what the user asks, what the agent's tools return, what it answers."""
    for exchange in [one for one in script() if one.thread == "api"][:EXCHANGES]:
        async with memory.thread("api", resource="mira").turn(zone="Europe/Berlin") as turn:
            for step in exchange.steps:
                await turn.prepare(step.given)
                await turn.record(step.reply)
        await memory.settled()


def tell(event: Event) -> None:
    """Print what happened to the memory."""
    if event.kind in TOLD:
        print(f"  {event.kind}: " + ", ".join(f"{name}={value}" for name, value in event.data().items()))


async def main(model: str) -> int:
    """Converse, then show the log and the bill."""
    small = {"observation": {"message_tokens": 900, "previous_tokens": 200}, "reflection": {"observation_tokens": 500}}
    # A key or a package that is missing is an error here; without `strict` the embedded observer would stand in.
    config = Config.from_dict({"model": model, "strict": True, **small})
    try:
        async with Memory(":memory:", config=config) as memory:
            memory.subscribe(tell)
            await converse(memory)
            thread = memory.thread("api", resource="mira")
            await thread.finalize()
            status = await thread.reflect()
            context = await thread.context("Where were we?")
            print(f"\n{context.system}\n\n{context.edge_text}")
    except ConfigError as error:
        print(error)
        return 1
    usage = status.usage
    print(f"\n{usage.requests} calls: {usage.input_tokens:,} tokens sent, {usage.output_tokens:,} answered")
    print(f"${usage.cost:.4f}, as far as the price of {model} is known; health: {status.health}")
    return 0 if status.health == "ok" else 1


if __name__ == "__main__":
    chosen = os.environ.get("MEMOLOG_MODEL", "")
    if not chosen:
        print(HOW, end="")
        sys.exit(0)
    sys.exit(asyncio.run(main(chosen)))
