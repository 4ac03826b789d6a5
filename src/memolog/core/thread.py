"""Values of threads. A thread is one ordered conversation of a resource.

Hints are the current task, suggested response and title. They are stored with the thread, because threads may share a log.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import ClassVar, Final

from memolog.core.exact_json import JsonObject, nothing


class Unchanged:
    """The type of `UNCHANGED`, the default of arguments for which None is a valid value."""


UNCHANGED: Final = Unchanged()
_HYPHEN: Final = re.compile("-")


@dataclass(frozen=True, slots=True, kw_only=True)
class Hints:
    """The current task, the suggested response and the title of a thread, from the latest observer run."""

    current_task: str | None = None
    """None in a reply: the observer wrote nothing about it. Empty in a reply: no task is left. `after` replaces empty by None."""
    suggested_response: str | None = None
    title: str | None = None
    at: datetime | None = None
    """The time of the messages that the task comes from. Without a task: of those that the suggested response comes from."""
    last_seq: int = 0
    """The last sequence number of the observed span. Hints with a higher number replace hints with a lower number."""

    def after(self, before: "Hints") -> "Hints":
        """Return the hints of a thread after this span. `before` are the hints after the earlier spans.

        If the span has no task, the earlier task stays, with its time. An earlier suggested response never stays.
        """
        if self.current_task is None and before.current_task is not None:
            return replace(self, current_task=before.current_task, title=self.title or before.title, at=before.at)
        return replace(self, current_task=self.current_task or None, title=self.title or before.title)


def threads_of_subagents(threads: Iterable[str]) -> frozenset[str]:
    """Return the threads of sub-agents. Their id is the id of another thread, followed by a hyphen and more characters."""
    known = frozenset(threads)
    return frozenset(one for one in known if any(one[: hit.start()] in known for hit in _HYPHEN.finditer(one)))


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadInfo:
    """The stored fields of one thread, without its messages."""

    html_columns: ClassVar = ("id", "title", "last_seq", "updated_at")
    id: str
    resource: str
    created_at: datetime
    updated_at: datetime
    last_seq: int = 0
    """The sequence number of the newest message. It is also the number of rows, because the numbers have no gaps."""
    title: str | None = None
    hints: Hints = field(default_factory=Hints)
    active_task: str | None = None
    active_session: str | None = None
    overrides: JsonObject = field(default_factory=nothing)
    """Settings that replace the configuration in this thread only."""
    metadata: JsonObject = field(default_factory=nothing)
    cloned_from: str | None = None
