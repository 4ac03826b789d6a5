"""Streams of the OpenAI APIs, put together into the answer that they would have been.

Knows the chunks of Chat Completions and the events of Responses. Knows no transport: it is handed their JSON, one by one. A
stream that ends early gives what was said by then; calls are left out, since nobody has run them.
"""

from typing import Any, Final, cast

from memolog.adapters.exact import Json
from memolog.transfer.conversation import Data, as_data, as_list

__all__ = ["ChatStream", "ResponseStream"]

class ResponseStream:
    """A response in the making."""

    def __init__(self) -> None:
        self._response: Json = {}
        self._items: dict[int, Json] = {}
        self._texts: dict[tuple[int, int], str] = {}
        self.is_whole = False

    def add(self, event: Data) -> None:
        """Take one more event."""
        kind = str(event.get("type", ""))
        if response := as_data(event.get("response")):
            self._response = dict(response)
            self.is_whole = kind in {"response.completed", "response.incomplete", "response.failed"}
        place = event.get("output_index")
        if not isinstance(place, int):
            return
        if kind == "response.output_item.done":
            self._items[place] = dict(as_data(event.get("item")))
        elif kind in {"response.output_text.delta", "response.refusal.delta"}:
            key = (place, int(event.get("content_index") or 0))
            self._texts[key] = self._texts.get(key, "") + str(event.get("delta", ""))

    def response(self) -> Json:
        """Return the response so far: its items that are done, and the words of those that are not."""
        if self.is_whole and self._response.get("output"):
            return self._response
        items = dict(self._items)
        for (place, _), text in sorted(self._texts.items()):
            if place not in self._items and text:
                said = items.setdefault(place, {"type": "message", "role": "assistant", "content": []})
                said["content"].append({"type": "output_text", "text": text, "annotations": []})
        ordered = [items[place] for place in sorted(items)]
        # Without what follows it, the API refuses a thought.
        while ordered and not self.is_whole and ordered[-1].get("type") == "reasoning":
            ordered.pop()
        return {**self._response, "output": [item for item in ordered if self.is_whole or not _is_call(item)]}


def _is_call(item: Data) -> bool:
    return "call_id" in item
