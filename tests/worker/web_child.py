"""A web process: `python web_child.py ADDRESS SEED`. It holds turns until it is killed, and tells which messages are saved.

Nothing is told before the database has it. After an error the same messages are sent again, with the same ids, as a client does.
"""

import asyncio
import random
import sys

from memolog import AssistantMessage, Memory, UserMessage
from memolog.core.message import NewMessage
from memolog.errors import MemologError
from memolog.testing import ScriptedModel
from worker.worker_child import CONFIG, tell

WORDS = "one two three four five six seven eight nine ten "
THREADS = ("red", "green", "blue", "grey")


def _text(message: NewMessage) -> str:
    return "".join(getattr(part, "text", "") for part in message.parts)


async def hold(memory: Memory, thread: str, question: NewMessage, answer: NewMessage) -> None:
    """Hold one turn, and tell what it has saved."""
    async with memory.thread(thread, resource="alice").turn() as turn:
        await turn.prepare(question)
        tell({"event": "saved", "thread": thread, "id": question.id, "text": _text(question)})
        await turn.record(answer)
        tell({"event": "saved", "thread": thread, "id": answer.id, "text": _text(answer)})


async def main(address: str, seed: int) -> None:
    """Hold one turn after another."""
    chance = random.Random(seed)
    config = CONFIG.with_overrides({"strict": True})
    # The first turn opens the database. If that fails, the next turn tries again.
    memory = Memory(address, model=ScriptedModel(), config=config)
    for number in range(1_000_000):
        name, thread = f"p{seed}-{number}", chance.choice(THREADS)
        question = UserMessage(f"{name} asks {WORDS * chance.randint(1, 4)}", id=f"{name}-q")
        answer = AssistantMessage(f"{name} says {WORDS * chance.randint(1, 4)}", id=f"{name}-a")
        while True:
            try:
                await hold(memory, thread, question, answer)
                break
            except MemologError:
                await asyncio.sleep(0.2)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
