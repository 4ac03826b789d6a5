"""The example runs as it is, without a key and without a network."""

import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples" / "mcp_server.py"


def test_the_example_runs(tmp_path: Path) -> None:
    """It begins a session, claims, finds, is told of a change, closes, and leaves nothing on the error stream."""
    done = subprocess.run([sys.executable, str(EXAMPLE)], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "Tools: task-query, task-mutate, memory-search"
    assert "LoginSchema" in lines[3]
    assert lines[4:] == ["Told of a change: memolog://working-memory", "Closed: T-1"]
    assert done.stderr == ""
    assert list(tmp_path.iterdir()) == []
