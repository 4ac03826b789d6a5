"""A database that Mastra's own library made: every thread, message, observation and working memory is accounted for."""

import json
import sqlite3
from pathlib import Path
from typing import Any, cast

import pytest

from conftest import FakeClock
from memolog.domain.errors import InputError
from memolog.domain.message import FilePart, ReasoningPart, ToolCallPart, ToolResultPart, UserMessage
from memolog.runtime.memory import Memory
from memolog.transfer.jsonb import read_jsonb
from transfer.world import memory_at

MADE = Path(__file__).parents[1] / "fixtures" / "mastra.db"


@pytest.fixture(params=("sqlite", "postgres"))
def engine_name(request: pytest.FixtureRequest) -> str:
    """Name the engines."""
    return request.param


def source(sql: str) -> list[Any]:
    """Ask the fixture itself."""
    connection = sqlite3.connect(f"{MADE.as_uri()}?mode=ro", uri=True)
    try:
        return connection.execute(sql).fetchall()
    finally:
        connection.close()


async def export_of(memory: Memory, path: Path) -> list[dict[str, Any]]:
    """Return the lines of an export but for its header."""
    await memory.export(path)
    return read_lines(path)


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Return the lines of a file but for the first."""
    return [json.loads(line) for line in path.read_text("utf-8").split("\n")[1:] if line]


async def test_all_of_it_is_accounted_for(address: str, clock: FakeClock, tmp_path: Path) -> None:
    """Each row of the source is here, or is told as left out; a second import changes nothing."""
    async with memory_at(address, clock) as memory:
        told = await memory.import_from(MADE, dry_run=True)
        assert await (await memory.open()).store.resources() == ()
        report = await memory.import_from(MADE)
        first = await export_of(memory, tmp_path / "first.jsonl")
        again = await memory.import_from(MADE)
        second = await export_of(memory, tmp_path / "second.jsonl")
    assert report.format == "mastra"
    assert report.resources == ("user-1", "user-2")
    assert (told.threads, told.messages) == (report.threads, report.messages)
    assert again.has_changed_nothing
    assert (again.kept, again.left) == ({}, {})
    assert second == first

    def of(kind: str) -> list[dict[str, Any]]:
        return [line for line in first if line["kind"] == kind]

    assert {t["id"]: t.get("title") for t in of("thread")} == {
        row[0]: row[1] or None for row in source("SELECT id, title FROM mastra_threads")
    }
    ids = {m["id"].removesuffix("-results") for m in of("message")}
    assert ids == {row[0] for row in source("SELECT id FROM mastra_messages")}
    texts = {v["text"] for v in of("working-memory-version")}
    assert texts == {"# About\n- name: Ada\n- likes tabs", "# Thread facts\n- branch: parser-2"}
    lines = "\n".join(o["text"] for o in of("observation"))
    for (text,) in source('SELECT "activeObservations" FROM mastra_observational_memory'):
        for line in text.split("\n"):
            words = line.split(") ")[-1].split("-> ")[-1]
            if not line.startswith(("Date:", "<")):
                assert words in lines, words
    generations = source("SELECT COUNT(*) FROM mastra_observational_memory")[0][0]
    assert len(of("generation")) == generations
    assert [s.why[:21] for s in report.skipped] == ["buffered observations"]


async def test_messages_in_both_formats(address: str, clock: FakeClock) -> None:
    """Parts keep their meaning, times are those of the source, and results stand after their calls."""
    async with memory_at(address, clock) as memory:
        await memory.import_from(MADE, resource="user-1")
        store = (await memory.open()).store
        assert await store.resources() == ("user-1",)
        one = await store.messages.after("user-1", "thread-1")
        two = await store.messages.after("user-1", "thread-2")
        thread = await store.threads.get("user-1", "thread-1")
    assert [m.role for m in one] == ["user", "assistant", "tool", "user", "assistant"]
    reasoning, call, text = one[1].parts
    assert isinstance(reasoning, ReasoningPart)
    assert reasoning.signature == "sig-1"
    assert isinstance(call, ToolCallPart)
    assert call.arguments == {"path": "src/parse.ts"}
    assert cast("Any", text).text == "Done: parse() reads 3 lines."
    result = one[2].parts[0]
    assert isinstance(result, ToolResultPart)
    assert (result.call_id, result.content) == ("call-1", {"lines": 3})
    assert isinstance(one[3].parts[1], FilePart)
    assert one[0].created_at.isoformat() == "2026-02-03T09:01:00+00:00"
    assert (thread.created_at.isoformat(), thread.updated_at.isoformat()) == (
        "2026-02-03T09:00:00+00:00",
        "2026-02-03T09:04:00+00:00",
    )
    assert [m.role for m in two] == ["user", "user", "assistant", "tool"]
    assert two[1].text == "An old question"


async def test_what_the_model_sees_afterwards(address: str, clock: FakeClock) -> None:
    """The newest generation is the log, what it covers is out of the tail, older generations can be restored."""
    async with memory_at(address, clock) as memory:
        await memory.import_from(MADE)
        async with memory.turn("thread-1", "user-1") as turn:
            context = await turn.prepare(UserMessage("Go on."))
        prefix = "\n".join(block.text for block in context.blocks)
        assert "User prefers tabs" in prefix
        assert "Assistant read the file" not in prefix
        tail = "\n".join(message.text for message in context.messages)
        assert "Go on." in tail
        assert "likes tabs" in repr(context)
        assert "Please write the parser" not in tail
        assert [g.kind for g in await memory.history("thread-1", "user-1")] == ["start", "reflection"]
        await memory.restore("thread-1", "user-1", 0)
        async with memory.turn("thread-1", "user-1") as turn:
            context = await turn.prepare(UserMessage("And back."))
        assert "Assistant read the file" in "\n".join(block.text for block in context.blocks)
        page = await memory.recall("g1", "user-1", thread="thread-1")
        assert "Please write the parser" in page.text


async def test_from_postgres_tables(postgres_url: str, clock: FakeClock, tmp_path: Path) -> None:
    """The same tables on a server give the same threads, messages and observations."""
    await _copy_tables(postgres_url)
    schema = postgres_url.rpartition("schema=")[2]
    lines: list[list[dict[str, Any]]] = []
    for number, where in enumerate((str(MADE), postgres_url)):
        async with memory_at(str(tmp_path / f"{number}.db"), clock) as memory:
            report = await memory.import_from(where, format="mastra")
            assert report.messages == 10
            lines.append(await export_of(memory, tmp_path / f"{number}.jsonl"))
    assert schema
    assert lines[0] == lines[1]


async def _copy_tables(address: str) -> None:
    import asyncpg

    base, _, schema = address.rpartition("schema=")
    connection: Any = await cast("Any", asyncpg).connect(base.rstrip("?&"))
    await connection.execute(f'CREATE SCHEMA "{schema}"; SET search_path = "{schema}"')
    for table in ("mastra_threads", "mastra_messages", "mastra_resources", "mastra_observational_memory"):
        names = [row[1] for row in source(f"SELECT * FROM pragma_table_info('{table}')")]
        columns = ", ".join(f'"{name}" {_type(name)}' for name in names)
        await connection.execute(f"CREATE TABLE {table} ({columns})")
        marks = ", ".join(f"CAST(${n}::text AS {_type(name)})" for n, name in enumerate(names, start=1))
        for row in source(f"SELECT * FROM {table}"):
            cells = [json.dumps(read_jsonb(c)) if isinstance(c, bytes) else None if c is None else str(c) for c in row]
            await connection.execute(f"INSERT INTO {table} VALUES ({marks})", *cells)
    await connection.close()


def _type(name: str) -> str:
    if name == "metadata":
        return "jsonb"
    if name in {"createdAt", "updatedAt", "lastObservedAt"}:
        return "timestamp"
    return "integer" if name == "generationCount" else "text"


async def test_no_tables_of_mastra(clock: FakeClock, tmp_path: Path) -> None:
    """Another SQLite file is refused in words."""
    other = tmp_path / "other.db"
    connection = sqlite3.connect(other)
    connection.execute("CREATE TABLE t (a)")
    connection.close()
    async with memory_at(str(tmp_path / "copy.db"), clock) as memory:
        with pytest.raises(InputError, match="no tables of Mastra"):
            await memory.import_from(other)


@pytest.mark.parametrize(
    ("blob", "value"),
    [
        (b"\x00", None),
        (b"\x01", True),
        (b"\x13" + b"7", 7),
        (b"\x35" + b"1.5", 1.5),
        (b"\x27ab", "ab"),
        (b"\x28\\n", "\n"),
        (b"\xc7\x0d" + b"workingMemory", "workingMemory"),
        (b"\x4b\x131\x132", [1, 2]),
        (b"\x4c\x17a\x131", {"a": 1}),
        (b"\x0c", {}),
    ],
)
def test_binary_json(blob: bytes, value: object) -> None:
    """Each kind of value, with short and long lengths."""
    assert read_jsonb(blob) == value


@pytest.mark.parametrize("blob", [b"", b"\x27a", b"\xc7", b"\x0d", b"\x00\x00", b"\x1c\x17a"])
def test_damaged_binary_json(blob: bytes) -> None:
    """What is no value is told as such."""
    with pytest.raises(ValueError, match=r"value|kind|argument"):
        read_jsonb(blob)
