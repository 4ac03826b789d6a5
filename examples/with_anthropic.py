"""An Anthropic client with a long memory and streaming. The provider is fake, so no key and no network is needed.

Run it with `python examples/with_anthropic.py`. If you run it again, it uses the same memory. To use the real provider, remove
`http_client` and pass the name of a model. Needs `pip install "memolog[anthropic]"`.
"""

import asyncio
import json
from typing import Any

import httpx2
from anthropic import AsyncAnthropic

from memolog import Memory
from memolog.adapters.anthropic import wrap


def provider(request: httpx2.Request) -> httpx2.Response:
    """Answer like a provider, word by word. Print the number of messages and cache marks of the request."""
    body = json.loads(request.content)
    said = [block for message in body["messages"] for block in message["content"]]
    marks = sum("cache_control" in block for block in (*body.get("system", ()), *said))
    print(f"  the model reads {len(body['messages'])} messages, {marks} marks for the cache")
    usage = {"input_tokens": len(request.content) // 4, "output_tokens": 6}
    start: dict[str, Any] = {"id": "msg_1", "type": "message", "role": "assistant", "model": "scripted", "content": []}
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {**start, "stop_reason": None, "usage": usage}}
    ]
    events.append({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}})
    for word in ("argon2id,", " with", " 64 MiB."):
        delta = {"type": "text_delta", "text": word}
        events.append({"type": "content_block_delta", "index": 0, "delta": delta})
    events.append({"type": "content_block_stop", "index": 0})
    events.append({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 6}})
    events.append({"type": "message_stop"})
    lines = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)
    return httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=lines.encode())


async def main() -> None:
    """Ask twice with streaming, then print the log."""
    http = httpx2.AsyncClient(transport=httpx2.MockTransport(provider))
    async with Memory("with_anthropic.db") as memory:
        client = AsyncAnthropic(api_key="none", http_client=http)
        client = wrap(client, memory, thread="auth", resource="alice")
        for question in ("Which hash should we use for passwords?", "And how much memory?"):
            print(question)
            asked: Any = {"role": "user", "content": question}
            async with client.messages.stream(model="scripted", max_tokens=99, messages=[asked]) as stream:
                print(f"  {''.join([text async for text in stream.text_stream])}")
        thread = memory.thread("auth", resource="alice")
        await thread.observe()
        print(await thread.export_markdown())


if __name__ == "__main__":
    asyncio.run(main())
