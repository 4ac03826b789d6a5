"""The examples of the adapters run by themselves, without a key, and show what their guides say."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize("name", ["with_langchain", "with_agent_framework"])
def test_an_agent_remembers_across_conversations(name: str, tmp_path: Path) -> None:
    """In the second conversation the model finds what was said in the first; so it does when the program runs again."""
    for _ in range(2):
        program = [sys.executable, "-W", "error", str(EXAMPLES / f"{name}.py")]
        done = subprocess.run(program, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        lines = done.stdout.splitlines()
        assert lines[0].startswith("monday:")
        assert "  memory-search found: True" in lines
        assert lines[-1] == "  We settled on argon2id, with 64 MiB and three passes."
