"""Serve a memory: `mcp` (Model Context Protocol), `proxy` (OpenAI and Anthropic clients), `ui` (a web browser) and `worker`."""

import logging
import os
import signal
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from memolog.apps.cli.command import Answer, Call, chosen_resource, read_text, refuse_missing, verb
from memolog.apps.cli.output import console, fields, print_json, show, styled
from memolog.apps.logs import VALUES, LogFormat, set_up_log
from memolog.errors import ConfigError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from memolog.apps.gateway.settings import GatewaySettings
    from memolog.apps.mcp.resources import Served

app = typer.Typer()
_log = logging.getLogger("memolog.servers")
_Log = Annotated[
    LogFormat,
    typer.Option("--log", help="Form of the log on standard error: text, or json with one document for each line."),
]
# Heading of the options for HTTP in the help text.
_HTTP = "Over HTTP"

_Resource = Annotated[
    str | None,
    typer.Option(
        "--resource",
        "-r",
        envvar="MEMOLOG_RESOURCE",
        help="Resource to serve. Default: the only one in the database.",
    ),
]
_Thread = Annotated[
    str | None,
    typer.Option("--thread", "-t", envvar="MEMOLOG_THREAD", help="Thread that the tools work for."),
]
_Session = Annotated[
    str | None,
    typer.Option(envvar="MEMOLOG_SESSION", help="Session that claims tasks. Default: the thread."),
]
_Http = Annotated[
    bool,
    typer.Option("--http", rich_help_panel=_HTTP, help="Serve over HTTP instead of standard input and output."),
]
_TokenFile = Annotated[
    str | None,
    typer.Option(
        rich_help_panel=_HTTP,
        help="File with the bearer token. Default: the variable MEMOLOG_MCP_TOKEN.",
    ),
]
_NoToken = Annotated[
    bool,
    typer.Option("--no-token", rich_help_panel=_HTTP, help="Allow every program on this machine without a token."),
]
_AllowHost = Annotated[
    list[str] | None,
    typer.Option(rich_help_panel=_HTTP, help="Host name that clients may use for the server; repeatable."),
]


@verb(app, needs="address", writes=True, example="memolog mcp --describe")
async def mcp(
    call: Call,
    resource: _Resource = None,
    thread: _Thread = None,
    session: _Session = None,
    read_only: Annotated[bool, typer.Option("--read-only", help="Do not let clients change anything.")] = False,
    tokens: Annotated[int, typer.Option(help="Maximum number of tokens of a context pack.", min=200)] = 4_000,
    every: Annotated[
        float, typer.Option(help="Seconds between checks for changes by other processes.", min=0.05)
    ] = 2.0,
    describe: Annotated[bool, typer.Option("--describe", help="Show what clients would get, and exit.")] = False,
    http: _Http = False,
    host: Annotated[str, typer.Option(rich_help_panel=_HTTP, help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(rich_help_panel=_HTTP, help="Port to listen on; 0 for any free one.", min=0, max=65535)
    ] = 8765,
    token_file: _TokenFile = None,
    no_token: _NoToken = False,
    allow_host: _AllowHost = None,
    log: _Log = "text",
) -> Answer:
    """Serve a memory over the Model Context Protocol: tools, resources, prompts and change notifications.

    A client starts the server and talks to it over standard input and output. With --http, the server serves all clients that
    send the token. The resource of a server is fixed, and no model can choose another one.
    """
    from memolog.apps.mcp.resources import Served
    from memolog.apps.mcp.server import open_door, read_token, serve_http
    from memolog.memory import Memory

    set_up_log(log)
    refuse_missing(call.address)
    config = call.config.with_overrides({"read_only": True}) if read_only or describe else call.config
    async with Memory(call.address, config=config) as memory:
        whose = await chosen_resource(memory, resource)
        served = Served(memory=memory, resource=whose, thread=thread, session=session, tokens=tokens, every=every)
        if describe:
            return await _described(served, is_read_only=read_only or call.config.read_only)
        if not http:
            if sys.stdin.isatty():
                words = "Waiting for an MCP client on standard input. Ctrl-D ends the server; --describe shows what it offers."
                console(to_stderr=True).print(styled(words, "dim"), soft_wrap=True)
            await _serve_streams(served)
            return Answer(data=None, is_printed=True)
        token = read_token(os.environ.get("MEMOLOG_MCP_TOKEN"), token_file)
        door = open_door(host, port, token=token, without_token=no_token, allowed_hosts=allow_host or ())
        if log == "json":
            _log.info("The memory is served at %s", door.address)
        else:
            console(to_stderr=True).print(styled(f"The memory of {whose} is served at {door.address}"), soft_wrap=True)
        _freeze()
        await serve_http(served, door)
    return Answer(data=None, is_printed=True)


def _freeze() -> None:
    """Exclude what is imported from garbage collections. A full collection would hold all requests for tens of milliseconds."""
    import gc

    gc.collect()
    gc.freeze()


async def _serve_streams(served: "Served") -> None:
    """Serve standard input and output until the client disconnects, or until SIGINT or SIGTERM."""
    import asyncio

    from memolog.apps.mcp.server import serve_stdio
    from memolog.apps.signals import caught

    serving = asyncio.create_task(serve_stdio(served))
    ending = asyncio.create_task(caught(signal.SIGINT, signal.SIGTERM).get())
    await asyncio.wait({serving, ending}, return_when=asyncio.FIRST_COMPLETED)
    if serving.done():
        ending.cancel()
        await serving
        return
    await served.memory.aclose()
    # A thread of the MCP library waits for standard input and cannot be stopped. A normal exit would wait for this thread.
    os._exit(130 if ending.result() == signal.SIGINT else 0)


async def _described(served: "Served", *, is_read_only: bool) -> Answer:
    """Return the tools, resources and prompts that clients would get, and the size of the tools in tokens."""
    import json

    from memolog.apps.mcp import prompts, resources
    from memolog.tools.definitions import definitions

    tools = definitions("mcp", read_only=is_read_only)
    listed, offered = await resources.listed(served), prompts.listed(is_read_only=is_read_only)
    data: dict[str, Any] = {
        "resource": served.resource,
        "thread": served.thread,
        "read_only": is_read_only,
        "tools": tools,
        "instructions": prompts.instructions(is_read_only=is_read_only),
        "resources": [one.model_dump(mode="json", by_alias=True, exclude_none=True) for one in listed],
        "prompts": [one.model_dump(mode="json", by_alias=True, exclude_none=True) for one in offered],
        "tool_tokens": served.memory.counter.count(json.dumps(tools, ensure_ascii=False)),
    }
    return Answer(data=data, show=lambda: _show(data))


def _show(data: Mapping[str, Any]) -> "RenderableType":
    def names(kind: str, name: str) -> str:
        return ", ".join(one[name] for one in data[kind])

    return fields(
        [
            ("resource", data["resource"]),
            ("thread", data["thread"] or "the one with the newest activity"),
            ("may change", "no" if data["read_only"] else "yes"),
            ("tools", f"{names('tools', 'name')}  ·  {data['tool_tokens']:,} tokens"),
            ("resources", names("resources", "uri")),
            ("prompts", names("prompts", "name")),
        ]
    )


_ProxyPort = Annotated[
    int, typer.Option("--port", "-p", help="Port to listen on; 0 for any free one.", min=0, max=65535)
]
_ProxyResource = Annotated[
    str | None, typer.Option("--resource", "-r", help="Resource of requests that name only a thread.")
]
_ThreadFrom = Annotated[
    list[str] | None,
    typer.Option(help="Where clients send the thread: header:NAME, user or metadata:KEY. May be repeated."),
]
_ResourceFrom = Annotated[
    list[str] | None,
    typer.Option(help="Where clients send the resource: header:NAME, user or metadata:KEY. May be repeated."),
]
_ProxyTokenFile = Annotated[
    str | None,
    typer.Option(
        help="File with the token that clients must send. Default: the variable MEMOLOG_PROXY_TOKEN.",
    ),
]
_TokensFile = Annotated[
    str | None,
    typer.Option(
        help="File with one token per resource: on each line a token, a space and the resource.",
    ),
]
_Seconds = Annotated[float | None, typer.Option(help="Stop after this many seconds. Default: run until Ctrl-C.", min=0)]


@verb(app, needs="database", writes=True, example="memolog proxy --port 0 --seconds 0")
async def proxy(
    call: Call,
    host: Annotated[
        str, typer.Option(help="Address to listen on; any other than loopback needs a token.")
    ] = "127.0.0.1",
    port: _ProxyPort = 8484,
    openai: Annotated[
        str, typer.Option(help="Address of the OpenAI-compatible provider: the base_url of its clients.")
    ] = "https://api.openai.com/v1",
    anthropic: Annotated[
        str, typer.Option(help="Address of the Anthropic-compatible provider.")
    ] = "https://api.anthropic.com",
    google: Annotated[
        str, typer.Option(help="Address of the Gemini API.")
    ] = "https://generativelanguage.googleapis.com",
    resource: _ProxyResource = None,
    thread_from: _ThreadFrom = None,
    resource_from: _ResourceFrom = None,
    token_file: _ProxyTokenFile = None,
    tokens_file: _TokensFile = None,
    max_body: Annotated[int, typer.Option(help="Maximum size in bytes of a request with memory.", min=1)] = 67_108_864,
    seconds: _Seconds = None,
    log: _Log = "text",
) -> Answer:
    """Run a gateway that adds memory to any OpenAI, Anthropic or Gemini client. They name the thread in a header or address."""
    import asyncio

    from memolog.apps.gateway.app import serve
    from memolog.apps.gateway.settings import GatewaySettings, read_tokens
    from memolog.apps.signals import caught

    set_up_log(log)
    settings = GatewaySettings(
        openai=openai,
        anthropic=anthropic,
        google=google,
        resource=resource,
        thread_from=thread_from or (),
        resource_from=resource_from or (),
        token=_token(token_file),
        tokens=read_tokens(read_text(tokens_file)) if tokens_file is not None else {},
        max_body_bytes=max_body,
    )
    async with serve(call.memory, settings, host=host, port=port) as listening:
        _announce(call, listening.url, settings, log)
        _freeze()
        with suppress(TimeoutError):
            # Handle SIGTERM like Ctrl-C, so that open requests are saved.
            await asyncio.wait_for(caught(signal.SIGTERM).get(), seconds)
    return Answer(data=None, is_printed=True)


def _announce(call: Call, url: str, settings: "GatewaySettings", log: str) -> None:
    """Print or log where the gateway listens, and where it sends requests."""
    data = {
        "url": url,
        "openai": settings.openai,
        "anthropic": settings.anthropic,
        "google": settings.google,
        "resource": settings.resource,
        "token": bool(settings.access),
        "resources": sorted(set(settings.tokens.values())),
    }
    if log == "json":
        _log.info("The gateway listens on %s", url, extra={VALUES: data})
    elif call.as_json:
        print_json(data)
    else:
        show(fields(_addresses(url, settings)))


def _addresses(url: str, settings: "GatewaySettings") -> list[tuple[str, str]]:
    """Return what clients of the gateway need: addresses and headers."""
    return [
        ("listening", url),
        ("OpenAI clients", f"base_url {url}/v1, to {settings.openai}"),
        ("Anthropic clients", f"base_url {url}, to {settings.anthropic}"),
        ("Google clients", f"base_url {url}, to {settings.google}"),
        ("thread in the address", f"{url}/r/RESOURCE/t/THREAD/v1"),
        ("or in headers", "x-memolog-thread, x-memolog-resource" + (", x-memolog-token" if settings.access else "")),
    ]


def _token(file: str | None) -> str | None:
    """Return the token from the file or the environment. It is not an option, because other users can see a process's options."""
    return os.environ.get("MEMOLOG_PROXY_TOKEN") or None if file is None else read_text(file).strip()


_TOKEN_BITS: Final = 256
_UiPort = Annotated[int, typer.Option("--port", "-p", help="Port to listen on; 0 for any free one.", min=0, max=65535)]
_Write = Annotated[
    bool, typer.Option("--write", help="Let pages change what is stored: correct, retract, forget. Default: only read.")
]
_UiTokenFile = Annotated[
    str | None,
    typer.Option(
        help="File with the token of the address. Default: the variable MEMOLOG_UI_TOKEN, else a new token each time.",
    ),
]
_UiAllowHost = Annotated[
    list[str] | None, typer.Option(help="Host name under which browsers may use the inspector; repeatable.")
]
_Open = Annotated[
    bool | None,
    typer.Option(
        "--open/--no-open", help="Open the page in the web browser. Default: only on a terminal of a desktop session."
    ),
]
_UiEvery = Annotated[float, typer.Option(help="Seconds between checks for changes by other processes.", min=0.05)]


@verb(app, needs="address", writes="if allowed", example="memolog ui --port 0 --seconds 0")
async def ui(
    call: Call,
    host: Annotated[
        str, typer.Option(help="Address to listen on; any other than loopback needs a token of yours.")
    ] = "127.0.0.1",
    port: _UiPort = 8585,
    write: _Write = False,
    token_file: _UiTokenFile = None,
    allow_host: _UiAllowHost = None,
    open_browser: _Open = None,
    every: _UiEvery = 1.0,
    seconds: _Seconds = None,
    log: _Log = "text",
) -> Answer:
    """Show in a web browser what is remembered, and why: threads, logs, contexts, decisions, search and cost.

    The printed address has a token: who opens it, sees everything. The pages only read, unless --write is given, and may stay
    open while agents write.
    """
    import asyncio

    from memolog.apps.network import is_loopback
    from memolog.apps.signals import caught
    from memolog.apps.ui import UiSettings, serve
    from memolog.memory import Memory

    set_up_log(log)
    refuse_missing(call.address)
    own = os.environ.get("MEMOLOG_UI_TOKEN") or None if token_file is None else read_text(token_file).strip()
    settings = UiSettings(
        token=_ui_token(own, host),
        write=write,
        hosts=tuple(allow_host or ()),
        only_here=is_loopback(host),
        every=every,
    )
    async with Memory(call.address, config=call.config) as memory:
        await memory.check_ready()
        async with serve(memory, settings, host=host, port=port) as listening:
            # A token that the user has chosen is not printed. The page asks for it.
            url = listening.url if own is None else f"{listening.base}/"
            data = {"url": url, "host": listening.host, "port": listening.port, "write": write}
            if log == "json":
                _log.info("The inspector listens on %s", listening.base, extra={VALUES: data | {"url": listening.base}})
            elif call.as_json:
                print_json(data)
            else:
                show(fields(_inspector(url, call.shown_address, is_here=settings.only_here, write=write)))
            may_open = _has_desktop() and not (call.as_json or seconds is not None)
            opens = may_open if open_browser is None else open_browser
            with _page_to(listening.url) if opens else nullcontext() as page, suppress(TimeoutError):
                if page is not None:
                    import webbrowser

                    await asyncio.to_thread(webbrowser.open, page)
                await asyncio.wait_for(caught(signal.SIGTERM).get(), seconds)
    return Answer(data=None, is_printed=True)


@contextmanager
def _page_to(url: str) -> Generator[str]:
    """Yield the address of a private file that leads a browser to `url`. The file is deleted when the block ends.

    Other users of this machine can read the arguments of the browser program, so the token must not be among them.
    """
    from html import escape
    from pathlib import Path
    from tempfile import TemporaryDirectory

    target = escape(url)
    text = (
        '<!doctype html><meta charset="utf-8"><title>Memolog</title><meta name="referrer" content="no-referrer">'
        f'<meta http-equiv="refresh" content="0; url={target}"><a href="{target}">Open the inspector</a>\n'
    )
    # Only this user can read the directory and the file.
    with TemporaryDirectory(prefix="memolog-ui-") as folder:
        page = Path(folder, "open.html")
        page.touch(mode=0o600, exist_ok=False)
        page.write_text(text, encoding="utf-8")
        yield page.as_uri()


def _ui_token(own: str | None, host: str) -> str:
    """Return the token of the user, or a new one. Raise ConfigError if other machines could reach a server with a new one."""
    from memolog.apps.network import is_loopback
    from memolog.core.clock import system_chance

    if own is None and not is_loopback(host):
        raise ConfigError(
            f"Everyone who reaches {host} could try to read every memory in this database.",
            then="Listen on 127.0.0.1, or choose a token: MEMOLOG_UI_TOKEN, or --token-file.",
        )
    return own or f"{system_chance(_TOKEN_BITS):x}"


def _inspector(url: str, database: str, *, is_here: bool, write: bool) -> list[tuple[str, str]]:
    """Return what is printed when the inspector listens."""
    rows = [
        ("open", url),
        ("database", database),
        ("may change", "yes" if write else "no; --write allows it"),
        ("end", "Ctrl-C"),
    ]
    if not is_here:
        rows.insert(2, ("warning", "Other machines can reach this address. Who has the token, sees everything."))
    return rows


def _has_desktop() -> bool:
    """Return whether this process runs on a terminal of a desktop session, so that a browser can be opened there."""
    if not sys.stdout.isatty() or "SSH_CONNECTION" in os.environ:
        return False
    return sys.platform in {"darwin", "win32"} or bool({"DISPLAY", "WAYLAND_DISPLAY"} & os.environ.keys())


_Concurrency = Annotated[int, typer.Option(help="Maximum number of logs to work on at the same time.", min=1)]
_Every = Annotated[
    int, typer.Option(help="Seconds between two searches for work without a job; only on PostgreSQL.", min=1, max=60)
]
_Grace = Annotated[
    float, typer.Option(help="Maximum seconds from SIGTERM or Ctrl-C to the end. Unfinished work is given back.", min=0)
]
_Once = Annotated[bool, typer.Option("--once", help="Do all work that is due, and exit; for cron.")]
_MetricsPort = Annotated[
    int | None,
    typer.Option(help="Port for /healthz, /readyz and /metrics; 0 for any free one. Default: none.", min=0, max=65535),
]
_MetricsHost = Annotated[str, typer.Option(help="Address to listen on for metrics, which need no token.")]


@verb(app, needs="address", writes=True, lines=True, example="memolog worker --once")
async def worker(
    call: Call,
    concurrency: _Concurrency = 8,
    every: _Every = 60,
    grace: _Grace = 25.0,
    once: _Once = False,
    metrics_port: _MetricsPort = None,
    metrics_host: _MetricsHost = "127.0.0.1",
    log: _Log = "text",
) -> Answer:
    """Do the background work of other processes: observe, reflect, compact, index, and forget what is too old.

    Set background = "worker" in the processes that hold the conversations. On PostgreSQL any number of workers may run, on any
    number of machines. A SQLite file has one worker. Progress is written to standard error, and with --json as one JSON document
    for each line to standard output.
    """
    from memolog.apps.signals import caught
    from memolog.apps.worker.process import WorkerOptions, run_until_signal

    set_up_log(log)
    refuse_missing(call.address)

    def report(words: str, values: dict[str, object]) -> None:
        if log == "json":
            level = logging.WARNING if values.get("event") in {"error", "away"} else logging.INFO
            _log.log(level, "%s", words, extra={VALUES: values})
        elif call.as_json:
            print_json(values)
        else:
            console(to_stderr=True).print(styled(words), soft_wrap=True)

    options = WorkerOptions(
        concurrency=concurrency,
        every=every,
        grace=grace,
        once=once,
        metrics_host=metrics_host,
        metrics_port=metrics_port,
    )
    signals = caught(signal.SIGINT, signal.SIGTERM)
    counts = await run_until_signal(call.address, call.config, options, report=report, signals=signals)
    if counts is None:
        raise KeyboardInterrupt
    return Answer(data=None, is_printed=True, code=counts.exit_code if once else 0)
