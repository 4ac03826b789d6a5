"""Where a search reads only so much, on every engine: what is asked for is found all the same, and what is missing is told."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from kit.engines import a_memory
from kit.talk import found, save_texts
from memolog import AssistantMessage, Config, Memory, UserMessage
from memolog.errors import StoreError
from memolog.search.analysis import Redact
from memolog.search.index import Indexing
from memolog.testing import FakeClock

RESOURCE = "alice"
NEW = datetime(2026, 3, 1, tzinfo=UTC)
OLD = datetime(2026, 1, 1, tzinfo=UTC)
memory = a_memory()


@pytest.fixture
def _short_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a word be common that stands in more than twenty messages."""
    monkeypatch.setattr("memolog.search.store._MOST_A_TERM", 20)


# ---------------------------------------------------------------- common words


async def say_alpha(memory: Memory) -> None:
    """Save one old message of the user, and many new ones of the assistant, all with the same word."""
    kit = await memory.open()
    old = replace(UserMessage("alpha in gamma", id="old"), created_at=OLD)
    new = [replace(AssistantMessage(f"alpha beta {n}", id=f"new {n}"), created_at=NEW) for n in range(60)]
    await kit.store.messages.save(RESOURCE, "old", old)
    await kit.store.messages.save(RESOURCE, "new", new)


@pytest.mark.usefixtures("_short_lists")
@pytest.mark.parametrize(
    "query",
    [
        "before:2026-02",
        "role:user",
        "-role:assistant",
        "-thread:new",
        "thread:old",
        "-beta",
        '-"alpha beta"',
        '"in gamma"',
    ],
)
async def test_a_filter_finds_what_is_old(memory: Memory, query: str) -> None:
    """However many newer messages hold the word: filters look at all of them, not at the newest."""
    await say_alpha(memory)
    answer = await memory.resource(RESOURCE).search(f"alpha {query}")
    assert [result.id for result in answer.results] == ["old"]
    assert (answer.total, answer.left_out) == (1, ())


@pytest.mark.usefixtures("_short_lists")
async def test_a_word_alone_finds_all_that_holds_it(memory: Memory) -> None:
    """Also as a phrase with a word that says nothing, and by thread."""
    await say_alpha(memory)
    answer = await memory.resource(RESOURCE).search("alpha")
    assert (answer.total, answer.left_out) == (61, ())
    assert await found(memory, '"alpha in"') == ["old"]
    answer = await memory.resource(RESOURCE).search("alpha", by="thread")
    assert {result.thread for result in answer.results} == {"old", "new"}


@pytest.mark.usefixtures("_short_lists")
async def test_several_common_words_with_a_filter(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    """All are looked for; what one of them does not need of the budget is there for the others."""
    monkeypatch.setattr("memolog.search.store._MOST_FURTHER", 110)
    kit = await memory.open()
    messages = [AssistantMessage(f"aardvark {n}") for n in range(70)] + [
        AssistantMessage(f"zebra {n}") for n in range(30)
    ]
    await kit.store.messages.save(RESOURCE, "t", [UserMessage("old aardvark"), UserMessage("old zebra"), *messages])
    answer = await memory.resource(RESOURCE).search("aardvark zebra role:user")
    assert {result.content for result in answer.results} == {"old aardvark", "old zebra"}
    assert answer.left_out == ()


@pytest.mark.usefixtures("_short_lists")
async def test_a_list_that_was_cut_is_told(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of several common words the newest places of one are read; even what is read further has an end."""
    await say_alpha(memory)
    answer = await memory.resource(RESOURCE).search("alpha beta")
    assert answer.total == 21
    assert answer.left_out == ("beta", "alpha")
    monkeypatch.setattr("memolog.search.store._MOST_FURTHER", 30)
    answer = await memory.resource(RESOURCE).search("alpha role:user")
    assert (answer.total, answer.left_out) == (0, ("alpha",))


# ---------------------------------------------------------------- phrases


async def test_phrases_are_looked_for_in_many_messages(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not only in the best few hundred; if there are more than are read, the answer says so."""
    await save_texts(memory, "t", "beta alpha", *(f"alpha beta {number}" for number in range(700)))
    answer = await memory.resource(RESOURCE).search('"beta alpha"')
    assert ([result.id for result in answer.results], answer.left_out) == (["beta alpha"], ())
    assert (await memory.resource(RESOURCE).search('"alpha beta"')).total == 700
    assert (await memory.resource(RESOURCE).search('alpha -"beta 5"')).total == 700
    monkeypatch.setattr("memolog.search.search._MOST_CHECKED", 100)
    assert (await memory.resource(RESOURCE).search('"alpha beta" -"beta 5"')).left_out == ('"alpha beta"', '-"beta 5"')


@pytest.mark.parametrize("guess", ["hunter2secret", "password hunter2secret"])
async def test_a_phrase_does_not_tell_a_secret(memory: Memory, guess: str) -> None:
    """Whether a guess is right makes no difference, wanted or not; beside the secret phrases are what they are."""
    await save_texts(memory, "t", "my password=Hunter2secret! fine", "a fine day")
    assert set(await found(memory, f'fine "{guess}"')) == set()
    assert len(await found(memory, f'fine -"{guess}"')) == 2
    assert len(await found(memory, 'fine "my password"')) == 1
    answer = await memory.resource(RESOURCE).search(f'When was it fine with "{guess}"?', explain=True)
    assert len(answer.results) == 2
    assert not any("phrase" in result.parts for result in answer.results)


async def test_without_redaction_every_phrase_is_found(address: str, clock: FakeClock) -> None:
    """Then nothing is a secret."""
    async with Memory(address, clock=clock, config=Config(redact=False)) as memory:
        await save_texts(memory, "t", "my password=Hunter2secret! fine")
        assert len(await found(memory, '"password hunter2secret"')) == 1


# ---------------------------------------------------------------- what changes meanwhile


@pytest.mark.parametrize("most", [2, 1_000], ids=["a few", "without end"])
async def test_what_is_saved_while_the_index_is_brought_up(
    memory: Memory, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    """A search looks again if something waits in what it looks at; after some tries it answers, and says that there is more."""
    catch_up, saved = Indexing.catch_up, list[str]()

    async def and_then_save(self: Indexing, resource: str, redact: Redact, **more: Any) -> int:
        cost = await catch_up(self, resource, redact, **more)
        if len(saved) < most:
            saved.append(f"whale {len(saved)}")
            await save_texts(memory, "other", saved[-1])
        return cost

    monkeypatch.setattr(Indexing, "catch_up", and_then_save)
    await save_texts(memory, "t", "the blue whale")
    answer = await memory.resource(RESOURCE).search("whale")
    assert 1 < len(saved) < 10
    assert answer.behind == (len(saved) > 2)
    assert answer.total + answer.behind == len(saved) + 1


async def test_nothing_is_looked_for_in_an_index_that_is_up(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    """The search itself sees that nothing waits."""

    async def never(_self: Indexing, _resource: str, _redact: Redact, **_: Any) -> int:
        raise AssertionError

    await save_texts(memory, "t", "the blue whale")
    assert await found(memory, "whale") == ["the blue whale"]
    monkeypatch.setattr(Indexing, "catch_up", never)
    assert await found(memory, "whale") == ["the blue whale"]


async def test_an_index_that_cannot_be_written_is_searched(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is indexed is found, and the answer says how many threads are behind."""

    async def refuse(_self: Indexing, _resource: str, _redact: Redact, *, most: int | None = None) -> int:
        raise StoreError(f"no space left, {most}", then="Make room.")

    await save_texts(memory, "t", "the blue whale")
    assert await found(memory, "whale") == ["the blue whale"]
    await save_texts(memory, "t", "another whale")
    await save_texts(memory, "other", "a third whale")
    monkeypatch.setattr(Indexing, "catch_up", refuse)
    answer = await memory.resource(RESOURCE).search("whale")
    assert (answer.total, answer.behind) == (1, 2)
    assert (await memory.resource(RESOURCE).search("whale thread:t", thread="other")).behind == 2


# ---------------------------------------------------------------- words counted as common


@pytest.fixture
async def _counted(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a word be common that stands in more than a hundred messages, and save one that stands in 200 of 600."""
    monkeypatch.setattr("memolog.search.store._COMMON", 100)
    monkeypatch.setattr("memolog.search.store._ENOUGH", 5)
    words = [["zebra"] * (n % 50 == 0) + ["apple"] * (n % 3 == 0) + ["apple"] * (n == 150) for n in range(600)]
    await save_texts(memory, "t", *(" ".join([*some, str(n)]) for n, some in enumerate(words)), "zebra mouse")


@pytest.mark.usefixtures("_counted")
@pytest.mark.parametrize("options", [{}, {"thread": "t"}])
async def test_a_common_word_counts_in_hits_of_rarer_words(memory: Memory, options: dict[str, Any]) -> None:
    """It raises their rank, more so where it stands often; messages with nothing else are no hits, and the answer says so."""
    answer = await memory.resource(RESOURCE).search("zebra apple", explain=True, limit=50, **options)
    assert (answer.total, answer.left_out, answer.terms) == (13, ("appl",), ("zebra", "appl"))
    own = {result.content: result.parts["own"] for result in answer.results}
    assert max(own, key=own.__getitem__) == "zebra apple apple 150"
    assert own["zebra apple 300"] > own["zebra 100"]


@pytest.mark.usefixtures("_counted")
async def test_a_common_word_is_read_if_the_others_have_few_hits(memory: Memory) -> None:
    """Also if it is alone, or if there is a filter."""
    assert (await memory.resource(RESOURCE).search("mouse apple")).total == 201
    assert (await memory.resource(RESOURCE).search("apple")).total == 200
    assert (await memory.resource(RESOURCE).search("zebra apple role:user")).total == 209


async def test_of_two_common_words_both_are_wanted(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    """If no rarer word has enough hits, messages with both are; if these are too few, all messages with one of them are."""
    monkeypatch.setattr("memolog.search.store._COMMON", 100)
    monkeypatch.setattr("memolog.search.store._ENOUGH", 140)
    words = [["apple"] * (n % 3 == 0) + ["pear pear pear"] * (n % 4 == 0) for n in range(600)]
    await save_texts(memory, "t", *(" ".join([*some, str(n)]) for n, some in enumerate(words)), "apple mouse")
    find = memory.resource(RESOURCE).search
    monkeypatch.setattr("memolog.search.store._ENOUGH_OF_BOTH", 52)
    assert (await find("mouse apple pear")).total == 151
    monkeypatch.setattr("memolog.search.store._ENOUGH_OF_BOTH", 51)
    answer = await find("mouse apple pear", limit=300, explain=True)
    assert (answer.total, answer.left_out) == (51, ("pear", "appl"))
    scores = {result.content: result.parts.get("own", 0.0) for result in answer.results}
    assert all({"apple", "pear"} <= {*text.split()} for text in scores.keys() - {"apple mouse"})
    # Both words count in the score of the message with the rarer word and in the scores of the others.
    both = min(score for text, score in scores.items() if text != "apple mouse")
    assert scores["apple mouse"] > both > 0
    assert (await find("apple pear -mouse")).total == 300
    assert {hit.content for hit in (await find("mouse apple pear", thread="t", limit=300)).results} == set(scores)


@pytest.mark.usefixtures("_counted")
async def test_counts_follow_what_is_forgotten(memory: Memory) -> None:
    """A word that was common in a thread that is gone is rare again, and the doctor finds nothing."""
    await save_texts(memory, "small", "an apple", "a zebra", *(f"zebra {n}" for n in range(10)))
    assert (await memory.resource(RESOURCE).search("zebra apple")).left_out == ("appl",)
    await memory.resource(RESOURCE).forget(thread="t")
    answer = await memory.resource(RESOURCE).search("zebra apple")
    assert (answer.total, answer.left_out) == (12, ())
    assert (await memory.doctor()).findings == ()


@pytest.mark.usefixtures("_counted")
async def test_a_small_thread_has_no_common_words(memory: Memory) -> None:
    """However common a word is in the other threads: a search in this one finds all its messages."""
    await save_texts(memory, "small", "an apple", "a zebra", *(f"zebra {n}" for n in range(10)))
    answer = await memory.resource(RESOURCE).search("zebra apple", thread="small")
    assert (answer.total, answer.left_out) == (12, ())
