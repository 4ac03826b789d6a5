"""One request with memory and its answer, in each provider format, and requests that are passed through unchanged.

Answers are streamed. Connections are closed if the client disconnects early.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

import httpx
from starlette import types as asgi
from starlette.responses import Response, StreamingResponse

from memolog import MemologError, Memory, Turn
from memolog.adapters.anthropic.wrapping import MessagesApi
from memolog.adapters.exchange import Api, Bound
from memolog.adapters.exchange import Exchange as Remembered
from memolog.adapters.openai.wrapping import ChatApi, ResponsesApi
from memolog.adapters.sending import is_refused, take_back
from memolog.apps.gateway.headers import Pairs, Scope, passed_back
from memolog.domain.codec import dumps
from memolog.domain.errors import InputError

_APIS: Final[tuple[Api, ...]] = (ChatApi(), ResponsesApi(), MessagesApi())


def api_of(method: str, path: str) -> Api | None:
    """Return the API that a request speaks; None for every other path."""
    return next((api for api in _APIS if path.endswith(api.path)), None) if method == "POST" else None


def check_body(api: Api, body: object) -> dict[str, Any] | None:
    """Return a request that says something; None for one that no provider would take. Raises where memory cannot follow."""
    if not isinstance(body, dict):
        return None
    request = cast("dict[str, Any]", body)
    is_responses = isinstance(api, ResponsesApi)
    if is_responses and request.get("background"):
        raise InputError(
            "A request with background cannot have memory.",
            why="Its answer is fetched later, and this proxy would not see it.",
            then="Leave background out, or leave x-memolog-thread out.",
        )
    said: object = request.get("input" if is_responses else "messages")
    if is_responses and isinstance(said, str):
        return request
    if not isinstance(said, list) or not all(isinstance(one, dict) for one in cast("list[object]", said)):
        return None
    return request


def is_anthropic(path: str, header_names: Sequence[str]) -> bool:
    """Tell which provider a request is for: by its path, and where both have one like it, by the headers of its client."""
    if path.startswith(("/v1/messages", "/v1/complete")):
        return True
    return "anthropic-version" in header_names


def error_body(message: str, kind: str, *, as_anthropic: bool) -> dict[str, Any]:
    """Return an error of ours in the words of the API, so that its client can read it."""
    if as_anthropic:
        return {"type": "error", "error": {"type": kind, "message": message}}
    return {"error": {"message": message, "type": kind, "param": None, "code": "memolog"}}


_log = logging.getLogger("memolog")

# A client that reads slowly slows the provider down, instead of filling this machine.
_CHUNKS: Final = 64
_ERROR: Final = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """How an answer begins: its status and headers, and its body if that is known already."""

    status: int
    headers: Pairs
    body: bytes | None = None


class Exchange:
    """A request of a thread on its way to the provider and back."""

    def __init__(self, memory: Memory, client: httpx.AsyncClient, api: Api, scope: Scope) -> None:
        self._memory, self._client, self._api, self.scope = memory, client, api, scope
        self._head: asyncio.Future[Head] = asyncio.get_running_loop().create_future()
        self._chunks: asyncio.Queue[bytes | Exception | None] = asyncio.Queue(_CHUNKS)
        self._task: asyncio.Task[None] | None = None
        self._is_passed = self._is_recorded = False

    # ------------------------------------------------------------ the client's side

    def begin(self, make: Callable[[bytes], httpx.Request], body: dict[str, Any]) -> asyncio.Task[None]:
        """Start the exchange as a task of its own: how a request is made of its body, and the body to be changed."""
        self._task = asyncio.create_task(self._run(make, body))
        return self._task

    async def head(self) -> Head:
        """Wait for the beginning of the answer."""
        return await self._head

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yield the answer as it comes."""
        while (chunk := await self._chunks.get()) is not None:
            if isinstance(chunk, Exception):
                raise chunk
            yield chunk
        self._is_passed = True

    def leave(self) -> None:
        """End the exchange if its client has left before the end; what was said by then is saved."""
        if self._task is not None and not self._is_passed:
            self._task.cancel()

    # ------------------------------------------------------------ the provider's side

    async def _run(self, make: Callable[[bytes], httpx.Request], body: dict[str, Any]) -> None:
        scope, name = self.scope, body.get("model")
        model = name if isinstance(name, str) else None
        try:
            async with self._memory.turn(scope.thread, scope.resource, model=model, zone=scope.zone) as turn:
                # The turn is ours, since what the provider refuses is taken back.
                bound = Bound(memory=self._memory, apis=(self._api,), turn=turn)
                remembered = Remembered(bound, self._api, body, scope.thread, scope.resource)
                sent = make(dumps(await remembered.begin()).encode())
                response = await self._client.send(sent, stream=True)
                try:
                    await self._answer(turn, remembered, response)
                finally:
                    await response.aclose()
        except Exception as error:  # noqa: BLE001 - told to the client, who waits for it
            await self._fail(error)
        except asyncio.CancelledError:
            self._head.cancel()
            raise
        else:
            await self._chunks.put(None)

    async def _fail(self, error: Exception) -> None:
        if self._head.done():
            await self._chunks.put(error)
        else:
            self._head.set_exception(error)

    async def _answer(self, turn: Turn, remembered: Remembered, response: httpx.Response) -> None:
        headers = passed_back(response.headers.multi_items(), is_read=True)
        kind: str = response.headers.get("content-type", "")
        remembered.headers_came(kind)
        if response.status_code < _ERROR and "event-stream" in kind:
            await self._stream(turn, remembered, response, Head(status=response.status_code, headers=headers))
            return
        body = await response.aread()
        if response.status_code < _ERROR:
            remembered.feed(body)
            await self._record(turn, remembered)
        elif is_refused(response.status_code):
            await take_back(turn, remembered.said_again, strict=self._memory.config.strict)
        self._head.set_result(Head(status=response.status_code, headers=headers, body=body))

    async def _stream(self, turn: Turn, remembered: Remembered, response: httpx.Response, head: Head) -> None:
        """Pass the stream on as it comes. What ends it is held back until all is saved: the next request may follow at once."""
        self._head.set_result(head)
        try:
            async for chunk in response.aiter_bytes():
                if remembered.feed(chunk) or remembered.is_refused:
                    await self._record(turn, remembered)
                await self._chunks.put(chunk)
        finally:
            await self._record(turn, remembered)

    async def _record(self, turn: Turn, remembered: Remembered) -> None:
        """Save the answer as far as it came, once; what was refused within a stream is taken back."""
        if self._is_recorded:
            return
        self._is_recorded = True
        try:
            if remembered.is_refused:
                await take_back(turn, remembered.said_again, strict=self._memory.config.strict)
            await remembered.end()
        except MemologError:
            raise
        except Exception:  # noqa: BLE001 - the client has what the provider said, whatever that is
            _log.exception("an answer could not be understood, and is not remembered")


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

    async def __call__(self, scope: asgi.Scope, receive: asgi.Receive, send: asgi.Send) -> None:
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

    async def __call__(self, scope: asgi.Scope, receive: asgi.Receive, send: asgi.Send) -> None:
        """Pass it on; a client that left before the first piece has left too."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._on_leaving()
            self._exchange.leave()
