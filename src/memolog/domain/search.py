"""Result values of a search."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Literal, TypeAlias, get_args

from memolog.domain.message import Message, Role

__all__ = ["SOURCES", "SearchAnswer", "SearchResult", "Source"]

Source: TypeAlias = Literal["raw", "compacted", "observation", "reflection", "task"]
SOURCES: Final[tuple[str, ...]] = get_args(Source)


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult:
    """One hit: what was found, where, and why."""

    id: str
    """Of the message, the observation or the task."""
    source: Source
    rank: int
    """1 is the best."""
    score: float
    content: str
    snippet: str
    """The part of the content around the hits, each of them between « and »."""
    at: datetime
    exact: str = ""
    """The same part as it was written: whole lines, without marks, to be copied."""
    zone: str | None = None
    """The time zone of the speaker, if it is known."""
    thread: str | None = None
    seq: int | None = None
    role: Role | None = None
    speaker: str | None = None
    task: str | None = None
    handle: str | None = None
    """What people and models call it: g3.2 for a line of the log (recall takes it, with its thread), T-7 for a task."""
    state: str = "live"
    """Observations and reflections may be superseded or dropped, and are found all the same."""
    message: Message | None = None
    before: tuple[Message, ...] = ()
    after: tuple[Message, ...] = ()
    parts: Mapping[str, float] = field(default_factory=dict[str, float])
    """With `explain=True`: what each part of the ranking gave to the score."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchAnswer:
    """Some results, how many there are in all, and how to go on."""

    results: tuple[SearchResult, ...]
    total: int
    next: str | None = None
    """Pass it as `cursor` for the results after these; None: there are no more."""
    terms: tuple[str, ...] = ()
    """What was looked for, rarest first."""
    rarity: Mapping[str, float] = field(default_factory=dict[str, float])
    """How much each of the terms counts for being rare."""
    left_out: tuple[str, ...] = ()
    """What was too common or too much to be looked for, or to be looked for everywhere."""
    relaxed: tuple[str, ...] = ()
    """What stands nowhere as it was asked for: words, where others that hold them or look like them were found instead, and what
    a question quotes."""
    behind: int = 0
    """How many threads have messages that could not be indexed, since the memory is read-only or others go on writing."""
