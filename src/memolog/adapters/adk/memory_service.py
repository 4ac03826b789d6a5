"""Memory service of ADK over the search of a memory: `Runner(memory_service=MemologMemoryService(memory))`."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any, Final

from memolog import NotFound, SearchResult
from memolog.adapters.adk.events import KEY, Owner, content_json, content_of, message_of, resource_of
from memolog.adapters.driver import Driver
from memolog.adapters.google.messages import from_contents, to_contents
from memolog.adapters.guards import check_memory
from memolog.core.message import NewMessage
from memolog.memory import Memory, Resource
from memolog.sync import SyncMemory
from memolog.transfer.conversation import as_data
from memolog.transfer.exact import Json

_Base: Final[Any] = import_module("google.adk.memory.base_memory_service")
_Entry: Final[Any] = import_module("google.adk.memory.memory_entry").MemoryEntry
_BaseMemoryService: Final[Any] = _Base.BaseMemoryService

WITHOUT_SESSION: Final = "adk-memories"
"""The thread of memories and events that belong to no session."""


class MemologMemoryService(_BaseMemoryService):
    """Finds what was said in all sessions of a user, and what was observed about it."""

    def __init__(self, memory: Memory | SyncMemory, *, resource: Owner | None = None, limit: int = 10) -> None:
        """Set the memory. A search returns at most `limit` results.

        `resource` is a resource, or a function that gets the name of the app and the id of the user. The default is `app/user`.
        """
        check_memory(memory, Memory, SyncMemory)
        self._driver, self._owner, self._limit = Driver(memory), resource, limit

    def _resource(self, app_name: str, user_id: str) -> Resource:
        return self._driver.memory.resource(resource_of(self._owner, app_name, user_id))

    async def add_session_to_memory(self, session: Any) -> None:
        """Save the events of a session. Events that are stored already or were forgotten are skipped."""
        await self.add_events_to_memory(
            app_name=session.app_name, user_id=session.user_id, events=session.events, session_id=session.id
        )

    async def add_events_to_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        events: Sequence[Any],
        session_id: str | None = None,
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Save events. Events that are stored already or were forgotten are skipped. `custom_metadata` has no effect."""
        del custom_metadata
        said = [message for event in events if (message := message_of(event)) is not None]
        await self._driver.later(_add(self._resource(app_name, user_id), session_id or WITHOUT_SESSION, said))

    async def add_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        memories: Sequence[Any],
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Save memories as messages of a thread of their own. They can be found, and are observed like other messages."""
        del custom_metadata
        said = [_message(entry) for entry in memories]
        await self._driver.later(_add(self._resource(app_name, user_id), WITHOUT_SESSION, said))

    async def search_memory(self, *, app_name: str, user_id: str, query: str) -> Any:
        """Return the best results for a query among messages and observations of all sessions of the user."""
        found = await self._driver.later(_found(self._resource(app_name, user_id), query, self._limit))
        return _Base.SearchMemoryResponse(memories=[_entry(result, content) for result, content in found])

    async def delete_memory(self, *, app_name: str, user_id: str, memory_id: str | None = None) -> None:
        """Forget a message or an observation, and everything derived from it. This cannot be undone."""
        if memory_id:
            await self._driver.later(_forget(self._resource(app_name, user_id), memory_id))


async def _add(resource: Resource, thread: str, said: Sequence[NewMessage]) -> None:
    if said:
        await resource.thread(thread).import_messages(said, source=KEY)


async def _found(resource: Resource, query: str, limit: int) -> list[tuple[SearchResult, Json]]:
    answer = await resource.search(query, limit=limit + 1, sources=("raw", "compacted", "observation"))
    # The tool `preload_memory` searches with the question, which is stored already.
    others = [result for result in answer.results if result.content.strip() != query.strip()]
    return [(result, await _content(resource, result)) for result in others[:limit]]


async def _content(resource: Resource, result: SearchResult) -> Json:
    """Return the whole message as a content. A compacted message, and an observation, is what the search shows of it."""
    rows = await resource.message(result.id, thread=result.thread) if result.source == "raw" else ()
    parts = [part for one in to_contents(rows) for part in one["parts"] if "text" in part and not part.get("thought")]
    role = "model" if result.role == "assistant" else "user"
    return {"role": role, "parts": parts or [{"text": result.content}]}


def _entry(result: SearchResult, content: Json) -> Any:
    about = {"source": result.source, "thread": result.thread, "score": result.score}
    said_by = as_data(result.message.metadata.get(KEY) if result.message else None)
    return _Entry(
        id=result.id,
        content=content_of(content),
        author=str(said_by.get("author") or result.role or "memory"),
        timestamp=result.at.isoformat(),
        custom_metadata=about,
    )


async def _forget(resource: Resource, id_: str) -> None:
    with suppress(NotFound):
        rows = await resource.message(id_)
        if rows:
            await resource.forget(thread=rows[0].thread, message=id_)
            return
    with suppress(NotFound):
        await resource.forget(observation=id_)


def _message(entry: Any) -> NewMessage:
    [said] = from_contents([content_json(entry.content)])
    about: Json = {"author": entry.author or "user", **entry.model_dump(mode="json")["custom_metadata"]}
    return NewMessage(role=said.role, parts=said.parts, id=entry.id, metadata={KEY: about})
