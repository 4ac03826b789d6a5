"""The snippets of the pages, and typical calls with the types of the libraries, pass a type checker in basic mode."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from docs.test_docs import PAGES, ROOT, SNIPPET

__all__ = ["checked"]


def checked(folder: Path) -> list[str]:
    """Return the errors of all files of a folder, from one run of the type checker."""
    settings: dict[str, Any] = {"typeCheckingMode": "basic", "pythonVersion": "3.11", "extraPaths": [str(ROOT / "src")]}
    (folder / "pyrightconfig.json").write_text(json.dumps(settings), "utf-8")
    checker = Path(sys.executable).with_name("basedpyright")
    command = [checker, "--outputjson", "--pythonpath", sys.executable, "--project", folder]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found = json.loads(done.stdout)
    assert found["summary"]["filesAnalyzed"] == len(list(folder.glob("*.py")))
    return [
        f"{Path(one['file']).name}:{one['range']['start']['line'] + 1}: {one['message']}"
        for one in found["generalDiagnostics"]
        if one["severity"] == "error"
    ]


def test_snippets_pass_a_type_checker(tmp_path: Path) -> None:
    """A reader who copies a snippet into a project with a type checker gets no error."""
    count = 0
    for page in PAGES:
        for number, code in enumerate(SNIPPET.findall(page.read_text("utf-8")), start=1):
            name = re.sub(r"\W", "_", f"{page.relative_to(ROOT).with_suffix('')}_{number}")
            (tmp_path / f"{name}.py").write_text(code, "utf-8")
            count += 1
    assert count > 40
    assert checked(tmp_path) == []


CALLS = """
from dataclasses import dataclass

from anthropic import Anthropic, AsyncAnthropic
from openai import AsyncOpenAI, OpenAI
from pydantic_ai import Agent
from typing_extensions import assert_type

from memolog import Memory, SyncMemory
from memolog.adapters.anthropic import at as at_anthropic
from memolog.adapters.openai import at
from memolog.adapters.openai import wrap
from memolog.adapters.pydantic_ai import MemoryCapability, child_memory
from openai.types.chat import ChatCompletion


@dataclass
class Deps:
    user: str


def agents(memory: Memory) -> None:
    Agent("test", capabilities=[MemoryCapability(memory, "alice")])
    Agent("test", deps_type=Deps, capabilities=[MemoryCapability(memory, "alice", thread="t1")])
    Agent("test", deps_type=Deps, capabilities=[MemoryCapability(memory, lambda ctx: ctx.deps.user)])
    own = MemoryCapability[Deps](memory, lambda ctx: ctx.deps.user, zone=lambda ctx: ctx.deps.user)
    Agent("test", deps_type=Deps, capabilities=[own])
    Agent("test", deps_type=int, capabilities=[own])  # error
    MemoryCapability[Deps](memory, lambda ctx: ctx.deps.missing)  # error


def chat(client: OpenAI, memory: SyncMemory) -> None:
    client = assert_type(wrap(client, memory), OpenAI)
    thread = memory.thread("t1", resource="alice")
    tools = thread.tools()
    with thread.turn() as turn:
        messages = turn.prepare("Hello.").to_openai(system="Be brief.")
        definitions = tools.definitions()
        done = client.chat.completions.create(model="m", messages=messages, tools=definitions, **at("t1", "alice"))
        assert_type(done, ChatCompletion)
        client.responses.create(model="m", input="Hello.", tools=tools.definitions("openai-responses"), **at("t", "a"))
    at("t1", "alice")["extra_header"]  # error


async def messages(client: AsyncAnthropic, other: AsyncOpenAI, memory: Memory) -> None:
    thread = memory.thread("t1", resource="alice")
    async with thread.turn() as turn:
        context = await turn.prepare("Hello.")
        tools = thread.tools().definitions("anthropic")
        made = context.to_anthropic(system="Be brief.")
        await client.messages.create(model="m", max_tokens=9, tools=tools, **made, **at_anthropic("t1", "alice"))
        await other.responses.create(model="m", **context.to_responses())
"""


def test_calls_have_types(tmp_path: Path) -> None:
    """Dependencies of an agent, `at`, contexts and tool definitions fit the types of the libraries. Wrong calls are errors."""
    (tmp_path / "calls.py").write_text(CALLS, "utf-8")
    wrong = {number for number, line in enumerate(CALLS.splitlines(), start=1) if line.endswith("# error")}
    found = checked(tmp_path)
    assert {int(one.split(":")[1]) for one in found} == wrong, found
