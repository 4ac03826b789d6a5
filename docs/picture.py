"""Draw the picture of the README: what the demo really prints, as an SVG.

Run by `make docs`; a test fails when the picture differs from what the demo prints now.
"""

import asyncio
import tempfile
import unicodedata
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path

from memolog.apps.demo.play import Demo, show
from memolog.apps.demo.screen import Piece, Screen, level_rows
from memolog.events import Windows

__all__ = ["Recorder", "draw", "picture"]

HERE = Path(__file__).parent
# Where each part of the output begins, and how many lines of it are drawn.
PARTS = (
    ("Memolog: ", 6),
    ("Monday 2 March", 7),
    ("  messages  api", 2),
    ("Friday 6 March", 6),
    ("  15:40  api", 6),
    ("Friday 13 March", 21),
    ("What it came to", 10),
)
CUT = "    ⋮"
COLOURS = {
    "": "#d0d7de",
    "title": "#ffffff",
    "dim": "#7d8590",
    "user": "#ffffff",
    "note": "#56d4dd",
    "log": "#56d364",
    "fold": "#d2a8ff",
    "crash": "#ff7b72",
    "good": "#56d364",
    "code": "#e3b341",
}
BOLD = {"title", "user", "crash", "good"}
COLUMN, ROW, MARGIN = 8.0, 19, 22
COLUMNS = 98


class Recorder(Screen):
    """A screen that keeps what it is shown."""

    def __init__(self) -> None:
        super().__init__(quiet=True)
        self.lines: list[tuple[Piece, ...]] = []

    def line(self, *pieces: Piece) -> None:
        """Keep a line."""
        self.lines.append(pieces)

    def day_ends(self, levels: Mapping[str, Windows]) -> None:
        """Keep the bars at the end of a day."""
        self.lines += [(row,) for row in level_rows(levels)]


def picture(lines: Sequence[tuple[Piece, ...]]) -> str:
    """Return the picture of what the demo printed."""
    texts = ["".join(piece if isinstance(piece, str) else piece[0] for piece in line) for line in lines]
    chosen: list[tuple[Piece, ...]] = []
    end = 0
    for start, count in PARTS:
        first = next(number for number, text in enumerate(texts) if text.startswith(start))
        if chosen:
            chosen += lines[end:first] if first - end <= 1 else [((CUT, "dim"),)]
        chosen += lines[first : first + count]
        end = first + count
    return draw(chosen)


def draw(lines: Sequence[tuple[Piece, ...]]) -> str:
    """Return lines as an SVG that looks like a terminal."""
    width, height = round(COLUMNS * COLUMN + 2 * MARGIN), len(lines) * ROW + 2 * MARGIN + 20
    drawn = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">',
        "<title>What the demo prints</title>",
        f'<rect width="{width}" height="{height}" rx="10" fill="#0d1117"/>',
        *(
            f'<circle cx="{MARGIN + 18 * n}" cy="20" r="6" fill="{c}"/>'
            for n, c in enumerate(("#ff5f57", "#febc2e", "#28c840"))
        ),
        '<g font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, DejaVu Sans Mono, monospace" font-size="13">',
    ]
    for number, line in enumerate(lines):
        drawn += _row(line, MARGIN + 30 + number * ROW)
    return "\n".join([*drawn, "</g>", "</svg>", ""])


def _row(line: Sequence[Piece], y: int) -> list[str]:
    """Return the pieces of a line, each at its column, so that bars stand below each other in any font."""
    found: list[str] = []
    column = 0
    for piece in line:
        text, style = (piece, "") if isinstance(piece, str) else piece
        blank = len(text) - len(text.lstrip())
        body = text.strip()
        if body:
            x, length = MARGIN + (column + blank) * COLUMN, _columns(body) * COLUMN
            weight = ' font-weight="bold"' if style in BOLD else ""
            found.append(
                f'<text x="{x:g}" y="{y}" fill="{COLOURS[style]}"{weight} xml:space="preserve" textLength="{length:g}" '
                f'lengthAdjust="spacingAndGlyphs">{escape(body, quote=False)}</text>'
            )
        column += _columns(text)
    return found


def _columns(text: str) -> int:
    return sum(2 if unicodedata.east_asian_width(mark) in "WF" else 1 for mark in text)


def _print() -> Sequence[tuple[Piece, ...]]:
    recorder = Recorder()
    with tempfile.TemporaryDirectory() as folder:
        show(asyncio.run(Demo(str(Path(folder) / "demo.db"), recorder).play()), recorder)
    return recorder.lines


if __name__ == "__main__":
    (HERE / "demo.svg").write_text(picture(_print()), encoding="utf-8")
