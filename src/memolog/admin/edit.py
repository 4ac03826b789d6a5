"""Correct the log by hand: edit, retract, reinstate or delete an observation.

An edit adds a new observation with the same source messages and retracts the old one. Every correction also updates the
reflections that were made from the observation.
"""

from __future__ import annotations

from memolog.admin.forget import write_or_try
from memolog.core.exact_json import loads, object_text, pack
from memolog.core.observation import Observation, Priority
from memolog.core.reports import Forgotten
from memolog.db.engine import reads, writes
from memolog.db.queries import Row, Script, load_queries
from memolog.db.scope import check_ids
from memolog.errors import InputError, NotFound
from memolog.log.store import reading_observations
from memolog.log.withdrawals import LogChanges, Loss, copying_line, reading_groups, rederiving, rewriting
from memolog.search.index import resetting_index, taking_index

q = load_queries("log/lines")
forget_queries = load_queries("admin/forgetting")
log_queries = load_queries("log/logs")


class LineEdits(LogChanges):
    """Corrects logs. Each call changes the log of one resource."""

    @reads
    def get(self, resource: str, observation: str) -> Script[Observation]:
        """Return an observation in any state. Raise NotFound if it does not exist."""
        check_ids(resource=resource, observation=observation)
        return (yield from _reading(resource, observation))

    @writes("line_edits.edit")
    def edit(
        self,
        resource: str,
        observation: str,
        text: str,
        *,
        tokens: int,
        priority: Priority | None = None,
    ) -> Script[Observation]:
        """Add a corrected observation, retract the old one, and return the new one."""
        check_ids(resource=resource, observation=observation)
        at = self._now()
        if not text.strip():
            raise InputError("`text` must not be empty.", then="Retract or delete the observation instead.")
        old = yield from _finding(resource, observation)
        _refuse(old, {"deleted", "retracted"})
        before = yield from _reading(resource, observation)
        # The new line is not linked to the old line, so that deleting the old line does not delete the new one.
        new_pk = yield from copying_line(old.pk, old.group_pk, old.state, self._new_id, merges=False)
        yield q.rewrite_line(
            observation_pk=new_pk,
            text=pack(text),
            priority=priority or before.priority,
            tokens=tokens,
            metadata=object_text("The metadata", {**before.metadata, "edit_of": observation}),
        )
        loss = Loss(
            log_pk=old.log_pk, lines=(old.pk,), how="retracted", kind="edit", by_hand=True, instead={old.pk: (new_pk,)}
        )
        yield from rederiving(loss, self._new_id, self._render, at)
        name: str = (yield q.states(pks=[new_pk]))[0].id
        return (yield from _reading(resource, name))

    @writes("line_edits.retract")
    def retract(self, resource: str, observation: str) -> Script[Observation]:
        """Hide an observation and every line of a reflection that was made from it. `reinstate` undoes this."""
        check_ids(resource=resource, observation=observation)
        at = self._now()
        line = yield from _finding(resource, observation)
        _refuse(line, {"deleted"})
        if line.state != "retracted":
            loss = Loss(log_pk=line.log_pk, lines=(line.pk,), how="retracted", kind="edit", by_hand=True)
            yield from rederiving(loss, self._new_id, self._render, at)
        return (yield from _reading(resource, observation))

    @writes("line_edits.reinstate")
    def reinstate(self, resource: str, observation: str) -> Script[Observation]:
        """Show a retracted observation again, also in the reflections from which it was removed."""
        check_ids(resource=resource, observation=observation)
        at = self._now()
        line = yield from _finding(resource, observation)
        _refuse(line, {"deleted"})
        if line.state == "retracted":
            yield from self._reinstating(line, at)
        return (yield from _reading(resource, observation))

    def _reinstating(self, line: Row, at: int) -> Script[None]:
        mergers = yield q.mergers(pks=[line.pk])
        is_merged = any(row.state not in {"deleted", "retracted"} for row in mergers)
        was_merged = any(row.state == "retracted" for row in mergers)
        is_covered = line.group_state == "covered"
        hidden = "superseded" if is_merged or was_merged else "dropped"
        yield q.set_state(pks=[line.pk], state=hidden if is_covered else "active")
        lines = [line.pk]
        if is_covered and was_merged and not is_merged:
            lines += yield from self._adding_to_reflections(line)
        loss = Loss(log_pk=line.log_pk, lines=(), how="retracted", kind="edit")
        yield from rewriting(loss, (yield from reading_groups(lines)), self._render, at)

    def _adding_to_reflections(self, line: Row) -> Script[list[int]]:
        """Add a copy of a line to each reflection that was made from its group. Return the keys of the copies."""
        made: list[int] = []
        inside, latest = line.group_id, line.pk
        for group in (yield q.reflections_over(log_pk=line.log_pk)):
            if inside in loads(group.inputs).get("groups", []):
                shown = "active" if group.state == "active" else "superseded"
                latest = yield from copying_line(latest, group.pk, shown, self._new_id)
                made.append(latest)
                inside = group.id
        return made

    async def delete(self, resource: str, observation: str, *, dry_run: bool = False) -> Forgotten:
        """Delete an observation and every line of a reflection that was made from it. The source messages are not deleted."""
        check_ids(resource=resource, observation=observation)
        at = self._now()

        def script() -> Script[Forgotten]:
            yield from taking_index(resource)
            line = yield from _finding(resource, observation)
            _refuse(line, {"deleted"})
            loss = Loss(log_pk=line.log_pk, lines=(line.pk,), how="deleted", kind="forget", by_hand=True)
            made = yield from rederiving(loss, self._new_id, self._render, at)
            prompts = yield forget_queries.delete_prompts_of_log(log_pk=line.log_pk)
            yield from resetting_index(resource)
            return Forgotten(
                resource=resource, observations=made.lines, reflections=made.reflections, prompts=len(prompts)
            )

        return await write_or_try(self.engine, script, name="line_edits.delete", dry_run=dry_run)


def _refuse(line: Row, states: set[str]) -> None:
    if line.state in states:
        raise InputError(
            f"Observation {line.id} is {line.state}.",
            then="It cannot be restored." if line.state == "deleted" else "Reinstate it first.",
        )
    if line.group_state not in {"active", "covered"}:
        raise InputError(
            f"Observation {line.id} is not part of the log.",
            why=f"Its group is {line.group_state}.",
            then="Activate its group first."
            if line.group_state == "buffered"
            else "It is not shown, so there is nothing to change.",
        )


def _finding(resource: str, observation: str) -> Script[Row]:
    line = yield from _looking_up(resource, observation)
    # Lock the log, then read the line again, because another transaction may have changed or deleted it before.
    yield log_queries.touch_version(log_pk=line.log_pk)
    return (yield from _looking_up(resource, observation))


def _looking_up(resource: str, observation: str) -> Script[Row]:
    rows = yield q.find_line(resource=resource, observation=observation)
    if not rows:
        raise NotFound(f"There is no observation {observation!r}.", then="Check the id. Search and recall show ids.")
    return rows[0]


def _reading(resource: str, observation: str) -> Script[Observation]:
    line = yield from _looking_up(resource, observation)
    found = yield from reading_observations(line.log_pk, [line.group_id])
    return next(one for one in found if one.id == observation)
