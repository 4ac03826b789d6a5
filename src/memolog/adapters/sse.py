"""Server-sent events: bytes into the JSON of each event.

Knows lines, `data:` and where an event ends, however the bytes are cut. Knows no provider.
"""

import json
from typing import Any, Final, cast

__all__ = ["Events"]

_END: Final = "[DONE]"


class Events:
    """Takes bytes as they come and gives back the events that are complete."""

    def __init__(self) -> None:
        self._rest = b""
        self._data: list[str] = []
        self.is_done = False

    def feed(self, chunk: bytes) -> list[dict[str, Any]]:
        """Return the objects of the events that these bytes complete; what is no JSON object is passed over."""
        lines = (self._rest + chunk).replace(b"\r\n", b"\n").split(b"\n")
        self._rest = lines.pop()
        found: list[dict[str, Any]] = []
        for line in lines:
            if line:
                self._line(line.decode("utf-8", "replace"))
            else:
                found += self._event()
        return found

    def _line(self, line: str) -> None:
        field, _, value = line.partition(":")
        if field == "data":
            self._data.append(value.removeprefix(" "))

    def _event(self) -> list[dict[str, Any]]:
        text, self._data = "\n".join(self._data), []
        if text.strip() == _END:
            self.is_done = True
            return []
        try:
            value = cast("object", json.loads(text))
        except ValueError:
            return []
        return [cast("dict[str, Any]", value)] if isinstance(value, dict) else []
