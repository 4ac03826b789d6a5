"""A provider on loopback that answers as it was told to, in the words of three APIs, and remembers what it was sent."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from memolog.apps.network import open_socket, serving, url_of

__all__ = ["Call", "Seen", "Upstream", "running"]


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call that the model makes."""

    id: str
    name: str
    arguments: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Seen:
    """A request as the provider got it."""

    method: str
    path: str
    headers: dict[str, str]
    raw: bytes
    target: str = ""
    """Path and query as they came."""

    @property
    def body(self) -> Any:
        """Return the JSON of it."""
        return json.loads(self.raw)


Reply = str | Call | Response
Script = Callable[[Seen], Reply]


@dataclass
class Upstream:
    """What the provider answers, and what it has seen."""

    script: Script
    seen: list[Seen] = field(default_factory=list[Seen])
    pause: asyncio.Event | None = None
    """If set: a stream waits for it after its first piece."""
    paused: asyncio.Event = field(default_factory=asyncio.Event)
    left: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when a client closes a stream half-way."""
    numbers: int = 0
    tokens: Callable[[Seen], int] = lambda _: 100
    """What it reports as the length of a request."""

    async def answer(self, request: Request) -> Response:
        """Answer one request."""
        raw = await request.body()
        target = request.scope["raw_path"] + b"?" + request.scope["query_string"]
        seen = Seen(request.method, str(request.url.path), dict(request.headers), raw, target.decode())
        self.seen.append(seen)
        reply = self.script(seen) if raw or request.method != "OPTIONS" else Response(b"")
        if isinstance(reply, Response):
            return reply
        self.numbers += 1
        make = {"/v1/chat/completions": _chat, "/v1/responses": _response, "/v1/messages": _message}[seen.path]
        whole, events = make(reply, seen.body, self.numbers, self.tokens(seen))
        if not seen.body.get("stream"):
            return JSONResponse(whole, headers={"x-request-id": f"req_{self.numbers}"})
        return StreamingResponse(self._pieces(events), media_type="text/event-stream")

    async def _pieces(self, events: list[bytes]) -> AsyncIterator[bytes]:
        """Yield a stream cut at odd places, as networks do."""
        data = b"".join(events)
        cuts = [0, *range(len(events[0]) + len(events[1]) + len(events[2]), len(data), 97), len(data)]
        try:
            for start, end in pairwise(cuts):
                yield data[start:end]
                if self.pause is not None and start == 0:
                    self.paused.set()
                    await self.pause.wait()
        except asyncio.CancelledError:
            self.left.set()
            raise


@asynccontextmanager
async def running(upstream: Upstream) -> AsyncGenerator[str]:
    """Run the provider on a port that the system chooses; yields its address."""
    methods = ["GET", "POST", "DELETE", "OPTIONS"]
    app = Starlette(routes=[Route("/{path:path}", upstream.answer, methods=methods)])
    listener = open_socket("127.0.0.1", 0)
    async with serving(uvicorn.Config(app, log_config=None, timeout_keep_alive=300), listener):
        yield url_of("127.0.0.1", listener.getsockname()[1])


# ---------------------------------------------------------------- the words of each API


def _halves(text: str) -> tuple[str, str]:
    middle = len(text) // 2
    return text[:middle], text[middle:]


def _event(data: Any, name: str | None = None) -> bytes:
    text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
    return (f"event: {name}\n" if name else "").encode() + f"data: {text}\n\n".encode()


def _chat(reply: str | Call, body: Any, number: int, tokens: int) -> tuple[Any, list[bytes]]:
    about = {"id": f"chatcmpl_{number}", "created": 1, "model": body["model"]}
    usage = {
        "prompt_tokens": tokens,
        "completion_tokens": 7,
        "total_tokens": tokens + 7,
        "prompt_tokens_details": {"cached_tokens": 40},
    }
    if isinstance(reply, Call):
        arguments = json.dumps(reply.arguments)
        call = {"id": reply.id, "type": "function", "function": {"name": reply.name, "arguments": arguments}}
        message: Any = {"role": "assistant", "content": None, "tool_calls": [call]}
        first, second = _halves(arguments)
        opened = {**call, "index": 0, "function": {"name": reply.name, "arguments": ""}}
        deltas: list[Any] = [
            {"role": "assistant", "content": None},
            {"tool_calls": [opened]},
            {"tool_calls": [{"index": 0, "function": {"arguments": first}}]},
            {"tool_calls": [{"index": 0, "function": {"arguments": second}}]},
        ]
    else:
        message = {"role": "assistant", "content": reply, "refusal": None, "annotations": []}
        deltas = [{"role": "assistant", "content": ""}, *({"content": half} for half in _halves(reply))]
    finish = "tool_calls" if isinstance(reply, Call) else "stop"
    whole = {
        **about,
        "object": "chat.completion",
        "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": finish}],
        "usage": usage,
    }
    chunk = {**about, "object": "chat.completion.chunk"}
    events = [_event({**chunk, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}) for delta in deltas]
    events.append(_event({**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": finish}]}))
    if (body.get("stream_options") or {}).get("include_usage"):
        events.append(_event({**chunk, "choices": [], "usage": usage}))
    return whole, [*events, _event("[DONE]")]


def _response(reply: str | Call, body: Any, number: int, tokens: int) -> tuple[Any, list[bytes]]:
    usage = {
        "input_tokens": tokens,
        "output_tokens": 7,
        "total_tokens": tokens + 7,
        "input_tokens_details": {"cached_tokens": 40},
        "output_tokens_details": {"reasoning_tokens": 0},
    }
    thought = {"id": f"rs_{number}", "type": "reasoning", "summary": [], "encrypted_content": f"opaque-{number}"}
    if isinstance(reply, Call):
        item: Any = {
            "id": f"fc_{number}",
            "type": "function_call",
            "status": "completed",
            "call_id": reply.id,
            "name": reply.name,
            "arguments": json.dumps(reply.arguments),
        }
        deltas: list[Any] = [
            {"type": "response.function_call_arguments.delta", "item_id": item["id"], "output_index": 1, "delta": half}
            for half in _halves(item["arguments"])
        ]
    else:
        block = {"type": "output_text", "text": reply, "annotations": [], "logprobs": []}
        item = {
            "id": f"msg_{number}",
            "type": "message",
            "status": "completed",
            "role": "assistant",
            "content": [block],
        }
        where = {"item_id": item["id"], "output_index": 1, "content_index": 0}
        deltas = [
            {"type": "response.content_part.added", **where, "part": {**block, "text": ""}},
            *(
                {"type": "response.output_text.delta", **where, "delta": half, "logprobs": []}
                for half in _halves(reply)
            ),
        ]
    whole = {
        "id": f"resp_{number}",
        "object": "response",
        "created_at": 1,
        "status": "completed",
        "model": body["model"],
        "output": [thought, item],
        "usage": usage,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
    }
    begun = {**whole, "status": "in_progress", "output": [], "usage": None}
    empty = {**item, "status": "in_progress", **({"arguments": ""} if isinstance(reply, Call) else {"content": []})}
    told: list[Any] = [
        {"type": "response.created", "response": begun},
        {"type": "response.output_item.added", "output_index": 0, "item": thought},
        {"type": "response.output_item.done", "output_index": 0, "item": thought},
        {"type": "response.output_item.added", "output_index": 1, "item": empty},
        *deltas,
        {"type": "response.output_item.done", "output_index": 1, "item": item},
        {"type": "response.completed", "response": whole},
    ]
    return whole, [_event({**one, "sequence_number": n}, one["type"]) for n, one in enumerate(told)]


def _message(reply: str | Call, body: Any, number: int, tokens: int) -> tuple[Any, list[bytes]]:
    usage = {
        "input_tokens": tokens - 40,
        "output_tokens": 7,
        "cache_read_input_tokens": 40,
        "cache_creation_input_tokens": 0,
    }
    thought = {"type": "thinking", "thinking": "Let me see.", "signature": f"sig-{number}"}
    if isinstance(reply, Call):
        block: Any = {"type": "tool_use", "id": reply.id, "name": reply.name, "input": reply.arguments}
        empty: Any = {**block, "input": {}}
        deltas: list[Any] = [
            {"type": "input_json_delta", "partial_json": half} for half in _halves(json.dumps(reply.arguments))
        ]
    else:
        block, empty = {"type": "text", "text": reply}, {"type": "text", "text": ""}
        deltas = [{"type": "text_delta", "text": half} for half in _halves(reply)]
    stop = "tool_use" if isinstance(reply, Call) else "end_turn"
    whole = {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": body["model"],
        "content": [thought, block],
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": usage,
    }
    told: list[Any] = [
        {
            "type": "message_start",
            "message": {**whole, "content": [], "stop_reason": None, "usage": {**usage, "output_tokens": 1}},
        },
        {
            "type": "content_block_start",
            "index": 0,
            "content_block": {"type": "thinking", "thinking": "", "signature": ""},
        },
        {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "Let me see."}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": f"sig-{number}"}},
        {"type": "content_block_stop", "index": 0},
        {"type": "content_block_start", "index": 1, "content_block": empty},
        *({"type": "content_block_delta", "index": 1, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": 1},
        {"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": None}, "usage": {"output_tokens": 7}},
        {"type": "message_stop"},
    ]
    return whole, [_event(one, one["type"]) for one in told]
