"""The public names: few, documented, and changed on purpose only.

`public_names.txt` lists them, one a line. Whoever changes the public surface changes that file in the same commit.
"""

import inspect
from pathlib import Path
from types import ModuleType

import memolog

EXPECTED = Path(__file__).with_name("public_names.txt")


def public_names() -> list[str]:
    """Return what the package says it offers."""
    return list(vars(memolog).get("__all__", []))


def test_public_names_are_those_that_were_agreed() -> None:
    """A name that comes or goes is a decision, seen in a change of the list."""
    assert public_names() == EXPECTED.read_text("utf-8").split()


def test_public_names_have_docstrings() -> None:
    """Every public name exists, and every class, function and module among them has a docstring."""
    silent: list[str] = []
    for name in public_names():
        value = getattr(memolog, name)
        if inspect.isclass(value) or inspect.isroutine(value) or isinstance(value, ModuleType):
            doc = inspect.cleandoc(value.__doc__ or "")
            # A dataclass without a docstring gets its signature as one.
            if not doc or doc.startswith(f"{name}("):
                silent.append(name)
    assert silent == []
