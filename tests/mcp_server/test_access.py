"""Tokens, host names, resources and read-only servers."""

import asyncio
import json
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client

from mcp_server.doors import ERAS, RESOURCE, SOURCE, START, TAKES, TOKEN, call, made, over_http, over_stdio, web
from memolog import Memory, SyncMemory, UserMessage
from memolog.apps.mcp import Served, build_server, open_door, read_token
from memolog.apps.network import is_loopback
from memolog.errors import ConfigError, InputError, MemologError, StoreUnavailable


async def post(url: str, body: object = START, **headers: str) -> httpx2.Response:
    """Send one request."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    async with httpx2.AsyncClient(timeout=120) as http:
        return await http.post(url, content=content, headers={**TAKES, **headers})


# ---------------------------------------------------------------- the token


@pytest.mark.parametrize(
    "authorization",
    [
        None,
        "",
        "Bearer",
        "Bearer wrong-token-of-some-length",
        f"Bearer {TOKEN}x",
        f"Bearer {TOKEN[:-1]}",
        f"Basic {TOKEN}",
        TOKEN,
        f"Bearer {TOKEN.upper()}",
        f"Bearer {TOKEN}, Bearer {TOKEN}",
    ],
)
async def test_a_wrong_token_is_refused(authorization: str | None, tmp_path: Path) -> None:
    """Without the right token, every request is refused."""
    headers = {} if authorization is None else {"Authorization": authorization}
    async with web(await made(tmp_path)) as server:
        for url in (server.url, server.url.removesuffix("/mcp") + "/other"):
            answer = await post(url, **headers)
            assert answer.status_code == 401
            assert answer.headers["www-authenticate"].startswith("Bearer")
            assert answer.json()["error"] == "invalid_token"
        assert (await post(server.url, Authorization=f"bearer {TOKEN}")).status_code == 200
        async with httpx2.AsyncClient(timeout=120) as http:
            # Which of two headers counts is not guessed.
            twice = [*TAKES.items(), ("Authorization", f"Bearer {TOKEN}"), ("Authorization", "Bearer other")]
            assert (await http.post(server.url, json=START, headers=twice)).status_code == 401


@pytest.mark.parametrize(
    ("host", "options", "words"),
    [
        ("127.0.0.1", {"token": None}, "There is no token"),
        ("0.0.0.0", {"token": None, "without_token": True}, "loopback addresses only"),  # noqa: S104 - what is refused
        ("192.0.2.1", {"token": None, "without_token": True, "allowed_hosts": ["x"]}, "loopback addresses only"),
        ("0.0.0.0", {"token": TOKEN}, "--allow-host"),  # noqa: S104
        ("::", {"token": TOKEN}, "--allow-host"),
        ("192.0.2.1", {"token": TOKEN}, "cannot listen"),
    ],
)
def test_a_door_that_anybody_could_open_is_not_opened(host: str, options: dict[str, Any], words: str) -> None:
    """Without a token, only loopback is allowed, and only with an option."""
    with pytest.raises(MemologError, match=words) as told:
        open_door(host, 0, **options)
    assert isinstance(told.value, ConfigError | StoreUnavailable)


def test_what_is_loopback() -> None:
    """Only loopback addresses count, not names that begin like one."""
    assert all(map(is_loopback, ("127.0.0.1", "127.8.8.8", "localhost", "LOCALHOST", "::1")))
    assert not any(map(is_loopback, ("0.0.0.0", "::", "127.0.0.1.example.org", "10.0.0.1", "")))  # noqa: S104


def test_where_the_token_comes_from(tmp_path: Path) -> None:
    """A file has priority over the variable. Short and unsendable tokens are refused, and no error shows the token."""
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}-of-a-file\n")
    assert read_token(TOKEN, str(file)) == f"{TOKEN}-of-a-file"
    assert read_token(f" {TOKEN}\n", None) == TOKEN
    assert read_token(None, None) is read_token("  ", None) is None
    for bad in ("short", "with space in the token", "ü" * 20, "x" * 20 + "\x00"):
        with pytest.raises(InputError, match="cannot be used") as told:
            read_token(bad, None)
        assert bad not in str(told.value)
    with pytest.raises(InputError, match="cannot be read"):
        read_token(TOKEN, str(tmp_path / "missing"))
    file.write_text("")
    with pytest.raises(InputError, match="cannot be used"):
        read_token(TOKEN, str(file))


# ---------------------------------------------------------------- names


async def test_pages_that_pose_as_this_server_are_refused(tmp_path: Path) -> None:
    """Requests for another host name or from another origin are refused, also on this machine."""
    async with web(await made(tmp_path), token=None) as server:
        port = server.url.split(":")[2].split("/")[0]
        assert (await post(server.url)).status_code == 200
        assert (await post(server.url, Host=f"localhost:{port}")).status_code == 200
        assert (await post(server.url, Origin=f"http://127.0.0.1:{port}")).status_code == 200
        assert (await post(server.url, Host=f"evil.example:{port}")).status_code == 421
        assert (await post(server.url, Host=f"127.0.0.1.evil.example:{port}")).status_code == 421
        assert (await post(server.url, Origin="http://evil.example")).status_code == 403
        assert (await post(server.url, Origin="null")).status_code == 403


# ---------------------------------------------------------------- whose memory, and what may be changed


async def test_no_argument_leads_to_somebody_elses_memory(tmp_path: Path) -> None:
    """No argument and no URI reads the memory of another resource."""
    path = await made(tmp_path)
    async with Memory(path) as memory:
        async with memory.thread("hers", resource="bob").turn() as turn:
            await turn.prepare(UserMessage("The secret of Bob is xylophone."))
        await memory.resource("bob").tasks().create("Secret task of Bob")
        await memory.resource("bob").working_memory().replace("# Secret of Bob", who="bob")
    async with web(path) as server, over_http(server.url) as client:
        answers = [
            await call(client, "memory-search", action="search", query="xylophone", resource="bob"),
            await call(client, "memory-search", action="search", query="xylophone", thread="hers"),
            await call(client, "memory-search", action="recall", target="1-2", thread="hers", resource="bob"),
            await call(client, "memory-search", action="recall", target="working-memory", resource="bob"),
            await call(client, "task-query", action="list", resource="bob"),
            await call(client, "task-query", action="search", query="Secret"),
        ]
        read = [
            (await client.read_resource(uri)).model_dump_json()
            for uri in ("memolog://log", "memolog://context-pack", "memolog://working-memory")
        ]
    assert "ecret" not in json.dumps([answer.get("results", answer.get("tasks", "")) for answer in answers])
    assert "Bob" not in json.dumps([read, answers[:5]])


@pytest.mark.parametrize("mode", ERAS)
async def test_a_server_that_only_shows(mode: str, tmp_path: Path) -> None:
    """A read-only server does not offer task-mutate, refuses it, and writes nothing."""
    path = await made(tmp_path)
    async with web(path, read_only=True) as server, over_http(server.url, mode=mode) as client:
        tools = (await client.list_tools()).tools
        assert [tool.name for tool in tools] == ["task-query", "memory-search"]
        for name in ("task-mutate", "task_mutate", "mcp__memolog__task-mutate"):
            refused = await call(client, name, action="create", title="No")
            assert (refused["success"], refused["retryable"]) == (False, False)
            assert "read-only" in refused["error"]
        assert (await call(client, "task-query", action="ready"))["success"]
        assert (await client.read_resource("memolog://context-pack")).contents
        assert "can only be read here" in (client.instructions or "")
        assert [prompt.name for prompt in (await client.list_prompts()).prompts] == ["start-session"]
        assert "task-mutate" not in (await client.get_prompt("start-session", {})).model_dump_json()
        with pytest.raises(Exception, match="There is no prompt"):
            await client.get_prompt("hand-over", {})
    async with Memory(path) as memory:
        assert len((await memory.resource(RESOURCE).tasks().list()).items) == 5


async def test_clients_claim_each_for_itself(tmp_path: Path) -> None:
    """Over HTTP, each client is a session. A session name in a header is used instead."""
    async with web(await made(tmp_path), thread=None) as server:
        async with over_http(server.url, mode="legacy") as one, over_http(server.url, mode="legacy") as other:
            assert (await call(one, "task-mutate", action="claim", task="T-1"))["success"]
            assert "held" in (await call(other, "task-mutate", action="claim", task="T-1"))["error"]
        mine, yours = {"Memolog-Session": "agent-1"}, {"Memolog-Session": "agent-2"}
        async with over_http(server.url, headers=mine) as one, over_http(server.url, headers=yours) as other:
            assert (await call(one, "task-mutate", action="claim", task="T-3"))["success"]
            assert "agent-1" in (await call(other, "task-mutate", action="claim", task="T-3"))["error"]
        async with over_http(server.url, headers=mine) as again:
            closed = await call(again, "task-mutate", action="close", task="T-3", summary="Done.")
            assert closed["success"]


async def test_a_thread_that_does_not_exist_yet(tmp_path: Path) -> None:
    """A server for a thread that does not exist answers, and reading creates nothing."""
    path = await made(tmp_path)
    async with web(path, thread="new") as server, over_http(server.url) as client:
        for uri in ("memolog://log", "memolog://context-pack", "memolog://working-memory"):
            assert (await client.read_resource(uri)).contents
        assert (await call(client, "task-query", action="ready"))["success"]
        assert (await client.get_prompt("start-session", {})).messages
        store = (await server.served.memory.open()).store
        assert await store.threads.count(RESOURCE) == 1
        assert (await call(client, "task-mutate", action="claim", task="T-1"))["success"]
        assert (await call(client, "task-query", action="show", task="current"))["task"]["handle"] == "T-1"


# ---------------------------------------------------------------- as a program


def _program(path: Path) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "memolog", "mcp", "--db", str(path), "--http", "--port", "0"]
    environment = {"PYTHONPATH": str(SOURCE), "COLUMNS": "200", "MEMOLOG_MCP_TOKEN": TOKEN}
    return subprocess.Popen(command, cwd=path.parent, env=environment, stderr=subprocess.PIPE, text=True)


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
async def test_the_program_over_http(tmp_path: Path) -> None:
    """The program prints its address, serves, and stops at SIGTERM while a client listens."""
    with _program(await made(tmp_path)) as program:
        try:
            assert program.stderr is not None
            url = program.stderr.readline().split()[-1]
            assert url.startswith("http://127.0.0.1:")
            async with over_http(url) as client, client.listen(resources_list_changed=True) as changes:
                assert (await call(client, "task-query", action="ready"))["success"]
                program.send_signal(signal.SIGTERM)
                assert [event async for event in changes] == []
            assert program.wait(300) == 0
            assert "Traceback" not in program.stderr.read()
        finally:
            program.kill()
    port = int(url.split(":")[2].split("/")[0])
    with pytest.raises(OSError), socket.create_connection(("127.0.0.1", port), 1):
        pass


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
@pytest.mark.parametrize(("told", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 0)])
def test_the_program_over_its_streams(told: signal.Signals, code: int, tmp_path: Path) -> None:
    """The program stops at SIGINT and SIGTERM, although its client has not closed the streams."""
    path = asyncio.run(made(tmp_path))
    command = [sys.executable, "-m", "memolog", "mcp", "--db", str(path)]
    pipe, environment = subprocess.PIPE, {"PYTHONPATH": str(SOURCE)}
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, env=environment) as program:
        try:
            assert program.stdin is not None
            assert program.stdout is not None
            program.stdin.write(json.dumps(START) + "\n")
            program.stdin.flush()
            assert json.loads(program.stdout.readline())["result"]["serverInfo"]["name"] == "memolog"
            program.send_signal(told)
            assert program.wait(300) == code
            assert program.stderr is not None
            assert program.stderr.read() == ""
        finally:
            program.kill()


async def test_two_programs_on_one_file(tmp_path: Path) -> None:
    """A server sees the changes of another server."""
    path = await made(tmp_path)
    async with over_stdio(path, "--session", "one") as one, web(path) as server, over_http(server.url) as other:
        assert (await call(one, "task-mutate", action="claim", task="T-1"))["success"]
        assert "one" in (await call(other, "task-mutate", action="claim", task="T-1"))["error"]
    assert isinstance(one, Client)


def test_what_is_no_memory_is_not_served(tmp_path: Path) -> None:
    """Arguments that are not a Memory or a Served are refused."""
    wrong: Any = "memolog.db"
    with pytest.raises(InputError, match="got str"):
        Served(memory=wrong, resource=RESOURCE)
    with pytest.raises(InputError, match="must be a Served"):
        build_server(wrong)
    with SyncMemory(str(tmp_path / "m.db")) as wrong, pytest.raises(InputError, match="got SyncMemory"):
        Served(memory=wrong, resource=RESOURCE)
