"""Show the demo: in a terminal with a live panel, as plain lines, or not at all."""

import asyncio
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

WIDTH: Final = 96
Piece: TypeAlias = "str | tuple[str, str]"
"""A text, or a text and the name of its style."""
STYLES: Final[Mapping[str, str]] = {
    "title": "bold",
    "dim": "dim",
    "user": "bold",
    "note": "cyan",
    "log": "green",
    "fold": "magenta",
    "crash": "bold red",
    "good": "bold green",
    "code": "yellow",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """How full the two windows of a thread are, in tokens."""

    messages: int
    messages_limit: int
    log: int
    log_limit: int


class Screen:
    """Output of the demo; this base class shows nothing."""

    def line(self, *pieces: Piece) -> None:
        """Show a line."""

    def levels(self, levels: Mapping[str, Level]) -> None:
        """Show how full the windows are now."""

    def day_ends(self, levels: Mapping[str, Level]) -> None:
        """Show how full the windows are at the end of a day."""

    async def pause(self, seconds: float) -> None:
        """Wait, if a person reads along."""

    def close(self) -> None:
        """Release the terminal."""


class PlainScreen(Screen):
    """Plain lines, one after the other."""

    def line(self, *pieces: Piece) -> None:
        """Show a line."""
        print(plain(pieces), flush=True)

    def day_ends(self, levels: Mapping[str, Level]) -> None:
        """Show how full the windows are at the end of a day."""
        for row in level_rows(levels):
            self.line(row)


class LiveScreen(Screen):
    """A terminal: lines scroll by above a panel with the windows."""

    def __init__(self) -> None:
        # Imported here: plain output does not need it.
        from rich.console import Console  # noqa: PLC0415
        from rich.live import Live  # noqa: PLC0415

        self._console = Console(highlight=False)
        self._live = Live(console=self._console, refresh_per_second=12, transient=True)
        self._live.start()

    def line(self, *pieces: Piece) -> None:
        """Show a line."""
        # Do not wrap: long commands must stay copyable.
        self._live.console.print(_text(pieces), soft_wrap=True)

    def levels(self, levels: Mapping[str, Level]) -> None:
        """Show how full the windows are now."""
        self._live.update(_text(["\n".join(["", *level_rows(levels)])]))

    async def pause(self, seconds: float) -> None:
        """Wait, if a person reads along."""
        await asyncio.sleep(seconds)

    def close(self) -> None:
        """Release the terminal."""
        self._live.stop()


def open_screen() -> Screen:
    """Return a live screen for a terminal, else a plain one."""
    if not sys.stdout.isatty():
        return PlainScreen()
    try:
        return LiveScreen()
    except ImportError:
        return PlainScreen()


def plain(pieces: "tuple[Piece, ...]") -> str:
    """Return a line without its styles."""
    return "".join(piece if isinstance(piece, str) else piece[0] for piece in pieces).rstrip()


def _text(pieces: "tuple[Piece, ...] | list[Piece]") -> Any:
    from rich.text import Text  # noqa: PLC0415

    styled = [piece if isinstance(piece, str) else (piece[0], STYLES[piece[1]]) for piece in pieces]
    return Text.assemble(*styled)


def level_rows(levels: Mapping[str, Level]) -> list[str]:
    """Return how full the windows are, as two rows of bars."""
    messages = [f"{name} {bar(one.messages, one.messages_limit)} {one.messages:>5,}" for name, one in levels.items()]
    logs = [f"{name} {bar(one.log, one.log_limit)} {one.log:>5,}" for name, one in levels.items()]
    return [f"  messages  {'   '.join(messages)}", f"  log       {'   '.join(logs)}"]


def bar(value: int, limit: int, width: int = 12) -> str:
    """Return a bar, full at or above the limit."""
    filled = min(width, round(width * value / limit)) if limit else 0
    return "█" * filled + "░" * (width - filled)


def cut_to(text: str, width: int) -> str:
    """Return a text on one line, cut between words to `width` characters."""
    text = " ".join(text.split())
    if len(text) <= width:
        return text
    return text[: width - 1].rsplit(" ", 1)[0].rstrip(",.;:") + "…"
