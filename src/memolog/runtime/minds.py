"""Minds: what observes and reflects. One asks a model, one is embedded.

Knows how a question becomes a parsed answer. Knows no rows: what is asked about, and what becomes of an answer, is the thinker's.
"""

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol, TypeVar

from memolog.extractive import observe, reflect
from memolog.grounding import source_text
from memolog.prompt.build import (
    ObserveInput,
    Prompt,
    ReflectInput,
    observer_batch_prompt,
    observer_prompt,
    reflector_prompt,
)
from memolog.prompt.drafts import Parsed, ParsedReflection
from memolog.prompt.extracts import taken
from memolog.prompt.modes import Spoken, with_findings
from memolog.prompt.parse import failure, parse_batch, parse_observations
from memolog.prompt.redact import Redactor
from memolog.prompt.reflection import parse_reflection
from memolog.prompt.slices import joined, sliced
from memolog.prompt.transcript import Shown, split
from memolog.runtime.asking import Ask
from memolog.runtime.model import Model, ModelReply, ModelRequest, Purpose
from memolog.runtime.models import BudgetSpent, ModelPair
from memolog.runtime.reflection import gaps_of
from memolog.runtime.runner import RunFault
from memolog.tokens import TokenCounter

__all__ = ["ExtractiveMind", "Mind", "ModelMind", "Observed", "Reflected", "minds_of"]

_LEVELS: Final = 5
_TEMPERATURE: Final[dict[Purpose, float]] = {"observe": 0.3, "reflect": 0.0}
_EXTRACTIVE: Final = "extractive-1"
# Calls for one span that is too long for a prompt, at a time.
_CALLS: Final = 3

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """The answer about one span, and the prompt whose numbers it cites."""

    parsed: Parsed
    prompt: Prompt
    said: Mapping[str, str] | None = None
    """What it says about the values of the application, by key; None if nobody was asked."""
    fault: RunFault | None = None
    """Why there is no answer about this span, while there is one about another of the same call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reflected:
    """A valid answer of a reflector, and the prompt whose ids it merges."""

    parsed: ParsedReflection
    prompt: Prompt


class Mind(Protocol):
    """Observes and reflects."""

    @property
    def name(self) -> str:
        """Return how it is called in runs and the ledger."""
        ...

    async def observe(self, inputs: Sequence[ObserveInput], redactor: Redactor, ask: Ask) -> list[Observed]:
        """Return an answer for each span; raises RunFault if the whole of it cannot be used."""
        ...

    async def reflect(self, given: ReflectInput, ask: Ask, *, size: int, most: int) -> Reflected:
        """Return fewer lines than were given: below `size`, if possible below `most`; raises RunFault."""
        ...


class ExtractiveMind:
    """The embedded observer and reflector: no model, no key, no network, and nothing to pay."""

    name = "extractive"

    def __init__(self, counter: TokenCounter) -> None:
        self._counter = counter

    async def observe(self, inputs: Sequence[ObserveInput], redactor: Redactor, ask: Ask) -> list[Observed]:
        """Select and shorten what was said."""
        del redactor, ask  # What enters the log is redacted when the lines become observations.
        # A long span takes tens of milliseconds: more than a turn on the same loop should ever wait.
        return await asyncio.to_thread(lambda: [self._observed(given) for given in inputs])

    def _observed(self, given: ObserveInput) -> Observed:
        shown = tuple(
            Shown(number=number, thread=m.thread, seq=m.seq, role=m.role, at=m.created_at)
            for number, m in enumerate((m for m in given.messages if m.state == "live"), start=1)
        )
        prompt = Prompt(system="", text="", version=_EXTRACTIVE, shown=shown)
        live = [m for m in given.messages if m.state == "live"]
        spoken = [
            Spoken(number=number, at=m.created_at, text=source_text(m), is_tool=m.role == "tool")
            for number, m in enumerate(live, start=1)
            if m.role in {"assistant", "tool"} and not m.own
        ]
        return Observed(parsed=with_findings(observe(given, self._counter), spoken, given.mode), prompt=prompt)

    async def reflect(self, given: ReflectInput, ask: Ask, *, size: int, most: int) -> Reflected:
        """Merge, and drop what matters least."""
        del ask, most
        ids = {f"o{number}": observation.id for number, observation in enumerate(given.observations, 1)}
        parsed = await asyncio.to_thread(reflect, given, self._counter)
        length = sum(self._counter.count(line.text) for line in parsed.lines)
        if not 0 < length < size:
            raise RunFault("nothing can be left out without losing what was said", cause="incompressible")
        return Reflected(parsed=parsed, prompt=Prompt(system="", text="", version=_EXTRACTIVE, ids=ids))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Condensed:
    """A valid answer of the reflector, and what it was asked."""

    parsed: ParsedReflection
    prompt: Prompt
    given: ReflectInput
    tokens: int


class ModelMind:
    """Asks a model, and reads what it answers."""

    def __init__(self, observer: Model, reflector: Model, counter: TokenCounter) -> None:
        self._models: dict[Purpose, Model] = {"observe": observer, "reflect": reflector}
        self._counter = counter

    @property
    def name(self) -> str:
        """Return the name of the model that observes."""
        return self._models["observe"].name

    # ------------------------------------------------------------ observing

    async def observe(self, inputs: Sequence[ObserveInput], redactor: Redactor, ask: Ask) -> list[Observed]:
        """Ask about one span, or about several threads' short ones in one call."""
        if len(inputs) == 1:
            return [await self._observe_one(inputs[0], redactor, ask)]
        if any(given.wanted for given in inputs):
            return await self._observe_each(inputs, redactor, ask)
        prompt = observer_batch_prompt(inputs, self._counter, redactor=redactor)
        reply = await self._ask("observe", prompt, ask)
        threads = {given.alias: given.messages[0].thread for given in inputs}
        answers = parse_batch(
            reply.text, prompt.shown, aliases=threads, base=inputs[0].messages[0].created_at, zone=inputs[0].zone
        )
        return [Observed(parsed=answers.get(threads[given.alias], Parsed()), prompt=prompt) for given in inputs]

    async def _observe_each(self, inputs: Sequence[ObserveInput], redactor: Redactor, ask: Ask) -> list[Observed]:
        """Ask about each thread by itself, since values of the application belong to one; a failure keeps the other answers."""
        answers: list[Observed] = []
        away: RunFault | None = None
        for given in inputs:
            try:
                if away is not None:
                    raise away
                answers.append(await self._observe_one(given, redactor, ask))
            except RunFault as fault:
                # A model that is not there is not asked again in this call.
                away = fault if fault.cause != "answer" else None
                answers.append(Observed(parsed=Parsed(), prompt=Prompt(system="", text=""), fault=fault))
        if (first := answers[0].fault) is not None and all(answer.fault is not None for answer in answers):
            raise first
        return answers

    async def _observe_one(self, given: ObserveInput, redactor: Redactor, ask: Ask) -> Observed:
        """Ask about one span; one that is too long for a prompt in several calls, whose answers are joined."""
        messages = tuple(sliced(given.messages, given.most_tokens, self._counter))
        pieces = split(messages, given.most_tokens, counter=self._counter, zone=given.zone, redactor=redactor)
        gate, calls, first = asyncio.Semaphore(_CALLS), list[Coroutine[Any, Any, Observed]](), 1
        for piece in pieces:
            calls.append(self._observe_piece(replace(given, messages=piece), redactor, ask, first, gate))
            first += len(piece)
        answers = await _together(calls)
        if len(answers) == 1:
            return answers[0]
        shown = tuple(message for answer in answers for message in answer.prompt.shown)
        prompt = replace(answers[0].prompt, shown=shown)
        said = {key: text for answer in answers for key, text in (answer.said or {}).items()}
        return Observed(parsed=joined([answer.parsed for answer in answers]), prompt=prompt, said=said)

    async def _observe_piece(
        self, given: ObserveInput, redactor: Redactor, ask: Ask, first: int, gate: asyncio.Semaphore
    ) -> Observed:
        """Ask, and ask once more if the answer runs away."""
        prompt = observer_prompt(given, self._counter, redactor=redactor, first=first)
        parsed, said = Parsed(), dict[str, str]()
        for _ in range(2):
            async with gate:
                reply = await self._ask("observe", prompt, ask)
            text, said = taken(reply.text, [wanted.key for wanted in given.wanted])
            parsed = parse_observations(text, prompt.shown, base=given.messages[0].created_at, zone=given.zone)
            if not any(fault.kind == "degenerate" for fault in parsed.faults):
                break
        problem = None if parsed.nothing else failure(parsed)
        if problem is not None:
            raise RunFault(problem)
        return Observed(parsed=parsed, prompt=prompt, said=said)

    # ------------------------------------------------------------ reflecting

    async def reflect(self, given: ReflectInput, ask: Ask, *, size: int, most: int) -> Reflected:
        """Ask for less and less until it fits, then once more for what got lost."""
        best, problem = await self._condense(given, size, ask)
        if best is None:
            cause = "answer" if problem else "incompressible"
            raise RunFault(problem or "no answer was shorter than what it stands for", cause=cause)
        best = await self._ask_for_lost(best, most, size, ask)
        return Reflected(parsed=best.parsed, prompt=best.prompt)

    async def _condense(self, asked: ReflectInput, size: int, ask: Ask) -> tuple[_Condensed | None, str | None]:
        """Ask for less and less until it fits; returns the shortest valid answer, and the last fault."""
        best: _Condensed | None = None
        best_size, problem = size, None
        last = ""
        for level in range(_LEVELS):
            given = replace(asked, level=level)
            prompt = reflector_prompt(given)
            try:
                reply = await self._ask("reflect", prompt, ask)
            except (BudgetSpent, RunFault):
                if best is None:
                    raise
                # What is in hand is valid, if longer than it was meant to be.
                break
            if reply.text == last:
                break
            last = reply.text
            parsed = parse_reflection(reply.text, prompt.ids, asked.aliases.values())
            problem = failure(parsed)
            if problem is not None:
                continue
            length = self._length(parsed)
            # An empty or larger answer never takes the place of memory.
            if 0 < length < best_size:
                best = _Condensed(parsed=parsed, prompt=prompt, given=given, tokens=length)
                best_size = length
            if best is not None and best_size <= asked.target_tokens:
                break
        return best, problem

    async def _ask_for_lost(self, best: _Condensed, most: int, size: int, ask: Ask) -> _Condensed:
        """Ask once more for what the answer no longer says; returns the better of the two answers.

        An answer that says hardly anything of what it stands for is refused.
        """
        lines = best.given.observations
        # Comparing many lines takes a while: other turns of the loop go on meanwhile.
        gaps = await asyncio.to_thread(gaps_of, best.parsed.lines, best.prompt.ids, lines)
        if not gaps:
            return best
        given = replace(best.given, missing=gaps.names, omitted=gaps.omitted, vague=gaps.vague)
        prompt = reflector_prompt(given)
        try:
            reply = await self._ask("reflect", prompt, ask)
        except (BudgetSpent, RunFault):
            # The answer in hand is valid if it is not vague: code carries over what it omits.
            if gaps.vague:
                raise
            return best
        parsed = parse_reflection(reply.text, prompt.ids, given.aliases.values())
        length = self._length(parsed)
        omitted = {line.id: line for line in lines if line.id in set(gaps.omitted)}
        room = max(most, best.tokens) + sum(line.tokens for line in omitted.values())
        if failure(parsed) is None and 0 < length < size and (gaps.vague or length <= room):
            found = await asyncio.to_thread(gaps_of, parsed.lines, prompt.ids, lines)
            if found.size < gaps.size:
                gaps = found
                best = _Condensed(parsed=parsed, prompt=prompt, given=given, tokens=length)
        if gaps.vague:
            raise RunFault(f"a line stands for many others and says hardly anything of them: {gaps.vague[0][:200]}")
        return best

    def _length(self, parsed: ParsedReflection) -> int:
        return sum(self._counter.count(line.text) for line in parsed.lines)

    async def _ask(self, purpose: Purpose, prompt: Prompt, ask: Ask) -> ModelReply:
        request = ModelRequest(
            purpose=purpose,
            system=prompt.system,
            text=prompt.text,
            temperature=_TEMPERATURE[purpose],
            files=prompt.files,
        )
        return await ask(self._models[purpose], request)


async def _together(calls: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    """Return what all calls return; the first that fails ends the others."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(call) for call in calls]
    except ExceptionGroup as failed:
        raise failed.exceptions[0] from failed
    return [task.result() for task in tasks]


def minds_of(models: ModelPair, counter: TokenCounter) -> tuple[Mind, Mind]:
    """Return what observes and what reflects: a model where one is named, else the embedded rules."""
    embedded = ExtractiveMind(counter)
    return (
        ModelMind(models.observe, models.observe, counter) if models.observe else embedded,
        ModelMind(models.reflect, models.reflect, counter) if models.reflect else embedded,
    )
