"""One request of a provider's own client and its answer, with memory on both sides, and the clients that send it.

An `Api` reads and writes the JSON of one endpoint; `remembering` puts memory into a client of the OpenAI and Anthropic libraries.
"""

import inspect
import json
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol, TypeAlias, TypeVar, cast
from urllib.parse import quote, unquote

from memolog.adapters.guards import GuardedTurn, SyncGuardedTurn
from memolog.adapters.new_messages import has_answer, news_of
from memolog.adapters.provider_limits import encodable, is_refusal, take_back, tells_refusal, weight
from memolog.adapters.roundtrip import Answer, Json
from memolog.context import Context
from memolog.domain.errors import InputError
from memolog.domain.message import NewMessage, TextPart
from memolog.runtime.memory import Memory
from memolog.runtime.sync import SyncMemory, SyncTurn
from memolog.runtime.turn import Turn

_DONE: Final = "[DONE]"


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
        if text.strip() == _DONE:
            self.is_done = True
            return []
        try:
            value = cast("object", json.loads(text))
        except ValueError:
            return []
        return [cast("dict[str, Any]", value)] if isinstance(value, dict) else []


_log = logging.getLogger("memolog")

_THREAD: Final = "x-memolog-thread"
_RESOURCE: Final = "x-memolog-resource"


class Stream(Protocol):
    """An answer in the making."""

    is_whole: bool

    def add(self, event: Mapping[str, Any], /) -> None:
        """Take one more event."""
        ...

    def response(self) -> Json:
        """Return the answer so far, as it would have come in one piece."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Api:
    """How requests and answers of one endpoint are read and written as JSON."""

    path: str
    given: Callable[[Json], tuple[NewMessage, ...]]
    """Return the messages of a request, without its instructions."""
    request: Callable[[Json, Context], Json]
    """Return a request with a context in place of the caller's messages."""
    own: Callable[[Json], list[Any] | None]
    """Return the instructions of a request; None if the provider adds a conversation of its own."""
    answer: Callable[[Json], Answer]
    stream: Callable[[], Stream]
    """Return an object that assembles a streamed answer."""
    goes_on: bool = False
    """Whether the model continues an assistant message at the end of a request."""


OpenTurn: TypeAlias = Turn | GuardedTurn
"""A turn that the caller opened and will leave."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """Whose memory a client has, and which of its paths are asked with memory."""

    memory: Memory
    apis: tuple[Api, ...]
    thread: str | None = None
    resource: str | None = None
    zone: str | None = None
    settings: Mapping[str, Any] | None = None
    turn: OpenTurn | None = None

    def __post_init__(self) -> None:
        """Refuse what a turn that is open already cannot take."""
        self._check(self.thread, self.resource)
        for name, value in (("zone", self.zone), ("settings", self.settings)):
            if self.turn is not None and value:
                raise InputError(
                    f"wrap() was given both a turn and {name}=.",
                    why=f"The turn is open already, with the {name} that it was opened with.",
                    then=f"Leave {name}= out here, and pass it where the turn is opened: memory.turn(…, {name}=…).",
                )

    def exchange(self, method: str, url: str, body: object, headers: Mapping[str, object]) -> "Exchange | None":
        """Return the exchange that a request begins; None for one that is none of ours."""
        path = url.partition("?")[0].rstrip("/")
        api = next((api for api in self.apis if path == api.path), None)
        if api is None or method.lower() != "post" or not isinstance(body, Mapping):
            return None
        named = {name.lower(): value for name, value in headers.items()}
        thread = _named(named.get(_THREAD)) or self.thread or (self.turn.thread if self.turn else None)
        resource = _named(named.get(_RESOURCE)) or self.resource or (self.turn.resource if self.turn else None)
        if not thread or not resource:
            raise InputError(
                f"This call names no {'thread' if not thread else 'resource'}.",
                why="Memory is kept for a thread of a resource.",
                then='Name both: wrap(client, memory, thread="…", resource="…"), or **at("…", "…") in the call.',
            )
        self._check(thread, resource)
        return Exchange(self, api, dict(cast("Mapping[str, Any]", body)), thread, resource)

    def _check(self, thread: str | None, resource: str | None) -> None:
        """Refuse a thread or a resource other than those of the turn: the words would land where nobody looks for them."""
        if self.turn is None:
            return
        for name, value, its in (("thread", thread, self.turn.thread), ("resource", resource, self.turn.resource)):
            if value is not None and value != its:
                raise InputError(
                    f"The {name} {value!r} contradicts the turn, which is of {its!r}.",
                    why="All calls of a client with a turn are steps of that turn.",
                    then=f"Leave the {name} out, or use a client without this turn.",
                )


def at(thread: str, resource: str) -> dict[str, Any]:
    """Return the arguments that name the thread and the resource of one call: `create(…, **at("t1", "alice"))`.

    They travel as headers as far as memory, and no further.
    """
    for name, value in (("thread", thread), ("resource", resource)):
        if not isinstance(value, str) or not value:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InputError(
                f"at() was given {value!r} as the {name}.",
                why="Memory is kept for a thread of a resource, and each has an id.",
                then=f"Pass a non-empty string as the {name}, or leave at() out for the one that the client is bound to.",
            )
    return {"extra_headers": {_THREAD: quote(thread, safe=""), _RESOURCE: quote(resource, safe="")}}


def _named(value: object) -> str | None:
    return unquote(value) if isinstance(value, str) and value else None


class Exchange:
    """A request under way."""

    def __init__(self, bound: Bound, api: Api, body: Json, thread: str, resource: str) -> None:
        self._bound, self._api, self._body = bound, api, body
        self._thread, self._resource = thread, resource
        self._own = (
            None
            if bound.turn
            else bound.memory.turn(thread, resource, model=self._model, zone=bound.zone, settings=bound.settings)
        )
        self._begun: tuple[NewMessage, ...] = ()
        self._is_over = self._has_refusal = False
        self.said_again: tuple[int, ...] = ()
        """What the request says once more, of what nobody has answered: it goes with the rest where the provider refuses it."""
        self._events, self._stream, self._bytes = Events(), api.stream(), b""
        self._is_streamed = False
        self.has_come = False

    @property
    def _model(self) -> str | None:
        model = self._body.get("model")
        return model if isinstance(model, str) else None

    @property
    def _turn(self) -> OpenTurn:
        return self._bound.turn or cast("OpenTurn", self._own)

    async def begin(self) -> Json:
        """Save what is new, and return the request as the model should get it."""
        given = self._given()
        if self._own is not None:
            await self._own.__aenter__()
        try:
            new, again = await news_of(self._bound.memory, self._resource, self._thread, given)
            self.said_again = tuple(row.seq for row in again)
            # What a request ends with in the model's own voice is the beginning of the answer: it is saved with that.
            count = len(new) - (_is_begun(new) if self._api.goes_on else 0)
            new, self._begun = new[:count], new[count:]
            context = await self._turn.prepare(*new, ephemeral=self._begun, model=self._model)
            # Kept as it was said, sent as it can be.
            return encodable(self._api.request(self._body, context))
        except BaseException as error:
            await self.leave(error)
            raise

    def _given(self) -> tuple[NewMessage, ...]:
        try:
            return self._api.given(self._body)
        except (AttributeError, TypeError) as error:
            raise InputError(
                "What this call says cannot be read.",
                why=f"It is not made as {self._api.path} takes it: {error}.",
                then="Pass a list of messages, each an object with its role and content.",
            ) from error

    # ------------------------------------------------------------ the answer, as it comes

    def feed(self, chunk: bytes) -> bool:
        """Take bytes of the answer; tells whether a streamed one is complete with them."""
        if not self._is_streamed:
            self._bytes += chunk
            return False
        for event in self._events.feed(chunk):
            self._has_refusal |= tells_refusal(event)
            self._stream.add(event)
        # A chat may tell what it cost after its last word.
        return self._events.is_done or (self._stream.is_whole and not self._api.path.endswith("/completions"))

    def headers_came(self, content_type: str) -> None:
        """Learn what is coming: events, or one JSON object."""
        self._is_streamed = "event-stream" in content_type

    @property
    def is_refused(self) -> bool:
        """Tell whether a stream that began well ended with a refusal, before it said anything."""
        return self._has_refusal and self._api.answer(self._stream.response()).message is None

    async def end(self) -> None:
        """Record the answer as far as it came, and leave the turn; a refusal is as one that came at once."""
        if self._is_over:
            return
        try:
            if self.is_refused:
                await self._take_back()
            else:
                await self._record()
        except BaseException as error:
            await self.leave(error)
            raise
        await self.leave(None)

    async def fail(self, error: BaseException) -> None:
        """Leave the turn without an answer; what the provider refuses for good is taken back, if the turn is our own."""
        if not self._is_over and is_refusal(error):
            await self._take_back()
        await self.leave(error)

    async def _take_back(self) -> None:
        if self._own is not None:
            await take_back(self._own, self.said_again, strict=self._bound.memory.config.strict)

    async def leave(self, error: BaseException | None) -> None:
        """Leave the turn; what was said in it stays."""
        if not self._is_over:
            self._is_over = True
            if self._own is not None:
                await self._own.__aexit__(type(error) if error else None, error, error.__traceback__ if error else None)

    def _beside(self) -> int | None:
        """Return how many tokens the request had beside the context."""
        own = self._api.own(self._body)
        return None if own is None else weight(own, self._body.get("tools"), self._bound.memory.counter)

    async def _record(self) -> None:
        data: object = self._stream.response() if self._is_streamed else None
        if not self._is_streamed:
            with suppress(ValueError):
                data = json.loads(self._bytes or b"null")
        if not isinstance(data, dict):
            return
        answer = self._api.answer(cast("Json", data))
        messages = () if answer.message is None else (_with_beginning(self._begun, answer.message),)
        if not messages and answer.usage is None:
            return
        try:
            await self._turn.record(*messages, model=self._model, usage=answer.usage, beside=self._beside())
        except InputError:
            # What a model says is not the caller's to mend: an answer that cannot be kept is an answer all the same.
            if self._own is None or self._bound.memory.config.strict:
                raise
            _log.exception("an answer cannot be remembered")


def _is_begun(messages: Sequence[NewMessage]) -> bool:
    """Tell whether a list ends with the beginning of an answer, and is no history that ends with an answer."""
    return has_answer(messages[-1:]) and not has_answer(messages[:-1])


def _with_beginning(begun: Sequence[NewMessage], answer: NewMessage) -> NewMessage:
    """Return the answer as one with the beginning that the caller gave it."""
    if not begun:
        return answer
    [first, *rest] = answer.parts or (TextPart(text=""),)
    [*early, last] = begun[-1].parts
    if isinstance(first, TextPart) and isinstance(last, TextPart):
        return replace(answer, parts=(*early, replace(first, text=last.text + first.text), *rest))
    return replace(answer, parts=(*early, last, first, *rest))


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
