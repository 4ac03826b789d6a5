"""The examples of the adapters run by themselves, without a key, and show what their guides say."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
FOUND = "  We settled on argon2id, with 64 MiB and three passes."


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("with_openai", ["  We settled on argon2id."]),
        ("with_anthropic", ["  argon2id, with 64 MiB."]),
        ("with_guards", ["hello -> answered"]),
        ("with_langchain", ["  memory-search found: True", FOUND]),
        ("with_agent_framework", ["  memory-search found: True", FOUND]),
        ("openai_agents", ["model: Noted.", "found: True", "model: On Fridays."]),
        ("pydantic_ai_agent", ["> What is the rate limit?", "4,096"]),
    ],
)
def test_an_example_runs_twice(name: str, shown: list[str], tmp_path: Path) -> None:
    """By itself, in an empty folder, and again on the memory that it left there."""
    for _ in range(2):
        program = [sys.executable, "-W", "error", str(EXAMPLES / f"{name}.py")]
        done = subprocess.run(program, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        places = [done.stdout.rfind(line) for line in shown]
        assert -1 < places[0] <= places[-1]
