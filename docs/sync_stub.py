"""Write `sync.pyi`: the types of the synchronous face, from the sources of the asynchronous classes.

Run by `make docs`; a test fails when the stub differs from what this would write.
"""

import ast
import builtins
import inspect
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from memolog import sync

__all__ = ["STUB", "sync_stub"]

STUB = Path(inspect.getfile(sync)).with_suffix(".pyi")
HEAD = '''"""The types of the synchronous face. Made by `make docs`; do not edit."""

# ruff: noqa: A002, D204, PYI021 - the names are those of the asynchronous face; the docstrings are what an editor shows
'''
Function = ast.FunctionDef | ast.AsyncFunctionDef


def sync_stub() -> str:
    """Return the text of the stub."""
    imports: set[str] = set()
    kinds = [node for node in _parsed(sync.__name__).body if isinstance(node, ast.ClassDef)]
    classes = [_class(node, imports) for node in kinds if node.name in sync.__all__]
    exported = ", ".join(f'"{name}"' for name in sync.__all__)
    body = "\n".join(
        [HEAD, *sorted(imports), f"__all__ = [{exported}]", "TWINS: Final[dict[type, type]]", *classes, ""]
    )
    imported = "from typing import Final\n"
    return _formatted(body.replace(HEAD, f"{HEAD}{imported}"))


def _class(node: ast.ClassDef, imports: set[str]) -> str:
    """Return one class: what is written out in `sync`, then what is made from its twin."""
    twin = next(source for source, kind in sync.TWINS.items() if kind.__name__ == node.name)
    lines = [f"class {node.name}:", f"    {_quoted(ast.get_docstring(node))}"]
    own = {item.name: item for item in node.body if isinstance(item, Function)}
    for item in own.values():
        if item.name == "__init__":
            # The options are those of the asynchronous class, which are typed.
            item = next(made for made in _body(twin) if isinstance(made, Function) and made.name == "__init__")  # noqa: PLW2901
            lines += _method(item, twin.__module__, imports)
        else:
            lines += _method(item, sync.__name__, imports)
    lines += [f"    def {name}" for name in ("__eq__(self, other: object) -> bool: ...", "__hash__(self) -> int: ...")]
    for name, item, module in _members(twin):
        if name not in own and hasattr(getattr(sync, node.name), name):
            lines += (
                _value(item, module, imports) if isinstance(item, ast.AnnAssign) else _method(item, module, imports)
            )
    return "\n".join(lines)


def _members(twin: type) -> Iterator[tuple[str, ast.AnnAssign | Function, str]]:
    """Yield the public methods and values of a class and of its bases."""
    done: set[str] = set()
    for kind in twin.__mro__:
        if not kind.__module__.startswith("memolog."):
            continue
        for item in _body(kind):
            if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
                name = item.target.id
            elif isinstance(item, Function):
                name = item.name
            else:
                continue
            if name not in done and not name.startswith("_"):
                done.add(name)
                yield name, item, kind.__module__


def _value(item: ast.AnnAssign, module: str, imports: set[str]) -> list[str]:
    kind = _typed(item.annotation, module, imports)
    return ["    @property", f"    def {ast.unparse(item.target)}(self) -> {ast.unparse(kind)}: ..."]


def _method(item: Function, module: str, imports: set[str]) -> list[str]:
    """Return a method as the synchronous face has it: no `async`, and each returned object replaced by its twin."""
    if item.name.startswith("_") and not item.name.startswith("__"):
        return []
    # What `sync` writes out returns what it says.
    is_own = module == sync.__name__
    twins = {} if is_own else {source.__name__: kind.__name__ for source, kind in sync.TWINS.items()}
    returned = item.returns
    if isinstance(returned, ast.Subscript) and ast.unparse(returned.value) == "Script":
        # A decorator turns a script into a coroutine.
        returned = returned.slice
    returns = _typed(returned, module, imports, twins)
    for argument in ast.walk(item.args):
        if isinstance(argument, ast.arg) and argument.annotation is not None:
            argument.annotation = _typed(argument.annotation, module, imports)
    item.args.defaults = [_default(value) for value in item.args.defaults]
    item.args.kw_defaults = [value and _default(value) for value in item.args.kw_defaults]
    marks = [f"    @{ast.unparse(mark)}" for mark in item.decorator_list if ast.unparse(mark) == "property"]
    doc = ast.get_docstring(item)
    line = f"    def {item.name}({ast.unparse(item.args)}) -> {ast.unparse(returns)}:"
    return [*marks, line, f"        {_quoted(doc)}" if doc else "        ..."]


def _default(value: ast.expr) -> ast.expr:
    """Return a default as a stub shows it: a plain value, or dots in the place of a name."""
    return ast.Constant(...) if isinstance(value, ast.Name) else value


class _Renamed(ast.NodeTransformer):
    """Replaces names of asynchronous classes, and reads annotations that are written as text."""

    def __init__(self, names: dict[str, str]) -> None:
        self._names = names

    def visit_Name(self, node: ast.Name) -> ast.Name:
        """Replace a name."""
        return ast.Name(self._names.get(node.id, node.id))

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        """Read an annotation that is written as text."""
        if isinstance(node.value, str) and (
            " | " in node.value or (node.value.isidentifier() and node.value[0].isupper())
        ):
            return self.visit(ast.parse(node.value, mode="eval").body)
        return node

    def visit_Subscript(self, node: ast.Subscript) -> ast.Subscript:
        """Leave the words of a Literal alone."""
        if ast.unparse(node.value) != "Literal":
            self.generic_visit(node)
        return node


def _typed(kind: ast.expr | None, module: str, imports: set[str], renamed: dict[str, str] | None = None) -> ast.expr:
    """Return an annotation, and add the imports that it needs."""
    if kind is None:
        return ast.Constant(None)
    changed = _Renamed(renamed or {}).visit(kind)
    twins = set((renamed or {}).values())
    for node in ast.walk(changed):
        if isinstance(node, ast.Name) and node.id not in twins and not hasattr(builtins, node.id):
            imports.add(_origin(node.id, module))
    return changed


def _origin(name: str, module: str) -> str:
    """Return the statement that imports a name as a module sees it."""
    for node in _parsed(module).body:
        if isinstance(node, ast.ImportFrom) and any((alias.asname or alias.name) == name for alias in node.names):
            return f"from {node.module} import {name}"
        if isinstance(node, ast.Import) and any((alias.asname or alias.name) == name for alias in node.names):
            return f"import {name}"
    return f"from {module} import {name}"


def _quoted(doc: str | None) -> str:
    lines = inspect.cleandoc(doc or "").splitlines()
    end = "" if len(lines) == 1 else "\n        "
    return '"""' + "\n".join([lines[0], *(f"        {line}" if line else "" for line in lines[1:])]) + f'{end}"""'


@cache
def _parsed(module: str) -> ast.Module:
    return ast.parse(Path(inspect.getfile(sys.modules[module])).read_text("utf-8"))


def _body(kind: Any) -> list[ast.stmt]:
    tree = _parsed(kind.__module__)
    return next(node.body for node in tree.body if isinstance(node, ast.ClassDef) and node.name == kind.__name__)


def _formatted(text: str) -> str:
    """Return a text as the formatter leaves it, with its imports in order."""
    for command in (["check", "--select", "I", "--fix", "--quiet"], ["format", "--quiet"]):
        full = [sys.executable, "-m", "ruff", *command, "--stdin-filename", str(STUB), "-"]
        text = subprocess.run(full, input=text, capture_output=True, text=True, check=True).stdout  # noqa: S603
    return text


if __name__ == "__main__":
    STUB.write_text(sync_stub(), encoding="utf-8")
