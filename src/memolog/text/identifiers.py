"""Find identifiers, numbers, dates, times, quotations and names in a text, so that they can be searched in another text.

The patterns are written so that a search takes linear time. The module also folds texts for comparison.
"""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Context, Decimal
from sys import intern
from typing import Final, Literal, TypeAlias

from memolog.core.cache import remembered
from memolog.text.dates import MONTHS, WEEKDAYS
from memolog.text.word_lists import FUNCTION_WORDS, NUMBER_WORDS, UNSPACED, word_set

Kind: TypeAlias = Literal[
    "path", "symbol", "command", "flag", "url", "hash", "version", "number", "date", "time", "quote", "name"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mention:
    """An identifier, a number, a date, a time, a quotation or a name in a text, which can be searched in another text."""

    kind: Kind
    text: str
    """The characters as they are in the text, without quotation marks."""
    phrase: str = ""
    """The text with its context: a number with the word beside it ("3 retries"), or a line number with its file ("a.py:12").

    Without such a word or file, the same as `text`.
    """


# ---------------------------------------------------------------- folding

_ENTITY: Final = re.compile(r"&(?:amp;)*+(lt|gt|quot|apos|#39|nbsp);|&amp;", re.IGNORECASE)
_ENTITIES: Final = {"lt": "<", "gt": ">", "quot": '"', "apos": "'", "#39": "'", "nbsp": " "}
_INVISIBLE: Final = re.compile("[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff\U000e0000-\U000e007f]")
# The place before a superscript or subscript digit. A space is inserted there, because 10² must not become 102.
_RAISED: Final = re.compile(r"(?<=\d)(?=[\u2070\u00b9\u00b2\u00b3\u2074-\u2079\u2080-\u2089])")
_ESCAPED: Final = re.compile(r"(?<!\\)\\++[nrt\"']")
_APART: Final = re.compile(rf"[{UNSPACED}]")
_SEPARATORS: Final = re.compile(r"[\W_]+")
_TO_SPACES: Final = {code: " " for code in range(128) if not chr(code).isalnum()}
_MIN_WORD: Final = 3
# The checks of a line ask for its words and mentions many times. So the results for the latest `_REMEMBERED` texts are cached.
# Texts of more than `_MAX_REMEMBERED` characters are not cached.
_REMEMBERED: Final = 2_048
_MAX_REMEMBERED: Final = 1_000
# Function words that count as content words, because they change the meaning of a sentence.
_TELLING: Final = word_set("above again below between down during few further nor")
# Words that are not content words: the other function words, and words that say little in an observation, such as "user".
_EMPTY: Final = (FUNCTION_WORDS - _TELLING) | word_set("""
    agent approved asked asks assistant assistants confirmed decided done going let lets may message messages must need needs
    now per please prefer prefers requested said say says shall stated tell told tool tools upon use used user users via want
    wants yes yet
    """)


def _unescaped(text: str) -> str:
    """Return the text with HTML entities decoded. An entity may have been escaped several times (`&amp;amp;lt;`)."""
    if "&" not in text:
        return text
    return _ENTITY.sub(lambda hit: _ENTITIES.get((hit[1] or "").lower(), "&"), text)


def folded(text: str) -> str:
    """Return the text for comparison: in lower case and normal width, with entities decoded, without invisible characters."""
    text = _unescaped(text)
    if not text.isascii():
        text = unicodedata.normalize("NFKC", _RAISED.sub(" ", _INVISIBLE.sub("", text)))
    return text.casefold()


def squeezed(plain: str) -> str:
    """Return the words of a folded text with a point before and after each word: `.src.auth.ts.`.

    The result is the same for a path, a dotted name, a name in snake case and separate words. A search for a string that begins
    and ends with a point finds whole words only.
    """
    if plain.isascii():
        # For ASCII, this has the same result as the code below and is several times faster.
        return f".{'.'.join(plain.translate(_TO_SPACES).split())}."
    plain = _APART.sub(r".\g<0>.", plain)
    return f".{_SEPARATORS.sub('.', plain).strip('.')}."


def dotted_words(text: str) -> str:
    """Return the words of a text in the form of `squeezed`. The checks of a line ask for them several times."""
    return _dotted_words_of_line(text) if len(text) <= _MAX_REMEMBERED else squeezed(folded(text))


@remembered(_REMEMBERED)
def _dotted_words_of_line(text: str) -> str:
    return squeezed(folded(text))


def with_escapes_undone(text: str) -> str:
    """Return the text. If it has a backslash, append a copy with a space for each escaped line break, tab or quotation mark.

    Without the copy, the letter of an escape would be read as the first letter of the next word.
    """
    return f"{text}\n{_ESCAPED.sub(' ', text)}" if "\\" in text else text


def content_words(text: str) -> tuple[str, ...]:
    """Return the content words of a text, each once, in order: words of three or more characters that are not in `_EMPTY`.

    In scripts without spaces, return pairs of adjacent characters.
    """
    return _content_words_of_line(text) if len(text) <= _MAX_REMEMBERED else _content_words(text)


def _content_words(text: str) -> tuple[str, ...]:
    words = dotted_words(text).strip(".").split(".")
    if text.isascii():
        # The same words are in many cached lines, so each is kept once.
        kept = (intern(word) for word in words if len(word) >= _MIN_WORD and word not in _EMPTY)
        return tuple(dict.fromkeys(kept))
    found: dict[str, None] = {}
    for word, following in zip(words, [*words[1:], ""], strict=True):
        if _APART.match(word):
            if _APART.match(following):
                found[f"{word}.{following}"] = None
        elif len(word) >= _MIN_WORD and word not in _EMPTY:
            found[word] = None
    return tuple(found)


_content_words_of_line = remembered(_REMEMBERED)(_content_words)


# ---------------------------------------------------------------- numbers

_DIGITS: Final = r"(?:\d{1,3}(?:[ \u00a0\u202f]\d{3}(?!\d))++|\d{1,40}(?:[.,'’_]\d{1,40}){0,12})"
_GROUPED: Final = rf"{_DIGITS}(?:[.,]\d{{1,12}})?"
_MULTIPLES: Final = {
    **dict.fromkeys(("k", "thousand", "tsd", "tausend", "mil"), 3),
    **dict.fromkeys(("m", "million", "millions", "mio", "millionen"), 6),
    **dict.fromkeys(("b", "bn", "billion", "billions", "mrd", "milliarden"), 9),
}
_MULTIPLE: Final = rf"(?:k|m|bn?|(?:{'|'.join(name for name in _MULTIPLES if len(name) > 2)})\.?)"  # noqa: PLR2004 - the short names are in the pattern itself
_UNIT: Final = (
    r"(?:[%‰€$£¥]|°[CFcf]?|[kKMGTP]i?[bB](?:/s)?|[kKMG]?Hz|(?:µ|u|n|m)?s|sec|min|hrs?|h|d|w|x|px|em|rem|pt|bytes?|kg|mg|g|km|cm"
    r"|mm|m|kW|W|V|fps|rpm|dpi)"
)
_NUMBER: Final = (
    rf"(?<![\w.])[#±≈~+$€£¥-]{{0,2}}(?>{_GROUPED})(?:\s?{_UNIT}|\s?{_MULTIPLE})?(?![\w]|[.:/\\@_-]\w|[.,]\d)"
)
"""A number with its sign and unit. A number inside a name does not match."""

_READ: Final = re.compile(
    rf"(?<![a-uw-z_\d])(?P<digits>{_GROUPED})(?:\s?(?P<multiple>{_MULTIPLE})(?!\w)|\s?(?P<percent>%))?", re.IGNORECASE
)
_SPLIT: Final = re.compile(r"[.,'’_ \u00a0\u202f]")
_THOUSAND: Final = 3
# The precision is enough in practice. A longer number is rounded: groups of three digits with spaces between have no limit.
_EXACT: Final = Context(prec=1_000, rounding=ROUND_HALF_UP)
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
    """Return every possible value of a written number, in plain digits. `1,500` can be 1500 or 1.5."""
    return _values(hit) if (hit := _READ.search(_western(number))) else frozenset()


def values_in(plain: str) -> frozenset[str]:
    """Return the values of all numbers in a folded text, and their rounded values. Numbers may be written as words."""
    found: set[str] = set()
    for hit in _READ.finditer(_western(plain)):
        for value in _values(hit):
            found.add(value)
            found.update(_rounded(value))
    found.update(_NUMBER_WORDS[word] for word in _WORD.findall(plain) if word in _NUMBER_WORDS)
    return frozenset(found)


def _western(text: str) -> str:
    """Return the text with the digits of other scripts replaced by the digits 0 to 9."""
    if text.isascii():
        return text
    return re.sub(r"\d", lambda hit: str(unicodedata.decimal(hit[0], hit[0])), text)


def _values(hit: re.Match[str]) -> frozenset[str]:
    groups = _SPLIT.split(hit["digits"])
    separators = _SPLIT.findall(hit["digits"])
    found: set[str] = set()
    if all(len(group) == _THOUSAND for group in groups[1:]) or set(separators) <= {"_", "'", "’"}:
        found.add("".join(groups))
    if len(groups) > 1 and separators[-1] in ".,":
        found.add(f"{''.join(groups[:-1])}.{groups[-1]}")
    if " " in separators:
        # The space may also separate two numbers.
        found.update(groups)
    values = set(map(_EXACT.create_decimal, found))
    multiple = (hit["multiple"] or "").lower().rstrip(".")
    if multiple:
        values |= {value.scaleb(_MULTIPLES[multiple], _EXACT) for value in values}
    if hit["percent"]:
        values |= {value.scaleb(-2, _EXACT) for value in values}
    return frozenset(map(_plain, values))


def _plain(value: Decimal) -> str:
    return f"{value.normalize(_EXACT):f}"


def _rounded(value: str) -> list[str]:
    decimals = min(len(value.partition(".")[2]), _MOST_DECIMALS)
    number = _EXACT.create_decimal(value)
    return [_plain(number.quantize(Decimal(1).scaleb(-kept), context=_EXACT)) for kept in range(decimals)]


# ---------------------------------------------------------------- dates

_MONTH: Final = "|".join(sorted(MONTHS, key=len, reverse=True))
_DAY_ENDING: Final = r"(?:st|nd|rd|th|\.|er|e|\.?[ºª]|°)?"
_DATE: Final = (
    r"(?<!\w)(?:\d{4}[-/.]\d{1,2}[-/.]\d{1,2}(?:T\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?(?:Z|[+-]\d\d:?\d\d)?)?"
    r"|\d{1,2}(?P<mark>[./-])\d{1,2}(?P=mark)\d{4}"
    rf"|\d{{1,2}}{_DAY_ENDING}\s(?:(?:of|de|del|di)\s)?(?i:{_MONTH})\b\.?(?:,?\s(?:(?:de|del|do)\s)?\d{{4}})?"
    rf"|(?i:{_MONTH})\.?\s\d{{1,2}}(?:st|nd|rd|th)?(?:,?\s\d{{4}})?)(?!\w)|\d{{4}}年\d{{1,2}}月\d{{1,2}}日?"
)
"""A date in digits or with the name of the month."""

_DATES: Final = (
    re.compile(r"(?<!\d)(?P<y>\d{4})[-/.年](?P<m>\d{1,2})[-/.月](?P<d>\d{1,2})(?!\d)"),
    re.compile(r"(?<!\d)(?P<d>\d{1,2})(?P<mark>[./-])(?P<m>\d{1,2})(?P=mark)(?P<y>\d{4}|\d\d)(?!\d)"),
    re.compile(r"(?<!\d)(?P<m>\d{1,2})(?P<mark>[./-])(?P<d>\d{1,2})(?P=mark)(?P<y>\d{4}|\d\d)(?!\d)"),
    re.compile(
        rf"(?<!\d)(?P<d>\d{{1,2}}){_DAY_ENDING}\s(?:(?:of|de|del|di)\s)?(?P<n>{_MONTH})\b\.?(?:,?\s(?:(?:de|del|do)\s)?(?P<y>\d{{4}}))?",
        re.IGNORECASE,
    ),
    re.compile(rf"\b(?P<n>{_MONTH})\.?\s(?P<d>\d{{1,2}})(?:st|nd|rd|th)?(?!\d)(?:,?\s(?P<y>\d{{4}}))?", re.IGNORECASE),
    re.compile(r"(?<!\d)(?P<m>\d{1,2})月(?P<d>\d{1,2})日?"),
)
_LAST_MONTH: Final = 12
_LAST_DAY: Final = 31
_CENTURY: Final = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Day:
    """A day in a text. `year` is 0 if the text does not give the year."""

    year: int
    month: int
    day: int


def days_in(text: str) -> frozenset[Day]:
    """Return the days in a text. If day and month in digits can be in either order, return both days."""
    if not any(char.isdecimal() for char in text):
        return frozenset()
    return frozenset(day for pattern in _DATES for hit in pattern.finditer(text) if (day := _day(hit)))


def _day(hit: re.Match[str]) -> Day | None:
    found = hit.groupdict()
    name = found.get("n")
    month = MONTHS[name.lower()] if name else int(found["m"])
    day, year = int(found["d"]), int(found.get("y") or 0)
    if not (1 <= month <= _LAST_MONTH and 1 <= day <= _LAST_DAY):
        return None
    return Day(year=year + _CENTURY if 0 < year < 100 else year, month=month, day=day)  # noqa: PLR2004 - two digits


# ---------------------------------------------------------------- times

_TIME: Final = r"(?<![\w:.])(?:[0-2]?\d:[0-5]\d(?::[0-5]\d)?(?:\s?[ap]\.?m\b)?|[01]?\d\s?[ap]\.?m\b)(?![:\d])"
"""A time of day."""

_TIMES: Final = re.compile(
    r"(?<![\d:.])(?P<hour>[0-2]?\d)(?:[:h](?P<minute>[0-5]\d)(?::[0-5]\d)?)?\s?(?:(?P<half>[ap])\.?m\b|(?P<word>uhr|h|o'clock)\b)?",
    re.IGNORECASE,
)
_NOON: Final = 12
_DAY_MINUTES: Final = 24 * 60


def minutes_in(text: str) -> frozenset[int]:
    """Return the times of day in a text, in minutes after midnight. For "9:15" without am or pm, return both times."""
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


# ---------------------------------------------------------------- words

_FLAG: Final = re.compile(r"--?[A-Za-z][\w-]*+")
_HASH: Final = re.compile(
    r"(?:0x)?(?=[0-9a-f]{0,64}\d)(?=[0-9]{0,64}[a-f])[0-9a-f]{7,64}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}",
    re.IGNORECASE,
)
_VERSION: Final = re.compile(
    r"[vV]\d++(?:\.\d++)*+(?:[-+.][\w.+-]*+)?|\d++(?:\.\d++){2,}+(?:[-+.]?[A-Za-z][\w.+-]*+)?|\d++\.\d++(?:[-+]?[A-Za-z][\w.+-]*+)"
)
_DOTTED: Final = re.compile(r"[@$]?[\w-]++(?:(?:\.|::)[\w-]++)++")
_INNER: Final = re.compile(
    r"(?<=[^\W_])_+(?=[^\W_])|\A_+[^\W\d_]|\A\$[A-Za-z_]|\A@\w|\A#[A-Za-z_]\w|\w@\w|\A\.[A-Za-z][\w-]+"
)
_HUMP: Final = re.compile(r"[a-zß-öø-ÿ0-9][A-ZÀ-ÖØ-Þ]|[A-ZÀ-ÖØ-Þ]{2}[a-z]{2}")
_ORDINAL: Final = re.compile(r"\d++(?:st|nd|rd|th|er|re|e|º|ª)", re.IGNORECASE)
SEGMENTS: Final = re.compile(r"[/\\]+")
_PAIR: Final = 2
# Words that are joined by a slash in prose and are not a path.
_PAIRS: Final = word_set("""
    and/or either/or yes/no true/false on/off his/her he/she him/her pass/fail input/output read/write in/out before/after
    start/stop open/close success/failure request/response question/answer man/woman pros/cons up/down
    """)
_COMMON: Final = word_set("""
    a ai am an and api apis app are as at be but by ci cli cpu css csv date db dns eof faq for from gpu he her his html
    http https i id ids if in ip is it its json kb llm me mr mrs ms my new no not now of ok okay on or os our pdf pm pr prs
    qa ram rest sdk she so sql ssh that the their they this to todo tls ui uri url urls us utc ux was we were will with xml
    yaml yes you your
    assistant agent developer human message messages model none null observer system team tool tools user users
    mon tue wed thu fri sat sun
    dr prof herr frau madame monsieur señor señora
    nutzer benutzer assistent werkzeug utilisateur usuario пользователь
    """).union(MONTHS, WEEKDAYS)
"""Words that are often capitalised but are not the name of a person or a thing."""


def _kind_of(word: str) -> Kind | None:
    """Return the kind of identifier that a word is, or None for a plain word."""
    if _FLAG.fullmatch(word):
        return "flag"
    if "/" in word or "\\" in word:
        return "path" if _is_path(word) else None
    if _HASH.fullmatch(word):
        return "hash"
    if _VERSION.fullmatch(word):
        return "version"
    if _ORDINAL.fullmatch(word):
        return None
    return "symbol" if _is_symbol(word) else None


def _is_capitalised(word: str) -> bool:
    """Return whether a word is capitalised and may be a name. Words such as "Monday" are always capitalised and do not count."""
    plain = word.casefold()
    return len(word) > 1 and word[0].isupper() and _COMMON.isdisjoint({plain, plain.removesuffix("s")})


def _is_path(word: str) -> bool:
    parts = [part for part in SEGMENTS.split(word) if part]
    if not any(char.isalpha() for char in word) or not parts:
        return False
    if word[0] in "/\\~." or word[-1] in "/\\" or len(parts) > _PAIR:
        return True
    if any(not part.isalpha() for part in parts):
        return True
    return min(map(len, parts)) > 1 and word.casefold() not in _PAIRS


def _is_symbol(word: str) -> bool:
    has_letter = any(char.isalpha() for char in word)
    if not has_letter:
        return False
    if _INNER.search(word):
        return True
    if "." in word or "::" in word:
        parts = re.split(r"\.|::", word.strip("."))
        # `e.g` and `U.S` are abbreviations, because each part is a single letter.
        return bool(_DOTTED.fullmatch(word)) and max(map(len, parts)) > 1
    if _HUMP.search(word):
        return not (word[-1:] == "s" and word[:-1].isupper())
    if any(char.isdecimal() for char in word):
        return True
    parts = word.split("-")
    return len(parts) > 1 and all(part[:1].isupper() for part in parts)


# ---------------------------------------------------------------- mentions

_COMMANDS: Final = (
    "git|gh|npm|npx|pnpm|yarn|bun|deno|node|pip3?|uv|poetry|conda|cargo|go|docker|podman|kubectl|helm|terraform|make|cmake"
    "|gradle|mvn|dotnet|apt|apt-get|brew|systemctl|python3?|pytest|ruff|alembic|rails|bundle|composer|php|flutter|bazel"
)
_SUBCOMMANDS: Final = (
    "add|apply|audit|bisect|branch|build|check|checkout|cherry-pick|ci|clean|clone|commit|compose|config|create|delete|deploy"
    "|describe|dev|diff|down|exec|fetch|fmt|format|get|init|inspect|install|lint|lock|log|login|logs|merge|migrate|ps|publish"
    "|pull|push|rebase|remove|reset|restart|restore|revert|rm|rollback|run|serve|show|stash|start|status|stop|switch|sync|tag"
    "|test|tidy|uninstall|up|update|upgrade|upgrade-all|version|vet"
)
_QUOTES: Final = (
    r"`[^`\n]{1,300}`",
    r'"[^"\n]{1,300}"',
    r"“[^“”\n]{1,300}”",
    r"„[^„“”\n]{1,300}[“”]",
    r"«[^«»\n]{1,300}»",
    r"「[^「」\n]{1,300}」",
    r"『[^『』\n]{1,300}』",
    r"(?<!\w)'[^'\n]{2,200}'(?!\w)",
    r"(?<!\w)‘[^‘’\n]{2,200}’(?!\w)",
)
_SPLITS: Final = r"\s\"'`“”„«»‘’「」『』《》()\[\]{}<>,;|=…→⇒，。；：！？、（）【】"
_SCAN: Final = re.compile(
    "|".join(
        (
            # Most of a text is plain words. One match skips a whole sequence of them, for speed.
            r"(?P<plain>(?<!\w)(?:[a-z]++(?=[\s,;!?)]|[.:]?(?:\s|\Z))[ ,]*+)++)",
            r"(?P<skip>\[(?:redacted|data):[^\[\]\n]{1,80}\])",
            rf"(?P<url>(?<![\w])(?:[A-Za-z][A-Za-z0-9+.-]{{1,20}}://|www\.)[^{_SPLITS}]{{2,2000}}+(?:[=,;][^{_SPLITS}]{{1,500}}+){{0,30}})",
            rf"(?P<quote>{'|'.join(_QUOTES)})",
            rf"(?P<date>{_DATE})",
            rf"(?P<time>{_TIME})",
            rf"(?P<number>{_NUMBER})",
            rf"(?P<word>[^{_SPLITS}{UNSPACED}]++)",
        )
    )
)
_COMMAND: Final = re.compile(rf"(?<![\w/.-])(?:{_COMMANDS})[ ](?:{_SUBCOMMANDS})(?![\w-])")
# The names of commands that plain words can contain. For speed, other plain words are not searched for commands.
_COMMAND_WORDS: Final = frozenset(name.removesuffix("3?") for name in _COMMANDS.split("|"))
_LEADING: Final = "*:!?•–—›"
_TRAILING: Final = ".:!?*–—-~"
_LINE: Final = re.compile(r"(.+?\.\w{1,8}):(\d{1,7})(?::\d{1,7})?")
_NUMBER_IN_WORD: Final = re.compile(r"\d{1,40}(?:[.,]\d{1,40})?")
_NEXT_WORD: Final = re.compile(
    r"\s(?!(?:and|are|but|for|from|has|into|not|the|was|were|when|with)\b)[^\W\d_]{3,20}(?!\w)"
)
_WORD_BEFORE: Final = re.compile(r"(?<!\w)[^\W\d_]{2,20}\s[#$€£]?\Z")
# Characters after which a sentence begins. A capital letter after one of them does not show that a word is a name.
_STARTERS: Final = frozenset(".!?:;…•*-–—→⇒>|([{\"'`“„«‘‹›/\n")
_LOOK_BACK: Final = 8
_GERMAN: Final = word_set("der das und ist nicht ein eine einen mit für auf dem wird wurde soll von zu im sich")
_SHORT_WORDS: Final = re.compile(r"[^\W\d_]{2,6}")
_MIN_QUOTE: Final = 3


def mentions(text: str) -> tuple[Mention, ...]:
    """Return the mentions in a text, each once, in order."""
    return (
        _mentions_of_line(text) if len(text) <= _MAX_REMEMBERED else tuple(dict.fromkeys(_mentions(_unescaped(text))))
    )


@remembered(_REMEMBERED)
def _mentions_of_line(text: str) -> tuple[Mention, ...]:
    return tuple(dict.fromkeys(_mentions(_unescaped(text))))


def _mentions(text: str) -> Iterator[Mention]:
    adjacent: list[tuple[int, int]] = []
    is_german: bool | None = None
    for hit in _SCAN.finditer(text):
        kind, start, end = hit.lastgroup, hit.start(), hit.end()
        name = _name(start, hit[0]) if kind == "word" else None
        if name and adjacent and text[adjacent[-1][1] : start] == " ":
            adjacent.append(name)
            continue
        if adjacent:
            is_german = _is_german(text) if is_german is None else is_german
            yield from _names(text, adjacent, takes_single=not is_german)
        adjacent = [name] if name and not _opens_sentence(text, start) else []
        if name is None:
            yield from _mention(text, kind or "", start, end)
    if adjacent:
        is_german = _is_german(text) if is_german is None else is_german
        yield from _names(text, adjacent, takes_single=not is_german)


def _mention(text: str, kind: str, start: int, end: int) -> Iterator[Mention]:
    raw = text[start:end]
    match kind:
        case "url":
            yield _mention_of("url", raw.rstrip(".,;:!?"))
        case "quote":
            yield from _quoted(raw)
        case "number":
            kind = "version" if _is_version(raw) else "number"
            yield _mention_of(kind, raw.strip(), _phrase(text, start, end))
        case "date" | "time":
            yield _mention_of(kind, raw)
        case "plain":
            if not _COMMAND_WORDS.isdisjoint(raw.replace(",", " ").split()):
                yield from (_mention_of("command", command) for command in _COMMAND.findall(text, start, end))
        case "word":
            yield from _word(raw, followed_by=text[end : end + 3])
        case _:
            pass


def _mention_of(kind: Kind, text: str, phrase: str = "") -> Mention:
    return Mention(kind=kind, text=text, phrase=phrase or text)


def _quoted(raw: str) -> Iterator[Mention]:
    inner = raw[1:-1].strip()
    kind = _kind_of(inner) if " " not in inner else None
    if kind:
        yield _mention_of(kind, inner)
    elif raw[0] == "`" and " " not in inner and inner.replace("(", "").replace(")", "").isidentifier():
        yield _mention_of("symbol", inner)
    elif inner:
        if len(inner) >= _MIN_QUOTE:
            yield _mention_of("quote", inner)
        # The mentions inside the quotation are also returned, because another text may contain only one of them.
        yield from (found for found in _mentions(inner) if found.kind not in {"quote", "name"})


def _word(raw: str, *, followed_by: str) -> Iterator[Mention]:
    word = raw.lstrip(_LEADING).rstrip(_TRAILING)
    if place := _LINE.fullmatch(word):
        word = place[1]
        yield _mention_of("number", place[2], f"{word}:{place[2]}")
    kind = _kind_of(word)
    if kind is None and followed_by[:1] == "(" and followed_by != "(s)" and word.isidentifier() and word.islower():
        kind = "symbol"
    if kind:
        yield _mention_of(kind, word)
    elif not any(char.isalpha() for char in word):
        yield from (_mention_of("number", number) for number in _NUMBER_IN_WORD.findall(word))


def _is_version(number: str) -> bool:
    groups = number.split(".")
    return number.count(".") > 1 and any(len(group) != _THOUSAND for group in groups[1:])


def _phrase(text: str, start: int, end: int) -> str:
    raw = text[start:end].strip()
    if any(char.isalpha() or char in "%‰°€$£¥" for char in raw):
        return raw
    if after := _NEXT_WORD.match(text, end):
        return f"{raw}{after[0]}"
    before = _WORD_BEFORE.search(text, max(start - 24, 0), start)
    return f"{before[0]}{raw}" if before else raw


def _name(start: int, raw: str) -> tuple[int, int] | None:
    word = raw.lstrip(_LEADING)
    start += len(raw) - len(word)
    word = word.rstrip(_TRAILING)
    is_plain = word.isalpha() and _kind_of(word) is None
    return (start, start + len(word)) if is_plain and _is_capitalised(word) else None


def _names(text: str, words: list[tuple[int, int]], *, takes_single: bool) -> Iterator[Mention]:
    if len(words) > 1 or takes_single:
        yield _mention_of("name", text[words[0][0] : words[-1][1]])


def _opens_sentence(text: str, start: int) -> bool:
    before = text[max(start - _LOOK_BACK, 0) : start]
    stripped = before.rstrip()
    return not stripped or stripped[-1] in _STARTERS or "\n" in before[len(stripped) :]


def _is_german(text: str) -> bool:
    """Return whether a text is German, where every noun has a capital letter and a single capital does not show a name."""
    return len(_GERMAN.intersection(_SHORT_WORDS.findall(text[:5_000]))) > 1
