"""The gateway between the official OpenAI client and a provider. Runs without a key: the provider is a few lines of this file.

    pip install "memolog[web,openai]"
    python examples/proxy.py

In real life the gateway is a process of its own (`memolog proxy`), and its provider is api.openai.com or a server of yours.
"""

import asyncio
from typing import Any

import uvicorn
from openai import AsyncOpenAI
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from memolog import Memory
from memolog.apps.gateway import GatewaySettings, serve
from memolog.apps.gateway.app import listening


async def complete(request: Request) -> JSONResponse:
    """Answer as a provider does: with how much of the conversation it was sent."""
    said = [message["content"] for message in (await request.json())["messages"] if message["role"] == "user"]
    # The last one is the memory's edge: what day it is, and what else is current.
    answer = f"You have told me {len(said) - 1} things; the first was: {said[0]}"
    message: dict[str, Any] = {"role": "assistant", "content": answer}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return JSONResponse(
        {"id": "c1", "object": "chat.completion", "created": 1, "model": "scripted", "choices": [choice]}
    )


async def main() -> None:
    """Send only what is new, three times; the provider gets the whole conversation."""
    provider = Starlette(routes=[Route("/v1/chat/completions", complete, methods=["POST"])])
    async with (
        listening(uvicorn.Config(provider, log_config=None), "127.0.0.1", 0) as there,
        Memory(":memory:") as memory,
        serve(memory, GatewaySettings(openai=there.url), port=0) as here,
        AsyncOpenAI(base_url=f"{here.url}/v1", api_key="the client's own") as client,
    ):
        headers = {"x-memolog-thread": "atlas", "x-memolog-resource": "alice"}
        for text in ("We deploy on Fridays.", "Never on Mondays.", "What do you know?"):
            done = await client.chat.completions.create(
                model="scripted", messages=[{"role": "user", "content": text}], extra_headers=headers
            )
            print(done.choices[0].message.content)


if __name__ == "__main__":
    asyncio.run(main())
