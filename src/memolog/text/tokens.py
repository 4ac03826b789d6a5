"""Count the tokens of texts, calibrate counts by what providers report, and over-estimate values that cannot be counted."""

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
        """Return the number of tokens, zero for the empty text."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class HeuristicCounter:
    """The default: a quarter of the UTF-8 bytes. A share of the characters would be far too low for Chinese."""

    def count(self, text: str) -> int:
        """Return a quarter of the text's bytes, at least one for any text that is not empty."""
        # An ASCII text has as many bytes as characters.
        size = len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
        return -(-size // _BYTES_PER_TOKEN)


@dataclass(frozen=True, slots=True, kw_only=True)
class SplintrCounter:
    """Counts exactly with a vocabulary of `splintr-rs`, which is loaded at construction so that an error shows early."""

    vocabulary: str = "o200k_base"

    def __post_init__(self) -> None:
        _tokenizer(self.vocabulary)

    def count(self, text: str) -> int:
        """Return the number of tokens; control words like `<|endoftext|>` count as plain text."""
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
            why="Exact token counts are an extra.",
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
    """Return the largest share per item so that all items fit the budget; items below it keep their size."""
    left, count = budget, len(sizes)
    for size in sorted(sizes):
        if size * count > left:
            return max(left // count, 0)
        left -= size
        count -= 1
    return max(sizes, default=0)


# ---------------------------------------------------------------- calibration

# A plain average at first, then a moving one in which a request weighs a tenth: the factor follows a
# changed prompt within about twenty requests, and a single odd one changes little.
_LEAST_WEIGHT: Final = 0.1
# Beyond these the two numbers were not about the same request.
_LEAST: Final = 0.25
_MOST: Final = 4.0
# No request has this many tokens.
_NONSENSE: Final = 10**12


def learn(calibration: Calibration, counted: int, reported: int) -> Calibration:
    """Return the calibration after one more request; nonsense such as zero changes nothing."""
    if not (0 < counted < _NONSENSE and 0 < reported < _NONSENSE):
        return calibration
    ratio = _clamped(reported / counted)
    samples = max(calibration.samples, 0)
    weight = max(1 / (samples + 1), _LEAST_WEIGHT)
    known = _usable(calibration.factor)
    return replace(calibration, factor=known + weight * (ratio - known), samples=samples + 1)


def calibrated(factor: float, tokens: int) -> int:
    """Return how many tokens the provider will report for what we count as `tokens`, rounded up."""
    # A rounding error below a millionth must not add a token.
    return math.ceil(round(max(tokens, 0) * _usable(factor), 6))


def _usable(factor: float) -> float:
    """Return the factor within its bounds, or 1 if it is not a usable number."""
    return _clamped(factor) if 0 < factor < math.inf else 1.0


def _clamped(ratio: float) -> float:
    return min(max(ratio, _LEAST), _MOST)


# ---------------------------------------------------------------- over-estimates

# Real texts have about four bytes per token; three leaves a third to spare.
_FEWEST_BYTES_PER_TOKEN: Final = 3
_WRAPPING: Final = 8
_UNREADABLE: Final = 300


def guarded(measure: Callable[[], int], value: object) -> int:
    """Return the result of `measure`, or an over-estimate of `value` if it raises."""
    try:
        return max(int(measure()), 0)
    except Exception:  # noqa: BLE001 - a count must never stop a turn
        return over_estimate(value)


def over_estimate(value: object) -> int:
    """Return more tokens than `value` is likely to cost; never raises."""
    try:
        text = value if isinstance(value, str) else repr(value)
        size = len(text.encode("utf-8", "surrogatepass")) + 2
    except Exception:  # noqa: BLE001 - objects may raise anything when looked at
        size = _UNREADABLE
    return _WRAPPING + -(-size // _FEWEST_BYTES_PER_TOKEN)
