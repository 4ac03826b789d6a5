"""Mistakes of users are reported with what, why and next, with the right exit code, and without a traceback."""

import asyncio
import importlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from cli.world import examples, run
from memolog.apps.cli.command import EXIT_CODES, Call, exit_code
from memolog.apps.demo.play import kill_midway
from memolog.apps.hooks.entry import Options, sweep_apart
from memolog.core.config import Config
from memolog.errors import (
    ConfigError,
    Conflict,
    InputError,
    MemologError,
    NotFound,
    StoreBusy,
    StoreFull,
    StoreUnavailable,
    TaskNotFound,
)

MISTAKES = [
    # The answer is no.
    pytest.param(1, "status --thread nowhere", "There is no thread nowhere", id="unknown thread"),
    pytest.param(1, "status --resource nobody", "nobody has no memory", id="unknown resource"),
    pytest.param(1, "tasks show T-99", "There is no task T-99", id="unknown task"),
    pytest.param(1, "recall g99", "g99", id="unknown group"),
    pytest.param(1, "wm diff 1 99", "99", id="unknown version"),
    pytest.param(1, "context --number 99999999999999999999", "has no context 9999", id="a number beyond all numbers"),
    pytest.param(1, "search LoginSchema --resource alicia", "alicia has no memory", id="a search of nobody"),
    pytest.param(1, "search LoginSchema --thread atlsa", "Did you mean atlas?", id="a search of no thread"),
    pytest.param(1, "tasks list --resource alicia", "alicia has no memory", id="tasks of nobody"),
    pytest.param(1, "threads --resource alicia", "alicia has no memory", id="threads of nobody"),
    pytest.param(1, "config --resource alicia", "alicia has no memory", id="settings of nobody"),
    pytest.param(1, "sweep --resource alicia", "alicia has no memory", id="a sweep of nobody"),
    pytest.param(1, "cost --thread atlsa", "Did you mean atlas?", id="cost of no thread"),
    pytest.param(1, "watch --thread atlsa --seconds 0", "Did you mean atlas?", id="events of no thread"),
    pytest.param(1, "doctor --resource alicia --repair", "alicia has no memory", id="a repair of nobody"),
    pytest.param(1, "restore-branch b9", "an id from `memolog branches`", id="unknown branch"),
    pytest.param(1, "rewind no-such-message", "no-such-message", id="a rewind to no message"),
    pytest.param(2, "merge", "one log for each thread", id="a merge without a shared log"),
    pytest.param(2, "prune --thread notes", "--yes", id="nobody to ask before pruning"),
    pytest.param(2, "override mode", "NAME=VALUE", id="a setting without a value"),
    pytest.param(3, "override mode=sleepy", "sleepy", id="no mode"),
    pytest.param(3, "override scope=resource", "cannot be set for a thread", id="no setting of a thread"),
    pytest.param(2, "recall g1 --thread atlas --context 2", "--context needs a message", id="neighbours of a group"),
    pytest.param(1, "recall 1-4 --resource alicia", "alicia has no memory", id="a recall of nobody"),
    pytest.param(1, "doctor --resource alicia", "alicia has no memory", id="nothing is not healthy"),
    # What was asked cannot be understood or taken.
    pytest.param(2, "forget --thread notes", "--yes", id="nobody to ask before forgetting"),
    pytest.param(2, "forget --yes", "exactly one of", id="nothing to forget"),
    pytest.param(2, "forget --everything --thread notes --yes", "exactly one of", id="two things to forget"),
    pytest.param(2, "forget --retention --everything --yes", "exactly one of", id="two ways to forget"),
    pytest.param(2, "tasks stale --days 99999999999", "days", id="more days than there are"),
    pytest.param(2, "wm set --file memolog.db", "memolog.db cannot be read", id="no text in a file"),
    pytest.param(2, "wm set --file .", "cannot be read", id="a folder for a text"),
    pytest.param(2, "wm start --schema memolog.db", "memolog.db cannot be read", id="no schema"),
    pytest.param(2, "mcp --http --token-file missing", "cannot be read", id="no file with a token"),
    pytest.param(2, "mcp --tokens 10", "200", id="too few tokens"),
    pytest.param(2, "diff 0 99", "There is no generation 99", id="unknown generation"),
    pytest.param(2, "revert 99", "There is no generation 99", id="revert to an unknown generation"),
    pytest.param(2, "uncompact", "Neither a batch nor --all", id="no batch"),
    pytest.param(2, "uncompact 1-4 --all", "Both a batch and --all", id="one batch and all"),
    pytest.param(1, "status --db empty.db", "The database is empty", id="an empty database"),
    pytest.param(1, "uncompact 7-9", "There is no batch 7-9", id="unknown batch"),
    pytest.param(2, "export x.jsonl --thread notes", "--markdown", id="a thread exported by itself"),
    pytest.param(2, "export backup.db --markdown", "backup.db exists already", id="Markdown over a file"),
    pytest.param(2, "as-of yesterday-ish", "'yesterday-ish' is not a date", id="no moment"),
    pytest.param(2, "log --priority urgent", "priority must be one of", id="no priority"),
    pytest.param(2, "search x --source rumour", "rumour", id="no source"),
    pytest.param(2, "config observation.mesage_tokens", "observation.message_tokens", id="misspelt setting"),
    pytest.param(2, "tasks close T-1", "--summary", id="no summary"),
    pytest.param(2, "tasks edit T-1", "No change was given", id="nothing to change"),
    pytest.param(2, "tasks link T-2 T-1", "closes the circle", id="a circle"),
    pytest.param(2, "tasks link T-1 T-2 --kind likes", "likes", id="no such link"),
    pytest.param(2, "tasks attach T-1 9-3", "9-3 is not a span", id="no span"),
    pytest.param(2, "tasks create x --due soonish", "'soonish' is not a date", id="no date"),
    pytest.param(2, "wm merge [] --thread notes", "not a JSON object", id="no object"),
    pytest.param(2, "wm merge {}", "Only a JSON", id="Markdown cannot be merged"),
    pytest.param(2, "wm edit Decisions", "There is no text", id="no text"),
    pytest.param(2, "wm edit Decisions -", "Pass the text as an argument", id="empty input for an edit"),
    pytest.param(2, "wm merge - --thread notes", "Pass the text as an argument", id="empty input for a merge"),
    pytest.param(2, "wm edit", "There is no terminal", id="no terminal"),
    pytest.param(2, "import nowhere.jsonl", "There is no file nowhere.jsonl", id="nothing to import"),
    pytest.param(2, "import text.txt", "text.txt", id="nothing that can be imported"),
    pytest.param(
        2, "import archive --resource alice", "The format of a.json is unknown", id="a folder of unknown files"
    ),
    pytest.param(2, "export backup.db", "or pass --overwrite.", id="an export over a file"),
    pytest.param(2, "backup backup.db", "backup.db exists already", id="a backup over a file"),
    pytest.param(2, "restore nowhere.db", "The backup nowhere.db does not exist", id="nothing to restore"),
    pytest.param(2, "restore backup.db", "--overwrite", id="a restore over a database"),
    pytest.param(2, "backup no/such/folder/copy.db", "There is no folder no/such/folder", id="a backup into no folder"),
    pytest.param(2, "export folder --overwrite", "cannot be written to folder", id="an export over a folder"),
    pytest.param(2, "import talk.json", "--resource alice", id="nobody's conversation"),
    pytest.param(1, "export x.jsonl --resource nobody", "nobody", id="an export of nobody"),
    pytest.param(2, "no-such-verb", "No such command", id="no such verb"),
    pytest.param(2, "status --no-such-option", "No such option", id="no such option"),
    pytest.param(2, "search", "Missing argument", id="no query"),
    pytest.param(2, "search \u2003", "The query is empty", id="an empty query"),
    # The database or the settings cannot do it.
    pytest.param(3, "status --db missing.db", "There is no database missing.db", id="no database"),
    pytest.param(3, "status --db folder", "folder is a folder", id="a folder for a database"),
    pytest.param(3, "status --db text.txt", "text.txt", id="no database of ours"),
    pytest.param(3, "status --db mysql://host/x", "mysql://", id="unknown engine"),
    pytest.param(3, "init --db no/such/folder/memolog.db", "no/such/folder", id="no folder"),
    pytest.param(3, "status --config bad.toml", "mesage_tokens", id="bad settings"),
    pytest.param(3, "status --config missing.toml", "missing.toml", id="no settings"),
    pytest.param(3, "wm set x --config sealed.toml", "Remove read_only", id="a write with read-only settings"),
    pytest.param(3, "mcp --http", "There is no token", id="no token"),
    pytest.param(3, "mcp --http --host 0.0.0.0 --no-token", "loopback addresses only", id="no token on the network"),
    # Not now.
    pytest.param(4, "tasks claim T-2", "T-2 is blocked by T-1", id="blocked"),
    pytest.param(4, "tasks claim T-3", "T-3 is held by agent-7", id="held"),
]


@pytest.fixture
def odd_files(folder: Path) -> Path:
    """Create files with the wrong content beside the database."""
    (folder / "text.txt").write_text("This is a letter, not a database. " * 50)
    (folder / "talk.json").write_text('[{"role": "user", "content": "Hello"}]')
    (folder / "folder").mkdir()
    (folder / "archive").mkdir()
    for name in ("a.json", "b.json"):
        (folder / "archive" / name).write_text("{}")
    (folder / "bad.toml").write_text("[observation]\nmesage_tokens = 5\n")
    (folder / "sealed.toml").write_text("read_only = true\n")
    return folder


@pytest.mark.parametrize(("code", "line", "words"), MISTAKES)
def test_mistakes_are_told(code: int, line: str, words: str, odd_files: Path) -> None:
    """The error is on stderr, and no partial file is left. With --json, it is one document; a usage error is on stderr too."""
    done = run(*line.split(" "))
    assert done.code == code, done.err + done.out
    assert words in " ".join(done.err.split())
    assert "Traceback" not in done.err
    assert not re.search(r"\w\(\)|\w=(True|…|\"|\d)", done.err), done.err
    assert done.out == ""
    assert list(odd_files.rglob("*.partial")) == []
    done = run(*line.split(" "), "--json")
    assert done.code == code
    error = done.document["error"]
    assert words in f"{error['what']} {error['why']} {error['then']}"
    assert done.err == "" or done.err.startswith("Usage: ")


@pytest.mark.parametrize("line", ["--json", "tasks --json", "status --json=3", "tasks shw --json", "tasks show --json"])
def test_what_is_not_understood_is_told_to_programs(line: str, folder: Path) -> None:
    """A usage error is one JSON document on standard output, and the usual text on stderr."""
    done = run(*line.split())
    assert (done.code, done.document["error"]["kind"]) == (2, "InputError")
    assert done.document["error"]["what"] in done.err
    assert done.document["error"]["then"].startswith("See `memolog ")


@pytest.mark.parametrize("line", ["", "tasks", "wm"])
def test_a_group_of_commands_alone_prints_its_help(line: str, folder: Path) -> None:
    """It is not an error, and a pager can read it."""
    done = run(*line.split())
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith(f"Usage: memolog {line}".strip())
    assert done.out == run(*line.split(), "--help").out


def test_what_is_no_option_does_not_ask_for_json(folder: Path) -> None:
    """After `--` all words are arguments."""
    done = run("status", "--", "--json")
    assert (done.code, done.out) == (2, "")


_NEED_NONE = {"init", "import", "restore", "demo", "bench", "config", "eval", "install", "uninstall", "watch"}


@pytest.mark.parametrize(
    "arguments",
    [pytest.param(line, id=" ".join(line)) for words, line in examples() if words[0] not in _NEED_NONE],
)
def test_a_missing_database_is_never_made(arguments: list[str], folder: Path) -> None:
    """A misspelt name creates no database, except with verbs that exist to create one."""
    done = run(*arguments, "--db", "misspelt.db")
    assert done.code == 3
    assert "There is no database misspelt.db" in done.err
    assert not (folder / "misspelt.db").exists()


@pytest.mark.parametrize(
    "line", ["doctor", "status", "search x", "import text.txt", "import talk.json", "import none.jsonl"]
)
def test_an_empty_file_stays_empty(line: str, odd_files: Path) -> None:
    """Only an import that adds something makes a database of an empty file, or a new file."""
    (odd_files / "zero.db").touch()
    (odd_files / "none.jsonl").write_text((odd_files / "alice.jsonl").read_text().splitlines()[0] + "\n")
    done = run(*line.split(), "--db", "zero.db")
    assert (odd_files / "zero.db").stat().st_size == 0
    if line.startswith("import"):
        run(*line.split(), "--db", "new.db")
        assert not (odd_files / "new.db").exists()
    else:
        assert (done.code, done.out) == (3, "")
        assert "memolog init --db zero.db" in done.err
    assert run("init", "--db", "zero.db").code == 0
    assert run("import", "talk.json", "--resource", "bob", "--db", "zero.db").code == 0
    assert run("status", "--db", "zero.db").code == 0


def test_several_resources_need_a_name(folder: Path) -> None:
    """With several resources and no --resource, the command fails and lists the resources."""
    assert run("tasks", "create", "Something of Bob's", "--resource", "bob").code == 0
    done = run("status")
    assert done.code == 2
    assert "alice, bob" in done.err
    assert run("status", "--resource", "alice").code == 0
    assert {thread["resource"] for thread in run("threads", "--json").document["threads"]} == {"alice"}


def test_variables_stand_for_options(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Environment variables replace options. An option has priority over its variable."""
    monkeypatch.setenv("MEMOLOG_DB", "memolog.db")
    monkeypatch.setenv("MEMOLOG_THREAD", "notes")
    assert run("status", "--json").document["thread"] == "notes"
    assert run("status", "--json", "--thread", "atlas").document["thread"] == "atlas"
    monkeypatch.setenv("MEMOLOG_OBSERVATION_MESSAGE_TOKENS", "1234")
    assert run("status", "--json").document["messages"]["limit"] == 1234


@pytest.mark.parametrize("text", ["background = 'bogus'", "background = ", "bakground = 'loop'"])
def test_refused_settings_are_told_with_the_next_step(text: str, folder: Path) -> None:
    """A wrong value, a wrong name and a file that is no TOML name the place and say what to do."""
    (folder / "settings.toml").write_text(text)
    done = run("doctor", "--config", "settings.toml")
    assert done.code == 3
    assert "settings.toml" in done.err
    assert "Next: Correct it in the file" in done.err


@pytest.mark.parametrize(
    ("package", "missing", "words"),
    [
        ("gateway", ["httpx"], "httpx, which is not installed."),
        ("gateway", ["httpx", "starlette"], "httpx and starlette, which are not installed."),
        ("ui", ["jinja2"], "jinja2, which is not installed."),
        ("ui", ["starlette", "jinja2"], "starlette and jinja2, which are not installed."),
    ],
)
def test_missing_packages_are_named(
    package: str, missing: list[str], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sentence is right for one package and for several."""
    module = importlib.import_module(f"memolog.apps.{package}")
    for name in missing:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ConfigError, match=re.escape(words)):
        importlib.reload(module)


def test_no_verb_shows_a_password(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Verbs print the address of the database without its password."""
    call = Call(address="postgresql://mira:s3cret@db.example/memory", config=Config(), as_json=False)
    assert call.shown_address == "postgresql://mira:…@db.example/memory"

    def hidden(url: str) -> str:
        return "hidden"

    def no_password(address: str) -> bool:
        return False

    monkeypatch.setattr("memolog.store.has_password", no_password)
    monkeypatch.setattr("memolog.db.postgres_address.safe_url", hidden)
    assert run("init", "--json").document["database"] == "hidden"
    assert "memolog.db" not in run("init").out
    assert run("status", "--json").document["database"] == "hidden"


PASSWORDS = [
    "postgresql://mira:s3cret@db.example/memory",
    "postgres://:s3cret@db.example/memory",
    "postgresql://mira@db.example/memory?password=s3cret",
    "postgresql://mira@db.example/memory?sslmode=require&p%61ssword=s3cret&sslpassword=s3cret",
    "postgresql://mira:s3cr@et:s3cret@db.example/memory",
    # Mistyped: no host, too few slashes, no scheme, and the other form that PostgreSQL's own tools take.
    "postgresql://mira:s3cret/memory",
    "postgresql:/mira:s3cret@db.example/memory",
    "mira:s3cret@db.example/memory",
    "host=db.example password=s3cret user=mira",
]


@pytest.mark.parametrize("address", PASSWORDS)
def test_a_password_is_not_installed(address: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`install` refuses an address with a password, both from an option and from a variable."""
    words = ("install", "claude-code", "--project", "--yes")
    monkeypatch.setenv("MEMOLOG_DB", address)
    for done in (run(*words, "--db", address), run(*words), run(*words, "--dry-run")):
        assert done.code == 2
        assert "PGPASSWORD" in done.err
        assert ".pgpass" in done.err
        assert "s3cret" not in done.err + done.out
    assert not (folder / ".claude").exists()
    assert not (folder / ".mcp.json").exists()


@pytest.mark.parametrize(
    "address", ["postgresql://mira@db.example/memory", "postgresql://db.example/m?sslmode=require"]
)
def test_an_address_without_a_password_is_installed(address: str, folder: Path) -> None:
    """An address may have a user and parameters."""
    done = run("install", "codex", "--project", "--yes", "--json", "--db", address)
    assert done.document["database"] == address
    assert address in (folder / ".codex" / "config.toml").read_text("utf-8")


@pytest.mark.parametrize(
    ("line", "address"),
    [
        *(("status", address) for address in (*PASSWORDS, "mysql://mira:s3cret@db.example/memory")),
        *(
            (line, PASSWORDS[0])
            for line in ("init", "demo", "mcp --describe", "restore backup.db", "proxy --seconds 0")
        ),
    ],
)
def test_no_error_shows_a_password(line: str, address: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Errors show the address of an unreachable server, and the source of an import, without the password."""
    refused = OSError(111, "refused")

    async def nowhere(*_: object, **__: object) -> None:
        raise refused

    monkeypatch.setattr("asyncpg.connect", nowhere)
    monkeypatch.setattr("asyncpg.create_pool", nowhere)
    for words in ((*line.split(), "--db", address), (*line.split(), "--db", address, "--json"), ("import", address)):
        done = run(*words)
        assert done.code in {2, 3}
        assert "s3cret" not in done.err + done.out


@pytest.mark.parametrize("model", ["http://mira:s3cret@127.0.0.1:9/v1#m", "http://127.0.0.1:9/v1?a=1&api_key=s3cret#m"])
@pytest.mark.parametrize("line", ["config", "config --toml", "config model", "config --changed --json", "init"])
def test_no_verb_shows_the_key_of_a_model(line: str, model: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The address of a model is shown without its password or key."""
    monkeypatch.setenv("MEMOLOG_MODEL", model)
    done = run(*line.split())
    assert done.code == 0
    assert "127.0.0.1:9" in "".join(done.out.split())
    assert "s3cret" not in "".join(done.out.split())


def test_no_process_is_started_with_a_password(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hooks and demo pass the address in a variable, because every user of the machine can see arguments."""
    address = PASSWORDS[0]
    started: list[tuple[object, ...]] = []

    class Started(Exception):
        pass

    def spawn(*words: object, env: dict[str, str], **_: object) -> None:
        started.append(words)
        assert env["MEMOLOG_DB"] == address
        raise Started

    monkeypatch.delattr(os, "fork", raising=False)
    monkeypatch.setattr(subprocess, "Popen", spawn)
    monkeypatch.setattr(asyncio, "create_subprocess_exec", spawn)
    with pytest.raises(Started):
        sweep_apart(Options(["codex", "--db", address], {}))
    with pytest.raises(Started):
        asyncio.run(kill_midway(address, 1))
    assert len(started) == 2
    assert "s3cret" not in str(started)


def test_every_error_has_a_code() -> None:
    """Each kind of error has one of the documented exit codes."""
    codes: dict[type[MemologError], int] = {TaskNotFound: 1, NotFound: 1, InputError: 2, ConfigError: 3}
    codes |= {StoreUnavailable: 3, StoreFull: 3, StoreBusy: 4, Conflict: 4}
    assert {kind: exit_code(kind("x")) for kind in codes} == codes
    assert set(codes.values()) <= EXIT_CODES.keys()


# ---------------------------------------------------------------- as a program of its own


def program(*arguments: str, **options: object) -> "subprocess.CompletedProcess[str]":
    """Run the command as a process."""
    command = [sys.executable, "-m", "memolog", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, **options)  # pyright: ignore[reportCallIssue, reportArgumentType, reportUnknownVariableType]


def test_the_program_itself(folder: Path) -> None:
    """The process has the same exit codes, and with --json it prints only JSON."""
    done = program("status", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["thread"] == "atlas"
    missing = program("status", "--db", "missing.db")
    assert (missing.returncode, missing.stdout) == (3, "")
    assert "Traceback" not in missing.stderr
    assert program("--version").stdout.startswith("memolog ")


def test_a_reader_that_leaves_early_is_no_error(folder: Path) -> None:
    """`memolog log | head -1` prints no error."""
    command = [sys.executable, "-m", "memolog", "log", "--sources"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        told = process.stderr.read()
    assert "Traceback" not in told
    assert "BrokenPipe" not in told


@pytest.mark.skipif(os.name == "nt", reason="a closed pipe is another error there")
def test_the_work_is_done_although_the_reader_left(folder: Path) -> None:
    """`memolog install … | head -1` and `uninstall` change the files, and `tasks create` reports success."""
    home = folder / "codex"
    environment = {**os.environ, "HOME": str(folder), "CODEX_HOME": str(home)}
    there = list[bool]()
    for line in ("install codex --no-mcp --yes", "uninstall codex --yes", "tasks create Paint"):
        reader, writer = os.pipe()
        os.close(reader)
        command = [sys.executable, "-m", "memolog", *line.split()]
        done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, env=environment, check=False)
        os.close(writer)
        assert done.stderr == ""
        there.append(any("memolog" in path.read_text() for path in home.rglob("*") if path.is_file()))
        assert (line, done.returncode) == (line, 0)
    assert there == [True, False, False]


def test_the_shell_completes(folder: Path) -> None:
    """Shell completion finds the verbs."""
    asked = {**os.environ, "_MEMOLOG_COMPLETE": "complete_bash", "COMP_WORDS": "memolog st", "COMP_CWORD": "1"}
    command = [sys.executable, "-c", "from memolog.apps.cli.main import app; app(prog_name='memolog')"]
    done = subprocess.run(command, env=asked, capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["status"]


def test_starting_loads_little() -> None:
    """Help and usage errors import neither the memory nor large libraries."""
    code = (
        "import sys, memolog.apps.cli.main\n"
        "print(*sorted({n for n in sys.modules if n.startswith(('memolog.memory', 'memolog.store', 'memolog.log'))}\n"
        "  | {'asyncpg', 'pydantic', 'rich', 'sqlite3'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


@pytest.mark.parametrize("words", [("backup",), ("export",), ("export", "--markdown", "--thread", "atlas")])
@pytest.mark.parametrize("name", ["memolog.db", "memolog.db-wal", "./memolog.db", "link.db"])
def test_the_database_is_never_written_over(words: tuple[str, ...], name: str, folder: Path) -> None:
    """No export or backup overwrites the database in use, by any name and even with --overwrite."""
    (folder / "link.db").symlink_to(folder / "memolog.db")
    before = (folder / "memolog.db").read_bytes()
    done = run(*words[:1], name, *words[1:], "--overwrite")
    assert done.code == 2
    assert "of the database itself" in done.err
    assert (folder / "memolog.db").read_bytes() == before
