"""Add a memory to a coding agent, and remove it: `install` and `uninstall`. Changes are shown before they are written."""

import os
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from memolog.apps.cli.command import Answer, Call, DryRun, Yes, is_agreed, verb
from memolog.apps.cli.output import show, show_diff, styled
from memolog.errors import InputError

if TYPE_CHECKING:
    from rich.text import Text

    from memolog.apps.hooks.events import Host
    from memolog.apps.hooks.hosts import Change, Place

app = typer.Typer()

# Maximum number of lines of a difference on the screen. `--json` has all lines.
_MAX_DIFF_LINES = 40

_Agent = Annotated[str, typer.Argument(metavar="AGENT", help="claude-code, codex, cursor or gemini.")]
_InProject = Annotated[
    bool, typer.Option("--project", help="Install in this project only. Default: for all projects of the user.")
]
_FromProject = Annotated[
    bool, typer.Option("--project", help="Remove from this project only. Default: from the settings of the user.")
]


@verb(app, needs="nothing", writes=True, example="memolog install claude-code --project --yes")
async def install(
    call: Call,
    agent: _Agent,
    project: _InProject = False,
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
    yes: Yes = False,
    dry_run: DryRun = False,
) -> Answer:
    """Add memory to a coding agent: hooks that store its sessions, and MCP tools. Shows the changes and asks first."""
    from memolog.apps.hooks.hosts import KNOWN, installing

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
    changes = installing(_place(host, project), [*run, host, *common, *start_tokens], server)
    advice = [KNOWN[host].then]
    if not no_mcp and find_spec("mcp") is None:
        advice.append('The MCP tools need another library. Install it with: pip install "memolog[mcp]"')
    data: dict[str, object] = {"agent": host, "database": common[1]}
    words = f"The memory of {KNOWN[host].title} is in {common[1]}."
    return _apply(call, changes, data, words, words, advice, yes=yes, dry_run=dry_run)


@verb(app, needs="nothing", writes=True, example="memolog uninstall claude-code --project")
async def uninstall(
    call: Call, agent: _Agent, project: _FromProject = False, yes: Yes = False, dry_run: DryRun = False
) -> Answer:
    """Remove the hooks and tools from the settings of a coding agent. The database is not changed."""
    from memolog.apps.hooks.hosts import KNOWN, uninstalling

    host = _host(agent)
    changes = uninstalling(_place(host, project))
    words = f"The settings of {KNOWN[host].title} have no entries of Memolog."
    done = f"Removed the entries of Memolog from the settings of {KNOWN[host].title}."
    return _apply(call, changes, {"agent": host}, words, done, [], yes=yes, dry_run=dry_run)


def _host(agent: str) -> "Host":
    from memolog.apps.hooks.hosts import KNOWN

    for host in KNOWN:
        if host == agent.lower():
            return host
    raise InputError(f"AGENT must be one of {', '.join(KNOWN)}, got {agent!r}.")


def _place(host: "Host", project: bool) -> "Place":
    from memolog.apps.hooks.hosts import Place

    here = Path.cwd()
    # The root of the git checkout or worktree. Without git, the current folder.
    root = next((folder for folder in (here, *here.parents) if (folder / ".git").exists()), here)
    return Place(host=host, project=root if project else None, home=Path.home(), environment=os.environ)


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


# ---------------------------------------------------------------- applying changes


def _apply(
    call: Call,
    changes: "list[Change]",
    data: dict[str, object],
    words: str,
    done: str,
    advice: list[str],
    *,
    yes: bool,
    dry_run: bool,
) -> Answer:
    """Show the changes, ask for confirmation, and apply them.

    `words` describes the result, `done` what was done if something was changed, and `advice` the next steps.
    """
    from memolog.apps.hooks.hosts import apply, backup_of, diff

    todo = [change for change in changes if not change.is_none]
    data |= {"files": [str(change.path) for change in todo], "diff": "".join(map(diff, todo))}
    data["differs"] = [_difference(change) for change in changes if change.differs]
    asks = bool(todo) and not yes and not dry_run
    if asks and not call.as_json:
        _show_changes(changes)

    def answer(lines: list[str], style: str = "") -> Answer:
        # Without a question, the changes are shown after the work, because the reader of a pipe may leave early.
        def show() -> "Text":
            if not asks:
                _show_changes(changes)
            return styled("\n".join(lines), style)

        return Answer(data=data, show=show)

    data |= {"changed": False, "next": ()}
    if todo and (dry_run or (asks and not _is_confirmed(call))):
        return answer(["Nothing was changed."])
    if not dry_run:
        for change in changes:
            apply(change)
    if not todo:
        return answer([f"{words} No change was needed."])
    backups = [str(backup_of(change.path)) for change in todo if change.keeps]
    lines = [done, *(f"The original is kept as {name}" for name in backups), *advice]
    data |= {"backups": backups, "changed": True, "next": advice}
    return answer(lines, "green")


def _show_changes(changes: "list[Change]") -> None:
    from memolog.apps.hooks.hosts import diff

    for change in changes:
        if not change.is_none:
            show(show_diff(diff(change)))
    for change in changes:
        if change.differs:
            _show_difference(change)


def _difference(change: "Change") -> dict[str, str]:
    from memolog.apps.hooks.hosts import backup_of, diff_from_original

    return {"file": str(change.path), "original": str(backup_of(change.path)), "diff": diff_from_original(change)}


def _show_difference(change: "Change") -> None:
    """Print the differences that remain between the file and its original after the entries are removed."""
    shown = _difference(change)
    lines = shown["diff"].splitlines()
    more = len(lines) - _MAX_DIFF_LINES
    text = "\n".join([*lines[:_MAX_DIFF_LINES], *([f"… and {more} more lines"] if more > 0 else [])])
    what = f"Without the entries of Memolog, {shown['file']} differs from its original in other places, too:"
    advice = f"These changes stay. The original is kept as {shown['original']}; delete it when you do not need it."
    show(styled(what, "yellow"))
    show(show_diff(text))
    show(styled(advice, "yellow"))


def _is_confirmed(call: Call) -> bool:
    if call.as_json or not sys.stdin.isatty():
        raise InputError(
            "Changing files needs a confirmation, and there is no terminal.",
            then="Add --yes, or add --dry-run to see the changes.",
        )
    return is_agreed("Change these files?", default=True)
