"""JavaScript clients talk through the gateway: every message is stored once, in order, whatever they send back of the history."""

import asyncio
import json
import shutil
import subprocess
from pathlib import Path

import pytest

from gateway.upstream import Call, Seen
from gateway.world import opened
from memolog import Config

HERE = Path(__file__).parent
CLIENTS = (
    "openai-chat",
    "openai-responses",
    "anthropic",
    "ai-openai",
    "ai-openai-streamed",
    "ai-openai-chat",
    "ai-anthropic",
    "ai-anthropic-streamed",
)


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the clients, as pinned."""
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        pytest.skip("Node is not installed")
    folder = tmp_path_factory.mktemp("npm")
    for name in ("package.json", "package-lock.json", "clients.mjs"):
        shutil.copy(HERE / name, folder)
    done = subprocess.run(
        [npm, "ci", "--no-audit", "--no-fund"], cwd=folder, capture_output=True, text=True, check=False
    )
    if done.returncode:
        pytest.skip(f"npm cannot install the clients: {done.stderr[-300:]}")
    return folder


def script(seen: Seen) -> str | Call:
    """Call the tool where asked to, and answer what was asked last."""
    text = json.dumps(seen.body.get("messages") or seen.body.get("input"))
    last = max(("Nora lives in Oslo", "look it up", "It rains", "where does Nora live"), key=text.rfind)
    if last == "look it up":
        return Call("call_1", "weather", {"place": "Oslo"})
    return {"Nora lives in Oslo": "Noted.", "It rains": "It rains there."}.get(last, "In Oslo.")


@pytest.mark.parametrize("client", CLIENTS)
async def test_three_turns_with_a_tool(client: str, folder: Path, tmp_path: Path) -> None:
    """The answers reach the client, and the conversation is stored once."""
    async with opened(tmp_path / "memolog.db", script, config=Config()) as world:
        command = ["node", "clients.mjs", client, world.url, "t1"]
        process = await asyncio.create_subprocess_exec(
            *command, cwd=folder, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
        out, err = await process.communicate()
        assert process.returncode == 0, err.decode()
        assert json.loads(out) == ["Noted.", "It rains there.", "In Oslo."]
        lines = [line for line in await world.lines() if line != "reasoning"]
        assert lines == [
            "user: My sister Nora lives in Oslo.",
            "assistant: Noted.",
            "user: Please look it up.",
            "call call_1: weather",
            "result call_1",
            "assistant: It rains there.",
            "user: And where does Nora live?",
            "assistant: In Oslo.",
        ]
