"""Pages of recall, for any messages: bounded, in order, and put together exactly what was said."""

from datetime import UTC, datetime

from hypothesis import given, settings
from hypothesis import strategies as st

from kit.effort import counts
from memolog.core.message import Message, Part, ReasoningPart, TextPart, ToolCallPart, ToolResultPart
from memolog.search.recall import LEAST_TOKENS, PageDraft, RecallRequest, part_text
from memolog.text.tokens import HeuristicCounter

AT = datetime(2026, 3, 14, 9, 0, tzinfo=UTC)
COUNTER = HeuristicCounter()
STUFF = st.text(st.characters(exclude_categories=["Cs"]), max_size=60) | st.sampled_from(
    ["<" * 900, "🇩🇪" * 300, "word " * 800, "日本語" * 400, "e\u0301" * 500, "\n" * 900, "👩‍👩‍👧" * 200]
)
PARTS: st.SearchStrategy[Part] = st.one_of(
    st.builds(TextPart, text=STUFF),
    st.builds(ReasoningPart, text=STUFF),
    st.builds(ToolCallPart, id=st.just("c"), name=STUFF, arguments=st.dictionaries(st.just("given"), STUFF)),
    st.builds(ToolResultPart, call_id=st.just("c"), content=STUFF, is_error=st.booleans()),
)


@st.composite
def stored(draw: st.DrawFn) -> list[Message]:
    """Return some rows of a thread."""
    return [
        Message(
            id=f"m{seq}",
            resource="r",
            thread="t",
            seq=seq,
            role=draw(st.sampled_from(["user", "assistant", "tool"])),
            parts=tuple(draw(st.lists(PARTS, max_size=4))),
            created_at=AT,
            tokens=1,
            speaker=draw(st.none() | st.text(max_size=200)),
        )
        for seq in range(1, draw(st.integers(1, 6)) + 1)
    ]


MESSAGES = stored()

Piece = tuple[int, int, int, str]


def forward(messages: list[Message], tokens: int) -> list[PageDraft]:
    """Return the pages of messages, first to last."""
    drafts: list[PageDraft] = []
    at, start = 0, (0, 0)
    while at < len(messages):
        draft = PageDraft(counter=COUNTER, request=RecallRequest(reference=1, tokens=tokens, detail="full"))
        drafts.append(draft)
        while at < len(messages):
            stopped = draft.add(messages[at], start)
            if stopped is not None:
                assert (stopped > start) or len(draft.items) > 0
                start = stopped
                break
            at, start = at + 1, (0, 0)
    return drafts


def back(messages: list[Message], tokens: int) -> list[PageDraft]:
    """Return the pages of messages as going back finds them, in their right order."""
    drafts: list[PageDraft] = []
    at, end = len(messages) - 1, None
    while at >= 0:
        draft = PageDraft(counter=COUNTER, request=RecallRequest(reference=1, tokens=tokens, detail="full"), back=True)
        drafts.insert(0, draft)
        while at >= 0:
            stopped = draft.add(messages[at], end)
            if stopped is not None:
                assert draft.items
                end = stopped
                break
            at, end = at - 1, None
    return drafts


@settings(max_examples=counts(100, 2_000), deadline=None)
@given(MESSAGES, st.integers(LEAST_TOKENS, 2_000))
def test_pages_put_together_are_what_was_said(messages: list[Message], tokens: int) -> None:
    """In either direction every part comes back whole, in order, and no page is larger than was asked for."""
    expected = {
        (message.seq, index): part_text(part) for message in messages for index, part in enumerate(message.parts)
    }
    for drafts in (forward(messages, tokens), back(messages, tokens)):
        found: dict[tuple[int, int], str] = {}
        order: list[Piece] = []
        for draft in drafts:
            assert COUNTER.count(draft.text) <= tokens
            for item in draft.items:
                for piece in item.pieces:
                    text = found.get((item.seq, piece.part), "")
                    assert piece.start == len(text)
                    assert piece.length == len(expected[item.seq, piece.part])
                    found[item.seq, piece.part] = text + piece.text
                    order.append((item.seq, piece.part, piece.start, piece.text))
        assert found == expected
        assert [place[:3] for place in order] == sorted(place[:3] for place in order)
        assert {item.seq for draft in drafts for item in draft.items} == {message.seq for message in messages}


@settings(max_examples=counts(50, 500), deadline=None)
@given(MESSAGES, st.integers(LEAST_TOKENS, 400))
def test_low_detail_is_bounded_too(messages: list[Message], tokens: int) -> None:
    """A page of lines is a page of messages, and goes on where it stopped."""
    left = list(messages)
    while left:
        draft = PageDraft(counter=COUNTER, request=RecallRequest(reference=1, tokens=tokens))
        while left and draft.add(left[0]) is None:
            left.pop(0)
        assert draft.items
        assert COUNTER.count(draft.text) <= tokens or len(draft.items) == 1
