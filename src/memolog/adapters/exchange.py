"""Send one request of an OpenAI or Anthropic client with memory: save its new messages, add the context, record the answer.

An `Api` reads and writes the JSON of one endpoint. `remembering` returns a copy of a client that uses memory.
"""

import inspect
import json
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol, TypeAlias, TypedDict, TypeVar, cast
from urllib.parse import quote, unquote

from memolog import Context
from memolog.adapters import at_once, returned
from memolog.adapters.alignment import CUT, S, has_answer, marks
from memolog.adapters.guards import GuardedTurn, SyncGuardedTurn, check_memory
from memolog.adapters.new_messages import find_new, prefix_of
from memolog.adapters.provider_limits import encodable, is_refusal, take_back, tells_refusal, weight
from memolog.core.message import NewMessage, TextPart
from memolog.core.run import Usage
from memolog.errors import InputError
from memolog.memory import Memory
from memolog.sync import SyncMemory, SyncTurn
from memolog.text.lookalikes import quoted_label
from memolog.transfer.exact import Json
from memolog.turn import Turn


class Events:
    """Parser of server-sent events."""

    def __init__(self) -> None:
        self._rest = b""
        self._data: list[str] = []
        self.is_done = False

    def feed(self, chunk: bytes) -> list[dict[str, Any]]:
        """Return the JSON objects of the events that these bytes complete. Other data is ignored."""
        lines = (self._rest + chunk).replace(b"\r\n", b"\n").split(b"\n")
        self._rest = lines.pop()
        found: list[dict[str, Any]] = []
        for line in lines:
            field, _, value = line.decode("utf-8", "replace").partition(":")
            if field == "data":
                self._data.append(value.removeprefix(" "))
            elif not line:
                found += self._event()
        return found

    def _event(self) -> list[dict[str, Any]]:
        text, self._data = "\n".join(self._data), []
        if text.strip() == "[DONE]":
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The answer of a model: the message to record and the reported usage. Each is None if the answer has none."""

    message: NewMessage | None
    usage: Usage | None = None


class Stream(Protocol):
    """Assembles a streamed answer."""

    is_whole: bool

    def add(self, event: Mapping[str, Any], /) -> None:
        """Add an event."""
        ...

    def response(self) -> Json:
        """Return the answer so far, in the same form as an answer that is not streamed."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Api:
    """Functions that read and write the JSON of requests and answers of one endpoint."""

    path: str
    given: Callable[[Json], tuple[NewMessage, ...]]
    """Return the messages of a request, without its instructions."""
    request: Callable[[Json, Context], Json]
    """Return the request with its messages replaced by the context."""
    own: Callable[[Json], list[Any] | None]
    """Return the instructions of a request; None if the provider adds a conversation that it has stored."""
    answer: Callable[[Json], Answer]
    stream: Callable[[], Stream]
    """Return an object that assembles a streamed answer."""
    has_last_event: bool = True
    """Whether an event says that a streamed answer is complete. Otherwise the end of the stream says it."""
    goes_on: Callable[[Json], bool] = lambda _: False
    """Return whether the model continues an assistant message at the end of a request."""


OpenTurn: TypeAlias = Turn | GuardedTurn
"""A turn that the caller opens and ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """The memory, thread and resource of a client, and the endpoints that use them."""

    memory: Memory
    apis: tuple[Api, ...]
    thread: str | None = None
    resource: str | None = None
    zone: str | None = None
    settings: Mapping[str, Any] | None = None
    turn: OpenTurn | None = None
    sends_all: bool = False
    """Whether the client always sends the whole conversation, as chat programs do."""
    own_turns: str | None = None
    """Used with `turn`: only turns whose ids begin with this text may be rewound. With None the thread is never rewound."""

    def __post_init__(self) -> None:
        self._check(self.thread, self.resource)
        for name, value in (("zone", self.zone), ("settings", self.settings)):
            if self.turn is not None and value:
                raise InputError(
                    f"`turn` and `{name}` cannot be passed together.",
                    why=f"The turn was opened with its own {name}.",
                    then=f"Leave out {name}= here, and pass it where the turn is opened: thread.turn({name}=…).",
                )

    def exchange(self, method: str, url: str, body: object, headers: Mapping[str, object]) -> "Exchange | None":
        """Return the exchange for a request; None if the request is not for one of the endpoints."""
        path = url.partition("?")[0].rstrip("/")
        api = next((api for api in self.apis if path == api.path), None)
        if api is None or method.lower() != "post" or not isinstance(body, Mapping):
            return None
        lowered = {name.lower(): value for name, value in headers.items()}
        thread = _header_text(lowered.get(_THREAD)) or self.thread or (self.turn.thread if self.turn else None)
        resource = _header_text(lowered.get(_RESOURCE)) or self.resource or (self.turn.resource if self.turn else None)
        if not thread or not resource:
            raise InputError(
                f"The call has no {'thread' if not thread else 'resource'}.",
                why="Memory is stored for a thread of a resource.",
                then='Pass both: wrap(client, memory, thread="…", resource="…"), or **at("…", "…") in the call.',
            )
        self._check(thread, resource)
        return Exchange(self, api, dict(cast("Mapping[str, Any]", body)), thread, resource)

    def _check(self, thread: str | None, resource: str | None) -> None:
        """Raise InputError if the thread or the resource is not that of the turn."""
        if self.turn is None:
            return
        for name, value, of_turn in (("thread", thread, self.turn.thread), ("resource", resource, self.turn.resource)):
            if value is not None and value != of_turn:
                raise InputError(
                    f"`{name}` is {value!r}, but the turn belongs to {of_turn!r}.",
                    why="All calls of a client with a turn belong to that turn.",
                    then=f"Leave out the {name}, or use a client without this turn.",
                )


class ThreadHeaders(TypedDict):
    """Arguments of a call of the OpenAI or Anthropic client."""

    extra_headers: dict[str, str]


def at(thread: str, resource: str) -> ThreadHeaders:
    """Return the arguments that set the thread and the resource of one call: `create(…, **at("t1", "alice"))`.

    The arguments are headers. The wrapped client removes them before it sends the request.
    """
    for name, value in (("thread", thread), ("resource", resource)):
        if not isinstance(value, str) or not value:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InputError(
                f"`{name}` must be a non-empty string, got {value!r}.",
                why="Memory is stored for a thread of a resource, and each has an id.",
                then=f"Pass an id, or leave out at() to use the {name} of the client.",
            )
    return {"extra_headers": {_THREAD: quote(thread, safe=""), _RESOURCE: quote(resource, safe="")}}


def _header_text(value: object) -> str | None:
    return unquote(value) if isinstance(value, str) and value else None


def turns_of(given: Sequence[NewMessage]) -> str:
    """Return the prefix of turn ids for a list of messages. Lists with the same first question have the same prefix."""
    return prefix_of(repr(next((marks(one) for one in given if one.role == "user"), "")))


class Exchange:
    """One request and its answer."""

    def __init__(self, bound: Bound, api: Api, body: Json, thread: str, resource: str) -> None:
        self._bound, self._api, self._body = bound, api, body
        self._thread, self._resource = thread, resource
        self._own_turn = (
            None
            if bound.turn
            else bound.memory.thread(thread, resource=resource).turn(
                model=self._model, zone=bound.zone, settings=bound.settings
            )
        )
        self._turn = cast("OpenTurn", bound.turn or self._own_turn)
        self._begun: tuple[NewMessage, ...] = ()
        self._is_over = self._has_refusal = False
        self.repeated: tuple[int, ...] = ()
        """Sequence numbers of stored unanswered messages that the request repeats. If it is rejected, they are withdrawn too."""
        self._events, self._stream, self._bytes = Events(), api.stream(), b""
        self._is_streamed = self._has_failed = False
        self.has_come = False
        self.has_ended = False
        """Whether the provider has ended the stream, or the connection to it broke. The caller may leave a stream earlier."""

    @property
    def _model(self) -> str | None:
        model = self._body.get("model")
        return model if isinstance(model, str) else None

    async def begin(self) -> Json:
        """Save the new messages and return the request to send."""
        given = self._given()
        own = self._bound.own_turns
        if self._own_turn is not None:
            own = self._own_turn.id_prefix = turns_of(given)
            await self._own_turn.__aenter__()
        try:
            new, again = await find_new(
                self._bound.memory, self._resource, self._thread, given, own_turns=own, is_whole=self._bound.sends_all
            )
            self.repeated = tuple(row.seq for row in again)
            if self._api.goes_on(self._body) and has_answer(new[-1:]) and not has_answer(new[:-1]):
                # The only assistant message is the last one. The model continues it, so it is saved together with the answer.
                new, self._begun = new[:-1], new[-1:]
            context = await self._turn.prepare(*new, ephemeral=self._begun, model=self._model)
            # The messages are stored unchanged. Only lone surrogates in the request are replaced, because they cannot be sent.
            return encodable(self._api.request(self._body, context))
        except BaseException as error:
            await self.leave(error)
            raise

    def _given(self) -> tuple[NewMessage, ...]:
        try:
            return self._api.given(self._body)
        except (AttributeError, TypeError) as error:
            given = self._body.get("messages", ())
            wrong = f"`messages` must be a list, got {type(given).__name__}" if isinstance(given, str) else error
            raise InputError(
                "The messages of the call cannot be read.",
                why=f"They do not have the form that {self._api.path} requires: {wrong}.",
                then="Pass a list of messages, each with a role and a content.",
            ) from error

    # ------------------------------------------------------------ the answer

    def feed(self, chunk: bytes) -> bool:
        """Add bytes of the answer. Return whether no more of a streamed answer can follow."""
        if not self._is_streamed:
            self._bytes += chunk
            return False
        for event in self._events.feed(chunk):
            self._has_refusal |= tells_refusal(event)
            self._has_failed |= bool(event.get("error")) or event.get("type") in {"error", "response.failed"}
            self._stream.add(event)
        return self.is_complete and (self._events.is_done or self._api.has_last_event)

    def headers_came(self, content_type: str) -> None:
        """Set whether the answer is a stream of events or one JSON object."""
        self._is_streamed = "event-stream" in content_type

    @property
    def is_complete(self) -> bool:
        """Return whether a streamed answer is complete, as far as its events say."""
        # The usage of a chat completion may come after the last part of the message, so only `[DONE]` completes the stream.
        return self._events.is_done or (self._stream.is_whole and not self._api.path.endswith("/completions"))

    @property
    def is_refused(self) -> bool:
        """Return whether the provider rejected the request in a stream, before it sent any content."""
        return self._has_refusal and self._api.answer(self._stream.response()).message is None

    @property
    def has_begun_to_answer(self) -> bool:
        """Return whether a part of a streamed answer has arrived."""
        return self._is_streamed and self._api.answer(self._stream.response()).message is not None

    @property
    def _is_cut(self) -> bool:
        """Return whether the provider ended a stream before the answer was complete."""
        is_complete = self._events.is_done or self._stream.is_whole
        return self._has_failed or (self._is_streamed and self.has_ended and not is_complete)

    async def end(self) -> None:
        """Record the answer, even if it is incomplete, and leave the turn. Withdraw the request if it was rejected."""
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
        """Leave the turn without an answer. Withdraw a rejected request, unless the caller opened the turn."""
        if not self._is_over and is_refusal(error):
            await self._take_back()
        await self.leave(error)

    async def _take_back(self) -> None:
        if self._own_turn is not None:
            await take_back(self._own_turn, self.repeated, strict=self._bound.memory.config.strict)

    async def leave(self, error: BaseException | None) -> None:
        """End the turn, unless the caller opened it. The saved messages stay."""
        if not self._is_over:
            self._is_over = True
            if self._own_turn is not None:
                await self._own_turn.__aexit__(None, error, None)

    async def _record(self) -> None:
        data: object = self._stream.response() if self._is_streamed else None
        if not self._is_streamed:
            with suppress(ValueError):
                data = json.loads(self._bytes or b"null")
        if not isinstance(data, dict):
            return
        answer = self._api.answer(cast("Json", data))
        messages = () if answer.message is None else (_with_beginning(self._begun, answer.message),)
        if self._is_cut:
            messages = tuple(replace(said, metadata={**said.metadata, CUT: True}) for said in messages)
        if not messages and answer.usage is None:
            return
        own = self._api.own(self._body)
        beside = None if own is None else weight(own, self._body.get("tools"), self._bound.memory.counter)
        try:
            await self._turn.record(*messages, model=self._model, usage=answer.usage, beside=beside)
        except InputError:
            # The caller cannot correct the answer of a model. So if the answer cannot be stored, the error is only logged.
            if self._own_turn is None or self._bound.memory.config.strict:
                raise
            _log.exception("an answer cannot be stored")


def _with_beginning(begun: Sequence[NewMessage], answer: NewMessage) -> NewMessage:
    """Return the answer, preceded by the beginning that the caller sent."""
    if not begun:
        return answer
    [first, *rest] = answer.parts or (TextPart(text=""),)
    [*early, last] = begun[-1].parts
    if isinstance(first, TextPart) and isinstance(last, TextPart):
        if first.text.startswith(last.text) and not early:
            # Some servers return the beginning again.
            return answer
        return replace(answer, parts=(*early, replace(first, text=last.text + first.text), *rest))
    return replace(answer, parts=(*early, last, first, *rest))


def with_speaker(said: S) -> S:
    """Return a user message with the name of the speaker before its text, for an API that has no field for the speaker."""
    place = next((n for n, part in enumerate(said.parts) if isinstance(part, TextPart)), None)
    if not said.speaker or said.role != "user" or place is None:
        return said
    part = cast("TextPart", said.parts[place])
    # The name is quoted, so that a user called "System" is not mistaken for the system.
    named = replace(part, text=f"{quoted_label(said.speaker)}: {part.text}")
    return replace(said, parts=(*said.parts[:place], named, *said.parts[place + 1 :]))


C = TypeVar("C")
T = TypeVar("T")
Drive = Callable[[Coroutine[Any, Any, Any]], Any]

_current: ContextVar[Exchange | None] = ContextVar("memolog_exchange", default=None)
_OURS: Final = "x-memolog-"


def remembering(client: C, memory: Memory | SyncMemory, turn: object, apis: tuple[Api, ...], **options: Any) -> C:
    """Return a copy of a client that uses memory and shares its connections. The other options are those of `Bound`."""
    is_async = inspect.iscoroutinefunction(getattr(type(client), "request", None))
    if not hasattr(client, "request") or not hasattr(client, "copy"):
        raise InputError(
            f"`client` cannot be wrapped: got {type(client).__name__}.",
            then="Pass the client itself: OpenAI(), AsyncOpenAI(), Anthropic() or AsyncAnthropic().",
        )
    check_memory(memory, Memory if is_async else SyncMemory)
    # The calls of a synchronous client run on the event loop of the memory.
    inner, drive = (memory, None) if isinstance(memory, Memory) else (memory.asynchronous, memory.run)
    if isinstance(turn, SyncTurn):
        turn = turn.asynchronous
    if isinstance(turn, SyncGuardedTurn):
        turn = turn.inner
    # Call `copy` of the class. `client.copy` of a wrapped client would return a wrapped copy, which would be wrapped twice.
    made = cast("Any", type(client)).copy(client)
    _Remembered(made, Bound(memory=inner, turn=cast("OpenTurn | None", turn), apis=apis, **options), drive)
    return cast("C", made)


class _Remembered:
    """Replaces methods of a client, and of the copies of the client, so that they use memory."""

    def __init__(self, client: Any, bound: Bound, drive: Drive | None) -> None:
        self._bound, self._drive = bound, drive
        self._prepare = getattr(client, "_copy_and_prepare", None)
        self._copy, self._request, self._process = client.copy, client.request, client._process_response  # noqa: SLF001
        client.copy = client.with_options = self.copy
        client.request = self.request if drive is None else self.request_now
        client._process_response = self.process  # noqa: SLF001

    def copy(self, **options: Any) -> Any:
        made = self._copy(**options)
        type(self)(made, self._bound, self._drive)
        return made

    async def request(self, cast_to: Any, options: Any, **how: Any) -> Any:
        """Send a request with memory and record its answer. For a synchronous client this coroutine never waits."""
        if self._prepare is not None:
            options = await returned(self._prepare(options))
        exchange = self._bound.exchange(options.method, options.url, _body(options), _headers(options))
        if exchange is None:
            return await returned(self._request(cast_to, options, **how))
        asked = _with_body(options, await self._remember(exchange.begin()))
        token = _current.set(exchange)
        try:
            result = await returned(self._request(cast_to, asked, **how))
        except BaseException as error:
            await self._remember(exchange.fail(error))
            raise
        finally:
            _current.reset(token)
        if exchange.has_come:
            await self._remember(exchange.end())
        return result

    def request_now(self, *args: Any, **how: Any) -> Any:
        return at_once(self.request(*args, **how))

    async def _remember(self, work: Coroutine[Any, Any, T]) -> T:
        return await work if self._drive is None else self._drive(work)

    def process(self, *, response: Any, **rest: Any) -> Any:
        """Read a complete answer now, or a streamed answer while the caller reads it."""
        exchange = _current.get()
        if exchange is not None and not _is_read(exchange, response):
            tee = _AsyncTee if self._drive is None else _Tee
            response.stream = tee(response.stream, exchange, self._drive)
        return self._process(response=response, **rest)


def _body(options: Any) -> object:
    """Return the body of a request, with the fields of `extra_body`, which the client adds when it sends the request."""
    body, extra = cast("object", options.json_data), cast("object", options.extra_json)
    if not isinstance(body, Mapping) or not isinstance(extra, Mapping):
        return body  # pyright: ignore[reportUnknownVariableType]
    return {**cast("Json", body), **cast("Json", extra)}


def _headers(options: Any) -> Mapping[str, object]:
    return cast("Mapping[str, object]", options.headers) if isinstance(options.headers, Mapping) else {}


def _with_body(options: Any, body: Any) -> Any:
    """Return the request with another body, without Memolog's headers, and without compression of the answer."""
    asked = options.model_copy()
    headers = {name: value for name, value in _headers(options).items() if not name.lower().startswith(_OURS)}
    asked.json_data, asked.headers = body, {**headers, "Accept-Encoding": "identity"}
    return asked


def _is_read(exchange: Exchange, response: Any) -> bool:
    """Read the answer and return True, or return False if it is a stream. An error response is skipped with True."""
    if not response.is_success:
        return True
    exchange.headers_came(response.headers.get("content-type", ""))
    try:
        exchange.feed(response.content)
    except RuntimeError:
        # The HTTP response raises RuntimeError if its body is a stream that is not read yet.
        return False
    exchange.has_come = True
    return True


class _Passed:
    """A stream of bytes that also feeds the exchange. The client checks the class, so `__class__` is that of the inner stream."""

    def __init__(self, inner: Any, exchange: Exchange, drive: Any) -> None:
        self._inner, self._exchange, self._drive = inner, exchange, drive

    @property
    def __class__(self) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        return cast("Any", type(self._inner))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    @contextmanager
    def _ending(self) -> Generator[None]:
        """Note that the stream has ended or broken, unless the caller leaves it."""
        try:
            yield
        except Exception:
            self._exchange.has_ended = True
            raise
        self._exchange.has_ended = True


class _Tee(_Passed):
    def __iter__(self) -> Iterator[bytes]:
        with self._ending():
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
        with self._ending():
            async for chunk in self._inner:
                if self._exchange.feed(chunk):
                    await self._exchange.end()
                yield chunk
        await self._exchange.end()

    async def aclose(self) -> None:
        await self._inner.aclose()
        await self._exchange.end()
