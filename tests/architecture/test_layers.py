"""Imports go one way. A package may import itself and the rows above its own in this table, nothing else.

The root (`memolog/__init__.py`) stands between the tools and the adapters: it offers everything below, and what wraps other
libraries or makes programs is imported by name.
"""

import ast
from collections.abc import Iterator

from architecture.source import Module, imported, modules

ROOT = "memolog"
LAYERS: tuple[frozenset[str], ...] = (
    frozenset({"domain", "version"}),
    frozenset({"config", "tokens"}),
    frozenset({"context", "decide", "documents", "extractive", "grounding", "prompt", "search", "tasks", "transfer"}),
    frozenset({"store"}),
    frozenset({"runtime", "testing"}),
    frozenset({"errors", "events", "models", "tools"}),
    frozenset({ROOT}),
    frozenset({"adapters"}),
    frozenset({"__main__", "apps"}),
)
# Neighbours that may be imported, never the other way round: public test helpers stand in for parts of the runtime, and the
# embedded observer answers with the same values as the parser of a model's reply.
BESIDE: dict[str, frozenset[str]] = {
    "testing": frozenset({"runtime"}),
    "__main__": frozenset({"apps"}),
    "extractive": frozenset({"prompt"}),
}

# What is built on a memory and handed out by it: loaded by name when somebody asks for it, and by nothing else.
_FORMS = frozenset(
    {"memolog.adapters.anthropic.messages", "memolog.adapters.openai.chat", "memolog.adapters.openai.responses"}
)
ON_REQUEST: dict[str, frozenset[str]] = {
    "memolog.context.value": _FORMS,
    "memolog.runtime.memory": frozenset({"memolog.tools"}),
    "memolog.runtime.provider_messages": _FORMS,
}

RANKS = {package: rank for rank, row in enumerate(LAYERS) for package in row}


def package_of(name: str) -> str:
    """Return the package under the root that a module belongs to, or the root itself."""
    words = name.split(".")
    return words[1] if len(words) > 1 else ROOT


def may_import(package: str, other: str) -> bool:
    """Tell whether one package may import another; one that is in no layer may not be imported at all."""
    if package == other or other in BESIDE.get(package, ()):
        return True
    return other in RANKS and package in RANKS and RANKS[other] < RANKS[package]


def astray(module: Module) -> Iterator[str]:
    """Yield the imports of a module that go the wrong way."""
    package = package_of(module.name)
    for node, name in imported(module):
        is_late = isinstance(node, ast.Constant) and name in ON_REQUEST.get(module.name, ())
        if not is_late and not may_import(package, package_of(name)):
            yield module.at(node, f"{package} must not import {name}")


def test_every_module_is_in_a_layer() -> None:
    """A new package takes its place in the table before anything is in it."""
    homeless = [module.place for module in modules() if package_of(module.name) not in RANKS]
    assert homeless == []


def test_imports_go_one_way() -> None:
    """No module imports from a row below its own or from a neighbour, also inside functions."""
    assert [line for module in modules() for line in astray(module)] == []


def test_the_table_means_what_the_style_says() -> None:
    """The rule itself refuses what it should: a table that allows everything would pass every import."""
    assert may_import("store", "decide")
    assert may_import("decide", "config")
    assert may_import("testing", "runtime")
    assert may_import(ROOT, "tools")
    refused = [
        ("decide", "store"),
        ("decide", "prompt"),
        ("domain", "tokens"),
        ("runtime", "testing"),
        ("store", ROOT),
        (ROOT, "adapters"),
        (ROOT, "apps"),
        ("apps", "nowhere"),
    ]
    assert [pair for pair in refused if may_import(*pair)] == []


def test_modules_do_not_import_in_circles() -> None:
    """Within a layer too there is an order: no chain of imports comes back to where it started."""
    names = {module.name for module in modules()}
    needed = {module.name: {name for _, name in imported(module, by_text=False)} for module in modules()}
    todo = {module: needs & names for module, needs in needed.items()}
    while free := [name for name, needs in todo.items() if not needs & todo.keys()]:
        for name in free:
            del todo[name]
    assert {name: sorted(needs & todo.keys()) for name, needs in todo.items()} == {}
