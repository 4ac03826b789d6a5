"""Threads, each one ordered conversation of a resource.

Hints are stored with the thread, not with the log, since several threads may share a log.
"""

from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import ClassVar

from memolog.core.exact_json import JsonObject, nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class Hints:
    """What the observer last said about where a thread stands."""

    current_task: str | None = None
    """None: nothing was said about it. Empty: nothing is left to do. The hints of a thread are never empty."""
    suggested_response: str | None = None
    title: str | None = None
    at: datetime | None = None
    """The time of the messages that the task, or else the suggested response, comes from."""
    last_seq: int = 0
    """The end of the span that they come from: the highest wins."""

    def after(self, before: "Hints") -> "Hints":
        """Return the hints of a span as they hold after those of the spans before it.

        A task that the span does not mention stays, with its time. A suggested response holds for its own span only.
        """
        if self.current_task is None and before.current_task is not None:
            return replace(self, current_task=before.current_task, title=self.title or before.title, at=before.at)
        return replace(self, current_task=self.current_task or None, title=self.title or before.title)


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadInfo:
    """What is stored of one ordered conversation of a resource, beside its messages."""

    html_columns: ClassVar = ("id", "title", "last_seq", "updated_at")
    id: str
    resource: str
    created_at: datetime
    updated_at: datetime
    last_seq: int = 0
    """The sequence number of the newest message: also how many rows the thread has."""
    title: str | None = None
    hints: Hints = field(default_factory=Hints)
    active_task: str | None = None
    active_session: str | None = None
    overrides: JsonObject = field(default_factory=nothing)
    """Settings that differ from the configuration for this thread alone."""
    metadata: JsonObject = field(default_factory=nothing)
    cloned_from: str | None = None
