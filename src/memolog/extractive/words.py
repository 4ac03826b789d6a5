"""Words: which of them carry meaning, which are names or numbers, and which a line can do without.

Knows English function words, and that languages without spaces have no words to split at. Knows nothing of messages.
"""

import re
from typing import Final

__all__ = ["STOP", "is_english", "is_name", "shortened", "weights_of", "words_of"]

_STOP: Final = """
    a about above after again all also am an and any are aren't as at be because been before being below between both but by
    can can't could couldn't did didn't do does doesn't doing don't down during each few for from further get gets getting had
    has have haven't having he he's her here here's hers him his how i i'd i'll i'm i've if in into is isn't it it's its itself
    just let let's me more most my no nor not of off on once only or other our out over own same she should so some such than
    that that's the their them then there there's these they they're this those through to too under until up us very was
    wasn't we we'd we'll we're we've were what what's when where which while who whom why will with won't would wouldn't you
    you'd you'll you're you've your yours
    """
STOP: Final = frozenset(_STOP.split())

_EDGES: Final = " \t\n\r.,;:!?\"'`()[]{}<>*|…“”‘’«»–—-=+"
_COMMON: Final = "the and of to with for you my this that it is i'm i have are on be can your from what how was we do"
_ENGLISH: Final = frozenset(_COMMON.split())
_ENGLISH_SHARE: Final = 0.15
_FEW_WORDS: Final = 3
# Scripts that write no spaces between words: Thai, Lao, Khmer, kana, Chinese characters.
_UNSPACED: Final = re.compile("[\u0e00-\u0eff\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]")
_NAME_WEIGHT: Final = 3.0
_PAIR_WEIGHT: Final = 0.5
_IDENTIFIER: Final = re.compile(r"\d|[_/@#$\\]|\w\.\w|::")


def words_of(text: str) -> list[str]:
    """Return the words of a text as they are written, without what surrounds them."""
    return [word for token in text.split() if (word := token.strip(_EDGES))]


def is_name(word: str) -> bool:
    """Tell whether a word that does not begin a sentence is a name, a number or an identifier."""
    return word != word.lower() or bool(_IDENTIFIER.search(word))


def weights_of(text: str, *, is_head: bool = False) -> dict[str, float]:
    """Return the words that carry meaning, in lower case, each with what it is worth to keep."""
    if not text.isascii() and _UNSPACED.search(text):
        return _pairs(text)
    weights: dict[str, float] = {}
    first = not is_head
    # Every word of every message passes here: the tests are in the order of what they cost.
    for token in text.split():
        word = token.strip(_EDGES)
        lower = word.lower()
        if lower and lower not in STOP:
            if lower == word and word.isalpha():
                weights[lower] = 1.0
            else:
                # A capital at the beginning says nothing, unless there is more to the word.
                plain = first and word[1:].isalpha() and word[1:].islower()
                weights[lower] = _NAME_WEIGHT if not plain and is_name(word) else 1.0
        first = False
    return weights


def _pairs(text: str) -> dict[str, float]:
    """Return pairs of characters where there are no words: two of them say about as much as one word."""
    weights = {text[at : at + 2]: _PAIR_WEIGHT for at in range(len(text) - 1) if not text[at].isspace()}
    weights.update((word.lower(), _NAME_WEIGHT) for word in words_of(text) if word.isascii() and is_name(word))
    return weights


def is_english(text: str) -> bool | None:
    """Tell whether a text is English; None where it is too short to tell."""
    words = text[:600].lower().split()
    if len(words) < _FEW_WORDS:
        return None
    return sum(word in _ENGLISH for word in words) >= _ENGLISH_SHARE * len(words)


# ---------------------------------------------------------------- shortening

# What is quoted stays word for word. "am" and "a" can be more than they seem: 8 am, plan a.
_DROPPED: Final = re.compile(
    r"\"[^\"]*\"|“[^”]*”|`[^`]*`"
    r"|(?<![\w'’-])(?<!plan )(?<!option )(?<!type )(?<!part )(?<!class )(?<!vitamin )(?:a(?! (?:week|day|month|year"
    r"|couple|few|"
    r"little|lot|bit|dozen|hundred|thousand|million|half|third|quarter)\b)|an|the(?! way\b)|is|are) (?=[\w\"“'$(])"
    r"|(?<=\bI )am (?=\w)"
)
_OPENING: Final = re.compile(
    r"(?:(?:By the way|Btw|BTW|Also|And|So|Oh|Ah|Well|Actually|Anyway|Ok|Okay|OK|Hey|Hi|Hello|Yes|Yeah|Sure|Great|Thanks|"
    r"Thank you|Speaking of which|Additionally|Furthermore|Moreover|However|Finally|Overall|In addition)(?:[,!] ?"
    r"|\.\s+| - )){1,3}"
    r"(?:(?:and|but|so) )?(?=\S)"
)
_LEADING: Final = re.compile(r"\A(?:and|but|so|or|then|which|who|as well as) (?=\w)")
_ARTICLE: Final = re.compile(r"(?:A|An|The|There (?:is|are)|It(?:'s| is)|This is|These are) (?=[\w\"“'$(])")


def shortened(text: str) -> str:
    """Return an English text without articles, forms of "is", and words that only open a sentence."""
    hit = _ARTICLE.match(text)
    # A capital after the article may be part of a title, and the article with it.
    if hit and not text[hit.end()].isupper():
        text = text[hit.end() :]
    text = _DROPPED.sub(lambda found: found[0] if found[0][0] in '"“`' else "", text)
    return _LEADING.sub("", text.rstrip(" .,;:!"))
