"""Fold texts for comparison: case, width, escapes, separators, and scripts without spaces. Linear in the length of the text."""

import re
import unicodedata
from typing import Final

from memolog.domain.word_lists import FUNCTION_WORDS, UNSPACED

__all__ = ["content_words", "folded", "squeezed", "unescaped", "with_escapes_undone"]

_ENTITY: Final = re.compile(r"&(?:amp;)*+(lt|gt|quot|apos|#39|nbsp);|&amp;", re.IGNORECASE)
_ENTITIES: Final = {"lt": "<", "gt": ">", "quot": '"', "apos": "'", "#39": "'", "nbsp": " "}
_INVISIBLE: Final = re.compile("[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff\U000e0000-\U000e007f]")
# A superscript or subscript digit is not part of the number before it: 10² is not 102.
_RAISED: Final = re.compile(r"(?<=\d)(?=[\u2070\u00b9\u00b2\u00b3\u2074-\u2079\u2080-\u2089])")
_ESCAPED: Final = re.compile(r"(?<!\\)\\++[nrt\"']")
_APART: Final = re.compile(rf"[{UNSPACED}]")
_SEPARATORS: Final = re.compile(r"[\W_]+")
_SHORTEST: Final = 3
# Words that do not show where a sentence comes from: those of grammar, except a few that change what it says, and those with
# which a line reports that something was said.
_TELLING_WORDS: Final = "above again below between down during few further nor"
_EMPTY_WORDS: Final = """
    agent approved asked asks assistant assistants confirmed decided done going let lets may message messages must need needs
    now per please prefer prefers requested said say says shall stated tell told tool tools upon use used user users via want
    wants yes yet
    """
_EMPTY: Final = FUNCTION_WORDS - set(_TELLING_WORDS.split()) | set(_EMPTY_WORDS.split())


def unescaped(text: str) -> str:
    """Return the text with HTML entities decoded, also repeatedly escaped ones."""
    if "&" not in text:
        return text
    return _ENTITY.sub(lambda hit: _ENTITIES.get((hit[1] or "").lower(), "&"), text)


def folded(text: str) -> str:
    """Return the text folded for comparison: case, width, entities, invisible characters."""
    text = unescaped(text)
    if not text.isascii():
        text = unicodedata.normalize("NFKC", _RAISED.sub(" ", _INVISIBLE.sub("", text)))
    return text.casefold()


def squeezed(plain: str) -> str:
    """Return a folded text as words between points: `.src.auth.ts.`, whatever stood between them.

    So a path, a dotted name, a name in snake case and the same words apart are alike, and a search for one that begins and
    ends with a point finds whole words only.
    """
    if not plain.isascii():
        plain = _APART.sub(r".\g<0>.", plain)
    return f".{_SEPARATORS.sub('.', plain).strip('.')}."


def with_escapes_undone(text: str) -> str:
    """Return the text, followed by a copy without JSON escapes, whose letters would join the words."""
    return f"{text}\n{_ESCAPED.sub(' ', text)}" if "\\" in text else text


def content_words(text: str) -> tuple[str, ...]:
    """Return the words that say something, each once, in order; of unspaced scripts the pairs of neighbours."""
    words = squeezed(folded(text)).strip(".").split(".")
    found: dict[str, None] = {}
    for word, following in zip(words, [*words[1:], ""], strict=True):
        if _APART.match(word):
            if _APART.match(following):
                found[f"{word}.{following}"] = None
        elif len(word) >= _SHORTEST and word not in _EMPTY:
            found[word] = None
    return tuple(found)
