"""Split text into sentences, in the common European languages and in scripts with their own full stops.

Also writes and reads the lines of the log that list items.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from memolog.text.dates import MONTHS, RISKY_MONTHS

_END: Final = re.compile(r"(?<=[^\s.][.!?])[\"'”’)]*\s+(?=[^\sa-z])|(?<=[。！？؟।])\s*")
# Abbreviations that never end a sentence: titles, and those before a name or an example.
_OPEN_WORDS: Final = """
    mr mrs ms dr prof st sr jr vs etc e.g i.e approx inc ltd z.b ca hr fr frl dipl ing bzw vgl sog evtl inkl zzgl ggf
    usf gem mme mlle mgr sra srta dª dña dra d.h u.a s.o p.ej p.ex sig dott dott.ssa avv geom mevr dhr mw drs bijv bv
    o.a d.w.z m.a.w resp gen col capt lt sgt rev hon exmo profª ex ej
    """
_OPEN: Final = frozenset(_OPEN_WORDS.split())
# Abbreviations that end a sentence unless a number follows.
_COUNTING_WORDS: Final = """
    no nr nos nrn num núm n art arts abs apt app bd bl fig abb tab tabl kap cap chap ch sec sect ziff s p pp pg pag
    pág vol v ver tel tél tlf str zi rm ste blk bldg par § pos lfd mo di mi do fr sa so mon tue tues wed thu thur
    thurs fri sat sun lun mar mer jeu ven sam dim mié jue vie sáb dom seg ter qua qui sex gio sab ma wo vr za zo
    """
_COUNTING: Final = frozenset(_COUNTING_WORDS.split())
# Abbreviations with spaces.
_PARTS: Final = (
    "z. B.|d. h.|u. a.|s. o.|s. u.|i. d. R.|o. ä.|u. U.|v. a.|i. A.|a. a. O.|v. Chr.|n. Chr."
    "|p. ej.|EE. UU.|a. C.|d. C.|p. ex.|c. à d.|e. g.|i. e.|o. a.|d. w. z.|m. a. w.|P. S."
)
_LONGEST_PART: Final = 3
_PART: Final = re.compile(
    "|".join(
        rf"(?<!\w){re.escape(form[:end])} ?\Z"
        for form in sorted(_PARTS.split("|"), key=len, reverse=True)
        for end in range(1, len(form) + 1)
        if form[end - 1] == "."
    )
)
# The ordinal numbers of German: "am 28. Juni", "zum 30.", "im 3. Stock", "vom 3. bis 5. Mai".
_ORDINAL: Final = re.compile(r"(?<![\w.,])\d{1,2}(?:\.\d{1,2})?\.\Z")
_BEFORE_ORDINAL: Final = re.compile(
    r"(?:(?<!\bI )\bam|\b(?:zum|vom|im|beim|der|die|das|dem|den|des|bis|ab|seit|jede[nrms]?|und|oder|ein(?:en|em|er)?"
    r"|(?:mon|diens|donners|frei|sams|sonn)tag|mittwoch|mo|di|mi|do|fr|sa|so))[.,]? \Z",
    re.IGNORECASE,
)
_AFTER_ORDINAL_WORDS: Final = """
    stock stockwerk etage og platz klasse quartal kapitel mal versuch person semester jahrhundert tag woche monat jahr
    lebensjahr geburtstag auflage runde liga spieltag teil schritt punkt absatz advent weltkrieg
    """
_AFTER_ORDINAL: Final = frozenset(_AFTER_ORDINAL_WORDS.split())
_WORD: Final = re.compile(r"[^\W\d_]+")
# Characters around a full stop that are looked at.
_NEAR: Final = 40


def sentences(text: str) -> list[str]:
    """Return the sentences of a stretch of text without line ends."""
    found: list[str] = []
    start = 0
    for hit in _END.finditer(text):
        if text[hit.start() - 1] == "." and _goes_on(text, start, hit):
            continue
        if piece := text[start : hit.end()].strip():
            found.append(piece)
        start = hit.end()
    if piece := text[start:].strip():
        found.append(piece)
    return found


def _goes_on(text: str, start: int, hit: re.Match[str]) -> bool:
    """Return whether a full stop belongs to an abbreviation or an ordinal number and does not end the sentence."""
    before = text[max(start, hit.start() - _NEAR) : hit.start()]
    after = text[hit.end() : hit.end() + _NEAR]
    if after[:1].islower():
        return True
    # What comes before the stop, without a bracket or a quotation mark at its beginning.
    word = before[before.rfind(" ") + 1 : -1].lstrip("\"'“„«([")
    lower = word.lower()
    if (
        (len(word) == 1 and word.isupper())
        or lower in _OPEN
        or (len(word) <= _LONGEST_PART and _PART.search(before[-12:]))
    ):
        return True
    if after[:1].isdecimal() and (lower in _COUNTING or lower in MONTHS or lower in RISKY_MONTHS):
        return True
    if word[-1:].isdecimal() and (number := _ORDINAL.search(before)):
        following = _WORD.match(after)
        name = following[0].lower() if following else ""
        return name in MONTHS or name in _AFTER_ORDINAL or bool(_BEFORE_ORDINAL.search(before[: number.start()]))
    return False


class Entry(NamedTuple):
    """An item of a list."""

    number: int
    text: str
    details: tuple[str, ...] = ()


class Listing(NamedTuple):
    """A list, and the message that it stands in."""

    topic: str
    entries: tuple[Entry, ...]
    number: int = 0


_LONGEST: Final = 700
_LONGEST_PLAIN: Final = 720
"""For lines of items without details."""
_LINE: Final = re.compile(r"(Assistant(?: [^:;]{1,60}?)?) listed (?=\S)")
_NUMBER: Final = re.compile(r"(\d{1,3})\. ")
_DETAIL: Final = " – "
_NEXT: Final = " | "


def listing_lines(who: str, listings: Sequence[Listing]) -> Iterator[str]:
    """Yield lines of bounded length that say what is listed, and the items."""
    line = ""
    for listing in listings:
        topic = _plain(listing.topic) or "these"
        opened, last = False, 0
        most = _LONGEST if any(entry.details for one in listings for entry in one.entries) else _LONGEST_PLAIN
        for entry in listing.entries:
            text = _text(entry, has_number=entry.number != last + 1)
            last = entry.number
            if opened and len(line) + len(text) + 2 <= most:
                line += f"; {text}"
                continue
            lead = f"{topic[:1].upper()}{topic[1:]}: {text}"
            if not opened and line and len(line) + len(lead) + len(_NEXT) <= most:
                line += f"{_NEXT}{lead}"
            else:
                if line:
                    yield line
                line = f"{who} listed {topic}: {_text(entry, has_number=entry.number != 1)}"
            opened = True
    if line:
        yield line


def _text(entry: Entry, *, has_number: bool) -> str:
    """Return an item as it stands in a line, without the separators of items."""
    text, details = entry.text, list(entry.details)
    if details and details[0].startswith(text):
        # The head is the beginning of the first detail.
        text, details = details[0], details[1:]
    said = _DETAIL.join(_plain(part.rstrip(". ")) for part in (text, " ".join(details)) if part)
    return f"{entry.number}. {said}" if has_number else said


def _plain(text: str) -> str:
    """Return a text without the separators of topics and items."""
    return text.replace("; ", ", ").replace(": ", " – ").replace(_NEXT, ", ")


def read_listing(line: str) -> tuple[str, list[Listing]] | None:
    """Parse a line of the log that lists items; return None for any other line."""
    hit = _LINE.match(line)
    if hit is None:
        return None
    listings: list[Listing] = []
    for part in line[hit.end() :].split(_NEXT):
        topic, colon, items = part.partition(": ")
        if not colon:
            return None
        entries: list[Entry] = []
        for item in items.split("; "):
            entries.append(_entry(item, entries[-1].number if entries else 0))
        listings.append(Listing(topic, tuple(entries)))
    return hit[1], listings


def _entry(item: str, last: int) -> Entry:
    number = _NUMBER.match(item)
    head, *details = (item[number.end() :] if number else item).split(_DETAIL, 1)
    return Entry(int(number[1]) if number else last + 1, head, tuple(details))


def listings_in(log: str) -> list[Listing]:
    """Return the last lists of a rendered log: those under one message of the user."""
    found: list[Listing] = []
    is_over = False
    for row in log.split("\n"):
        start = row.find("Assistant")
        line = read_listing(row[start:]) if start >= 0 and " listed " in row else None
        if line is None:
            is_over = is_over or (bool(found) and not row.startswith(" "))
            continue
        found = line[1] if is_over else [*found, *line[1]]
        is_over = False
    return found
