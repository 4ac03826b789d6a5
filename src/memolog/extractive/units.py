"""Texts taken apart: sentences, clauses, list heads, rows of tables, names in code; each a unit that is kept or left.

Knows Markdown as people and models write it, and where a sentence or a clause ends. Knows nothing of what is worth keeping.
"""

import re
from collections.abc import Iterator
from typing import Final, Literal, NamedTuple, TypeAlias

from memolog.domain.calendar_names import MONTHS, RISKY_MONTHS

__all__ = ["Kind", "Unit", "clauses", "sentences", "units_of"]

Kind: TypeAlias = Literal["sentence", "clause", "head", "pair", "row", "code", "source"]


class Unit(NamedTuple):
    """The smallest piece that still says something; a tuple, since every clause of every message becomes one."""

    text: str
    kind: Kind


_FENCE: Final = re.compile(r"\s*(?:```|~~~)")
_ITEM: Final = re.compile(r"\s*(?:[-*•+◦▪]\s+|(?:\(?\d{1,3}[.)]|\(?[a-zA-Z][.)])\s+|#{1,6}\s+|>\s?)+")
_NUMBER: Final = re.compile(r"\s*(?:[#>*-]+\s+)*\(?(\d{1,3}[.)])\s")
_RULE: Final = re.compile(r"[\s|:=*_~-]*\Z")
_EMPHASIS: Final = re.compile(r"\*\*|__(?=\S)|(?<=\S)__")
_LABEL: Final = re.compile(r"((?:\d{1,3}[.)] )?(?:[^.!?:;\n]|\.(?=\w)){2,70}?)(?::| [–—-])\s+(?=\S)")
_END: Final = re.compile(r"(?<=[^\s.][.!?])[\"'”’)]*\s+(?=[^\sa-z])|(?<=[。！？؟।])\s*")
# Short forms that something always follows: titles, and what introduces a name or an example.
_OPEN_WORDS: Final = """
    mr mrs ms dr prof st sr jr vs etc e.g i.e approx inc ltd z.b ca hr fr frl dipl ing bzw vgl sog evtl inkl zzgl ggf
    usf gem mme mlle mgr sra srta dª dña dra d.h u.a s.o p.ej p.ex sig dott dott.ssa avv geom mevr dhr mw drs bijv bv
    o.a d.w.z m.a.w resp gen col capt lt sgt rev hon exmo profª ex ej
    """
_OPEN: Final = frozenset(_OPEN_WORDS.split())
# Short forms that a number follows; without one, "No." and "fig." may well end a sentence.
_COUNTING_WORDS: Final = """
    no nr nos nrn num núm n art arts abs apt app bd bl fig abb tab tabl kap cap chap ch sec sect ziff s p pp pg pag
    pág vol v ver tel tél tlf str zi rm ste blk bldg par § pos lfd mo di mi do fr sa so mon tue tues wed thu thur
    thurs fri sat sun lun mar mer jeu ven sam dim mié jue vie sáb dom seg ter qua qui sex gio sab ma wo vr za zo
    """
_COUNTING: Final = frozenset(_COUNTING_WORDS.split())
# Short forms of two words and more, each with a stop and a space: "z. B.", "i. d. R.", "p. ej.".
_PARTS: Final = (
    *(
        "z. B.",
        "d. h.",
        "u. a.",
        "s. o.",
        "s. u.",
        "i. d. R.",
        "o. ä.",
        "u. U.",
        "v. a.",
        "i. A.",
        "a. a. O.",
        "v. Chr.",
        "n. Chr.",
    ),
    *(
        "p. ej.",
        "EE. UU.",
        "a. C.",
        "d. C.",
        "p. ex.",
        "c. à d.",
        "e. g.",
        "i. e.",
        "o. a.",
        "d. w. z.",
        "m. a. w.",
        "P. S.",
    ),
)
_LONGEST_PART: Final = 3
_PART: Final = re.compile(
    "|".join(
        rf"(?<!\w){re.escape(form[:end])} ?\Z"
        for form in sorted(_PARTS, key=len, reverse=True)
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
_CLAUSE: Final = re.compile(
    r"; |: | [–—] | - |, (?=(?:and|but|or|so|which|where|while|who|because|including|such as|as well as|like|with|making|offering"
    r"|featuring|allowing|especially|however|then|for example|e\.g\.)\b)|[；，、]"
    r"|,? (?=(?:because|although|whereas|so that|in order to)\b)"
)
_COMMA: Final = re.compile(r", (?=\S)")
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
# As much of a text as tells what a stop in it belongs to.
_NEAR: Final = 40
_LONG_CLAUSE: Final = 90
_SHORT_PAIR: Final = 50
_LEAST: Final = 18
_MOST_CELL: Final = 60
_HEAD_LENGTH: Final = 80


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
    """Tell whether a stop belongs to a short form or an ordinal number, so that the sentence goes on after it."""
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


def clauses(sentence: str) -> Iterator[str]:
    """Yield the clauses of a sentence; pieces too short to say anything stay with their neighbour."""
    for piece in _joined(_CLAUSE, sentence):
        if len(piece) > _LONG_CLAUSE:
            yield from _joined(_COMMA, piece)
        else:
            yield piece


def _joined(pattern: re.Pattern[str], text: str) -> Iterator[str]:
    start = 0
    for hit in pattern.finditer(text):
        if hit.start() - start >= _LEAST and len(text) - hit.end() >= _LEAST:
            yield text[start : hit.start()].strip()
            start = hit.end()
    yield text[start:].strip()


def units_of(text: str, *, fine: bool) -> list[Unit]:
    """Return the units of a text in their order: clauses where `fine`, else whole sentences."""
    found: list[Unit] = []
    code: list[str] | None = None
    for line in text.split("\n"):
        if _FENCE.match(line):
            if code is not None:
                found.extend(_code(code))
            code = [] if code is None else None
        elif code is not None:
            code.append(line)
        elif line and not _RULE.match(line):
            found.extend(_line(line, fine=fine))
    if code:
        found.extend(_code(code))
    return found


def _line(line: str, *, fine: bool) -> Iterator[Unit]:
    if line.count("|") >= 2 and line.strip().startswith("|"):  # noqa: PLR2004 - a cell has a bar on each side
        yield _row(line)
        return
    if _is_source(line):
        yield Unit(line.strip(), "source")
        return
    item = _ITEM.match(line)
    number = _NUMBER.match(line) if item else None
    body = (line[number.start(1) if number else item.end() :] if item else line).strip()
    if "**" in body or "__" in body:
        body = _EMPHASIS.sub("", body).strip()
    if not body:
        return
    label = _LABEL.match(body) if item or line.lstrip().startswith("**") else None
    if label:
        yield from _labelled(body, label, fine=fine)
    elif (item and len(body) <= _HEAD_LENGTH) or (body.endswith(":") and len(body) <= _HEAD_LENGTH):
        yield Unit(body.rstrip(":"), "head")
    else:
        yield from _prose(body, fine=fine)


def _is_source(line: str) -> bool:
    """Tell whether a line is code, a diff or a listing that stands outside any fence."""
    bare = line.strip()
    if bare[-1:] == "{" or ":=" in bare or (bare[-1:] == ";" and ("(" in bare or "=" in bare)):
        return True
    return bare[:1] in _SOURCE_STARTS and bool(_SOURCE.match(bare))


def _row(line: str) -> Unit:
    cells = [_EMPHASIS.sub("", cell).strip()[:_MOST_CELL] for cell in line.strip().strip("|").split("|")]
    return Unit(" | ".join(filter(None, cells)), "row")


def _labelled(body: str, label: re.Match[str], *, fine: bool) -> Iterator[Unit]:
    if not fine or len(body) <= _SHORT_PAIR:
        yield Unit(body, "pair")
        return
    rest = sentences(body[label.end() :])
    first, *more = clauses(rest[0]) if rest else [""]
    if len(label[1]) + len(first) <= _SHORT_PAIR:
        yield Unit(f"{label[1]}: {first}", "pair")
    else:
        yield Unit(label[1], "head")
        yield Unit(first, "clause")
    for clause in more:
        yield Unit(clause, "clause")
    for sentence in rest[1:]:
        for clause in clauses(sentence):
            yield Unit(clause, "clause")


def _prose(body: str, *, fine: bool) -> Iterator[Unit]:
    for sentence in sentences(body):
        if fine:
            for clause in clauses(sentence):
                yield Unit(clause, "clause")
        else:
            yield Unit(sentence, "sentence")


def _code(lines: list[str]) -> Iterator[Unit]:
    """Yield the names that code defines: the code itself is found by recall."""
    names = list(dict.fromkeys(_CODE_NAME.findall("\n".join(lines))))
    for name in names:
        yield Unit(name, "code")
