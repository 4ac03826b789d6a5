"""Cutting texts where a reader would."""

import time
from collections.abc import Callable

import pytest

from memolog.text.cutting import cut, cut_end, cut_middle, cut_tokens, is_boundary
from memolog.text.tokens import HeuristicCounter, SplintrCounter, TokenCounter


def test_outside_the_text_is_no_boundary() -> None:
    """Only the ends and what lies between them can be boundaries."""
    assert is_boundary("", 0)
    assert is_boundary("ab", 2)
    assert not is_boundary("ab", -1)
    assert not is_boundary("ab", 3)


def test_the_middle_goes() -> None:
    """Head and tail stay, the mark stands between them, the limit holds."""
    assert cut_middle("0123456789", 5) == "01…89"
    assert cut_middle("0123456789", 6) == "012…89"
    assert cut_middle("0123456789", 7, " [..] ") == "0 [..] "
    assert cut_middle("0123456789", 10) == "0123456789"
    assert cut_middle("0123456789", 1) == "0"
    assert cut_middle("ab\u0301cdefg\r\n", 5) == "a…g\r\n"
    assert cut_middle("abcdefg\r\n", 3) == "a…"


@pytest.mark.parametrize("counter", [HeuristicCounter(), SplintrCounter()], ids=["heuristic", "o200k"])
@pytest.mark.parametrize("text", ["word " * 5000, "记忆日志" * 3000, "\U0001f469\u200d\U0001f680" * 900])
def test_a_cut_by_tokens_fits_and_wastes_little(text: str, counter: TokenCounter) -> None:
    """The prefix is within the tokens, ends at a boundary, and is nearly as long as it may be."""
    piece = cut_tokens(text, 100, counter)
    assert text.startswith(piece)
    assert is_boundary(text, len(piece))
    assert 90 <= counter.count(piece) <= 100


def test_tokens_tear_a_first_grapheme_that_is_too_long() -> None:
    """Progress is made where the first grapheme has more tokens than allowed."""
    piece = cut_tokens("a" + "\u0301" * 1000, 10, HeuristicCounter())
    assert HeuristicCounter().count(piece) == 10


class _Recorder:
    def __init__(self) -> None:
        self.longest = 0

    def count(self, text: str) -> int:
        self.longest = max(self.longest, len(text))
        return HeuristicCounter().count(text)


def test_a_long_text_is_not_counted_whole() -> None:
    """Cutting 100 tokens from ten megabytes looks at their neighbourhood only."""
    recorder = _Recorder()
    assert len(cut_tokens("x" * 10_000_000, 100, recorder)) == 400
    assert recorder.longest <= 1000


@pytest.mark.parametrize("cutter", [cut, cut_end, cut_middle])
@pytest.mark.parametrize("unit", ["\u0301", "\U0001f1e6", "\u0915\u094d", "\u200d", "\U000e0061"])
def test_long_runs_are_not_quadratic(cutter: Callable[[str, int], str], unit: str) -> None:
    """Half a million of one joining character are cut in time that grows with their number only."""
    text = "a" + unit * (500_000 // len(unit))
    # Its own time, whatever else the machine does; if it grew with the square, it would take hours.
    start = time.process_time()
    piece = cutter(text, 250_000)
    assert time.process_time() - start < 60
    assert 0 < len(piece) <= 250_000
