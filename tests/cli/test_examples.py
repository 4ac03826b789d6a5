"""Every command has an example in its help text, every example works, and its `--json` output is one document."""

import json
from pathlib import Path

import pytest

from cli.commands import examples, help_of, names
from cli.world import run

COMMANDS = [pytest.param(words, id=" ".join(words)) for words in names()]
EXAMPLES = [pytest.param(words, arguments, id=" ".join(arguments)) for words, arguments in examples()]
ASKED = {
    *("demo", "init", "status", "threads", "log", "context", "search", "recall", "observe", "buffer", "activate"),
    *("reflect", "compact", "compactions", "uncompact", "history", "diff", "as-of", "revert", "watch", "cost"),
    *("import", "export", "forget", "backup", "restore", "doctor", "config", "bench", "install", "uninstall"),
    *(f"tasks {verb}" for verb in ("list", "ready", "show", "create", "claim", "close", "link", "search")),
    *(f"wm {verb}" for verb in ("show", "set", "edit", "versions", "diff", "restore")),
}


def test_every_verb_that_was_asked_for_is_there() -> None:
    """No command is removed."""
    assert ASKED - {" ".join(words) for words in names()} == set()


@pytest.mark.parametrize(("words", "arguments"), EXAMPLES)
def test_example_works(words: tuple[str, ...], arguments: list[str], folder: Path) -> None:
    """An example of a help text succeeds on a used database, and prints something."""
    assert tuple(arguments[: len(words)]) == words
    done = run(*arguments)
    assert done.code == 0, done.err + done.out
    assert done.out.strip()


@pytest.mark.parametrize(("words", "arguments"), EXAMPLES)
def test_json_is_one_document(words: tuple[str, ...], arguments: list[str], folder: Path) -> None:
    """With --json, standard output has only JSON, and stderr is empty."""
    done = run(*arguments, "--json")
    assert done.code == 0, done.err + done.out
    # Events come one a line: whoever watches does not wait for the last.
    documents = done.out.splitlines() if words == ("watch",) else [done.out]
    assert [json.loads(document) for document in documents] != []
    assert done.err == ""


@pytest.mark.parametrize("words", COMMANDS)
def test_help_names_what_all_have_in_common(words: tuple[str, ...]) -> None:
    """Every command has --json, --db and a description."""
    text = help_of(words)
    assert "--json" in text
    assert "--db" in text or words in {("bench",), ("config",), ("uninstall",)}
    assert len(text.split("Options:")[0].splitlines()) > 2
