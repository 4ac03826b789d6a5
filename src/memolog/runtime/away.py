"""A turn while the database cannot even be opened: the agent goes on with what it was told, and nothing of it is given up.

Knows what was said meanwhile and tries to open the database now and then; once that succeeds, a real turn takes over with all of
it. Knows nothing of logs: without the database there is none to show.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from memolog.config import Config
from memolog.context import Context, View, build
from memolog.context.bare import bare
from memolog.domain.clock import Clock
from memolog.domain.errors import StoreError
from memolog.domain.message import NewMessage
from memolog.runtime.contexts import as_message
from memolog.runtime.events import Degraded
from memolog.runtime.unsaved import Held, Unsaved
from memolog.tokens import TokenCounter

__all__ = ["Away", "Outside", "dated"]

_log = logging.getLogger("memolog")

# Often enough for a database that restarts, seldom enough that an agent does not wait for one that is gone at every step.
_RETRY_SECONDS = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Outside:
    """What a memory has without its database."""

    clock: Clock
    counter: TokenCounter
    instructions: str | None
    new_id: Callable[[], str]
    tell: Callable[[Degraded], None]
    unsaved: Unsaved
    open_turns: Counter[str]
    """The turns that are running in this process, by id: one that is continued may be open more than once."""

    def tell_ignored(self, resource: str, thread: str, ignored: str) -> None:
        """Tell that settings of a thread are not known, and that it goes on without them."""
        what, now = "reading the thread's own settings", self.clock.now()
        self.tell(Degraded(at=now, resource=resource, thread=thread, what=what, error=ignored))


def dated(message: NewMessage, new_id: Callable[[], str], clock: Clock, zone: str | None) -> NewMessage:
    """Return the message with an id and a time of its own, given when it is said: however often it is saved, it is saved once."""
    return replace(
        message,
        id=new_id() if message.id is None else message.id,
        created_at=message.created_at or clock.now(),
        zone=message.zone or zone,
    )


class Away:
    """What a turn has instead of the database until that is there."""

    def __init__(self, outside: Outside, held: Held, *, config: Config, zone: str | None) -> None:
        self._outside, self._held, self._config, self._zone = outside, held, config, zone
        self._tried = asyncio.get_running_loop().time()

    def is_time(self) -> bool:
        """Tell whether the database may be tried again."""
        return asyncio.get_running_loop().time() - self._tried >= _RETRY_SECONDS

    def missing(self, error: StoreError) -> None:
        """Note that the database could not be opened, for all who listen."""
        self._tried = asyncio.get_running_loop().time()
        self._outside.tell(
            Degraded(
                at=self._outside.clock.now(),
                resource=self._held.resource,
                thread=self._held.thread,
                what="opening the database",
                error=str(error),
            )
        )

    def context(self, said: Sequence[NewMessage], ephemeral: Sequence[NewMessage]) -> Context:
        """Return what the model can be shown: what this process knows to have been said in the thread."""
        try:
            return self._built(said, ephemeral)
        except Exception:  # noqa: BLE001 - memory never breaks the agent
            _log.exception("building a context failed in a way that it never should")
            return bare(said, ephemeral, self._outside.instructions)

    def _built(self, said: Sequence[NewMessage], ephemeral: Sequence[NewMessage]) -> Context:
        now = self._outside.clock.now()
        counter = self._outside.counter
        tail = tuple(as_message(message, number, now, counter) for number, message in enumerate(said, start=1))
        view = View(
            scope=self._config.scope,
            thread=self._held.thread,
            now=now,
            counter=counter,
            zone=self._zone,
            tail=tail,
            ephemeral=tuple(ephemeral),
            instructions=self._outside.instructions,
            limit=self._config.context_tokens,
        )
        return build(view)
