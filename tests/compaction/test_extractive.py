"""What stands for compacted messages: one bounded summary, and texts in which code and names are still found."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from kit.rows import row
from memolog.compaction.compactor import choose_batch
from memolog.compaction.extractive import SummaryLine, compact_texts, words_left
from memolog.compaction.store import CompactionCandidate
from memolog.core.message import Message, Part, Role, ToolCallPart, ToolResultPart
from memolog.text.redaction import REDACTION
from memolog.text.tokens import HeuristicCounter

COUNTER = HeuristicCounter()
AT = datetime(2026, 3, 14, 9, 0, tzinfo=UTC)
LONG = "and so on, as was said before, at some length, for the sake of the argument. " * 8


def message(seq: int, *parts: Part | str, role: Role = "user", **fields: Any) -> Message:
    """Return a stored message with the tokens of its parts."""
    made = row(seq, role, *parts, created_at=AT, **fields)
    return replace(made, tokens=sum(COUNTER.count(str(part)) for part in made.parts))


def test_code_and_identifiers_stay_findable_at_the_first_level() -> None:
    """Fenced lines, lines that look like code, errors, paths and names are in the search text; prose is not."""
    text = (
        f"{LONG}\n```python\nvalue = compute_total(items)\n```\n{LONG}\n$ npm run build\n"
        f"TypeError: undefined is not a function\n{LONG} see src/schemas/auth.ts and LoginSchema."
    )
    rows = [message(1, text), message(2, LONG + "nothing else", role="assistant")]
    lines = [SummaryLine(text="User asked about totals", seqs=(1,)), SummaryLine(text="Assistant agreed", seqs=(2,))]
    made = compact_texts(rows, lines, COUNTER, REDACTION)
    search = made.rows[0].search or ""
    for word in ("compute_total(items)", "npm run build", "TypeError: undefined", "src/schemas/auth.ts", "LoginSchema"):
        assert word in search
    assert "sake of the argument" not in search
    assert made.rows[0].brief == "User asked about totals"
    assert made.rows[1].search == made.rows[1].brief == "Assistant agreed"


def test_tools_are_findable_too() -> None:
    """Paths in arguments and names in results are identifiers as well."""
    call = ToolCallPart(id="c", name="read_file", arguments={"path": "server/app.py"})
    result = ToolResultPart(call_id="c", content=f"def handle_login(request):\n    return 1\n{LONG}")
    made = compact_texts([message(1, call, role="assistant"), message(2, result, role="tool")], [], COUNTER, REDACTION)
    assert "server/app.py" in (made.rows[0].search or "")
    assert "def handle_login(request):" in (made.rows[1].search or "")
    assert "handle_login" not in (made.rows[0].search or "")


def test_a_short_message_is_its_own_brief() -> None:
    """What is no longer than a line keeps its words at either level."""
    made = compact_texts(
        [message(1, "We meet on Friday.\nBring cake.")], [SummaryLine(text="x", seqs=(1,))], COUNTER, REDACTION
    )
    assert made.rows[0].brief == "We meet on Friday. Bring cake."


def test_a_summary_is_bounded_and_keeps_what_matters() -> None:
    """At most half of what it stands for; what the user stated goes last."""
    rows = [message(n, LONG) for n in range(1, 11)]
    lines = [
        SummaryLine(text=f"Something of little weight, number {n}, {LONG[:90]}", seqs=(n,), priority="low")
        for n in range(1, 11)
    ]
    lines = [*lines * 4, SummaryLine(text="User prefers Fastify", seqs=(10,), priority="high")]
    made = compact_texts(rows, lines, COUNTER, REDACTION)
    assert made.summary.endswith("* User prefers Fastify")
    assert made.summary.startswith("2026-03-14, 10 messages:\n")
    assert COUNTER.count(made.summary) <= sum(row.tokens for row in rows) // 2 + 1


@pytest.mark.parametrize("parts", [("hello",), ("",), (LONG * 50,), ("日本語" * 400,), ()])
def test_a_summary_is_never_empty(parts: tuple[str, ...]) -> None:
    """Where nothing was written down the messages speak for themselves, in short."""
    made = compact_texts([message(1, *parts), message(2, *parts)], [], COUNTER, REDACTION)
    assert made.summary.strip()
    assert COUNTER.count(made.summary) <= max(80, sum(COUNTER.count(part) for part in parts) + 20)
    assert [row.seq for row in made.rows] == [1, 2]


def test_secrets_and_our_own_answers_stay_out() -> None:
    """The index and the summary are redacted; what memory answered is in neither."""
    key = "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCD"
    rows = [message(1, f"my key is {key}"), message(2, "found: the plan", role="tool", own=True)]
    lines = [SummaryLine(text=f"User gave {key}", seqs=(1,)), SummaryLine(text="found: the plan", seqs=(2,))]
    made = compact_texts(rows, lines, COUNTER, REDACTION)
    assert key not in repr(made)
    assert "the plan" not in repr(made)
    assert made.rows[1].search is None


def test_a_line_about_many_messages_is_indexed_once() -> None:
    """It would make every message of the batch a hit."""
    rows = [message(n, LONG) for n in range(1, 7)]
    made = compact_texts(rows, [SummaryLine(text="All of it", seqs=tuple(range(1, 7)))], COUNTER, REDACTION)
    assert ["All of it" in (row.brief or "") for row in made.rows] == [True] + [False] * 5


# ---------------------------------------------------------------- batches


def candidates(*messages: Message, taken: tuple[int, ...] = ()) -> list[CompactionCandidate]:
    """Return messages as candidates, some of them compacted already."""
    return [CompactionCandidate(message=row, is_free=row.seq not in taken) for row in messages]


def seqs(batch: tuple[CompactionCandidate, ...]) -> list[int]:
    """Return which messages a batch has."""
    return [one.message.seq for one in batch]


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("My password is hunter2, and Alice Johnson lives at 12 Rue Lepic.", "12 Alice Johnson Lepic Rue hunter2"),
        ("edit src/auth/login.ts and call getUserById at 10.0.0.1:80", "10.0.0.1:80 getUserById src/auth/login.ts"),
        ('{"note":"the whole secret","path":"src/a_b.py"}', "src/a_b.py"),
        ("明日は東京都2024年に行きますWiFi", "2024 WiFi"),
        ("The cat sat on the mat, and nobody knows why.", ""),
        ("", ""),
    ],
)
def test_no_sentence_can_be_read_from_the_words_that_are_left(text: str, left: str) -> None:
    """Names, numbers and identifiers stay, each once and in alphabetical order; doing it twice changes nothing."""
    assert words_left(text) == left
    assert words_left(left) == left


def test_a_batch_never_tears_a_pair() -> None:
    """It ends before the call or after the result, whichever is nearer to its size."""
    call = message(4, ToolCallPart(id="c", name="x"), role="assistant")
    result = message(6, ToolResultPart(call_id="c", content="y"), role="tool")
    between = message(5, "b", role="assistant")
    rows = candidates(*(message(n, "a") for n in range(1, 4)), call, between, result, message(7, "c"))
    assert [seqs(choose_batch(rows, size, 99))[-1] for size in range(1, 8)] == [1, 2, 3, 3, 6, 6, 7]
    # Only up to a number: a pair that reaches beyond it waits.
    assert seqs(choose_batch(rows, 10, 5)) == [1, 2, 3]
    assert choose_batch(rows[3:], 10, 5) == ()


def test_a_batch_waits_until_it_is_whole() -> None:
    """By count, too few messages are left alone, unless nothing will ever join them."""
    rows = candidates(*(message(n, "a") for n in range(1, 9)))
    assert choose_batch(rows, 10, 99, partly=False) == ()
    assert len(choose_batch(rows, 10, 99)) == 8
    assert len(choose_batch(rows, 8, 99, partly=False)) == 8
    followed = candidates(*(message(n, "a") for n in range(1, 9)), taken=(4,))
    assert seqs(choose_batch(followed, 10, 99, partly=False)) == [1, 2, 3]
    assert choose_batch(followed, 10, 2, partly=False) == ()
    assert choose_batch([], 10, 99) == ()


def test_open_calls_wait() -> None:
    """A call that may still be answered is in no batch, nor is what follows it."""
    call = message(2, ToolCallPart(id="c", name="x"), role="assistant")
    rows = candidates(message(1, "a"), call, replace(message(3, "b"), role="assistant"))
    assert seqs(choose_batch(rows, 10, 99)) == [1]
