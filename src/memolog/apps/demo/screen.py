"""Print the demo: lines of text and, on a terminal, a live panel that shows how full the windows of each thread are."""

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
    """Prints the demo. On a terminal, a panel below the lines shows the windows. With `quiet`, nothing is printed."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._console = Console(highlight=False, quiet=quiet)
        self._live = Live(console=self._console, refresh_per_second=12, transient=True)
        self._is_live = self._console.is_terminal and not quiet
        if self._is_live:
            self._live.start()

    def line(self, *pieces: Piece) -> None:
        """Print a line."""
        styled = [piece if isinstance(piece, str) else (piece[0], STYLES[piece[1]]) for piece in pieces]
        text = Text.assemble(*styled)
        text.rstrip()
        # Do not wrap long commands, so that they can be copied.
        self._console.print(text, soft_wrap=True)

    def levels(self, levels: Mapping[str, Windows]) -> None:
        """Show in the panel how full the windows are now."""
        if self._is_live:
            self._live.update(Text("\n".join(["", *level_rows(levels)])))

    def day_ends(self, levels: Mapping[str, Windows]) -> None:
        """Print how full the windows are at the end of a day, unless there is a panel."""
        if not self._is_live:
            self.line("\n".join(level_rows(levels)))

    async def pause(self, seconds: float) -> None:
        """Wait if a person watches the demo."""
        if self._is_live:
            await asyncio.sleep(seconds)

    def close(self) -> None:
        """Remove the panel."""
        self._live.stop()


def level_rows(levels: Mapping[str, Windows]) -> list[str]:
    """Return two rows of text with bars that show how full the windows are."""
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
