"""The source as the architecture tests see it: every module read and parsed once.

Knows files, syntax trees and dotted names. Knows no rule: those are in the tests.
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TypeAlias

__all__ = [
    "PACKAGE",
    "REPOSITORY",
    "Definition",
    "Module",
    "aliases",
    "definitions",
    "docstrings",
    "dotted",
    "functions",
    "imported",
    "is_type_checking",
    "module_level",
    "modules",
    "sorted_names",
]

REPOSITORY = Path(__file__).resolve().parents[2]
PACKAGE = REPOSITORY / "src" / "memolog"

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
Definition: TypeAlias = Function | ast.ClassDef


@dataclass(frozen=True, slots=True, kw_only=True)
class Module:
    """One file of the package."""

    name: str
    """Dotted, without `.__init__`."""
    place: str
    """Relative to the package, with forward slashes."""
    text: str
    tree: ast.Module

    @property
    def is_package(self) -> bool:
        """Tell whether it is the `__init__` of a folder."""
        return self.place.endswith("__init__.py")

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


# ---------------------------------------------------------------- names across modules


def imported(module: Module, *, by_text: bool = True) -> Iterator[tuple[ast.AST, str]]:
    """Yield the modules of the package that this one names: by import anywhere, or as a text for a late import."""
    known = {other.name for other in modules()}
    for node in ast.walk(module.tree):
        match node:
            case ast.Import():
                yield from ((node, alias.name) for alias in node.names if alias.name.split(".")[0] == "memolog")
            case ast.ImportFrom():
                source = _source_of(module, node)
                if source.split(".")[0] == "memolog":
                    inside = {f"{source}.{alias.name}" for alias in node.names}
                    yield from ((node, name) for name in sorted(inside & known))
                    if inside - known:
                        yield node, source
            case ast.Constant(value=str(text)) if by_text and text in known and "." in text:
                yield node, text
            case _:
                pass


def _source_of(module: Module, node: ast.ImportFrom) -> str:
    if not node.level:
        return node.module or ""
    words = module.name.split(".") if module.is_package else module.name.split(".")[:-1]
    base = words[: len(words) - node.level + 1]
    return ".".join([*base, *([node.module] if node.module else [])])


def is_type_checking(node: ast.AST) -> bool:
    """Tell whether a statement is only there for the type checker."""
    return isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")


def module_level(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes that run when the module is imported: not the bodies of functions, nor what only types need."""
    for node in ast.iter_child_nodes(tree):
        if is_type_checking(node):
            continue
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield from module_level(node)


def aliases(tree: ast.AST) -> dict[str, str]:
    """Return what each imported name stands for, dotted: `from time import time as t` gives `{"t": "time.time"}`."""
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                names[alias.asname or alias.name.split(".")[0]] = (
                    alias.name if alias.asname else alias.name.split(".")[0]
                )
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names.update({alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names})
    return names


def dotted(node: ast.AST, names: dict[str, str]) -> str | None:
    """Return the full name that an expression refers to, or None if it does not start at an import."""
    match node:
        case ast.Name(id=name):
            return names.get(name)
        case ast.Attribute(value=value, attr=attribute):
            base = dotted(value, names)
            return f"{base}.{attribute}" if base else None
        case _:
            return None


# ---------------------------------------------------------------- what is defined


def definitions(tree: ast.AST) -> Iterator[Definition]:
    """Yield the classes, functions and methods that a reader can reach from outside: none inside a function."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.expr):
            yield from definitions(node)


def functions(tree: ast.AST) -> Iterator[Function]:
    """Yield every function and method, those inside functions too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def docstrings(tree: ast.AST) -> frozenset[int]:
    """Return the ids of the nodes that are texts for people and nothing else: docstrings, also of fields."""
    return frozenset(
        id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    )


def sorted_names(names: list[str]) -> list[str]:
    """Return names in the order of the linter: constants, then classes, then the rest; digits by their value."""

    def key(name: str) -> tuple[int, list[tuple[int, int, str]]]:
        kind = 0 if name.isupper() and len(name) > 1 else 1 if name[:1].isupper() else 2
        pieces = re.findall(r"\d+|\D+", name)
        return kind, [(0, int(piece), "") if piece.isdigit() else (1, 0, piece) for piece in pieces]

    return sorted(names, key=key)
