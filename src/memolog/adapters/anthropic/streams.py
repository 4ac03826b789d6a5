"""Streams of the Anthropic API, put together into the message that they would have been.

Knows the events. Knows no transport: it is handed their JSON, one by one. A stream that ends early gives the words that were said
by then: thoughts without their signature and calls that nobody has run are left out.
"""

import json
from typing import Any, cast

from memolog.adapters.exact import Json
from memolog.transfer.conversation import Data, as_data

__all__ = ["MessageStream"]


class MessageStream:
    """A message in the making."""

    def __init__(self) -> None:
        self._message: Json = {}
        self._blocks: dict[int, Json] = {}
        self._inputs: dict[int, str] = {}
        self.is_whole = False

    def add(self, event: Data) -> None:
        """Take one more event."""
        place = event.get("index")
        match event.get("type"):
            case "message_start":
                self._message = dict(as_data(event.get("message")))
            case "content_block_start" if isinstance(place, int):
                self._blocks[place] = dict(as_data(event.get("content_block")))
            case "content_block_delta" if isinstance(place, int):
                self._delta(place, as_data(event.get("delta")))
            case "message_delta":
                self._message.update(as_data(event.get("delta")))
                told = {name: value for name, value in as_data(event.get("usage")).items() if value is not None}
                self._message["usage"] = {**as_data(self._message.get("usage")), **told}
            case "message_stop":
                self.is_whole = True
            case _:
                pass

    def _delta(self, place: int, delta: Data) -> None:
        block = self._blocks.setdefault(place, {"type": "text", "text": ""})
        for name, value in delta.items():
            if name == "type":
                continue
            if name == "partial_json":
                self._inputs[place] = self._inputs.get(place, "") + str(value)
            elif name == "citation":
                block["citations"] = [*(block.get("citations") or ()), value]
            elif isinstance(value, str) and isinstance(block.get(name), str):
                block[name] += value
            else:
                block[name] = value

    def response(self) -> Json:
        """Return the message so far."""
        blocks = {place: {**block} for place, block in self._blocks.items()}
        for place, text in self._inputs.items():
            blocks[place]["input"] = _value(text, blocks[place].get("input"))
        content = [blocks[place] for place in sorted(blocks)]
        if not self.is_whole:
            content = [block for block in content if block.get("type") == "text" and block.get("text")]
        return {**self._message, "content": content}


def _value(text: str, begun: object) -> Any:
    """Return the input that was sent in pieces; one that is no JSON stays a text."""
    if not text.strip():
        return begun
    try:
        return cast("object", json.loads(text))
    except ValueError:
        return text
