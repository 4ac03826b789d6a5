"""English stop words, irregular forms and stems, all in lower case. Words of other languages pass unchanged."""

from typing import Final

from memolog.domain.caches import remembered
from memolog.domain.calendar_names import ENGLISH_MONTHS, ENGLISH_WEEKDAYS
from memolog.domain.word_lists import FUNCTION_WORDS, NUMBER_WORDS

__all__ = ["IRREGULAR", "NUMBERS", "STOP_WORDS", "TIMES", "stem"]

_STOP_WORDS: Final = """
    across against ago along although among aren around behind beside besides beyond couldn d despite didn doesn don else ever
    except hadn hasn haven herself himself however inside isn kind know ll m many might much must mustn myself near now often
    onto ours ourselves outside re s shall shouldn since t tell theirs themselves though toward towards type unless upon ve
    wasn weren whether whose within without wouldn yet yourself yourselves
    """
STOP_WORDS: Final = FUNCTION_WORDS | frozenset(_STOP_WORDS.split())
"""Dropped from a query when something else is left in it: the small words of grammar, and some of how questions are put. "May" is
a month and a name, "long" and "name" are asked for in the same words ("How long have you had them?"): they are looked for. With
`ago` (dates are understood by themselves) and the whole of the prepositions, conjunctions and auxiliaries, LongMemEval gained
half a point to a point (any@5 and any@10, development half), and LoCoMo lost nothing."""

NUMBERS: Final = frozenset((*NUMBER_WORDS["en"][1:], "dozen", "hundred", "thousand", "once", "twice"))
_TIMES: Final = """
    yesterday today tomorrow tonight last next ago since recently week weeks weekend month months year years day days morning
    evening night
    """
TIMES: Final = frozenset((*_TIMES.split(), *(name.lower() for name in (*ENGLISH_WEEKDAYS, *ENGLISH_MONTHS))))

_FORMS: Final = """
begin began begun; break broke broken; bring brought; build built; buy bought; catch caught; choose chose chosen; come came;
draw drew drawn; drink drank drunk; drive drove driven; eat ate eaten; fall fell fallen; feel felt; fight fought; find found;
fly flew flown; forget forgot forgotten; get got gotten; give gave given; go went gone goes; grow grew grown; hear heard;
hold held; keep kept; know knew known; lead led; leave left; lend lent; lose lost; make made; mean meant; meet met; pay paid;
ride rode ridden; run ran; say said; see saw seen; sell sold; send sent; shoot shot; sing sang sung; sit sat; sleep slept;
speak spoke spoken; spend spent; stand stood; steal stole stolen; swim swam swum; take took taken; teach taught; tell told;
think thought; throw threw thrown; understand understood; wake woke woken; wear wore worn; win won; write wrote written;
child children; man men; woman women; foot feet; tooth teeth; mouse mice; person people; life lives; wife wives;
knife knives; leaf leaves; good better best; bad worse worst
"""
IRREGULAR: Final = {
    form: words[0] for words in (line.split() for line in _FORMS.replace("\n", " ").split(";")) for form in words[1:]
}
"""By form, the word that it is a form of."""

# The classic suffix rules: what stands before the suffix must hold at least one vowel-consonant group to be cut.
_LONG: Final = (
    ("ational", "ate"),
    ("ization", "ize"),
    ("iveness", "ive"),
    ("fulness", "ful"),
    ("ousness", "ous"),
    ("tional", "tion"),
    ("biliti", "ble"),
    ("ation", "ate"),
    ("alism", "al"),
    ("aliti", "al"),
    ("iviti", "ive"),
    ("ousli", "ous"),
    ("entli", "ent"),
    ("enci", "ence"),
    ("anci", "ance"),
    ("izer", "ize"),
    ("logi", "log"),
    ("ator", "ate"),
    ("alli", "al"),
    ("bli", "ble"),
    ("eli", "e"),
)
_MIDDLE: Final = (
    ("icate", "ic"),
    ("ative", ""),
    ("alize", "al"),
    ("iciti", "ic"),
    ("ical", "ic"),
    ("ness", ""),
    ("ful", ""),
)
_LAST: Final = (
    *("ement", "ance", "ence", "able", "ible", "ment", "ant", "ent", "ion", "ism", "ate", "iti", "ous", "ive", "ize"),
    *("al", "er", "ic", "ou"),
)
# Most words end in none of these: one look at all of them is many times faster than one after the other.
_LONG_ENDS: Final = tuple(suffix for suffix, _ in _LONG)
_MIDDLE_ENDS: Final = tuple(suffix for suffix, _ in _MIDDLE)
_SHORTEST = 3
_MOST_REMEMBERED = 100_000


@remembered(_MOST_REMEMBERED)
def stem(word: str) -> str:
    """Return what an English word shares with its other forms: `went` and `going` become `go`."""
    word = IRREGULAR.get(word, word)
    # Only words of plain letters have English endings.
    if len(word) < _SHORTEST or not (word.isascii() and word.isalpha()):
        return word
    word = _without_past(_without_plural(word))
    if word.endswith("y") and _has_vowel(word[:-1]):
        word = word[:-1] + "i"
    if word.endswith(_LONG_ENDS):
        word = _replaced(word, _LONG)
    if word.endswith(_MIDDLE_ENDS):
        word = _replaced(word, _MIDDLE)
    return _without_end(_without_suffix(word))


def _shape(word: str) -> str:
    """Return one letter a letter: `v` for vowels, `c` for consonants; `y` is a vowel after a consonant."""
    shape = ""
    for letter in word:
        vowel = letter in "aeiou" or (letter == "y" and shape.endswith("c"))
        shape += "v" if vowel else "c"
    return shape


def _measure(word: str) -> int:
    return _shape(word).count("vc")


def _has_vowel(word: str) -> bool:
    return "v" in _shape(word)


def _ends_short(word: str) -> bool:
    """Return whether a word ends like `hop`: consonant, vowel, consonant, so that an `e` has been lost."""
    return _shape(word[-3:] if len(word) == _SHORTEST else word).endswith("cvc") and word[-1] not in "wxy"


def _without_plural(word: str) -> str:
    if word.endswith(("sses", "ies")):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith("ss") else word


def _without_past(word: str) -> str:
    if word.endswith("eed"):
        return word[:-1] if _measure(word[:-3]) else word
    for suffix in ("ed", "ing"):
        if word.endswith(suffix):
            return _mended(word[: -len(suffix)]) if _has_vowel(word[: -len(suffix)]) else word
    return word


def _mended(root: str) -> str:
    if root.endswith(("at", "bl", "iz")):
        return root + "e"
    if root[-1:] == root[-2:-1] and root[-1] not in "aeioulsz":
        return root[:-1]
    return root + "e" if _measure(root) == 1 and _ends_short(root) else root


def _replaced(word: str, rules: tuple[tuple[str, str], ...]) -> str:
    for suffix, new in rules:
        if word.endswith(suffix):
            root = word[: -len(suffix)]
            return root + new if _measure(root) else word
    return word


def _without_suffix(word: str) -> str:
    if not word.endswith(_LAST):
        return word
    for suffix in _LAST:
        if word.endswith(suffix):
            root = word[: -len(suffix)]
            is_cut = _measure(root) > 1 and (suffix != "ion" or root[-1:] in ("s", "t"))
            return root if is_cut else word
    return word


def _without_end(word: str) -> str:
    if word.endswith("e"):
        measure = _measure(word[:-1])
        if measure > 1 or (measure == 1 and not _ends_short(word[:-1])):
            word = word[:-1]
    return word[:-1] if word.endswith("ll") and _measure(word) > 1 else word
