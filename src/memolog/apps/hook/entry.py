"""The way in: one event of a host, written down before the host goes on.

Knows what each event leads to: a start is answered with a pack, the end of a turn wakes the sweep, all else is only kept. It must
neither fail nor hold up the host: whatever happens, it ends well and says so in a log. It loads little beyond `json`.

    python -P -m memolog.apps.hook HOST --db FILE [--resource NAME] [--tokens N] [--config FILE]    event on standard input
    python -P -m memolog.apps.hook sweep --db FILE [--config FILE]                                  store what was written down
    python -P -m memolog.apps.hook mcp --db FILE [--folder FOLDER]                                  tools, for a host's project
"""

# A host waits for this: what one event needs is loaded for that event, and pathlib for none.
# ruff: noqa: PLC0415

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any, Final, cast

from memolog.apps.hook.events import HOSTS, Host, record_of
from memolog.apps.hook.options import Options
from memolog.apps.hook.project import resource_of, started_in
from memolog.apps.hook.spool import note

__all__ = ["handle", "main", "sweep_apart"]

_WAKES: Final = ("stop", "compact", "end")


def main() -> None:
    """Take in the event on standard input; ends well whatever happens."""
    options = Options(sys.argv[1:], os.environ)
    if options.verb == "mcp":
        # A server is no hook: its host is told how it ended.
        from memolog.apps.hook.serving import serve

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
        # First, so that nothing else goes on in this process when it makes another; it takes its time anyway.
        wake(options)
        return greeting(options, record)
    spool.append(name, record)
    if record["kind"] in _WAKES:
        wake(options)
    return _nothing(host)


def _nothing(host: Host) -> str:
    """Return the answer that changes nothing: some hosts want one, the others none."""
    return '{"continue": true}\n' if host == "cursor" else ""


def sweep_apart(options: Options) -> None:
    """Let a process of its own store what was written down; nobody waits for it."""
    arguments = [sys.executable, "-P", "-m", "memolog.apps.hook", "sweep"]
    if options.config:
        arguments += ["--config", options.config]
    # What observes may itself be a host with hooks: it would tell us of our own work. The address may hold a password, and
    # the arguments of a process are seen by every user of the machine.
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
        # A session of its own: it goes on when the host's terminal closes, and holds none of the host's pipes open.
        os.setsid()
        null = os.open(os.devnull, os.O_RDWR)
        for stream in range(3):
            os.dup2(null, stream)
        os.execve(sys.executable, arguments, environment)  # noqa: S606 - our own interpreter and module
    finally:
        os._exit(0)
