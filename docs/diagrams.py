"""Draw the diagrams of the documentation as SVG, so that they are seen without a script or a network.

The rules are drawn from the table of rules, the rooms from the import contracts. Run by `make docs`; a test fails when a file
differs from what this would draw.
"""

import ast
import re
import tomllib
from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path
from textwrap import wrap

from memolog.log.decide import RULES

__all__ = ["DIAGRAMS"]

HERE = Path(__file__).parent
PROJECT = HERE.parent
INK, FAINT = "#1f2328", "#59636e"
FILLS = {
    "plain": ("#ffffff", "#8c959f"),
    "raw": ("#ddf4ff", "#54aeff"),
    "log": ("#dafbe1", "#4ac26b"),
    "fold": ("#fbefff", "#c297ff"),
    "edge": ("#fff8c5", "#d4a72c"),
    "bad": ("#ffebe9", "#ff8182"),
    "quiet": ("#f6f8fa", "#d1d9e0"),
}
LINE = 17
Point = tuple[float, float]


def box(x: float, y: float, width: float, height: float, text: str, fill: str = "plain") -> str:
    """Return a box; the first line of its text is bold where there are several."""
    colour, border = FILLS[fill]
    lines = text.split("\n")
    top = y + height / 2 - (len(lines) - 1) * LINE / 2 + 4.5
    drawn = [
        f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="7" fill="{colour}" stroke="{border}"/>'
    ]
    for number, line in enumerate(lines):
        style = ' font-weight="600"' if number == 0 and len(lines) > 1 else ""
        drawn.append(said(x + width / 2, top + number * LINE, line, extra=f' text-anchor="middle"{style}'))
    return "\n".join(drawn)


def said(x: float, y: float, text: str, *, colour: str = INK, extra: str = "") -> str:
    """Return a line of text."""
    return f'<text x="{x:g}" y="{y:g}" fill="{colour}"{extra}>{escape(text, quote=False)}</text>'


def note(x: float, y: float, text: str, *, anchor: str = "start") -> str:
    """Return lines of small text beside something."""
    extra = f' font-size="12" text-anchor="{anchor}"'
    return "\n".join(
        said(x, y + number * 15, line, colour=FAINT, extra=extra) for number, line in enumerate(text.split("\n"))
    )


def arrow(*points: Point, dashed: bool = False) -> str:
    """Return an arrow along points."""
    path = " ".join(f"{x:g},{y:g}" for x, y in points)
    dash = ' stroke-dasharray="5 4"' if dashed else ""
    return f'<polyline points="{path}" fill="none" stroke="{FAINT}" stroke-width="1.4"{dash} marker-end="url(#head)"/>'


def drawing(width: float, height: float, title: str, shapes: Sequence[str]) -> str:
    """Return the whole picture, on a light card that is readable on any background."""
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" role="img">',
            f"<title>{escape(title, quote=False)}</title>",
            '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">',
            f'<path d="M0,0 L8,4 L0,8 z" fill="{FAINT}"/></marker></defs>',
            f'<rect width="{width:g}" height="{height:g}" rx="10" fill="#ffffff"/>',
            '<g font-family="system-ui, -apple-system, Segoe UI, Roboto, Helvetica, Arial, sans-serif" font-size="13">',
            *shapes,
            "</g>",
            "</svg>",
            "",
        ]
    )


# ---------------------------------------------------------------- the diagrams


def prompt() -> str:
    """Return the picture of four requests: what the model sees as the conversation grows."""
    rows: list[tuple[str, str, list[tuple[float, str, str]]]] = [
        (
            "turn 12",
            "the tail grows",
            [(90, "how to", "quiet"), (120, "log", "log"), (290, "tail, word for word", "raw")],
        ),
        (
            "turn 13",
            "only appended to",
            [(90, "how to", "quiet"), (120, "log", "log"), (330, "tail, a little longer", "raw")],
        ),
        (
            "activation",
            "old messages move into the log",
            [(90, "how to", "quiet"), (120, "log", "log"), (70, "new", "log"), (120, "tail", "raw")],
        ),
        (
            "reflection",
            "the old part of the log is condensed",
            [(90, "how to", "quiet"), (80, "condensed", "fold"), (70, "log", "log"), (180, "tail", "raw")],
        ),
    ]
    shapes = [note(22, 30, "each row is one request, from its beginning to its end")]
    for number, (name, words, parts) in enumerate(rows):
        y, x = 46 + number * 62, 150.0
        shapes.append(said(22, y + 17, name, extra=' font-weight="600"'))
        for width, text, fill in parts:
            shapes.append(box(x, y, width, 28, text, fill))
            x += width + 2
        shapes += [box(x, y, 56, 28, "edge", "edge"), note(150, y + 44, words)]
    shapes += [
        f'<line x1="362" y1="40" x2="362" y2="200" stroke="{FAINT}" stroke-dasharray="3 4"/>',
        note(
            22,
            308,
            "A turn only appends, so a prompt cache serves all but the new end. An activation does not change the text before"
            "\nthe dotted line. Only a reflection, which is rare, changes the beginning of the log.",
        ),
    ]
    return drawing(780, 338, "What the model sees, request by request", shapes)


def message() -> str:
    """Return the picture of the states of a message."""
    shapes = [
        box(20, 30, 120, 50, "said\nprepare, record", "plain"),
        box(190, 30, 130, 50, "tail\nword for word", "raw"),
        box(370, 30, 140, 50, "buffered group\nnot shown yet", "quiet"),
        box(560, 30, 130, 50, "log\ndated lines", "log"),
        box(740, 30, 130, 50, "condensed\na new generation", "fold"),
        arrow((140, 55), (188, 55)),
        arrow((320, 55), (368, 55)),
        arrow((510, 55), (558, 55)),
        arrow((690, 55), (738, 55)),
        note(344, 22, "observe", anchor="middle"),
        note(534, 22, "activate", anchor="middle"),
        note(714, 22, "reflect", anchor="middle"),
        note(344, 98, "background,\na model or none", anchor="middle"),
        note(534, 98, "milliseconds,\nno model", anchor="middle"),
        note(714, 98, "background", anchor="middle"),
        box(
            20,
            170,
            850,
            46,
            "the row of the message\nnever changes, keeps its number, is indexed as it was said",
            "raw",
        ),
        arrow((80, 80), (80, 168)),
        arrow((255, 80), (255, 168), dashed=True),
        arrow((440, 80), (440, 168), dashed=True),
        arrow((625, 80), (625, 168), dashed=True),
        arrow((805, 80), (805, 168), dashed=True),
        note(90, 130, "saved in\none transaction"),
        note(815, 130, "names its\nmessages"),
        arrow((360, 216), (360, 252)),
        arrow((530, 216), (530, 252)),
        box(290, 254, 140, 32, "search", "edge"),
        box(460, 254, 140, 32, "recall", "edge"),
        note(620, 274, "the exact words, at any time"),
    ]
    return drawing(890, 306, "The way of a message through the memory", shapes)


def turn() -> str:
    """Return the picture of a turn."""
    shapes = [
        box(20, 40, 110, 50, "new messages", "plain"),
        box(170, 40, 110, 50, "save\nimmutable rows", "raw"),
        box(320, 40, 110, 50, "read\na snapshot", "quiet"),
        box(470, 40, 110, 50, "decide\npure, a reason", "fold"),
        box(620, 40, 110, 50, "perform", "log"),
        box(770, 40, 110, 50, "commit\nif still the same", "log"),
        *(arrow((x, 65), (x + 38, 65)) for x in (130, 280, 430, 580, 730)),
        arrow((825, 90), (825, 122), (375, 122), (375, 92)),
        note(600, 140, "until decide returns Wait; also after a refused commit", anchor="middle"),
        arrow((525, 40), (525, 14), (900, 14), (900, 190), (882, 190)),
        note(700, 30, "Wait"),
        box(590, 165, 290, 50, "context\nprefix · tail · edge", "edge"),
        arrow((588, 190), (472, 190)),
        box(330, 165, 140, 50, "the model\nany client", "plain"),
        arrow((328, 190), (212, 190)),
        box(70, 165, 140, 50, "record\nthe answer is saved", "raw"),
    ]
    return drawing(920, 235, "The life of a turn", shapes)


def takeover() -> str:
    """Return the picture of a run whose process dies, and of the process that takes it over."""
    shapes = [
        said(20, 52, "process A", extra=' font-weight="600"'),
        said(20, 132, "the run's row", extra=' font-weight="600"'),
        said(20, 212, "process B", extra=' font-weight="600"'),
        *(f'<line x1="120" y1="{y}" x2="880" y2="{y}" stroke="{FILLS["quiet"][1]}"/>' for y in (48, 128, 208)),
        box(130, 30, 120, 36, "claims the span"),
        box(300, 30, 110, 36, "asks the model"),
        box(440, 30, 150, 36, "killed, or hangs", "bad"),
        box(680, 30, 190, 36, "if it wakes up: refused", "bad"),
        box(140, 108, 130, 40, "owner A\nfence 1", "quiet"),
        box(440, 108, 140, 40, "lease ends\nfence 1", "edge"),
        box(605, 108, 110, 40, "owner B\nfence 2", "quiet"),
        box(745, 108, 125, 40, "finished\nfence 2", "log"),
        box(590, 190, 140, 36, "takes it over"),
        box(760, 190, 110, 36, "commits", "log"),
        arrow((190, 66), (190, 106)),
        arrow((270, 128), (438, 128), dashed=True),
        note(350, 122, "renewed", anchor="middle"),
        arrow((660, 190), (660, 150)),
        arrow((815, 190), (815, 150)),
        arrow((840, 66), (840, 106), dashed=True),
        note(
            120,
            256,
            "The row contains the span and the input of the run, so B does the same work. A's fence is old, so A is refused.",
        ),
    ]
    return drawing(900, 275, "A crash is a pause", shapes)


def rules() -> str:
    """Return the picture of the rules that decide what to do next, from `RULES`."""
    shapes = [box(20, 16, 490, 32, "state · configuration · now", "quiet")]
    y = 66
    for number, rule in enumerate(RULES, start=1):
        name = rule.decision.__name__
        shapes.append(arrow((265, y - 18), (265, y - 2)))
        if number == len(RULES):
            shapes.append(box(20, y, 490, 34, name, "log"))
            break
        shapes += [
            box(20, y, 490, 34, f"{rule.when}?", "plain"),
            arrow((510, y + 17), (578, y + 17)),
            note(544, y + 11, "yes", anchor="middle"),
            note(274, y + 47, "no"),
            box(580, y, 170, 34, name, "fold"),
        ]
        y += 54
    return drawing(770, y + 50, "How the next move is decided", shapes)


def rooms() -> str:
    """Return the picture of the rooms in their layers, from the import contracts and the docstrings of the packages."""
    shapes: list[str] = []
    y = 16.0
    for names in _layers():
        texts = {name: wrap(_first_sentence(name), 104) for name in names}
        height = 14 + sum(LINE * len(lines) + 6 for lines in texts.values())
        has_folder = any((PROJECT / "src" / "memolog" / name).is_dir() for name in names)
        colour, border = FILLS["log" if has_folder else "quiet"]
        shapes.append(
            f'<rect x="20" y="{y:g}" width="880" height="{height:g}" rx="7" fill="{colour}" stroke="{border}"/>'
        )
        line_y = y + 7
        for name, lines in texts.items():
            shapes.append(said(34, line_y + 15, name, extra=' font-weight="600"'))
            shapes += [said(170, line_y + 15 + LINE * number, line) for number, line in enumerate(lines)]
            line_y += LINE * len(lines) + 6
        y += height + 6
    words = "A room imports only from the boxes below its own. Green: a folder. Grey: a single module."
    shapes.append(note(20, y + 16, words))
    return drawing(920, y + 34, "The rooms of src/memolog", shapes)


def _layers() -> list[list[str]]:
    settings = tomllib.loads((PROJECT / "pyproject.toml").read_text("utf-8"))
    contract = next(item for item in settings["tool"]["importlinter"]["contracts"] if item["id"] == "rooms")
    return [[name.strip() for name in layer.split("|")] for layer in contract["layers"] if layer != "__main__"]


def _first_sentence(room: str) -> str:
    source = PROJECT / "src" / "memolog" / room
    file = source / "__init__.py" if source.is_dir() else source.with_suffix(".py")
    doc = ast.get_docstring(ast.parse(file.read_text("utf-8"))) or ""
    return re.split(r"(?<=\.)\s", " ".join(doc.split()), maxsplit=1)[0]


DIAGRAMS: dict[str, Callable[[], str]] = {
    "message.svg": message,
    "prompt.svg": prompt,
    "rooms.svg": rooms,
    "rules.svg": rules,
    "takeover.svg": takeover,
    "turn.svg": turn,
}

if __name__ == "__main__":
    (HERE / "diagrams").mkdir(exist_ok=True)
    for name, made in DIAGRAMS.items():
        (HERE / "diagrams" / name).write_text(made(), encoding="utf-8")
