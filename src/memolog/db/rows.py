"""Convert rows of the database to messages, threads and runs."""

from dataclasses import fields
from datetime import datetime
from functools import cache
from typing import Any, Final, TypeVar, cast
from weakref import WeakValueDictionary

from memolog.core.clock import from_micros
from memolog.core.exact_json import JsonObject, loads, unpack
from memolog.core.message import Message, parts_from_json
from memolog.core.observation import Span
from memolog.core.run import Run, UsageTotal
from memolog.core.thread import Hints, ThreadInfo
from memolog.db.queries import Row

T = TypeVar("T")

NANO = 1_000_000_000
"""Costs are stored as whole numbers of billionths of a dollar."""

# Several readers use the messages of a tail, so a row is parsed once while its message is used: equal rows give the same object,
# by which other caches recognise it. The key is the hash of the row, because the row itself has the text a second time.
# Messages are shared, so callers must not change them.
_IN_USE: Final = WeakValueDictionary[int, Message]()


def object_in(text: str) -> JsonObject:
    """Parse a JSON text that contains an object."""
    return cast("JsonObject", loads(text)) if text != "{}" else {}


def moment(micros: int | None) -> datetime | None:
    """Return a number of microseconds as a datetime, or None for None."""
    return None if micros is None else from_micros(micros)


def span_from_row(row: Row) -> Span | None:
    """Return the span from `first_seq` to `last_seq`, or None if one of them is NULL."""
    return None if row.first_seq is None or row.last_seq is None else Span(first=row.first_seq, last=row.last_seq)


def from_row(kind: type[T], row: Row, **converted: object) -> T:
    """Return a dataclass. Its fields are the columns of the same names and, for the other fields, the values in `converted`."""
    places = _places_of_fields(kind, row._fields, tuple(converted))
    return kind(**{name: row[place] for name, place in places}, **converted)


@cache
def _places_of_fields(
    kind: type[object], columns: tuple[str, ...], converted: tuple[str, ...]
) -> tuple[tuple[str, int], ...]:
    """Return the fields whose values are columns, and the places of these columns in a row."""
    names = [field.name for field in fields(cast("Any", kind)) if field.name not in converted]
    return tuple((name, columns.index(name)) for name in names if name in columns)


def message_from_row(row: Row) -> Message:
    """Return the message of a row with the columns of `select_messages`."""
    key = hash(row)
    known = _IN_USE.get(key)
    if known is None or (known.id, known.seq, known.thread) != (row.id, row.seq, row.thread):
        _IN_USE[key] = known = _message(row)
    return known


def file_tokens_in(row: Row) -> int:
    """Return the tokens of the large files of a message: as reported or, without a report, as counted."""
    counted, reported = row.file_tokens or 0, row.reported_file_tokens
    return counted if reported is None else reported


def tokens_in(row: Row) -> int:
    """Return the tokens of a message. Reported tokens of files replace the counted ones."""
    return row.tokens - (row.file_tokens or 0) + file_tokens_in(row)


def _message(row: Row) -> Message:
    return Message(
        resource=row.resource,
        thread=row.thread,
        seq=row.seq,
        id=row.id,
        continuation=row.continuation,
        role=row.role,
        tokens=tokens_in(row),
        file_tokens=file_tokens_in(row),
        is_file_reported=row.reported_file_tokens is not None,
        created_at=from_micros(row.created_at),
        state=row.state,
        own=bool(row.own),
        level=row.level,
        zone=unpack(row.zone),
        speaker=unpack(row.speaker),
        task=row.task,
        metadata=object_in(row.metadata),
        parts=parts_from_json(row.parts),
        injection=unpack(row.injection),
        search=unpack(row.search),
        pruned=bool(row.pruned),
        turn=row.turn,
    )


def hints_from_row(row: Row) -> Hints:
    """Return the current task, the suggested response and the title in a row of a thread."""
    return Hints(
        current_task=unpack(row.current_task),
        suggested_response=unpack(row.suggested_response),
        title=unpack(row.hinted_title),
        at=moment(row.hinted_at),
        last_seq=row.hinted_seq,
    )


def thread_from_row(row: Row) -> ThreadInfo:
    """Return the thread of a `select_threads` row."""
    return ThreadInfo(
        id=row.id,
        resource=row.resource,
        created_at=from_micros(row.created_at),
        updated_at=from_micros(row.updated_at),
        last_seq=row.last_seq,
        title=unpack(row.title),
        hints=hints_from_row(row),
        active_task=row.active_task,
        active_session=unpack(row.active_session),
        overrides=object_in(row.overrides),
        metadata=object_in(row.metadata),
        cloned_from=row.cloned_from,
    )


def run_from_row(row: Row) -> Run:
    """Return the run of a `select_runs` row."""
    return Run(
        id=row.id,
        kind=row.kind,
        status=row.status,
        thread=row.thread,
        span=span_from_row(row),
        inputs=loads(row.inputs),
        attempt=row.attempt,
        model=row.model,
        prompt_version=row.prompt_version,
        started_at=from_micros(row.started_at),
        finished_at=moment(row.finished_at),
        retry_at=moment(row.retry_at),
        error=unpack(row.error),
        usage=UsageTotal(input_tokens=row.input_tokens, output_tokens=row.output_tokens, cost=row.cost / NANO),
    )
