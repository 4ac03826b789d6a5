"""Search on every engine: what is saved is found, what is gone is not, and any text is a query."""

import random
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from contract.raw_sql import add_task, run_sql, set_state
from kit.effort import counts
from kit.engines import a_memory
from kit.talk import forget_thread, found, hold, save_texts, store_of
from memolog import AssistantMessage, Config, InputError, Memory, ToolCallPart, ToolMessage, UserMessage
from memolog.search.analysis import analyse, text_of_parts
from memolog.store import Store
from memolog.testing import FakeClock

RESOURCE = "alice"
memory = a_memory()


# ---------------------------------------------------------------- words


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("restaurant", "We ate in two restaurants"),
        ("went", "I will go there"),
        ("LoginSchema", "see the LoginSchema there"),
        ("schema", "see the LoginSchema there"),
        ("get user", "call getUserById first"),
        ("auth.ts", "look into src/auth.ts please"),
        ("auth/login.ts", "changed /srv/app/src/auth/login.ts today"),
        ("tokens", "the table refresh_tokens is empty"),
        ("refresh*", "the table refresh_tokens is empty"),
        ("ginSch", "see the LoginSchema there"),
        ("*chem*", "see the LoginSchema there"),
        ("cafe", "the Café at the corner"),
        ("the", "the"),
        ("北", "我昨天去了北京的图书馆"),
        ("北京", "我昨天去了北京的图书馆"),
        ("我昨天去了北京", "我昨天去了北京的图书馆"),
        ("猫", "私の猫は寝ている"),
        ("東京", "来週東京に行きます"),
        ("서울", "나는 서울에서 살아요"),
        ("살", "나는 서울에서 살아요"),
        ("แมว", "ฉันมีแมวสองตัว"),
        ("น้ำ", "ขอน้ำหน่อย"),
        ("ขอน้ำหน่อย", "ขอน้ำหน่อย"),
    ],
)
async def test_words_find_their_message(memory: Memory, query: str, text: str) -> None:
    """Words, parts of identifiers, paths, and single characters of scripts without spaces find what holds them."""
    await save_texts(
        memory,
        "t",
        "nothing to do with it",
        "Xylophon 12345",
        text,
        "還有別的事情",
        "まったく別の話",
        "다른 이야기",
        "เรื่องอื่น",
    )
    assert (await found(memory, query))[0] == text


async def test_operators(memory: Memory) -> None:
    """Quotes, minus and filters narrow; what makes no sense as a filter is words."""
    await save_texts(memory, "t1", "red apple pie", "apple red tart", "green apple")
    await save_texts(memory, "t2", "apple juice")
    kit = await memory.open()
    await kit.store.messages.save(RESOURCE, "t2", AssistantMessage("I like apple cake", id="cake"))
    assert await found(memory, '"red apple"') == ["red apple pie"]
    assert set(await found(memory, "apple -red")) == {"green apple", "apple juice", "cake"}
    assert await found(memory, "apple role:assistant") == ["cake"]
    assert set(await found(memory, "apple thread:t2")) == {"apple juice", "cake"}
    assert set(await found(memory, "apple", thread="t2")) == {"apple juice", "cake"}
    assert await found(memory, "apple thread:t1", thread="t2") == []
    assert await found(memory, "apple before:2020") == []
    assert len(await found(memory, "apple after:2020 source:raw")) == 5
    assert await found(memory, "apple source:task") == []
    assert len(await found(memory, "role:nobody apple")) == 5


async def test_exclusions_of_beginnings_and_parts(memory: Memory) -> None:
    """Every word that begins like this, or contains this, is kept away; what stands for too many is named."""
    await save_texts(memory, "t", "The Lean Startup", "a lean starter kit", "lean restarting", "lean meat")
    assert set(await found(memory, "lean -start*")) == {"lean restarting", "lean meat"}
    assert await found(memory, "lean -*start*") == ["lean meat"]
    assert set(await found(memory, "lean -zebra*")) == set(await found(memory, "lean"))
    assert await found(memory, "lean -start* -*star* -mea*") == []
    assert (await memory.resource(RESOURCE).search("lean -*st*")).left_out == ("-*st*",)
    many = " ".join(f"-word{number}*" for number in range(9))
    assert (await memory.resource(RESOURCE).search(f"lean {many}")).left_out == ("-word8*",)


@pytest.mark.parametrize("excluded", ["-star*", "-*tar*"])
async def test_exclusions_that_stand_for_too_many_words(
    memory: Memory, monkeypatch: pytest.MonkeyPatch, excluded: str
) -> None:
    """What could be looked up is kept away, and the rest is named."""
    monkeypatch.setattr("memolog.search.store._MOST_UNWANTED", 2)
    await save_texts(memory, "t", "lean start", "lean starch", "lean starling", "lean meat")
    answer = await memory.resource(RESOURCE).search(f"lean {excluded}")
    assert answer.left_out == (excluded,)
    assert answer.total < 4
    monkeypatch.setattr("memolog.search.store._MOST_UNWANTED", 3)
    answer = await memory.resource(RESOURCE).search(f"lean {excluded}")
    assert ([result.content for result in answer.results], answer.left_out) == (["lean meat"], ())


async def test_a_question_beside_a_long_paste(memory: Memory) -> None:
    """Its words are looked for wherever it stands; what is not read is named."""
    await save_texts(memory, "t", "The argon2 limit is 64 MiB", "nothing to do with it")
    paste = "\n".join(f"12:00:{n % 60:02} host{n} service{n}.worker request{n} took {n} ms" for n in range(900))
    for query in (f"What is the argon2 limit?\n\n{paste}", f"{paste}\n\nWhat is the argon2 limit?"):
        answer = await memory.resource(RESOURCE).search(query)
        assert "=argon2" in answer.terms
        assert answer.results[0].content == "The argon2 limit is 64 MiB"
        assert f"{len(query) - 10_000:,} characters in the middle" in answer.left_out


async def test_a_quoted_title_in_a_question(memory: Memory) -> None:
    """In a question quotes name something: who holds the words in this order comes first, and others follow."""
    await save_texts(memory, "t", "I read The Lean Startup", "a startup that is lean, read about it", "a cat")
    both = ["I read The Lean Startup", "a startup that is lean, read about it"]
    assert (await found(memory, 'What did I read, "The Lean Startup"?'))[:2] == both
    assert await found(memory, '"The Lean Startup" read') == both[:1]
    assert both[0] not in await found(memory, 'What did I read, "The Lean Startup"? -"I read"')
    answer = await memory.resource(RESOURCE).search('What did I read, "The Lean Startup"?', explain=True)
    assert abs(sum(answer.results[0].parts.values()) - answer.results[0].score) < 1e-5


async def test_a_word_that_stands_everywhere(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a word with more hits than are read the newest are found, and a word to leave out is left out of all."""
    monkeypatch.setattr("memolog.search.store._MOST_A_TERM", 5)
    monkeypatch.setattr("memolog.search.store._MOST_FURTHER", 5)
    texts = [f"whale whale whale whale {number}" for number in range(4)] + [f"whale song {n}" for n in range(8)]
    await save_texts(memory, "t", *texts, "a quiet song")
    newest = await found(memory, "whale")
    assert newest
    assert set(newest) <= set(texts[4:])
    assert await found(memory, "song -whale") == ["a quiet song"]


async def test_results_tell_where_and_why(memory: Memory, clock: FakeClock) -> None:
    """A result has its place, a marked snippet, neighbours and the parts of its score; pages continue."""
    await save_texts(memory, "t", "one", "two", "the blue whale", "four", "five", "a whale again")
    answer = await memory.resource(RESOURCE).search("whale", context=2, explain=True, limit=1)
    first = answer.results[0]
    assert (first.source, first.thread, first.role, first.at, first.rank) == ("raw", "t", "user", clock.now(), 1)
    assert "«whale»" in first.snippet
    assert abs(sum(first.parts.values()) - first.score) < 1e-5
    assert [message.text for message in first.before] == ["one", "two"] or first.seq == 6
    assert answer.next is not None
    assert answer.total >= 2
    seen, cursor = [first.id], answer.next
    while cursor:
        page = await memory.resource(RESOURCE).search("whale", limit=1, cursor=cursor)
        seen += [result.id for result in page.results]
        cursor = page.next
    assert len(seen) == len(set(seen)) == answer.total


async def test_a_name_that_no_engine_takes_as_text(memory: Memory) -> None:
    """NUL, half a character and a line end in a speaker's name do not keep what was said from being found."""
    kit = await memory.open()
    odd = [UserMessage("the walrus speaks", id="odd", speaker="Al\x00ice\ud800\n")]
    await kit.store.messages.save(RESOURCE, "t1", odd)
    assert await found(memory, "walrus") == ["odd"]


async def test_speakers_and_dates_are_understood(memory: Memory) -> None:
    """Who is named speaks; a month is a preference, not a filter."""
    kit = await memory.open()
    said = [
        replace(UserMessage("I adopted a dog", id="ann", speaker="Ann"), created_at=datetime(2026, 1, 5, tzinfo=UTC)),
        replace(UserMessage("I adopted a dog", id="bob", speaker="Bob"), created_at=datetime(2026, 2, 5, tzinfo=UTC)),
    ]
    await kit.store.messages.save(RESOURCE, "t", said)
    assert (await found(memory, "Which dog did Ann adopt?"))[0] == "ann"
    assert (await found(memory, "Which dog did Bob adopt?"))[0] == "bob"
    assert await found(memory, "Who adopted a dog in January?") == ["ann", "bob"]
    assert await found(memory, "Who adopted a dog in February?") == ["bob", "ann"]


async def test_tools_are_found_and_our_own_are_not(memory: Memory) -> None:
    """Calls and results of tools are indexed; what our own tools answered is not, nor are secrets."""
    kit = await memory.open()
    call = AssistantMessage(ToolCallPart(id="c", name="read_file", arguments={"path": "src/parser.py"}), id="call")
    own = replace(ToolMessage("d", "found parser here", id="own"), own=True)
    secret = UserMessage("my key is sk-ant-abcdefghijklmnopqrstuvwxyz012345", id="secret")
    await kit.store.messages.save(
        RESOURCE, "t", [call, ToolMessage("c", "def parse(): pass", id="result"), own, secret]
    )
    assert await found(memory, "parser.py") == ["call"]
    assert "own" not in await found(memory, "parser found here")
    assert "secret" not in await found(memory, "abcdefghijklmnopqrstuvwxyz012345")
    assert await found(memory, "key redacted") == ["secret"]


async def test_tasks_are_found(memory: Memory) -> None:
    """A task is found by its title and its labels, and is gone when it is deleted."""
    kit = await memory.open()
    pk = await add_task(kit.store, RESOURCE, "k1")
    await run_sql(kit.store, "UPDATE tasks SET title = 'Repair the flux capacitor' WHERE pk = :pk RETURNING pk", pk=pk)
    assert [result.source for result in (await memory.resource(RESOURCE).search("flux")).results] == ["task"]
    await run_sql(kit.store, "INSERT INTO task_labels (task_pk, label) VALUES (:pk, 'urgency') RETURNING label", pk=pk)
    assert await found(memory, "urgency") == ["k1"]
    await run_sql(kit.store, "DELETE FROM tasks WHERE pk = :pk RETURNING pk", pk=pk)
    assert await found(memory, "flux") == []


async def test_neighbours_are_those_that_can_be_seen(memory: Memory) -> None:
    """What was forgotten or withdrawn takes up no place: the next one on that side is shown instead."""
    await save_texts(
        memory, "t", "w1", "w2", "w3", "w4", "w5", "w6", "w7", "the blue whale", "x1", "x2", "x3", "x4", "x5"
    )
    store = (await memory.open()).store
    for name, state in (("w7", "forgotten"), ("w5", "withdrawn"), ("x2", "withdrawn"), ("x3", "forgotten")):
        await set_state(store, name, state)
    for count, before, after in (
        (1, ["w6"], ["x1"]),
        (2, ["w4", "w6"], ["x1", "x4"]),
        (9, ["w1", "w2", "w3", "w4", "w6"], ["x1", "x4", "x5"]),
    ):
        [result] = (await memory.resource(RESOURCE).search("whale", context=count)).results
        assert [message.text for message in result.before] == before
        assert [message.text for message in result.after] == after


async def test_observations_are_found(memory: Memory) -> None:
    """What is in the log is found, and what is dropped from it says so."""
    await save_texts(
        memory, "t", "I moved to Lisbon in March because of a new position at the harbour.", "I am allergic to peanuts."
    )
    await memory.thread("t", resource=RESOURCE).observe()
    results = (await memory.resource(RESOURCE).search("Lisbon", sources={"observation"})).results
    assert [result.source for result in results] == ["observation"]
    assert results[0].handle == "g1.1"
    assert (await memory.resource(RESOURCE).recall("g1.1", thread=results[0].thread)).items
    # One source alone may be named as it is.
    assert (await memory.resource(RESOURCE).search("Lisbon", sources="observation")).results == results
    kit = await memory.open()
    await run_sql(kit.store, "UPDATE observations SET state = 'dropped' WHERE id = :id RETURNING pk", id=results[0].id)
    again = (await memory.resource(RESOURCE).search("Lisbon", sources={"observation"})).results
    assert [(result.id, result.state) for result in again] == [(results[0].id, "dropped")]


async def test_observations_are_indexed_when_their_group_is_activated(memory: Memory) -> None:
    """Before, no search finds them. Superseded, they are found as before, and are not indexed again."""
    store = await store_of(memory)
    waiting = "SELECT COUNT(*) FROM search_queue WHERE kind = 'observation'"
    lines = "SELECT COUNT(*) FROM search_docs WHERE source = 'observation'"
    await hold(memory, "I moved to Lisbon in March because of a new position at the harbour.", "Noted.", thread="t")
    thread = memory.thread("t", resource=RESOURCE)
    await thread.buffer()
    await memory.settled()
    assert await run_sql(store, "SELECT COUNT(*) > 0 FROM observations") in ([(1,)], [(True,)])
    await memory.resource(RESOURCE).index()
    assert await run_sql(store, waiting) == await run_sql(store, lines) == [(0,)]
    await run_sql(store, "UPDATE groups SET state = 'active' RETURNING pk")
    queued = await run_sql(store, waiting)
    assert queued > [(0,)]
    [result] = (await memory.resource(RESOURCE).search("Lisbon", sources={"observation"})).results
    assert await run_sql(store, lines) == queued
    await run_sql(store, "UPDATE observations SET state = 'superseded' RETURNING pk")
    await run_sql(store, "UPDATE groups SET state = 'covered' RETURNING pk")
    assert await run_sql(store, waiting) == [(0,)]
    [again] = (await memory.resource(RESOURCE).search("Lisbon", sources={"observation"})).results
    assert (again.id, again.state) == (result.id, "superseded")
    # A retracted line leaves the index at once, and comes back when it is reinstated.
    await run_sql(store, "UPDATE observations SET state = 'retracted' RETURNING pk")
    assert await run_sql(store, lines) == [(0,)]
    await run_sql(store, "UPDATE observations SET state = 'active' RETURNING pk")
    assert await run_sql(store, waiting) == queued


async def test_resources_do_not_meet(memory: Memory) -> None:
    """One resource finds nothing of another, nor learns how common its words are."""
    await save_texts(memory, "t", "the password of the vault")
    await save_texts(memory, "t", "a vault elsewhere", resource="bob")
    alone = await memory.resource("bob").search("vault", explain=True)
    await save_texts(memory, "t", *(f"vault number {number}" for number in range(20)))
    after = await memory.resource("bob").search("vault", explain=True)
    assert [(result.id, result.score) for result in after.results] == [(r.id, r.score) for r in alone.results]


async def test_wrong_arguments_are_told(memory: Memory) -> None:
    """What only a program can get wrong is refused with advice."""
    for wrong in (
        {"limit": 0},
        {"context": -1},
        {"by": "day"},
        {"sources": ["nowhere"]},
        {"cursor": "x"},
        {"cursor": "-1"},
    ):
        with pytest.raises(InputError):
            await memory.resource(RESOURCE).search("x", **wrong)  # pyright: ignore[reportArgumentType]


async def test_a_read_only_memory_says_what_it_cannot_see(
    memory: Memory, address: str, clock: FakeClock, engine_name: str
) -> None:
    """A reader searches what is indexed, and says how many threads are behind."""
    if engine_name == "memory":
        pytest.skip("nobody else can open it")
    await save_texts(memory, "t", "the blue whale")
    assert await found(memory, "whale") == ["the blue whale"]
    await save_texts(memory, "new", "another whale")
    async with Memory(address, clock=clock, config=Config(read_only=True)) as reader:
        answer = await reader.resource(RESOURCE).search("whale")
        assert [result.id for result in answer.results] == ["the blue whale"]
        assert answer.behind == 1


# ---------------------------------------------------------------- truth


async def index_of(store: Store) -> list[tuple[object, ...]]:
    """Return every document of the index, and check that its lists hold what its row says."""
    return await run_sql(
        store,
        "SELECT source_pk, thread_pk, at, length, traits, source FROM search_docs WHERE doc > 0 ORDER BY source_pk",
    )


async def rows_of(store: Store) -> list[tuple[object, ...]]:
    """Return what the index should hold, made from the rows alone."""
    rows = await run_sql(
        store,
        "SELECT m.pk, m.thread_pk, m.created_at, m.level, m.search, t.resource, t.id, m.id, m.continuation FROM messages m"
        " JOIN threads t ON t.pk = m.thread_pk WHERE m.state = 'live' AND m.own = 0 ORDER BY m.pk",
    )
    expected: list[tuple[object, ...]] = []
    for pk, thread_pk, at, level, search, resource, thread, message_id, continuation in rows:
        stored = await store.messages.get(resource, message_id, thread=thread)
        analysed = analyse(text_of_parts(stored[continuation].parts) if search is None else search)
        if analysed.terms:
            source = "compacted" if level else "raw"
            expected.append((pk, thread_pk, at, analysed.length, analysed.traits, source))
    return expected


async def test_index_is_true_whatever_happens(memory: Memory, engine_name: str) -> None:
    """After random saves, compactions, restores, withdrawals, clones and deletions, index and rows are equal."""
    kit = await memory.open()
    store, chance = kit.store, random.Random(5)
    words = [f"word{number}" for number in range(60)]
    ids: list[tuple[str, str]] = []
    for number in range(counts(150, 10_000)):
        what = chance.random()
        thread = f"t{chance.randrange(6)}"
        if what < 0.6 or not ids:
            text = " ".join(chance.choices(words, k=chance.randrange(0, 12)))
            await store.messages.save(RESOURCE, thread, UserMessage(text, id=f"m{number}"))
            ids.append((thread, f"m{number}"))
        elif what < 0.8:
            change = chance.choice(
                ("level = 1, search = 'summary word1'", "level = 2, search = ''", "level = 0, search = NULL")
            )
            sql = f"UPDATE messages SET {change} WHERE id = :id AND state = 'live' RETURNING pk"
            await run_sql(store, sql, id=chance.choice(ids)[1])
        elif what < 0.9:
            _, name = ids.pop(chance.randrange(len(ids)))
            await set_state(store, name, chance.choice(("withdrawn", "forgotten")))
        elif what < 0.93:
            await memory.resource(RESOURCE).search(chance.choice(words))
        elif what < 0.96 and any(name == thread for name, _ in ids):
            await forget_thread(store, thread, RESOURCE)
            ids = [(name, message) for name, message in ids if name != thread]
        elif any(name == thread for name, _ in ids):
            await store.threads.clone(RESOURCE, thread, f"copy{number}")
    await memory.resource(RESOURCE).search("word1")
    assert await index_of(store) == await rows_of(store)
    stats = await run_sql(store, "SELECT SUM(documents), SUM(length) FROM search_stats")
    sums = await run_sql(store, "SELECT COUNT(*), SUM(length) FROM search_docs")
    threads = await run_sql(store, "SELECT COALESCE(SUM(user_length + other_length), 0) FROM search_threads")
    assert tuple(map(int, stats[0])) == tuple(map(int, sums[0]))
    assert int(threads[0][0]) == int(sums[0][1])
    assert await run_sql(store, "SELECT COUNT(*) FROM search_queue") == [(0,)]
    assert await run_sql(store, "SELECT COUNT(*) FROM search_behind") == [(0,)]
    if engine_name != "postgres":
        # FTS5 compares its lists with the rows itself, and fails if they differ.
        await run_sql(store, "INSERT INTO search_index (search_index, rank) VALUES ('integrity-check', 1)")


async def test_a_batch_is_one_segment(memory: Memory, engine_name: str) -> None:
    """All documents of a batch, messages and tasks, are written to FTS5 together, not each as a segment of its own."""
    if engine_name == "postgres":
        pytest.skip("PostgreSQL has no FTS5")
    store = (await memory.open()).store
    await save_texts(memory, "t", *[f"whale {number}" for number in range(9)])
    for number in range(9):
        await add_task(store, RESOURCE, f"harpoon {number}")
    await memory.resource(RESOURCE).search("whale")
    assert await run_sql(store, "SELECT COUNT(*) FROM search_docs") == [(18,)]
    assert await run_sql(store, "SELECT COUNT(DISTINCT segid) FROM search_index_idx") == [(1,)]


# ---------------------------------------------------------------- any text is a query

PIECES = (
    *"\"'()*^-+:\x00\\%_{}[]&|!=\n\t \U0001f600\u202e\ud800한éǆİ",
    *("NEAR(", " AND ", " OR ", " NOT ", "<->", '-"', "**", "שלום", "مرحبا", "北京", "แมว", "whale", "1:whale"),
    *("src/a.ts", "fooBar", "role:", "thread:", "after:", "task:", "source:", "role:user", "last week"),
    *("before:2024-13-99", "2024-02-30", "after:0001", "before:9999-12-31", "on 31 february", "999 years ago"),
)


async def test_any_text_is_a_query(memory: Memory) -> None:
    """No text raises, whatever is in it."""
    await save_texts(memory, "t", "the blue whale", "src/a.ts has fooBar", "北京 แมว 한")
    chance = random.Random(7)
    for _ in range(counts(300, 100_000)):
        query = "".join(chance.choices(PIECES, k=chance.randrange(0, 24)))
        answer = await memory.resource(RESOURCE).search(query, limit=3)
        assert answer.total >= len(answer.results)


@pytest.mark.parametrize("query", ["task:\ud800 whale", 'thread:"a\x00b" whale', "whale task:role:\udfff\x1f"])
async def test_what_no_id_can_be_is_words(memory: Memory, query: str) -> None:
    """A filter by what no engine takes as text is no filter."""
    await save_texts(memory, "t", "the blue whale")
    assert await found(memory, query) == ["the blue whale"]


@pytest.mark.parametrize(
    "query",
    [
        "x" * 10_000,
        '"' * 9_999,
        "a " * 5_000,
        " ".join(f"w{n}" for n in range(5_000)),
        "you said " * 1_100,
        "北" * 10_000,
        "-a " * 3_000,
    ],
)
async def test_huge_queries_are_answered(memory: Memory, query: str) -> None:
    """Ten thousand characters of anything are answered."""
    await save_texts(memory, "t", "w1 w2 a x", "北北北")
    found = await memory.resource(RESOURCE).search(query[:10_000])
    assert len(found.results) <= 2
    assert {result.thread for result in found.results} <= {"t"}
