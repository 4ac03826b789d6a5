"""The kinds of value that a setting can have: which values are allowed, and how text is parsed."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import isfinite
from typing import Any, Final, TypeGuard, cast

from memolog.config.problems import refuse, shown
from memolog.config.sizes import LEAST_KEPT, LEAST_LIMIT
from memolog.domain.errors import ConfigError

__all__ = [
    "FLAG",
    "FRACTION",
    "PATTERNS",
    "PROSE",
    "SHARE_OR_TOKENS",
    "TEXT",
    "WINDOW",
    "KeepRecent",
    "Kind",
    "choice",
    "count",
    "dollars",
    "factor_or_tokens",
    "keep_share_or_tokens",
    "optional",
    "or_false",
    "or_word",
    "patterns_in",
    "seconds",
    "tokens",
]

# Beyond these a number is a slip; they also keep every product with a factor finite.
_MOST: Final = 10**12
# Database timeouts are 32-bit milliseconds, which end after 24 days.
_MOST_SECONDS: Final = 2_000_000

# Instructions are sent with every call: beyond this they are a document, pasted by mistake.
_MOST_PROSE: Final = 20_000

_UNITS: Final = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86_400}
_TRUE: Final = frozenset({"true", "yes", "on", "1"})
_FALSE: Final = frozenset({"false", "no", "off", "0"})


def _as_is(value: object) -> object:
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One kind of value. `accepts` completes the sentence "… is not …"."""

    name: str
    accepts: str
    allows: Callable[[object], bool]
    read: Callable[[str], object]
    """Text to value, as an environment variable has it; a ValueError says that it is none."""
    take: Callable[[object], object] = _as_is
    """A value from a file or mapping to the one that is kept; likewise."""
    choices: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return the name, as the reference prints it."""
        return self.name


def _is_whole(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: object) -> TypeGuard[float]:
    return _is_whole(value) or (isinstance(value, float) and isfinite(value))


def _within(value: object, least: float, most: float) -> bool:
    return _is_number(value) and least <= value <= most


def _read_number(text: str) -> object:
    try:
        return int(text)
    except ValueError:
        return float(text)


def _read_seconds(text: str) -> object:
    """Return the seconds in "30", "30s", "1.5h" or "500ms"."""
    unit = next((unit for unit in _UNITS if text.endswith(unit)), "")
    number = float(text.removesuffix(unit)) * _UNITS.get(unit, 1)
    return int(number) if isfinite(number) and number.is_integer() else number


def _take_seconds(value: object) -> object:
    return _read_seconds(value.strip()) if isinstance(value, str) else value


def _read_flag(text: str) -> object:
    word = text.lower()
    if word not in _TRUE | _FALSE:
        raise ValueError(text)
    return word in _TRUE


def tokens(least: int = 1) -> Kind:
    """Return the kind for a number of tokens."""
    return replace(count(least), name="tokens", accepts=f"a whole number of tokens from {least:,}")


def count(least: int = 1) -> Kind:
    """Return the kind for a number of things."""
    return Kind(
        name="count",
        accepts=f"a whole number from {least:,}",
        allows=lambda value: _is_whole(value) and least <= value <= _MOST,
        read=int,
    )


def seconds(*, zero: bool = False) -> Kind:
    """Return the kind for a duration; `zero` says whether none at all is one."""
    start = "from 0" if zero else "above 0"
    return Kind(
        name="seconds",
        accepts=f'a number of seconds {start} (in files and variables also "30s", "5m", "24h")',
        allows=lambda value: _within(value, 0, _MOST_SECONDS) and (zero or value != 0),
        read=_read_seconds,
        take=_take_seconds,
    )


def dollars() -> Kind:
    """Return the kind for an amount of money."""
    return Kind(
        name="dollars",
        accepts="an amount of US dollars from 0",
        allows=lambda value: _within(value, 0, _MOST),
        read=_read_number,
    )


def choice(*words: str) -> Kind:
    """Return the kind for one word out of a few."""
    return Kind(
        name="choice",
        accepts=f"one of {', '.join(words)}",
        allows=lambda value: isinstance(value, str) and value in words,
        read=str,
        choices=words,
    )


def _is_share(value: object) -> bool:
    return isinstance(value, float) and 0 < value < 1


def _is_step(value: object) -> bool:
    return _is_share(value) or (_is_whole(value) and 1 <= value <= _MOST)


def keep_share_or_tokens(base: str) -> Kind:
    """Return the kind of an activation: a share of `base` up to all of it, or tokens from 1,000."""
    return Kind(
        name="share-or-tokens",
        accepts=f"a share of {base} above 0 and up to 1, or a whole number of tokens from 1,000",
        allows=lambda value: (
            (_within(value, 0, 1) and value != 0) or (_is_whole(value) and LEAST_KEPT <= value <= _MOST)
        ),
        read=_read_number,
    )


def factor_or_tokens(base: str) -> Kind:
    """Return the kind of a limit: `base` times a factor below 100, or tokens from 100."""
    return Kind(
        name="factor-or-tokens",
        accepts=f"a factor of {base} from 1 to below 100, or a whole number of tokens from 100",
        allows=lambda value: (
            _is_number(value) and (1 <= value < LEAST_LIMIT or (_is_whole(value) and LEAST_LIMIT <= value <= _MOST))
        ),
        read=_read_number,
    )


def _also(kind: Kind, extra: object, words: frozenset[str], accepts: str, choices: tuple[str, ...] = ()) -> Kind:
    """Return the kind with one further value, which any of these words stands for in a variable."""

    def is_extra(value: object) -> bool:
        # False is not 0 here.
        return value is extra or (isinstance(value, str) and value == extra)

    def allows(value: object) -> bool:
        return is_extra(value) or kind.allows(value)

    def read(text: str) -> object:
        return extra if text.lower() in words else kind.read(text)

    def take(value: object) -> object:
        return value if is_extra(value) else kind.take(value)

    choices = (*choices, *kind.choices)
    return replace(kind, accepts=accepts, allows=allows, read=read, take=take, choices=choices)


def optional(kind: Kind) -> Kind:
    """Return the kind with None ("none" in a variable) among its values."""
    return _also(kind, None, frozenset({"none"}), f"{kind.accepts}, or None")


def or_false(kind: Kind) -> Kind:
    """Return the kind with False for off among its values."""
    return _also(kind, False, _FALSE - {"0"}, f"{kind.accepts}, or False")


def or_word(word: str, kind: Kind) -> Kind:
    """Return the kind with one word among its values."""
    return _also(kind, word, frozenset({word}), f'"{word}", {kind.accepts}', (word,))


FLAG: Final = Kind(
    name="flag",
    accepts="True or False",
    allows=lambda value: isinstance(value, bool),
    read=_read_flag,
)
TEXT: Final = Kind(
    name="text",
    accepts="a text of printable characters, at least one",
    allows=lambda value: isinstance(value, str) and bool(value.strip()) and value.isprintable(),
    read=str,
)
PROSE: Final = Kind(
    name="prose",
    accepts="a text with at least one word, on any number of lines",
    allows=lambda value: isinstance(value, str) and any(map(str.isalnum, value)) and len(value) <= _MOST_PROSE,
    read=str,
)


def patterns_in(text: str) -> tuple[tuple[str, str], ...]:
    """Return the pairs of a text that has one on each line: what kind of secret it is, and the regular expression for it."""
    pairs = (line.partition(":") for line in text.splitlines() if line.strip())
    return tuple((kind.strip(), expression.strip()) for kind, _, expression in pairs)


def _are_patterns(value: object) -> bool:
    if not isinstance(value, str) or not value.strip() or len(value) > _MOST_PROSE:
        return False
    return all(kind and _is_pattern(expression) for kind, expression in patterns_in(value))


def _is_pattern(expression: str) -> bool:
    try:
        # One that matches the empty text would be found everywhere.
        return re.compile(expression).match("") is None
    except re.error:
        return False


PATTERNS: Final = Kind(
    name="patterns",
    accepts='lines of "kind: regular expression", each of which matches at least one character',
    allows=_are_patterns,
    read=str,
)
FRACTION: Final = Kind(name="share", accepts="a share above 0 and below 1", allows=_is_share, read=_read_number)
SHARE_OR_TOKENS: Final = Kind(
    name="share-or-tokens",
    accepts="a share above 0 and below 1, or a whole number of tokens from 1",
    allows=_is_step,
    read=_read_number,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepRecent:
    """The youngest observations, which no reflection touches: whichever of the two keeps more."""

    hours: float = 24
    observations: int = 50

    def __post_init__(self) -> None:
        problems: list[str] = []
        if not _within(self.hours, 0, _MOST):
            problems.append(f"keep_recent.hours = {shown(self.hours)} is not a number from 0.")
        if not count(0).allows(self.observations):
            text = f"keep_recent.observations = {shown(self.observations)}"
            problems.append(f"{text} is not a whole number from 0.")
        refuse(problems)

    def to_dict(self) -> dict[str, float]:
        """Return both numbers under their names, as a file has them."""
        return {"hours": self.hours, "observations": self.observations}


def _take_window(value: object) -> object:
    """Return the window of a table; one half alone is refused, since the other would be a guess."""
    if not isinstance(value, Mapping):
        return value
    parts = dict(cast("Mapping[str, Any]", value))
    if set(parts) != {"hours", "observations"}:
        raise ValueError(shown(parts))
    try:
        return KeepRecent(**parts)
    except ConfigError as error:
        raise ValueError(str(error)) from error


def _read_window(text: str) -> object:
    """Return the window of a text such as "24h, 50"."""
    hours, _, observations = text.partition(",")
    number = float(hours.strip().removesuffix("h"))
    whole = int(number) if isfinite(number) and number.is_integer() else number
    return _take_window({"hours": whole, "observations": int(observations)})


WINDOW: Final = Kind(
    name="window",
    accepts='hours and observations, both from 0 and both given (in a variable: "24h, 50")',
    allows=lambda value: isinstance(value, KeepRecent),
    read=_read_window,
    take=_take_window,
)
