"""The stretch of a text that is shown for a hit: which one is chosen, what is marked, and that it stands there; and phrases."""

import random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kit.effort import counts
from memolog.search.query import phrase_of
from memolog.search.snippets import Marker, contains_phrases
from memolog.text.words import terms_of_word, words_of

FAR = "and so on " * 100


@pytest.mark.parametrize(
    ("quoted", "before", "held"),
    [
        ("red car", "car. red things. red things. ", "the fast «red» «car» to town"),
        ("state of the art", "the art of state. state, art. ", "a «state-of-the-art» thing"),
        ("login schema", "schema. login things. ", "call «login_schema» at once"),
        ("Café Noir", "noir, cafe, my ", "at the «café» «Noir» again"),
        ("東京都", "京都と東京。", "来週«東京都»に行きます"),
    ],
)
def test_a_stretch_with_what_was_quoted_wins(quoted: str, before: str, held: str) -> None:
    """The same words in another order, more of them and earlier, do not."""
    terms = {term: 1.0 for word in words_of(quoted) for term in terms_of_word(word) if term not in {"of", "the"}}
    terms |= {f"={quoted.replace(' ', '-')}": 0.1}
    shown = held.replace("«", "").replace("»", "")
    text = before * 3 + FAR + shown
    assert held in Marker(terms, (phrase_of(quoted),)).both(text)[0]
    assert held not in Marker(terms).both(text)[0]
    assert held in Marker(terms, (phrase_of(quoted),)).both(before * 3 + FAR * 40 + shown)[0]


def test_a_phrase_longer_than_the_stretch_is_shown_from_its_beginning() -> None:
    """It cannot be shown whole."""
    long = " ".join(f"word{number}" for number in range(100))
    shown = Marker({"=word99": 9.0, "=word0": 1.0}, (phrase_of(long),)).both(f"word99 {FAR} {long} {FAR}")[0]
    assert "«word0» word1 word2" in shown


def test_in_a_long_text_the_rarest_words_are_shown() -> None:
    """However far behind the common ones they stand."""
    marker = Marker({"error": 1.0, "frobnic": 4.0})
    text = "error " * 10 + "x y z " * 5000 + " the frobnicate culprit is here " + "pad " * 100
    assert "the «frobnicate» culprit" in marker.both(text)[0]
    assert "the «frobnicate» culprit" in Marker({"error": 1.0, "frobnic": 1.0}).both(text)[0]


def test_in_a_long_text_the_same_words_are_hits_as_in_a_short_one() -> None:
    """Irregular forms, identifiers and accents too."""
    terms = {"go": 1.0, "dai": 1.0, "arger": 1.0, "=src/auth": 1.0, "user": 1.0, "京都": 1.0}
    words = "went goes going day days Ärger SRC\\auth getUserById ＵＳＥＲＳ 京都"
    short = Marker(terms).both(words)[0]
    assert short.count("«") == len(words.split())
    assert short in Marker(terms).both("pad " * 6_000 + words)[0]


def any_text(chance: random.Random) -> str:
    """Return operators, words and characters of any kind, thrown together."""
    words = (
        '"',
        "*",
        "role:",
        "thread:",
        'task:"',
        "source:raw",
        "after:",
        "before:2024-02-30",
        "^",
        "=",
        "'",
        "last week",
    )
    words += (chr(chance.randrange(0x110000)), chr(chance.randrange(0x250)), "whale", "src/a.ts", "İstanbul", "北京")
    words += ("red", "Car", "car", "state-of-the-art", "fooBar", "a/b.ts", "Ärger", "北京大学", "แมว", "İ", "ǆ", "ﬁne")
    words += ("e\u0301", "\ud800", "\U0001f600", "«", "»", "…", "\n", "\t ", " ", " ", ".", "-", "_", "\x00")
    return "".join(chance.choice(words) for _ in range(chance.randrange(120)))


@pytest.mark.parametrize("times", [1, 300])
def test_a_snippet_stands_in_its_text(times: int) -> None:
    """It is a stretch of it, with white space folded, and with marks that open and close."""
    chance = random.Random(times)
    for _ in range(counts(400 if times == 1 else 20, 20_000 if times == 1 else 1_000)):
        text = any_text(chance) * times + any_text(chance)
        terms = {term: chance.random() for word in words_of(any_text(chance)) for term in terms_of_word(word)}
        phrases = [phrase for phrase in (phrase_of(any_text(chance)[:9]), phrase_of("red car")) if phrase]
        # The marks are to be told from those of the text.
        text = text.replace("«", "").replace("»", "")
        marker, length = Marker(terms, phrases), chance.choice((40, 60, 240))
        shown = marker.both(text, length)[0]
        pieces = shown.replace("»", "«").split("«")
        assert shown.count("«") == shown.count("»") == len(pieces) // 2
        plain = "".join(pieces).strip("…").strip()
        assert plain in " ".join(text.split())
        place = marker.place(text, length)
        assert (place is None) or (0 <= place[0] < place[1] <= len(text))
        assert ("«" in shown) <= (place is not None)


def test_what_is_copied_is_what_was_written() -> None:
    """Whole lines around the hits, without marks; where it had to be cut, it says so."""
    marker = Marker({"rare": 3.0})
    assert marker.both("if x:\n    rare()") == ("if x: «rare»()", "if x:\n    rare()")
    lines = "\n".join(f"line {number}" for number in range(100))
    exact = marker.both(f"{lines}\n  rare()\n{lines}")[1]
    assert "\n  rare()\n" in exact
    assert set(exact.splitlines()) <= {*lines.splitlines(), "  rare()"}
    assert marker.both(f"{'x' * 1_000} rare {'y' * 1_000}")[1].strip("…xy") == " rare "


# ---------------------------------------------------------------- phrases

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
