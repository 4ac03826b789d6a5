"""Saving what turns could not: in the background while the memory is open, and once more when it is closed.

Knows the order (a thread's own, oldest first, and what was taken back before anything else) and how often to try. What there
is to save is held in `unsaved`.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Sequence

from memolog.domain.clock import Clock
from memolog.domain.errors import MemologError, StoreBusy, StoreError, ThreadNotFound
from memolog.domain.message import NewMessage
from memolog.runtime.core import Core
from memolog.runtime.events import Degraded, Withdrawn
from memolog.runtime.patience import in_time
from memolog.runtime.unsaved import Held, Unsaved
from memolog.store import Store
from memolog.store.messages import Saved
from memolog.store.withdrawals import Withdrawn as WithdrawnRows

__all__ = ["Rescue", "give_up", "may_pass"]

_log = logging.getLogger("memolog")

_FIRST_DELAY = 0.2
_LONGEST_DELAY = 30.0
_NOTHING = WithdrawnRows(messages=(), runs=(), groups=(), observations=())


class Rescue:
    """Saves what is held, as soon as the database allows."""

    def __init__(
        self, unsaved: Unsaved, store: Store, core: Core, *, clock: Clock, book: Callable[[Held], Awaitable[None]]
    ) -> None:
        self._unsaved, self._store, self._core = unsaved, store, core
        self._clock, self._book = clock, book
        # Two at once would save messages once, but book what was spent twice.
        self._gate = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None
        self._woken = asyncio.Event()

    # ------------------------------------------------------------ in the background

    def begin(self) -> None:
        """Save in the background what is left, however long that takes."""
        if self._unsaved.is_closed or not self._unsaved.waiting() or (self._task and not self._task.done()):
            return
        self._woken = asyncio.Event()
        self._task = asyncio.get_running_loop().create_task(self._go_on(), name="memolog-rescue")

    def wake(self) -> None:
        """Try again now: something was written, so the database is there."""
        if self._unsaved.waiting():
            self.begin()
            self._woken.set()

    async def _go_on(self) -> None:
        delay = _FIRST_DELAY
        while self._unsaved.waiting():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(delay):
                    await self._woken.wait()
            self._woken.clear()
            delay = min(2 * delay, _LONGEST_DELAY)
            await self._tried()

    async def _tried(self, *, also_open: bool = False) -> Exception | None:
        try:
            await self.save(also_open=also_open)
        except MemologError as error:
            return error
        except Exception as error:  # noqa: BLE001 - what is held must not be given up for it
            _log.exception("saving what turns left behind failed in a way that it never should")
            return error
        return None

    async def try_now(self, seconds: float, *, also_open: bool = False) -> None:
        """Try once, not for long; what is left after that is tried again in the background."""
        if self._unsaved.waiting(also_open=also_open):
            with contextlib.suppress(MemologError):
                await in_time(self._tried(also_open=also_open), seconds)

    async def stop(self) -> None:
        """End what goes on in the background."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    async def at_last(self, patience: float) -> Exception | None:
        """Save everything, also what open turns hold, trying for so long; returns what was in the way."""
        await self.stop()
        loop = asyncio.get_running_loop()
        end, delay = loop.time() + patience, _FIRST_DELAY
        error: Exception | None = None
        while len(self._unsaved):
            try:
                async with asyncio.timeout_at(end):
                    error = await self._tried(also_open=True)
            except TimeoutError:
                return error or StoreBusy(f"It did not answer within {patience:g} s.")
            if error is None or not getattr(error, "retryable", False) or loop.time() + delay > end:
                break
            await asyncio.sleep(delay)
            delay *= 2
        return error

    # ------------------------------------------------------------ saving

    async def save(self, resource: str | None = None, thread: str | None = None, *, also_open: bool = False) -> None:
        """Save what turns left behind: all of it, or that of one thread, which comes before what is new."""
        stuck: dict[tuple[str, str], Exception] = {}
        async with self._gate:
            for held in self._unsaved.waiting(resource, thread, also_open=also_open):
                key = held.resource, held.thread
                try:
                    if key not in stuck:
                        await self._save_one(held)
                except Exception as error:
                    if isinstance(error, StoreError) and error.retryable:
                        raise
                    # What is wrong with one thread must not keep the others from being saved.
                    stuck[key] = error
        for error in stuck.values():
            raise error

    async def _save_one(self, held: Held) -> None:
        if held.is_withdrawn:
            try:
                await self.withdraw(held)
            except Exception as error:
                if may_pass(error):
                    raise
                held.is_withdrawn = False
                await self._give_up(held, f"what was said in thread {held.thread} cannot be taken back", error)
        if held.messages:
            await self.save_messages(held, tuple(held.messages))
        if held.is_unanswered:
            await self.end_turn(held)
        if held.spent:
            await self._book(held)
        await self._record_missed(held)
        self._unsaved.hold(held)

    async def end_turn(self, held: Held) -> None:
        """Let what has no reply count as seen: its turn is over."""
        await self._store.messages.end_turn(held.resource, held.thread, held.turn)
        held.is_unanswered = False

    async def _record_missed(self, held: Held) -> None:
        try:
            await held.missed.record(self._store, held.resource, held.thread)
        except Exception as error:
            if may_pass(error):
                raise
            held.missed.clear()
            await self._give_up(held, f"a context of thread {held.thread} cannot be recorded", error)

    async def save_messages(self, held: Held, messages: Sequence[NewMessage]) -> Saved:
        """Save what a call before could not. What can never be saved is told and given up: it must not be in the way."""
        try:
            # Ids were given when it was said, so saving it twice is saving it once.
            owner = None if held.is_over else self._core.owner
            saved = await self._store.messages.save(held.resource, held.thread, messages, turn=held.turn, owner=owner)
        except Exception as error:
            if may_pass(error):
                raise
            if len(messages) == 1:
                await self._give_up(held, f"1 message of thread {held.thread} cannot be saved", error)
                saved = Saved(messages=(), added=0)
            else:
                return await self._save_each(held, messages)
        held.drop(messages)
        self._unsaved.hold(held)
        return saved

    async def _save_each(self, held: Held, messages: Sequence[NewMessage]) -> Saved:
        """Save messages one by one, so that only the one that cannot be saved is given up."""
        done = [await self.save_messages(held, (message,)) for message in messages]
        rows = tuple(row for saved in done for row in saved.messages)
        return Saved(messages=rows, added=sum(saved.added for saved in done))

    async def withdraw(self, held: Held) -> None:
        """Take back what a turn saved."""
        now = self._clock.now()
        try:
            gone = await self._store.withdrawals.withdraw(
                held.resource,
                held.thread,
                held.turn,
                after=0,
                also=held.also,
                keep_answered=held.keeps_answered,
                now=now,
                render=self._core.rerender,
            )
        except ThreadNotFound:
            # Nothing was saved yet, or the thread was deleted with all that was: there is nothing to take back.
            gone = _NOTHING
        held.is_withdrawn = held.is_unanswered = False
        self._unsaved.hold(held)
        await self._core.tell(
            Withdrawn(
                at=now,
                resource=held.resource,
                thread=held.thread,
                messages=len(gone.messages),
                runs=len(gone.runs),
                groups=len(gone.groups),
                observations=len(gone.observations),
            )
        )

    async def _give_up(self, held: Held, what: str, error: Exception) -> None:
        await give_up(self._core, held, "saving what a turn left behind", f"{what}: {error}", error)


def may_pass(error: Exception) -> bool:
    """Tell whether time may mend this: what the database or the machine refuses now, and not what was said."""
    return isinstance(error, StoreError | OSError | MemoryError)


async def give_up(core: Core, held: Held, what: str, why: str, error: Exception) -> None:
    """Tell that something will never be saved, and is no longer tried."""
    if not isinstance(error, MemologError):
        _log.error("%s failed in a way that it never should", what, exc_info=error)
    now = core.clock.now()
    await core.tell(Degraded(at=now, resource=held.resource, thread=held.thread, what=what, error=why))
