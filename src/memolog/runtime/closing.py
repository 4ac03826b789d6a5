"""The end of a memory: what is under way finishes, what is left is saved, and what is lost is told.

Knows the order in which the parts are let go. What there is to save, and how, is told in `unsaved` and `rescuing`.
"""

import logging

from memolog.config import Config
from memolog.domain.clock import Clock
from memolog.domain.errors import NotSaved, StoreClosed
from memolog.runtime.events import Bus, Degraded
from memolog.runtime.kit import Kit
from memolog.runtime.models import ModelPair, close_model
from memolog.runtime.unsaved import Unsaved

__all__ = ["close_parts", "tell_loss"]

_log = logging.getLogger("memolog")


async def close_parts(kit: Kit, models: ModelPair, config: Config) -> Exception | None:
    """Close what a memory consists of; returns what kept the last messages from being saved."""
    try:
        # Before the observer is waited for: who has no patience for that must not lose what was said.
        await kit.rescue.try_now(config.turn_timeout, also_open=True)
        await kit.runner.close(config.observation.deadline)
        return await kit.rescue.at_last(config.busy_timeout)
    finally:
        await _let_go(kit, models)


async def _let_go(kit: Kit, models: ModelPair) -> None:
    """Leave nothing behind, no task, thread or connection: also when whoever closes is cancelled."""
    try:
        await kit.rescue.stop()
    finally:
        await kit.store.close()
    # A turn that was under way may have begun something in the meantime.
    await kit.runner.close(0.0)
    for model in (models.observe, models.reflect):
        if model is not None:
            await close_model(model)


def tell_loss(unsaved: Unsaved, problem: Exception | None, bus: Bus, clock: Clock) -> NotSaved | None:
    """Tell everybody what could not be saved, if anything; returns it as an error."""
    unsaved.is_told = True
    counts = unsaved.counts()
    if not counts:
        return None
    # Who closes a second time finds the store closed: what was in the way is that the first was not let finish.
    why = "closing was cut short" if isinstance(problem, StoreClosed) else str(problem or "it was given up")
    lost = NotSaved(counts, why)
    _log.error("%s", lost)
    what = "saving what was left when the memory was closed"
    for resource, thread in counts:
        bus.emit(Degraded(at=clock.now(), resource=resource, thread=thread, what=what, error=str(lost)))
    return lost
