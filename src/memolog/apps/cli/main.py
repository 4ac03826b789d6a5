"""The `memolog` command: all verbs put together.

Knows which groups of verbs there are. Knows not what they do.
"""

from typing import Annotated

import typer

from memolog.apps.cli import (
    compacting,
    finding,
    forgetting,
    gateway,
    installing,
    looking,
    measuring,
    mending,
    misuse,
    moving,
    past,
    serving,
    setting_up,
    steering,
    task_changes,
    tasks,
    watching,
    working_memory,
)
from memolog.version import __version__

__all__ = ["app", "main"]


app = typer.Typer(
    name="memolog",
    cls=misuse.Verbs,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 done, 1 the answer is no, 2 not understood, 3 it cannot be done, 4 not now, 130 interrupted.",
)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"memolog {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and end.")
    ] = False,
) -> None:
    """Look into a long memory for AI agents: search it, steer it, move it and mend it."""
    del version


_tasks = typer.Typer(no_args_is_help=True, help="Task memory: what is to be done, what blocks what, who works on it.")
for group in (tasks, task_changes):
    _tasks.add_typer(group.app)
for group in (
    setting_up,
    installing,
    looking,
    finding,
    steering,
    compacting,
    past,
    watching,
    moving,
    forgetting,
    mending,
    measuring,
    serving,
    gateway,
):
    app.add_typer(group.app)
app.add_typer(_tasks, name="tasks")
app.add_typer(working_memory.app, name="wm")


def main() -> None:
    """Run the command line."""
    app()
