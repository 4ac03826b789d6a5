"""Snapshots of every verb at 60 and 120 columns and as JSON, on a fixed story and on the database of the demo.

`MEMOLOG_SNAPSHOTS=write .venv/bin/pytest tests/cli/test_snapshots.py` writes the files again. Read the differences then.
"""

import asyncio
import json
import os
import re
import shlex
import shutil
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from rich.cells import cell_len

from cli import world
from cli.world import Said, examples, run
from memolog.apps.demo.play import Demo
from memolog.apps.demo.screen import Screen
from memolog.apps.demo.script import script
from memolog.testing import FakeClock

SNAPSHOTS = Path(__file__).parent / "snapshots"
IS_WRITING = os.environ.get("MEMOLOG_SNAPSHOTS") == "write"
NOW = datetime(2026, 5, 20, 12, 0, tzinfo=UTC)
# `demo` prints in its own way, and `tests/docs/test_demo.py` reads what it prints. The times of `bench` and
# `eval` are those of the machine. The address that `ui` prints has a new token each time.
ELSEWHERE = {"demo", "bench", "eval", "ui"}
# These verbs would also start a reflection in the background, which ends before or after the status is read.
OBSERVING = {"observe", "buffer", "activate", "sweep", "finalize", "compact"}
MORE = {
    "context": ["context --full --tail 4 --thread notes"],
    "log": ["log --last 2 --ids"],
    "recall": [
        "recall 6 --thread atlas --context 1",
        "recall g1 --thread notes",
        "recall 5-6 --thread atlas --tool edit_file",
    ],
    "search": ["search argon2id --context 1 --limit 1 --explain", "search xylophone-quartet"],
    "status": [
        "status --resource nobody",
        "status --thread nowhere",
        "status --no-such-option",
        "status --db empty.db",
    ],
    "doctor": ["doctor --resource nobody"],
    "as-of": ["as-of soonish", "as-of 2026-03-01"],
    "tasks list": ["tasks list --label none", "tasks lst"],
    "tasks show": ["tasks show T-3"],
    "cost": ["cost"],
    "compactions": ["compactions --thread atlas"],
    "branches": ["branches --thread atlas"],
    "override": ["override --thread atlas"],
    "threads": ["threads --db shared.db"],
    "watch": [
        "watch --seconds 0 --db missing.db",
        "watch --seconds 0 --db empty.db",
        "watch --seconds 0 --last 3 --ids",
    ],
}
DEMO = """
status --thread api
threads
log --thread api --last 8 --sources
context --thread web --tail 6
history --thread api
search "late fee" --limit 3
recall 43 --thread ops
recall 43 --thread ops --context 2
recall 4-5 --thread ops --full
tasks list
tasks show T-1
tasks about T-1 --limit 3
tasks history T-1
cost
watch --seconds 0 --last 8
as-of 2026-03-05 --thread ops
doctor
""".strip().splitlines()

UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")


@pytest.fixture(scope="session")
def story(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a story whose clock never is that of the machine."""
    folder = tmp_path_factory.mktemp("story")
    asyncio.run(world.build(folder / "memolog.db", clock=FakeClock(NOW)))
    return folder


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder with the database of the demo. The process that the demo kills is left out."""
    folder = tmp_path_factory.mktemp("demo")

    async def play() -> None:
        played = Demo(str(folder / "memolog.db"), Screen(quiet=True))
        async with played.open("first") as memory:
            await played.exchanges(memory, script())

    asyncio.run(play())
    return folder


@pytest.fixture(autouse=True)
def fixed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Give the commands a fixed clock, zone and user."""
    monkeypatch.setattr("memolog.memory.SystemClock", lambda: FakeClock(NOW))
    monkeypatch.setattr("getpass.getuser", lambda: "alice")
    with world.local_zone("Europe/Berlin"):
        yield


def lines_of_verbs() -> Iterator[tuple[str, list[list[str]]]]:
    """Yield each verb with its command lines: the examples of its help, and more."""
    found: dict[str, list[list[str]]] = {}
    for words, arguments in examples():
        if words[0] not in ELSEWHERE:
            found.setdefault(" ".join(words), []).append(arguments)
    assert MORE.keys() <= found.keys()
    for verb, lines in found.items():
        yield verb, [*lines, *map(shlex.split, MORE.get(verb, []))]


@pytest.mark.parametrize(("verb", "lines"), [pytest.param(*one, id=one[0]) for one in lines_of_verbs()])
def test_a_verb(verb: str, lines: list[list[str]], story: Path, tmp_path: Path) -> None:
    """The output is that of the snapshot."""
    compare(verb.replace(" ", "-"), [shown(line, story, tmp_path) for line in lines])


def test_the_demo(demo: Path, tmp_path: Path) -> None:
    """The verbs that read show the demo's database as in the snapshot."""
    compare("on-the-demo", [shown(shlex.split(line), demo, tmp_path) for line in DEMO])


def shown(line: list[str], folder: Path, place: Path) -> str:
    """Return what a command line prints, each time in a new copy of the folder."""
    text = f"$ memolog {' '.join(line)}\n"
    # The lines of `install` contain long paths of this machine, so that they would be wrapped elsewhere on another machine.
    for width in ("60", "120") if line[0] != "install" else (None,):
        title = f"{width} columns" if width else "in a pipe"
        text += f"── {title}\n{printed(line, folder, place / 'here', width)}"
    return text + f"── --json\n{printed([*line, '--json'], folder, place / 'here', None)}"


def printed(line: list[str], folder: Path, place: Path, columns: str | None) -> str:
    """Return what one run prints. Without `columns` long lines are not wrapped."""
    shutil.copytree(folder, place)
    with world.inside(place), pytest.MonkeyPatch.context() as patch:
        if columns is not None:
            patch.setenv("COLUMNS", columns)
        if line[0] in OBSERVING:
            patch.setenv("MEMOLOG_REFLECTION_OBSERVATION_TOKENS", "40000")
        done = run(*line)
    text = steady(as_text(done, is_json="--json" in line), place)
    shutil.rmtree(place)
    if columns is not None and done.code in {0, 1} and "diff" not in line:
        wide = [row for row in done.out.splitlines() if cell_len(row) > int(columns)]
        assert not wide, wide
    return text


def as_text(done: Said, *, is_json: bool) -> str:
    """Return output, errors and exit code as one text, with JSON on several lines."""
    out = done.out
    if is_json:
        documents = [json.loads(row) for row in out.splitlines()]
        out = "".join(json.dumps(one, indent=1, ensure_ascii=False) + "\n" for one in documents)
    err = "".join(f"stderr: {row}\n" for row in done.err.splitlines())
    code = f"exit code {done.code}\n" if done.code else ""
    return out + err + code


def steady(text: str, place: Path) -> str:
    """Replace what differs between two machines or two runs: paths, ports, sizes of files, and ids by their order."""
    text = text.replace(str(place), "FOLDER").replace(sys.executable, "PYTHON")
    text = re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:PORT", text)
    text = re.sub(r"[\d,]+ bytes\b", "N bytes", text)
    text = re.sub(r'"bytes": \d+', '"bytes": 0', text)
    ids = {name: f"id-{number}" for number, name in enumerate(dict.fromkeys(UUID.findall(text)), start=1)}
    return UUID.sub(lambda hit: ids[hit[0]], text)


def compare(name: str, parts: list[str]) -> None:
    """Compare texts with a snapshot, or write it."""
    text = "\n".join(parts)
    path = SNAPSHOTS / f"{name}.txt"
    if IS_WRITING:
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, "utf-8")
    assert path.exists(), f"There is no snapshot of {name}."
    assert text == path.read_text("utf-8")


def test_every_snapshot_belongs_to_a_verb() -> None:
    """No snapshot of a verb that was removed is left."""
    names = {verb.replace(" ", "-") for verb, _ in lines_of_verbs()} | {"on-the-demo"}
    assert {path.stem for path in SNAPSHOTS.iterdir()} == names


@pytest.mark.parametrize(
    "line", ["status", "log", "context --tail 3", "tasks list", "search argon2id", "watch --seconds 0"]
)
def test_colours_are_only_added(line: str, story: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal gets colours, NO_COLOR removes them, and the text is the same as in a pipe."""
    place = tmp_path / "here"
    shutil.copytree(story, place)
    with world.inside(place):
        monkeypatch.setenv("COLUMNS", "60")
        plain = run(*line.split()).out
        monkeypatch.setenv("FORCE_COLOR", "1")
        monkeypatch.setenv("TERM", "xterm")
        coloured = run(*line.split()).out
        monkeypatch.setenv("NO_COLOR", "1")
        colourless = run(*line.split()).out
    escape = re.compile(r"\x1b\[[0-9;]*m")
    colour = re.compile(r"\x1b\[(?:[0-9]+;)*(?:3[0-7]|9[0-7])(?:;[0-9]+)*m")
    assert colour.search(coloured)
    assert not colour.search(colourless)
    assert escape.sub("", coloured) == escape.sub("", colourless) == plain
