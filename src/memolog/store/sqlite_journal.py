"""The journal of a SQLite file: readers and one writer work at once.

Knows that SQLite does not wait where two processes set the journal of a file that they are just making. Knows no table.
"""

import sqlite3
import time

from memolog.store.sqlite_errors import BUSY, code_of

__all__ = ["keep_journal"]

_RETRY_SECONDS = 0.01


def keep_journal(connection: sqlite3.Connection, *, timeout: float) -> None:
    """Write ahead into a journal; waits for others for so many seconds."""
    for left in range(int(timeout / _RETRY_SECONDS), -1, -1):
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if code_of(error) not in BUSY or not left:
                raise
            time.sleep(_RETRY_SECONDS)
        else:
            return
