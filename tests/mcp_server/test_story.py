"""Everything that the server offers, through the client of the library, over standard streams and HTTP."""

import base64
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp_types import ResourceTemplateReference, TextContent

from kit.talk import hold
from mcp_server.doors import ERAS, call, connected, made, over_http, web, without_wire
from memolog import FilePart, Memory, UserMessage, __version__
from memolog.apps.mcp import Served, build_server
from memolog.text.tokens import HeuristicCounter, SplintrCounter
from memolog.tools.definitions import definition
from tools.world import world


@pytest.mark.parametrize("transport", ["stdio", "http"])
@pytest.mark.parametrize("mode", ERAS)
async def test_the_whole_of_it(transport: str, mode: str, tmp_path: Path) -> None:
    """All actions of all tools, resources, prompts and completion, over each transport and protocol."""
    async with connected(transport, await made(tmp_path), mode=mode) as client:
        assert client.server_info is not None
        assert (client.server_info.name, client.server_info.version) == ("memolog", __version__)
        assert "task-query" in (client.instructions or "")
        await _everything(client)


async def test_a_file_is_recalled_as_content(tmp_path: Path) -> None:
    """A client gets an image as an image, a document as a resource, and a link as a link, each once and whole."""
    image = FilePart(media_type="image/png", data=b"\x89PNG" * 5_000, name="plan.png")
    document = FilePart(media_type="application/pdf", data=bytes(range(256)) * 40, name="the plan.pdf")
    link = FilePart(media_type="application/pdf", url="https://example.com/law.pdf", name="law.pdf")
    path = await made(tmp_path)
    async with Memory(path) as memory:
        await hold(memory, UserMessage(["Look.", image, document, link], id="files"))
    async with without_wire(path) as client:
        found: list[Any] = []
        for part in (1, 2, 3):
            arguments = {"action": "recall", "target": "files", "part": part}
            result = await client.call_tool("memory-search", arguments)
            text, content = result.content
            assert "base64" not in getattr(text, "text", "")
            assert json.loads(getattr(text, "text", "")) == result.structured_content
            found.append(content)
        assert base64.b64decode(found[0].data) == image.data
        assert base64.b64decode(found[1].resource.blob) == document.data
        assert (found[1].resource.uri, found[1].resource.mime_type) == (
            "memolog://file/the%20plan.pdf",
            "application/pdf",
        )
        assert (found[2].uri, found[2].name) == ("https://example.com/law.pdf", "law.pdf")
        words = await client.call_tool("memory-search", {"action": "recall", "target": "files", "part": 0})
        assert len(words.content) == 1


async def test_the_whole_of_it_on_postgres(postgres_url: str) -> None:
    """The same on PostgreSQL."""
    async with world(postgres_url):
        pass
    async with web(postgres_url) as server, over_http(server.url) as client:
        await _everything(client)


async def _everything(client: Client) -> None:
    await _tools(client)
    await _resources(client)
    await _prompts(client)


async def _tools(client: Client) -> None:
    tools = (await client.list_tools()).tools
    assert [tool.name for tool in tools] == ["task-query", "task-mutate", "memory-search"]
    for tool in tools:
        assert tool.model_dump(by_alias=True, exclude_none=True, mode="json") == definition(tool.name, "mcp")

    ready = await call(client, "task-query", action="ready")
    assert [task["handle"] for task in ready["tasks"]] == ["T-1", "T-4", "T-3"]
    shown = await call(client, "task-query", action="show", task="T-2", related=True)
    assert shown["task"]["title"] == "Add the login endpoint"
    listed = await call(client, "task-query", action="list", status="closed")
    assert [task["handle"] for task in listed["tasks"]] == ["T-5"]
    found = await call(client, "task-query", action="search", query="flaky")
    assert [task["handle"] for task in found["tasks"]] == ["T-4"]

    created = await call(client, "task-mutate", action="create", title="Check it", blocked_by=["T-3"])
    assert created["task"]["handle"] == "T-6"
    assert (await call(client, "task-mutate", action="dep", op="add", task="T-6", depends_on="T-4"))["success"]
    assert (await call(client, "task-mutate", action="dep", op="remove", task="T-6", depends_on="T-3"))["success"]
    claimed = await call(client, "task-mutate", action="claim", task="T-4")
    assert claimed["task"]["status"] == "in_progress"
    assert (await call(client, "task-mutate", action="link", task="T-4", messages=["1-2"]))["success"]
    noted = await call(client, "memory-search", action="update_context", section="Decisions", text="- argon2id")
    assert noted["success"]
    closed = await call(client, "task-mutate", action="close", task="T-4", summary="It waits for the port now.")
    assert closed["success"]
    assert "T-6" in json.dumps(closed)

    hits = await call(client, "memory-search", action="search", query="LoginSchema")
    assert "LoginSchema" in json.dumps(hits["results"][0])
    recalled = await call(client, "memory-search", action="recall", target="1-2")
    assert "z.string().email()" in json.dumps(recalled)
    refused = await call(client, "task-mutate", action="claim", task="T-2")
    assert "T-1" in refused["error"]


async def test_actions_and_the_task_in_hand_without_a_thread(tmp_path: Path) -> None:
    """The definitions of MCP are those of every adapter: a wrong action writes nothing, and a hand-over names what is claimed."""
    async with (
        Memory(await made(tmp_path)) as memory,
        Client(build_server(Served(memory=memory, resource="alice"))) as client,
    ):
        count = len((await memory.resource("alice").tasks().list()).items)
        wrong = await call(client, "task-mutate", action="reopn", task="T-5")
        assert "Did you mean reopen?" in wrong["error"]
        assert (await call(client, "task-mutate", action="reopen", task="T-5"))["task"]["status"] == "open"
        assert len((await memory.resource("alice").tasks().list()).items) == count
        saved = await call(
            client, "memory-search", action="remember", text="Deploys run on Fridays", source="README.md"
        )
        assert "[README.md, " in saved["remembered"]
        assert (await call(client, "task-mutate", action="claim", task="T-4"))["success"]
        over = (await client.get_prompt("hand-over", {})).messages[0].content
        assert isinstance(over, TextContent)
        assert "* active T-4" in over.text
        pack = (await client.read_resource("memolog://context-pack")).contents[0]
        assert "* active T-4" in pack.model_dump_json()
        assert "Deploys run on Fridays" in pack.model_dump_json()
        shown = await call(client, "task-query", action="show", task="current")
        assert shown["task"]["handle"] == "T-4"


async def _resources(client: Client) -> None:
    listed = [resource.uri for resource in (await client.list_resources()).resources]
    assert listed[:3] == ["memolog://context-pack", "memolog://log", "memolog://working-memory"]
    assert "memolog://task/T-1" in listed
    (template,) = (await client.list_resource_templates()).resource_templates
    assert template.uri_template == "memolog://task/{id}"

    assert "<observations" in await _read(client, "memolog://log", "text/markdown")
    pack = await _read(client, "memolog://context-pack", "text/markdown")
    assert pack.startswith("<memory-pack>")
    assert "Now the endpoint." in pack
    assert "argon2id" in await _read(client, "memolog://working-memory", "text/markdown")
    task = json.loads(await _read(client, "memolog://task/T-4", "application/json"))
    assert task["task"]["summary"] == "It waits for the port now."
    assert "z.string().email()" in json.dumps(task)
    for wrong in ("memolog://task/T-99", "memolog://nothing", "memolog://task/", "file:///etc/passwd"):
        with pytest.raises(Exception, match="There is no"):
            await client.read_resource(wrong)
    reference = ResourceTemplateReference(type="ref/resource", uri="memolog://task/{id}")
    completion = (await client.complete(reference, {"name": "id", "value": "t-"})).completion
    assert set(completion.values) == {"T-1", "T-3", "T-6"}


async def _read(client: Client, uri: str, media_type: str) -> str:
    (content,) = (await client.read_resource(uri)).contents
    assert content.mime_type == media_type
    return str(getattr(content, "text", ""))


async def _prompts(client: Client) -> None:
    assert [prompt.name for prompt in (await client.list_prompts()).prompts] == ["start-session", "hand-over"]
    start = await _prompt(client, "start-session", {"goal": "the {pack} endpoint"})
    assert start.count("<memory-pack>") == 1
    assert start.endswith("The aim of this session: the {pack} endpoint")
    assert "Then wait for an answer." in await _prompt(client, "start-session", {})
    over = await _prompt(client, "hand-over", {"to": "Dana\nIgnore this"})
    assert "goes on: Dana Ignore this." in over
    assert "ready T-1" in over
    with pytest.raises(Exception, match="There is no prompt"):
        await client.get_prompt("other")


async def _prompt(client: Client, name: str, arguments: dict[str, Any]) -> str:
    (message,) = (await client.get_prompt(name, arguments)).messages
    assert message.role == "user"
    assert isinstance(message.content, TextContent)
    return message.content.text


def test_the_example_runs(tmp_path: Path) -> None:
    """The example starts a session, claims, finds, gets a notification and closes, without errors."""
    example = Path(__file__).parents[2] / "examples" / "mcp_server.py"
    done = subprocess.run([sys.executable, str(example)], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0] == "Tools: task-query, task-mutate, memory-search"
    assert "LoginSchema" in lines[3]
    assert lines[4:] == ["Told of a change: memolog://working-memory", "Closed: T-1"]
    assert list(tmp_path.iterdir()) == []


# ---------------------------------------------------------------- what a client pays in tokens


@pytest.mark.parametrize("mode", ERAS)
async def test_the_schema_as_a_client_sees_it(mode: str, tmp_path: Path) -> None:
    """Tools and instructions have at most 2,500 tokens with each counter."""
    async with web(await made(tmp_path)) as server, over_http(server.url, mode=mode) as client:
        tools = (await client.list_tools()).model_dump(by_alias=True, exclude_none=True, mode="json")["tools"]
        text = f"{json.dumps(tools, ensure_ascii=False)}\n{client.instructions}"
    counters = (HeuristicCounter(), SplintrCounter(), SplintrCounter(vocabulary="cl100k_base"))
    counts = [counter.count(text) for counter in counters]
    assert all(1_000 < count <= 2_500 for count in counts), counts


async def test_resources_and_prompts_are_listed_briefly(tmp_path: Path) -> None:
    """The lists are short, however many tasks there are."""
    async with without_wire(await made(tmp_path)) as client:
        for number in range(60):
            await client.call_tool("task-mutate", {"action": "create", "title": f"Task number {number} " + "x" * 400})
        listed = await client.list_resources()
        assert len(listed.resources) <= 3 + 20
        prompts = (await client.list_prompts()).model_dump_json(by_alias=True, exclude_none=True)
    assert SplintrCounter().count(prompts) <= 300
