"""The embedded reflector: what outlives what, and that no name disappears without a trace."""

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta

import pytest

from memolog.domain.observation import Observation, Priority
from memolog.extractive import TRACE, reflect
from memolog.extractive.identifiers import identifiers_of, lost_from
from memolog.prompt.build import ReflectInput
from memolog.prompt.drafts import ParsedReflection
from memolog.tokens import HeuristicCounter

COUNTER = HeuristicCounter()
START = datetime(2026, 3, 14, 9, 15, tzinfo=UTC)
FILL = "some words about nothing in particular that go on for quite a while without any end"


def line(ordinal: int, text: str, priority: Priority = "medium", parent: int | None = None) -> Observation:
    """Return a line of the log."""
    return Observation(
        id=f"id{ordinal}",
        group="g",
        ordinal=ordinal,
        priority=priority,
        text=text,
        said_at=START + timedelta(hours=ordinal),
        parent=parent,
        tokens=COUNTER.count(text),
    )


def size_of(parsed: ParsedReflection) -> int:
    """Return the tokens of all lines."""
    return sum(COUNTER.count(line.text) for line in parsed.lines)


def half(lines: list[Observation], share: float = 0.5, level: int = 0) -> ParsedReflection:
    """Return the lines condensed to a share of their size."""
    size = sum(observation.tokens for observation in lines)
    return reflect(ReflectInput(observations=tuple(lines), target_tokens=int(size * share), level=level), COUNTER)


def texts(parsed: ParsedReflection) -> str:
    """Return all lines as one text."""
    return "\n".join(line.text for line in parsed.lines)


LOG = [
    line(1, "User: I moved from Oslo to Turku; my dog Rex hates boats", "high"),
    line(2, f"-> {FILL}; Ferry Silja leaves at 20:15; {FILL}", parent=1),
    line(3, f"System: {FILL}", "low"),
    line(4, f"Read src/app.py; {FILL}", parent=1),
    line(5, "User confirmed: it works now (after: fixed login.ts)", "done"),
    line(6, f"-> {FILL} on {FILL}"),
]


def test_it_reaches_the_target() -> None:
    """Half the size is asked for and given; every line says which ones it stands for."""
    parsed = half(LOG)
    assert 0 < size_of(parsed) <= sum(observation.tokens for observation in LOG) // 2
    names = {f"o{number}" for number in range(1, len(LOG) + 1)}
    assert all(made.merges and set(made.merges) <= names for made in parsed.lines)
    assert parsed.faults == ()


def test_statements_and_finished_work_outlive_the_rest() -> None:
    """🔴 and ✅ are kept, 🟢 goes first."""
    parsed = half(LOG)
    by_name = {name: made for made in parsed.lines for name in made.merges}
    assert by_name["o1"].priority == "high"
    assert "Turku" in by_name["o1"].text
    assert by_name["o5"].priority == "done"
    assert not any(made.priority == "low" for made in parsed.lines)


def test_names_leave_a_trace() -> None:
    """Paths, numbers and names of what was dropped stand in one compact line."""
    parsed = half(LOG)
    for name in ("Oslo", "Turku", "Rex", "Silja", "20:15", "src/app.py", "login.ts"):
        assert name in texts(parsed)
    assert lost_from((observation.text for observation in LOG), [made.text for made in parsed.lines]) == []


def test_what_was_said_to_be_missing_is_named() -> None:
    """Names that an earlier answer lost are put back."""
    size = sum(observation.tokens for observation in LOG)
    given = ReflectInput(observations=tuple(LOG), target_tokens=size // 2, missing=("obscure_symbol",))
    assert "obscure_symbol" in texts(reflect(given, COUNTER))


def test_repetitions_become_one_line() -> None:
    """The same line three times is one that stands for three."""
    lines = [line(number, f"Bash make test: 42 passed; {FILL}") for number in (1, 2, 3)]
    parsed = half(lines)
    assert len(parsed.lines) == 1
    assert parsed.lines[0].merges == ("o1", "o2", "o3")


def test_old_is_condensed_harder_than_new() -> None:
    """Of equal lines, more is left of the newer half."""
    lines = [
        line(number, "; ".join(f"thing{number}{letter} was looked at by somebody else" for letter in "abcd"))
        for number in range(1, 21)
    ]
    parsed = half(lines)
    kept = {name: made for made in parsed.lines for name in made.merges if not made.text.startswith("Also named")}
    old = sum(len(kept[f"o{number}"].text) for number in range(1, 11) if f"o{number}" in kept)
    new = sum(len(kept[f"o{number}"].text) for number in range(11, 21) if f"o{number}" in kept)
    assert new > old


def test_dates_stay_with_their_lines() -> None:
    """The day of speaking and the day spoken of survive."""
    dated = replace(line(1, "User: I fly tomorrow (meaning 2026-03-15)", "high"), about=date(2026, 3, 15))
    parsed = half([dated, *(line(number, FILL + str(number)) for number in range(2, 8))])
    first = parsed.lines[0]
    assert (first.on, first.about) == (date(2026, 3, 14), date(2026, 3, 15))


def test_a_higher_level_says_less() -> None:
    """Each level of compression gives a result that is no larger than the one before."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    lines = [
        line(number, f"User: {letter}-fact; {' '.join(letter + word for word in FILL.split())}; and more of it", "high")
        for number, letter in enumerate(letters, 1)
    ]
    sizes = [size_of(half(lines, 0.9, level)) for level in range(5)]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[4] < sizes[0]


@pytest.mark.parametrize("target", [0, 1, 5])
def test_it_is_never_empty_and_never_larger(target: int) -> None:
    """However little room there is, something is left, and no more than there was."""
    given = ReflectInput(observations=tuple(LOG), target_tokens=target)
    parsed = reflect(given, COUNTER)
    assert 0 < size_of(parsed) <= sum(observation.tokens for observation in LOG)


def test_what_fits_stays_as_it_is() -> None:
    """A log within the target is not touched."""
    parsed = half(LOG, 1.0)
    assert parsed.lines[0].text == LOG[0].text
    assert {name for made in parsed.lines for name in made.merges} == {f"o{number}" for number in range(1, 7)}


def test_nothing_in_nothing_out() -> None:
    """There is nothing to condense in nothing."""
    assert reflect(ReflectInput(observations=(), target_tokens=10), COUNTER).lines == ()


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


def test_the_line_of_names_is_bounded() -> None:
    """What only names what was left out takes no more than it may; without a bound all names are in it."""
    lines = [
        line(number, f"-> {FILL}; wrote src/module_{number}/handler_{number}.py; {FILL}") for number in range(1, 120)
    ]
    size = sum(observation.tokens for observation in lines)
    given = ReflectInput(observations=tuple(lines), target_tokens=size // 3)
    free, bound = reflect(given, COUNTER), reflect(replace(given, trace_tokens=100), COUNTER)
    for parsed, most in ((free, size), (bound, 100)):
        traces = [made.text for made in parsed.lines if made.text.startswith(TRACE)]
        assert sum(map(COUNTER.count, traces)) <= most
    assert lost_from((observation.text for observation in lines), [texts(free)]) == []
    assert 0 < size_of(bound) < size
