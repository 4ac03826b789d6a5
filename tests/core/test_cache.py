"""What follows from a growing sequence is the same as if it were worked out anew, and is worked out once."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from memolog.core.cache import each_once, grown


class Word:
    """A value with an identity of its own."""

    def __init__(self, text: str) -> None:
        self.text = text


def test_only_what_is_new_is_worked_out() -> None:
    """A sequence that has grown costs what is new at its end; one that was cut at its start is another one."""
    asked: list[str] = []

    def shout(word: Word) -> str:
        asked.append(word.text)
        return word.text.upper()

    shouted = each_once(shout)
    words = [Word(text) for text in "abcd"]
    assert shouted(words[:2]) == ("A", "B")
    assert shouted(words[:4]) == ("A", "B", "C", "D")
    assert "".join(asked) == "abcd"
    assert shouted(words[1:]) == ("B", "C", "D")
    assert "".join(asked) == "abcdbcd"
    assert shouted([]) == ()


def test_a_sequence_that_became_another_one_is_not_mistaken() -> None:
    """Shorter, changed in its middle, or of other values altogether."""

    def join(text: str, words: Sequence[str]) -> str:
        return text + "".join(words)

    joined = grown("", join)
    first = "one "
    assert joined([first, "two ", "three"]) == "one two three"
    assert joined([first, "two "]) == "one two "
    assert joined([first, "2 ", "three"]) == "one 2 three"
    assert joined([first]) == "one "


@given(st.lists(st.lists(st.sampled_from("abc"), max_size=6), max_size=60))
def test_the_same_as_anew(sequences: Sequence[Sequence[str]]) -> None:
    """Whatever is asked for, in whatever order."""
    known = each_once(str.upper)
    for sequence in sequences:
        assert known(sequence) == tuple(text.upper() for text in sequence)
