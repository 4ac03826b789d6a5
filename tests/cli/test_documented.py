"""The commands that the documentation shows can be run."""

import re
import shlex
from pathlib import Path

import pytest

from cli.world import run

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)
# The reference is made from the commands, and its examples are run for themselves. The rest makes or needs what is not here.
ELSEWHERE = {ROOT / "docs" / "cli.md"}
NOT_HERE = {"demo", "install", "mcp", "proxy", "uninstall"}


def blocks() -> list[object]:
    """Return the `memolog` lines of each shell block in the documentation."""
    found: list[object] = []
    for page in sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]):
        for number, block in enumerate(
            BLOCK.findall(page.read_text("utf-8")) if page not in ELSEWHERE else (), start=1
        ):
            lines = [shlex.split(line, comments=True) for line in block.replace("\\\n", " ").splitlines()]
            ours = [words[1:] for words in lines if words[:1] == ["memolog"] and words[1] not in NOT_HERE]
            if ours:
                found.append(pytest.param(ours, id=f"{page.relative_to(ROOT)}-{number}"))
    return found


@pytest.mark.parametrize("lines", blocks())
def test_a_block_of_the_documentation(lines: list[list[str]], folder: Path) -> None:
    """Run the lines of one block in order. The exit code is 0 or 1, and there is no error."""
    (folder / "conversations.json").write_text('[{"role": "user", "content": "Hello"}]')
    for words in lines:
        more = ["--seconds", "0"] if words[0] == "watch" else []
        # A shell would put the user's own folders in their place; a project is a resource.
        here = [word.replace("~/.memolog/", "").replace("$PWD", "alice") for word in words]
        done = run(*here, *more)
        assert done.code in {0, 1}, done.err + done.out
        assert "Error" not in done.err
