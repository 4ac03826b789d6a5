"""A hook never fails or blocks its host, whatever is wrong with the database, the disk or the event."""

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import memolog
from hooks.world import Desk, Session, brief
from memolog.apps.hooks.entry import resource_of, root_of, started_in
from memolog.apps.hooks.spool import spool_of
from memolog.testing import FakeClock


def run_hook(*arguments: str, event: Any = None, raw: bytes | None = None, **environment: str) -> Any:
    """Run a hook as a host does. The sweep that it starts is not awaited."""
    return subprocess.run(
        [sys.executable, "-P", "-m", "memolog.apps.hook", *arguments],
        input=raw if raw is not None else json.dumps(event).encode(),
        capture_output=True,
        env={**os.environ, **environment},
        check=False,
        timeout=300,
    )


def broken(db: Path) -> None:
    """Write another file to the path of the database."""
    db.write_bytes(b"this is no database" * 100)


def torn(db: Path) -> None:
    """Damage the pages of a database after its header."""
    with sqlite3.connect(db) as database:
        database.executescript("CREATE TABLE t (a); INSERT INTO t VALUES (zeroblob(100000));")
    database.close()
    with db.open("r+b") as file:
        file.seek(1000)
        file.write(b"\xff" * 5000)


def read_only(db: Path) -> None:
    """Make the folder of the database read-only."""
    db.write_bytes(b"")
    db.parent.chmod(0o500)


def no_folder(db: Path) -> None:
    """Write a file to the path of the database's folder, so that the spool cannot be written."""
    db.parent.rmdir()
    db.parent.write_bytes(b"")


EVENTS = [
    {"hook_event_name": "SessionStart", "source": "startup"},
    {"hook_event_name": "UserPromptSubmit", "prompt": "hello"},
    {
        "hook_event_name": "PostToolUse",
        "tool_name": "Bash",
        "tool_use_id": "c1",
        "tool_input": {},
        "tool_response": "x",
    },
    {"hook_event_name": "Stop", "last_assistant_message": "done"},
]


missing, folder = pytest.param(Path.exists, id="missing"), pytest.param(Path.mkdir, id="folder")


@pytest.mark.parametrize("damage", [broken, torn, missing, folder, read_only, no_folder])
def test_a_broken_database_does_not_fail_the_host(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    """Every event succeeds without output. Only the start of a session may report that there is no memory."""
    place = tmp_path / "place"
    place.mkdir()
    db = place / "memolog.db"
    damage(db)
    try:
        for event in EVENTS:
            told = {"session_id": "s1", "cwd": str(tmp_path), "transcript_path": str(tmp_path / "none.jsonl"), **event}
            done = run_hook("claude-code", "--db", str(db), event=told)
            assert done.returncode == 0, event
            assert done.stderr == b"", event
            if event["hook_event_name"] != "SessionStart":
                assert done.stdout == b"", event
            elif done.stdout:
                assert json.loads(done.stdout).keys() == {"systemMessage"}
                # The host may show it to its model: the path and the words of the database are in the log alone.
                told = json.loads(done.stdout)["systemMessage"]
                assert not [word for word in (str(db), "SQLite", "disk image") if word in told]
                assert str(db) in (Path(f"{db}.hooks") / "errors.log").read_text("utf-8")
        assert run_hook("sweep", "--db", str(db), event={}).returncode == 0
    finally:
        place.chmod(0o700)


async def test_what_a_broken_database_could_not_take_is_stored_later(desk: Desk, tmp_path: Path) -> None:
    """Events stay in the spool, and are stored when the database works again. The error is in the log."""
    desk.db.parent.mkdir()
    broken(desk.db)
    session = Session(host="codex", folder=tmp_path, clock=desk.clock, project=str(tmp_path))
    desk.live(session, session.turn("remember me"))
    done = run_hook("sweep", "--db", str(desk.db), event={})
    assert done.returncode == 0
    assert (Path(desk.options("codex").spool.folder) / "errors.log").read_text("utf-8")
    desk.db.unlink()
    await desk.sweep()
    assert brief(await desk.messages(session.name)) == session.said


def test_a_locked_database_keeps_nobody_waiting(tmp_path: Path) -> None:
    """While another process locks the database, events are kept and a session starts without memory."""
    db = tmp_path / "memolog.db"
    made = subprocess.run([sys.executable, "-m", "memolog", "init", "--db", str(db)], capture_output=True, check=True)
    assert made.returncode == 0
    with sqlite3.connect(db, isolation_level=None) as holder:
        holder.execute("PRAGMA locking_mode = EXCLUSIVE")
        holder.execute("BEGIN EXCLUSIVE")
        for event in EVENTS:
            # With the limit of the product, since nothing answers here.
            told = {"session_id": "s1", "cwd": str(tmp_path), **event}
            done = run_hook("codex", "--db", str(db), event=told, PYTHONPATH="")
            assert (done.returncode, done.stderr) == (0, b"")
        holder.execute("ROLLBACK")
    kept = (Path(f"{db}.hooks") / "codex-s1.jsonl").read_text("utf-8")
    assert kept.count('"kind"') >= 4


@pytest.mark.parametrize(
    "raw",
    [b"", b"no json", b"[]", b"null", b"\xff\xfe", b'{"hook_event_name": 3}', b'{"session_id": "s"}', b"{" * 5000],
)
def test_an_event_that_is_none_is_no_error(tmp_path: Path, raw: bytes) -> None:
    """The answer to an invalid event is empty."""
    done = run_hook("claude-code", "--db", str(tmp_path / "m.db"), raw=raw)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


@pytest.mark.parametrize(
    "arguments", [(), ("no-such-host",), ("claude-code", "--db"), ("claude-code", "--tokens", "many")]
)
def test_a_wrong_command_line_is_no_error(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    """A wrong command line in the settings does not stop the agent."""
    done = run_hook(*arguments, event=EVENTS[1] | {"session_id": "s"}, MEMOLOG_DB=str(tmp_path / "m.db"))
    assert (done.returncode, done.stderr) == (0, b"")


def test_hooks_can_be_turned_off(tmp_path: Path) -> None:
    """With MEMOLOG_HOOKS=off nothing is stored."""
    event = EVENTS[1] | {"session_id": "s"}
    done = run_hook("claude-code", "--db", str(tmp_path / "m.db"), event=event, MEMOLOG_HOOKS="off")
    assert (done.returncode, done.stdout) == (0, b"")
    assert not (tmp_path / "m.db.hooks").exists()


def test_a_hook_loads_next_to_nothing() -> None:
    """The entry module imports no library, no asyncio, no database and no pathlib."""
    program = (
        "import sys; before = set(sys.modules); import memolog.apps.hooks.entry; "
        "print(*sorted(set(sys.modules) - before))"
    )
    source = {"PYTHONPATH": str(Path(memolog.__file__).parent.parent)}
    done = subprocess.run([sys.executable, "-S", "-c", program], capture_output=True, text=True, check=True, env=source)
    loaded = set(done.stdout.split())
    heavy = {"asyncio", "sqlite3", "dataclasses", "pathlib", "subprocess", "logging", "hashlib", "datetime", "inspect"}
    assert "memolog.apps.hooks.entry" in loaded
    assert loaded & heavy == set()
    assert {name for name in loaded if name.startswith("memolog.")} == {
        "memolog.version",
        "memolog.apps",
        "memolog.apps.hooks",
        *(f"memolog.apps.hooks.{name}" for name in ("entry", "events", "spool")),
    }


def test_a_session_ends_and_the_next_begins_with_its_memory(tmp_path: Path) -> None:
    """With real processes: the events of a session, its end, the detached sweep, and a pack for the next session."""
    db = tmp_path / "memolog.db"
    common = {"session_id": "s1", "cwd": str(tmp_path)}
    for event in [
        {
            "hook_event_name": "UserPromptSubmit",
            "prompt": "We deploy the zebra service on Fridays only.",
            "turn_id": "1",
        },
        {"hook_event_name": "Stop", "last_assistant_message": "Noted: Fridays only.", "turn_id": "1"},
        {"hook_event_name": "SessionEnd", "reason": "other"},
    ]:
        assert run_hook("codex", "--db", str(db), event={**common, **event}).returncode == 0
    # The detached sweep holds the lock, or has let go of it; this one does what is left, after it.
    for _ in range(100):
        assert run_hook("sweep", "--db", str(db), event={}).returncode == 0
        if not any(one["kind"] == "prompt" for one in spool_of(str(db), {}).peek("codex-s1")):
            break
    start = {**common, "session_id": "s2", "hook_event_name": "SessionStart", "source": "startup"}
    done = run_hook("codex", "--db", str(db), event=start)
    answer = json.loads(done.stdout)["hookSpecificOutput"]
    assert answer["hookEventName"] == "SessionStart"
    assert "zebra service on Fridays" in answer["additionalContext"]
    assert len(answer["additionalContext"]) < 10_000


# ---------------------------------------------------------------- whose memory


def test_all_worktrees_of_a_repository_are_one_project(tmp_path: Path) -> None:
    """Subfolders and worktrees of a checkout have one memory. A folder without git has its own memory."""

    def git(*arguments: str, at: Path) -> None:
        who = ["-c", "user.name=a", "-c", "user.email=a@example.com"]
        subprocess.run(["git", *who, *arguments], cwd=at, check=True, capture_output=True)

    main = tmp_path / "app"
    (main / "src" / "deep").mkdir(parents=True)
    git("init", "-q", at=main)
    git("commit", "-q", "--allow-empty", "-m", "first", at=main)
    git("worktree", "add", "-q", str(tmp_path / "side"), at=main)
    (tmp_path / "side" / "sub").mkdir()
    (tmp_path / "plain").mkdir()
    root = os.path.realpath(main)
    assert {root_of(str(at)) for at in (main, main / "src" / "deep", tmp_path / "side", tmp_path / "side" / "sub")} == {
        root
    }
    assert resource_of(str(tmp_path / "plain")) == os.path.realpath(tmp_path / "plain")


def test_the_hosts_word_for_its_project_counts() -> None:
    """The project in a variable of the host has priority over the folder of an event."""
    assert started_in("elsewhere", {"CLAUDE_PROJECT_DIR": "project"}) == "project"
    assert started_in("elsewhere", {}) == "elsewhere"


async def test_a_session_belongs_to_where_it_began(desk: Desk, tmp_path: Path) -> None:
    """The first event decides the resource, also if a later event comes from another folder."""
    desk.resource = None
    for number, place in enumerate((tmp_path / "a", tmp_path / "b")):
        place.mkdir()
        event = {"hook_event_name": "UserPromptSubmit", "session_id": "s1", "cwd": str(place), "prompt": f"p{number}"}
        desk.tell("codex", {**event, "turn_id": str(number)})
        desk.clock.advance(seconds=5)
        await desk.sweep()
    async with desk.memory() as memory:
        assert await (await memory.open()).store.resources() == (resource_of(str(tmp_path / "a")),)


# ---------------------------------------------------------------- elsewhere


async def test_the_database_may_be_a_server(postgres_url: str, clock: FakeClock, tmp_path: Path) -> None:
    """Events wait in the folder of the user, and are stored on the server once."""
    desk = Desk(address=postgres_url, clock=clock)
    session = Session(host="claude-code", folder=tmp_path, clock=clock, project=str(tmp_path))
    for turn in range(10):
        for step in session.turn(f"turn {turn}"):
            # Every other turn its events are told twice.
            desk.live(session, [step] * (2 if turn % 2 and step[0] == "event" else 1))
        await desk.sweep()
    assert Path(desk.options("codex").spool.folder).parent == tmp_path / "home"
    desk.tell("claude-code", session.event("SessionEnd", reason="exit"))
    await desk.sweep()
    await desk.later()
    assert brief(await desk.messages(session.name)) == session.said
    said = desk.tell("claude-code", {"hook_event_name": "SessionStart", "session_id": "next", "cwd": str(tmp_path)})
    assert "turn 9" in said


def test_the_example_runs() -> None:
    """The example needs no key and no agent, and shows no private text."""
    example = Path(__file__).parents[2] / "examples" / "coding_agent.py"
    done = subprocess.run([sys.executable, str(example)], capture_output=True, text=True, check=True)
    assert "Fridays only" in done.stdout
    assert done.stdout.endswith("private text is in it: False\n")
