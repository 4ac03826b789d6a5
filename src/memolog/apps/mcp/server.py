"""The server itself: requests of the protocol, answered from a memory.

Knows which request is answered by what, and that no failure of ours may end a connection. The low-level server of the library is
used, since tools have the schemas that they have everywhere, and none that is guessed from a function.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, Final, TypeVar

import mcp_types as types
from mcp.server import NotificationOptions, Server, ServerRequestContext
from mcp.server.models import InitializationOptions
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from memolog.apps.mcp import prompts, resources
from memolog.apps.mcp.changes import Changes, Listening
from memolog.apps.mcp.served import Served, wire_json
from memolog.domain.codec import loads
from memolog.domain.errors import InputError, MemologError, NotFound
from memolog.domain.own import called_tool
from memolog.version import __version__

__all__ = ["SESSION_HEADER", "MemoryServer", "build_server", "serve_stdio"]

_log = logging.getLogger("memolog")

SESSION_HEADER: Final = "memolog-session"
"""The header in which a client over HTTP may say for whom it claims tasks; set by its configuration, as the token is."""
_LONGEST_SESSION: Final = 200

Context = ServerRequestContext[Any, Any]
T = TypeVar("T")


class MemoryServer(Server[Any]):
    """The library's server, which also says in the older handshake that the list of resources changes."""

    changes: Changes
    """Who watches what."""
    close_streams: Callable[[], None]
    """Ends the streams of changes, so that their clients know that it was meant."""

    def create_initialization_options(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
    ) -> InitializationOptions:
        """Return what the server says of itself."""
        wanted = notification_options or NotificationOptions(resources_changed=True)
        return super().create_initialization_options(wanted, experimental_capabilities, extensions)


class _Answers:
    """The answer to each kind of request."""

    def __init__(self, served: Served) -> None:
        self.served, self.changes = served, Changes(served)
        self.listening = Listening(self.changes)

    # ------------------------------------------------------------ tools

    async def list_tools(self, context: Context, params: object) -> types.ListToolsResult:
        """Return the tools with the schemas that they have everywhere."""
        del context, params
        return types.ListToolsResult(tools=[types.Tool.model_validate(one) for one in self.served.definitions()])

    async def call_tool(self, context: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        """Return the answer to a call, as structured content and as text; a call never fails otherwise."""
        may_change = called_tool(params.name) == "task-mutate"
        if self.served.is_read_only and may_change:
            answer: dict[str, Any] = {
                "success": False,
                "error": "This server is read-only: look with task-query and memory-search.",
                "retryable": False,
            }
        else:
            session = _session_of(context, self.served.session)
            tools = self.served.tools if session is None else self.served.tools_of(session)
            answer = await tools.call(params.name, params.arguments)
            if may_change:
                self.changes.hurry()
        text = wire_json(answer)
        return types.CallToolResult(
            content=[types.TextContent(type="text", text=text)],
            structured_content=loads(text),
            is_error=not answer["success"],
        )

    # ------------------------------------------------------------ resources

    async def list_resources(self, context: Context, params: object) -> types.ListResourcesResult:
        """Return the resources; who has seen the list is told when it changes."""
        del params
        found = await _guarded(resources.listed(self.served))
        if context.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            await _guarded(self.changes.subscribe(context, None))
        return types.ListResourcesResult(resources=found)

    async def list_templates(self, context: Context, params: object) -> types.ListResourceTemplatesResult:
        """Return the addresses with a place to fill in."""
        del context, params
        return types.ListResourceTemplatesResult(resource_templates=resources.templates())

    async def read_resource(
        self, context: Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        """Return what a resource holds."""
        del context
        content = await _guarded(resources.read(self.served, str(params.uri)))
        text = types.TextResourceContents(uri=params.uri, mime_type=content.media_type, text=content.text)
        return types.ReadResourceResult(contents=[text])

    async def subscribe(self, context: Context, params: types.SubscribeRequestParams) -> types.EmptyResult:
        """Tell this client when a resource changes."""
        await _guarded(resources.read(self.served, str(params.uri)))
        await _guarded(self.changes.subscribe(context, str(params.uri)))
        return types.EmptyResult()

    async def unsubscribe(self, context: Context, params: types.UnsubscribeRequestParams) -> types.EmptyResult:
        """Tell this client no more."""
        self.changes.unsubscribe(context, str(params.uri))
        return types.EmptyResult()

    async def listen(
        self, context: Context, params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        """Serve a stream of changes."""
        return await _guarded(self.listening(context, params))

    # ------------------------------------------------------------ prompts

    async def list_prompts(self, context: Context, params: object) -> types.ListPromptsResult:
        """Return the prompts."""
        del context, params
        return types.ListPromptsResult(prompts=prompts.listed(is_read_only=self.served.is_read_only))

    async def get_prompt(self, context: Context, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        """Return a prompt, filled in."""
        del context
        return await _guarded(prompts.prompt(self.served, params.name, params.arguments or {}))

    async def complete(self, context: Context, params: types.CompleteRequestParams) -> types.CompleteResult:
        """Return the tasks that may be meant where the address of one is being written."""
        del context
        found: list[str] = []
        if isinstance(params.ref, types.ResourceTemplateReference):
            found = await _guarded(resources.matching_tasks(self.served, params.argument.value))
        return types.CompleteResult(completion=types.Completion(values=found, total=len(found), has_more=False))

    @asynccontextmanager
    async def lifespan(self, server: Server[Any]) -> AsyncGenerator[None]:
        """Look for changes for as long as the server runs."""
        del server
        looking = asyncio.create_task(self.changes.run())
        try:
            yield
        finally:
            looking.cancel()
            with suppress(asyncio.CancelledError):
                await looking


def build_server(served: Served) -> MemoryServer:
    """Return the server of a memory; `serve_stdio` and `serve_http` run it."""
    _check_served(served)
    answers = _Answers(served)
    server = MemoryServer(
        "memolog",
        version=__version__,
        title="Memolog",
        instructions=prompts.instructions(served),
        lifespan=answers.lifespan,
        on_list_tools=answers.list_tools,
        on_call_tool=answers.call_tool,
        on_list_resources=answers.list_resources,
        on_list_resource_templates=answers.list_templates,
        on_read_resource=answers.read_resource,
        on_subscribe_resource=answers.subscribe,
        on_unsubscribe_resource=answers.unsubscribe,
        on_subscriptions_listen=answers.listen,
        on_list_prompts=answers.list_prompts,
        on_get_prompt=answers.get_prompt,
        on_completion=answers.complete,
    )
    server.changes, server.close_streams = answers.changes, answers.listening.close
    return server


def _check_served(served: object) -> None:
    if not isinstance(served, Served):
        raise InputError(
            f"A {type(served).__name__} was handed in where a Served belongs.",
            then='Say whose memory is served: Served(memory=memory, resource="alice").',
        )


async def serve_stdio(served: Served) -> None:
    """Serve one client over standard input and output, until it goes."""
    server = build_server(served)
    async with stdio_server() as (reading, writing):
        await server.run(reading, writing, server.create_initialization_options())


# ---------------------------------------------------------------- failures and sessions


async def _guarded(work: Awaitable[T]) -> T:
    """Return what the work returns; what fails is an error of the protocol, in our words and with nothing of our insides."""
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
        _log.exception("a request failed in a way that it never should")
        raise MCPError(code=types.INTERNAL_ERROR, message="The memory failed to answer.") from error


def _session_of(context: Context, configured: str | None) -> str | None:
    """Return for whom a client claims: its header, the configuration, or its own session of the older protocol."""
    headers: Mapping[str, str] = getattr(context.request, "headers", {})
    named = headers.get(SESSION_HEADER) or configured or headers.get("mcp-session-id") or ""
    return named.strip()[:_LONGEST_SESSION] or None
