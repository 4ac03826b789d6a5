"""Texts taken apart: sentences, clauses, list heads, rows of tables, names in code; each a unit that is kept or left.

Knows Markdown as people and models write it, and where a sentence or a clause ends. Knows nothing of what is worth keeping.
"""

import re
from collections.abc import Iterator
from typing import Final, Literal, NamedTuple, TypeAlias

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
# An initial, a title, a common short form: the stop after it ends no sentence.
_ABBREVIATED: Final = re.compile(
    r"(?:\b[A-Z]|\b(?:Mr|Mrs|Ms|Dr|Prof|St|Sr|Jr|vs|etc|e\.g|i\.e|No|approx|Inc|Ltd|Fig|z\.B|ca))\.\Z"
)
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
        if _ABBREVIATED.search(text, max(start, hit.start() - 8), hit.start()):
            continue
        if piece := text[start : hit.end()].strip():
            found.append(piece)
        start = hit.end()
    if piece := text[start:].strip():
        found.append(piece)
    return found


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
