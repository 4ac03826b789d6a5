"""The provider of the adapters' tests on loopback. It gives scripted answers and stores the requests that it gets."""

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

from adapters import provider
from adapters.rules import Rules
from memolog.apps.network import open_socket, serving, url_of

__all__ = ["PATHS", "Call", "Seen", "Upstream", "running"]

PATHS = {"chat": "/v1/chat/completions", "responses": "/v1/responses", "messages": "/v1/messages"}


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
        return json.loads(self.raw)


Reply = str | Call | Response | provider.Reply
Script = Callable[[Seen], Reply]


@dataclass
class Upstream:
    """The provider: its script, and the requests that it got."""

    script: Script
    seen: list[Seen] = field(default_factory=list[Seen])
    pause: asyncio.Event | None = None
    """If this is an event, a stream waits for it after the first piece."""
    paused: asyncio.Event = field(default_factory=asyncio.Event)
    left: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when a client closes a stream half-way."""
    numbers: int = 0
    tokens: Callable[[Seen], int] = lambda _: 100
    """The number of input tokens that the provider reports for a request."""
    rules: Rules = field(default_factory=Rules)

    async def answer(self, request: Request) -> Response:
        raw = await request.body()
        target = request.scope["raw_path"] + b"?" + request.scope["query_string"]
        seen = Seen(request.method, str(request.url.path), dict(request.headers), raw, target.decode())
        self.seen.append(seen)
        reply = self.script(seen) if raw or request.method != "OPTIONS" else Response(b"")
        if isinstance(reply, Response):
            return reply
        self.numbers += 1
        # The version of a provider may have another path, such as `/v1beta/openai`.
        api = next(
            (name for name, path in PATHS.items() if seen.path.rstrip("/").endswith(path.removeprefix("/v1"))), "gemini"
        )
        if isinstance(reply, Call):
            said = provider.Reply(calls=((reply.id, reply.name),), arguments=json.dumps(reply.arguments))
        else:
            said = provider.Reply(text=reply) if isinstance(reply, str) else reply
        driver, body = provider.APIS.get(api, provider.GEMINI), seen.body
        if api == "gemini" and ":stream" in seen.path:
            body = {**body, "stream": True}
        sent = provider.send(driver, self.rules, body, said, self.numbers, self.tokens(seen))
        if sent.lines is None:
            return JSONResponse(sent.data, sent.status)
        return StreamingResponse(self._pieces(list(sent.lines), is_cut=sent.is_cut), media_type="text/event-stream")

    async def _pieces(self, events: list[bytes], *, is_cut: bool) -> AsyncIterator[bytes]:
        """Yield the stream in pieces that end in the middle of events. If it is cut, close the connection before its end."""
        data = b"".join(events)
        cuts = [0, *range(sum(map(len, events[:3])), len(data), 97), len(data)]
        try:
            for start, end in pairwise(cuts):
                yield data[start:end]
                if self.pause is not None and start == 0:
                    self.paused.set()
                    await self.pause.wait()
            if is_cut:
                raise ConnectionError("the connection was closed")
        except asyncio.CancelledError:
            self.left.set()
            raise


@asynccontextmanager
async def running(upstream: Upstream) -> AsyncGenerator[str]:
    """Run the provider on a free port, and yield its address."""
    methods = ["GET", "POST", "DELETE", "OPTIONS"]
    app = Starlette(routes=[Route("/{path:path}", upstream.answer, methods=methods)])
    listener = open_socket("127.0.0.1", 0)
    async with serving(uvicorn.Config(app, log_config=None, timeout_keep_alive=300), listener):
        yield url_of("127.0.0.1", listener.getsockname()[1])
