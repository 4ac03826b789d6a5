"""The errors: one tree, drawn as it is, and each says what happened, why, and what to do next."""

import inspect
import re
from typing import Any

import pytest

from memolog import errors
from memolog.errors import Conflict, LeaseLost, MemologError

CLASSES: dict[str, Any] = {
    name: found for name, found in inspect.getmembers(errors, inspect.isclass) if found.__module__ == errors.__name__
}

# What the constructors ask for, by name.
ARGUMENTS: dict[str, Any] = {
    "what": "It happened.",
    "kind": "thread",
    "role": "developer",
    "known": ("user", "tool"),
    "where": "The metadata",
    "problem": "a set is no JSON value",
    "message_id": "m1",
    "branch": "b1",
    "size": 12345678,
    "limit": 1000,
    "thread": "t1",
    "difference": "its parts differ",
    "name": "lock",
    "owner": "worker",
    "fence": 7,
    "found": 9,
    "task": "T-9",
    "handle": "T-1",
    "expected": 3,
    "blockers": ("T-2", "T-3"),
    "named": "T-2 and T-3",
    "holder": "another session",
    "until": "noon",
    "status": "closed",
    "move": "claimed",
    "then": "Reopen it first.",
    "source": "T-1",
    "target": "T-2",
    "path": ("T-1", "T-2", "T-1"),
    "read": 2,
    "present": 3,
    "by": "somebody",
    "parts": ("Facts",),
    "counts": {("alice", "t1"): 2},
}


def make(kind: type[MemologError]) -> MemologError:
    """Make an error with something for each argument."""
    given: dict[str, Any] = {}
    for name, parameter in inspect.signature(kind).parameters.items():
        if parameter.default is inspect.Parameter.empty:
            given[name] = 3 if kind is errors.SchemaTooNew and name == "known" else ARGUMENTS[name]
    return kind(**given)


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
    for argument in set(given) & {"message_id", "thread", "name", "owner", "problem", "difference", "kind"}:
        assert str(ARGUMENTS[argument]) in str(error), argument


def test_what_may_be_tried_again() -> None:
    """A lost race and a database that is away may be tried again; a lost lease and bad input may not."""
    retryable = {name for name, kind in CLASSES.items() if kind.retryable}
    assert {"Conflict", "StoreUnavailable", "StoreBusy", "StoreFull"} <= retryable
    assert issubclass(LeaseLost, Conflict)
    assert not retryable & {"LeaseLost", "InputError", "NotFound", "MessageConflict", "SchemaTooNew", "StoreClosed"}
