"""Plain Anthropic clients with memory: `wrap`, streamed or not, with marks for the cache.

Knows the API's path and which of its arguments hold what is said. Knows no client but by its calls.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any, TypeVar

from memolog.adapters.anthropic import messages
from memolog.adapters.anthropic.streams import MessageStream
from memolog.adapters.clients import remembering
from memolog.adapters.exact import Answer, Json
from memolog.adapters.exchange import Bound, OpenTurn, Stream
from memolog.adapters.guards import SyncGuardedTurn
from memolog.context import Context
from memolog.domain.message import NewMessage
from memolog.runtime.memory import Memory
from memolog.runtime.sync import SyncMemory, SyncTurn
from memolog.transfer.values import as_data, as_list

__all__ = ["MessagesApi", "wrap"]

C = TypeVar("C")


class MessagesApi:
    """Messages."""

    path = "/v1/messages"
    goes_on = True

    def __init__(self, mark: Json | None = messages.MARK) -> None:
        """Take the mark of the cache; None for none."""
        self._mark = mark

    def given(self, body: Json) -> tuple[NewMessage, ...]:
        """Return what a request says, without its instructions."""
        return messages.from_messages(body.get("messages") or ())

    def request(self, body: Json, context: Context) -> Json:
        """Return the request with a context in the place of what the caller said."""
        marks = sum("cache_control" in as_data(tool) for tool in as_list(body.get("tools")))
        # A mark for the whole request stands for one at its last block.
        marks += "cache_control" in body
        made = messages.to_request(context, system=body.get("system"), mark=self._mark, marks_elsewhere=marks)
        return {**body, **made}

    def own(self, body: Json) -> list[Any]:
        """Return the instructions of a request."""
        return [body.get("system")]

    def answer(self, data: Json) -> Answer:
        """Return what was answered."""
        return messages.from_response(data)

    def stream(self) -> Stream:
        """Return what puts a streamed answer together."""
        return MessageStream()


def wrap(
    client: C,
    memory: Memory | SyncMemory,
    *,
    thread: str | None = None,
    resource: str | None = None,
    zone: str | None = None,
    settings: Mapping[str, Any] | None = None,
    turn: OpenTurn | SyncGuardedTurn | SyncTurn | None = None,
    cache: Json | None = messages.MARK,
) -> C:
    """Return a client like this one that remembers, over the same connections.

    `Anthropic` goes with `SyncMemory`, `AsyncAnthropic` with `Memory`. Its calls are the client's own. A call may name another
    thread and resource with `**at(…)`; with `turn` all calls are steps of a turn that you opened. `cache` is what marks the
    cache, `{"type": "ephemeral", "ttl": "1h"}` for a longer one, None for none.
    """
    bound = partial(Bound, apis=(MessagesApi(cache),), thread=thread, resource=resource, zone=zone, settings=settings)
    return remembering(client, memory, turn, bound)
