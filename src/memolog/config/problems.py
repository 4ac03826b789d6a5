"""Word problems with settings, and report all of them in one error."""

from collections.abc import Iterable, Sequence
from typing import Final

from memolog.domain.errors import ConfigError

__all__ = ["nearest", "refuse", "shown"]

_WIDTH: Final = 80
_READABLE: Final = 10**15


def refuse(problems: Sequence[str]) -> None:
    """Raise one ConfigError that names every problem; do nothing when there is none."""
    if len(problems) == 1:
        raise ConfigError(problems[0])
    if problems:
        lines = "".join(f"\n- {problem}" for problem in problems)
        raise ConfigError(f"{len(problems)} problems in the settings:{lines}")


def shown(value: object) -> str:
    """Return the value as a message shows it: short, and safe for whatever was handed in."""
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
    """Return " Did you mean …?" for an unknown name, or nothing when none is near."""
    from difflib import get_close_matches  # noqa: PLC0415 - only ever needed for a mistake

    names = tuple(known)
    leaf = name.rpartition(".")[2]
    near = [known for known in names if known.rpartition(".")[2] == leaf]
    near = near or get_close_matches(name[:_WIDTH], names, n=1)
    return f" Did you mean {' or '.join(near)}?" if near else ""
