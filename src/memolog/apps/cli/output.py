"""Format output: text and tables for people, one JSON document for programs, errors with advice.

Rich is imported only if output for people is needed.
"""

import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from io import TextIOBase
from typing import TYPE_CHECKING, Final

from memolog.core.exact_json import dumps, encode
from memolog.errors import MemologError

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
    from rich.segment import Segment
    from rich.table import Table
    from rich.text import Text

COLOURS: Final = {"high": "bold red", "medium": "yellow", "low": "dim", "done": "green"}
_WIDTH_WITHOUT_TERMINAL: Final = 120
# Maximum number of characters in a cell of a table.
_LONGEST_CELL: Final = 400
# The indent of a line, with the mark of a list.
_INDENT: Final = re.compile(r"\s*(?:[-*•+] +)?")
# Width of a line that is not wrapped.
_ENDLESS: Final = 1_000_000
# Minimum width of a wrapped text, however deep it is indented.
_NARROWEST: Final = 20
# Minimum width of a column of text, unless its text is shorter, and the number of characters after which a word is divided.
_COMFORTABLE: Final = 18
_LONGEST_WORD: Final = 30
# Number of characters between two columns of a table.
_BETWEEN: Final = 3
_LONGEST_ZONE: Final = 5
# Control characters, bidirectional marks and lone surrogates.
_UNSAFE: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
# Control, bidirectional and invisible characters. `safe_json` writes them as JSON escapes.
_UNSEEN: Final = re.compile(
    "[\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u2800\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e0fff]"
)
# A visible symbol for each control character.
_PICTURES: Final = {chr(code): chr(0x2400 + code) for code in range(0x20)}

# Commands for the calls that errors of the library name.
_COMMANDS: Final = {
    "branches": "branches",
    "history": "history",
    "compactions": "compactions",
    "draft_summary": "tasks draft",
    "merge": "wm merge",
    "read": "wm show",
    "replace": "wm set",
    "versions": "wm versions",
}
_CALL: Final = re.compile(rf"\b({'|'.join(_COMMANDS)})\(\)")
# An argument of a call: `overwrite=True`, `thread=…`, `resource="alice"` or `tokens=2000`.
_ARGUMENT: Final = re.compile(r'(?<![\w(-])([a-z_]+)=(?:True\b|…|"([^"…]+)"|(\d+))')
# Advice that is different on the command line, where no Memory is opened in Python.
_SENTENCES: Final = {
    ", or open it with read_only=True": "",
    "Open another Memory without read_only.": "Remove read_only from the settings.",
    "Open it once without read_only, which updates the schema.": "Update the schema with `memolog init`.",
}


def console(*, to_stderr: bool = False) -> "Console":
    """Return a console with the width of the terminal. Without a terminal, the width is `COLUMNS`, or fixed."""
    from rich.console import Console

    stream = sys.stderr if to_stderr else sys.stdout
    # Rich reads COLUMNS itself.
    width = None if stream.isatty() or os.environ.get("COLUMNS") else _WIDTH_WITHOUT_TERMINAL
    made = Console(file=stream, width=width, highlight=False, emoji=False)
    # Rich would end the process.
    made.on_broken_pipe = _raise_broken_pipe
    return made


def _raise_broken_pipe() -> None:
    raise BrokenPipeError


def is_wrapped() -> bool:
    """Return whether long lines are wrapped: on a terminal, or if `COLUMNS` is set. Lines in a pipe stay whole."""
    return sys.stdout.isatty() or bool(os.environ.get("COLUMNS"))


@dataclass(frozen=True, slots=True)
class Exact:
    """Lines that another program may read, such as a diff, each with a style. `show` never wraps or strips them."""

    lines: Sequence[tuple[str, str]]

    def __rich_console__(self, console: "Console", options: "ConsoleOptions") -> "RenderResult":
        from rich.segment import Segment

        # A segment is printed as it is. A rich text would replace tabs by spaces.
        for line, style in self.lines:
            yield Segment(clean(line), console.get_style(style) if style else None)
            yield Segment.line()


def show(shown: "RenderableType") -> None:
    """Print output. Spaces at the ends of lines are removed, except in `Exact` lines."""
    from rich.segment import Segments
    from rich.text import Text

    out = console()
    if isinstance(shown, Exact):
        out.print(shown, crop=False, soft_wrap=True, end="")
        return
    options = out.options
    if isinstance(shown, Text):
        shown = Paragraph(shown)
    rendered = out.render(shown, options.update(overflow="fold"))
    out.print(Segments(_without_padding(rendered)), crop=False, soft_wrap=True, end="")


def _without_padding(rendered: "Iterable[Segment]") -> "Iterator[Segment]":
    from rich.segment import Segment

    for line in Segment.split_lines(rendered):
        while line and not line[-1].text.strip():
            line.pop()
        if line:
            line[-1] = Segment(line[-1].text.rstrip(), line[-1].style)
        yield from line
        yield Segment.line()


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A text that is printed after `lead`. Wrapped lines begin in the column where the text begins after `lead` and its indent.

    If `wrapped` is set, wrapped lines begin with `wrapped` instead.
    """

    text: "Text"
    lead: "Text | None" = None
    wrapped: str | None = None

    def __rich_console__(self, console: "Console", options: "ConsoleOptions") -> "RenderResult":
        from rich.text import Text

        if not is_wrapped():
            # A very wide line is never wrapped.
            yield from console.render(
                (self.lead or Text()).copy().append_text(self.text), options.update(width=_ENDLESS)
            )
            return
        lead = self.lead
        for line in self.text.split("\n", allow_blank=True):
            indent = found.end() if (found := _INDENT.match(line.plain)) else 0
            before = (lead.copy() if lead is not None else Text()).append_text(line[:indent])
            after = Text(" " * before.cell_len if self.wrapped is None else self.wrapped)
            room = max(_NARROWEST, options.max_width - max(before.cell_len, after.cell_len))
            for wrapped in line[indent:].wrap(console, room, overflow="fold") or [Text()]:
                wrapped.rstrip()
                yield before.append_text(wrapped)
                before = after.copy()
            if lead is not None:
                lead = Text(" " * lead.cell_len)


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


def local(moment: datetime) -> datetime:
    """Return a moment in the time zone of this machine (`TZ`)."""
    return moment.astimezone()


def zone_of(moment: datetime) -> str:
    """Return the name of the time zone of a moment: `CET`, or `UTC+05:30` if it has no short name."""
    name = moment.tzname() or ""
    if name.isalpha() and len(name) <= _LONGEST_ZONE:
        return name
    return f"UTC{moment.isoformat()[-6:]}"


def when(moment: datetime | None, *, seconds: bool = False) -> str:
    """Return a moment in the time zone of this machine, with the name of the zone. None becomes a dash."""
    if moment is None:
        return "–"
    here = local(moment)
    return f"{here:{'%Y-%m-%d %H:%M:%S' if seconds else '%Y-%m-%d %H:%M'}} {zone_of(here)}"


def day(moment: datetime | None) -> str:
    """Return weekday and date of a moment."""
    return "without a date" if moment is None else f"{moment:%A %Y-%m-%d}"


def bar(tokens: int, limit: int, *, width: int = 16) -> "Text":
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
            text = styled(value) if isinstance(value, str) else value
            grid.add_row(name, Paragraph(text) if is_wrapped() else text)
    return grid


def heading(text: str) -> "Text":
    """Return the title of an output, which names its subject."""
    return styled(text, "bold")


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """A table with a title. If it is too wide, it leaves out columns instead of dividing words.

    A head that starts with `>` is right-aligned. A column whose head ends with `!` is not wrapped. Columns whose heads have `?`
    may be left out: first the column with the most `?`, and of several the last one.
    """

    heads: Sequence[str]
    rows: "Sequence[Sequence[Text]]"
    title: str | None = None
    caption: str | None = None

    def __rich_console__(self, console: "Console", options: "ConsoleOptions") -> "RenderResult":
        from rich import box
        from rich.table import Table

        if self.title:
            yield Paragraph(heading(self.title))
        kept, left_out = self._fitting(options.max_width)
        made = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="bold dim")
        for column, width in self._widths(kept, options.max_width).items():
            head = self.heads[column]
            made.add_column(
                _name(head),
                justify="right" if head.startswith(">") else "left",
                # The head of a number may be wrapped.
                no_wrap=_is_whole(head),
                overflow="fold",
                width=width,
            )
        for row in self.rows:
            made.add_row(*(row[column] for column in kept))
        yield made
        for words in (self.caption, f"Too narrow for: {', '.join(left_out)}." if left_out else None):
            if words:
                yield Paragraph(styled(words, "dim"))

    def _fitting(self, width: int) -> tuple[list[int], list[str]]:
        """Return the columns that fit, and the names of the columns that are left out."""
        kept, left_out = list(range(len(self.heads))), list[str]()
        while sum(map(self._width, kept)) + _BETWEEN * (len(kept) - 1) > width:
            column = max(kept, key=lambda one: (self.heads[one].count("?"), one))
            if "?" not in self.heads[column]:
                break
            kept.remove(column)
            left_out.insert(0, _name(self.heads[column]))
        return kept, left_out

    def _widths(self, kept: Sequence[int], room: int) -> dict[int, int]:
        """Return the width of each column. In a narrow table the narrowest columns grow first, up to the width of their text.

        Rich would shrink the widest columns, also below the width of a word, and then print a line that is too long.
        """
        widths = {column: min(self._width(column), room) for column in kept}
        wanted = {
            column: max(len(_name(self.heads[column])), *(row[column].cell_len for row in self.rows), 0)
            for column in kept
        }
        spare = room - sum(widths.values()) - _BETWEEN * (len(kept) - 1)
        while spare > 0 and (growing := [column for column in kept if widths[column] < wanted[column]]):
            widths[min(growing, key=widths.__getitem__)] += 1
            spare -= 1
        return widths

    def _width(self, column: int) -> int:
        """Return the smallest width at which no word of a column is divided and its lines are not too short."""
        head = self.heads[column]
        cells = [row[column] for row in self.rows]
        whole = max((cell.cell_len for cell in cells), default=0)
        if head.startswith(">"):
            return max(whole, *map(len, _name(head).split()))
        if _is_whole(head):
            return max(whole, len(_name(head)))
        longest = max((len(word) for cell in cells for word in cell.plain.split()), default=0)
        whole = min(whole, max(min(longest, _LONGEST_WORD), _COMFORTABLE))
        return max(whole, *map(len, _name(head).split()))


def _is_whole(head: str) -> bool:
    return "!" in head


def _name(head: str) -> str:
    return head.strip(">!?")


def table(
    heads: Sequence[str],
    rows: Iterable[Sequence["Text | str"]],
    *,
    title: str | None = None,
    caption: str | None = None,
) -> Listing:
    """Return a table. `Listing` describes the heads."""
    cells = [[styled(one_line(cell)) if isinstance(cell, str) else cell for cell in row] for row in rows]
    return Listing(heads=heads, rows=cells, title=title, caption=caption)


def show_diff(text: str) -> "RenderableType":
    """Return a unified diff in colours."""
    if not text.strip():
        return styled("There is no difference.", "dim")
    colours = {"+": "green", "-": "red", "@": "cyan"}
    return Exact([(line, colours.get(line[:1], "")) for line in text.splitlines()])


def in_options(text: str) -> str:
    """Return the text of an error with options and commands in the place of Python: `overwrite=True` becomes `--overwrite`."""
    for python, words in _SENTENCES.items():
        text = text.replace(python, words)
    text = _ARGUMENT.sub(lambda hit: " ".join(filter(None, (f"--{hit[1].replace('_', '-')}", hit[2] or hit[3]))), text)
    return _CALL.sub(lambda hit: f"`memolog {_COMMANDS[hit[1]]}`", text)


def show_error(error: MemologError, *, as_json: bool) -> None:
    """Print an error with its cause and advice, as text to stderr or as JSON to standard output."""
    then = in_options(error.then) if error.then else error.then
    if as_json:
        kind = type(error).__name__
        words = {"kind": kind, "what": error.what, "why": error.why, "then": then, "retryable": error.retryable}
        print_json({"error": words})
        return
    err = console(to_stderr=True)
    err.print(Paragraph(styled(error.what), styled("Error: ", "bold red")), soft_wrap=True)
    for label, words in (("Why", error.why), ("Next", then)):
        if words:
            err.print(Paragraph(styled(words), styled(f"{label:>5}: ", "dim")), soft_wrap=True)
