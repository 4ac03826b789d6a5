"""Observe and reflect with a model or with the embedded rules, and return a parsed answer.

If a model fails several times on a span, the span is halved again and again to find the messages that the model refuses. A
line that says so replaces these messages. This happens inside the run that has claimed the span.
"""

import asyncio
import math
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from typing import Any, Final, Protocol, TypeAlias, TypeVar

from memolog.core.deadline import at_once, in_slices, offload
from memolog.core.message import Message, TextPart, has_many_parts
from memolog.core.observation import KEPT
from memolog.errors import MemologError
from memolog.log.decide import closed_ends
from memolog.log.runner import RunFault
from memolog.log.state import weights_of
from memolog.observer.drafts import Draft, FaultKind, Faults, HintsDraft, Parsed, ParsedReflection
from memolog.observer.extractive.observer import observing
from memolog.observer.extractive.reflector import reflecting
from memolog.observer.extractors import take_extracts
from memolog.observer.model import BudgetSpent, Model, ModelReply, ModelRequest, Purpose
from memolog.observer.model_choice import ModelPair
from memolog.observer.observations import gaps_of
from memolog.observer.plausibility import checking, finding_uncovered, in_order
from memolog.observer.prompt import (
    LEVELS,
    PROMPT_VERSION,
    ObserveInput,
    Prompt,
    ReflectInput,
    observer_batch_prompt,
    observer_prompt,
    reflector_prompt,
    with_findings,
)
from memolog.observer.reply import failure, parse_batch, parse_observations, parse_reflection
from memolog.observer.transcript import Shown, in_zone, numbered, split, units
from memolog.text.cut import cut
from memolog.text.tokens import TokenCounter

# The maximum tokens of an answer are this number plus a share of the tokens of the prompt.
_LEAST_REPLY: Final = 1_000
_REPLY_SHARE: Final[dict[Purpose, float]] = {"observe": 0.5, "reflect": 1.0}
# After one of these faults the model is asked a second time, because the second answer often does not have the fault.
_PASSING: Final[frozenset[FaultKind]] = frozenset({"degenerate", "cut_off", "echo", "copied", "unfounded", "too_large"})
# The prompt and the answer about a span or a log with more tokens are written and checked in a worker thread.
_LONG_TOKENS: Final = 10_000
_LONG_LOG: Final = 4_000
# An answer of a reflector that is longer than its target is still used if it has at most this share of the condensed lines.
_CONDENSED: Final = 0.75
_TEMPERATURE: Final[dict[Purpose, float]] = {"observe": 0.3, "reflect": 0.0}
_EXTRACTIVE: Final = "extractive-1"
# Maximum number of concurrent calls for one span that is too long for one prompt.
_CALLS: Final = 3

T = TypeVar("T")
Ask: TypeAlias = Callable[[Model, ModelRequest], Awaitable[ModelReply]]
"""A function that calls a model for a run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """The answer about one span."""

    parsed: Parsed
    shown: tuple[Shown, ...] = ()
    """The messages with the numbers that the answer cites."""
    version: str = PROMPT_VERSION
    """The version of the prompt."""
    said: Mapping[str, str] | None = None
    """Extracted values of the application by key; None if no model was asked."""
    fault: RunFault | None = None
    """The reason why this span has no answer, if a call about several spans failed for this span only."""
    last_seq: int | None = None
    """The number of the last message that the answer covers, if the answer was cut off before the end of the span."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reflected:
    """The answer of a reflector."""

    parsed: ParsedReflection
    version: str = PROMPT_VERSION
    level: int = 0
    """The level of strictness of the prompt. A higher level asks for a shorter answer."""


class Observer(Protocol):
    """Observes and reflects."""

    @property
    def name(self) -> str:
        """Return the name that runs and the ledger store."""
        ...

    async def observe(self, inputs: Sequence[ObserveInput], ask: Ask) -> list[Observed]:
        """Return an answer for each span. Raises RunFault if there is one span and no usable answer about it."""
        ...

    async def reflect(self, given: ReflectInput, ask: Ask, *, size: int, most: int) -> Reflected:
        """Return condensed lines with fewer tokens than `size`. Raises RunFault if that fails.

        `most` is the approximate maximum of tokens of a second answer, which adds details that the first answer lost.
        """
        ...


def observers_of(models: ModelPair, counter: TokenCounter) -> tuple[Observer, Observer]:
    """Return the observer and the reflector. Each uses its model in `models`, or the embedded rules if that is None."""
    embedded = EmbeddedObserver(counter)
    return (
        _ModelObserver(models.observe, counter) if models.observe else embedded,
        _ModelObserver(models.reflect, counter) if models.reflect else embedded,
    )


# ---------------------------------------------------------------- the embedded observer


class EmbeddedObserver:
    """Observes and reflects by rules, without a model or a network."""

    name = "extractive"

    def __init__(self, counter: TokenCounter) -> None:
        self._counter = counter

    async def observe(self, inputs: Sequence[ObserveInput], ask: Ask) -> list[Observed]:
        """Select and shorten sentences of the messages."""
        del ask
        return [await in_slices(_embedded(given), apart=has_many_parts(given.messages)) for given in inputs]

    async def reflect(self, given: ReflectInput, ask: Ask, *, size: int, most: int) -> Reflected:
        """Merge lines, and drop the least important ones."""
        del ask, most
        parsed = await in_slices(reflecting(given, self._counter))
        length = parsed.tokens(self._counter)
        if not 0 < length < size:
            raise RunFault("the log cannot be condensed without losing statements of users", cause="incompressible")
        return Reflected(parsed=parsed, version=_EXTRACTIVE)


def _embedded(given: ObserveInput) -> Generator[None, None, Observed]:
    live = [message for message in given.messages if message.state == "live"]
    parsed = with_findings((yield from observing(given)), live, given.mode)
    yield
    return Observed(parsed=parsed, shown=numbered(live), version=_EXTRACTIVE)


def readings_of(given: ObserveInput, messages: Sequence[Message]) -> dict[tuple[str, int], str]:
    """Return the lines of the embedded observer about users' messages, by thread and message number.

    They replace a "yes" or "the second one" by its meaning. So a line with this meaning is recognised as the user's statement.
    """
    observed = at_once(_embedded(replace(given, messages=tuple(messages), wanted=())))
    places = {shown.number: (shown.thread, shown.seq) for shown in observed.shown if shown.role == "user"}
    found: dict[tuple[str, int], str] = {}
    for draft in observed.parsed.observations:
        if draft.text.startswith("User"):
            for place in (places[number] for number in draft.cites if number in places):
                found[place] = f"{found.get(place, '')}\n{draft.text}".strip()
    return found


def embedded_statements(given: ObserveInput, messages: Sequence[Message]) -> Observed:
    """Return the statements of users that the embedded observer finds, marked with its name."""
    found = at_once(embedded_answer(given, messages))
    stated = (replace(draft, parent=None) for draft in found.parsed.observations if draft.priority in KEPT)
    return replace(found, parsed=Parsed(observations=tuple(stated)))


def embedded_answer(given: ObserveInput, messages: Sequence[Message]) -> Generator[None, None, Observed]:
    """Observe messages with the embedded observer instead of a model, and mark the lines with the name of this observer."""
    found = yield from _embedded(replace(given, messages=tuple(messages), wanted=()))
    drafts = tuple(
        replace(draft, metadata={**draft.metadata, "observer": EmbeddedObserver.name})
        for draft in found.parsed.observations
    )
    return replace(found, parsed=replace(found.parsed, observations=drafts))


# ---------------------------------------------------------------- a model as the observer


class _ModelObserver:
    def __init__(self, model: Model, counter: TokenCounter) -> None:
        self._model, self._counter = model, counter

    @property
    def name(self) -> str:
        return self._model.name

    # ------------------------------------------------------------ observing

    async def observe(self, inputs: Sequence[ObserveInput], ask: Ask) -> list[Observed]:
        """Ask about one span, or about short spans of several threads in one call."""
        if len(inputs) == 1:
            return [await self._observe_one(inputs[0], ask)]
        if any(given.wanted for given in inputs):
            return await self._observe_each(inputs, ask)
        is_long = sum(message.tokens for given in inputs for message in given.messages) > _LONG_TOKENS
        prompt = await offload(observer_batch_prompt, inputs, self._counter, when=is_long)
        reply = await self._ask("observe", prompt, ask)
        threads = {given.alias: given.messages[0].thread for given in inputs}
        base = in_zone(inputs[0].messages[0].created_at, inputs[0].zone)
        parse = partial(parse_batch, reply.text, prompt.shown, aliases=threads, base=base)
        answers = await offload(parse, when=is_long)
        observed: list[Observed] = []
        for given in inputs:
            parsed = answers.get(threads[given.alias], Parsed())
            parsed = await in_slices(
                checking(parsed, "", given, prompt, self._counter), apart=has_many_parts(given.messages)
            )
            answer = Observed(parsed=parsed, shown=prompt.shown)
            if "cut_off" in parsed.faults:
                # A later call observes this thread alone.
                fault = RunFault("the answer was cut off inside the section of this thread")
                answer = Observed(parsed=Parsed(), fault=fault)
            elif failure(parsed) is None:
                answer = await self._completed(answer, given, ask)
            observed.append(answer)
        return observed

    async def _observe_each(self, inputs: Sequence[ObserveInput], ask: Ask) -> list[Observed]:
        """Ask about each thread alone, because an extracted value belongs to one thread.

        If all threads fail, the first fault is raised. Otherwise a fault is part of the answer for its thread.
        """
        answers: list[Observed] = []
        away: RunFault | None = None
        for given in inputs:
            try:
                if away is not None:
                    raise away
                answers.append(await self._observe_one(given, ask))
            except RunFault as fault:
                # If the call itself failed, and not only its answer, the other threads get the same fault without a call.
                away = fault if fault.cause != "answer" else None
                answers.append(Observed(parsed=Parsed(), fault=fault))
        if (first := answers[0].fault) is not None and all(answer.fault is not None for answer in answers):
            raise first
        return answers

    async def _observe_one(self, given: ObserveInput, ask: Ask) -> Observed:
        """Ask about one span, in several calls if the span is too long for one prompt."""
        messages = tuple(_sliced(given.messages, given.most_tokens, self._counter))
        pieces = await self._apart(given, split, messages, given.writer(self._counter, given.most_tokens))
        gate, calls, first = asyncio.Semaphore(_CALLS), list[Coroutine[Any, Any, Observed]](), 1

        async def gated(model: Model, request: ModelRequest) -> ModelReply:
            async with gate:
                return await ask(model, request)

        for piece in pieces:
            calls.append(self._observe_piece(replace(given, messages=piece), gated, first))
            first += len(piece)
        answers = await _gathered(calls)
        if len(answers) == 1:
            return answers[0]
        end = next((number for number, answer in enumerate(answers) if answer.last_seq is not None), len(answers) - 1)
        # Only the answers up to the first one that was cut off are used. A later run observes the messages after it.
        return replace(join_answers(answers[: end + 1]), last_seq=answers[end].last_seq)

    async def _observe_piece(self, given: ObserveInput, ask: Ask, first: int) -> Observed:
        """Ask about one piece, and then ask for statements of users that are missing in the answer.

        The first question is asked twice if the answer was cut off, or is unusable because of a fault in `_PASSING`.
        """
        prompt = await self._apart(given, partial(observer_prompt, given, self._counter, first=first))
        parsed, said, reply = Parsed(), dict[str, str](), ModelReply(text="")
        before: Parsed | None = None
        for attempt in range(2):
            reply, parsed, said = await self._observed(given, prompt, ask, times=1 + attempt)
            if "cut_off" not in parsed.faults and (failure(parsed) is None or not parsed.faults.keys() & _PASSING):
                break
            if attempt == 0:
                before = parsed
        if before is not None and _reach(before) > _reach(parsed):
            # Use the first answer, because it covers more messages. Both answers were cut off, or the second is unusable.
            parsed = before
        problem = failure(parsed)
        if problem is not None:
            raise RunFault(problem, declines=_declines(reply, parsed))
        observed = Observed(parsed=parsed, shown=prompt.shown, said=said)
        if "cut_off" in parsed.faults:
            observed, given = _before_cut(observed, given)
        return await self._completed(observed, given, ask)

    async def _observed(
        self, given: ObserveInput, prompt: Prompt, ask: Ask, times: int = 1
    ) -> tuple[ModelReply, Parsed, dict[str, str]]:
        """Return the reply of the model, its checked lines, and the extracted values by key."""
        reply = await self._ask("observe", prompt, ask, times)
        text, said = take_extracts(reply.text, [wanted.key for wanted, _ in given.wanted])
        start = in_zone(given.messages[0].created_at, given.zone)
        parse = partial(parse_observations, text, prompt.shown, base=start, is_cut_off=reply.is_cut_off)
        parsed = await self._apart(given, parse)
        checked = checking(parsed, text, given, prompt, self._counter)
        return reply, await in_slices(checked, apart=has_many_parts(given.messages)), said

    async def _completed(self, observed: Observed, given: ObserveInput, ask: Ask) -> Observed:
        """Add statements of users that are missing in an answer. Ask once more for them, then use the embedded observer."""
        has_many = has_many_parts(given.messages)
        missing = await in_slices(finding_uncovered(observed.parsed, given, observed.shown), apart=has_many)
        if not missing:
            return observed
        asked = replace(given, messages=missing, wanted=(), document=None)
        first = max((shown.number for shown in observed.shown), default=0) + 1
        prompt = observer_prompt(asked, self._counter, first=first)
        try:
            _, again, _ = await self._observed(asked, prompt, ask)
        except (BudgetSpent, RunFault):
            # The first answer stays usable. Below, the embedded observer adds the missing statements.
            again = Parsed()
        if failure(again) is None and again.observations:
            answer = replace(again, hints=HintsDraft())
            observed = _with_more(observed, Observed(parsed=answer, shown=prompt.shown))
            missing = await in_slices(finding_uncovered(again, asked, prompt.shown), apart=has_many)
        if missing:
            observed = _with_more(observed, await in_slices(embedded_answer(given, missing), apart=has_many))
            observed.parsed.faults.note("uncovered", f"{len(missing)} messages")
        return observed

    async def _apart(self, given: ObserveInput, work: Callable[..., T], *arguments: object) -> T:
        """Call a function after other tasks of the event loop. If the span is long, call it in a worker thread."""
        is_long = sum(message.tokens for message in given.messages) > _LONG_TOKENS
        if not is_long:
            await asyncio.sleep(0)
        return await offload(work, *arguments, when=is_long)

    # ------------------------------------------------------------ reflecting

    async def reflect(self, given: ReflectInput, ask: Ask, *, size: int, most: int) -> Reflected:
        """Ask for shorter and shorter answers until one is short enough, then once more for details that this answer lost."""
        best, problem = await self._condense(given, size, ask, most)
        if best is None:
            cause = "answer" if problem else "incompressible"
            raise RunFault(problem or "no answer was shorter than the lines that it replaces", cause=cause)
        return await self._ask_for_lost(best, given, most, size, ask)

    async def _condense(
        self, asked: ReflectInput, size: int, ask: Ask, most: int
    ) -> tuple[Reflected | None, str | None]:
        """Return the shortest valid answer (None if there is none), and the problem of the last answer (None if it was valid)."""
        # Another answer costs as much as the next reflection. An answer that is a little too long only lets that come earlier.
        enough = max(asked.target_tokens, min(most, round(size * _CONDENSED)))
        best: Reflected | None = None
        best_size, problem = size, None
        last = ""
        for level in LEVELS:
            try:
                text, answer = await self._reflected(replace(asked, level=level), ask)
            except (BudgetSpent, RunFault):
                if best is None:
                    raise
                # The best answer until now is valid, but longer than the target.
                break
            if text == last:
                break
            last, problem = text, failure(answer.parsed)
            if problem is not None:
                continue
            length = answer.parsed.tokens(self._counter)
            # An answer that is empty, or not shorter than the lines, is never used.
            if 0 < length < best_size:
                best, best_size = answer, length
            if best is not None and best_size <= enough:
                break
        return best, problem

    async def _ask_for_lost(self, best: Reflected, given: ReflectInput, most: int, size: int, ask: Ask) -> Reflected:
        """Ask once more for details that `best` lost, and return the better answer. Raises RunFault if this answer is vague."""
        lines = given.observations
        gaps = await in_slices(gaps_of(best.parsed.lines, lines))
        if not gaps:
            return best
        try:
            _, answer = await self._reflected(replace(given, level=best.level, gaps=gaps), ask)
        except (BudgetSpent, RunFault):
            # If the first answer is not vague, it is used. The loss guard adds the lost lines to it.
            if gaps.vague:
                raise
            return best
        length = answer.parsed.tokens(self._counter)
        omitted = set(gaps.omitted)
        room = max(most, best.parsed.tokens(self._counter)) + sum(line.tokens for line in lines if line.id in omitted)
        if failure(answer.parsed) is None and 0 < length < size and (gaps.vague or length <= room):
            found = await in_slices(gaps_of(answer.parsed.lines, lines))
            if found.size < gaps.size:
                gaps, best = found, answer
        if gaps.vague:
            raise RunFault(f"a line replaces many others but has hardly any of their details: {gaps.vague[0][:200]}")
        return best

    async def _reflected(self, given: ReflectInput, ask: Ask) -> tuple[str, Reflected]:
        """Return the text of an answer, and the parsed answer, which may be unusable."""
        is_long = sum(line.tokens for line in given.observations) > _LONG_LOG
        reply = await self._ask("reflect", await offload(reflector_prompt, given, when=is_long), ask)
        aliases, count = given.aliases.values(), len(given.observations)
        parse = partial(parse_reflection, reply.text, count, aliases, is_cut_off=reply.is_cut_off)
        parsed = await offload(parse, when=is_long)
        return reply.text, Reflected(parsed=parsed, level=given.level)

    async def _ask(self, purpose: Purpose, prompt: Prompt, ask: Ask, times: int = 1) -> ModelReply:
        """Call the model. `times` multiplies the usual maximum length of an answer."""
        most = _LEAST_REPLY + int(self._counter.count(prompt.text) * _REPLY_SHARE[purpose])
        request = ModelRequest(
            purpose=purpose,
            system=prompt.system,
            text=prompt.text,
            temperature=_TEMPERATURE[purpose],
            max_tokens=most * times,
            files=prompt.files,
        )
        return await ask(self._model, request)


def _declines(reply: ModelReply, parsed: Parsed) -> bool:
    """Return whether the model refused the content. An empty answer counts, because content filters of providers return one."""
    return reply.finish_reason == "content_filter" or not reply.text.strip() or "refusal" in parsed.faults


def _reach(parsed: Parsed) -> float:
    """Return the number of the last message that an answer covers: -1 if it is unusable, infinite if it was not cut off."""
    if failure(parsed) is not None:
        return -1
    last = max((number for draft in parsed.observations for number in draft.cites), default=0)
    return last if "cut_off" in parsed.faults else math.inf


def _before_cut(observed: Observed, given: ObserveInput) -> tuple[Observed, ObserveInput]:
    """Return a cut-off answer and the input, both limited to the messages that the answer covers.

    A tool call and its result stay together. Raises RunFault if the answer covers no message, or only a call without its result.
    """
    numbers = {shown.number: (shown.thread, shown.seq) for shown in observed.shown}
    last = _reach(observed.parsed)
    places = {(message.thread, message.seq): place for place, message in enumerate(given.messages)}
    reached = places.get(numbers.get(int(last), ("", 0)), -1)
    ends = [end for end in closed_ends(weights_of(given.messages)) if end <= reached]
    if reached == len(given.messages) - 1:
        return observed, given
    if not ends:
        raise RunFault("the answer was cut off before it covered a whole message")
    messages = given.messages[: ends[-1] + 1]
    seqs = {(message.thread, message.seq) for message in messages}
    known = {number for number, place in numbers.items() if place in seqs}
    drafts = observed.parsed.observations
    # The first line that cites a later message and all lines after it are dropped. A later run observes these messages.
    end = next((place for place, draft in enumerate(drafts) if not known.issuperset(draft.cites)), len(drafts))
    parsed = replace(observed.parsed, observations=drafts[:end], hints=HintsDraft())
    shown = tuple(one for one in observed.shown if one.number in known)
    limited = replace(observed, parsed=parsed, shown=shown, last_seq=messages[-1].seq)
    return limited, replace(given, messages=messages)


def join_answers(answers: Sequence[Observed]) -> Observed:
    """Join answers about one span into one answer with all lines, all faults, and the newest hints and working memory.

    The messages and the citations are renumbered, so that no two messages have the same number.
    """
    shown, drafts = list[Shown](), list[Draft]()
    faults, hints = Faults(), HintsDraft()
    for answer in answers:
        offset, start, new = max((s.number for s in shown), default=0), len(drafts), answer.parsed.hints
        shown += [replace(s, number=s.number + offset) for s in answer.shown]
        for draft in answer.parsed.observations:
            parent = None if draft.parent is None else draft.parent + start
            drafts.append(replace(draft, parent=parent, cites=tuple(number + offset for number in draft.cites)))
        faults = Faults({**answer.parsed.faults, **faults})
        with_task = hints if new.current_task is None else new
        hints = HintsDraft(
            current_task=with_task.current_task,
            at=with_task.at,
            suggested_response=new.suggested_response,
            title=new.title or hints.title,
            # Each is the whole text, so they cannot be joined.
            working_memory=hints.working_memory if new.working_memory is None else new.working_memory,
        )
    said = {key: text for answer in answers for key, text in (answer.said or {}).items()}
    is_nothing = all(answer.parsed.nothing for answer in answers)
    parsed = Parsed(observations=tuple(drafts), hints=hints, faults=faults, nothing=is_nothing)
    return Observed(parsed=parsed, shown=tuple(shown), version=answers[0].version, said=said)


def _with_more(observed: Observed, more: Observed) -> Observed:
    """Add lines about the same messages to an answer, ordered by message. The hints of `observed` stay."""
    both = join_answers([observed, more])
    drafts = in_order(both.parsed.observations)
    parsed = replace(both.parsed, observations=drafts, hints=observed.parsed.hints, nothing=not drafts)
    return replace(observed, parsed=parsed, shown=both.shown)


async def _gathered(calls: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    """Return the results of all calls. The first failure cancels the other calls."""
    if len(calls) == 1:
        return [await calls[0]]
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(call) for call in calls]
    except ExceptionGroup as failed:
        raise failed.exceptions[0] from failed
    return [task.result() for task in tasks]


# ---------------------------------------------------------------- slices of long messages

_MOST_SLICES: Final = 12
"""A message is cut into at most this many slices. If a slice is then too long for a prompt, its middle is left out."""
_SHARE: Final = 0.9
"""The share of a prompt that a slice may fill. Tags, dates and escapes need the rest."""


def _sliced(messages: Sequence[Message], most_tokens: int, counter: TokenCounter) -> Iterator[Message]:
    """Yield the messages. A message with more text than fits in one prompt is yielded in slices with the same number and time.

    Tool calls and results are not sliced, because a prompt shows only a limited part of them.
    """
    for message in messages:
        texts = [part.text for part in message.parts if isinstance(part, TextPart)]
        if message.own or counter.count("\n".join(texts)) <= most_tokens:
            yield message
            continue
        text, others = "\n".join(texts), tuple(part for part in message.parts if not isinstance(part, TextPart))
        for number, piece in enumerate(_pieces(text, most_tokens, counter)):
            parts = (TextPart(text=piece), *others) if not number else (TextPart(text=piece),)
            yield replace(message, parts=parts, continuation=message.continuation + number)


def _pieces(text: str, most_tokens: int, counter: TokenCounter) -> Iterator[str]:
    tokens = counter.count(text)
    number = min(_MOST_SLICES, -(-tokens // max(1, int(most_tokens * _SHARE))))
    size = -(-len(text) // number)
    while text:
        end = _end(text, size)
        yield text[:end]
        text = text[end:]


def _end(text: str, size: int) -> int:
    """Return where to cut a text: after a paragraph, line or word in the last quarter of `size`, else between two graphemes."""
    if len(text) <= size:
        return len(text)
    for mark in ("\n\n", "\n", " "):
        found = text.rfind(mark, size * 3 // 4, size)
        if found > 0:
            return found + len(mark)
    return len(cut(text, size)) or size


# ---------------------------------------------------------------- divided spans

TRIES: Final = 4
"""A span is tried as a whole this many times, with growing delays, before it is divided."""
_TRIES_AWAY: Final = 7
"""After this many attempts, messages for which the model could not be reached are left to the embedded observer."""
_MOST_CALLS: Final = 32
"""Maximum number of calls for one span. Far fewer are enough to find a single refused message."""
_STAND_IN: Final = "What was said here could not be observed; recall has the exact words"

Units: TypeAlias = Sequence[Sequence[Message]]


@dataclass(frozen=True, slots=True, kw_only=True)
class DividedAnswer:
    """The joined answers about a divided span, and the number of messages that the model did not observe."""

    observed: Observed
    missing: int = 0
    """The number of messages that the model refused. One line replaces neighbouring refused messages."""
    embedded: int = 0
    """The number of messages that the embedded observer observed, because no answer about them was usable."""
    error: str = ""
    """The first fault; empty if the model observed all messages."""


@dataclass(slots=True, kw_only=True)
class _Part:
    first: int
    units: Units
    answer: Observed | None = None
    fault: RunFault | None = None

    @property
    def messages(self) -> tuple[Message, ...]:
        return tuple(message for unit in self.units for message in unit)

    def halves(self) -> "tuple[_Part, _Part]":
        middle = len(self.units) // 2
        second = _Part(first=self.first + middle, units=self.units[middle:], fault=self.fault)
        return _Part(first=self.first, units=self.units[:middle], fault=self.fault), second


async def observe_in_parts(
    observer: Observer,
    given: ObserveInput,
    ask: Ask,
    *,
    attempt: int,
    is_alive: bool,
) -> DividedAnswer:
    """Observe a span in halves, quarters and so on. A single message that the model refuses is replaced by a line that says so.

    `is_alive` is True if the model has answered about other spans meanwhile. If neither half has a usable answer, the fault of
    the second half decides:
    - The answer is unusable: the embedded observer observes the whole span. A refusal counts as unusable unless `is_alive`.
    - The call failed: the fault is raised unless `is_alive`.
    - In all other cases the halves are divided further.
    """
    whole = _Part(first=0, units=list(units(given.messages)))
    todo = deque(whole.halves() if len(whole.units) > 1 else (whole,))
    least = len(todo)
    done: list[_Part] = []
    has_answered, calls = False, 0
    while todo:
        part = todo.popleft()
        if calls < _MOST_CALLS:
            calls += 1
            await _ask(part, observer, given, ask)
        has_answered = has_answered or part.answer is not None
        if calls == least and part.fault is not None and not has_answered:
            if part.fault.cause == "answer" and not (part.fault.declines and is_alive):
                # The model answers, but no answer is usable.
                whole.fault = RunFault(str(part.fault))
                return await _joined([whole], given, attempt)
            if not is_alive:
                raise part.fault
        if part.answer is None and len(part.units) > 1 and calls < _MOST_CALLS:
            todo.extend(part.halves())
        else:
            done.append(part)
    return await _joined(sorted(done, key=lambda part: part.first), given, attempt)


async def _ask(part: _Part, observer: Observer, given: ObserveInput, ask: Ask) -> None:
    try:
        answer = (await observer.observe([replace(given, messages=part.messages)], ask))[0]
    except RunFault as fault:
        part.fault = fault
    except MemologError:
        # Smaller parts do not help against a spent budget or a lost database.
        raise
    except Exception as error:  # noqa: BLE001 - an unexpected error must not stop the log
        part.fault = RunFault(f"{type(error).__name__}: {error}", cause="refused")
    else:
        problem = None if answer.parsed.nothing else failure(answer.parsed)
        if answer.last_seq is not None:
            problem = "the answer was cut off and covers only the first messages"
        part.answer, part.fault = (answer, None) if problem is None else (None, RunFault(problem))


async def _joined(parts: Sequence[_Part], given: ObserveInput, attempt: int) -> DividedAnswer:
    """Join the answers of all parts in their order, and add a replacement for parts without an answer.

    Neighbouring parts that the model refused get one line that says so. The embedded observer is not used for them, because it
    would copy the refused words into the log, and the model is shown the log. All other parts without an answer are observed by
    the embedded observer. Raises the fault of a part if a later attempt may succeed.
    """
    answers: list[Observed] = []
    missing, embedded, error = 0, 0, ""
    for is_refused, group in groupby(parts, key=_is_refused):
        neighbours = list(group)
        messages = [message for part in neighbours for message in part.messages]
        if is_refused is None:
            answers += [part.answer for part in neighbours if part.answer is not None]
            continue
        for fault in (part.fault for part in neighbours if part.fault is not None):
            if fault.cause == "denied" or (fault.cause == "away" and attempt <= _TRIES_AWAY):
                raise fault
            error = error or str(fault)
        if is_refused:
            missing += len(messages)
            answers.append(_stand_in(messages, given))
        else:
            embedded += len(messages)
            answers.append(await in_slices(embedded_answer(given, messages), apart=has_many_parts(messages)))
    return DividedAnswer(observed=join_answers(answers), missing=missing, embedded=embedded, error=error)


def _is_refused(part: _Part) -> bool | None:
    """Return whether the model refused the words of a part; None if the part has an answer."""
    if part.answer is not None:
        return None
    return part.fault is None or part.fault.is_about_words


def _stand_in(messages: Sequence[Message], given: ObserveInput) -> Observed:
    """Return an answer with one line, which says that these messages could not be observed and cites them."""
    shown = numbered(messages, given.zone)
    draft = Draft(priority="medium", text=_STAND_IN, said_at=shown[0].at, cites=tuple(s.number for s in shown))
    return Observed(parsed=Parsed(observations=(draft,)), shown=shown)
