"""Cuts of texts at graphemes, with properties over texts that have many joined characters."""

import itertools
import time
from collections.abc import Callable

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from memolog.text.cut import cut, cut_end, cut_middle, cut_tokens, is_boundary
from memolog.text.tokens import HeuristicCounter, SplintrCounter, TokenCounter

JOINING = (
    "a\r\n\t \u00ad\u0300\u0301\u0903\u093f\u0915\u0937\u094d\u0bcd\u0e33\u0600\u06dd\u0d4e"
    "\u200b\u200c\u200d\u1100\u1161\u11a8\uac00\uac01\ua960\ud7b0\ud7cb"
    "\u2764\ufe0f\u20e3\u00a9\u4e2d\u302a\uff9e\u1039\u1000"
    "\U0001f1e6\U0001f1ff\U0001f469\U0001f680\U0001f3fd\U0001f3f4\U000e0067\U000e007f"
    "\U000e0001\ud83d\ude00"
    "\U000110bd\U00011f02\U00016d63\U0001e4ec\U00020000\U00031350\U0001fae8\U000e0100\uffff\ue000"
)
texts = st.text(alphabet=st.one_of(st.sampled_from(JOINING), st.characters()), max_size=40)
limits = st.integers(min_value=-2, max_value=45)


def standard_boundaries(text: str) -> set[int]:
    """Return the boundaries that the `regex` package finds."""
    return {0, *itertools.accumulate(len(piece) for piece in regex.findall(r"\X", text))}


@given(texts)
def test_every_boundary_is_one_of_the_standard(text: str) -> None:
    """Every boundary is also a boundary in UAX #29. The opposite need not hold."""
    ours = {index for index in range(-1, len(text) + 2) if is_boundary(text, index)}
    assert {0, len(text)} <= ours <= standard_boundaries(text)


def test_no_character_of_unicode_is_torn_off() -> None:
    """No code point beside a letter, a mark, a jamo or itself has a boundary that UAX #29 does not have."""
    # Most ideographs and Hangul syllables are omitted, because all of them behave alike, and so are empty planes.
    tried = (range(0x300, 0x3400), range(0xA000, 0xAC20), range(0xD7A0, 0xE010), range(0xF900, 0x17000))
    for point in itertools.chain(*tried, range(0x1B000, 0x20010), range(0xE0000, 0xE0200)):
        char = chr(point)
        text = f"a{char}{char}\u0300\n\u1100{char}\u1161\n\U0001f469\u200d{char}a"
        ours = {index for index in range(len(text) + 1) if is_boundary(text, index)}
        assert ours <= standard_boundaries(text), hex(point)


def test_no_conjunct_is_torn() -> None:
    """A linker joins every pair of consonants that Unicode lists (rule GB9c)."""
    consonants = regex.findall(r"\p{InCB=Consonant}", "".join(map(chr, range(0x900, 0x12000))))
    linkers = regex.findall(r"\p{InCB=Linker}", "".join(map(chr, range(0x900, 0x12000))))
    assert len(linkers) >= 6
    for consonant, linker in itertools.product(consonants, linkers):
        assert not is_boundary(consonant + linker + consonant, 2)
        assert not is_boundary(consonant + linker + "\u0301\u200c" + consonant, 4)


# Printable ASCII, kana, ideographs and syllables of Hangul.
PLAIN = [range(0x20, 0x7F), range(0x3041, 0x3097), range(0x4E00, 0xA000), range(0xAC00, 0xD7A4)]


@given(st.sampled_from(PLAIN).flatmap(lambda points: st.text(alphabet=[*map(chr, points)])))
def test_plain_text_may_be_cut_anywhere(text: str) -> None:
    """Plain text has a boundary between all characters."""
    assert all(is_boundary(text, index) for index in range(len(text) + 1))


@given(texts, limits)
def test_a_cut_is_the_longest_that_fits(text: str, limit: int) -> None:
    """The prefix ends at the last boundary within the limit. Only without such a boundary is a grapheme cut."""
    piece = cut(text, limit)
    room = max(limit, 0)
    inner = [index for index in range(1, min(room, len(text)) + 1) if is_boundary(text, index)]
    assert text.startswith(piece)
    assert len(piece) == inner[-1] if inner else min(room, len(text)) - len(piece) in {0, 1}


@given(texts, limits)
def test_a_cut_from_the_end_is_the_longest_that_fits(text: str, limit: int) -> None:
    """The suffix starts at the first boundary within the limit. Only without such a boundary is a grapheme cut."""
    piece = cut_end(text, limit)
    room = max(limit, 0)
    first = max(len(text) - room, 0)
    inner = [index for index in range(first, len(text)) if is_boundary(text, index)]
    assert text.endswith(piece)
    assert len(text) - len(piece) == inner[0] if inner else min(room, len(text)) - len(piece) in {0, 1}


@given(texts, limits)
def test_cuts_never_split_a_surrogate_pair(text: str, limit: int) -> None:
    """Even a grapheme that must be cut is not cut inside a surrogate pair."""
    for end in (len(cut(text, limit)), len(text) - len(cut_end(text, limit))):
        around = text[max(end - 1, 0) : end + 1]
        assert not ("\ud800" <= around[:1] <= "\udbff" and "\udc00" <= around[1:] <= "\udfff")


@given(texts, limits)
def test_the_middle_cut_keeps_the_limit(text: str, limit: int) -> None:
    """A text that fits is unchanged. Of any other text, the beginning and the end within the limit are returned."""
    piece = cut_middle(text, limit)
    assert piece == text if len(text) <= limit else len(piece) <= max(limit, 0)
    pairs = (piece[:end] + "|" + piece[end + len(" … ") :] for end in range(len(piece) + 1))
    heads = (pair.partition("|") for pair in [*pairs, piece + "|"] if pair.count("|") == 1)
    assert any(text.startswith(head) and text.endswith(tail) for head, _, tail in heads) or "|" in text


@given(texts, st.integers(min_value=-1, max_value=30))
def test_a_cut_by_tokens_keeps_the_budget(text: str, tokens: int) -> None:
    """The prefix has at most the allowed tokens, and it is the whole text if that fits."""
    counter = HeuristicCounter()
    piece = cut_tokens(text, tokens, counter)
    assert text.startswith(piece)
    assert counter.count(piece) <= max(tokens, 0)
    assert piece == text or counter.count(text) > tokens


def test_the_middle_goes() -> None:
    """The beginning and the end of the text remain, with the mark between them."""
    assert cut_middle("0123456789", 7) == "01 … 89"
    assert cut_middle("0123456789", 8) == "012 … 89"
    assert cut_middle("0123456789", 4) == "0 … "
    assert cut_middle("0123456789", 10) == "0123456789"
    assert cut_middle("0123456789", 1) == "0"
    assert cut_middle("ab\u0301cdefg\r\n", 7) == "a … g\r\n"
    assert cut_middle("abcdefg\r\n", 5) == "a … "


@pytest.mark.parametrize("counter", [HeuristicCounter(), SplintrCounter()], ids=["heuristic", "o200k"])
@pytest.mark.parametrize("text", ["word " * 5000, "记忆日志" * 3000, "\U0001f469\u200d\U0001f680" * 900])
def test_a_cut_by_tokens_fits_and_wastes_little(text: str, counter: TokenCounter) -> None:
    """The prefix has at most 100 tokens, ends at a boundary, and has at least 90 tokens."""
    piece = cut_tokens(text, 100, counter)
    assert text.startswith(piece)
    assert is_boundary(text, len(piece))
    assert 90 <= counter.count(piece) <= 100


def test_tokens_tear_a_first_grapheme_that_is_too_long() -> None:
    """A first grapheme with more tokens than allowed is cut, so that the prefix is not empty."""
    piece = cut_tokens("a" + "\u0301" * 1000, 10, HeuristicCounter())
    assert HeuristicCounter().count(piece) == 10


class _Recorder:
    def __init__(self) -> None:
        self.longest = 0

    def count(self, text: str) -> int:
        self.longest = max(self.longest, len(text))
        return HeuristicCounter().count(text)


def test_a_long_text_is_not_counted_whole() -> None:
    """To cut 100 tokens from ten megabytes, only the text near the cut is counted."""
    recorder = _Recorder()
    assert len(cut_tokens("x" * 10_000_000, 100, recorder)) == 400
    assert recorder.longest <= 1000


@pytest.mark.parametrize("cutter", [cut, cut_end, cut_middle])
@pytest.mark.parametrize("unit", ["\u0301", "\U0001f1e6", "\u0915\u094d", "\u200d", "\U000e0061"])
def test_long_runs_are_not_quadratic(cutter: Callable[[str, int], str], unit: str) -> None:
    """The time to cut half a million joining characters grows linearly with their number."""
    text = "a" + unit * (500_000 // len(unit))
    # The time of the processor, because the machine may be busy. Quadratic work would take hours.
    start = time.process_time()
    piece = cutter(text, 250_000)
    assert time.process_time() - start < 60
    assert 0 < len(piece) <= 250_000
