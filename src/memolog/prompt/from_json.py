"""Convert a reply in JSON to the lines that were asked for, and salvage complete objects of one that was cut off."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Final, cast

from memolog.domain.observation import MARKS, Priority
from memolog.prompt.dates import find_date
from memolog.prompt.escape import short_line
from memolog.prompt.faults import ANSWER_KEYS, MOST_LINE
from memolog.prompt.lines import PRIORITY_WORDS

__all__ = ["JsonReply", "json_reply"]

JsonReply = tuple[str, dict[str, str]]
"""The lines, and the hints by their tags."""

_TEXTS: Final = ("text", "observation", "content", "description", "summary", "fact", "note", "value", "message")
_INSIDE: Final = ("children", "details", "sub", "subitems", "results", "outcomes", "observations")
_TIMES: Final = ("time", "timestamp", "saidat", "at", "datetime", "when")
_CITE_KEYS: Final = "cites citations citation sources source messages refs references ids merges"
_CITES: Final = tuple(_CITE_KEYS.split())
_ABOUT: Final = ("about", "meaning", "refersto", "eventdate", "targetdate")
_HINTS: Final = {
    "currenttask": "current-task",
    "suggestedresponse": "suggested-response",
    "threadtitle": "thread-title",
    "title": "thread-title",
    "offtrack": "off-track",
    "workingmemory": "working-memory",
}
_PRIORITIES: Final[dict[str, Priority]] = {
    **PRIORITY_WORDS,
    **{mark: priority for priority, mark in MARKS.items()},
    **dict.fromkeys(("1", "p1"), "high"),
    **dict.fromkeys(("2", "p2"), "medium"),
    **dict.fromkeys(("3", "p3"), "low"),
}
_MARK_KEYS: Final = ("priority", "importance", "level", "mark")
_OTHER_KEYS: Final = ("date", "files", "file", "verbatim", "id", "metadata", "parent", "thread", "role", "number")
_STRUCTURE: Final = frozenset((*_TEXTS, *_INSIDE, *_TIMES, *_CITES, *_ABOUT, *_HINTS, *_MARK_KEYS, *_OTHER_KEYS))
"""Fields that are parts of a line; every other field becomes a fact about it."""
_FIELD: Final = re.compile(r"[a-z]{2,21}")
_DEEPEST: Final = 4
_MOST_FAILURES: Final = 20
_LOOKS_LIKE: Final = re.compile(r"\s*(?:\{\s*(?:\"|\}|\Z)|\[\s*(?:[\{\"\]]|\Z))")
_CLOCK: Final = re.compile(r"\d{1,2}[:：]\d{2}")


def json_reply(text: str) -> JsonReply | None:
    """Return a reply in JSON as lines and hints; None if it is not JSON, no lines if it has none."""
    if not _LOOKS_LIKE.match(text):
        return None
    try:
        value: object = json.loads(text)
    except (ValueError, RecursionError):
        value = _salvaged(text)
        if not value:
            return None
    hints: dict[str, str] = {}
    return "\n".join(_lines(value, 0, hints)), hints


def _salvaged(text: str) -> list[object]:
    """Return the complete objects of truncated JSON; inner ones if the outer one is incomplete."""
    decoder, found, at, failures = json.JSONDecoder(), list[object](), 0, 0
    while failures < _MOST_FAILURES and (at := text.find("{", at)) >= 0:
        try:
            value, at = decoder.raw_decode(text, at)
            found.append(value)
        except (ValueError, RecursionError):
            failures += 1
            at += 1
    return found


def _lines(value: object, depth: int, hints: dict[str, str]) -> Iterator[str]:
    if depth > _DEEPEST:
        return
    if isinstance(value, str):
        yield from (f"{'  ' * depth}* {short_line(row, MOST_LINE)}" for row in value.split("\n") if row.strip())
    elif isinstance(value, list):
        for item in cast("list[object]", value):
            yield from _lines(item, depth, hints)
    elif isinstance(value, Mapping):
        yield from _object(_normal(cast("Mapping[object, object]", value)), depth, hints)


def _normal(value: Mapping[object, object]) -> dict[str, object]:
    return {_name(str(key)): item for key, item in value.items()}


def _name(key: str) -> str:
    return key if find_date(key) else re.sub(r"[\s_-]+", "", key).lower()


def _object(entry: dict[str, object], depth: int, hints: dict[str, str]) -> Iterator[str]:
    text = _first(entry, _TEXTS)
    if isinstance(text, str):
        yield from _entry(entry, text, depth)
        for name in _INSIDE:
            if isinstance(entry.get(name), list) and entry[name] is not text:
                yield from _lines(entry[name], depth + 1, hints)
        return
    if not depth:
        hints.update({tag: item for name, tag in _HINTS.items() if isinstance(item := entry.get(name), str)})
    if isinstance(day := entry.get("date"), str):
        yield f"Date: {short_line(day, 60)}"
    for key, item in entry.items():
        # Some group their lines by day.
        if found := find_date(key):
            yield f"Date: {found.day.isoformat() if found.day else key}"
            yield from _lines(item, depth, hints)
        elif key in ANSWER_KEYS:
            yield from _lines(item, depth, hints)


def _first(entry: dict[str, object], names: tuple[str, ...]) -> object:
    return next((entry[name] for name in names if entry.get(name)), None)


def _entry(entry: dict[str, object], text: str, depth: int) -> Iterator[str]:
    """Yield one object as a line, followed by its verbatim text."""
    given = _PRIORITIES.get(str(_first(entry, _MARK_KEYS)).strip().lower())
    mark = f"{MARKS[given]} " if given else ""
    if isinstance(day := entry.get("date"), str):
        yield f"Date: {short_line(day, 60)}"
    about = find_date(str(_first(entry, _ABOUT) or ""))
    meaning = f" (meaning {about.day.isoformat()})" if about and about.day and "(meaning" not in text else ""
    yield f"{'  ' * depth}* {mark}{_when(entry)}{short_line(text, MOST_LINE)}{meaning}{_facts(entry)}{_cited(entry)}"
    verbatim = entry.get("verbatim")
    if isinstance(verbatim, str):
        yield from (f"{'  ' * depth}  | {row}" for row in verbatim.split("\n"))


def _when(entry: dict[str, object]) -> str:
    moment = str(_first(entry, _TIMES) or "")
    found = find_date(f"{moment} {entry.get('date') or ''}")
    clock = _CLOCK.search(moment)
    day = f"{found.day.isoformat()} " if found and found.day else ""
    return f"({day}{clock[0]}) " if clock else ""


def _facts(entry: dict[str, object]) -> str:
    files = entry.get("files") or entry.get("file")
    names = cast("list[object]", files) if isinstance(files, list) else [files] if files else []
    facts = [f"files={', '.join(map(str, names))}"] if names else []
    inner = entry.get("metadata")
    fields = {**entry, **(_normal(cast("Mapping[object, object]", inner)) if isinstance(inner, Mapping) else {})}
    facts += [
        f"{name}={item}"
        for name, item in fields.items()
        if name not in _STRUCTURE and _FIELD.fullmatch(name) and isinstance(item, str | int | float) and item != ""
    ]
    safe = [re.sub(r"[{};\n]", " ", fact) for fact in facts]
    return f" {{{'; '.join(safe)}}}" if safe else ""


def _cited(entry: dict[str, object]) -> str:
    cites = _first(entry, _CITES)
    items = cast("list[object]", cites) if isinstance(cites, list) else [cites]
    numbers = [number for item in items for number in re.findall(r"[o#]?\d{1,9}", str(item))] if cites else []
    return f" [{','.join(numbers)}]" if numbers else ""
