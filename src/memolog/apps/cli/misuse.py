"""A command that was not understood, told to programs: whoever asked for JSON gets a document for this error, too.

Knows when a command line asks for JSON, and what its parser refuses. Knows no verb; the parser itself tells people.
"""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any, Final, cast

import typer
from typer.core import TyperGroup

from memolog.apps.cli import telling
from memolog.domain.errors import InputError

__all__ = ["Verbs"]

# The parser's own base class of all usage errors is public by no name that every version of typer has.
_Misuse: Final = cast("type[Exception]", typer.BadParameter.__bases__[0])
_ASKED: Final = "memolog.as_json"


class Verbs(TyperGroup):
    """All verbs of the command line; usage errors are an error document where `--json` was given."""

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """Return the context of one command line, which remembers whether it asks for JSON."""
        as_json = _asks_for_json(args)
        with _told(as_json=as_json):
            made = super().make_context(info_name, args, parent, **extra)
        made.meta[_ASKED] = as_json
        return made

    def invoke(self, ctx: Any) -> Any:
        """Run the verb that was named."""
        with _told(as_json=ctx.meta.get(_ASKED, False)):
            return super().invoke(ctx)


def _asks_for_json(words: Sequence[str]) -> bool:
    """Return whether `--json` is among the options; what follows `--` is none."""
    options = words[: words.index("--")] if "--" in words else words
    return any(word.partition("=")[0] == "--json" for word in options)


@contextmanager
def _told(*, as_json: bool) -> Generator[None]:
    """Print a usage error as a document; it goes on its way, so that people and exit codes are told as ever."""
    try:
        yield
    except _Misuse as error:
        if as_json:
            context = getattr(error, "ctx", None)
            path = context.command_path if context is not None else "memolog"
            what: str = cast("Any", error).format_message()
            telling.show_error(InputError(what, then=f"See `{path} --help`."), as_json=True)
        raise
