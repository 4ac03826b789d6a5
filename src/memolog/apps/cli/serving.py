"""The verb that serves a memory to other programs: mcp.

Knows the options and what a person is told. The server is `memolog.apps.mcp`, loaded when it is asked for.
"""

import os
import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memolog.apps.cli import opening
from memolog.apps.cli.telling import console, fields, told
from memolog.apps.cli.verb import Answer, Call, verb

if TYPE_CHECKING:
    from rich.console import RenderableType

    from memolog.apps.mcp import Served

__all__ = ["app"]

app = typer.Typer()
_HTTP = "Over HTTP"


_Resource = Annotated[
    str | None,
    typer.Option("--resource", "-r", envvar="MEMOLOG_RESOURCE", help="Whose memory; the only one if there is one."),
]
_Thread = Annotated[
    str | None,
    typer.Option("--thread", "-t", envvar="MEMOLOG_THREAD", help="The conversation that the tools work for."),
]
_Session = Annotated[
    str | None,
    typer.Option(
        "--session", envvar="MEMOLOG_SESSION", help="For whom tasks are claimed; the thread if none is named."
    ),
]
_ReadOnly = Annotated[bool, typer.Option("--read-only", help="Clients may look, and change nothing.")]
_Tokens = Annotated[int, typer.Option("--tokens", help="How large a context pack may be.", min=200)]
_Every = Annotated[
    float, typer.Option("--every", help="How often to look for changes by other processes, in seconds.", min=0.05)
]
_Describe = Annotated[bool, typer.Option("--describe", help="Show what clients would be given, and end.")]
_Http = Annotated[
    bool, typer.Option("--http", rich_help_panel=_HTTP, help="Serve over HTTP instead of standard input and output.")
]
_Host = Annotated[str, typer.Option("--host", rich_help_panel=_HTTP, help="Where to listen.")]
_Port = Annotated[
    int, typer.Option("--port", rich_help_panel=_HTTP, help="0 for one that the system chooses.", min=0, max=65535)
]
_TokenFile = Annotated[
    str | None,
    typer.Option(
        "--token-file",
        rich_help_panel=_HTTP,
        help="The file with the bearer token; without it, the variable MEMOLOG_MCP_TOKEN.",
    ),
]
_NoToken = Annotated[
    bool, typer.Option("--no-token", rich_help_panel=_HTTP, help="Let every program of this machine in.")
]
_AllowHost = Annotated[
    list[str] | None,
    typer.Option(
        "--allow-host", rich_help_panel=_HTTP, help="A name by which clients may ask for the server; may be repeated."
    ),
]


@verb(app, needs="address", writes=True, example="memolog mcp --describe")
async def mcp(
    call: Call,
    resource: _Resource = None,
    thread: _Thread = None,
    session: _Session = None,
    read_only: _ReadOnly = False,
    tokens: _Tokens = 4_000,
    every: _Every = 2.0,
    describe: _Describe = False,
    http: _Http = False,
    host: _Host = "127.0.0.1",
    port: _Port = 8765,
    token_file: _TokenFile = None,
    no_token: _NoToken = False,
    allow_host: _AllowHost = None,
) -> Answer:
    """Serve a memory over the Model Context Protocol: three tools, resources, prompts, and word of changes.

    A client starts it by itself and talks over standard input and output; with --http it listens for any number of clients that
    bring the token. Whose memory it is, is fixed here: no model can choose another.
    """
    from memolog.apps.mcp import Served, open_door, read_token, serve_http, serve_stdio
    from memolog.runtime.memory import Memory

    opening.refuse_missing(call.address)
    config = call.config.with_overrides({"read_only": True}) if read_only or describe else call.config
    async with Memory(call.address, config=config) as memory:
        whose = await opening.chosen_resource((await memory.open()).store, resource)
        served = Served(memory=memory, resource=whose, thread=thread, session=session, tokens=tokens, every=every)
        if describe:
            return await _described(served, is_read_only=read_only or call.config.read_only)
        if not http:
            if sys.stdin.isatty():
                words = "A client talks to this over standard input. Ctrl-D ends it; --describe shows what it offers."
                console(to_stderr=True).print(told(words, "dim"), soft_wrap=True)
            await _until_told(served, serve_stdio)
            return Answer(data=None, is_printed=True)
        token = read_token(os.environ.get("MEMOLOG_MCP_TOKEN"), token_file)
        door = open_door(host, port, token=token, without_token=no_token, allowed_hosts=allow_host or ())
        console(to_stderr=True).print(told(f"The memory of {whose} is served at {door.address}"), soft_wrap=True)
        await serve_http(served, door)
    return Answer(data=None, is_printed=True)


async def _until_told(served: "Served", serve: "Callable[[Served], Awaitable[None]]") -> None:
    """Serve until the client goes, or until the program is interrupted or told to end."""
    import asyncio
    import signal
    from contextlib import suppress

    told_by: asyncio.Queue[int] = asyncio.Queue()
    loop = asyncio.get_running_loop()
    # Where signals cannot be handled, they end the program as they always do.
    with suppress(NotImplementedError):
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, told_by.put_nowait, number)
    serving, ending = asyncio.ensure_future(serve(served)), asyncio.create_task(told_by.get())
    await asyncio.wait({serving, ending}, return_when=asyncio.FIRST_COMPLETED)
    if serving.done():
        ending.cancel()
        await serving
        return
    await served.memory.aclose()
    # A thread waits for the next line of the client, and nothing wakes it: ending in the usual way would wait for it too.
    os._exit(130 if ending.result() == signal.SIGINT else 0)


async def _described(served: "Served", *, is_read_only: bool) -> Answer:
    """Return what clients would be given, with its size in tokens."""
    import json

    from memolog.apps.mcp import prompts, resources
    from memolog.apps.mcp.served import tool_definitions

    tools = tool_definitions(served.tools, is_read_only=is_read_only)
    listed = [one.model_dump(mode="json", by_alias=True, exclude_none=True) for one in await resources.listed(served)]
    offered = [
        one.model_dump(mode="json", by_alias=True, exclude_none=True)
        for one in prompts.listed(is_read_only=is_read_only)
    ]
    data: dict[str, Any] = {
        "resource": served.resource,
        "thread": served.thread,
        "read_only": is_read_only,
        "tools": tools,
        "instructions": served.tools.guidance,
        "resources": listed,
        "prompts": offered,
        "tool_tokens": served.memory.counter.count(json.dumps(tools, ensure_ascii=False)),
    }
    return Answer(data=data, show=lambda: _show(data))


def _show(data: Mapping[str, Any]) -> "RenderableType":
    def names(kind: str, name: str) -> str:
        return ", ".join(one[name] for one in data[kind])

    return fields(
        [
            ("resource", data["resource"]),
            ("thread", data["thread"] or "the one that was active last"),
            ("may change", "no" if data["read_only"] else "yes"),
            ("tools", f"{names('tools', 'name')}  ·  {data['tool_tokens']:,} tokens"),
            ("resources", names("resources", "uri")),
            ("prompts", names("prompts", "name")),
        ]
    )
