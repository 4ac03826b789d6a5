"""The fast path for ASCII gives the same words as the rule for all scripts."""

import re

from hypothesis import given
from hypothesis import strategies as st

from memolog.text.identifiers import content_words, folded, squeezed


@given(st.text(st.characters(max_codepoint=127), max_size=60))
def test_words_of_ascii(text: str) -> None:
    """Every sequence of characters that are neither letters nor digits becomes one point."""
    plain = folded(text)
    words = re.sub(r"[\W_]+", ".", plain).strip(".")
    assert squeezed(plain) == f".{words}."


@given(st.text(st.characters(max_codepoint=127), max_size=60))
def test_content_words_of_ascii(text: str) -> None:
    """A word of another script at the end does not change the words before it."""
    assert content_words(f"{text} müde") == tuple(dict.fromkeys((*content_words(text), "müde")))
