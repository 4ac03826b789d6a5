"""The drafted summary of a task: written by the model where there is one, else chosen from the observations.

Knows how to ask, and that no answer, a bad answer or a spent budget must not keep anybody from closing a task.
"""

import logging
from dataclasses import replace

from memolog.domain.errors import MemologError
from memolog.domain.task import DraftSummary, Task
from memolog.prompt.redact import Redactor
from memolog.runtime.kit import Kit
from memolog.runtime.model import Model, ModelRequest
from memolog.runtime.models.retry import complete_in_time
from memolog.tasks.summary import draft, summary_prompt, written

__all__ = ["drafted_summary"]

_log = logging.getLogger("memolog")

_MOST_LINES = 100
_MOST_TOKENS = 2_000


async def drafted_summary(
    kit: Kit, resource: str, task: Task, *, most: int, to_write: bool, redactor: Redactor
) -> DraftSummary:
    """Return a summary of what came of a task, with citations."""
    observations = await kit.store.task_messages.observations(resource, task.id, limit=_MOST_LINES)
    if kit.writer is None or not observations:
        return draft(task, observations, most=most)
    system, text = summary_prompt(task, observations)
    request = ModelRequest(
        purpose="reflect",
        system=system,
        text=redactor.redact(text),
        max_tokens=_MOST_TOKENS,
        timeout=kit.config.model_timeout,
    )
    answer = await _ask(kit, kit.writer, resource, task, request, to_write=to_write)
    return written(answer, observations, kit.writer.name) or draft(task, observations, most=most)


async def _ask(kit: Kit, model: Model, resource: str, task: Task, request: ModelRequest, *, to_write: bool) -> str:
    try:
        reply = await complete_in_time(model, request)
    except Exception as error:  # noqa: BLE001 - a model may raise anything, and the embedded draft is there
        _log.warning("the model did not write a summary of %s: %s", task.handle, error)
        return ""
    if reply.usage is not None and to_write:
        try:
            await kit.store.ledger.add(resource, replace(reply.usage, kind="other", task=task.id))
        except MemologError as error:
            _log.warning("what the summary of %s cost could not be entered: %s", task.handle, error)
    return reply.text
