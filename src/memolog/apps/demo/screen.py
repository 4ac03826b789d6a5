"""Show the demo: in a terminal with a live panel, as plain lines, or not at all."""

import asyncio
from collections.abc import Mapping
from typing import Final, TypeAlias

from rich.console import Console
from rich.live import Live
from rich.text import Text

from memolog.events import Windows

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


class Terminal(Screen):
    """Standard output: on a terminal, lines scroll by above a panel with the windows; elsewhere, lines alone."""

    def __init__(self) -> None:
        self._console = Console(highlight=False)
        self._live = Live(console=self._console, refresh_per_second=12, transient=True)
        if self._console.is_terminal:
            self._live.start()

    def line(self, *pieces: Piece) -> None:
        """Show a line."""
        styled = [piece if isinstance(piece, str) else (piece[0], STYLES[piece[1]]) for piece in pieces]
        text = Text.assemble(*styled)
        text.rstrip()
        # Do not wrap: long commands must stay copyable.
        self._console.print(text, soft_wrap=True)

    def levels(self, levels: Mapping[str, Windows]) -> None:
        """Show how full the windows are now, where that can be shown in place."""
        if self._console.is_terminal:
            self._live.update(Text("\n".join(["", *level_rows(levels)])))

    def day_ends(self, levels: Mapping[str, Windows]) -> None:
        """Show how full the windows are at the end of a day, where there is no panel."""
        if not self._console.is_terminal:
            self.line("\n".join(level_rows(levels)))

    async def pause(self, seconds: float) -> None:
        """Wait, if a person reads along."""
        if self._console.is_terminal:
            await asyncio.sleep(seconds)

    def close(self) -> None:
        """Release the terminal."""
        self._live.stop()


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
