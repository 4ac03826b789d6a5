"""Build the MCP server, and run it on standard input and output or over HTTP.

HTTP clients need a bearer token. Only a server on a loopback address can be started without a token.
"""

import asyncio
import base64
import hashlib
import hmac
import logging
import signal
import socket
from collections.abc import AsyncGenerator, Awaitable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import quote

import mcp_types as types
import uvicorn
from mcp.server import NotificationOptions, Server, ServerRequestContext
from mcp.server.models import InitializationOptions
from mcp.server.stdio import stdio_server
from mcp.server.transport_security import TransportSecuritySettings
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from memolog.apps.mcp import prompts, resources
from memolog.apps.mcp.resources import Served, wire_json
from memolog.apps.mcp.subscriptions import Changes, Listening
from memolog.apps.monitoring import Monitored
from memolog.apps.network import check_token, is_loopback, open_socket, serving, url_of
from memolog.apps.signals import caught
from memolog.core.exact_json import loads
from memolog.core.message import FilePart, file_content
from memolog.core.own_tools import called_tool
from memolog.errors import ConfigError, InputError, MemologError, NotFound
from memolog.version import __version__

_log = logging.getLogger("memolog")

SESSION_HEADER: Final = "memolog-session"
"""Header in which an HTTP client may send the name of the session that claims tasks."""
_LONGEST_SESSION: Final = 200

Context = ServerRequestContext[Any, Any]
T = TypeVar("T")


# The fields of an answer for a piece of a file: its content and its position.
_PIECE: Final = frozenset({"base64", "from", "of"})


def _file_block(file: FilePart) -> types.ContentBlock:
    """Return a file as content of an answer: an image, a sound, a link, or an embedded resource."""
    data = file_content(file)
    if data is None:
        return types.ResourceLink(uri=file.url or "", name=file.name or file.url or "file", mime_type=file.media_type)
    encoded, media = base64.b64encode(data).decode(), file.media_type
    if media.startswith("image/"):
        return types.ImageContent(data=encoded, mime_type=media)
    if media.startswith("audio/"):
        return types.AudioContent(data=encoded, mime_type=media)
    uri = f"memolog://file/{quote(file.name or 'file', safe='')}"
    return types.EmbeddedResource(resource=types.BlobResourceContents(uri=uri, mime_type=media, blob=encoded))


class MemoryServer(Server[Any]):
    """The MCP server of a memory."""

    def __init__(self, served: Served) -> None:
        self.served, self.changes = served, Changes(served)
        self.listening = Listening(self.changes)
        super().__init__(
            "memolog",
            version=__version__,
            title="Memolog",
            instructions=prompts.instructions(is_read_only=served.is_read_only),
            lifespan=self._checking,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_list_resources=self._list_resources,
            on_list_resource_templates=self._list_templates,
            on_read_resource=self._read_resource,
            on_subscribe_resource=self._subscribe,
            on_unsubscribe_resource=self._unsubscribe,
            on_subscriptions_listen=self._listen,
            on_list_prompts=self._list_prompts,
            on_get_prompt=self._get_prompt,
            on_completion=self._complete,
        )

    def create_initialization_options(
        self, notification_options: NotificationOptions | None = None, *more: Any, **named: Any
    ) -> InitializationOptions:
        """Return the initialization options. By default they tell clients that the list of resources can change."""
        wanted = notification_options or NotificationOptions(resources_changed=True)
        return super().create_initialization_options(wanted, *more, **named)

    # ------------------------------------------------------------ tools

    async def _list_tools(self, _: Context, __: object) -> types.ListToolsResult:
        return types.ListToolsResult(
            tools=[types.Tool.model_validate(one) for one in self.served.tools.definitions("mcp")]
        )

    async def _call_tool(self, context: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        """Return the answer of a tool as structured content and as text. An error of a tool is returned as an answer too."""
        session = _session_of(context, self.served.session)
        tools = self.served.tools if session is None else self.served.tools_of(session)
        answer = await tools.call(params.name, params.arguments)
        if called_tool(params.name) != "task-query":
            self.changes.hurry()
        files: list[types.ContentBlock] = []
        if "file" in answer:
            files = [_file_block(file) for file in await _guarded(tools.files(params.name, params.arguments))]
        if files:
            # The whole file is sent as a separate block, so the piece of it is removed from the answer.
            answer = {**answer, "file": {k: v for k, v in answer["file"].items() if k not in _PIECE}}
            answer.pop("cursor", None)
        text = wire_json(answer)
        return types.CallToolResult(
            content=[types.TextContent(type="text", text=text), *files],
            structured_content=loads(text),
            is_error=not answer["success"],
        )

    # ------------------------------------------------------------ resources

    async def _list_resources(self, context: Context, _: object) -> types.ListResourcesResult:
        """Return the resources. A client of the older protocol will then be notified when the list changes."""
        found = await _guarded(resources.listed(self.served))
        if context.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            await _guarded(self.changes.subscribe(context, None))
        return types.ListResourcesResult(resources=found)

    async def _list_templates(self, _: Context, __: object) -> types.ListResourceTemplatesResult:
        return types.ListResourceTemplatesResult(resource_templates=resources.templates())

    async def _read_resource(
        self, context: Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        session = _session_of(context, self.served.session)
        read = resources.read(self.served, str(params.uri), session)
        return types.ReadResourceResult(contents=[await _guarded(read)])

    async def _subscribe(self, context: Context, params: types.SubscribeRequestParams) -> types.EmptyResult:
        await _guarded(resources.read(self.served, str(params.uri)))
        await _guarded(self.changes.subscribe(context, str(params.uri)))
        return types.EmptyResult()

    async def _unsubscribe(self, context: Context, params: types.UnsubscribeRequestParams) -> types.EmptyResult:
        self.changes.unsubscribe(context, str(params.uri))
        return types.EmptyResult()

    async def _listen(
        self, context: Context, params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        return await _guarded(self.listening(context, params))

    # ------------------------------------------------------------ prompts

    async def _list_prompts(self, _: Context, __: object) -> types.ListPromptsResult:
        return types.ListPromptsResult(prompts=prompts.listed(is_read_only=self.served.is_read_only))

    async def _get_prompt(self, context: Context, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        session = _session_of(context, self.served.session)
        return await _guarded(prompts.prompt(self.served, params.name, params.arguments or {}, session))

    async def _complete(self, _: Context, params: types.CompleteRequestParams) -> types.CompleteResult:
        found: list[str] = []
        if isinstance(params.ref, types.ResourceTemplateReference):
            found = await _guarded(resources.matching_tasks(self.served, params.argument.value))
        return types.CompleteResult(completion=types.Completion(values=found, total=len(found), has_more=False))

    @asynccontextmanager
    async def _checking(self, _: Server[Any]) -> AsyncGenerator[None]:
        """Check for changes of resources while the server runs."""
        task = asyncio.create_task(self.changes.run())
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


def build_server(served: Served) -> MemoryServer:
    """Return the MCP server of a memory, which `serve_stdio` and `serve_http` run."""
    if not isinstance(served, Served):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InputError(
            f"`served` must be a Served, got {type(served).__name__}.",
            then='Pass Served(memory=memory, resource="alice").',
        )
    return MemoryServer(served)


async def serve_stdio(served: Served) -> None:
    """Serve one client over standard input and output until it disconnects."""
    server = build_server(served)
    async with stdio_server() as (reading, writing):
        await server.run(reading, writing, server.create_initialization_options())


# ---------------------------------------------------------------- failures and sessions


async def _guarded(work: Awaitable[T]) -> T:
    """Await a call and return its result. An error is raised as an MCPError without internal details."""
    try:
        return await work
    except NotFound as error:
        raise MCPError(code=types.INVALID_PARAMS, message=str(error)) from error
    except MemologError as error:
        if error.for_outside != str(error):
            _log.warning("a request failed: %s", error)
        raise MCPError(code=types.INTERNAL_ERROR, message=error.for_outside) from error
    except MCPError:
        raise
    except Exception as error:
        _log.exception("a request failed unexpectedly")
        raise MCPError(code=types.INTERNAL_ERROR, message="The memory failed to answer.") from error


def _session_of(context: Context, configured: str | None) -> str | None:
    """Return the session that claims tasks: from the header, the configuration, or the session id of the older protocol.

    None means that none of these exists. Then the tools of `Served`, with their default session, are used.
    """
    headers: Mapping[str, str] = getattr(context.request, "headers", {})
    named = headers.get(SESSION_HEADER) or configured or headers.get("mcp-session-id") or ""
    return named.strip()[:_LONGEST_SESSION] or None


PATH: Final = "/mcp"
TOKEN_VARIABLE: Final = "MEMOLOG_MCP_TOKEN"  # noqa: S105 - the name of a variable
# Maximum size of a request in bytes.
_LARGEST_REQUEST: Final = 1024 * 1024
# Maximum number of clients of the older protocol at the same time, and seconds until an idle one is disconnected.
_MOST_SESSIONS: Final = 200
_IDLE_SECONDS: Final = 30 * 60
# Maximum time that open requests have when the server stops.
_GRACE_SECONDS: Final = 2
_LOOPBACK_NAMES: Final = ("127.0.0.1", "localhost", "[::1]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Door:
    """The listening socket of the server, and the token and host names that requests must have."""

    listening: socket.socket
    host: str
    token: str | None
    allowed_hosts: tuple[str, ...]

    @property
    def address(self) -> str:
        """Return the URL for clients."""
        return url_of(self.host, int(self.listening.getsockname()[1])) + PATH


def read_token(environment: str | None, file: str | None) -> str | None:
    """Return the token from a file or, without a file, from the environment. None means that no token is set.

    Raises InputError if the token is too short or cannot be sent in a header.
    """
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
    check_token(token, f"The token in {where}", InputError)
    return token


def open_door(
    host: str, port: int, *, token: str | None, without_token: bool = False, allowed_hosts: Sequence[str] = ()
) -> Door:
    """Open a socket on an address. Port 0 means any free port. Raises ConfigError for a combination that is unsafe."""
    if token is None and not (without_token and is_loopback(host)):
        raise ConfigError(
            "There is no token, so any client that reaches the server could read this memory.",
            why="--no-token is for loopback addresses only." if without_token else "No token was set.",
            then=f"Set {TOKEN_VARIABLE} or pass --token-file. On a loopback address, --no-token is allowed.",
        )
    if _is_any(host) and not allowed_hosts:
        raise ConfigError(
            f"{host} listens on every address of this machine, so the allowed host names must be given.",
            why="Requests for other host names are refused, as protection against DNS rebinding.",
            then="Pass the host names with --allow-host, for example memory.example.org or 192.168.1.5:8000.",
        )
    return Door(listening=open_socket(host, port), host=host, token=token, allowed_hosts=tuple(allowed_hosts))


def _is_any(host: str) -> bool:
    try:
        return ip_address(host).is_unspecified
    except ValueError:
        return host == ""


# ---------------------------------------------------------------- serving


def web_app(server: MemoryServer, door: Door) -> ASGIApp:
    """Return the ASGI application, which checks the token, then the host name, and then handles the protocol."""
    names = [*door.allowed_hosts]
    if is_loopback(door.host):
        names += _LOOPBACK_NAMES
    elif not _is_any(door.host):
        names.append(f"[{door.host}]" if ":" in door.host else door.host)
    # Proxies send the host name with or without a port, so allow both forms.
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
    """An ASGI application that refuses requests without the token."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app, self._expected = app, _digest(token.encode())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan" or self._has_token(scope):
            await self._app(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        else:
            message = "This server needs a bearer token: Authorization: Bearer <token>."
            body = {"error": "invalid_token", "error_description": message}
            headers = {"www-authenticate": 'Bearer error="invalid_token"'}
            await JSONResponse(body, 401, headers)(scope, receive, send)

    def _has_token(self, scope: Scope) -> bool:
        given = [value for name, value in scope.get("headers", ()) if name.lower() == b"authorization"]
        scheme, _, token = (given[0] if len(given) == 1 else b"").partition(b" ")
        # Digests have equal length, so comparing them takes constant time.
        is_right = hmac.compare_digest(_digest(token.strip()), self._expected)
        return is_right and scheme.lower() == b"bearer"


def _digest(token: bytes) -> bytes:
    return hashlib.sha256(token).digest()


async def serve_http(served: Served, door: Door, *, until: asyncio.Event | None = None) -> None:
    """Serve any number of clients over HTTP until the event `until` is set or, without it, until SIGINT or SIGTERM."""
    server = build_server(served)
    config = uvicorn.Config(
        Monitored(served.memory, web_app(server, door), only_here=is_loopback(door.host)),
        lifespan="on",
        log_config=None,
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=_GRACE_SECONDS,
    )
    async with serving(config, door.listening):
        try:
            await (caught(signal.SIGINT, signal.SIGTERM).get() if until is None else until.wait())
        finally:
            # Clients do not close their notification streams, so without this the shutdown would wait for its timeout.
            server.listening.close()
