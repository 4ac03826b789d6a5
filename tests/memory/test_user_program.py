"""A program of a user runs, its types are complete, and a swap of thread and resource is found before or at the first call."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from memolog import InputError, Memory

ROOT = Path(__file__).parents[2]
PROGRAM = ROOT / "tests" / "fixtures" / "user_program.py"
SWAPPED = '''"""Thread and resource in the wrong place: the type checker refuses each marked line."""

from memolog import Memory, SyncMemory


async def swapped(memory: Memory) -> None:
    """Pass one for the other."""
    alice = memory.resource("alice")
    thread = alice.thread("t1")
    memory.thread("alice", "t1")  # refused
    memory.thread("t1")  # refused
    memory.resource(thread)  # refused
    alice.thread(alice)  # refused
    thread.thread("alice")  # refused
    thread.turn("alice")  # refused
    alice.turn()  # refused
    await alice.search("words", thread=thread)  # refused
    await alice.forget("t1")  # refused


def swapped_without_await(memory: SyncMemory) -> None:
    """Do the same on the synchronous face."""
    alice = memory.resource("alice")
    memory.thread("alice", "t1")  # refused
    memory.resource(alice.thread("t1"))  # refused
    alice.turn()  # refused
    alice.forget("t1")  # refused
'''


def checked(file: Path, folder: Path) -> set[int]:
    """Return the lines of a program that the type checker refuses with its strict settings."""
    pytest.importorskip("basedpyright")
    settings = {
        "include": [str(file)],
        "typeCheckingMode": "strict",
        "pythonVersion": "3.11",
        "extraPaths": [str(ROOT / "src")],
    }
    (folder / "pyrightconfig.json").write_text(json.dumps(settings), "utf-8")
    command = [sys.executable, "-m", "basedpyright", "--outputjson", "--pythonpath", sys.executable]
    said = subprocess.run([*command, "-p", str(folder)], capture_output=True, text=True, check=False)
    report: dict[str, Any] = json.loads(said.stdout)
    assert report["summary"]["filesAnalyzed"] == 1
    return {1 + found["range"]["start"]["line"] for found in report["generalDiagnostics"]}


def test_the_program_runs(tmp_path: Path) -> None:
    """It talks, observes, searches and looks, with and without `await`."""
    command = [sys.executable, str(PROGRAM), str(tmp_path / "memolog.db")]
    said = subprocess.run(command, capture_output=True, text=True, check=False, env={"PYTHONPATH": str(ROOT / "src")})
    assert (said.stdout, said.stderr) == ("Login 2 True\n", "")


def test_its_types_are_complete(tmp_path: Path) -> None:
    """Strict checking finds nothing unknown in what the public face returns."""
    file = tmp_path / "program.py"
    file.write_text(PROGRAM.read_text("utf-8"), "utf-8")
    assert checked(file, tmp_path) == set()


def test_a_swap_is_refused_by_the_type_checker(tmp_path: Path) -> None:
    """Each wrong call is an error of types, and none of the right ones is."""
    file = tmp_path / "program.py"
    file.write_text(SWAPPED, "utf-8")
    wrong = {number for number, line in enumerate(SWAPPED.splitlines(), 1) if "# refused" in line}
    assert checked(file, tmp_path) == wrong


def test_a_swap_fails_at_once() -> None:
    """Without a type checker the call itself fails, before anything is read or written."""
    memory: Any = Memory("never-opened.db")
    alice = memory.resource("alice")
    for swapped in (
        lambda: memory.thread("t1", "alice"),
        lambda: memory.thread("t1"),
        lambda: memory.resource(alice),
        lambda: alice.thread(alice.thread("t1")),
        lambda: alice.thread("t1").turn("alice"),
    ):
        with pytest.raises((TypeError, InputError)):
            swapped()
