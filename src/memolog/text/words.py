"""Split a text or a query into words, and words into the terms of the search index.

word                 terms
restaurants          restaur                                     the stem of a word
getUserById          =getuserbyid · get · user · by · id         a whole identifier, and the stems of its parts
src/auth/login.ts    =src/auth/login.ts · =auth/login.ts ·       a whole path, its ends, and the stems of its parts
                     =login.ts · src · auth · login · ts
東京都               東京 · 京都 · 東 · 京 · 都                  pairs of adjacent characters, and single characters
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from typing import Final

from memolog.core.cache import remembered
from memolog.text.dates import ENGLISH_MONTHS, ENGLISH_WEEKDAYS
from memolog.text.word_lists import FUNCTION_WORDS, NUMBER_WORDS, UNSPACED, word_set

STOP_WORDS: Final = FUNCTION_WORDS | word_set("""
    across against ago along although among aren around behind beside besides beyond couldn d despite didn doesn don else ever
    except hadn hasn haven herself himself however inside isn kind know ll m many might much must mustn myself near now often
    onto ours ourselves outside re s shall shouldn since t tell theirs themselves though toward towards type unless upon ve
    wasn weren whether whose within without wouldn yet yourself yourselves
    """)
"""Words that are removed from a query if other words remain: function words, and some words of questions.

"May" (a month, a name), "long" and "name" are not in the list. `ago` and all prepositions, conjunctions and auxiliaries are in
the list because they raised the score in LongMemEval by half a point to a point (any@5 and any@10, development half). They did
not change the score in LoCoMo."""

NUMBERS: Final = frozenset((*NUMBER_WORDS["en"][1:], "dozen", "hundred", "thousand", "once", "twice"))
TIMES: Final = word_set("""
    yesterday today tomorrow tonight last next ago since recently week weeks weekend month months year years day days morning
    evening night
    """).union(name.lower() for name in (*ENGLISH_WEEKDAYS, *ENGLISH_MONTHS))
LONGEST_WORD: Final = 64
"""Only this many characters of a word are indexed. Longer words are keys, hashes and blobs, which differ in their beginning."""

# Maximum number of indexed parts of a word, of indexed ends of a path, and of cached words.
_MAX_PARTS = 12
_MAX_ENDS = 4
_REMEMBERED = 65_536
# A word may have signs such as `.` and `/` between its parts but not at its end, so the full stop of a sentence is not in a word.
# The pattern takes letters and signs together, and gives the signs at the end back, which is faster than a group of both.
_ASCII: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./\\:@#+-]*\b", re.ASCII)
_JOINTS: Final = "./\\:@#+-"
# Accents, points and vowel signs that are ignored in a search. The signs of the Indic scripts are not ignored.
_POINTS: Final = "\u0300-\u036f\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u064b-\u065f\u0670"
_MARKS: Final = rf"{_POINTS}\u0900-\u0dff"
_LETTERS: Final = rf"(?:[^\W{UNSPACED}]++|[{_MARKS}]++)++"
_ANY: Final = re.compile(rf"[{UNSPACED}]++|{_LETTERS}(?:[./\\:@#+-]++{_LETTERS})*+")
_RUN: Final = re.compile(rf"[{UNSPACED}]")
_PART: Final = re.compile(rf"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|(?:[^\W\d_A-Za-z]|[{_MARKS}])+")
_SEGMENTS: Final = re.compile(r"[./\\:@#+-]+")
_JOINED: Final = re.compile(r"[./\\:@#+_-]+")
_ACCENTS: Final = re.compile(f"[{_POINTS}]")

Word = str
"""A word, an identifier, or a sequence of characters of a script without spaces, as it is in the text."""


def normal(text: str) -> str:
    """Return the text in Unicode form NFKC, in which characters of full width, ligatures and composed letters have one form."""
    return text if text.isascii() else unicodedata.normalize("NFKC", text)


def folded(word: str) -> str:
    """Return a word without case and accents."""
    if word.isascii():
        return word.lower()
    plain = _ACCENTS.sub("", unicodedata.normalize("NFD", word.casefold()))
    return unicodedata.normalize("NFC", plain)


def words_of(text: str) -> list[Word]:
    """Return the words of a text in order. The text is a result of `normal`."""
    return (_ASCII if text.isascii() else _ANY).findall(text)


def places_of(word: Word, text: str) -> Iterator[int]:
    """Yield each position of a word in an ASCII text. A position inside a longer word is skipped."""
    at, length = text.find(word), len(word)
    while at >= 0:
        before = text[max(0, at - LONGEST_WORD) : at].rstrip(_JOINTS)[-1:]
        if not before.isalnum() and before != "_":
            whole = _ASCII.match(text, at)
            if whole is not None and whole.end() == at + length:
                yield at
        at = text.find(word, at + length)


@remembered(_REMEMBERED)
def terms_of_word(word: Word) -> tuple[str, ...]:
    """Return the terms with which a word is indexed. The most specific term is first."""
    if word.isalpha() and (word.islower() or word.istitle() or word.isupper()) and not is_unspaced(word):
        return (stem(folded(word))[:LONGEST_WORD],)
    if word.isdigit():
        return (word[:LONGEST_WORD],)
    if is_unspaced(word):
        return tuple(_characters(folded(word)))
    return tuple(dict.fromkeys((*_wholes(word), *(stem(folded(part))[:LONGEST_WORD] for part in _parts(word)))))


def is_unspaced(word: Word) -> bool:
    """Return whether a word is in a script without spaces."""
    return not word.isascii() and _RUN.match(word) is not None


def _characters(word: str) -> Iterator[str]:
    """Yield each pair of adjacent characters, then each character, so that a search can find words of one or two characters."""
    yield from (word[at : at + 2] for at in range(len(word) - 1))
    yield from word


def plain_of(word: Word) -> str:
    """Return a word in the form in which words are compared: folded, with forward slashes in paths."""
    return folded(word).replace("\\", "/")[:LONGEST_WORD]


def whole_of(word: Word) -> str:
    """Return the term for a whole word, without stemming."""
    return f"={plain_of(word)}"


def _wholes(word: Word) -> Iterator[str]:
    yield whole_of(word)
    yield from map(whole_of, _ends(word))
    # `os.WriteFile` and `provider_test.go` contain a name that a query may use without the rest.
    for segment in _SEGMENTS.split(word)[:_MAX_PARTS]:
        if "_" in segment or (segment != segment.lower() and _PART.fullmatch(segment) is None):
            yield whole_of(segment)


def _ends(word: Word) -> Iterator[str]:
    """Yield the ends of a path, because a query often has only the last folders and the file."""
    end = word.replace("\\", "/")
    for _ in range(_MAX_ENDS):
        _, slash, end = end.partition("/")
        if not slash:
            break
        yield end


def names_in(word: Word) -> Iterator[str]:
    """Yield the ends of a path and the parts of an identifier, folded, because a query may use one of them as a name."""
    if not word.isalpha():
        yield from map(plain_of, _ends(word))
    if not word.isalpha() or not (word.islower() or word.istitle() or word.isupper()):
        yield from (plain_of(part) for part in _parts(word) if not part.isdigit())


def _parts(word: Word) -> list[str]:
    return _PART.findall(word[: 4 * LONGEST_WORD])[:_MAX_PARTS]


def parts_in_order(word: Word) -> Sequence[str]:
    """Return the parts of a word without folding: the characters in a script without spaces, otherwise the text between signs."""
    if word.isalnum() and word.isascii():
        return (word,)
    return word if is_unspaced(word) else [part for part in _JOINED.split(word) if part]


def grams(word: str) -> frozenset[str]:
    """Return the trigrams of a folded word. A word of one or two characters has no trigrams."""
    return frozenset(word[at : at + 3] for at in range(len(word) - 2))


# ---------------------------------------------------------------- stems

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
"""The basic form of each irregular form."""

# The suffix rules of Porter's stemmer, with the replacement of each suffix.
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
_LAST: Final = "ement ance ence able ible ment ant ent ion ism ate iti ous ive ize al er ic ou"
# The steps, each with its rules, its suffixes, and the minimum number of vowels followed by a consonant before the suffix.
_STEPS: Final = tuple(
    (rules, tuple(suffix for suffix, _ in rules), minimum)
    for rules, minimum in ((_LONG, 1), (_MIDDLE, 1), (tuple((suffix, "") for suffix in _LAST.split()), 2))
)
_MIN_STEMMED = 3


def stem(word: str) -> str:
    """Return the stem of an English word: `went` and `going` become `go`."""
    word = IRREGULAR.get(word, word)
    # Only words of ASCII letters have English endings.
    if len(word) < _MIN_STEMMED or not (word.isascii() and word.isalpha()):
        return word
    word = _without_past(_without_plural(word))
    if word.endswith("y") and _has_vowel(word[:-1]):
        word = word[:-1] + "i"
    for rules, suffixes, minimum in _STEPS:
        # Most words have none of the suffixes, and one call of `endswith` with all of them is faster than a call for each.
        if word.endswith(suffixes):
            word = _replaced(word, rules, minimum)
    return _without_end(word)


def _shape(word: str) -> str:
    """Return `v` for each vowel and `c` for each consonant of a word. A `y` after a consonant is a vowel."""
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
    """Return whether a word ends with consonant, vowel, consonant, as `hop` from `hoping` does, so that an `e` is missing."""
    return _shape(word[-3:] if len(word) == _MIN_STEMMED else word).endswith("cvc") and word[-1] not in "wxy"


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


def _replaced(word: str, rules: tuple[tuple[str, str], ...], minimum: int) -> str:
    suffix, new = next(rule for rule in rules if word.endswith(rule[0]))
    root = word.removesuffix(suffix)
    is_replaced = _measure(root) >= minimum and (suffix != "ion" or root.endswith(("s", "t")))
    return root + new if is_replaced else word


def _without_end(word: str) -> str:
    if word.endswith("e"):
        measure = _measure(word[:-1])
        if measure > 1 or (measure == 1 and not _ends_short(word[:-1])):
            word = word[:-1]
    return word[:-1] if word.endswith("ll") and _measure(word) > 1 else word
