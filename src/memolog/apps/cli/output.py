"""Format output: text and tables for people, one JSON document for programs, errors with advice.

Rich is loaded only when something is shown to a person.
"""

import re
import sys
from collections.abc import Iterable, Sequence
from datetime import datetime
from io import TextIOBase
from typing import TYPE_CHECKING, Final

from memolog.domain.codec import dumps, encode
from memolog.domain.errors import MemologError

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table
    from rich.text import Text

COLOURS: Final = {"high": "bold red", "medium": "yellow", "low": "dim", "done": "green"}
_WIDTH_WITHOUT_TERMINAL: Final = 120
_LONGEST_CELL: Final = 400
# Control characters, marks that turn the direction of all that follows, and halves of characters.
_UNSAFE: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
# What a terminal obeys or an eye does not see, in JSON: there every character may be written as an escape.
_UNSEEN: Final = re.compile(
    "[\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u2800\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e0fff]"
)
_PICTURES: Final = {chr(code): chr(0x2400 + code) for code in range(0x20)}


def console(*, to_stderr: bool = False) -> "Console":
    """Return a console: as wide as the terminal, or wide enough for a file."""
    from rich.console import Console

    stream = sys.stderr if to_stderr else sys.stdout
    width = None if stream.isatty() else _WIDTH_WITHOUT_TERMINAL
    return Console(file=stream, width=width, highlight=False, emoji=False)


def show(shown: "RenderableType") -> None:
    """Print something for people; running text is not broken where there is no terminal to fit it to."""
    from rich.text import Text

    console().print(shown, soft_wrap=isinstance(shown, Text))


def print_json(data: object) -> None:
    """Print one JSON document on a line of its own."""
    print(safe_json(dumps(encode(data))))


def safe_json(text: str) -> str:
    """Return JSON that means the same, with control characters, marks of direction and unseen characters as escapes."""
    return _UNSEEN.sub(_escape, text)


def _escape(hit: re.Match[str]) -> str:
    units = hit[0].encode("utf-16-be")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))


class JsonOutput(TextIOBase):
    """Standard output for JSON lines that somebody else writes: each is made safe on its way."""

    def write(self, text: str, /) -> int:
        """Print some JSON."""
        sys.stdout.write(safe_json(text))
        return len(text)


def clean(text: str) -> str:
    """Return a text that a terminal can be trusted with: what was stored may hold escape sequences or half characters."""
    return _UNSAFE.sub(lambda hit: _PICTURES.get(hit[0], "�"), text)


def one_line(text: str, most: int = _LONGEST_CELL) -> str:
    """Return a text as one line, cut where it gets long."""
    line = " ".join(clean(text).split())
    return line if len(line) <= most else line[: most - 1] + "…"


def told(text: str, style: str = "") -> "Text":
    """Return a text as it is: nothing in it is taken for markup."""
    from rich.text import Text

    return Text(clean(text), style=style)


def local(moment: datetime, zone: str | None) -> datetime:
    """Return a moment on the clock of whoever spoke, as the log shows it; in UTC where their zone is not known."""
    from memolog.context.dates import local as in_zone

    return in_zone(moment, zone)


def when(moment: datetime | None) -> str:
    """Return a moment as people write it, with the clock that it is on: UTC, or how far from it."""
    if moment is None:
        return "–"
    clock = moment.isoformat()[-6:] if moment.utcoffset() else "UTC"
    return f"{moment:%Y-%m-%d %H:%M} {clock}"


def day(moment: datetime | None) -> str:
    """Return the day of a moment, with its weekday."""
    return "without a date" if moment is None else f"{moment:%A %Y-%m-%d}"


def bar(tokens: int, limit: int, *, width: int = 24) -> "Text":
    """Return how full something is, as a bar with its numbers."""
    from rich.text import Text

    share = tokens / limit if limit else 0.0
    filled = min(width, round(share * width))
    colour = "red" if share > 1 else "yellow" if share > 0.8 else "green"  # noqa: PLR2004 - four fifths is when work begins
    text = Text("█" * filled, style=colour).append("░" * (width - filled), style="dim")
    return text.append(f" {tokens:>7,} of {limit:,} tokens", style="default")


def fields(rows: Iterable[tuple[str, "Text | str"]]) -> "Table":
    """Return names and values, a line each."""
    from rich.table import Table

    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in rows:
        grid.add_row(name, told(value) if isinstance(value, str) else value)
    return grid


def table(heads: Sequence[str], rows: Iterable[Sequence["Text | str"]]) -> "Table":
    """Return a table; a head that begins with `>` is a column of numbers, one that ends with `!` is never cut."""
    from rich import box
    from rich.table import Table

    made = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for head in heads:
        made.add_column(
            head.strip(">!"),
            justify="right" if head.startswith(">") else "left",
            no_wrap=head.endswith("!") or head.startswith(">"),
            overflow="fold",
        )
    for row in rows:
        made.add_row(*(told(one_line(cell)) if isinstance(cell, str) else cell for cell in row))
    return made


def show_error(error: MemologError, *, as_json: bool) -> None:
    """Say what went wrong, why, and what to do next; for a program, as its one document."""
    if as_json:
        kind = type(error).__name__
        words = {"kind": kind, "what": error.what, "why": error.why, "then": error.then, "retryable": error.retryable}
        print_json({"error": words})
        return
    err = console(to_stderr=True)
    err.print(told("Error: ", "bold red").append_text(told(error.what, "default")), soft_wrap=True)
    for label, words in (("Why", error.why), ("Next", error.then)):
        if words:
            err.print(told(f"{label:>5}: ", "dim").append_text(told(words, "default")), soft_wrap=True)
