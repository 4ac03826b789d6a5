"""Guards around a model. Nothing of a turn that a guard stops is stored. No key and no network is needed.

Run it with `python examples/with_guards.py`.
"""

import asyncio

from memolog import AssistantMessage, Context, Memory, NewMessage, UserMessage
from memolog.adapters.guards import Checked, Guards, GuardStopped

DIGITS = 16


def no_cards(checked: Checked) -> str | None:
    """Stop a message or an answer that contains the number of a credit card."""
    digits = "".join(letter for letter in checked.text if letter.isdigit())
    return "That looks like the number of a card" if len(digits) >= DIGITS else None


async def model(context: Context) -> NewMessage:
    """Answer like a model that reveals a card number."""
    asked = context.tail[-1].text
    return AssistantMessage("It is 4000 1234 5678 9010." if "number" in asked else f"You said: {asked}")


async def main() -> None:
    """Make three turns: one that passes, one whose question is stopped, and one whose answer is stopped."""
    guards = Guards(input=[no_cards], output=[no_cards])
    async with Memory("with_guards.db") as memory:
        for text in ("hello", "My card is 4000 1234 5678 9010", "What was the number again?"):
            try:
                await guards.run(memory, "t1", "alice", UserMessage(text), model=model)
                print(f"{text} -> answered")
            except GuardStopped as stopped:
                print(f"{text} -> {stopped}")
        kept = await memory.thread("t1", resource="alice").status()
        print(f"{kept.messages.tokens} tokens are remembered")


if __name__ == "__main__":
    asyncio.run(main())
