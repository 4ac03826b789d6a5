"""No chain of imports comes back to where it started.

Which room may know which is a contract of import-linter in `pyproject.toml`, checked by `make check`.
"""

import ast

from architecture.source import Module, imported, is_type_checking, modules


def needs(module: Module) -> set[str]:
    """Return the modules that one imports when it runs; types alone are no dependence."""
    typed = {id(inner) for node in ast.walk(module.tree) if is_type_checking(node) for inner in ast.walk(node)}
    return {name for node, name in imported(module, by_text=False) if id(node) not in typed}


def test_modules_do_not_import_in_circles() -> None:
    """Within a layer too there is an order: no chain of imports comes back to where it started."""
    names = {module.name for module in modules()}
    todo = {module.name: needs(module) & names for module in modules()}
    while free := [name for name, others in todo.items() if not others & todo.keys()]:
        for name in free:
            del todo[name]
    assert {name: sorted(others & todo.keys()) for name, others in todo.items()} == {}
