"""The judges: strings against verdicts of a person, and a model with instructions and votes."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from evaluation.verdicts import VERDICTS
from memolog import ModelRequest
from memolog.apps.eval import string_judge
from memolog.apps.eval.budget import MeteredModel, Purse
from memolog.apps.eval.datasets import Question, Rule
from memolog.apps.eval.model_judge import ModelJudge, Unreadable
from memolog.apps.eval.results import open_results
from memolog.testing import ScriptedModel


def asked(rule: Rule, text: str, answer: str | None, rubric: tuple[str, ...] = ()) -> Question:
    """Return a question."""
    at = datetime(2026, 3, 14, tzinfo=UTC)
    return Question(id="q", type=rule, rule=rule, text=text, answer=answer, at=at, rubric=rubric)


# ---------------------------------------------------------------- strings


def test_strings_agree_with_a_person() -> None:
    """In at least 95 % of the samples. What it cannot see are answers in quite other words."""
    assert len(VERDICTS) == 60
    wrong = [
        f"{expected} / {answer}"
        for rule, question, expected, answer, is_right in VERDICTS
        if string_judge.judge(asked(rule, question, expected), answer).score != is_right
    ]
    assert len(wrong) <= 0.05 * len(VERDICTS), wrong


def test_a_preference_is_not_judged_by_strings() -> None:
    """Its score is None, which no mean counts."""
    verdict = string_judge.judge(asked("preference", "Which film?", "Short comedies."), "A short comedy.")
    assert verdict.score is None
    assert string_judge.judge(asked("rubric", "Which film?", "Short.", ("It is short.",)), "A film.").score is None


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("2.870 €", {frozenset({"2870", "2.87"})}),
        ("3,02 m", {frozenset({"3.02"})}),
        ("half past 16:45", {frozenset({"16:45"})}),
        ("version gpt-4", set[frozenset[str]]()),
    ],
)
def test_numbers(text: str, numbers: set[frozenset[str]]) -> None:
    """A number has every value that a country may read in it."""
    assert string_judge.facts_of(text).numbers == numbers


# ---------------------------------------------------------------- a model


def reply(score: float, why: str = "because") -> str:
    """Return a reply of a judge."""
    return json.dumps({"score": score, "why": why})


async def judged(tmp_path: Path, model: ScriptedModel, question: Question, votes: int = 1) -> string_judge.Verdict:
    """Return the verdict of a scripted judge."""
    with await open_results(tmp_path / "eval.db") as results:
        metered = MeteredModel(model, Purse(results=results), role="judge", history="h")
        return await ModelJudge(metered, votes).judge(question, "Nine plants.")


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ("answer", "means the same"),
        ("abstention", "never mentioned"),
        ("update", "newest value"),
        ("temporal", "differs from it by one"),
        ("preference", "recalls and uses"),
    ],
)
async def test_each_rule_has_its_instructions(tmp_path: Path, rule: Rule, words: str) -> None:
    """The model is told what is right for this kind of question, at temperature 0."""
    model = ScriptedModel([reply(1)])
    answer = None if rule == "abstention" else "nine"
    assert (await judged(tmp_path, model, asked(rule, "How many plants?", answer))).score == 1
    (request,) = model.requests
    assert words in request.system
    assert request.temperature == 0
    assert "How many plants?" in request.text


async def test_the_majority_of_the_votes_counts(tmp_path: Path) -> None:
    """Three votes, two of them against it."""
    model = ScriptedModel([reply(1), f"I think: {reply(0, 'too few')}", reply(0)])
    verdict = await judged(tmp_path, model, asked("answer", "How many plants?", "ten"), votes=3)
    assert (verdict.score, verdict.why, verdict.votes) == (0, "too few", (1, 0, 0))


async def test_a_rubric_is_judged_statement_by_statement(tmp_path: Path) -> None:
    """The score is the mean, and the reason names what is missing."""

    def half(request: ModelRequest) -> str:
        return reply(0.5 if "pots" in request.text else 1, "only a part")

    question = asked("rubric", "How many plants?", "Nine", ("It says nine.", "It names the pots."))
    verdict = await judged(tmp_path, ScriptedModel([half, half]), question)
    assert verdict.score == 0.75
    assert verdict.why == "It names the pots.: only a part"


async def test_a_judge_that_does_not_reply_with_a_score_is_an_error(tmp_path: Path) -> None:
    """It is asked twice."""
    model = ScriptedModel(["Correct!", "Well done."])
    with pytest.raises(Unreadable, match="Well done"):
        await judged(tmp_path, model, asked("answer", "How many plants?", "nine"))
    assert len(model.requests) == 2
