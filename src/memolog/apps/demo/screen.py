"""Show the demo: in a terminal with a live panel, as plain lines, or not at all."""

import asyncio
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

from memolog.events import Windows

if TYPE_CHECKING:
    from rich.text import Text

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


class Screen:
    """Output of the demo; this base class shows nothing."""

    def line(self, *pieces: Piece) -> None:
        """Show a line."""

    def levels(self, levels: Mapping[str, Windows]) -> None:
        """Show how full the windows are now."""

    def day_ends(self, levels: Mapping[str, Windows]) -> None:
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

    def day_ends(self, levels: Mapping[str, Windows]) -> None:
        """Show how full the windows are at the end of a day."""
        for row in level_rows(levels):
            self.line(row)


class LiveScreen(Screen):
    """A terminal: lines scroll by above a panel with the windows."""

    def __init__(self) -> None:
        # Imported here: plain output does not need it.
        from rich.console import Console  # noqa: PLC0415
        from rich.live import Live  # noqa: PLC0415

        self._live = Live(console=Console(highlight=False), refresh_per_second=12, transient=True)
        self._live.start()

    def line(self, *pieces: Piece) -> None:
        """Show a line."""
        # Do not wrap: long commands must stay copyable.
        self._live.console.print(_text(pieces), soft_wrap=True)

    def levels(self, levels: Mapping[str, Windows]) -> None:
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
    return LiveScreen() if sys.stdout.isatty() else PlainScreen()


def plain(pieces: Sequence[Piece]) -> str:
    """Return a line without its styles."""
    return "".join(piece if isinstance(piece, str) else piece[0] for piece in pieces).rstrip()


def _text(pieces: Sequence[Piece]) -> "Text":
    from rich.text import Text  # noqa: PLC0415

    return Text.assemble(*(piece if isinstance(piece, str) else (piece[0], STYLES[piece[1]]) for piece in pieces))


def level_rows(levels: Mapping[str, Windows]) -> list[str]:
    """Return how full the windows are, as two rows of bars."""
    messages = [_level(name, one.message_tokens, one.message_limit) for name, one in levels.items()]
    logs = [_level(name, one.observation_tokens, one.observation_limit) for name, one in levels.items()]
    return [f"  messages  {'   '.join(messages)}", f"  log       {'   '.join(logs)}"]


def _level(name: str, tokens: int, limit: int, width: int = 12) -> str:
    filled = min(width, round(width * tokens / limit))
    return f"{name} {'█' * filled}{'░' * (width - filled)} {tokens:>5,}"


def cut_to(text: str, width: int) -> str:
    """Return a text on one line, cut between words to `width` characters."""
    text = " ".join(text.split())
    if len(text) <= width:
        return text
    return text[: width - 1].rsplit(" ", 1)[0].rstrip(",.;:") + "…"
