"""One exchange with memory on its way through: the request with its context to the provider, the answer back as it comes.

Knows that a client may leave at any moment: an exchange is a task of its own, so that what was said by then is kept. What is
saved when, and how an answer is put together, is the same as for wrapped clients.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any, Final

import httpx

from memolog import MemologError, Memory, Turn
from memolog.adapters.exchange import Api, Bound
from memolog.adapters.exchange import Exchange as Remembered
from memolog.adapters.provider_limits import is_refused, take_back
from memolog.apps.proxy.headers import Pairs, Scope, passed_back
from memolog.domain.codec import dumps

__all__ = ["Exchange", "Head"]

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
            await take_back(turn, remembered.repeated, strict=self._memory.config.strict)
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
                await take_back(turn, remembered.repeated, strict=self._memory.config.strict)
            await remembered.end()
        except MemologError:
            raise
        except Exception:  # noqa: BLE001 - the client has what the provider said, whatever that is
            _log.exception("an answer could not be understood, and is not remembered")
