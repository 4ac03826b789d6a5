"""Call a model for a run: check its budget before, keep prompts where configured, and add up usage."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from memolog.core.config import Config
from memolog.core.exact_json import dumps, encode
from memolog.core.run import Usage
from memolog.errors import MemologError
from memolog.log.runner import RunFault
from memolog.observer.model import (
    BudgetedModel,
    BudgetSpent,
    CallableModel,
    Limit,
    Model,
    ModelReply,
    ModelRequest,
    cause_of,
)
from memolog.text.redaction import REDACTION

if TYPE_CHECKING:
    from memolog.store import Store

Ask: TypeAlias = Callable[[Model, ModelRequest], Awaitable[ModelReply]]


async def spent_of(store: "Store", resource: str, thread: str | None, config: Config) -> float:
    """Return what was spent on observing and reflecting, within the scope of the budget."""
    if config.budget_scope == "all":
        return await store.spent()
    of = thread if config.budget_scope == "thread" else None
    lines = await store.ledger.lines(resource, thread=of)
    return sum(line.total.cost for line in lines if line.kind in {"observe", "reflect"})


class ModelCalls:
    """Calls models for the runs of one batch, within their budget. Create one for each batch."""

    def __init__(self, store: "Store", resource: str, thread: str | None, runs: Sequence[str], config: Config) -> None:
        self._store, self._resource, self._runs, self._config = store, resource, runs, config
        self._guarded: BudgetedModel | None = None
        self._limits: tuple[Limit, ...] = ()
        if config.budget is not None:
            of = {"thread": "thread", "resource": "resource", "all": "database"}[config.budget_scope]
            spent = lambda: spent_of(store, resource, thread, config)  # noqa: E731 - a short closure
            self._limits = (Limit(of=of, dollars=config.budget, spent=spent),)
        self.usage: Usage | None = None
        """The usage of all calls so far."""

    async def __call__(self, model: Model, request: ModelRequest) -> ModelReply:
        """Return the model's answer; raises BudgetSpent without asking it, or RunFault if it fails."""
        if self._guarded is None:
            self._guarded = BudgetedModel(model, *self._limits)
        most = min(filter(None, (request.max_tokens, self._config.reply_tokens)))
        own = model.timeout if isinstance(model, CallableModel) else None
        request = replace(request, max_tokens=most, timeout=own or self._config.model_timeout)
        try:
            return await self._once(self._guarded, request)
        except (BudgetSpent, KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            if _is_ours(error):
                raise
            if not request.files or cause_of(error) != "refused":
                reason = f"the model failed: {type(error).__name__}: {error}"
                raise RunFault(reason, cause=cause_of(error)) from error
        # The model does not accept these files: ask with their placeholders only.
        return await self(model, replace(request, files=()))

    async def _once(self, model: Model, request: ModelRequest) -> ModelReply:
        try:
            reply = await model.complete(request)
        except BudgetSpent:
            raise
        except Exception as error:
            await self._keep(request, None, error)
            raise
        if reply.usage is not None:
            self.usage = _sum(self.usage, replace(reply.usage, kind=request.purpose))
        await self._keep(request, reply.text, None)
        return reply

    async def _keep(self, request: ModelRequest, reply: str | None, error: Exception | None) -> None:
        if not self._config.keep_prompts:
            return
        asked = {
            "purpose": request.purpose,
            "system": request.system,
            "text": request.text,
            "temperature": request.temperature,
            "max_tokens": request.max_tokens,
            "files": [file.name or file.media_type for file in request.files],
            "error": None if error is None else REDACTION.redact(f"{type(error).__name__}: {error}"),
        }
        for run in self._runs:
            # The answer is used even if its prompt cannot be stored.
            with contextlib.suppress(MemologError):
                await self._store.runs.keep_prompt(self._resource, run, dumps(encode(asked)), reply)


def _is_ours(error: BaseException) -> bool:
    """Return whether this task was cancelled; a model that raises CancelledError by itself has failed."""
    task = asyncio.current_task()
    return isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling() > 0


def _sum(one: Usage | None, other: Usage) -> Usage:
    if one is None:
        return other
    return replace(
        one,
        input_tokens=one.input_tokens + other.input_tokens,
        output_tokens=one.output_tokens + other.output_tokens,
        cache_read_tokens=one.cache_read_tokens + other.cache_read_tokens,
        cache_write_tokens=one.cache_write_tokens + other.cache_write_tokens,
        cost=one.cost + other.cost,
    )
