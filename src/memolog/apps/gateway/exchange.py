"""Send a request to the provider and its answer to the client: with memory, or unchanged.

Answers are streamed. If the client disconnects early, the connection to the provider is closed.
"""

import asyncio
import logging
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, Final, Literal, TypeAlias, cast
from urllib.parse import quote

import httpx
from starlette import types as asgi
from starlette.responses import Response, StreamingResponse

from memolog import MemologError, Memory, Turn
from memolog.adapters.anthropic.messages import messages_api
from memolog.adapters.exchange import Api, Bound, turns_of
from memolog.adapters.exchange import Exchange as Remembered
from memolog.adapters.google.messages import GEMINI_API, METHODS, model_in
from memolog.adapters.openai.chat import CHAT_API
from memolog.adapters.openai.responses import RESPONSES_API
from memolog.adapters.provider_limits import is_refused, take_back
from memolog.apps.gateway.headers import Pairs, passed_back
from memolog.apps.gateway.scope import Scope
from memolog.core.exact_json import dumps
from memolog.core.message import has_content
from memolog.errors import InputError

_log = logging.getLogger("memolog")

_APIS: Final[tuple[Api, ...]] = (CHAT_API, RESPONSES_API, messages_api())
Provider: TypeAlias = Literal["openai", "anthropic", "google"]


def api_of(method: str, path: str) -> Api | None:
    """Return the provider API of a request. None means that requests with this method and path have no memory."""
    path = path.rstrip("/")
    if model_in(path) is not None:
        return GEMINI_API if method == "POST" else None
    return next((api for api in _APIS if path.endswith(api.path)), None) if method == "POST" else None


def check_body(api: Api, request: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return the request body. None means that the body is malformed, or that its messages have no content.

    Raises InputError for a valid request that cannot have memory.
    """
    if request is None:
        return None
    if api is GEMINI_API:
        contents: object = request.get("contents")
        is_read = isinstance(contents, dict) or (
            isinstance(contents, list) and all(isinstance(one, dict) for one in cast("list[object]", contents))
        )
        return None if not is_read or _is_empty(api, request) else request
    is_responses = api is RESPONSES_API
    if is_responses and request.get("background"):
        raise InputError(
            "A request with `background` cannot have memory.",
            why="The client fetches the answer later, and the proxy does not see it.",
            then="Omit `background`, or send the request without a thread.",
        )
    messages: object = request.get("input" if is_responses else "messages")
    if is_responses and isinstance(messages, str):
        return request if messages.strip() else None
    if not isinstance(messages, list) or not all(isinstance(one, dict) for one in cast("list[object]", messages)):
        return None
    return None if _is_empty(api, request) else request


def _is_empty(api: Api, request: dict[str, Any]) -> bool:
    """Return whether a request has no content besides its instructions, so that only what memory adds would be sent."""
    if api.own(request) is None:
        # The provider adds a conversation that it has stored.
        return False
    try:
        return not any(has_content(message.parts) for message in api.given(request))
    except (AttributeError, TypeError):
        # The messages cannot be read. The exchange refuses them.
        return False


def provider_of(path: str, header_names: Sequence[str]) -> Provider:
    """Return the provider that a request is for. For a path that several providers have, the headers decide."""
    if path.startswith(("/v1/messages", "/v1/complete")) or "anthropic-version" in header_names:
        return "anthropic"
    is_beta = path.startswith("/v1beta/") and not path.startswith("/v1beta/openai")
    if is_beta or model_in(path) is not None or "x-goog-api-key" in header_names:
        return "google"
    return "openai"


def error_body(message: str, kind: str, provider: Provider, status: int = 500) -> dict[str, Any]:
    """Return the body of an error answer in the format of a provider."""
    if provider == "anthropic":
        return {"type": "error", "error": {"type": kind, "message": message}}
    if provider == "google":
        return {"error": {"code": status, "message": message, "status": _GOOGLE.get(status, "INTERNAL")}}
    return {"error": {"message": message, "type": kind, "param": None, "code": "memolog"}}


def is_events(answer: httpx.Response) -> bool:
    """Return whether an answer is a stream of events, and not an error."""
    return answer.status_code < _ERROR and "event-stream" in answer.headers.get("content-type", "")


def cut_event(path: str) -> bytes:
    """Return the event that ends a stream if the provider has cut it. `path` selects the API and so the format."""
    message = "The provider ended the stream before the answer was complete. What arrived until then is valid."
    provider = "anthropic" if path.endswith("/messages") else "google" if path.endswith(METHODS) else "openai"
    body = error_body(message, "api_error", provider)
    if path.endswith(RESPONSES_API.path):
        # Some clients read the fields of the event, others those of its `error`. So send both.
        event = {"type": "error", "code": "server_error", "message": message, "param": None, "sequence_number": 0}
        body = event | body
    name = f"event: {body['type']}\n" if "type" in body else ""
    return f"{name}data: {dumps(body)}\n\n".encode()


async def whole_events(
    chunks: AsyncIterator[bytes], cut: bytes, is_complete: Callable[[], bool] = lambda: False
) -> AsyncIterator[bytes]:
    """Yield a stream of events as it arrives. Each piece ends with a complete event, except at the end of the stream.

    If the connection to the provider breaks, drop the incomplete event and yield the event `cut` instead. `cut` is not needed if
    `is_complete` returns True, because then the answer was complete before the connection broke.
    """
    rest = b""
    try:
        async for chunk in chunks:
            rest += chunk
            # The search begins at the new bytes, because a long event may come in many pieces.
            ends = list(_EVENT_END.finditer(rest, max(0, len(rest) - len(chunk) - _LONGEST_END)))
            if ends:
                yield rest[: ends[-1].end()]
                rest = rest[ends[-1].end() :]
    except httpx.HTTPError as error:
        _log.warning("the provider cut a stream: %s", str(error) or type(error).__name__)
        yield b"" if is_complete() else cut
        return
    if rest:
        yield rest


# The names of HTTP statuses in errors of Google.
_GOOGLE: Final = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}
# The empty line after an event.
_EVENT_END: Final = re.compile(rb"\n\r?\n|\r\r")
_LONGEST_END: Final = 3
# Maximum number of chunks that wait for a slow client. Then reading from the provider pauses, which limits the use of RAM.
_CHUNKS: Final = 64
# Lowest HTTP status of an error.
_ERROR: Final = 400


class Exchange:
    """One request with memory, and its answer. The client reads the answer while a task receives it from the provider."""

    def __init__(
        self,
        memory: Memory,
        client: httpx.AsyncClient,
        api: Api,
        scope: Scope,
        make: Callable[[bytes], httpx.Request],
        body: dict[str, Any],
    ) -> None:
        """Start the task. `body` is the body that the client sent, and `make` builds the request from its final body."""
        self._memory, self._client, self._api, self.scope = memory, client, api, scope
        self.response: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
        self._chunks: asyncio.Queue[bytes | Exception | None] = asyncio.Queue(_CHUNKS)
        self._is_passed = self._is_recorded = False
        self.is_left = False
        """Whether the client has received the answer or is disconnected."""
        self.task = asyncio.create_task(self._run(make, body))

    # ------------------------------------------------------------ the client's side

    async def _pieces(self) -> AsyncIterator[bytes]:
        while (chunk := await self._chunks.get()) is not None:
            if isinstance(chunk, Exception):
                raise chunk
            yield chunk
        self._is_passed = True

    async def _leave(self) -> None:
        """Cancel the exchange if its client disconnected early. The part of the answer that has arrived is saved."""
        self.is_left = True
        if not self._is_passed:
            self.task.cancel()

    # ------------------------------------------------------------ the provider's side

    async def _run(self, make: Callable[[bytes], httpx.Request], body: dict[str, Any]) -> None:
        scope, name = self.scope, body.get("model")
        model = name if isinstance(name, str) else None
        try:
            turn = self._memory.thread(scope.thread, resource=scope.resource).turn(model=model, zone=scope.zone)
            with suppress(AttributeError, TypeError):
                # If the messages cannot be read, `begin` below refuses the request.
                turn.id_prefix = turns_of(self._api.given(body))
            async with turn:
                # The exchange gets this turn, so that `take_back` can withdraw its messages if the provider refuses the request.
                own = turn.id_prefix or None
                bound = Bound(memory=self._memory, apis=(self._api,), turn=turn, sends_all=True, own_turns=own)
                remembered = Remembered(bound, self._api, body, scope.thread, scope.resource)
                sent = make(dumps(await remembered.begin()).encode())
                answer = await self._client.send(sent, stream=True)
                try:
                    await self._answer(turn, remembered, answer)
                finally:
                    await answer.aclose()
        except Exception as error:  # noqa: BLE001 - passed to the waiting client
            await self._fail(error)
        except asyncio.CancelledError:
            self.response.cancel()
            raise
        else:
            await self._chunks.put(None)

    async def _fail(self, error: Exception) -> None:
        if self.response.done():
            await self._chunks.put(error)
        else:
            self.response.set_exception(error)

    async def _answer(self, turn: Turn, remembered: Remembered, answer: httpx.Response) -> None:
        headers = passed_back(answer.headers.multi_items(), is_read=True)
        headers.append(("x-memolog-thread", quote(self.scope.thread, safe="")))
        status, kind = answer.status_code, answer.headers.get("content-type", "")
        remembered.headers_came(kind)
        if is_events(answer):
            self.response.set_result(Streamed(self._pieces(), status, headers, self._leave))
            await self._stream(turn, remembered, answer)
            return
        body = await answer.aread()
        if status < _ERROR:
            remembered.feed(body)
            await self._record(turn, remembered)
        elif is_refused(status):
            await take_back(turn, remembered.repeated, strict=self._memory.config.strict)
        self.response.set_result(_with_headers(Response(body, status), headers))

    async def _stream(self, turn: Turn, remembered: Remembered, answer: httpx.Response) -> None:
        """Pass the stream on. The answer is saved before the last event is sent, because the next request may follow at once.

        If the provider has no last event, the answer is saved when the connection ends.
        """
        try:
            chunks = self._read(turn, remembered, answer)
            async for chunk in whole_events(
                chunks, cut_event(self._api.path), lambda: remembered.is_complete or remembered.is_refused
            ):
                await self._chunks.put(chunk)
        finally:
            await self._record(turn, remembered)

    async def _read(self, turn: Turn, remembered: Remembered, answer: httpx.Response) -> AsyncIterator[bytes]:
        try:
            async for chunk in answer.aiter_bytes():
                if remembered.feed(chunk) or remembered.is_refused:
                    await self._record(turn, remembered)
                yield chunk
        except httpx.HTTPError:
            remembered.has_ended = True
            raise
        remembered.has_ended = True

    async def _record(self, turn: Turn, remembered: Remembered) -> None:
        """Save the answer received so far. If the provider has refused the request in the stream, first withdraw its messages.

        Only the first call has an effect.
        """
        if self._is_recorded:
            return
        self._is_recorded = True
        try:
            if remembered.is_refused:
                await take_back(turn, remembered.repeated, strict=self._memory.config.strict)
            await remembered.end()
        except MemologError:
            raise
        except Exception:  # noqa: BLE001 - the client gets the answer of the provider in any case
            _log.exception("an answer could not be parsed, so it is not saved")


def make_request(
    method: str, url: httpx.URL, headers: Pairs, content: bytes | AsyncIterator[bytes] | None, timeout: httpx.Timeout
) -> httpx.Request:
    """Return a request with these headers, and with `host` and the length of its content."""
    # `httpx.AsyncClient.build_request` would add more headers.
    return httpx.Request(method, url, headers=headers, content=content, extensions={"timeout": timeout.as_dict()})


def _with_headers(response: Response, headers: Pairs) -> Response:
    """Replace the headers of a response except `content-length`, and return the response."""
    own = [pair for pair in response.raw_headers if pair[0] == b"content-length"]
    response.raw_headers = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers] + own
    return response


class Streamed(StreamingResponse):
    """A streamed answer. `at_end` is awaited at the end, also if the client disconnects or an error occurs."""

    def __init__(
        self, chunks: AsyncIterator[bytes], status: int, headers: Pairs, at_end: Callable[[], Awaitable[None]]
    ) -> None:
        super().__init__(chunks, status)
        self._at_end = at_end
        _with_headers(self, headers)

    async def __call__(self, scope: asgi.Scope, receive: asgi.Receive, send: asgi.Send) -> None:
        """Send the answer."""
        try:
            await super().__call__(scope, receive, send)
        except* httpx.HTTPError as errors:
            # The server closes the connection, so the client sees that the answer is incomplete.
            cause = errors.exceptions[0]
            _log.warning("the provider cut an answer: %s", str(cause) or type(cause).__name__)
        finally:
            await self._at_end()
