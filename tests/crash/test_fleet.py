"""Many processes on one database, some of them killed: nothing is lost, nothing is covered twice."""

import asyncio
import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import asyncpg

from kit.effort import counts
from memolog.db.postgres_address import PostgresOptions, split_url
from memolog.testing import FakeClock

CHILD = Path(__file__).with_name("fleet_child.py")
PROCESSES = counts(4, 8)
TURNS = counts(160, 5_000)
THREADS = counts(10, 50)
KILLED = 2


def start(address: str, seed: int, turns: int, output: Path, hours: int = 0) -> subprocess.Popen[bytes]:
    """Start one process of the fleet; what it acknowledges goes to a file."""
    command = [sys.executable, str(CHILD), address, str(seed), str(turns), str(THREADS), str(hours)]
    with output.open("wb") as out, output.with_suffix(".err").open("wb") as errors:
        return subprocess.Popen(command, stdout=out, stderr=errors)


def test_a_fleet_on_one_postgres(postgres_url: str, tmp_path: Path, clock: FakeClock) -> None:
    """Eight processes, two killed on the way: every acknowledged message once, every span covered once."""
    share = TURNS // PROCESSES
    files = [tmp_path / f"{seed}.jsonl" for seed in range(PROCESSES)]
    # Those that are killed have more to do than they can have done by then.
    turns = [1_000_000 if seed < KILLED else share for seed in range(PROCESSES)]
    fleet = [start(postgres_url, seed, turns[seed], files[seed]) for seed in range(PROCESSES)]
    for victim in range(KILLED):
        # Killed once it is in the middle of its work, wherever that is.
        while files[victim].stat().st_size < 3_000 and fleet[victim].poll() is None:
            time.sleep(0.02)
        fleet[victim].send_signal(signal.SIGKILL)
    codes = [process.wait(timeout=1_200) for process in fleet]
    assert codes[KILLED:] == [0] * (PROCESSES - KILLED), files[-1].with_suffix(".err").read_text()
    assert codes[:KILLED] == [-signal.SIGKILL] * KILLED
    # One more process comes an hour later, finds the leases of the dead ended, and takes their runs over.
    last = tmp_path / "last.jsonl"
    assert start(postgres_url, 99, 3 * THREADS, last, hours=1).wait(timeout=1_200) == 0, last.with_suffix(
        ".err"
    ).read_text()
    acknowledged = [
        json.loads(line) for file in [*files, last] for line in file.read_text().splitlines() if line[-1:] == "}"
    ]
    assert len(acknowledged) > TURNS
    problems = asyncio.run(read_and_check(postgres_url, acknowledged))
    assert problems == []


async def read_and_check(address: str, acknowledged: list[dict[str, str]]) -> list[str]:
    """Read the database alone, without a line of our own code, and list what is wrong."""
    url, options = split_url(address, PostgresOptions())
    connection: Any = await asyncpg.connect(url, server_settings={"search_path": options.schema})
    problems: list[str] = []
    try:
        rows = await connection.fetch(
            "SELECT t.id AS thread, m.id, m.seq, m.parts, m.continuation FROM messages m JOIN threads t ON t.pk = m.thread_pk"
        )
        stored = {(row["thread"], row["id"]): row for row in rows}
        if len(stored) != len(rows):
            problems.append(f"{len(rows) - len(stored)} messages are there twice")
        for message in acknowledged:
            row = stored.get((message["thread"], message["id"]))
            if row is None:
                problems.append(f"{message['id']} is lost")
            elif message["text"] and json.dumps(message["text"])[1:-1] not in row["parts"]:
                problems.append(f"{message['id']} has changed")
        for thread in await connection.fetch("SELECT pk, id, last_seq FROM threads"):
            problems += await check_thread(connection, thread, rows)
    finally:
        await connection.close()
    return problems


async def check_thread(connection: Any, thread: Any, rows: list[Any]) -> list[str]:
    """List what is wrong with one thread: gaps, overlaps, a cursor that does not fit."""
    problems: list[str] = []
    seqs = sorted(row["seq"] for row in rows if row["thread"] == thread["id"])
    if seqs != list(range(1, thread["last_seq"] + 1)):
        problems.append(f"{thread['id']}: sequence numbers are not dense")
    spans = await connection.fetch(
        "SELECT first_seq, last_seq, state FROM groups "
        "WHERE thread_pk = $1 AND kind = 'observer' AND state <> 'void' ORDER BY first_seq",
        thread["pk"],
    )
    cursor = await connection.fetchval("SELECT seq FROM cursors WHERE thread_pk = $1", thread["pk"])
    next_seq = 1
    for span in spans:
        if span["first_seq"] < next_seq:
            problems.append(f"{thread['id']}: {span['first_seq']} is covered twice")
        if span["state"] != "buffered" and span["first_seq"] != next_seq:
            problems.append(f"{thread['id']}: {next_seq} to {span['first_seq'] - 1} is covered by nothing")
        if span["state"] != "buffered" and span["last_seq"] > cursor:
            problems.append(f"{thread['id']}: the cursor {cursor} is behind its group")
        next_seq = span["last_seq"] + 1
    covered = max((span["last_seq"] for span in spans if span["state"] != "buffered"), default=0)
    if covered != cursor:
        problems.append(f"{thread['id']}: the cursor is at {cursor}, the groups end at {covered}")
    return problems


def test_the_check_finds_what_is_wrong(postgres_url: str, tmp_path: Path) -> None:
    """The program that reads the database notices a lost message: it is not blind."""
    output = tmp_path / "one.jsonl"
    assert start(postgres_url, 1, 5, output).wait(timeout=120) == 0, output.with_suffix(".err").read_text()
    acknowledged = [json.loads(line) for line in output.read_text().splitlines()]
    assert asyncio.run(read_and_check(postgres_url, acknowledged)) == []
    lost = [*acknowledged, {"thread": "t0", "id": "never-saved", "text": "x"}]
    assert asyncio.run(read_and_check(postgres_url, lost)) == ["never-saved is lost"]
