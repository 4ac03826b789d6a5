"""The gateway as an ASGI application: every request in, to its provider, and back.

Knows the way of a request: who may come in, which provider it is for, whether it has memory. What is not about memory is passed
through as it is. Nothing of a client's key is kept, and no request is logged.
"""

import asyncio
import contextlib
import json
import logging
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Final, cast
from urllib.parse import quote, unquote_to_bytes

import httpx
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from memolog import InputError, MemologError, Memory
from memolog.adapters.guards import check_memory
from memolog.apps.proxy.exchange import Exchange
from memolog.apps.proxy.formats import api_of, check_body, error_body, is_anthropic
from memolog.apps.proxy.headers import (
    Pairs,
    Scope,
    is_from_here,
    is_let_in,
    opened_by,
    passed_back,
    passed_on,
    scope_of,
)
from memolog.apps.proxy.passing import Passed, Streamed, make_request, with_headers
from memolog.apps.proxy.settings import ProxySettings

__all__ = ["proxy_app"]

_log = logging.getLogger("memolog")

_METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
_CONNECTIONS: Final = httpx.Limits(max_connections=None, max_keepalive_connections=100)
# An escape of an escape has no honest use; somebody on the way may still undo a few.
_MOST_ESCAPED: Final = 4
# How long a request waits for what its thread heard just before, when that one's client has left, to be saved.
_LAST_WORDS: Final = 5.0


class _Refused(Exception):
    """What this gateway answers itself."""

    def __init__(self, status: int, kind: str, message: str) -> None:
        super().__init__(message)
        self.status, self.kind = status, kind


def proxy_app(memory: Memory, settings: ProxySettings | None = None) -> Starlette:
    """Return the application. It closes what it opens; the memory is the caller's."""
    check_memory(memory)
    gateway = Gateway(memory, settings or ProxySettings())
    routes = [Route("/{path:path}", gateway.answer, methods=list(_METHODS))]
    return Starlette(routes=routes, lifespan=lambda _: gateway.running())


class Gateway:
    """Passes requests on, with memory where a request names a thread."""

    def __init__(self, memory: Memory, settings: ProxySettings) -> None:
        self._memory, self._settings = memory, settings
        self._timeout = httpx.Timeout(settings.read_seconds, connect=settings.connect_seconds, pool=None)
        self._client: httpx.AsyncClient
        self._exchanges: set[asyncio.Task[None]] = set()
        self._leaving: dict[tuple[str, str], set[asyncio.Task[None]]] = {}

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Hold the connections to providers open, and end what is under way at the end."""
        # Nothing is taken from this machine's environment: where requests go is said when the gateway starts.
        async with httpx.AsyncClient(limits=_CONNECTIONS, trust_env=False) as self._client:
            try:
                yield
            finally:
                for task in self._exchanges:
                    task.cancel()
                if self._exchanges:
                    await asyncio.wait(self._exchanges)

    # ------------------------------------------------------------ one request

    async def answer(self, request: Request) -> Response:
        """Answer one request, whatever happens on the way."""
        headers: Pairs = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in request.headers.raw]
        as_anthropic = is_anthropic(request.url.path, [name for name, _ in headers])
        base = self._settings.anthropic if as_anthropic else self._settings.openai
        try:
            return await self._answer(request, headers, base)
        except _Refused as refused:
            status, kind, message = refused.status, refused.kind, str(refused)
        except InputError as error:
            status, kind, message = 400, "invalid_request_error", str(error)
        except MemologError as error:
            _log.warning("a request failed: %s", error)
            status, kind, message = 503, "api_error", error.for_outside
        except httpx.TimeoutException:
            status, kind, message = 504, "api_error", f"The provider ({base}) did not answer in time."
        except httpx.HTTPError as error:
            told = str(error) or type(error).__name__
            status, kind, message = 502, "api_error", f"The provider ({base}) could not be asked: {told}."
        except ClientDisconnect:
            # Nobody is there to read it.
            return Response(status_code=400)
        except Exception:  # noqa: BLE001 - logged, and the client is told
            _log.exception("the proxy failed in a way that it never should")
            status, kind, message = 500, "api_error", "The proxy failed. Its log says where."
        return JSONResponse(error_body(message, kind, as_anthropic=as_anthropic), status)

    async def _answer(self, request: Request, headers: Pairs, base: str) -> Response:
        whose = self._check_entry(headers)
        framing = {name for name, _ in headers if name in {"content-length", "transfer-encoding"}}
        if len(framing) > 1:
            # Two readers that believe different ones would not agree where the next request begins.
            told = "A request has either content-length or transfer-encoding. Leave one of them out."
            raise _Refused(400, "invalid_request_error", told)
        url = _url(base, request)
        api = api_of(request.method, request.url.path)
        scope = scope_of(headers, whose or self._settings.resource)
        if scope is not None and whose not in {None, scope.resource}:
            told = "Your token does not open this resource. Leave x-memolog-resource out: the token says whose memory it is."
            raise _Refused(403, "permission_error", told)
        if scope is None or api is None:
            return await self._pass(request.method, url, headers, request.stream() if framing else None)
        if dict(headers).get("content-encoding", "identity") != "identity":
            raise _Refused(415, "invalid_request_error", "A compressed request cannot have memory. Send it as it is.")
        raw = await self._body(request)
        body = check_body(api, _json(raw))
        if body is None:
            # The provider knows best what is wrong with it.
            return await self._pass(request.method, url, headers, raw)
        await self._last_words(scope)
        exchange = Exchange(self._memory, self._client, api, scope)
        sent = passed_on(headers, is_read=True)
        task = exchange.begin(lambda made: make_request("POST", url, sent, made, self._timeout), body)
        return await self._remember(exchange, task)

    async def _body(self, request: Request) -> bytes:
        """Return the body of a request that has memory; one that is too large is refused as soon as that is known."""
        most = self._settings.max_body_bytes
        declared = request.headers.get("content-length", "")
        pieces, size = list[bytes](), int(declared) if declared.isdecimal() else 0
        if size <= most:
            size = 0
            async for piece in request.stream():
                pieces.append(piece)
                size += len(piece)
                if size > most:
                    break
        if size > most:
            told = f"The request is larger than the {most:,} bytes that this proxy takes."
            how = "Send only what is new: the memory has the rest. Or start the proxy with a larger --max-body."
            raise _Refused(413, "request_too_large", f"{told} {how}")
        return b"".join(pieces)

    def _check_entry(self, headers: Pairs) -> str | None:
        """Let in who shows a token; without one, who asks from this machine. A browser would ask for any page.

        Returns the resource that the token opens; None if it opens all.
        """
        settings = self._settings
        if not settings.has_token:
            if not is_from_here(headers):
                told = "Without a token this proxy answers only this machine, and no web page from elsewhere."
                raise _Refused(403, "permission_error", f"{told} Ask for it as 127.0.0.1, or start it with a token.")
            return None
        whose = opened_by(headers, settings.tokens)
        if whose is None and not (settings.token is not None and is_let_in(headers, settings.token)):
            told = "This proxy asks for its own token, beside your key for the provider."
            how = "Send it as `x-memolog-token: …` or `proxy-authorization: Bearer …`."
            raise _Refused(401, "authentication_error", f"{told} {how}")
        return whose

    async def _pass(
        self, method: str, url: httpx.URL, headers: Pairs, content: bytes | AsyncIterator[bytes] | None
    ) -> Response:
        """Pass a request through as it is, byte for byte."""
        # What has a length keeps it; what comes in pieces goes on in pieces.
        sent = passed_on(headers, is_read=False) + [pair for pair in headers if pair[0] == "content-length"]
        answer = await self._client.send(make_request(method, url, sent, content, self._timeout), stream=True)
        told = answer.headers.multi_items()
        length = [pair for pair in told if pair[0] == "content-length"]
        return Passed(answer, passed_back(told, is_read=False) + length)

    async def _remember(self, exchange: Exchange, task: asyncio.Task[None]) -> Response:
        """Answer with what an exchange brings."""
        scope = exchange.scope
        self._exchanges.add(task)
        task.add_done_callback(self._exchanges.discard)
        head = await exchange.head()
        headers = [*head.headers, ("x-memolog-thread", quote(scope.thread, safe=""))]
        if head.body is not None:
            return with_headers(Response(head.body, head.status), headers)
        return Streamed(exchange, head.status, headers, lambda: self._leave(scope, task))

    # ------------------------------------------------------------ those who leave

    def _leave(self, scope: Scope, task: asyncio.Task[None]) -> None:
        """Note that a client has left while its exchange was under way."""
        if task.done():
            return
        key = (scope.resource, scope.thread)
        leaving = self._leaving.setdefault(key, set())
        leaving.add(task)

        def gone(_: object) -> None:
            leaving.discard(task)
            if not leaving and self._leaving.get(key) is leaving:
                del self._leaving[key]

        task.add_done_callback(gone)

    async def _last_words(self, scope: Scope) -> None:
        """Let what this thread heard last be saved first: a client may leave and ask again at once."""
        if tasks := self._leaving.get((scope.resource, scope.thread)):
            await asyncio.wait(set(tasks), timeout=_LAST_WORDS)


def _url(base: str, request: Request) -> httpx.URL:
    """Return where a request goes: path and query as they came, escapes and all."""
    raw = cast("bytes", request.scope.get("raw_path") or request.url.path.encode())
    query = cast("bytes", request.scope.get("query_string", b""))
    path = raw.split(b"?", 1)[0]
    target = path + (b"?" + query if query else b"")
    if _climbs(path):
        raise InputError("The path of the request has `.` or `..` in it.", then="Send the path that is meant.")
    try:
        # Anything else than a path could name another host.
        if target.startswith(b"/"):
            return httpx.URL(base + target.decode("ascii"))
    except (httpx.InvalidURL, UnicodeDecodeError):
        pass
    raise InputError("The address of the request is none.", then="Send a path, with everything else escaped.")


def _climbs(path: bytes) -> bool:
    """Tell whether a path could lead out of the one that it is put behind, however often somebody on the way unescapes it."""
    for _ in range(_MOST_ESCAPED):
        path = unquote_to_bytes(path)
    if unquote_to_bytes(path) != path:
        return True
    # Some servers cut parameters off a piece, and take a backslash for a slash.
    pieces = path.replace(b"\\", b"/").split(b"/")
    return any(piece.split(b";", 1)[0].strip() in {b".", b".."} for piece in pieces)


def _json(raw: bytes) -> object:
    try:
        return cast("object", json.loads(raw))
    except (ValueError, RecursionError):
        return None
