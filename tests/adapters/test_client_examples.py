"""The examples of plain clients and of guards run by themselves, without a key, and show what their guides say."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("with_openai", "  We settled on argon2id."),
        ("with_anthropic", "  argon2id, with 64 MiB."),
        ("with_guards", "hello -> answered"),
    ],
)
def test_an_example_runs_twice(name: str, line: str, tmp_path: Path) -> None:
    """By itself, in an empty folder, and again on the memory that it left there."""
    for _ in range(2):
        program = [sys.executable, "-W", "error", str(EXAMPLES / f"{name}.py")]
        done = subprocess.run(program, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert line in done.stdout.splitlines()
