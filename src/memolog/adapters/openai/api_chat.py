"""x"""
from typing import Any
from memolog.adapters.exact import Answer, Json
from memolog.adapters.exchange import Stream
from memolog.context import Context
from memolog.domain.message import NewMessage

class ChatApi:
    """Chat Completions."""

    path = "/chat/completions"
    goes_on = False

    def given(self, body: Json) -> tuple[NewMessage, ...]:
        """Return what a request says, without its instructions."""
        return from_messages(split(body.get("messages") or ())[1])

    def request(self, body: Json, context: Context) -> Json:
        """Return the request with a context in the place of what the caller said."""
        instructions = split(body.get("messages") or ())[0]
        return {**body, **to_request(context, instructions=instructions)}

    def own(self, body: Json) -> list[Any]:
        """Return the instructions of a request."""
        return list(split(body.get("messages") or ())[0])

    def answer(self, data: Json) -> Answer:
        """Return what was answered."""
        return from_response(data)

    def stream(self) -> Stream:
        """Return what puts a streamed answer together."""
        return ChatStream()


