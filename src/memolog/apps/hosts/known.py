"""The hosts we know: their files, for a user or for one project, and the form that hooks and servers have there.

Knows paths and shapes. Reads and writes nothing.
"""

import os
import shlex
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from memolog.apps.hook.events import HOSTS, Host

__all__ = ["KNOWN", "MARK", "NAME", "Form", "Place", "Target", "targets"]

MARK: Final = "memolog.apps.hook"
"""What every command of ours has in it, and no other."""
NAME: Final = "memolog"
"""What our server is called in a host's configuration."""

Shape: TypeAlias = Callable[[str, int], dict[str, Any]]
"""Makes a hook's entry from its command and the seconds that it may take."""


def _nested(command: str, seconds: int) -> dict[str, Any]:
    return {"hooks": [{"type": "command", "command": command, "timeout": seconds}]}


def _nested_named(command: str, seconds: int) -> dict[str, Any]:
    return {"hooks": [{"name": NAME, "type": "command", "command": command, "timeout": seconds * 1000}]}


def _flat(command: str, seconds: int) -> dict[str, Any]:
    return {"command": command, "timeout": seconds}


# A start is answered, so it may take longer; at the end a host is in a hurry, and some allow no more.
_SECONDS: Final[dict[str, int]] = {"start": 10, "end": 3}
_USUAL_SECONDS: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """What a host's configuration looks like."""

    title: str
    shape: Shape
    hooks: tuple[str, str]
    """The file with the hooks: in the user's folder of the host, and in a project."""
    servers: tuple[str, str]
    """The file with the servers, likewise."""
    home: str
    """The user's folder of the host, in the user's own."""
    home_variable: str | None = None
    """What names another folder instead."""
    server: Mapping[str, Any]
    """What a server's entry has beside its command."""
    then: str
    """What the user does next."""


KNOWN: Final[dict[Host, Form]] = {
    "claude-code": Form(
        title="Claude Code",
        shape=_nested,
        # What is ours names paths of this machine: the project's own file for that is not shared.
        hooks=("settings.json", ".claude/settings.local.json"),
        servers=("../.claude.json", ".mcp.json"),
        home=".claude",
        home_variable="CLAUDE_CONFIG_DIR",
        server={"type": "stdio"},
        then="Start Claude Code again; /hooks and /mcp show what it has found.",
    ),
    "codex": Form(
        title="Codex",
        shape=_nested,
        hooks=("hooks.json", ".codex/hooks.json"),
        servers=("config.toml", ".codex/config.toml"),
        home=".codex",
        home_variable="CODEX_HOME",
        server={},
        then="Start Codex again and trust the new hooks in /hooks: until then it does not run them.",
    ),
    "cursor": Form(
        title="Cursor",
        shape=_flat,
        hooks=("hooks.json", ".cursor/hooks.json"),
        servers=("mcp.json", ".cursor/mcp.json"),
        home=".cursor",
        server={},
        then="Start Cursor again; its settings show hooks and servers.",
    ),
    "gemini": Form(
        title="Gemini CLI",
        shape=_nested_named,
        hooks=("settings.json", ".gemini/settings.json"),
        servers=("settings.json", ".gemini/settings.json"),
        home=".gemini",
        server={},
        then="Start Gemini CLI again; /hooks and /mcp show what it has found.",
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where to install: for the user, or in one project."""

    project: Path | None
    home: Path
    environment: Mapping[str, str]

    def file(self, form: Form, names: tuple[str, str]) -> Path:
        """Return one of a host's files."""
        if self.project is not None:
            return self.project / names[1]
        named = self.environment.get(form.home_variable or "")
        if named:
            # A folder of its own holds everything, also what is beside the usual one.
            return Path(named).expanduser() / names[0].removeprefix("../")
        return Path(os.path.normpath(self.home / form.home / names[0]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One file, and what of ours belongs in it."""

    path: Path
    format: Literal["json", "toml"]
    hooks: Mapping[str, dict[str, Any]]
    """The entry for each event; empty where hooks are elsewhere."""
    server: Mapping[str, Any] | None
    """The entry of our server; None where servers are elsewhere, or none is wanted."""
    holds_hooks: bool
    holds_servers: bool
    is_cursor: bool = False
    project: Path | None = None
    """The project that the file must lie in, wherever links lead; None for the user's own files."""


def targets(host: Host, place: Place, hook: Sequence[str], server: Sequence[str] | None) -> list[Target]:
    """Return the files of a host with what belongs in each: the hook's command for every event, and our server's."""
    form = KNOWN[host]
    line = subprocess.list2cmdline(hook) if os.name == "nt" else shlex.join(hook)
    hooks = {event: form.shape(line, _SECONDS.get(kind, _USUAL_SECONDS)) for event, kind in HOSTS[host].items()}
    entry = None if server is None else {**form.server, "command": server[0], "args": list(server[1:])}
    files: dict[Path, tuple[bool, bool]] = {place.file(form, form.hooks): (True, False)}
    second = place.file(form, form.servers)
    files[second] = (second in files, True)
    return [
        Target(
            path=path,
            format="toml" if path.suffix == ".toml" else "json",
            hooks=hooks if has_hooks else {},
            server=entry if has_servers else None,
            holds_hooks=has_hooks,
            holds_servers=has_servers,
            is_cursor=host == "cursor" and has_hooks,
            project=place.project,
        )
        for path, (has_hooks, has_servers) in files.items()
    ]
