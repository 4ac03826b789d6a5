"""Choose a model by the size of its input."""

from collections.abc import Mapping

from memolog.domain.errors import ConfigError
from memolog.runtime.model import Model, ModelReply, ModelRequest
from memolog.runtime.models.managed import Managed, check_model, close_model
from memolog.runtime.models.resolve import ModelSpec, needed_model
from memolog.runtime.models.retry import complete_in_time
from memolog.tokens import HeuristicCounter, TokenCounter

__all__ = ["TieredModel"]


class TieredModel(Managed):
    """Picks a model by the tokens of its input: `TieredModel({8_000: small, 64_000: middle}, above=large)`."""

    def __init__(
        self, up_to: Mapping[int, ModelSpec], *, above: ModelSpec, counter: TokenCounter | None = None
    ) -> None:
        """Name a model for every size, in tokens up to which it answers, and one for all that is larger."""
        if any(size <= 0 for size in up_to):
            raise ConfigError(
                f"Tiers cannot end at {min(up_to)} tokens.", then="Name each tier by the largest input that it takes."
            )
        self._tiers = [(size, needed_model(spec)) for size, spec in sorted(up_to.items(), key=lambda tier: tier[0])]
        self._above = needed_model(above)
        self._counter = counter or HeuristicCounter()

    @property
    def name(self) -> str:
        """Return the names of all tiers, the smallest first; a reply's usage names the one that answered."""
        return " | ".join(dict.fromkeys(model.name for model in self._models()))

    def pick(self, request: ModelRequest) -> Model:
        """Return the model that takes an input of this size."""
        size = self._counter.count(request.system) + self._counter.count(request.text)
        return next((model for most, model in self._tiers if size <= most), self._above)

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Return the answer of the tier for this input."""
        return await complete_in_time(self.pick(request), request)

    async def check(self) -> None:
        """Check every tier: each is needed."""
        for model in self._models():
            await check_model(model)

    async def aclose(self) -> None:
        """Close every tier."""
        for model in self._models():
            await close_model(model)

    def _models(self) -> list[Model]:
        return [*(model for _, model in self._tiers), self._above]
