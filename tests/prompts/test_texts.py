"""The wording: complete, short, versioned, and teaching what it must."""

import re

import pytest

from memolog.observer.prompt import LEVELS, MODES, VOICES, level_text, observer_system, reflector_system
from memolog.text.tokens import SplintrCounter

MOST_OBSERVER = 2_000
MOST_REFLECTOR = 2_500


@pytest.mark.parametrize("voice", VOICES)
@pytest.mark.parametrize("mode", MODES)
def test_the_instructions_are_short(mode: str, voice: str) -> None:
    """The observer's have at most 2,000 tokens, the reflector's 2,500, whatever the mode and the voice."""
    counter = SplintrCounter()
    assert 500 < counter.count(observer_system(mode, voice)) <= MOST_OBSERVER
    assert counter.count(observer_system(mode, voice, keeps_document=True)) <= MOST_OBSERVER
    assert 500 < counter.count(reflector_system(mode, voice)) <= MOST_REFLECTOR


TAUGHT: dict[str, tuple[str, ...]] = {
    "observer": (
        "asserts", "asks", "requests", "authority on their own life", "names what it replaces", "time of speaking",
        "only when it can be computed", "several lines", "only when the work is confirmed", "word for word",
        "Unusual wording is quoted", "Vague verbs become precise", "what tells them apart",
        "Names, paths, signatures, numbers", "under one parent line", "abandoned attempts", "repeat nothing",
        "no thread ids", "Only what is in the transcript", "nothing worth keeping", "🔴", "🟡", "🟢", "✅",
        "<observations>", "<current-task>", "<suggested-response>", "<thread-title>", "(meaning 2031-05-13)",
        "never becomes a wish of the user", "one to five lines for an exchange, in few words", "keeps its detail",
        "so that it could be given again", "Astra 90 €, loud; Bela 120 €, pool", "what was done, not how well",
        "what blocks the work", "constraints that must hold", "lines about one feature", "Never answer a message",
    ),
    "observer of code": (
        "files, with what was read in them or changed", "functions and classes with their signatures", "imports",
        "environment variables and config values", "fields with their types", "with versions", "commands with their outcome",
        "git operations", "feedback from reviews", "lines of one feature area together",
        # Each with an example.
        "`rates.csv`", "`vat_of(net: Decimal) -> Decimal`", "`httpx 0.27`", "`TAX_REGION=BE`", "`iban: str | None`",
        "`make lint`: 3 errors", "commit 4f2a9bc", "reviewer wants",
    ),
    "reflector": (
        "Join what belongs together", "draws the conclusion where the lines support it", "kept Redis",
        "Every 🔴 and ✅ line stays",
        'its "not" or "never"', "say what it replaced", "merge them by subject", "a list of bare names helps nobody",
        "Old is condensed harder", "repeated runs become one",
    ),
}  # fmt: skip


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("who", TAUGHT)
def test_the_rules_are_taught(who: str, mode: str) -> None:
    """Each rule that the log depends on is in the instructions of every mode; of work on code, what is kept is listed."""
    system = reflector_system if who == "reflector" else observer_system
    text = system(mode, "coding" if who == "observer of code" else "general")
    assert [rule for rule in TAUGHT[who] if rule not in text] == []


@pytest.mark.parametrize("tag", ["current-task", "suggested-response", "thread-title", "off-track", "working-memory"])
def test_examples_are_filled(tag: str) -> None:
    """No section explains itself inside its tags: a small model copies what stands there."""
    systems = [observer_system("default", "coding", keeps_document=True), reflector_system("default", "coding")]
    filled = [body for system in systems for body in re.findall(rf"<{tag}>(.*?)</{tag}>", system, re.DOTALL)]
    assert filled
    for body in filled:
        assert re.search(r"VAT|flour|MariaDB", body)


def test_modes_and_voices_differ_and_keep_the_format() -> None:
    """A mode changes what is looked for, never the format."""
    systems = {observer_system(mode, voice) for mode in MODES for voice in VOICES}
    assert len(systems) == len(MODES) * len(VOICES)
    assert len({system.partition("# Setting")[0] for system in systems}) == 1


def test_instructions_of_the_application_come_last_under_a_heading() -> None:
    """They are added, never mixed in; blanks add nothing."""
    plain = observer_system("default", "coding")
    assert observer_system("default", "coding", " Mind the budget. ") == (
        f"{plain}\n\n# Instructions of this application\n\nMind the budget."
    )
    assert observer_system("default", "coding", "  \n") == plain
    assert "# Instructions of this application\n\nMind the budget." in reflector_system(
        "default", "coding", "Mind the budget."
    )


def test_levels_ask_for_less_and_less() -> None:
    """Each says that the last answer was too long, except the first, and except where that answer left out too much."""
    texts = [level_text(level) for level in LEVELS]
    assert ["too long" in text for text in texts] == [False, True, True, True, True]
    assert not any("too long" in level_text(level, said_too_long=False) for level in LEVELS)
    assert "parts in 10" not in texts[0]
    assert [re.findall(r"about (\d) parts", text) for text in texts[1:]] == [["8"], ["6"], ["4"], ["2"]]
