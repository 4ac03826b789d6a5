"""Store and read extracts: values that a run drew from a thread, each version with its source."""

from __future__ import annotations

from collections.abc import Sequence

from memolog.core.clock import from_micros
from memolog.core.exact_json import dumps, loads, pack, unpack
from memolog.core.observation import Extract, NewExtract, Span
from memolog.db.engine import Calls
from memolog.db.queries import Row, Script, load_queries
from memolog.db.scope import LAST, check_ids

q = load_queries("log/extracts")


class Extracts(Calls):
    """The extracts of every resource, one thread at a time."""

    async def list(self, resource: str, thread: str, *, before: int | None = None) -> tuple[Extract, ...]:
        """Return every version of every value by key, oldest first; with `before`, only those drawn before that message."""
        check_ids(resource=resource, thread=thread)
        step = q.list_extracts(resource=resource, thread=thread, before=LAST if before is None else before)
        return await self.engine.fetch(step, lambda row: _extract(row, thread))


def storing_extracts(
    thread_pk: int, span: Span, values: Sequence[NewExtract], *, who: str, run: str, at: int
) -> Script[None]:
    """Store the values that a run drew from its span."""
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
    """Delete the values drawn from a range of messages."""
    yield q.delete_extracts_over(**where)


def cloning_extracts(source_pk: int, target_pk: int, up_to: int) -> Script[None]:
    """Copy the values drawn from the messages up to a number."""
    yield q.copy_extracts(source_pk=source_pk, target_pk=target_pk, up_to=up_to)


def _extract(row: Row, thread: str) -> Extract:
    return Extract(
        key=row.key,
        value=loads(row.value),
        version=row.version,
        by=unpack(row.who) or "",
        at=from_micros(row.at),
        thread=thread,
        span=Span(first=row.first_seq, last=row.last_seq),
        run=row.run,
    )
