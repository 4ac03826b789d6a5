"""Resolve relative dates ("tomorrow", "last Friday", "three weeks ago") to calendar dates, from the date of the message.

An expression that could mean two different days is not resolved.
"""

import re
from collections.abc import Callable
from datetime import date, timedelta
from typing import Final, NamedTuple

from memolog.text.dates import ENGLISH_MONTHS, MONTHS, RISKY_MONTHS, WEEKDAYS, day_of
from memolog.text.word_lists import NUMBER_WORDS


class Dated(NamedTuple):
    """A text with its relative dates resolved."""

    text: str
    about: date | None
    """The first day that could be resolved, or None."""


_DAYS_OFF: Final[dict[int, str]] = {
    -2: "day before yesterday|vorgestern|avant-hier|anteayer|anteontem|l'altro ieri|eergisteren|前天|一昨日|おととい",
    -1: "yesterday|last night|gestern|ayer|昨天|昨日|きのう|어제|أمس|вчера|ieri|ontem|gisteren",
    1: "tomorrow|demain|明天|明日|내일|غدا|غدًا|завтра|domani|amanhã",
    2: (
        "day after tomorrow|übermorgen|après-demain|pasado mañana|depois de amanhã|dopodomani|overmorgen"
        "|后天|後天|明後日|あさって"
    ),
}
_FIXED: Final = {word: days for days, words in _DAYS_OFF.items() for word in words.split("|")}
_NUMBERS: Final = {
    **dict.fromkeys(("a", "an", "ein", "einem", "einer"), 1),
    "couple": 2,
    **{word: value for language in ("en", "de") for value, word in enumerate(NUMBER_WORDS[language][1:11], 1)},
}
# The first letters of the words for a day, a week, a month and a year, in English and German.
_UNITS: Final = {"d": "day", "t": "day", "w": "week", "m": "month", "y": "year", "j": "year"}

_COUNT: Final = r"(?P<{0}>\d{{1,3}}|" + "|".join(_NUMBERS) + ")"
_UNIT: Final = r"(?P<{0}>days?|weeks?|months?|years?)"
_GERMAN_UNIT: Final = r"(?P<{0}>Tag(?:en?)?|Wochen?|Monat(?:en)?|Jahr(?:en)?)"
_DAY: Final = "(?:" + "|".join(sorted(WEEKDAYS, key=len, reverse=True)) + ")"
_MONTH: Final = "(?:" + "|".join(sorted({**MONTHS, **RISKY_MONTHS}, key=len, reverse=True)) + ")"
_ENGLISH: Final = "(?:" + "|".join([*ENGLISH_MONTHS, "Sept", *(name[:3] for name in ENGLISH_MONTHS)]) + ")"
_YEAR: Final = r"(?:19|20)\d\d"
_PATTERN: Final = re.compile(
    r"(?P<fixed>"
    + "|".join(
        rf"(?<!\w){word}(?!\w)" if word[0] < "\u3000" else word for word in sorted(_FIXED, key=len, reverse=True)
    )
    + ")"
    rf"|\b{_COUNT.format('n1')} (?:of )?{_UNIT.format('u1')} (?P<ago>ago|from now(?! on\b)|from today|later today)\b"
    rf"|\bin (?:exactly )?{_COUNT.format('n2')} {_UNIT.format('u2')}(?:'? time)?(?= *(?:[.,;:!?)]|\Z))"
    rf"|\b(?P<vor>vor|in) {_COUNT.format('n3')} {_GERMAN_UNIT.format('u3')}\b"
    rf"|\b(?P<which>last|past|next|this|coming|nächsten?|nächste[rs]?|letzten?|letzte[rs]?|kommenden?|próxim[oa]"
    rf"|volgende|komende|afgelopen) (?P<day>{_DAY})\b"
    rf"|\b(?P<day2>{_DAY}) (?P<which3>prochain|dernier|próxim[oa]|pasado|passad[oa]|prossim[oa]|scors[oa])\b"
    r"|\b(?P<way>on|by|until|before|due|since|am|bis|seit|le|d['’]ici|avant|depuis|jusqu['’]à|el|para el|hasta el|antes del"
    r"|desde el|na|no|até|antes de|desde|entro|fino a|prima di|op|voor|tot|tegen|sinds)"
    rf" (?P<bare>{_DAY})\b(?! (?:prochain|dernier|próxim|pasado|passad|prossim|scors|que ))"
    # "The past month" is not resolved, because it is the time up to now, whereas "last month" is a calendar month.
    r"|\b(?P<which2>last|next) (?P<period>month|year)\b"
    rf"|\b(?P<month>{_ENGLISH})\.? (?P<number>\d{{1,2}})(?P<th>st|nd|rd|th)?\b(?:,? (?P<year>\d{{4}}))?(?![\w%]|[:/]\d|\.\d)"
    rf"|(?<![\w.,:/#$€£])(?P<number2>\d{{1,2}})(?:st|nd|rd|th|er|ère|e|\.|\.?[ºª]|°)? (?P<of>of |de |del |di )?"
    rf"(?P<month2>{_MONTH})\b\.?(?:,? (?:de |del |do )?(?P<year2>\d{{4}}))?(?!\w)"
    rf"|(?<![\w.,:/#$€£-])(?P<first>\d{{1,2}})(?P<mark>[./-])(?P<second>\d{{1,2}})(?P=mark)(?P<year3>{_YEAR})(?![\w/-])"
    r"|\b(?:am|vom|zum|bis|ab|den) (?P<number4>\d{1,2})\.(?P<month4>\d{1,2})\.(?!\d)"
    rf"|\b(?P<iso>{_YEAR}-\d\d-\d\d)\b",
    re.IGNORECASE,
)
# A number after one of these words is not a day: "Artikel 5 Mai".
_LABELLED: Final = re.compile(
    r"(?:\b(?:art(?:icles?|ikel|ículo|igo|icolo)?|§+|nr|no|num(?:ber|mer|éro|ero)?|núm(?:ero)?|n[º°]|n\.[º°]|kapitel|chap(?:ter|itre)"
    r"|cap(?:ítulo|itolo)?|hoofdstuk|sec(?:tion)?|secci[oó]n|seç[aã]o|sezione|abschnitt|absatz|abs|par(?:agraph|agraf)?"
    r"|page|pages|seite|página|pagina|pág|version|versión|versão|versione|versie|v|release|build|level|room|raum|zimmer|salle"
    r"|sala|stanza|kamer|apartment|apt|wohnung|suite|gate|gleis|spoor|linie|ligne|línea|linha|linea|lijn|line|bus|tram|platform"
    r"|figure|fig|abb(?:ildung)?|tabelle|table|tabla|tabela|tabella|tabel|step|schritt|étape|paso|passo|stap|item|option|issue"
    r"|ticket|pr|grade|klasse|gruppe|group|team"
    # A street can have a date as its name: "Rua 25 de Abril".
    r"|rua|avenida|av|travessa|praça|largo|calle|plaza|via|viale|corso|piazza|rue|boulevard|avenue|place|straße|strasse|platz|straat"
    r"|plein)\.?|§)\s*(?:(?:de|do|da|del|della|du|des|dos)\s+)?\Z",
    re.IGNORECASE,
)
# A number after one of these words is an hour.
_AT: Final = re.compile(r"\b(?:at|um|om|alle(?: ore)?|ore|às|a las|à)\s*\Z", re.IGNORECASE)
_HOUR: Final = re.compile(r"\s?(?:uhr|h|hrs?|uur|ore|horas?|heures?|[ap]\.?m|o['’]clock)\b|[:.h]\d\d", re.IGNORECASE)
# A number before one of these words is a count, not a day.
_COUNTED: Final = re.compile(
    r"\s(?:times|people|persons?|guests|users|votes|points|percent|seconds?|minutes?|hours?|days?|weeks?|months?|years?"
    r"|dollars?|euros?|pounds?|bucks|items|pieces|miles|km|kg|[€$£%])(?!\w)",
    re.IGNORECASE,
)
_MONEY: Final = re.compile(
    r"\s?(?:[€$£%]|(?:euros?|eur|usd|dollars?|dólares|dollari|chf|pounds?|reais)\b)", re.IGNORECASE
)
# "May" and "March" can also be verbs or names, so they count as months only before these words and signs.
_AFTER_A_DAY: Final = re.compile(
    r"\s*(?:\Z|[.,;:!?)\n–—]|(?:at|in|on|for|from|to|until|till|through|is|was|will|would|works?|with|and|or|as|by|we|i|he|she|they|it"
    r"|you|the|a|an|our|my|when|because|so|if|since|after|before|between|morning|evening|afternoon|night|meeting|deadline)\b)",
    re.IGNORECASE,
)
_YEAR_OF_TWO: Final = re.compile(r"\s['’]?(\d\d)(?![\d.,:]\d|\d)")
_FRENCH: Final = re.compile(r"\b(?:le|du|au)\s*\Z", re.IGNORECASE)
_AHEAD: Final = re.compile(
    r"\b(?:will|'ll|going to|gonna|plan(?:s|ned|ning)?|need(?:s)? to|have to|must|want to|hope|due|by|until"
    r"|deadline|next|"
    r"upcoming|should|werde[nt]?|wird|"
    r"será[ns]?|seremos|serão|sarà|saranno|sera|seront|empieza|comienza|começa|commence|inizia|"
    r"muss|müssen|bis|voy a|va a|vamos a|van a|tengo que|hay que|debo|vou|tenho que|devo|dobbiamo"
    r"|devono|dois|doit|devons|allons|vais|moet|moeten|zal|zullen|ga|gaan)\b",
    re.IGNORECASE,
)
_BEHIND: Final = re.compile(
    r"\b(?:was|were|had|did|got|went|met|bought|saw|came|took|made|found|gave|had|ate|left|began|started|sent|said"
    r"|told|since|"
    r"\w{3,}ed|hatten?|waren?|habe|wurde|fue|fui|hubo|estuve|foi|estive|était|ai|avons|ho|abbiamo|heb|heeft|hebben|werd)\b",
    re.IGNORECASE,
)
# Words that show a repeated day, and pairs of weekdays such as "Monday and Friday".
_HABIT: Final = re.compile(
    r"\b(?:never|always|every|each|usually|only|except|weekly|nie|immer|jeden?|siempre|nunca|cada|todos los"
    rf"|sempre|ogni|toujours|jamais|chaque|tous les|todas?|altijd|nooit|elke|iedere|les|los"
    rf"|{_DAY}s|{_DAY} (?:and|or|und|oder|to|bis|y|o|et|ou|e|en|of) {_DAY})\b",
    re.IGNORECASE,
)
_NUMBER_NEXT: Final = re.compile(r",? (?:the |den |dem |el |il |de )?\d")
_SENTENCE: Final = re.compile(r"[.;!?\n]")
# The limits of a clause. Other clauses do not show whether a day is past: "the scan on Thursday that got moved".
_CLAUSE: Final = re.compile(
    r"[.;:!?,()\n]|\b(?:and|but|because|so|that|which|who|und|aber|weil|y|pero|que|porque|et|mais|qui|parce|e|ma|perché|che|en|maar"
    r"|omdat|die|dat)\b",
    re.IGNORECASE,
)
_HALF_A_YEAR: Final = 183
# If the words say that a day is in the future, but it was at most this many days ago, it is read as past (a missed deadline).
_LATE_DAYS: Final = 31
# If the words do not show the tense, a day that was at most this many days ago is read as past, not as a day of the next year.
_NEAR_DAYS: Final = 110
# This many characters before and after a date are read.
_NEAR: Final = 40
_LIMIT: Final = re.compile(
    r"\b(?:by|until|till|due(?: on)?|bis(?: zum)?|d['’]ici(?: le| au)?|jusqu['’]au|hasta el|para el|até"
    r"|entro(?: il)?|fino al|tot)(?: the)?\s*\Z",
    re.IGNORECASE,
)
_WEEK: Final = 7
_MONTHS_OF_A_YEAR: Final = 12
# A quick check, because most texts have no date and the long pattern is slow.
_SOME_MONTH: Final = "(?:" + "|".join(sorted({name[:3] for name in (*MONTHS, *RISKY_MONTHS)})) + ")"
_TRIGGERS: Final = re.compile(
    rf"day|ago|night|week|month|year|tomorrow|from now|gestern|morgen|\bvor |tag|woche|monat|jahr|mittwoch|sonnabend|hier"
    rf"|demain|ayer|ieri|domani|ontem|amanhã|gisteren|pasado|feira|lun[de]|marte|mardi|mercole|mercredi|miércoles|jeudi|jueves"
    rf"|giovedì|vendredi|viernes|venerdì|samedi|s[áa]bad?to?|dimanche|doming|domenica|dag"
    rf"|\b{_SOME_MONTH}\w{{0,7}}\.? \d|\d\S{{0,3}} (?:of |de |del |di )?{_SOME_MONTH}|\d-\d\d-\d|\d[./-]\d{{1,2}}[./-]"
    rf"|[\u0400-\u06ff\u3000-\ud7ff]",
    re.IGNORECASE,
)


def dated(text: str, said: date) -> Dated:
    """Return the text with "(meaning …)" after each relative date that can be resolved. `said` is the date of the message."""
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
    """Return the day of a match and the words for "(meaning …)", or None if the match cannot be resolved.

    The words are empty if the text has a complete date.
    """
    read = next(read for name, read in _READERS if hit[name] is not None)
    try:
        return read(hit, text, said)
    except (KeyError, OverflowError, ValueError):
        # The result is outside the calendar of Python, the day does not exist, or a name has look-alike letters.
        return None


def _plain(day: date) -> tuple[date, str]:
    return day, day.isoformat()


def _counted(number: str, unit: str, said: date, sign: int) -> tuple[date | None, str]:
    count = sign * (int(number) if number.isdecimal() else _NUMBERS[number.lower()])
    kind = _UNITS[unit[0].lower()]
    if kind in {"day", "week"}:
        return _plain(said + timedelta(days=count * (_WEEK if kind == "week" else 1)))
    months = said.year * 12 + said.month - 1 + count * (12 if kind == "year" else 1)
    year, month = divmod(months, 12)
    # The result has no day, because the text gives only the month or the year.
    return None, str(date(year, 1, 1).year) if kind == "year" else date(year, month + 1, 1).isoformat()[:7]


_LAST: Final = ("last", "past", "letzt", "afgelopen", "dernier", "pasado", "passad", "scors")
_COMING: Final = ("coming", "kommend", "komend")


def _weekday(hit: re.Match[str], _: str, said: date) -> tuple[date, str] | None:
    which, day = (hit["which"] or hit["which3"]).lower(), WEEKDAYS[(hit["day"] or hit["day2"]).lower()]
    ahead = (day - said.weekday()) % _WEEK or _WEEK
    behind = (said.weekday() - day) % _WEEK or _WEEK
    if which.startswith(_LAST):
        return _plain(said - timedelta(days=behind))
    if which == "this":
        return None
    # "Next Friday" is unambiguous only if Friday of this week is over or today.
    is_plain = which.startswith(_COMING) or day <= said.weekday()
    return _plain(said + timedelta(days=ahead)) if is_plain else None


_BY: Final = frozenset(
    {"by", "until", "due", "bis", "jusqu'à", "d'ici", "para el", "hasta el", "até", "entro", "fino a", "tot"}
)
_SINCE: Final = frozenset({"since", "seit", "depuis", "desde el", "desde", "sinds"})


def _bare_weekday(hit: re.Match[str], text: str, said: date) -> tuple[date, str] | None:
    way, day = hit["way"].lower().replace("’", "'"), WEEKDAYS[hit["bare"].lower()]
    ahead = (day - said.weekday()) % _WEEK
    behind = (said.weekday() - day) % _WEEK
    sentence = _around(text, hit, _SENTENCE)
    if _HABIT.search(sentence) or _NUMBER_NEXT.match(text, hit.end()):
        # The day is repeated, or the day of the month follows ("on Friday, the 5th").
        return None
    # Only the clause with the day shows whether the day is past.
    clause = _around(text, hit, _CLAUSE)
    is_ahead = way in _BY or bool(_AHEAD.search(clause))
    is_behind = way in _SINCE or bool(_BEHIND.search(clause))
    if is_ahead == is_behind:
        return None
    return _plain(said + timedelta(days=ahead or _WEEK) if is_ahead else said - timedelta(days=behind or _WEEK))


def _around(text: str, hit: re.Match[str], end: re.Pattern[str]) -> str:
    start = max((mark.end() for mark in end.finditer(text, 0, hit.start())), default=0)
    after = end.search(text, hit.end())
    return text[start : after.start() if after else len(text)]


def _beside(text: str, hit: re.Match[str]) -> tuple[str, str]:
    return text[max(0, hit.start() - _NEAR) : hit.start()], text[hit.end() : hit.end() + _NEAR]


def _month_first(hit: re.Match[str], text: str, said: date) -> tuple[date, str] | None:
    """Return the day of an English date such as "June 5th". In other languages, a number after a month is not a day."""
    name, (before, rest) = hit["month"], _beside(text, hit)
    if hit["year"] is None and not hit["th"]:
        if _HOUR.match(rest) or _COUNTED.match(rest) or _YEAR_OF_TWO.match(rest):
            return None
        if name.lower() in {"may", "march", "mar"} and (name[0].islower() or not _AFTER_A_DAY.match(rest)):
            return None
    return _day_of(MONTHS[name.lower()], int(hit["number"]), hit["year"], _sides(hit, text, before), said)


def _day_first(hit: re.Match[str], text: str, said: date) -> tuple[date, str] | None:
    """Return the day of a date such as "28. Juni", "le 1er mars" or "3 de mayo de 2026". A time may follow: "28. Juni 14 Uhr"."""
    name, (before, rest) = hit["month2"], _beside(text, hit)
    if _LABELLED.search(before) or _AT.search(before):
        return None
    year = hit["year2"]
    if year is not None:
        if _MONEY.match(rest):
            return None
    elif (two := _YEAR_OF_TWO.match(rest)) and not _HOUR.match(rest, two.end()):
        # Two digits are read as a year only if it is the year of the message.
        if int(two[1]) != said.year % 100:
            return None
        year = str(said.year)
    lower = name.lower()
    if year is None:
        # The word may not be a month: "march" is also a verb, and "Mars" a planet.
        if lower in RISKY_MONTHS or (lower in {"may", "march", "mar"} and name[0].islower() and not hit["of"]):
            return None
        if name == "Mars" and not (_FRENCH.search(before) or "er " in hit[0]):
            return None
    month = MONTHS.get(lower) or RISKY_MONTHS[lower]
    return _day_of(month, int(hit["number2"]), year, _sides(hit, text, before), said)


def _sides(hit: re.Match[str], text: str, before: str) -> tuple[bool, bool]:
    """Return whether the words around a day show that it is in the future, and whether they show that it is in the past.

    Both or neither can be true.
    """
    clause = _around(text, hit, _CLAUSE)
    is_over = bool(_BEHIND.search(clause))
    # A deadline is in the future, unless the clause is in the past tense.
    return (not is_over if _LIMIT.search(before) else bool(_AHEAD.search(clause))), is_over


def _day_of(month: int, number: int, year: str | None, sides: tuple[bool, bool], said: date) -> tuple[date, str] | None:
    if year is not None:
        # The date is complete. A number outside 1900 to 2099 is not read as a year.
        return (date(int(year), month, number), "") if re.fullmatch(_YEAR, year) else None
    days = [day for shift in (-1, 0, 1) if (day := day_of(said.year + shift, month, number))]
    next_one = next((day for day in days if day >= said), None)
    last_one = next((day for day in reversed(days) if day <= said), None)
    is_ahead, is_behind = sides
    ahead = (next_one - said).days if next_one else _HALF_A_YEAR
    behind = (said - last_one).days if last_one else _HALF_A_YEAR
    if next_one and is_ahead and not is_behind and behind > _LATE_DAYS:
        return _plain(next_one)
    if next_one and ahead <= behind and ahead < _HALF_A_YEAR:
        # The nearer day is used, because the past tense does not show that the day is past: "we moved it to May 16".
        return _plain(next_one)
    is_over = is_behind and not is_ahead and behind < _HALF_A_YEAR
    return _plain(last_one) if last_one and (is_over or behind <= _NEAR_DAYS) else None


def _digits(hit: re.Match[str], _: str, __: date) -> tuple[date, str] | None:
    """Return the day of a date in digits, or None if day and month can be in either order."""
    first, second, year = int(hit["first"]), int(hit["second"]), int(hit["year3"])
    if hit["mark"] == "." or first > _MONTHS_OF_A_YEAR or first == second:
        return date(year, second, first), ""
    return (date(year, first, second), "") if second > _MONTHS_OF_A_YEAR else None


_Reader = Callable[[re.Match[str], str, date], "tuple[date | None, str] | None"]
_READERS: Final[tuple[tuple[str, _Reader], ...]] = (
    ("fixed", lambda hit, _, said: _plain(said + timedelta(days=_FIXED[hit["fixed"].lower()]))),
    ("n1", lambda hit, _, said: _counted(hit["n1"], hit["u1"], said, -1 if hit["ago"].lower() == "ago" else 1)),
    ("n2", lambda hit, _, said: _counted(hit["n2"], hit["u2"], said, 1)),
    ("n3", lambda hit, _, said: _counted(hit["n3"], hit["u3"], said, -1 if hit["vor"].lower() == "vor" else 1)),
    ("which", _weekday),
    ("way", _bare_weekday),
    ("which2", lambda hit, _, said: _counted("1", hit["period"], said, 1 if hit["which2"].lower() == "next" else -1)),
    ("which3", _weekday),
    ("month", _month_first),
    ("month2", _day_first),
    ("first", _digits),
    (
        "number4",
        lambda hit, text, said: _day_of(int(hit["month4"]), int(hit["number4"]), None, _sides(hit, text, hit[0]), said),
    ),
    ("iso", lambda hit, _, __: (date.fromisoformat(hit["iso"]), "")),
)
