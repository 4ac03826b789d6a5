"""A story through the tools alone: what one process planned, said and closed, another finds, recalls and finishes."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from kit.engines import engines
from tools import story_child
from tools.story_child import CODE

_CHILD = str(Path(story_child.__file__))
engine_name = engines("sqlite", "postgres")


def run(which: str, address: str) -> str:
    """Run one session in a process of its own."""
    done = subprocess.run([sys.executable, _CHILD, which, address], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_two_sessions(address: str) -> None:
    """Session 1 plans, works and closes; session 2 asks, searches, recalls the exact code, sees the facts, closes the rest."""
    run("first", address)
    seen: dict[str, Any] = json.loads(run("second", address))
    assert [task["title"] for task in seen["ready"]["tasks"]] == ["Add the login endpoint"]
    assert seen["ready"]["counts"] == {"ready": 1, "blocked": 1, "in_progress": 0}
    found = seen["task"]["tasks"][0]
    assert found["title"] == "Write the login schema"
    assert "src/schemas/auth.ts" in found["summary"]
    assert CODE in seen["recall"]["text"]
    assert "Fastify, not Express" in json.dumps(seen["facts"])
    assert [ref["title"] for ref in seen["first"]["unblocked"]] == ["Document the login"]
    assert seen["first"]["next"]["task"]["title"] == "Document the login"
    assert seen["second"]["next"] is None
    assert seen["left"]["tasks"] == []
    assert "Fastify, not Express" in seen["context"]
