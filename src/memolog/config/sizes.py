"""Compute thresholds in tokens from shares and factors. Values must have been checked before."""

from typing import Final, Literal, TypeAlias

__all__ = [
    "LEAST_KEPT",
    "LEAST_LIMIT",
    "LEAST_REPEATED",
    "MODE_TOKENS",
    "Mode",
    "Voice",
    "block_at",
    "shared_threshold",
    "threshold",
]

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
"""How long a tail each mode waits for, where message_tokens does not say."""

LEAST_KEPT: Final = 1_000
"""From here an activation is a number of tokens, not a share."""

LEAST_LIMIT: Final = 100
"""From here a limit is a number of tokens, not a factor."""

LEAST_REPEATED: Final = 2_000
"""However small a tail may be, a request of this size is repeated whole."""


def threshold(message_tokens: int | None, mode: str) -> int:
    """Return T: what was given, or else what the mode asks for."""
    return MODE_TOKENS[mode] if message_tokens is None else message_tokens


def block_at(block_after: float, limit: int) -> int:
    """Return the size above which a turn may wait; never below what it is a limit of."""
    absolute = block_after >= LEAST_LIMIT
    return max(limit, int(block_after) if absolute else round(limit * block_after))


def shared_threshold(limit: int, log_limit: int, log_tokens: int) -> int:
    """Return T when messages may use what the log leaves free."""
    return max(limit, limit + log_limit - log_tokens)
