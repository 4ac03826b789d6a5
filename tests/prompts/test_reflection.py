"""Replies of reflectors: which lines they stand for, and when they must not replace anything."""

from datetime import date, time

import pytest

from memolog.observer.reply import failure, parse_reflection

REPLY = """<observations>
Date: 2026-03-14
* 🔴 (09:15) User's ledger moved from MySQL 8 to MariaDB 11.4 (meaning 2026-03-20) [o1,o4]
* ✅ t2: VAT total fixed {category=change; file=rates.csv:12} [o2, o5-o7]
  | row 12
</observations>
<off-track>The work drifted to fonts; return to the VAT return.</off-track>
<current-task>file the return</current-task>"""


def test_a_good_reply() -> None:
    """Lines, what they merge, dates, kept text, hints and the way back to the track."""
    parsed = parse_reflection(REPLY, 8)
    first, second = parsed.lines
    assert (first.priority, first.merges, first.on, first.at) == ("high", ("o1", "o4"), date(2026, 3, 14), time(9, 15))
    assert first.about == date(2026, 3, 20)
    assert (second.priority, second.merges, second.at) == ("done", ("o2", "o5", "o6", "o7"), None)
    assert (second.text, second.verbatim, second.category, second.files) == (
        "t2: VAT total fixed",
        "row 12",
        "change",
        ("rates.csv",),
    )
    assert parsed.hints.off_track == "The work drifted to fonts; return to the VAT return."
    assert parsed.hints.current_task == "file the return"
    assert parsed.faults == {}
    assert failure(parsed) is None


@pytest.mark.parametrize(
    ("line", "merges"),
    [
        ("* 🔴 text [1, 2]", ("o1", "o2")),
        ("* 🔴 text (merges o1, o2)", ("o1", "o2")),
        ("* 🔴 text [from o3 to o5]", ("o3", "o4", "o5")),
        ("* o3 🔴 text [o3]", ("o3",)),
        ("o3: text [o3 and o4]", ("o3", "o4")),
        ("* 🔴 text [o2][o1]", ("o1", "o2")),
        ("* 🔴 text [o99]", ()),
        ("* 🔴 text [o1,o99]", ("o1",)),
        ("* 🔴 text", ()),
    ],
)
def test_ids_in_many_forms(line: str, merges: tuple[str, ...]) -> None:
    """However the ids are written, only those that were shown count, others are a fault, and the text is the same."""
    parsed = parse_reflection(f"<observations>\n{line}\n</observations>", 8)
    assert [(read.text, read.merges) for read in parsed.lines] == [("text", merges)]
    assert ("unknown_citation" in parsed.faults) is ("o99" in line)


@pytest.mark.parametrize("word", ["no", "None.", "N/A", "on track", ""])
def test_on_track_is_no_news(word: str) -> None:
    """A section that says that all is well says nothing."""
    parsed = parse_reflection(f"<observations>* tea [o1]</observations><off-track>{word}</off-track>", 8)
    assert parsed.hints.off_track is None


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "<observations></observations>",
        "nothing worth keeping",
        "I'm sorry, but I can't do that.",
        "* tea [o1]\n" * 300,
    ],
)
def test_no_reflection_by_nothing(reply: str) -> None:
    """Unlike an observer, a reflector never has nothing to say: memory is not replaced by silence."""
    parsed = parse_reflection(reply, 8)
    assert parsed.lines == ()
    assert failure(parsed) is not None


def test_json_instead() -> None:
    """Reflectors answer in JSON too."""
    parsed = parse_reflection('{"reflections": [{"text": "tea", "merges": ["o1", "o2"], "priority": "low"}]}', 8)
    assert [(line.text, line.merges, line.priority) for line in parsed.lines] == [("tea", ("o1", "o2"), "low")]
