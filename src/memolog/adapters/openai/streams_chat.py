"""Streams of the OpenAI APIs, put together into the answer that they would have been.

Knows the chunks of Chat Completions and the events of Responses. Knows no transport: it is handed their JSON, one by one. A
stream that ends early gives what was said by then; calls are left out, since nobody has run them.
"""

from typing import Any, Final, cast

from memolog.adapters.exact import Json
from memolog.transfer.conversation import Data, as_data, as_list

__all__ = ["ChatStream", "ResponseStream"]

# Fields that come whole; every other text comes in pieces.
_WHOLE: Final = ("id", "type", "role", "index", "name", "format", "status")


class ChatStream:
    """A chat completion in the making."""

    def __init__(self) -> None:
        self._about: Json = {}
        self._message: Json = {}
        self.is_whole = False

    def add(self, chunk: Data) -> None:
        """Take one more chunk; of several choices the first is kept."""
        for name, value in chunk.items():
            if name != "choices" and value is not None:
                self._about[name] = value
        for choice in map(as_data, as_list(chunk.get("choices"))):
            if choice.get("index") in (0, None):
                _merge(self._message, as_data(choice.get("delta")))
                if choice.get("finish_reason"):
                    self._about["finish_reason"] = choice["finish_reason"]
                    self.is_whole = True

    def response(self) -> Json:
        """Return the completion so far."""
        message = {"role": "assistant", "content": None, **self._message}
        calls = [
            {name: value for name, value in as_data(call).items() if name != "index"}
            for call in as_list(message.pop("tool_calls", None))
        ]
        if not self.is_whole:
            message.pop("function_call", None)
        elif calls:
            message["tool_calls"] = calls
        finish = {"finish_reason": self._about.get("finish_reason")}
        has_said = any(value for name, value in message.items() if name != "role")
        about = {name: value for name, value in self._about.items() if name != "finish_reason"}
        choices = [{"index": 0, "message": message, **finish}] if has_said else []
        return {**about, "object": "chat.completion", "choices": choices}


def _merge(whole: Json, piece: Data) -> None:
    for name, value in piece.items():
        known = whole.get(name)
        if isinstance(value, str) and isinstance(known, str) and name not in _WHOLE:
            whole[name] = known + value
        elif isinstance(value, list):
            if name not in whole or not isinstance(known, list):
                whole[name] = []
            _merge_list(whole[name], cast("list[Any]", value))
        elif isinstance(value, dict) and isinstance(known, dict):
            _merge(cast("Json", known), as_data(cast("object", value)))
        elif isinstance(value, dict):
            whole[name] = {}
            _merge(whole[name], as_data(cast("object", value)))
        elif value is not None and (value != "" or name not in whole):
            whole[name] = value


def _merge_list(whole: list[Any], pieces: list[Any]) -> None:
    for piece in pieces:
        index = as_data(piece).get("index")
        found = next((one for one in whole if index is not None and as_data(one).get("index") == index), None)
        if found is not None:
            _merge(found, piece)
        elif isinstance(piece, dict):
            whole.append({})
            _merge(whole[-1], as_data(cast("object", piece)))
        else:
            whole.append(piece)


