"""Days that are spoken of: "tomorrow", "last Friday", "three weeks ago" become dates, seen from when it was said.

Knows the calendar and the common words of a few languages. Knows no clock, and guesses nothing: what could mean two days is
left as it is.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Final

from memolog.prompt.dates import find_date

__all__ = ["Dated", "dated"]


@dataclass(frozen=True, slots=True)
class Dated:
    """A text with its days made plain."""

    text: str
    about: date | None
    """The first day that could be computed."""


_FIXED: Final[dict[str, int]] = {
    **dict.fromkeys(("day before yesterday", "vorgestern", "avant-hier", "anteayer", "前天", "一昨日", "おととい"), -2),
    **dict.fromkeys(
        ("yesterday", "last night", "gestern", "ayer", "昨天", "昨日", "きのう", "어제", "أمس", "вчера", "ieri"), -1
    ),
    **dict.fromkeys(
        ("day after tomorrow", "übermorgen", "après-demain", "pasado mañana", "后天", "後天", "明後日", "あさって"), 2
    ),
    **dict.fromkeys(("tomorrow", "demain", "明天", "明日", "내일", "غدا", "غدًا", "завтра", "domani"), 1),
}
_DAYS: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_GERMAN: Final = ("montag", "dienstag", "mittwoch", "donnerstag", "freitag", "samstag", "sonntag")
_WEEKDAYS: Final = {name: number for names in (_DAYS, _GERMAN) for number, name in enumerate(names)}
_MONTHS: Final = {
    name: number
    for number, names in enumerate(
        (
            ("january", "jan", "januar"),
            ("february", "feb", "februar"),
            ("march", "mar", "märz"),
            ("april", "apr"),
            ("may", "mai"),
            ("june", "jun", "juni"),
            ("july", "jul", "juli"),
            ("august", "aug"),
            ("september", "sep", "sept"),
            ("october", "oct", "oktober"),
            ("november", "nov"),
            ("december", "dec", "dezember"),
        ),
        1,
    )
    for name in names
}
_NUMBERS: Final = {
    word: number
    for number, words in enumerate(
        (
            "a an one ein einem einer",
            "two zwei couple",
            "three drei",
            "four vier",
            "five fünf",
            "six sechs",
            "seven sieben",
            "eight acht",
            "nine neun",
            "ten zehn",
        ),
        1,
    )
    for word in words.split()
}
_UNITS: Final = {
    **dict.fromkeys(("tag", "tage", "tagen"), "day"),
    **dict.fromkeys(("woche", "wochen"), "week"),
    **dict.fromkeys(("monat", "monaten"), "month"),
    **dict.fromkeys(("jahr", "jahren"), "year"),
}

_COUNT: Final = r"(?P<{0}>\d{{1,3}}|" + "|".join(_NUMBERS) + ")"
_UNIT: Final = r"(?P<{0}>days?|weeks?|months?|years?)"
_GERMAN_UNIT: Final = r"(?P<{0}>Tag(?:en?)?|Wochen?|Monat(?:en)?|Jahr(?:en)?)"
_DAY: Final = "(?:" + "|".join(_WEEKDAYS) + ")"
_MONTH: Final = "(?:" + "|".join(sorted(_MONTHS, key=len, reverse=True)) + ")"
_PATTERN: Final = re.compile(
    r"(?P<fixed>"
    + "|".join(
        rf"(?<!\w){word}(?!\w)" if word[0] < "\u3000" else word for word in sorted(_FIXED, key=len, reverse=True)
    )
    + ")"
    rf"|\b{_COUNT.format('n1')} (?:of )?{_UNIT.format('u1')} (?P<ago>ago|from now(?! on\b)|from today|later today)\b"
    rf"|\bin (?:exactly )?{_COUNT.format('n2')} {_UNIT.format('u2')}(?P<after>'? time)?(?= *(?:[.,;:!?)]|\Z))"
    rf"|\bvor {_COUNT.format('n3')} {_GERMAN_UNIT.format('u3')}\b"
    rf"|\bin {_COUNT.format('n4')} {_GERMAN_UNIT.format('u4')}\b"
    rf"|\b(?P<which>last|past|next|this|coming|nächsten?|nächste[rs]?|letzten?|letzte[rs]?|kommenden?) (?P<day>{_DAY})\b"
    rf"|\b(?P<way>on|by|until|before|due|since|am|bis) (?P<bare>{_DAY})\b"
    r"|\b(?P<which2>last|next|past|this) (?P<period>month|year)\b"
    rf"|\b(?P<month>{_MONTH})\.? (?P<number>\d{{1,2}})(?:st|nd|rd|th)?\b(?!,? \d{{4}}|[:/]\d|\.\d)"
    rf"|\b(?P<number2>\d{{1,2}})(?:st|nd|rd|th|\.)? (?:of )?(?P<month2>{_MONTH})\b(?!,? \d{{4}})"
    rf"|\b(?P<iso>(?:19|20)\d\d-\d\d-\d\d|{_MONTH}\.? \d{{1,2}}(?:st|nd|rd|th)?,? (?:19|20)\d\d)\b",
    re.IGNORECASE,
)
_AHEAD: Final = re.compile(
    r"\b(?:will|'ll|going to|gonna|plan(?:s|ned|ning)?|need(?:s)? to|have to|must|want to|hope|due|by|until"
    r"|deadline|next|"
    r"upcoming|should|werde[nt]?|wird|muss|bis)\b",
    re.IGNORECASE,
)
_BEHIND: Final = re.compile(
    r"\b(?:was|were|had|did|got|went|met|bought|saw|came|took|made|found|gave|had|ate|left|began|started|sent|said"
    r"|told|since|"
    r"\w{3,}ed|hatte|war|habe|wurde)\b",
    re.IGNORECASE,
)
# Said of every week, not of one; and two days side by side are a habit as well.
_HABIT: Final = re.compile(
    r"\b(?:never|always|every|each|usually|only|except|weekly|nie|immer|jeden?|"
    rf"{_DAY}s|{_DAY} (?:and|or|und|oder|to|bis) {_DAY})\b",
    re.IGNORECASE,
)
_SENTENCE: Final = re.compile(r"[.;!?\n]")
_CLAUSE: Final = re.compile(r"[.;:!?,()\n]|\b(?:and|but|because|und|aber|weil)\b", re.IGNORECASE)
_HALF_A_YEAR: Final = 183
_WEEK: Final = 7
# Most texts speak of no day: a quick look for what all patterns have in common saves the long one.
_SOME_MONTH: Final = "(?:jan|feb|mar|mär|apr|may|mai|jun|jul|aug|sep|oct|okt|nov|dec|dez)"
_TRIGGERS: Final = re.compile(
    rf"day|ago|night|week|month|year|tomorrow|from now|gestern|morgen|\bvor |tag|woche|monat|jahr|mittwoch|hier"
    rf"|demain|ayer|ieri|domani"
    rf"|pasado|\b{_SOME_MONTH}\w{{0,7}}\.? \d|\d(?:st|nd|rd|th|\.)? (?:of )?{_SOME_MONTH}|\d-\d\d-\d"
    rf"|[\u0400-\u06ff\u3000-\ud7ff]",
    re.IGNORECASE,
)


def dated(text: str, said: date) -> Dated:
    """Return the text with "(meaning …)" after each day that can be computed from the day on which it was said."""
    if not _TRIGGERS.search(text):
        return Dated(text, None)
    about: date | None = None
    pieces: list[str] = []
    at = 0
    for hit in _PATTERN.finditer(text):
        if "(meaning" in text[hit.end() : hit.end() + 10]:
            continue
        found = _found(hit, text, said)
        if found is None:
            continue
        day, words = found
        about = about or day
        if words:
            pieces += [text[at : hit.end()], f" (meaning {words})"]
            at = hit.end()
    return Dated("".join([*pieces, text[at:]]), about)


def _found(hit: re.Match[str], text: str, said: date) -> tuple[date | None, str] | None:
    """Return the day that a match means and the words for it; no words where the text says it well enough."""
    try:
        for name, read in _READERS:
            if hit[name] is not None:
                return read(hit, text, said)
    except (OverflowError, ValueError):
        # Before the first year, after the last, or no day of the calendar.
        return None
    return None


def _plain(day: date) -> tuple[date, str]:
    return day, day.isoformat()


def _fixed(hit: re.Match[str], text: str, said: date) -> tuple[date, str] | None:
    del text
    days = _FIXED.get(hit["fixed"].lower())
    return _plain(said + timedelta(days=days)) if days else None


def _counted(number: str, unit: str, said: date, sign: int) -> tuple[date | None, str]:
    count = sign * (int(number) if number.isdecimal() else _NUMBERS[number.lower()])
    kind = _UNITS.get(unit.lower()) or unit.lower().rstrip("s")
    if kind in {"day", "week"}:
        return _plain(said + timedelta(days=count * (_WEEK if kind == "week" else 1)))
    months = said.year * 12 + said.month - 1 + count * (12 if kind == "year" else 1)
    year, month = divmod(months, 12)
    # Only the month is meant: a day would say more than was said.
    return None, str(date(year, 1, 1).year) if kind == "year" else date(year, month + 1, 1).isoformat()[:7]


def _ago(hit: re.Match[str], text: str, said: date) -> tuple[date | None, str]:
    del text
    return _counted(hit["n1"], hit["u1"], said, -1 if hit["ago"].lower() == "ago" else 1)


def _weekday(hit: re.Match[str], text: str, said: date) -> tuple[date, str] | None:
    del text
    which, day = hit["which"].lower(), _WEEKDAYS[hit["day"].lower()]
    ahead = (day - said.weekday()) % _WEEK or _WEEK
    behind = (said.weekday() - day) % _WEEK or _WEEK
    if which.startswith(("last", "past", "letzt")):
        return _plain(said - timedelta(days=behind))
    if which.startswith(("next", "nächst")):
        # "Next" may skip the day of this week: plain only where this week has no such day left.
        return _plain(said + timedelta(days=ahead)) if day <= said.weekday() else None
    return _plain(said + timedelta(days=ahead)) if which.startswith(("coming", "kommend")) else None


def _bare_weekday(hit: re.Match[str], text: str, said: date) -> tuple[date, str] | None:
    way, day = hit["way"].lower(), _WEEKDAYS[hit["bare"].lower()]
    ahead = (day - said.weekday()) % _WEEK
    behind = (said.weekday() - day) % _WEEK
    sentence = _around(text, hit, _SENTENCE)
    if _HABIT.search(sentence):
        return None
    # Only what is said of this very day tells whether it is over.
    clause = _around(text, hit, _CLAUSE)
    is_ahead = way in {"by", "until", "due", "bis"} or bool(_AHEAD.search(clause))
    is_behind = way == "since" or bool(_BEHIND.search(clause))
    if is_ahead == is_behind:
        return None
    return _plain(said + timedelta(days=ahead or _WEEK) if is_ahead else said - timedelta(days=behind or _WEEK))


def _around(text: str, hit: re.Match[str], end: re.Pattern[str]) -> str:
    """Return the text around a match, up to what ends it on either side."""
    start = max((mark.end() for mark in end.finditer(text, 0, hit.start())), default=0)
    after = end.search(text, hit.end())
    return text[start : after.start() if after else len(text)]


def _period(hit: re.Match[str], text: str, said: date) -> tuple[date | None, str] | None:
    del text
    step = {"next": 1, "this": 0}.get(hit["which2"].lower(), -1)
    # "The past month" is a stretch of time, "last month" is a month.
    return None if hit["which2"].lower() in {"past", "this"} else _counted("1", hit["period"], said, step)


def _month_day(hit: re.Match[str], text: str, said: date) -> tuple[date, str] | None:
    del text
    name, number = (hit["month"], hit["number"]) if hit["month"] else (hit["month2"], hit["number2"])
    month, number = _MONTHS[name.lower()], int(number)
    # The word may be a verb or a modal: a month is written with a capital.
    if name[0].islower() and name.lower() in {"may", "march", "mar"}:
        return None
    near = [date(said.year + shift, month, number) for shift in (-1, 0, 1)]
    day = min(near, key=lambda one: abs(one - said))
    return _plain(day) if abs((day - said).days) < _HALF_A_YEAR else None


def _written(hit: re.Match[str], text: str, said: date) -> tuple[date, str] | None:
    del text, said
    found = find_date(hit["iso"])
    # It says its day itself, so there is nothing to add.
    return (found.day, "") if found and found.day else None


_Reader = Callable[[re.Match[str], str, date], "tuple[date | None, str] | None"]
_READERS: Final[tuple[tuple[str, _Reader], ...]] = (
    ("fixed", _fixed),
    ("n1", _ago),
    ("n2", lambda hit, _, said: _counted(hit["n2"], hit["u2"], said, 1)),
    ("n3", lambda hit, _, said: _counted(hit["n3"], hit["u3"], said, -1)),
    ("n4", lambda hit, _, said: _counted(hit["n4"], hit["u4"], said, 1)),
    ("which", _weekday),
    ("way", _bare_weekday),
    ("which2", _period),
    ("month", _month_day),
    ("month2", _month_day),
    ("iso", _written),
)
