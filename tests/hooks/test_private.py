"""Text between `<private>` tags is neither in the spool nor in the database."""

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hooks.world import Desk, Session, brief
from memolog.apps.hooks.events import PrivateFilter, public, public_text

SECRET = "swordfish-4711"


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("nothing here", "nothing here"),
        (f"a <private>{SECRET}</private> b", "a  b"),
        (f"a\n<private>\nline\n{SECRET}\n</private>\nb", "a\n\nb"),
        (f"a <private>x <private>{SECRET}</private> {SECRET}</private> b", "a  b"),
        (f"a <private>{SECRET}", "a "),
        (f"a <private>{SECRET}</private> b <private>{SECRET}", "a  b "),
        (f"a <PRIVATE>{SECRET}</Private > b", "a  b"),
        (f'a <private why="none of yours">{SECRET}</private> b', "a  b"),
        (f"a < private >{SECRET}< / private > b", "a  b"),
        (f"a <private {SECRET}", "a "),
        ("a </private> b", "a  b"),
        ("a <private/> b", "a  b"),
        ("a <private-key>b</private-key>", "a <private-key>b</private-key>"),
        ("the private key", "the private key"),
        ("<memory-pack>what we said ourselves</memory-pack>hello", "hello"),
    ],
)
def test_private_text_is_left_out(text: str, kept: str) -> None:
    """Private text is removed over several lines, nested, unclosed and in any spelling. Similar tags stay."""
    assert public_text(text) == kept


@given(st.lists(st.sampled_from(["<private>", "</private>", "<private", "x", "y\n", "<b>", ">"]), max_size=30))
def test_nothing_of_an_open_tag_comes_through(pieces: list[str]) -> None:
    """Text after an opening tag is removed until the tag is closed, whatever comes before."""
    before = "".join(pieces)
    assert SECRET not in public_text(f"{before}<private>{SECRET}</private>")
    assert SECRET not in public_text(f"{before}<private>{SECRET}")


@given(st.text(alphabet="ab <>/\n"))
def test_public_text_is_not_touched(text: str) -> None:
    """A text without tags does not change."""
    assert public_text(text) == text


def test_a_tag_may_be_closed_in_a_later_text() -> None:
    """A tag can be opened in one part of a message and closed in another part."""
    private = PrivateFilter()
    assert [private.public(text) for text in ("a <private>x", SECRET, "y</private> b")] == ["a ", "", " b"]


@pytest.mark.parametrize(
    "value",
    [
        {"command": f"echo <private>{SECRET}</private>"},
        [f"<private>{SECRET}"],
        json.dumps({"cmd": f"<private>{SECRET}</private>"}),
        json.dumps({"cmd": f"<private>{SECRET}</private>"}).replace("<", "\\u003c"),
        f'{{"cmd": "cut off <private>{SECRET}',
        {f"<private>{SECRET}</private>": 1},
    ],
)
def test_private_text_in_values(value: Any) -> None:
    """Private text is removed from JSON values, also from texts that contain JSON."""
    assert SECRET not in json.dumps(public(value))


def test_a_text_that_is_json_stays_json() -> None:
    """A text that contains JSON is still valid JSON afterwards."""
    assert json.loads(public(json.dumps({"cmd": f"ls <private>{SECRET}</private>", "n": 1}))) == {"cmd": "ls ", "n": 1}


@pytest.mark.parametrize("host", ["claude-code", "codex"])
async def test_private_text_is_in_no_file(desk: Desk, tmp_path: Path, host: Any) -> None:
    """No private text of prompts, arguments, results and answers is stored, from events or from the transcript."""
    session = Session(host=host, folder=tmp_path / "host", clock=desk.clock, project=str(tmp_path))
    session.folder.mkdir()
    hidden = f"<private>{SECRET}\n{SECRET}"
    told = {"tool_name": "Bash", "tool_use_id": "call_x", "tool_input": {"command": f"echo {hidden}"}}
    steps = [
        *session.turn(f"use this: {hidden}</private> please"),
        ("event", session.event("PostToolUse", **told, tool_response={"stdout": hidden})),
        *session._line("call", f"echo {hidden}</private>", "call_x"),
        *session._line("result", hidden, "call_x"),
    ]
    desk.live(session, steps)
    written = json.dumps(desk.options(host).spool.peek(f"{host}-{session.name}"))
    assert "use this" in written
    assert SECRET not in written
    await desk.sweep()
    await desk.later()
    stored = await desk.messages(session.name)
    assert brief(stored)[0] == "user use this:  please"
    assert "call call_x" in brief(stored)
    with sqlite3.connect(desk.db) as database:
        dumped = "\n".join(database.iterdump())
    assert "use this" in dumped
    assert SECRET not in dumped
