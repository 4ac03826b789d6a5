"""Invalid input of one client neither stops the server nor disturbs other clients."""

import asyncio
import json
import sys
from asyncio.subprocess import PIPE
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client

from mcp_server.doors import (
    ERAS,
    RESOURCE,
    SOURCE,
    START,
    TAKES,
    TOKEN,
    call,
    made,
    over_http,
    over_stdio,
    web,
    without_wire,
)
from memolog import Memory, UserMessage

HEADERS = {"Authorization": f"Bearer {TOKEN}", **TAKES}


async def check(client: Client) -> None:
    """Check that the server answers."""
    assert (await call(client, "task-query", action="ready"))["success"]


NONSENSE: list[dict[str, Any]] = [
    {},
    {"action": None},
    {"action": 7},
    {"action": ["create"]},
    {"action": {"create": {}}},
    {"action": "drop_table"},
    {"action": "create"},
    {"action": "create", "title": None},
    {"action": "create", "title": ["a", "b"], "priority": "highest of all"},
    {"action": "create", "title": "x", "blocked_by": {"T-1": True}},
    {"action": "create", "title": "x", "due": "the day after never"},
    {"action": "create", "title": "x" * 600},
    {"action": "claim", "task": "T-99999999999999999999"},
    {"action": "claim", "task": "'; DROP TABLE tasks; --"},
    {"action": "close", "task": "T-1"},
    {"action": "close", "task": "\u0000", "summary": "\u0000"},
    {"action": "dep", "task": "T-1", "depends_on": "T-1"},
    {"action": "link", "task": "T-1", "messages": ["9-3", "0", "-1", "99999999999999999999"]},
    {"action": "update_context", "section": "#" * 5_000, "text": "x" * 500_000},
    {"action": "search", "query": "\"'*():^~-" * 50},
    {"action": "recall", "target": "../../etc/passwd"},
    {"action": "ready", "limit": -5, "cursor": "forged"},
    {"action": "ready", "limit": 1e308},
    {"action": "search", "query": "x", "cursor": "999999999999999999999.1"},
    {"resource": "bob", "session": "root", "action": "ready"},
]


@pytest.mark.parametrize(
    "tool", ["task-query", "task-mutate", "memory-search", "other", "", "task-query\n", "x" * 9_000]
)
async def test_nonsense_is_answered(tool: str, tmp_path: Path) -> None:
    """Every tool answers invalid arguments with a short error."""
    async with without_wire(await made(tmp_path)) as client:
        for arguments in NONSENSE:
            answer = await call(client, tool, **arguments)
            assert len(json.dumps(answer)) < 40_000
            assert "Traceback" not in json.dumps(answer)
            if not answer["success"]:
                assert set(answer) == {"success", "error", "retryable"}
                assert len(answer["error"]) <= 2_000
        await check(client)


@pytest.mark.parametrize("mode", ERAS)
async def test_huge_and_deep_arguments(mode: str, tmp_path: Path) -> None:
    """Too large and deeply nested arguments are refused, and the next call is answered."""
    deep: Any = "x"
    for _ in range(90):
        deep = [deep]
    async with web(await made(tmp_path)) as server, over_http(server.url, mode=mode) as client:
        large = await call(client, "task-mutate", action="create", title="ok", description="y" * 900_000)
        assert len(json.dumps(large)) < 40_000
        assert not (await call(client, "task-query", action=deep))["success"]
        with pytest.raises(Exception):  # noqa: B017 - how the library tells of a refused request is its own affair
            await client.call_tool("memory-search", {"action": "search", "query": "z" * 3_000_000})
        await check(client)


async def test_garbage_over_the_streams(tmp_path: Path) -> None:
    """Lines that are not JSON, requests or UTF-8 are answered or skipped. A later request is served."""
    path = await made(tmp_path)
    arguments = ["-m", "memolog", "mcp", "--db", str(path), "--resource", RESOURCE]
    environment = {"PYTHONPATH": str(SOURCE)}
    program = await asyncio.create_subprocess_exec(
        sys.executable, *arguments, stdin=PIPE, stdout=PIPE, stderr=PIPE, env=environment, cwd=path.parent
    )
    garbage = [
        b"{",
        b"null",
        b"[]",
        b"\xff\xfe\x00",
        b'"text"',
        b'{"jsonrpc": "1.0"}',
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":7}}',
        b'{"jsonrpc":"2.0","id":"\\ud800","method":"tools/list"}',
        b'{"jsonrpc":"2.0","method":"notifications/nobody-knows"}',
        b"x" * 100_000,
        b"[" * 50_000,
    ]
    lines = [
        *garbage[:4],
        json.dumps({**START, "id": "start"}).encode(),
        b'{"jsonrpc":"2.0","method":"notifications/initialized"}',
        *garbage,
        b'{"jsonrpc":"2.0","id":"last","method":"tools/list","params":{}}',
    ]
    try:
        assert program.stdin is not None
        assert program.stdout is not None
        assert program.stderr is not None
        program.stdin.write(b"".join(line + b"\n" for line in lines))
        answers: list[Any] = []
        while not any(answer.get("id") == "last" for answer in answers):
            line = await asyncio.wait_for(program.stdout.readline(), 300)
            assert line, (await program.stderr.read()).decode()[-3_000:]
            answers.append(json.loads(line))
        last = next(answer for answer in answers if answer.get("id") == "last")
        assert len(last["result"]["tools"]) == 3
        program.stdin.close()
        assert await asyncio.wait_for(program.wait(), 300) == 0
    finally:
        if program.returncode is None:
            program.kill()
            await program.wait()


async def test_texts_that_no_wire_can_carry(tmp_path: Path) -> None:
    """Lone surrogates of stored texts are replaced, and the connection stays open."""
    path = await made(tmp_path)
    async with Memory(path) as memory:
        async with memory.thread("t1", resource=RESOURCE).turn() as turn:
            await turn.prepare(UserMessage("The broken \ud83d emoji stands here."))
        await memory.resource(RESOURCE).tasks().create("A title with \udc00 half a pair")
        await memory.resource(RESOURCE).working_memory().replace("# Facts\n\n- \ud800 alone\n", who="x")
    for way in (over_stdio(path), without_wire(path)):
        async with way as client:
            found = await call(client, "memory-search", action="search", query="broken emoji")
            assert "\ufffd" in json.dumps(found, ensure_ascii=False)
            for uri in ("memolog://context-pack", "memolog://working-memory", "memolog://task/T-6", "memolog://log"):
                assert (await client.read_resource(uri)).contents
            assert (await client.list_resources()).resources
            assert (await client.get_prompt("start-session", {})).messages
            # A line of several megabytes is answered like any other.
            answer = await call(client, "memory-search", action="search", query="word " * 500_000)
            assert len(json.dumps(answer)) < 40_000
            await check(client)


# ---------------------------------------------------------------- many at once, and some that go


async def test_many_clients_at_once(tmp_path: Path) -> None:
    """Twelve clients write at once. No task is lost, each has its own handle, and one client gets the claim."""
    async with web(await made(tmp_path), thread=None) as server:

        async def work(number: int) -> tuple[list[str], bool]:
            named = {"Memolog-Session": f"agent-{number}"}
            async with over_http(server.url, mode=ERAS[number % 2], headers=named) as client:
                made_tasks = await asyncio.gather(
                    *(call(client, "task-mutate", action="create", title=f"{number}.{n}") for n in range(5))
                )
                claimed = await call(client, "task-mutate", action="claim", task="T-1")
                return [one["task"]["handle"] for one in made_tasks], claimed["success"]

        done = await asyncio.gather(*map(work, range(12)))
        handles = [handle for own, _ in done for handle in own]
        assert len(set(handles)) == len(handles) == 60
        assert [won for _, won in done].count(True) == 1


async def test_clients_that_go_without_a_word(tmp_path: Path) -> None:
    """After connections are cut during calls and streams, other clients are served."""
    async with web(await made(tmp_path)) as server, over_http(server.url) as other:
        host, port = server.url.removeprefix("http://").removesuffix("/mcp").split(":")
        body = json.dumps(
            {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "task-query", "arguments": {}}}
        ).encode()
        head = "".join(f"{name}: {value}\r\n" for name, value in HEADERS.items())
        for sent in (body, body[:20], b""):
            _, writer = await asyncio.open_connection(host, int(port))
            size = f"Content-Length: {len(body)}\r\n"
            writer.write(f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n{head}{size}\r\n".encode() + sent)
            await writer.drain()
            writer.transport.abort()
        for mode in ERAS:
            is_there = asyncio.Event()
            leaving = asyncio.create_task(_listen_for_ever(server.url, mode, is_there))
            await asyncio.wait_for(is_there.wait(), 300)
            leaving.cancel()
            await asyncio.gather(leaving, return_exceptions=True)
        async with other.listen(resource_subscriptions=["memolog://context-pack"]) as changes:
            assert (await call(other, "task-mutate", action="create", title="More"))["success"]
            assert await asyncio.wait_for(anext(aiter(changes)), 300)
        await check(other)


async def _listen_for_ever(url: str, mode: str, is_there: asyncio.Event) -> None:
    async with over_http(url, mode=mode) as client:
        if mode == "legacy":
            await client.list_resources()
            is_there.set()
            await asyncio.Event().wait()
        async with client.listen(resources_list_changed=True) as changes:
            is_there.set()
            async for _ in changes:
                pass


@pytest.mark.parametrize(
    ("method", "path", "headers", "content", "codes"),
    [
        ("GET", "/mcp", {"Accept": "application/json"}, b"", {400, 406}),
        ("PUT", "/mcp", {}, b"{}", {405}),
        ("DELETE", "/mcp", {"Mcp-Session-Id": "forged"}, b"", {400, 404}),
        ("POST", "/mcp", {"Mcp-Session-Id": "forged"}, b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}', {400, 404}),
        ("POST", "/mcp", {"Content-Type": "text/plain"}, b"{}", {400, 415}),
        ("POST", "/mcp", {}, b"\xff\xff", {400}),
        ("POST", "/mcp", {}, b"[" * 100_000, {400}),
        ("POST", "/mcp", {}, b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}', {400}),
        ("POST", "/mcp", {}, b" " * 2_000_000, {413}),
        ("POST", "/mcp/../../etc", {}, b"{}", {404, 307}),
        ("POST", "/other", {}, b"{}", {404}),
        ("OPTIONS", "/mcp", {"Origin": "http://evil.example"}, b"", {405, 403}),
    ],
)
async def test_requests_that_are_none(
    method: str, path: str, headers: dict[str, str], content: bytes, codes: set[int], tmp_path: Path
) -> None:
    """Malformed requests get a status of a client error."""
    async with web(await made(tmp_path)) as server:
        async with httpx2.AsyncClient(timeout=120) as http:
            url = server.url.removesuffix("/mcp") + path
            answer = await http.request(method, url, headers={**HEADERS, **headers}, content=content)
        assert answer.status_code in codes, answer.text
        assert "Traceback" not in answer.text
        async with over_http(server.url) as client:
            await check(client)
