"""Replace old messages by summaries: on request or, for threads without a log, when there are enough newer messages.

A summary is made from the observations of the log, or by the model, or by the embedded observer if the model fails. The thread is
not locked while the summary is made. If a message of the batch changes during that time, the batch is read again.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Final

from memolog.compaction.extractive import CompactTexts, compact_texts
from memolog.compaction.store import CompactionCandidate, SummaryLine
from memolog.context.tail import closed_cuts
from memolog.core.clock import Clock
from memolog.core.config import Config
from memolog.core.deadline import offload
from memolog.core.message import Message, has_many_parts
from memolog.core.observation import Span
from memolog.core.reports import Compacted, Compaction
from memolog.errors import Conflict
from memolog.events import CompactionMade
from memolog.log.executor import Core
from memolog.log.runner import RunFault
from memolog.observer.llm import EmbeddedObserver, Observed, Observer
from memolog.observer.model import BudgetSpent
from memolog.observer.prompt import ObserveInput
from memolog.observer.run import ModelCalls
from memolog.text.redaction import cleaned, messages_without_secrets, redactor_for
from memolog.text.tokens import TokenCounter

if TYPE_CHECKING:
    from memolog.store import Store

# A batch must not separate a call from its result. So _LOOKED_AT messages more than the size of a batch are read at first. If the
# batch cannot end at any of them, four times as many are read, again and again until at least _MOST_LOOKED_AT were read.
_LOOKED_AT: Final = 40
_MOST_LOOKED_AT: Final = 5_000
_MOST_TRIES: Final = 5
_NAME_CHARACTERS: Final = 400
# A batch of more than _LONG_TOKENS is processed in a worker thread. Each message counts as _TOKENS_A_MESSAGE tokens more.
_LONG_TOKENS: Final = 4_000
_TOKENS_A_MESSAGE: Final = 100


def choose_batch(
    candidates: Sequence[CompactionCandidate], size: int, up_to: int, *, partly: bool = True
) -> tuple[CompactionCandidate, ...]:
    """Return the next batch of about `size` messages that separates no call from its result. Empty if there is none.

    With `partly=False`, a batch of fewer than `size` messages is returned only if the next message may not be compacted, for
    example because it is compacted already.
    """
    messages = [candidate.message for candidate in candidates]
    taken = next((index for index, one in enumerate(candidates) if not one.is_free), len(candidates))
    end = next((index for index, one in enumerate(candidates[:taken]) if one.message.seq > up_to), taken)
    is_ended = taken < len(candidates) and end == taken
    cuts = [cut for cut in closed_cuts(messages) if 0 < cut <= end]
    if not cuts or (end < size and not partly and not is_ended):
        return ()
    return tuple(candidates[: min(cuts, key=lambda cut: (abs(cut - size), cut))])


class Compacting:
    """Compacts the messages of threads."""

    def __init__(self, store: "Store", core: Core, observer: Observer, *, counter: TokenCounter, clock: Clock) -> None:
        self._store, self._core, self._observer = store, core, observer
        self._counter, self._clock = counter, clock
        self._embedded = EmbeddedObserver(counter)
        self._under_way: set[tuple[str, str]] = set()

    # ------------------------------------------------------------ automatic, when a thread has enough newer messages

    def start_automatic(self, resource: str, thread: str, config: Config) -> None:
        """Compact old messages in the background, if `observe` is False and `compaction.automatic` is True."""
        if not config.observe and not config.read_only and config.compaction.automatic:
            self._core.runner.spawn(self.automatic(resource, thread, config))

    async def is_due(self, resource: str, thread: str, config: Config) -> bool:
        """Return whether `start_automatic` would compact messages."""
        if config.observe or config.read_only or not config.compaction.automatic:
            return False
        _, due = await self._store.compactions.due(resource, thread, keep=config.compaction.after)
        return due >= config.compaction.batch

    async def automatic(self, resource: str, thread: str, config: Config) -> None:
        """Compact old messages if `observe` is False and `compaction.automatic` is True, and wait for it."""
        keep, key = config.compaction.after, (resource, thread)
        if config.observe or config.read_only or not config.compaction.automatic or key in self._under_way:
            return
        self._under_way.add(key)
        try:
            after, due = await self._store.compactions.due(resource, thread, keep=keep)
            name, lasts = f"compact {thread[:_NAME_CHARACTERS]}", timedelta(seconds=config.lease)
            # If the lease cannot be acquired, another process is compacting this thread.
            if due >= config.compaction.batch and (
                lease := await self._store.leases.acquire(resource, name, self._core.owner, lasts=lasts)
            ):
                try:
                    await self.compact(resource, thread, config, keep=keep, after=after, partly=False, again=False)
                finally:
                    await self._store.leases.release(resource, lease)
        except Exception as error:  # noqa: BLE001 - a background task has no caller, so the error becomes an event
            self._core.bus.degraded(resource, thread, "compacting", error)
        finally:
            self._under_way.discard(key)

    # ------------------------------------------------------------ batches

    async def compact(
        self,
        resource: str,
        thread: str,
        config: Config,
        *,
        keep: int = 0,
        after: int = 0,
        up_to: int | None = None,
        covered: int = 0,
        partly: bool = True,
        again: bool = True,
    ) -> Compacted:
        """Compact the messages of a thread after number `after` and up to `up_to`, oldest first, without the newest `keep`.

        `covered` is the number of the last message that the log covers. With `again`, messages whose compaction was undone
        by `restore_compaction` are compacted again.
        """
        last = (await self._store.threads.get(resource, thread)).last_seq - keep
        end = last if up_to is None else min(last, up_to)
        made: list[Compaction] = []
        observed: dict[str, SummaryLine] = {}
        tries = 0
        while tries < _MOST_TRIES:
            batch = await self._next(resource, thread, config, after=after, end=end, partly=partly, again=again)
            if not batch:
                break
            messages = [one.message for one in batch if one.message.state == "live"]
            is_covered = messages[-1].seq <= covered
            try:
                compaction, lines = await self._one(resource, thread, messages, config, is_covered=is_covered)
            except Conflict:
                # Messages were compacted or withdrawn meanwhile, so read the batch again.
                tries += 1
                continue
            made.append(compaction)
            observed |= {line.id: line for line in lines}
            after = compaction.span.last
        deepened = await self._store.compactions.deepen(resource, thread, keep=config.compaction.deep_after)
        return Compacted(
            messages=sum(compaction.messages for compaction in made),
            summary="\n\n".join(compaction.summary for compaction in made),
            compactions=tuple(made),
            deepened=deepened,
            groups=tuple(dict.fromkeys(line.handle for line in observed.values())),
            observations=tuple(observed),
        )

    async def _next(
        self, resource: str, thread: str, config: Config, *, after: int, end: int, partly: bool, again: bool
    ) -> tuple[CompactionCandidate, ...]:
        """Return the next batch. Reads more and more messages until a batch can end."""
        size = config.compaction.batch
        limit = size + _LOOKED_AT
        while True:
            rows = await self._store.compactions.candidates(resource, thread, after=after, again=again, limit=limit)
            is_long = has_many_parts(row.message for row in rows)
            batch = await offload(partial(choose_batch, rows, size, end, partly=partly), when=is_long)
            if batch or len(rows) < limit or rows[-1].message.seq > end or limit >= _MOST_LOOKED_AT:
                return batch
            limit *= 4

    async def _one(
        self, resource: str, thread: str, live: Sequence[Message], config: Config, *, is_covered: bool
    ) -> tuple[Compaction, tuple[SummaryLine, ...]]:
        """Compact one batch. Return the compaction and the observations of the log about its messages."""
        span = Span(first=live[0].seq, last=live[-1].seq)
        shared = config.scope == "resource"
        observed: tuple[SummaryLine, ...] = ()
        if is_covered:
            observed = await self._store.compactions.noted(resource, thread, span, shared=shared)
        # A model has already observed the messages that the log covers, so no model is called for them again.
        lines = observed or await self._lines(resource, thread, live, config, may_ask=not is_covered)
        is_long = sum(message.tokens + _TOKENS_A_MESSAGE for message in live) > _LONG_TOKENS
        texts = await offload(self._texts, live, lines, config, when=is_long)
        now = self._clock.now()
        made = await self._store.compactions.compact(resource, thread, texts.rows, summary=texts.summary, now=now)
        await self._core.tell(
            CompactionMade(
                at=now,
                resource=resource,
                thread=thread,
                compaction=made.id,
                first_seq=span.first,
                last_seq=span.last,
                messages=made.messages,
                tokens_before=sum(message.tokens for message in live),
                tokens_after=self._counter.count(made.summary),
            )
        )
        return made, observed

    def _texts(self, live: Sequence[Message], lines: Sequence[SummaryLine], config: Config) -> CompactTexts:
        redactor = redactor_for(config)
        return compact_texts(messages_without_secrets(live, redactor), lines, self._counter, redactor)

    async def _lines(
        self, resource: str, thread: str, live: Sequence[Message], config: Config, *, may_ask: bool
    ) -> list[SummaryLine]:
        """Return the observer's lines about messages. The embedded observer is used if `may_ask` is False or the model fails."""
        redactor = redactor_for(config)
        given = ObserveInput(messages=await cleaned(live, redactor), mode=config.mode, redactor=redactor, alias=thread)
        ask = ModelCalls(self._store, resource, thread, (), config)
        try:
            if may_ask and self._observer.name != EmbeddedObserver.name:
                answer = (await self._observer.observe([given], ask))[0]
                if lines := _lines_of(answer):
                    return lines
        except (RunFault, BudgetSpent) as fault:
            self._core.bus.degraded(resource, thread, "summarising messages", fault)
        finally:
            if ask.usage is not None:
                await self._store.ledger.add(resource, replace(ask.usage, thread=thread))
        return _lines_of((await self._embedded.observe([given], ask))[0])


def _lines_of(answer: Observed) -> list[SummaryLine]:
    seqs = {shown.number: shown.seq for shown in answer.shown}
    return [
        SummaryLine(
            text=draft.text,
            seqs=tuple(seqs[number] for number in draft.cites if number in seqs) or tuple(seqs.values()),
            priority=draft.priority,
        )
        for draft in answer.parsed.observations
    ]
