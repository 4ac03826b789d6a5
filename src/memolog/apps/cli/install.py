"""Add a memory to a coding agent, and remove it: `install` and `uninstall`. Changes are shown before they are written."""

import os
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from memolog.apps.cli.command import Answer, Call, verb
from memolog.apps.cli.output import console, show_diff, styled
from memolog.errors import InputError

if TYPE_CHECKING:
    from memolog.apps.hooks.events import Host
    from memolog.apps.hooks.hosts import Change, Place

app = typer.Typer()

_Agent = Annotated[str, typer.Argument(metavar="AGENT", help="claude-code, codex, cursor or gemini.")]
_Project = Annotated[
    bool, typer.Option("--project", help="Install in this project only. Default: for all projects of the user.")
]
_Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]
_DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would change, and change nothing.")]


@verb(app, needs="nothing", writes=True, example="memolog install claude-code --project --yes")
async def install(
    call: Call,
    agent: _Agent,
    project: _Project = False,
    db: Annotated[
        str | None,
        typer.Option(help="Database. Default: ~/.memolog/memolog.db, which all projects share."),
    ] = None,
    resource: Annotated[
        str | None, typer.Option("--resource", "-r", help="Resource. Default: a separate resource for each project.")
    ] = None,
    tokens: Annotated[
        int | None,
        typer.Option(min=200, help="Maximum number of tokens of the context pack at the start of a session."),
    ] = None,
    settings: Annotated[str | None, typer.Option(help="Settings file for the hooks.")] = None,
    no_mcp: Annotated[bool, typer.Option("--no-mcp", help="Install the hooks without the MCP tools.")] = False,
    yes: _Yes = False,
    dry_run: _DryRun = False,
) -> Answer:
    """Add memory to a coding agent: hooks that store its sessions, and MCP tools. Shows the changes and asks first."""
    from memolog.apps.hooks.hosts import KNOWN, installing, targets

    host = _host(agent)
    common = ["--db", _address(db)]
    if resource:
        common += ["--resource", resource]
    if settings:
        common += ["--config", _settings_file(settings)]
    run = [sys.executable, "-P", "-m", "memolog.apps.hook"]
    start_tokens = ["--tokens", str(tokens)] if tokens else []
    # Cursor starts servers in another folder than the project, but replaces this variable by the path of the project.
    folder = ["--folder", "${workspaceFolder}"] if host == "cursor" and not resource else []
    server = None if no_mcp else [*run, "mcp", *common, *folder]
    changes = installing(targets(host, _place(project), [*run, host, *common, *start_tokens], server))
    data: dict[str, object] = {"agent": host, "database": common[1]}
    done = _perform(call, changes, data, yes=yes, dry_run=dry_run)
    advice = [KNOWN[host].then, *_missing_tools(no_mcp)] if done == "changed" else []
    words = f"The memory of {KNOWN[host].title} is in {common[1]}."
    return _answer(done, words, data, advice)


@verb(app, needs="nothing", writes=True, example="memolog uninstall claude-code --project")
async def uninstall(
    call: Call, agent: _Agent, project: _Project = False, yes: _Yes = False, dry_run: _DryRun = False
) -> Answer:
    """Remove the hooks and tools from the settings of a coding agent. The database is not changed."""
    from memolog.apps.hooks.hosts import KNOWN, targets, uninstalling

    host = _host(agent)
    changes = uninstalling(targets(host, _place(project), [""], [""]))
    data: dict[str, object] = {"agent": host}
    done = _perform(call, changes, data, yes=yes, dry_run=dry_run)
    words = f"The settings of {KNOWN[host].title} have no entries of Memolog."
    return _answer(done, words, data, [])


def _host(agent: str) -> "Host":
    from memolog.apps.hooks.hosts import KNOWN

    for host in KNOWN:
        if host == agent.lower():
            return host
    raise InputError(f"AGENT must be one of {', '.join(KNOWN)}, got {agent!r}.")


def _place(project: bool) -> "Place":
    from memolog.apps.hooks.hosts import Place

    return Place(project=_project() if project else None, home=Path.home(), environment=os.environ)


def _project() -> "Path":
    """Return the root of the current git checkout or worktree. Without git, return the current folder."""
    here = Path.cwd()
    return next((folder for folder in (here, *here.parents) if (folder / ".git").exists()), here)


def _settings_file(named: str) -> str:
    if not Path(named).is_file():
        raise InputError(f"There is no settings file {named}.", then="Check the path, or omit --settings.")
    return str(Path(named).resolve())


def _address(named: str | None) -> str:
    from memolog.apps.hooks.spool import default_db
    from memolog.db.postgres_address import has_password, safe_url

    address = named or default_db(os.environ)
    if has_password(address):
        raise InputError(
            f"The address {safe_url(address)} contains a password.",
            why="The password would be written to the settings of the agent and be visible in the list of processes.",
            then="Remove the password from the address, and set PGPASSWORD or use the password file (~/.pgpass).",
        )
    return address if "://" in address else str(Path(address).expanduser().resolve())


def _missing_tools(no_mcp: bool) -> list[str]:
    if no_mcp or find_spec("mcp") is not None:
        return []
    return ['The MCP tools need another library. Install it with: pip install "memolog[mcp]"']


# ---------------------------------------------------------------- showing, asking, doing


def _perform(call: Call, changes: "list[Change]", data: dict[str, object], *, yes: bool, dry_run: bool) -> str:
    """Show the changes, ask for confirmation, and apply them. Return "nothing", "shown", "left" or "changed"."""
    from memolog.apps.hooks.hosts import apply, backup_of, diff

    todo = [change for change in changes if not change.is_none]
    data["files"] = [str(change.path) for change in todo]
    data["diff"] = "".join(diff(change) for change in todo)
    if not todo:
        return "nothing"
    if not call.as_json:
        for change in todo:
            console().print(show_diff(diff(change)), soft_wrap=True)
    if dry_run:
        return "shown"
    if not yes:
        if call.as_json or not sys.stdin.isatty():
            raise InputError(
                "Changing files needs a confirmation, and there is no terminal.",
                then="Add --yes, or add --dry-run to see the changes.",
            )
        if not typer.confirm("Change these files?", default=True):
            return "left"
    for change in todo:
        apply(change)
    data["backups"] = [str(backup_of(change.path)) for change in todo if change.keeps]
    return "changed"


def _answer(done: str, words: str, data: dict[str, object], advice: list[str]) -> Answer:
    data |= {"changed": done == "changed", "next": advice}
    shown = {"nothing": f"{words} No change was needed.", "changed": words}.get(done, "Nothing was changed.")
    backups = [f"The original is kept as {name}" for name in cast("list[str]", data.get("backups", []))]
    return Answer(
        data=data, show=lambda: styled("\n".join([shown, *backups, *advice]), "green" if done == "changed" else "")
    )
