"""Split a text or a query into words, and words into the terms of the index.

restaurants          restaur                                     a word by its stem
getUserById          =getuserbyid · get · user · by · id         an identifier whole, and its parts
src/auth/login.ts    =src/auth/login.ts · =auth/login.ts ·       a path whole, its ends, and its parts
                     =login.ts · src · auth · login · ts
東京都               東 · 京 · 都 · 東京 · 京都                  characters and pairs
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from typing import Final

from memolog.core.cache import remembered
from memolog.text.dates import ENGLISH_MONTHS, ENGLISH_WEEKDAYS
from memolog.text.word_lists import FUNCTION_WORDS, NUMBER_WORDS, UNSPACED

_STOP_WORDS: Final = """
    across against ago along although among aren around behind beside besides beyond couldn d despite didn doesn don else ever
    except hadn hasn haven herself himself however inside isn kind know ll m many might much must mustn myself near now often
    onto ours ourselves outside re s shall shouldn since t tell theirs themselves though toward towards type unless upon ve
    wasn weren whether whose within without wouldn yet yourself yourselves
    """
STOP_WORDS: Final = FUNCTION_WORDS | frozenset(_STOP_WORDS.split())
"""Words that are dropped from a query if other words are left: words of grammar, and some words of questions. "May" (a month, a
name), "long" and "name" are searched for. With `ago` and all prepositions, conjunctions and auxiliaries in this list,
LongMemEval gained half a point to a point (any@5 and any@10, development half), and LoCoMo lost nothing."""

NUMBERS: Final = frozenset((*NUMBER_WORDS["en"][1:], "dozen", "hundred", "thousand", "once", "twice"))
_TIMES: Final = """
    yesterday today tomorrow tonight last next ago since recently week weeks weekend month months year years day days morning
    evening night
    """
TIMES: Final = frozenset((*_TIMES.split(), *(name.lower() for name in (*ENGLISH_WEEKDAYS, *ENGLISH_MONTHS))))
LONGEST_WORD: Final = 64
"""Only so many characters of a word are indexed: longer words are keys, hashes and blobs, which differ earlier."""

_MOST_PARTS = 12
_MOST_ENDS = 4
_REMEMBERED = 65_536
# What holds an identifier together. Signs that belong to the sentence (a full stop at its end) are never inside a word.
_ASCII: Final = re.compile(r"[A-Za-z0-9_]+(?:[./\\:@#+-]+[A-Za-z0-9_]+)*")
_JOINTS: Final = "./\\:@#+-"
# Points and vowel signs that may be left out; those of the Indic scripts may not.
_POINTS: Final = "\u0300-\u036f\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u064b-\u065f\u0670"
_MARKS: Final = rf"{_POINTS}\u0900-\u0dff"
_LETTER: Final = rf"[^\W{UNSPACED}]|[{_MARKS}]"
_ANY: Final = re.compile(rf"([{UNSPACED}]+)|(?:{_LETTER})+(?:[./\\:@#+-]+(?:{_LETTER})+)*")
_RUN: Final = re.compile(rf"[{UNSPACED}]")
_PART: Final = re.compile(rf"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|(?:[^\W\d_A-Za-z]|[{_MARKS}])+")
_SEGMENTS: Final = re.compile(r"[./\\:@#+-]+")
_JOINED: Final = re.compile(r"[./\\:@#+_-]+")
_ACCENTS: Final = re.compile(f"[{_POINTS}]")

Word = str
"""A piece of a text as it is written there: a word, an identifier, or a run of a script without spaces."""


def normal(text: str) -> str:
    """Return the text with one code for one character: full width, ligatures and composed letters are unified."""
    return text if text.isascii() else unicodedata.normalize("NFKC", text)


def folded(word: str) -> str:
    """Return a word without case and accents."""
    if word.isascii():
        return word.lower()
    plain = _ACCENTS.sub("", unicodedata.normalize("NFD", word.casefold()))
    return unicodedata.normalize("NFC", plain)


def words_of(text: str) -> list[Word]:
    """Return the words of a normal text, in order."""
    return _ASCII.findall(text) if text.isascii() else [hit[0] for hit in _ANY.finditer(text)]


def places_of(word: Word, text: str) -> Iterator[int]:
    """Yield where a word stands in an ASCII text, not counting where it is a part of another one."""
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
    """Return the terms under which a word is indexed, the most specific first."""
    if word.isalpha() and (word.islower() or word.istitle() or word.isupper()) and not is_unspaced(word):
        return (stem(folded(word))[:LONGEST_WORD],)
    if word.isdigit():
        return (word[:LONGEST_WORD],)
    if is_unspaced(word):
        return tuple(_characters(folded(word)))
    return tuple(dict.fromkeys((*_wholes(word), *_parts(word))))


def is_unspaced(word: Word) -> bool:
    """Return whether a word is a run of a script without spaces."""
    return not word.isascii() and _RUN.match(word) is not None


def _characters(run: str) -> Iterator[str]:
    """Yield each pair of neighbours, then each character, so that words of one or two characters are found."""
    yield from (run[at : at + 2] for at in range(len(run) - 1))
    yield from run


def plain_of(word: Word) -> str:
    """Return a word as it is compared with others: folded, with forward slashes in paths."""
    return folded(word).replace("\\", "/")[:LONGEST_WORD]


def whole_of(word: Word) -> str:
    """Return the term that stands for a word as it is written."""
    return f"={plain_of(word)}"


def _wholes(word: Word) -> Iterator[str]:
    yield whole_of(word)
    yield from map(whole_of, _ends(word))
    # `os.WriteFile` and `provider_test.go` contain a name that queries use alone.
    for segment in _SEGMENTS.split(word)[:_MOST_PARTS]:
        if "_" in segment or (segment != segment.lower() and _PART.fullmatch(segment) is None):
            yield whole_of(segment)


def _ends(word: Word) -> Iterator[str]:
    """Yield the ends of a path, because queries often name only its last folders."""
    end = word.replace("\\", "/")
    for _ in range(_MOST_ENDS):
        _, slash, end = end.partition("/")
        if not slash:
            break
        yield end


def names_in(word: Word) -> Iterator[str]:
    """Yield other names of a word, folded: the ends of a path and the parts of an identifier."""
    if not word.isalpha():
        yield from map(plain_of, _ends(word))
    if not word.isalpha() or not (word.islower() or word.istitle() or word.isupper()):
        yield from (
            plain_of(part) for part in _PART.findall(word[: 4 * LONGEST_WORD])[:_MOST_PARTS] if not part.isdigit()
        )


def _parts(word: Word) -> Iterator[str]:
    for part in _PART.findall(word[: 4 * LONGEST_WORD])[:_MOST_PARTS]:
        yield stem(folded(part))[:LONGEST_WORD]


def parts_in_order(word: Word) -> Sequence[str]:
    """Return the parts of a word as they are written: characters of a script without spaces, else what signs join."""
    if word.isalnum() and word.isascii():
        return (word,)
    return word if is_unspaced(word) else [part for part in _JOINED.split(word) if part]


def grams(word: str) -> frozenset[str]:
    """Return the trigrams of a folded word; one of fewer characters has none."""
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
# Most words end in none of these: `endswith` with all of them is much faster than one check each.
_LONG_ENDS: Final = tuple(suffix for suffix, _ in _LONG)
_MIDDLE_ENDS: Final = tuple(suffix for suffix, _ in _MIDDLE)
_SHORTEST = 3
_MOST_REMEMBERED = 100_000


@remembered(_MOST_REMEMBERED)
def stem(word: str) -> str:
    """Return the stem of an English word: `went` and `going` become `go`."""
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
    """Return the shape of a word: `v` for each vowel, `c` for each consonant; `y` is a vowel after a consonant."""
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
