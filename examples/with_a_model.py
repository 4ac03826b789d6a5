"""Observe, activate and reflect with a model of your choice, and print the cost.

    MEMOLOG_MODEL=openai:gpt-5-mini python examples/with_a_model.py
    MEMOLOG_MODEL=http://127.0.0.1:8000/v1#qwen3 python examples/with_a_model.py

The user and the agent follow a script, so you pay only for the memory. The limits are small, so that a short conversation is
enough; about ten calls are made. Needs `pip install "memolog[llm]"` and the key of the provider.
"""

import asyncio
import os
import sys

from memolog import AssistantMessage, Config, ConfigError, Event, Memory, ToolCallPart, ToolMessage

HOW = """MEMOLOG_MODEL is not set, so nothing was asked and nothing was spent. Name a model:
  MEMOLOG_MODEL=openai:gpt-5-mini            with OPENAI_API_KEY
  MEMOLOG_MODEL=anthropic:claude-haiku-4-5   with ANTHROPIC_API_KEY
  MEMOLOG_MODEL=http://127.0.0.1:8000/v1#m   any server with the OpenAI protocol, also a local one
  MEMOLOG_MODEL=extractive                   the embedded observer: no key, no network
"""
# The message of the user, the command that the agent runs, the output of the command, and the answer of the agent.
TALK = [
    (
        "We build Toolshed, a lending service for the tool library in our street. Jonas reviews. Please look around first.",
        "ls toolshed",
        "main.py  items.py  db.py",
        "The API has items and nothing else yet, on SQLite. Loans, members and fees are missing.",
    ),
    (
        "Start with loans. A loan lasts 14 days. We decided that all money is in integer cents, never floats.",
        "pytest -q tests/test_loans.py",
        "......\n6 passed in 0.12s",
        "Loans are in toolshed/loans.py: LOAN_DAYS is 14, amounts are integer cents, and 6 tests pass.",
    ),
    (
        "Now the late fee: 50 cents a day, and never more than 8 euros a loan. Mrs. Okafor insisted on that cap.",
        "pytest -q tests/test_fees.py",
        "F....\nE   assert 850 == 800\n1 failed, 4 passed in 0.10s",
        "The cap was applied before the days were counted. Fixed in toolshed/fees.py: late_fee() returns at most 800.",
    ),
    (
        "Members next. A member has a name, an email and a card number like TS-00417. At most three things at once.",
        "pytest -q",
        ".......................\n23 passed in 0.61s",
        "Members are in toolshed/members.py, and MAX_THINGS = 3 is in toolshed/rules.py, where Jonas finds it.",
    ),
    (
        "Saving a loan failed twice yesterday with 'database is locked'. Why?",
        "grep -n locked /var/log/toolshed.log",
        "10:02:11 sqlite3.OperationalError: database is locked\n10:02:12 sqlite3.OperationalError: database is locked",
        "Two requests wrote at once, and SQLite allows one writer. A timeout would help; PostgreSQL would solve it.",
    ),
    (
        "Then we change our mind: PostgreSQL instead of SQLite, from today. Jonas agrees.",
        "psql -c 'select version()'",
        "PostgreSQL 17.2 on x86_64-pc-linux-gnu",
        "Moved: toolshed/db.py uses psycopg with a pool of 5 connections, the tables are the same, and 23 tests pass.",
    ),
    (
        "Reservations must not overlap. Two people stood at the counter with one for the same tile cutter.",
        "pytest -q tests/test_reservations.py",
        ".........\n9 passed in 0.34s",
        "An EXCLUDE constraint over item and days refuses overlaps in the database itself. Touching days count as overlap.",
    ),
]
TOLD = {"RunEnded", "RunFailed", "Activated", "GenerationMade", "TitleChanged", "Degraded"}


async def converse(memory: Memory) -> None:
    """Play the script. Each turn has two steps: the second request contains the output of the command."""
    for number, (asked, command, printed, answer) in enumerate(TALK):
        async with memory.thread("api", resource="mira").turn(zone="Europe/Berlin") as turn:
            call = ToolCallPart(id=f"call-{number}", name="run", arguments={"command": command})
            await turn.prepare(asked)
            await turn.record(AssistantMessage(call))
            await turn.prepare(ToolMessage(call.id, printed))
            await turn.record(answer)
        await memory.settled()


def tell(event: Event) -> None:
    """Print an event of the memory."""
    if event.kind in TOLD:
        print(f"  {event.kind}: " + ", ".join(f"{name}={value}" for name, value in event.data().items()))


async def main(model: str) -> int:
    """Hold the conversation, then print the log and the cost."""
    small = {"observation": {"message_tokens": 500, "previous_tokens": 100}, "reflection": {"observation_tokens": 250}}
    # With `strict` a missing key or package is an error. Otherwise the embedded observer would be used.
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
