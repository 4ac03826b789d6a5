"""Parse a query and the dates in it. Any text is a valid query: text that is not an operator is searched as words.

"exact words"   must occur in this order            role:user  thread:t1  task:T-7  source:observation
auth*           words that begin with `auth`        after:2024-03  before:2024-03-05
*chem*          words that contain `chem`
-draft          must not occur                      -f --force: options of a command, which are searched as words
"""

import math
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final, NamedTuple, Self

from memolog.core.message import ROLES
from memolog.search.analysis import NAMES_SOMETHING, NUMBER, TIME
from memolog.search.values import SOURCES
from memolog.text.dates import ENGLISH_WEEKDAYS, FULL_MONTHS
from memolog.text.words import STOP_WORDS, Word, folded, normal, parts_in_order, plain_of, terms_of_word, words_of


class Window(NamedTuple):
    """A span of time, from `first` to before `end`."""

    first: datetime
    end: datetime

    @classmethod
    def day(cls, now: datetime, back: int) -> Self:
        """Return the day that was `back` days before `now`."""
        first = now.replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=back)
        return cls(first, first + timedelta(days=1))


# The words for the numbers 1 to 10.
_COUNTS: Final = {
    word: number
    for number, words in enumerate(
        ("a an one", "couple two", "few three", "four", "five", "six", "seven", "eight", "nine", "ten"), start=1
    )
    for word in words.split()
}
# The days of each unit.
_UNITS: Final = {"day": 1.0, "week": 7.0, "weekend": 7.0, "month": 30.4, "year": 365.25}
_MONTH: Final = "|".join(sorted(FULL_MONTHS, key=len, reverse=True))
_DAYS: Final = [name.lower() for name in ENGLISH_WEEKDAYS]
_COUNT: Final = rf"(\d{{1,3}}|{'|'.join(_COUNTS)})(?: of)?"

_DATED: Final = re.compile(
    rf"\b(\d{{1,2}})(?:st|nd|rd|th|er|\.|º|°)?(?: of| de| di)? ({_MONTH})\b(?:,?(?: de| del)? (\d{{4}}))?"
    rf"|\b({_MONTH}) (\d{{1,2}})(?:st|nd|rd|th)?\b(?!\d)(?:,? (\d{{4}}))?"
    rf"|\b(?:(in|of|during|early|late|mid|since|last|this|until|by)[ -])?({_MONTH})\b(?:,? (\d{{4}}))?"
)
_ISO: Final = re.compile(r"\b(\d{4})-(\d{2})(?:-(\d{2}))?\b")
_YEAR: Final = re.compile(r"\b((?:19|20)\d\d)\b")
_AGO: Final = re.compile(rf"\b{_COUNT} (day|week|month|year)s? ago\b")
_PAST: Final = re.compile(rf"\b(?:past|last) {_COUNT} (day|week|month|year)s\b")
_LAST: Final = re.compile(r"\b(?:last|past|previous) (weekend|week|month|year)\b")
_LAST_DAY: Final = re.compile(rf"\b(?:last|on) ({'|'.join(_DAYS)})\b")
# A date without a year means this date in each of the last ten years.
_YEARS_BACK = 10
# People remember dates wrongly by days, not by months. A moment one week outside a span counts 1/e, which is about a third.
_FORGIVEN_DAYS = 7.0
_DAY_MICROS = 86_400_000_000


def windows_in(text: str, now: datetime) -> tuple[Window, ...]:
    """Return the dates in a text as spans of time. Words such as "yesterday" are relative to `now`."""
    plain = text.lower()
    found = [*_dated(plain, now), *filter(None, map(_iso, _ISO.finditer(plain))), *_relative(plain, now)]
    if not found:
        found = [_span(int(hit[1]), None, None, now.tzinfo) for hit in _YEAR.finditer(plain)]
    return tuple(filter(None, found))


def closeness(at: int, spans: Sequence[tuple[int, int]]) -> float:
    """Return 1 for a moment inside one of the spans, and less for a moment farther away. All times are in microseconds."""
    outside = min(max(first - at, at - end, 0) for first, end in spans)
    return math.exp(-outside / _DAY_MICROS / _FORGIVEN_DAYS)


def moment(text: str, now: datetime) -> Window | None:
    """Return the span of a date: `2024`, `2024-03`, `2024-03-05`, `today`, `yesterday`, or an exact time. Else None."""
    plain = text.strip().lower()
    if plain in {"today", "yesterday"}:
        return Window.day(now, int(plain == "yesterday"))
    if _YEAR.fullmatch(plain):
        return _span(int(plain), None, None, now.tzinfo)
    if hit := _ISO.fullmatch(plain):
        return _iso(hit)
    try:
        exact = datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    exact = exact if exact.tzinfo else exact.replace(tzinfo=now.tzinfo)
    try:
        exact.astimezone(UTC)
    except OverflowError:
        # In UTC, the first and last hours of the calendar may be before year 1 or after year 9999.
        return None
    return Window(exact, exact)


def _span(year: int, month: int | None, day: int | None, zone: tzinfo | None) -> Window | None:
    """Return a year, a month or a day as a span. None if the calendar has no such month or day."""
    try:
        first = datetime(year, 1 if month is None else month, 1 if day is None else day, tzinfo=zone)
        if day is not None:
            return Window.day(first, 0)
        months = 12 if month is None else month
        return Window(first, first.replace(year=year + months // 12, month=months % 12 + 1))
    except (ValueError, OverflowError):
        return None


def _dated(plain: str, now: datetime) -> Iterator[Window]:
    for hit in _DATED.finditer(plain):
        day, month, year = hit[1] or hit[5], hit[2] or hit[4] or hit[8], hit[3] or hit[6] or hit[9]
        # "may" is mostly a verb and "mars" a planet, so they are months only after a preposition, or with a day or a year.
        if month in {"may", "mars", "mai"} and not (day or year or hit[7]):
            continue
        years = [int(year)] if year else range(now.year - _YEARS_BACK, now.year + 1)
        for number in years:
            window = _span(max(1, number), FULL_MONTHS[month], int(day or 0) or None, now.tzinfo)
            if window and (year or window.first <= now):
                yield window


def _iso(hit: re.Match[str]) -> Window | None:
    return _span(int(hit[1]), int(hit[2]), int(hit[3]) if hit[3] else None, UTC)


def _relative(plain: str, now: datetime) -> Iterator[Window]:
    for hit in _AGO.finditer(plain):
        unit = _UNITS[hit[2]]
        middle = _back(now, _number(hit[1]) * unit)
        yield Window(_back(middle, unit / 2), middle + timedelta(days=unit / 2))
    for hit in _PAST.finditer(plain):
        yield Window(_back(now, _number(hit[1]) * _UNITS[hit[2]]), now)
    for hit in _LAST.finditer(plain):
        # "Last week" can mean the last calendar week or the last seven days, so the span is twice as long.
        yield Window(_back(now, 2 * _UNITS[hit[1]]), now)
    for hit in _LAST_DAY.finditer(plain):
        yield Window.day(now, (now.weekday() - _DAYS.index(hit[1])) % 7 or 7)
    if "yesterday" in plain:
        yield Window.day(now, 1)


def _number(text: str) -> int:
    return int(text) if text.isdigit() else _COUNTS[text]


def _back(now: datetime, days: float) -> datetime:
    try:
        return now - timedelta(days=days)
    except OverflowError:
        return datetime.min.replace(tzinfo=now.tzinfo)


MOST_WORDS: Final = 256
"""The maximum words of a query. Of a longer text, such as a pasted log, the longest words are searched, and the first and last
words, because the question is usually at the beginning or at the end."""
_AT_THE_ENDS = 32
_MOST_CHARACTERS = 10_000
# The maximum phrases, prefixes and words with * at both ends, and the maximum excluded words and excluded phrases.
_MOST_SPECIAL = 8
_MOST_WITHOUT = 64
# Questions are short, so only this many characters are checked for the form of a question.
_LOOKED_AT = 600

_PIECE: Final = re.compile(
    r"""(?P<minus>(?<!\S)-)?(?:
    "(?P<phrase>[^"]*)(?:"|$)
    | (?P<key>role|thread|task|after|before|source):(?:"(?P<quoted>[^"]*)(?:"|$)|(?P<value>\S+))
    | (?P<plain>[^\s"]+)
    )""",
    re.VERBOSE | re.IGNORECASE,
)
# Matches the text after a dash if it is an option of a command ("-f", "--force"). An option is searched, not excluded.
_OPTION: Final = re.compile(r"-|[A-Za-z]{1,2}$")
_NO_SOURCE: Final = frozenset({"none"})
"""The value of `sources` if every source is excluded, so that nothing is found."""
_QUESTION: Final = re.compile(
    r"\?\s*$|^\s*(?:what|when|where|which|who|whom|whose|why|how|did|do|does|is|are|was|were|can|could|has|have|had|should|"
    r"would|will|tell|remind|find|recall)\b|\b(?:i|my|me|we|our)\b",
    re.IGNORECASE,
)
# Matches a query with the name of a function or a file. Such a query asks for all occurrences of the name.
_CODE: Final = re.compile(
    r"\w_\w|\b[a-z]{2,}[A-Z]|[A-Za-z_]\w{1,40}\.[a-z]\w{0,3}\b|(?<!\w)/\w+/\w|\w/\w+/\w|::|\w\(\)"
)
_ASKS_ASSISTANT: Final = re.compile(
    r"\b(?:you|assistant|ai|bot)(?:'ve| have| had| also| just| previously)* (?:suggested|recommended|mentioned|said|told|gave|"
    r"provided|listed|described|explained|answered|wrote|created|generated|made|proposed|advised|discussed|talked|shared)\b"
    r"|\b(?:did|have|had) (?:you|the assistant)\b|\byour (?:\w+ )?(?:suggestion|recommendation|list|answer|advice|reply)"
    r"|\b(?:our|previous|earlier|last) (?:last |previous |earlier )?(?:conversation|chat|discussion)|\bremind me\b",
    re.IGNORECASE,
)
# Matches a request for advice. Its words "suggest", "tips" and so on are not searched, because they would find earlier requests.
_ASKS_ADVICE: Final = re.compile(
    r"\b(?:can|could|would|will|do) you\b|\bany (?:tips|advice|suggestions|ideas|recommendations)\b|\bwhat should i\b",
    re.IGNORECASE,
)
_ADVICE_WORDS: Final = frozenset(
    ("suggest", "suggestion", "suggestions", "recommend", "recommendation", "recommendations", "tip", "tips", "advice")
)
_ASKS_FOR: Final = {
    NUMBER: re.compile(r"\bhow (?:many|much|old|long|often|far|big|tall)\b", re.IGNORECASE),
    TIME: re.compile(r"\bwhen\b|\bwhat (?:date|day|time|year|month)\b|\bhow long ago\b", re.IGNORECASE),
    NAMES_SOMETHING: re.compile(r"\bwho\b|\bwhere\b|\bwhich\b|\bthe name\b", re.IGNORECASE),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """One word of a query with its terms in the index, the most significant first."""

    word: Word
    terms: tuple[str, ...]
    prefix: str | None = None
    """The beginning of the wanted words, for a word that ends with *."""
    inside: str | None = None
    """A part of the wanted words, for a word with * at both ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A parsed query."""

    wishes: tuple[Wish, ...] = ()
    phrases: tuple[str, ...] = ()
    """Phrases that must occur."""
    without: tuple[Wish, ...] = ()
    without_phrases: tuple[str, ...] = ()
    without_roles: frozenset[str] = frozenset()
    without_threads: frozenset[str] = frozenset()
    roles: frozenset[str] = frozenset()
    threads: frozenset[str] = frozenset()
    tasks: frozenset[str] = frozenset()
    sources: frozenset[str] = frozenset()
    after: datetime | None = None
    before: datetime | None = None
    windows: tuple[Window, ...] = ()
    is_question: bool = False
    names_code: bool = False
    """Whether the query contains the name of a function or a file."""
    asks_assistant: bool = False
    asks_for: int = 0
    """The traits that an answer to the question should have: NUMBER, TIME and NAMES_SOMETHING."""
    plain: str = ""
    """The text without filters and excluded words."""
    said: tuple[str, ...] = ()
    """The plain words in their order, folded. Names of speakers may be among them."""
    named: tuple[str, ...] = ()
    """Phrases that a question quotes. Hits that contain them are preferred, but the phrases need not occur."""
    unread: tuple[str, ...] = ()
    """The parts of the text that exceeded a limit, as written."""


def parse(text: str, now: datetime) -> Query:
    """Return the query of a text. This never raises. Of a text of more than 10,000 characters, the middle is not read."""
    found = _Pieces(now)
    too_long = len(text) - _MOST_CHARACTERS
    half = _MOST_CHARACTERS // 2
    for stretch in (text[:half], text[-half:]) if too_long > 0 else (text,):
        for piece in _PIECE.finditer(normal(stretch)):
            found.take(piece)
    plain = " ".join(found.plain)[:_LOOKED_AT]
    said = tuple(folded(word) for word in words_of(plain))
    wanted, excluded = found.wanted, found.excluded
    phrases = tuple(wanted["phrase"][:_MOST_SPECIAL])
    asks_about_phrases = bool(phrases) and bool(_QUESTION.search(" ".join(found.unquoted)[:_LOOKED_AT]))
    chosen, left = _chosen(found, plain)
    names_code = bool(_CODE.search(plain))
    return Query(
        wishes=(*map(_wish, chosen), *_starred(wanted)),
        unread=(*left, *_too_many(found), *([f"{too_long:,} characters in the middle"] if too_long > 0 else ())),
        phrases=() if asks_about_phrases else phrases,
        named=phrases if asks_about_phrases else (),
        without=(*map(_wish, excluded["word"][:_MOST_WITHOUT]), *_starred(excluded)),
        without_phrases=tuple(excluded["phrase"][:_MOST_WITHOUT]),
        without_roles=frozenset(excluded["role"]),
        without_threads=frozenset(excluded["thread"]),
        roles=frozenset(wanted["role"]),
        threads=frozenset(wanted["thread"]),
        tasks=frozenset(wanted["task"]),
        sources=_sources(found),
        after=max(found.after, default=None),
        before=min(found.before, default=None),
        windows=windows_in(plain, now),
        is_question=bool(_QUESTION.search(plain)) and not names_code,
        names_code=names_code,
        asks_assistant=bool(_ASKS_ASSISTANT.search(plain)),
        asks_for=sum(trait for trait, question in _ASKS_FOR.items() if question.search(plain)),
        plain=" ".join(found.plain)[:_MOST_CHARACTERS],
        said=said,
    )


class _Pieces:
    """Collects the pieces of a query by kind: wanted pieces and excluded pieces."""

    def __init__(self, now: datetime) -> None:
        self.now = now
        self.plain: list[str] = []
        self.unquoted: list[str] = []
        self.wanted: dict[str, list[str]] = defaultdict(list)
        self.excluded: dict[str, list[str]] = defaultdict(list)
        self.after: list[datetime] = []
        self.before: list[datetime] = []

    def take(self, piece: re.Match[str]) -> None:
        """Add one piece: a phrase, a filter or words."""
        if (phrase := piece["phrase"]) is not None:
            if wanted := phrase_of(phrase):
                (self.excluded if piece["minus"] else self.wanted)["phrase"].append(wanted)
                self.plain += [] if piece["minus"] else [phrase]
            return
        if piece["key"] and self._filter(piece["key"].lower(), piece["quoted"] or piece["value"] or "", piece["minus"]):
            return
        plain = piece["plain"] or piece[0]
        is_excluded = bool(piece["minus"]) and not _OPTION.match(plain)
        found, words = (self.excluded if is_excluded else self.wanted), words_of(plain)
        if len(plain) > 2 and plain.startswith("*") and plain.endswith("*"):  # noqa: PLR2004
            found["inside"] += map(plain_of, words)
            return
        is_prefix = len(plain) > 1 and plain.endswith("*")
        if is_prefix and words:
            found["prefix"].append(plain_of(words.pop()))
        if is_excluded:
            found["word"] += [word for word in words if word not in found["word"]]
        elif is_prefix:
            self.plain += words
        else:
            self.plain.append(plain)
            self.unquoted.append(plain)

    def _filter(self, key: str, value: str, minus: str | None) -> bool:
        """Add a filter. Return False if its value is not valid, so that the piece is searched as words."""
        if key in {"after", "before"}:
            window = None if minus else moment(value, self.now)
            if window is None:
                return False
            (self.after if key == "after" else self.before).append(window.first)
            return True
        known = {"role": ROLES, "source": SOURCES}.get(key)
        value = value.lower() if known else value
        # Ids contain only printable characters. There is no filter that excludes a task.
        if (minus and key == "task") or not value or not value.isprintable() or (known and value not in known):
            return False
        (self.excluded if minus else self.wanted)[key].append(value)
        return True


def phrase_of(text: str) -> str:
    """Return the words of a text in order, folded and with one space around each, so that a phrase is found as a substring.

    Identifiers are divided into their parts, so "state of the art" occurs in `state-of-the-art`. Text in scripts without spaces
    is divided into characters, because the beginning of a word cannot be detected.
    """
    words = [folded(part) for word in words_of(normal(text)) for part in parts_in_order(word)]
    return f" {' '.join(words)} " if words else ""


def _wish(word: Word) -> Wish:
    return Wish(word=word, terms=terms_of_word(word))


def _chosen(found: _Pieces, plain: str) -> tuple[list[Word], list[Word]]:
    words = list(dict.fromkeys(word for text in found.plain for word in words_of(text)))
    ignored = STOP_WORDS | _ADVICE_WORDS if _ASKS_ADVICE.search(plain) else STOP_WORDS
    chosen = [word for word in words if folded(word) not in ignored] or words
    if len(chosen) <= MOST_WORDS:
        return chosen, []
    known = frozenset(chosen)
    backwards = dict.fromkeys(word for text in reversed(found.plain) for word in reversed(words_of(text)))
    last = [word for word in backwards if word in known][:_AT_THE_ENDS]
    best = dict.fromkeys((*last, *chosen[:_AT_THE_ENDS], *sorted(chosen, key=len, reverse=True)))
    taken = frozenset(list(best)[:MOST_WORDS])
    return [word for word in chosen if word in taken], [word for word in chosen if word not in taken]


def _sources(found: _Pieces) -> frozenset[str]:
    """Return the wanted sources. An empty set means all sources, so after an exclusion all other sources are listed."""
    wanted, excluded = frozenset(found.wanted["source"]), frozenset(found.excluded["source"])
    return (wanted or frozenset(SOURCES)) - excluded or _NO_SOURCE if excluded else wanted


def _too_many(found: _Pieces) -> Iterator[str]:
    for sign, pieces, most in (("", found.wanted, _MOST_SPECIAL), ("-", found.excluded, _MOST_WITHOUT)):
        yield from (f"{sign}{word}" for word in pieces["word"][most:])
        yield from (f"{sign}{prefix}*" for prefix in pieces["prefix"][_MOST_SPECIAL:])
        yield from (f"{sign}*{inside}*" for inside in pieces["inside"][_MOST_SPECIAL:])
        yield from (f'{sign}"{phrase.strip()}"' for phrase in pieces["phrase"][most:])


def _starred(pieces: dict[str, list[str]]) -> Iterator[Wish]:
    for prefix in pieces["prefix"][:_MOST_SPECIAL]:
        yield Wish(word=prefix, terms=terms_of_word(prefix), prefix=prefix)
    for inside in pieces["inside"][:_MOST_SPECIAL]:
        yield Wish(word=inside, terms=terms_of_word(inside), inside=inside)
