"""Limits of model providers: recognise rejected requests, make requests encodable, and estimate their tokens."""

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, cast

from memolog.core.run import Usage
from memolog.errors import MemologError
from memolog.text.message_tokens import count_tool_schemas
from memolog.text.tokens import TokenCounter
from memolog.transfer.conversation import as_data, as_list
from memolog.transfer.exact import Json, value_at
from memolog.turn import Turn

_log = logging.getLogger("memolog")

# The HTTP statuses of a request that the provider will reject again.
_REFUSED: Final = frozenset({400, 413, 415, 422})
_STATUSES: Final = range(100, 600)
# Number of tokens that the estimate adds to the counted tokens of each text of the instructions.
_PER_TEXT: Final = 4
# An error in a stream has no HTTP status. If its type or its code begins with one of these texts, the provider will reject the
# same request again.
_REFUSALS: Final = ("invalid_", "request_too_large", "image_", "unsupported_image", "empty_image")


def is_refused(status: object) -> bool:
    """Return whether an HTTP status means that the provider will reject the same request again.

    Such a request is withdrawn. If its messages stayed in the conversation, every later request would be rejected too.
    """
    return status in _REFUSED


def is_refusal(error: BaseException) -> bool:
    """Return whether an error means that the provider will reject the same request again.

    The HTTP status is read from the error, or from the exception that it wraps. In a group, every error must be a rejection.
    """
    visited: set[int] = set()
    while id(error) not in visited:
        visited.add(id(error))
        if isinstance(error, BaseExceptionGroup):
            several = cast("BaseExceptionGroup[BaseException]", error).exceptions
            return all(map(is_refusal, several))
        if (status := _status(error)) is not None:
            return is_refused(status)
        inner = error.__cause__ or next((one for one in error.args if isinstance(one, BaseException)), None)
        error = inner or error.__context__ or error
    return False


def _status(error: BaseException) -> int | None:
    """Return the HTTP status of an error; None if it has none. Each client package stores the status in another attribute."""
    response: object = getattr(error, "response", None)
    statuses = (
        getattr(error, "status_code", None),
        getattr(error, "status", None),
        getattr(response, "status_code", None),
        value_at(response, ("ResponseMetadata", "HTTPStatusCode")),
        getattr(error, "code", None),
    )
    return next((status for status in statuses if isinstance(status, int) and status in _STATUSES), None)


async def take_back(turn: Turn, also: Sequence[int] = (), *, strict: bool) -> None:
    """Withdraw the unanswered messages of a rejected turn, and the messages with the numbers in `also`, and end the turn.

    Unless `strict` is set, a failure is only logged, so that the caller gets the error of the provider.
    """
    try:
        await turn.discard(also=also, keep_answered=True)
    except MemologError:
        if strict:
            raise
        _log.exception("a rejected request cannot be withdrawn")


def tells_refusal(event: Mapping[str, Any]) -> bool:
    """Return whether an event of a stream means that the provider will reject the same request again."""
    error = as_data(event.get("error")) or as_data(as_data(event.get("response")).get("error"))
    if not error and event.get("type") == "error":
        error = {"code": event.get("code")}
    # Google sends the HTTP status as the code.
    return is_refused(error.get("code")) or any(str(error.get(name)).startswith(_REFUSALS) for name in ("type", "code"))


def usage_of_total(
    model: object, total: int | None, output: int | None, read: int | None, written: int | None, cost: float = 0.0
) -> Usage:
    """Return the usage if the input tokens of the provider (`total`) include cached tokens. Memolog counts these separately."""
    read, written = read or 0, written or 0
    return Usage(
        model=str(model or "unknown"),
        input_tokens=max((total or 0) - read - written, 0),
        output_tokens=output or 0,
        cache_read_tokens=read,
        cache_write_tokens=written,
        cost=cost,
    )


def weight(instructions: Sequence[Any], tools: object, counter: TokenCounter) -> int:
    """Return the estimated number of tokens of the instructions and tools of a request to any supported API."""
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
    """Return the request in a form that UTF-8 can encode: surrogate pairs are joined, and lone surrogates become U+FFFD."""
    try:
        json.dumps(body, ensure_ascii=False, default=repr).encode()
    except UnicodeEncodeError:
        return cast("Json", _without_surrogates(body))
    except (TypeError, ValueError, RecursionError):
        # The request is not JSON. The client reports that when it sends the request.
        return body
    return body


def _without_surrogates(value: Any) -> Any:
    match value:
        case str():
            return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        case dict():
            given = cast("dict[Any, Any]", value)
            return {_without_surrogates(name): _without_surrogates(inner) for name, inner in given.items()}
        case list() | tuple():
            return [_without_surrogates(inner) for inner in cast("list[Any]", value)]
        case _:
            return value
