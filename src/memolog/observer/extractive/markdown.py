"""Split Markdown into pieces: sentences, list items with their topic, table rows, and names defined in code."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple, TypeAlias

from memolog.observer.extractive.sentences import sentences
from memolog.observer.extractive.words import STOP, words_of

Kind: TypeAlias = Literal["sentence", "head", "detail", "row", "code", "source"]


class Piece(NamedTuple):
    """A sentence, list item, table row or the like; a tuple for speed, since there is one for each sentence."""

    text: str
    kind: Kind
    topic: str = ""
    """The topic of its list, as far as the text names it."""
    list: int = -1
    """Which list of the text it belongs to."""
    number: int | None = None
    """The number that an item has in its list."""
    item: int = -1
    """The place of the head of its item, in the text."""
    needs: int | None = None
    """The index of the piece that it depends on: the head of a detail, the sentence a pronoun refers to."""


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
# Where a clause ends, and where a sentence can be cut if no clause ends.
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
# Words after the topic that do not describe it.
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
_GENERIC_WORDS: Final = """
    tips tip additional other general more key points point features options option ideas idea examples example steps
    step overview suggestions suggestion recommendations recommendation resources conclusion notes note summary ways
    way things thing list lists some few popular common great good best following consider considerations help helpful
    however it's essential important crucial possibilities possibility factors factor aspects areas
    additionally answer details breakdown comparison started get try here sure yes tipps weitere beispiele schritte
    hinweise ideen consejos ejemplos pasos ideas conseils exemples étapes idées
"""
_GENERIC: Final = frozenset(_GENERIC_WORDS.split())
_LONGEST_TOPIC: Final = 40
_LONGEST_HEAD: Final = 60
_LEAST_HEAD: Final = 25
_LEAST_CLAUSE: Final = 8
_MOST_CELL: Final = 60
_MOST_NAMES: Final = 8


@dataclass(slots=True)
class _List:
    """A list that is being read."""

    number: int
    topic: str
    above: str
    is_numbered: bool
    size: int = 0
    item: int = -1
    """The place of its last head."""


@dataclass(slots=True)
class _Reading:
    """The state of the parser: the headings above, the open lists, and the pieces found."""

    found: list[Piece] = field(default_factory=list[Piece])
    above: str = ""
    """The last line that is no item."""
    heading: str = ""
    lists: dict[int, _List] = field(default_factory=dict[int, _List])
    """The lists that are open, by their indent."""
    columns: list[str] | None = None
    rows: int = 0
    count: int = 0
    whole: bool = False


def _plain(text: str) -> str:
    """Return a line without the marks of emphasis and links."""
    if "\\" in text:
        text = _ESCAPED.sub(r"\1", text)
    if "](" in text:
        text = _LINK.sub(r"\1", text)
    if "*" in text or "__" in text:
        text = _EMPHASIS.sub("", text)
    return _EMPTY.sub("", text).strip()


def pieces_of(text: str, *, whole: bool = False) -> list[Piece]:
    """Return the pieces of a text in their order; where `whole`, headings and items of lists stay sentences."""
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
    if line.count("|") >= 2 and line.strip().startswith("|"):  # noqa: PLR2004 - a cell has a bar on each side
        _row(line, reading)
        return
    reading.columns = None
    if _is_source(line):
        reading.found.append(Piece(line.strip(), "source"))
        return
    if reading.whole:
        mark = _MARK.match(line)
        _prose(_plain(line[mark.end() :] if mark else line).lstrip("#> "), reading)
        return
    heading = _HEADING.match(line)
    if heading and not _numbered_heading(heading, reading):
        reading.heading = reading.above = _plain(heading["hash"] or heading["bold"] or heading["under"]).rstrip(": ")
        reading.lists.clear()
        return
    mark = _MARK.match(line)
    if mark:
        _item(line, mark, reading)
        return
    body = _plain(line)
    if not body:
        return
    reading.above = body
    if body.endswith((":", "：")):
        if not line[:1].isspace():
            reading.lists.clear()
        # The sentence before a list becomes its topic.
        body = " ".join(sentences(body)[:-1])
    _prose(body, reading)


def _numbered_heading(heading: re.Match[str], reading: _Reading) -> bool:
    """Return whether a heading is an item of a list: "**1. Understand the zone:**", "### 2) Setup"."""
    text = heading["hash"] or heading["bold"] or heading["under"]
    hit = re.match(r"\(?(\d{1,3})[.)]\s+(\S.*)", text)
    if hit is None:
        return False
    # Lists below it belong to it, whatever their indent.
    _add_item(f"**{hit[2].rstrip(': ')}**", int(hit[1]), -1, reading)
    reading.above = ""
    return True


def _prose(body: str, reading: _Reading) -> None:
    for place, sentence in enumerate(sentences(body)):
        last = len(reading.found) - 1
        leans = place and reading.found and reading.found[last].kind == "sentence" and _LEANS.match(sentence)
        reading.found.append(Piece(sentence, "sentence", needs=last if leans else None))


# ---------------------------------------------------------------- lists


def _item(line: str, mark: re.Match[str], reading: _Reading) -> None:
    body = line[mark.end() :].strip()
    # "**1. Name:** words" opens its emphasis before the number.
    if "**" in mark[0] and not mark[0].rstrip().endswith("**"):
        body = f"**{body}"
    if body:
        _add_item(body, int(mark[2]) if mark[2] else None, len(mark[1].expandtabs(4)), reading)


def _add_item(body: str, number: int | None, indent: int, reading: _Reading) -> None:
    known = reading.lists.get(indent)
    if known is not None and known.is_numbered and number is None:
        # Bullets right under a number belong to it.
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
        # A nested item belongs to its parent.
        reading.found.append(Piece(head, "head", outer.topic, outer.number, None, outer.item, needs=outer.item))
        return
    known.item = place
    reading.found.append(Piece(head, "head", known.topic, known.number, number or known.size, place))
    for sentence in sentences(rest):
        reading.found.append(Piece(sentence, "detail", known.topic, known.number, None, place, needs=place))


def _topic(reading: _Reading) -> str:
    """Return what a list is about: the words that lead to it, or the heading above it."""
    above = reading.above
    if above and above != reading.heading and above.endswith((":", "：")):
        lead = sentences(above)[-1].rstrip(":： ")
        lead = lead[hit.end() :] if (hit := _LEAD_IN.match(lead)) else lead
        for topic in (_TAIL.sub("", lead), lead):
            if is_telling(topic):
                return _short(topic)
    return _short(reading.heading)


def is_telling(topic: str) -> bool:
    """Return whether a topic names a subject; "Here are some tips" does not."""
    return any(word.lower() not in STOP and word.lower() not in _GENERIC for word in words_of(topic))


def _short(topic: str) -> str:
    topic = re.sub(r"\A\(?\d{1,3}[.)]\s+", "", topic).replace(":", " –").strip(" –-*,.")
    return topic if len(topic) <= _LONGEST_TOPIC else cut_at_clause(topic, _LONGEST_TOPIC).rstrip(" ,")


def cut_at_clause(text: str, most: int) -> str:
    """Return the beginning of a text: up to the end of a clause, else of a phrase, else of a word."""
    for pattern in (_CLAUSE, _PHRASE):
        cuts = [hit.start() for hit in pattern.finditer(text, min(_LEAST_HEAD, most // 2), most + 1)]
        if cuts:
            return text[: cuts[0]]
    comma = text.rfind(", ", _LEAST_CLAUSE, most)
    return text[:comma] if comma > 0 else text[:most].rsplit(" ", 1)[0]


def _head(body: str) -> tuple[str, str]:
    """Return the head of an item and what follows it: cut at the colon, the dash or the stop, past 60 characters at a clause."""
    bold = _BOLD.match(body)
    if bold and bold[1].strip(" :"):
        head, rest = _plain(bold[1]), _plain(body[bold.end() :])
        if hit := re.match(r"\s*\([^)]{1,60}\)", rest):
            # Text in brackets distinguishes items of the same name.
            head, rest = f"{head} {hit[0].strip()}", rest[hit.end() :]
        return _name(head), rest.lstrip(" :–—-,.")
    body = _plain(body)
    label = _LABEL.match(body)
    if label:
        return _name(label[1]), body[label.end() :]
    first, *more = sentences(body) or [""]
    rest = " ".join(more)
    if len(first) <= _LONGEST_HEAD:
        return _name(first), rest
    # The whole sentence is the detail of a head that is its beginning.
    return _name(cut_at_clause(first, _LONGEST_HEAD)), body


def _name(head: str) -> str:
    return head.strip(" :;,.–—-*_")


# ---------------------------------------------------------------- tables and code


def _row(line: str, reading: _Reading) -> None:
    cells = [_plain(cell)[:_MOST_CELL] for cell in line.strip().strip("|").split("|")]
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
    """Return whether a line is code, a diff or a listing that stands outside any fence."""
    bare = line.strip()
    if bare[-1:] == "{" or ":=" in bare or (bare[-1:] == ";" and ("(" in bare or "=" in bare)):
        return True
    return bare[:1] in _SOURCE_STARTS and bool(_SOURCE.match(bare))


def _code(lines: list[str]) -> Iterator[Piece]:
    """Yield the names that code defines; the code itself is found by search."""
    names = list(dict.fromkeys(_CODE_NAME.findall("\n".join(lines))))
    if names:
        more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
        yield Piece(f"The code defines {', '.join(names[:_MOST_NAMES])}{more}.", "code")
