"""Models that hold something: connections, or other models.

Knows how to ask such a model whether it can work at all, and how to let go of what it holds. A model that somebody else wrote
is left alone: whoever made it closes it.
"""

from memolog.runtime.model import Model

__all__ = ["Managed", "check_model", "close_model"]


class Managed:
    """A model of ours that can be checked before its first call, and closed after its last."""

    async def check(self) -> None:
        """Raise ConfigError if no call can ever succeed: a key or a package is missing. Makes no call."""

    async def aclose(self) -> None:
        """Let go of connections. The next call opens them again."""


async def check_model(model: Model | None) -> None:
    """Raise ConfigError if this model cannot work as it is configured; makes no call and costs nothing."""
    if isinstance(model, Managed):
        await model.check()


async def close_model(model: Model | None) -> None:
    """Let go of the connections of a model of ours, and of those within it."""
    if isinstance(model, Managed):
        await model.aclose()
