"""Install and uninstall the entries of Memolog in the settings files of coding agents.

Other entries, comments and layout of a file do not change. A file is replaced in one step. A copy of the original is kept in the
same folder.
A link that leads out of a project is refused, because a repository could use such a link to change any file of the user.
"""

import difflib
import json
import os
import shlex
import subprocess
from collections.abc import Callable, Container, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, Final, cast

from memolog.apps.hooks.events import HOSTS, Host
from memolog.apps.hooks.text_edit import add_item, parse, remove, set_member, with_block, without_block
from memolog.errors import InputError

MARK: Final = "memolog.apps.hook"
"""Text that identifies an entry of Memolog. Only commands of Memolog contain it."""
NAME: Final = "memolog"
"""Name of the MCP server of Memolog in the settings of a host."""

# Timeouts in seconds by kind of event. The answer to the start of a session is a context pack, which takes longer to build. Some
# hosts allow only a short time for the event at the end of a session.
_SECONDS: Final[dict[str, int]] = {"start": 10, "end": 3}
_USUAL_SECONDS: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """The name of a host, and the paths of its settings files."""

    title: str
    hooks: tuple[str, str]
    """Paths of the file with the hooks: relative to `home`, and relative to a project."""
    servers: tuple[str, str]
    """Paths of the file with the MCP servers: relative to `home`, and relative to a project."""
    home: str
    """Folder of the host, relative to the home folder of the user."""
    home_variable: str | None = None
    """Environment variable with the path of a folder that replaces `home`."""
    then: str
    """Advice for the user after the installation."""


KNOWN: Final[dict[Host, Form]] = {
    "claude-code": Form(
        title="Claude Code",
        # The entries contain paths of this machine, so they are written to the file that is not shared with other developers.
        hooks=("settings.json", ".claude/settings.local.json"),
        servers=("../.claude.json", ".mcp.json"),
        home=".claude",
        home_variable="CLAUDE_CONFIG_DIR",
        then="Start Claude Code again. Its commands /hooks and /mcp show the new entries.",
    ),
    "codex": Form(
        title="Codex",
        hooks=("hooks.json", ".codex/hooks.json"),
        servers=("config.toml", ".codex/config.toml"),
        home=".codex",
        home_variable="CODEX_HOME",
        then="Start Codex again and trust the new hooks in /hooks. Until then Codex does not run them.",
    ),
    "cursor": Form(
        title="Cursor",
        hooks=("hooks.json", ".cursor/hooks.json"),
        servers=("mcp.json", ".cursor/mcp.json"),
        home=".cursor",
        then="Start Cursor again. Its settings show hooks and servers.",
    ),
    "gemini": Form(
        title="Gemini CLI",
        hooks=("settings.json", ".gemini/settings.json"),
        servers=("settings.json", ".gemini/settings.json"),
        home=".gemini",
        then="Start Gemini CLI again. Its commands /hooks and /mcp show the new entries.",
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The settings files of a host: in `project`, or in the home folder of the user if `project` is None."""

    host: Host
    project: Path | None
    home: Path
    environment: Mapping[str, str]

    @property
    def hooks(self) -> Path:
        """Return the path of the file with the hooks."""
        return self._file(*KNOWN[self.host].hooks)

    @property
    def servers(self) -> Path:
        """Return the path of the file with the MCP servers. It may be the file with the hooks."""
        return self._file(*KNOWN[self.host].servers)

    def _file(self, in_home: str, in_project: str) -> Path:
        form = KNOWN[self.host]
        if self.project is not None:
            return self.project / in_project
        folder = self.environment.get(form.home_variable or "")
        if folder:
            # Files that are beside the default folder (`../`) are inside the folder of the variable.
            return Path(folder).expanduser() / in_home.removeprefix("../")
        return Path(os.path.normpath(self.home / form.home / in_home))


def _hook(host: Host, command: str, seconds: int) -> dict[str, Any]:
    """Return the settings entry of a hook in the format of its host. `seconds` is the timeout."""
    if host == "cursor":
        return {"command": command, "timeout": seconds}
    hook: dict[str, Any] = {"type": "command", "command": command, "timeout": seconds}
    # Gemini requires a name, and its timeouts are in milliseconds.
    return {"hooks": [{"name": NAME, **hook, "timeout": seconds * 1000} if host == "gemini" else hook]}


_REMARK: Final = "`memolog uninstall codex` removes it"
_BYTE_ORDER_MARK: Final = "\ufeff"
# Whether this system can open files relative to a folder descriptor.
_HAS_FOLDERS: Final = {os.open, os.mkdir, os.unlink, os.chmod} <= os.supports_dir_fd
_FOLDER: Final = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0)
_NO_LINK: Final = getattr(os, "O_NOFOLLOW", 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Content of one file before and after a change. None means that the file does not exist."""

    path: Path
    project: Path | None
    """Project that must contain the file after links are resolved. None means a file in the home folder."""
    before: str | None
    after: str | None
    original: str | None = None
    """Content before the installation, for a change that removes the entries of Memolog. None if there is no copy of it."""

    @property
    def differs(self) -> bool:
        """Return whether the file will differ from its content before the installation."""
        return self.original is not None and self.after != self.original

    @property
    def is_none(self) -> bool:
        """Return whether nothing changes."""
        return self.before == self.after

    @property
    def keeps(self) -> bool:
        """Return whether to keep a copy of the file. Only an existing file without entries of Memolog is an original."""
        return self.before is not None and MARK not in self.before


def backup_of(path: Path) -> Path:
    """Return the path where the original of a file is kept."""
    return path.with_name(f"{path.name}.memolog-backup")


# ---------------------------------------------------------------- changes


def installing(place: Place, hook: Sequence[str], server: Sequence[str] | None) -> list[Change]:
    """Return the changes that add a hook for every event and, unless `server` is None, the MCP server.

    `hook` and `server` are commands. An entry that exists already is not added again.
    """
    changes = list[Change]()
    for path in dict.fromkeys((place.hooks, place.servers)):
        before = _present(path, place.project)
        text, ending = _plain(before or "")
        added = _edited(path, _adding(place, hook, server), text)
        after = before if added == text else _as_it_was(added, ending)
        changes.append(Change(path=path, project=place.project, before=before, after=after))
    return changes


def uninstalling(place: Place) -> list[Change]:
    """Return the changes that remove the entries of Memolog.

    If nothing but the installation has changed a file, the file gets its original content back, byte for byte. Otherwise only
    the entries are removed.
    """
    changes = list[Change]()
    for path in dict.fromkeys((place.hooks, place.servers)):
        before = _present(path, place.project)
        cleaned = _cleaned(path, before)
        original = _read(backup_of(path))
        after: str | None = cleaned
        if cleaned == (before or "") and original is None:
            continue
        if cleaned == (before or ""):
            # The entries are gone already. Only the copy of the original is left.
            after = before
        elif original is None:
            # A file without other content was created by the installation. Delete it.
            after = None if _is_bare(cleaned) else cleaned
        elif cleaned in _reinstalled(place, path, original):
            after = original
        elif place.host == "cursor" and "version" not in _at(_plain(original)[0]):
            text, ending = _plain(cleaned)
            after = _as_it_was(remove(text, (), lambda name, _: name == "version"), ending)
        changes.append(Change(path=path, project=place.project, before=before, after=after, original=original))
    return changes


def _cleaned(path: Path, content: str | None) -> str:
    """Return the content of a file without the entries of Memolog."""
    text, ending = _plain(content or "")
    cleaned = _edited(path, _without_entries, text)
    return content or "" if cleaned == text else _as_it_was(cleaned, ending)


def _reinstalled(place: Place, path: Path, original: str) -> Iterator[str]:
    """Yield the content of a file after entries are added to its original and removed again, with and without the MCP server.

    The content differs from the original if an empty container got entries, or if the file has two kinds of line ends.
    """
    text, ending = _plain(original)
    command = [MARK]
    for server in (command, None):
        with suppress(InputError):
            added = _edited(path, _adding(place, command, server), text)
            yield _cleaned(path, _as_it_was(added, ending))


def _adding(place: Place, hook: Sequence[str], server: Sequence[str] | None) -> Callable[[Path, str], str]:
    """Return a function that adds the entries of Memolog to the text of a file."""

    def edit(path: Path, text: str) -> str:
        if path == place.hooks:
            text = _with_hooks(place.host, hook, text)
        return text if server is None or path != place.servers else _with_server(place.host, path, server, text)

    return edit


def installed_database(home: Path, folder: Path, environment: Mapping[str, str]) -> str | None:
    """Return the database of the installed hooks: those of the project that contains `folder`, else those of the user."""
    project = next((one for one in (folder, *folder.parents) if (one / ".git").exists()), folder)
    for where in (project, None):
        for host in KNOWN:
            place = Place(host=host, project=where, home=home, environment=environment)
            # A settings file that cannot be read counts as one without hooks.
            with suppress(InputError, OSError, ValueError):
                for command in _our_commands(_at(_plain(_read(place.hooks) or "")[0], "hooks")):
                    words = [word.strip('"') for word in shlex.split(command, posix=os.name != "nt")]
                    return words[words.index("--db") + 1]
    return None


def _our_commands(entry: object) -> Iterator[str]:
    """Yield the commands of Memolog in a part of a settings file."""
    if isinstance(entry, str):
        if MARK in entry:
            yield entry
    elif isinstance(entry, dict | list):
        inner = cast("dict[str, object] | list[object]", entry)
        for one in inner.values() if isinstance(inner, dict) else inner:
            yield from _our_commands(one)


def _with_hooks(host: Host, hook: Sequence[str], text: str) -> str:
    if host == "cursor" and "version" not in _at(text):
        # Cursor requires this field.
        text = set_member(text, (), "version", 1)
    command = subprocess.list2cmdline(hook) if os.name == "nt" else shlex.join(hook)
    for event, kind in HOSTS[host].items():
        entry = _hook(host, command, _SECONDS.get(kind, _USUAL_SECONDS))
        present = _at(text, "hooks").get(event)
        if isinstance(present, list) and entry in present:
            continue
        text = remove(text, ("hooks", event), _is_our_hook)
        text = add_item(text, ("hooks", event), entry)
    return _without_hooks(text, keep=HOSTS[host])


def _with_server(host: Host, path: Path, server: Sequence[str], text: str) -> str:
    kind = {"type": "stdio"} if host == "claude-code" else {}
    entry = {**kind, "command": server[0], "args": list(server[1:])}
    if path.suffix == ".toml":
        return with_block(text, ("mcp_servers", NAME), entry, _REMARK)
    servers = _at(text, "mcpServers")
    # An entry with this name that the user wrote is not changed.
    is_free = NAME not in servers or _is_ours(servers[NAME])
    return set_member(text, ("mcpServers",), NAME, entry) if is_free else text


def _without_entries(path: Path, text: str) -> str:
    if path.suffix == ".toml":
        return without_block(text)
    text = _without_hooks(text, keep=())
    return remove(text, ("mcpServers",), lambda name, entry: name == NAME and _is_ours(entry))


def _without_hooks(text: str, *, keep: Container[str]) -> str:
    """Remove the hooks of Memolog for all events except those in `keep`."""
    for event in [name for name in _at(text, "hooks") if name not in keep]:
        text = remove(text, ("hooks", event), _is_our_hook)
    return text


def _at(text: str, *path: str) -> dict[str, Any]:
    """Return the object at a path of a JSON text. Return an empty object if there is none."""
    found: Any = parse(text).value if text.strip() else {}
    for key in path:
        found = cast("dict[str, Any]", found).get(key) if isinstance(found, dict) else None
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


def _is_ours(entry: object) -> bool:
    return MARK in json.dumps(entry)


def _is_our_hook(_: str | None, entry: Any) -> bool:
    """Return whether a hook, or every hook of a group, is an entry of Memolog."""
    inner: Any = cast("dict[str, Any]", entry).get("hooks") if isinstance(entry, dict) else None
    hooks = cast("list[object]", inner if isinstance(inner, list) else [])
    return all(map(_is_ours, hooks or [cast("object", entry)]))


def _edited(path: Path, edit: Callable[[Path, str], str], text: str) -> str:
    """Return the text of a file after an edit. If the edit raises InputError, add the path of the file to its message."""
    try:
        return edit(path, text)
    except InputError as error:
        raise InputError(f"{path}: {error.what}", why=error.why, then=error.then) from error


def _is_bare(text: str) -> bool:
    """Return whether a settings file has no content except empty containers and a version."""
    if not text.strip():
        return True
    try:
        return all(item in ({}, []) or key == "version" for key, item in _at(text).items())
    except InputError:
        return False


# ---------------------------------------------------------------- files


def _present(path: Path, project: Path | None) -> str | None:
    """Return the content of a settings file. None means that it does not exist. Raises if a link leads out of the project."""
    for one in (path, backup_of(path)):
        _real(one, project)
    return _read(path)


def _real(path: Path, project: Path | None) -> Path:
    """Return a path with its links resolved. Raises if the result is not in the project, or is in its `.git` folder."""
    real = Path(os.path.realpath(path))
    if project is not None:
        top = Path(os.path.realpath(project))
        if not real.is_relative_to(top) or ".git" in real.relative_to(top).parts:
            raise InputError(
                f"{path} is a link to {real}, which is outside this project or in its .git folder.",
                why="A repository could use such a link to change any file of the user.",
                then="Check who created the link, and replace the link by a file.",
            )
    return real


def _read(path: Path) -> str | None:
    if path.exists() and not path.is_file():
        # Do not open a pipe, because reading it would block.
        raise InputError(f"{path} is not a regular file.", then="Replace it by a file.")
    try:
        return path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8 text.", then="Correct the file first.") from error


def _plain(text: str) -> tuple[str, str]:
    """Return a text without byte order mark and with line feeds, and a second text: the removed mark and original line end."""
    mark = _BYTE_ORDER_MARK if text.startswith(_BYTE_ORDER_MARK) else ""
    ending = "\r\n" if "\r\n" in text else "\n"
    return text.removeprefix(mark).replace("\r\n", "\n"), mark + ending


def _as_it_was(text: str, ending: str) -> str:
    """Return a text with the byte order mark and line end that `_plain` removed."""
    mark = _BYTE_ORDER_MARK if ending.startswith(_BYTE_ORDER_MARK) else ""
    return mark + text.replace("\n", ending.removeprefix(mark))


def diff(change: Change) -> str:
    """Return a change as a unified diff."""
    return _diff(change.before, change.after, str(change.path), str(change.path))


def diff_from_original(change: Change) -> str:
    """Return the differences between the original and the changed file, as a unified diff."""
    return _diff(change.original, change.after, str(backup_of(change.path)), str(change.path))


def _diff(before: str | None, after: str | None, old: str, new: str) -> str:
    first, second = ((one or "").splitlines(keepends=True) for one in (before, after))
    lines = difflib.unified_diff(first, second, old, new)
    return "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)


def apply(change: Change) -> None:
    """Copy the original, then write the changed file in one step. If the file is then equal to the original, delete the copy."""
    # A settings file may be a link, for example into a folder of dotfiles. Then the file that the link leads to is changed.
    project = change.project
    path, backup = _real(change.path, project), backup_of(change.path)
    backup = _real(backup.parent, project) / backup.name
    mode = _mode(path)
    if _read(path) != change.before:
        raise InputError(
            f"{change.path} has changed since it was read.",
            why="Another program has written it.",
            then="Run the command again.",
        )
    if change.keeps and not change.is_none and change.original is None:
        _write(backup, change.before, mode=mode, project=project)
    if not change.is_none:
        _write(path, change.after, mode=mode, project=project)
    if change.original is not None and not change.differs:
        _write(backup, None, mode=mode, project=project)


def _mode(path: Path) -> int:
    try:
        return path.stat().st_mode & 0o777
    except FileNotFoundError:
        return 0o600


def _write(path: Path, text: str | None, *, mode: int, project: Path | None) -> None:
    """Replace a file in one step, or delete it if `text` is None."""
    with _folder_of(path, project) as (folder, name):
        if text is None:
            with suppress(FileNotFoundError):
                os.unlink(name, dir_fd=folder)
            return
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
    """Create an empty file beside a file, with an unused name. Return its descriptor and its name."""
    for number in count():
        beside = path.with_name(f".{path.name}.memolog-{number}")
        name = str(beside) if folder is None else beside.name
        with suppress(FileExistsError):
            return os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_LINK, 0o600, dir_fd=folder), name
    raise AssertionError


@contextmanager
def _folder_of(path: Path, project: Path | None) -> Generator[tuple[int | None, str]]:
    """Open the folder of a file, and yield the folder's descriptor and the file's name. Missing folders are created.

    Inside a project, each folder is opened without following links. So if a folder is replaced by a link after `_real` has
    checked the path, the link is refused. On systems without folder descriptors, yield None and the whole path.
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
