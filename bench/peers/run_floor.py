"""The floor: a bare SQLite table, and the whole history of a thread in every prompt. No memory is cheaper to write."""

import json
import sqlite3
from pathlib import Path

from harness import SYSTEM, Meter, Run, Step


class History:
    """Rows of JSON in one table."""

    def __init__(self, path: Path) -> None:
        path.unlink(missing_ok=True)
        self._connection = sqlite3.connect(path, isolation_level=None)
        self._connection.executescript(
            "pragma journal_mode = wal; pragma synchronous = normal;"
            "create table message (id integer primary key, thread text, content text);"
            "create index message_thread on message (thread, id);"
        )

    def add(self, thread: str, message: dict[str, object]) -> None:
        """Save a message."""
        self._connection.execute("insert into message (thread, content) values (?, ?)", (thread, json.dumps(message)))

    def all(self, thread: str) -> list[dict[str, object]]:
        """Return the messages of a thread."""
        rows = self._connection.execute("select content from message where thread = ? order by id", (thread,))
        return [json.loads(content) for (content,) in rows]


def play(run: Run, history: History, steps: list[Step], meter: Meter) -> None:
    """Go through the steps."""
    for step in steps:
        with meter:
            history.add(step.thread, step.given)
            request = [{"role": "system", "content": SYSTEM}, *history.all(step.thread)]
            with run.scripted:
                run.scripted.call("agent", step.thread, [json.dumps(message) for message in request], "")
            history.add(step.thread, step.answer)


if __name__ == "__main__":
    run = Run("floor")
    play(run, History(run.folder / "floor-warm.db"), run.steps(30), run.warm())
    path = run.folder / f"{run.stem}.db"
    history = History(path)
    run.begin()
    play(run, history, run.steps(), run.turn)
    run.end(path, versions={"sqlite": sqlite3.sqlite_version})
