"""x"""
from typing import Any
from memolog.transfer.conversation import as_data, as_list
from memolog.adapters.exact import Answer, Json
from memolog.adapters.exchange import Stream
from memolog.context import Context
from memolog.domain.message import NewMessage

class MessagesApi:
    """Messages."""

    path = "/v1/messages"
    goes_on = True

    def __init__(self, mark: Json | None = MARK) -> None:
        """Take the mark of the cache; None for none."""
        self._mark = mark

    def given(self, body: Json) -> tuple[NewMessage, ...]:
        """Return what a request says, without its instructions."""
        return from_messages(body.get("messages") or ())

    def request(self, body: Json, context: Context) -> Json:
        """Return the request with a context in the place of what the caller said."""
        marks = sum("cache_control" in as_data(tool) for tool in as_list(body.get("tools")))
        # A mark for the whole request stands for one at its last block.
        marks += "cache_control" in body
        made = to_request(context, system=body.get("system"), mark=self._mark, marks_elsewhere=marks)
        return {**body, **made}

    def own(self, body: Json) -> list[Any]:
        """Return the instructions of a request."""
        return [body.get("system")]

    def answer(self, data: Json) -> Answer:
        """Return what was answered."""
        return from_response(data)

    def stream(self) -> Stream:
        """Return what puts a streamed answer together."""
        return MessageStream()


