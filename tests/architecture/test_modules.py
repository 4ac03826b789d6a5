"""A module says what it is and is named for it; a function can be read without scrolling."""

import ast
import re
from collections.abc import Iterator

import pytest

from architecture.source import Definition, Module, definitions, functions, modules, sorted_names

MOST_FUNCTION_LINES = 60
EMPTY_NAMES = {"utils", "helpers", "common", "manager", "base2"}


def exports(module: Module) -> list[str] | None:
    """Return the names in a module's `__all__`, or None if it has none."""
    for node in module.tree.body:
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        if any(isinstance(target, ast.Name) and target.id == "__all__" for target in targets):
            value = getattr(node, "value", None)
            assert isinstance(value, ast.List | ast.Tuple), f"{module.place}: __all__ is no plain list"
            return [str(ast.literal_eval(element)) for element in value.elts]
    return None


def words_of(name: str) -> set[str]:
    """Return the lower-case words of a name, in either spelling: `RunManager` and `run_manager`."""
    return {word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+", name)}


def public(module: Module) -> Iterator[Definition]:
    """Yield the definitions that callers see: no underscore in their name or in that of the class around them."""
    hidden = {
        id(inner)
        for node in definitions(module.tree)
        if isinstance(node, ast.ClassDef) and node.name.startswith("_")
        for inner in ast.walk(node)
    }
    for node in definitions(module.tree):
        if not node.name.startswith("_") and id(node) not in hidden:
            yield node


def is_documented_elsewhere(node: Definition) -> bool:
    """Tell whether a definition only repeats one that has the docstring: an overload, a setter, an override."""
    decorators = {ast.unparse(decorator) for decorator in node.decorator_list}
    return bool(decorators & {"overload", "typing.overload", "override"}) or any(
        decorator.endswith(".setter") for decorator in decorators
    )


def test_modules_open_with_a_docstring() -> None:
    """A module says what it knows and what it does not before anything else."""
    silent = [module.place for module in modules() if not (ast.get_docstring(module.tree) or "").strip()]
    assert silent == []


def test_exports_are_sorted() -> None:
    """An `__all__` stands only where something is exported to users; it is in order and names nothing twice."""
    found = [(module.place, exports(module)) for module in modules()]
    assert [place for place, names in found if names is not None and names != sorted_names(sorted(set(names)))] == []


def test_names_say_something() -> None:
    """No module, class or function is named for being useful in general."""
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
        for node in functions(module.tree):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > MOST_FUNCTION_LINES:
                long.append(module.at(node, f"{node.name} has {length} lines"))
    assert long == []


def test_public_definitions_have_docstrings() -> None:
    """Whatever a caller can name tells the caller what it does."""
    silent = [
        module.at(node, node.name)
        for module in modules()
        for node in public(module)
        if not is_documented_elsewhere(node) and not (ast.get_docstring(node) or "").strip()
    ]
    assert silent == []


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("RunManager", {"run", "manager"}),
        ("memolog.store_utils", {"memolog", "store", "utils"}),
        ("SQLBase2", {"base2"}),
    ],
)
def test_words_of_a_name(name: str, words: set[str]) -> None:
    """The check finds an empty word in either spelling of a name."""
    assert words <= words_of(name)
