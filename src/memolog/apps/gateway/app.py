"""The gateway as an ASGI application, and the server that runs it.

The command `memolog proxy` starts the gateway, so messages to users call it the proxy.
"""

import asyncio
import json
import logging
import re
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, cast
from urllib.parse import unquote_to_bytes

import httpx
import uvicorn
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from memolog import ConfigError, InputError, MemologError, Memory
from memolog.adapters.exchange import Api
from memolog.adapters.google.messages import GEMINI_API, STREAMED, model_in
from memolog.adapters.guards import check_memory
from memolog.apps.gateway.exchange import (
    Exchange,
    Streamed,
    api_of,
    check_body,
    cut_event,
    error_body,
    is_events,
    make_request,
    provider_of,
    whole_events,
)
from memolog.apps.gateway.headers import Pairs, opened_by, passed_back, passed_on
from memolog.apps.gateway.scope import Named, Scope, completed, is_in_body, named_in, split_path
from memolog.apps.gateway.settings import GatewaySettings
from memolog.apps.monitoring import Monitored
from memolog.apps.network import is_from_here, is_loopback, open_socket, serving, url_of

_log = logging.getLogger("memolog")

_VERSION: Final = re.compile(rb"/+v1(?:/+(?P<rest>.*))?", re.DOTALL)
_METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
_CONNECTIONS: Final = httpx.Limits(max_connections=None, max_keepalive_connections=100)
# Maximum number of times that a path may be percent-escaped. Each server between gateway and provider may decode it once.
_MOST_ESCAPED: Final = 4
# Maximum time in seconds that a request waits for the saving of earlier answers of the same thread.
_MAX_SAVE_SECONDS: Final = 5.0


class _Refused(Exception):
    """The gateway refuses a request. `kind` is the type of the error in the format of the provider."""

    def __init__(self, status: int, kind: str, message: str) -> None:
        super().__init__(message)
        self.status, self.kind = status, kind


def gateway_app(memory: Memory, settings: GatewaySettings | None = None) -> Starlette:
    """Return the application. The caller opens and closes the memory."""
    check_memory(memory)
    gateway = Gateway(memory, settings or GatewaySettings())
    routes = [Route("/{path:path}", gateway.answer, methods=list(_METHODS))]
    return Starlette(routes=routes, lifespan=lambda _: gateway.running())


class Gateway:
    """Passes requests on to the provider, with memory if a request has a thread."""

    def __init__(self, memory: Memory, settings: GatewaySettings) -> None:
        self._memory, self._settings = memory, settings
        self._timeout = httpx.Timeout(settings.read_seconds, connect=settings.connect_seconds, pool=None)
        self._client: httpx.AsyncClient
        self._exchanges: set[Exchange] = set()

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Keep connections to providers open while the block runs. At the end, cancel the open requests that use memory."""
        # Ignore proxy settings of the environment, because only the gateway settings decide where requests are sent.
        async with httpx.AsyncClient(limits=_CONNECTIONS, trust_env=False) as self._client:
            try:
                yield
            finally:
                if tasks := [exchange.task for exchange in self._exchanges]:
                    for task in tasks:
                        task.cancel()
                    await asyncio.wait(tasks)

    # ------------------------------------------------------------ one request

    async def answer(self, request: Request) -> Response:
        """Answer one request. An error becomes an answer in the error format of the provider."""
        headers: Pairs = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in request.headers.raw]
        raw = cast("bytes", request.scope.get("raw_path") or request.url.path.encode())
        in_path, raw_path = split_path(raw.split(b"?", 1)[0])
        path = unquote_to_bytes(raw_path).decode("utf-8", "replace")
        provider = provider_of(path, [name for name, _ in headers])
        base = {
            "anthropic": f"{self._settings.anthropic}/v1",
            "google": f"{self._settings.google}/v1",
            "openai": self._settings.openai,
        }[provider]
        try:
            allowed = self._check_entry(headers)
            url = _url(base, raw, raw_path, cast("bytes", request.scope.get("query_string", b"")))
            named = _permitted(named_in(headers, in_path), allowed)
            return await self._answer(request, headers, url, api_of(request.method, path), named, allowed)
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
            cause = (str(error) or type(error).__name__).rstrip(".")
            what = "could not be reached" if isinstance(error, httpx.ConnectError) else "did not answer"
            status, kind, message = 502, "api_error", f"The provider ({base}) {what}: {cause}."
        except ClientDisconnect:
            # No client receives this answer.
            return Response(status_code=400)
        except Exception:  # noqa: BLE001 - logged and reported to the client
            _log.exception("the proxy failed unexpectedly")
            status, kind, message = 500, "api_error", "The proxy failed. See its log."
        return JSONResponse(error_body(message, kind, provider, status), status)

    async def _answer(
        self, request: Request, headers: Pairs, url: httpx.URL, api: Api | None, named: Named, allowed: str | None
    ) -> Response:
        framing = {name for name, _ in headers if name in {"content-length", "transfer-encoding"}}
        if len(framing) > 1:
            # Both headers together allow request smuggling.
            message = "A request cannot have both content-length and transfer-encoding. Omit one of them."
            raise _Refused(400, "invalid_request_error", message)
        given = request.stream() if framing else None
        if api is None:
            return await self._pass(request.method, url, headers, given)
        named = completed(named, self._settings.sources, headers, None)
        raw = await self._body(request) if self._may_name(named) else None
        if raw is not None:
            named = completed(named, self._settings.sources, headers, _object(raw))
        scope = named.scope(allowed or self._settings.resource)
        if scope is None:
            return await self._pass(request.method, url, headers, given if raw is None else raw)
        raw = await self._body(request) if raw is None else raw
        body = check_body(api, _object(raw))
        if body is None:
            # The body is malformed or empty. Pass it on unchanged, so that the client gets the error message of the provider.
            return await self._pass(request.method, url, headers, raw)
        if api is GEMINI_API:
            path = url.path
            if model_in(path) is not None and path.endswith(STREAMED) and url.params.get("alt") != "sse":
                message = "A stream without `alt=sse` cannot have memory."
                raise _Refused(400, "invalid_request_error", f"{message} Add ?alt=sse to the address of the request.")
            body = {**body, "model": model_in(path)}
        await self._saved(scope)
        sent = passed_on(headers, is_read=True)
        make = partial(make_request, "POST", url, sent, timeout=self._timeout)
        exchange = Exchange(self._memory, self._client, api, scope, make, body)
        self._exchanges.add(exchange)
        exchange.task.add_done_callback(lambda _: self._exchanges.discard(exchange))
        return await exchange.response

    def _may_name(self, named: Named) -> bool:
        """Return whether the body of a request must be read to find its thread or resource."""
        kinds = [kind for kind in ("thread", "resource") if getattr(named, kind) is None]
        if named.thread is None and not any(map(is_in_body, self._settings.thread_from)):
            return False
        return any(is_in_body(source) for kind in kinds for source in self._settings.sources[kind])

    async def _body(self, request: Request) -> bytes:
        """Return the body of a request. Raises if it is compressed, or larger than `max_body_bytes`."""
        if request.headers.get("content-encoding", "identity") != "identity":
            raise _Refused(
                415, "invalid_request_error", "A compressed request cannot have memory. Send it uncompressed."
            )
        limit = self._settings.max_body_bytes
        message = f"The request is larger than {limit:,} bytes."
        advice = "Send only new messages, or start the proxy with a larger --max-body."
        too_large = _Refused(413, "request_too_large", f"{message} {advice}")
        declared = request.headers.get("content-length", "")
        if declared.isdecimal() and int(declared) > limit:
            raise too_large
        body = bytearray()
        async for piece in request.stream():
            body += piece
            if len(body) > limit:
                raise too_large
        return bytes(body)

    def _check_entry(self, headers: Pairs) -> str | None:
        """Return the resource that the token of a request gives access to; None stands for all resources.

        Raises if the token is wrong. If the settings have no tokens, raises for requests from other machines and for requests of
        web pages.
        """
        settings = self._settings
        if not settings.access:
            if not is_from_here(headers):
                message = "Without a token this proxy answers only programs on this machine, and no pages of web sites."
                raise _Refused(403, "permission_error", f"{message} Use 127.0.0.1, or start the proxy with a token.")
            return None
        opened = opened_by(headers, settings.access)
        if len(opened) != 1:
            message = "This proxy needs its own token in addition to your key for the provider."
            advice = "Send it as `x-memolog-token: …` or `proxy-authorization: Bearer …`."
            raise _Refused(401, "authentication_error", f"{message} {advice}")
        return opened.pop()

    async def _pass(
        self, method: str, url: httpx.URL, headers: Pairs, content: bytes | AsyncIterator[bytes] | None
    ) -> Response:
        # A request with `content-length` keeps this header. A chunked request stays chunked.
        sent = passed_on(headers, is_read=False) + [pair for pair in headers if pair[0] == "content-length"]
        answer = await self._client.send(make_request(method, url, sent, content, self._timeout), stream=True)
        received = answer.headers.multi_items()
        length = [pair for pair in received if pair[0] == "content-length"]
        back = passed_back(received, is_read=False) + length
        pieces = answer.aiter_raw()
        if is_events(answer) and not length and "content-encoding" not in answer.headers:
            pieces = whole_events(pieces, cut_event(url.path))
        return Streamed(pieces, answer.status_code, back, answer.aclose)

    async def _saved(self, scope: Scope) -> None:
        """Wait until the earlier exchanges of this thread are saved, so that this request finds their messages.

        Only exchanges whose clients have received the answer or are disconnected count. Wait at most `_MAX_SAVE_SECONDS`.
        """
        key = (scope.resource, scope.thread)
        left = [one for one in self._exchanges if one.is_left and (one.scope.resource, one.scope.thread) == key]
        if left:
            await asyncio.wait([one.task for one in left], timeout=_MAX_SAVE_SECONDS)


def _permitted(named: Named, allowed: str | None) -> Named:
    """Return the names of a request. Raises if the resource is not the one that the token gives access to."""
    if allowed is not None and named.resource not in {None, allowed}:
        message = "Your token is for another resource. Omit the resource: the token selects it."
        raise _Refused(403, "permission_error", message)
    return named


def _url(base: str, raw: bytes, path: bytes, query: bytes) -> httpx.URL:
    """Return the URL at the provider. `raw` is the path as the client sent it, and `path` is without thread and resource.

    `base` ends with the version of the API, such as `/v1` or `/v1beta/openai`. So `/v1` in the path stands for the whole base.
    """
    if _climbs(raw):
        raise InputError("The path of the request has `.` or `..` in it.", then="Send the normalised path.")
    rest = _VERSION.fullmatch(path)
    if rest is not None:
        # The path may have double slashes: some clients join an address that ends with a slash and a path that begins with one.
        path = b"/" + rest["rest"] if rest["rest"] is not None else b""
    elif path.startswith(b"/"):
        base = base.removesuffix("/v1")
    else:
        # A path without a slash at its beginning would be appended to the host name, and could lead to another host.
        raise InputError("The path of the request is invalid.", then="Send an absolute path with percent escapes.")
    try:
        return httpx.URL(base + (path + (b"?" + query if query else b"")).decode("ascii"))
    except (httpx.InvalidURL, UnicodeDecodeError):
        raise InputError(
            "The path of the request is invalid.", then="Send an absolute path with percent escapes."
        ) from None


def _climbs(path: bytes) -> bool:
    """Return whether a path contains the segment `.` or `..` after percent escapes are decoded `_MOST_ESCAPED` times.

    Return True also if the path still has percent escapes after that.
    """
    for _ in range(_MOST_ESCAPED):
        path = unquote_to_bytes(path)
    if unquote_to_bytes(path) != path:
        return True
    # Some servers remove parameters (`;…`) from a segment, and treat a backslash as a slash.
    pieces = path.replace(b"\\", b"/").split(b"/")
    return any(piece.split(b";", 1)[0].strip() in {b".", b".."} for piece in pieces)


def _object(raw: bytes) -> dict[str, Any] | None:
    """Return the JSON object of a body, or None if the body is not an object."""
    try:
        found = cast("object", json.loads(raw))
    except (ValueError, RecursionError):
        return None
    return cast("dict[str, Any]", found) if isinstance(found, dict) else None


# Seconds until the server closes an idle connection. Most clients close idle connections earlier. Otherwise the server could
# close a connection just when the client sends the next request.
_IDLE: Final = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Listening:
    """Address of a running gateway."""

    host: str
    port: int

    @property
    def url(self) -> str:
        """Return the URL for clients. OpenAI clients need this URL followed by `/v1`."""
        return url_of(self.host, self.port)


@asynccontextmanager
async def serve(
    memory: Memory,
    settings: GatewaySettings | None = None,
    *,
    host: str = "127.0.0.1",
    port: int = 8484,
    grace: int = 10,
) -> AsyncGenerator[Listening]:
    """Run the gateway while the block runs, and yield its address. Port 0 means any free port.

    At the end, open requests have `grace` seconds to finish. Then they are cancelled, and the received part of each answer is
    saved.
    """
    settings = settings or GatewaySettings()
    if not is_loopback(host) and not settings.access:
        raise ConfigError(
            f"Without a token, every client that reaches {host} could read every memory in this database.",
            then="Listen on 127.0.0.1, or set a token: MEMOLOG_PROXY_TOKEN, or --tokens-file for one token per resource.",
        )
    config = uvicorn.Config(
        Monitored(memory, gateway_app(memory, settings), only_here=is_loopback(host)),
        log_config=None,
        access_log=False,
        server_header=False,
        lifespan="on",
        timeout_keep_alive=_IDLE,
        timeout_graceful_shutdown=grace,
    )
    listener = open_socket(host, port)
    async with serving(config, listener):
        yield Listening(host=host, port=listener.getsockname()[1])
