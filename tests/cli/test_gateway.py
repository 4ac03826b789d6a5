"""Tests of the verb `proxy`."""

import asyncio
import json
import signal
import socket
import sys
from asyncio.subprocess import PIPE
from pathlib import Path

import httpx
import pytest

from cli.world import run
from gateway.upstream import Upstream, running


async def test_a_process_that_is_told_to_end(folder: Path) -> None:
    """The proxy prints one JSON document, passes a request on with memory, and stops without an error at SIGTERM."""
    async with running(Upstream(lambda _: "Noted.")) as provider, httpx.AsyncClient(trust_env=False) as http:
        words = f"-m memolog proxy --port 0 --json --resource alice --openai {provider}"
        process = await asyncio.create_subprocess_exec(sys.executable, *words.split(), stdout=PIPE, stderr=PIPE)
        try:
            assert process.stdout is not None
            told = json.loads(await process.stdout.readline())
            body = {"model": "m", "messages": [{"role": "user", "content": "Remember the gateway."}]}
            url, headers = f"{told['url']}/v1/chat/completions", {"x-memolog-thread": "through"}
            got = await http.post(url, json=body, headers=headers, timeout=60)
            assert got.json()["choices"][0]["message"]["content"] == "Noted."
            process.send_signal(signal.SIGTERM)
            assert await process.communicate() == (b"", b"")
            assert process.returncode == 0
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
    found = await asyncio.to_thread(run, "search", "gateway", "--thread", "through")
    assert "Remember the «gateway»." in found.out


def test_the_network_needs_a_token(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Listening on the network without a token is refused. A token of the environment is used and not shown."""
    words = ("proxy", "--host", "0.0.0.0", "--port", "0", "--seconds", "0")  # noqa: S104 - what must be refused
    refused = run(*words)
    assert refused.code == 3
    assert "MEMOLOG_PROXY_TOKEN" in refused.err
    monkeypatch.setenv("MEMOLOG_PROXY_TOKEN", "open-sesame-open-sesame")
    allowed = run(*words)
    assert allowed.code == 0
    assert "x-memolog-token" in allowed.out
    assert "open-sesame-open-sesame" not in allowed.out


def test_a_token_for_each_resource(folder: Path) -> None:
    """The file has a token for each resource. Tokens are not shown. Errors of the file are reported."""
    (folder / "tokens").write_text("alices-own-token-1234 alice\nbobs-own-token-123456 bob\n", "utf-8")
    said = run("proxy", "--port", "0", "--seconds", "0", "--tokens-file", "tokens", "--json")
    assert said.code == 0, said.err
    assert (said.document["token"], said.document["resources"]) == (True, ["alice", "bob"])
    assert "own-token" not in said.out
    mixed = run("proxy", "--port", "0", "--seconds", "0", "--tokens-file", "tokens", "--resource", "alice")
    assert (mixed.code, "--resource" in mixed.err) == (3, True)
    missing = run("proxy", "--port", "0", "--seconds", "0", "--tokens-file", "nowhere")
    assert (missing.code, "nowhere" in missing.err) == (2, True)


def test_a_port_that_is_taken(folder: Path) -> None:
    """The error names the reason and the option to change."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        said = run("proxy", "--port", str(port), "--seconds", "0")
    assert said.code == 3
    assert f"another program uses port {port}" in said.err
    assert "another --port" in said.err
    assert "path" not in said.err
