"""Tests of the demo: it plays its whole script, prints everything, and its figures are correct."""

import importlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from memolog import Memory
from memolog.apps.demo.play import CONFIG, RESOURCE, Demo, show
from memolog.apps.demo.screen import Screen
from memolog.apps.demo.script import THREADS, script
from memolog.events import Windows
from memolog.testing import FakeClock

ROOT = Path(__file__).parents[2]
LEVEL = Windows(
    at=FakeClock().time,
    resource=RESOURCE,
    thread="api",
    message_tokens=600,
    message_limit=1_200,
    observation_tokens=500,
    observation_limit=2_000,
    buffered_groups=0,
    runs=0,
)
DEMO = [sys.executable, "-m", "memolog", "demo"]


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the path of the database of the demo."""
    return tmp_path_factory.mktemp("demo") / "demo.db"


@pytest.fixture(scope="module")
def told(database: Path) -> dict[str, Any]:
    """Run the demo once, as a program, and return its JSON."""
    done = subprocess.run([*DEMO, "--json", "--db", str(database)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return json.loads(done.stdout)


def test_the_figures_are_what_it_promises(told: dict[str, Any], database: Path) -> None:
    """The demo has days with tools, a log, a crash, answers from the log and in exact words, a task, and lower costs."""
    assert told["messages"] >= 400
    assert told["tool_calls"] >= 100
    assert told["days"] >= 10
    assert told["threads"] == 3
    # It observed in the background, activated, and condensed the log.
    assert told["background_runs"] > told["activations"] > 10
    assert told["lines"] > 100
    assert told["reflections"]
    assert all(0 < one["after"] < one["before"] for one in told["reflections"])
    # A process was killed; what it had saved was there, and its work was taken over.
    crash = told["crash"]
    assert crash["exit_code"] != 0
    assert crash["there_after"] == crash["saved_before"] > 0
    assert crash["recovered"]
    # The answer is in a line of the log and not in the messages that the model was shown.
    question = told["question"]
    assert question["answered_from_log"]
    assert not question["in_recent_messages"]
    assert "8 euros" in question["line"]
    assert "Okafor" in question["words"]
    assert told["exact_code"]["exact"]
    assert "EXCLUDE USING gist (item_id WITH =, during WITH &&);" in told["exact_code"]["code"]
    task = told["task"]
    assert task["status"] == "closed"
    assert task["citations"] >= 3
    assert task["unblocked"] == ["T-2"]
    assert "Also named" not in task["summary"]
    assert "[1]" in task["summary"]
    assert told["tokens"]["with_memory"] < 0.8 * told["tokens"]["without_memory"]
    assert told["cost"]["with_memory"] < told["cost"]["without_memory"]
    assert told["prompt_cache_reuse_warm"] > 0.8
    assert [command.split()[1] for command in told["next"]] == ["log", "search", "context", "ui"]
    assert all(str(database) in command for command in told["next"])


async def test_it_leaves_a_database_that_holds_everything(told: dict[str, Any], database: Path) -> None:
    """The database of the demo contains every message of the script, and the check of the demo reports the same."""
    assert told["nothing_lost"]
    assert told["in_prompt"] + told["behind_log"] == told["word_for_word"] == told["messages"]
    async with Memory(database, config=CONFIG) as memory:
        store = (await memory.open()).store
        for thread in THREADS:
            wanted = [message for one in script() if one.thread == thread for message in one.messages]
            rows = await store.messages.after(RESOURCE, thread, 0)
            assert [(row.id, row.role) for row in rows] == [(message.id, message.role) for message in wanted]
            # The demo adds what it fetched to the last answer of its scene; all else is the script, word for word.
            same = [row.parts == message.parts for row, message in zip(rows, wanted, strict=True)]
            assert same.count(False) == (1 if thread == "api" else 0)
        found = await memory.resource(RESOURCE).search("late fee")
        assert found.total > 0


def test_it_does_not_play_into_a_database_that_is_in_use(told: dict[str, Any], database: Path) -> None:
    """A second demo on the same file is refused with one line."""
    assert told["nothing_lost"]
    done = subprocess.run([*DEMO, "--db", str(database)], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "already" in done.stderr
    assert "Traceback" not in done.stderr


async def test_it_shows_the_same_every_time(
    told: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second demo prints the same figures. Its lines are short and plain, and the picture of the README shows them."""
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    picture: Any = importlib.import_module("picture")
    screen = picture.Recorder()
    again = await Demo(str(tmp_path / "demo.db"), screen).play()
    show(again, screen)
    assert {**again, "database": "", "next": ""} == {**told, "database": "", "next": ""}
    lines = ["".join(piece if isinstance(piece, str) else piece[0] for piece in line) for line in screen.lines]
    shown = [line for line in lines if "--db" not in line]
    assert max(map(len, shown)) <= 100
    assert not [line for line in lines if "Also named" in line]
    assert (ROOT / "docs" / "demo.svg").read_text("utf-8") == picture.picture(screen.lines), "run `make docs`"


def test_in_a_pipe_it_is_plain(capsys: pytest.CaptureFixture[str]) -> None:
    """Outside a terminal the output is plain text without colours and cursor movements. Sizes are printed once a day."""
    screen = Screen()
    screen.line("checked  ", ("nothing lost", "good"))
    screen.levels({"api": LEVEL})
    screen.day_ends({"api": LEVEL})
    screen.close()
    assert capsys.readouterr().out.splitlines() == [
        "checked  nothing lost",
        "  messages  api ██████░░░░░░   600",
        "  log       api ███░░░░░░░░░   500",
    ]


def test_a_terminal_shows_it_live(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """In a terminal a panel shows the sizes, so they are not printed again at the end of the day."""
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    live = Screen()
    live.levels({"api": LEVEL})
    live.day_ends({"api": LEVEL})
    live.close()
    shown = capsys.readouterr().out
    assert "\x1b[" in shown
    assert shown.count("messages  api") == 1


def test_the_script_is_in_order() -> None:
    """No exchange begins before the end of the previous one, and every call has its result."""
    exchanges = script()
    ends = [one.messages[-1].created_at for one in exchanges]
    assert all(end is not None and end < after.at for end, after in zip(ends, exchanges[1:], strict=False))
    assert all(one.messages[-1].role == "assistant" for one in exchanges)
    ids = [message.id for one in exchanges for message in one.messages]
    assert len(ids) == len(set(ids)) >= 400
