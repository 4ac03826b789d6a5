"""Learn the factor between our counts and those that a provider reports. It scales thresholds; stored counts stay."""

import math
from dataclasses import replace
from typing import Final

from memolog.domain.run import Calibration

__all__ = ["apply", "learn"]

# A plain average at first, then a moving one in which a request weighs a tenth: a changed prompt is
# followed in some twenty requests, and a single odd one moves little.
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


def apply(factor: float, tokens: int) -> int:
    """Return how many tokens the provider will report for what we count as `tokens`, rounded up."""
    # A rounding error below a millionth must not add a token.
    return math.ceil(round(max(tokens, 0) * _usable(factor), 6))


def _usable(factor: float) -> float:
    """Return the factor within its bounds, or 1 if it is not a usable number."""
    return _clamped(factor) if 0 < factor < math.inf else 1.0


def _clamped(ratio: float) -> float:
    return min(max(ratio, _LEAST), _MOST)
