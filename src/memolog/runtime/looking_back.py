"""What a memory offers about what was said long ago: recall the exact words.

Knows the calls and their defaults. The work is done in `recalling`.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection

from memolog.config import Config
from memolog.domain.recall import Detail, PartType, RecallPage
from memolog.runtime.kit import Kit
from memolog.runtime.recalling import RecallRequest, recall
from memolog.store.recall import Reference
from memolog.tokens import TokenCounter

__all__ = ["LookingBack"]


class LookingBack(ABC):
    """The part of a memory that looks back."""

    config: Config
    counter: TokenCounter

    @abstractmethod
    async def open(self) -> Kit:
        """Open the database, if that has not been done; returns its parts."""

    async def recall(
        self,
        reference: Reference,
        resource: str,
        *,
        thread: str | None = None,
        detail: Detail = "low",
        types: Collection[PartType] = (),
        tool: str | None = None,
        part: int | None = None,
        tokens: int = 2_000,
        cursor: str | None = None,
    ) -> RecallPage:
        """Return a page of the messages behind a reference, in their exact words.

        A reference is what the log or a search shows: a group ("g3"), an observation, a message, or a span ("12-30", also with
        its thread: "t1 12-30"); numbers need a thread. A message's page goes on through its thread. `detail="low"` shows a line
        or two a message, "full" all of it; `types`, `tool` and `part` choose among the parts. A page has at most so many
        `tokens`; `cursor` takes its `next` or `previous`.
        """
        request = RecallRequest(
            reference=reference,
            thread=thread,
            detail=detail,
            types=types,
            tool=tool,
            part=part,
            tokens=tokens,
            cursor=cursor,
        )
        kit = await self.open()
        return await recall(kit.store, self.counter, resource, request, shared=self.config.scope == "resource")
