"""Tool calls: what was called on what, in a few words.

Knows the names that tools commonly give their arguments. Knows nothing of what came of a call.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, cast

from memolog.domain.codec import JsonValue
from memolog.prompt.escape import clean, one_line
from memolog.prompt.redact import REDACTION

__all__ = ["Target", "is_edit", "is_read", "target_of"]


@dataclass(frozen=True, slots=True)
class Target:
    """What a call is about."""

    text: str
    files: tuple[str, ...] = ()


_FILE_KEYS: Final = (
    "file_path",
    "path",
    "filename",
    "file",
    "notebook_path",
    "target_file",
    "relative_path",
    "filepath",
    "uri",
)
_OTHER_KEYS: Final = (
    "command",
    "cmd",
    "script",
    "pattern",
    "query",
    "url",
    "description",
    "prompt",
    "question",
    "text",
    "code",
    "input",
)
_READ: Final = re.compile(r"read|view|open|cat|fetch|get|show|list|ls|glob|grep|search|find|look", re.IGNORECASE)
_EDIT: Final = re.compile(r"edit|write|create|replace|patch|insert|update|delete|move|rename|apply", re.IGNORECASE)
# The words that some tools put where arguments should stand.
_NOTHING: Final = re.compile(r"(?:tool use:?)?[\s*`]*\w*[\s*`]*\Z", re.IGNORECASE)
_QUOTED: Final = re.compile(r"`([^`\n]+)`")
_PATH: Final = re.compile(r"(?:[A-Za-z]:)?[\w.@~+-]*(?:[/\\][\w.@~+-]+)+|[\w@+-]+\.[A-Za-z]\w{0,7}\Z")
_PATCHED: Final = re.compile(r"^(?:\*\*\* (?:Add|Update|Delete) File: |\+\+\+ (?:b/)?)(\S.*)$", re.MULTILINE)
_LONGEST: Final = 110
_LONGEST_VALUE: Final = 40
_LONGEST_PATH: Final = 400
_MOST_VALUES: Final = 6
_SCANNED: Final = 4_000
_MOST_FILES: Final = 20


def is_read(name: str) -> bool:
    """Tell whether a tool only looks: what it shows is not what happened."""
    return bool(_READ.search(name)) and not is_edit(name)


def is_edit(name: str) -> bool:
    """Tell whether a tool changes files."""
    return bool(_EDIT.search(name))


def target_of(name: str, arguments: JsonValue) -> Target:
    """Return what a call is about: the file, the command, or the values it was given."""
    value = _object(arguments)
    if isinstance(value, Mapping):
        return _from_object(cast("Mapping[str, object]", value), name)
    text = REDACTION.redact(clean(value[:_SCANNED])) if isinstance(value, str) else ""
    if _NOTHING.match(text):
        return Target("")
    return _from_text(text, name)


def _object(arguments: JsonValue) -> object:
    if isinstance(arguments, str) and arguments.lstrip()[:1] in {"{", "["}:
        try:
            return json.loads(arguments)
        except (ValueError, RecursionError):
            return arguments
    return arguments


def _from_object(value: Mapping[str, object], name: str) -> Target:
    files = tuple(
        _line(item, _LONGEST_PATH) for key in _FILE_KEYS if isinstance(item := value.get(key), str) and item.strip()
    )[:1]
    others = [_line(item, _LONGEST) for key in _OTHER_KEYS if isinstance(item := value.get(key), str) and item.strip()]
    if is_edit(name):
        patch = next((item for item in value.values() if isinstance(item, str) and "File: " in item[:_SCANNED]), "")
        files = files or tuple(_line(path, _LONGEST_PATH) for path in _PATCHED.findall(patch))[:_MOST_FILES]
        return Target(", ".join(files) or (others[0] if others else _values(value)), files)
    text = " ".join([*others[:1], *files])
    return Target(text or _values(value), files if is_read(name) else ())


def _values(value: Mapping[str, object]) -> str:
    """Return a few short arguments as they were given."""
    plain = [
        (key, item) for key, item in list(value.items())[:50] if isinstance(item, str | int | float) and item != ""
    ]
    return ", ".join(f"{_line(str(key), 30)}={_line(str(item), _LONGEST_VALUE)}" for key, item in plain[:_MOST_VALUES])


def _from_text(text: str, name: str) -> Target:
    first = one_line(text.strip().split("\n", 1)[0].replace("`", ""), _LONGEST)
    quoted = [one_line(part, _LONGEST) for part in _QUOTED.findall(text)]
    files = tuple(part for part in quoted if _PATH.fullmatch(part))[:1]
    patched = tuple(one_line(path, _LONGEST_PATH) for path in _PATCHED.findall(text)) if is_edit(name) else ()
    if patched:
        return Target(", ".join(patched[:_MOST_FILES]), patched[:_MOST_FILES])
    if quoted and quoted[0] not in first:
        return Target(f"{first} `{quoted[0]}`", files)
    return Target(first, files if is_read(name) or is_edit(name) else ())


def _line(text: str, most: int) -> str:
    return REDACTION.redact(one_line(text, most))
