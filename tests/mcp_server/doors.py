"""Connections to a server: a process with standard streams, HTTP on a free port, and a server in this process.

All use the client of the library `mcp`, with the older and the newer protocol.
"""

import asyncio
import json
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
from mcp import Client
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from memolog.apps.mcp import Served, build_server, open_door, serve_http
from memolog.memory import Memory
from tools.world import world

SOURCE = Path(__file__).parents[2] / "src"
TOKEN = "a-token-that-nobody-guesses"
ERAS = ("legacy", "auto")
RESOURCE, THREAD = "alice", "t1"
START = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}},
}
TAKES = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}


async def made(folder: Path) -> Path:
    """Create a database with five tasks, a conversation, a log and a working memory, and return its path."""
    path = folder / "memolog.db"
    async with world(str(path)):
        pass
    return path


@asynccontextmanager
async def over_stdio(path: Path, *options: str, mode: str = "auto", **more: Any) -> AsyncGenerator[Client]:
    """Start the server as a client would, and connect to it."""
    arguments = ["-m", "memolog", "mcp", "--db", str(path), "--resource", RESOURCE, "--thread", THREAD, *options]
    started = StdioServerParameters(
        command=sys.executable, args=arguments, env={"PYTHONPATH": str(SOURCE)}, cwd=path.parent
    )
    async with Client(started, mode=mode, **more) as client:
        yield client


@dataclass(frozen=True, slots=True, kw_only=True)
class Web:
    url: str
    served: Served


@asynccontextmanager
async def web(
    path: Path | str, *, token: str | None = TOKEN, read_only: bool = False, thread: str | None = THREAD, **more: Any
) -> AsyncGenerator[Web]:
    """Serve over HTTP on loopback while the block runs."""
    config = Memory(path).config.with_overrides({"read_only": read_only})
    async with Memory(path, config=config) as memory:
        served = Served(memory=memory, resource=RESOURCE, thread=thread, every=0.05, **more)
        door = open_door("127.0.0.1", 0, token=token, without_token=token is None)
        until = asyncio.Event()
        serving = asyncio.create_task(serve_http(served, door, until=until))
        try:
            yield Web(url=door.address, served=served)
        finally:
            until.set()
            await serving


@asynccontextmanager
async def over_http(
    url: str, *, mode: str = "auto", token: str | None = TOKEN, headers: dict[str, str] | None = None, **more: Any
) -> AsyncGenerator[Client]:
    """Connect to a server that listens."""
    sent = {**({"Authorization": f"Bearer {token}"} if token else {}), **(headers or {})}
    async with (
        httpx2.AsyncClient(headers=sent, timeout=120) as http,
        Client(streamable_http_client(url, http_client=http), mode=mode, **more) as client,
    ):
        yield client


@asynccontextmanager
async def connected(transport: str, path: Path, *, mode: str = "auto", **more: Any) -> AsyncGenerator[Client]:
    """Connect to a server over its streams (`stdio`) or over `http`."""
    if transport == "stdio":
        async with over_stdio(path, "--every", "0.1", mode=mode, **more) as client:
            yield client
    else:
        async with web(path) as server, over_http(server.url, mode=mode, **more) as client:
            yield client


@asynccontextmanager
async def without_wire(path: Path | str, *, mode: str = "auto", **more: Any) -> AsyncGenerator[Client]:
    """Connect to a server in this process."""
    async with (
        Memory(path) as memory,
        Client(
            build_server(Served(memory=memory, resource=RESOURCE, thread=THREAD, every=0.05, **more)), mode=mode
        ) as client,
    ):
        yield client


async def call(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    """Call a tool, and check that the text and the structured content of the answer are equal."""
    result = await client.call_tool(tool, arguments)
    answer = result.structured_content
    assert isinstance(answer, dict)
    (content,) = result.content
    assert json.loads(getattr(content, "text", "")) == answer
    assert result.is_error is not answer["success"]
    return answer
