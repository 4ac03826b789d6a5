"""Scope: whose rows a call may touch, and how a page continues.

Knows that ids are non-empty text that both engines can hold, that numbers are whole, and that a page token is opaque to callers.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar, cast

from memolog.domain.codec import JsonValue
from memolog.domain.errors import EmptyId, InputError

__all__ = [
    "FIRST",
    "LAST",
    "CleanValue",
    "Page",
    "check_choices",
    "check_id",
    "check_limit",
    "check_number",
    "clamp",
    "page_key",
    "page_token",
]

T = TypeVar("T")

CleanValue: TypeAlias = Callable[[JsonValue], JsonValue]
"""Takes the secrets out of a text or a table before it is stored."""

FIRST = -(2**63)
LAST = 2**63 - 1
_LONGEST_ID = 512
_SHOWN = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Page(Generic[T]):
    """Some items, and the token that continues after them (None: there are no more)."""

    items: tuple[T, ...]
    next: str | None = None


def check_id(kind: str, value: object) -> str:
    """Return the id, or refuse what cannot be one."""
    if not isinstance(value, str):
        raise InputError(f"A {kind} id is a string, not {type(value).__name__}.", then="Pass its text.")
    if not value.strip():
        raise EmptyId(kind)
    if len(value) > _LONGEST_ID or not value.isprintable():
        raise InputError(
            f"The {kind} id {value[:40]!r} has control characters or more than {_LONGEST_ID} characters.",
            why="Ids are shown, indexed and put into file names and URLs.",
            then="Use a printable, shorter id.",
        )
    return value


def check_number(name: str, value: object, *, then: str = "") -> int:
    """Return a whole number, or refuse what is none: a text of digits, a fraction, true and false."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise InputError(
            f"`{name}` is a whole number, not {value!r:.{_SHOWN}}.", then=then or f"Pass a number, such as {name}=3."
        )
    return value


def check_choices(kind: str, given: object, known: Sequence[str]) -> tuple[str, ...]:
    """Return the words that were given, one alone or several, or refuse one that is not known."""
    several = (
        (given,) if isinstance(given, str) or not isinstance(given, Collection) else cast("Collection[object]", given)
    )
    unknown = [word for word in several if word not in known]
    if unknown:
        raise InputError(f"{unknown[0]!r:.{_SHOWN}} is no {kind}.", then=f"Use some of {', '.join(known)}.")
    return cast("tuple[str, ...]", tuple(several))


def check_limit(limit: int) -> int:
    """Return how many items to show, or refuse what is no number of items."""
    check_number("limit", limit)
    if not 1 <= limit < LAST:
        raise InputError(f"A page cannot have a limit of {limit}.", then="Pass a limit of at least 1.")
    return limit


def clamp(number: int) -> int:
    """Return the nearest number that both engines can hold: no row lies beyond it."""
    check_number("number", number, then="Pass the number itself.")
    return min(max(number, FIRST), LAST)


def page_token(key: Sequence[int]) -> str:
    """Return the token for the last key seen."""
    return ".".join(str(number) for number in key)


def page_key(token: str | None, start: Sequence[int]) -> list[int]:
    """Return the key of a token, or where a first page starts."""
    if token is None:
        return list(start)
    try:
        key = [int(number) for number in token.split(".")]
    except (AttributeError, ValueError):
        key = []
    if len(key) != len(start) or not all(FIRST <= number <= LAST for number in key):
        raise InputError(f"{token!r} is no page token.", then="Pass the `next` of the page before, unchanged.")
    return key
