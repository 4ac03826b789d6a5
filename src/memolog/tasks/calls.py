"""Read, create, change, claim, close, search and summarise the tasks of one resource, for one session."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from memolog.core.observation import TRACES, Observation, Priority
from memolog.db.scope import check_limit
from memolog.errors import Conflict, InputError, MemologError, TaskMoveRefused, TaskNotFound
from memolog.observer.model import Model, ModelRequest, complete_in_time, reason_of
from memolog.observer.run import spent_of
from memolog.search.search import SearchOptions, search_memory
from memolog.tasks.claims import TaskClaims
from memolog.tasks.dependencies import TaskLinks
from memolog.tasks.rows import names_in
from memolog.tasks.store import TaskStore
from memolog.tasks.task import (
    Claimed,
    Closed,
    CloseReason,
    DraftSummary,
    Task,
    TaskAbout,
    TaskHit,
    TaskStatus,
    TaskType,
)
from memolog.text.escape import fixed_text
from memolog.text.redaction import redactor_for

if TYPE_CHECKING:
    from memolog.connection import Components

# `search` with `related` adds at most _MESSAGES messages and _OBSERVATIONS observations to each task.
_MESSAGES = 5
_OBSERVATIONS = 10
# `search` reads at most this many pages of hits, because a filter by status may remove most of them.
_MOST_PAGES = 10
_log = logging.getLogger("memolog")
# The model that writes a summary is shown at most _MOST_LINES observations, and writes at most _MOST_TOKENS tokens.
_MOST_LINES = 100
_MOST_TOKENS = 2_000
# `claim_next` reads this many ready tasks at a time.
_TRIED_A_PAGE: Final = 20
_RANK: Final[dict[Priority, int]] = {"done": 0, "high": 1, "medium": 2, "low": 3}
_ASKED: Final = frozenset({"question", "request"})
_CITED: Final = re.compile(r"\[(\d{1,4})\]")
# The model is shown at most this many characters of the description. Its summary may have at most `_LONGEST` characters.
_DESCRIBED: Final = 2_000
_LONGEST: Final = 4_000


class Tasks(TaskStore, TaskLinks, TaskClaims):
    """The tasks of one resource. All calls accept the id of a task or its handle (`T-12`, `t12`, `#12`)."""

    async def find(self, name: str) -> tuple[Task, ...]:
        """Return the task with this id or handle. If there is none, return the tasks with this title, ignoring case."""
        try:
            return (await self.get(name),)
        except (TaskNotFound, InputError):
            return await self._named(name)

    async def search(
        self,
        query: str,
        *,
        status: TaskStatus | Sequence[TaskStatus] = (),
        limit: int = 10,
        related: bool = False,
    ) -> tuple[TaskHit, ...]:
        """Return the tasks that match a text best. `related` adds the messages and observations of each task."""
        components = await self._open_components()
        now = components.clock.now()
        statuses = names_in(status)
        size = check_limit(limit) if not statuses else 3 * check_limit(limit)
        hits: list[TaskHit] = []
        cursor: str | None = None
        for _ in range(_MOST_PAGES):
            wanted = SearchOptions(limit=size, sources=("task",), cursor=cursor)
            answer = await search_memory(components.store, self._config, query, self.resource, wanted, now)
            found = await self._some([result.id for result in answer.results])
            hits.extend(
                TaskHit(task=found[result.id], snippet=result.snippet, rank=result.score)
                for result in answer.results
                if result.id in found and (not statuses or found[result.id].status in statuses)
            )
            cursor = answer.next
            if cursor is None or len(hits) >= limit:
                break
        for place, hit in enumerate(hits[:limit] if related else ()):
            page = await self.messages(hit.task.id, limit=_MESSAGES)
            observations = await self.observations(hit.task.id, limit=_OBSERVATIONS)
            hits[place] = replace(hit, messages=page.items, observations=observations)
        return tuple(hits[:limit])

    async def about(self, task: str, *, limit: int = 50, after: str | None = None) -> TaskAbout:
        """Return a task with its messages, its observations and its cost."""
        components = await self._open_components()
        shown = await self.show(task)
        found = shown.task
        page = await self.messages(found.id, limit=limit, after=after)
        return TaskAbout(
            task=found,
            messages=page.items,
            observations=await self.observations(found.id),
            cost=await components.store.ledger.total(self.resource, task=found.id),
            total_messages=shown.messages,
            next=page.next,
        )

    async def claim_next(
        self,
        *,
        labels: Sequence[str] = (),
        types: Sequence[TaskType] = (),
        max_priority: int = 4,
        assignee: str | None = None,
        thread: str | None = None,
        lease: float | None = None,
    ) -> Claimed | None:
        """Claim the most urgent ready task, and return it. Return None if no task is ready."""
        # A read-only memory must raise StoreReadOnly even if no task is ready.
        await self._begun(to_write=True)
        tried: set[str] = set()
        while True:
            page = await self.ready(
                labels=labels, types=types, max_priority=max_priority, assignee=assignee, limit=_TRIED_A_PAGE
            )
            fresh = [item.task for item in page.items if item.task.id not in tried]
            if not fresh:
                return None
            for task in fresh:
                tried.add(task.id)
                try:
                    return await self.claim(task.id, thread=thread, lease=lease)
                except (Conflict, TaskMoveRefused, TaskNotFound):
                    # Another session has claimed or closed it, so try the next one.
                    continue

    async def close(
        self,
        task: str,
        reason: CloseReason = "completed",
        *,
        summary: str,
        claim_next: bool = False,
        force: bool = False,
    ) -> Closed:
        """Close a task, and return it with the tasks that this unblocked. `claim_next` then claims the next ready task."""
        closed = await self._close(task, reason, summary, force=force)
        return replace(closed, next=await self.claim_next()) if claim_next else closed

    async def draft_summary(self, task: str, *, most: int = 8) -> DraftSummary:
        """Draft the summary for closing a task, with citations. If the memory has a model, the model writes the draft."""
        components = await self._open_components()
        found = await self.get(task)
        observations = await self.observations(found.id, limit=_MOST_LINES)
        if components.writer is None or not observations:
            return draft(found, observations, most=most)
        system, text = summary_prompt(found, observations)
        request = ModelRequest(
            purpose="reflect",
            system=system,
            text=redactor_for(self._config).redact(text),
            max_tokens=_MOST_TOKENS,
            timeout=components.config.model_timeout,
        )
        answer = await self._ask(components, components.writer, found, request)
        return written(answer, observations, components.writer.name) or draft(found, observations, most=most)

    async def _ask(self, components: Components, model: Model, task: Task, request: ModelRequest) -> str:
        """Return the reply of a model, and store its cost. Return an empty text if the model fails or the budget is spent."""
        budget = components.config.budget
        if budget is not None and await spent_of(components.store, self.resource, None, components.config) >= budget:
            _log.warning("the budget is spent, so no model writes a summary of %s", task.handle)
            return ""
        try:
            reply = await complete_in_time(model, request)
        except Exception as error:  # noqa: BLE001 - a model may raise any error; then the extractive draft is used
            _log.warning("the model did not write a summary of %s: %s", task.handle, reason_of(error, request))
            return ""
        if reply.usage is not None and not self._config.read_only:
            try:
                await components.store.ledger.add(self.resource, replace(reply.usage, kind="other", task=task.id))
            except MemologError as error:
                _log.warning("the cost of the summary of %s could not be saved: %s", task.handle, error)
        return reply.text


# ---------------------------------------------------------------- summaries


def draft(task: Task, observations: Sequence[Observation], *, most: int = 8) -> DraftSummary:
    """Return the most important lines about a task, completed work first, each with its citation."""
    live = [one for one in observations if one.state == "active" and one.text.strip()]
    # Some lines only list names that a reflection omitted. Use them only if there are no others.
    live = [one for one in live if not one.text.startswith(TRACES)] or live
    chosen = _most_important(live, most)
    kept = [live[index] for index in sorted(chosen)]
    if not kept:
        return DraftSummary(text=f"{task.title}: nothing was observed about it.")
    sources, numbers = numbered_sources(kept)
    lines = [
        f"* {' '.join(one.text.split())} {_marks(marks)}".rstrip() for one, marks in zip(kept, numbers, strict=True)
    ]
    return DraftSummary(text="\n".join([f"{task.title}:", *lines]), sources=sources)


def _most_important(lines: Sequence[Observation], most: int) -> list[int]:
    """Return the indexes of the most important lines: completed work, then statements of users and findings."""
    # Later lines come first, because results are at the end of the work. Of the findings, answers come before the output of
    # tools, and questions and requests come last.
    latest = range(len(lines) - 1, -1, -1)
    done = [index for index in latest if lines[index].priority == "done"][:most]
    cited_places = {place for index in done for place in _places(lines[index])}
    stated = [index for index in latest if lines[index].priority == "high" and not cited_places & _places(lines[index])]
    found = [index for index in latest if _RANK[lines[index].priority] > _RANK["high"]]
    found.sort(key=lambda index: (lines[index].category in _ASKED, lines[index].trust == "tool"))
    room = most - len(done)
    said = stated[: max(room - room // 2, room - len(found))]
    return [*done, *said, *found[: room - len(said)]]


def _places(line: Observation) -> set[tuple[str, int]]:
    """Return the last messages that a line cites."""
    return {(source.thread, source.span.last) for source in line.sources}


def numbered_sources(
    observations: Sequence[Observation],
) -> tuple[tuple[tuple[str, int, int], ...], tuple[tuple[int, ...], ...]]:
    """Return all cited spans without repetition, and for each observation the numbers (from 1) of the spans that it cites."""
    order: dict[tuple[str, int, int], int] = {}
    numbers: list[tuple[int, ...]] = []
    for observation in observations:
        keys = [(source.thread, source.span.first, source.span.last) for source in observation.sources]
        numbers.append(tuple(order.setdefault(key, len(order) + 1) for key in dict.fromkeys(keys)))
    return tuple(order), tuple(numbers)


def _marks(numbers: Sequence[int]) -> str:
    return "".join(f"[{number}]" for number in numbers)


def summary_prompt(task: Task, observations: Sequence[Observation]) -> tuple[str, str]:
    """Return the instructions and the text of the request to a model that writes the summary."""
    lines = [f"[{number}] {' '.join(one.text.split())}" for number, one in enumerate(observations, start=1)]
    described = [f"Description: {' '.join(task.description.split())[:_DESCRIBED]}"] if task.description.strip() else []
    return fixed_text("tasks/summary"), "\n".join([f"Task: {task.title}", *described, "", "Lines:", *lines])


def written(text: str, observations: Sequence[Observation], model: str) -> DraftSummary | None:
    """Return the summary of a model, with the numbers of lines replaced by citations of their sources.

    Return None if the summary is empty or too long, or cites no line or an unknown line.
    """
    body = text.strip()
    cited = {int(number) for number in _CITED.findall(body)}
    if not body or len(body) > _LONGEST or not cited or not cited <= set(range(1, len(observations) + 1)):
        return None
    used = sorted(cited)
    sources, numbers = numbered_sources([observations[number - 1] for number in used])
    marks = {number: _marks(spans) for number, spans in zip(used, numbers, strict=True)}
    return DraftSummary(text=_CITED.sub(lambda hit: marks[int(hit[1])], body), sources=sources, model=model)
