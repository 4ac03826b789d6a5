"""Tests of the verb `ui`."""

import asyncio
import json
import signal
import stat
import subprocess
import sys
from asyncio.subprocess import PIPE
from pathlib import Path

import httpx
import pytest

from cli.world import run


async def test_a_process_that_is_told_to_end(folder: Path) -> None:
    """The address that is printed opens the page, and the process stops without an error although a page is open."""
    words = "-m memolog ui --port 0 --json"
    process = await asyncio.create_subprocess_exec(sys.executable, *words.split(), stdout=PIPE, stderr=PIPE)
    try:
        assert process.stdout is not None
        told = json.loads(await process.stdout.readline())
        async with httpx.AsyncClient(trust_env=False, follow_redirects=True, timeout=120) as http:
            assert "Overview" in (await http.get(told["url"])).text
            async with http.stream("GET", f"http://127.0.0.1:{told['port']}/events") as events:
                assert events.headers["content-type"].startswith("text/event-stream")
                process.send_signal(signal.SIGTERM)
                assert await process.communicate() == (b"", b"")
        assert process.returncode == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


def test_the_token_is_not_among_the_arguments_of_the_browser(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The browser gets a file that only this user can read. It leads to the address, and is deleted at the end."""
    opened: dict[str, tuple[str, int]] = {}

    def open_it(url: str) -> None:
        path = Path(url.removeprefix("file://"))
        opened[url] = path.read_text("utf-8"), stat.S_IMODE(path.stat().st_mode | path.parent.stat().st_mode)

    monkeypatch.setattr("webbrowser.open", open_it)
    monkeypatch.setenv("MEMOLOG_UI_TOKEN", "open-sesame-&-open-sesame")
    said = run("ui", "--port", "0", "--seconds", "0", "--open")
    assert said.code == 0
    ((url, (text, mode)),) = opened.items()
    assert "sesame" not in url
    assert "/?token=open-sesame-%26-open-sesame" in text
    assert mode == 0o700
    assert not Path(url.removeprefix("file://")).exists()


def test_the_network_needs_a_token(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Listening on the network without a token is refused. A token of the environment is used and not shown."""
    words = ("ui", "--host", "0.0.0.0", "--port", "0", "--seconds", "0")  # noqa: S104 - what must be refused
    refused = run(*words)
    assert refused.code == 3
    assert "MEMOLOG_UI_TOKEN" in refused.err
    monkeypatch.setenv("MEMOLOG_UI_TOKEN", "open-sesame-open-sesame")
    allowed = run(*words)
    assert allowed.code == 0
    assert "Other machines can reach" in allowed.out
    assert "open-sesame-open-sesame" not in allowed.out


def test_a_missing_library_and_a_missing_database(folder: Path) -> None:
    """The errors say what to install, and which database does not exist."""
    program = "import sys; sys.modules['jinja2'] = None; from memolog.__main__ import main; main()"
    said = subprocess.run([sys.executable, "-c", program, "ui"], capture_output=True, text=True, check=False)
    assert said.returncode == 3
    assert 'pip install "memolog[ui]"' in said.stderr
    assert "nowhere.db" in run("ui", "--db", "nowhere.db").err
