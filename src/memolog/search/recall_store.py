"""Find the messages behind a reference (an observation, a group, a span or a message), and read them in either direction.

A reference to something of another resource gives the same error as a reference to something that does not exist.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from memolog.core.message import Message
from memolog.core.observation import Span
from memolog.db.engine import Calls, reads
from memolog.db.queries import Row, Script, load_queries
from memolog.db.rows import message_from_row
from memolog.db.scope import FIRST, LAST, check_ids, check_limit, check_optional_ids, chunks, no_thread
from memolog.errors import InputError, MessageNotFound, NotFound

q = load_queries("search/recall")
messages = load_queries("messages/messages")

Reference = str | int | Span
"""The id or handle of an observation or a group, the id or number of a message, or a span."""

Position = tuple[int, int, int, int]
"""The key of a thread, the sequence number of a message, the index of a part, and a character in the part."""

# The handle of a group ("g3"), or of an observation of the group ("g3.2").
_HANDLE: Final = re.compile(r"(?P<group>g\d{1,15})(?:\.(?P<line>\d{1,15}))?")
_ALIAS: Final = re.compile(r"t(\d{1,15})")
_RANGE: Final = r"#?(?P<first>\d{1,18})(?:\s*(?:-|–|—|\.\.|to)\s*#?(?P<last>\d{1,18}))?"
SPAN: Final = re.compile(_RANGE)
"""A number of a message, or a span, as text. The groups are `first` and `last`."""
_SPAN_OF_THREAD: Final = re.compile(rf"(?P<thread>.*?\S)(?:\s*[#:]\s*|\s+){_RANGE}", re.DOTALL)
# The maximum number of values in one query, and of thread names in an error message.
_AT_ONCE: Final = 500
_MOST_NAMED: Final = 5
# A result without a tool name is usually at most this many messages after its call.
_CALL_DISTANCE: Final = 60


def is_number(reference: str) -> bool:
    """Return whether a reference is a number or a span without a thread, so that the thread must be given separately."""
    return SPAN.fullmatch(reference.strip()) is not None


def is_of_a_thread(reference: str) -> bool:
    """Return whether a reference is unique only within a thread: a number, a span, or the handle of a group or observation."""
    return is_number(reference) or _HANDLE.fullmatch(reference.strip()) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """Consecutive messages of one thread."""

    thread_pk: int
    thread: str
    first: int
    last: int
    label: str | None = None
    """The alias of the thread in a shared log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The messages behind a reference, as stretches in order, and the position of the first page."""

    stretches: tuple[Stretch, ...]
    start: Position

    @property
    def begins(self) -> Position:
        """Return the position of the first message."""
        first = self.stretches[0]
        return first.thread_pk, first.first, 0, 0


class Recall(Calls):
    """Finds the messages behind references. Each call is limited to one resource."""

    @reads
    def find(
        self,
        resource: str,
        reference: Reference,
        *,
        thread: str | None = None,
        shared: bool = False,
        alone: bool = False,
    ) -> Script[Place]:
        """Return the messages behind a reference. Raise NotFound if there are none.

        With `shared`, the shared log of the resource has precedence. With `alone`, a reference to a message returns only this
        message. Otherwise it returns the whole thread, and the first page begins at the message.
        """
        check_ids(resource=resource)
        check_optional_ids(thread=thread)
        if isinstance(reference, str):
            check_ids(reference=reference)
        elif isinstance(reference, bool) or not isinstance(reference, int | Span):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InputError(
                f"`reference` must be a text, a number or a span, got {type(reference).__name__}.",
                then="Pass the id of a group, an observation or a message, a span, or a message's number.",
            )
        return (yield from _finding(resource, reference, thread, shared=shared, alone=alone))

    @reads
    def rows(
        self, resource: str, place: Place, position: Position, *, back: bool = False, limit: int = 50
    ) -> Script[tuple[Message, ...]]:
        """Return at most `limit` messages from a position on, or with `back` before the position, the nearest message first."""
        check_ids(resource=resource)
        check_limit(limit)
        return (yield from _reading(resource, place, position, back=back, limit=limit))

    async def calls_before(self, resource: str, thread: str, seq: int) -> tuple[Message, ...]:
        """Return the last messages before message number `seq`. The call of a result is usually among them."""
        check_ids(resource=resource, thread=thread)
        step = messages.before(resource=resource, thread=thread, before=seq, limit=_CALL_DISTANCE)
        return await self.engine.fetch(step, message_from_row)


def _finding(resource: str, reference: Reference, thread: str | None, *, shared: bool, alone: bool) -> Script[Place]:
    named = None
    if thread is not None:
        named = yield from _thread_if_any(resource, thread, shared=shared)
        if named is None:
            raise (yield from no_thread(resource, thread))
    if isinstance(reference, int):
        place: Place | None = _numbered(reference, None, named, alone=alone)
    elif isinstance(reference, Span):
        place = _numbered(reference.first, reference.last, named, alone=alone)
    else:
        found = yield from _known(resource, reference, named, shared=shared)
        place = found or (yield from _message(resource, reference, named, alone=alone))
        if place is None:
            place = yield from _written(resource, reference, named, shared=shared, alone=alone)
    if place is None:
        raise NotFound(
            f"Nothing is found under the reference {reference!r}.",
            then="Use an id that the log or a search shows, or a span such as 12-30 with its thread.",
        )
    return (yield from _labelled(resource, place)) if shared else place


def _thread_if_any(resource: str, name: str, *, shared: bool) -> Script[Row | None]:
    rows = yield q.thread_by_id(resource=resource, thread=name)
    alias = _ALIAS.fullmatch(name) if shared else None
    if not rows and alias:
        rows = yield q.thread_by_alias(resource=resource, alias=int(alias[1]))
    return rows[0] if rows else None


def _known(resource: str, reference: str, thread: Row | None, *, shared: bool) -> Script[Place | None]:
    handle = _HANDLE.fullmatch(reference)
    if handle:
        rows = yield q.groups_by_handle(resource=resource, handle=handle["group"])
        rows = yield from _of_log(resource, handle["group"], rows, thread, shared=shared)
    else:
        rows = yield q.group_by_id(resource=resource, id=reference)
    if rows and not (handle and handle["line"]):
        return (yield from _group(resource, rows[0]))
    if rows and handle:
        found = yield q.observation_by_number(group_pk=rows[0].pk, ordinal=int(handle["line"]))
    else:
        found = yield q.observation_by_id(resource=resource, id=reference)
    return (yield from _behind(resource, [found[0].pk])) if found else None


def _of_log(
    resource: str, handle: str, rows: Sequence[Row], thread: Row | None, *, shared: bool
) -> Script[Sequence[Row]]:
    """Return the group with a handle from the log of the thread or the shared log, or from any log if `thread` is None.

    If several logs have such a group, `shared` decides. Raise InputError if it cannot.
    """
    meant = [row for row in rows if thread is None or row.log_thread in {0, thread.pk}]
    if len(meant) > 1:
        meant = [row for row in meant if (row.log_thread == 0) == shared]
    if len(meant) > 1:
        keys = [row.log_thread for row in meant[: _MOST_NAMED + 1]]
        names = yield q.thread_names(resource=resource, threads=keys)
        raise _several(
            f"group {handle}", [row.id for row in names], "The log of each thread numbers its groups from 1."
        )
    return meant


def _several(what: str, threads: Sequence[str], why: str) -> InputError:
    names = ", ".join([*threads[:_MOST_NAMED], *("…" for _ in threads[_MOST_NAMED:][:1])])
    return InputError(
        f"Several threads have a {what}: {names}.",
        why=why,
        then="Pass the thread: thread=….",
    )


def _group(resource: str, row: Row) -> Script[Place | None]:
    if row.kind != "observer":
        rows = yield q.observations_of_group(group_pk=row.pk)
        return (yield from _behind(resource, [line.pk for line in rows]))
    return _place([Stretch(thread_pk=row.thread_pk, thread=row.thread, first=row.first_seq, last=row.last_seq)])


def _behind(resource: str, observations: Sequence[int]) -> Script[Place | None]:
    """Return the source messages of observations. A reflection also has the sources of all observations that it merges."""
    found: set[Row] = set()
    for some in chunks(observations, _AT_ONCE):
        found.update((yield q.sources(resource=resource, observations=some)))
    return _place([Stretch(thread_pk=row.pk, thread=row.id, first=row.first_seq, last=row.last_seq) for row in found])


def _message(resource: str, reference: str, thread: Row | None, *, alone: bool) -> Script[Place | None]:
    rows = yield q.message_places(resource=resource, id=reference, thread=thread.id if thread else None)
    if len(rows) > 1:
        raise _several(
            f"message {reference}", [row.id for row in rows], "The id of a message is unique only within its thread."
        )
    return _from(rows[0], rows[0].seq, alone=alone) if rows else None


def _written(resource: str, reference: str, thread: Row | None, *, shared: bool, alone: bool) -> Script[Place | None]:
    """Return the messages of a span or a number that is given as text: "12-30", "t1 12-30", "#12"."""
    hit = SPAN.fullmatch(reference.strip())
    if hit is None:
        hit = _SPAN_OF_THREAD.fullmatch(reference.strip())
        thread = (yield from _thread_if_any(resource, hit["thread"], shared=shared)) if hit else None
        if hit is None or thread is None:
            return None
    last = None if hit["last"] is None else int(hit["last"])
    return _numbered(int(hit["first"]), last, thread, alone=alone)


def _numbered(first: int, last: int | None, thread: Row | None, *, alone: bool) -> Place | None:
    if thread is None:
        raise InputError(
            "A message number needs a thread.",
            why="Each thread numbers its messages from 1.",
            then="Pass the thread: thread=…, or write it before the number.",
        )
    if last is not None and last < first:
        raise InputError(
            f"A span must end after it begins, got {first} to {last}.", then="Put the earlier message first."
        )
    if not 1 <= first <= thread.last_seq:
        raise MessageNotFound(f"{first} of thread {thread.id}")
    if last is None:
        return _from(thread, first, alone=alone)
    end = min(last, thread.last_seq)
    return _place([Stretch(thread_pk=thread.pk, thread=thread.id, first=first, last=end)])


def _from(thread: Row, seq: int, *, alone: bool) -> Place:
    """Return the place that begins at a message. Unless `alone`, the pages continue through its thread in both directions."""
    first, last = (seq, seq) if alone else (1, thread.last_seq)
    stretch = Stretch(thread_pk=thread.pk, thread=thread.id, first=first, last=last)
    return Place(stretches=(stretch,), start=(thread.pk, seq, 0, 0))


def _place(stretches: Sequence[Stretch]) -> Place | None:
    """Return the place of these stretches. Adjacent stretches are joined. None if there are no stretches."""
    joined: list[Stretch] = []
    for stretch in sorted(stretches, key=lambda stretch: (stretch.thread_pk, stretch.first)):
        before = joined[-1] if joined else None
        if before and before.thread_pk == stretch.thread_pk and stretch.first <= before.last + 1:
            joined[-1] = replace(before, last=max(before.last, stretch.last))
        else:
            joined.append(stretch)
    return Place(stretches=tuple(joined), start=(joined[0].thread_pk, joined[0].first, 0, 0)) if joined else None


def _labelled(resource: str, place: Place) -> Script[Place]:
    keys = sorted({stretch.thread_pk for stretch in place.stretches})
    labels: dict[int, str] = {}
    for some in chunks(keys, _AT_ONCE):
        rows = yield q.labels(resource=resource, threads=some)
        labels |= {row.pk: f"t{row.alias}" for row in rows}
    stretches = (replace(stretch, label=labels.get(stretch.thread_pk)) for stretch in place.stretches)
    return replace(place, stretches=tuple(stretches))


def _reading(resource: str, place: Place, position: Position, *, back: bool, limit: int) -> Script[tuple[Message, ...]]:
    found: list[Message] = []
    thread_pk, seq, part, character = position
    # When reading backwards, the message at the position is needed only if a part of it is before the position.
    end = seq if (part, character) > (0, 0) else seq - 1
    for stretch in reversed(place.stretches) if back else place.stretches:
        first, last = stretch.first, stretch.last
        if stretch.thread_pk == thread_pk:
            first, last = (first, min(last, end)) if back else (max(first, seq), last)
        elif (stretch.thread_pk > thread_pk) == back:
            continue
        if first > last or len(found) >= limit:
            continue
        where = {"resource": resource, "thread": stretch.thread, "limit": limit - len(found)}
        if back:
            rows = yield messages.before(before=min(last + 1, LAST), **where)
        else:
            rows = yield messages.after(after=max(first - 1, FIRST), up_to=last, **where)
        found += [message_from_row(row) for row in rows if first <= row.seq <= last]
    return tuple(found)
