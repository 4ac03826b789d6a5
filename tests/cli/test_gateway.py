"""The verb `proxy` as a process: it says where it listens, answers, and ends when it is told to."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any
from urllib.request import ProxyHandler, Request, build_opener

from cli.world import run

ANSWER = {
    "id": "c1",
    "model": "m",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "Noted."}, "finish_reason": "stop"}],
}


class Provider(BaseHTTPRequestHandler):
    """Answers every request with the same words."""

    def do_POST(self) -> None:
        """Answer."""
        self.rfile.read(int(self.headers["content-length"]))
        body = json.dumps(ANSWER).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Log nothing."""


def test_a_process_that_is_told_to_end(folder: Path) -> None:
    """It prints one JSON document, passes a request on with memory, and ends in order at SIGTERM."""
    provider = HTTPServer(("127.0.0.1", 0), Provider)
    threading.Thread(target=provider.serve_forever, daemon=True).start()
    command = [sys.executable, "-m", "memolog", "proxy", "--port", "0", "--json", "--resource", "alice"]
    command += ["--openai", f"http://127.0.0.1:{provider.server_port}"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=folder)
    try:
        assert process.stdout is not None
        told = json.loads(process.stdout.readline())
        body = {"model": "m", "messages": [{"role": "user", "content": "Remember the gateway."}]}
        headers = {"content-type": "application/json", "x-memolog-thread": "through"}
        request = Request(f"{told['url']}/v1/chat/completions", json.dumps(body).encode(), headers)  # noqa: S310
        with build_opener(ProxyHandler({})).open(request, timeout=60) as got:
            assert json.loads(got.read()) == ANSWER
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=60)
        assert (process.returncode, out, err) == (0, "", "")
    finally:
        process.kill()
        process.wait()
        process.stdout.close() if process.stdout else None
        process.stderr.close() if process.stderr else None
        provider.shutdown()
        provider.server_close()
    assert "Remember the «gateway»." in run("search", "gateway", "--thread", "through").out


def test_the_network_needs_a_token(folder: Path) -> None:
    """Listening to others without one is refused, with what to do; with one it is not, and the token is not shown."""
    everywhere = "0.0.0.0"  # noqa: S104 - what must be refused
    refused = run("proxy", "--host", everywhere, "--port", "0", "--seconds", "0")
    assert refused.code == 3
    assert "MEMOLOG_PROXY_TOKEN" in refused.err
    os.environ["MEMOLOG_PROXY_TOKEN"] = "open-sesame-open-sesame"
    try:
        allowed = run("proxy", "--host", everywhere, "--port", "0", "--seconds", "0")
    finally:
        del os.environ["MEMOLOG_PROXY_TOKEN"]
    assert allowed.code == 0
    assert "x-memolog-token" in allowed.out
    assert "open-sesame-open-sesame" not in allowed.out


def test_a_token_for_each_resource(folder: Path) -> None:
    """The file says which token opens whose memory; tokens are not shown, and what is wrong with the file is told."""
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
    """It says what is in the way, and what to do."""
    del folder
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        said = run("proxy", "--port", str(port), "--seconds", "0")
    assert said.code == 3
    assert f"port {port} is taken" in said.err
    assert "another --port" in said.err
    assert "path" not in said.err
