"""What modes look for by code, and the fields that lines carry."""

from datetime import UTC, datetime

import pytest

from kit.rows import row
from memolog.core.setting_kinds import Mode
from memolog.observer.drafts import Draft, Parsed
from memolog.observer.prompt import with_fields, with_findings
from memolog.observer.reply import parse_observations
from prompts.corpus import BASE, SHOWN

AT = datetime(2026, 3, 14, 9, 0, tzinfo=UTC)


def line(text: str, **fields: object) -> Draft:
    """Return a line of an observer."""
    return Draft(priority="medium", text=text, said_at=AT, **fields)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("mode", "text", "category", "fields"),
    [
        (
            "bug_fixing",
            "TypeError: x is undefined at src/app.ts:12:7, root cause: the list is empty",
            "error",
            {"error_type": "TypeError", "stack_trace": "src/app.ts:12:7", "root_cause": "the list is empty"},
        ),
        ("debugging", "The worker hangs after 30 s", "finding", {"symptom": "The worker hangs after 30 s"}),
        ("explore", "Searched the repo: no results for retry_policy", "gap", {"not_found": "retry_policy"}),
        ("research", "Limits are given at https://example.org/limits", "source", {"sources": "https://example.org/limits"}),
        ("testing", "pytest: 42 passed, 2 failed", "test", {"tests": "42 passed, 2 failed"}),
        ("testing", "The coverage is 81.5 % now", "test", {"coverage": "81.5 %"}),
        ("refactoring", "Renamed vat_of to tax_of; this breaks the CLI", "change", {"breaks": "the CLI"}),
        ("default", "TypeError: x is undefined at src/app.ts:12:7", None, {}),
        ("testing", "Lunch was good", None, {}),
    ],
)  # fmt: skip
def test_a_mode_fills_its_fields(mode: Mode, text: str, category: str | None, fields: dict[str, str]) -> None:
    """What the words of a line say is a field too; a mode that looks for nothing changes nothing."""
    filled = with_fields(line(text), mode)
    assert (filled.category, dict(filled.metadata), filled.text) == (category, fields, text)


def test_what_a_line_says_of_itself_stays() -> None:
    """Code adds missing fields and does not change existing ones."""
    given = line("TypeError: no", category="finding", metadata={"error_type": "mine", "owner": "Anna"})
    filled = with_fields(given, "debugging")
    assert (filled.category, filled.metadata) == ("finding", {"error_type": "mine", "owner": "Anna"})


def test_sentences_that_no_line_holds_are_added() -> None:
    """Each cites its message; what a line says already is not said again, and a mode without a search adds nothing."""
    spoken = [
        row(1, "user", "ValueError: is what I see"),
        row(2, "assistant", "I ran it. It raised KeyError: 'vat' in rates. Shall I go on?"),
        row(3, "tool", "ok\n> ValueError: bad row 12\nbye"),
    ]
    parsed = Parsed(observations=(line("Result: ValueError: bad row 12 was seen"),))
    added = with_findings(parsed, spoken, "bug_fixing").observations[1:]
    assert [(one.text, one.cites) for one in added] == [("Assistant: It raised KeyError: 'vat' in rates.", (2,))]
    assert with_findings(parsed, spoken, "default") is parsed
    nothing = with_findings(Parsed(nothing=True), spoken, "debugging")
    assert (len(nothing.observations), nothing.nothing) == (2, False)


def test_what_is_added_is_bounded() -> None:
    """The number and the length of added sentences are limited."""
    text = "\n".join(f"Error{n}Error: {'x' * 1_000}" for n in range(50))
    spoken = [row(n, "tool", text.replace("Error: ", f"Error: {n} ")) for n in range(1, 40)]
    added = with_findings(Parsed(), spoken, "debugging").observations
    assert len(added) == 20
    assert max(len(one.text) for one in added) <= 320
    assert [one.cites for one in added[:4]] == [(1,), (1,), (1,), (2,)]


# ---------------------------------------------------------------- fields in braces


@pytest.mark.parametrize(
    ("text", "left", "fields"),
    [
        ("It failed {errorType=KeyError; stackTrace=a.py:3}", "It failed", {"error_type": "KeyError", "stack_trace": "a.py:3"}),
        ("Searched {category=gap; notFound=retry policy}", "Searched", {"not_found": "retry policy"}),
        ("It failed {category=error; severity=high; Sprint-Goal=go}", "It failed", {"severity": "high", "sprint_goal": "go"}),
        ("User is vegan {dietKind=strict}", "User is vegan", {"diet_kind": "strict"}),
        ("Config is {debug: true}", "Config is {debug: true}", {}),
        ("It failed {category: error; owner: Anna}", "It failed", {"owner": "Anna"}),
        ("Set {1, 2, 3}", "Set {1, 2, 3}", {}),
        ("It is {category=fact; mode=forged; ungrounded=no}", "It is", {}),
    ],
)  # fmt: skip
def test_fields_in_braces(text: str, left: str, fields: dict[str, str]) -> None:
    """Known names have one spelling, unknown ones are free fields, code stays in the text, and only code sets what is ours."""
    (draft,) = parse_observations(f"* 🟡 {text} [3]", SHOWN, base=BASE).observations
    assert (draft.text, draft.metadata) == (left, fields)


def test_fields_of_json_replies() -> None:
    """Fields beside the line, or in a `metadata` of their own."""
    reply = '[{"text": "it failed", "cites": [3], "error_type": "KeyError", "metadata": {"severity": 2}, "notFound": "x y"}]'
    (draft,) = parse_observations(reply, SHOWN, base=BASE).observations
    assert (draft.text, draft.cites) == ("it failed", (3,))
    assert draft.metadata == {"error_type": "KeyError", "severity": "2", "not_found": "x y"}
