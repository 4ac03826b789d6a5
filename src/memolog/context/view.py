"""The input of a context, as values."""

from dataclasses import dataclass, field
from datetime import date, datetime

from memolog.domain.message import Message, NewMessage
from memolog.domain.observation import Scope
from memolog.domain.thread import Hints
from memolog.tokens import TokenCounter

__all__ = ["GroupView", "OtherThread", "View"]


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
