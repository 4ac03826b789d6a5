"""Report of a `forget` call: ids and counts, never text, so that the report does not keep what was forgotten."""

from dataclasses import dataclass, fields, replace
from typing import Self

__all__ = ["Forgotten"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Forgotten:
    """Everything that was removed, or that would be: ids where they are useful, otherwise how many."""

    resource: str
    dry_run: bool = False
    threads: tuple[str, ...] = ()
    """Threads that are gone as a whole."""
    messages: int = 0
    observations: tuple[str, ...] = ()
    """Observations that said something of it, through every reflection."""
    reflections: tuple[str, ...] = ()
    """Short ids of the reflections that were derived again from what is left."""
    groups: int = 0
    """Groups that are gone or void; what is left of their messages is observed again."""
    runs: int = 0
    """Runs in flight that were given up, so that they cannot bring it back."""
    hints: int = 0
    """Threads whose current task, suggested response and observed title were removed."""
    working_memory: int = 0
    """Versions of working memory."""
    tasks: int = 0
    task_links: int = 0
    """Links between tasks and messages."""
    prompts: int = 0
    """Kept prompts with their replies."""
    extracts: int = 0
    compactions: int = 0
    contexts: int = 0
    """Records of what a context held."""
    events: int = 0
    index: int = 0
    """Documents of the search index, and words that nothing else holds."""
    usage: int = 0
    """Entries of the ledger that stay: they hold costs and no text."""
    copies: tuple[str, ...] = ()
    """Files beside the database that held a copy of it, and were removed."""
    is_clean: bool = False
    """Whether the file and its journal were written anew, so that no byte of it is left in them."""

    def __add__(self, other: Self) -> Self:
        """Return both reports as one."""
        own = {field.name: getattr(self, field.name) for field in fields(self)}
        sums = {name: value + getattr(other, name) for name, value in own.items() if name not in _NOT_SUMMED}
        return replace(self, is_clean=self.is_clean or other.is_clean, **sums)


_NOT_SUMMED = frozenset({"resource", "dry_run", "is_clean"})
