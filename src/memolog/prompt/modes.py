"""Patterns of each mode: which sentences it looks for, and which fields of a line they fill.

Used by the embedded observer and to complete lines of a model. The instructions for models are in `texts/mode_*.md`.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from memolog.config.sizes import Mode
from memolog.prompt.drafts import Draft, Parsed
from memolog.prompt.escape import short_line

__all__ = ["Spoken", "with_fields", "with_findings"]

_MOST_LINES: Final = 20
_MOST_OF_MESSAGE: Final = 3
_MOST_TEXT: Final = 100_000
_LONGEST: Final = 300
_SHORTEST: Final = 8
_SENTENCES: Final = re.compile(r"\n+|(?<=[.!?])\s+(?=[A-Z\"'`(])")
_OPENING: Final = re.compile(r"^[\s>*•#|-]+(?:\d{1,3}[.)]\s)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Spoken:
    """A message of an assistant or a tool, as it is cited."""

    number: int
    at: datetime
    text: str
    is_tool: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Search:
    """What a mode looks for: a pattern of sentences, their category, and the patterns of their fields."""

    sentence: re.Pattern[str]
    category: str
    fields: Mapping[str, re.Pattern[str]]


def _search(sentence: str, category: str, **fields: str) -> _Search:
    compiled = {name: re.compile(pattern, re.IGNORECASE) for name, pattern in fields.items()}
    return _Search(sentence=re.compile(sentence, re.IGNORECASE), category=category, fields=compiled)


_ERROR: Final = _search(
    r"\b[\w.]{0,60}(?:Error|Exception|Panic)\b(?=[:( ]|\Z)|\bTraceback\b|\bERR_\w+|\bE\d{4}\b|\bexit code [1-9]",
    "error",
    error_type=r"\b([\w.]{0,60}(?:Error|Exception))\b(?=[:( ]|\Z)",
    stack_trace=r"\bat (\S{1,200}:\d{1,7}(?::\d{1,7})?)|(File \"[^\"]{1,200}\", line \d{1,7})",
)
_NOT_FOUND: Final = _search(
    r"\bnot found\b|\bno (?:results|matches|such|occurrences)\b|\bnothing found\b|\b0 (?:results|matches)\b|\bdoes not exist\b"
    r"|\bcould not find\b|\bnicht gefunden\b|\bkeine Treffer\b|\bno se encontr|\bintrouvable\b",
    "gap",
    not_found=r"\b(?:no (?:results|matches|occurrences) (?:for|of)|could not find|no such)\s+[`\"']?([^`\"'\n.;,]{2,80})"
    r"|[`\"']([^`\"'\n]{2,80})[`\"'] (?:was |is )?not found",
)
_TESTS: Final = _search(
    r"\b\d+ (?:tests? )?(?:passed|failed|skipped|errors?)\b|\bcoverage\b.{0,40}\d|\bflaky\b|\buntested\b",
    "test",
    tests=r"((?:\d+ (?:tests? )?(?:passed|failed|skipped)(?:, | and )?){1,4})",
    coverage=r"\bcoverage\b[^\d\n]{0,40}(\d{1,3}(?:[.,]\d+)?\s?%)|(\d{1,3}(?:[.,]\d+)?\s?%)[^\n]{0,20}\bcoverage\b",
)
_CAUSE: Final = _search(
    r"\broot cause\b|\bcaused by\b|\bthe cause (?:is|was)\b|\breproduc|\bregression\b|\bdie Ursache\b|\bla causa\b",
    "finding",
    root_cause=r"\b(?:root cause(?: is| was)?:?|caused by|the cause (?:is|was))\s*([^\n.;]{3,120})",
)
_CHANGE: Final = _search(
    r"\b(?:renamed?|moved?|extracted?|inlined?|deprecated?|replaced?)\b.{0,80}(?:->|\bto\b|\binto\b|\bwith\b|\bfrom\b)"
    r"|\bbreaking change\b|\bbreaks\b|\bcallers?\b|\bdepend(?:s|ants|ents) on\b|\bused by\b",
    "change",
    breaks=r"\bbreaks\s+([^\n.;]{3,120})",
    dependants=r"\b(?:used by|callers? (?:is|are|in):?)\s+([^\n.;]{3,120})",
)
_SOURCE: Final = _search(
    r"https?://\S{4,}|\baccording to\b|\bet al\.|\bdoi:|\bpublished (?:in|by)\b",
    "source",
    sources=r"(https?://[^\s<>\"')\]]{4,300})|\baccording to ([^\n,.;]{3,100})",
)
_SYMPTOM: Final = _search(
    r"\b(?:timed? ?out|hangs?|crash(?:es|ed)?|leak(?:s|ed)?|stalls?|refused|deadlock|OOM|FATAL|WARN(?:ING)?)\b",
    "finding",
    symptom=r"([^\n.;]{0,60}\b(?:timed? ?out|hangs?|crash(?:es|ed)?|leak(?:s|ed)?|deadlock)\b[^\n.;]{0,60})",
)
_LOOKED_FOR: Final[Mapping[Mode, tuple[_Search, ...]]] = {
    "default": (),
    "explore": (_NOT_FOUND,),
    "bug_fixing": (_ERROR, _CAUSE),
    "refactoring": (_CHANGE,),
    "testing": (_TESTS, _ERROR),
    "debugging": (_ERROR, _SYMPTOM, _CAUSE),
    "research": (_SOURCE, _NOT_FOUND),
}


def with_findings(parsed: Parsed, spoken: Sequence[Spoken], mode: Mode) -> Parsed:
    """Return what was observed, with the sentences of assistant and tools that the mode looks for and no line holds.

    At most three sentences of a message and twenty in all are added, each cut to 300 characters.
    """
    if not _LOOKED_FOR[mode]:
        return parsed
    known = "\n".join(draft.text for draft in parsed.observations)
    found: list[Draft] = []
    for message in spoken:
        fresh = [text for text in _sentences(message.text, mode) if text[:_LONGEST] not in known]
        for text in fresh[:_MOST_OF_MESSAGE]:
            who = "Result" if message.is_tool else "Assistant"
            line = f"{who}: {short_line(text, _LONGEST)}"
            found.append(Draft(priority="medium", text=line, said_at=message.at, cites=(message.number,)))
            known += f"\n{text}"
    if not found:
        return parsed
    return replace(parsed, observations=(*parsed.observations, *found[:_MOST_LINES]), nothing=False)


def with_fields(draft: Draft, mode: Mode) -> Draft:
    """Return a line with the fields of its mode that can be read from its words and that it does not have yet."""
    fields: dict[str, str] = {}
    category = draft.category
    for search in _LOOKED_FOR[mode]:
        if not search.sentence.search(draft.text):
            continue
        category = category or search.category
        for name, pattern in search.fields.items():
            hit = pattern.search(draft.text)
            value = next(filter(None, hit.groups()), "").strip(" ,") if hit else ""
            if value:
                fields.setdefault(name, value)
    if not fields and category == draft.category:
        return draft
    return replace(draft, category=category, metadata={**fields, **draft.metadata})


def _sentences(text: str, mode: Mode) -> Iterator[str]:
    for piece in _SENTENCES.split(text[:_MOST_TEXT]):
        sentence = _OPENING.sub("", piece).strip()
        if len(sentence) >= _SHORTEST and any(search.sentence.search(sentence) for search in _LOOKED_FOR[mode]):
            yield sentence
