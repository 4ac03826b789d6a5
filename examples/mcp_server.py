"""A memory over the Model Context Protocol. The client starts the server, as an editor or a chat program would.

    python examples/mcp_server.py

This example uses the official client, without a model. It begins a session, claims a task, finds exact words, and is notified
of a change by another program. Needs `pip install "memolog[mcp]"`, but no key and no network.
"""

import asyncio
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from mcp import Client
from mcp.client.stdio import StdioServerParameters
from mcp_types import TextContent

from memolog import Memory

CODE = "export const LoginSchema = z.object({ email: z.string().email() })"


async def remember(path: Path) -> None:
    """Fill a memory with messages and tasks, as an agent would have done on the day before."""
    async with Memory(path) as memory:
        thread = memory.thread("monday", resource="tally")
        async with thread.turn() as turn:
            await turn.prepare("Please write the login schema. We use Fastify, not Express.")
            await turn.record(f"It is in src/schemas/auth.ts:\n{CODE}")
        await thread.observe()
        await memory.resource("tally").tasks().create("Add the login endpoint", priority=1)


async def ask(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    """Call a tool as a model would."""
    return (await client.call_tool(tool, arguments)).structured_content or {}


async def main() -> None:
    """Start the server and use its tools and resources."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "memolog.db"
        await remember(path)
        options = ["--db", str(path), "--resource", "tally", "--session", "example", "--every", "0.2"]
        server = StdioServerParameters(
            command=sys.executable, args=["-m", "memolog", "mcp", *options], env=dict(os.environ)
        )
        async with Client(server) as client:
            tools = (await client.list_tools()).tools
            print("Tools:", ", ".join(tool.name for tool in tools))

            prompt = await client.get_prompt("start-session", {"goal": "the login endpoint"})
            content = prompt.messages[0].content
            assert isinstance(content, TextContent)  # noqa: S101 - this server sends text
            print(f"A session begins with {len(content.text):,} characters of memory.")

            claimed = await ask(client, "task-mutate", action="claim")
            print("Claimed:", claimed["task"]["handle"], claimed["task"]["title"])
            found = await ask(client, "memory-search", action="search", query="LoginSchema")
            print("Found:", found["results"][0]["text"].splitlines()[-1])

            async with client.listen(resource_subscriptions=["memolog://working-memory"]) as changes:
                async with Memory(path) as memory:
                    await (
                        memory.resource("tally")
                        .working_memory()
                        .replace("# Facts\n\n- Fastify, not Express.\n", who="somebody")
                    )
                print("Told of a change:", getattr(await anext(aiter(changes)), "uri", ""))
            handle, summary = claimed["task"]["handle"], "POST /login in src/app.ts"
            done = await ask(client, "task-mutate", action="close", task=handle, summary=summary)
            print("Closed:", done["task"]["handle"])


if __name__ == "__main__":
    asyncio.run(main())
