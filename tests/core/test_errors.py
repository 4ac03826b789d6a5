"""The errors: one tree, drawn as it is, and each says what happened, why, and what to do next."""

import inspect
import re
from collections.abc import Mapping
from typing import Any

import pytest

from memolog import errors
from memolog.errors import Conflict, LeaseLost, MemologError

CLASSES: dict[str, Any] = {
    name: found for name, found in inspect.getmembers(errors, inspect.isclass) if found.__module__ == errors.__name__
}

# What the constructors ask for, by type.
ARGUMENTS: dict[Any, Any] = {
    int: 7,
    tuple[str, ...]: ("T-1", "T-2"),
    Mapping[tuple[str, str], int]: {("alice", "t1"): 2},
}


def argument(name: str, kind: Any) -> Any:
    """Return something for an argument; a text is the name of the argument, as a sentence where a sentence is asked for."""
    return f"The {name}." if name in {"what", "then"} else ARGUMENTS.get(kind, f"the {name}")


def make(kind: type[MemologError]) -> MemologError:
    """Make an error with something for each argument."""
    asked = inspect.signature(kind, eval_str=True).parameters.items()
    return kind(**{name: argument(name, one.annotation) for name, one in asked if one.default is one.empty})


def drawn_tree() -> dict[str, str]:
    """Return the parent of each class as the docstring draws it."""
    parents: dict[str, str] = {}
    above: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        found = re.match(r"^    ([│├└─ ]*)(\w+)", line)
        if found:
            depth = len(found[1]) // 4
            above[depth:] = [found[2]]
            parents[found[2]] = above[depth - 1] if depth else "Exception"
    return parents


def test_the_tree_is_drawn_as_it_is() -> None:
    """Every class stands in the docstring, under its parent."""
    assert drawn_tree() == {name: kind.__bases__[0].__name__ for name, kind in CLASSES.items()}


@pytest.mark.parametrize("name", CLASSES)
def test_every_error_is_ours_and_carries_its_words(name: str) -> None:
    """One base class catches all; what, why and what next are fields, and the text is made of them in this order."""
    kind = CLASSES[name]
    assert issubclass(kind, MemologError)
    assert len(kind.__bases__) == 1
    assert vars(kind).get("__doc__")
    assert isinstance(kind.retryable, bool)
    error = make(kind)
    assert error.what
    assert str(error) == " ".join(part for part in (error.what, error.why, error.then) if part)
    for part in (error.what, error.why, error.then):
        assert part == part.strip()
        assert not part or part.endswith((".", ")"))


@pytest.mark.parametrize(
    "name", [name for name, kind in CLASSES.items() if "__init__" in vars(kind) and name != "MemologError"]
)
def test_an_error_with_words_of_its_own_says_what_to_do(name: str) -> None:
    """An error that knows what happened also gives advice, and names what it is about."""
    error = make(CLASSES[name])
    assert error.then
    assert "drop table" not in str(error).lower()
    assert "delete" not in error.then.lower()
    given = inspect.signature(CLASSES[name]).parameters
    for name_ in set(given) & {"message_id", "thread", "name", "owner", "problem", "difference", "kind"}:
        assert f"the {name_}" in str(error), name_


def test_what_may_be_tried_again() -> None:
    """A lost race and a database that is away may be tried again; a lost lease and bad input may not."""
    retryable = {name for name, kind in CLASSES.items() if kind.retryable}
    assert {"Conflict", "StoreUnavailable", "StoreBusy", "StoreFull"} <= retryable
    assert issubclass(LeaseLost, Conflict)
    assert not retryable & {"LeaseLost", "InputError", "NotFound", "MessageConflict", "SchemaTooNew", "StoreClosed"}
