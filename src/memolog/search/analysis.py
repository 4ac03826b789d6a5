"""Analyse a text for the index: its terms with their frequency, its words, its length and a few traits."""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple, cast

from memolog.core.cache import Results
from memolog.core.message import FilePart, Part, TextPart, texts_of
from memolog.search.bm25 import ASSISTANT, TOOL, USER
from memolog.text.words import NUMBERS, STOP_WORDS, TIMES, names_in, normal, plain_of, terms_of_word, words_of

ASKS: Final = 1
"""The text ends with a question mark, so the next message may be the answer."""
STATES: Final = 2
"""Fewer than half of the sentences of the text are questions."""
NUMBER: Final = 4
TIME: Final = 8
NAMES_SOMETHING: Final = 16
"""The text contains a capitalised word that does not begin a sentence."""

# The maximum number of characters and of terms of a text that are indexed. The rest of the text is not indexed.
_MOST_CHARACTERS = 1_000_000
_MOST_TERMS = 16_000
# The frequency of a term is stored in three steps: once, two or three times, four or more times. With more than four
# occurrences, the score in BM25 hardly rises.
_OFTEN, _VERY_OFTEN = 2, 4
# The marks at the end of a sentence, or marks and the character after them, which then do not end a sentence. Both patterns begin
# with a character class and not with a look at the character before, because `re` then skips all other characters quickly.
_MARKS: Final = re.compile(r"([.!?。][.!?。]*+)(?:(?!\S)|(\S))")
_NAME: Final = re.compile(r"[A-Z](?<=[a-z,] .)[a-z]")
# ASKS, STATES and NAMES_SOMETHING describe only the first `_LOOKED_AT` characters of a text.
_LOOKED_AT = 4_000
_REMEMBERED = 65_536
# Longer words are not cached, because they do not occur again.
_LONG_WORD = 256


class Analysed(NamedTuple):
    """A text as it is indexed."""

    terms: Sequence[str]
    """Each term once. A term that occurs twice or more is added again with `^`, and one that occurs four times also with `^^`."""
    words: Collection[str]
    """The distinct words as they are in the text. `add_stored_words` adds what is stored of them."""
    length: int
    traits: int


def analyse(text: str) -> Analysed:
    """Return the analysis of the first million characters of a text."""
    text = normal(text[:_MOST_CHARACTERS])
    traits = _traits(text[:_LOOKED_AT])
    found = words_of(text)
    words = Counter(found)
    counts: dict[str, int] = {}
    get = counts.get
    # Every word of every message is analysed, so results are cached by word.
    for terms, times in zip(map(_ANALYSED.__getitem__, words), words.values(), strict=True):
        if isinstance(terms, str):
            counts[terms] = get(terms, 0) + times
            continue
        traits |= terms.traits
        for term in terms.terms:
            counts[term] = get(term, 0) + (1 if terms.is_empty else times)
    return Analysed(_with_marks(counts), words, len(found), traits)


def add_stored_words(words: Iterable[str], stored: dict[str, tuple[str, ...]]) -> None:
    """Add to `stored` what is stored of each word: the word and the parts of a path or an identifier, all folded.

    A query such as `auth*` is compared with these.
    """
    for word in [word for word in words if word not in stored]:
        stored[word] = _STORED[word]


class _Terms(NamedTuple):
    """The terms of a word that is more than a plain word with one term."""

    terms: tuple[str, ...]
    traits: int
    """NUMBER and TIME."""
    is_empty: bool
    """Whether it is a stop word. The frequency of stop words is ignored."""


def _analyse_word(word: str) -> str | _Terms:
    """Return the term of a plain word. Of another word, return its terms and what is special about it."""
    plain, terms = plain_of(word), terms_of_word(word)
    traits = NUMBER * (plain in NUMBERS or plain.isdigit()) | TIME * (plain in TIMES)
    is_empty = plain in STOP_WORDS
    return terms[0] if len(terms) == 1 and not traits and not is_empty else _Terms(terms, traits, is_empty)


_ANALYSED: Final = Results(_analyse_word, _REMEMBERED, longest=_LONG_WORD)


def _stored_of_word(word: str) -> tuple[str, ...]:
    return (plain_of(word), *names_in(word))


_STORED: Final = Results(_stored_of_word, _REMEMBERED, longest=_LONG_WORD)


def _with_marks(counts: dict[str, int]) -> Sequence[str]:
    if len(counts) > _MOST_TERMS:
        counts = dict(islice(counts.items(), _MOST_TERMS))
    # Few terms occur more than once.
    often = [term for term, times in counts.items() if times >= _OFTEN]
    very_often = [term for term in often if counts[term] >= _VERY_OFTEN]
    return [*counts, *[f"{term}^" for term in often], *[f"{term}^^" for term in very_often]]


def _traits(text: str) -> int:
    """Return the traits of a text that do not follow from its words."""
    traits = NAMES_SOMETHING if _NAME.search(text) else 0
    if "?" not in text:
        return traits | STATES
    stripped = text.rstrip()
    if stripped.endswith("?"):
        traits |= ASKS
    ends = [marks for marks, inside in _MARKS.findall(stripped) if not inside]
    asked = sum(["?" in end for end in ends])
    if 2 * asked < max(1, len(ends)):
        traits |= STATES
    return traits


Redact = Callable[[str], str]
"""Returns a text without its secrets."""

# The maximum depth of nested values that are indexed, and the maximum characters of a short value.
_DEEPEST = 50
_SHORT = 200


def kind_of(role: str, parts: Sequence[Part]) -> int:
    """Return the class of a message: USER, ASSISTANT or TOOL. The ranking gives the classes different weights."""
    if role == "tool" or not any(isinstance(part, TextPart) for part in parts):
        return TOOL
    return USER if role == "user" else ASSISTANT


def text_of_parts(parts: Sequence[Part]) -> str:
    """Return all text in the parts of a message, including tool calls and results."""
    if len(parts) == 1 and isinstance(parts[0], TextPart):
        return parts[0].text
    return "\n".join(text for part in parts for text in texts_of(part, _strings, _file) if text)


def _file(part: FilePart) -> Iterator[str]:
    yield part.name or ""
    yield part.url or ""


def _strings(value: Any, depth: int = 0) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, bool) or value is None or depth > _DEEPEST:
        return
    elif isinstance(value, int | float):
        yield str(value)
    elif isinstance(value, dict):
        for key, inner in value.items():  # pyright: ignore[reportUnknownVariableType]
            if _is_short(cast("object", inner)):
                # Redaction recognises some secrets by their names, so key and value must be in one text.
                yield f'{key}: "{inner}"'
                continue
            yield str(key)  # pyright: ignore[reportUnknownArgumentType]
            yield from _strings(inner, depth + 1)
    elif isinstance(value, list | tuple):
        items = cast("Sequence[object]", value)
        if items and all(map(_is_short, items)):
            # The list may be a command. An option and its value must be in one text.
            yield " ".join(map(str, items))
            return
        for inner in items:
            yield from _strings(inner, depth + 1)


def _is_short(value: object) -> bool:
    if isinstance(value, str):
        return 0 < len(value) <= _SHORT and "\n" not in value and '"' not in value
    return isinstance(value, int | float) and not isinstance(value, bool)


def text_of_task(title: str, description: str, summary: str | None, labels: Sequence[str]) -> str:
    """Return the text of a task."""
    return "\n".join(text for text in (title, summary or "", description, " ".join(labels)) if text)
