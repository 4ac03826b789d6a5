"""What was said and is not saved yet: of every turn of this process, whether it is open or over.

Knows whose it is and in which order it was said. Knows no database: how it is saved is told in `rescuing`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from memolog.domain.message import NewMessage
from memolog.domain.run import Usage
from memolog.runtime.missed import MissedContexts

__all__ = ["Held", "Spent", "Unsaved"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """What a provider reported of a request, and how many tokens we had counted for it."""

    usage: Usage
    counted: int
    asked: str | None = None
    """The model that the request was meant for, if anybody named it before the answer came."""


@dataclass(slots=True, kw_only=True, eq=False)
class Held:
    """What one turn has to have saved."""

    resource: str
    thread: str
    turn: str = ""
    messages: list[NewMessage] = field(default_factory=list[NewMessage])
    spent: list[Spent] = field(default_factory=list[Spent])
    ids: set[str] = field(default_factory=set[str])
    """Of everything that the turn said, saved or not."""
    missed: MissedContexts = field(default_factory=MissedContexts)
    """What the model was shown while the database was away, and is not recorded yet."""
    is_withdrawn: bool = False
    """The turn was taken back, and the database does not know it yet."""
    keeps_answered: bool = False
    """Only what no answer of the turn has followed is taken back."""
    also: tuple[int, ...] = ()
    """The numbers of messages of earlier turns that are taken back with it."""
    is_over: bool = False
    """Nobody comes after this: what is left is saved in the background."""
    is_unanswered: bool = False
    """The last that was saved has no reply: until the turn is ended in the database too, no log takes it."""

    @property
    def is_settled(self) -> bool:
        """Tell whether nothing is left to be saved."""
        return not (self.messages or self.spent or self.is_withdrawn or (self.is_over and self.is_unanswered))

    def add(self, messages: Sequence[NewMessage]) -> None:
        """Hold messages; those that are held already are held once."""
        known = {id(message) for message in self.messages}
        self.messages += [message for message in messages if id(message) not in known]
        self.ids.update(message.id for message in messages if message.id is not None)

    def give_up(self, *, keep_answered: bool) -> None:
        """Let go of what is taken back before it was saved; what an answer followed may stay."""
        answers = [place for place, message in enumerate(self.messages) if message.role == "assistant"]
        del self.messages[answers[-1] + 1 if keep_answered and answers else 0 :]

    def drop(self, messages: Sequence[NewMessage]) -> None:
        """Let go of messages: they are saved, or were never said. What was said meanwhile stays."""
        gone = {id(message) for message in messages}
        self.messages[:] = [message for message in self.messages if id(message) not in gone]


class Unsaved:
    """All that the turns of a memory have to have saved, in the order in which it was said."""

    def __init__(self) -> None:
        self.is_closed = False
        """The memory is closed: nothing more is taken."""
        self.is_told = False
        """The memory is closed, and whoever closed it was told what is lost."""
        self.rescue: Callable[[], None] | None = None
        """Saves in the background what is left; None until the database was opened."""
        self._held: dict[Held, None] = {}

    def __len__(self) -> int:
        return len(self._held)

    def hold(self, held: Held) -> None:
        """Take note of what a turn holds; forgets it once nothing is left of it."""
        if held.is_settled:
            self._held.pop(held, None)
        else:
            self._held[held] = None

    def waiting(
        self, resource: str | None = None, thread: str | None = None, *, also_open: bool = False
    ) -> tuple[Held, ...]:
        """Return what turns left behind: all of it, or that of one thread; also what open turns hold, if asked for."""
        return tuple(
            held
            for held in self._held
            if (held.is_over or also_open) and (resource is None or (held.resource, held.thread) == (resource, thread))
        )

    def messages_of(self, resource: str, thread: str) -> tuple[NewMessage, ...]:
        """Return what was said in a thread and is not saved yet."""
        found = self.waiting(resource, thread, also_open=True)
        return tuple(message for held in found if not held.is_withdrawn for message in held.messages)

    def withdrawn_of(self, resource: str, thread: str) -> frozenset[str]:
        """Return the ids of what was taken back in a thread and may still be in the database."""
        found = self.waiting(resource, thread, also_open=True)
        return frozenset(name for held in found if held.is_withdrawn for name in held.ids)

    def forget(self, resource: str, thread: str | None) -> None:
        """Give up what is held of a thread, or of a whole resource, that was forgotten."""
        for held in tuple(self._held):
            if held.resource == resource and thread in {None, held.thread}:
                held.messages.clear()
                held.is_withdrawn = False
                self.hold(held)

    def counts(self) -> dict[tuple[str, str], int]:
        """Return how many messages of which resource and thread are not saved; 0 where something else is left to do."""
        found: dict[tuple[str, str], int] = {}
        for held in self._held:
            key = held.resource, held.thread
            found[key] = found.get(key, 0) + len(held.messages)
        return found
