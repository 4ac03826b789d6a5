"""What a provider can be sent at all, and what it will never take.

Knows UTF-8, the statuses of HTTP, the words for the same in a stream that began well, and what a request weighs beside what is
said. Knows no client and no memory.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, cast

from memolog.adapters.exact import Json
from memolog.tokens import TokenCounter, count_tool_schemas
from memolog.transfer.values import as_data, as_list

__all__ = ["encodable", "is_refused", "tells_refusal", "weight"]

_REFUSED: Final = frozenset({400, 413, 415, 422})
# What a message costs beside its words.
_PER_TEXT: Final = 4
_REFUSALS: Final = ("invalid_", "request_too_large", "image_", "unsupported_image", "empty_image")


def is_refused(status: object) -> bool:
    """Tell whether a provider will never take what it was sent.

    That stays out of the conversation: with it, every request after this one would be refused too.
    """
    return status in _REFUSED


def tells_refusal(event: Mapping[str, Any]) -> bool:
    """Tell whether an event of a stream says what such a status would have said, had it been known at the beginning."""
    error = as_data(event.get("error")) or as_data(as_data(event.get("response")).get("error"))
    if not error and event.get("type") == "error":
        error = {"code": event.get("code")}
    return any(str(error.get(name)).startswith(_REFUSALS) for name in ("type", "code"))


def weight(instructions: Sequence[Any], tools: object, counter: TokenCounter) -> int:
    """Return about how many tokens instructions and tools take, in whatever form an API has them."""
    texts = [text for one in instructions for text in _texts(one)]
    schemas = [dict(as_data(schema)) for schema in as_list(tools)]
    return sum(_PER_TEXT + counter.count(text) for text in texts) + count_tool_schemas(schemas, counter)


def _texts(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
        case list() | tuple():
            for inner in cast("Sequence[Any]", value):
                yield from _texts(inner)
        case dict():
            given = cast("dict[str, Any]", value)
            yield from _texts(given.get("content", given.get("text")))
        case _:
            return


def encodable(body: Json) -> Json:
    """Return a request that UTF-8 can hold: halves of surrogate pairs are joined, lone ones become U+FFFD."""
    try:
        json.dumps(body, ensure_ascii=False, default=repr).encode()
    except UnicodeEncodeError:
        return cast("Json", _mended(body))
    except (TypeError, ValueError, RecursionError):
        # What is no JSON is for the client to tell.
        return body
    return body


def _mended(value: Any) -> Any:
    match value:
        case str():
            return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        case dict():
            given = cast("dict[Any, Any]", value)
            return {_mended(name): _mended(inner) for name, inner in given.items()}
        case list() | tuple():
            return [_mended(inner) for inner in cast("list[Any]", value)]
        case _:
            return value
