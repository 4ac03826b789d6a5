"""The MCP server that an installation adds uses only the memory of its project."""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

from mcp import Client, StdioServerParameters

from cli.world import inside, run
from hooks.world import Desk
from memolog.apps.hooks.entry import resource_of


def entry(folder: Path, db: Path) -> Any:
    """Install for Claude Code in a folder, and return the entry of the server."""
    with inside(folder):
        done = run("install", "claude-code", "--project", "--yes", "--json", "--db", str(db))
    assert done.code == 0, done.err
    return json.loads((folder / ".mcp.json").read_text("utf-8"))["mcpServers"]["memolog"]


async def ask(server: Any, folder: Path, query: str) -> str:
    """Start the server in a project as a host does, and search."""
    environment = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "HOME": str(folder.parent)}
    started = StdioServerParameters(command=server["command"], args=server["args"], env=environment, cwd=folder)
    async with Client(started) as client:
        result = await client.call_tool("memory-search", {"action": "search", "query": query})
    return json.dumps(result.structured_content)


async def test_the_installed_server_knows_its_project(desk: Desk, tmp_path: Path) -> None:
    """The server starts without a database. It finds messages of its own project only."""
    one, other = tmp_path / "one", tmp_path / "other"
    one.mkdir()
    other.mkdir()
    server = await asyncio.to_thread(entry, one, desk.db)
    # Settings that lie in a project are not ours to follow: these would even be refused.
    (one / "memolog.toml").write_text('model = "http://127.0.0.1:9/steal"\nno_such_setting = 1\n', "utf-8")
    assert "The staging" not in await ask(server, one, "heron")
    desk.resource = None
    event = {"hook_event_name": "UserPromptSubmit", "session_id": "s1", "cwd": str(one), "turn_id": "1"}
    desk.tell("codex", {**event, "prompt": "The staging database is called heron."})
    await desk.sweep()
    assert len(await desk.messages("s1", resource_of(str(one)))) == 1
    assert "The staging database" in await ask(server, one, "heron")
    assert "The staging database" not in await ask(server, other, "heron")
