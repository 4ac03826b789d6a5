"""The gateway as a server of this process: it listens, says where, and ends when it is told to.

Knows uvicorn. Ports may be chosen by the system; requests are not logged, since their headers hold keys.
"""

import asyncio
import errno
import socket
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Final

import uvicorn

from memolog import Memory
from memolog.apps.proxy.app import proxy_app
from memolog.apps.proxy.settings import ProxySettings, check_listening
from memolog.domain.errors import StoreUnavailable

__all__ = ["GRACE", "HOST", "PORT", "Listening", "listening", "serve"]

HOST: Final = "127.0.0.1"
PORT: Final = 8484
GRACE: Final = 10
# Longer than clients keep an idle connection: who hangs up first must not be the one who is about to be asked.
_IDLE: Final = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Listening:
    """Where a gateway listens."""

    host: str
    port: int

    @property
    def url(self) -> str:
        """Return the address for clients; those of OpenAI want `/v1` after it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"


class _Server(uvicorn.Server):
    """A server that says when it listens, and leaves signals to whoever runs it."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.is_ready = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, and say so."""
        await super().startup(sockets)
        self.is_ready.set()

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Capture none."""
        yield


@asynccontextmanager
async def serve(
    memory: Memory, settings: ProxySettings | None = None, *, host: str = HOST, port: int = PORT, grace: int = GRACE
) -> AsyncGenerator[Listening]:
    """Listen while the block lasts: `async with` yields where. Port 0 lets the system choose.

    At its end requests under way have `grace` seconds; then they are broken off, and what was said by then is kept.
    """
    settings = settings or ProxySettings()
    check_listening(host, has_token=settings.has_token)
    config = uvicorn.Config(
        proxy_app(memory, settings),
        log_config=None,
        access_log=False,
        server_header=False,
        lifespan="on",
        timeout_keep_alive=_IDLE,
        timeout_graceful_shutdown=grace,
    )
    async with listening(config, host, port) as where:
        yield where


@asynccontextmanager
async def listening(config: uvicorn.Config, host: str, port: int) -> AsyncGenerator[Listening]:
    """Run any application as a server of this loop; nothing of it is left after the block."""
    listener = _listen(host, port)
    server = _Server(config)
    task = asyncio.create_task(server.serve(sockets=[listener]))
    ready = asyncio.create_task(server.is_ready.wait())
    try:
        await asyncio.wait({ready, task}, return_when=asyncio.FIRST_COMPLETED)
        yield Listening(host=host, port=listener.getsockname()[1])
    finally:
        ready.cancel()
        server.should_exit = True
        await task
        listener.close()


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        is_taken = error.errno == errno.EADDRINUSE
        why = f"port {port} is taken by another program" if is_taken else error.strerror or str(error)
        raise StoreUnavailable(
            f"The gateway cannot listen on {host}:{port}: {why}.",
            then=f"Choose another {'--port' if is_taken else '--host or --port'}; 0 is any port that is free.",
        ) from error
    return listener
