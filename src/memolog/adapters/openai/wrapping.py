"""Plain OpenAI clients with memory: `wrap`, for Responses and Chat Completions, streamed or not.

Knows the two APIs' paths and which of their arguments hold what is said. Knows no client but by its calls.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any, TypeVar

from memolog.adapters.clients import remembering
from memolog.adapters.exact import Answer, Json
from memolog.adapters.exchange import Bound, OpenTurn, Stream
from memolog.adapters.guards import SyncGuardedTurn
from memolog.adapters.openai import chat, responses
from memolog.adapters.openai.streams import ChatStream, ResponseStream
from memolog.context import Context
from memolog.domain.message import NewMessage
from memolog.runtime.memory import Memory
from memolog.runtime.sync import SyncMemory, SyncTurn

__all__ = ["ChatApi", "ResponsesApi", "wrap"]

C = TypeVar("C")


class ChatApi:
    """Chat Completions."""

    path = "/chat/completions"
    goes_on = False

    def given(self, body: Json) -> tuple[NewMessage, ...]:
        """Return what a request says, without its instructions."""
        return chat.from_messages(chat.split(body.get("messages") or ())[1])

    def request(self, body: Json, context: Context) -> Json:
        """Return the request with a context in the place of what the caller said."""
        instructions = chat.split(body.get("messages") or ())[0]
        return {**body, **chat.to_request(context, instructions=instructions)}

    def own(self, body: Json) -> list[Any]:
        """Return the instructions of a request."""
        return list(chat.split(body.get("messages") or ())[0])

    def answer(self, data: Json) -> Answer:
        """Return what was answered."""
        return chat.from_response(data)

    def stream(self) -> Stream:
        """Return what puts a streamed answer together."""
        return ChatStream()


class ResponsesApi:
    """Responses. Where the provider keeps the conversation, it is not sent again: only the log goes before it."""

    path = "/responses"
    goes_on = False

    def given(self, body: Json) -> tuple[NewMessage, ...]:
        """Return what a request says, without its instructions."""
        return responses.from_items(responses.split(body.get("input") or ())[1])

    def request(self, body: Json, context: Context) -> Json:
        """Return the request with a context in the place of what the caller said."""
        opening, _ = responses.split(body.get("input") or ())
        if body.get("previous_response_id") or body.get("conversation"):
            texts = [text for text in (body.get("instructions"), context.system) if text]
            return {**body, "instructions": "\n\n".join(texts)} if texts else body
        made = responses.to_request(
            context,
            instructions=body.get("instructions"),
            opening=opening,
            is_stored=body.get("store") is not False,
        )
        return {**body, **made}

    def own(self, body: Json) -> list[Any] | None:
        """Return the instructions of a request; None if the provider adds a conversation of its own."""
        if body.get("previous_response_id") or body.get("conversation"):
            return None
        return [body.get("instructions"), *responses.split(body.get("input") or ())[0]]

    def answer(self, data: Json) -> Answer:
        """Return what was answered."""
        return responses.from_response(data)

    def stream(self) -> Stream:
        """Return what puts a streamed answer together."""
        return ResponseStream()


def wrap(
    client: C,
    memory: Memory | SyncMemory,
    *,
    thread: str | None = None,
    resource: str | None = None,
    zone: str | None = None,
    settings: Mapping[str, Any] | None = None,
    turn: OpenTurn | SyncGuardedTurn | SyncTurn | None = None,
) -> C:
    """Return a client like this one that remembers, over the same connections.

    `OpenAI` goes with `SyncMemory`, `AsyncOpenAI` with `Memory`. Its calls are the client's own. A call may name another thread
    and resource with `**at(…)`; with `turn` all calls are steps of a turn that you opened.
    """
    bound = partial(
        Bound, apis=(ChatApi(), ResponsesApi()), thread=thread, resource=resource, zone=zone, settings=settings
    )
    return remembering(client, memory, turn, bound)
