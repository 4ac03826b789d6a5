"""The last resort: messages as they were said, where nothing better can be made of them.

Knows no counter, no log and no pairs: it must not fail for what the others fail for.
"""

from collections.abc import Iterable

from memolog.context.value import Block, Context, ContextMessage
from memolog.domain.message import Message, NewMessage

__all__ = ["bare"]


def bare(
    messages: Iterable[Message | NewMessage], ephemeral: Iterable[NewMessage], instructions: str | None
) -> Context:
    """Return a context of these messages and the application's instructions alone."""
    told = (Block(name="instructions", text=instructions, tokens=0, stable=True),) if instructions else ()
    return Context(blocks=told, tail=tuple(map(_as_said, messages)), ephemeral=tuple(map(_as_said, ephemeral)))


def _as_said(message: Message | NewMessage) -> ContextMessage:
    return ContextMessage(
        role=message.role,
        parts=tuple(message.parts),
        seq=message.seq if isinstance(message, Message) else None,
        speaker=message.speaker,
        created_at=message.created_at,
    )
