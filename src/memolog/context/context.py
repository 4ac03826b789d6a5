"""The context as a value: prefix, note, tail, ephemeral messages and edge, in this order, with token counts."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from importlib import import_module
from types import MappingProxyType
from typing import Any, Self

from memolog.core.exact_json import dumps
from memolog.core.message import Message, NewMessage, Part, Role, TextPart, parts_to_json
from memolog.core.observation import Scope
from memolog.core.thread import Hints
from memolog.text.tokens import TokenCounter


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A named piece of text. A stable one changes only when the log is activated or rewritten."""

    name: str
    text: str
    tokens: int
    stable: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextMessage:
    """A message as the model is shown it: calls and results in pairs, nothing stored is changed by it."""

    role: Role
    parts: tuple[Part, ...]
    seq: int | None = None
    """The stored row it comes from, the first of several; None where there is none."""
    speaker: str | None = None
    created_at: datetime | None = None
    synthetic: bool = False
    """True for what is not part of the conversation: notes, summaries, missing results."""

    @classmethod
    def of(cls, message: Message | NewMessage) -> Self:
        """Return a stored or a new message as it was said."""
        return cls(
            role=message.role,
            parts=tuple(message.parts),
            seq=message.seq if isinstance(message, Message) else None,
            speaker=message.speaker,
            created_at=message.created_at,
        )

    @classmethod
    def note(cls, text: str, *, seq: int | None = None, created_at: datetime | None = None) -> Self:
        """Return a note of ours, in the role of the user."""
        return cls(role="user", parts=(TextPart(text=text),), seq=seq, created_at=created_at, synthetic=True)

    @property
    def text(self) -> str:
        """Return the text parts, joined by blank lines."""
        return "\n\n".join(part.text for part in self.parts if isinstance(part, TextPart))

    def render(self) -> str:
        """Return the message as exact text: a line for itself, then a line a part."""
        # No mark closes a message: one that has grown by further parts extends its shorter self.
        seq = "-" if self.seq is None else str(self.seq)
        at = self.created_at.isoformat() if self.created_at else "-"
        speaker = [dumps(self.speaker)] if self.speaker else []
        head = " ".join([self.role, seq, at, *speaker, *(["note"] if self.synthetic else [])])
        return "".join(f"{line}\n" for line in (f"[{head}]", *map(_part_line, self.parts)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Tokens: the prefix, the tail with its note, the edge with what is passed along once, and all of it."""

    prefix: int = 0
    tail: int = 0
    edge: int = 0

    @property
    def total(self) -> int:
        """Return the sum."""
        return self.prefix + self.tail + self.edge


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What the model is shown."""

    blocks: tuple[Block, ...] = ()
    """The prefix: it changes only when the log does."""
    note: Block | None = None
    """Opens the tail when the log stands for what came before."""
    tail: tuple[ContextMessage, ...] = ()
    ephemeral: tuple[ContextMessage, ...] = ()
    """For this request only: after the tail, before the edge."""
    edge: tuple[Block, ...] = ()
    """After the last message, never stored; the only place that depends on the present."""
    tokens: Counts = Counts()
    trimmed: int = 0
    """How many messages were left out to keep within a limit."""
    shortened: int = 0
    """How many messages are shown with their beginning and their end alone."""

    @property
    def system(self) -> str:
        """Return the prefix as one text; one more group only adds to its end."""
        return "\n\n".join(block.text for block in self.blocks)

    @property
    def edge_text(self) -> str:
        """Return the edge as one text."""
        return "\n\n".join(block.text for block in self.edge)

    @property
    def messages(self) -> tuple[ContextMessage, ...]:
        """Return all that is said to the model, in its order: the note that opens the tail, the tail, what is passed once."""
        opening = () if self.note is None else (ContextMessage.note(self.note.text),)
        return (*opening, *self.tail, *self.ephemeral)

    def to_openai(self, *, system: str | None = None) -> list[dict[str, Any]]:
        """Return `messages` for Chat Completions: `system` and the log first, then what was said, and the edge last."""
        chat = import_module("memolog.adapters.openai.chat")
        instructions = [{"role": "system", "content": system}] if system else []
        made: list[dict[str, Any]] = chat.to_request(self, instructions=instructions)["messages"]
        return made

    def to_responses(self, *, system: str | None = None) -> dict[str, Any]:
        """Return `input`, and `instructions` if there are any, for the Responses API: `create(model=…, **made)`."""
        responses = import_module("memolog.adapters.openai.responses")
        made: dict[str, Any] = responses.to_request(self, instructions=system)
        return made

    def to_anthropic(
        self, *, system: str | None = None, cache: Mapping[str, Any] | None = MappingProxyType({"type": "ephemeral"})
    ) -> dict[str, Any]:
        """Return `system` and `messages` for Anthropic, with cache marks: `create(model=…, max_tokens=…, **made)`.

        `cache` is the mark, such as `{"type": "ephemeral", "ttl": "1h"}`; None for no marks.
        """
        messages = import_module("memolog.adapters.anthropic.messages")
        made: dict[str, Any] = messages.to_request(self, system=system, mark=None if cache is None else dict(cache))
        return made

    def render(self) -> str:
        """Return one canonical text of the whole, the edge last."""
        passed = "".join(message.render() for message in self.ephemeral)
        return self.render_without_edge() + passed + (f"\n{self.edge_text}\n" if self.edge else "")

    def render_without_edge(self) -> str:
        """Return what a later context extends byte for byte, as long as the log is not activated or rewritten."""
        opening = "".join(f"{text}\n\n" for text in (self.system, self.note.text if self.note else "") if text)
        return opening + "".join(message.render() for message in self.tail)


def _part_line(part: Part) -> str:
    try:
        return parts_to_json((part,))[1:-1]
    except Exception:  # noqa: BLE001 - a part that cannot be encoded must not stop a turn
        return dumps({"type": "unreadable", "kind": type(part).__name__})


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupView:
    """An active group of the log: its text as it was stored."""

    handle: str
    text: str
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherThread:
    """Another conversation of the resource, with what the log does not cover of it."""

    alias: str
    messages: tuple[Message, ...]
    title: str | None = None
    earlier: int = 0
    """How many messages that the log does not cover come before these."""


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """Everything that a context is built from."""

    scope: Scope
    thread: str
    now: datetime
    counter: TokenCounter
    zone: str | None = None
    """Where the user is: an IANA name or an offset such as "+02:00"; UTC where it is unknown."""
    groups: tuple[GroupView, ...] = ()
    """The log, in its order."""
    cursor: int = 0
    """Up to which message the log covers the thread; above zero, something is left out of the tail."""
    alias: str | None = None
    """What this thread is called in a log that several share."""
    tail: tuple[Message, ...] = ()
    """The messages after the cursor."""
    before: datetime | None = None
    """When the message before the tail was said; None if there is none, or it is not known."""
    repeated: tuple[Message, ...] = ()
    """What the user said in this turn, where the cursor has passed it: shown again, before the tail."""
    repeated_tokens: int | None = None
    """How much of each is shown again; None: all of it."""
    hints: Hints = field(default_factory=Hints)
    others: tuple[OtherThread, ...] = ()
    others_tokens: int = 2_000
    """How much of the other threads is shown."""
    more_others: tuple[int, int] = (0, 0)
    """How many further threads the log does not cover to their end, and how many messages of theirs."""
    working_memory: str | None = None
    """The working memory as it was when the generation began."""
    working_memory_now: str | None = None
    task_lines: tuple[str, ...] = ()
    recalled: tuple[str, ...] = ()
    """What a search found for this request."""
    plans: tuple[tuple[date, str], ...] = ()
    """What was planned, and for which day."""
    assume_done: bool = False
    """Whether a plan counts as done once its day has passed."""
    ephemeral: tuple[NewMessage, ...] = ()
    """For this request only: neither stored nor observed."""
    passed: int = 0
    """How many messages were passed along once that are not known any more."""
    passed_tokens: int = 0
    """What those weighed."""
    instructions: str | None = None
    """The application's own words; they come first and are shown as they are."""
    limit: int | None = None
    """The most tokens that the whole may have; the tail and the other threads give way."""
    unseen_from: int | None = None
    """The first message that no model has seen: a limit may shorten it and what follows, but leaves none of it out."""
