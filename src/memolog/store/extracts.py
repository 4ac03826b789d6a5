"""Extracts in the store: values drawn from a thread, each version with where it comes from.

Knows rows and their order. Knows not how a value was drawn; it is stored with the group of the same run, under its fence.
"""

from __future__ import annotations

from collections.abc import Sequence

from memolog.domain.codec import dumps, loads, pack, unpack
from memolog.domain.extract import Extract, NewExtract
from memolog.domain.moments import from_micros
from memolog.domain.observation import Span
from memolog.store.engine import Engine
from memolog.store.scope import check_id
from memolog.store.sql import Row, Script, load_queries

__all__ = ["Extracts", "cloning_extracts", "deleting_extracts", "storing_extracts"]

q = load_queries("extracts")

_ALL = 2**62


class Extracts:
    """The extracts of every resource, one thread at a time."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def list(self, resource: str, thread: str, *, before: int | None = None) -> tuple[Extract, ...]:
        """Return every version of every value, by key, oldest first; only those drawn before a message if one is named."""
        check_id("resource", resource)
        check_id("thread", thread)
        limit = _ALL if before is None else before

        def script() -> Script[tuple[Extract, ...]]:
            rows = yield q.list_extracts(resource=resource, thread=thread, before=limit)
            return tuple(_extract(row, thread) for row in rows)

        return await self._engine.read(script)


def storing_extracts(
    thread_pk: int, span: Span, values: Sequence[NewExtract], *, who: str, run: str, at: int
) -> Script[None]:
    """Store what a run drew from its span."""
    for new in values:
        yield q.put_extract(
            thread_pk=thread_pk,
            first_seq=span.first,
            last_seq=span.last,
            at=at,
            key=new.key,
            who=pack(who),
            run=run,
            value=dumps(new.value),
        )


def deleting_extracts(where: dict[str, int]) -> Script[None]:
    """Delete what was drawn from a range of messages."""
    yield q.delete_extracts_over(**where)


def cloning_extracts(source_pk: int, target_pk: int, up_to: int) -> Script[None]:
    """Copy what was drawn from the messages up to one."""
    yield q.copy_extracts(source_pk=source_pk, target_pk=target_pk, up_to=up_to)


def _extract(row: Row, thread: str) -> Extract:
    key, version, first, last, at, who, run, value = row
    return Extract(
        key=key,
        value=loads(value),
        version=version,
        by=unpack(who) or "",
        at=from_micros(at),
        thread=thread,
        span=Span(first=first, last=last),
        run=run,
    )
