"""The verbs show the content of the memory, and verbs that only read change nothing."""

import asyncio
import hashlib
import json
import re
import subprocess
import sys
import tomllib
import unicodedata
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from cli import world
from cli.world import RESOURCE, local_zone, run
from memolog.apps.cli.command import moment_in
from memolog.apps.cli.output import clean, safe_json, when
from memolog.core.config import Config
from memolog.core.message import UserMessage
from memolog.errors import InputError
from memolog.memory import Memory
from memolog.testing import FakeClock

NOW = datetime(2026, 3, 20, 12, 0, tzinfo=UTC)


async def _say(
    address: str, text: str, *, thread: str = "notes", speaker: str | None = None, clock: FakeClock | None = None
) -> None:
    async with Memory(address, clock=clock) as memory, memory.thread(thread, resource=RESOURCE).turn() as turn:
        await turn.prepare(UserMessage(text, speaker=speaker))


def test_the_log_is_shown_by_priority(folder: Path) -> None:
    """--priority selects lines. `recall` finds the messages that --sources shows."""
    whole = run("log", "--json").document["observations"]
    high = run("log", "--json", "-p", "high").document["observations"]
    assert {line["priority"] for line in high} == {"high"}
    assert high == [line for line in whole if line["priority"] == "high"]
    assert run("log", "--json", "--last", "2").document["observations"] == whole[-2:]
    text = run("log", "--sources").out
    source = whole[0]["sources"][0]
    span = f"{source['span']['first']}-{source['span']['last']}"
    assert (
        f"← {source['thread']} {span if source['span']['first'] != source['span']['last'] else source['span']['first']}"
        in text
    )
    # An id is shown only if it is asked for.
    assert whole[0]["id"] not in text
    assert whole[0]["id"] in run("log", "--ids").out
    recalled = run("recall", span, "--thread", source["thread"], "--json").document
    assert recalled["items"][0]["seq"] == source["span"]["first"]
    assert run("recall", whole[0]["handle"], "--json").document["items"]


def test_the_log_is_in_the_order_in_which_the_model_reads_it(folder: Path) -> None:
    """Reflections are before later groups, and each group is in order of time, in the log and as Markdown."""
    lines = run("log", "--json").document["observations"]
    prefix = "".join(block["text"] for block in run("context", "--json").document["blocks"])
    assert any(line["merges"] for line in lines)
    groups = list(dict.fromkeys(line["handle"] for line in lines))
    assert groups == re.findall(r'<(?:reflection|observations) id="(g\d+)"', prefix)
    for group in groups:
        days = [line["said_at"][:10] for line in lines if line["handle"] == group and line["parent"] is None]
        assert days == sorted(days)
    page = run("export", "-", "--markdown").out
    assert re.findall(r"^ *- \S+ \(\d\d:\d\d\) (.*?)(?: \*\[.*)?$", page, re.MULTILINE) == [
        " ".join(line["text"].split()) for line in lines
    ]


def test_times_are_local_and_name_their_zone(folder: Path, in_berlin: None) -> None:
    """Every verb shows times in the zone of this machine, with its name. JSON has the offset."""
    first = run("recall", "1-1", "--thread", "atlas", "--json").document["items"][0]
    assert (first["at"][11:16], first["zone"]) == ("09:07", "Europe/Berlin")
    assert "#1 2026-03-14 10:07 CET user" in run("recall", "1-1", "--thread", "atlas").out
    assert "atlas 1 · 2026-03-14 10:07 CET" in run("search", "refresh tokens hashed", "--limit", "20").out
    lines = run("log", "--json").document["observations"]
    line = next(one for one in lines if "We prefer argon2id" in one["text"])
    said = datetime.fromisoformat(line["said_at"]).astimezone(ZoneInfo("Europe/Berlin"))
    assert said.utcoffset() == timedelta(hours=1)
    found = run("search", "argon2id", "--limit", "50").out
    assert re.search(rf"(?:observation|reflection) · active · .* · {said:%Y-%m-%d %H:%M} CET", found)
    log = run("log").out
    assert f"🔴 {said:%H:%M} User: We prefer argon2id" in log
    assert f"{said:%A %Y-%m-%d} CET" in log
    assert re.search(r"0 +start +2026-03-14 10:07 CET", run("history").out)
    assert re.search(r"created +2026-03-18 \d\d:\d\d CET", run("tasks", "show", "T-3").out)
    assert re.search(r"\d\d:\d\d:\d\d CES?T ", run("watch", "--seconds", "0").out)


@pytest.mark.parametrize(
    ("zone", "shown"),
    [
        ("UTC", "09:07 UTC"),
        ("Europe/Berlin", "10:07 CET"),
        ("Asia/Kolkata", "14:37 IST"),
        # This zone has no short name.
        ("America/Sao_Paulo", "06:07 UTC-03:00"),
    ],
)
def test_a_moment_names_its_zone(zone: str, shown: str) -> None:
    """A moment is shown in the zone of the machine."""
    with local_zone(zone):
        assert when(datetime(2026, 3, 14, 9, 7, tzinfo=UTC)) == f"2026-03-14 {shown}"


def test_the_context_is_what_the_model_would_see(folder: Path) -> None:
    """The token counts add up, the last message is in the tail, and the verb does not count as a request."""
    before = run("context", "--json").document
    tokens = before["tokens"]
    assert tokens["total"] == tokens["prefix"] + tokens["tail"] + tokens["edge"]
    assert "all tests pass" in json.dumps(before["messages"][-1])
    assert run("context", "--json").document["messages"] == before["messages"]
    seen = run("context", "--number", "1", "--json").document
    assert len(seen["messages"]) < len(before["messages"]) + 1
    assert run("context", "--number", "999").code == 1
    assert "earlier messages" in run("context", "--tail", "1").out


def test_who_only_looks_changes_nothing(folder: Path) -> None:
    """Verbs that only read do not change a byte of the database."""

    def bytes_of() -> str:
        return hashlib.sha256((folder / "memolog.db").read_bytes()).hexdigest()

    before = bytes_of()
    lines = (
        "status;threads;log;context;recall g1 -t atlas;history;diff 0;as-of 2026-03-18;watch --seconds 0;cost;"
        "tasks list;tasks ready;tasks show T-1;tasks about T-1;wm show;wm versions"
    )
    for line in lines.split(";"):
        assert run(*line.split()).code == 0, line
    wal = folder / "memolog.db-wal"
    assert bytes_of() == before
    assert not wal.exists() or wal.stat().st_size == 0


def test_observing_buffering_and_activating(folder: Path) -> None:
    """After `buffer`, everything is observed. After `activate`, nothing is buffered."""
    start = run("status", "--json").document
    assert start["last_seq"] > start["cursor"]
    buffered = run("buffer", "--json").document
    assert buffered["backlog_tokens"] == 0
    assert buffered["buffered_groups"] > 0
    active = run("activate", "--json").document
    # A reflection may be buffered beside: the database was used with a short log.
    assert active["buffered_tokens"] == 0
    assert active["cursor"] > start["cursor"]
    observed = run("observe", "--json").document
    assert observed["cursor"] == observed["last_seq"]


def test_reflecting_makes_a_generation_or_says_no(folder: Path) -> None:
    """`reflect` creates a generation, or its exit code is 1."""
    before = run("status", "--json").document["generation"]
    done = run("reflect", "--json")
    assert done.document["generation"] - before == (1 if done.code == 0 else 0)


def test_recall_looks_everywhere_unless_a_thread_is_named(folder: Path) -> None:
    """An id is found in every thread. A number is a message of the newest thread, and the page shows this thread."""
    old = run("recall", "1", "--thread", "notes", "--json").document["items"][0]
    assert run("recall", old["id"], "--json").document["items"][0] == old
    latest = run("recall", "1-2", "--json").document["items"]
    assert {item["thread"] for item in latest} == {"atlas"}
    assert "Thread atlas (" in run("recall", "1-2").out
    assert "choose another" not in run("recall", "1-2", "--thread", "atlas").out
    assert "choose another" not in run("recall", "notes 1-2").out


def test_recall_asks_for_the_thread_where_several_have_the_name(folder: Path) -> None:
    """If several threads have a group g1, the error lists the threads."""
    for name in ("g1", "g1.1"):
        asked = run("recall", name)
        assert (asked.code, "atlas, notes" in asked.err, "--thread" in asked.err) == (2, True, True)
        for thread in ("atlas", "notes"):
            items = run("recall", name, "--thread", thread, "--json").document["items"]
            assert {item["thread"] for item in items} == {thread}


def test_recall_says_why_there_is_nothing(folder: Path) -> None:
    """An empty page names the tool that was not found. A part that does not exist is an error."""
    none = run("recall", "1-4", "--thread", "atlas", "--tool", "nope")
    assert (none.code, "nope" in none.out, "--tool" in none.out) == (1, True, True)
    wrong = run("recall", "1", "--thread", "atlas", "--part", "9")
    assert (wrong.code, "part 9" in wrong.err) == (2, True), wrong.err


def test_a_result_shows_what_recall_takes_and_who_spoke(folder: Path) -> None:
    """A result shows its handle and thread, the speaker, and tool results beside it. Its id is shown with --ids."""
    line = run("search", "API server", "--source", "observation", "--thread", "notes").out
    assert "notes g1.1" in line
    assert run("recall", "g1.1", "--thread", "notes").code == 0
    found = run("search", "API server", "--source", "reflection", "--limit", "1", "--json").document["results"][0]
    shown = run("search", "API server", "--source", "reflection").out
    assert found["handle"] in shown
    assert found["id"] not in shown
    assert found["id"] in run("search", "API server", "--source", "reflection", "--ids").out
    assert run("recall", found["id"]).code == 0
    beside = run("search", "argon2id", "--context", "2", "--limit", "2").out
    assert re.search(r"tool \d+: edit_file server/auth/hash.ts: export const", beside), beside
    asyncio.run(_say("memolog.db", "Zeppelins leave at noon", speaker="Marta"))
    assert "user Marta · notes" in run("search", "zeppelins").out


def test_a_read_only_search_says_that_the_index_is_behind(folder: Path) -> None:
    """With read_only, the index cannot be updated, and the answer reports this."""
    assert run("search", "argon2id").code == 0
    asyncio.run(_say("memolog.db", "Zeppelins leave at noon"))
    (folder / "memolog.toml").write_text("read_only = true\n")
    for words, code in (("zeppelins", 1), ("argon2id", 0)):
        said = run("search", words)
        assert (said.code, "1 entry is not in the index yet and was not searched" in said.out) == (code, True)
    (folder / "memolog.toml").unlink()
    assert "not in the index" not in run("search", "zeppelins").out


def test_a_search_indexes_everything_if_asked(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A search answers from what is indexed if much is not. With --index, it indexes everything first."""
    monkeypatch.setattr("memolog.search.search._MOST_INDEXED", 0)
    assert "are not in the index yet and were not searched" in run("search", "argon2id").out
    assert run("search", "argon2id", "--json").document["unindexed"] > 0
    whole = run("search", "argon2id", "--index")
    assert (whole.code, "not in the index" in whole.out) == (0, False)


def test_search_answers_no_where_nothing_fits(folder: Path) -> None:
    """The exit code is 1 if nothing is found."""
    found = run("search", "LoginSchema", "--json")
    assert found.code == 0
    assert "LoginSchema" in found.document["results"][0]["content"]
    none = run("search", "xylophone-quartet", "--json")
    assert (none.code, none.document["results"]) == (1, [])
    assert "Nothing found" in run("search", "xylophone-quartet").out


def test_tasks_from_creation_to_close(folder: Path) -> None:
    """A command can close a task that another command claimed. It shows the unblocked tasks."""
    made = run("tasks", "create", "Check it", "--blocked-by", "T-1", "--label", "x", "--due", "2d", "--json").document
    assert (made["blocked"], made["labels"], made["due"] > made["created_at"]) == (True, ["x"], True)
    assert run("tasks", "explain", made["handle"]).code == 1
    assert run("tasks", "claim", "T-1", "--json").document["task"]["status"] == "in_progress"
    closed = run("tasks", "close", "T-1", "--summary", "Done.", "--json").document
    assert made["handle"] in {ref["handle"] for ref in closed["unblocked"]}
    assert (
        run("tasks", "edit", "T-2", "--assignee", "bob", "--defer", "2099-01-01", "--json").document["assignee"]
        == "bob"
    )
    assert run("tasks", "edit", "T-2", "--assignee", "", "--defer", "now", "--json").document["assignee"] is None
    assert run("tasks", "close", "T-2", "--draft", "--json").document["task"]["summary"]


def test_attaching_counts_what_is_new(folder: Path) -> None:
    """Messages that are linked already are not counted. If all are linked already, the exit code is 1."""
    once = run("tasks", "attach", "T-3", "1-2", "--thread", "atlas", "--json")
    assert (once.code, once.document) == (0, {"linked": 2, "in_all": 2})
    again = run("tasks", "attach", "T-3", "1-2", "--thread", "atlas", "--json")
    assert (again.code, again.document) == (1, {"linked": 0, "in_all": 2})
    more = run("tasks", "attach", "T-3", "1-3", "--thread", "atlas")
    assert (more.code, more.out.strip()) == (0, "Linked to T-3 as reference: 1 new, 3 messages in all.")


def test_another_session_cannot_close_what_it_does_not_hold(folder: Path) -> None:
    """A task of another session can be released only with --force."""
    assert run("tasks", "release", "T-3").code == 4
    assert run("tasks", "release", "T-3", "--force").code == 0


def test_working_memory_from_standard_input_and_files(folder: Path) -> None:
    """A text comes from an argument, a file or a pipe. An outdated --version is refused."""
    (folder / "facts.md").write_text("# Facts\n\nfrom a file\n")
    assert run("wm", "set", "--file", "facts.md", "--json").document["current"]["text"].endswith("from a file\n")
    assert run("wm", "set", "-", "--json", stdin="# Facts\n\nfrom a pipe\n").document["current"]["number"] == 4
    assert "from a file" in run("wm", "diff", "3", "4").out
    assert run("wm", "set", "# Facts\n\nlate", "--version", "1").code == 4
    assert run("wm", "edit", "Facts", "--remove", "--json").code == 0
    assert run("wm", "show", "--thread", "atlas").code == 1
    merged = run("wm", "merge", '{"city": null, "zip": 4000}', "--thread", "notes", "--json").document
    assert json.loads(merged["current"]["text"]) == {"zip": 4000}


def test_watching_sees_what_other_processes_do(folder: Path) -> None:
    """`watch` shows events of another process."""
    words = "watch --json --last 0 --every 0.05 --kind RunEnded"
    command = [sys.executable, "-m", "memolog", *words.split()]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as watcher:
        assert watcher.stdout is not None
        try:
            for _ in range(20):
                asyncio.run(_say_something(folder / "memolog.db"))
                if watcher.poll() is not None:
                    break
                event = _line_within(watcher, 3.0)
                if event:
                    assert json.loads(event)["kind"] == "RunEnded"
                    return
            pytest.fail("nothing was seen")
        finally:
            watcher.terminate()


async def _say_something(path: Path) -> None:
    async with Memory(path, config=world.CONFIG) as memory:
        async with memory.thread("atlas", resource=RESOURCE).turn() as turn:
            await turn.prepare(UserMessage("We will move to Fastify by Friday, Dana reviews it. " * 10))
        await memory.thread("atlas", resource=RESOURCE).buffer()
        await memory.settled()


def _line_within(process: "subprocess.Popen[str]", seconds: float) -> str:
    import select

    assert process.stdout is not None
    ready, _, _ = select.select([process.stdout], [], [], seconds)
    return process.stdout.readline() if ready else ""


def test_cost_adds_up(folder: Path) -> None:
    """The total is the sum of the lines."""
    found = run("cost", "--json").document
    assert found["total"]["requests"] == sum(line["total"]["requests"] for line in found["lines"]) > 0
    assert run("cost", "--thread", "notes", "--json").document["total"]["requests"] == 1
    assert run("cost", "--since", "1s", "--json").document["total"]["requests"] == 0


def test_the_settings_file_that_is_printed_can_be_read(folder: Path) -> None:
    """`config --toml` prints a valid settings file with all changed settings."""
    (folder / "memolog.toml").write_text("[observation]\nmessage_tokens = 1234\n")
    printed = run("config", "--toml").out
    assert tomllib.loads(printed)["observation"] == {"message_tokens": 1234}
    (folder / "other.toml").write_text(printed)
    assert Config.from_toml("other.toml").observation.message_tokens == 1234
    changed = run("config", "--changed", "--json").document
    given = [name for name, setting in changed["settings"].items() if setting["from"] == "given"]
    assert (changed["file"], given) == ("memolog.toml", ["observation.message_tokens"])
    uncommented = "\n".join(
        line.removeprefix("# ") for line in printed.splitlines() if " = " in line or line.startswith("[")
    )
    assert tomllib.loads(uncommented)["recall"]


def test_lines_for_programs_are_never_wrapped(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A settings file and a diff are the same text at every width."""
    (folder / "memolog.toml").write_text("[observation]\nmessage_tokens = 1234\n")
    run("wm", "set", f"# Facts\n\n\t- {'a long line ' * 20}\n")
    install = "install", "gemini", "--project", "--dry-run"
    lines = (("config", "--toml"), ("diff", "0", "1"), ("wm", "diff", "2", "3"), install)
    whole = [run(*line).out for line in lines]
    monkeypatch.setenv("COLUMNS", "40")
    assert [run(*line).out for line in lines[:-1]] == whole[:-1]
    settings = [line for line in run(*install).out.splitlines() if line.startswith(("+", "-", "@", " "))]
    assert set(settings) <= set(whole[-1].splitlines())
    assert tomllib.loads(whole[0])["observation"] == {"message_tokens": 1234}
    assert f"\n+\t- {'a long line ' * 20}".rstrip() in whole[2]


def test_what_was_stored_cannot_steer_the_terminal(folder: Path) -> None:
    """Control characters of stored texts are shown as symbols, and markup as text."""
    title = "\x1b[2Jgone \x9b31m [red]not red[/red] \u202eabc \ud800"
    assert clean(title) == "␛[2Jgone �31m [red]not red[/red] �abc �"
    asyncio.run(_create(folder / "memolog.db", title))
    shown = run("tasks", "list").out
    assert "\x1b[2J" not in shown
    assert "[red]not red[/red]" in " ".join(shown.split())


HOSTILE = "\x7f\x9b31m \x85\u202eabc\u202c \u2066x\u2069 \u200f\u061c\u2028\ufeff\u200b \U000e0041 👩‍💻 ok é 漢 \x1b[2J"


@pytest.mark.parametrize("line", ["tasks list --json", "tasks show T-7 --json", "export -"])
def test_json_cannot_steer_the_terminal(line: str, folder: Path) -> None:
    """In JSON output, control and invisible characters are escapes of the same characters."""
    asyncio.run(_create(folder / "memolog.db", HOSTILE))
    printed = run(*line.split()).out
    seen = {char for char in printed if not char.isprintable() and char != "\n"}
    assert seen == set()
    assert json.dumps(HOSTILE)[1:-1] in json.dumps([json.loads(one) for one in printed.splitlines()])
    assert "é 漢" in printed


def test_every_control_is_escaped_in_json() -> None:
    """Every control and format character of Unicode becomes an escape of the same character."""
    controls = "".join(char for char in map(chr, range(0x110000)) if unicodedata.category(char) in {"Cc", "Zl", "Zp"})
    marks = "".join(map(chr, [0xAD, 0x61C, *range(0x200B, 0x2010), *range(0x202A, 0x202F), *range(0x2066, 0x206A)]))
    tags = "".join(map(chr, range(0xE0000, 0xE0080)))
    text = safe_json(json.dumps(controls + marks + tags, ensure_ascii=False))
    assert text.isascii()
    assert text.isprintable()
    assert json.loads(text) == controls + marks + tags


async def _create(path: Path, title: str) -> None:
    async with Memory(path) as memory:
        await memory.resource(RESOURCE).tasks().create(title)


# Friday 2026-03-20, 13:00 in Berlin. The clocks change nine days later.
@pytest.mark.parametrize(
    ("text", "moment", "later"),
    [
        ("2026-03-14", "2026-03-14T00:00:00+01:00", None),
        ("2026-06-14", "2026-06-14T00:00:00+02:00", None),
        ("2026-03-14T09:30", "2026-03-14T09:30:00+01:00", None),
        ("2026-03-14T09:30+04:00", "2026-03-14T09:30:00+04:00", None),
        ("now", "2026-03-20T13:00:00+01:00", None),
        ("today", "2026-03-20T00:00:00+01:00", None),
        ("Yesterday", "2026-03-19T00:00:00+01:00", None),
        ("tomorrow", "2026-03-21T00:00:00+01:00", None),
        ("monday", "2026-03-16T00:00:00+01:00", "2026-03-23T00:00:00+01:00"),
        ("friday", "2026-03-13T00:00:00+01:00", "2026-03-27T00:00:00+01:00"),
        ("90m", "2026-03-20T11:30:00+01:00", "2026-03-20T14:30:00+01:00"),
        ("2d", "2026-03-18T13:00:00+01:00", "2026-03-22T13:00:00+01:00"),
        ("3 hours ago", "2026-03-20T10:00:00+01:00", "2026-03-20T16:00:00+01:00"),
        ("in 2 days", "2026-03-18T13:00:00+01:00", "2026-03-22T13:00:00+01:00"),
    ],
)
def test_moments(text: str, moment: str, later: str | None, in_berlin: None) -> None:
    """A date, a day, a time or an age is a moment, in the zone of the machine. For a due date, an age counts from now on."""
    assert moment_in(text, NOW).isoformat() == moment
    assert moment_in(text, NOW, ahead=True).isoformat() == (later or moment)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("yesterday", "2026-03-19T23:59:59.999999+01:00"),
        ("2026-03-14", "2026-03-14T23:59:59.999999+01:00"),
        ("today", "2026-03-20T13:00:00+01:00"),
        ("2026-03-14T09:30", "2026-03-14T09:30:00+01:00"),
        ("last monday", "2026-03-16T23:59:59.999999+01:00"),
    ],
)
def test_the_end_of_a_day(text: str, moment: str, in_berlin: None) -> None:
    """The log of a day is the log at the end of the day, and never that of the future."""
    assert moment_in(text, NOW, end=True).isoformat() == moment


@pytest.mark.parametrize("text", ["", "soon", "2026-13-01", "5y", "-3h", "999999w", "next monday"])
def test_what_is_no_moment(text: str) -> None:
    """Other texts are refused."""
    with pytest.raises(InputError, match="is not a date"):
        moment_in(text, NOW)


def test_as_of_takes_words(folder: Path) -> None:
    """`as-of yesterday` shows the newest log of this old database, and `as-of` an earlier day an earlier one."""
    now = run("as-of", "yesterday", "--json").document
    assert now["groups"]
    assert run("as-of", "2", "days", "ago", "--json").document["groups"] == now["groups"]
    assert run("as-of", "2026-03-01").code == 1
    early = run("as-of", "2026-03-14", "--json").document
    assert early["at"].startswith("2026-03-14T23:59:59")
    assert early["groups"] != now["groups"]


def test_threads_that_were_active_at_once_need_a_name(folder: Path) -> None:
    """Without a unique newest thread, the command fails."""
    for thread in ("one", "two"):
        asyncio.run(_say("two.db", "Hello", thread=thread, clock=FakeClock()))
    done = run("status", "--db", "two.db")
    assert done.code == 2
    assert "at the same moment" in done.err


def test_the_same_verbs_on_postgres(folder: Path, postgres_url: str) -> None:
    """The verbs work on PostgreSQL."""
    assert run("init", "--db", postgres_url).code == 0
    assert run("status", "--db", postgres_url).code == 1
    asyncio.run(_say(postgres_url, "We prefer argon2id over bcrypt.", thread="main"))
    assert run("status", "--db", postgres_url, "--json").document["thread"] == "main"
    assert run("search", "argon2id", "--db", postgres_url).code == 0
    assert run("observe", "--db", postgres_url).code == 0
    assert run("log", "--db", postgres_url).code == 0
    assert run("watch", "--seconds", "0", "--db", postgres_url, "--json").out
    assert run("tasks", "create", "Do it", "--db", postgres_url).code == 0
    wrong = run("status", "--db", "postgresql://nobody@127.0.0.1:1/none")
    assert wrong.code == 3


def test_a_shared_log_is_shown_and_kept_without_being_told(folder: Path) -> None:
    """Every verb uses the scope and thresholds that are stored in the database. A settings file overrides them."""
    database = str(folder / "one-log.db")
    config = Config.from_dict(
        {"scope": "resource", "observation.message_tokens": 1_234, "observation.previous_tokens": 0}
    )

    async def speak() -> None:
        async with Memory(database, config=config, clock=FakeClock(NOW)) as memory:
            for thread in ("red", "blue"):
                async with memory.thread(thread, resource=RESOURCE).turn() as turn:
                    await turn.prepare(UserMessage(f"We deploy the {thread} service on Fridays, never on Mondays."))
            await memory.thread("red", resource=RESOURCE).observe()

    asyncio.run(speak())
    status = run("status", "--db", database, "-t", "blue", "--json").document
    assert (status["scope"], status["messages"]["limit"]) == ("resource", 1_234)
    assert status["groups"] == 2
    log = run("log", "--db", database, "-t", "blue", "--json").document
    assert any("red service" in line["text"] for line in log["observations"])
    assert "red service" in run("context", "--db", database, "-t", "blue", "--json").out
    history = run("history", "--db", database, "-t", "blue", "--json").document
    observed = run("observe", "--db", database, "-t", "blue", "--json").document
    assert (observed["scope"], observed["groups"]) == ("resource", 2)
    assert run("history", "--db", database, "-t", "blue", "--json").document == history
    (folder / "memolog.toml").write_text('scope = "thread"\n')
    told = run("status", "--db", database, "-t", "blue", "--json").document
    assert (told["scope"], told["groups"]) == ("thread", 0)
