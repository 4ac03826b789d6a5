"""Compute the figures of an evaluation: accuracy with intervals, evidence, tokens, dollars and time."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Final

from memolog.apps.eval.datasets import History, Question
from memolog.apps.eval.evaluation import Plan
from memolog.apps.eval.results import Answer, Calls, Results
from memolog.apps.eval.string_judge import Verdict

_SAMPLES: Final = 2_000
_LOW, _HIGH = 0.025, 0.975
PLACES: Final = ("log", "tail", "search", "history", "any")


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One question in one arm, with its answer and its verdict."""

    history: History
    question: Question
    arm: str
    answer: Answer
    verdict: Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmFigures:
    """The figures of one arm. Shares are between 0 and 1; None if nothing was counted."""

    arm: str
    questions: int
    judged: int
    plain: float | None
    """The mean over all judged questions."""
    macro: float | None
    """The mean over the types, each with the mean of its questions."""
    interval: tuple[float, float] | None
    """The 95 % bootstrap interval of the plain mean."""
    by_type: Mapping[str, tuple[float, int]]
    """By type, the mean and the number of judged questions."""
    evidence: Mapping[str, float]
    """By place, the share of the questions with evidence all of whose evidence was in the context."""
    tokens: float
    """The mean size of a context."""
    paid_tokens: float
    """The mean tokens of input and output that the model counted for a question, over all its calls. 0 without a model."""
    dollars: float
    """The mean cost of an answer."""
    seconds: float
    """The mean wall time of an answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """All figures of an evaluation."""

    arms: tuple[ArmFigures, ...]
    cases: tuple[Case, ...]
    calls: tuple[Calls, ...]
    raw_tokens: int
    log_tokens: int
    observer_tokens: int
    """The tokens of all calls that observe or reflect."""
    dollars: float
    living_seconds: float
    """The wall time of living through the histories, added up over all of them."""
    problems: Mapping[str, str]
    """By history, what could not be observed."""


def figures_of(plan: Plan, results: Results) -> Figures:
    """Return the figures of the answers that are stored for a plan."""
    answers, verdicts = results.answers(plan.reader), results.verdicts(plan.reader, plan.judge_name)
    cases = tuple(
        Case(history=history, question=question, arm=arm.name, answer=answers[key], verdict=verdicts[key])
        for history, question, arm in plan.cases
        if (key := (question.id, arm.name)) in verdicts and key in answers
    )
    calls = results.calls()
    lived = {id_: one for id_, one in results.histories().items() if any(one.id == id_ for one in plan.data.histories)}
    observing = [one for one in calls if one.role in {"observe", "reflect"}]
    return Figures(
        arms=tuple(
            _arm_figures(arm.name, [one for one in cases if one.arm == arm.name], calls, plan) for arm in plan.arms
        ),
        cases=cases,
        calls=calls,
        raw_tokens=sum(one.raw_tokens for one in lived.values()),
        log_tokens=sum(one.log_tokens for one in lived.values()),
        observer_tokens=sum(one.input_tokens + one.output_tokens for one in observing),
        dollars=sum(one.cost for one in calls),
        living_seconds=sum(one.seconds for one in lived.values()),
        problems={id_: one.problem for id_, one in lived.items() if one.problem},
    )


def _arm_figures(arm: str, cases: Sequence[Case], calls: Sequence[Calls], plan: Plan) -> ArmFigures:
    judged = [(case.question.type, case.verdict.score) for case in cases if case.verdict.score is not None]
    scores = [score for _, score in judged]
    types = {kind: [score for one, score in judged if one == kind] for kind, _ in judged}
    by_type = {kind: (fmean(values), len(values)) for kind, values in sorted(types.items())}
    cited = [case.answer.evidence for case in cases if case.answer.evidence]
    answering = [one for one in calls if one.role == "answer" and one.arm == arm and one.model == plan.reader]
    count = max(1, len(cases))
    return ArmFigures(
        arm=arm,
        questions=len(cases),
        judged=len(scores),
        plain=fmean(scores) if scores else None,
        macro=fmean(mean for mean, _ in by_type.values()) if by_type else None,
        interval=interval(scores),
        by_type=by_type,
        evidence={place: fmean(one.get(place, 0.0) == 1 for one in cited) for place in PLACES} if cited else {},
        tokens=sum(case.answer.tokens for case in cases) / count,
        paid_tokens=sum(one.input_tokens + one.output_tokens for one in answering) / count,
        dollars=sum(one.cost for one in answering) / count,
        seconds=sum(case.answer.seconds for case in cases) / count,
    )


def interval(scores: Sequence[float], samples: int = _SAMPLES) -> tuple[float, float] | None:
    """Return the 95 % bootstrap interval of a mean: the middle of the means of samples drawn with replacement."""
    if not scores:
        return None
    # The same scores always give the same interval.
    chance = random.Random(0)  # noqa: S311
    means = sorted(fmean(chance.choices(scores, k=len(scores))) for _ in range(samples))
    return means[int(_LOW * samples)], means[int(_HIGH * samples)]
