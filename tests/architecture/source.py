"""Every module of the package, read and parsed once for the architecture tests."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TypeAlias

REPOSITORY = Path(__file__).resolve().parents[2]
PACKAGE = REPOSITORY / "src" / "memolog"

Definition: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@dataclass(frozen=True, slots=True, kw_only=True)
class Module:
    """One file of the package."""

    name: str
    """Dotted, without `.__init__`."""
    place: str
    """Relative to the package, with forward slashes."""
    text: str
    tree: ast.Module

    def at(self, node: ast.AST, what: str) -> str:
        """Return one line for people: where, and what is wrong there."""
        return f"{self.place}:{getattr(node, 'lineno', 1)}: {what}"


@cache
def modules() -> tuple[Module, ...]:
    """Return every module of the package, in the order of their names."""
    return tuple(_read(path) for path in sorted(PACKAGE.rglob("*.py")))


def _read(path: Path) -> Module:
    text = path.read_text("utf-8")
    place = path.relative_to(PACKAGE)
    words = ["memolog", *place.with_suffix("").parts]
    name = ".".join(words[:-1] if words[-1] == "__init__" else words)
    return Module(name=name, place=place.as_posix(), text=text, tree=ast.parse(text, str(path)))


# ---------------------------------------------------------------- what is defined


def definitions(tree: ast.AST) -> Iterator[Definition]:
    """Yield the classes, functions and methods that a reader can reach from outside: none inside a function."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.expr):
            yield from definitions(node)


def docstrings(tree: ast.AST) -> frozenset[int]:
    """Return the ids of the nodes that are texts for people and nothing else: docstrings, also of fields."""
    return frozenset(
        id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    )
