"""Replies of every kind are read as the corpus says."""

import json
from dataclasses import asdict
from datetime import UTC

import pytest

from memolog.observer.reply import failure, parse_observations
from prompts import report
from prompts.corpus import BASE, CASES, SHOWN, Case, written


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_a_reply_is_read_as_expected(case: Case) -> None:
    """Lines, hints, faults and the verdict are all as expected."""
    parsed = parse_observations(case.reply, SHOWN, base=BASE, zone=UTC)
    assert tuple(map(written, parsed.observations)) == case.lines
    assert {fault.kind for fault in parsed.faults} == case.faults
    if not case.fails:
        assert {name: text for name, text in asdict(parsed.hints).items() if text is not None} == case.hints
    assert parsed.nothing is case.nothing
    assert (failure(parsed) is not None) is case.fails


def test_the_corpus_is_large_and_its_names_are_unique() -> None:
    """A case that was copied and not renamed would hide another."""
    names = [case.name for case in CASES]
    assert len(names) >= 60
    assert len(set(names)) == len(names)


def test_the_report_tells_of_every_case(capsys: pytest.CaptureFixture[str]) -> None:
    """As a table and as JSON: each case, its faults, and what was kept of it."""
    report.main([])
    table = capsys.readouterr().out
    report.main(["--json"])
    told = json.loads(capsys.readouterr().out)
    assert [row["case"] for row in told["cases"]] == [case.name for case in CASES]
    assert told["as expected"] == len(CASES)
    assert all(set(row["faults"]) == set(case.faults) for row, case in zip(told["cases"], CASES, strict=True))
    assert all(row["kept"] == list(case.lines) for row, case in zip(told["cases"], CASES, strict=True))
    assert all(case.name[:40] in table for case in CASES)
    assert f"{len(CASES)} replies: " in table
    assert {"kept", "refused", "nothing to keep"} == set(told["verdicts"])
