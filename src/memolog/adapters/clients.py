"""Plain clients of the OpenAI and Anthropic libraries, made to remember.

Knows where these libraries send a request and take its answer, since both are generated alike: `request` for the one,
`_process_response` for the other. The client that comes out is of the class that it was before, so that every way of calling
it works. Knows no API and no memory but the exchange.
"""

import inspect
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from contextvars import ContextVar
from typing import Any, Final, TypeVar, cast

from memolog.adapters.exchange import Bound, Exchange, OpenTurn
from memolog.adapters.guards import SyncGuardedTurn
from memolog.domain.errors import InputError
from memolog.runtime.memory import Memory
from memolog.runtime.sync import SyncMemory, SyncTurn

__all__ = ["remembering"]

C = TypeVar("C")
T = TypeVar("T")
Drive = Callable[[Coroutine[Any, Any, Any]], Any]

_current: ContextVar[Exchange | None] = ContextVar("memolog_exchange", default=None)
_OURS: Final = "x-memolog-"


def remembering(client: C, memory: Memory | SyncMemory, turn: object, bound: Callable[..., Bound]) -> C:
    """Return a client like this one, over the same connections, whose answers come with memory."""
    is_async = inspect.iscoroutinefunction(getattr(type(client), "request", None))
    if not hasattr(client, "request") or not hasattr(client, "copy"):
        raise InputError(
            f"A {type(client).__name__} cannot be wrapped.",
            then="Pass the client itself: OpenAI(), AsyncOpenAI(), Anthropic() or AsyncAnthropic().",
        )
    if not isinstance(memory, Memory | SyncMemory):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InputError(
            f"wrap() takes a memory, not {type(memory).__name__}.",
            why="The memory is opened and closed by you, and may serve many clients.",
            then=f'Pass {"Memory" if is_async else "SyncMemory"}("memolog.db").',
        )
    if is_async != isinstance(memory, Memory):
        raise InputError(
            f"A {type(client).__name__} and a {type(memory).__name__} do not go together.",
            why="One of them waits, and the other does not.",
            then=f"Use {'Memory' if is_async else 'SyncMemory'}(…) with this client.",
        )
    drive: Drive | None = None
    if isinstance(memory, SyncMemory):
        # The calls happen on the loop that the memory lives on.
        inner, drive = memory._memory, memory._portal.call  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
    else:
        inner = memory
    if isinstance(turn, SyncTurn):
        turn = turn._turn  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
    if isinstance(turn, SyncGuardedTurn):
        turn = turn.inner
    # The copy that the class makes: a client that remembers already is bound anew, not twice.
    made = cast("Any", type(client)).copy(client)
    kind = _AsyncRemembering if is_async else _Remembering
    kind(made, bound(memory=inner, turn=cast("OpenTurn | None", turn)), drive)
    return cast("C", made)


class _Remembered:
    """What stands before a client's own methods; a copy of such a client remembers too."""

    def __init__(self, client: Any, bound: Bound, drive: Drive | None) -> None:
        self._bound, self._given_drive = bound, drive
        self._prepare = getattr(client, "_copy_and_prepare", None)
        self._copy, self._request, self._process = client.copy, client.request, client._process_response  # noqa: SLF001
        client.copy = client.with_options = self.copy

    def copy(self, **options: Any) -> Any:
        """Return a client like this one, with some options changed."""
        made = self._copy(**options)
        type(self)(made, self._bound, self._given_drive)
        return made

    def _exchange(self, options: Any) -> Exchange | None:
        return self._bound.exchange(options.method, options.url, options.json_data, _headers(options))


class _Remembering(_Remembered):
    """Stands before a client that does not wait."""

    def __init__(self, client: Any, bound: Bound, drive: Drive | None) -> None:
        super().__init__(client, bound, drive)
        self._drive = cast("Drive", drive)
        client.request, client._process_response = self.request, self.process  # noqa: SLF001

    def request(self, cast_to: Any, options: Any, **how: Any) -> Any:
        """Send a request with memory, and record its answer."""
        if self._prepare is not None:
            options = self._prepare(options)
        exchange = self._exchange(options)
        if exchange is None:
            return self._request(cast_to, options, **how)
        asked = _asking(options, self._drive(exchange.begin()))
        token = _current.set(exchange)
        try:
            result = self._request(cast_to, asked, **how)
        except BaseException as error:
            self._drive(exchange.fail(error))
            raise
        finally:
            _current.reset(token)
        if exchange.has_come:
            self._drive(exchange.end())
        return result

    def process(self, *, response: Any, **rest: Any) -> Any:
        """Look at an answer as it comes in."""
        exchange = _current.get()
        if exchange is not None and not _has_come(exchange, response):
            response.stream = _Tee(response.stream, exchange, self._drive)
        return self._process(response=response, **rest)


class _AsyncRemembering(_Remembered):
    """Stands before a client that waits."""

    def __init__(self, client: Any, bound: Bound, drive: Drive | None) -> None:
        super().__init__(client, bound, drive)
        client.request, client._process_response = self.request, self.process  # noqa: SLF001

    async def request(self, cast_to: Any, options: Any, **how: Any) -> Any:
        """Send a request with memory, and record its answer."""
        if self._prepare is not None:
            options = await self._prepare(options)
        exchange = self._exchange(options)
        if exchange is None:
            return await self._request(cast_to, options, **how)
        asked = _asking(options, await exchange.begin())
        token = _current.set(exchange)
        try:
            result = await self._request(cast_to, asked, **how)
        except BaseException as error:
            await exchange.fail(error)
            raise
        finally:
            _current.reset(token)
        if exchange.has_come:
            await exchange.end()
        return result

    async def process(self, *, response: Any, **rest: Any) -> Any:
        """Look at an answer as it comes in."""
        exchange = _current.get()
        if exchange is not None and not _has_come(exchange, response):
            response.stream = _AsyncTee(response.stream, exchange)
        return await self._process(response=response, **rest)


def _headers(options: Any) -> Mapping[str, object]:
    return cast("Mapping[str, object]", options.headers) if isinstance(options.headers, Mapping) else {}


def _asking(options: Any, body: Any) -> Any:
    """Return the request with another body; what named the thread stays here, and the answer comes as it is."""
    asked = options.model_copy()
    headers = {name: value for name, value in _headers(options).items() if not name.lower().startswith(_OURS)}
    asked.json_data, asked.headers = body, {**headers, "Accept-Encoding": "identity"}
    return asked


def _has_come(exchange: Exchange, response: Any) -> bool:
    """Tell whether the answer is there already, and take it; an error is none, and is the client's to tell."""
    if not response.is_success:
        return True
    exchange.headers_came(response.headers.get("content-type", ""))
    try:
        exchange.feed(response.content)
    except RuntimeError:
        # Both libraries say so where an answer is still to be read.
        return False
    exchange.has_come = True
    return True


class _Passed:
    """The bytes of an answer on their way. It passes for the stream that it stands before: the libraries look at its class."""

    def __init__(self, inner: Any, exchange: Exchange) -> None:
        self._inner, self._exchange = inner, exchange

    @property
    def __class__(self) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        return cast("Any", type(self._inner))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class _Tee(_Passed):
    def __init__(self, inner: Any, exchange: Exchange, drive: Drive) -> None:
        super().__init__(inner, exchange)
        self._drive = drive

    def __iter__(self) -> Iterator[bytes]:
        for chunk in self._inner:
            if self._exchange.feed(chunk):
                self._drive(self._exchange.end())
            yield chunk
        self._drive(self._exchange.end())

    def close(self) -> None:
        self._inner.close()
        self._drive(self._exchange.end())


class _AsyncTee(_Passed):
    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._inner:
            if self._exchange.feed(chunk):
                await self._exchange.end()
            yield chunk
        await self._exchange.end()

    async def aclose(self) -> None:
        await self._inner.aclose()
        await self._exchange.end()
