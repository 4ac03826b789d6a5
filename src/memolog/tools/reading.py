"""Read values as models write them: numbers in strings, lists in one string, synonyms. Unclear values are refused."""

import difflib
import json
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final, cast

__all__ = ["choice", "flag", "moment", "name", "names", "priority", "whole"]

_TRUE: Final = frozenset({"true", "yes", "y", "1", "on"})
_FALSE: Final = frozenset({"false", "no", "n", "0", "off", "none", "null", ""})
_PRIORITIES: Final = {
    **dict.fromkeys(("critical", "urgent", "highest", "blocker"), 0),
    "high": 1,
    **dict.fromkeys(("medium", "normal", "default"), 2),
    "low": 3,
    **dict.fromkeys(("lowest", "backlog", "someday"), 4),
}
_NUMBER: Final = re.compile(r"[+-]?\d{1,15}(?:\.0+)?")
_CLOSE: Final = 0.75
_NAMED: Final = ("handle", "id", "task", "name", "title", "value")


def whole(value: Any) -> Any:
    """Return a whole number that was written as text or with a point; anything else as it is, to be refused."""
    if isinstance(value, bool):
        raise ValueError("must be a number")  # noqa: TRY004 - one kind for the reader
    if isinstance(value, str) and _NUMBER.fullmatch(value.strip()):
        return int(float(value.strip()))
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def priority(value: Any) -> Any:
    """Return a priority written as 1, "1", "P1" or "high"."""
    if isinstance(value, str):
        plain = value.strip().lower()
        if plain in _PRIORITIES:
            return _PRIORITIES[plain]
        return whole(plain.removeprefix("priority").strip(" :").removeprefix("p"))
    return whole(value)


def flag(value: Any) -> Any:
    """Return true or false written as a word or a number."""
    if isinstance(value, str):
        plain = value.strip().lower()
        return True if plain in _TRUE else False if plain in _FALSE else value
    return bool(value) if isinstance(value, int | float) and value in {0, 1} else value


def name(value: Any) -> Any:
    """Return a name given as text, as a number, or inside an object that says what it names."""
    if isinstance(value, Mapping):
        inner = cast("Mapping[str, Any]", value)
        return next((name(inner[key]) for key in _NAMED if inner.get(key)), inner)
    if isinstance(value, list | tuple) and len(cast("list[Any]", value)) == 1:
        return name(cast("list[Any]", value)[0])
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return cast("Any", value)


def names(value: Any) -> Any:
    """Return a list of names given as a list, as one name, or as several in one text."""
    if isinstance(value, str):
        text = value.strip()
        if text.startswith("["):
            try:
                return names(json.loads(text))
            except (ValueError, RecursionError):
                text = text.strip("[]")
        return [piece.strip(" \"'") for piece in re.split(r"[,;\n]", text) if piece.strip(" \"'")]
    if isinstance(value, list | tuple | set | frozenset):
        return [name(item) for item in cast("list[Any]", value)]
    return [name(value)]


def moment(value: Any) -> Any:
    """Return a moment from an ISO date or time; without a zone it is UTC."""
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value.strip().replace("Z", "+00:00").replace(" UTC", "+00:00"))
        except ValueError:
            raise ValueError("must be a date such as 2026-03-20 or 2026-03-20T17:00:00Z") from None
    if isinstance(value, datetime) and value.tzinfo is None:
        return value.replace(tzinfo=UTC)
    if not isinstance(value, datetime):
        raise ValueError("must be a date such as 2026-03-20 or 2026-03-20T17:00:00Z")  # noqa: TRY004 - one kind for the reader
    return value


def choice(known: tuple[str, ...], other: Mapping[str, str]) -> Callable[[Any], Any]:
    """Return how to read one of some words: as it is, spelt otherwise, by another word for it, or misspelt."""
    spelt = {_plain(word): word for word in known} | {_plain(word): meant for word, meant in other.items()}

    def read(value: Any) -> Any:
        if not isinstance(value, str):
            return value
        plain = _plain(value)
        if plain in spelt:
            return spelt[plain]
        # A slip in the word itself is likelier than one in another word for it.
        for words in ([_plain(word) for word in known], list(spelt)):
            near = {spelt[word] for word in difflib.get_close_matches(plain, words, n=3, cutoff=_CLOSE)}
            if near:
                return near.pop() if len(near) == 1 else value
        return value

    return read


def _plain(word: str) -> str:
    return re.sub(r"[\s_\-.:/']+", "", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", word.strip()).lower())
