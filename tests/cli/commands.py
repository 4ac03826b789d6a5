"""The commands as a user meets them: their names, and the examples in their help texts."""

import re
import shlex
from collections.abc import Iterator
from typing import Any

import typer.main

from cli.world import run
from memolog.apps.cli.main import app

EXAMPLE = re.compile(r"^ *Example: memolog (.+)$", re.MULTILINE)


def names() -> list[tuple[str, ...]]:
    """Return the words that name each command."""
    return list(_names(typer.main.get_command(app), ()))


def _names(command: Any, words: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    if not hasattr(command, "commands"):
        yield words
        return
    for name, inner in command.commands.items():
        yield from _names(inner, (*words, name))


def help_of(words: tuple[str, ...]) -> str:
    """Return what `--help` prints."""
    done = run(*words, "--help")
    assert done.code == 0
    return done.out


def example_of(words: tuple[str, ...]) -> list[str]:
    """Return the arguments of the example in the help text of a command."""
    found = EXAMPLE.findall(help_of(words))
    assert len(found) == 1, f"memolog {' '.join(words)} --help has no example"
    return shlex.split(found[0])
