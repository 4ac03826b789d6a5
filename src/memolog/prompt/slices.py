"""Split a message that is too long for one prompt into several, and merge the replies about them."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from memolog.domain.message import Message, TextPart
from memolog.prompt.drafts import Draft, HintsDraft, Parsed
from memolog.prompt.faults import FaultNotes
from memolog.tokens import TokenCounter, cut

__all__ = ["joined", "sliced"]

_MOST_SLICES: Final = 12
"""Slices of one message at most; of a longer message, each slice shows its two ends."""
_SHARE: Final = 0.9
"""The share of a prompt for a slice; tags, dates and escapes need the rest."""


def sliced(messages: Sequence[Message], most_tokens: int, counter: TokenCounter) -> Iterator[Message]:
    """Yield the messages, those with more text than one prompt shows in slices: same place, same time, one after the other.

    Tool calls and results stay whole: of them a prompt shows a bounded part anyway.
    """
    for message in messages:
        texts = [part.text for part in message.parts if isinstance(part, TextPart)]
        if message.own or counter.count("\n".join(texts)) <= most_tokens:
            yield message
            continue
        text, others = "\n".join(texts), tuple(part for part in message.parts if not isinstance(part, TextPart))
        for number, piece in enumerate(_pieces(text, most_tokens, counter)):
            parts = (TextPart(text=piece), *others) if not number else (TextPart(text=piece),)
            yield replace(message, parts=parts, continuation=message.continuation + number)


def _pieces(text: str, most_tokens: int, counter: TokenCounter) -> Iterator[str]:
    tokens = counter.count(text)
    number = min(_MOST_SLICES, -(-tokens // max(1, int(most_tokens * _SHARE))))
    size = -(-len(text) // number)
    while text:
        end = _end(text, size)
        yield text[:end]
        text = text[end:]


def _end(text: str, size: int) -> int:
    """Return where to cut: after a paragraph, a line or a word if one ends near, else between two graphemes."""
    if len(text) <= size:
        return len(text)
    for mark in ("\n\n", "\n", " "):
        found = text.rfind(mark, size * 3 // 4, size)
        if found > 0:
            return found + len(mark)
    return len(cut(text, size)) or size


def joined(answers: Sequence[Parsed]) -> Parsed:
    """Return several answers about one span as one: all their lines and faults, and the newest hints."""
    drafts: list[Draft] = []
    notes, hints = FaultNotes(), HintsDraft()
    for answer in answers:
        start = len(drafts)
        drafts += [
            draft if draft.parent is None else replace(draft, parent=draft.parent + start)
            for draft in answer.observations
        ]
        notes.take(answer.faults)
        told = hints if answer.hints.current_task is None else answer.hints
        hints = HintsDraft(
            current_task=told.current_task,
            task_at=told.task_at,
            suggested_response=answer.hints.suggested_response,
            title=answer.hints.title or hints.title,
        )
    is_nothing = bool(answers) and all(answer.nothing for answer in answers)
    return Parsed(observations=tuple(drafts), hints=hints, faults=notes.faults(), nothing=is_nothing)
