"""A copy of a client of `google-genai` that uses memory: `client.models`, `client.aio.models` and the chats made with them."""

import copy
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from typing import Any, TypedDict, TypeVar, cast

from memolog.adapters import at_once
from memolog.adapters.driver import Driver
from memolog.adapters.exchange import Bound, Exchange, OpenTurn
from memolog.adapters.exchange import at as headers_at
from memolog.adapters.google.messages import GEMINI_API, model_in
from memolog.adapters.guards import SyncGuardedTurn, check_memory
from memolog.errors import InputError
from memolog.memory import Memory
from memolog.sync import SyncMemory, SyncTurn
from memolog.transfer.exact import Json

C = TypeVar("C")
_OURS = "x-memolog-"


class ThreadOptions(TypedDict):
    """Fields of the `config` of a call."""

    http_options: dict[str, dict[str, str]]


def at(thread: str, resource: str) -> ThreadOptions:
    """Return the fields of `config` that set the thread and the resource of one call: `config={**at("t1", "alice")}`.

    The fields are headers. The wrapped client removes them before it sends the request.
    """
    return {"http_options": {"headers": headers_at(thread, resource)["extra_headers"]}}


def wrap(
    client: C,
    memory: Memory | SyncMemory,
    *,
    thread: str | None = None,
    resource: str | None = None,
    zone: str | None = None,
    settings: Mapping[str, Any] | None = None,
    turn: OpenTurn | SyncGuardedTurn | SyncTurn | None = None,
) -> C:
    """Return a copy of a client that uses memory. The copy shares the connections, and only the client itself closes them.

    With a `SyncMemory` both `client.models` and `client.aio.models` use memory, with a `Memory` only `client.aio.models`. Put
    `**at(…)` into the `config` of a call for another thread and resource. With `turn` all calls belong to a turn that the caller
    opened.
    """
    check_memory(memory, Memory, SyncMemory)
    if not all(hasattr(client, name) for name in ("_api_client", "_models", "_aio")):
        raise InputError(
            f"`client` cannot be wrapped: got {type(client).__name__}.", then="Pass the client itself: genai.Client()."
        )
    if isinstance(turn, SyncTurn):
        turn = turn.asynchronous
    if isinstance(turn, SyncGuardedTurn):
        turn = turn.inner
    driver = Driver(memory)
    bound = Bound(
        memory=driver.memory,
        apis=(GEMINI_API,),
        thread=thread,
        resource=resource,
        zone=zone,
        settings=settings,
        turn=turn,
    )
    made: Any = copy.copy(client)
    # There is no public way to pass another API client. The classes are those of the client itself.
    api = _Remembered(made._api_client, client, bound, driver)  # noqa: SLF001
    made._api_client, made._models, made._aio = api, type(made._models)(api), type(made._aio)(api)  # noqa: SLF001
    return cast("C", made)


class _Remembered:
    """Stands for the API client, through which all requests of a client go."""

    def __init__(self, inner: Any, client: object, bound: Bound, driver: Driver) -> None:
        # The client closes its connections when it is deleted, so it must live as long as its copy.
        self._inner, self._client, self._bound, self._driver = inner, client, bound, driver

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def close(self) -> None:
        """Leave the shared connections open."""

    async def aclose(self) -> None:
        """Leave the shared connections open."""

    # ------------------------------------------------------------ requests

    def request(self, method: str, path: str, body: Any, options: Any = None) -> Any:
        return at_once(self._ask(self._driver.now, "request", (method, path, body, options)))

    async def async_request(self, method: str, path: str, body: Any, options: Any = None) -> Any:
        return await self._ask(self._driver.later, "async_request", (method, path, body, options))

    def request_streamed(self, method: str, path: str, body: Any, options: Any = None) -> Iterator[Any]:
        exchange, asked = self._begun(self._driver.now, method, path, body, options)
        if exchange is None:
            yield from self._inner.request_streamed(*asked)
            return
        drive = self._sync_drive
        try:
            for chunk in self._inner.request_streamed(*asked):
                if exchange.feed(_event(chunk)):
                    drive(exchange.end())
                yield chunk
        except Exception as error:
            exchange.has_ended = True
            drive(_failed(exchange, error))
            raise
        else:
            exchange.has_ended = True
        finally:
            drive(exchange.end())

    async def async_request_streamed(self, method: str, path: str, body: Any, options: Any = None) -> Any:
        exchange, asked = await self._begun_later(method, path, body, options)
        if exchange is None:
            return await self._inner.async_request_streamed(*asked)
        try:
            chunks = await self._inner.async_request_streamed(*asked)
        except BaseException as error:
            await self._driver.later(exchange.fail(error))
            raise
        return self._passed(exchange, chunks)

    async def _passed(self, exchange: Exchange, chunks: AsyncIterator[Any]) -> AsyncIterator[Any]:
        later = self._driver.later
        try:
            async for chunk in chunks:
                if exchange.feed(_event(chunk)):
                    await later(exchange.end())
                yield chunk
        except Exception as error:
            exchange.has_ended = True
            await later(_failed(exchange, error))
            raise
        else:
            exchange.has_ended = True
        finally:
            await later(exchange.end())

    # ------------------------------------------------------------ inside

    async def _ask(self, drive: Callable[..., Any], name: str, given: tuple[Any, ...]) -> Any:
        """Send a request that is not streamed, and record its answer. For a synchronous client this coroutine never waits."""
        ask = getattr(self._inner, name)
        is_async = name.startswith("async")
        exchange, asked = self._exchange(*given)
        if exchange is None:
            return await ask(*asked) if is_async else ask(*asked)
        asked = await self._with_memory(exchange, asked, drive)
        exchange.headers_came("application/json")
        try:
            response = await ask(*asked) if is_async else ask(*asked)
        except BaseException as error:
            await drive(exchange.fail(error))
            raise
        exchange.feed((response.body or "").encode())
        await drive(exchange.end())
        return response

    def _sync_drive(self, work: Coroutine[Any, Any, Any]) -> Any:
        return at_once(self._driver.now(work))

    def _begun(self, drive: Callable[..., Any], *given: Any) -> tuple[Exchange | None, tuple[Any, ...]]:
        exchange, asked = self._exchange(*given)
        if exchange is None:
            return None, asked
        asked = at_once(self._with_memory(exchange, asked, drive))
        exchange.headers_came("text/event-stream")
        return exchange, asked

    async def _begun_later(self, *given: Any) -> tuple[Exchange | None, tuple[Any, ...]]:
        exchange, asked = self._exchange(*given)
        if exchange is not None:
            asked = await self._with_memory(exchange, asked, self._driver.later)
            exchange.headers_came("text/event-stream")
        return exchange, asked

    def _exchange(self, method: str, path: str, body: Any, options: Any) -> tuple[Exchange | None, tuple[Any, ...]]:
        """Return the exchange for a request, or None if it has no memory, and the request without headers of Memolog."""
        headers, rest = _headers(options)
        model, asked = model_in(path), cast("tuple[Any, ...]", (method, path, body, rest))
        if model is None or not isinstance(body, Mapping):
            return None, asked
        named = {**cast("Json", body), "model": model}
        return self._bound.exchange(method, GEMINI_API.path, named, headers), asked

    async def _with_memory(self, exchange: Exchange, asked: tuple[Any, ...], drive: Callable[..., Any]) -> Any:
        method, path, _, options = asked
        return method, path, await drive(exchange.begin()), options


async def _failed(exchange: Exchange, error: Exception) -> None:
    """End an exchange whose stream broke. Words that came before stay."""
    if exchange.has_begun_to_answer:
        await exchange.end()
    else:
        await exchange.fail(error)


def _event(chunk: Any) -> bytes:
    return b"data: " + str(chunk.body or "{}").encode() + b"\n\n"


def _headers(options: Any) -> tuple[dict[str, object], Any]:
    """Return the headers of a call, and its options without those of Memolog."""
    fields = cast("Json", options) if isinstance(options, Mapping) else None
    headers = cast(
        "dict[str, object]", (fields.get("headers") if fields else getattr(cast("Any", options), "headers", None)) or {}
    )
    kept = {name: value for name, value in headers.items() if not name.lower().startswith(_OURS)}
    if len(kept) == len(headers):
        return headers, cast("Any", options)
    changed: Any = {**fields, "headers": kept} if fields else cast("Any", options).model_copy(update={"headers": kept})
    return headers, changed
