"""Functions that the servers share: checks of tokens and of loopback addresses, a server on a socket."""

import asyncio
import errno
import socket
import urllib.parse
from collections.abc import AsyncGenerator, Generator, Iterable
from contextlib import asynccontextmanager, contextmanager
from ipaddress import ip_address
from typing import Final

import uvicorn

from memolog.errors import MemologError, StoreUnavailable

_LEAST_TOKEN: Final = 16


def is_loopback(host: str) -> bool:
    """Return whether a host can be reached from this machine only."""
    if host.lower() == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def is_from_here(headers: Iterable[tuple[str, str]]) -> bool:
    """Return whether `host` and `origin` of a request name this machine. The `origin` of a web page names its web site."""
    named = [value if name == "origin" else f"//{value}" for name, value in headers if name in {"host", "origin"}]
    return all(_names_loopback(value) for value in named)


def _names_loopback(address: str) -> bool:
    try:
        name = urllib.parse.urlsplit(address).hostname or ""
    except ValueError:
        return False
    return name.endswith(".localhost") or is_loopback(name)


def check_token(token: str, name: str, error: type[MemologError]) -> None:
    """Raise an error unless a token is long enough and can be sent in a header. `name` describes the token in the message."""
    if len(token) < _LEAST_TOKEN or not (token.isascii() and token.isprintable()) or " " in token:
        raise error(
            f"{name} cannot be used.",
            why=f"It must have at least {_LEAST_TOKEN} visible ASCII characters, without a space.",
            then='Make one with: python -c "import secrets; print(secrets.token_urlsafe(32))"',
        )


def open_socket(host: str, port: int, *, options: tuple[str, str] = ("--host", "--port")) -> socket.socket:
    """Return a socket that listens on an address. Port 0 means any free port. `options` are named in errors."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family, backlog=128)
    except (OSError, OverflowError) as error:
        is_used = isinstance(error, OSError) and error.errno == errno.EADDRINUSE
        why = f"another program uses port {port}" if is_used else str(error)
        raise StoreUnavailable(
            f"The server cannot listen on {host}:{port}: {why}.",
            then=f"Choose another {options[1] if is_used else ' or '.join(options)}. Port 0 means any free port.",
        ) from error
    # Connections inherit the option. Without it, the body of an answer waits 40 ms until the client has acknowledged the headers:
    # asyncio sets it only for sockets that name their protocol, which those of `create_server` do not.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def url_of(host: str, port: int) -> str:
    """Return the HTTP URL of a server."""
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


class _Server(uvicorn.Server):
    """A server that sets `is_ready` once it listens, and installs no signal handlers."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.is_ready = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.is_ready.set()

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        yield


@asynccontextmanager
async def serving(config: uvicorn.Config, listener: socket.socket) -> AsyncGenerator[None]:
    """Run an application as a server of this event loop while the block runs. Close the socket at the end of the block."""
    server = _Server(config)
    task = asyncio.create_task(server.serve(sockets=[listener]))
    ready = asyncio.create_task(server.is_ready.wait())
    try:
        await asyncio.wait({ready, task}, return_when=asyncio.FIRST_COMPLETED)
        yield
    finally:
        ready.cancel()
        server.should_exit = True
        await task
        listener.close()
