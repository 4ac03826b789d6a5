"""Whatever a model answers, reading it never raises, ends, and keeps the rules of what a draft is."""

import random
from collections.abc import Callable
from datetime import timedelta, timezone

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memolog.observer.drafts import MOST_LINE, Parsed
from memolog.observer.reply import failure, parse_batch, parse_observations, parse_reflection
from prompts.corpus import BASE, CASES, SHOWN

FRAGMENTS = (
    "<observations>", "</observations>", "<current-task>", "</current-task>", "<thread-title>", "<think>", "</think>",
    '<thread id="t1">', "</thread>", "* ", "- ", "  * ", "\t* ", "1. ", "🔴 ", "🟡", "✅", "(09:15) ", "(25:99)", "[3]",
    "[3-", "[1-9999999]", "【2】", "(meaning 2026-03-20)", "(meaning 2026-99-99)", "Date: 2026-03-14", "Date: 0000-00-00",
    "-> ", "| ", "```", "```json\n", "{", "}", '{"observations":[', '{"text":"a"}', "[", "]", '"', "{category=x}", "&lt;",
    "&amp;", "\n", "\n\n", "\r\n", "\u2028", "\x00", "\ud800", "İ", "ß", "٣", "好", "e\u0301", "word ", "**", "# ", "---",
    "nothing worth keeping", "I'm sorry, but I can't", "o1", "[o1,o2]", "<|im_end|>", "`", "\\", "%s", "9" * 30,
)  # fmt: skip
replies = st.one_of(
    st.text(max_size=400),
    st.lists(st.one_of(st.sampled_from(FRAGMENTS), st.text(max_size=6)), max_size=60).map("".join),
)


def check(parsed: Parsed, reply: str) -> None:
    """Assert what holds for every reply."""
    for place, draft in enumerate(parsed.observations):
        assert draft.text.strip() == draft.text != ""
        assert "\n" not in draft.text
        assert len(draft.text) <= MOST_LINE
        assert draft.said_at.tzinfo is not None
        assert draft.parent is None or 0 <= draft.parent < place
        assert set(draft.cites) <= {shown.number for shown in SHOWN}
        assert list(draft.cites) == sorted(set(draft.cites))
        # A tag that the reply wrote with an entity was talked about, and is escaped again where the line is shown.
        assert "</observations>" not in draft.text or "&lt;" in reply
        draft.text.encode()
    assert not (parsed.nothing and parsed.observations)
    assert bool(parsed.observations) or parsed.nothing or failure(parsed) is not None


@settings(max_examples=600, deadline=None)
@given(reply=replies)
def test_reading_never_raises(reply: str) -> None:
    """Any text is read, by each of the three readers."""
    check(parse_observations(reply, SHOWN, base=BASE.astimezone(timezone(timedelta(hours=-5)))), reply)
    assert all(merged in {"o1", "o2"} for line in parse_reflection(reply, 2).lines for merged in line.merges)
    batch = parse_batch(reply, SHOWN, aliases={"t1": "t", "t2": "u"}, base=BASE)
    assert batch.keys() == {"t", "u"}
    check(batch["t"], reply)


@pytest.mark.parametrize("case", [case for case in CASES if len(case.reply) < 1_000], ids=lambda case: case.name)
def test_every_reply_may_be_cut_off_anywhere(case: object) -> None:
    """However much of a reply arrives, it is read, and its lines are those of the whole or a beginning of them."""
    reply: str = getattr(case, "reply", "")
    for end in range(len(reply)):
        check(parse_observations(reply[:end], SHOWN, base=BASE), reply)


def test_without_messages_and_at_the_edge_of_time() -> None:
    """No message, and a moment that no other zone has, are no reason to raise."""
    first = BASE.replace(year=1, month=1, day=1, hour=0, tzinfo=timezone(timedelta(hours=12)))
    parsed = parse_observations("* 🔴 (09:15) tea [1]", [], base=first)
    assert [draft.text for draft in parsed.observations] == ["tea"]
    assert parsed.observations[0].cites == ()


def noise(seed: int, size: int) -> str:
    """Return text that repeats nothing for long."""
    dice = random.Random(seed)
    pieces: list[str] = []
    length = 0
    while length < size:
        piece = dice.choice(FRAGMENTS) + str(dice.random())
        pieces.append(piece)
        length += len(piece)
    return "".join(pieces)


HUGE: dict[str, Callable[[], str]] = {
    "one letter": lambda: "a" * 10_000_000,
    "line ends": lambda: "\n" * 10_000_000,
    "brackets": lambda: "[" * 10_000_000,
    "open tags": lambda: "<observations>" * 700_000,
    "thoughts": lambda: "<think>\n" * 1_200_000,
    "torn JSON": lambda: '{"a":' * 2_000_000,
    "noise": lambda: noise(1, 10_000_000),
    "words": lambda: "\n".join(f"* w{number} x{number * 7}" for number in range(600_000)),
    "kept text": lambda: "* a\n" + "\n".join(f"| {number}" for number in range(1_200_000)),
    "digits in a bracket": lambda: "* a [" + "1" * 40_000 + "\n* b [" + "1 " * 20_000,
}


@pytest.mark.parametrize("name", HUGE)
def test_huge_replies_are_read_and_refused(name: str) -> None:
    """Ten megabytes are read like one, and never become memory."""
    reply = HUGE[name]()
    parsed = parse_observations(reply, SHOWN, base=BASE)
    check(parsed, reply)
    assert failure(parsed) is not None
    assert len(parsed.observations) <= 2_000
