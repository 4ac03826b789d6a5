"""A small transaction pooler, as strict as the real ones: what outlives a transaction is lost.

A client is given a server connection for one transaction, and for the next one another. What it sets or prepares stays behind
on the connection that it had. It speaks the protocol's messages just as far as it must: startup, the end of a transaction, and
the request to cancel a query.

    async with Pooler(postgres_url) as pooler:
        pooler.url("schema=…")
"""

import asyncio
import contextlib
import random
from types import TracebackType
from typing import Literal, Self, cast
from urllib.parse import parse_qs, urlsplit

__all__ = ["Pooler", "Settings"]

Settings = Literal["refuse", "drop", "pass"]
"""What becomes of startup parameters that are the session's: an error, as by default; nothing; or the server gets them."""

_PROTOCOL, _CANCEL, _TLS = 196608, 80877102, (80877103, 80877104)
_ANSWERED = {b"Q", b"S", b"F"}
_HARMLESS = {"user", "database", "application_name", "client_encoding"}


async def _read(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    """Return one message: its kind, and all of its bytes."""
    head = await reader.readexactly(5)
    return head[:1], head + await reader.readexactly(int.from_bytes(head[1:]) - 4)


def _pack(kind: bytes, body: bytes) -> bytes:
    return kind + (len(body) + 4).to_bytes(4) + body


def _words(settings: dict[str, str]) -> bytes:
    return b"".join(f"{name}\0{value}\0".encode() for name, value in settings.items()) + b"\0"


class _Backend:
    """One connection to the server, logged in."""

    def __init__(self, socket: str) -> None:
        self._socket = socket
        self.owed = 0
        """How many ReadyForQuery the server has still to send."""
        self.cancelling = asyncio.Lock()
        self.greeting = b""
        self.key = b""
        self.reader: asyncio.StreamReader
        self.writer: asyncio.StreamWriter

    async def connect(self, settings: dict[str, str]) -> Self:
        """Log in; keep what the server says about itself for the clients."""
        self.reader, self.writer = await asyncio.open_unix_connection(self._socket)
        self.writer.write(_pack(b"", _PROTOCOL.to_bytes(4) + _words(settings)))
        kind = b""
        while kind != b"Z":
            kind, message = await _read(self.reader)
            if kind == b"E":
                raise ConnectionError(message)
            if kind == b"K":
                self.key = message[5:]
            elif kind in {b"R", b"S"}:
                self.greeting += message
        return self

    async def cancel(self) -> None:
        """Ask the server to stop what this connection does, and wait until it was told."""
        async with self.cancelling:
            reader, writer = await asyncio.open_unix_connection(self._socket)
            writer.write(_pack(b"", _CANCEL.to_bytes(4) + self.key))
            # The server closes this connection after it has signalled the other one.
            await reader.read()
            await _close(writer)


async def _close(writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        await writer.drain()
        writer.close()
        await writer.wait_closed()


class Pooler:
    """Listens on a port of its own in front of the server at a URL that names a socket."""

    def __init__(self, url: str, *, backends: int = 4, settings: Settings = "refuse") -> None:
        parts = urlsplit(url)
        self._socket = f"{parse_qs(parts.query)['host'][0]}/.s.PGSQL.5432"
        self._login = {"user": parts.username or "postgres", "database": parts.path.removeprefix("/")}
        self._size, self._settings = backends, settings
        self._free: list[_Backend] = []
        self._room = asyncio.Semaphore(backends)
        self._active: dict[bytes, _Backend] = {}
        self._clients: set[asyncio.Task[None]] = set()
        self._greeting = b""
        self._server: asyncio.Server
        self.refused: list[str] = []
        self.switches = 0
        """How often a client was given another connection than for its last transaction."""

    def url(self, query: str) -> str:
        """Return the address for clients."""
        host, port = self._server.sockets[0].getsockname()
        return f"postgresql://{self._login['user']}@{host}:{port}/{self._login['database']}?{query}"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        clients = list(self._clients)
        for client in clients:
            client.cancel()
        await asyncio.gather(*clients, return_exceptions=True)
        for backend in self._free:
            await _close(backend.writer)
        await self._server.wait_closed()

    # ------------------------------------------------------------ startup

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = cast("asyncio.Task[None]", asyncio.current_task())
        self._clients.add(task)
        try:
            await self._talk(reader, writer)
        except (EOFError, OSError):
            pass  # the client has left
        finally:
            await _close(writer)
            self._clients.discard(task)

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        length = int.from_bytes(await reader.readexactly(4))
        body = await reader.readexactly(length - 4)
        code, key = int.from_bytes(body[:4]), random.randbytes(8)
        if code in _TLS:
            writer.write(b"N")
            await self._talk(reader, writer)
        elif code == _CANCEL:
            if busy := self._active.get(body[4:]):
                await busy.cancel()
        elif await self._welcome(writer, body[4:], key):
            await self._serve(reader, writer, key)

    async def _welcome(self, writer: asyncio.StreamWriter, words: bytes, key: bytes) -> bool:
        """Look at the startup parameters; answer as the server would, with a key of our own."""
        pieces = words.decode().split("\0")
        given = {name: value for name, value in zip(pieces[::2], pieces[1::2], strict=False) if name}
        strange = sorted(given.keys() - _HARMLESS)
        if strange and self._settings == "refuse":
            self.refused.append(strange[0])
            fields = f"SFATAL\0VFATAL\0C08P01\0Munsupported startup parameter: {strange[0]}\0\0"
            writer.write(_pack(b"E", fields.encode()))
            return False
        if not self._greeting:
            self._login = given if self._settings == "pass" else self._login
            self._free = [await _Backend(self._socket).connect(self._login) for _ in range(self._size)]
            self._greeting = self._free[0].greeting
        writer.write(self._greeting + _pack(b"K", key) + _pack(b"Z", b"I"))
        return True

    # ------------------------------------------------------------ transactions

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, key: bytes) -> None:
        """Pass on what a client sends; each transaction goes to the connection that was idle longest."""
        answers: asyncio.Task[None] | None = None
        last: _Backend | None = None
        try:
            while (message := await _read(reader))[0] != b"X":
                if key not in self._active:
                    await self._room.acquire()
                    backend = self._active[key] = self._free.pop(0)
                    self.switches += last is not None and last is not backend
                    last = backend
                    answers = asyncio.create_task(self._answer(key, writer))
                backend = self._active[key]
                backend.owed += message[0] in _ANSWERED
                backend.writer.write(message[1])
        finally:
            if answers is not None:
                answers.cancel()
                await asyncio.gather(answers, return_exceptions=True)
            if left := self._active.pop(key, None):
                # The client left in the middle: the server rolls back when its connection closes.
                await _close(left.writer)
                self._free.append(await _Backend(self._socket).connect(self._login))
                self._room.release()

    async def _answer(self, key: bytes, writer: asyncio.StreamWriter) -> None:
        """Pass on what the server answers, until the transaction is over."""
        backend = self._active[key]
        try:
            while True:
                kind, message = await _read(backend.reader)
                backend.owed -= kind == b"Z"
                if kind == b"Z" and message[5:] == b"I" and not backend.owed:
                    # A cancel request must not reach the next client of this connection.
                    async with backend.cancelling:
                        self._free.append(self._active.pop(key))
                    self._room.release()
                    writer.write(message)
                    return
                writer.write(message)
        except (EOFError, OSError):
            writer.close()  # the server ended it
