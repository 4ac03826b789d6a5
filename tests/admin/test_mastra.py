"""A database that Mastra's own library made: every thread, message, observation and working memory is accounted for."""

import json
import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from admin.lived_in import memory_at
from kit.engines import engines
from memolog import Config
from memolog.core.message import FilePart, ReasoningPart, ToolCallPart, ToolResultPart, UserMessage
from memolog.errors import InputError
from memolog.memory import Memory
from memolog.testing import FakeClock
from memolog.transfer.mastra import read_jsonb

engine_name = engines("sqlite", "postgres")
MADE = Path(__file__).parents[1] / "fixtures" / "mastra.db"


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
    # Its chunk ends at a call that waits for its result.
    assert [(s.where[:14], s.why) for s in report.skipped] == [("buffered chunk", "its messages are observed again")]


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
        async with memory.thread("thread-1", resource="user-1").turn() as turn:
            context = await turn.prepare(UserMessage("Go on."))
        prefix = "\n".join(block.text for block in context.blocks)
        assert "User prefers tabs" in prefix
        assert "Assistant read the file" not in prefix
        tail = "\n".join(message.text for message in context.messages)
        assert "Go on." in tail
        assert "likes tabs" in repr(context)
        assert "Please write the parser" not in tail
        assert [g.kind for g in await memory.thread("thread-1", resource="user-1").history()] == ["start", "reflection"]
        await memory.thread("thread-1", resource="user-1").restore(0)
        async with memory.thread("thread-1", resource="user-1").turn() as turn:
            context = await turn.prepare(UserMessage("And back."))
        assert "Assistant read the file" in "\n".join(block.text for block in context.blocks)
        page = await memory.resource("user-1").recall("g1", thread="thread-1")
        assert "Please write the parser" in page.text


# ---------------------------------------------------------------- what it notes for itself


def said(*parts: dict[str, Any] | str) -> str:
    """Return the content of a message in its newer format."""
    listed = [{"type": "text", "text": part} if isinstance(part, str) else part for part in parts]
    return json.dumps({"format": 2, "parts": listed, "content": "".join(p for p in parts if isinstance(p, str))})


def note(kind: str) -> dict[str, Any]:
    """Return what its memory writes into a message."""
    return {"type": f"data-om-{kind}", "data": {"cycleId": "c", "observations": "zebra notes", "currentTask": "zebra"}}


class Source:
    """A database of Mastra in the making: a copy of the real one, without its rows."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.write_bytes(MADE.read_bytes())
        self._connection = sqlite3.connect(path)
        for table in ("threads", "messages", "resources", "observational_memory"):
            self._connection.execute(f"DELETE FROM mastra_{table}")

    def thread(self, name: str, *contents: str, om: dict[str, Any] | None = None) -> None:
        """Add a thread; users and assistants take turns, a minute each, from 9:01 on."""
        metadata = json.dumps({"mastra": {"om": om}} if om else {"kept": 1})
        at = "2026-02-03T09:00:00.000Z"
        self._connection.execute("INSERT INTO mastra_threads VALUES (?, 'u', '', ?, ?, ?)", (name, metadata, at, at))
        for number, content in enumerate(contents, start=1):
            row = (f"{name}-{number}", name, content, "user" if number % 2 else "assistant", moment(number))
            self._connection.execute("INSERT INTO mastra_messages VALUES (?, ?, ?, ?, 'v2', ?, 'u')", row)

    def record(self, thread: str | None, text: str, until: int, chunks: list[dict[str, Any]] | None = None) -> None:
        """Add a record of observations up to a message."""
        row: dict[str, Any] = dict(zip(*columns_of("mastra_observational_memory", "user-2"), strict=True)) | {
            "id": f"record-{thread}",
            "resourceId": "u",
            "threadId": thread,
            "scope": "thread" if thread else "resource",
            "activeObservations": text,
            "lastObservedAt": moment(until),
            "bufferedObservationChunks": json.dumps(chunks) if chunks else None,
        }
        marks = ", ".join("?" for _ in row)
        self._connection.execute(f"INSERT INTO mastra_observational_memory VALUES ({marks})", tuple(row.values()))

    def done(self) -> Path:
        """Write it."""
        self._connection.commit()
        self._connection.close()
        return self.path


def moment(number: int) -> str:
    """Return when the messages with this number were said."""
    return f"2026-02-03T09:{number:02}:00.000Z"


def columns_of(table: str, resource: str) -> tuple[list[str], Any]:
    """Return the columns of a table of the real database, and one row of it."""
    names = [row[1] for row in source(f"SELECT * FROM pragma_table_info('{table}')")]
    return names, source(f"SELECT * FROM {table} WHERE \"resourceId\" = '{resource}'")[0]


def chunk(name: str, text: str, *messages: str, **told: str) -> dict[str, Any]:
    """Return observations that wait."""
    return {"id": name, "cycleId": name, "observations": text, "messageIds": list(messages), **told}


async def seen(memory: Memory, thread: str) -> tuple[str, str, str]:
    """Return what a model is shown before, in and after the messages, without changing anything."""
    config = replace(memory.config, read_only=True, keep_prompts=False)
    async with (
        Memory(memory.address, config=config, clock=memory.clock) as looking,
        looking.thread(thread, resource="u").turn() as turn,
    ):
        context = await turn.prepare()
    return context.system, "\n".join(message.text for message in context.tail), context.edge_text


async def check(memory: Memory) -> None:
    """Nothing is lost, doubled or astray."""
    report = await memory.doctor()
    assert report.findings == ()


async def test_task_hints_become_hints(address: str, clock: FakeClock, tmp_path: Path) -> None:
    """Those of the thread's own record and, where it has none, those that stand in the text."""
    made = Source(tmp_path / "made.db")
    made.thread(
        "own", said("Write it"), said("Done"), om={"currentTask": "write the parser", "suggestedResponse": "Go on"}
    )
    made.record("own", "* 🔴 (09:01) User wants it\n<current-task>\nan older one\n</current-task>", 2)
    made.thread("text", said("Test it"), said("Done"))
    tags = "<current-task>\ntest the parser\n</current-task>\n<suggested-response>\nAll green\n</suggested-response>"
    made.record("text", f"* 🔴 (09:01) User wants tests\n{tags}", 2)
    made.thread("bare", said("Ship it"), said("Done"), om={"currentTask": "ship the parser"})
    path = made.done()
    async with memory_at(address, clock) as memory:
        await memory.import_from(path)
        assert (await memory.import_from(path)).has_changed_nothing
        threads = (await memory.open()).store.threads
        hints = {name: (await threads.get("u", name)).hints for name in ("own", "text", "bare")}
        stable, _, edge = await seen(memory, "text")
        await check(memory)
    assert (hints["own"].current_task, hints["own"].suggested_response) == ("write the parser", "Go on")
    assert (hints["text"].current_task, hints["text"].suggested_response) == ("test the parser", "All green")
    assert hints["bare"].current_task == "ship the parser"
    assert hints["own"].at is not None
    assert hints["own"].at.isoformat() == "2026-02-03T09:02:00+00:00"
    assert "User wants tests" in stable
    assert "test the parser" in edge
    assert "test the parser" not in stable
    assert "All green" not in stable


async def test_notes_of_its_memory_are_no_parts(address: str, clock: FakeClock, tmp_path: Path) -> None:
    """They are neither shown nor found; a message of nothing else is left out; other unknown parts stay."""
    made = Source(tmp_path / "made.db")
    other = {"type": "data-weather", "data": {"sky": "clear"}}
    made.thread(
        "t",
        said("Hello"),
        said(note("observation-start"), "Hi", other, note("status")),
        said(note("activation")),
        said("Yes"),
    )
    async with memory_at(address, clock) as memory:
        report = await memory.import_from(made.done())
        rows = await (await memory.open()).store.messages.after("u", "t")
        answer = await memory.resource("u").search("zebra")
        shown = await seen(memory, "t")
        await check(memory)
    assert [row.text for row in rows] == ["Hello", "Hi", "Yes"]
    assert [len(row.parts) for row in rows] == [1, 2, 1]
    assert [skipped.where for skipped in report.skipped] == ["t, message t-3"]
    assert not [result for result in answer.results if "zebra" in result.content]
    assert "zebra" not in "".join(shown)


async def test_what_was_said_after_it_was_observed_is_seen(address: str, clock: FakeClock, tmp_path: Path) -> None:
    """A message that grew after it was observed or buffered: the rest is in the tail."""
    made = Source(tmp_path / "made.db")
    made.thread("t", said("Begin"), said("first step", note("observation-end"), "second step"))
    made.record("t", "* 🟡 (09:02) Assistant made the first step", 2)
    made.thread(
        "b", said("Begin"), said("third step"), said("And"), said("fourth step", note("buffering-end"), "fifth step")
    )
    made.record(
        "b", "* 🟡 (09:02) It made the third step", 2, [chunk("c", "* 🟡 (09:04) It made the fourth", "b-3", "b-4")]
    )
    async with memory_at(address, clock) as memory:
        await memory.import_from(made.done())
        stable, tail, _ = await seen(memory, "t")
        assert "Assistant made the first step" in stable
        assert "first step" not in tail
        assert "second step" in tail
        await memory.thread("b", resource="u").activate()
        stable, tail, _ = await seen(memory, "b")
        assert "It made the fourth" in stable
        assert "fourth step" not in tail
        assert "fifth step" in tail
        await check(memory)


async def test_buffered_chunks_become_buffered_groups(address: str, clock: FakeClock, tmp_path: Path) -> None:
    """Out of sight with their hints until they are activated; nothing is seen twice."""
    made = Source(tmp_path / "made.db")
    texts = ("one", "two", "three", "four", "five", "six", "seven")
    made.thread("t", *(said(f"message {text}") for text in texts), om={"currentTask": "count"})
    chunks = [
        chunk("c1", "* 🟡 (09:03) It came to three and four", "t-3", "t-4", currentTask="count on"),
        chunk("c2", "* 🟡 (09:05) It came to five", "t-5", "t-6", suggestedContinuation="Say six"),
    ]
    made.record("t", "* 🟡 (09:01) It came to two", 2, chunks)
    path = made.done()
    async with memory_at(address, clock) as memory:
        report = await memory.import_from(path)
        assert report.skipped == ()
        assert (await memory.import_from(path)).has_changed_nothing
        stable, tail, edge = await seen(memory, "t")
        assert "It came to two" in stable
        assert "It came to three" not in stable
        assert [text in tail for text in texts] == [False, False, True, True, True, True, True]
        assert "count on" not in edge
        assert not [r for r in (await memory.resource("u").search("came")).results if "three" in r.content]
        await check(memory)
        await memory.thread("t", resource="u").activate()
        stable, tail, edge = await seen(memory, "t")
        assert "It came to three and four" in stable
        assert "It came to five" in stable
        assert [text in tail for text in texts] == [False, False, False, False, False, False, True]
        assert "Say six" in edge
        await check(memory)


@pytest.mark.parametrize(
    "chunks",
    [
        [chunk("gap", "* 🟡 (09:04) Later", "t-4")],
        [chunk("unknown", "* 🟡 (09:04) Later", "t-3", "t-5"), chunk("after", "* 🟡 (09:06) After", "t-6")],
    ],
)
async def test_a_chunk_whose_place_is_unknown_is_observed_again(
    address: str, clock: FakeClock, tmp_path: Path, chunks: list[dict[str, Any]]
) -> None:
    """Its messages stay in the tail, and so does what comes after it."""
    made = Source(tmp_path / "made.db")
    texts = ("one", "two", "three", "four", "five", "six")
    made.thread("t", *(said(f"message {text}") for text in texts))
    made.record("t", "* 🟡 (09:01) It came to two", 2, chunks)
    async with memory_at(address, clock) as memory:
        report = await memory.import_from(made.done())
        assert [skipped.why for skipped in report.skipped] == ["its messages are observed again"] * len(chunks)
        await memory.thread("t", resource="u").activate()
        _, tail, _ = await seen(memory, "t")
        assert [text in tail for text in texts] == [False, False, True, True, True, True]
        await memory.thread("t", resource="u").observe()
        await check(memory)


async def test_a_shared_log_covers_each_thread_as_far_as_it_was_observed(
    address: str, clock: FakeClock, tmp_path: Path
) -> None:
    """What one thread said before another was observed is still to be observed."""
    made = Source(tmp_path / "made.db")
    made.thread("a", said("alpha"), said("beta"), said("gamma"), said("delta"), om={"lastObservedAt": moment(4)})
    texts = ("one", "two", "three", "four", "five")
    made.thread("b", *map(said, texts), om={"lastObservedAt": moment(2), "currentTask": "count"})
    sections_ = "".join(f'<thread id="{name}">\n* 🟡 (09:01) {name} began\n</thread>\n' for name in "ab")
    made.record(None, sections_, 4, [chunk("c", '<thread id="b">\n* 🟡 (09:03) b counts\n</thread>', "b-3", "b-4")])
    async with memory_at(address, clock, config=Config(scope="resource")) as memory:
        await memory.import_from(made.done())
        stable, tail, edge = await seen(memory, "b")
        assert "b began" in stable
        assert "b counts" not in stable
        assert [text in tail for text in texts] == [False, False, True, True, True]
        assert "count" in edge
        await memory.thread("b", resource="u").activate()
        stable, tail, _ = await seen(memory, "b")
        assert "b counts" in stable
        assert [text in tail for text in texts] == [False, False, False, False, True]
        await check(memory)


async def test_from_postgres_tables(new_postgres_url: str, clock: FakeClock, tmp_path: Path) -> None:
    """The same tables on a server give the same threads, messages and observations."""
    await _copy_tables(new_postgres_url)
    schema = new_postgres_url.rpartition("schema=")[2]
    lines: list[list[dict[str, Any]]] = []
    for number, where in enumerate((str(MADE), new_postgres_url)):
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
