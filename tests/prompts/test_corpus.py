"""Replies of every kind are read as the corpus says."""

from dataclasses import asdict

import pytest

from memolog.observer.reply import failure, parse_observations
from prompts.corpus import BASE, CASES, SHOWN, Case, written


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_a_reply_is_read_as_expected(case: Case) -> None:
    """Lines, hints, faults and the verdict are all as expected."""
    parsed = parse_observations(case.reply, SHOWN, base=BASE)
    assert tuple(map(written, parsed.observations)) == case.lines
    assert parsed.faults.keys() == case.faults
    if not case.fails:
        assert {name: text for name, text in asdict(parsed.hints).items() if isinstance(text, str)} == case.hints
    assert parsed.nothing is case.nothing
    assert (failure(parsed) is not None) is case.fails


def test_the_corpus_is_large_and_its_names_are_unique() -> None:
    """A case that was copied and not renamed would hide another."""
    names = [case.name for case in CASES]
    assert len(names) >= 60
    assert len(set(names)) == len(names)
