"""Check the arguments of a turn."""

from collections.abc import Iterable, Sequence

from memolog.domain.checking import check_kinds
from memolog.domain.errors import InputError
from memolog.domain.message import NewMessage
from memolog.domain.run import Usage
from memolog.store.usage import check_usage

__all__ = ["check_messages", "checked_usage", "passed_along"]


def checked_usage(usage: Usage | None) -> None:
    """Refuse a value that is no usage, or that cannot be booked."""
    if usage is None:
        return
    if not isinstance(usage, Usage):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InputError(
            f"`usage` must be a memolog.Usage, got {type(usage).__name__}.",
            then='Pass Usage(model="…", input_tokens=…, output_tokens=…).',
        )
    check_usage(usage)


def passed_along(messages: NewMessage | Sequence[NewMessage]) -> tuple[NewMessage, ...]:
    """Return `ephemeral` as a tuple of checked messages."""
    several = (messages,) if isinstance(messages, NewMessage) else messages
    if not isinstance(several, Iterable) or isinstance(several, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InputError(
            f"`ephemeral` must be a message or a list of messages, got {type(messages).__name__}.",
            then='Pass ephemeral=[UserMessage("…")].',
        )
    several = tuple(several)
    check_messages(several)
    return several


def check_messages(messages: Sequence[NewMessage]) -> None:
    """Refuse what is no message, or holds parts of a wrong kind."""
    for message in messages:
        if not isinstance(message, NewMessage):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InputError(
                f"A turn takes messages, not {type(message).__name__}.",
                then='Pass UserMessage("…"), AssistantMessage("…") or ToolMessage(…), one argument each.',
            )
    for message in messages:
        check_kinds(message)
