"""Modules, classes and functions are named for what they do; a function can be read without scrolling.

Docstrings, sorted exports and printing are checked by ruff.
"""

import ast
import re

from architecture.source import definitions, modules

MOST_FUNCTION_LINES = 60
EMPTY_NAMES = {"utils", "helpers", "common", "manager", "base2"}


def words_of(name: str) -> set[str]:
    """Return the lower-case words of a name, in either spelling: `RunManager` and `run_manager`."""
    return {word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+", name)}


def test_names_say_something() -> None:
    """No module, class or function is named for being useful in general."""
    assert words_of("memolog.store_utils") >= {"utils"} <= words_of("RunUtils")
    named = [(module.place, word) for module in modules() for word in words_of(module.name)]
    named += [
        (module.at(node, node.name), word)
        for module in modules()
        for node in definitions(module.tree)
        for word in words_of(node.name)
    ]
    assert [place for place, word in named if word in EMPTY_NAMES] == []


def test_functions_are_short() -> None:
    """No function is longer than a screen."""
    long: list[str] = []
    for module in modules():
        for node in ast.walk(module.tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = (node.end_lineno or node.lineno) - node.lineno + 1
                if length > MOST_FUNCTION_LINES:
                    long.append(module.at(node, f"{node.name} has {length} lines"))
    assert long == []
