"""Measure how long a hook delays its host, compared with the start of Python alone.

    make bench-hooks ARGS="--rounds 60"

Each round starts every program once, in a random order, so that other load of the machine affects all of them equally:

- python: the interpreter alone, which does nothing.
- prompt, tool, large tool (1 MB of output): events that are only appended to a file.
- stop: an event that also starts the sweep in the background. The host does not wait for the sweep.
- start: an event that is answered with a pack, from a database with a few sessions.

Times are from the start of a process to its end, as the host sees it. "above" is the difference from the start of Python alone in
the same round. CPU is the processor time of the process, which depends less on other load. No sweep runs during the measurement.

Nothing here is a test: no time is asserted. The table is followed by one line of JSON.
"""

import argparse
import asyncio
import json
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter
from typing import Any

from memolog import Memory, UserMessage
from memolog.apps.hooks.sweep import only_one
from table import median, percentile, table

HOOK = ["-P", "-m", "memolog.apps.hook", "claude-code", "--db"]
SESSIONS = 3
MESSAGES = 200


def events(folder: Path) -> dict[str, dict[str, Any] | None]:
    """Return the event of each program."""
    common = {"session_id": "s1", "transcript_path": str(folder / "s1.jsonl"), "cwd": str(folder)}
    tool = {"hook_event_name": "PostToolUse", "tool_name": "Bash", "tool_input": {"command": "make test"}}
    return {
        "python": None,
        "prompt": {**common, "hook_event_name": "UserPromptSubmit", "prompt": "fix the login, please"},
        "tool": {**common, **tool, "tool_use_id": "c1", "tool_response": {"stdout": "42 passed\n" * 200}},
        "large tool": {**common, **tool, "tool_use_id": "c2", "tool_response": {"stdout": "line of a log\n" * 75_000}},
        "stop": {**common, "hook_event_name": "Stop", "last_assistant_message": "It is fixed."},
        "start": {**common, "session_id": "s2", "hook_event_name": "SessionStart", "source": "startup"},
    }


async def fill(db: Path, resource: str) -> None:
    """Store and observe a few sessions."""
    chance = random.Random(1)
    words = ["server", "client", "token", "schema", "deploy", "friday", "argon2id", "queue", "retry", "cache"]
    async with Memory(str(db)) as memory:
        store = (await memory.open()).store
        for session in range(SESSIONS):
            said = [UserMessage(f"Note {n}: {' '.join(chance.choices(words, k=30))}.") for n in range(MESSAGES)]
            await store.messages.save(resource, f"old-{session}", said)
            await memory.thread(f"old-{session}", resource=resource).observe()


def timed(command: list[str], given: bytes, environment: dict[str, str]) -> tuple[float, float]:
    """Return the elapsed time and the processor time of a process in milliseconds."""
    started = perf_counter()
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(given)
    process.stdin.close()
    process.stdout.read()
    _, _, used = os.wait4(process.pid, 0)
    wall = (perf_counter() - started) * 1_000
    process.returncode = 0
    process.stdout.close()
    return wall, (used.ru_utime + used.ru_stime) * 1_000


def measure(folder: Path, rounds: int, *, with_start: bool) -> dict[str, list[tuple[float, float]]]:
    """Return the times of every program, round by round."""
    db = folder / "memolog.db"
    # Compile the modules first, as in an installed package.
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(folder / "compiled"), "MEMOLOG_HOME": str(folder)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    asyncio.run(fill(db, os.path.realpath(folder)))
    told = {name: event for name, event in events(folder).items() if with_start or name != "start"}
    commands = {
        name: [sys.executable, "-c", "pass"] if event is None else [sys.executable, *HOOK, str(db)]
        for name, event in told.items()
    }
    given = {name: b"" if event is None else json.dumps(event).encode() for name, event in told.items()}
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in told}
    Path(f"{db}.hooks").mkdir(exist_ok=True)
    with only_one(f"{db}.hooks/sweep.lock") as is_ours:
        assert is_ours
        for name in told:
            timed(commands[name], given[name], environment)
        for _ in range(rounds):
            for name in random.sample(list(told), len(told)):
                times[name].append(timed(commands[name], given[name], environment))
    return times


def main() -> None:
    """Measure, and print a table and one line of JSON."""
    parser = argparse.ArgumentParser(description="Measure how long a hook delays its host.")
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--no-start", action="store_true", help="leave out the event start, which takes longest")
    given = parser.parse_args()
    rounds: int = given.rounds
    with tempfile.TemporaryDirectory(prefix="memolog-hooks-", ignore_cleanup_errors=True) as name:
        times = measure(Path(name), rounds, with_start=not given.no_start)
    python = times["python"]
    rows: list[list[object]] = []
    result: dict[str, dict[str, float]] = {}
    for name, taken in times.items():
        above = [mine[0] - own[0] for mine, own in zip(taken, python, strict=True)]
        cpu = [mine[1] - own[1] for mine, own in zip(taken, python, strict=True)]
        walls = [wall for wall, _ in taken]
        found = {
            "wall_p50": median(walls),
            "above_p50": median(above),
            "above_p95": percentile(walls, 0.95) - percentile([wall for wall, _ in python], 0.95),
            "above_p95_paired": percentile(above, 0.95),
            "cpu_above_p50": median(cpu),
            "cpu_above_p95": percentile(cpu, 0.95),
        }
        result[name.replace(" ", "_")] = {key: round(value, 2) for key, value in found.items()}
        rows.append([name, *found.values()])
    heads = ("ms", "whole p50", "above p50", "above p95", "above p95 (pairs)", "CPU above p50", "CPU above p95")
    print(table(heads, rows))
    print(f"\n{rounds} rounds; load of the machine {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores\n")
    print(json.dumps({"rounds": rounds, "load": os.getloadavg()[0], "ms": result}))


if __name__ == "__main__":
    main()
