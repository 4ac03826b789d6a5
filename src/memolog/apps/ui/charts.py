"""Draw bars and plots as SVG on the server. Templates call these functions.

Colours come from classes of the style sheet, so that drawings follow light and dark. Each drawing has its numbers in a label.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from markupsafe import Markup

from memolog.apps.ui.formats import brief, cut, dollars, number

_WIDTH: Final = 100
_HEIGHT: Final = 8
# The boxes of a graph, and from the beginning of one to the next, in pixels.
_BOX_X, _BOX_Y, _STEP_X, _STEP_Y = 240, 48, 290, 62
_BOX_LETTERS: Final = 29
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A box of a graph, which leads to a page. `kind` is its class in the style sheet."""

    key: str
    name: str
    title: str
    kind: str
    href: str


def graph(nodes: Sequence[Node], edges: Sequence[tuple[str, str]], *, label: str) -> Markup:
    """Return boxes with arrows between them. Every arrow leads to the right, because a box stands behind all before it."""
    known = {node.key for node in nodes}
    arrows = [(one, other) for one, other in dict.fromkeys(edges) if one in known and other in known]
    level = dict.fromkeys([node.key for node in nodes], 0)
    # As many rounds as boxes are enough for the longest chain, and end also if there is a circle.
    for _ in nodes:
        moved = {other: max(level[one] + 1, level[other]) for one, other in sorted(arrows, key=lambda a: level[a[0]])}
        if all(level[key] == value for key, value in moved.items()):
            break
        level |= moved
    places: dict[str, tuple[int, int]] = {}
    filled: dict[int, int] = {}
    for node in sorted(nodes, key=lambda node: level[node.key]):
        column = level[node.key]
        row = filled.get(column, 0)
        places[node.key], filled[column] = (column * _STEP_X, row * _STEP_Y), row + 1
    width = max((x for x, _ in places.values()), default=0) + _BOX_X
    height = max((y for _, y in places.values()), default=0) + _BOX_Y
    drawn = Markup()
    for one, other in arrows:
        (x1, y1), (x2, y2) = places[one], places[other]
        x1, y1, y2, half = x1 + _BOX_X, y1 + _BOX_Y // 2, y2 + _BOX_Y // 2, (_STEP_X - _BOX_X) // 2
        drawn += Markup('<path class="arrow" d="M{},{} C{},{} {},{} {},{}" marker-end="url(#head)"/>').format(
            x1, y1, x1 + half, y1, x2 - half, y2, x2 - 7, y2
        )
    for node in nodes:
        x, y = places[node.key]
        drawn += Markup(
            '<a href="{}"><title>{}</title><rect class="box {}" x="{}" y="{}" width="{}" height="{}" rx="7"/>'
            '<text class="name" x="{}" y="{}">{}</text><text x="{}" y="{}">{}</text></a>'
        ).format(
            node.href, cut(node.title), node.kind, x + 1, y + 1, _BOX_X - 2, _BOX_Y - 2,
            x + 12, y + 19, node.name, x + 12, y + 37, cut(node.title, _BOX_LETTERS),
        )  # fmt: skip
    return Markup(
        '<svg class="graph" width="{}" height="{}" viewBox="0 0 {} {}" role="group" aria-label="{}"><defs><marker id="head"'
        ' viewBox="0 0 8 8" refX="1" refY="4" markerWidth="8" markerHeight="8" orient="auto"><path d="M0,0 L8,4 L0,8 z"/>'
        "</marker></defs>{}</svg>"
    ).format(width, height, width, height, label, drawn)


def timeline(marks: Sequence[tuple[float, str, str, str]], *, label: str, width: int = 900, height: int = 64) -> Markup:
    """Return marks on a line. A mark has its place from 0 to 1, its class, its words, and its link or nothing."""
    drawn = Markup()
    middle, room = height / 2, width - 24
    for place, kind, words, href in marks:
        x = 12 + place * room
        shape = (
            Markup(
                '<rect class="tick {}" x="{:.1f}" y="{}" width="5" height="{}" rx="2"><title>{}</title></rect>'
            ).format(kind, x - 2.5, middle - 20, 40, words)
            if href
            else Markup('<circle class="tick {}" cx="{:.1f}" cy="{}" r="4"><title>{}</title></circle>').format(
                kind, x, middle, words
            )
        )
        drawn += Markup('<a href="{}" aria-label="{}">{}</a>').format(href, words, shape) if href else shape
    return Markup(
        '<svg class="plot timeline" viewBox="0 0 {} {}" role="group" aria-label="{}">'
        '<line class="axis" x1="0" x2="{}" y1="{}" y2="{}"/>{}</svg>'
    ).format(width, height, label, width, middle, middle, drawn)


CHARTS: Final[dict[str, Callable[..., Any]]] = {
    "as_brief": brief,
    "as_dollars": dollars,
    "bar": bar,
    "columns": columns,
    "draw_graph": graph,
    "lines": lines,
    "parts": parts,
    "timeline": timeline,
}
"""The functions that templates may call."""
