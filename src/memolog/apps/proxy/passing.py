"""Requests and answers on their way through: nothing added, nothing lost.

Knows how a request is made of exactly the headers it should have, and how an answer is passed on piece by piece, so that whoever
leaves half-way leaves nothing open. Knows nothing of memory.
"""

from collections.abc import AsyncIterator, Callable

import httpx
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from memolog.apps.proxy.exchange import Exchange
from memolog.apps.proxy.headers import Pairs

__all__ = ["Passed", "Streamed", "make_request", "with_headers"]


def make_request(
    method: str, url: httpx.URL, headers: Pairs, content: bytes | AsyncIterator[bytes] | None, timeout: httpx.Timeout
) -> httpx.Request:
    """Return a request with these headers and no others, but for those that every request must have."""
    # The client would add its own name and what it likes to be answered.
    return httpx.Request(method, url, headers=headers, content=content, extensions={"timeout": timeout.as_dict()})


def with_headers(response: Response, headers: Pairs) -> Response:
    """Return the response with these headers instead of its own, but for its length."""
    own = [pair for pair in response.raw_headers if pair[0] == b"content-length"]
    response.raw_headers = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers] + own
    return response


class Passed(StreamingResponse):
    """An answer that is passed on as its bytes come, however they are encoded."""

    def __init__(self, answer: httpx.Response, headers: Pairs) -> None:
        super().__init__(answer.aiter_raw(), answer.status_code)
        self._answer = answer
        with_headers(self, headers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass it on, and let go of the provider whatever happens."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            await self._answer.aclose()


class Streamed(StreamingResponse):
    """The answer of an exchange with memory, as it comes."""

    def __init__(self, exchange: Exchange, status: int, headers: Pairs, on_leaving: Callable[[], None]) -> None:
        super().__init__(exchange.chunks(), status)
        self._exchange, self._on_leaving = exchange, on_leaving
        with_headers(self, headers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass it on; a client that left before the first piece has left too."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._on_leaving()
            self._exchange.leave()
