"""Over HTTP: who may come in, and the program that lets them.

Knows the token, the addresses that may be asked for, and how the server is run and ended. Knows nothing of memory.
"""

import asyncio
import hashlib
import hmac
import json
import signal
import socket
import threading
from collections.abc import Awaitable, Callable, Generator, MutableMapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final

import uvicorn
from mcp.server.transport_security import TransportSecuritySettings

from memolog.apps.mcp.served import Served
from memolog.apps.mcp.server import MemoryServer, build_server
from memolog.domain.errors import ConfigError, InputError, StoreUnavailable

__all__ = ["PATH", "TOKEN_VARIABLE", "Door", "is_loopback", "open_door", "read_token", "serve_http", "web_app"]

PATH: Final = "/mcp"
TOKEN_VARIABLE: Final = "MEMOLOG_MCP_TOKEN"  # noqa: S105 - the name of a variable
_LEAST_TOKEN: Final = 16
_LARGEST_REQUEST: Final = 1024 * 1024
_MOST_SESSIONS: Final = 200
_IDLE_SECONDS: Final = 30 * 60
_GOODBYE_SECONDS: Final = 2
_LOOPBACK_NAMES: Final = ("127.0.0.1", "localhost", "[::1]")

AsgiScope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[AsgiScope, Receive, Send], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Door:
    """Where the server listens, and what it takes to come in."""

    listening: socket.socket
    host: str
    token: str | None
    allowed_hosts: tuple[str, ...]

    @property
    def port(self) -> int:
        """Return the port, also where the system chose it."""
        return int(self.listening.getsockname()[1])

    @property
    def address(self) -> str:
        """Return where clients find the server."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}{PATH}"


# ---------------------------------------------------------------- before the first request


def is_loopback(host: str) -> bool:
    """Tell whether only programs of this machine reach an address."""
    if host.lower() == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def read_token(environment: str | None, file: str | None) -> str | None:
    """Return the token of a file, or else of the environment; None if there is none. Raises where it is worth nothing."""
    if file is not None:
        try:
            token = Path(file).read_text("utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"The token file {file} cannot be read: {error}.", then="Check the path.") from error
        where = f"the file {file}"
    elif environment is not None and environment.strip():
        token, where = environment.strip(), TOKEN_VARIABLE
    else:
        return None
    if len(token) < _LEAST_TOKEN or not (token.isascii() and token.isprintable()) or " " in token:
        raise InputError(
            f"The token in {where} cannot be used.",
            why=f"It must have at least {_LEAST_TOKEN} visible ASCII characters, without a space.",
            then='Make one with: python -c "import secrets; print(secrets.token_urlsafe(32))"',
        )
    return token


def open_door(
    host: str, port: int, *, token: str | None, without_token: bool = False, allowed_hosts: Sequence[str] = ()
) -> Door:
    """Bind the address, port 0 for one that the system chooses; refuses what would let anybody in."""
    if token is None and not (without_token and is_loopback(host)):
        raise ConfigError(
            "There is no token, so anybody who reaches the server could read this memory.",
            why="--no-token is for loopback addresses only." if without_token else "None was set.",
            then=f"Set {TOKEN_VARIABLE} or name a --token-file; on a loopback address, --no-token goes without.",
        )
    if _is_any(host) and not allowed_hosts:
        raise ConfigError(
            f"{host} stands for every address of this machine, so it is not clear by which names clients may ask.",
            why="Requests for other names are refused: they come from web pages that pose as this server.",
            then="Name them with --allow-host, as clients write them: memory.example.org or 192.168.1.5:8000.",
        )
    try:
        listening = socket.create_server((host, port), family=_family(host), backlog=128)
    except (OSError, OverflowError) as error:
        raise StoreUnavailable(
            f"The server cannot listen on {host}:{port}: {error}.", then="Choose another --port, or 0 for any."
        ) from error
    return Door(listening=listening, host=host, token=token, allowed_hosts=tuple(allowed_hosts))


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def _is_any(host: str) -> bool:
    try:
        return ip_address(host).is_unspecified
    except ValueError:
        return host == ""


# ---------------------------------------------------------------- serving


def web_app(server: MemoryServer, door: Door) -> App:
    """Return the application: the token first, then the name that was asked for, then the protocol."""
    names = [*door.allowed_hosts]
    if is_loopback(door.host):
        names += _LOOPBACK_NAMES
    elif not _is_any(door.host):
        names.append(f"[{door.host}]" if ":" in door.host else door.host)
    # With a port or without: proxies send either.
    hosts = [form for name in names for form in (name, f"{name}:*")]
    security = TransportSecuritySettings(
        enable_dns_rebinding_protection=True,
        allowed_hosts=hosts,
        allowed_origins=[f"{scheme}://{host}" for scheme in ("http", "https") for host in hosts],
    )
    app = server.streamable_http_app(
        streamable_http_path=PATH,
        max_request_body_size=_LARGEST_REQUEST,
        session_idle_timeout=_IDLE_SECONDS,
        max_sessions=_MOST_SESSIONS,
        transport_security=security,
        host=door.host,
    )
    return app if door.token is None else _Guarded(app, door.token)


class _Guarded:
    """Lets nobody through who does not bring the token."""

    def __init__(self, app: App, token: str) -> None:
        self._app, self._expected = app, _digest(token.encode())

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan" or self._is_known(scope):
            await self._app(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        else:
            await _refuse(send)

    def _is_known(self, scope: AsgiScope) -> bool:
        given = [value for name, value in scope.get("headers", ()) if name.lower() == b"authorization"]
        scheme, _, token = (given[0] if len(given) == 1 else b"").partition(b" ")
        # Digests have one length, and comparing them takes one time, whatever was sent.
        is_right = hmac.compare_digest(_digest(token.strip()), self._expected)
        return is_right and scheme.lower() == b"bearer"


def _digest(token: bytes) -> bytes:
    return hashlib.sha256(token).digest()


async def _refuse(send: Send) -> None:
    told = {
        "error": "invalid_token",
        "error_description": "This server wants a bearer token: Authorization: Bearer <token>.",
    }
    body = json.dumps(told).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"www-authenticate", b'Bearer error="invalid_token"'),
    ]
    await send({"type": "http.response.start", "status": 401, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def serve_http(served: Served, door: Door, *, until: asyncio.Event | None = None) -> None:
    """Serve any number of clients over HTTP, until the program is told to end, or the event is set."""
    server = build_server(served)
    config = uvicorn.Config(
        web_app(server, door),
        lifespan="on",
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=_GOODBYE_SECONDS,
    )
    program = _Program(config, server.close_streams)
    ending = asyncio.create_task(_end(program, until)) if until is not None else None
    try:
        with door.listening:
            await program.serve(sockets=[door.listening])
    finally:
        if ending is not None:
            ending.cancel()


async def _end(program: uvicorn.Server, until: asyncio.Event) -> None:
    await until.wait()
    program.should_exit = True


class _Program(uvicorn.Server):
    """The library's program, which ends when it is told to and lets its caller close the memory."""

    def __init__(self, config: uvicorn.Config, say_goodbye: Callable[[], None]) -> None:
        super().__init__(config)
        self._say_goodbye = say_goodbye

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End the streams first: nobody would close them before the patience with them is over."""
        self._say_goodbye()
        await super().shutdown(sockets)

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """End at an interrupt or a termination, without raising it again once all is closed."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {one: signal.signal(one, self.handle_exit) for one in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for one, handler in before.items():
                signal.signal(one, handler)
