"""Thinking: from a claimed run to what it makes, through a prompt, a model and a parser.

Knows which rows a run is about. A run's inputs are fixed in its row, so whoever takes it over asks the same question.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, timedelta, timezone, tzinfo
from typing import Final
from zoneinfo import ZoneInfo

from memolog.config import Config
from memolog.domain.errors import LeaseLost
from memolog.domain.message import Message
from memolog.domain.observation import Observation
from memolog.domain.run import Usage
from memolog.prompt.build import (
    ObserveInput,
    Prompt,
    ReflectInput,
    observer_batch_prompt,
    observer_prompt,
    reflector_prompt,
)
from memolog.prompt.drafts import Parsed, ParsedReflection
from memolog.prompt.parse import failure, parse_batch, parse_observations
from memolog.prompt.reflection import parse_reflection
from memolog.runtime.drafting import draft_hints, observations_from, reflections_from
from memolog.runtime.model import Model, ModelReply, ModelRequest, Purpose
from memolog.runtime.runner import RunFault, Thought
from memolog.store import Store
from memolog.store.runs import Claim, Made, Work
from memolog.tokens import TokenCounter

__all__ = ["ModelThinker"]

_LEVELS: Final = 5
_TEMPERATURE: Final[dict[Purpose, float]] = {"observe": 0.3, "reflect": 0.0}
# The log's end that an observer is shown is cut to its size; reading a few more lines than that costs nothing.
_SHOWN_GROUPS: Final = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class _Task:
    """One run with what it is about."""

    claim: Claim
    work: Work
    messages: tuple[Message, ...]
    given: ObserveInput


class ModelThinker:
    """Carries out runs by asking a model."""

    def __init__(self, store: Store, model: Model, *, counter: TokenCounter) -> None:
        self._store, self._model, self._counter = store, model, counter

    async def think(self, resource: str, claims: Sequence[Claim], config: Config) -> tuple[Thought, ...]:
        """Return what each claimed run came to."""
        found = [(claim, await self._work(resource, claim)) for claim in claims]
        if found[0][1].run.kind == "reflect":
            return (await self._reflect(*found[0], config),)
        tasks = [await self._task(resource, claim, work, config) for claim, work in found]
        silent = [task for task in tasks if not task.messages]
        spoken = [task for task in tasks if task.messages]
        thoughts = [self._thought(task, Parsed(nothing=True), None, "") for task in silent]
        if spoken:
            thoughts += await self._observe(spoken, config)
        return tuple(thoughts)

    async def _work(self, resource: str, claim: Claim) -> Work:
        work = await self._store.runs.work(resource, claim.run)
        if work is None:
            # The thread was deleted while the run was on its way: there is nothing left to think about.
            raise LeaseLost(claim.run, claim.owner, claim.fence)
        return work

    # ------------------------------------------------------------ observing

    async def _task(self, resource: str, claim: Claim, work: Work, config: Config) -> _Task:
        run = work.run
        if run.thread is None or run.span is None:
            raise RunFault("the run has no span")
        rows = await self._store.messages.span(resource, run.thread, run.span)
        messages = tuple(message for message in rows if message.state == "live")
        thread = await self._store.threads.get(resource, run.thread)
        inputs = run.inputs
        groups = await self._store.logs.groups_at(
            work.log_pk, int(inputs.get("generation", 0)), entries=int(inputs.get("entries", 0))
        )
        given = ObserveInput(
            messages=messages,
            previous="\n".join(group.text for group in groups[-_SHOWN_GROUPS:] if group.text),
            previous_tokens=config.observation.previous_tokens,
            hints=thread.hints,
            mode=config.mode,
            zone=_zone(messages),
            alias=run.thread,
        )
        return _Task(claim=claim, work=work, messages=messages, given=given)

    async def _observe(self, tasks: Sequence[_Task], config: Config) -> list[Thought]:
        del config
        if len(tasks) == 1:
            task = tasks[0]
            prompt = observer_prompt(task.given, self._counter)
            parsed, usage, problem = await self._ask_observer(prompt, task.given)
            if problem is not None:
                raise RunFault(problem, usage)
            return [self._thought(task, parsed, usage, prompt.version, prompt)]
        named = [replace(task.given, alias=f"c{number}") for number, task in enumerate(tasks, start=1)]
        prompt = observer_batch_prompt(named, self._counter)
        reply = await self._ask("observe", prompt)
        answers = parse_batch(
            reply.text,
            prompt.shown,
            aliases={given.alias: task.given.alias for given, task in zip(named, tasks, strict=True)},
            base=tasks[0].messages[0].created_at,
            zone=named[0].zone,
        )
        thoughts: list[Thought] = []
        for number, task in enumerate(tasks):
            parsed = answers.get(task.given.alias, Parsed())
            # One call, one bill: the first run carries it.
            usage = reply.usage if number == 0 else None
            thoughts.append(self._thought(task, parsed, usage, prompt.version, prompt))
        return thoughts

    async def _ask_observer(self, prompt: Prompt, given: ObserveInput) -> tuple[Parsed, Usage | None, str | None]:
        """Ask, and ask once more if the answer runs away; returns what was said, what it cost, and what is wrong."""
        spent: Usage | None = None
        parsed, problem = Parsed(), None
        for _ in range(2):
            reply = await self._ask("observe", prompt)
            spent = _sum(spent, reply.usage)
            parsed = parse_observations(reply.text, prompt.shown, base=given.messages[0].created_at, zone=given.zone)
            problem = failure(parsed)
            if not any(fault.kind == "degenerate" for fault in parsed.faults):
                break
        return parsed, spent, problem

    def _thought(
        self, task: _Task, parsed: Parsed, usage: Usage | None, version: str, prompt: Prompt | None = None
    ) -> Thought:
        run = task.work.run
        problem = None if parsed.nothing else failure(parsed)
        made = None
        if problem is None:
            group = self._store.new_id()
            observations = observations_from(
                parsed, task.messages, prompt, group, run, self._store.new_id, self._counter
            )
            made = Made(
                group=group,
                observations=observations,
                hints=draft_hints(parsed.hints, task.given.hints),
                tokens=sum(observation.tokens for observation in observations),
                model=self._model.name,
                prompt_version=version,
                usage=replace(usage, kind="observe", thread=run.thread) if usage else None,
            )
        faults = tuple(fault.kind for fault in parsed.faults)
        return Thought(claim=task.claim, made=made, kind="observe", thread=run.thread, faults=faults, error=problem)

    # ------------------------------------------------------------ reflecting

    async def _reflect(self, claim: Claim, work: Work, config: Config) -> Thought:
        names = [str(name) for name in work.run.inputs.get("groups", ())]
        lines = await self._store.logs.observations(work.log_pk, names)
        lines = tuple(line for line in lines if line.state == "active")
        if not lines:
            raise RunFault("nothing is left to condense")
        size = sum(line.tokens for line in lines)
        target = config.reflection_target_for(size)
        best, spent, problem = await self._condense(lines, target, size, config)
        if best is None:
            raise RunFault(problem or "no answer was shorter than what it stands for", spent)
        parsed, prompt = best
        group = self._store.new_id()
        made = reflections_from(parsed, lines, prompt, group, self._store.new_id, self._counter)
        return Thought(
            claim=claim,
            made=Made(
                group=group,
                observations=made,
                hints=None,
                tokens=sum(observation.tokens for observation in made),
                model=self._model.name,
                prompt_version=prompt.version,
                usage=replace(spent, kind="reflect") if spent else None,
            ),
            kind="reflect",
            thread=None,
            faults=tuple(fault.kind for fault in parsed.faults),
        )

    async def _condense(
        self, lines: Sequence[Observation], target: int, size: int, config: Config
    ) -> tuple[tuple[ParsedReflection, Prompt] | None, Usage | None, str | None]:
        """Ask for less and less until it fits; returns the shortest valid answer, what all cost, and the last fault."""
        best: tuple[ParsedReflection, Prompt] | None = None
        best_size, spent, problem = size, None, None
        last = ""
        for level in range(_LEVELS):
            given = ReflectInput(observations=tuple(lines), target_tokens=target, level=level, mode=config.mode)
            prompt = reflector_prompt(given)
            reply = await self._ask("reflect", prompt)
            spent = _sum(spent, reply.usage)
            if reply.text == last:
                break
            last = reply.text
            parsed = parse_reflection(reply.text, prompt.ids)
            problem = failure(parsed)
            if problem is not None:
                continue
            length = sum(self._counter.count(line.text) for line in parsed.lines)
            # An empty or larger answer never takes the place of memory.
            if 0 < length < best_size:
                best, best_size = (parsed, prompt), length
            if best is not None and best_size <= target:
                break
        return best, spent, problem

    async def _ask(self, purpose: Purpose, prompt: Prompt) -> ModelReply:
        request = ModelRequest(
            purpose=purpose, system=prompt.system, text=prompt.text, temperature=_TEMPERATURE[purpose]
        )
        try:
            return await self._model.complete(request)
        except Exception as error:
            raise RunFault(f"the model failed: {type(error).__name__}: {error}") from error


def _sum(one: Usage | None, other: Usage | None) -> Usage | None:
    if one is None or other is None:
        return one or other
    return replace(
        one,
        input_tokens=one.input_tokens + other.input_tokens,
        output_tokens=one.output_tokens + other.output_tokens,
        cache_read_tokens=one.cache_read_tokens + other.cache_read_tokens,
        cache_write_tokens=one.cache_write_tokens + other.cache_write_tokens,
        cost=one.cost + other.cost,
    )


def _zone(messages: Sequence[Message]) -> tzinfo:
    """Return the zone of whoever spoke last; UTC where it is unknown."""
    for message in reversed(messages):
        if message.zone:
            try:
                return ZoneInfo(message.zone)
            except (ValueError, OSError):
                return _offset(message.zone)
    return UTC


def _offset(text: str) -> tzinfo:
    try:
        hours, _, minutes = text.strip().removeprefix("UTC").partition(":")
        sign = -1 if hours.startswith("-") else 1
        return timezone(timedelta(hours=int(hours), minutes=sign * int(minutes or 0)))
    except ValueError:
        return UTC
