"""Make a model from what a user writes. Imports no provider: that happens at the first call."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from memolog.core.config import Config
from memolog.errors import ConfigError, MemologError
from memolog.observer.model import (
    DEFAULT_RETRY,
    BudgetSpent,
    CallableModel,
    ManagedModel,
    Model,
    ModelError,
    ModelFunction,
    ModelReply,
    ModelRequest,
    Price,
    Retry,
    check_model,
    complete_in_time,
    in_time,
    is_transport_error,
)
from memolog.observer.pydantic_model import ModelAt, PydanticModel
from memolog.text.tokens import HeuristicCounter, TokenCounter

ModelSpec: TypeAlias = Model | ModelAt | ModelFunction | str

EMBEDDED: Final = "extractive"
"""The name of the embedded observer, which needs no model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelPair:
    """The model that observes and the one that reflects; None is the embedded observer."""

    observe: Model | None
    reflect: Model | None


def resolve_model(
    spec: ModelSpec | None,
    *,
    settings: Mapping[str, Any] | None = None,
    timeout: float | None = None,
    max_tokens: int | None = None,
    price: Price | None = None,
    retry: Retry | None = DEFAULT_RETRY,
) -> Model | None:
    """Return the model that `spec` names; None for the embedded observer, which needs none.

    A model is `"provider:model"`, `"http://127.0.0.1:8000/v1#model"`, a ModelAt, any object with `complete`, or a function
    from ModelRequest to text. The other arguments are for the first three: `settings` goes to the provider as it is.
    """
    if spec is None or spec == EMBEDDED:
        return None
    if isinstance(spec, str | ModelAt):
        address = ModelAt.parse(spec) if isinstance(spec, str) else spec
        return PydanticModel(
            address, settings=settings, timeout=timeout, max_tokens=max_tokens, price=price, retry=retry
        )
    if isinstance(spec, type):
        raise ConfigError(
            f"`model` must be an object, got the class {spec.__name__}.", then=f"Pass an object: {spec.__name__}(…)."
        )
    if isinstance(spec, Model):
        return spec
    if callable(getattr(spec, "complete", None)):
        answering: Any = spec
        return CallableModel(answering.complete, name=type(spec).__name__, timeout=timeout)
    if callable(spec):
        return CallableModel(spec, timeout=timeout)
    raise ConfigError(
        f"`model` must name a model, got {type(spec).__name__}.",
        then='Pass "provider:model", an address, an object with `complete`, a function, or "extractive".',
    )


def needed_model(spec: ModelSpec) -> Model:
    """Return the model that `spec` names; the embedded observer is refused."""
    model = resolve_model(spec)
    if model is None:
        raise ConfigError(
            f"{EMBEDDED!r} cannot be one of several models.",
            why="The embedded observer reads messages, not prompts.",
            then="Name a model here; without any, the embedded observer works by itself.",
        )
    return model


def models_for(config: Config, given: ModelSpec | ModelPair | None = None, **options: Any) -> ModelPair:
    """Return the models of a configuration: those for one role first, then the given one, then the general one."""
    if isinstance(given, ModelPair):
        return given
    general = config.model if given is None else given
    observing, reflecting = config.observation.model or general, config.reflection.model or general
    observe = resolve_model(observing, **options)
    # One model in both roles is one object, with one set of connections.
    reflect = observe if reflecting == observing else resolve_model(reflecting, **options)
    return ModelPair(observe=observe, reflect=reflect)


class TieredModel(ManagedModel):
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
        return " | ".join(dict.fromkeys(model.name for model in self._inside()))

    def pick(self, request: ModelRequest) -> Model:
        """Return the model that takes an input of this size."""
        size = self._counter.count(request.system) + self._counter.count(request.text)
        return next((model for most, model in self._tiers if size <= most), self._above)

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Return the answer of the tier for this input."""
        return await complete_in_time(self.pick(request), request)

    def _inside(self) -> list[Model]:
        return [*(model for _, model in self._tiers), self._above]


class NoModelAnswered(ModelError):
    """A model and all its fallbacks failed."""

    def __init__(self, failures: dict[str, Exception]) -> None:
        super().__init__(
            "No model answered.",
            why=" ".join(f"{name}: {type(error).__name__}: {error}" for name, error in failures.items()),
            then="The run is tried again later.",
        )
        self.retryable = any(is_transport_error(error) for error in failures.values())


class FallbackModel(ManagedModel):
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

    def _inside(self) -> list[Model]:
        return self._models
