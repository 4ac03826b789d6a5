"""Finding the database, options before the verb, waiting, progress, interruptions, and verbs for calls of the library."""

import asyncio
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console
from rich.text import Text

from cli import world
from cli.world import RESOURCE, run
from memolog.apps.cli import output
from memolog.apps.cli.command import Call, Work
from memolog.apps.cli.output import Paragraph, table
from memolog.core.config import Config
from memolog.core.message import AssistantMessage, ToolCallPart, ToolMessage, UserMessage
from memolog.core.progress import is_heard, listening, report
from memolog.memory import Memory
from memolog.testing import FakeClock

LINE = "We deploy the red service on Fridays, and Dana reviews it. "


# ---------------------------------------------------------------- which database


def test_options_may_be_before_the_verb(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """--db and the other common options work before and after the verb, also of a group of verbs."""
    shutil.copy("memolog.db", "other.db")
    Path("memolog.db").unlink()
    after = run("status", "--db", "other.db", "--thread", "notes", "--json").document
    assert run("--db", "other.db", "status", "--thread", "notes", "--json").document == after
    assert run("--db=other.db", "--json", "--thread", "notes", "status").document == after
    assert run("--json", "--db", "other.db", "-r", "alice", "tasks", "show", "T-1").document["task"]["handle"] == "T-1"
    # An option after the verb has priority, and one before it over the variable.
    assert run("--db", "missing.db", "status", "--db", "other.db").code == 0
    monkeypatch.setenv("MEMOLOG_DB", "missing.db")
    assert run("--db", "other.db", "status").code == 0
    assert run("status").code == 3


def test_an_option_before_the_verb_must_be_one_of_the_verb(folder: Path) -> None:
    """A verb without --thread refuses it, and a missing verb is a usage error."""
    done = run("--thread", "notes", "doctor", "--json")
    assert (done.code, done.document["error"]["kind"]) == (2, "InputError")
    assert run("--db", "memolog.db").code == 2


@pytest.mark.parametrize("agent", ["claude-code", "codex", "cursor", "gemini"])
@pytest.mark.parametrize("where", [[], ["--project"]])
def test_the_database_of_an_installed_agent_is_found(agent: str, where: list[str], folder: Path) -> None:
    """After `install`, plain `memolog status` shows that database. A database in the current folder has priority."""
    (folder / "a b").mkdir()
    shutil.move("memolog.db", folder / "a b" / "agents.db")
    assert run("status").code == 3
    assert run("install", agent, *where, "--yes", "--db", "a b/agents.db").code == 0
    assert run("status", "--json").document["database"] == str(folder / "a b" / "agents.db")
    assert run("tasks", "list").code == 0
    (folder / "project" / "src").mkdir(parents=True)
    with world.inside(folder / "project" / "src"):
        os.environ["HOME"] = str(folder / "home")
        # The settings of a project are not those of another folder.
        assert run("status").code == (3 if where else 0)
    shutil.copy("shared.db", "memolog.db")
    assert run("status", "--json").document["database"] == "memolog.db"
    Path("memolog.db").unlink()
    assert run("uninstall", agent, *where, "--yes").code == 0
    assert run("status").code == 3


def test_the_default_database_of_an_agent_is_found(folder: Path) -> None:
    """Without --db, the hooks use a database in the home folder, and so does the command line."""
    shutil.move("memolog.db", "kept.db")
    assert run("install", "codex", "--yes").code == 0
    missing, shared = run("status"), folder / "home" / ".memolog" / "memolog.db"
    assert (missing.code, str(shared) in missing.err) == (3, True)
    shared.parent.mkdir()
    shutil.move("kept.db", shared)
    assert run("status").code == 0
    # A new database is created in the current folder.
    assert run("init", "--json").document["database"] == "memolog.db"


def test_a_settings_file_that_cannot_be_read_is_no_installation(folder: Path) -> None:
    """A broken settings file of an agent does not stop the command line."""
    Path("memolog.db").unlink()
    (folder / "home" / ".codex").mkdir()
    (folder / "home" / ".codex" / "hooks.json").write_text("{")
    assert "There is no database memolog.db" in run("status").err


def test_the_resource_of_the_project_is_chosen(folder: Path) -> None:
    """With several resources, a command in a project uses the resource of the project, which has its path as name."""
    project = folder / "project"
    (project / ".git").mkdir(parents=True)
    assert run("tasks", "create", "Something", "--resource", str(project)).code == 0
    assert run("tasks", "list").code == 2
    with world.inside(project):
        found = run("tasks", "list", "--db", "../memolog.db", "--json").document
    assert [task["title"] for task in found["items"]] == ["Something"]


def test_settings_of_the_database_are_shown(folder: Path) -> None:
    """`config` shows where a value comes from: the database, a file or the environment, or the default."""
    found = run("config", "--json").document
    settings = found["settings"]
    assert found["database"] == "memolog.db"
    assert settings["observation.message_tokens"]["value"] == world.CONFIG.observation.message_tokens
    assert settings["observation.message_tokens"]["from"] == "database"
    assert settings["reflection.observation_tokens"]["value"] == world.CONFIG.reflection.observation_tokens
    assert settings["scope"]["from"] == "default"
    Path("memolog.toml").write_text("[observation]\nmessage_tokens = 4321\n")
    given = run("config", "observation.message_tokens", "--json").document["settings"]["observation.message_tokens"]
    assert (given["value"], given["from"]) == (4321, "given")
    Path("memolog.toml").unlink()
    shown = run("status", "--json").document
    limits = (shown["messages"]["limit"], shown["observations"]["limit"])
    assert limits == (world.CONFIG.threshold, world.CONFIG.reflect_at)
    assert run("config", "scope", "--db", "shared.db", "--json").document["settings"]["scope"]["value"] == "resource"
    assert "resource (one log for all threads)" in run("status", "--db", "shared.db").out


# ---------------------------------------------------------------- verbs for calls of the library


def test_all_threads_are_observed(folder: Path) -> None:
    """`observe --all` covers every thread, and `sweep` buffers without activation."""
    asyncio.run(_say("memolog.db", "notes"))
    assert run("sweep", "--json").document == {"resource": RESOURCE, "threads": 2}
    status = run("status", "--thread", "notes", "--json").document
    assert (status["backlog_tokens"], status["buffered_groups"]) == (0, 1)
    done = run("observe", "--all", "--json").document["threads"]
    assert {one["thread"]: one["last_seq"] - one["cursor"] for one in done} == {"atlas": 0, "notes": 0}
    assert run("sweep").out.strip() == "All messages are observed."


async def _say(address: str, thread: str) -> None:
    async with Memory(address) as memory, memory.thread(thread, resource=RESOURCE).turn() as turn:
        await turn.prepare(UserMessage(LINE))


def test_raw_text_is_pruned_only_after_a_confirmation(folder: Path) -> None:
    """`prune` needs --yes without a terminal. It deletes the text of compacted messages, and only once."""
    assert run("prune", "--thread", "notes").code == 2
    assert run("prune", "--thread", "notes", "--yes", "--json").document["messages"] == 4
    assert "[raw text removed]" in run("recall", "1", "--thread", "notes").out
    assert run("prune", "--thread", "notes", "--yes").code == 1
    # Nothing of this thread is compacted.
    assert run("prune", "--thread", "atlas", "--yes").code == 1


def test_a_dry_run_prunes_nothing(folder: Path) -> None:
    """`prune --dry-run` counts what `prune` deletes, and needs no confirmation."""
    before = run("recall", "1-4", "--thread", "notes", "--full").out
    tried = run("prune", "--thread", "notes", "--dry-run", "--json")
    assert run("recall", "1-4", "--thread", "notes", "--full").out == before
    assert "would be deleted" in run("prune", "--thread", "notes", "--dry-run").out
    done = run("prune", "--thread", "notes", "--yes", "--json").document
    assert done["messages"] > 0
    assert tried.document == {**done, "dry_run": True, "is_clean": False}
    assert (run("prune", "--thread", "notes", "--dry-run").code, tried.code) == (1, 0)


def test_a_thread_is_rewound_and_its_branch_restored(folder: Path) -> None:
    """The withdrawn messages are a branch with a short name. Restoring it makes a branch of later messages."""
    before = [item["pieces"] for item in run("recall", "1-4", "--thread", "notes", "--json").document["items"]]
    done = run("rewind", "1", "--thread", "notes", "--json").document
    assert (done["id"], done["kept_to"], done["messages"]) == ("b1", 1, 3)
    assert run("rewind", "1", "--thread", "notes").code == 1
    assert "b1" in run("branches", "--thread", "notes").out
    asyncio.run(_say("memolog.db", "notes"))
    restored = run("restore-branch", "b1", "--thread", "notes", "--json").document
    assert (restored["restored"], restored["withdrawn"]["id"]) == ("b1", "b2")
    live = [
        one for one in run("recall", "1-20", "--thread", "notes", "--json").document["items"] if one["state"] == "live"
    ]
    assert [item["pieces"] for item in live] == before
    assert run("doctor").code == 0


def test_live_messages_are_counted_after_a_rewind(folder: Path) -> None:
    """Withdrawn messages are not counted, and the history names the rewind."""
    assert run("rewind", "8", "--thread", "atlas").code == 0
    status = run("status", "--thread", "atlas", "--json").document
    assert (status["live"], status["covered"] <= 8, status["last_seq"] > 8) == (8, True, True)
    assert f"covers {status['covered']} of 8 messages" in run("status", "--thread", "atlas").out
    assert re.search(r"atlas +8 ", run("threads").out)
    assert "atlas-2: 8 messages" in run("clone", "atlas-2", "--thread", "atlas").out
    pruned = run("prune", "--thread", "atlas-2", "--dry-run", "--json").document
    reasons = ("messages", "young", "not_observed", "open_task", "not_compacted")
    assert sum(pruned[name] for name in reasons) == 8
    shown = run("history", "--thread", "atlas").out
    assert "rewind" in shown
    assert "forget" not in shown


def test_a_thread_is_copied_and_set(folder: Path) -> None:
    """`clone` copies messages and log. `override` adds, shows and removes settings of one thread."""
    made = run("clone", "copy", "--thread", "atlas", "--json").document
    assert (made["id"], made["cloned_from"]) == ("copy", "atlas")
    texts = [line["text"] for line in run("log", "--thread", "atlas", "--json").document["observations"]]
    assert [line["text"] for line in run("log", "--thread", "copy", "--json").document["observations"]] == texts
    set_ = run("override", "observation.message_tokens=1234", "mode=research", "--thread", "copy", "--json").document
    assert set_["settings"] == {"observation.message_tokens": 1234, "mode": "research"}
    assert run("status", "--thread", "copy", "--json").document["messages"]["limit"] == 1234
    assert run("status", "--thread", "atlas", "--json").document["messages"]["limit"] == 900
    assert "mode" not in run("override", "mode=", "--thread", "copy").out
    assert run("override", "--clear", "--thread", "copy", "--json").document["settings"] == {}
    assert run("status", "--thread", "copy", "--json").document["messages"]["limit"] == 900


def test_logs_are_merged_after_a_change_of_scope(folder: Path) -> None:
    """`merge` needs a shared log. The merged log has the lines of the threads, and a second merge has nothing to do."""
    lines = {line["text"] for line in _log("red", "thread") + _log("drafts", "thread")}
    assert run("merge", "--db", "shared.db", "--json").document["threads"] == ["red", "drafts"]
    assert {line["text"] for line in _log("red", "resource")} == lines
    assert run("merge", "--db", "shared.db").code == 1


def test_a_merge_stores_the_scope(folder: Path) -> None:
    """After a merge with a settings file, commands without that file use the shared log, too."""
    (folder / "shared.toml").write_text('scope = "resource"\n')
    assert run("merge", "--config", "shared.toml").code == 0
    assert run("config", "scope", "--json").document["settings"]["scope"]["value"] == "resource"
    assert run("status", "--thread", "atlas", "--json").document["observations"]["tokens"] > 0


def _log(thread: str, scope: str) -> list[dict[str, object]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MEMOLOG_SCOPE", scope)
        return run("log", "--db", "shared.db", "--thread", thread, "--json").document["observations"]


def test_closed_tasks_decay_and_come_back(folder: Path) -> None:
    """An old closed task is reduced, then archived, and can be restored. Messages can be unlinked."""
    before = run("tasks", "show", "T-4", "--json").document["task"]
    assert run("tasks", "decay", "--json").document == {"summarised": ["T-4"], "archived": []}
    assert run("tasks", "decay", "--json").document == {"summarised": [], "archived": ["T-4"]}
    assert run("tasks", "decay").code == 1
    restored = run("tasks", "restore", "T-4", "--json").document
    assert (restored["description"], restored["summary"]) == (before["description"], before["summary"])
    assert run("tasks", "detach", "T-1", "1-2", "--thread", "atlas", "--json").document == {"unlinked": 2, "in_all": 6}
    assert run("tasks", "detach", "T-1", "1-2", "--thread", "atlas").code == 1


def test_recall_of_one_message_shows_one_message(folder: Path) -> None:
    """A number or an id is one message. --context adds messages before and after it, as far as there are any."""

    def numbers(*words: str) -> list[int]:
        return [item["seq"] for item in run("recall", *words, "--json").document["items"]]

    assert numbers("43", "--thread", "atlas") == numbers("#43") == numbers("atlas 43") == [43]
    assert numbers("43", "--context", "2") == [41, 42, 43, 44, 45]
    assert numbers("1", "--context", "1", "--thread", "atlas") == [1, 2]
    assert run("recall", "7", "--thread", "notes").code == 1
    message = run("recall", "3", "--thread", "notes", "--json").document["items"][0]["id"]
    assert numbers(message) == [3]
    assert numbers(message, "--context", "1") == [2, 3, 4]
    assert numbers("2-3", "--thread", "notes", "--context", "1") == [1, 2, 3, 4]


def test_the_context_shows_tool_calls_and_results(folder: Path) -> None:
    """Names, arguments and results of tools are shown as the model sees them, in full with --full."""
    long = "line of output\n" * 60

    async def work() -> None:
        async with Memory("tools.db") as memory, memory.thread("tools", resource=RESOURCE).turn() as turn:
            await turn.prepare(UserMessage("Run the tests"))
            call = ToolCallPart(id="c1", name="run", arguments={"command": "pytest && echo <done>", "note": "x" * 300})
            await turn.record(AssistantMessage(call))
            # The result has no name: the name is that of its call.
            await turn.prepare(ToolMessage("c1", long))
            await turn.record(AssistantMessage("Done."))

    asyncio.run(work())
    short, full = run("context", "--db", "tools.db").out, run("context", "--db", "tools.db", "--full").out
    for shown in (short, full):
        assert '[call run] {"command":"pytest && echo <done>"' in shown
        assert "[result run] line of output" in shown
    assert "x" * 300 not in short
    assert "x" * 300 in full
    assert full.count("line of output") == 60


# ---------------------------------------------------------------- waiting


def test_watch_waits_for_a_database(folder: Path) -> None:
    """`watch` waits for a missing and for an empty database, and then shows the first events."""
    for name in ("later.db", "empty.db"):
        assert run("watch", "--db", name, "--seconds", "0").code == 1
        words = f"watch --json --every 0.05 --db {name} --kind RunEnded"
        with subprocess.Popen([sys.executable, "-m", "memolog", *words.split()], stdout=subprocess.PIPE) as watcher:
            assert watcher.stdout is not None
            asyncio.run(_observe(name))
            # Without an event this waits until the test times out.
            assert json.loads(watcher.stdout.readline())["kind"] == "RunEnded"
            watcher.terminate()


async def _observe(address: str) -> None:
    async with Memory(address) as memory:
        thread = memory.thread("first", resource=RESOURCE)
        async with thread.turn() as turn:
            await turn.prepare(UserMessage(LINE))
        await thread.observe()


# ---------------------------------------------------------------- progress


def test_long_calls_report_their_progress(folder: Path) -> None:
    """Indexing, import, export, doctor and forget report growing numbers, also from worker threads, and reach the end."""
    heard: list[tuple[str, int, int | None]] = []

    async def work() -> dict[str, list[tuple[int, int | None]]]:
        steps: dict[str, list[tuple[int, int | None]]] = {}

        def done(name: str) -> None:
            steps[name] = [(one, total) for _, one, total in heard]
            heard.clear()

        with listening(lambda what, one, total: heard.append((what, one, total))):
            async with Memory("many.db") as memory:
                await memory.import_from("many.json", resource=RESOURCE)
                done("import")
                await memory.resource(RESOURCE).search("red service")
                done("index")
                await memory.export("many.jsonl")
                done("export")
                await memory.doctor()
                done("doctor")
                await memory.resource(RESOURCE).forget(dry_run=True)
                done("forget")
            async with Memory("again.db") as memory:
                await memory.import_from("many.jsonl")
                done("import of an export")
        return steps

    rows = [{"role": "user" if n % 2 == 0 else "assistant", "content": f"{LINE} {n}"} for n in range(1_000)]
    Path("many.json").write_text(json.dumps(rows))
    assert not is_heard()
    steps = asyncio.run(work())
    for name, reports in steps.items():
        numbers = [one for one, _ in reports]
        assert len(numbers) > 1, name
        assert numbers == sorted(numbers), name
        # While a file is read for the first time, the number of its messages is not known.
        assert all(total for one, total in reports if one), name
    for name in ("import", "index", "export", "forget"):
        assert steps[name][-1] == (1_000, 1_000), name
    report("nothing", 1, 1)
    assert heard == []


def test_the_messages_of_each_run_are_counted(folder: Path) -> None:
    """Observing counts the messages that no run has observed, and ends when all of them are observed."""

    async def work() -> Work:
        async with Memory("memolog.db") as memory:
            call = Call(address="memolog.db", config=Config(), as_json=True, opened=memory, resource=RESOURCE)
            with call.progress("observing", "") as under_way:
                call.count_runs(4)
                await memory.thread("atlas", resource=RESOURCE).observe()
            return under_way

    assert asyncio.run(work()).progress == "4 of 4 messages observed"


def test_an_estimate_is_in_words() -> None:
    """The time that is left is estimated from the time that has passed. A new step begins a new estimate."""
    clock = FakeClock()
    work = Work(words="observing atlas", now=clock.now)
    assert str(work.__rich__()) == "observing atlas …"
    work.report("messages observed", 0, 400)
    assert (work.progress, work.remaining) == ("0 of 400 messages observed", "")
    clock.advance(seconds=60)
    work.report("messages observed", 100, 400)
    assert str(work.__rich__()) == "observing atlas: 100 of 400 messages observed, about 3 minutes left"
    clock.advance(seconds=30)
    work.report("messages observed", 400, 400)
    assert work.remaining == "about 1 second left"
    work.report("rewriting the file", 0)
    assert str(work.__rich__()) == "observing atlas: rewriting the file"


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Make standard error a terminal, and return what is printed to it."""
    printed: list[str] = []

    class Recorded(Console):
        def status(self, status: object, **_: object) -> object:  # pyright: ignore[reportIncompatibleMethodOverride]
            printed.append(str(status))
            return super().status(status)  # pyright: ignore[reportArgumentType]

    def console(*, to_stderr: bool = False) -> Console:
        return Recorded(file=sys.stderr if to_stderr else sys.stdout, force_terminal=to_stderr, width=100)

    monkeypatch.setattr(output, "console", console)
    return printed


@pytest.mark.parametrize("line", ["doctor", "observe", "search red", "export x.jsonl", "import alice.jsonl --db n.db"])
def test_progress_is_only_for_a_terminal(line: str, folder: Path, terminal: list[str]) -> None:
    """Progress is shown on a terminal, and never with --json. Without a terminal nothing is printed to stderr."""
    assert run(*line.split(), "--json").err == ""
    assert terminal == []
    assert run(*line.replace("x.j", "y.j").split()).code == 0
    assert len(terminal) == 1


@pytest.mark.parametrize(
    "line", ["doctor", "observe", "search red", "export x.jsonl", "forget -t notes --yes", "sweep"]
)
def test_a_pipe_gets_no_progress(line: str, folder: Path) -> None:
    """Without a terminal nothing is printed to stderr."""
    done = run(*line.split())
    assert done.err == ""
    assert done.out


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (
            "observe",
            "Stopped observing atlas: 0 of 4 messages observed. Finished runs are stored. Run the command again",
        ),
        ("observe --all", "Stopped observing alice"),
        (
            "import alice.jsonl --db n.db",
            "Stopped importing alice.jsonl: 70 of 100 lines. What was imported is stored.",
        ),
        ("export x.jsonl", "Stopped exporting to x.jsonl: 70 of 100 lines. No file was written."),
        ("doctor", "Stopped examining: 70 of 100 lines. Nothing was changed."),
        ("forget --thread notes --yes", "Stopped forgetting: 70 of 100 lines. Forgetting is one transaction"),
        ("search red", "Stopped indexing: 70 of 100 lines. What is indexed stays indexed."),
    ],
)
def test_an_interruption_says_what_is_done(
    line: str, words: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After Ctrl-C one line says what is done and how to go on. The exit code is 130, and JSON output stays empty."""

    async def interrupted(*_: object, **__: object) -> None:
        if not line.startswith("observe"):
            report("lines", 70, 100)
        raise KeyboardInterrupt

    for owner, name in ((Memory, "import_from"), (Memory, "export"), (Memory, "doctor")):
        monkeypatch.setattr(owner, name, interrupted)
    monkeypatch.setattr("memolog.memory.Thread.observe", interrupted)
    monkeypatch.setattr("memolog.memory.Resource.forget", interrupted)
    monkeypatch.setattr("memolog.memory.Resource.search", interrupted)
    done = run(*line.split())
    assert (done.code, done.out) == (130, "")
    assert done.err.startswith(words), done.err
    assert len(done.err.splitlines()) == 1
    silent = run(*line.split(), "--json")
    assert (silent.code, silent.out, silent.err) == (130, "", "")


@pytest.mark.skipif(os.name == "nt", reason="sends a signal")
def test_a_real_signal_interrupts(folder: Path) -> None:
    """Ctrl-C ends a process with the exit code 130 and one line."""
    command_line = [sys.executable, "-m", "memolog", "watch", "--json", "--last", "1"]
    # A program that a script starts in the background ignores this signal, and its children would do so too.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        process = subprocess.Popen(command_line, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    finally:
        signal.signal(signal.SIGINT, before)
    with process:
        assert process.stdout is not None
        assert process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, err = process.communicate()
    assert (process.returncode, err) == (130, b"")


@pytest.mark.skipif(os.name == "nt", reason="sends a signal to a process on a terminal")
@pytest.mark.parametrize("line", ["forget --everything", "prune", "install codex"])
def test_one_interruption_ends_a_question(line: str, folder: Path) -> None:
    """Ctrl-C at a confirmation ends the command at once, and nothing is changed."""
    import pty

    before = {path: path.read_bytes() for path in folder.rglob("*.db")}
    ours, theirs = pty.openpty()
    environment = {**os.environ, "HOME": str(folder), "CODEX_HOME": str(folder / "codex")}
    command_line = [sys.executable, "-m", "memolog", *line.split()]
    with subprocess.Popen(
        command_line, stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
    ) as process:
        assert process.stdout is not None
        said = ""
        while not said.endswith("]:"):
            said += (more := process.stdout.read(1))
            assert more, said
        process.send_signal(signal.SIGINT)
        # A command that ignores the signal reads this answer and goes on.
        os.write(ours, b"y\n")
        rest, _ = process.communicate()
    os.close(ours)
    os.close(theirs)
    assert (process.returncode, rest.strip()) == (130, "Stopped.")
    assert {path: path.read_bytes() for path in folder.rglob("*.db")} == before
    assert not (folder / "codex").exists()


@pytest.mark.skipif(os.name == "nt", reason="sends a signal")
@pytest.mark.parametrize("module", ["typer", "memolog.apps.cli.status", "memolog.core.config", "memolog.memory"])
def test_an_interruption_while_it_starts(module: str, folder: Path) -> None:
    """Ctrl-C while modules are imported ends the command without a traceback."""
    code = (
        "import os, signal, sys\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "class Interrupting:\n"
        "    def find_spec(self, name, *_):\n"
        f"        if name == {module!r}: os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Interrupting())\n"
        "from memolog.__main__ import main\n"
        "sys.argv = ['memolog', 'status', '--json']\n"
        "main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


# ---------------------------------------------------------------- what is shown


def _rendered(shown: object, width: int) -> list[str]:
    out = Console(width=width, file=None)
    with out.capture() as got:
        out.print(shown, crop=False)
    return [line.rstrip() for line in got.get().splitlines()]


@pytest.mark.parametrize("width", range(40, 90))
def test_a_table_is_never_wider_than_the_terminal(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """However narrow the terminal is, no line of a table is longer, and no word of a head is divided."""
    monkeypatch.setenv("COLUMNS", str(width))
    heads = (">generation", "cause!", "at!?", ">tokens before?", ">tokens after?", ">lines dropped??")
    rows = [("0", "start", "2026-03-02 14:00 UTC", "0", "0", "0"), ("1", "reflect", "2026-03-02 15:00 UTC", *"987")]
    lines = _rendered(table(heads, rows), width)
    assert max(map(len, lines)) <= width
    assert "generation" in lines[0] + lines[1]


def test_a_narrow_table_leaves_out_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Columns are left out before a word is divided, those with the most `?` first, and the table names them."""
    monkeypatch.setenv("COLUMNS", "60")
    heads = ("task!", "when?", "who??", "title")
    rows = [("T-1", "2026-03-14 09:30 CET", "somebody-with-a-name", "Rotate the refresh tokens on each use")]
    wide = _rendered(table(heads, rows, title="Tasks of alice"), 120)
    assert wide[0] == "Tasks of alice"
    assert wide[1].split() == ["task", "when", "who", "title"]
    narrow = _rendered(table(heads, rows), 60)
    assert narrow[0].split() == ["task", "when", "title"]
    assert narrow[-1] == "Too narrow for: who."
    for line in narrow:
        assert len(line) <= 60
    words = set(" ".join(narrow).split())
    assert {"Rotate", "the", "refresh", "tokens", "on", "each", "use"} <= words
    smallest = _rendered(table(heads, rows), 30)
    assert smallest[0].split() == ["task", "title"]
    assert smallest[-1] == "Too narrow for: when, who."


def test_a_paragraph_is_indented(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wrapped lines are indented like their first line, behind the mark of a list, or behind the lead."""
    monkeypatch.setenv("COLUMNS", "30")
    text = Text("* one two three four five six seven\n  * eight nine ten eleven twelve")
    assert _rendered(Paragraph(text), 30) == [
        "* one two three four five six",
        "  seven",
        "  * eight nine ten eleven",
        "    twelve",
    ]
    lead = Paragraph(Text("one two three four five six seven"), Text("lead: "))
    assert _rendered(lead, 30) == ["lead: one two three four five", "      six seven"]
    # In a pipe, a line stays whole.
    monkeypatch.delenv("COLUMNS")
    assert _rendered(Paragraph(Text("word " * 50), Text("lead: ")), 30) == ["lead: " + ("word " * 50).rstrip()]


def test_no_handle_has_an_id_beside_it(folder: Path) -> None:
    """People see short names. An id is shown only with --ids, or where there is no short name."""
    lines = "log --sources;search argon2id;recall 1-4;tasks list;tasks show T-1;history;compactions -t notes;watch --seconds 0"
    for line in lines.split(";"):
        assert not command_has_id(line), line
    assert command_has_id("log --ids")
    assert command_has_id("search argon2id --ids")
    assert command_has_id("watch --seconds 0 --ids")


def command_has_id(line: str) -> bool:
    """Return whether the output of a command has an id."""
    return bool(re.search(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-", run(*line.split()).out))
