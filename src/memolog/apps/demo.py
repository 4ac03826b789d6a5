"""The demo: save a conversation, load it back, show the rows and what they weigh.

Knows how to show a store to a person. Runs on the embedded defaults and needs no key.
"""

import argparse
import asyncio
import json
import tempfile
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

from rich.console import Console
from rich.table import Table

from memolog.domain.errors import MemologError
from memolog.domain.message import (
    AssistantMessage,
    Message,
    NewMessage,
    TextPart,
    ToolCallPart,
    ToolMessage,
    ToolResultPart,
    UserMessage,
)
from memolog.domain.run import Usage
from memolog.runtime.opening import open_store

__all__ = ["main"]

RESOURCE, THREAD = "alice", "auth-service"

CONVERSATION: tuple[NewMessage, ...] = (
    UserMessage("The API lives in server/, the frontend in client/. Please add a login endpoint."),
    AssistantMessage(
        [
            "I'll look at the existing routes first.",
            ToolCallPart(id="call_1", name="list_files", arguments={"path": "server/routes"}),
        ]
    ),
    ToolMessage("call_1", "users.ts\nhealth.ts\nindex.ts", name="list_files"),
    AssistantMessage(
        [
            "There is no auth route yet. I'll write one with a schema.",
            ToolCallPart(
                id="call_2",
                name="write_file",
                arguments={
                    "path": "server/schemas/auth.ts",
                    "content": "export const LoginSchema = z.object({ email: z.string().email(), "
                    "password: z.string().min(8) })",
                },
            ),
        ]
    ),
    ToolMessage("call_2", {"written": 104}, name="write_file"),
    AssistantMessage("LoginSchema is in server/schemas/auth.ts: email, and a password of at least 8 characters."),
    UserMessage("Good. We move from Express to Fastify by Friday, so keep the handler framework-free."),
)


async def play(address: str) -> dict[str, object]:
    """Save the conversation twice, load it back, and return what happened."""
    async with await open_store(address) as store:
        first = await store.messages.save(RESOURCE, THREAD, CONVERSATION)
        again = await store.messages.save(RESOURCE, THREAD, [_as_saved(message) for message in first.messages])
        loaded = await store.messages.after(RESOURCE, THREAD, first.messages[0].seq - 1)
        lease = await store.leases.acquire(RESOURCE, "demo", "this process", lasts=timedelta(seconds=30))
        await store.ledger.add(RESOURCE, Usage(model="sample", input_tokens=1200, output_tokens=90, cost=0.0021))
        spent = await store.ledger.total(RESOURCE)
        if lease is not None:
            await store.leases.release(RESOURCE, lease)
        return {
            "database": address,
            "saved": first.added,
            "saved_again": again.added,
            "identical": loaded == first.messages,
            "tokens": sum(message.tokens for message in loaded),
            "fence": lease.fence if lease else None,
            "cost": spent.cost,
            "messages": loaded,
        }


def _as_saved(message: Message) -> NewMessage:
    return NewMessage(role=message.role, parts=message.parts, id=message.id)


def show(result: dict[str, object], messages: Sequence[Message], console: Console) -> None:
    """Draw the rows and what was found."""
    table = Table(title=f"thread {THREAD} of {RESOURCE}", title_justify="left")
    for name, justify in (("seq", "right"), ("role", "left"), ("what was said", "left"), ("tokens", "right")):
        table.add_column(name, justify=justify)  # pyright: ignore[reportArgumentType]
    for message in messages:
        table.add_row(str(message.seq), message.role, _gist(message), str(message.tokens))
    console.print(table)
    console.print(f"saved {result['saved']} messages, {result['tokens']} tokens, in {result['database']}")
    console.print(f"saved once more: {result['saved_again']} added, since every id was known")
    console.print(f"loaded back: {'identical' if result['identical'] else 'DIFFERENT'}, byte for byte")
    console.print(f"lease taken with fence {result['fence']}; ledger: ${result['cost']:.4f} spent so far")


def _gist(message: Message) -> str:
    pieces: list[str] = []
    for part in message.parts:
        match part:
            case TextPart():
                pieces.append(part.text)
            case ToolCallPart():
                pieces.append(f"→ {part.name}({', '.join(dict(part.arguments or {}))})")
            case ToolResultPart():
                pieces.append(f"← {part.name}: {part.content}")
            case _:
                pieces.append(f"[{part.type}]")
    return " ".join(" ".join(pieces).split())[:88]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demo; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="memolog-demo",
        description="Save a conversation, load it back, show the rows and their token counts.",
        epilog="example: python -m memolog.apps.demo --db demo.db --json",
    )
    parser.add_argument("--db", help="where to keep it (default: a new temporary file)")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of the table")
    options = parser.parse_args(arguments)
    address = options.db or str(Path(tempfile.mkdtemp(prefix="memolog-demo-")) / "memolog.db")
    console = Console()
    try:
        result = asyncio.run(play(address))
    except MemologError as error:
        Console(stderr=True).print(f"[red]error[/red] {error}")
        return 1
    messages: Sequence[Message] = result.pop("messages")  # pyright: ignore[reportAssignmentType]
    if options.json:
        print(json.dumps(result))
    else:
        show(result, messages, console)
    return 0 if result["identical"] else 1


if __name__ == "__main__":
    raise SystemExit(main())
