"""Scripted models that several tests share: one that never answers in time, and one that costs money."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from memolog.core.run import Usage
from memolog.observer.model import ModelReply, ModelRequest
from memolog.testing import ScriptedModel

PRICE = 0.01


class Hanging(ScriptedModel):
    """A model that answers only after an event, and never without one."""

    def __init__(self, thought: asyncio.Event | None = None) -> None:
        super().__init__()
        self.thought = thought or asyncio.Event()

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Wait for the event, then answer as scripted."""
        await self.thought.wait()
        return await super().complete(request)


class Priced(ScriptedModel):
    """A model whose every answer costs a cent, and that can be down."""

    def __init__(self, answers: Sequence[Any] = ()) -> None:
        super().__init__(answers, name="priced")
        self.is_down = False

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Answer as scripted, with a usage that does not say its kind: it is known from what was asked."""
        if self.is_down:
            raise ConnectionError("down")
        reply = await super().complete(request)
        return replace(reply, usage=Usage(model=self.name, input_tokens=10, cost=PRICE))
