"""What the embedded observer and reflector keep of twelve conversations.

Travel with changed plans, a health diary, coding, a house move, recommendations, a wedding, a job hunt, a bakery, work, a
customer's trouble: over 400 facts in six languages that a careful reader would want remembered. Each conversation is lived
turn by turn on SQLite in memory, observed in several groups, and its log is condensed twice; a fact is kept if one line says it.
`PYTHONPATH=src:tests python -m talks` prints the same as a table.
"""

import asyncio
import re
from collections import Counter
from datetime import date
from itertools import pairwise

import pytest

from talks.exam import KINDS, MUST, Conversation, Fact, Sitting, conversations, sit, stands

EACH = pytest.mark.parametrize("conversation", conversations(), ids=lambda one: one.name)


@pytest.fixture(scope="module")
def sittings() -> tuple[Sitting, ...]:
    """Return the result of each conversation."""

    async def each() -> tuple[Sitting, ...]:
        return tuple([await sit(one) for one in conversations()])

    return asyncio.run(each())


def told(sittings: tuple[Sitting, ...], missing: list[tuple[Fact, ...]], asked: int) -> str:
    """Return how many facts are missing, and each with its statement."""
    rows = "\n".join(one.explained(facts) for one, facts in zip(sittings, missing, strict=True) if facts)
    lost = sum(map(len, missing))
    return f"{lost} of {asked} facts are missing ({100 * (1 - lost / max(asked, 1)):.1f} % kept):\n{rows}"


# ---------------------------------------------------------------- what is kept


def test_the_log_holds_what_users_stated(sittings: tuple[Sitting, ...]) -> None:
    """At least 97 % of the facts stand in one line of the log each."""
    asked, missing = sum(len(one.conversation.facts) for one in sittings), [one.missing for one in sittings]
    assert sum(map(len, missing)) <= 0.03 * asked, told(sittings, missing, asked)


def test_two_reflections_keep_what_users_stated(sittings: tuple[Sitting, ...]) -> None:
    """At least 95 % of the facts that no later one replaces outlive two reflections."""
    asked, missing = sum(len(one.asked_reflected) for one in sittings), [one.missing_reflected for one in sittings]
    assert sum(map(len, missing)) <= 0.05 * asked, told(sittings, missing, asked)


def test_no_allergy_prohibition_or_correction_is_missing(sittings: tuple[Sitting, ...]) -> None:
    """All of them are in the log, and all that still hold are in it after two reflections."""
    missing = [
        tuple(fact for fact in dict.fromkeys((*one.missing, *one.missing_reflected)) if fact.kind in MUST)
        for one in sittings
    ]
    asked = sum(fact.kind in MUST for one in sittings for fact in one.conversation.facts)
    assert not any(missing), told(sittings, missing, asked)


def test_no_line_has_a_wrong_date(sittings: tuple[Sitting, ...]) -> None:
    """A "(meaning …)" is a day that the cited messages mean, and a line stands under the day of a message that it cites."""
    wrong = [f"{one.conversation.name}: {line}" for one in sittings for line in one.wrong_dates()]
    assert not wrong, "\n".join(wrong)


def test_logs_are_at_most_half_of_what_was_said(sittings: tuple[Sitting, ...]) -> None:
    """Nothing is kept by copying it, and a reflection never makes a log longer.

    Words are compared with words: what was said is counted without its times, roles and marks, so the lines are as well. The
    spans of this exam are small on purpose, some of a few hundred characters, and nearly all that users say in them is a fact:
    there the frame of lines and groups alone is a fifth of the log. With it, a log is still at most two thirds.
    """
    sizes = {
        one.conversation.name: (
            one.conversation.size,
            sum(len(line.text) for line in one.log.lines),
            len(one.log.text),
            len(one.reflected.text),
        )
        for one in sittings
    }
    wrong = {
        name: (said, words, log, reflected)
        for name, (said, words, log, reflected) in sizes.items()
        if words > 0.51 * said or log > said * 2 / 3 or reflected > log
    }
    assert not wrong, f"said, words of the lines, log, reflected, in characters: {wrong}"


def test_each_log_has_several_groups_and_was_condensed(sittings: tuple[Sitting, ...]) -> None:
    """Lines come from several runs, and the log was condensed."""
    for one in sittings:
        assert len({line.group for line in one.log.lines}) > 2, one.conversation.name
        assert one.reflected.generation > one.log.generation, one.conversation.name


# ---------------------------------------------------------------- the data


@pytest.mark.parametrize(
    ("word", "text", "is_there"),
    [
        ("allergic", "User is ALLERGIC to nuts", True),
        ("book", "no bleak books", True),
        ("not", "User doesn't eat pork", True),
        ("not", "User took notes", False),
        ("3,02", "Die Küche ist 3,02 m lang", True),
        ("11", "the sum is 11.500 or 2,11", False),
        ("two hours", "at most two  hours long", True),
        ("IELTS", "IELTSは土曜日に受けました", True),
        ("猫アレルギー", "美咲さんは猫アレルギーがある", True),
        ("data/raw", "never writes to data/raw.", True),
        ("lift", "the lifting of bans on airlifts", True),
        ("lift", "airlifts", False),
    ],
)
def test_words_are_found_whole_and_lightly_inflected(word: str, text: str, is_there: bool) -> None:
    """The exam's own reading: endings may differ, parts of longer words and numbers do not count."""
    assert stands(word, text) is is_there


def test_there_are_twelve_conversations_with_150_questions() -> None:
    """Enough of each for shares to mean something; thirty questions have no answer."""
    questions = [question for one in conversations() for question in one.questions]
    assert len(conversations()) == 12
    assert len(questions) == 150
    assert sum(question.answer is None for question in questions) == 30
    assert {fact.kind for one in conversations() for fact in one.facts} == KINDS


@EACH
def test_messages_follow_one_another(conversation: Conversation) -> None:
    """Times rise, the user begins, every tool call has its result right after it."""
    messages = conversation.messages
    assert 40 <= len(messages) <= 90
    assert messages[0].role == "user"
    assert all(earlier.at < later.at for earlier, later in pairwise(messages))
    assert all(said.at.tzinfo is not None for said in messages)
    open_calls: list[str] = []
    for said in messages:
        if said.role == "tool":
            open_calls.remove(said.call)
        else:
            assert said.text
            assert not open_calls, f"{open_calls} have no result before {said.text!r}"
        open_calls += [one["id"] for one in said.calls]
    assert not open_calls


@EACH
def test_facts_stand_in_what_was_said(conversation: Conversation) -> None:
    """Each fact comes from a user's message, and its words stand there or in what that message refers to."""
    assert 20 <= len(conversation.facts) <= 35
    ids = Counter(fact.id for fact in conversation.facts)
    assert ids.most_common(1)[0][1] == 1
    for fact in conversation.facts:
        assert conversation.messages[fact.message].role == "user", fact
        assert fact.kind in KINDS, fact
        assert all(number < fact.message for number in fact.context), fact
        cited = [conversation.messages[number].text for number in (*fact.context, fact.message)]
        assert fact.is_in("\n".join(cited)), fact
        assert fact.date is None or fact.date in conversation.messages[fact.message].dates, fact
    places = {fact.id: fact.message for fact in conversation.facts}
    assert all(places[fact.replaces] < places[fact.id] for fact in conversation.facts if fact.replaces)


@EACH
def test_dates_agree_with_weekdays_and_days_that_are_written(conversation: Conversation) -> None:
    """Dates are real, periods run forward, and a weekday that stands beside a date is the right one."""
    for said in conversation.messages:
        for given in said.dates:
            first, _, last = given.partition("/")
            assert date.fromisoformat(first) <= date.fromisoformat(last or first), said
        days = {date.fromisoformat(given) for given in said.dates if "/" not in given}
        for weekday, number in WEEKDAY_AND_DAY.findall(said.text):
            index = WEEKDAYS[weekday.casefold()]
            assert any(day.day == int(number) and day.weekday() == index for day in days), (weekday, number, said)


@EACH
def test_questions_have_evidence(conversation: Conversation) -> None:
    """An answer follows from messages that exist; what cannot be known has none."""
    assert 12 <= len(conversation.questions) <= 13
    for question in conversation.questions:
        assert question.question
        assert bool(question.answer) == bool(question.evidence), question
        assert all(0 <= number < len(conversation.messages) for number in question.evidence), question


_NAMES = (
    "monday tuesday wednesday thursday friday saturday sunday",
    "montag dienstag mittwoch donnerstag freitag samstag sonntag",
    "lunes martes miércoles jueves viernes sábado domingo",
    "lundi mardi mercredi jeudi vendredi samedi dimanche",
    "lunedì martedì mercoledì giovedì venerdì sabato domenica",
)
WEEKDAYS = {name: number for names in _NAMES for number, name in enumerate(names.split())}
WEEKDAY_AND_DAY = re.compile(
    rf"\b({'|'.join(WEEKDAYS)}),? (?:the |den |der |le |il )?(?:(?:April|May|June|July|August|September|October) )?(\d\d?)"
    r"(?:st|nd|rd|th|\.)?(?![\d:]|\s?(?:h|am|pm|uhr)\b)",
    re.IGNORECASE,
)
