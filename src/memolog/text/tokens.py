"""Count the tokens of texts, calibrate counts with the numbers that providers report, and over-estimate uncountable values."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Final, Protocol

from memolog.core.exact_json import well_formed
from memolog.core.run import Calibration
from memolog.errors import ConfigError

if TYPE_CHECKING:
    from splintr import AnyTokenizer

_BYTES_PER_TOKEN: Final = 4


class TokenCounter(Protocol):
    """Counts the tokens of a text."""

    def count(self, text: str) -> int:
        """Return the number of tokens. The number for the empty text is zero."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class HeuristicCounter:
    """The default counter: one token for four UTF-8 bytes. Four characters per token would be far too few tokens for Chinese."""

    def count(self, text: str) -> int:
        """Return a quarter of the number of bytes, rounded up."""
        # The bytes of an ASCII text are as many as its characters, so it is not encoded.
        size = len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
        return -(-size // _BYTES_PER_TOKEN)


@dataclass(frozen=True, slots=True, kw_only=True)
class SplintrCounter:
    """Counts exactly with a vocabulary of `splintr-rs`. An unknown vocabulary raises an error when the counter is created."""

    vocabulary: str = "o200k_base"

    def __post_init__(self) -> None:
        _tokenizer(self.vocabulary)

    def count(self, text: str) -> int:
        """Return the number of tokens. Control words such as `<|endoftext|>` count as plain text."""
        tokenizer = _tokenizer(self.vocabulary)
        try:
            return len(tokenizer.encode_ordinary(text))
        except UnicodeEncodeError:
            return len(tokenizer.encode_ordinary(well_formed(text)))


@cache
def _tokenizer(vocabulary: str) -> "AnyTokenizer":
    try:
        from splintr import Tokenizer
    except ImportError as error:
        raise ConfigError(
            f"The token counter {vocabulary!r} needs splintr-rs, which is not installed.",
            why="Exact token counts need the optional dependency `tokens`.",
            then='Run: pip install "memolog[tokens]", or use HeuristicCounter().',
        ) from error
    try:
        return Tokenizer.from_pretrained(vocabulary)
    except ValueError as error:
        raise ConfigError(
            f"Unknown vocabulary {vocabulary!r}.",
            why=str(error),
            then="Use one of these vocabularies, or HeuristicCounter().",
        ) from error


def share(sizes: Sequence[int], budget: int) -> int:
    """Return the largest limit for the size of one item with which all items together fit the budget.

    The caller cuts larger items to this limit.
    """
    remaining, count = budget, len(sizes)
    for size in sorted(sizes):
        if size * count > remaining:
            return max(remaining // count, 0)
        remaining -= size
        count -= 1
    return max(sizes, default=0)


# ---------------------------------------------------------------- calibration

# The factor is the plain average of the first ten requests, then a moving average in which each new request has this weight.
# The factor adapts to a changed prompt within about twenty requests, and a single unusual request changes it little.
_MIN_WEIGHT: Final = 0.1
# A ratio outside these limits is replaced by the limit, because the two numbers are probably not of the same request.
_MIN_RATIO: Final = 0.25
_MAX_RATIO: Final = 4.0
# No request has this many tokens, so such a number is ignored.
_TOO_MANY: Final = 10**12


def learn(calibration: Calibration, counted: int, reported: int) -> Calibration:
    """Return the calibration after one more request. Impossible numbers, such as zero, do not change the calibration."""
    if not (0 < counted < _TOO_MANY and 0 < reported < _TOO_MANY):
        return calibration
    ratio = _clamped(reported / counted)
    samples = max(calibration.samples, 0)
    weight = max(1 / (samples + 1), _MIN_WEIGHT)
    factor = _usable(calibration.factor)
    return replace(calibration, factor=factor + weight * (ratio - factor), samples=samples + 1)


def calibrated(factor: float, tokens: int) -> int:
    """Return the number of tokens that the provider will probably report, rounded up, if Memolog counts `tokens` tokens."""
    # The product is rounded first, so that an error of floating-point arithmetic does not add a token.
    usable = factor if _MIN_RATIO <= factor <= _MAX_RATIO else _usable(factor)
    return math.ceil(round(max(tokens, 0) * usable, 6))


def uncalibrated(factor: float, tokens: int) -> int:
    """Return how many counted tokens the provider will probably report as at most `tokens` tokens."""
    usable = factor if _MIN_RATIO <= factor <= _MAX_RATIO else _usable(factor)
    return math.floor(round(max(tokens, 0) / usable, 6))


def _usable(factor: float) -> float:
    """Return the factor within its limits, or 1 if the factor is not a positive finite number."""
    return _clamped(factor) if 0 < factor < math.inf else 1.0


def _clamped(ratio: float) -> float:
    return min(max(ratio, _MIN_RATIO), _MAX_RATIO)


# ---------------------------------------------------------------- over-estimates

# Real texts have about four bytes per token. With three, the estimate is a third higher.
_MIN_BYTES_PER_TOKEN: Final = 3
# Tokens for the wrapping of a value, and the assumed bytes of a value that cannot be read.
_WRAPPING: Final = 8
_UNREADABLE: Final = 300


def guarded(measure: Callable[[], int], value: object) -> int:
    """Return the result of `measure`, or an over-estimate of `value` if `measure` raises."""
    try:
        return max(int(measure()), 0)
    except Exception:  # noqa: BLE001 - a count must never stop a turn
        return over_estimate(value)


def over_estimate(value: object) -> int:
    """Return a number of tokens that is probably too high for `value`. Never raises."""
    try:
        text = value if isinstance(value, str) else repr(value)
        size = len(text.encode("utf-8", "surrogatepass")) + 2
    except Exception:  # noqa: BLE001 - `repr` of an object may raise anything
        size = _UNREADABLE
    return _WRAPPING + -(-size // _MIN_BYTES_PER_TOKEN)
