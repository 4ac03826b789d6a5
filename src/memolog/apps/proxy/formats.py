"""The three APIs that get memory: where in a request the conversation is, and how their errors look.

Knows which fields of a request are replaced by the memory's context; every other field is passed on as it came. How messages are
translated is in the adapters.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol, cast

from memolog.adapters.anthropic import messages
from memolog.adapters.anthropic.streams import MessageStream
from memolog.adapters.exact import Answer
from memolog.adapters.openai import chat, responses
from memolog.adapters.openai.streams import ChatStream, ResponseStream
from memolog.adapters.sse import Events
from memolog.context import Context
from memolog.domain.errors import InputError
from memolog.domain.message import NewMessage

__all__ = ["Format", "Stream", "error_body", "format_of", "is_anthropic"]

Body = dict[str, Any]


class Stream(Protocol):
    """An answer in the making."""

    is_whole: bool

    def add(self, event: Mapping[str, Any], /) -> None:
        """Take one more event."""
        ...

    def response(self) -> Body:
        """Return the answer so far."""
        ...


class Format(Protocol):
    """One API."""

    def said(self, body: Body) -> Sequence[NewMessage] | None:
        """Return what a request says; None if it is none that this API would take."""
        ...

    def with_context(self, body: Body, context: Context) -> Body:
        """Return the request with the memory's context in the place of its conversation."""
        ...

    def answer(self, data: Body) -> Answer:
        """Return what the model answered."""
        ...

    def stream(self) -> Stream:
        """Return what puts a stream together."""
        ...

    def is_over(self, events: Events, stream: Stream) -> bool:
        """Tell whether all of a stream is there."""
        ...


def _objects(value: object) -> list[Body] | None:
    """Return a list of objects, None if it is none."""
    if not isinstance(value, list):
        return None
    items = cast("list[object]", value)
    return [cast("Body", item) for item in items] if all(isinstance(item, dict) for item in items) else None


class Chat:
    """Chat Completions."""

    def said(self, body: Body) -> Sequence[NewMessage] | None:
        """Return the messages after the instructions."""
        given = _objects(body.get("messages"))
        return None if given is None else chat.from_messages(chat.split(given)[1])

    def with_context(self, body: Body, context: Context) -> Body:
        """Return the request with other messages, after its own instructions."""
        opening, _ = chat.split(_objects(body.get("messages")) or [])
        return {**body, **chat.to_request(context, instructions=opening)}

    def answer(self, data: Body) -> Answer:
        """Return the first choice."""
        return chat.from_response(data)

    def stream(self) -> Stream:
        """Return what joins chunks."""
        return ChatStream()

    def is_over(self, events: Events, stream: Stream) -> bool:
        """Tell whether all is there: what it cost comes after the last word."""
        del stream
        return events.is_done


class Responses:
    """The Responses API."""

    def said(self, body: Body) -> Sequence[NewMessage] | None:
        """Return the items after the instructions."""
        for name in ("previous_response_id", "conversation", "background"):
            if body.get(name):
                raise InputError(
                    f"A request with {name} cannot have memory.",
                    why="The provider would keep the conversation too, or answer later and elsewhere.",
                    then=f"Leave {name} out: the memory knows what was said. Or leave x-memolog-thread out.",
                )
        given = body.get("input")
        if isinstance(given, str):
            return responses.from_items(given)
        items = _objects(given)
        return None if items is None else responses.from_items(responses.split(items)[1])

    def with_context(self, body: Body, context: Context) -> Body:
        """Return the request with other instructions and items."""
        opening, _ = responses.split(_objects(body.get("input")) or [])
        own = body.get("instructions")
        made = responses.to_request(
            context,
            instructions=own if isinstance(own, str) else None,
            opening=opening,
            is_stored=body.get("store") is not False,
        )
        return {**body, **made}

    def answer(self, data: Body) -> Answer:
        """Return all items of the response."""
        return responses.from_response(data)

    def stream(self) -> Stream:
        """Return what joins events."""
        return ResponseStream()

    def is_over(self, events: Events, stream: Stream) -> bool:
        """Tell whether the event that ends it has come."""
        del events
        return stream.is_whole


class Messages:
    """The messages of Anthropic."""

    def said(self, body: Body) -> Sequence[NewMessage] | None:
        """Return the messages; instructions are elsewhere."""
        given = _objects(body.get("messages"))
        return None if given is None else messages.from_messages(given)

    def with_context(self, body: Body, context: Context) -> Body:
        """Return the request with other messages, and the memory after its own instructions."""
        tools = _objects(body.get("tools")) or []
        marks = sum("cache_control" in tool for tool in tools)
        own = body.get("system")
        system = own if isinstance(own, str) else _objects(own)
        return {**body, **messages.to_request(context, system=system, marks_elsewhere=marks)}

    def answer(self, data: Body) -> Answer:
        """Return all blocks of the message."""
        return messages.from_response(data)

    def stream(self) -> Stream:
        """Return what joins events."""
        return MessageStream()

    def is_over(self, events: Events, stream: Stream) -> bool:
        """Tell whether the event that ends it has come."""
        del events
        return stream.is_whole


_FORMATS: Final[tuple[tuple[str, Format], ...]] = (
    ("/chat/completions", Chat()),
    ("/responses", Responses()),
    ("/v1/messages", Messages()),
)


def format_of(method: str, path: str) -> Format | None:
    """Return the API that a request speaks; None for every other path."""
    return next((one for end, one in _FORMATS if path.endswith(end)), None) if method == "POST" else None


def is_anthropic(path: str, header_names: Sequence[str]) -> bool:
    """Tell which provider a request is for: by its path, and where both have one like it, by the headers of its client."""
    if path.startswith(("/v1/messages", "/v1/complete")):
        return True
    return "anthropic-version" in header_names


def error_body(message: str, kind: str, *, as_anthropic: bool) -> Body:
    """Return an error of ours in the words of the API, so that its client can read it."""
    if as_anthropic:
        return {"type": "error", "error": {"type": kind, "message": message}}
    return {"error": {"message": message, "type": kind, "param": None, "code": "memolog"}}
