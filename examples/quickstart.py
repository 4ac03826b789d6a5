"""The smallest whole use: one turn, the embedded observer, one SQLite file.

Run it with `python examples/quickstart.py`; run it again and the memory is still there.
"""

import asyncio

from memolog import AssistantMessage, Memory, UserMessage


async def main() -> None:
    """Hold one turn and show what a model would have seen."""
    async with Memory("quickstart.db") as memory:
        async with memory.thread("auth-service", resource="alice").turn() as turn:
            context = await turn.prepare(UserMessage("Which hash should we use for passwords?"))
            print(context.render())
            await turn.record(AssistantMessage("argon2id."))
        print(await memory.thread("auth-service", resource="alice").status())


if __name__ == "__main__":
    asyncio.run(main())
