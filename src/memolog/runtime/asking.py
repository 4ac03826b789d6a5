"""Asking: every call of a run goes through here.

Knows the books: a hard budget is checked before a call, what was sent and answered is kept where that is wanted, and what was
spent is added up, whatever becomes of the run. Knows not what is asked, nor what an answer means.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

from memolog.config import Config
from memolog.domain.codec import dumps, encode
from memolog.domain.errors import MemologError
from memolog.domain.run import Usage
from memolog.prompt.redact import REDACTION
from memolog.runtime.model import Model, ModelReply, ModelRequest
from memolog.runtime.models import BudgetedModel, BudgetSpent, CallableModel, Limit, cause_of
from memolog.runtime.runner import RunFault
from memolog.store import Store

__all__ = ["Ask", "Asking", "spent_of"]

Ask: TypeAlias = Callable[[Model, ModelRequest], Awaitable[ModelReply]]


async def spent_of(store: Store, resource: str, thread: str | None, config: Config) -> float:
    """Return what the books say was spent of a budget: on observing and reflecting, by whom it is for."""
    if config.budget_scope == "all":
        return await store.spent()
    of = thread if config.budget_scope == "thread" else None
    lines = await store.ledger.lines(resource, thread=of)
    return sum(line.total.cost for line in lines if line.kind in {"observe", "reflect"})


class Asking:
    """Asks for one call's runs, within their budget. Make one for each: it remembers what it has let through."""

    def __init__(self, store: Store, resource: str, thread: str | None, runs: Sequence[str], config: Config) -> None:
        self._store, self._resource, self._runs, self._config = store, resource, runs, config
        self._guarded: BudgetedModel | None = None
        self._limits: tuple[Limit, ...] = ()
        if config.budget is not None:
            of = {"thread": "thread", "resource": "resource", "all": "database"}[config.budget_scope]
            spent = lambda: spent_of(store, resource, thread, config)  # noqa: E731 - short, and read where it is used
            self._limits = (Limit(of=of, dollars=config.budget, spent=spent),)
        self.usage: Usage | None = None
        """What all calls so far cost."""

    async def __call__(self, model: Model, request: ModelRequest) -> ModelReply:
        """Return the model's answer; raises BudgetSpent without asking it, or RunFault if it fails.

        The time of an attempt and the longest answer are those of the configuration.
        """
        if self._guarded is None:
            self._guarded = BudgetedModel(model, *self._limits)
        most = min(filter(None, (request.max_tokens, self._config.reply_tokens)))
        own = model.timeout if isinstance(model, CallableModel) else None
        request = replace(request, max_tokens=most, timeout=own or self._config.model_timeout)
        try:
            return await self._once(self._guarded, request)
        except BudgetSpent:
            raise
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            if _is_ours(error):
                raise
            if not request.files or cause_of(error) != "refused":
                raise _fault(error) from error
        # It cannot see files, or not these: what their placeholders say is better than nothing.
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
            # A prompt that cannot be kept is no reason to lose what was answered.
            with contextlib.suppress(MemologError):
                await self._store.runs.keep_prompt(self._resource, run, dumps(encode(asked)), reply)


def _is_ours(error: BaseException) -> bool:
    """Tell whether it was us who cancelled the call; a model may raise the same for reasons of its own, and has failed then."""
    task = asyncio.current_task()
    return isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling() > 0


def _fault(error: BaseException) -> RunFault:
    return RunFault(f"the model failed: {type(error).__name__}: {error}", cause=cause_of(error))


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
