"""Ask the next model when one fails, whatever the reason; only a spent budget ends the call."""

from memolog.domain.errors import ConfigError, MemologError
from memolog.runtime.model import Model, ModelReply, ModelRequest
from memolog.runtime.models.budget import BudgetSpent
from memolog.runtime.models.errors import ModelError, is_transport_error
from memolog.runtime.models.managed import Managed, check_model, close_model
from memolog.runtime.models.resolve import ModelSpec, needed_model
from memolog.runtime.models.retry import complete_in_time, in_time

__all__ = ["FallbackModel", "NoModelAnswered"]


class NoModelAnswered(ModelError):
    """A model and all its fallbacks failed."""

    def __init__(self, failures: dict[str, Exception]) -> None:
        super().__init__(
            "No model answered.",
            why=" ".join(f"{name}: {type(error).__name__}: {error}" for name, error in failures.items()),
            then="The run is tried again later.",
        )
        self.retryable = any(is_transport_error(error) for error in failures.values())


class FallbackModel(Managed):
    """Asks one model after the other until one answers: `FallbackModel("openai:…", "anthropic:…")`."""

    def __init__(self, first: ModelSpec, *others: ModelSpec, seconds: float | None = None) -> None:
        """Name the models in order. Each gets so many seconds, its retries included; None: as many as the request allows."""
        if not others:
            raise ConfigError("A fallback needs a second model.", then="Name it after the first.")
        self._models: list[Model] = [needed_model(spec) for spec in (first, *others)]
        self._seconds = seconds

    @property
    def name(self) -> str:
        """Return the name of the first model; a reply's usage names the one that answered."""
        return self._models[0].name

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Return the answer of the first model that gives one."""
        failures: dict[str, Exception] = {}
        for number, model in enumerate(self._models, start=1):
            try:
                if self._seconds is None:
                    return await complete_in_time(model, request)
                return await in_time(model.complete(request), self._seconds, model.name)
            except BudgetSpent:
                raise
            except Exception as error:  # noqa: BLE001 - any failure: the next model is asked
                failures[model.name if model.name not in failures else f"{model.name} ({number})"] = error
        raise NoModelAnswered(failures) from next(reversed(failures.values()))

    async def check(self) -> None:
        """Check the models: one that can work is enough."""
        problem: MemologError | None = None
        for model in self._models:
            try:
                await check_model(model)
            except ConfigError as error:
                problem = problem or error
            else:
                return
        if problem is not None:
            raise problem

    async def aclose(self) -> None:
        """Close every model."""
        for model in self._models:
            await close_model(model)
