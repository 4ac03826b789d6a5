"""What follows from a growing sequence is the same as if it were worked out anew, and is worked out once."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from memolog.core.cache import Cache, Results, each_once, empty_caches, grown


class Word:
    """A value with an identity of its own."""

    def __init__(self, text: str) -> None:
        self.text = text


def _one(_: object) -> int:
    return 1


def test_only_what_is_new_is_worked_out() -> None:
    """A sequence that has grown costs what is new at its end; one that was cut at its start is another one."""
    asked: list[str] = []

    def shout(word: Word) -> str:
        asked.append(word.text)
        return word.text.upper()

    shouted = each_once(shout, _one)
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

    joined = grown("", join, _one)
    first = "one "
    assert joined([first, "two ", "three"]) == "one two three"
    assert joined([first, "two "]) == "one two "
    assert joined([first, "2 ", "three"]) == "one 2 three"
    assert joined([first]) == "one "


@given(st.lists(st.lists(st.sampled_from("abc"), max_size=6), max_size=60))
def test_the_same_as_anew(sequences: Sequence[Sequence[str]]) -> None:
    """Whatever is asked for, in whatever order."""
    known = each_once(str.upper, _one)
    for sequence in sequences:
        assert known(sequence) == tuple(text.upper() for text in sequence)


def test_the_oldest_values_are_dropped_when_there_are_too_many() -> None:
    """The value that was stored longest ago is dropped first, and storing a value again makes it the newest."""
    cache = Cache[str, int](2)
    for name in ("a", "b", "a", "c"):
        cache.put(name, 1)
    assert [cache.get(name) for name in ("a", "b", "c")] == [1, None, 1]


def test_the_oldest_values_are_dropped_when_they_are_too_heavy() -> None:
    """The weight of a value is counted once, also if the value is stored again with another weight."""
    cache = Cache[str, int](10, heaviest=10)
    cache.put("a", 1, weight=6)
    cache.put("b", 2, weight=4)
    cache.put("b", 3, weight=3)
    assert (cache.get("a"), cache.get("b")) == (1, 3)
    cache.put("c", 4, weight=2)
    assert [cache.get(name) for name in ("a", "b", "c")] == [None, 3, 4]


def test_the_value_that_was_stored_last_stays() -> None:
    """A value that is heavier than the cache replaces all others. After `clear` nothing is counted."""
    cache = Cache[str, int](10, heaviest=10)
    cache.put("a", 1, weight=6)
    cache.put("b", 2, weight=50)
    assert (cache.get("a"), cache.get("b")) == (None, 2)
    cache.clear()
    cache.put("c", 3, weight=5)
    cache.put("d", 4, weight=5)
    assert [cache.get(name) for name in ("b", "c", "d")] == [None, 3, 4]


def test_many_sequences_grow_in_turn() -> None:
    """Each value of each sequence is computed once. A changed sequence is computed again."""
    computed: list[object] = []

    def add(total: int, values: object) -> int:
        assert isinstance(values, tuple)
        computed.extend(values)
        return total + len(values)

    count = grown(0, add, _one)
    sequences = [[object()] for _ in range(100)]
    for _ in range(3):
        for sequence in sequences:
            sequence.append(object())
            assert count(sequence) == len(sequence)
    assert len(computed) == len(set(computed)) == sum(map(len, sequences))
    first = sequences[0]
    first[1] = object()
    assert count(first) == len(first)
    assert len(computed) == sum(map(len, sequences)) + len(first)


def test_results_are_computed_once() -> None:
    """A result is kept until there are too many, or until the caches are emptied. That of a long text is not kept."""
    asked: list[str] = []

    def upper(text: str) -> str:
        asked.append(text)
        return text.upper()

    results = Results(upper, 2, longest=3)
    assert [results[text] for text in ("a", "b", "a", "long", "long")] == ["A", "B", "A", "LONG", "LONG"]
    assert asked == ["a", "b", "long", "long"]
    assert [results[text] for text in ("c", "c", "a")] == ["C", "C", "A"]
    assert asked[4:] == ["c", "a"]
    empty_caches()
    assert not results
