"""Facts in braces at the end of a line: category, files, line numbers and what a mode asks for.

Knows the names that are in use and brings their spellings together. What it does not know stays part of the text, since
braces are also code.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

__all__ = ["Facts", "as_facts", "take_facts"]

_NAMES: Final = {
    **{name: name for name in ("category", "root_cause", "coverage", "breaks", "confidence", "status", "symptom")},
    **dict.fromkeys(("type", "kind"), "category"),
    **dict.fromkeys(("file", "files", "path", "paths"), "files"),
    **dict.fromkeys(("line", "lines"), "lines"),
    **dict.fromkeys(("query", "queries", "queries_tried"), "queries"),
    **dict.fromkeys(("source", "sources"), "sources"),
    **dict.fromkeys(("test", "tests"), "tests"),
    **dict.fromkeys(("variable", "variables"), "variables"),
    **dict.fromkeys(("dependant", "dependants", "dependent", "dependents"), "dependants"),
    **dict.fromkeys(("cause", "rootcause"), "root_cause"),
    **dict.fromkeys(("breaking", "breaking_change", "what_breaks"), "breaks"),
}
_BRACES: Final = re.compile(r"\{([^{}\n]{3,600})\}[ .]*\Z")
_NEXT: Final = re.compile(r"[;,]\s*(?=[A-Za-z][A-Za-z_ -]{1,20}[=:])")
_PAIR: Final = re.compile(r"\s*([A-Za-z][A-Za-z_ -]{1,20}?)\s*[=:]\s*(.+?)\s*", re.DOTALL)
_FILE: Final = re.compile(r"(.+?)[:#]L?(\d{1,7}(?:-L?\d{1,7})?)")
_LONGEST: Final = 700
_MOST_VALUE: Final = 500
_MOST_WORD: Final = 40
_MOST_FILES: Final = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What a line says about itself."""

    category: str | None = None
    files: tuple[str, ...] = ()
    other: Mapping[str, str] = field(default_factory=dict[str, str])
    """By normalised name; `lines` names places as path:number."""


def take_facts(text: str) -> tuple[str, Facts]:
    """Return the text without the braces at its end, and what they say; text whose braces say nothing stays."""
    hit = _BRACES.search(text, max(len(text) - _LONGEST, 0)) if text.rstrip(" .").endswith("}") else None
    if not hit:
        return text, Facts()
    pairs = [_PAIR.fullmatch(piece) for piece in _NEXT.split(hit[1])]
    found = {_normal(pair[1]): pair[2] for pair in pairs if pair}
    if len(found) < len(pairs) or not found.keys() <= _NAMES.keys():
        return text, Facts()
    return text[: hit.start()].rstrip(), as_facts(found)


def _normal(name: str) -> str:
    return re.sub(r"[\s-]+", "_", name.strip().lower())


def as_facts(given: Mapping[str, str]) -> Facts:
    """Return facts under their normalised names; what is not in use is left out."""
    named = {_NAMES[_normal(name)]: value[:_MOST_VALUE] for name, value in given.items() if _normal(name) in _NAMES}
    category = _normal(named.pop("category", ""))[:_MOST_WORD] or None
    places = [place.strip() for place in named.pop("files", "").split(",")][:_MOST_FILES]
    hits = [(place, _FILE.fullmatch(place)) for place in places if place]
    numbered = [f"{hit[1]}:{hit[2].replace('L', '')}" for _, hit in hits if hit]
    if numbered:
        named["lines"] = ", ".join(numbered)
    files = tuple(dict.fromkeys(hit[1] if hit else place for place, hit in hits))
    return Facts(category=category, files=files, other=named)
