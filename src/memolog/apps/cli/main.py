"""Assemble the `memolog` command from its verbs, and report usage errors as JSON if `--json` was given."""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any, Final, cast

import typer
from typer.core import TyperGroup

from memolog.apps.cli import (
    bench,
    config,
    evaluate,
    export,
    forget,
    history,
    install,
    observe,
    search,
    serve,
    status,
    tasks,
    threads,
    working_memory,
)
from memolog.apps.cli.output import show_error
from memolog.errors import InputError
from memolog.version import __version__

# The base class of all usage errors. Not every version of typer exports it under a public name.
_Misuse: Final = cast("type[Exception]", typer.BadParameter.__bases__[0])
_AS_JSON: Final = "memolog.as_json"
# Options that may be before the verb, and those of them that have no value.
_BEFORE: Final = frozenset({"--db", "--resource", "-r", "--thread", "-t", "--config", "--json"})
_FLAGS: Final = frozenset({"--json"})


class Verbs(TyperGroup):
    """The root command. It prints a usage error as a JSON document if `--json` was given."""

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """Return the typer context of one command line, and store in it whether `--json` was given."""
        as_json = _asks_for_json(args)
        with _reported(as_json=as_json):
            made = super().make_context(info_name, _behind_the_verb(args, self), parent, **extra)
        made.meta[_AS_JSON] = as_json
        return made

    def invoke(self, ctx: Any) -> Any:
        """Run the verb of the command line."""
        with _reported(as_json=ctx.meta.get(_AS_JSON, False)):
            return super().invoke(ctx)


def _behind_the_verb(words: Sequence[str], group: TyperGroup) -> list[str]:
    """Return the words of a command line. Common options before the verb are moved behind the verb.

    A group of commands alone prints its help.
    """
    moved, rest = list[str](), list(words)
    while rest and rest[0].partition("=")[0] in _BEFORE:
        count = 1 if "=" in rest[0] or rest[0] in _FLAGS else 2
        moved, rest = moved + rest[:count], rest[count:]
    at, inner = 0, group
    while at < len(rest) and isinstance(inner, TyperGroup):
        inner = cast("Any", inner.commands.get(rest[at]))
        at += 1
    if at == len(rest) and isinstance(inner, TyperGroup) and not moved:
        return [*rest, "--help"]
    return [*rest[:at], *moved, *rest[at:]]


def _asks_for_json(words: Sequence[str]) -> bool:
    """Return whether `--json` is among the options. All words after `--` are arguments."""
    options = words[: words.index("--")] if "--" in words else words
    return any(word.partition("=")[0] == "--json" for word in options)


@contextmanager
def _reported(*, as_json: bool) -> Generator[None]:
    """Print a usage error as JSON if `as_json`, and raise it again. Typer then prints it to stderr and sets the exit code."""
    try:
        yield
    except _Misuse as error:
        if as_json:
            context = getattr(error, "ctx", None)
            path = context.command_path if context is not None else "memolog"
            what: str = cast("Any", error).format_message()
            show_error(InputError(what, then=f"See `{path} --help`."), as_json=True)
        raise


app = typer.Typer(
    name="memolog",
    cls=Verbs,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="--db, --resource, --thread, --config and --json may be before or after the command. "
    "Exit codes: 0 done, 1 nothing found, 2 wrong usage, 3 failed, 4 try again later, 130 interrupted.",
)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"memolog {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Inspect and maintain the long memory of AI agents."""
    del version


for family in (config, install, status, search, observe, history, threads, export, forget, bench, serve):
    app.add_typer(family.app)
app.add_typer(evaluate.app, name="eval")
app.add_typer(tasks.app, name="tasks")
app.add_typer(working_memory.app, name="wm")


def main() -> None:
    """Run the command line."""
    app()
