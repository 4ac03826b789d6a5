"""What is new in a list that a caller hands in: the whole conversation, its end, or only what is new."""

from collections.abc import Sequence

import pytest

from memolog import AssistantMessage, NewMessage, ReasoningPart, TextPart, ToolCallPart, ToolMessage, UserMessage
from memolog.adapters.alignment import after_last_answer, align

U, A = UserMessage, AssistantMessage
CALL = AssistantMessage([ReasoningPart(text="hm"), TextPart(text="I look."), ToolCallPart(id="c1", name="look")])
ECHOED = AssistantMessage([TextPart(text="I look.\n"), ToolCallPart(id="c1", name="look", arguments="{}")])
FOUND = ToolMessage("c1", "42")


@pytest.mark.parametrize(
    ("stored", "given", "count"),
    [
        pytest.param([], [U("a")], 1, id="the first message"),
        pytest.param([], [U("a"), A("b"), U("c")], 3, id="a history that nobody has saved"),
        pytest.param([U("a"), A("b")], [U("c")], 1, id="only what is new"),
        pytest.param([U("a"), A("b")], [U("a"), A("b"), U("c")], 1, id="the whole conversation"),
        pytest.param([U("a"), A("b"), U("c"), A("d")], [A("d"), U("e")], 1, id="its end"),
        pytest.param([U("a"), A("b")], [U("a")], 1, id="the same words again, after an answer"),
        pytest.param([U("a"), A("b"), U("c")], [U("c")], 0, id="a failed request again"),
        pytest.param([U("a"), A("b"), U("c")], [U("a"), A("b"), U("c")], 0, id="the whole of it again"),
        pytest.param([U("a"), A("b"), U("c")], [U("d")], 1, id="something else after a failed request"),
        pytest.param([U("a"), A("b"), U("c")], [U("a"), A("b"), U("c"), U("d")], 1, id="one more after a failed one"),
        pytest.param([U("a"), CALL], [FOUND], 1, id="a result"),
        pytest.param([U("a"), CALL], [U("a"), ECHOED, FOUND], 1, id="a result, with the call echoed otherwise"),
        pytest.param(
            [U("a"), CALL, FOUND], [U("a"), ECHOED, ToolMessage("c1", "4…")], 0, id="a result again, cut short"
        ),
        pytest.param(
            [U("a"), A("ok"), U("b"), A("ok")], [U("a"), A("ok"), U("b"), A("ok"), U("c")], 1, id="like answers"
        ),
        pytest.param([U("x"), A("y"), U("a"), A("b")], [U("x"), A("y"), U("c")], 1, id="the same examples each time"),
        pytest.param([U("a"), A("b"), U("c"), A("d")], [U("a"), A("b"), U("c")], 1, id="an answer asked for again"),
        pytest.param([U("a"), A("b")], [U("z"), A("changed"), U("c")], 3, id="a history that the store does not know"),
    ],
)
def test_only_what_is_new(stored: Sequence[NewMessage], given: Sequence[NewMessage], count: int) -> None:
    """The rule finds how many messages at the end of the list are to be saved."""
    assert align(given, stored).new == tuple(given[len(given) - count :])


def test_what_is_said_again() -> None:
    """The end of what is stored that nobody has answered, if the list has it too."""
    stored = [U("a"), A("b"), U("c"), U("d")]

    def repeated(*given: NewMessage) -> int:
        return align(given, stored).repeated

    assert repeated(U("c"), U("d")) == repeated(U("a"), A("b"), U("c"), U("d")) == 2
    assert repeated(U("d")) == 1
    assert repeated(U("e")) == 0


def test_without_a_store_the_end_is_new() -> None:
    """What follows the last answer is new at the least."""
    assert after_last_answer([U("a"), A("b"), U("c")]) == (U("c"),)
    assert after_last_answer([U("a")]) == (U("a"),)
