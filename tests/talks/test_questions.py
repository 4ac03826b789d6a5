"""The questions of `memolog eval talks` follow from the conversations, and the unanswerable ones do not."""

import pytest

from memolog.apps.eval.datasets import History, Question, days_meant, read
from memolog.apps.eval.string_judge import facts_of, variants
from talks.exam import stands

DATA = read("talks")
CASES = [pytest.param(history, question, id=question.id) for history, question in DATA.questions]

# Words of answers that say in other words what the evidence says, by question.
PARAPHRASED = {
    "kyoto-8": "brother wed",
    "pipeline-3": "inclus",
    "project-8": "minut",
}


@pytest.mark.parametrize(("history", "question"), CASES)
def test_the_answer_is_in_the_evidence(history: History, question: Question) -> None:
    """Every number, date and word of an answer is in its evidence, except the words listed above."""
    if question.answer is None:
        assert question.absent
        said = "\n".join(said.text for said in history.messages)
        assert [words for words in question.absent if stands(words, said)] == []
        return
    evidence = [history.by_name[name] for name in question.evidence]
    there = facts_of("\n".join(said.text for said in evidence))
    days = {(day.month, day.day) for said in evidence for day in days_meant(said)}
    days |= {(month, number) for _, month, number in there.days}
    wanted = facts_of(next(variants(question.answer)))
    assert [day for day in wanted.days if day[1:] not in days and (day[1], None) not in days] == []
    assert [number for number in wanted.numbers if not any(number & other for other in there.numbers)] == []
    free = frozenset(PARAPHRASED.get(question.id, "").split())
    assert wanted.words - there.words - free == frozenset()
