"""Make a model from what a user writes. Imports no provider: that happens at the first call."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from memolog.config import Config
from memolog.domain.errors import ConfigError
from memolog.runtime.model import Model
from memolog.runtime.models.callable_model import CallableModel, ModelFunction
from memolog.runtime.models.price import Price
from memolog.runtime.models.pydantic_model import ModelAt, PydanticModel
from memolog.runtime.models.retry import DEFAULT_RETRY, Retry

__all__ = ["EMBEDDED", "ModelPair", "ModelSpec", "models_for", "needed_model", "resolve_model"]

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
