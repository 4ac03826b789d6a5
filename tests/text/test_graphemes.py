"""Cutting texts where a reader would."""

import time
from collections.abc import Callable

import pytest

from memolog.text.cutting import cut, cut_end, cut_middle, cut_tokens, is_boundary
from memolog.text.tokens import HeuristicCounter, SplintrCounter, TokenCounter

WHOLE = {
    "surrogate pair": "\ud83d\ude00",
    "CR LF": "\r\n",
    "combining marks": "e\u0301\u0323",
    "family": "\U0001f468\u200d\U0001f469\u200d\U0001f467",
    "variation selector": "\u2764\ufe0f",
    "rainbow flag": "\U0001f3f3\ufe0f\u200d\U0001f308",
    "skin tone": "\U0001f44d\U0001f3fd",
    "flag": "\U0001f1e9\U0001f1ea",
    "Hangul jamo": "\u1112\u1161\u11ab",
    "tag sequence": "\U0001f3f4\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f",
    "conjunct": "\u0915\u094d\u0937",
    "conjunct past a mark": "\u0915\u094d\u0301\u0937",
    "keycap": "1\ufe0f\u20e3",
    "Thai AM": "\u0e01\u0e33",
    "prepended sign": "\u06001",
}


@pytest.mark.parametrize("whole", WHOLE.values(), ids=WHOLE.keys())
def test_a_grapheme_is_never_torn(whole: str) -> None:
    """Whatever the limit, a cut keeps a sequence whole or leaves it out, from either side."""
    text = f"ab{whole}cd"
    for limit in range(3, len(text)):
        assert cut(text, limit) in {"ab", f"ab{whole}", f"ab{whole}c"}
        assert cut_end(text, limit) in {"cd", f"{whole}cd", f"b{whole}cd"}


@pytest.mark.parametrize("text", ["plain ASCII, \t with\nlines", "记忆日志是一个库。", "かなカナ", "한국어"])
def test_ordinary_text_may_be_cut_anywhere(text: str) -> None:
    """In ASCII and CJK every index is a boundary, and a cut takes exactly what it may."""
    assert all(is_boundary(text, index) for index in range(len(text) + 1))
    assert [len(cut(text, limit)) for limit in range(len(text))] == list(range(len(text)))
    assert [len(cut_end(text, limit)) for limit in range(len(text))] == list(range(len(text)))


def test_outside_the_text_is_no_boundary() -> None:
    """Only the ends and what lies between them can be boundaries."""
    assert is_boundary("", 0)
    assert is_boundary("ab", 2)
    assert not is_boundary("ab", -1)
    assert not is_boundary("ab", 3)


def test_the_second_flag_stands_alone() -> None:
    """Regional indicators pair up from the start of their run."""
    flags = "\U0001f1e9\U0001f1ea\U0001f1eb\U0001f1f7"
    assert [is_boundary(flags, index) for index in range(5)] == [True, False, True, False, True]
    assert cut(flags, 3) == flags[:2]
    assert cut_end(flags, 3) == flags[2:]


def test_a_long_first_grapheme_is_torn_at_the_limit() -> None:
    """A cut makes progress even where no boundary is within the limit."""
    marks = "a" + "\u0301" * 10
    assert cut(marks, 4) == marks[:4]
    assert cut_end(marks, 4) == marks[-4:]


def test_a_surrogate_pair_is_not_torn_even_then() -> None:
    """The halves of a pair stay together although the limit falls between them."""
    pair = "\ud83d\ude00"
    assert cut(pair, 1) == ""
    assert cut_end(pair, 1) == ""
    torn = "\u200d" + pair
    assert cut(torn, 2) == "\u200d"
    assert cut_end(pair + "\u0301", 2) == "\u0301"


@pytest.mark.parametrize("limit", [0, -1, -(10**9)])
def test_nothing_fits_into_nothing(limit: int) -> None:
    """A limit of zero or less gives the empty text."""
    assert cut("abc", limit) == cut_end("abc", limit) == cut_middle("abc", limit) == ""
    assert cut_tokens("abc", limit, HeuristicCounter()) == ""


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


def test_a_text_that_fits_is_returned_whole() -> None:
    """A budget above the text's tokens changes nothing."""
    assert cut_tokens("a short text", 1000, HeuristicCounter()) == "a short text"
    assert cut_tokens("", 5, HeuristicCounter()) == ""


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
