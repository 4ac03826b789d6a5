"""The embedded reflector: which lines are kept, and that no statement of a user is lost."""

from dataclasses import replace
from datetime import date, timedelta

import pytest

from kit import rows
from kit.rows import SAID
from memolog.core.deadline import at_once
from memolog.core.observation import Observation, Priority
from memolog.observer.drafts import ParsedReflection
from memolog.observer.extractive.reflector import reflect
from memolog.observer.extractive.sentences import identifiers_of
from memolog.observer.judge import judge_reflection
from memolog.observer.prompt import ReflectInput
from memolog.text.tokens import HeuristicCounter

COUNTER = HeuristicCounter()
FILL = "some words about nothing in particular that go on for quite a while without any end"


def line(ordinal: int, text: str, priority: Priority = "medium", parent: int | None = None) -> Observation:
    """Return a line of the log."""
    said_at = SAID + timedelta(hours=ordinal)
    return rows.line(
        text, priority=priority, ordinal=ordinal, said_at=said_at, parent=parent, tokens=COUNTER.count(text)
    )


def size_of(parsed: ParsedReflection) -> int:
    """Return the tokens of all lines."""
    return sum(COUNTER.count(line.text) for line in parsed.lines)


def half(lines: list[Observation], share: float = 0.5, level: int = 0) -> ParsedReflection:
    """Return the lines condensed to a share of their size, by default one half."""
    size = sum(observation.tokens for observation in lines)
    return reflect(ReflectInput(observations=tuple(lines), target_tokens=int(size * share), level=level), COUNTER)


def texts(parsed: ParsedReflection) -> str:
    """Return all lines as one text."""
    return "\n".join(line.text for line in parsed.lines)


LOG = [
    line(1, "User: I moved from Oslo to Turku. My dog Rex hates boats.", "high"),
    line(2, f"Assistant: {FILL}. The ferry Silja leaves at 20:15. {FILL} again.", parent=1),
    line(3, f"System: {FILL}", "low"),
    line(4, f"Assistant ran make docs: {FILL}", parent=1),
    line(5, "User confirmed: It works now. (This is about: I fixed login.ts.)", "done"),
    line(6, f"Assistant: {FILL} on {FILL}."),
]
STATEMENTS = [
    line(1, "User: I am allergic to peanuts.", "high"),
    line(2, "User: All money is in integer cents, never floats.", "high"),
    line(3, "User: Use psycopg, no ORM.", "high"),
    line(4, "User asked: Which port does the service use?"),
    line(5, "Assistant: It uses port 8080, as before.", parent=4),
    line(6, "Assistant ran pytest -q: 41 passed in 3.1s"),
    line(7, "Assistant ran pytest -q: 42 passed in 3.2s"),
    line(8, "Assistant: 42 tests pass."),
    line(9, f"Assistant: {FILL}. The migration needs 12 minutes. {FILL} once more."),
]


def test_it_reaches_the_target() -> None:
    """The result has at most half the size, and each line lists the lines that it replaces."""
    log = [
        *LOG,
        *(line(number, f"Assistant: {FILL} of house {number}. Room {number} is {FILL}.") for number in range(7, 60)),
    ]
    parsed = half(log)
    assert 0 < size_of(parsed) <= sum(observation.tokens for observation in log) // 2
    names = {f"o{number}" for number in range(1, len(log) + 1)}
    assert all(made.merges and set(made.merges) <= names for made in parsed.lines)
    assert parsed.faults == {}


def test_statements_and_finished_work_outlive_the_rest() -> None:
    """Statements (🔴) and finished work (✅) are kept, and lines of low priority (🟢) are deleted first."""
    parsed = half(LOG)
    by_name = {name: made for made in parsed.lines for name in made.merges}
    assert by_name["o1"].priority == "high"
    assert "Turku" in by_name["o1"].text
    assert by_name["o5"].priority == "done"
    assert not any(made.priority == "low" for made in parsed.lines)


def test_finished_work_is_still_finished_when_it_was_checked() -> None:
    """A confirmed line also cites the assistant, and is still finished after the checks of a reflection."""
    done = replace(LOG[4], trust="assistant")
    kept = at_once(judge_reflection([replace(done, id="new", merges=(done.id,))], [done])).observations
    assert [one.priority for one in kept] == ["done"]


def test_no_bare_names_are_listed() -> None:
    """No line lists only names, and such lines of older logs are deleted."""
    trace = line(7, "Also named: 41, 29, 32, SELECT, src/app.py")
    parsed = half([*LOG, trace])
    assert not [made.text for made in parsed.lines if made.text.startswith(("Also named", "Also mentioned"))]


def test_every_statement_of_a_user_stays() -> None:
    """Statements are kept word for word at every level. Test counts, repeated calls and answered questions are deleted."""
    for level in range(5):
        parsed = half(STATEMENTS, level=level)
        for wanted in STATEMENTS[:3]:
            assert wanted.text.removeprefix("User: ") in texts(parsed)
    assert "pass" not in texts(half(STATEMENTS))
    assert "Which port" not in texts(half(STATEMENTS))


def test_a_newer_statement_says_what_it_replaced() -> None:
    """The older statement is moved into the newer one."""
    lines = [
        line(1, "User: I take ramipril 5 mg once a day.", "high"),
        line(2, f"Assistant: {FILL}. {FILL} again."),
        line(3, "User: My doctor switched me from ramipril to candesartan 8 mg.", "high"),
        line(4, f"Assistant: {FILL} for {FILL}."),
    ]
    parsed = half(lines)
    made = next(made for made in parsed.lines if "candesartan 8 mg" in made.text)
    assert (
        made.text
        == "User: My doctor switched me from ramipril to candesartan 8 mg. (before: I take ramipril 5 mg once a day)"
    )
    assert made.merges == ("o1", "o3")
    assert not any(other.text.startswith("User: I take ramipril") for other in parsed.lines)


def test_a_statement_that_points_at_a_question_keeps_it() -> None:
    """The question is moved into the statement that answers it."""
    lines = [
        line(1, "User asked: How many things may a member have at once?"),
        line(2, f"Assistant: {FILL}. {FILL} again.", parent=1),
        line(3, "User: Make it three.", "high"),
        line(4, f"Assistant: {FILL} for {FILL}."),
    ]
    made = next(made for made in half(lines).lines if "Make it three" in made.text)
    assert made.text == "User: Make it three. (This is about: How many things may a member have at once?)"
    assert set(made.merges) == {"o1", "o3"}


def test_changed_files_stand_together() -> None:
    """Files that were changed on one day are joined into one line with their verb."""
    changes = [
        replace(
            line(number, f"Assistant edited src/part_{number}.py"), category="change", files=(f"src/part_{number}.py",)
        )
        for number in range(1, 7)
    ]
    # The parent of the last change is newer than the first change, so the joined line has no parent.
    changes[-1] = replace(changes[-1], parent=7)
    asked = line(7, "User: Please keep the parts apart.", priority="high")
    fill = (line(number, f"Assistant: {FILL} {number}. {FILL} again.") for number in range(8, 20))
    parsed = half([*changes[:-1], asked, changes[-1], *fill])
    made = next(made for made in parsed.lines if "edited" in made.text)
    assert made.parent is None
    assert made.text == "Assistant edited " + ", ".join(f"src/part_{number}.py" for number in range(1, 7))
    assert made.merges == ("o1", "o2", "o3", "o4", "o5", "o7")
    assert len(made.files) == len(changes)


def test_lists_keep_their_topic_and_their_first_items() -> None:
    """A shortened list has its topic and its first items."""
    items = "; ".join(
        f"{name} Bay – one of the loveliest places with sand"
        for name in ("Aloha", "Bream", "Coral", "Delta", "Eagle", "Fern", "Gull")
    )
    parsed = half(
        [line(1, f"Assistant listed beaches of Maui: {items}"), line(2, f"Assistant: {FILL}. {FILL} again.")], 0.3
    )
    kept = next(made.text for made in parsed.lines if "Bay" in made.text)
    assert kept.startswith("Assistant listed beaches of Maui: ")
    assert "Aloha Bay" in kept


def test_repetitions_become_one_line() -> None:
    """Three equal lines become one line that replaces all three."""
    lines = [line(number, f"Assistant ran make test: 1 failed; {FILL}") for number in (1, 2, 3)]
    parsed = half(lines)
    assert len(parsed.lines) == 1
    assert parsed.lines[0].merges == ("o1", "o2", "o3")


def test_old_is_condensed_harder_than_new() -> None:
    """Of equal lines, more is kept of the newer half."""
    lines = [
        line(number, " ".join(f"Thing{number}{letter} was looked at by somebody else." for letter in "abcd"))
        for number in range(1, 41)
    ]
    parsed = half(lines)
    kept = {name: made for made in parsed.lines for name in made.merges}
    old = sum(len(kept[f"o{number}"].text) for number in range(1, 21) if f"o{number}" in kept)
    new = sum(len(kept[f"o{number}"].text) for number in range(21, 41) if f"o{number}" in kept)
    assert new > old


def test_dates_stay_with_their_lines() -> None:
    """The day of the message and the day that it is about are kept."""
    dated = replace(line(1, "User: I fly tomorrow (meaning 2026-03-15)", "high"), about=date(2026, 3, 15))
    parsed = half([dated, *(line(number, FILL + str(number)) for number in range(2, 8))])
    first = parsed.lines[0]
    assert (first.on, first.about) == (date(2026, 3, 14), date(2026, 3, 15))


def test_a_higher_level_says_less() -> None:
    """The result of a higher level is not larger."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    lines = [
        line(
            number,
            f"Assistant: {letter.upper()}-fact. {' '.join(letter + word for word in FILL.split()).capitalize()}.",
        )
        for number, letter in enumerate(letters * 2, 1)
    ]
    sizes = [size_of(half(lines, 0.9, level)) for level in range(5)]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[4] < sizes[0]


def test_what_fits_stays_as_it_is() -> None:
    """A log within the target is unchanged."""
    parsed = half(LOG, 1.0)
    assert parsed.lines[0].text == LOG[0].text
    assert {name for made in parsed.lines for name in made.merges} == {f"o{number}" for number in range(1, 7)}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("User met Ann Lee at src/app.py:12", ["Ann Lee", "src/app.py:12"]),
        ("Called getUserById with refresh_tokens", ["getUserById", "refresh_tokens"]),
        ("Nothing here to name", []),
        ("on 4 May (meaning 2026-05-04)", ["4 May"]),
    ],
)
def test_identifiers(text: str, found: list[str]) -> None:
    """Names, paths, symbols and numbers are identifiers; the first word of a sentence is not."""
    assert [name for name in identifiers_of(text) if name != "Called"] == found


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("User: J'utilise Redis depuis 2020 pour les sessions.", "User: Je ne mange plus de viande depuis mars."),
        ("User: Wir nutzen Redis seit langem für Sitzungen.", "User: Ich esse nicht mehr Fleisch seit langem."),
        ("User: Usamos Redis desde siempre para sesiones.", "User: Ya no como carne desde siempre."),
        ("User: I bought a Garmin watch for running.", "User: The Garmin watch shows 42 km now."),
    ],
)
def test_a_common_word_replaces_nothing(older: str, newer: str) -> None:
    """A common name or word of time does not make one statement replace another."""
    lines = [line(1, older, "high"), line(2, newer, "high"), *(line(n, f"{FILL} {n}") for n in range(3, 12))]
    kept = half(lines)
    said = next(one for one in kept.lines if "o1" in one.merges)
    assert older.removeprefix("User: ").rstrip(".") in said.text
    assert "(before:" not in texts(kept)
