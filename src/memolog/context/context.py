"""The context as a value: prefix, note, tail, ephemeral messages and edge, in this order, with token counts."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from importlib import import_module
from types import MappingProxyType
from typing import Any, Final, Self, cast

from memolog.core.exact_json import dumps
from memolog.core.message import Message, NewMessage, Part, Role, TextPart, has_content, parts_to_json
from memolog.errors import InputError
from memolog.text.escape import fixed_text

_NO_ANSWER: Final = fixed_text("context/no_answer")
_EMPTY: Final = fixed_text("context/empty_message")


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A named piece of text. A stable block changes only when an activation, a reflection or an edit changes the log."""

    name: str
    text: str
    tokens: int
    stable: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextMessage:
    """A message as it is sent to the model. Every call is followed by its result. Stored messages do not change."""

    role: Role
    parts: tuple[Part, ...]
    seq: int | None = None
    """The number of the stored message, or of the first one if several were joined. None if the message is not stored."""
    speaker: str | None = None
    created_at: datetime | None = None
    synthetic: bool = False
    """True for notes, summaries and missing results, which are not part of the conversation."""
    turn: str | None = field(default=None, compare=False, repr=False)
    """The turn that saved the message. None if it is not stored, or was imported."""
    is_empty: bool = field(init=False, compare=False, repr=False)
    """Whether it has no content that every API accepts: no parts, or only blank text and reasoning."""

    def __post_init__(self) -> None:
        # Computed once, because every request of a thread contains its earlier messages again.
        object.__setattr__(self, "is_empty", not has_content(self.parts))

    @classmethod
    def of(cls, message: Message | NewMessage) -> Self:
        """Return a stored or new message as a ContextMessage with the same content."""
        return cls(
            role=message.role,
            parts=tuple(message.parts),
            seq=message.seq if isinstance(message, Message) else None,
            speaker=message.speaker,
            created_at=message.created_at,
            turn=message.turn if isinstance(message, Message) else None,
        )

    @classmethod
    def note(cls, text: str, *, seq: int | None = None, created_at: datetime | None = None) -> Self:
        """Return a note in the role of the user."""
        return cls(role="user", parts=(TextPart(text=text),), seq=seq, created_at=created_at, synthetic=True)

    @property
    def text(self) -> str:
        """Return the text parts, joined by blank lines."""
        return "\n\n".join(part.text for part in self.parts if isinstance(part, TextPart))

    @property
    def filled(self) -> "ContextMessage":
        """Return an empty message of a user with a text that says so. Return every other message unchanged.

        Providers refuse empty messages. Without the message, two answers could follow each other, or the last message could be
        an answer, which a model would continue.
        """
        if self.role != "user" or not self.is_empty:
            return self
        return replace(self, parts=(TextPart(text=_EMPTY),))

    @property
    def is_plain_answer(self) -> bool:
        """Return whether it is a stored answer of text only, without calls, reasoning or text of a separate field."""
        if self.role != "assistant" or self.seq is None or self.is_empty:
            return False
        return all(isinstance(part, TextPart) and not _has_field(part) for part in self.parts)

    def render(self) -> str:
        """Return the message as exact text: one line for the message, then one line per part."""
        # There is no closing mark, so that a message that gets further parts only appends text.
        seq = "-" if self.seq is None else str(self.seq)
        at = self.created_at.isoformat() if self.created_at else "-"
        speaker = [dumps(self.speaker)] if self.speaker else []
        head = " ".join([self.role, seq, at, *speaker, *(["note"] if self.synthetic else [])])
        return "".join(f"{line}\n" for line in (f"[{head}]", *map(_part_line, self.parts)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Tokens of the prefix, of the tail and its note, and of the edge and the ephemeral messages."""

    prefix: int = 0
    tail: int = 0
    edge: int = 0

    @property
    def total(self) -> int:
        """Return the sum."""
        return self.prefix + self.tail + self.edge


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """The context of one request."""

    blocks: tuple[Block, ...] = ()
    """The prefix. It changes only when the log changes."""
    note: Block | None = None
    """A text at the start of the tail. None if the log covers no messages."""
    tail: tuple[ContextMessage, ...] = ()
    ephemeral: tuple[ContextMessage, ...] = ()
    """Messages for this request only, after the tail and before the edge."""
    edge: tuple[Block, ...] = ()
    """The blocks after the last message. They are never stored, and only they depend on the current time."""
    tokens: Counts = Counts()
    trimmed: int = 0
    """How many messages were left out to stay below a limit."""
    shortened: int = 0
    """How many messages were cut in the middle."""

    @property
    def system(self) -> str:
        """Return the prefix as one text. A new group only appends to this text."""
        return "\n\n".join(block.text for block in self.blocks)

    @property
    def edge_text(self) -> str:
        """Return the edge as one text."""
        return "\n\n".join(block.text for block in self.edge)

    @property
    def messages(self) -> tuple[ContextMessage, ...]:
        """Return all messages in order: the note that opens the tail, the tail, the ephemeral messages.

        If the tail ends with tool results, the ephemeral messages are placed after the last user message. Other text after tool
        results makes a model lose its reasoning, and many servers refuse it. If an ephemeral message is of the assistant, all of
        them stay at the end. Many servers also refuse a question after tool results that an earlier turn never answered. Then a
        synthetic message of the assistant, which says that there was no answer, is added between them.
        """
        opening = () if self.note is None else (ContextMessage.note(self.note.text),)
        said = (*opening, *self.tail)
        if not (self.ephemeral or any(message.role == "tool" for message in self.tail)):
            return said
        place = len(said)
        if self.tail and self.tail[-1].role == "tool" and {m.role for m in self.ephemeral} <= {"user", "system"}:
            place = max((n + 1 for n, message in enumerate(said) if message.role == "user"), default=0)
        messages: list[ContextMessage] = []
        for message in (*said[:place], *self.ephemeral, *said[place:]):
            if messages and messages[-1].role == "tool" and _is_next_question(messages[-1], message):
                messages.append(ContextMessage(role="assistant", parts=(TextPart(text=_NO_ANSWER),), synthetic=True))
            messages.append(message)
        return tuple(messages)

    def joined(self) -> tuple[ContextMessage, ...]:
        """Return the messages of a request. Consecutive user messages are joined, and the edge ends the last user message.

        Many servers refuse two user messages in a row, or a user message after a tool result. Consecutive answers, which parallel
        requests make, are joined too if they are only text. An empty message is left out, but not that of a user (`filled`).
        """
        messages = list[ContextMessage]()
        role: Role | None = None
        for given in self.messages:
            message = given
            if given.is_empty:
                if given.role != "user":
                    continue
                message = given.filled
            # Most messages have another role than the one before, so this is checked first.
            if message.role == role and _are_one(messages[-1], message):
                messages[-1] = _one(messages[-1], message)
            else:
                messages.append(message)
                role = message.role
        if self.edge:
            note = ContextMessage.note(self.edge_text)
            # A question of the tail is preferred to an ephemeral message, which may follow an answer.
            places = [n for n in reversed(range(len(messages))) if messages[n].role == "user"]
            last = next((n for n in places if messages[n].seq is not None), places[0] if places else None)
            if last is None:
                messages.insert(0, note)
            else:
                messages[last] = _one(messages[last], note)
        return tuple(messages)

    def to_openai(self, *, system: str | None = None) -> list[Any]:
        """Return `messages` for Chat Completions: `system` and the log first, then the messages, and the edge last.

        Each message is a dict. Its type is Any, so that it fits `messages=` of the client.
        """
        instructions = [{"role": "system", "content": system}] if system else []
        made: list[Any] = _writer("openai.chat", system)(self, instructions=instructions)["messages"]
        return made

    def to_responses(self, *, system: str | None = None) -> dict[str, Any]:
        """Return `input`, and `instructions` if there are any, for the Responses API: `create(model=…, **result)`."""
        made: dict[str, Any] = _writer("openai.responses", system)(self, instructions=system)
        return made

    def to_anthropic(
        self, *, system: str | None = None, cache: Mapping[str, Any] | None = MappingProxyType({"type": "ephemeral"})
    ) -> dict[str, Any]:
        """Return `system` and `messages` for Anthropic, with cache marks: `create(model=…, max_tokens=…, **result)`.

        `cache` is the cache mark, such as `{"type": "ephemeral", "ttl": "1h"}`. None means no marks.
        """
        mark = None if cache is None else dict(cache)
        made: dict[str, Any] = _writer("anthropic.messages", system)(self, system=system, mark=mark)
        return made

    def render(self) -> str:
        """Return the whole context as one text, the edge last. Equal contexts give equal texts."""
        passed = "".join(message.render() for message in self.ephemeral)
        return self.render_without_edge() + passed + (f"\n{self.edge_text}\n" if self.edge else "")

    def render_without_edge(self) -> str:
        """Return prefix, note and tail as one text. Later contexts only append to this text, until the log changes."""
        opening = "".join(f"{text}\n\n" for text in (self.system, self.note.text if self.note else "") if text)
        return opening + "".join(message.render() for message in self.tail)


def _is_next_question(before: ContextMessage, message: ContextMessage) -> bool:
    """Return whether a message is a question of another turn. Words that a tool adds are of the turn that called the tool."""
    if message.role != "user" or message.synthetic or message.turn is None:
        return False
    return before.turn is not None and before.turn != message.turn


def _are_one(first: ContextMessage, second: ContextMessage) -> bool:
    if first.role != second.role:
        return False
    if first.is_plain_answer and second.is_plain_answer:
        return first.speaker == second.speaker
    if first.role != "user":
        return False
    # A message for one request only that names no speaker belongs to the question before it.
    is_added = second.seq is None and second.speaker is None
    return first.synthetic or second.synthetic or is_added or first.speaker == second.speaker


def _has_field(part: TextPart) -> bool:
    """Return whether an adapter noted that the text has a separate field in its API, as a refusal has."""
    found = (part.extra or {}).values()
    return any("field" in cast("Mapping[str, Any]", note) for note in found if isinstance(note, Mapping))


def _one(first: ContextMessage, second: ContextMessage) -> ContextMessage:
    """Return two messages as one. Texts that follow each other become one text."""
    if first.is_plain_answer and second.is_plain_answer:
        # The notes of adapters are left out: each note describes a message of its own, and servers that refuse two answers in a
        # row refuse an answer of several pieces too.
        return replace(first, parts=(TextPart(text=f"{first.text}\n\n{second.text}"),))
    # A note has no speaker and no number, so these are taken from the other message.
    said = second if first.synthetic and not second.synthetic else first
    before, after = first.parts[-1] if first.parts else None, second.parts[0] if second.parts else None
    parts = (*first.parts, *second.parts)
    if isinstance(before, TextPart) and isinstance(after, TextPart) and not (before.extra and after.extra):
        text = TextPart(text=f"{before.text}\n\n{after.text}", extra=before.extra or after.extra)
        parts = (*first.parts[:-1], text, *second.parts[1:])
    return replace(said, parts=parts)


def _part_line(part: Part) -> str:
    try:
        return parts_to_json((part,))[1:-1]
    except Exception:  # noqa: BLE001 - a part that cannot be encoded must not stop a turn
        return dumps({"type": "unreadable", "kind": type(part).__name__})


_WRITERS: Final = ("openai.chat", "openai.responses", "anthropic.messages")


def import_writers() -> None:
    """Import the adapters that write requests. They take many milliseconds, so the first turn calls this in a worker thread."""
    for adapter in _WRITERS:
        import_module(f"memolog.adapters.{adapter}")


def are_writers_imported() -> bool:
    """Return whether `import_writers` has nothing to do."""
    return all(f"memolog.adapters.{adapter}" in sys.modules for adapter in _WRITERS)


def _writer(adapter: str, system: object) -> Any:
    """Return the function of an adapter that writes a request. Raise InputError if `system` is not a text."""
    if system is not None and not isinstance(system, str):
        raise InputError(f"`system` must be a text, got {type(system).__name__}.", then='Pass system="You are …".')
    return import_module(f"memolog.adapters.{adapter}").to_request
