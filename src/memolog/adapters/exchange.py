"""One request of a plain client and its answer, with memory on both sides.

Knows what happens when: what is new is saved, the context becomes the request, the answer is recorded, whole or cut. Knows no
client and no API: an `Api` reads and writes the JSON, and who calls this moves the bytes.
"""

import json
import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol, cast
from urllib.parse import quote, unquote

from memolog.adapters.exact import Answer, Json
from memolog.adapters.news import has_answer, news_of
from memolog.adapters.sending import encodable, is_refusal, take_back, tells_refusal, weight
from memolog.adapters.sse import Events
from memolog.context import Context
from memolog.domain.errors import InputError
from memolog.domain.message import NewMessage, TextPart
from memolog.domain.run import Usage
from memolog.runtime.memory import Memory

__all__ = ["Api", "Bound", "Exchange", "OpenTurn", "Stream", "at"]

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


class Api(Protocol):
    """How one API says things."""

    path: str
    goes_on: bool
    """Whether a model goes on from words that a request puts into its mouth at the end."""

    def given(self, body: Json) -> tuple[NewMessage, ...]:
        """Return what a request says, without its instructions."""
        ...

    def request(self, body: Json, context: Context) -> Json:
        """Return the request with a context in the place of what the caller said."""
        ...

    def own(self, body: Json) -> list[Any] | None:
        """Return the instructions of a request, in whatever form; None if the provider adds what we do not see."""
        ...

    def answer(self, data: Json) -> Answer:
        """Return what was answered."""
        ...

    def stream(self) -> Stream:
        """Return what puts a streamed answer together."""
        ...


class OpenTurn(Protocol):
    """A turn that somebody else opened and will leave: one of memory, or one with guards around it."""

    @property
    def thread(self) -> str:
        """Return which thread it is of."""
        ...

    @property
    def resource(self) -> str:
        """Return whose thread that is."""
        ...

    async def prepare(
        self, *messages: NewMessage, ephemeral: Sequence[NewMessage] = (), model: str | None = None
    ) -> Context:
        """Save what is new and return what the model should see."""
        ...

    async def record(
        self, *messages: NewMessage, model: str | None = None, usage: Usage | None = None, beside: int | None = 0
    ) -> None:
        """Save what the model answered."""
        ...


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
