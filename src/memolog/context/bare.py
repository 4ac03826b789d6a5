"""Build a context from messages as they were said, for when nothing better can be built.

Uses neither a counter, the log nor the pairing of calls, since one of these may be what failed.
"""

from collections.abc import Iterable

from memolog.context.value import Block, Context, ContextMessage
from memolog.domain.message import Message, NewMessage

__all__ = ["bare"]


def bare(
    messages: Iterable[Message | NewMessage], ephemeral: Iterable[NewMessage], instructions: str | None
) -> Context:
    """Return a context of these messages and the application's instructions alone."""
    blocks = (Block(name="instructions", text=instructions, tokens=0, stable=True),) if instructions else ()
    shown = tuple(map(ContextMessage.of, messages))
    return Context(blocks=blocks, tail=shown, ephemeral=tuple(map(ContextMessage.of, ephemeral)))
