"""Resolve which groups a reflection covers, down to the observer groups."""

from __future__ import annotations

from collections.abc import Sequence

from memolog.domain.codec import loads
from memolog.store.snapshot import GroupRow, group_row
from memolog.store.sql import Script, load_queries

__all__ = ["reading_leaves", "reading_members", "reading_standing"]

q = load_queries("logs")


def reading_standing(log_pk: int, generation: int) -> Script[list[GroupRow]]:
    """Return the groups of a generation; a reflection that is void by now is replaced by what it covered."""
    todo = [group_row(row) for row in reversed((yield q.active_groups(log_pk=log_pk, generation=generation)))]
    void = {row.pk for row in (yield q.void_reflections(log_pk=log_pk))}
    found: list[GroupRow] = []
    while todo:
        group = todo.pop()
        if group.pk not in void:
            found.append(group)
        else:
            todo += reversed((yield from reading_members(log_pk, group.pk)))
    return found


def reading_members(log_pk: int, group_pk: int) -> Script[list[GroupRow]]:
    """Return the groups that a reflection covers, in their order."""
    inputs = yield q.inputs_of_group(group_pk=group_pk)
    names: list[str] = loads(inputs[0].inputs).get("groups", []) if inputs else []
    if not names:
        return []
    by_id = {row.id: group_row(row) for row in (yield q.groups_by_id(log_pk=log_pk, groups=names))}
    return [by_id[name] for name in names if name in by_id]


def reading_leaves(log_pk: int, groups: Sequence[GroupRow]) -> Script[set[str]]:
    """Return the observer groups that these groups cover, through every reflection."""
    found: set[str] = set()
    todo = list(groups)
    while todo:
        group = todo.pop()
        if group.kind == "reflection":
            todo += yield from reading_members(log_pk, group.pk)
        else:
            found.add(group.id)
    return found
