"""Scripted models that several tests share: two that never answer in time, and one that costs money."""

import asyncio
import contextlib
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


class Stubborn(Hanging):
    """A model that goes on waiting for its event although its call was cancelled."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = asyncio.Event()

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Wait for the event, whatever happens meanwhile, then answer as scripted."""
        self.asked.set()
        while not self.thought.is_set():
            with contextlib.suppress(asyncio.CancelledError):
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
