"""A phrase is found in a text by a quick look if and only if its words stand there in order."""

from hypothesis import example, given
from hypothesis import strategies as st

from memolog.search.query import phrase_of
from memolog.search.snippets import contains_phrases

LATIN = st.sampled_from(
    ["alpha", "Beta", "beta", "a", "é", "e\u0301", "Straße", "STRASSE", "ﬁn", "fin", "_", "x_y", "1"]
)
OTHERS = st.sampled_from(["東", "京", "서울", "แมว", "\u0e34", "İ", "ς", "σ", "ｆｕｌｌ", "हिन्दी", "\u0301"])
PIECES = LATIN | OTHERS | st.sampled_from("   -./’…≠\n")
TEXTS = st.lists(PIECES, max_size=12).map("".join)


@given(TEXTS | st.text(max_size=40), st.lists(TEXTS.map(phrase_of).filter(bool), min_size=1, max_size=2))
@example("state-of-the-art", [" of the "])
@example("alphabeta", [" alpha beta "])
def test_a_quick_look_is_right(text: str, phrases: list[str]) -> None:
    """For every script, with signs and without."""
    assert contains_phrases(text, phrases) == all(phrase in phrase_of(text) for phrase in phrases)


@given(TEXTS, TEXTS, TEXTS)
def test_a_phrase_stands_in_what_holds_it(before: str, text: str, after: str) -> None:
    """Set apart by spaces it is there."""
    if phrase := phrase_of(text):
        whole = f"{before} {text} {after}"
        assert contains_phrases(whole, [phrase]) == (phrase in phrase_of(whole))
