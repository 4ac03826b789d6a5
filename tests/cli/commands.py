"""The names of the commands, and the examples in their help texts."""

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


def examples_of(words: tuple[str, ...]) -> list[list[str]]:
    """Return the arguments of each example in the help text of a command."""
    found = EXAMPLE.findall(help_of(words))
    assert found, f"memolog {' '.join(words)} --help has no example"
    return [shlex.split(line) for line in found]


def examples() -> list[tuple[tuple[str, ...], list[str]]]:
    """Return every example of every command, with the words that name the command."""
    return [(words, arguments) for words in names() for arguments in examples_of(words)]
