"""Search without a database: scoring that passes over common words, snippets, threads and quoted titles."""

import random
from collections.abc import Sequence
from datetime import UTC, datetime

import pytest

from kit.effort import counts
from memolog.search import bm25 as drafting
from memolog.search.analysis import analyse
from memolog.search.bm25 import (
    ASSISTANT,
    TASK,
    USER,
    Draft,
    Posting,
    Stats,
    Sums,
    draft,
    key_of_message,
    key_of_other,
    seq_of,
)
from memolog.search.query import parse
from memolog.search.rank import (
    WEIGHTS,
    DocumentDetail,
    Ranked,
    Scored,
    best_of_threads,
    drafted,
    rank,
    statement_in,
    summed,
)
from memolog.search.snippets import Marker
from memolog.text.words import places_of, words_of
from search.test_snippets import any_text

NOW = datetime(2026, 3, 14, tzinfo=UTC)


def postings(chance: random.Random) -> tuple[list[Posting], Stats]:
    """Return terms from rare to common over some thousand documents, as an index would hold them."""
    keys = [
        key_of_message(thread, seq, chance.randrange(1, 400), chance.choice((USER, ASSISTANT)))
        for thread in range(1, 200)
        for seq in range(1, 21)
    ]
    keys += [key_of_other(number, chance.randrange(1, 60), TASK) for number in range(1, 200)]
    found: list[Posting] = []
    for number, count in enumerate((3, 150, 300, 900, 2_000)):
        held = sorted(chance.sample(keys, count))
        often = sorted(chance.sample(held, count // 10))
        very_often = sorted(chance.sample(often, count // 30))
        found.append(Posting(term=f"t{number}", weight=1.0, keys=held, often=often, very_often=very_often))
    kinds = (USER, ASSISTANT, TASK)
    return found, Stats(documents=dict.fromkeys(kinds, 1_400), lengths=dict.fromkeys(kinds, 140_000))


@pytest.mark.parametrize("prefer", [-1, USER])
@pytest.mark.parametrize("seed", range(8))
def test_common_words_are_passed_over_and_nothing_is_lost(
    seed: int, prefer: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The best hits, their scores and their number are those of scoring every hit of every word."""
    terms, stats = postings(random.Random(seed))

    def drafted() -> Draft:
        return draft(Sums(terms, stats, prefer=prefer, bonus=0.9), around=True)

    quick = drafted()
    monkeypatch.setattr(drafting, "_LONG_LIST", 10**9)
    whole = drafted()
    assert quick.passed
    assert not whole.passed
    assert quick.closely == whole.closely
    assert quick.total == whole.total
    assert quick.everything() == pytest.approx(whole.own)
    assert {key: quick.own[key] for key in quick.closely} == pytest.approx(
        {key: whole.own[key] for key in whole.closely}
    )


def test_only_whole_words_are_marked() -> None:
    """A word inside another one is no hit, before or after one that is."""
    marker = Marker({"art": 2.0, "book": 1.0})
    assert marker.both("A party. Art! smart-art; books")[0] == "A party. «Art»! «smart-art»; «books»"
    assert marker.both("nothing here")[0] == "nothing here"
    assert marker.both("Ärger mit der art")[0] == "Ärger mit der «art»"


@pytest.mark.parametrize("seed", range(20))
def test_a_word_is_found_where_the_text_has_it_as_a_word(seed: int) -> None:
    """Looking for one word finds the same places as reading the words one after the other."""
    chance = random.Random(seed)
    text = "".join(chance.choices(("art", "ar", "t", "_", " ", " ", ".", "-", "/", "--", ",", "9"), k=200))
    expected: list[int] = []
    at = 0
    for word in words_of(text):
        at = text.index(word, at)
        expected += [at] if word == "art" else []
        at += len(word)
    assert list(places_of("art", text)) == expected


def test_threads_come_by_their_best_message_and_by_all_that_they_say() -> None:
    """Of two threads with nearly the same best message, the one that is about the matter comes first."""
    one, two = key_of_message(1, 1, 5, USER), key_of_message(2, 1, 5, USER)
    scored = [
        Scored(1.0, one, {"own": 1.0}),
        Scored(0.9, two),
        Scored(0.8, one + 256),
        Scored(0.7, key_of_other(7, 5, TASK)),
    ]
    first, second = best_of_threads(scored, {1: 0.1, 2: 1.0})
    assert (first.key, second.key) == (two, one)
    assert sum(second.parts.values()) == pytest.approx(second.score) == pytest.approx(1.0 + 0.1 * WEIGHTS.session)


def ranked(
    question: str, said: Sequence[tuple[int, str, str | None]], speakers: frozenset[str] = frozenset()
) -> Ranked:
    """Rank the messages of one thread, each with its class, its text and its speaker, as the index would hand them over."""
    keys, details, held = list[int](), dict[int, DocumentDetail](), dict[str, list[int]]()
    for seq, (kind, text, speaker) in enumerate(said, start=1):
        known = analyse(text)
        key = key_of_message(1, seq, known.length, kind)
        keys.append(key)
        details[key] = DocumentDetail(0, known.traits, speaker)
        for term in known.terms:
            held.setdefault(term, []).append(key)
    query = parse(question, NOW)
    terms = {term for wish in query.wishes for term in wish.terms} & held.keys()
    postings = [Posting(term=term, weight=1.0, keys=held[term]) for term in sorted(terms)]
    stats = Stats(documents=dict.fromkeys((USER, ASSISTANT), 100), lengths=dict.fromkeys((USER, ASSISTANT), 1_000))
    return rank(drafted(summed(postings, stats, query), query), query, details, {1: (100, 100)}, speakers, explain=True)


def parts_by_place(answer: Ranked) -> dict[int, dict[str, float]]:
    """Return the parts of each score by sequence number, after a look at whether they make it up."""
    for one in answer:
        assert sum(one.parts.values()) == pytest.approx(one.score)
    return {seq_of(one.key): dict(one.parts) for one in answer}


@pytest.mark.parametrize(
    ("question", "first"),
    [
        ("What did Ann adopt for Bob?", {"ann"}),
        ("Did Bob help Ann to adopt?", {"bob"}),
        ("Did Ann Lee adopt, or Ann Bo?", set[str]()),
    ],
)
def test_of_several_named_speakers_the_first_is_asked_about(question: str, first: set[str]) -> None:
    """Both are preferred, and the first a little more; where the first word names them all, none is."""
    names = ("ann lee", "ann bo") if "Lee" in question else ("ann", "bob")
    said = [(USER, "we adopted a dog", name) for name in names]
    parts = parts_by_place(ranked(question, said, frozenset(names)))
    assert all("speaker" in one for one in parts.values())
    assert {names[seq - 1] for seq, one in parts.items() if "first_named" in one} == first
    alone = parts_by_place(ranked("What did Ann adopt?", said, frozenset({names[0]})))
    assert not any("first_named" in one for one in alone.values())


def test_an_answer_follows_what_a_person_asks_and_not_what_an_assistant_asks() -> None:
    """Assistants end with a question out of politeness; what comes next is seldom an answer to it."""
    filler = (USER, "nothing to see", None)
    said = [
        (USER, "Where do your turtles live?", None),
        filler,
        (ASSISTANT, "Where do your turtles live?", None),
        filler,
    ]
    parts = parts_by_place(ranked("Where do the turtles live?", said))
    assert parts[2]["reply"] > 0
    assert "reply" not in parts[4]


@pytest.mark.parametrize(
    ("question", "answer", "part"),
    [
        ("When did Ann get the turtles?", "It was last week", "time"),
        ("Where does Ann buy turtles?", "Oh, at Woodhaven", "name"),
    ],
)
def test_who_says_when_or_where_need_not_repeat_what(question: str, answer: str, part: str) -> None:
    """A time or a name counts where the words of the question stand beside it."""
    parts = parts_by_place(ranked(question, [(USER, "I have turtles", None), (USER, answer, None)]))
    assert parts[2][part] > 0
    assert parts[2]["own"] == 0


def test_how_long_and_the_name_are_words_to_look_for() -> None:
    """Who is asked "how long?" is often asked so in the same words; what is only grammar is not looked for."""
    assert {wish.word for wish in parse("How long has he had the name?", NOW).wishes} == {"long", "name"}
    query = parse("How many days ago might she have hiked without herself?", NOW)
    assert {wish.word for wish in query.wishes} == {"days", "hiked"}


@pytest.mark.parametrize(
    ("text", "must", "better"),
    [
        ('When did Jon read "The Lean Startup"?', (), (" the lean startup ",)),
        ('"my old dog"', (" my old dog ",), ()),
        ('"my old dog" vet', (" my old dog ",), ()),
    ],
)
def test_what_a_question_quotes_is_a_preference(text: str, must: tuple[str, ...], better: tuple[str, ...]) -> None:
    """Quotes narrow, but not in a question: there they name something."""
    query = parse(text, NOW)
    assert (query.phrases, query.named) == (must, better)


def test_a_question_with_a_full_width_mark_states_nothing() -> None:
    """A question mark of full width ends a question, in the index and in the search for statements."""
    asked, said = "Berlin\uff1f", "Berlin\uff01"
    assert statement_in(asked, {"berlin": 1.0}) is None
    assert statement_in(f"{asked} {said}", {"berlin": 1.0}) is not None
    assert analyse(asked).traits == analyse("Berlin?").traits != analyse(said).traits


def test_the_snippet_is_where_the_rarest_words_stand_together() -> None:
    """Different words count, each once; what is too far away does not."""
    far = " and so on" * 40
    marker = Marker({"rare": 5.0, "seldom": 4.0, "often": 1.0})
    text = f"often often often rare{far} seldom{far} often, seldom and rare{far} rare"
    assert "«often», «seldom» and «rare»" in marker.both(text)[0]
    assert marker.both(f"{'x' * 500}rare {far} rare")[0].count("«rare»") == 1


def test_what_reaches_the_engines_is_text_that_they_take() -> None:
    """Whatever a query holds, no term, prefix or id has what an engine refuses or a quote that would end a term."""
    chance = random.Random(3)
    for _ in range(counts(2_000, 100_000)):
        text = any_text(chance)
        query = parse(text, NOW)
        for wish in (*query.wishes, *query.without):
            for term in (*wish.terms, wish.word, wish.prefix or "", wish.inside or ""):
                assert not any(mark in term for mark in "\"'\x00 "), text
                term.encode()
        for name in (*query.threads, *query.tasks):
            assert name.isprintable(), text
            name.encode()


@pytest.mark.parametrize(
    ("terms", "text", "shown"),
    [
        ({"東京": 2.0}, "来週東京に行きます", "来週«東京»に行きます"),
        ({"東京": 2.0, "京都": 2.0}, "来週東京都に行きます", "来週«東京都»に行きます"),
        ({"แม": 1.0, "มว": 1.0}, "ฉันมีแมวสองตัว", "ฉันมี«แมว»สองตัว"),
        ({"살": 1.0}, "나는 서울에서 살아요", "나는 서울에서 «살»아요"),
    ],
)
def test_in_a_script_without_spaces_only_the_hit_is_marked(terms: dict[str, float], text: str, shown: str) -> None:
    """Not the run that it stands in, which may be a whole paragraph."""
    assert Marker(terms).both(text)[0] == shown


@pytest.mark.parametrize("before", [20_000, 39_990, 300_000])
def test_a_hit_far_into_a_text_is_shown(before: int) -> None:
    """Wherever it stands."""
    text = ("log line " * (before // 9 + 1))[:before] + " FATAL kernel oops " + "more lines " * 50
    shown = Marker({"kernel": 3.0, "oop": 3.0}).both(text)[0]
    assert "FATAL «kernel» «oops»" in shown
    assert len(shown) < 300
