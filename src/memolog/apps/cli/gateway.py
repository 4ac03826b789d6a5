"""The verb `proxy`: memory for clients of other languages, as a server on this machine.

Knows how the gateway is started, told of and ended. What it does with requests is its own.
"""

from contextlib import suppress
from typing import TYPE_CHECKING, Annotated

import typer

from memolog.apps.cli.telling import console, fields, print_json
from memolog.apps.cli.verb import Answer, Call, verb
from memolog.domain.errors import InputError

if TYPE_CHECKING:
    import asyncio

__all__ = ["app"]

app = typer.Typer()


_Host = Annotated[str, typer.Option("--host", help="Where to listen; others than this machine need a token.")]
_Port = Annotated[int, typer.Option("--port", "-p", help="Which port; 0: any that is free.", min=0, max=65535)]
_OpenAI = Annotated[str, typer.Option("--openai", help="Where OpenAI-compatible requests go.")]
_Anthropic = Annotated[str, typer.Option("--anthropic", help="Where Anthropic-compatible requests go.")]
_Resource = Annotated[
    str | None, typer.Option("--resource", "-r", help="Whose memory, if a request names only a thread.")
]
_TokenFile = Annotated[
    str | None,
    typer.Option(
        "--token-file",
        help="The file with the token that clients must show; without it, the variable MEMOLOG_PROXY_TOKEN.",
    ),
]
_TokensFile = Annotated[
    str | None,
    typer.Option(
        "--tokens-file",
        help="Instead of one token for all: a file with a token, a space and the resource that it opens on each line.",
    ),
]
_MaxBody = Annotated[int, typer.Option("--max-body", help="How many bytes a request with memory may have.", min=1)]
_Seconds = Annotated[float | None, typer.Option("--seconds", help="End after so long; without it, at Ctrl-C.", min=0)]


@verb(app, needs="database", writes=True, example="memolog proxy --port 0 --seconds 0")
async def proxy(
    call: Call,
    host: _Host = "127.0.0.1",
    port: _Port = 8484,
    openai: _OpenAI = "https://api.openai.com",
    anthropic: _Anthropic = "https://api.anthropic.com",
    resource: _Resource = None,
    token_file: _TokenFile = None,
    tokens_file: _TokensFile = None,
    max_body: _MaxBody = 67_108_864,
    seconds: _Seconds = None,
) -> Answer:
    """Add memory to any OpenAI or Anthropic client: point it here and name a thread in a header. Ends at Ctrl-C."""
    import asyncio

    from memolog.apps.proxy import ProxySettings, serve
    from memolog.apps.proxy.settings import read_tokens

    settings = ProxySettings(
        openai=openai,
        anthropic=anthropic,
        resource=resource,
        token=_token(token_file),
        tokens=read_tokens(_text(tokens_file)) if tokens_file is not None else {},
        max_body_bytes=max_body,
    )
    async with serve(call.memory, settings, host=host, port=port) as listening:
        told = {
            "url": listening.url,
            "openai": settings.openai,
            "anthropic": settings.anthropic,
            "resource": resource,
            "token": settings.has_token,
            "resources": sorted(set(settings.tokens.values())),
        }
        if call.as_json:
            print_json(told)
        else:
            shown = [
                ("listening", listening.url),
                ("OpenAI clients", f"base_url {listening.url}/v1, to {settings.openai}"),
                ("Anthropic clients", f"base_url {listening.url}, to {settings.anthropic}"),
                (
                    "headers",
                    "x-memolog-thread, x-memolog-resource" + (", x-memolog-token" if settings.has_token else ""),
                ),
            ]
            console().print(fields(shown), soft_wrap=True)
        stop = _told_to_stop()
        with suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), seconds)
    return Answer(data=None, is_printed=True)


def _token(file: str | None) -> str | None:
    """Return the token of the file, or else of the environment: as an argument every user of this machine could see it."""
    import os

    return os.environ.get("MEMOLOG_PROXY_TOKEN") or None if file is None else _text(file).strip()


def _text(file: str) -> str:
    from pathlib import Path

    try:
        return Path(file).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"The file {file} cannot be read: {error}.", then="Check the path.") from error


def _told_to_stop() -> "asyncio.Event":
    """Return what is set when a service manager ends this: what is under way is saved, as at Ctrl-C."""
    import asyncio
    import signal

    stop = asyncio.Event()
    with suppress(NotImplementedError, RuntimeError, ValueError):
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    return stop
