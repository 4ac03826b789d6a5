"""The gateway between the official OpenAI client and a provider. It needs no key, because this file contains a fake provider.

    pip install "memolog[web,openai]"
    python examples/proxy.py

The gateway is a separate process (`memolog proxy`). In real use its provider is api.openai.com or your own server.
"""

import asyncio
import json
import socket
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import uvicorn
from openai import AsyncOpenAI
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route


async def complete(request: Request) -> JSONResponse:
    """Answer like a provider. The answer says how many messages the request contained."""
    said = [message["content"] for message in (await request.json())["messages"] if message["role"] == "user"]
    # The last message ends with the edge: the date and other current facts.
    first = said[0].partition("\n\n<now>")[0]
    answer = f"You have told me {len(said)} things; the first was: {first}"
    message: dict[str, Any] = {"role": "assistant", "content": answer}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return JSONResponse(
        {"id": "c1", "object": "chat.completion", "created": 1, "model": "scripted", "choices": [choice]}
    )


@asynccontextmanager
async def provider() -> AsyncGenerator[str]:
    """Run a fake provider while the block runs. Yields its address."""
    app = Starlette(routes=[Route("/v1/chat/completions", complete, methods=["POST"])])
    server = uvicorn.Server(uvicorn.Config(app, log_config=None))
    listener = socket.create_server(("127.0.0.1", 0))
    running = asyncio.create_task(server.serve(sockets=[listener]))
    yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    server.should_exit = True
    await running


@asynccontextmanager
async def gateway(openai: str) -> AsyncGenerator[str]:
    """Run `memolog proxy` while the block runs. Yields its address."""
    command = [
        sys.executable,
        "-m",
        "memolog",
        "proxy",
        "--db",
        ":memory:",
        "--port",
        "0",
        "--openai",
        openai,
        "--json",
    ]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    yield json.loads(await process.stdout.readline() if process.stdout else "{}")["url"]
    process.terminate()
    await process.wait()


async def main() -> None:
    """Send three requests, each with only the new message. The provider gets the whole conversation each time."""
    async with (
        provider() as there,
        gateway(there) as here,
        AsyncOpenAI(base_url=f"{here}/v1", api_key="the client's own") as client,
    ):
        headers = {"x-memolog-thread": "atlas", "x-memolog-resource": "alice"}
        for text in ("We deploy on Fridays.", "Never on Mondays.", "What do you know?"):
            done = await client.chat.completions.create(
                model="scripted", messages=[{"role": "user", "content": text}], extra_headers=headers
            )
            print(done.choices[0].message.content)


if __name__ == "__main__":
    asyncio.run(main())
