"""The examples of help texts and of the documentation work, and the `--json` output of each command is one document."""

import json
import re
import shlex
from pathlib import Path

import pytest

from cli.world import examples, help_of, names, run

COMMANDS = [pytest.param(words, id=" ".join(words)) for words in names()]
EXAMPLES = [pytest.param(words, arguments, id=" ".join(arguments)) for words, arguments in examples()]


@pytest.mark.parametrize(("words", "arguments"), EXAMPLES)
def test_example_works(words: tuple[str, ...], arguments: list[str], folder: Path) -> None:
    """An example of a help text succeeds on a used database, and prints something."""
    assert tuple(arguments[: len(words)]) == words
    done = run(*arguments)
    assert done.code == 0, done.err + done.out
    # A worker reports its progress, which is all that it prints.
    assert (done.err if words == ("worker",) else done.out).strip()


@pytest.mark.parametrize(("words", "arguments"), EXAMPLES)
def test_json_is_one_document(words: tuple[str, ...], arguments: list[str], folder: Path) -> None:
    """With --json, standard output has only JSON, and stderr is empty."""
    done = run(*arguments, "--json")
    assert done.code == 0, done.err + done.out
    # Events come one a line: whoever watches does not wait for the last.
    documents = done.out.splitlines() if words in {("watch",), ("worker",)} else [done.out]
    assert [json.loads(document) for document in documents] != []
    assert done.err == ""


@pytest.mark.parametrize("words", COMMANDS)
def test_help_names_what_all_have_in_common(words: tuple[str, ...]) -> None:
    """Every command has --json, --db and a description."""
    text = help_of(words)
    assert "--json" in text
    assert "--db" in text or words[0] in {"bench", "config", "eval", "uninstall"}
    assert len(text.split("Options:")[0].splitlines()) > 2


# ---------------------------------------------------------------- the documentation

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)
# This page has the examples of the help texts. The verbs below need files or programs that do not exist here.
ELSEWHERE = {ROOT / "docs" / "cli.md"}
NOT_HERE = {"demo", "install", "mcp", "proxy", "ui", "uninstall", "worker"}


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


@pytest.mark.parametrize("name", ["watch", "worker"])
def test_help_of_commands_that_print_lines(name: str) -> None:
    """With --json they print several documents, and their help says so."""
    assert "Print a JSON document on each line" in " ".join(help_of((name,)).replace("│", " ").split())
