"""Handle one event of a coding agent: write it to the spool, and answer the start of a session with a context pack.

A hook must not fail or delay the agent. So HOST and `sweep` write errors to a log file and always exit with code 0.

    python -P -m memolog.apps.hook HOST [--db DB] [--resource NAME] [--tokens N] [--config FILE]        event on standard input
    python -P -m memolog.apps.hook sweep [--db DB] [--config FILE]                                      store the spooled events
    python -P -m memolog.apps.hook mcp [--db DB] [--resource NAME] [--folder FOLDER] [--config FILE]    MCP tools of a project
"""

# The agent waits for this process, so imports that only some events need are local. Pathlib is slow to import.
# ruff: noqa: PLC0415, PTH100, PTH109, PTH112, PTH113, PTH118, PTH119, PTH120, PTH123

import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, cast

from memolog.apps.hooks.events import HOSTS, Host, record_of
from memolog.apps.hooks.spool import Spool, default_db, note, spool_of

DEFAULT_TOKENS: Final = 2_300
"""Default maximum number of tokens of a context pack. Hosts cut texts that are longer than about 10,000 characters."""


class Options:
    """Command line options of a hook."""

    def __init__(self, arguments: Sequence[str], environment: Mapping[str, str]) -> None:
        self.verb = arguments[0] if arguments else ""
        given = dict(zip(arguments[1::2], arguments[2::2], strict=False))
        self.db = given.get("--db") or default_db(environment)
        if "://" not in self.db:
            self.db = os.path.abspath(self.db)
        self.resource = given.get("--resource") or environment.get("MEMOLOG_RESOURCE")
        self.folder = given.get("--folder")
        self.config = given.get("--config")
        tokens = given.get("--tokens") or ""
        self.tokens = int(tokens) if tokens.isdigit() else DEFAULT_TOKENS

    @property
    def spool(self) -> Spool:
        """Return the spool of the database."""
        return spool_of(self.db, os.environ)


LONGEST = 512
"""Maximum number of characters in the name of a resource."""
_HOST_FOLDERS = ("CLAUDE_PROJECT_DIR", "GEMINI_PROJECT_DIR", "CURSOR_PROJECT_DIR")


def started_in(folder: str | None, environment: Mapping[str, str]) -> str:
    """Return the folder of a session: the project folder in a variable of the host, else `folder`, else the working folder."""
    for name in _HOST_FOLDERS:
        if environment.get(name):
            return environment[name]
    return folder or os.getcwd()


def resource_of(folder: str) -> str:
    """Return the resource of a folder: the path of its project, of which only the last `LONGEST` characters are used."""
    name = "".join(char if char.isprintable() else "?" for char in root_of(folder))
    return name[-LONGEST:]


def root_of(folder: str) -> str:
    """Return the git checkout that contains a folder. For a worktree, return the main checkout; without git, the folder."""
    start = os.path.realpath(folder)
    at = start
    while True:
        mark = os.path.join(at, ".git")
        if os.path.isdir(mark):
            return at
        if os.path.isfile(mark):
            return _main_checkout(mark) or at
        above = os.path.dirname(at)
        if above == at:
            return start
        at = above


def _main_checkout(mark: str) -> str | None:
    """Return the main checkout of a worktree; None for a submodule, which is a separate project."""
    try:
        with open(mark, encoding="utf-8") as file:
            head = file.read(4096)
        folder = os.path.join(os.path.dirname(mark), head.removeprefix("gitdir:").strip())
        with open(os.path.join(folder, "commondir"), encoding="utf-8") as file:
            shared = os.path.realpath(os.path.join(folder, file.read(4096).strip()))
    except (OSError, ValueError):
        return None
    return os.path.dirname(shared) if os.path.basename(shared) == ".git" else shared


# Kinds of events that start a sweep.
_WAKES: Final = ("start", "stop", "compact", "end")


def main() -> None:
    """Handle the event on standard input, or run `sweep` or `mcp`."""
    options = Options(sys.argv[1:], os.environ)
    if options.verb == "mcp":
        # A server is not a hook, so its errors are reported to the host.
        _serve_tools(options)
        return
    try:
        if options.verb == "sweep":
            from memolog.apps.hooks.sweep import sweep

            sweep(options.db, options.config)
        elif os.environ.get("MEMOLOG_HOOKS", "").lower() not in {"0", "off", "false", "no"}:
            answer = handle(options, sys.stdin.buffer.read(), at=time.time())
            sys.stdout.write(answer)
            sys.stdout.flush()
    except BaseException as error:  # noqa: BLE001 - an error of the memory must not stop the host
        note(options.spool, os.environ, time.time(), f"{options.verb}: {type(error).__name__}: {error}")
    # Skip the shutdown of the interpreter, because it takes time and there is nothing to clean up.
    os._exit(0)


def handle(options: Options, raw: bytes, *, at: float, wake: Callable[[Options], None] | None = None) -> str:
    """Write one event to the spool, start a sweep after certain kinds of events, and return the answer for the host."""
    if options.verb not in HOSTS:
        raise ValueError(f"host must be one of {', '.join(HOSTS)}, got {options.verb!r}")
    host = options.verb
    data = json.loads(raw.decode("utf-8", "replace"))
    record = record_of(host, cast("dict[str, Any]", data), at=at) if isinstance(data, dict) else None
    if record is None:
        return _nothing(host)
    record["resource"] = options.resource or resource_of(started_in(record["cwd"], os.environ))
    options.spool.append(f"{host}-{record['session']}", record)
    # Start the sweep before `greeting`, which starts a thread. A process should not fork while threads run.
    if record["kind"] in _WAKES:
        (wake or sweep_apart)(options)
    if record["kind"] == "start":
        from memolog.apps.hooks.session_start import greeting

        return greeting(record, db=options.db, config_file=options.config, tokens=options.tokens)
    return _nothing(host)


def _nothing(host: Host) -> str:
    """Return the empty answer in the format of the host."""
    return '{"continue": true}\n' if host == "cursor" else ""


def sweep_apart(options: Options) -> None:
    """Start a sweep in a detached process."""
    arguments = [sys.executable, "-P", "-m", "memolog.apps.hook", "sweep"]
    if options.config:
        arguments += ["--config", options.config]
    # The model of the observer may be a coding agent that has these hooks. With MEMOLOG_HOOKS=off, the events of that agent are
    # not stored. The address of the database may contain a password. It is passed in MEMOLOG_DB, because every user of the
    # machine can see the arguments of a process.
    environment = {**os.environ, "MEMOLOG_HOOKS": "off", "MEMOLOG_DB": options.db}
    if not hasattr(os, "fork"):
        import subprocess

        flags = getattr(subprocess, "DETACHED_PROCESS", 0) | getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)
        nowhere = subprocess.DEVNULL
        subprocess.Popen(  # noqa: S603 - our own interpreter and module
            arguments, env=environment, stdin=nowhere, stdout=nowhere, stderr=nowhere, creationflags=flags
        )
        return
    if os.fork():
        return
    try:
        # Detach from the terminal and the pipes of the host.
        os.setsid()
        null = os.open(os.devnull, os.O_RDWR)
        for stream in range(3):
            os.dup2(null, stream)
        os.execve(sys.executable, arguments, environment)  # noqa: S606 - our own interpreter and module
    finally:
        os._exit(0)


def _serve_tools(options: Options) -> None:
    """Serve the MCP tools for the project that the host works in. The model cannot choose another resource."""
    import asyncio
    from contextlib import suppress
    from pathlib import Path

    from memolog import open_store
    from memolog.apps.cli.main import app

    async def make_database() -> None:
        async with await open_store(options.db):
            pass

    folder = options.folder if options.folder and "$" not in options.folder else None
    resource = options.resource or resource_of(started_in(folder, os.environ))
    with suppress(OSError):
        # Leave the project folder, so that a settings file in it is not read. In a hostile repository this file could set a
        # model, and all messages would be sent to that model.
        os.chdir(Path.home())
    # The host may start its servers before the first sweep has created the database.
    if "://" not in options.db and not Path(options.db).exists():
        Path(options.db).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        asyncio.run(make_database())
    arguments = ["mcp", "--db", options.db, "--resource", resource]
    app(arguments + (["--config", options.config] if options.config else []))
