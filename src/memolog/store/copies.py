"""Copies of logs: for the clone of a thread, and for a log that takes over from others after a change of scope.

Knows how groups, observations and their provenance are copied under new ids. The originals stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from memolog.domain.codec import dumps, loads, pack
from memolog.domain.moments import to_micros
from memolog.store.engine import Engine
from memolog.store.lines import reading_observations
from memolog.store.logs import new_generation
from memolog.store.scope import check_id
from memolog.store.snapshot import GroupRow, ensure_log, group_row
from memolog.store.sql import Row, Script, load_queries
from memolog.store.withdrawals import Render, reading_aliases

__all__ = ["Copies", "Merged", "cloning_log", "cloning_share"]

q = load_queries("copies")
logs = load_queries("logs")

NewId = Callable[[], str]
_GROUP = (
    *("pk", "id", "handle", "kind", "state", "thread_pk", "first_seq", "last_seq", "run_pk", "tokens", "observations"),
    *("first_at", "last_at", "created_at", "activated_at", "hints", "text"),
)
_OBSERVATION = (
    *("pk", "ordinal", "parent", "priority", "trust", "grounded", "state", "tokens", "said_at", "zone", "about"),
    *("category", "text", "verbatim", "files", "metadata"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """The threads whose logs the shared one took over, and those that it could not, each with the reason."""

    threads: tuple[str, ...]
    left: tuple[tuple[str, str], ...] = ()


class Copies:
    """Lets one log take over from others."""

    def __init__(self, engine: Engine, new_id: NewId) -> None:
        self._engine, self._new_id = engine, new_id

    async def merge(self, resource: str, *, now: datetime, render: Render) -> Merged:
        """Let the resource's shared log take over what its threads' own logs hold."""
        check_id("resource", resource)
        at = to_micros(now)
        return await self._engine.write(lambda: _merging(resource, self._new_id, at, render), name="copies.merge")


def cloning_log(resource: str, source_pk: int, target_pk: int, up_to: int, new_id: NewId, now: int) -> Script[bool]:
    """Copy a thread's own log to its clone; False if the clone ends before the log does, or there is no log."""
    found = yield q.take_log_of_thread(resource=resource, thread_pk=source_pk)
    if not found:
        return False
    log_pk, generation, next_handle = found[0]
    cursor = yield logs.get_cursor(log_pk=log_pk, thread_pk=source_pk)
    if not cursor or cursor[0][0] > up_to:
        # Part of a log cannot be copied: the clone's messages are simply observed again.
        return False
    target = yield from ensure_log(resource, target_pk, new_id, now)
    copied = yield from _copying(log_pk, target.pk, {source_pk: target_pk}, new_id)
    entries = yield logs.active_groups(log_pk=log_pk, generation=generation)
    for position, row in enumerate(entries, start=1):
        step = logs.add_entry(log_pk=target.pk, generation=0, position=position, group_pk=copied[row[0]], now=now)
        yield step
    yield logs.create_cursor(log_pk=target.pk, thread_pk=target_pk, seq=cursor[0][0])
    yield q.set_next_handle(log_pk=target.pk, next_handle=next_handle)
    yield q.copy_hints(source_pk=source_pk, target_pk=target_pk)
    return True


def cloning_share(
    resource: str, source_pk: int, target_pk: int, source: str, up_to: int, new_id: NewId, now: int
) -> Script[None]:
    """Let the log that threads share cover the clone as far as it covers its source: what it says of one it says of both.

    An empty group holds the place, so that the span of every message is known, and its run names the thread it comes from.
    """
    found = yield logs.find_log(resource=resource, thread_pk=0)
    if not found:
        return
    log_pk = found[0][0]
    _, generation = (yield logs.touch_version(log_pk=log_pk))[0]
    rows = yield logs.get_cursor(log_pk=log_pk, thread_pk=source_pk)
    covered: int = rows[0][0] if rows else 0
    last = min(covered, up_to)
    if last <= 0:
        return
    run = yield q.insert_run_copy(
        id=new_id(),
        log_pk=log_pk,
        kind="observe",
        thread_pk=target_pk,
        first_seq=1,
        last_seq=last,
        started_at=now,
        finished_at=now,
        model=None,
        prompt_version=None,
        inputs=dumps({"cloned_from": source}),
    )
    handle = int((yield q.handle_of(log_pk=log_pk))[0][0])
    values: dict[str, Any] = dict.fromkeys(_GROUP) | {
        "id": new_id(),
        "log_pk": log_pk,
        "handle": f"g{handle}",
        "kind": "observer",
        "state": "active",
        "thread_pk": target_pk,
        "first_seq": 1,
        "last_seq": last,
        "run_pk": run[0][0],
        "tokens": 0,
        "observations": 0,
        "created_at": now,
        "activated_at": now,
        "text": "",
    }
    del values["pk"]
    made = yield q.insert_group_copy(**values)
    yield q.set_next_handle(log_pk=log_pk, next_handle=handle + 1)
    position = (yield logs.last_position(log_pk=log_pk, generation=generation))[0][0] + 1
    yield logs.add_entry(log_pk=log_pk, generation=generation, position=position, group_pk=made[0][0], now=now)
    yield logs.create_cursor(log_pk=log_pk, thread_pk=target_pk, seq=0)
    yield q.set_cursor(log_pk=log_pk, thread_pk=target_pk, seq=last)
    if last == covered:
        yield q.copy_hints(source_pk=source_pk, target_pk=target_pk)


def _merging(resource: str, new_id: NewId, now: int, render: Render) -> Script[Merged]:
    """Let the resource's shared log take over what its threads' own logs hold.

    A thread that the shared log has observed by itself stays as it is: nothing is ever in a log twice.
    """
    shared = yield from ensure_log(resource, None, new_id, now)
    _, present = (yield logs.touch_version(log_pk=shared.pk))[0]
    yield q.take_thread_logs(resource=resource)
    entries = [group_row(row) for row in (yield logs.active_groups(log_pk=shared.pk, generation=present))]
    order = [group.pk for group in entries]
    before = sum(group.tokens for group in entries)
    rows = yield q.handle_of(log_pk=shared.pk)
    after, merged, handle = before, list[str](), int(rows[0][0])
    left: list[tuple[str, str]] = []
    for thread_pk, name, log_pk, generation, seq in (yield q.thread_logs(resource=resource)):
        touched = yield q.touched_here(log_pk=shared.pk, thread_pk=thread_pk)
        running = yield q.running_here(log_pk=shared.pk, thread_pk=thread_pk)
        if touched[0][0] or running[0][0]:
            if not (yield q.merged_here(log_pk=shared.pk, thread_pk=thread_pk)):
                why = "has observed it by itself" if touched[0][0] else "is about to observe it"
                left.append((name, f"the shared log {why}"))
            continue
        copied = yield from _copying(log_pk, shared.pk, {thread_pk: thread_pk}, new_id, first_handle=handle)
        handle += len(copied)
        yield logs.create_cursor(log_pk=shared.pk, thread_pk=thread_pk, seq=0)
        yield q.set_cursor(log_pk=shared.pk, thread_pk=thread_pk, seq=seq)
        order += [copied[row[0]] for row in (yield logs.active_groups(log_pk=log_pk, generation=generation))]
        for group_pk in copied.values():
            tokens = yield from _rendering(shared.pk, group_pk, render)
            after += tokens if group_pk in order else 0
        merged.append(name)
    if merged:
        yield q.set_next_handle(log_pk=shared.pk, next_handle=handle)
        yield from new_generation(shared.pk, present + 1, "merge", order, now, before=before, after=after)
    return Merged(threads=tuple(merged), left=tuple(left))


def _rendering(log_pk: int, group_pk: int, render: Render) -> Script[int]:
    """Render a copied group under its new handle; the text of the original names the old one. What has no text gets none."""
    rows = yield q.group_by_key(group_pk=group_pk)
    group: GroupRow = group_row(rows[0])
    if not group.text:
        return 0
    lines = yield from reading_observations(log_pk, [group.id])
    aliases = yield from reading_aliases(log_pk, lines)
    text, tokens = render(group, [line for line in lines if line.state not in {"deleted", "retracted"}], aliases)
    yield logs.set_group_text(group_pk=group_pk, text=pack(text), tokens=tokens)
    return tokens


def _copying(
    log_pk: int, target_log: int, threads: Mapping[int, int], new_id: NewId, *, first_handle: int | None = None
) -> Script[dict[int, int]]:
    """Copy all groups of a log; returns the key of each copy by that of its original."""
    rows = [dict(zip(_GROUP, row, strict=True)) for row in (yield q.groups_of_log(log_pk=log_pk))]
    names = {row["id"]: new_id() for row in rows}
    copied: dict[int, int] = {}
    observations: dict[int, int] = {}
    for number, row in enumerate(rows):
        values = dict(row, id=names[row["id"]], log_pk=target_log)
        values["thread_pk"] = threads.get(row["thread_pk"], row["thread_pk"])
        values["run_pk"] = yield from _copying_run(row["run_pk"], target_log, threads, names, new_id)
        if first_handle is not None:
            values["handle"] = f"g{first_handle + number}"
        del values["pk"]
        made = yield q.insert_group_copy(**values)
        copied[row["pk"]] = made[0][0]
        observations |= yield from _copying_lines(row["pk"], made[0][0], threads, new_id)
    for row in rows:
        merges = yield q.merges_of_group(group_pk=row["pk"])
        known = [(observations.get(line), observations.get(merged)) for line, merged in merges]
        pairs = [{"observation_pk": a, "merged_pk": b} for a, b in known if a is not None and b is not None]
        yield q.insert_merge_copy.many(pairs)
    return copied


def _copying_run(
    run_pk: int | None, target_log: int, threads: Mapping[int, int], names: Mapping[str, str], new_id: NewId
) -> Script[int | None]:
    """Copy the run that made a group: its inputs say what a reflection stands for."""
    if run_pk is None:
        return None
    rows = yield q.run_of(run_pk=run_pk)
    kind, thread_pk, first_seq, last_seq, started_at, finished_at, model, prompt_version, inputs = rows[0]
    given = loads(inputs)
    if "groups" in given:
        given["groups"] = [names[name] for name in given["groups"] if name in names]
    made = yield q.insert_run_copy(
        id=new_id(),
        log_pk=target_log,
        kind=kind,
        thread_pk=threads.get(thread_pk, thread_pk),
        first_seq=first_seq,
        last_seq=last_seq,
        started_at=started_at,
        finished_at=finished_at,
        model=model,
        prompt_version=prompt_version,
        inputs=dumps(given),
    )
    return made[0][0]


def _copying_lines(group_pk: int, target_pk: int, threads: Mapping[int, int], new_id: NewId) -> Script[dict[int, int]]:
    copied: dict[int, int] = {}
    rows: Any = yield q.observations_of_group(group_pk=group_pk)
    for row in rows:
        values: dict[str, object] = dict(zip(_OBSERVATION, row, strict=True))
        del values["pk"]
        made = yield q.insert_observation_copy(**values | {"id": new_id(), "group_pk": target_pk})
        copied[row[0]] = made[0][0]
    sources: list[Row] = list((yield q.sources_of_group(group_pk=group_pk)))
    yield q.insert_source_copy.many(
        [
            {"observation_pk": copied[line], "thread_pk": threads.get(thread, thread), "first_seq": a, "last_seq": b}
            for line, thread, a, b in sources
        ]
    )
    return copied
