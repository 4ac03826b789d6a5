"""Correcting the log by hand: edit a line, take it back and reinstate it, or delete it for good.

Knows that a correction is a line of its own beside the one that it corrects, which is kept out of sight: both name the messages
that they come from. Reflections over it are derived again. Knows not how a line is shown.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from memolog.domain.clock import Clock
from memolog.domain.codec import loads, object_text, pack
from memolog.domain.errors import InputError, NotFound
from memolog.domain.forgetting import Forgotten
from memolog.domain.moments import to_micros
from memolog.domain.observation import Observation, Priority
from memolog.store.engine import Engine
from memolog.store.forgetting import told, work_of
from memolog.store.lines import reading_observations
from memolog.store.rederiving import Loss, copying_line, reading_groups, rederiving, rewriting
from memolog.store.reindexing import resetting_index, taking_index
from memolog.store.scope import check_id
from memolog.store.sql import Script, load_queries
from memolog.store.withdrawals import Render

__all__ = ["LineEdits"]

q = load_queries("lines")
forgetting = load_queries("forgetting")
logs = load_queries("logs")


class _Line(NamedTuple):
    """Where a line stands."""

    pk: int
    id: str
    state: str
    group_pk: int
    group: str
    log_pk: int
    group_state: str
    group_kind: str


class LineEdits:
    """Corrections of every resource's logs, one resource at a time."""

    def __init__(self, engine: Engine, clock: Clock, new_id: Callable[[], str]) -> None:
        self._engine, self._clock, self._new_id = engine, clock, new_id

    def _now(self) -> int:
        return to_micros(self._clock.now())

    async def get(self, resource: str, observation: str) -> Observation:
        """Return an observation, whatever its state; raises NotFound."""
        _check(resource, observation)

        def script() -> Script[Observation]:
            return (yield from _reading(resource, observation))

        return await self._engine.read(script)

    async def edit(
        self,
        resource: str,
        observation: str,
        text: str,
        *,
        tokens: int,
        render: Render,
        priority: Priority | None = None,
    ) -> Observation:
        """Let a corrected line stand for an observation; returns it. The old one is kept as retracted."""
        _check(resource, observation)
        at = self._now()
        if not text.strip():
            raise InputError("An observation cannot be empty.", then="Retract or delete it instead.")

        def script() -> Script[Observation]:
            old = yield from _finding(resource, observation)
            _refuse(old, {"deleted", "retracted"})
            before = yield from _reading(resource, observation)
            # It does not merge the old line: that one can be deleted for good, and its correction stays.
            new_pk = yield from copying_line(old.pk, old.group_pk, old.state, self._new_id, merges=False)
            yield q.rewrite_line(
                observation_pk=new_pk,
                text=pack(text),
                priority=priority or before.priority,
                tokens=tokens,
                metadata=object_text("The metadata", {**before.metadata, "edit_of": observation}),
            )
            loss = Loss(
                log_pk=old.log_pk, lines=(old.pk,), how="retracted", kind="edit", by_hand=True, instead={old.pk: new_pk}
            )
            yield from rederiving(loss, self._new_id, render, at)
            name: str = (yield q.states(pks=[new_pk]))[0][1]
            return (yield from _reading(resource, name))

        return await self._engine.write(script, name="line_edits.edit")

    async def retract(self, resource: str, observation: str, *, render: Render) -> Observation:
        """Take an observation out of sight, with every reflected line that says it; `reinstate` brings it back."""
        _check(resource, observation)
        at = self._now()

        def script() -> Script[Observation]:
            line = yield from _finding(resource, observation)
            _refuse(line, {"deleted"})
            if line.state != "retracted":
                loss = Loss(log_pk=line.log_pk, lines=(line.pk,), how="retracted", kind="edit", by_hand=True)
                yield from rederiving(loss, self._new_id, render, at)
            return (yield from _reading(resource, observation))

        return await self._engine.write(script, name="line_edits.retract")

    async def reinstate(self, resource: str, observation: str, *, render: Render) -> Observation:
        """Bring a retracted observation back, also into the reflections that it was taken out of."""
        _check(resource, observation)
        at = self._now()

        def script() -> Script[Observation]:
            line = yield from _finding(resource, observation)
            _refuse(line, {"deleted"})
            if line.state == "retracted":
                yield from self._reinstating(line, render, at)
            return (yield from _reading(resource, observation))

        return await self._engine.write(script, name="line_edits.reinstate")

    def _reinstating(self, line: _Line, render: Render, at: int) -> Script[None]:
        mergers = yield q.mergers(pks=[line.pk])
        is_said = any(row[2] not in {"deleted", "retracted"} for row in mergers)
        was_said = any(row[2] == "retracted" for row in mergers)
        is_covered = line.group_state == "covered"
        hidden = "superseded" if is_said or was_said else "dropped"
        yield q.set_state(pks=[line.pk], state=hidden if is_covered else "active")
        lines = [line.pk]
        if is_covered and was_said and not is_said:
            lines += yield from self._standing_again(line)
        loss = Loss(log_pk=line.log_pk, lines=(), how="retracted", kind="edit")
        yield from rewriting(loss, (yield from reading_groups(lines)), render, at)

    def _standing_again(self, line: _Line) -> Script[list[int]]:
        """Put a line into the reflections over its group, one above the other."""
        made: list[int] = []
        inside, latest = line.group, line.pk
        for group_pk, name, state, inputs in (yield q.reflections_over(log_pk=line.log_pk)):
            if inside in loads(inputs).get("groups", []):
                shown = "active" if state == "active" else "superseded"
                latest = yield from copying_line(latest, group_pk, shown, self._new_id)
                made.append(latest)
                inside = name
        return made

    async def delete(self, resource: str, observation: str, *, render: Render, dry_run: bool = False) -> Forgotten:
        """Delete an observation for good, with every reflected line that says it. Its messages stay."""
        _check(resource, observation)
        at = self._now()

        def script() -> Script[Forgotten]:
            yield from taking_index(resource)
            line = yield from _finding(resource, observation)
            _refuse(line, {"deleted"})
            loss = Loss(log_pk=line.log_pk, lines=(line.pk,), how="deleted", kind="forget", by_hand=True)
            made = yield from rederiving(loss, self._new_id, render, at)
            prompts = yield forgetting.delete_prompts_of_log(log_pk=line.log_pk)
            yield from resetting_index(resource)
            return Forgotten(
                resource=resource, observations=made.lines, reflections=made.reflections, prompts=len(prompts)
            )

        return await told(self._engine.write(work_of(script, dry_run=dry_run), name="line_edits.delete"))


def _check(resource: str, observation: str) -> None:
    check_id("resource", resource)
    check_id("observation", observation)


def _refuse(line: _Line, states: set[str]) -> None:
    if line.state in states:
        raise InputError(
            f"Observation {line.id} is {line.state}.",
            then="Nothing of it is left." if line.state == "deleted" else "Reinstate it first.",
        )
    if line.group_state not in {"active", "covered"}:
        raise InputError(
            f"Observation {line.id} is not part of the log.",
            why=f"Its group is {line.group_state}.",
            then="Activate its group first." if line.group_state == "buffered" else "It is out of sight already.",
        )


def _finding(resource: str, observation: str) -> Script[_Line]:
    line = yield from _looking_up(resource, observation)
    # Whoever changes a log takes its row first, so that two changes of one line do not both find it as it was. Who waited for
    # it may find that its thread was deleted.
    yield logs.touch_version(log_pk=line.log_pk)
    return (yield from _looking_up(resource, observation))


def _looking_up(resource: str, observation: str) -> Script[_Line]:
    rows = yield q.find_line(resource=resource, observation=observation)
    if not rows:
        raise NotFound(f"There is no observation {observation}.", then="Check its id: search and recall show ids.")
    return _Line(*rows[0])


def _reading(resource: str, observation: str) -> Script[Observation]:
    line = yield from _looking_up(resource, observation)
    found = yield from reading_observations(line.log_pk, [line.group])
    return next(one for one in found if one.id == observation)
