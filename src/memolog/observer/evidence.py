"""Find the names, numbers, dates and other mentions in a new line for which there is no evidence.

Evidence is in the messages that the line cites, and in the log that the observer was shown. Each of these texts is prepared once
(class Evidence) for any number of lookups. Differences in spelling and formatting are accepted. Dates that the observer computed
are accepted too. The module `memolog.observer.judge` decides whether a line with such mentions is flagged or dropped.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from functools import cached_property
from itertools import groupby, islice
from typing import Final

from memolog.core.cache import remembered
from memolog.core.exact_json import JsonValue, json_texts
from memolog.core.message import FilePart, Message, TextPart, ToolResultPart, UnknownPart, texts_of
from memolog.text.identifiers import (
    SEGMENTS,
    Day,
    Kind,
    Mention,
    content_words,
    days_in,
    folded,
    mentions,
    minutes_in,
    squeezed,
    values_in,
    values_of,
    with_escapes_undone,
)
from memolog.text.word_lists import MEANING

_SAMPLE: Final = 20_000  # characters at the beginning of a text that decide its script
_LATIN: Final = re.compile(r"[a-zß-öø-ÿ]")
_LATIN_LETTER: Final = re.compile(r"[A-Za-z]")
_LETTER: Final = re.compile(r"[^\W\d_]")
_HUMP: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_SCHEME: Final = re.compile(r"\A[a-z][a-z0-9+.-]{0,20}://(?:www\.)?|\Awww\.")
_ELLIPSIS: Final = re.compile(r"…|\.{3}|\[\.\.\.\]")
_SHORTEST_HASH: Final = 7
_STEM: Final = 5  # letters of a stem
_SHORTEST_STEM: Final = 3  # minimum letters of the stem of a name
_MOST_ENDING: Final = 2  # maximum letters of the ending of a name
_MOST_SEGMENTS: Final = 64  # maximum segments of a path that are compared


class Evidence:
    """A text in which words, numbers and other mentions are looked up."""

    def __init__(self, text: str) -> None:
        self._text = text

    @cached_property
    def literal(self) -> str:
        """The text in lower case and normal width. If it has a backslash, a copy follows in which each JSON escape is a space."""
        return folded(with_escapes_undone(self._text))

    @cached_property
    def dotted_words(self) -> str:
        """The text as words with a point before and after each word: `.src.auth.ts.`."""
        return squeezed(self.literal)

    @cached_property
    def words(self) -> frozenset[str]:
        """The set of all words."""
        return frozenset(self.dotted_words.split("."))

    @cached_property
    def stems(self) -> frozenset[str]:
        """The first letters of each longer word. Inflected forms of a word have the same first letters."""
        return frozenset(word[:_STEM] for word in self.words if len(word) >= _STEM)

    @cached_property
    def values(self) -> frozenset[str]:
        """The values of all numbers in the text."""
        return values_in(self.literal)

    @cached_property
    def days(self) -> frozenset[Day]:
        """All days in the text."""
        return days_in(self.literal)

    @cached_property
    def minutes(self) -> frozenset[int]:
        """All times of day in the text, in minutes after midnight."""
        return minutes_in(self.literal)

    @cached_property
    def is_latin(self) -> bool | None:
        """Whether at least half of the letters are Latin; None if there are no letters."""
        return _is_sample_latin(self.literal[:_SAMPLE])

    def has(self, squeezed_text: str) -> bool:
        """Return whether the text contains these words (in the form of `dotted_words`) side by side."""
        # Most lookups fail because one of the words is missing, and a set finds that fast.
        words = squeezed_text.strip(".").split(".")
        return self.words.issuperset(words) and (len(words) == 1 or squeezed_text in self.dotted_words)


def _is_sample_latin(sample: str) -> bool | None:
    if sample.isascii():
        return True if _LATIN.search(sample) else None
    letters = len(_LETTER.findall(sample))
    return None if not letters else 2 * len(_LATIN.findall(sample)) >= letters


def _is_latin(text: str) -> bool | None:
    return _is_sample_latin(folded(with_escapes_undone(text))[:_SAMPLE])


class _Joined(Evidence):
    """Several texts as one. What was found out about each of them is not computed again."""

    def __init__(self, parts: Sequence[Evidence]) -> None:
        self._parts = parts

    @cached_property
    def literal(self) -> str:
        return "\n".join(part.literal for part in self._parts)

    @cached_property
    def dotted_words(self) -> str:
        return f".{'.'.join(filter(None, (part.dotted_words.strip('.') for part in self._parts)))}."

    @cached_property
    def words(self) -> frozenset[str]:
        return frozenset[str]().union(*(part.words for part in self._parts))

    @cached_property
    def stems(self) -> frozenset[str]:
        return frozenset[str]().union(*(part.stems for part in self._parts))


# A text of at least `_LONG` characters, such as a tool result, is analysed once for all checks. Shorter texts are analysed
# together. The analyses of the latest `_ANALYSED` long texts are cached, but not those of more than `_MAX_ANALYSED` characters.
_LONG: Final = 4_000
_MAX_ANALYSED: Final = 32_000
_ANALYSED: Final = 16
_analysed = remembered(_ANALYSED)(Evidence)
# One model call observes short conversations of several threads, and each is compared with all others. So they are cached too.
_SHORT: Final = 128
_short = remembered(_SHORT)(Evidence)


def evidence_in(text: str) -> Evidence:
    """Return a text as evidence, from the cache if it was analysed before."""
    if len(text) < _LONG:
        return _short(text)
    return _analysed(text) if len(text) <= _MAX_ANALYSED else Evidence(text)


def joined(texts: Iterable[str]) -> Evidence:
    """Return the evidence of texts in the order given, with a line end between two of them."""
    parts: list[str] = []
    for is_long, group in groupby(filter(None, texts), key=lambda text: len(text) >= _LONG):
        found = list(group)
        parts += found if is_long else ["\n".join(found)]
    return evidence_in(parts[0] if parts else "") if len(parts) <= 1 else _Joined([evidence_in(part) for part in parts])


def together(parts: Sequence[Evidence]) -> tuple[Evidence, ...]:
    """Return several texts as one evidence, or an empty tuple if there are none."""
    return tuple(parts) if len(parts) <= 1 else (_Joined(parts),)


def support(text: str, evidence: Evidence) -> float:
    """Return the share of the words of a text that occur in the evidence.

    The share is 1.0 if the words cannot be compared, because there are none or the two texts are in different scripts.
    """
    words = content_words(text)
    if not words or _is_latin(text) != evidence.is_latin:
        return 1.0
    # Most words occur as they are.
    others = [word for word in words if word not in evidence.words]
    return (len(words) - len(others) + sum(_is_said(word, evidence) for word in others)) / len(words)


def _is_said(word: str, evidence: Evidence) -> bool:
    if "." in word:
        return evidence.has(f".{word}.")
    return word in evidence.words or (len(word) >= _STEM and word[:_STEM] in evidence.stems)


def has_word(word: str, texts: Sequence[Evidence]) -> bool:
    """Return whether a word of `content_words` occurs in one of the texts in exactly this form."""
    for text in texts:  # noqa: SIM110 - each line asks many times, and a generator takes twice the time of a loop
        if text.has(f".{word}.") if "." in word else word in text.words:
            return True
    return False


def is_word_of(word: str, texts: Sequence[Evidence]) -> bool:
    """Return whether a word of `content_words`, or another form of the word, occurs in one of the texts."""
    for text in texts:  # noqa: SIM110 - as in `has_word`
        if _is_said(word, text):
            return True
    return False


def words_of(words: Iterable[str], texts: Sequence[Evidence]) -> frozenset[str]:
    """Return the words of `content_words` that occur, in this or another form, in one of the texts."""
    found, others = frozenset[str](), frozenset(words)
    for text in texts:
        # Most words occur as they are.
        found |= text.words & others
        found |= {word for word in others - found if _is_said(word, text)}
    return found


# Common English words. Some words that are frequent in related languages too, such as "in", "was" or "die", are left out.
_ENGLISH_WORDS: Final = "the is are were to of and for with on that it by from has have had this be been not or at as"
_ENGLISH: Final = frozenset(_ENGLISH_WORDS.split())
_LEAST_ENGLISH_WORDS: Final = 8  # a text with fewer words is too short to decide
_IS_ENGLISH: Final = 0.1  # minimum share of the common words in an English text
_IS_NOT: Final = 0.03  # a text with a smaller share is not English


def is_english(text: Evidence) -> bool | None:
    """Return whether a text is in English; None if the text is too short or its language is uncertain."""
    words = text.dotted_words.strip(".").split(".")
    if len(words) < _LEAST_ENGLISH_WORDS:
        return None
    share = sum(word in _ENGLISH for word in words) / len(words)
    return True if share >= _IS_ENGLISH else False if share < _IS_NOT else None


def is_found(mention: Mention, texts: Sequence[Evidence]) -> bool:
    """Return whether a mention occurs in one of the texts, also with another spelling or format."""
    return _FINDERS[mention.kind](mention.text, texts)


def _occurs(needle: str, texts: Sequence[Evidence]) -> bool:
    return needle in {"..", "."} or any(text.has(needle) for text in texts)


def _singular(needle: str) -> list[str]:
    ends = (end for end in ("s", "es") if needle.endswith(f"{end}.") and len(needle) > len(end) + 4)
    return [needle, *(f"{needle[: -1 - len(end)]}." for end in ends)]


def _has_symbol(text: str, texts: Sequence[Evidence]) -> bool:
    needle = squeezed(folded(text))
    humps = squeezed(folded(_HUMP.sub(" ", text)))
    return any(
        _occurs(form, texts) or has_word(form.replace(".", ""), texts) or _occurs(f"{form[:-1]}s.", texts)
        for whole in (needle, humps)
        for form in _singular(whole)
    )


def _has_path(text: str, texts: Sequence[Evidence]) -> bool:
    """Return whether the last segments of a path (at least one) occur in one piece, and each earlier segment occurs anywhere."""
    parts = [part for part in SEGMENTS.split(folded(text)) if part not in {"", ".", "..", "~"}][:_MOST_SEGMENTS]
    starts = (at for at in range(len(parts)) if _occurs(squeezed("/".join(parts[at:])), texts))
    start = next(starts, None if parts else 0)
    return start is not None and all(_occurs(squeezed(part), texts) for part in parts[:start])


def _has_hash(text: str, texts: Sequence[Evidence]) -> bool:
    needle = folded(text)
    if _occurs(squeezed(needle), texts) or any(f".{needle}" in one.dotted_words for one in texts):
        return True
    return any(has_word(needle[:size], texts) for size in range(_SHORTEST_HASH, len(needle)))


def _has_flag(text: str, texts: Sequence[Evidence]) -> bool:
    needle = folded(text)
    pattern = re.compile(rf"(?<![\w-]){re.escape(needle)}(?![\w-])")
    return any(needle in one.literal and pattern.search(one.literal) for one in texts)


def _has_piece(piece: str, texts: Sequence[Evidence]) -> bool:
    needle = squeezed(folded(piece))
    if needle.strip("."):
        return any(_occurs(form, texts) for form in _singular(needle))
    return not piece.strip() or any(folded(piece).strip() in text.literal for text in texts)


def _has_name(word: str, texts: Sequence[Evidence]) -> bool:
    forms = {word, f"{word}s", word.removesuffix("s"), word.removesuffix("es")}
    if any(_occurs(f".{form}.", texts) for form in forms if form):
        return True
    if word.isascii():
        return False
    # Many languages inflect names, so only the letters before the ending are compared.
    stem = word[: max(len(word) - _MOST_ENDING, _SHORTEST_STEM)]
    return len(word) > _SHORTEST_STEM + 1 and any(f".{stem}" in text.dotted_words for text in texts)


def _has_number(text: str, texts: Sequence[Evidence]) -> bool:
    values = values_of(folded(text))
    return not values or any(not values.isdisjoint(one.values) for one in texts)


def _has_date(text: str, texts: Sequence[Evidence]) -> bool:
    days, days_of_texts = days_in(folded(text)), {day for one in texts for day in one.days}
    return any(
        (day.month, day.day) == (other.month, other.day) and (day.year == other.year or not day.year or not other.year)
        for day in days
        for other in days_of_texts
    )


def _has_time(text: str, texts: Sequence[Evidence]) -> bool:
    minutes = minutes_in(text)
    return any(not minutes.isdisjoint(one.minutes) for one in texts)


_FINDERS: Final[Mapping[Kind, Callable[[str, Sequence[Evidence]], bool]]] = {
    "path": _has_path,
    "symbol": _has_symbol,
    "command": _has_symbol,
    "version": _has_symbol,
    "url": lambda text, texts: _occurs(squeezed(_SCHEME.sub("", folded(text))), texts),
    "hash": _has_hash,
    "flag": _has_flag,
    "number": _has_number,
    "quote": lambda text, texts: all(_has_piece(piece, texts) for piece in _ELLIPSIS.split(text)),
    "name": lambda text, texts: all(_has_name(word, texts) for word in squeezed(folded(text)).strip(".").split(".")),
    "date": _has_date,
    "time": _has_time,
}


# Maximum characters of a text. The observer sees at most 100,000 tokens of messages (about 400,000 characters), and longer texts
# without their middle. So only the beginning and the end of a longer text are used here.
_MOST: Final = 400_000
_MOST_VALUES: Final = 20_000  # maximum number of JSON values that are read


def source_text(message: Message) -> str:
    """Return all text of a message that an observer may use."""
    return "\n".join(filter(None, (said_text(message), returned_text(message))))


def said_text(message: Message) -> str:
    """Return the text, reasoning, tool calls and files of a message with the speaker's name; empty for a message of a tool."""
    if message.role == "tool" or message.own:
        return ""
    texts = [
        text
        for part in message.parts
        if not isinstance(part, ToolResultPart)
        for text in texts_of(part, _values, _file)
    ]
    return "\n".join([message.speaker or "", *map(_without_middle, texts)]).strip()


def returned_text(message: Message) -> str:
    """Return the tool results in a message, or all text of the message if its role is "tool"."""
    if message.own:
        return ""
    is_tool = message.role == "tool"
    parts = [part for part in message.parts if is_tool or isinstance(part, ToolResultPart)]
    return "\n".join(_without_middle(text) for part in parts for text in texts_of(part, _values, _file))


def is_spoken_by_user(message: Message) -> bool:
    """Return whether a message of a user contains words or files of the user.

    Some providers put tool results into messages with the role "user". A message with tool results only is not the user's.
    """
    return (
        message.role == "user"
        and not message.own
        and any(
            bool(part.text.strip()) if isinstance(part, TextPart) else isinstance(part, FilePart | UnknownPart)
            for part in message.parts
        )
    )


def _without_middle(text: str) -> str:
    return text if len(text) <= _MOST else f"{text[: _MOST // 2]}\n{text[-_MOST // 2 :]}"


def _file(part: FilePart) -> Iterator[str]:
    yield f"{part.name or ''} {part.media_type} {part.url[:2_000] if part.url else ''}"
    yield f"{part.width or ''} × {part.height or ''}, {part.pages or ''} pages, {part.seconds or ''} s"
    if part.data is not None:
        size = len(part.data)
        yield f"{size} bytes, {round(size / 1e3)} kB, {round(size / 1e6)} MB, {size / 1e6:.1f} MB"


def _values(value: JsonValue) -> Iterator[str]:
    return islice(json_texts(value), _MOST_VALUES)


_YEAR_DAYS: Final = 366
_MEANING: Final = re.compile(rf"{MEANING}[^()（）\n]{{1,80}}[)）]", re.IGNORECASE)
_MONTH: Final = re.compile(r"[(（]meaning (?:19|20)\d\d(?:-(?:0[1-9]|1[0-2]|Q[1-4]))?[)）]", re.IGNORECASE)
"""A computed month, quarter or year, which cannot be compared with a day."""
_MOST_YEAR: Final = 9_999


def ungrounded(
    text: str,
    sources: Sequence[str | Evidence],
    log: str | Evidence = "",
    *,
    said_at: Sequence[datetime] = (),
    about: date | None = None,
) -> tuple[str, ...]:
    """Return the identifiers, numbers, dates, quoted strings and names of a line that occur neither in `sources` nor in `log`.

    `sources` are the texts of the messages that the line cites, `log` is the part of the log that the observer was shown,
    `said_at` are the times of the messages, and `about` is the day that the line is about. A date that
    the observer computed, written as "(meaning 2026-03-14)" or passed as `about`, needs no source if it is at most a year away
    from one of the messages.
    """
    texts = [Evidence(text) if isinstance(text, str) else text for text in (*sources, log)]
    cited = texts[:-1]
    moments = [moment for moment in said_at for moment in (moment, _in_utc(moment))]
    worked_out = {day for hit in _MEANING.finditer(text) for day in days_in(folded(hit[0]))}
    if about:
        worked_out.add(Day(year=about.year, month=about.month, day=about.day))
    missing: list[str] = []
    for mention in mentions(_MONTH.sub("", text) if moments else text):
        if _follows(mention, moments, worked_out) or is_found(mention, texts) or _is_other_script(mention, cited):
            continue
        # If a longer string is in the list, its parts are not listed again.
        if not any(mention.text in other for other in missing):
            missing.append(mention.text)
    return tuple(missing)


def _in_utc(moment: datetime) -> datetime:
    try:
        return moment.astimezone(UTC)
    except (OverflowError, ValueError):
        return moment


def _follows(mention: Mention, moments: Sequence[datetime], worked_out: set[Day]) -> bool:
    """Return whether a date, a year or a time follows from the times of the messages."""
    match mention.kind:
        case "date":
            return any(
                _is_near(day, moment.date(), day in worked_out)
                for day in days_in(folded(mention.text))
                for moment in moments
            )
        case "number":
            return not values_of(mention.text).isdisjoint(str(moment.year) for moment in moments)
        case "time":
            said = {moment.hour * 60 + moment.minute for moment in moments}
            return not minutes_in(mention.text).isdisjoint(said)
        case _:
            return False


def _is_near(day: Day, said: date, was_worked_out: bool) -> bool:
    year = day.year or said.year
    if not was_worked_out:
        return (year, day.month, day.day) == (said.year, said.month, said.day)
    try:
        meant = date(min(max(year, 1), _MOST_YEAR), day.month, day.day)
    except ValueError:
        return False
    return abs((meant - said).days) <= _YEAR_DAYS


def _is_other_script(mention: Mention, cited: Sequence[Evidence]) -> bool:
    """Return whether a name is in another script than the cited messages, so that it cannot be compared."""
    if mention.kind != "name":
        return False
    scripts = {text.is_latin for text in cited} - {None}
    return bool(scripts) and bool(_LATIN_LETTER.search(mention.text)) not in scripts
