"""What an open memory consists of, and what turns share of it.

Knows the parts by name, and remembers how models count. A remembered factor only saves a read; the store has the truth.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from memolog.config import Config
from memolog.domain.clock import Clock
from memolog.domain.codec import JsonObject
from memolog.domain.model_names import canonical_model, context_window
from memolog.domain.run import Calibration
from memolog.runtime.compacting import Compacting
from memolog.runtime.contexts import Contexts
from memolog.runtime.core import Core
from memolog.runtime.events import SettingsChanged
from memolog.runtime.model import Model
from memolog.runtime.rescuing import Rescue, give_up, may_pass
from memolog.runtime.runner import Runner
from memolog.runtime.unsaved import Held, Spent, Unsaved
from memolog.store import Store
from memolog.tokens import learn

__all__ = ["Kit"]

_log = logging.getLogger("memolog")

_WINDOW_SHARE = 0.9
_MOST_KEPT = 10_000


@dataclass(slots=True, kw_only=True)
class Kit:
    """The parts of an open memory."""

    store: Store
    config: Config
    clock: Clock
    core: Core
    contexts: Contexts
    runner: Runner
    compacting: Compacting
    unsaved: Unsaved
    """What turns could not save yet; it is saved as soon as the database allows."""
    rescue: Rescue = field(init=False)
    writer: Model | None = None
    """The model that writes when it is asked to; None: the embedded rules do."""
    is_embedded: bool = False
    """Whether the embedded observer observes: its runs take a moment."""
    factors: dict[tuple[str, str], float] = field(default_factory=dict[tuple[str, str], float])
    _kept: dict[str, JsonObject] = field(default_factory=dict[str, JsonObject])
    """What is stored with resources, once the configuration has been: whoever names the scope need not look every time."""

    def __post_init__(self) -> None:
        self.rescue = Rescue(self.unsaved, self.store, self.core, clock=self.clock, book=self.book)
        self.unsaved.rescue = self.rescue.begin

    async def config_for(self, resource: str, config: Config | None = None, *, keep: bool = False) -> Config:
        """Return a configuration, the memory's own if none is named, with what is stored with a resource where it is silent.

        `keep` stores what the memory's own configuration says: who writes settles how a log is kept. A change is told once.
        """
        if keep and self.config.lasting and resource not in self._kept:
            await self._keep(resource, self.config.lasting)
        known = self._kept.get(resource) if "scope" in self.config.named else None
        stored = await self.store.settings.get(resource) if known is None else known
        return (config or self.config).completed(stored)

    async def _keep(self, resource: str, settings: JsonObject) -> None:
        stored = await self.store.settings.get(resource)
        if any(name not in stored or stored[name] != value for name, value in settings.items()):
            before = await self.store.settings.put(resource, settings)
            if before:
                now = {name: settings[name] for name in before}
                _log.warning("the settings of %s were %s and are %s now", resource, before, now)
                at = self.clock.now()
                await self.core.tell(SettingsChanged(at=at, resource=resource, thread=None, before=before, now=now))
        if len(self._kept) >= _MOST_KEPT:
            self._kept.clear()
        self._kept[resource] = {**stored, **settings}

    def forget(self, resource: str) -> None:
        """Forget what is remembered of a resource."""
        self._kept.pop(resource, None)
        self.factors = {key: factor for key, factor in self.factors.items() if key[0] != resource}

    async def factor(self, resource: str, model: str | None) -> float:
        """Return how many tokens the model counts for each of ours."""
        if model is None:
            return 1.0
        key = (resource, canonical_model(model))
        if key not in self.factors:
            self.factors[key] = (await self.store.ledger.calibration(resource, model)).factor
        return self.factors[key]

    def window(self, resource: str, model: str | None) -> int | None:
        """Return how many of our tokens a context may have for a model, where its window is known.

        A tenth is left for the answer, and for instructions and tools that are not part of the context.
        """
        window = context_window(model) if model else None
        if model is None or window is None:
            return None
        return int(window * _WINDOW_SHARE / self.factors.get((resource, canonical_model(model)), 1.0))

    async def calibrate(
        self, resource: str, model: str, learn: Callable[[Calibration], Calibration], *, thread: str | None = None
    ) -> None:
        """Learn from what a provider reported; `thread` has no other name for the model than the reported one."""
        known = await self.store.ledger.calibrate(resource, model, learn, thread=thread)
        self.factors[resource, canonical_model(model)] = known.factor

    async def book(self, held: Held) -> None:
        """Book what a turn's requests cost, and learn from it how their models count.

        What can never be booked is told and given up: nothing that was said may wait for it.
        """
        while held.spent:
            spent = held.spent.pop(0)
            try:
                await self.store.ledger.add(
                    held.resource, replace(spent.usage, thread=spent.usage.thread or held.thread)
                )
            except BaseException as error:
                if not isinstance(error, Exception) or may_pass(error):
                    held.spent.insert(0, spent)
                    raise
                why = f"the usage of a request of thread {held.thread} cannot be booked: {error}"
                await give_up(self.core, held, "booking what was spent", why, error)
            else:
                await self._learn(held, spent)
            finally:
                self.unsaved.hold(held)

    async def _learn(self, held: Held, spent: Spent) -> None:
        usage, counted = spent.usage, spent.counted
        reported = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens
        if counted > 0 and reported > 0:
            asked = spent.asked
            # A name that means no known model, as that of a deployment does, is what the next request will name too. A known
            # one that another model answered for, as a fallback does, must not learn how the other counts.
            name = asked if asked and context_window(asked) is None else usage.model
            await self.calibrate(
                held.resource,
                name,
                lambda known: learn(known, counted, reported),
                thread=None if asked else held.thread,
            )
