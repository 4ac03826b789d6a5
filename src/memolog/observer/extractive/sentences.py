"""Split text and Markdown into sentences, list items with topics, table rows and names defined in code, and weigh their words.

The rules work for the common European languages and for scripts with their own full stops. In scripts without spaces, pairs of
characters are used as words. The module also chooses the pieces to keep within a budget, and writes and reads observations that
list items.
"""

import heapq
import re
from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Final, Literal, NamedTuple, TypeAlias

from memolog.text.dates import MONTHS, RISKY_MONTHS
from memolog.text.word_lists import FUNCTION_WORDS, UNSPACED_LETTERS, word_set

STOP: Final = FUNCTION_WORDS | word_set("""
    aren't can't couldn't didn't doesn't don't get gets getting haven't he's here's i'd i'll i'm i've isn't it's let let's
    that's there's they're us wasn't we'd we'll we're we've what's won't wouldn't you'd you'll you're you've
    """)

_EDGES: Final = " \t\n\r.,;:!?\"'`()[]{}<>*|…“”‘’«»–—-=+"
_UNSPACED: Final = re.compile(f"[{UNSPACED_LETTERS}]")
_NAME_WEIGHT: Final = 4.0  # of a name, a number or an identifier; other words have the weight 1
_PAIR_WEIGHT: Final = 0.5  # of a pair of characters in a script without spaces
_IDENTIFIER: Final = re.compile(r"\d|[_/@#$\\]|\w\.\w|::")
_MEANING: Final = re.compile(r"\(meaning ([^)]{0,200})\)")
_BREAKS: Final = re.compile(r"[.!?;:|]\s+|\s[–—|]\s|[\n(]")
_LONGEST: Final = 200  # maximum characters of an identifier


def words_of(text: str) -> list[str]:
    """Return the words of a text without the punctuation around them."""
    return [word for token in text.split() if (word := token.strip(_EDGES))]


def is_name(word: str) -> bool:
    """Return whether a word is a name, a number or an identifier. The first word of a sentence looks like a name too."""
    return word != word.lower() or bool(_IDENTIFIER.search(word))


def identifiers_of(text: str) -> list[str]:
    """Return the names, numbers and identifiers of a text in order, each once. Adjacent identifiers are joined."""

    def is_named(word: str, place: int) -> bool:
        # A capital letter at the beginning of a sentence does not show that the word is a name.
        named = is_name(word) and (place > 0 or not (word[1:].islower() and word[1:].isalpha()))
        return named and word.lower() not in STOP and len(word) <= _LONGEST

    found: list[str] = []
    for stretch in _BREAKS.split(_MEANING.sub(" ", text)):
        words = enumerate(words_of(stretch))
        groups = groupby(words, key=lambda one: is_named(one[1], one[0]))
        found += [" ".join(word for _, word in group) for named, group in groups if named]
    return list(dict.fromkeys(found))


def weights_of(text: str, *, is_head: bool = False) -> dict[str, float]:
    """Return the content words of a text in lower case, with their weights.

    A capital letter marks a name. The first word of a sentence has one anyway, but the first word of a list head (`is_head`) does
    not.
    """
    if not text.isascii() and _UNSPACED.search(text):
        return _pairs(text)
    weights: dict[str, float] = {}
    first = not is_head
    # This loop handles every word of every message, so the fast tests come first.
    for token in text.split():
        word = token.strip(_EDGES)
        lower = word.lower()
        if lower and lower not in STOP:
            if lower == word and word.isalpha():
                weights[lower] = 1.0
            else:
                # A capital letter at the beginning of a sentence does not show that the word is a name.
                plain = first and word[1:].isalpha() and word[1:].islower()
                weights[lower] = _NAME_WEIGHT if not plain and is_name(word) else 1.0
        first = False
    return weights


def _pairs(text: str) -> dict[str, float]:
    weights = {text[at : at + 2]: _PAIR_WEIGHT for at in range(len(text) - 1) if not text[at].isspace()}
    weights.update((word.lower(), _NAME_WEIGHT) for word in words_of(text) if word.isascii() and is_name(word))
    return weights


# ---------------------------------------------------------------- choosing


class Candidate(NamedTuple):
    """A piece of text that may be kept. It is a tuple for speed, because there is one for each sentence."""

    weights: Mapping[str, float]
    """The words of the piece and their weights."""
    cost: float
    factor: float = 1.0
    bonus: float = 0.0
    """Added to the weight of the new words. A piece without new words has no bonus."""
    needs: int | None = None
    """The index of a candidate that must also be kept: the head of a detail, or the sentence before a pronoun."""
    group: int = 0
    """The list or the line to which the piece belongs."""
    opening: float = 0.0
    """The cost of the topic of a list or the beginning of a line. Only the first chosen candidate of a group pays it."""


def choosing(
    candidates: Sequence[Candidate], budget: float, known: set[str], before: Collection[int] = frozenset()
) -> Generator[None, None, tuple[set[int], float]]:
    """Return the indices of the candidates to keep within a budget, and the rest of the budget. Yield after each step.

    Each step chooses the candidate whose new words have the highest weight for its cost. The words of chosen candidates are added
    to `known`. Candidates in `before` were chosen earlier. They are not chosen again, and the openings of their groups are paid.
    """
    opened = {candidates[index].group for index in before}
    groups: dict[int, list[int]] = {}
    # Candidates that wait until the candidate that they need is chosen, and candidates that can be chosen now.
    waiting: dict[int, list[int]] = {}
    heap: list[tuple[float, int]] = []
    for index, candidate in enumerate(candidates):
        groups.setdefault(candidate.group, []).append(index)
        if candidate.needs is not None and candidate.needs not in before:
            waiting.setdefault(candidate.needs, []).append(index)
        elif index not in before:
            heap.append((-_worth(candidate, known, opened), index))
        yield
    heapq.heapify(heap)
    chosen: set[int] = set()
    while heap and budget > 0:
        yield
        worth, index = heapq.heappop(heap)
        candidate = candidates[index]
        cost = candidate.cost + (0 if candidate.group in opened else candidate.opening)
        if worth >= 0 or cost > budget or index in chosen:
            continue
        # The value falls as more words are known, so it is computed again before a candidate is chosen.
        now = -_worth(candidate, known, opened)
        if now >= 0 or (heap and now > heap[0][0]):
            heapq.heappush(heap, (now, index))
            continue
        chosen.add(index)
        known.update(candidate.weights)
        budget -= cost
        others = waiting.pop(index, [])
        if candidate.group not in opened:
            # The other candidates of the group cost less now.
            opened.add(candidate.group)
            others = others + [other for other in groups[candidate.group] if candidates[other].needs is None]
        for other in others:
            if other not in chosen and other not in before:
                heapq.heappush(heap, (-_worth(candidates[other], known, opened), other))
    return chosen, budget


def _worth(candidate: Candidate, known: set[str], opened: set[int]) -> float:
    gain = sum([weight for word, weight in candidate.weights.items() if word not in known])
    cost = candidate.cost + (0 if candidate.group in opened else candidate.opening)
    return candidate.factor * (gain + candidate.bonus) / cost if gain else 0.0


_END: Final = re.compile(r"(?<=[^\s.][.!?])[\"'”’)]*\s+(?=[^\sa-z])|(?<=[。！？؟।])\s*")
# Abbreviations that never end a sentence: titles, and abbreviations before a name or an example.
_OPEN: Final = word_set("""
    mr mrs ms dr prof st sr jr vs etc e.g i.e approx inc ltd z.b ca hr fr frl dipl ing bzw vgl sog evtl inkl zzgl ggf
    usf gem mme mlle mgr sra srta dª dña dra d.h u.a s.o p.ej p.ex sig dott dott.ssa avv geom mevr dhr mw drs bijv bv
    o.a d.w.z m.a.w resp gen col capt lt sgt rev hon exmo profª ex ej
    """)
# Abbreviations after which a sentence ends, unless a number follows.
_COUNTING: Final = word_set("""
    no nr nos nrn num núm n art arts abs apt app bd bl fig abb tab tabl kap cap chap ch sec sect ziff s p pp pg pag
    pág vol v ver tel tél tlf str zi rm ste blk bldg par § pos lfd mo di mi do fr sa so mon tue tues wed thu thur
    thurs fri sat sun lun mar mer jeu ven sam dim mié jue vie sáb dom seg ter qua qui sex gio sab ma wo vr za zo
    """)
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
_AFTER_ORDINAL: Final = word_set("""
    stock stockwerk etage og platz klasse quartal kapitel mal versuch person semester jahrhundert tag woche monat jahr
    lebensjahr geburtstag auflage runde liga spieltag teil schritt punkt absatz advent weltkrieg
    """)
_WORD: Final = re.compile(r"[^\W\d_]+")
# This many characters before and after a full stop are read.
_NEAR: Final = 40


def sentences(text: str) -> list[str]:
    """Return the sentences of a text that has no line ends."""
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
    # The word before the full stop, without a bracket or a quotation mark at its beginning.
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
    """A list. `number` is the number of the message that contains the list."""

    topic: str
    entries: tuple[Entry, ...]
    number: int = 0


# Maximum number of characters of a line, for lists with details and without.
_MAX_LISTING: Final = 700
_MAX_PLAIN: Final = 720
_LINE: Final = re.compile(r"(Assistant(?: [^:;]{1,60}?)?) listed (?=\S)")
_NUMBER: Final = re.compile(r"(\d{1,3})\. ")
_DETAIL: Final = " – "
_NEXT: Final = " | "


def listing_lines(who: str, listings: Sequence[Listing]) -> Iterator[str]:
    """Yield lines of limited length with the topics of lists and their items."""
    line = ""
    for listing in listings:
        topic = _plain(listing.topic) or "these"
        opened, last = False, 0
        limit = _MAX_LISTING if any(entry.details for one in listings for entry in one.entries) else _MAX_PLAIN
        for entry in listing.entries:
            text = _text(entry, has_number=entry.number != last + 1)
            last = entry.number
            if opened and len(line) + len(text) + 2 <= limit:
                line += f"; {text}"
                continue
            lead = f"{topic[:1].upper()}{topic[1:]}: {text}"
            if not opened and line and len(line) + len(lead) + len(_NEXT) <= limit:
                line += f"{_NEXT}{lead}"
            else:
                if line:
                    yield line
                line = f"{who} listed {topic}: {_text(entry, has_number=entry.number != 1)}"
            opened = True
    if line:
        yield line


def _text(entry: Entry, *, has_number: bool) -> str:
    text, details = entry.text, list(entry.details)
    if details and details[0].startswith(text):
        # The head is the beginning of the first detail.
        text, details = details[0], details[1:]
    item = _DETAIL.join(_plain(part.rstrip(". ")) for part in (text, " ".join(details)) if part)
    return f"{entry.number}. {item}" if has_number else item


def _plain(text: str) -> str:
    """Return a text without the signs that separate topics and items in a line."""
    return text.replace("; ", ", ").replace(": ", " – ").replace(_NEXT, ", ")


def read_listing(line: str) -> tuple[str, list[Listing]] | None:
    """Return the speaker and the lists of an observation that lists items, or None for another observation."""
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
    """Return the last lists in a rendered log. All of them are below the same statement of the user."""
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


Kind: TypeAlias = Literal["sentence", "head", "detail", "row", "code", "source"]


class Piece(NamedTuple):
    """A sentence, a part of a list item, a table row or code. It is a tuple for speed, because there is one for each sentence."""

    text: str
    kind: Kind
    topic: str = ""
    """The topic of the list, or empty if the text does not show it."""
    list: int = -1
    """The index of the list in the text, or -1 outside lists."""
    number: int | None = None
    """The number of the item in its list. Details and nested items have None."""
    item: int = -1
    """The index of the piece that is the head of the item."""
    needs: int | None = None
    """The index of a piece that must also be kept: the head of a detail, or the sentence before a pronoun."""


_FENCE: Final = re.compile(r"\s*(?:```|~~~)")
_MARK: Final = re.compile(
    r"([ \t>]*)(?:(?:[-*•+◦▪]|#{1,6})\s+)*(?:\*\*|__)?(?:\(?(\d{1,3})[.)]|([-*•+◦▪])(?=\s))\s+(?:\*\*(?=[^*]*\Z))?"
)
_HEADING: Final = re.compile(
    r"\s*(?:#{1,6}\s+(?P<hash>\S.*)|\*\*(?P<bold>[^*]{1,100})\*\*\s*+:?\s*+\Z|__(?P<under>[^_]{1,100})__\s*+:?\s*+\Z)"
)
_RULE: Final = re.compile(r"[\s|:=*_~-]*\Z")
_EMPHASIS: Final = re.compile(r"\*\*|__(?=\S)|(?<=\S)__|(?<![\w*])\*(?=\S)|(?<=\S)\*(?![\w*])")
_LINK: Final = re.compile(r"!?\[([^\]\n]{1,200})\]\([^()\s]{1,500}\)")
_ESCAPED: Final = re.compile(r"\\([_*#`\[\]()<>~|-])")
_EMPTY: Final = re.compile(r"(?<!\s)\s++\(\s*+\)")
_BOLD: Final = re.compile(r"(?:\*\*|__)\s*+([^*\n]{1,120}?)\s{0,120}(?:\*\*|__)")
_LABEL: Final = re.compile(r"((?:[^.!?:;\n]|[.:](?=\S)){2,80}?)(?::| [–—-])\s+(?=\S)")
# A long sentence is cut at the end of a clause or, if it has only one clause, at the end of a phrase.
_CLAUSE: Final = re.compile(r"[,;] | [–—-] | \(| (?=(?:which|that|because|so|while|where|as|if|when|since|until)\b)")
_PHRASE: Final = re.compile(
    r" (?=(?:and|or|to|for|with|in|by|from|on|at|und|oder|mit|für|y|o|con|para|et|ou|avec|pour)\b)"
)
_LEAD_IN: Final = re.compile(
    r".*\b(?:here(?:['’]s| is| are)|(?:the )?following(?: are| is)?|hier (?:sind|ist)|folgende|aquí (?:tienes?|están|hay)"
    r"|voici)\b"
    r"(?: (?:just|a|an|some|the|my|your|several|few|more|of|other|additional|quick|brief|list|couple|handful|number|ein|eine"
    r"|einige|ein paar"
    r"|algun[oa]s|un[oa]?s?|quelques|les|des))*\s*",
    re.IGNORECASE,
)
# Words after a topic that are not part of the topic.
_TAIL: Final = re.compile(
    r"(?<!\s)\s*+(?:\b(?:that|which) (?:might|may|can|could|you|will|are|i|we|should)\b"
    r"|\b(?:you|i|we) (?:can|could|may|might|should|will|need)\b"
    r"|\bto (?:help|get|consider|keep|try|make|check|explore|look|choose)\b|\bfor you(?:r)?\b|\bbased on\b|\bwith (?:their"
    r"|some)\b)(?s:.*)",
    re.IGNORECASE,
)
_CODE_NAME: Final = re.compile(
    r"^[ \t]*(?:(?:export|public|private|protected|static|async|default|pub|abstract|final|open)\s+)*"
    r"(?:def|class|function|func|fn|interface|struct|enum|type|trait|module|CREATE TABLE|const|var|let)\s+"
    r"(?:\([^)\n]{0,60}\)\s*)?(\w+(?:\([^)\n]{0,60}\))?)",
    re.MULTILINE,
)
_SOURCE: Final = re.compile(
    r"[+-]?\s*(?://|/\*|\*/|@@ |[}\])]+[;,]?\s*\Z)|[+-]{1,3}(?=[\t{}(]| {2,})|(?:diff --git|index [0-9a-f]{7}|#include) "
    r"|(?:modified|new file|deleted|renamed): {2,}"
)
_SOURCE_STARTS: Final = frozenset("+-/*@}])di#mnr")
_LEANS: Final = re.compile(
    r"(?:And |But |So |Also,? |However,? |Then |For this,? )?(?:it|its|it's|they|they're|their|them|this|these|that|those|he"
    r"|she|his|her"
    r"|both|such|dies|diese[rsnm]?|sie|er|es|esto|eso|ellos|ella|cela|ça|ils|elles)\b",
    re.IGNORECASE,
)
_GENERIC: Final = word_set("""
    tips tip additional other general more key points point features options option ideas idea examples example steps
    step overview suggestions suggestion recommendations recommendation resources conclusion notes note summary ways
    way things thing list lists some few popular common great good best following consider considerations help helpful
    however it's essential important crucial possibilities possibility factors factor aspects areas
    additionally answer details breakdown comparison started get try here sure yes tipps weitere beispiele schritte
    hinweise ideen consejos ejemplos pasos ideas conseils exemples étapes idées
""")
# Maximum and minimum numbers of characters.
_MAX_TOPIC: Final = 40
_MAX_HEAD: Final = 60
_MIN_HEAD: Final = 25
_MIN_CLAUSE: Final = 8
_MAX_CELL: Final = 60
# Maximum number of names that are listed for a block of code.
_MAX_NAMES: Final = 8


@dataclass(slots=True)
class _List:
    number: int
    topic: str
    above: str
    is_numbered: bool
    size: int = 0
    item: int = -1
    """The index of the piece that is the head of the last item of this list."""


@dataclass(slots=True)
class _Reading:
    found: list[Piece] = field(default_factory=list[Piece])
    above: str = ""
    """The last line that is not a list item."""
    heading: str = ""
    lists: dict[int, _List] = field(default_factory=dict[int, _List])
    """The open lists by their indent."""
    columns: list[str] | None = None
    rows: int = 0
    count: int = 0
    whole: bool = False


def _unmarked(text: str) -> str:
    """Return a line without the Markdown signs of emphasis, links and escapes."""
    if "\\" in text:
        text = _ESCAPED.sub(r"\1", text)
    if "](" in text:
        text = _LINK.sub(r"\1", text)
    if "*" in text or "__" in text:
        text = _EMPHASIS.sub("", text)
    return _EMPTY.sub("", text).strip()


def pieces_of(text: str, *, whole: bool = False) -> list[Piece]:
    """Return the pieces of a text in order. If `whole` is true, headings and list items are returned as sentences."""
    reading = _Reading(whole=whole)
    code: list[str] | None = None
    for line in text.split("\n"):
        if _FENCE.match(line):
            if code is not None:
                reading.found.extend(_code(code))
            code = [] if code is None else None
        elif code is not None:
            code.append(line)
        elif line and not _RULE.match(line):
            _read(line, reading)
    if code:
        reading.found.extend(_code(code))
    return reading.found


def _read(line: str, reading: _Reading) -> None:
    if line.count("|") >= 2 and line.strip().startswith("|"):  # noqa: PLR2004 - a table row has at least two bars
        _row(line, reading)
        return
    reading.columns = None
    if _is_source(line):
        reading.found.append(Piece(line.strip(), "source"))
        return
    if reading.whole:
        mark = _MARK.match(line)
        _prose(_unmarked(line[mark.end() :] if mark else line).lstrip("#> "), reading)
        return
    heading = _HEADING.match(line)
    if heading:
        _head_line(heading["hash"] or heading["bold"] or heading["under"], reading)
        return
    mark = _MARK.match(line)
    if mark:
        _item(line, mark, reading)
        return
    body = _unmarked(line)
    if not body:
        return
    reading.above = body
    if body.endswith((":", "：")):
        if not line[:1].isspace():
            reading.lists.clear()
        # The last sentence before a list is not a piece, because it becomes the topic of the list.
        body = " ".join(sentences(body)[:-1])
    _prose(body, reading)


def _head_line(heading: str, reading: _Reading) -> None:
    """Record a heading, or add a heading with a number ("### 2) Setup") as a list item."""
    numbered = re.match(r"\(?(\d{1,3})[.)]\s+(\S.*)", heading)
    if numbered:
        # The indent is -1, so that lists below the heading are nested in the item.
        _add_item(f"**{numbered[2].rstrip(': ')}**", int(numbered[1]), -1, reading)
        reading.above = ""
    else:
        reading.heading = reading.above = _unmarked(heading).rstrip(": ")
        reading.lists.clear()


def _prose(body: str, reading: _Reading) -> None:
    for place, sentence in enumerate(sentences(body)):
        last = len(reading.found) - 1
        leans = place and reading.found and reading.found[last].kind == "sentence" and _LEANS.match(sentence)
        reading.found.append(Piece(sentence, "sentence", needs=last if leans else None))


# ---------------------------------------------------------------- lists


def _item(line: str, mark: re.Match[str], reading: _Reading) -> None:
    body = line[mark.end() :].strip()
    # In "**1. Name:** words" the emphasis begins before the number, so its mark is added to the body again.
    if "**" in mark[0] and not mark[0].rstrip().endswith("**"):
        body = f"**{body}"
    if body:
        _add_item(body, int(mark[2]) if mark[2] else None, len(mark[1].expandtabs(4)), reading)


def _add_item(body: str, number: int | None, indent: int, reading: _Reading) -> None:
    known = reading.lists.get(indent)
    if known is not None and known.is_numbered and number is None:
        # Bullets with the same indent as a numbered item are nested in the item.
        indent += 1
    for deeper in [depth for depth in reading.lists if depth > indent]:
        del reading.lists[deeper]
    known = reading.lists.get(indent)
    if known is None or (known.above != reading.above and (number is None or number == 1) and reading.above):
        known = reading.lists[indent] = _List(reading.count, _topic(reading), reading.above, number is not None)
        reading.count += 1
    head, rest = _head(body)
    if not head:
        return
    known.size += 1
    place = len(reading.found)
    outer = next((one for depth, one in sorted(reading.lists.items()) if depth < indent and one.item >= 0), None)
    if outer is not None:
        # A nested item is a piece of the outer list and needs the head of the outer item.
        reading.found.append(Piece(head, "head", outer.topic, outer.number, None, outer.item, needs=outer.item))
        return
    known.item = place
    reading.found.append(Piece(head, "head", known.topic, known.number, number or known.size, place))
    for sentence in sentences(rest):
        reading.found.append(Piece(sentence, "detail", known.topic, known.number, None, place, needs=place))


def _topic(reading: _Reading) -> str:
    """Return the topic of a list, from the sentence before the list or from the heading above it."""
    above = reading.above
    if above and above != reading.heading and above.endswith((":", "：")):
        lead = sentences(above)[-1].rstrip(":： ")
        lead = lead[hit.end() :] if (hit := _LEAD_IN.match(lead)) else lead
        for topic in (_TAIL.sub("", lead), lead):
            if is_telling(topic):
                return _short(topic)
    return _short(reading.heading)


def is_telling(topic: str) -> bool:
    """Return whether a topic contains a specific word. "Here are some tips" does not."""
    return any(word.lower() not in STOP and word.lower() not in _GENERIC for word in words_of(topic))


def _short(topic: str) -> str:
    topic = re.sub(r"\A\(?\d{1,3}[.)]\s+", "", topic).replace(":", " –").strip(" –-*,.")
    return topic if len(topic) <= _MAX_TOPIC else cut_at_clause(topic, _MAX_TOPIC).rstrip(" ,")


def cut_at_clause(text: str, limit: int) -> str:
    """Return the beginning of a text in at most `limit` characters, cut at a clause, else at a phrase, else at a word."""
    for pattern in (_CLAUSE, _PHRASE):
        cuts = [hit.start() for hit in pattern.finditer(text, min(_MIN_HEAD, limit // 2), limit + 1)]
        if cuts:
            return text[: cuts[0]]
    comma = text.rfind(", ", _MIN_CLAUSE, limit)
    return text[:comma] if comma > 0 else text[:limit].rsplit(" ", 1)[0]


def _head(body: str) -> tuple[str, str]:
    """Return the head and the rest of a list item, divided after bold text, a colon, a dash or a sentence.

    A first sentence of more than 60 characters is cut at a clause, and the rest is then the whole item.
    """
    bold = _BOLD.match(body)
    if bold and bold[1].strip(" :"):
        head, rest = _unmarked(bold[1]), _unmarked(body[bold.end() :])
        if hit := re.match(r"\s*\([^)]{1,60}\)", rest):
            # Text in brackets is added to the head, because it may be the only difference between two items.
            head, rest = f"{head} {hit[0].strip()}", rest[hit.end() :]
        return _name(head), rest.lstrip(" :–—-,.")
    body = _unmarked(body)
    label = _LABEL.match(body)
    if label:
        return _name(label[1]), body[label.end() :]
    first, *more = sentences(body) or [""]
    rest = " ".join(more)
    if len(first) <= _MAX_HEAD:
        return _name(first), rest
    return _name(cut_at_clause(first, _MAX_HEAD)), body


def _name(head: str) -> str:
    return head.strip(" :;,.–—-*_")


# ---------------------------------------------------------------- tables and code


def _row(line: str, reading: _Reading) -> None:
    cells = [_unmarked(cell)[:_MAX_CELL] for cell in line.strip().strip("|").split("|")]
    if reading.columns is None:
        reading.columns, reading.rows = cells, 0
        reading.lists.clear()
        reading.count += 1
        return
    named = [
        f"{column}: {cell}" if column and column != cell else cell
        for column, cell in zip([*reading.columns[1:], *[""] * len(cells)], cells[1:], strict=False)
        if cell
    ]
    text = f"{cells[0]} – {', '.join(named)}" if cells[0] and named else cells[0] or ", ".join(named)
    if text:
        topic = _short(reading.heading or reading.above)
        reading.rows += 1
        reading.found.append(Piece(text, "row", topic, reading.count - 1, reading.rows, len(reading.found)))


def _is_source(line: str) -> bool:
    """Return whether a line outside code fences is code, part of a diff or output of git."""
    bare = line.strip()
    if bare[-1:] == "{" or ":=" in bare or (bare[-1:] == ";" and ("(" in bare or "=" in bare)):
        return True
    return bare[:1] in _SOURCE_STARTS and bool(_SOURCE.match(bare))


def _code(lines: list[str]) -> Iterator[Piece]:
    """Yield a sentence with the names that code defines. The code itself is not kept, because a search can find it."""
    names = list(dict.fromkeys(_CODE_NAME.findall("\n".join(lines))))
    if names:
        more = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
        yield Piece(f"The code defines {', '.join(names[:_MAX_NAMES])}{more}.", "code")
