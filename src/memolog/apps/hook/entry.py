"""The way in: one event of a host, written down before the host goes on.

Knows what each event leads to: a start is answered with a pack, the end of a turn wakes the sweep, all else is only kept. It must
neither fail nor hold up the host: whatever happens, it ends well and says so in a log. It loads little beyond `json`.

    python -P -m memolog.apps.hook HOST --db FILE [--resource NAME] [--tokens N] [--config FILE]    event on standard input
    python -P -m memolog.apps.hook sweep --db FILE [--config FILE]                                  store what was written down
    python -P -m memolog.apps.hook mcp --db FILE [--folder FOLDER]                                  tools, for a host's project
"""

# A host waits for this: what one event needs is loaded for that event, and pathlib for none.
# ruff: noqa: PLC0415, PTH100, PTH118

import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, cast

from memolog.apps.hook.events import HOSTS, Host, record_of
from memolog.apps.hook.project import resource_of, started_in
from memolog.apps.hook.spool import Spool, home, note, spool_of

__all__ = ["DEFAULT_TOKENS", "Options", "default_db", "handle", "main", "sweep_apart"]

DEFAULT_TOKENS: Final = 2_300
"""What a pack may hold: hosts cut what is longer than ten thousand characters or so."""
_WAKES: Final = ("stop", "compact", "end")


class Options:
    """What a hook was told on its command line."""

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
        """Return where events are written down."""
        return spool_of(self.db, os.environ)


def default_db(environment: Mapping[str, str]) -> str:
    """Return the database that hooks use unless told otherwise: one for all projects of a user."""
    return environment.get("MEMOLOG_DB") or os.path.join(home(environment), "memolog.db")


def main() -> None:
    """Take in the event on standard input; ends well whatever happens."""
    options = Options(sys.argv[1:], os.environ)
    if options.verb == "mcp":
        # A server is no hook: its host is told how it ended.
        serve(options)
        return
    try:
        if options.verb == "sweep":
            from memolog.apps.hook.sweep import sweep

            sweep(options.db, options.config)
        elif os.environ.get("MEMOLOG_HOOKS", "").lower() not in {"0", "off", "false", "no"}:
            said = handle(options, sys.stdin.buffer.read(), at=time.time())
            sys.stdout.write(said)
            sys.stdout.flush()
    except BaseException as error:  # noqa: BLE001 - a host is never told that its memory failed
        note(options.spool, os.environ, time.time(), f"{options.verb}: {type(error).__name__}: {error}")
    # What is left to do on the way out, a process that lives this long need not do.
    os._exit(0)


def handle(options: Options, raw: bytes, *, at: float, wake: Callable[[Options], None] | None = None) -> str:
    """Write one event down, see to what it leads to, and return what the host is told."""
    wake = wake or sweep_apart
    if options.verb not in HOSTS:
        raise ValueError(f"{options.verb!r} is no host; known are {', '.join(HOSTS)}")
    host = options.verb
    data = json.loads(raw.decode("utf-8", "replace"))
    record = record_of(host, cast("dict[str, Any]", data), at=at) if isinstance(data, dict) else None
    if record is None:
        return _nothing(host)
    record["resource"] = options.resource or resource_of(started_in(record["cwd"], os.environ))
    spool = options.spool
    name = f"{host}-{record['session']}"
    if record["kind"] == "start":
        from memolog.apps.hook.start import greeting

        spool.append(name, record)
        said = greeting(options, record)
        wake(options)
        return said
    spool.append(name, record)
    if record["kind"] in _WAKES:
        wake(options)
    return _nothing(host)


def _nothing(host: Host) -> str:
    """Return the answer that changes nothing: some hosts want one, the others none."""
    return '{"continue": true}\n' if host == "cursor" else ""


def sweep_apart(options: Options) -> None:
    """Let a process of its own store what was written down; nobody waits for it."""
    arguments = [sys.executable, "-P", "-m", "memolog.apps.hook", "sweep", "--db", options.db]
    if options.config:
        arguments += ["--config", options.config]
    # What observes may itself be a host with hooks: it would tell us of our own work.
    environment = {**os.environ, "MEMOLOG_HOOKS": "off"}
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
        # A session of its own: it goes on when the host's terminal closes, and holds none of the host's pipes open.
        os.setsid()
        null = os.open(os.devnull, os.O_RDWR)
        for stream in range(3):
            os.dup2(null, stream)
        os.execve(sys.executable, arguments, environment)  # noqa: S606 - our own interpreter and module
    finally:
        os._exit(0)


def serve(options: Options) -> None:
    """Offer the tools of the project that the host works in; who may see whose memory is settled here, not by the model."""
    from memolog.apps.cli.main import app

    folder = options.folder if options.folder and "$" not in options.folder else None
    resource = options.resource or resource_of(started_in(folder, os.environ))
    arguments = ["mcp", "--db", options.db, "--resource", resource]
    app(arguments + (["--config", options.config] if options.config else []))
