"""Decay closed tasks to their summary, then to an archive, and restore them byte for byte.

Version, times and history do not change.

- level 1, 30 days after it was closed: description and metadata are archived, the summary stays.
- level 2, 90 days after: the beginning of the summary stays, the rest is archived and compressed.
"""

from __future__ import annotations

import base64
import zlib
from datetime import timedelta
from typing import Final, cast

from memolog.domain.clock import Clock
from memolog.domain.codec import dumps, loads, pack, unpack
from memolog.domain.errors import StoreCorrupt
from memolog.domain.moments import to_micros
from memolog.domain.task import Decayed, Task
from memolog.store.engine import Engine
from memolog.store.scope import check_ids, check_limit
from memolog.store.sql import Row, Script, load_queries
from memolog.store.task_rows import Found, finding, reading_task

__all__ = ["TaskDecay", "decaying", "unpacking"]

q = load_queries("task_decay")

_DAY: Final = timedelta(days=1) // timedelta(microseconds=1)
_AFTER_DAYS: Final = {1: 30, 2: 90}
_ARCHIVED_SUMMARY: Final = 200
_COMPRESSED: Final = "z:"


class TaskDecay:
    """The decay of closed tasks of every resource, one resource at a time."""

    def __init__(self, engine: Engine, clock: Clock) -> None:
        self._engine, self._clock = engine, clock

    async def decay(self, resource: str, *, limit: int = 500) -> Decayed:
        """Decay closed tasks that are old enough by one level each, the longest closed first."""
        check_ids(resource=resource)
        check_limit(limit)
        now = to_micros(self._clock.now())
        return await self._engine.write(lambda: decaying(resource, now, limit=limit), name="task_decay.decay")

    async def restore(self, resource: str, task: str) -> Task:
        """Restore a decayed task; a task that has not decayed does not change."""
        check_ids(resource=resource, task=task)
        now = to_micros(self._clock.now())

        def script() -> Script[Task]:
            found = yield from finding(resource, task)
            if found.level > 0:
                yield from unpacking(found, now)
            return (yield from reading_task(found.pk))

        return await self._engine.write(script, name="task_decay.restore")


def decaying(resource: str, now: int, *, limit: int) -> Script[Decayed]:
    """Decay some tasks within a larger script."""
    summarised: list[str] = []
    archived: list[str] = []
    # The higher level first, so that no task decays by two levels at once.
    for level, done in ((2, archived), (1, summarised)):
        before = now - _AFTER_DAYS[level] * _DAY
        rows = yield q.due_to_decay(resource=resource, level=level - 1, before=before, limit=limit)
        for row in rows:
            archived_now = yield q.decay(
                task_pk=row.pk, level=level, old_level=level - 1, version=row.version, **_left(row, level)
            )
            done.extend(changed.handle for changed in archived_now)
    return Decayed(summarised=tuple(summarised), archived=tuple(archived))


def _left(row: Row, level: int) -> dict[str, object]:
    """Return the columns of a task at a level, with the rest archived."""
    whole = row.archive or dumps({"summary": row.summary, "metadata": row.metadata, "description": row.description})
    if level == 1:
        return {"summary": row.summary, "metadata": "{}", "description": "", "archive": whole}
    short = unpack(row.summary) or ""
    if len(short) > _ARCHIVED_SUMMARY:
        short = f"{short[:_ARCHIVED_SUMMARY].rstrip()}…"
    packed = _COMPRESSED + base64.b64encode(zlib.compress(whole.encode(), 9)).decode()
    return {"summary": pack(short), "metadata": "{}", "description": "", "archive": packed}


def unpacking(found: Found, now: int) -> Script[None]:
    """Restore the columns of a task from its archive."""
    rows = yield q.kept(task_pk=found.pk)
    archive = cast("str", rows[0].archive or "")
    try:
        text = (
            zlib.decompress(base64.b64decode(archive[len(_COMPRESSED) :])).decode()
            if archive.startswith(_COMPRESSED)
            else archive
        )
        kept = cast("dict[str, str | None]", loads(text))
    except ValueError as error:
        raise StoreCorrupt(
            f"The archive of {found.handle} cannot be read.",
            why=str(error),
            then="The rest of the task is untouched. Go back to a copy of the database for its description.",
        ) from error
    yield q.restore(
        task_pk=found.pk,
        summary=kept["summary"],
        metadata=kept["metadata"],
        description=kept["description"],
        now=now,
    )
