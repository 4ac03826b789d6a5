"""Parse numbers, dates and times of day in prose. A figure that can be read in two ways gives both values."""

import re
import unicodedata
from dataclasses import dataclass
from typing import Final

from memolog.domain.calendar_names import MONTHS
from memolog.domain.word_lists import NUMBER_WORDS

__all__ = ["DATE", "NUMBER", "TIME", "Day", "days_in", "minutes_in", "values_in", "values_of"]

# ---------------------------------------------------------------- numbers

_DIGITS: Final = r"(?:\d{1,3}(?:[ \u00a0\u202f]\d{3}(?!\d))++|\d{1,40}(?:[.,'’_]\d{1,40}){0,12})"
_GROUPED: Final = rf"{_DIGITS}(?:[.,]\d{{1,12}})?"
_MULTIPLES: Final = {
    **dict.fromkeys(("k", "thousand", "tsd", "tausend", "mil"), 3),
    **dict.fromkeys(("m", "million", "millions", "mio", "millionen"), 6),
    **dict.fromkeys(("b", "bn", "billion", "billions", "mrd", "milliarden"), 9),
}
_MULTIPLE: Final = rf"(?:k|m|bn?|(?:{'|'.join(name for name in _MULTIPLES if len(name) > 2)})\.?)"  # noqa: PLR2004 - letters stand apart
_UNIT: Final = (
    r"(?:[%‰€$£¥]|°[CFcf]?|[kKMGTP]i?[bB](?:/s)?|[kKMG]?Hz|(?:µ|u|n|m)?s|sec|min|hrs?|h|d|w|x|px|em|rem|pt|bytes?|kg|mg|g|km|cm"
    r"|mm|m|kW|W|V|fps|rpm|dpi)"
)
NUMBER: Final = (
    rf"(?<![\w.])[#±≈~+$€£¥-]{{0,2}}(?>{_GROUPED})(?:\s?{_UNIT}|\s?{_MULTIPLE})?(?![\w]|[.:/\\@_-]\w|[.,]\d)"
)
"""A number with its sign and unit, not one inside a name."""

_READ: Final = re.compile(
    rf"(?<![a-uw-z_\d])(?P<digits>{_GROUPED})(?:\s?(?P<multiple>{_MULTIPLE})(?!\w)|\s?(?P<percent>%))?", re.IGNORECASE
)
_SPLIT: Final = re.compile(r"[.,'’_ \u00a0\u202f]")
_THOUSAND: Final = 3
_MOST_DECIMALS: Final = 8
_OTHER_NUMBERS: Final = """
    once=1 twice=2 both=2 first=1 second=2 third=3 dozen=12 hundred=100 thirteen=13 fourteen=14 fifteen=15 sixteen=16
    seventeen=17 eighteen=18 nineteen=19 twenty=20
    """
_NUMBER_WORDS: Final = {
    **{word: str(value) for language in ("en", "de", "fr", "es") for value, word in enumerate(NUMBER_WORDS[language])},
    **{word: value for word, _, value in (pair.partition("=") for pair in _OTHER_NUMBERS.split())},
}
_WORD: Final = re.compile(r"[^\W\d_]{2,12}")


def values_of(number: str) -> frozenset[str]:
    """Return every value that a number as it is written may have, each as plain digits: `1,500` is 1500 or 1.5."""
    return _values(hit) if (hit := _READ.search(_western(number))) else frozenset()


def values_in(plain: str) -> frozenset[str]:
    """Return the values of all numbers in a folded text, those in words and rounded ones included."""
    found: set[str] = set()
    for hit in _READ.finditer(_western(plain)):
        for value in _values(hit):
            found.add(value)
            found.update(_rounded(value))
    found.update(_NUMBER_WORDS[word] for word in _WORD.findall(plain) if word in _NUMBER_WORDS)
    return frozenset(found)


def _western(text: str) -> str:
    """Return the text with the digits of other scripts as ours."""
    if text.isascii():
        return text
    return re.sub(r"\d", lambda hit: str(unicodedata.decimal(hit[0], hit[0])), text)


def _values(hit: re.Match[str]) -> frozenset[str]:
    groups = _SPLIT.split(hit["digits"])
    separators = _SPLIT.findall(hit["digits"])
    found: set[str] = set()
    if all(len(group) == _THOUSAND for group in groups[1:]) or set(separators) <= {"_", "'", "’"}:
        found.add(_plain("".join(groups), ""))
    if len(groups) > 1 and separators[-1] in ".,":
        found.add(_plain("".join(groups[:-1]), groups[-1]))
    if " " in separators:
        # Two numbers may stand side by side.
        found.update(_plain(group, "") for group in groups)
    multiple = (hit["multiple"] or "").lower().rstrip(".")
    if multiple:
        found.update([_moved(value, _MULTIPLES[multiple]) for value in found])
    if hit["percent"]:
        found.update([_moved(value, -2) for value in found])
    return frozenset(found)


def _plain(whole: str, part: str) -> str:
    whole, part = whole.lstrip("0") or "0", part.rstrip("0")
    return f"{whole}.{part}" if part else whole


def _moved(value: str, places: int) -> str:
    """Return the value times a power of ten, without the rounding that arithmetic would bring."""
    whole, _, part = value.partition(".")
    if places >= 0:
        part = part.ljust(places, "0")
        return _plain(whole + part[:places], part[places:])
    whole = whole.rjust(1 - places, "0")
    return _plain(whole[:places], whole[places:] + part)


def _rounded(value: str) -> list[str]:
    whole, _, part = value.partition(".")
    found: list[str] = []
    for keep in range(min(len(part), _MOST_DECIMALS)):
        number = int(whole[-40:] + part[:keep]) + (part[keep] >= "5")
        digits = str(number).rjust(keep + 1, "0")
        found.append(_plain(digits[: len(digits) - keep], digits[len(digits) - keep :]))
    return found


# ---------------------------------------------------------------- dates

_MONTH: Final = "|".join(sorted(MONTHS, key=len, reverse=True))
_ORDINAL: Final = r"(?:st|nd|rd|th|\.|er|e|\.?[ºª]|°)?"
DATE: Final = (
    r"(?<!\w)(?:\d{4}[-/.]\d{1,2}[-/.]\d{1,2}(?:T\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?(?:Z|[+-]\d\d:?\d\d)?)?"
    r"|\d{1,2}(?P<mark>[./-])\d{1,2}(?P=mark)\d{4}"
    rf"|\d{{1,2}}{_ORDINAL}\s(?:(?:of|de|del|di)\s)?(?i:{_MONTH})\b\.?(?:,?\s(?:(?:de|del|do)\s)?\d{{4}})?"
    rf"|(?i:{_MONTH})\.?\s\d{{1,2}}(?:st|nd|rd|th)?(?:,?\s\d{{4}})?)(?!\w)|\d{{4}}年\d{{1,2}}月\d{{1,2}}日?"
)
"""A date as digits or with the name of its month."""

_DATES: Final = (
    re.compile(r"(?<!\d)(?P<y>\d{4})[-/.年](?P<m>\d{1,2})[-/.月](?P<d>\d{1,2})(?!\d)"),
    re.compile(r"(?<!\d)(?P<d>\d{1,2})(?P<mark>[./-])(?P<m>\d{1,2})(?P=mark)(?P<y>\d{4}|\d\d)(?!\d)"),
    re.compile(r"(?<!\d)(?P<m>\d{1,2})(?P<mark>[./-])(?P<d>\d{1,2})(?P=mark)(?P<y>\d{4}|\d\d)(?!\d)"),
    re.compile(
        rf"(?<!\d)(?P<d>\d{{1,2}}){_ORDINAL}\s(?:(?:of|de|del|di)\s)?(?P<n>{_MONTH})\b\.?(?:,?\s(?:(?:de|del|do)\s)?(?P<y>\d{{4}}))?",
        re.IGNORECASE,
    ),
    re.compile(rf"\b(?P<n>{_MONTH})\.?\s(?P<d>\d{{1,2}})(?:st|nd|rd|th)?(?!\d)(?:,?\s(?P<y>\d{{4}}))?", re.IGNORECASE),
    re.compile(r"(?<!\d)(?P<m>\d{1,2})月(?P<d>\d{1,2})日?"),
)
_LONGEST_MONTH: Final = 12
_LONGEST_DAY: Final = 31
_CENTURY: Final = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Day:
    """A day as it was written: the year is 0 where none was."""

    year: int
    month: int
    day: int


def days_in(text: str) -> frozenset[Day]:
    """Return the days that a text names; digits that may be read in two orders give both."""
    if not any(char.isdecimal() for char in text):
        return frozenset()
    return frozenset(day for pattern in _DATES for hit in pattern.finditer(text) if (day := _day(hit)))


def _day(hit: re.Match[str]) -> Day | None:
    found = hit.groupdict()
    name = found.get("n")
    month = MONTHS[name.lower()] if name else int(found["m"])
    day, year = int(found["d"]), int(found.get("y") or 0)
    if not (1 <= month <= _LONGEST_MONTH and 1 <= day <= _LONGEST_DAY):
        return None
    return Day(year=year + _CENTURY if 0 < year < 100 else year, month=month, day=day)  # noqa: PLR2004 - two digits


# ---------------------------------------------------------------- times

TIME: Final = r"(?<![\w:.])(?:[0-2]?\d:[0-5]\d(?::[0-5]\d)?(?:\s?[ap]\.?m\b)?|[01]?\d\s?[ap]\.?m\b)(?![:\d])"
"""A time of day."""

_TIMES: Final = re.compile(
    r"(?<![\d:.])(?P<hour>[0-2]?\d)(?:[:h](?P<minute>[0-5]\d)(?::[0-5]\d)?)?\s?(?:(?P<half>[ap])\.?m\b|(?P<word>uhr|h|o'clock)\b)?",
    re.IGNORECASE,
)
_NOON: Final = 12
_DAY_MINUTES: Final = 24 * 60


def minutes_in(text: str) -> frozenset[int]:
    """Return the times of day in a text as minutes after midnight; without a half of the day named, both may be meant."""
    found: set[int] = set()
    for hit in _TIMES.finditer(text):
        if not (hit["minute"] or hit["half"] or hit["word"]):
            continue
        hour, minute = int(hit["hour"]), int(hit["minute"] or 0)
        if hit["half"]:
            found.add((hour % _NOON + (_NOON if hit["half"].lower() == "p" else 0)) * 60 + minute)
        else:
            found.add(hour * 60 + minute)
            if hour < _NOON:
                found.add((hour + _NOON) * 60 + minute)
    return frozenset(minute for minute in found if minute < _DAY_MINUTES)
