"""Queries that only lock rows are skipped on SQLite, so they must not change anything."""

import re
from pathlib import Path

import memolog
from memolog.db.queries import load_queries

ROOT = Path(memolog.__file__).parent
CHANGES_NOTHING = re.compile(r"UPDATE (\w+) SET (\w+) = \2\s+WHERE [^;]+")


def test_a_query_that_only_locks_changes_nothing() -> None:
    """Such a query sets a column to its own value."""
    names = [f"{file.parent.parent.name}/{file.stem}" for file in sorted(ROOT.glob("*/sql/*.sql"))]
    locks = [query for name in names for query in load_queries(name).statements.values() if query.only_locks]
    assert {query.name for query in locks} >= {"lock_key", "lock_log"}
    assert [query.name for query in locks if not CHANGES_NOTHING.fullmatch(query.text.strip())] == []
