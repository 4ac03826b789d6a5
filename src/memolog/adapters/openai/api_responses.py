"""x"""
from typing import Any
from memolog.adapters.exact import Answer, Json
from memolog.adapters.exchange import Stream
from memolog.context import Context
from memolog.domain.message import NewMessage

class ResponsesApi:
    """Responses. Where the provider keeps the conversation, it is not sent again: only the log goes before it."""

    path = "/responses"
    goes_on = False

    def given(self, body: Json) -> tuple[NewMessage, ...]:
        """Return what a request says, without its instructions."""
        return from_items(split(body.get("input") or ())[1])

    def request(self, body: Json, context: Context) -> Json:
        """Return the request with a context in the place of what the caller said."""
        opening, _ = split(body.get("input") or ())
        if body.get("previous_response_id") or body.get("conversation"):
            texts = [text for text in (body.get("instructions"), context.system) if text]
            return {**body, "instructions": "\n\n".join(texts)} if texts else body
        made = to_request(
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
        return [body.get("instructions"), *split(body.get("input") or ())[0]]

    def answer(self, data: Json) -> Answer:
        """Return what was answered."""
        return from_response(data)

    def stream(self) -> Stream:
        """Return what puts a streamed answer together."""
        return ResponseStream()


