"""Judge answers without a model: by words, numbers and dates.

An answer is right if it has the expected dates, the expected numbers and most of the expected words. A question that cannot be
answered needs a refusal. Preferences and rubrics are about meaning, and are not judged here.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from memolog.apps.eval.datasets import Question
from memolog.text.dates import MONTHS, WEEKDAYS
from memolog.text.word_lists import FUNCTION_WORDS, NUMBER_WORDS, word_set
from memolog.text.words import STOP_WORDS, folded, is_unspaced, normal, terms_of_word, words_of

NAME: Final = "strings"
"""The name of this judge in tables and reports."""

# The share of the expected words that an answer must have, and the token F1 with which fewer are enough.
_ENOUGH: Final = 0.6
_F1: Final = 0.6
# Two words or fewer must all be there.
_FEW: Final = 2
# If only numbers are expected, an answer with more different numbers than this leaves open which one it means.
_MOST_NUMBERS: Final = 4
_FOREIGN_STOP_WORDS: Final = word_set("""
    el la los las un una unos unas de del al a en y o que se su sus lo le les por para con como es era fue son no si
    les une des du d l et ou qui sa ses ce cette ces il elle on au aux pour par avec est a ont sont ne pas
    der die das den dem des ein eine einen einem einer und oder im in am an auf zu zum zur von vom mit bei er sie es ist war
    sind hat ils il lo i gli uno di dei delle da dal alla nel nella e che ci per suo sua non ha sono
    os as um uma do dos das na em se com at on by for the with about
    porque parce perché porqué weil because instead n
    """)
_UNITS: Final = word_set(
    "mg kg g m km cm min hour day week month year time minut secondi euro eur usd cad dollar percent lb lbs h"
)
_GENERIC: Final = word_set("user users their they them also mentioned previously likely would prefer own own")
_KNOWING: Final = (
    r"(?:know|mention\w*|say|said|state[ds]?|specif\w+|provide[ds]?|find|found|contain\w*|include\w*|record\w*|answer\w*|recall"
    r"|tell|told|determin\w+|appear|available|enough|sufficient|discuss\w*|given|come up|share[ds]?|information|indicat\w+|clear"
    r"|listed|reveal\w*)"
)
_KNOWLEDGE: Final = r"(?:information|mention|record|details?|data|evidence|answer|context)"
# Sentences that say that something is not known, in the languages of `talks`.
_MISSING: Final = re.compile(
    "|".join(
        (
            rf"(?:do|does|did|could|can|can\s?not|is|are|was|were|has|have|had)(?:n['’]?t| not)\b[^.;]{{0,40}}?\b{_KNOWING}",
            r"\bcan(?:not|['’]t) (?:say|tell|answer|know|determine|find|be \w+)",
            rf"\b(?:no|not enough|not any|without any|insufficient) (?:\w+ ){{0,2}}?{_KNOWLEDGE}",
            r"\bnot (?:\w+ )?(?:mentioned|known|stated|specified|provided|given|recorded|available|discussed|enough)",
            r"\bnot in the (?:context|memory|conversations?|log)",
            r"\b(?:never|nothing) (?:\w+ ){0,3}?(?:mention\w*|said|state[ds]?|told|discuss\w*|came up|about)",
            r"\b(?:unknown|unclear|unspecified|n/a)\b|\bi['’]?m not (?:sure|aware)",
            r"\bno (?:lo )?(?:sé|consta|se sabe|se menciona|hay información|se dice|figura|tengo información)",
            r"\bje ne sais pas|\b(?:pas|aucune) (?:\w+ ){0,2}?(?:mentionn\w+|précis\w+|information|indiqu\w+|connu\w*)",
            r"\b(?:weiß|weiss) (?:ich )?(?:es )?nicht|\bnicht (?:\w+ )?(?:erwähnt|bekannt|genannt|angegeben|gesagt)",
            r"\bkeine (?:angabe|information)\w*|\bnessuna informazione|\bnon (?:lo )?(?:so|si sa|risulta)\b",
            r"\bnon è (?:stat[oa] )?(?:menzionat|indicat|not|specificat|dett)\w+",
            r"わかりません|分かりません|不明|知りません|(?:記載|言及|情報)(?:されて|が|は)?(?:いない|いません|ない|ありません)",
        )
    ),
    re.IGNORECASE,
)
_ALTERNATIVE: Final = re.compile(
    r"(?P<a>.+?)[.,;]?\s+\(?(?P<b>[^.(]+?)(?:\s*\([^)]*\))?\s+(?:is|are|would be) also (?:acceptable|correct|fine|ok)",
    re.DOTALL,
)
_OR: Final = re.compile(r"\(or ([^)]+)\)")
_ASIDE: Final = re.compile(r"\([^)]*\)|（[^）]*）")
# What an answer rejects: "pnpm, never npm".
_CONTRAST: Final = re.compile(
    r"[,;]\s*(?:and\s+)?(?:not|never|instead of|rather than|no más|non più|statt|au lieu de|no)\s+[^,;.]*",
    re.IGNORECASE,
)
_POLARITY: Final = re.compile(r"\s*(?:likely |probably )?(yes|no)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Whether an answer is right, and why. `score` is between 0 and 1; None if this judge cannot judge the question."""

    score: float | None
    why: str
    votes: tuple[float, ...] = ()


def judge(question: Question, answer: str) -> Verdict:
    """Return the verdict over an answer."""
    refuses = is_refusal(answer)
    if question.rule == "abstention":
        return _verdict(refuses, "The answer says that it is not known.", "The answer claims to know it.")
    if question.rule in {"preference", "rubric"} or question.answer is None:
        return Verdict(score=None, why="A comparison of words cannot judge this question.")
    if refuses and not agrees(question.answer, answer):
        return Verdict(score=0.0, why="The answer says that it is not known.")
    for expected in variants(question.answer):
        if agrees(expected, answer):
            return Verdict(score=1.0, why=f"It has the dates, numbers and words of: {expected}")
    return Verdict(score=0.0, why=_missing(question.answer, answer))


def _verdict(is_right: bool, yes: str, no: str) -> Verdict:
    return Verdict(score=float(is_right), why=yes if is_right else no)


def is_refusal(answer: str) -> bool:
    """Return whether an answer says that the history does not contain it."""
    return not answer.strip() or _MISSING.search(normal(answer)) is not None


def variants(expected: str) -> Iterator[str]:
    """Yield the answers that a text accepts: "7 days. 8 days is also acceptable" accepts two."""
    if hit := _ALTERNATIVE.match(expected):
        yield hit["a"]
        yield hit["b"]
    elif hit := _OR.search(expected):
        yield _OR.sub("", expected)
        yield hit[1]
    else:
        yield expected


def agrees(expected: str, answer: str) -> bool:
    """Return whether an answer has the dates, the numbers and most of the words of an expected answer."""
    polarity, given = _POLARITY.match(expected), _POLARITY.match(answer)
    if polarity and given:
        return polarity[1].lower() == given[1].lower()
    if polarity:
        return False
    wanted, there = facts_of(_core(expected)), facts_of(answer)
    if not wanted:
        wanted = facts_of(expected)
    if not all(any(_same_day(day, other) for other in there.days) for day in wanted.days):
        return False
    if not all(any(number & other for other in there.numbers) for number in wanted.numbers):
        return False
    if not wanted.words:
        return bool(wanted.days) or (bool(wanted.numbers) and len(there.numbers) <= _MOST_NUMBERS)
    found = len(wanted.words & there.words)
    # Of a few names, none may be another: "clindamycin 300 mg" is not "amoxicillin 300 mg".
    names = wanted.words - _UNITS
    if len(names) <= _FEW and not names <= there.words:
        return False
    return found >= _ENOUGH * len(wanted.words) or f1(wanted.words, there.words) >= _F1


def _core(expected: str) -> str:
    """Return an expected answer without asides and without what it rejects."""
    return _CONTRAST.sub("", _ASIDE.sub(" ", expected))


def _missing(expected: str, answer: str) -> str:
    wanted, there = facts_of(_core(expected)), facts_of(answer)
    days = [_shown(day) for day in wanted.days if not any(_same_day(day, other) for other in there.days)]
    numbers = ["/".join(sorted(n)) for n in wanted.numbers if not any(n & other for other in there.numbers)]
    parts = [*days, *numbers, *sorted(wanted.words - there.words)]
    return f"It lacks: {', '.join(parts)}" if parts else "It leaves open which of its numbers is meant."


def f1(wanted: frozenset[str], there: frozenset[str]) -> float:
    """Return the harmonic mean of precision and recall of words."""
    common = len(wanted & there)
    return 2 * common / (len(wanted) + len(there)) if common else 0.0


# ---------------------------------------------------------------- words, numbers, dates

_Day = tuple[int | None, int, int | None]
"""Year, month and day of the month. Year or day may be unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What a text says: its days, its numbers (each with its possible values) and its words of content as stems."""

    days: frozenset[_Day]
    numbers: frozenset[frozenset[str]]
    words: frozenset[str]

    def __bool__(self) -> bool:
        return bool(self.days or self.numbers or self.words)


_MONTH: Final = "|".join(sorted((re.escape(name) for name in MONTHS), key=len, reverse=True))
_YEAR: Final = r"(?:(?:,| de)?\s+(?P<y>\d{4}))?"
_HOUR: Final = re.compile(r"(?<!\w)(\d{1,2})\s?h\s?(\d\d)(?!\w)")
"""A time as French writes it: 16 h 45."""
_DATES: Final = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"(?P<y>\d{4})-(?P<m>\d\d)-(?P<d>\d\d)(?!\d)",
        r"(?:(?P<y>\d{4})年)?(?P<m>\d{1,2})月(?:(?P<d>\d{1,2})日)?",
        rf"(?<!\w)(?P<d>\d{{1,2}})(?:st|nd|rd|th|er|º|\.)?\s+(?:(?:of|de)\s+)?(?P<n>{_MONTH})\.?(?!\w){_YEAR}",
        rf"(?<!\w)(?P<n>{_MONTH})\.?\s+(?:the\s+)?(?P<d>\d{{1,2}})(?:st|nd|rd|th)?(?!\w|[:.,]\d)(?:,?\s+(?P<y>\d{{4}}))?",
        rf"(?<!\w)(?P<n>{_MONTH})\.?,?(?:\s+of|\s+de)?\s+(?P<y>\d{{4}})(?!\w)",
    )
)
_LAST_MONTH: Final = 12
_LAST_DAY: Final = 31
_NUMBER: Final = re.compile(
    r"(?<![A-Za-z0-9_.,])[$€£]?\d+(?:[.,' ]\d{3})*(?:[.,:]\d+)?(?:\s?(?:k|thousand|million)\b)?(?=\D|\Z)", re.IGNORECASE
)
_IDENTIFIER: Final = re.compile(r"(?<![\w-])[A-Za-z]+-?\d[A-Za-z\d]*(?:-[A-Za-z\d]+)*(?!\w)")
"""A name of letters and digits, such as E21 or HSS-77410."""
_COUNTS: Final = {word: str(value) for words in NUMBER_WORDS.values() for value, word in enumerate(words)} | {
    "once": "1",
    "twice": "2",
    "thrice": "3",
    "dozen": "12",
    "fifteen": "15",
    "twenty": "20",
    "thirty": "30",
}
# "un" and "una" are articles far more often than numbers, and "sei", "once" and "die" are words too.
_NO_COUNTS: Final = word_set("un une una um uma eins een nul due sei once two-")
_MULTIPLIERS: Final = {"k": 1_000, "thousand": 1_000, "million": 1_000_000}


@lru_cache(maxsize=4_096)
def facts_of(text: str) -> Facts:
    """Return the days, the numbers and the words of a text."""
    plain = _HOUR.sub(r"\1:\2", normal(text))
    days: set[_Day] = set()
    for pattern in _DATES:
        for hit in list(pattern.finditer(plain)):
            if (day := _day_in(hit)) is not None:
                days.add(day)
                plain = plain.replace(hit[0], " ", 1)
    words = {hit[0].lower().replace("-", "") for hit in _IDENTIFIER.finditer(plain)}
    plain = _IDENTIFIER.sub(" ", plain)
    numbers = {_values(hit[0]) for hit in _NUMBER.finditer(plain)}
    plain = _NUMBER.sub(" ", plain)
    for word in words_of(plain):
        lower = word.lower()
        if days and lower in WEEKDAYS:
            # The date says it.
            continue
        if lower in _COUNTS and lower not in _NO_COUNTS:
            numbers.add(frozenset({_COUNTS[lower]}))
        elif lower not in _GENERIC:
            words |= content_terms(word)
    return Facts(days=frozenset(days), numbers=frozenset(numbers), words=frozenset(words))


def content_terms(word: str) -> frozenset[str]:
    """Return the stems of a word, or the pairs of characters of a script without spaces. Function words have none."""
    lower = word.lower()
    if (
        lower in FUNCTION_WORDS
        or lower in STOP_WORDS
        or lower in _FOREIGN_STOP_WORDS
        or folded(word) in _FOREIGN_STOP_WORDS
    ):
        return frozenset()
    terms = terms_of_word(word)
    if is_unspaced(word):
        pairs = frozenset(term for term in terms if len(term) > 1)
        return pairs or frozenset(terms)
    return frozenset(term for term in terms if not term.startswith("=")) or frozenset(terms)


def _day_in(hit: re.Match[str]) -> _Day | None:
    named = hit.groupdict()
    month = MONTHS.get((named.get("n") or "").lower()) if named.get("n") else int(named.get("m") or 0)
    day = int(named["d"]) if named.get("d") else None
    year = int(named["y"]) if named.get("y") else None
    if not month or month > _LAST_MONTH or (day is not None and not 1 <= day <= _LAST_DAY):
        return None
    return year, month, day


def _same_day(wanted: _Day, given: _Day) -> bool:
    (year, month, day), (other_year, other_month, other_day) = wanted, given
    if month != other_month or (year and other_year and year != other_year):
        return False
    return day is None or day == other_day


def _shown(day: _Day) -> str:
    year, month, number = day
    return "-".join([str(year or "any year"), f"{month:02}", *([f"{number:02}"] if number else [])])


def _values(text: str) -> frozenset[str]:
    """Return the values that a number may mean: "2.870" is 2870 in German and 2.87 in English."""
    hit = re.match(r"[$€£]?([\d.,' :]+?)\s?(k|thousand|million)?\Z", text.strip().lower())
    digits, times = (hit[1], _MULTIPLIERS.get(hit[2] or "", 1)) if hit else (text, 1)
    if ":" in digits:
        return frozenset({digits.lstrip("0")})
    whole = re.sub(r"[.,' ](?=\d{3}(?:\D|\Z))", "", digits)
    readings = {whole.replace(",", "."), digits.replace(" ", "").replace("'", "").replace(",", ".")}
    found = set[str]()
    for one in readings:
        try:
            found.add(f"{float(one) * times:g}" if len(one) < 8 else f"{float(one) * times:.2f}")  # noqa: PLR2004
        except ValueError:
            continue
    return frozenset(found or {digits})
