"""Find the new messages in the list of a client, and the message to which the client went back."""

from dataclasses import replace

import pytest
from hypothesis import given as drawn
from hypothesis import strategies as st

from kit.rows import row
from memolog import AssistantMessage, NewMessage, ReasoningPart, TextPart, ToolCallPart, ToolMessage, UserMessage
from memolog.adapters.alignment import CUT, Aligned, after_last_answer, align
from memolog.core.message import Message

Short = str


def made(short: Short) -> NewMessage:
    """Return the message for `u:text`, `a:text`, `c:id,id` (calls), `r:id` (a result), or `echo:id,id` and `cut:id`.

    A client may send calls and a result back in another form, which are `echo` and `cut`.
    """
    kind, _, text = short.partition(":")
    ids = text.split(",")
    match kind:
        case "u":
            return UserMessage(text)
        case "a":
            return AssistantMessage(text)
        case "c":
            return AssistantMessage(
                [ReasoningPart(text="hm"), "I look.", *(ToolCallPart(id=one, name="look") for one in ids)]
            )
        case "echo":
            calls = [ToolCallPart(id=one, name="look", arguments="{}") for one in ids]
            return AssistantMessage(["I look.\n", *calls])
        case _:
            return ToolMessage(text, "found" if kind == "r" else "fo…")


def rows(*shorts: Short) -> list[Message]:
    """Return the messages as stored rows."""
    return [row(seq, one.role, *one.parts, id=f"m{seq}") for seq, one in enumerate(map(made, shorts), 1)]


TWO = ("u:one", "a:1", "u:two", "a:2")
ONCE_MORE = (*TWO, "u:one", "a:1 more")
YES = ("u:yes", "a:1", "u:yes", "a:2", "u:yes", "a:3")
OK = ("u:yes", "a:ok", "u:yes", "a:ok", "u:yes", "a:ok")
SAME = tuple(short for n in "123" for short in ("u:go", f"c:{n}", f"r:{n}", "a:done"))
TOOLS = ("u:one", "c:x", "r:x", "a:1")


@pytest.mark.parametrize(
    ("stored", "given", "new", "rewind_to"),
    [
        pytest.param((), ("u:one",), ("u:one",), None, id="the first message"),
        pytest.param(TWO, (*TWO, "u:three"), ("u:three",), None, id="the whole conversation"),
        pytest.param(TWO, ("u:two", "a:2", "u:three"), ("u:three",), None, id="its end"),
        pytest.param(TWO, ("a:2", "u:three"), ("u:three",), None, id="its last answer"),
        pytest.param(TWO, ("u:three",), ("u:three",), None, id="only what is new"),
        pytest.param(TWO, ("u:one", "a:1", "u:two", "a:edited", "u:three"), ("u:three",), None, id="an edited answer"),
        pytest.param(TWO, ("u:one", "a:?", "u:two", "a:?", "u:three"), ("u:three",), None, id="every answer changed"),
        pytest.param((*TWO, "u:three"), (*TWO, "u:three"), (), None, id="a repeated request"),
        pytest.param((*TWO, "u:three"), ("u:three",), (), None, id="a repeated request alone"),
        pytest.param((*TWO, "u:three"), ("u:four",), ("u:four",), None, id="another question after a failed request"),
        pytest.param((*TWO, "u:three"), (*TWO, "u:three", "u:four"), ("u:four",), None, id="one more question"),
        pytest.param(TWO, ("u:one", "a:1", "u:two"), (), 3, id="another answer"),
        pytest.param(TWO, ("u:one", "a:1", "u:2nd"), ("u:2nd",), 2, id="an edited question"),
        pytest.param((*TWO, "u:three", "a:3"), ("u:one", "a:1", "u:x"), ("u:x",), 2, id="two exchanges back"),
        pytest.param((*TWO, "u:three"), (*TWO, "u:3rd"), ("u:3rd",), 4, id="an unanswered question edited"),
        pytest.param(("u:one", "a:1"), ("u:one",), ("u:one",), None, id="the first question again, alone"),
        pytest.param(("u:one", "a:1"), ("u:edited",), ("u:edited",), None, id="an edited first question looks new"),
        pytest.param(TWO, ("u:one",), ("u:one",), None, id="the first question again, later"),
        pytest.param(
            ("u:go", "a:1", "u:go", "a:2"), ("u:go", "a:1", "u:go", "a:2", "u:go"), ("u:go",), None, id="alike"
        ),
        pytest.param(("u:go", "a:1", "u:go", "a:2"), ("u:go", "a:1", "u:go"), (), 3, id="alike, another answer"),
        pytest.param(
            ("u:one", "a:ok", "u:two", "a:ok"),
            ("u:one", "a:ok", "u:two", "a:ok", "u:x"),
            ("u:x",),
            None,
            id="equal answers",
        ),
        pytest.param(TOOLS[:2], TOOLS[:3], ("r:x",), None, id="a result"),
        pytest.param(TOOLS[:3], TOOLS[:3], (), None, id="a result again"),
        pytest.param(TOOLS[:2], ("u:one", "echo:x", "r:x"), ("r:x",), None, id="a result, the call in another form"),
        pytest.param(TOOLS[:3], ("u:one", "echo:x", "cut:x"), (), None, id="a result again, cut short"),
        pytest.param(TOOLS[:2], ("r:x",), ("r:x",), None, id="only a result"),
        pytest.param(TOOLS, TOOLS[:3], (), 3, id="another answer to a result"),
        pytest.param(
            ("u:one", "c:x,y", "r:x", "a:1"), ("u:one", "c:x,y", "r:x", "r:y"), ("r:y",), 3, id="a late parallel result"
        ),
        pytest.param(
            ("u:one", "c:x,y,z", "r:x", "a:1"),
            ("u:one", "echo:x,y,z", "r:x", "r:y", "r:z"),
            ("r:y", "r:z"),
            3,
            id="two late parallel results",
        ),
        pytest.param(TOOLS, (*TOOLS, "u:two"), ("u:two",), None, id="after tools"),
        pytest.param(TOOLS, TOOLS[:1], TOOLS[:1], None, id="the first question again, after tools"),
        pytest.param((*TWO, *SAME[:4]), (*TWO, "u:go"), (), 5, id="another answer instead of tools"),
        pytest.param(SAME, (*SAME[:8], "u:x"), ("u:x",), 8, id="equal questions with tools, the third edited"),
        pytest.param((*SAME, "u:y", "a:z"), (*SAME[:8], "u:x"), ("u:x",), 8, id="the same, with one more question"),
        pytest.param(SAME, SAME[:9], (), 9, id="equal questions with tools, another third answer"),
        pytest.param(SAME, (*SAME[4:], "u:x"), ("u:x",), None, id="the end of equal questions with tools"),
        pytest.param(SAME[:10], SAME[:11], ("r:3",), None, id="a result after equal questions"),
        pytest.param(
            (*TOOLS, "u:one", "c:x"), (*TOOLS, "u:one", "c:x", "r:x"), ("r:x",), None, id="a model that repeats ids"
        ),
        pytest.param(
            ("u:one", "c:x", "r:x", "c:x"), ("u:one", "c:x", "r:x", "c:x", "r:x"), ("r:x",), None, id="ids, at once"
        ),
        pytest.param(ONCE_MORE, ("u:one", "a:1 more", "u:x"), ("u:x",), None, id="after another first answer"),
        pytest.param(
            (*ONCE_MORE, "u:x", "a:3"),
            ("u:one", "a:1 more", "u:y"),
            ("u:y",),
            6,
            id="an edit after another first answer",
        ),
        pytest.param(ONCE_MORE, ("u:one", "a:1", "u:x"), ("u:x",), 2, id="back to the first of two first answers"),
        pytest.param(YES, (*YES[:4], "u:x"), ("u:x",), 4, id="equal questions, the third edited"),
        pytest.param(YES, YES[:3], (), 3, id="equal questions, another second answer"),
        pytest.param(YES, (*YES[2:], "u:x"), ("u:x",), None, id="the end of equal questions"),
        pytest.param(OK, (*OK[:4], "u:x"), ("u:x",), 4, id="equal questions and answers, the third edited"),
        pytest.param(OK, OK[:3], (), 3, id="equal questions and answers, another second answer"),
        pytest.param(OK, (*OK, "u:yes"), ("u:yes",), None, id="equal questions and answers, once more"),
        pytest.param(
            (*TWO, "u:go", "c:1", "r:1", "a:ok"),
            (*TWO, "u:go", "c:2", "r:2"),
            ("c:2", "r:2"),
            5,
            id="an answer with other calls",
        ),
        pytest.param(TOOLS, ("u:one", "a:1", "u:two"), ("u:two",), None, id="a client that drops tool steps"),
        pytest.param(("u:one", "a:half"), ("u:one", "u:two"), ("u:one", "u:two"), None, id="no answer in the list"),
        pytest.param(
            ("u:one", "a:1", "u:two", "a:half"), ("u:one", "a:1", "u:two", "u:three"), ("u:three",), None, id="half"
        ),
        pytest.param(
            TWO, ("u:one", "a:1", "u:new", "a:n", "u:three"), ("u:new", "a:n", "u:three"), 2, id="another branch"
        ),
        pytest.param(
            TWO, ("u:one", "a:x", "u:n"), ("u:one", "a:x", "u:n"), None, id="one question may be alike by chance"
        ),
        pytest.param(
            ("u:one", "a:<think>hm</think> 1", "u:two", "a:2"), ("u:one", "a:1", "u:x"), ("u:x",), 2, id="stripped"
        ),
        pytest.param(TWO, ("u:unknown", "a:x", "u:three"), ("u:unknown", "a:x", "u:three"), None, id="another talk"),
        pytest.param(
            (*TWO, "u:three", "a:3"), ("u:one", "a:1", "u:three", "a:3", "u:four"), ("u:four",), None, id="a gap"
        ),
    ],
)
def test_alignment(
    stored: tuple[Short, ...], given: tuple[Short, ...], new: tuple[Short, ...], rewind_to: int | None
) -> None:
    """Each list has these new messages and goes back to this row. Without `rewinds`, the question is asked again instead."""
    sent, known, expected = [made(short) for short in given], rows(*stored), tuple(map(made, new))
    found = align(sent, known, rewinds=True, is_beginning=True)
    assert (found.new, found.kept) == (expected, rewind_to)
    asked = expected if rewind_to is None else expected or after_last_answer(sent)
    assert (align(sent, known).new, align(sent, known).kept) == (asked, None)


def test_messages_after_the_last_answer() -> None:
    """They are new even if the database cannot be read."""
    one, answer, two = map(made, TWO[:3])
    assert after_last_answer([one, answer, two]) == (two,)
    assert after_last_answer([one]) == (one,)


def test_ids_come_first() -> None:
    """A message with a stored id is that message, also if the client changed its text."""
    given = [UserMessage("one, tidied up", id="m1"), AssistantMessage("1"), UserMessage("two")]
    found = align(given, rows("u:one", "a:1"))
    assert [one.parts for one in found.new] == [(TextPart(text="two"),)]
    assert found.kept is None


@pytest.mark.parametrize(
    ("stored", "given", "new", "kept"),
    [
        pytest.param(("u:one", "a:pa"), ("u:one",), (), 1, id="the first question"),
        pytest.param((*TWO, "u:three", "a:pa"), ("u:three",), (), 5, id="a later question"),
        pytest.param((*TWO, "u:three", "u:four", "a:pa"), ("u:three", "u:four"), (), 6, id="two messages"),
        pytest.param(("u:one", "c:x", "r:x", "a:pa"), ("r:x",), (), 3, id="a result"),
        pytest.param(("u:one", "a:pa"), ("u:two",), ("u:two",), None, id="another question"),
        pytest.param(("u:one", "a:pa"), ("u:one", "u:two"), ("u:one", "u:two"), None, id="one more question"),
        pytest.param((*TWO, "u:three", "a:pa"), ("u:two",), ("u:two",), None, id="an earlier question"),
        pytest.param(("u:one", "a:pa"), (), (), None, id="nothing"),
    ],
)
def test_a_request_again_after_an_answer_that_was_cut(
    stored: tuple[Short, ...], given: tuple[Short, ...], new: tuple[Short, ...], kept: int | None
) -> None:
    """The incomplete answer is withdrawn, if the caller rewinds and the list has the same messages again."""
    known = rows(*stored)
    known[-1] = replace(known[-1], metadata={CUT: True})
    sent = [made(short) for short in given]
    found = align(sent, known, rewinds=True)
    assert (found.new, found.kept) == (tuple(map(made, new)), kept)
    assert align(sent, known) == Aligned(new=tuple(sent))


def test_repeated_rows() -> None:
    """The unanswered messages that a request repeats are counted. They are withdrawn if the provider rejects the request."""
    stored = rows(*TWO, "u:three", "u:four")
    for given, count in (
        ((*TWO, "u:three", "u:four"), 2),
        (("u:three", "u:four"), 2),
        (("u:four",), 1),
        (("u:four", "u:five"), 1),
        (("u:five",), 0),
    ):
        assert align([made(short) for short in given], stored).repeated == count


def test_a_question_after_examples_may_be_asked_again() -> None:
    """It is new, although a stored question is the same."""
    examples = ("u:2+2", "a:4", "u:3+3", "a:6")
    stored = rows(*examples, "u:5+5", "a:10", "u:6+6", "a:12")
    stored = [replace(row, turn=turn) for row, turn in zip(stored, "11111122", strict=True)]
    given = tuple(map(made, (*examples, "u:5+5")))
    assert align(given, stored, rewinds=True) == Aligned(new=given[-1:])


def test_examples_are_no_history() -> None:
    """A client that sends the same examples before each question does not go back to them."""
    stored = rows("u:x", "a:y", "u:one", "a:1")
    given = [made(short) for short in ("u:x", "a:y", "u:two")]
    examples = [replace(row, turn="1") for row in stored]
    assert (align(given, examples, rewinds=True).kept, align(given, examples, rewinds=True).new) == (None, (given[-1],))
    answered = [replace(row, turn=turn) for row, turn in zip(stored, "1122", strict=True)]
    assert align(given, answered, rewinds=True).kept == 2


class Client:
    """A client that sends its whole conversation with every request, and the thread in which a gateway saves it."""

    def __init__(self) -> None:
        self.said: list[NewMessage] = []
        self.thread: list[Message] = []
        self.seq = self.turn = 0

    @property
    def questions(self) -> list[int]:
        """The places of the questions of the list."""
        return [place for place, said in enumerate(self.said) if said.role == "user"]

    @property
    def results(self) -> list[int]:
        """The places of the tool results of the list."""
        return [place for place, said in enumerate(self.said) if said.role == "tool"]

    def save(self, *messages: NewMessage) -> None:
        for said in messages:
            self.seq += 1
            self.thread.append(row(self.seq, said.role, *said.parts, id=f"m{self.seq}", turn=str(self.turn)))

    def request(self, *answer: NewMessage) -> None:
        """Send the list, and add the answer to the list and the thread. Both must be equal then."""
        self.turn += 1
        found = align(self.said, self.thread, rewinds=True, is_beginning=True)
        if found.kept is not None:
            del self.thread[found.kept :]
        self.save(*found.new, *answer)
        self.said += answer
        assert [(one.role, one.parts) for one in self.thread] == [(one.role, one.parts) for one in self.said]

    def ask(self, question: Short, calls: list[str], answer: str) -> None:
        """Ask a question. The model makes these calls, one after the other, and answers."""
        self.said.append(made(question))
        self.answer(calls, answer)

    def answer(self, calls: list[str], answer: str) -> None:
        for call in calls:
            self.request(made(f"c:{call}"))
            self.said.append(made(f"r:{call}"))
        self.request(made(f"a:{answer}"))


@drawn(st.data())
def test_a_whole_list_and_the_thread_stay_equal(data: st.DataObject) -> None:
    """Many questions and answers are equal. The client asks, edits, and wants other answers to questions and results."""
    client = Client()
    repeats_ids = data.draw(st.booleans(), "the model uses the same ids again")
    for count in range(data.draw(st.integers(1, 9), "steps")):
        some = data.draw(st.integers(0, 2), "calls")
        calls = [f"call{n}" if repeats_ids else f"call{count}-{n}" for n in range(some)]
        answer = data.draw(st.sampled_from(("ok", "done", f"answer {count}")), "answer")
        step = data.draw(st.sampled_from(("ask", "ask", "edit", "again", "again after a result")), "step")
        # An edited first question, or the first question alone, looks like a new message.
        later = client.questions[1:]
        if step == "again after a result" and client.results:
            del client.said[data.draw(st.sampled_from(client.results)) + 1 :]
            client.answer(calls, answer)
        elif step == "again" and later:
            del client.said[data.draw(st.sampled_from(later)) + 1 :]
            client.answer(calls, answer)
        else:
            if step == "edit" and later:
                del client.said[data.draw(st.sampled_from(later)) :]
            client.ask(data.draw(st.sampled_from(("u:yes", "u:go"))), calls, answer)
