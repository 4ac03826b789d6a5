"""Rows of the database as values."""

import gc
import weakref

from memolog.db.queries import named_rows
from memolog.db.rows import message_from_row

ROW: dict[str, object] = {
    "resource": "alice",
    "thread": "t1",
    "seq": 1,
    "id": "m1",
    "continuation": 0,
    "role": "user",
    "tokens": 2,
    "created_at": 0,
    "state": "live",
    "own": 0,
    "level": 0,
    "zone": None,
    "speaker": None,
    "task": None,
    "metadata": "{}",
    "parts": '[{"type":"text","text":"Hello."}]',
    "injection": None,
    "search": None,
    "pruned": 0,
    "turn": "n1",
    "file_tokens": None,
    "reported_file_tokens": None,
}


def _row(**changes: object) -> object:
    return named_rows(ROW, [tuple((ROW | changes).values())])[0]


def test_an_equal_row_is_parsed_once_while_its_message_is_used() -> None:
    """The same row, read again, is the same message. A message that nobody uses is not kept, so its text can leave the memory."""
    first = message_from_row(_row())
    assert message_from_row(_row()) is first
    left = weakref.ref(first)
    del first
    gc.collect()
    assert left() is None


def test_a_changed_row_is_parsed_again() -> None:
    """Each column counts: a row that differs in any of them is another message."""
    first = message_from_row(_row())
    for changes in ({"state": "withdrawn"}, {"level": 1}, {"parts": '[{"type":"text","text":"Bye."}]'}, {"tokens": 3}):
        changed = message_from_row(_row(**changes))
        assert changed != first
        assert message_from_row(_row()) == first
