"""Tables in plain text and percentiles, for all benchmarks."""

import math
from collections.abc import Iterable, Sequence

__all__ = ["median", "percentile", "table"]


def percentile(values: Iterable[float], share: float) -> float:
    """Return the value below which this share (0 to 1) of the values lies. It is interpolated between two neighbours."""
    ordered = sorted(values)
    if not ordered:
        return math.nan
    place = (len(ordered) - 1) * share
    low, high = ordered[math.floor(place)], ordered[math.ceil(place)]
    return low + (high - low) * (place - math.floor(place))


def median(values: Iterable[float]) -> float:
    """Return the median of the values."""
    return percentile(values, 0.5)


def table(headers: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table in plain text. The first column is aligned left, the others right."""
    cells = [list(headers), *([_cell(value) for value in row] for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(headers))]
    lines = ["  ".join(_aligned(row, widths)).rstrip() for row in cells]
    return "\n".join([lines[0], "  ".join("-" * width for width in widths), *lines[1:]])


def _aligned(row: Sequence[str], widths: Sequence[int]) -> list[str]:
    first, *rest = zip(row, widths, strict=True)
    return [first[0].ljust(first[1]), *(text.rjust(width) for text, width in rest)]


def _cell(value: object) -> str:
    match value:
        case None:
            return "-"
        case float():
            return "-" if math.isnan(value) else f"{value:,.2f}" if abs(value) < 100 else f"{value:,.0f}"
        case int():
            return f"{value:,}"
        case _:
            return str(value)
