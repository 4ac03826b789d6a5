"""Properties of the embedded observer and reflector: they never raise, and the same input gives the same result."""

from dataclasses import replace
from datetime import date

from hypothesis import given, settings
from hypothesis import strategies as st

from core.strategies import messages, observations, texts
from kit.forgery import forged
from kit.rows import line, rendered
from memolog.core.message import Message, Role, TextPart
from memolog.core.observation import Observation
from memolog.observer.extractive.observer import observe
from memolog.observer.extractive.reflector import reflect
from memolog.observer.extractive.relative_dates import dated
from memolog.observer.prompt import ObserveInput, ReflectInput, observer_prompt
from memolog.observer.reply import failure
from memolog.text.tokens import HeuristicCounter

COUNTER = HeuristicCounter()
spans = st.lists(messages, max_size=5).map(tuple)
logs = st.lists(observations, max_size=6).map(tuple)
WORDS = "I my the Ann Lisbon 42 likes yesterday ago ? 今天 </observations> error:"
PHRASES = ("on Friday", "- item:", "**Head**:", "\n", ". ", "; ", "| a | b |\n", "```\n", "def f():\n")
MARKED = ("* 🔴 (09:00) x [1]", "a.go:1:2: bad")
prose = st.lists(st.sampled_from((*WORDS.split(), *PHRASES, *MARKED)), max_size=60).map(" ".join)


@given(span=spans, previous=texts)
@settings(max_examples=200, deadline=None)
def test_any_messages_become_lines(span: tuple[Message, ...], previous: str) -> None:
    """The result is valid and the same again. Each observation is one line and cites only shown messages."""
    given_ = ObserveInput(messages=span, previous=previous)
    parsed = observe(given_)
    assert parsed == observe(given_)
    assert failure(parsed) is None
    assert parsed.nothing is (parsed.observations == ())
    numbers = {shown.number for shown in observer_prompt(given_, COUNTER).shown}
    for place, draft in enumerate(parsed.observations):
        assert draft.text.strip()
        assert "\n" not in draft.text
        assert draft.cites
        assert set(draft.cites) <= numbers
        assert draft.parent is None or draft.parent < place
        draft.text.encode()


@given(talk=st.lists(st.tuples(prose, st.sampled_from(("user", "assistant", "tool"))), max_size=5), seed=messages)
@settings(max_examples=200, deadline=None)
def test_users_are_only_spoken_for_by_their_own_words(talk: list[tuple[str, Role]], seed: Message) -> None:
    """A line of high priority, or one that begins with "User:", cites a message of a user and no message of a tool."""
    rows = tuple(spoken(seed, number, role, text) for number, (text, role) in enumerate(talk, 1))
    for draft in observe(ObserveInput(messages=rows)).observations:
        if draft.priority == "high" or draft.text.startswith("User:"):
            roles = {rows[number - 1].role for number in draft.cites}
            assert "user" in roles
            assert "tool" not in roles


def spoken(seed: Message, seq: int, role: Role, text: str) -> Message:
    """Return a message of plain text."""
    return replace(seed, seq=seq, role=role, own=False, state="live", parts=(TextPart(text=text),))


@given(said=st.lists(prose, min_size=1, max_size=4), seed=messages)
@settings(max_examples=200, deadline=None)
def test_text_that_imitates_the_log_stays_text(said: list[str], seed: Message) -> None:
    """No message can open or close a tag of the log."""
    rows = tuple(spoken(seed, number, "user", text) for number, text in enumerate(said, 1))
    parsed = observe(ObserveInput(messages=rows))
    made = [line(one.text, priority=one.priority, ordinal=n) for n, one in enumerate(parsed.observations, 1)]
    shown = rendered(made)
    assert shown.count("</observations>") == (1 if made else 0)
    assert not forged("\n".join(shown.split("\n")[1:-1]))


@given(log=logs, target=st.integers(min_value=0, max_value=400), level=st.integers(min_value=0, max_value=4))
@settings(max_examples=200, deadline=None)
def test_any_log_is_condensed(log: tuple[Observation, ...], target: int, level: int) -> None:
    """The result is the same again, not empty and not larger, and each line lists the lines that it replaces."""
    given_ = ReflectInput(observations=log, target_tokens=target, level=level)
    parsed = reflect(given_, COUNTER)
    assert parsed == reflect(given_, COUNTER)
    assert bool(parsed.lines) is bool(log)
    names = {f"o{number}" for number in range(1, len(log) + 1)}
    assert all(line.merges and set(line.merges) <= names for line in parsed.lines)
    assert all(line.parent is None or line.parent < place for place, line in enumerate(parsed.lines))
    before = sum(COUNTER.count(observation.text) for observation in log)
    assert sum(COUNTER.count(line.text) for line in parsed.lines) <= before


@given(text=st.one_of(texts, prose), said=st.dates())
@settings(max_examples=300, deadline=None)
def test_dating_only_adds(text: str, said: date) -> None:
    """Dates are only added to a text, and a second call adds nothing."""
    once = dated(text, said)
    left = iter(once.text)
    assert all(character in left for character in text)
    assert dated(once.text, said).text == once.text
