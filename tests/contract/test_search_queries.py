"""What a query may hold, on every engine: much text, many exclusions, phrases in every script; and what was left out is told."""

import pytest

from kit.engines import a_memory
from kit.talk import found, save_texts
from memolog import AssistantMessage, InputError, Memory, UserMessage

RESOURCE = "alice"
memory = a_memory()


# ---------------------------------------------------------------- much of it


async def test_what_was_too_much_is_told(memory: Memory) -> None:
    """Words beyond those that are looked at are named, and so is what was cut short."""
    await save_texts(
        memory, "t", "whale song", *(f"word con{chr(97 + n // 26)}{chr(97 + n % 26)}x" for n in range(230))
    )
    answer = await memory.resource(RESOURCE).search(" ".join(f"w{number}" for number in range(300)) + " whale")
    assert [result.id for result in answer.results] == ["whale song"]
    assert len(answer.left_out) == 45
    answer = await memory.resource(RESOURCE).search("con*")
    assert answer.total == 200
    assert answer.left_out == ("con*",)
    assert (await memory.resource(RESOURCE).search("*he*")).left_out == ("*he*",)


async def test_a_beginning_stands_for_many_words(memory: Memory) -> None:
    """Not only for the first ones of the alphabet."""
    words = [f"con{first}{second}" for first in "abcdef" for second in "lmnopqrs"]
    await save_texts(memory, "t", *words)
    assert set(await found(memory, "con*", limit=100)) == set(words)
    assert set(await found(memory, "*con*", limit=100)) == set(words)


async def test_many_words_may_be_excluded(memory: Memory) -> None:
    """Each of them counts."""
    fruits = [f"fruit{letter}" for letter in "abcdefghijkl"]
    await save_texts(memory, "t", *(f"a basket with {fruit}" for fruit in fruits), "a basket")
    excluded = " ".join(f"-{fruit}" for fruit in fruits)
    assert set(await found(memory, f"basket {excluded}")) == {"a basket"}


# ---------------------------------------------------------------- what must not be


async def test_filters_can_be_turned_round(memory: Memory) -> None:
    """A minus before a filter lets everything else through."""
    await save_texts(memory, "t1", "a red apple")
    await save_texts(memory, "t2", "a green apple")
    kit = await memory.open()
    await kit.store.messages.save(RESOURCE, "t2", AssistantMessage("an apple a day", id="day"))
    assert set(await found(memory, "apple -role:user")) == {"day"}
    assert set(await found(memory, "apple -thread:t2")) == {"a red apple"}
    assert set(await found(memory, "apple -thread:t1 -role:assistant")) == {"a green apple"}
    assert set(await found(memory, "apple role:user -thread:nowhere")) == {"a red apple", "a green apple"}
    assert set(await found(memory, "apple -source:raw")) == set()
    assert set(await found(memory, "apple source:raw -source:raw")) == set()
    assert len(set(await found(memory, "apple -source:task"))) == 3


async def test_a_word_without_spaces_is_excluded_as_a_whole(memory: Memory) -> None:
    """Not wherever its first two characters stand."""
    await save_texts(memory, "t", "会議は来週です", "会議室を予約した", "会議の資料")
    assert set(await found(memory, "会議 -会議室")) == {"会議は来週です", "会議の資料"}


# ---------------------------------------------------------------- phrases


@pytest.mark.parametrize(
    ("phrase", "text"),
    [
        ("東京", "来週東京に行きます"),
        ("会議は来週", "東京の会議は来週の火曜日です"),
        ("微服务架构", "我们用微服务架构"),
        ("เชียงใหม่", "ฉันอยู่เชียงใหม่"),
        ("비밀번호 정책", "새 비밀번호 정책을 봤어요"),
        ("state of the art", "a state-of-the-art library"),
        ("Idempotency Key", "send the Idempotency-Key header"),
        ("auth login", "see src/auth/login.ts there"),
    ],
)
async def test_a_phrase_stands_where_it_is_written(memory: Memory, phrase: str, text: str) -> None:
    """In scripts without spaces and across hyphens too; in another order it does not."""
    await save_texts(
        memory, "t", text, "来周東去京微架构服务 key idempotency art the of state login auth 정책 비밀번호"
    )
    assert set(await found(memory, f'"{phrase}"')) == {text}


# ---------------------------------------------------------------- what comes first


@pytest.mark.parametrize(
    ("question", "first"),
    [
        ("Where is Ann's Grafana?", "grafana"),
        ("What does Bob know about Grafana?", "grafana"),
        ("which port did Ann get for the exporter?", "grafana"),
        ("what file has refund_order?", "code"),
        ("show me refund_order", "code"),
    ],
)
async def test_what_holds_the_words_comes_before_what_stands_beside_it(
    memory: Memory, question: str, first: str
) -> None:
    """Whoever said it: a speaker's thanks are no answer, and the place of a function is where it stands."""
    kit = await memory.open()
    said = [
        UserMessage("Please set up monitoring.", speaker="Ann"),
        AssistantMessage("Done: the metrics exporter listens on port 9187 and Grafana on 3000.", id="grafana"),
        UserMessage("Thanks! I had soup for lunch.", speaker="Ann"),
        UserMessage("Good morning everyone.", speaker="Bob"),
        UserMessage("The refund endpoint must be idempotent, an order is refunded once.", speaker="Ann"),
        AssistantMessage("def refund_order(order): ... saved to src/billing/refunds.py", id="code"),
    ]
    await kit.store.messages.save(RESOURCE, "t", said)
    answer = await memory.resource(RESOURCE).search(question, explain=True)
    assert answer.results[0].id == first
    for result in answer.results:
        assert abs(sum(result.parts.values()) - result.score) < 1e-5


# ---------------------------------------------------------------- what is shown


async def test_the_words_for_a_secret_are_not_what_was_said(memory: Memory) -> None:
    """Nobody said `redacted`."""
    await save_texts(memory, "t", "my key is sk-ant-api03-" + "Ab3dEf6hIj" * 9 + "AA, keep it")
    assert set(await found(memory, "keep")) != set()
    assert set(await found(memory, "redacted")) == set()
    assert set(await found(memory, "anthropic")) == set()


async def test_a_cursor_belongs_to_its_search(memory: Memory) -> None:
    """Taken to another one it would skip results."""
    await save_texts(memory, "t", *(f"apple {number}" for number in range(5)))
    first = await memory.resource(RESOURCE).search("apple", limit=2)
    again = await memory.resource(RESOURCE).search("apple", limit=2, cursor=first.next)
    assert {result.id for result in first.results}.isdisjoint(result.id for result in again.results)
    with pytest.raises(InputError, match="another search"):
        await memory.resource(RESOURCE).search("apple pie", cursor=first.next)
    with pytest.raises(InputError, match="another search"):
        await memory.resource(RESOURCE).search("apple", cursor=first.next, by="thread")


# ---------------------------------------------------------------- any text is a query

WRITTEN = (
    r"Open C:\Users\bob\report.txt please",
    r"print(first line\nsecond line)",
    "see LoginSchema in memolog/adapters/base.py",
    "昨日は東京タワーに行きました",
    "ฉันไปกรุงเทพมหานคร",
    "run: git push -f origin main",
    "then rm -rf node_modules",
    "npm ci --no-audit was quicker",
    "שָׁלוֹם לכולם",
    "قرأت كِتَاب اليوم",
    "हिन्दी सीखो",
)


@pytest.mark.parametrize(
    ("query", "number"),
    [
        # Beginnings and pieces of words that a sign holds together.
        ("repo*", 0),
        ("*eport*", 0),
        ("users\\bob*", 0),
        ("port", 0),
        ("cond", 1),
        ("*second*", 1),
        ("second line", 1),
        # Beginnings of what stands inside an identifier or a path, and of words without spaces.
        ("schem*", 2),
        ("login*", 2),
        ("adapter*", 2),
        ("base*", 2),
        ("base.p*", 2),
        ("adapters/ba*", 2),
        ('"login schema"', None),
        ("東京*", 3),
        ("กรุง*", 4),
        # Commands, as they are pasted.
        ("git push -f origin main", 5),
        ("rm -rf node_modules", 6),
        ("npm ci --no-audit", 7),
        ("--no-audit", 7),
        # Points and vowel signs.
        ("שלום", 8),
        ("كتاب", 9),
        ("हिन्दी", 10),
        # Moments that are none everywhere.
        ("after:0001-01-01T00:00:00+14:00 tokyo", None),
        ("before:9999-12-31T23:59:59-14:00 tokyo", None),
    ],
)
async def test_a_text_is_found_as_it_is_written(memory: Memory, query: str, number: int | None) -> None:
    """By the beginnings and the pieces of its words, by the command in it, and without the points that may be left out."""
    await save_texts(memory, "t", *WRITTEN)
    wanted = set[str]() if number is None else {WRITTEN[number][:80]}
    assert set(await found(memory, query)) & set(WRITTEN) == wanted


async def test_a_vowel_sign_does_not_cut_a_word(memory: Memory) -> None:
    """Words that share their consonants are others."""
    await save_texts(memory, "t", "हाथ धो लो", "होली कब है", "मेरा नाम")
    assert set(await found(memory, "हिन्दी")) == set()
    assert set(await found(memory, "नाम")) == {"मेरा नाम"}


async def test_a_phrase_stands_in_an_identifier(memory: Memory) -> None:
    """Signs between words are no words."""
    await save_texts(memory, "t", "the login_schema is new", "login and schema")
    assert set(await found(memory, '"login schema"')) == {"the login_schema is new"}
    assert set(await found(memory, 'login -"login schema"')) == {"login and schema"}


# ---------------------------------------------------------------- nothing as it was written


@pytest.mark.parametrize(
    ("query", "text", "relaxed"),
    [
        ("What about the databse?", "the database is full", ("databse",)),
        ("Wie heißen die Katzen?", "meine Katze schläft", ("Katzen",)),
        ("authentication", "we put auth behind the proxy", ("authentication",)),
        ("Wann ist der Zahnarzttermin?", "am Montag Zahnarzt", ("Zahnarzttermin",)),
        ("redeployments", "do not deploy on Fridays", ("redeployments",)),
        ("ginSch", "see the LoginSchema there", ("ginSch",)),
        ("getUsrByName", "call getUserByName first", ()),
        ("東雲", "東に行きます", ("東雲",)),
    ],
)
async def test_words_that_nobody_wrote_find_those_that_look_like_them(
    memory: Memory, query: str, text: str, relaxed: tuple[str, ...]
) -> None:
    """Parts, forms and slips of the pen are found where the word itself stands nowhere, and the answer says so."""
    await save_texts(memory, "t", "nothing to do with it", "Xylophon 12345", text, "thank you very much")
    answer = await memory.resource(RESOURCE).search(query)
    assert answer.results[0].id == text
    assert answer.relaxed == relaxed


async def test_nothing_is_relaxed_where_a_word_is_found(memory: Memory) -> None:
    """A word that stands there is enough: nothing that only looks like another joins it."""
    await save_texts(memory, "t", "the database is full", "the server sleeps")
    answer = await memory.resource(RESOURCE).search("databse server", sources=["raw"])
    assert [result.id for result in answer.results] == ["the server sleeps"]
    assert answer.relaxed == ()


@pytest.mark.parametrize(
    "query",
    [
        "databse -full",
        "databse role:assistant",
        "databse thread:other",
        "databse before:2001",
        '"databse"',
        '"full database"',
        "databse*",
        "*databse*",
        '"database full" server',
    ],
)
async def test_what_was_said_precisely_is_not_relaxed(memory: Memory, query: str) -> None:
    """Exclusions, filters, quotes and stars mean what they say, also where nothing is left."""
    await save_texts(memory, "t", "the database is full", "the server sleeps")
    answer = await memory.resource(RESOURCE).search(query)
    assert answer.results == ()
    assert answer.relaxed == ()


async def test_a_question_says_that_its_quote_stands_nowhere(memory: Memory) -> None:
    """The words are found, and the answer says that they do not stand there as they were quoted."""
    await save_texts(memory, "t", "I read The Startup Way, it is lean", "We met Jon")
    answer = await memory.resource(RESOURCE).search('When did I read "The Lean Startup"?')
    assert answer.results[0].id == "I read The Startup Way, it is lean"
    assert answer.relaxed == ('"the lean startup"',)
    answer = await memory.resource(RESOURCE).search('When did I read "The Startup Way"?')
    assert answer.relaxed == ()
