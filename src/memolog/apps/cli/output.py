"""Format output: text and tables for people, one JSON document for programs, errors with advice.

Rich is imported only if output for people is needed.
"""

import re
import sys
from collections.abc import Iterable, Sequence
from datetime import datetime
from io import TextIOBase
from typing import TYPE_CHECKING, Final

from memolog.core.exact_json import dumps, encode
from memolog.errors import MemologError

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table
    from rich.text import Text

COLOURS: Final = {"high": "bold red", "medium": "yellow", "low": "dim", "done": "green"}
_WIDTH_WITHOUT_TERMINAL: Final = 120
# Maximum number of characters in a cell of a table.
_LONGEST_CELL: Final = 400
# Control characters, bidirectional marks and lone surrogates.
_UNSAFE: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
# Control, bidirectional and invisible characters. `safe_json` writes them as JSON escapes.
_UNSEEN: Final = re.compile(
    "[\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u2800\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e0fff]"
)
# A visible symbol for each control character.
_PICTURES: Final = {chr(code): chr(0x2400 + code) for code in range(0x20)}


def console(*, to_stderr: bool = False) -> "Console":
    """Return a console with the width of the terminal. If the output is not a terminal, the width is fixed."""
    from rich.console import Console

    stream = sys.stderr if to_stderr else sys.stdout
    width = None if stream.isatty() else _WIDTH_WITHOUT_TERMINAL
    return Console(file=stream, width=width, highlight=False, emoji=False)


def show(shown: "RenderableType") -> None:
    """Print output for people. Plain text is not wrapped."""
    from rich.text import Text

    console().print(shown, soft_wrap=isinstance(shown, Text))


def print_json(data: object) -> None:
    """Print one JSON document on one line. Flush it, because another program may read it while the verb still runs."""
    print(safe_json(dumps(encode(data))), flush=True)


def safe_json(text: str) -> str:
    """Return the same JSON document with control, bidirectional and invisible characters as escapes."""
    return _UNSEEN.sub(_escape, text)


def _escape(hit: re.Match[str]) -> str:
    units = hit[0].encode("utf-16-be")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))


class JsonOutput(TextIOBase):
    """A stream that writes JSON to standard output in a form that is safe for terminals."""

    def write(self, text: str, /) -> int:
        """Write a piece of JSON, and return its length."""
        sys.stdout.write(safe_json(text))
        return len(text)


def clean(text: str) -> str:
    """Return a text in which visible symbols replace control characters, bidirectional marks and lone surrogates."""
    return _UNSAFE.sub(lambda hit: _PICTURES.get(hit[0], "�"), text)


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """Return a number and its noun, such as `1 group` or `2 groups`."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"


def one_line(text: str, most: int = _LONGEST_CELL) -> str:
    """Return a text on one line, cut to `most` characters."""
    line = " ".join(clean(text).split())
    return line if len(line) <= most else line[: most - 1] + "…"


def styled(text: str, style: str = "") -> "Text":
    """Return a clean text with a style. Markup in the text is not interpreted."""
    from rich.text import Text

    return Text(clean(text), style=style)


def local(moment: datetime, zone: str | None) -> datetime:
    """Return a moment in a time zone. Without a zone, or with an unknown zone, return the moment in UTC."""
    from memolog.text.dates import local as in_zone

    return in_zone(moment, zone)


def when(moment: datetime | None) -> str:
    """Return a moment as text with its UTC offset. None becomes a dash."""
    if moment is None:
        return "–"
    clock = moment.isoformat()[-6:] if moment.utcoffset() else "UTC"
    return f"{moment:%Y-%m-%d %H:%M} {clock}"


def day(moment: datetime | None) -> str:
    """Return weekday and date of a moment."""
    return "without a date" if moment is None else f"{moment:%A %Y-%m-%d}"


def bar(tokens: int, limit: int, *, width: int = 24) -> "Text":
    """Return a bar that shows how much of a limit is used, followed by the numbers."""
    from rich.text import Text

    share = tokens / limit if limit else 0.0
    filled = min(width, round(share * width))
    colour = "red" if share > 1 else "yellow" if share > 0.8 else "green"  # noqa: PLR2004 - background work starts at four fifths
    text = Text("█" * filled, style=colour).append("░" * (width - filled), style="dim")
    return text.append(f" {tokens:>7,} of {limit:,} tokens", style="default")


def fields(rows: Iterable[tuple[str, "Text | str | None"]]) -> "Table":
    """Return a grid with one row for each name and value. Rows whose value is None are left out."""
    from rich.table import Table

    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in rows:
        if value is not None:
            grid.add_row(name, styled(value) if isinstance(value, str) else value)
    return grid


def table(heads: Sequence[str], rows: Iterable[Sequence["Text | str"]]) -> "Table":
    """Return a table. A column is right-aligned if its head starts with `>`, and is not wrapped if its head ends with `!`."""
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
        made.add_row(*(styled(one_line(cell)) if isinstance(cell, str) else cell for cell in row))
    return made


def show_diff(text: str) -> "RenderableType":
    """Return a unified diff in colours."""
    from rich.text import Text

    if not text.strip():
        return styled("There is no difference.", "dim")
    colours = {"+": "green", "-": "red", "@": "cyan"}
    return Text("\n").join(styled(line, colours.get(line[:1], "")) for line in text.splitlines())


def show_error(error: MemologError, *, as_json: bool) -> None:
    """Print an error with its cause and advice, as text to stderr or as JSON to standard output."""
    if as_json:
        kind = type(error).__name__
        words = {"kind": kind, "what": error.what, "why": error.why, "then": error.then, "retryable": error.retryable}
        print_json({"error": words})
        return
    err = console(to_stderr=True)
    err.print(styled("Error: ", "bold red").append_text(styled(error.what, "default")), soft_wrap=True)
    for label, words in (("Why", error.why), ("Next", error.then)):
        if words:
            err.print(styled(f"{label:>5}: ", "dim").append_text(styled(words, "default")), soft_wrap=True)
