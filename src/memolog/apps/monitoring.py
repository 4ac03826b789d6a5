"""Answer `/healthz`, `/readyz` and `/metrics` of a server, for orchestrators and for Prometheus.

These addresses need no token. They show sums, and no ids and no texts of users.
"""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final, TypeAlias

from memolog.apps.network import is_from_here
from memolog.errors import MemologError
from memolog.memory import Memory

Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App: TypeAlias = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]

HEALTH: Final = "/healthz"
READY: Final = "/readyz"
METRICS: Final = "/metrics"
_TEXT: Final = "text/plain; charset=utf-8"
_PATIENCE_SECONDS: Final = 5.0


class Monitored:
    """An ASGI application that answers the requests of operators itself, and passes all others on to another application."""

    def __init__(self, memory: Memory, app: App | None = None, *, only_here: bool) -> None:
        """Watch a memory. With `only_here`, requests whose `host` or `origin` is not this machine are refused."""
        self._memory, self._app, self._only_here = memory, app, only_here
        # The extra `mcp` does not install the library for metrics.
        try:
            from memolog.apps.exposition import Figures  # noqa: PLC0415
        except ImportError:
            self.figures = None
        else:
            self.figures = Figures(memory)
        self._answers: dict[str, Callable[[], Awaitable[tuple[int, str, bytes]]]] = {
            HEALTH: self._health,
            READY: self._ready,
            METRICS: self._metrics,
        }

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Answer a request."""
        answer = self._answers.get(scope.get("path", "")) if scope["type"] == "http" else None
        if answer is None and self._app is not None:
            return await self._app(scope, receive, send)
        headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in scope.get("headers", ())]
        if self._only_here and not is_from_here(headers):
            status, kind, body = 403, _TEXT, b"This server answers only programs on this machine.\n"
        elif answer is None:
            status, kind, body = 404, _TEXT, b"Not found.\n"
        elif scope["method"] not in {"GET", "HEAD"}:
            status, kind, body = 405, _TEXT, b"Use GET.\n"
        else:
            status, kind, body = await answer()
        sent = [
            (b"content-type", kind.encode()),
            (b"content-length", str(len(body)).encode()),
            (b"cache-control", b"no-store"),
        ]
        await send({"type": "http.response.start", "status": status, "headers": sent})
        return await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})

    @staticmethod
    async def _health() -> tuple[int, str, bytes]:
        """Answer. That the event loop runs is all that the answer says."""
        return 200, _TEXT, b"ok\n"

    async def _ready(self) -> tuple[int, str, bytes]:
        """Say whether the database can be read and its schema is current. A reason is the name of an error, without its text."""
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                await self._memory.check_ready()
        except (MemologError, TimeoutError) as error:
            return 503, _TEXT, f"not ready: {type(error).__name__}\n".encode()
        return 200, _TEXT, b"ready\n"

    async def _metrics(self) -> tuple[int, str, bytes]:
        if self.figures is None:
            return 501, _TEXT, b'Metrics need prometheus-client: pip install "memolog[web]".\n'
        return 200, self.figures.content_type, await self.figures.text(_PATIENCE_SECONDS)
