"""One message made to fit: what is shown of it, what it says is missing, and that it is always the same."""

from dataclasses import replace

import pytest

from kit.rows import COUNTER, counted
from kit.rows import row as kit_row
from memolog.context.tail import LEAST_SHOWN, shortened
from memolog.core.message import (
    FilePart,
    Message,
    Part,
    ReasoningPart,
    Role,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    UnknownPart,
)
from memolog.text.tokens import TokenCounter

LONG = "begin " + "Wort für Wort 🙂 " * 2_000 + " end"


def row(role: Role, *parts: Part, counter: TokenCounter = COUNTER) -> Message:
    """Return a stored row with its tokens."""
    return counted(kit_row(1, role, *parts, id="m-1"), counter)


class Words:
    """A counter of another kind: one token a word."""

    def count(self, text: str) -> int:
        """Return the number of words."""
        return len(text.split())


@pytest.mark.parametrize("counter", [COUNTER, Words()])
@pytest.mark.parametrize("most", [100, 1_000, 3_000])
def test_text_keeps_its_ends(counter: TokenCounter, most: int) -> None:
    """Beginning and end are there, the middle is counted, the whole fits, and the row that was given stays as it was."""
    message = row("user", TextPart(text=LONG, extra={"x": LONG}), counter=counter)
    short = shortened(message, most, counter)
    text = short.text
    assert text.startswith("begin ")
    assert text.endswith(" end")
    head, _, rest = text.partition("\n[… ")
    mark, _, tail = rest.partition(" …]\n")
    assert int(mark.split()[0].replace(",", "")) == len(LONG) - len(head) - len(tail)
    assert "recall the message m-1" in mark
    assert most // 2 < short.tokens <= most
    assert short.parts[0].extra is None
    assert shortened(message, most, counter) == short
    assert message.text == LONG


def test_what_fits_is_the_very_same() -> None:
    """So is what is too short to be cut, what was withdrawn, and what a summary stands for."""
    message = row("user", TextPart(text=LONG))
    assert shortened(message, message.tokens, COUNTER) is message
    small = row("user", TextPart(text="x" * 4 * (LEAST_SHOWN - 4)))
    assert shortened(small, 1, COUNTER) is small
    for other in (replace(message, state="withdrawn"), replace(message, level=1, injection="short")):
        assert shortened(other, 100, COUNTER) is other


def test_calls_and_results_stay_what_they_are() -> None:
    """Ids and names remain, arguments remain an object, and what is small beside them is whole."""
    call = row("assistant", TextPart(text="I write"), ToolCallPart(id="c", name="write", arguments={"text": LONG}))
    said, cut = shortened(call, 500, COUNTER).parts
    assert said == TextPart(text="I write")
    assert isinstance(cut, ToolCallPart)
    assert (cut.id, cut.name) == ("c", "write")
    assert isinstance(cut.arguments, dict)
    assert '{"text":"begin ' in str(cut.arguments["left_out"])
    image = FilePart(media_type="application/pdf", data=b"x" * 400_000, name="plan.pdf", pages=300)
    results = (
        ToolResultPart(call_id="a", content={"lines": [LONG]}, is_error=True),
        ToolResultPart(call_id="b", content="short"),
        ToolResultPart(call_id="d", content="see the file", files=(image,)),
    )
    short = shortened(row("tool", *results), 600, COUNTER)
    first, second, third = short.parts
    assert isinstance(first, ToolResultPart)
    assert isinstance(third, ToolResultPart)
    assert (first.call_id, first.is_error) == ("a", True)
    assert '{"lines":["begin ' in str(first.content)
    assert second == results[1]
    assert (third.call_id, third.files) == ("d", ())
    assert "see the file" in str(third.content)
    assert "A file (plan.pdf application/pdf) is left out here" in str(third.content)
    assert short.tokens <= 600


def test_what_cannot_be_cut_is_named_or_left_out() -> None:
    """Files and unknown parts are named; a thought that does not fit is left out; something is always shown."""
    file = FilePart(media_type="application/pdf", data=b"x" * 400_000, pages=300)
    (named,) = shortened(row("user", file), 200, COUNTER).parts
    assert isinstance(named, TextPart)
    assert "A file (application/pdf) is left out here" in named.text
    (unknown,) = shortened(row("user", UnknownPart(data={"blob": LONG})), 200, COUNTER).parts
    assert isinstance(unknown, TextPart)
    assert "characters are left out here" in unknown.text
    thought = ReasoningPart(text=LONG, signature="s")
    assert shortened(row("assistant", thought, TextPart(text="done")), 200, COUNTER).parts == (TextPart(text="done"),)
    assert shortened(row("assistant", thought), 200, COUNTER).text.startswith("[… ")


def test_a_mark_never_takes_the_place_of_something_shorter() -> None:
    """Thirty short calls do not fit: their arguments are shorter than the words that would say that they are left out."""
    calls = tuple(
        ToolCallPart(id=f"c{number}", name="read", arguments={"path": f"src/{number}.py"}) for number in range(30)
    )
    message = row("assistant", *calls)
    assert shortened(message, 100, COUNTER).parts == calls
