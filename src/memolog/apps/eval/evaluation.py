"""Run an evaluation: live through the histories, ask the questions in every arm, judge the answers, and store everything."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from time import perf_counter
from typing import Any, Final, TypeAlias, cast

from memolog import Config, Memory, Model
from memolog.apps.eval import string_judge
from memolog.apps.eval.arms import Arm, evidence_in
from memolog.apps.eval.budget import COUNTER, BudgetReached, MeteredModel, Purse
from memolog.apps.eval.datasets import DataSet, History, Question
from memolog.apps.eval.history import EMBEDDED, HistoryClock, Observers, live, question_thread
from memolog.apps.eval.model_judge import ModelJudge
from memolog.apps.eval.readers import ExtractiveReader, ModelReader, TooLong
from memolog.apps.eval.results import Answer, Lived, Results
from memolog.core.exact_json import dumps
from memolog.errors import MemologError
from memolog.models import BudgetSpent, ModelSpec, Price, resolve_model

Tell: TypeAlias = Callable[[str, int, int], None]
"""Called with what is counted, how many are done, and how many there are."""
PARALLEL: Final = 4
_NOT_OF_A_MEMORY: Final = frozenset({"background", "budget", "model", "read_only", "strict"})


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What is evaluated, and with which models."""

    data: DataSet
    config: Config
    arms: tuple[Arm, ...]
    answer: ModelSpec = EMBEDDED
    observer: ModelSpec = EMBEDDED
    reflector: ModelSpec = EMBEDDED
    judge: ModelSpec | None = None
    """None for the judge that compares strings."""
    votes: int = 1
    parallel: int = PARALLEL
    budget: float | None = None
    prices: Mapping[str, Price] = field(default_factory=dict[str, Price])
    """Prices by the name of the model, for models whose price is not known."""

    @cached_property
    def models(self) -> "Models":
        """Return the models. Each is made once."""
        made = {spec: resolve_model(spec, price=self._price(spec)) for spec in self._specs}
        return Models(
            answer=made[self.answer],
            observe=made[self.observer],
            reflect=made[self.reflector],
            judge=None if self.judge is None else made[self.judge],
        )

    @property
    def _specs(self) -> tuple[ModelSpec, ...]:
        judges = () if self.judge is None else (self.judge,)
        return tuple(dict.fromkeys((self.answer, self.observer, self.reflector, *judges)))

    def _price(self, spec: ModelSpec) -> Price | None:
        return self.prices.get(spec) if isinstance(spec, str) else None

    def price_of(self, model: Model | None) -> Price | None:
        """Return the price that was given for a model."""
        return None if model is None else self.prices.get(model.name)

    @property
    def reader(self) -> str:
        """Return the name of the model that answers."""
        return self.models.answer.name if self.models.answer else EMBEDDED

    @property
    def judge_name(self) -> str:
        """Return the name of the judge, with the number of its votes."""
        judge = self.models.judge
        return string_judge.NAME if judge is None else f"{judge.name} ({self.votes} votes)"

    @property
    def setup(self) -> dict[str, str]:
        """Return what the memories are made from. Memories of another setup are never mixed with these."""
        names = {
            role: model.name if model else EMBEDDED
            for role, model in (("observer", self.models.observe), ("reflector", self.models.reflect))
        }
        config = _changed(self.data.config(self.config).to_dict(), Config().to_dict())
        return {"data set": self.data.kind, "data": self.data.fingerprint, **names, "configuration": dumps(config)}

    @property
    def cases(self) -> tuple[tuple[History, Question, Arm], ...]:
        """Return every question with every arm."""
        return tuple((history, question, arm) for history, question in self.data.questions for arm in self.arms)


@dataclass(frozen=True, slots=True, kw_only=True)
class Models:
    """The models of an evaluation. None stands for what needs no model."""

    answer: Model | None
    observe: Model | None
    reflect: Model | None
    judge: Model | None

    @property
    def all(self) -> tuple[Model, ...]:
        """Return each model once."""
        given = (self.answer, self.observe, self.reflect, self.judge)
        return tuple({id(model): model for model in given if model is not None}.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How far an evaluation came."""

    done: int
    total: int
    stopped: MemologError | None = None
    """Why it stopped before its end. None if it is complete."""


class Evaluation:
    """Runs a plan with the results of one file. What is stored there is not done again."""

    def __init__(self, plan: Plan, results: Results, tell: Tell | None = None) -> None:
        self._plan, self._results = plan, results
        self._tell: Tell = tell or _tell_nobody
        self._purse = Purse(results=results, dollars=plan.budget)
        self._observers = Observers(
            observe=plan.models.observe,
            reflect=plan.models.reflect,
            prices=(plan.price_of(plan.models.observe), plan.price_of(plan.models.reflect)),
        )
        self._answers = results.answers(plan.reader)
        self._verdicts = results.verdicts(plan.reader, plan.judge_name)
        self._asking = asyncio.Semaphore(plan.parallel)

    @property
    def done(self) -> int:
        """Return how many answers of this plan are judged."""
        return sum((question.id, arm.name) in self._verdicts for _, question, arm in self._plan.cases)

    async def run(self) -> Outcome:
        """Do what is not done yet. Stops at the budget, and at the first failure of a model."""
        plan, total = self._plan, len(self._plan.cases)
        self._results.claim(plan.setup)
        for model in plan.models.all:
            check = getattr(model, "check", None)
            if check is not None:
                await check()
        self._tell("answers", self.done, total)
        stopped: MemologError | None = None
        few = asyncio.Semaphore(plan.parallel)
        try:
            await _together([self._history(history, few) for history in plan.data.histories])
        except MemologError as error:
            stopped = error
        finally:
            for model in plan.models.all:
                if (close := getattr(model, "aclose", None)) is not None:
                    await close()
        # Once the budget is spent nothing is observed, and a long tail may be what stops the evaluation.
        if stopped is not None and (isinstance(stopped, BudgetSpent) or self._purse.is_reached):
            stopped = self._purse.refuse()
        return Outcome(done=self.done, total=total, stopped=self._purse.problem or stopped)

    async def _history(self, history: History, few: asyncio.Semaphore) -> None:
        open_cases = [
            (question, arm)
            for question in history.questions
            for arm in self._plan.arms
            if (question.id, arm.name) not in self._verdicts
        ]
        asked = [(question, arm) for question, arm in open_cases if (question.id, arm.name) not in self._answers]
        async with few:
            if any(arm.uses_memory for _, arm in asked):
                config = self._plan.data.config(self._plan.config)
                memory, clock = self._observers.memory(self._results.path, history, config, self._purse)
                async with memory:
                    await self._lived(memory, clock, history)
                    await self._all(history, open_cases, memory)
            elif open_cases:
                await self._all(history, open_cases, None)

    async def _lived(self, memory: Memory, clock: HistoryClock, history: History) -> None:
        """Live through a history unless it is complete."""
        if history.id in self._results.histories():
            clock.at = min(question.at for question in history.questions)
            return
        start = perf_counter()
        problem = await live(memory, clock, history, self._purse)
        log = await question_thread(memory, history).log()
        lived = Lived(
            raw_tokens=sum(COUNTER.count(said.text) for said in history.messages),
            log_tokens=sum(line.tokens for line in log),
            seconds=perf_counter() - start,
            problem=problem,
        )
        self._results.put_history(history.id, lived)

    async def _all(self, history: History, cases: Sequence[tuple[Question, Arm]], memory: Memory | None) -> None:
        await _together([self._case(history, question, arm, memory) for question, arm in cases])

    async def _case(self, history: History, question: Question, arm: Arm, memory: Memory | None) -> None:
        key = question.id, arm.name
        async with self._asking:
            self._purse.check()
            if key not in self._answers:
                self._answers[key] = await self._answered(history, question, arm, memory)
                self._results.put_answer(*key, self._plan.reader, self._answers[key])
            verdict = await self._judged(history, question, arm, self._answers[key].text)
            self._results.put_verdict(*key, self._plan.reader, self._plan.judge_name, verdict)
            self._verdicts[key] = verdict
        self._tell("answers", self.done, len(self._plan.cases))

    async def _answered(self, history: History, question: Question, arm: Arm, memory: Memory | None) -> Answer:
        model = self._plan.models.answer
        reader = (
            ExtractiveReader() if model is None else ModelReader(self._metered(model, "answer", history, question, arm))
        )
        start = perf_counter()
        try:
            reading = await reader.read(arm, memory, history, question)
        except TooLong as error:
            return Answer(text=f"({error.what})", tokens=error.tokens)
        return Answer(
            text=reading.text,
            tokens=reading.tokens,
            searches=reading.searches,
            evidence=evidence_in(reading.pieces, history, question),
            seconds=perf_counter() - start,
        )

    async def _judged(self, history: History, question: Question, arm: Arm, answer: str) -> string_judge.Verdict:
        model = self._plan.models.judge
        if model is None:
            return string_judge.judge(question, answer)
        return await ModelJudge(self._metered(model, "judge", history, question, arm), self._plan.votes).judge(
            question, answer
        )

    def _metered(self, model: Model, role: str, history: History, question: Question, arm: Arm) -> MeteredModel:
        price = self._plan.price_of(model)
        return MeteredModel(
            model, self._purse, role=role, history=history.id, question=question.id, arm=arm.name, price=price
        )


def _changed(given: Mapping[str, Any], defaults: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return the settings that are not the defaults, by dotted name, without those that change no memory."""
    found: dict[str, Any] = {}
    for name, value in given.items():
        if isinstance(value, Mapping) and isinstance(defaults.get(name), Mapping):
            found |= _changed(cast("Mapping[str, Any]", value), defaults[name], f"{prefix}{name}.")
        elif value != defaults.get(name) and name not in _NOT_OF_A_MEMORY:
            found[f"{prefix}{name}"] = value
    return found


def _tell_nobody(what: str, done: int, total: int) -> None:
    del what, done, total


async def _together(works: Sequence[Coroutine[Any, Any, None]]) -> None:
    """Wait for all works. If one fails, cancel the others, wait until they have ended, and raise its error.

    If one stops at the budget, the others are not cancelled, because calls under way are paid: they end before their next call.
    """
    tasks = [asyncio.create_task(work) for work in works]
    try:
        waiting = set(tasks)
        while waiting:
            done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_EXCEPTION)
            for task in done:
                if not isinstance(task.exception(), BudgetSpent | BudgetReached | None):
                    await task
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
