"""Models call tools badly: each call of the corpus is answered as a person would judge right, and none raises."""

import json
import re

import pytest

from memolog.tools.toolset import MOST_CHARACTERS
from tools.corpus import CASES, Case
from tools.world import world

DESTRUCTIVE = re.compile(r"\b(?:delete|drop|rm -|force|reset|purge|wipe|overwrite|truncate)\b", re.IGNORECASE)


def test_the_corpus_is_large_enough() -> None:
    """At least three hundred calls, each different, both judgements well represented."""
    assert len({repr((case.tool, case.arguments)) for case in CASES}) == len(CASES) >= 300
    refused = sum(not case.success for case in CASES)
    assert refused >= 100
    assert len(CASES) - refused >= 100


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.tool} {repr(case.arguments)[:60]} ({case.why})")
async def test_a_call(case: Case) -> None:
    """The answer has its shape and its size, says what it should, and suggests nothing that destroys."""
    async with world() as here:
        answer = await here.tools.call(case.tool, case.arguments)
    text = json.dumps(answer, ensure_ascii=False)
    assert answer["success"] is case.success, text
    assert len(text) <= MOST_CHARACTERS + 1_000
    if case.success:
        assert case.says in text
        return
    assert set(answer) == {"success", "error", "retryable"}
    assert case.says in answer["error"]
    assert "failed to answer" not in answer["error"]
    own_words = answer["error"].replace(repr(case.arguments), "")
    assert not DESTRUCTIVE.search(re.sub(r"\"[^\"]*\"|'[^']*'", "", own_words)), text
