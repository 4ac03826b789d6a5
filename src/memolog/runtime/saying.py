"""What a turn says, from the call that brings it to its row in the database.

Knows what of it is held, in which order it is saved, and what a repeated call means. Knows no context and no decision.
"""

import asyncio
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from itertools import takewhile

from memolog.config import Config
from memolog.domain.checking import check_kinds, check_message
from memolog.domain.codec import object_text
from memolog.domain.errors import InputError, StoreBusy, StoreError
from memolog.domain.message import Message, NewMessage
from memolog.domain.own import with_own_apart
from memolog.domain.run import Usage
from memolog.runtime.away import Outside, dated
from memolog.runtime.kit import Kit
from memolog.runtime.unsaved import Held, Spent
from memolog.runtime.views import others_for
from memolog.store.messages import Saved
from memolog.store.scope import check_id
from memolog.store.snapshot import Snapshot
from memolog.store.usage import check_usage

__all__ = ["Saying", "checked_usage", "passed_along"]

_LAST_DELAYS = (0.05, 0.2, 0.5)


class Saying:
    """Holds what one turn says until it is saved."""

    def __init__(self, outside: Outside, *, resource: str, thread: str, zone: str | None) -> None:
        self._outside, self._zone = outside, zone
        self._resource, self._thread = resource, thread
        self._unsaved = outside.unsaved
        self.held = Held(resource=resource, thread=thread)
        self.kit: Kit | None = None
        """Where it is saved; None while there is no database."""
        self.since: list[Message] = []
        """What was saved since the snapshot was read: a context without the database needs both."""
        self.saved_tokens = 0
        self._own_calls: set[str] = set()
        # Calls of one turn may overlap, as the results of parallel tools do; what they bring is saved in its order.
        self._one_by_one = asyncio.Lock()
        # What the last call brought, if it raised: who repeats it says it once.
        self._repeatable: tuple[Sequence[NewMessage], Sequence[NewMessage]] | None = None

    # ------------------------------------------------------------ holding

    @contextmanager
    def saying(
        self, messages: Sequence[NewMessage], config: Config, spent: Spent | None = None
    ) -> Generator[Sequence[NewMessage]]:
        """Hold what a call brings until it is saved; yields the messages, with their ids and times.

        A call that raises is as if it had not been made, but for one that was cancelled: its caller may be gone.
        """
        held = self.held
        kept = self._kept(messages)
        held.add(kept)
        if spent:
            held.spent.append(spent)
        if not config.read_only:
            self._unsaved.hold(held)
        try:
            yield kept
        except BaseException as error:
            self._repeatable = messages, kept
            if config.strict or isinstance(error, InputError):
                held.drop(kept)
                held.spent[:] = [one for one in held.spent if one is not spent]
                self._unsaved.hold(held)
            raise
        self._repeatable = None

    def _kept(self, messages: Sequence[NewMessage]) -> Sequence[NewMessage]:
        """Return messages with their ids and times, given now, so that a retry saves them once."""
        if self._repeatable is not None and messages and self._repeatable[0] == messages:
            return self._repeatable[1]
        for message in _checked(messages):
            check_kinds(message)
        new_id = self.kit.store.new_id if self.kit else self._outside.new_id
        kept = [
            dated(message, new_id, self._outside.clock, self._zone)
            for message in with_own_apart(messages, self._own_calls)
        ]
        self._check(kept)
        return kept

    def _check(self, messages: Sequence[NewMessage]) -> None:
        """Refuse what could never be saved while somebody can mend it, wherever saving does not find that out at once."""
        if self.kit is None:
            for message in messages:
                check_message(message)
                check_id("message", message.id)
                object_text("The metadata", message.metadata)
        elif self._unsaved.waiting(self._resource, self._thread, also_open=True):
            # What waits is saved first, and that may fail before these are looked at.
            self.kit.store.messages.ready(self._resource, self._thread, messages, self.held.turn)

    def not_saved(self, config: Config) -> Sequence[NewMessage]:
        """Return what was said in this thread and is only known here."""
        said = self._unsaved.messages_of(self._resource, self._thread)
        return (*said, *self.held.messages) if config.read_only else said

    # ------------------------------------------------------------ saving

    async def save_and_read(
        self, kit: Kit, fresh: Sequence[NewMessage], config: Config, *, decides: bool = True
    ) -> Snapshot:
        """Save what is held up to what the present call brought, and read all that a context or, so asked, a decision needs."""
        if config.read_only:
            return await self.read(kit, config)
        async with self._one_by_one:
            messages = await self._catch_up(kit, fresh)
            saved, snapshot = await kit.store.save_and_snapshot(
                self._resource,
                self._thread,
                messages,
                turn=self.held.turn,
                owner=kit.core.owner,
                scope=config.scope,
                newest=_newest(config),
                others=others_for(config, decides=decides),
            )
            self._settle(kit, messages)
            self._track(saved)
            return snapshot

    async def read(self, kit: Kit, config: Config) -> Snapshot:
        """Return what there is without writing anything."""
        return await kit.store.logs.snapshot(
            self._resource,
            self._thread,
            config.scope,
            create=False,
            newest=_newest(config),
            others=others_for(config, decides=False),
        )

    async def save(self, kit: Kit, fresh: Sequence[NewMessage] = ()) -> None:
        """Save what is held up to what the present call brought; all of it, if it brought nothing."""
        async with self._one_by_one:
            if messages := await self._catch_up(kit, fresh):
                where = self._resource, self._thread
                saved = await kit.store.messages.save(*where, messages, turn=self.held.turn, owner=kit.core.owner)
                self._note(saved)
                self._settle(kit, messages)

    async def save_at_last(self, kit: Kit) -> None:
        """Save what is left. Nobody comes after this, so a database that was gone for a moment is asked again."""
        for delay in (*_LAST_DELAYS, None):
            try:
                await self.save(kit)
                if self.held.spent:
                    await kit.book(self.held)
            except StoreError as error:
                # A lock has cost all the patience that there was already.
                if delay is None or not error.retryable or isinstance(error, StoreBusy):
                    raise
                await asyncio.sleep(delay)
            else:
                return

    async def _catch_up(self, kit: Kit, fresh: Sequence[NewMessage]) -> Sequence[NewMessage]:
        """Save first what earlier turns of the thread, and earlier calls of this one, could not; returns what is left to do."""
        held, mine = self.held, {id(message) for message in fresh}
        if len(self._unsaved) and self._unsaved.waiting(self._resource, self._thread):
            await kit.rescue.save(self._resource, self._thread)
        if earlier := tuple(takewhile(lambda message: id(message) not in mine, held.messages)):
            self._note(await kit.rescue.save_messages(held, earlier))
        # What comes after it was brought by calls that are still to come: they hear what is wrong with it.
        return tuple(message for message in held.messages if id(message) in mine)

    def _settle(self, kit: Kit, messages: Sequence[NewMessage]) -> None:
        self.held.drop(messages)
        self._unsaved.hold(self.held)
        if len(self._unsaved):
            # The database is there: what other turns left behind need not wait for longer.
            kit.rescue.wake()

    async def end_turn(self, kit: Kit) -> None:
        """Let what has no reply count as seen: the turn is over."""
        if self.held.is_unanswered:
            await kit.rescue.end_turn(self.held)

    def _track(self, saved: Saved) -> None:
        """Note whether the last that was saved is something that a model has still to answer."""
        if saved.messages:
            self.held.is_unanswered = max(saved.messages, key=lambda row: row.seq).role != "assistant"

    def _note(self, saved: Saved) -> None:
        self._track(saved)
        self.since.extend(saved.messages)
        self.saved_tokens += sum(message.tokens for message in saved.messages)


def _newest(config: Config) -> int | None:
    """Return how many messages are read where no log is kept."""
    return None if config.observe else 2 * config.last_messages


def checked_usage(usage: Usage | None) -> None:
    """Refuse what is no usage, or none that can be booked."""
    if usage is None:
        return
    if not isinstance(usage, Usage):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InputError(
            f"Usage is a Usage, not {type(usage).__name__}.",
            then='Pass Usage(model="…", input_tokens=…, output_tokens=…).',
        )
    check_usage(usage)


def passed_along(messages: NewMessage | Sequence[NewMessage]) -> tuple[NewMessage, ...]:
    """Return what is shown in one request only, one message or several; refuses what could not be shown."""
    several = (messages,) if isinstance(messages, NewMessage) else messages
    if not isinstance(several, Iterable) or isinstance(several, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InputError(
            f"`ephemeral` is a message or a list of them, not {type(messages).__name__}.",
            then='Pass ephemeral=[UserMessage("…")].',
        )
    several = tuple(several)
    for message in _checked(several):
        check_kinds(message)
    return several


def _checked(messages: Sequence[NewMessage]) -> Sequence[NewMessage]:
    """Refuse what is no message."""
    for message in messages:
        if not isinstance(message, NewMessage):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InputError(
                f"A turn takes messages, not {type(message).__name__}.",
                then='Pass UserMessage("…"), AssistantMessage("…") or ToolMessage(…), one argument each.',
            )
    return messages
