"""A reply is degenerate if most of its windows occur earlier in it. The search for blocks gives the same answer."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from memolog.observer.drafts import is_degenerate

WINDOW = 160


def share_of_repeated(text: str) -> float:
    """Return the share of windows that occur earlier in a text."""
    count = len(text) - WINDOW
    return 1 - len({text[at : at + WINDOW] for at in range(count)}) / count


@given(st.randoms(use_true_random=False), st.integers(0, 12), st.integers(50, 900), st.integers(0, 60))
def test_repetition(chance: Random, copies: int, length: int, fresh: int) -> None:
    """Texts of copies of their own beginning, with new text between the copies."""

    def new(size: int) -> str:
        return "".join(chance.choices("abcdefghijklmnop", k=size))

    text = new(1_600)
    for _ in range(copies):
        start = chance.randrange(len(text))
        text += text[start : start + length] + new(fresh)
    expected = share_of_repeated(text) > 0.6 or share_of_repeated(text[-3_000:]) > 0.85
    assert is_degenerate(text) is expected
