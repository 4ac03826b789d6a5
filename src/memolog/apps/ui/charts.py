"""Draw bars and plots as SVG on the server. Templates call these functions.

Colours come from classes of the style sheet, so that drawings follow light and dark. Each drawing has its numbers in a label.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

from markupsafe import Markup

from memolog.apps.ui.formats import brief, dollars, number

_WIDTH: Final = 100
_HEIGHT: Final = 8
# Background work starts at four fifths of a limit.
_HIGH: Final = 0.8


def bar(value: float, limit: float, label: str = "") -> Markup:
    """Return a bar that shows how much of a limit is used."""
    share = value / limit if limit else 0.0
    level = "over" if share > 1 else "high" if share > _HIGH else "fine"
    words = f"{label}: {number(value)} of {number(limit)}".removeprefix(": ")
    return Markup(
        '<svg class="bar {}" viewBox="0 0 {} {}" preserveAspectRatio="none" role="img" aria-label="{}"><title>{}</title>'
        '<rect class="room" width="{}" height="{}"/><rect class="used" width="{:.2f}" height="{}"/></svg>'
    ).format(level, _WIDTH, _HEIGHT, words, words, _WIDTH, _HEIGHT, min(share, 1.0) * _WIDTH, _HEIGHT)


def parts(values: Sequence[tuple[str, float]], total: float | None = None) -> Markup:
    """Return one bar of several parts, each with its name. `total` is the length of the whole bar."""
    whole = max(total or 0, sum(value for _, value in values)) or 1
    drawn, left = Markup(), 0.0
    for place, (name, value) in enumerate(values):
        width = value / whole * _WIDTH
        drawn += Markup('<rect class="part-{}" x="{:.2f}" width="{:.2f}" height="{}"><title>{}</title></rect>').format(
            place, left, width, _HEIGHT, f"{name}: {number(value)}"
        )
        left += width
    words = ", ".join(f"{name} {number(value)}" for name, value in values)
    return Markup(
        '<svg class="bar parts" viewBox="0 0 {} {}" preserveAspectRatio="none" role="img" aria-label="{}">'
        '<rect class="room" width="{}" height="{}"/>{}</svg>'
    ).format(_WIDTH, _HEIGHT, words, _WIDTH, _HEIGHT, drawn)


def columns(
    values: Sequence[tuple[str, float]],
    *,
    label: str,
    write: Callable[[float], str] = brief,
    width: int = 360,
    height: int = 72,
) -> Markup:
    """Return a plot with one column for each name and value. `write` writes a value in words."""
    most = max((value for _, value in values), default=0) or 1
    step = width / max(1, len(values))
    drawn = Markup()
    for place, (name, value) in enumerate(values):
        tall = value / most * (height - 2)
        drawn += Markup(
            '<g><title>{}</title><rect class="hover" x="{:.2f}" width="{:.2f}" height="{}"/>'
            '<rect class="column" x="{:.2f}" y="{:.2f}" width="{:.2f}" height="{:.2f}" rx="1"/></g>'
        ).format(
            f"{name}: {write(value)}",
            place * step,
            step,
            height,
            place * step + 1,
            height - tall,
            max(step - 2, 1),
            tall,
        )
    words = f"{label}; the most is {write(most if values else 0)}"
    return Markup(
        '<svg class="plot" viewBox="0 0 {} {}" role="img" aria-label="{}">{}'
        '<line class="axis" x1="0" x2="{}" y1="{}" y2="{}"/></svg>'
    ).format(width, height, words, drawn, width, height, height)


def lines(series: Sequence[tuple[str, Sequence[float]]], *, label: str, width: int = 640, height: int = 160) -> Markup:
    """Return a plot with one line for each series. All series have the same number of values."""
    most = max((value for _, values in series for value in values), default=0) or 1
    drawn = Markup()
    for place, (name, values) in enumerate(series):
        step = width / max(1, len(values) - 1)
        points = " ".join(
            f"{at * step:.1f},{height - value / most * (height - 4):.1f}" for at, value in enumerate(values)
        )
        drawn += Markup('<polyline class="line-{}" points="{}"><title>{}</title></polyline>').format(
            place, points, name
        )
    return Markup(
        '<svg class="plot" viewBox="0 0 {} {}" role="img" aria-label="{}">{}'
        '<line class="axis" x1="0" x2="{}" y1="{}" y2="{}"/></svg>'
    ).format(width, height, f"{label}; the most is {brief(most)}", drawn, width, height, height)


CHARTS: Final[dict[str, Callable[..., Any]]] = {
    "as_brief": brief,
    "as_dollars": dollars,
    "bar": bar,
    "columns": columns,
    "lines": lines,
    "parts": parts,
}
"""The functions that templates may call."""
