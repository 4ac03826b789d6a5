"""Rows to values. The order of the columns is that of the `select_…` queries.

Knows which column is which field. Knows no query.
"""

from typing import Any, cast

from memolog.domain.caches import remembered
from memolog.domain.codec import JsonObject, loads, unpack
from memolog.domain.message import Message, parts_from_json
from memolog.domain.moments import from_micros
from memolog.domain.observation import Span
from memolog.domain.run import Lease, Run, UsageTotal
from memolog.domain.thread import Hints, Thread
from memolog.store.sql import Row

__all__ = ["lease_from_row", "message_from_row", "run_from_row", "thread_from_row"]

_NANO = 1_000_000_000

# A message follows from its row alone, and a tail is loaded at every step: a row that was read before is not parsed again.
# Only short ones are remembered, so that the whole stays within a few megabytes. Treat values as read-only.
_REMEMBERED_ROWS = 2048
_REMEMBERED_CHARACTERS = 4096


def _object(text: str) -> JsonObject:
    return cast("JsonObject", loads(text)) if text != "{}" else {}


def _moment(micros: int | None) -> Any:
    return None if micros is None else from_micros(micros)


def message_from_row(row: Row) -> Message:
    """Return the message of a `select_messages` row."""
    return _remembered(tuple(row)) if len(row[15]) <= _REMEMBERED_CHARACTERS else _message(row)


def _message(row: Row) -> Message:
    return Message(
        resource=row[0],
        thread=row[1],
        seq=row[2],
        id=row[3],
        continuation=row[4],
        role=row[5],
        tokens=row[6],
        created_at=from_micros(row[7]),
        state=row[8],
        own=bool(row[9]),
        level=row[10],
        zone=unpack(row[11]),
        speaker=unpack(row[12]),
        task=row[13],
        metadata=_object(row[14]),
        parts=parts_from_json(row[15]),
        injection=unpack(row[16]),
        search=unpack(row[17]),
        pruned=bool(row[19]),
        turn=row[20],
    )


_remembered = remembered(_REMEMBERED_ROWS)(_message)


def thread_from_row(row: Row) -> Thread:
    """Return the thread of a `select_threads` row."""
    return Thread(
        id=row[1],
        resource=row[2],
        created_at=from_micros(row[3]),
        updated_at=from_micros(row[4]),
        last_seq=row[5],
        title=unpack(row[6]),
        hints=Hints(
            current_task=unpack(row[7]),
            suggested_response=unpack(row[8]),
            title=unpack(row[9]),
            at=_moment(row[10]),
            last_seq=row[11],
        ),
        active_task=row[12],
        active_session=unpack(row[13]),
        overrides=_object(row[14]),
        metadata=_object(row[15]),
        cloned_from=row[16],
    )


def lease_from_row(row: Row) -> Lease:
    """Return the lease of a row: name, owner, fence, end."""
    return Lease(name=row[0], owner=row[1], fence=row[2], expires_at=from_micros(row[3]))


def run_from_row(row: Row) -> Run:
    """Return the run of a `get_run` row."""
    return Run(
        id=row[0],
        kind=row[1],
        status=row[2],
        thread=row[3],
        span=None if row[4] is None else Span(first=row[4], last=row[5]),
        inputs=loads(row[6]),
        attempt=row[7],
        model=row[8],
        prompt_version=row[9],
        started_at=_moment(row[10]),
        finished_at=_moment(row[11]),
        retry_at=_moment(row[12]),
        error=unpack(row[13]),
        usage=UsageTotal(input_tokens=row[14], output_tokens=row[15], cost=row[16] / _NANO),
    )
