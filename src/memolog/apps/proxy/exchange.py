"""One exchange with memory: what is new is saved, the request goes on with the context, the answer comes back and is saved.

Knows the order of these, and that a client may leave at any moment: an exchange is a task of its own, so that what was said by
then is kept. What the provider answers is passed on as it comes, and put together aside.
"""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any, Final, cast

import httpx

from memolog import Memory, NewMessage, NotFound, StoreError, Turn
from memolog.adapters.exact import Answer
from memolog.adapters.news import after_last_answer, has_answer, unsaved
from memolog.adapters.sse import Events
from memolog.apps.proxy.formats import Format
from memolog.apps.proxy.headers import Pairs, Scope, passed_back
from memolog.domain.codec import dumps
from memolog.domain.message import Message

__all__ = ["Exchange", "Head", "new_in"]

_log = logging.getLogger("memolog")

# A client that reads slowly slows the provider down, instead of filling this machine.
_CHUNKS: Final = 64
_FEW: Final = 50
_MANY: Final = 1_000
_END: Final = 2**62
_ERROR: Final = 400
# What the provider will never take stays out of the conversation: it would refuse every request after it too.
_REFUSED: Final = frozenset({400, 413, 415, 422})


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """How an answer begins: its status and headers, and its body if that is known already."""

    status: int
    headers: Pairs
    body: bytes | None = None


class Exchange:
    """A request of a thread on its way to the provider and back."""

    def __init__(self, memory: Memory, client: httpx.AsyncClient, format_: Format, scope: Scope) -> None:
        self._memory, self._client, self._format, self.scope = memory, client, format_, scope
        self._head: asyncio.Future[Head] = asyncio.get_running_loop().create_future()
        self._chunks: asyncio.Queue[bytes | Exception | None] = asyncio.Queue(_CHUNKS)
        self._task: asyncio.Task[None] | None = None
        self._is_passed = False

    # ------------------------------------------------------------ the client's side

    def begin(
        self, make: Callable[[bytes], httpx.Request], body: dict[str, Any], said: tuple[NewMessage, ...]
    ) -> asyncio.Task[None]:
        """Start the exchange as a task of its own: how a request is made, its body to be changed, and what that says."""
        self._task = asyncio.create_task(self._run(make, body, said))
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

    async def _run(
        self, make: Callable[[bytes], httpx.Request], body: dict[str, Any], said: tuple[NewMessage, ...]
    ) -> None:
        scope, name = self.scope, body.get("model")
        model = name if isinstance(name, str) else None
        try:
            async with self._memory.turn(scope.thread, scope.resource, model=model, zone=scope.zone) as turn:
                context = await turn.prepare(*await new_in(self._memory, scope, said))
                sent = make(dumps(self._format.with_context(body, context)).encode())
                response = await self._client.send(sent, stream=True)
                try:
                    await self._answer(turn, response)
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

    async def _answer(self, turn: Turn, response: httpx.Response) -> None:
        headers = passed_back(response.headers.multi_items(), is_read=True)
        kind = response.headers.get("content-type", "")
        if response.status_code < _ERROR and kind.startswith("text/event-stream"):
            await self._stream(turn, response, Head(status=response.status_code, headers=headers))
            return
        body = await response.aread()
        if response.status_code < _ERROR:
            await self._record(turn, _object(body))
        elif response.status_code in _REFUSED:
            await turn.discard()
        self._head.set_result(Head(status=response.status_code, headers=headers, body=body))

    async def _stream(self, turn: Turn, response: httpx.Response, head: Head) -> None:
        """Pass the stream on as it comes. What ends it is held back until all is saved: the next request may follow at once."""
        events, whole = Events(), self._format.stream()
        is_saved = False
        self._head.set_result(head)
        try:
            async for chunk in response.aiter_bytes():
                for event in events.feed(chunk):
                    whole.add(event)
                if not is_saved and self._format.is_over(events, whole):
                    is_saved = True
                    await self._record(turn, whole.response())
                await self._chunks.put(chunk)
        finally:
            if not is_saved:
                await self._record(turn, whole.response())

    async def _record(self, turn: Turn, data: dict[str, Any] | None) -> None:
        try:
            answer = Answer(message=None) if data is None else self._format.answer(data)
        except Exception:  # noqa: BLE001 - logged
            # The client has what the provider said, whatever that is.
            _log.exception("an answer could not be understood, and is not remembered")
            return
        if answer.message is not None or answer.usage is not None:
            await turn.record(*([answer.message] if answer.message else []), usage=answer.usage)


def _object(body: bytes) -> dict[str, Any] | None:
    try:
        data = cast("object", json.loads(body))
    except ValueError:
        return None
    return cast("dict[str, Any]", data) if isinstance(data, dict) else None


async def new_in(memory: Memory, scope: Scope, said: tuple[NewMessage, ...]) -> tuple[NewMessage, ...]:
    """Return what of a request is not saved yet, whether its client sends the whole conversation or only what is new."""
    limit = min(_MANY, len(said) + _FEW) if has_answer(said) else _FEW
    stored: tuple[Message, ...] = ()
    try:
        kit = await memory.open()
        page = await kit.store.messages.page(scope.resource, scope.thread, before=_END, limit=limit)
        stored = tuple(message for message in page.items if message.state == "live")
    except NotFound:
        pass
    except StoreError:
        if memory.config.strict:
            raise
        return after_last_answer(said)
    return unsaved(said, stored)
