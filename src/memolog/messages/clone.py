"""Copy logs to the clone of a thread, and into the shared log of a resource after a change of scope. The originals stay."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from memolog.core.exact_json import dumps, loads
from memolog.db.engine import writes
from memolog.db.queries import Script, load_queries
from memolog.db.scope import check_ids
from memolog.log.snapshot import ensure_log, group_row, new_generation
from memolog.log.withdrawals import LogChanges, storing_rendering

q = load_queries("messages/copies")
logs = load_queries("log/logs")

NewId = Callable[[], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """The threads whose logs were merged into the shared log. `left` has the other threads, each with the reason."""

    threads: tuple[str, ...]
    left: tuple[tuple[str, str], ...] = ()


class Copies(LogChanges):
    """Merges logs. Every call is for one resource."""

    @writes("copies.merge")
    def merge(self, resource: str) -> Script[Merged]:
        """Copy the logs of the threads of a resource into its shared log.

        A thread is skipped if the shared log has observed it already, so that no message is observed twice.
        """
        check_ids(resource=resource)
        at = self._now()
        shared = yield from ensure_log(resource, None, self._new_id, at)
        present = (yield logs.touch_version(log_pk=shared.pk))[0].generation
        yield q.take_thread_logs(resource=resource)
        entries = [group_row(row) for row in (yield logs.active_groups(log_pk=shared.pk, generation=present))]
        order = [group.pk for group in entries]
        before = sum(group.tokens for group in entries)
        handle: int = (yield q.handle_of(log_pk=shared.pk))[0].next_handle
        after, merged = before, list[str]()
        left: list[tuple[str, str]] = []
        for thread in (yield q.thread_logs(resource=resource)):
            place = {"log_pk": shared.pk, "thread_pk": thread.pk}
            groups = (yield q.touched_here(**place))[0].groups
            runs = (yield q.running_here(**place))[0].runs
            if groups or runs:
                if not (yield q.merged_here(**place)):
                    why = "has already observed it" if groups else "is about to observe it"
                    left.append((thread.id, f"the shared log {why}"))
                continue
            copied = yield from _copying(thread.log_pk, shared.pk, {}, self._new_id, first_handle=handle)
            handle += len(copied)
            yield logs.create_cursor(**place, seq=0)
            yield q.set_cursor(**place, seq=thread.seq)
            active = yield logs.active_groups(log_pk=thread.log_pk, generation=thread.generation)
            order += [copied[row.pk] for row in active]
            for group_pk in copied.values():
                # The text of the original contains the old handle. A group without text stays without one.
                group = (yield q.group_by_key(group_pk=group_pk))[0]
                tokens = (yield from storing_rendering(shared.pk, group.id, self._render)) if group.text else 0
                after += tokens if group_pk in order else 0
            merged.append(thread.id)
        if merged:
            yield q.set_next_handle(log_pk=shared.pk, next_handle=handle)
            yield from new_generation(shared.pk, present + 1, "merge", order, at, before=before, after=after)
        return Merged(threads=tuple(merged), left=tuple(left))


def cloning_log(resource: str, source_pk: int, target_pk: int, new_id: NewId, now: int) -> Script[None]:
    """Copy the log of a thread to the clone of the thread, if the thread has its own log."""
    found = yield q.take_log_of_thread(resource=resource, thread_pk=source_pk)
    if not found:
        return
    log = found[0]
    cursor = yield logs.get_cursor(log_pk=log.pk, thread_pk=source_pk)
    if not cursor:
        return
    target = yield from ensure_log(resource, target_pk, new_id, now)
    copied = yield from _copying(log.pk, target.pk, {source_pk: target_pk}, new_id)
    entries = yield logs.active_groups(log_pk=log.pk, generation=log.generation)
    for position, row in enumerate(entries, start=1):
        yield logs.add_entry(log_pk=target.pk, generation=0, position=position, group_pk=copied[row.pk], now=now)
    yield logs.create_cursor(log_pk=target.pk, thread_pk=target_pk, seq=cursor[0].seq)
    yield q.set_next_handle(log_pk=target.pk, next_handle=log.next_handle)
    yield q.copy_hints(source_pk=source_pk, target_pk=target_pk)


def cloning_share(resource: str, source_pk: int, target_pk: int, source: str, new_id: NewId, now: int) -> Script[None]:
    """Mark as observed, in the shared log, the messages of a clone that the shared log covers in the source thread.

    The clone gets an empty group over these messages. The inputs of its run have the id of the source thread.
    """
    found = yield logs.find_log(resource=resource, thread_pk=0)
    if not found:
        return
    log_pk = found[0].pk
    generation = (yield logs.touch_version(log_pk=log_pk))[0].generation
    rows = yield logs.get_cursor(log_pk=log_pk, thread_pk=source_pk)
    last: int = rows[0].seq if rows else 0
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
    handle: int = (yield q.handle_of(log_pk=log_pk))[0].next_handle
    made = yield q.insert_group_copy(
        id=new_id(),
        log_pk=log_pk,
        handle=f"g{handle}",
        kind="observer",
        state="active",
        thread_pk=target_pk,
        first_seq=1,
        last_seq=last,
        run_pk=run[0].pk,
        tokens=0,
        observations=0,
        first_at=None,
        last_at=None,
        created_at=now,
        activated_at=now,
        hints=None,
        text="",
    )
    yield q.set_next_handle(log_pk=log_pk, next_handle=handle + 1)
    position = (yield logs.last_position(log_pk=log_pk, generation=generation))[0].position + 1
    yield logs.add_entry(log_pk=log_pk, generation=generation, position=position, group_pk=made[0].pk, now=now)
    yield logs.create_cursor(log_pk=log_pk, thread_pk=target_pk, seq=last)
    yield q.copy_hints(source_pk=source_pk, target_pk=target_pk)


def _copying(
    log_pk: int, target_log: int, threads: Mapping[int, int], new_id: NewId, *, first_handle: int | None = None
) -> Script[dict[int, int]]:
    """Copy all groups of a log. Return the primary key of each copy by the primary key of its original."""
    rows = yield q.groups_of_log(log_pk=log_pk)
    names = {row.id: new_id() for row in rows}
    copied: dict[int, int] = {}
    observations: dict[int, int] = {}
    for number, row in enumerate(rows):
        values: dict[str, Any] = row._asdict() | {"id": names[row.id], "log_pk": target_log}
        values["thread_pk"] = threads.get(row.thread_pk, row.thread_pk)
        values["run_pk"] = yield from _copying_run(row.run_pk, target_log, threads, names, new_id)
        if first_handle is not None:
            values["handle"] = f"g{first_handle + number}"
        del values["pk"]
        made = yield q.insert_group_copy(**values)
        copied[row.pk] = made[0].pk
        observations |= yield from _copying_lines(row.pk, made[0].pk, threads, new_id)
    for row in rows:
        merges = yield q.merges_of_group(group_pk=row.pk)
        known = [(observations.get(merge.observation_pk), observations.get(merge.merged_pk)) for merge in merges]
        pairs = [{"observation_pk": a, "merged_pk": b} for a, b in known if a is not None and b is not None]
        yield q.insert_merge_copy.many(pairs)
    return copied


def _copying_run(
    run_pk: int | None, target_log: int, threads: Mapping[int, int], names: Mapping[str, str], new_id: NewId
) -> Script[int | None]:
    """Copy the run of a group. The inputs of a reflection contain the ids of the covered groups, so these ids are replaced."""
    if run_pk is None:
        return None
    run = (yield q.run_of(run_pk=run_pk))[0]
    inputs = loads(run.inputs)
    if "groups" in inputs:
        inputs["groups"] = [names[name] for name in inputs["groups"] if name in names]
    values: dict[str, Any] = run._asdict() | {"id": new_id(), "log_pk": target_log, "inputs": dumps(inputs)}
    values["thread_pk"] = threads.get(run.thread_pk, run.thread_pk)
    made = yield q.insert_run_copy(**values)
    return made[0].pk


def _copying_lines(group_pk: int, target_pk: int, threads: Mapping[int, int], new_id: NewId) -> Script[dict[int, int]]:
    copied: dict[int, int] = {}
    for row in (yield q.observations_of_group(group_pk=group_pk)):
        values: dict[str, Any] = row._asdict() | {"id": new_id(), "group_pk": target_pk}
        del values["pk"]
        made = yield q.insert_observation_copy(**values)
        copied[row.pk] = made[0].pk
    sources: list[dict[str, Any]] = [row._asdict() for row in (yield q.sources_of_group(group_pk=group_pk))]
    for source in sources:
        source["observation_pk"] = copied[source["observation_pk"]]
        source["thread_pk"] = threads.get(source["thread_pk"], source["thread_pk"])
    yield q.insert_source_copy.many(sources)
    return copied
