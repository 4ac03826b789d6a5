"""Kinds of settings: how a value is checked, read from text and documented. Also compute thresholds from settings."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from math import isfinite
from typing import Any, ClassVar, Final, Literal, Self, TypeAlias, TypeGuard, TypeVar, cast

from memolog.errors import ConfigError

Mode: TypeAlias = Literal["default", "explore", "bug_fixing", "refactoring", "testing", "debugging", "research"]
Voice: TypeAlias = Literal["coding", "general"]

MODE_TOKENS: Final[dict[str, int]] = {
    "default": 30_000,
    "explore": 60_000,
    "bug_fixing": 40_000,
    "refactoring": 50_000,
    "testing": 40_000,
    "debugging": 40_000,
    "research": 60_000,
}
"""The value of `observation.message_tokens` in each mode, if it is not set."""

LEAST_KEPT: Final = 1_000
"""A `buffer_activation` of at least this value is a number of tokens. A smaller value is a share."""

LEAST_LIMIT: Final = 100
"""A `block_after` of at least this value is a number of tokens. A smaller value is a factor."""

LEAST_REPEATED: Final = 2_000
"""The minimum of `Config.repeated_tokens`, in tokens."""

_WIDTH: Final = 80
_READABLE: Final = 10**15

# Larger numbers are mistakes. The limits also keep every product with a factor finite.
_MOST: Final = 10**12
# Database timeouts are 32-bit milliseconds: at most 24 days.
_MOST_SECONDS: Final = 2_000_000

# Instructions are sent with every call. A longer text is a document, pasted by mistake.
_MOST_PROSE: Final = 20_000

_UNITS: Final = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86_400}
_TRUE: Final = frozenset({"true", "yes", "on", "1"})
_FALSE: Final = frozenset({"false", "no", "off", "0"})

PREFIX: Final = "MEMOLOG_"

Value = TypeVar("Value")


def threshold(message_tokens: int | None, mode: str) -> int:
    """Return T: the given number of tokens, or the number of the mode."""
    return MODE_TOKENS[mode] if message_tokens is None else message_tokens


def block_at(block_after: float, limit: int) -> int:
    """Return the size above which a turn may wait. It is at least `limit`."""
    absolute = block_after >= LEAST_LIMIT
    return max(limit, int(block_after) if absolute else round(limit * block_after))


def shared_threshold(limit: int, log_limit: int, log_tokens: int) -> int:
    """Return T if messages may use the tokens that the log leaves free."""
    return max(limit, limit + log_limit - log_tokens)


def refuse(problems: Sequence[str]) -> None:
    """Raise one ConfigError with all problems. Do nothing if there is none."""
    if len(problems) == 1:
        raise ConfigError(problems[0])
    if problems:
        lines = "".join(f"\n- {problem}" for problem in problems)
        raise ConfigError(f"{len(problems)} problems in the settings:{lines}")


def shown(value: object) -> str:
    """Return a short text of any value, for an error message."""
    if isinstance(value, int) and not isinstance(value, bool):
        if abs(value) < _READABLE:
            return f"{value:,}"
        return f"a number of {value.bit_length()} bits"
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - a foreign __repr__ must not hide the real problem
        return f"a value of type {type(value).__name__}"
    return text if len(text) <= _WIDTH else f"{text[:_WIDTH]}…"


def nearest(name: str, known: Iterable[str]) -> str:
    """Return " Did you mean …?" for an unknown name, or an empty text if no known name is similar."""
    from difflib import get_close_matches  # noqa: PLC0415 - only ever needed for a mistake

    names = tuple(known)
    leaf = name.rpartition(".")[2]
    near = [known for known in names if known.rpartition(".")[2] == leaf]
    near = near or get_close_matches(name[:_WIDTH], names, n=1)
    return f" Did you mean {' or '.join(near)}?" if near else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingKind:
    """One kind of value. `accepts` completes the sentence "… is not …"."""

    name: str
    accepts: str
    allows: Callable[[object], bool]
    read: Callable[[str], object]
    """Converts the text of an environment variable. Raises ValueError."""
    take: Callable[[object], object] = lambda value: value
    """Converts a value of a file or a mapping. Raises ValueError."""
    choices: tuple[str, ...] = ()


def _is_whole(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: object) -> TypeGuard[float]:
    return _is_whole(value) or (isinstance(value, float) and isfinite(value))


def _is_amount(value: object, most: float) -> bool:
    return _is_number(value) and 0 <= value <= most


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


def _read_flag(text: str) -> object:
    word = text.lower()
    if word not in _TRUE | _FALSE:
        raise ValueError(text)
    return word in _TRUE


def tokens(least: int = 1) -> SettingKind:
    """Return the kind for a number of tokens."""
    return replace(count(least), name="tokens", accepts=f"a whole number of tokens from {least:,}")


def count(least: int = 1) -> SettingKind:
    """Return the kind for a whole number."""
    return SettingKind(
        name="count",
        accepts=f"a whole number from {least:,}",
        allows=lambda value: _is_whole(value) and least <= value <= _MOST,
        read=int,
    )


def seconds(*, zero: bool = False) -> SettingKind:
    """Return the kind for a duration; `zero` allows 0."""
    start = "from 0" if zero else "above 0"
    return SettingKind(
        name="seconds",
        accepts=f'a number of seconds {start} (in files and variables also "30s", "5m", "24h")',
        allows=lambda value: _is_amount(value, _MOST_SECONDS) and (zero or value != 0),
        read=_read_seconds,
        take=lambda value: _read_seconds(value.strip()) if isinstance(value, str) else value,
    )


def dollars() -> SettingKind:
    """Return the kind for an amount of money."""
    return SettingKind(
        name="dollars",
        accepts="an amount of US dollars from 0",
        allows=lambda value: _is_amount(value, _MOST),
        read=_read_number,
    )


def choice(*words: str) -> SettingKind:
    """Return the kind for one word out of a few."""
    return SettingKind(
        name="choice",
        accepts=f"one of {', '.join(words)}",
        allows=lambda value: isinstance(value, str) and value in words,
        read=str,
        choices=words,
    )


def _is_share(value: object) -> bool:
    return isinstance(value, float) and 0 < value < 1


def keep_share_or_tokens(base: str) -> SettingKind:
    """Return the kind of a value that is a share of `base`, up to 1, or a number of tokens from 1,000."""
    return SettingKind(
        name="share-or-tokens",
        accepts=f"a share of {base} above 0 and up to 1, or a whole number of tokens from 1,000",
        allows=lambda value: (
            (_is_amount(value, 1) and value != 0) or (_is_whole(value) and LEAST_KEPT <= value <= _MOST)
        ),
        read=_read_number,
    )


def factor_or_tokens(base: str) -> SettingKind:
    """Return the kind of a value that is a factor of `base`, below 100, or a number of tokens from 100."""
    return SettingKind(
        name="factor-or-tokens",
        accepts=f"a factor of {base} from 1 to below 100, or a whole number of tokens from 100",
        allows=lambda value: (
            _is_number(value) and (1 <= value < LEAST_LIMIT or (_is_whole(value) and LEAST_LIMIT <= value <= _MOST))
        ),
        read=_read_number,
    )


def _also(
    kind: SettingKind, extra: object, words: frozenset[str], accepts: str, choices: tuple[str, ...] = ()
) -> SettingKind:
    """Return the kind, extended by the value `extra`. In an environment variable, any of `words` means this value."""

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


def optional(kind: SettingKind) -> SettingKind:
    """Return the kind, extended by None ("none" in a variable)."""
    return _also(kind, None, frozenset({"none"}), f"{kind.accepts}, or None")


def or_false(kind: SettingKind) -> SettingKind:
    """Return the kind, extended by False, which means off."""
    return _also(kind, False, _FALSE - {"0"}, f"{kind.accepts}, or False")


def or_word(word: str, kind: SettingKind) -> SettingKind:
    """Return the kind, extended by one word."""
    return _also(kind, word, frozenset({word}), f'"{word}", {kind.accepts}', (word,))


FLAG: Final = SettingKind(
    name="flag",
    accepts="True or False",
    allows=lambda value: isinstance(value, bool),
    read=_read_flag,
)
TEXT: Final = SettingKind(
    name="text",
    accepts="a text of printable characters, at least one",
    allows=lambda value: isinstance(value, str) and bool(value.strip()) and value.isprintable(),
    read=str,
)
PROSE: Final = SettingKind(
    name="prose",
    accepts="a text with at least one word, on any number of lines",
    allows=lambda value: isinstance(value, str) and any(map(str.isalnum, value)) and len(value) <= _MOST_PROSE,
    read=str,
)


def patterns_in(text: str) -> tuple[tuple[str, str], ...]:
    """Return the patterns of a text with one on each line: the kind of secret, and its regular expression."""
    pairs = (line.partition(":") for line in text.splitlines() if line.strip())
    return tuple((kind.strip(), expression.strip()) for kind, _, expression in pairs)


def _are_patterns(value: object) -> bool:
    if not isinstance(value, str) or not value.strip() or len(value) > _MOST_PROSE:
        return False
    return all(kind and _is_pattern(expression) for kind, expression in patterns_in(value))


def _is_pattern(expression: str) -> bool:
    try:
        # A pattern that matches the empty text would match everywhere.
        return re.compile(expression).match("") is None
    except re.error:
        return False


PATTERNS: Final = SettingKind(
    name="patterns",
    accepts='lines of "kind: regular expression", each of which matches at least one character',
    allows=_are_patterns,
    read=str,
)
FRACTION: Final = SettingKind(name="share", accepts="a share above 0 and below 1", allows=_is_share, read=_read_number)
SHARE_OR_TOKENS: Final = SettingKind(
    name="share-or-tokens",
    accepts="a share above 0 and below 1, or a whole number of tokens from 1",
    allows=lambda value: _is_share(value) or (_is_whole(value) and 1 <= value <= _MOST),
    read=_read_number,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepRecent:
    """The newest observations, not reflected automatically: those of the last `hours`, but at least the last `observations`."""

    hours: float = 24
    observations: int = 50

    def __post_init__(self) -> None:
        problems: list[str] = []
        if not _is_amount(self.hours, _MOST):
            problems.append(f"keep_recent.hours = {shown(self.hours)} is not a number from 0.")
        if not count(0).allows(self.observations):
            text = f"keep_recent.observations = {shown(self.observations)}"
            problems.append(f"{text} is not a whole number from 0.")
        refuse(problems)

    def to_dict(self) -> dict[str, float]:
        """Return both numbers by name."""
        return {"hours": self.hours, "observations": self.observations}


def _take_window(value: object) -> object:
    """Return the KeepRecent of a table. Raise ValueError unless the table has exactly the two numbers."""
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
    """Return the KeepRecent of a text such as "24h, 50"."""
    hours, _, observations = text.partition(",")
    number = float(hours.strip().removesuffix("h"))
    whole = int(number) if isfinite(number) and number.is_integer() else number
    return _take_window({"hours": whole, "observations": int(observations)})


WINDOW: Final = SettingKind(
    name="window",
    accepts='hours and observations, both from 0 and both given (in a variable: "24h, 50")',
    allows=lambda value: isinstance(value, KeepRecent),
    read=_read_window,
    take=_take_window,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """The name, kind, default and meaning of one setting."""

    name: str
    """The dotted name, such as observation.message_tokens."""
    kind: SettingKind
    default: object
    meaning: str
    environment: str
    """The environment variable that sets it."""

    def problem(self, value: object, where: str = "") -> str:
        """Return a sentence that says why the value is refused."""
        return f"{self.name} = {shown(value)}{where} is not {self.kind.accepts}."


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingGroup:
    """Settings, and the names of those that were given. A stored setting replaces only settings that were not given."""

    given: frozenset[str] = field(init=False, repr=False, compare=False)
    prefix: ClassVar[str] = ""
    """The prefix of the names of its settings, such as `observation.`"""

    def __new__(cls, **values: object) -> Self:
        """Record which settings are given, before `__post_init__` checks their values."""
        return object.__new__(cls).with_given(_named(cls, values))

    def __post_init__(self) -> None:
        refuse([*wrong_values(self, self.prefix).values()])

    def with_given(self, names: Iterable[str]) -> Self:
        """Set the names of the given settings, and return the object itself."""
        object.__setattr__(self, "given", frozenset(names))
        return self


def _named(made: type[Any], values: Mapping[str, object]) -> Iterable[str]:
    own = {item.name: item for item in fields(made) if item.init}
    if own.keys() != values.keys():
        return values
    # `dataclasses.replace` passes every setting, so count only those that differ from their defaults.
    return [name for name, item in own.items() if "kind" not in item.metadata or values[name] != item.default]


def declare(kind: SettingKind, default: Value, meaning: str) -> Value:
    """Return a dataclass field with its kind and documentation."""
    # Typed as the default, as `dataclasses.field` is, so that a wrong default is a type error.
    made: Any = field(default=default, metadata={"kind": kind, "meaning": meaning})
    return made


def declared(section: type[Any], prefix: str = "") -> Iterator[Setting]:
    """Yield the settings of a dataclass in the order of its fields."""
    for item in fields(section):
        if "kind" in item.metadata:
            name = prefix + item.name
            yield Setting(
                name=name,
                kind=item.metadata["kind"],
                default=item.default,
                meaning=item.metadata["meaning"],
                environment=PREFIX + name.replace(".", "_").upper(),
            )


def wrong_values(owner: object, prefix: str = "") -> dict[str, str]:
    """Return a sentence for each field whose value its kind does not allow, by name."""
    problems: dict[str, str] = {}
    for setting in declared(type(owner), prefix):
        value = getattr(owner, setting.name.removeprefix(prefix))
        if not setting.kind.allows(value):
            problems[setting.name] = setting.problem(value)
    return problems
