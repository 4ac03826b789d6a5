"""Install and uninstall our entries in the settings files of coding agents.

Other entries, comments and layout of a file stay. A file is replaced in one step; its original is kept beside it. In a project,
a link that leads out of the project is refused, because a repository could use it to change any file of the user.
"""

import difflib
import json
import os
import shlex
import subprocess
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, cast

from memolog.apps.hooks.events import HOSTS, Host
from memolog.apps.hooks.text_edit import (
    add_item,
    has_block,
    parse,
    remove,
    set_member,
    value,
    with_block,
    without_block,
)
from memolog.domain.errors import InputError

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


_REMARK: Final = "`memolog uninstall codex` takes it out"
_MARKS: Final = "\ufeff"
_HAS_FOLDERS: Final = {os.open, os.mkdir, os.unlink, os.chmod} <= os.supports_dir_fd
_FOLDER: Final = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0)
_NO_LINK: Final = getattr(os, "O_NOFOLLOW", 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What one file is now and what it becomes; None where there is none."""

    path: Path
    before: str | None
    after: str | None
    keeps: bool = False
    """Whether the file is kept as it was, beside itself."""
    project: Path | None = None
    """The project that the file must lie in, wherever links lead; None for the user's own files."""

    @property
    def is_none(self) -> bool:
        """Tell whether there is nothing to do."""
        return self.before == self.after


def backup_of(path: Path) -> Path:
    """Return where a file is kept as it was before."""
    return path.with_name(f"{path.name}.memolog-backup")


# ---------------------------------------------------------------- what is to be changed


def installing(targets: Sequence[Target]) -> list[Change]:
    """Return what to change so that our entries are in, each once, and nothing else differs."""
    changes = list[Change]()
    for target in targets:
        before = _present(target)
        text, ending = _plain(before or "")
        after = _as_it_was(_naming(target.path, _installed, target, text), ending) or None
        is_clean = before is not None and _naming(target.path, _uninstalled, target, text) == text
        changes.append(Change(path=target.path, before=before, after=after, keeps=is_clean, project=target.project))
    return changes


def uninstalling(targets: Sequence[Target]) -> list[Change]:
    """Return what to change so that none of our entries is in; what was there before is there again, byte for byte."""
    changes = list[Change]()
    for target in targets:
        before = _present(target)
        if before is None:
            continue
        text, ending = _plain(before)
        bare = _naming(target.path, _uninstalled, target, text)
        if bare == text:
            continue
        kept = _read(backup_of(target.path))
        if kept is not None and target.is_cursor and "version" not in _at(_plain(kept)[0]):
            bare = remove(bare, (), lambda name, _: name == "version")
        after: str | None = _as_it_was(bare, ending)
        if kept is not None and _tokens(kept) == _tokens(after or ""):
            after = kept
        elif kept is None and _is_bare(after or ""):
            # Nobody else has put anything into it: we made it.
            after = None
        changes.append(Change(path=target.path, before=before, after=after, project=target.project))
    return changes


def _installed(target: Target, text: str) -> str:
    if target.format == "toml":
        if target.server is None:
            return text
        return with_block(text, ("mcp_servers", NAME), target.server, _REMARK)
    if target.hooks:
        text = _with_hooks(target, text)
    if target.server is not None:
        servers = _at(text, "mcpServers")
        if NAME not in servers or _is_ours(servers[NAME]):
            text = set_member(text, ("mcpServers",), NAME, dict(target.server))
    return text


def _with_hooks(target: Target, text: str) -> str:
    if target.is_cursor and "version" not in _at(text):
        text = set_member(text, (), "version", 1)
    for event, entry in target.hooks.items():
        present = _at(text, "hooks").get(event)
        if isinstance(present, list) and entry in present:
            continue
        text = remove(text, ("hooks", event), _is_our_hook)
        text = add_item(text, ("hooks", event), entry)
    return _without_hooks(text, but=frozenset(target.hooks))


def _uninstalled(target: Target, text: str) -> str:
    if target.format == "toml":
        return without_block(text) if has_block(text) else text
    if target.holds_hooks:
        text = _without_hooks(text, but=frozenset())
    if target.holds_servers:
        text = remove(text, ("mcpServers",), lambda name, entry: name == NAME and _is_ours(entry))
    return text


def _without_hooks(text: str, *, but: frozenset[str]) -> str:
    for event in [name for name in _at(text, "hooks") if name not in but]:
        text = remove(text, ("hooks", event), _is_our_hook)
    return text


def _at(text: str, *path: str) -> dict[str, Any]:
    """Return the object at a path; an empty one if there is none."""
    found: Any = value(parse(text)) if text.strip() else {}
    for key in path:
        found = cast("dict[str, Any]", found).get(key) if isinstance(found, dict) else None
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


def _is_ours(entry: object) -> bool:
    return MARK in json.dumps(entry)


def _is_our_hook(_: str | None, entry: Any) -> bool:
    """Tell whether a hook is ours; a group that others have joined is not."""
    inner: Any = cast("dict[str, Any]", entry).get("hooks") if isinstance(entry, dict) else None
    hooks = cast("list[object]", inner if isinstance(inner, list) else [])
    return all(map(_is_ours, hooks or [cast("object", entry)]))


def _naming(path: Path, work: Any, target: Target, text: str) -> str:
    """Do something with a file's text; an error says which file it is about."""
    try:
        return str(work(target, text))
    except InputError as error:
        raise InputError(f"{path}: {error.what}", why=error.why, then=error.then) from error


def _is_bare(text: str) -> bool:
    if not text.strip():
        return True
    try:
        return all(item in ({}, []) or key == "version" for key, item in _at(text).items())
    except InputError:
        return False


def _tokens(text: str) -> str:
    """Return a text without white space: what two of them differ in by more, somebody changed."""
    return "".join(text.split())


# ---------------------------------------------------------------- files


def _present(target: Target) -> str | None:
    """Return what a file holds; None if there is none. Raises where links lead out of the project it belongs to."""
    for path in (target.path, backup_of(target.path)):
        _real(path, target.project)
    return _read(target.path)


def _real(path: Path, project: Path | None) -> Path:
    """Return what a path leads to; raises if that is not in the project."""
    real = Path(os.path.realpath(path))
    if project is not None:
        top = Path(os.path.realpath(project))
        if not real.is_relative_to(top) or ".git" in real.relative_to(top).parts:
            raise InputError(
                f"{path} leads to {real}, out of this project.",
                why="A link that came with the repository would let it change any file of yours.",
                then="Look where the link comes from, and replace it by a file of its own.",
            )
    return real


def _read(path: Path) -> str | None:
    if path.exists() and not path.is_file():
        # A pipe would be waited for without end.
        raise InputError(f"{path} is no ordinary file.", then="Look what it is, and replace it by a file.")
    try:
        return path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is no UTF-8 text.", then="Mend it first.") from error


def _plain(text: str) -> tuple[str, str]:
    """Return a text with plain line ends and without a mark in front, and what it had instead."""
    mark = _MARKS if text.startswith(_MARKS) else ""
    ending = "\r\n" if "\r\n" in text else "\n"
    return text.removeprefix(mark).replace("\r\n", "\n"), mark + ending


def _as_it_was(text: str, ending: str) -> str:
    mark = _MARKS if ending.startswith(_MARKS) else ""
    return mark + text.replace("\n", ending.removeprefix(mark))


def diff(change: Change) -> str:
    """Return a change as people read it."""
    before, after = ((one or "").splitlines(keepends=True) for one in (change.before, change.after))
    lines = difflib.unified_diff(before, after, str(change.path), str(change.path))
    return "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)


def apply(change: Change) -> None:
    """Make a change, in one step. What the file was is kept if it had nothing of ours; a backup that was restored is gone."""
    # A file may be a link into a folder that somebody keeps in order: what it points to is changed.
    path, backup = _real(change.path, change.project), backup_of(change.path)
    kept = _real(backup.parent, change.project) / backup.name
    if change.keeps and change.before is not None:
        _write(kept, change.before, mode=_mode(path), project=change.project)
    if change.after is None:
        with _folder_of(path, change.project) as (folder, name):
            os.unlink(name, dir_fd=folder)
    else:
        _write(path, change.after, mode=_mode(path), project=change.project)
    if not change.keeps and (change.after is None or MARK not in change.after):
        with suppress(FileNotFoundError), _folder_of(kept, change.project) as (folder, name):
            os.unlink(name, dir_fd=folder)


def _mode(path: Path) -> int:
    try:
        return path.stat().st_mode & 0o777
    except FileNotFoundError:
        return 0o600


def _write(path: Path, text: str, *, mode: int, project: Path | None) -> None:
    with _folder_of(path, project) as (folder, name):
        file, new = _new_file(path, folder)
        try:
            with os.fdopen(file, "wb") as opened:
                opened.write(text.encode("utf-8"))
            os.chmod(new, mode, dir_fd=folder)
            os.replace(new, name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            os.unlink(new, dir_fd=folder)
            raise


def _new_file(path: Path, folder: int | None) -> tuple[int, str]:
    """Make an empty file beside a file; what lies there already is left alone."""
    for number in count():
        beside = path.with_name(f".{path.name}.memolog-{number}")
        name = str(beside) if folder is None else beside.name
        with suppress(FileExistsError):
            return os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_LINK, 0o600, dir_fd=folder), name
    raise AssertionError


@contextmanager
def _folder_of(path: Path, project: Path | None) -> Generator[tuple[int | None, str]]:
    """Open the folder of a file, made if it is missing; yields it with the name of the file in it.

    From the project on no part of the way may be a link, also if one is put there only now. Where the system cannot hold a
    folder open, the whole path is the name.
    """
    if not _HAS_FOLDERS:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield None, str(path)
        return
    top = path.parent if project is None else Path(os.path.realpath(project))
    if project is None:
        top.mkdir(parents=True, exist_ok=True)
    folder = os.open(top, _FOLDER)
    try:
        for part in path.parent.relative_to(top).parts:
            with suppress(FileExistsError):
                os.mkdir(part, dir_fd=folder)
            inner = os.open(part, _FOLDER | _NO_LINK, dir_fd=folder)
            os.close(folder)
            folder = inner
        yield folder, path.name
    finally:
        os.close(folder)
