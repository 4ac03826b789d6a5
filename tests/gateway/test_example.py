"""The example of the gateway runs as it is, and says what it should."""

import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples" / "proxy.py"


def test_the_example_runs(tmp_path: Path) -> None:
    """The provider is sent the whole conversation, though the client sends only what is new."""
    done = subprocess.run([sys.executable, EXAMPLE], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    first = "the first was: We deploy on Fridays."
    assert done.stdout.splitlines() == [f"You have told me {count} things; {first}" for count in (1, 2, 3)]
