"""Add the memory to a coding agent and remove it: `install` and `uninstall`. Changes are shown before they are written."""

import sys
from typing import TYPE_CHECKING, Annotated, cast

import typer

from memolog.apps.cli.command import Answer, Call, verb
from memolog.apps.cli.output import console, told
from memolog.domain.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

    from rich.text import Text

    from memolog.apps.hooks.events import Host
    from memolog.apps.hooks.hosts import Change, Place

app = typer.Typer()

_Agent = Annotated[str, typer.Argument(metavar="AGENT", help="claude-code, codex, cursor or gemini.")]
_Project = Annotated[bool, typer.Option("--project", help="In this project only; for all of yours if it is not said.")]
_Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
_DryRun = Annotated[bool, typer.Option("--dry-run", help="Only show what would change.")]


@verb(app, needs="nothing", writes=True, example="memolog install claude-code --project --yes")
def install(
    call: Call,
    agent: _Agent,
    project: _Project = False,
    db: Annotated[
        str | None,
        typer.Option("--db", help="Where to keep the memory; one database in your own folder if none is named."),
    ] = None,
    resource: Annotated[
        str | None, typer.Option("--resource", "-r", help="Whose memory it is; each project's own if nobody is named.")
    ] = None,
    tokens: Annotated[
        int | None, typer.Option("--tokens", min=200, help="What a session is told at its start.")
    ] = None,
    settings: Annotated[str | None, typer.Option("--settings", help="The settings file that hooks use.")] = None,
    no_mcp: Annotated[bool, typer.Option("--no-mcp", help="Only the hooks, without the tools.")] = False,
    yes: _Yes = False,
    dry_run: _DryRun = False,
) -> Answer:
    """Give a coding agent a memory: hooks that keep what is said and done, and the tools. Shows what changes, and asks."""
    from pathlib import Path

    from memolog.apps.hooks.hosts import KNOWN, installing, targets

    host = _host(agent)
    common = ["--db", _address(db)]
    if resource:
        common += ["--resource", resource]
    if settings:
        if not Path(settings).is_file():
            raise InputError(f"There is no settings file {settings}.", then="Name one, or leave --settings out.")
        common += ["--config", str(Path(settings).resolve())]
    run = [sys.executable, "-P", "-m", "memolog.apps.hook"]
    told_at_start = ["--tokens", str(tokens)] if tokens else []
    # Cursor starts servers in a folder of its own, and says which project it means.
    folder = ["--folder", "${workspaceFolder}"] if host == "cursor" and not resource else []
    server = None if no_mcp else [*run, "mcp", *common, *folder]
    changes = installing(targets(host, _place(project), [*run, host, *common, *told_at_start], server))
    data: dict[str, object] = {"agent": host, "database": common[1]}
    done = _perform(call, changes, data, yes=yes, dry_run=dry_run)
    hints = [KNOWN[host].then, *_missing_tools(no_mcp)] if done == "changed" else []
    words = f"{KNOWN[host].title} has its memory in {common[1]}."
    return _answer(done, words, data, hints)


@verb(app, needs="nothing", writes=True, example="memolog uninstall claude-code --project")
def uninstall(
    call: Call, agent: _Agent, project: _Project = False, yes: _Yes = False, dry_run: _DryRun = False
) -> Answer:
    """Take the memory out of a coding agent's files: they are what they were. What was remembered stays."""
    from memolog.apps.hooks.hosts import KNOWN, targets, uninstalling

    host = _host(agent)
    changes = uninstalling(targets(host, _place(project), [""], [""]))
    data: dict[str, object] = {"agent": host}
    done = _perform(call, changes, data, yes=yes, dry_run=dry_run)
    words = f"{KNOWN[host].title} has nothing of ours in its files."
    return _answer(done, words, data, [])


def _host(agent: str) -> "Host":
    from memolog.apps.hooks.hosts import KNOWN

    for host in KNOWN:
        if host == agent.lower():
            return host
    raise InputError(f"{agent} is no coding agent that is known.", then=f"Known are {', '.join(KNOWN)}.")


def _place(project: bool) -> "Place":
    import os
    from pathlib import Path

    from memolog.apps.hooks.hosts import Place

    return Place(project=_project() if project else None, home=Path.home(), environment=os.environ)


def _project() -> "Path":
    """Return the checkout that we are in: a worktree has files of its own."""
    from pathlib import Path

    here = Path.cwd()
    return next((folder for folder in (here, *here.parents) if (folder / ".git").exists()), here)


def _address(named: str | None) -> str:
    import os
    from pathlib import Path

    from memolog.apps.hooks.spool import default_db
    from memolog.store.postgres_address import has_password, safe_url

    address = named or default_db(os.environ)
    if has_password(address):
        raise InputError(
            f"The address {safe_url(address)} holds a password.",
            why="It would be written into the agent's files, and every program of this machine could read it there or in "
            "the list of processes.",
            then="Leave it out of the address, and put it into the variable PGPASSWORD or into the password file of "
            "PostgreSQL (~/.pgpass, or the file that PGPASSFILE names).",
        )
    return address if "://" in address else str(Path(address).expanduser().resolve())


def _missing_tools(no_mcp: bool) -> list[str]:
    from importlib.util import find_spec

    if no_mcp or find_spec("mcp") is not None:
        return []
    return ["The tools need the extra `mcp`: install memolog[mcp]."]


# ---------------------------------------------------------------- showing, asking, doing


def _perform(call: Call, changes: "list[Change]", data: dict[str, object], *, yes: bool, dry_run: bool) -> str:
    """Show the changes and make them, if that is wanted; returns what came of it."""
    from memolog.apps.hooks.hosts import apply, backup_of, diff

    todo = [change for change in changes if not change.is_none]
    data["files"] = [str(change.path) for change in todo]
    data["diff"] = "".join(diff(change) for change in todo)
    if not todo:
        return "nothing"
    if not call.as_json:
        for change in todo:
            console().print(_coloured(diff(change)), soft_wrap=True)
    if dry_run:
        return "shown"
    if not yes:
        if call.as_json or not sys.stdin.isatty():
            raise InputError("Nobody can be asked here.", then="Add --yes to change these files, or --dry-run to look.")
        if not typer.confirm("Change these files?", default=True):
            return "left"
    for change in todo:
        apply(change)
    data["backups"] = [str(backup_of(change.path)) for change in todo if change.keeps]
    return "changed"


def _answer(done: str, words: str, data: dict[str, object], hints: list[str]) -> Answer:
    data |= {"changed": done == "changed", "next": hints}
    shown = {"nothing": f"{words} Nothing had to be changed.", "changed": words}.get(done, "Nothing was changed.")
    kept = [f"Kept as it was: {name}" for name in cast("list[str]", data.get("backups", []))]
    return Answer(data=data, show=lambda: told("\n".join([shown, *kept, *hints]), "green" if done == "changed" else ""))


def _coloured(text: str) -> "Text":
    styles = {"+": "green", "-": "red", "@": "cyan"}
    shown = told("")
    for line in text.splitlines(keepends=True):
        shown.append_text(told(line, styles.get(line[0], "")))
    return shown
