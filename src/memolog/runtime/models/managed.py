"""Check and close models that hold connections or other models.

A model that the application made is left alone: the application closes it.
"""

from memolog.runtime.model import Model

__all__ = ["Managed", "Wrapper", "check_model", "close_model"]


class Managed:
    """A model of ours that can be checked before its first call, and closed after its last."""

    async def check(self) -> None:
        """Raise ConfigError if no call can ever succeed: a key or a package is missing. Makes no call."""

    async def aclose(self) -> None:
        """Close connections. The next call opens them again."""


async def check_model(model: Model | None) -> None:
    """Raise ConfigError if this model cannot work as it is configured; makes no call and costs nothing."""
    if isinstance(model, Managed):
        await model.check()


async def close_model(model: Model | None) -> None:
    """Close the connections of a managed model, and of the models within it."""
    if isinstance(model, Managed):
        await model.aclose()


class Wrapper(Managed):
    """A model that changes how another one is called."""

    def __init__(self, model: Model) -> None:
        self._model = model

    @property
    def name(self) -> str:
        """Return the name of the wrapped model."""
        return self._model.name

    async def check(self) -> None:
        """Check the wrapped model."""
        await check_model(self._model)

    async def aclose(self) -> None:
        """Close the wrapped model."""
        await close_model(self._model)
