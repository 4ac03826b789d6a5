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
from memolog.errors import InputError
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
    """A message as it is shown to the model, with calls and results in pairs. Stored messages stay unchanged."""

    role: Role
    parts: tuple[Part, ...]
    seq: int | None = None
    """The number of the stored message, of the first of several; None if there is none."""
    speaker: str | None = None
    created_at: datetime | None = None
    synthetic: bool = False
    """True for notes, summaries and missing results, which are not part of the conversation."""

    @classmethod
    def of(cls, message: Message | NewMessage) -> Self:
        """Return a stored or a new message, unchanged."""
        return cls(
            role=message.role,
            parts=tuple(message.parts),
            seq=message.seq if isinstance(message, Message) else None,
            speaker=message.speaker,
            created_at=message.created_at,
        )

    @classmethod
    def note(cls, text: str, *, seq: int | None = None, created_at: datetime | None = None) -> Self:
        """Return a note in the role of the user."""
        return cls(role="user", parts=(TextPart(text=text),), seq=seq, created_at=created_at, synthetic=True)

    @property
    def text(self) -> str:
        """Return the text parts, joined by blank lines."""
        return "\n\n".join(part.text for part in self.parts if isinstance(part, TextPart))

    def render(self) -> str:
        """Return the message as exact text: one line for the message, then one line per part."""
        # There is no closing mark, so that a message with further parts extends the shorter one.
        seq = "-" if self.seq is None else str(self.seq)
        at = self.created_at.isoformat() if self.created_at else "-"
        speaker = [dumps(self.speaker)] if self.speaker else []
        head = " ".join([self.role, seq, at, *speaker, *(["note"] if self.synthetic else [])])
        return "".join(f"{line}\n" for line in (f"[{head}]", *map(_part_line, self.parts)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Tokens of the prefix, of the tail with its note, of the edge with ephemeral messages, and of the whole."""

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
    """Opens the tail if the log covers earlier messages."""
    tail: tuple[ContextMessage, ...] = ()
    ephemeral: tuple[ContextMessage, ...] = ()
    """Messages for this request only, after the tail and before the edge."""
    edge: tuple[Block, ...] = ()
    """The blocks after the last message, never stored. Only they depend on the present time."""
    tokens: Counts = Counts()
    trimmed: int = 0
    """How many messages were left out to keep within a limit."""
    shortened: int = 0
    """How many messages were cut in the middle."""

    @property
    def system(self) -> str:
        """Return the prefix as one text; a new group only extends it."""
        return "\n\n".join(block.text for block in self.blocks)

    @property
    def edge_text(self) -> str:
        """Return the edge as one text."""
        return "\n\n".join(block.text for block in self.edge)

    @property
    def messages(self) -> tuple[ContextMessage, ...]:
        """Return all messages in order: the note that opens the tail, the tail, the ephemeral messages."""
        opening = () if self.note is None else (ContextMessage.note(self.note.text),)
        return (*opening, *self.tail, *self.ephemeral)

    def to_openai(self, *, system: str | None = None) -> list[dict[str, Any]]:
        """Return `messages` for Chat Completions: `system` and the log first, then the messages, and the edge last."""
        _check_system(system)
        chat = import_module("memolog.adapters.openai.chat")
        instructions = [{"role": "system", "content": system}] if system else []
        made: list[dict[str, Any]] = chat.to_request(self, instructions=instructions)["messages"]
        return made

    def to_responses(self, *, system: str | None = None) -> dict[str, Any]:
        """Return `input`, and `instructions` if there are any, for the Responses API: `create(model=…, **made)`."""
        _check_system(system)
        responses = import_module("memolog.adapters.openai.responses")
        made: dict[str, Any] = responses.to_request(self, instructions=system)
        return made

    def to_anthropic(
        self, *, system: str | None = None, cache: Mapping[str, Any] | None = MappingProxyType({"type": "ephemeral"})
    ) -> dict[str, Any]:
        """Return `system` and `messages` for Anthropic, with cache marks: `create(model=…, max_tokens=…, **made)`.

        `cache` is the mark, such as `{"type": "ephemeral", "ttl": "1h"}`; None for no marks.
        """
        _check_system(system)
        messages = import_module("memolog.adapters.anthropic.messages")
        made: dict[str, Any] = messages.to_request(self, system=system, mark=None if cache is None else dict(cache))
        return made

    def render(self) -> str:
        """Return one canonical text of the whole, the edge last."""
        passed = "".join(message.render() for message in self.ephemeral)
        return self.render_without_edge() + passed + (f"\n{self.edge_text}\n" if self.edge else "")

    def render_without_edge(self) -> str:
        """Return the part that later contexts extend byte for byte, until the log is activated or rewritten."""
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
    """Another thread of the resource, with its messages that the log does not cover."""

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
    """The time zone of the user: an IANA name or an offset such as "+02:00"; UTC if it is unknown."""
    groups: tuple[GroupView, ...] = ()
    """The log, in its order."""
    cursor: int = 0
    """The last message that the log covers; 0 if it covers none."""
    alias: str | None = None
    """The name of this thread in a shared log."""
    tail: tuple[Message, ...] = ()
    """The messages after the cursor."""
    before: datetime | None = None
    """The time of the message before the tail; None if there is none or it is unknown."""
    repeated: tuple[Message, ...] = ()
    """Messages of this turn's user that the log already covers, shown again before the tail."""
    repeated_tokens: int | None = None
    """The most tokens of each repeated message; None for no limit."""
    hints: Hints = field(default_factory=Hints)
    others: tuple[OtherThread, ...] = ()
    others_tokens: int = 2_000
    """The most tokens of the other threads."""
    more_others: tuple[int, int] = (0, 0)
    """The number of further threads that the log does not fully cover, and of their uncovered messages."""
    working_memory: str | None = None
    """The working memory as it was when the generation began."""
    working_memory_now: str | None = None
    task_lines: tuple[str, ...] = ()
    recalled: tuple[str, ...] = ()
    """Earlier messages that a search found for this request."""
    plans: tuple[tuple[date, str], ...] = ()
    """Plans with their days."""
    assume_done: bool = False
    """Whether a plan counts as done once its day has passed."""
    ephemeral: tuple[NewMessage, ...] = ()
    """Messages for this request only, neither stored nor observed."""
    passed: int = 0
    """How many ephemeral messages of a recorded request are not stored."""
    passed_tokens: int = 0
    """The tokens of those."""
    instructions: str | None = None
    """The instructions of the application; they come first, unchanged."""
    limit: int | None = None
    """The most tokens of the whole; the tail and the other threads are shortened."""
    unseen_from: int | None = None
    """The first message that no model has seen: a limit may cut it and later ones, but never leaves them out."""


def _check_system(system: object) -> None:
    if system is not None and not isinstance(system, str):
        raise InputError(f"`system` must be a text, got {type(system).__name__}.", then='Pass system="You are …".')
