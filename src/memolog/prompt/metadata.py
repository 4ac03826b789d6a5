"""Parse the facts in braces at the end of a line: category, files, line numbers, fields of a mode, and free fields.

Braces without `=` and without a known name are code and stay in the text.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from memolog.domain.observation import CODE_METADATA

__all__ = ["Facts", "take_facts"]

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
    **dict.fromkeys(("error_type", "errortype", "exception"), "error_type"),
    **dict.fromkeys(("stack_trace", "stacktrace", "stack", "traceback"), "stack_trace"),
    **dict.fromkeys(("not_found", "notfound"), "not_found"),
    **dict.fromkeys(("breaking", "breaking_change", "what_breaks"), "breaks"),
}
_RESERVED: Final = CODE_METADATA | {"mode"}
"""Names that only code may set; the mode is set before lines are judged."""
_BRACES: Final = re.compile(r"\{([^{}\n]{3,1500})\}[ .]*\Z")
_HUMP: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")
_NEXT: Final = re.compile(r"[;,]\s*(?=[A-Za-z][A-Za-z_ -]{1,20}[=:])")
_EQUALS: Final = re.compile(r"\s*[A-Za-z][A-Za-z_ -]{1,20}?\s*=")
_PAIR: Final = re.compile(r"\s*([A-Za-z][A-Za-z_ -]{1,20}?)\s*+[=:]\s*(.+)", re.DOTALL)
_FILE: Final = re.compile(r"(.+?)[:#]L?(\d{1,7}(?:-L?\d{1,7})?)")
_LONGEST: Final = 1_600
_MOST_VALUE: Final = 500
_MOST_WORD: Final = 40
_MOST_FILES: Final = 50
_MOST_FIELDS: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What a line says about itself."""

    category: str | None = None
    files: tuple[str, ...] = ()
    other: Mapping[str, str] = field(default_factory=dict[str, str])
    """By normalised name; `lines` names places as path:number. Free fields have the name that they were given."""


def take_facts(text: str) -> tuple[str, Facts]:
    """Return the text without the facts in braces at its end, and the facts."""
    hit = _BRACES.search(text, max(len(text) - _LONGEST, 0)) if text.rstrip(" .").endswith("}") else None
    if not hit:
        return text, Facts()
    pairs = [_PAIR.fullmatch(piece) for piece in _NEXT.split(hit[1])]
    found = {_normal(pair[1]): pair[2].rstrip() or pair[2] for pair in pairs if pair}
    is_ours = found.keys() & _NAMES.keys() or all(_EQUALS.match(piece) for piece in _NEXT.split(hit[1]))
    if len(found) < len(pairs) or not is_ours:
        return text, Facts()
    return text[: hit.start()].rstrip(), _as_facts(found)


def _normal(name: str) -> str:
    return re.sub(r"[\s-]+", "_", _HUMP.sub("_", name.strip()).lower())


def _as_facts(given: Mapping[str, str]) -> Facts:
    """Return facts under their normalised names; other names are kept as free fields, as many as one line may have."""
    normal = {_normal(name): value[:_MOST_VALUE] for name, value in given.items()}
    known = {_NAMES[name]: value for name, value in normal.items() if name in _NAMES}
    free = {name: value for name, value in normal.items() if name not in _NAMES and name not in _RESERVED}
    named = {**dict(list(free.items())[:_MOST_FIELDS]), **known}
    category = _normal(named.pop("category", ""))[:_MOST_WORD] or None
    places = [place.strip() for place in named.pop("files", "").split(",")][:_MOST_FILES]
    hits = [(place, _FILE.fullmatch(place)) for place in places if place]
    numbered = [f"{hit[1]}:{hit[2].replace('L', '')}" for _, hit in hits if hit]
    if numbered:
        named["lines"] = ", ".join(numbered)
    files = tuple(dict.fromkeys(hit[1] if hit else place for place, hit in hits))
    return Facts(category=category, files=files, other=named)
