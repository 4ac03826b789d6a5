"""Check the ids, numbers and choices that callers pass, split long lists, and write and read page tokens."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from operator import eq
from typing import Generic, TypeAlias, TypeVar, cast

from memolog.core.exact_json import JsonValue
from memolog.db.queries import Row, Script, load_queries
from memolog.errors import EmptyId, InputError, ThreadNotFound
from memolog.text.html import html_items

threads = load_queries("messages/threads")
# How many ids before and after a missing id are compared with it, and how many similar ids an error names.
_NEIGHBOURS = 50
_NAMED = 3
# An id is similar if at most `_TYPO` characters differ at one place, or if it begins with the given `_PREFIX` or more characters.
_TYPO = 2
_PREFIX = 3

T = TypeVar("T")

CleanValue: TypeAlias = Callable[[JsonValue], JsonValue]
"""Removes secrets from a JSON value before it is stored."""

FIRST = -(2**63)
LAST = 2**63 - 1
_LONGEST_ID = 512
_SHOWN = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Page(Generic[T]):
    """Some items, and the token of the next page. `next` is None on the last page. Iterating over a page yields its items."""

    items: tuple[T, ...]
    next: str | None = None

    def __iter__(self) -> Iterator[T]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)

    def _repr_html_(self) -> str:
        return html_items(self.items, note="" if self.next is None else f"There are more: continue with {self.next}")


def check_id(kind: str, value: object) -> str:
    """Return the id. Raise InputError unless it is a printable, non-empty string of limited length."""
    if not isinstance(value, str):
        raise InputError(f"The {kind} id must be a string, got {type(value).__name__}.", then="Pass a string.")
    if not value.strip():
        raise EmptyId(kind)
    if len(value) > _LONGEST_ID or not value.isprintable():
        raise InputError(
            f"The {kind} id {value[:40]!r} has unprintable characters or more than {_LONGEST_ID} characters.",
            why="Ids are shown, indexed, and used in file names and URLs.",
            then="Use a printable, shorter id.",
        )
    return value


def check_ids(**ids: object) -> None:
    """Check several ids. The name of each argument is the kind of the id."""
    for kind, value in ids.items():
        check_id(kind, value)


def check_optional_ids(**ids: object) -> None:
    """Check several ids as `check_ids` does, but accept None."""
    for kind, value in ids.items():
        if value is not None:
            check_id(kind, value)


def check_text(name: str, value: object) -> None:
    """Raise InputError unless a value is a string or None."""
    if value is not None and not isinstance(value, str):
        raise InputError(f"`{name}` must be a string, got {type(value).__name__}.", then=f'Pass {name}="…".')


def check_number(name: str, value: object, *, then: str = "") -> int:
    """Return the value if it is a whole number. Raise InputError for anything else, such as "3", 1.5 or True."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise InputError(
            f"`{name}` must be a whole number, got {value!r:.{_SHOWN}}.",
            then=then or f"Pass a number, such as {name}=3.",
        )
    return value


def check_choices(kind: str, given: object, known: Sequence[str]) -> tuple[str, ...]:
    """Return one word or several words as a tuple. Raise InputError for a word that is not in `known`."""
    several = (
        (given,) if isinstance(given, str) or not isinstance(given, Collection) else cast("Collection[object]", given)
    )
    unknown = [word for word in several if word not in known]
    if unknown:
        raise InputError(f"Unknown {kind}: {unknown[0]!r:.{_SHOWN}}.", then=f"Use one or more of: {', '.join(known)}.")
    return cast("tuple[str, ...]", tuple(several))


def check_limit(limit: int) -> int:
    """Return the limit. Raise InputError unless it is a whole number of at least 1."""
    check_number("limit", limit)
    if not 1 <= limit < LAST:
        raise InputError(f"`limit` must be 1 or more, got {limit}.", then="Pass a limit of at least 1.")
    return limit


def clamp(number: int) -> int:
    """Return the number, or the nearest number that both engines can store."""
    check_number("number", number, then="Pass the number itself.")
    return min(max(number, FIRST), LAST)


def chunks(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """Yield the items in parts of at most `size`, since the number of parameters of a query is limited."""
    return (items[start : start + size] for start in range(0, len(items), size))


def page_of(rows: Sequence[Row], limit: int, *columns: str) -> tuple[Sequence[Row], str | None]:
    """Return the first `limit` rows, and the token of the next page. The token is None if there are no more rows.

    The token consists of the values of `columns` in the last returned row.
    """
    if len(rows) <= limit:
        return rows, None
    return rows[:limit], page_token([getattr(rows[limit - 1], column) for column in columns])


def page_token(key: Sequence[int]) -> str:
    """Return the token of the page that begins after a key."""
    return ".".join(str(number) for number in key)


def page_key(token: str | None, start: Sequence[int]) -> list[int]:
    """Return the key in a page token. Without a token, return `start`, the key of the first page."""
    if token is None:
        return list(start)
    try:
        key = [int(number) for number in token.split(".")]
    except (AttributeError, ValueError):
        key = []
    if len(key) != len(start) or not all(FIRST <= number <= LAST for number in key):
        raise InputError(
            f"{token!r} is not a cursor of a page.",
            then="Pass the `next` of the last page, or the `cursor` of the last answer of a tool, unchanged.",
        )
    return key


def reading_thread(resource: str, thread: str) -> Script[Row]:
    """Return the row of a thread. Raise ThreadNotFound if it does not exist."""
    rows = yield threads.get_thread(resource=resource, thread=thread)
    if not rows:
        raise (yield from no_thread(resource, thread))
    return rows[0]


def no_thread(resource: str, thread: str) -> Script[ThreadNotFound]:
    """Return the error for a missing thread. It names threads of the resource whose ids are similar."""
    rows = yield threads.neighbours(resource=resource, thread=thread, limit=_NEIGHBOURS)
    near = sorted((distance, row.id) for row in rows if (distance := _distance(thread, row.id)) is not None)
    return ThreadNotFound(thread, [name for _, name in near[:_NAMED]])


def _distance(given: str, known: str) -> int | None:
    """Return how many characters differ at one place of two ids. None if the ids are not similar."""
    given, known = given.casefold(), known.casefold()
    if len(given) >= _PREFIX and known.startswith(given):
        return 0
    start = _equal(given, known)
    end = _equal(given[start:][::-1], known[start:][::-1])
    longest = max(len(given), len(known))
    distance = longest - start - end
    return distance if distance <= _TYPO and 2 * distance <= longest else None


def _equal(one: str, other: str) -> int:
    """Return how many characters are equal at the beginning."""
    return sum(takewhile(bool, map(eq, one, other)))


def taking_thread(resource: str, thread: str) -> Script[Row]:
    """Lock a thread until the transaction ends. Return its key and the number of its last message, or raise ThreadNotFound."""
    rows = yield threads.lock_thread(resource=resource, thread=thread)
    if not rows:
        raise (yield from no_thread(resource, thread))
    return rows[0]
