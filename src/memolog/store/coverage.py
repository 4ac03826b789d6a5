"""What groups stand for: a reflection for the groups that it covers, those for the messages of their spans.

Knows the rows of groups and the inputs of the runs that made them. Changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from memolog.domain.codec import loads
from memolog.store.snapshot import GroupRow, group_row
from memolog.store.sql import Script, load_queries

__all__ = ["reading_leaves", "reading_members", "reading_standing"]

q = load_queries("logs")


def reading_standing(log_pk: int, generation: int) -> Script[list[GroupRow]]:
    """Return the groups of a generation; in place of a reflection that was taken apart since, what it covered."""
    todo = [group_row(row) for row in reversed((yield q.active_groups(log_pk=log_pk, generation=generation)))]
    void = {row[0] for row in (yield q.void_reflections(log_pk=log_pk))}
    found: list[GroupRow] = []
    while todo:
        group = todo.pop()
        if group.pk not in void:
            found.append(group)
        else:
            todo += reversed((yield from reading_members(log_pk, group)))
    return found


def reading_members(log_pk: int, group: GroupRow) -> Script[list[GroupRow]]:
    """Read the groups that a reflection covers, in their order."""
    inputs = yield q.covers(group_pk=group.pk)
    names: list[str] = loads(inputs[0][0]).get("groups", []) if inputs else []
    if not names:
        return []
    rows = yield q.groups_by_id(log_pk=log_pk, groups=names)
    by_id = {row[1]: group_row(row) for row in rows}
    return [by_id[name] for name in names if name in by_id]


def reading_leaves(log_pk: int, groups: Sequence[GroupRow]) -> Script[set[str]]:
    """Return the observer groups that these groups stand for, through every reflection."""
    found: set[str] = set()
    todo = [(group.id, group.pk, group.kind) for group in groups]
    while todo:
        group_id, group_pk, kind = todo.pop()
        if kind != "reflection":
            found.add(group_id)
            continue
        inputs = yield q.covers(group_pk=group_pk)
        names: list[str] = loads(inputs[0][0]).get("groups", []) if inputs else []
        if names:
            rows = yield q.group_keys(log_pk=log_pk, groups=names)
            todo += [(row[0], row[1], row[2]) for row in rows]
    return found
