"""Judge answers with a model: instructions for each kind of question, temperature 0, and several votes."""

import json
import re
from collections import Counter
from statistics import fmean
from typing import Any, Final

from memolog import ModelRequest
from memolog.apps.eval.budget import MeteredModel
from memolog.apps.eval.datasets import Question
from memolog.apps.eval.string_judge import Verdict
from memolog.models import ModelError
from memolog.text.escape import element, fixed_text

_REPLY_TOKENS: Final = 300
_SECONDS: Final = 120.0
# A reply that cannot be read is asked for again this often.
_TRIES: Final = 2
_JSON: Final = re.compile(r"\{.*?\}", re.DOTALL)
_SCORES: Final = (0.0, 0.5, 1.0)


class Unreadable(ModelError):
    """A judge did not reply with a score."""


class ModelJudge:
    """Asks a model for verdicts. The score with most votes counts; if two have as many votes, the lower one."""

    def __init__(self, model: MeteredModel, votes: int = 1) -> None:
        self._model, self._votes = model, votes

    async def judge(self, question: Question, answer: str) -> Verdict:
        """Return the verdict over an answer. A rubric is judged statement by statement, and its mean is the score."""
        if question.rule == "rubric" and question.rubric:
            verdicts = [await self._voted("rubric", question, item, answer) for item in question.rubric]
            lost = [f"{item}: {one.why}" for item, one in zip(question.rubric, verdicts, strict=True) if one.score != 1]
            return Verdict(
                score=fmean(one.score or 0.0 for one in verdicts),
                why="; ".join(lost) or "It fulfils every statement of the rubric.",
                votes=tuple(vote for one in verdicts for vote in one.votes),
            )
        rule = "answer" if question.rule == "rubric" else question.rule
        expected = question.answer or "The conversations do not contain the answer."
        return await self._voted(rule, question, expected, answer)

    async def _voted(self, rule: str, question: Question, expected: str, answer: str) -> Verdict:
        system = fixed_text(f"apps/eval/judge_{rule}")
        text = "\n\n".join(
            (
                element("asked-question", question.text),
                element("expected-statement" if rule == "rubric" else "expected-answer", expected),
                element("given-answer", answer or "(no answer)"),
            )
        )
        scores = list[tuple[float, str]]()
        for _ in range(self._votes):
            scores.append(await self._vote(system, text))
        counts = Counter(score for score, _ in scores)
        score = min(counts, key=lambda one: (-counts[one], one))
        why = next(why for given, why in scores if given == score)
        return Verdict(score=score, why=why, votes=tuple(given for given, _ in scores))

    async def _vote(self, system: str, text: str) -> tuple[float, str]:
        request = ModelRequest(
            purpose="other", system=system, text=text, temperature=0.0, max_tokens=_REPLY_TOKENS, timeout=_SECONDS
        )
        reply = ""
        for _ in range(_TRIES):
            reply = (await self._model.complete(request)).text
            if (read := _read(reply)) is not None:
                return read
        raise Unreadable(
            f"The judge {self._model.name} did not reply with a score.",
            why=f"It replied: {reply[:200]!r}.",
            then="Choose another model with --judge.",
        )


def _read(reply: str) -> tuple[float, str] | None:
    for hit in _JSON.findall(reply):
        try:
            value: Any = json.loads(hit)
        except ValueError:
            continue
        score = value.get("score")
        if isinstance(score, int | float) and float(score) in _SCORES:
            return float(score), str(value.get("why", ""))
    return None
