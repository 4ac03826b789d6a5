"""Shared strategies: texts that databases and JSON trip over, and every value of the domain made of them."""

import dataclasses
import importlib
import inspect
import string
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime, timedelta, timezone
from types import UnionType
from typing import Any, Final, Literal, Union, get_args, get_origin, get_type_hints

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from memolog.core.message import FilePart, Message, NewMessage, Part
from memolog.core.observation import Observation, Span
from memolog.tasks.task import Task

ODD: Final = (
    "\x00\x01\x1b\x7f\x85\u2028\u2029\ufeff\ufffe\uffff\ud800\udbff\udc00\udfff\ud83d\ude00"
    "\u200d\ufe0f\u0301\u0915\u094d\u202e\u0600"
    "\\\"'{}[]<>&:/%$?"
    "🙂👩🏽🇨🇭日本語中文한국어שלום"
)
PIECES: Final = (
    *("\x00", "\x01", '\x01"\\u0000"', "\\u0000", "\\ud800", "\ud83d\ude00", "\ude00\ud83d", "👩‍👩‍👧‍👦", "🏳️‍🌈"),
    *("null", "NaN", "{}", "[]", "'; --", ":name", "$1", "{select_messages}", "</observations>", "日本語", "\r\n"),
)

characters = st.one_of(
    st.sampled_from(ODD),
    st.characters(categories=None),
    st.sampled_from(string.printable),
)


def joined(text: str) -> str:
    """Return the text with both halves of a pair as the one character they mean: JSON knows no difference."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


texts: SearchStrategy[str] = st.one_of(
    st.text(alphabet=characters, max_size=24).map(joined),
    st.lists(st.sampled_from(PIECES), max_size=4).map("".join).map(joined),
    st.sampled_from(("", " ", "x" * 5000)),
)

ids: SearchStrategy[str] = st.text(
    alphabet=st.one_of(st.sampled_from("abc-_.:/ é日🙂'%"), st.characters(categories=("L", "N", "P", "S"))),
    min_size=1,
    max_size=24,
).filter(lambda text: bool(text.strip()) and text.isprintable())

# NaN is left out, since it is not equal to itself; it has tests of its own.
numbers = st.one_of(
    st.integers(),
    st.integers(min_value=-(2**70), max_value=2**70),
    st.sampled_from((0, -1, 2**53, 2**53 + 1, 2**63 - 1, 2**63, -(2**63), 10**300)),
    st.floats(allow_nan=False),
)
json_values: SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)
json_objects: SearchStrategy[Mapping[str, Any]] = st.dictionaries(texts, json_values, max_size=4)

zones = st.one_of(
    st.just(UTC),
    st.integers(min_value=-14 * 60, max_value=14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes))),
)
moments: SearchStrategy[datetime] = st.one_of(
    st.datetimes(min_value=datetime(1, 1, 2), max_value=datetime(9999, 12, 30), timezones=zones),  # noqa: DTZ001
    st.sampled_from(
        (
            datetime.min.replace(tzinfo=UTC),
            datetime.max.replace(tzinfo=UTC),
            datetime(1970, 1, 1, tzinfo=UTC),
            datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
        )
    ),
)
counts = st.integers(min_value=0, max_value=2**40)
money = st.floats(min_value=0, max_value=1e6)


# What a field of a simple type holds. Ids are any text: the round trips must not depend on what an id looks like.
SIMPLE: Final[dict[Any, SearchStrategy[Any]]] = {
    str: texts,
    int: counts,
    float: money,
    bool: st.booleans(),
    bytes: st.binary(max_size=40),
    date: st.dates(),
    datetime: moments,
    Any: json_values,
    type(None): st.none(),
}
places = st.integers(min_value=1, max_value=2**40)
levels = st.integers(min_value=0, max_value=2)
VALUES: Final[dict[type, SearchStrategy[Any]]] = {
    Span: st.tuples(places, places).map(lambda ends: Span(first=min(ends), last=max(ends))),
}
"""A strategy for every value of the domain."""


def derived(kind: Any, **given: SearchStrategy[Any]) -> SearchStrategy[Any]:
    """Return a strategy for a value with any content of its fields' types, but for those that are given."""
    hints = get_type_hints(kind)
    made = {field.name: _of(hints[field.name]) for field in dataclasses.fields(kind) if field.init}
    return st.builds(kind, **{**made, **given})


def _of(hint: Any) -> SearchStrategy[Any]:
    if hint in VALUES:
        return VALUES[hint]
    if dataclasses.is_dataclass(hint):
        return derived(hint)
    if hint in SIMPLE:
        return SIMPLE[hint]
    kind, inner = get_origin(hint), get_args(hint)
    if kind is Literal:
        return st.sampled_from(inner)
    if kind in {Union, UnionType}:
        return st.one_of(*map(_of, inner))
    if kind is frozenset:
        return st.frozensets(_of(inner[0]), max_size=3)
    if kind is tuple:
        return st.lists(_of(inner[0]), max_size=2).map(tuple) if inner[-1] is ... else st.tuples(*map(_of, inner))
    assert kind is Mapping, hint
    return json_objects if inner[1] is Any else st.dictionaries(texts, _of(inner[1]), max_size=3)


VALUE_MODULES: Final = (
    *("core.document", "core.message", "core.observation", "core.reports", "core.run", "core.thread"),
    *("search.values", "tasks.task"),
)
"""The modules of the values that are stored or returned."""


def domain_values() -> Iterator[type]:
    """Yield every dataclass of these modules."""
    for name in VALUE_MODULES:
        module = importlib.import_module(f"memolog.{name}")
        for found in vars(module).values():
            if inspect.isclass(found) and dataclasses.is_dataclass(found) and found.__module__ == module.__name__:
                yield found


VALUES[FilePart] = derived(FilePart, seconds=st.none() | st.floats(allow_nan=False))
parts: SearchStrategy[Part] = st.one_of(*map(_of, get_args(Part)))
several_parts: SearchStrategy[tuple[Part, ...]] = st.lists(parts, max_size=4).map(tuple)
zone_names = st.sampled_from((None, "", "UTC", "Asia/Tokyo", "+05:45"))
VALUES[NewMessage] = derived(NewMessage, id=st.none() | ids, parts=several_parts, zone=zone_names)
VALUES[Message] = derived(Message, parts=several_parts, level=levels)
VALUES[Task] = derived(Task, priority=st.integers(min_value=0, max_value=4), level=levels)
VALUES.update((kind, derived(kind)) for kind in domain_values() if kind not in VALUES)
messages: SearchStrategy[Message] = VALUES[Message]
new_messages: SearchStrategy[NewMessage] = VALUES[NewMessage]
observations: SearchStrategy[Observation] = VALUES[Observation]
