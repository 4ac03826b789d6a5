"""Hooks beside the usual: a database on a server, and the example that plays a host."""

import subprocess
import sys
from pathlib import Path

from conftest import FakeClock
from hooks.world import Desk, Session, brief

EXAMPLE = Path(__file__).parents[2] / "examples" / "coding_agent.py"


async def test_the_database_may_be_a_server(postgres_url: str, clock: FakeClock, tmp_path: Path) -> None:
    """Events wait in the user's own folder, and are stored on the server, once."""
    desk = Desk(db=tmp_path, clock=clock, server=postgres_url)
    session = Session(host="claude-code", folder=tmp_path, clock=clock, project=str(tmp_path))
    for turn in range(10):
        for step in session.turn(f"turn {turn}"):
            # Every other turn its events are told twice.
            desk.live(session, [step] * (2 if turn % 2 and step[0] == "event" else 1))
        await desk.sweep()
    assert Path(desk.options("codex").spool.folder).parent == tmp_path / "home"
    desk.tell("claude-code", session.event("SessionEnd", reason="exit"))
    await desk.sweep()
    await desk.later()
    assert brief(await desk.messages(session.name)) == session.said
    said = desk.tell("claude-code", {"hook_event_name": "SessionStart", "session_id": "next", "cwd": str(tmp_path)})
    assert "turn 9" in said


def test_the_example_runs() -> None:
    """It needs no key and no agent, and what was private is not in it."""
    done = subprocess.run([sys.executable, str(EXAMPLE)], capture_output=True, text=True, check=True)
    assert "Fridays only" in done.stdout
    assert done.stdout.endswith("private text is in it: False\n")
