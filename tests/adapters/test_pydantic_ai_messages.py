"""Messages of Pydantic AI come back from ours as the same JSON, whatever is in them."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic_ai import PydanticAIDeprecationWarning
from pydantic_ai.messages import (
    BinaryContent,
    CachePoint,
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    ModelResponsePart,
    RetryFeedbackPart,
    RetryInfo,
    RetryPromptPart,  # pyright: ignore[reportDeprecated] - old conversations hold it
    TextContent,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.usage import RequestUsage

from adapters.kit import JSON_VALUES, foreign, through_the_store
from kit.effort import counts
from memolog import AssistantMessage, NewMessage, SystemMessage, ToolMessage, UserMessage
from memolog import FilePart as OurFile
from memolog import ReasoningPart as OurReasoning
from memolog import TextPart as OurText
from memolog import ToolCallPart as OurCall
from memolog import ToolResultPart as OurResult
from memolog import UnknownPart as OurUnknown
from memolog.adapters.pydantic_ai.messages import dumped, to_messages, to_model_messages

AT = datetime(2026, 3, 14, 9, 0, 0, 123456, tzinfo=UTC)
PNG = BinaryContent(b"\x89PNG\xff\xfe\x00", media_type="image/png", vendor_metadata={"detail": "high"})

SAID = ModelMessagesTypeAdapter.validate_python(foreign("pydantic-ai"))
REQUEST_PARTS = [part for message in SAID if isinstance(message, ModelRequest) for part in message.parts]
RESPONSE_PARTS = [part for message in SAID if isinstance(message, ModelResponse) for part in message.parts]


def stored(messages: list[NewMessage]) -> list[NewMessage]:
    """Return the messages as the database returns them."""
    return [through_the_store(message) for message in messages]


def check(messages: list[ModelMessage]) -> None:
    """The same JSON comes back, message by message."""
    ours = stored([one for message in messages for one in to_messages(message)])
    back = to_model_messages(ours)
    assert [dumped(message) for message in back] == [dumped(message) for message in messages]


@pytest.mark.parametrize("part", REQUEST_PARTS, ids=lambda part: type(part).__name__)
def test_each_part_of_a_request_comes_back(part: ModelRequestPart) -> None:
    """One part alone, and between two prompts."""
    check([ModelRequest([part], timestamp=AT, run_id="r1", conversation_id="t1", metadata={"k": [1]})])
    around = UserPromptPart("around", timestamp=AT)
    check([ModelRequest([around, part, around], timestamp=AT, instructions="be short", run_id="r1")])


@pytest.mark.parametrize("part", RESPONSE_PARTS, ids=lambda part: type(part).__name__)
def test_each_part_of_a_response_comes_back(part: ModelResponsePart) -> None:
    """One part alone, with all that a response may say of itself."""
    response = ModelResponse(
        [part],
        usage=RequestUsage(input_tokens=10, cache_read_tokens=4, output_tokens=3, details={"reasoning": 1}),
        model_name="m-1",
        timestamp=AT,
        provider_name="anthropic",
        provider_details={"finish_reason": "end_turn"},
        provider_response_id="resp_1",
        finish_reason="stop",
        run_id="r1",
        conversation_id="t1",
        state="interrupted",
    )
    check([response, replace(response, parts=[part, TextPart("more"), part])])


def test_what_the_library_asks_for_again_is_no_word_of_the_user() -> None:
    """Feedback on an answer is the application's, and an answer to a tool call is the tool's."""
    legacy: Any = RetryPromptPart  # pyright: ignore[reportDeprecated]
    with pytest.warns(PydanticAIDeprecationWarning):
        parts = [legacy("wrong", tool_name="look", tool_call_id="c1", timestamp=AT), legacy("no text", timestamp=AT)]
    feedback = RetryFeedbackPart(content="not JSON", retry=RetryInfo(cause="validation_error"), timestamp=AT)
    request = ModelRequest([*parts, feedback], timestamp=AT)
    ours = to_messages(request)
    assert [message.role for message in ours] == ["tool", "system"]
    result = ours[0].parts[0]
    assert isinstance(result, OurResult)
    assert result.is_error
    assert "not JSON" in "".join(part.text for part in ours[1].parts if isinstance(part, OurText))
    # The library itself reads the older kind as the newer one.
    read = ModelMessagesTypeAdapter.validate_python([dumped(request)])
    assert [dumped(message) for message in to_model_messages(stored(list(ours)))] == [dumped(read[0])]


# ---------------------------------------------------------------- ids


def test_ids_follow_from_what_is_said() -> None:
    """The same message has the same id, also when it is sent again at another time; another run's has another."""
    request = ModelRequest([UserPromptPart("hi", timestamp=AT)], timestamp=AT, run_id="r1")
    ids = [message.id for message in to_messages(request)]
    assert ids == [message.id for message in to_messages(replace(request, timestamp=None, instructions="other"))]
    assert ids != [message.id for message in to_messages(replace(request, run_id="r2"))]
    assert ids != [message.id for message in to_messages(request, again=1)]
    many = ModelRequest(
        [UserPromptPart("hi"), ToolReturnPart("a", 1, tool_call_id="c"), UserPromptPart("yo")], run_id="r1"
    )
    assert len({message.id for message in to_messages(many)}) == 3


def test_any_run_id_will_do() -> None:
    """Callers choose the ids of runs; ours stay short and can be shown."""
    for run_id in ("x" * 5_000, "new\nline", ""):
        message = to_messages(ModelRequest([UserPromptPart("hi", timestamp=AT)], run_id=run_id))[0]
        assert message.id is not None
        assert len(message.id) < 200
        assert message.id.isprintable()


# ---------------------------------------------------------------- from elsewhere


def test_what_other_adapters_saved_is_said_in_plain_words() -> None:
    """Messages without our marks become the library's: every word of them, in order."""
    foreign = [
        SystemMessage("mind the gap"),
        UserMessage(["look at", OurFile(media_type="image/png", data=b"x"), OurFile(media_type="audio/mpeg", url="u")]),
        AssistantMessage(
            [
                OurReasoning(text="hm", signature="s", encrypted="e", extra={"elsewhere": {"part": {}}}),
                OurText(text="wait"),
                OurCall(id="c1", name="look", arguments={"a": 1}),
                OurUnknown(data={"odd": 1}),
                OurFile(media_type="image/png", url="https://example.com/c.png"),
            ]
        ),
        ToolMessage("c1", {"x": 1}, is_error=True),
        UserMessage("and now?"),
        AssistantMessage("done"),
        AssistantMessage("really"),
    ]
    back = to_model_messages(stored(foreign))
    kinds = [[part.part_kind for part in message.parts] for message in back]
    assert kinds == [
        ["system-prompt", "user-prompt"],
        ["thinking", "text", "tool-call", "text"],
        ["tool-return", "user-prompt"],
        ["text"],
        ["text"],
    ]
    answer = back[2].parts[0]
    assert isinstance(answer, ToolReturnPart)
    assert (answer.tool_name, answer.content, answer.outcome) == ("look", {"x": 1}, "failed")


def test_marks_that_cannot_be_read_do_not_stop_anything() -> None:
    """A later release may have written what this one refuses: the words are still there."""
    good = to_messages(ModelResponse([TextPart("fine")], timestamp=AT))[0]
    bad = AssistantMessage(
        OurText(text="still here", extra={"pydantic_ai": {"message": {"state": "of another world"}}})
    )
    back = to_model_messages([good, bad, UserMessage("go on")])
    texts = [getattr(part, "content", None) for message in back for part in message.parts]
    assert texts == ["fine", "still here", "go on"]


# ---------------------------------------------------------------- anything

BINARY = st.builds(BinaryContent, st.binary(max_size=40), media_type=st.sampled_from(["image/png", "application/pdf"]))
ITEMS = st.text() | BINARY | st.just(CachePoint()) | st.builds(TextContent, st.text(), metadata=JSON_VALUES)
REQUESTS = st.one_of(
    st.builds(UserPromptPart, st.text() | st.lists(ITEMS, max_size=4), timestamp=st.just(AT)),
    st.builds(
        ToolReturnPart,
        st.just("look"),
        JSON_VALUES | BINARY,
        tool_call_id=st.text(min_size=1, max_size=8),
        timestamp=st.just(AT),
    ),
    st.sampled_from(REQUEST_PARTS),
)
RESPONSES = st.one_of(
    st.builds(TextPart, st.text()),
    st.builds(ThinkingPart, st.text(), signature=st.none() | st.text()),
    st.builds(ToolCallPart, st.just("look"), st.dictionaries(st.text(max_size=8), JSON_VALUES, max_size=3) | st.text()),
    st.sampled_from(RESPONSE_PARTS),
)
MESSAGES = st.lists(
    st.builds(
        ModelRequest, st.lists(REQUESTS, max_size=4), timestamp=st.none() | st.just(AT), run_id=st.none() | st.just("r")
    )
    | st.builds(ModelResponse, st.lists(RESPONSES, max_size=4), timestamp=st.just(AT), run_id=st.none() | st.just("r")),
    max_size=4,
)


@settings(max_examples=counts(100, 3_000), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(MESSAGES)
def test_whatever_is_said_comes_back(messages: list[ModelMessage]) -> None:
    """Any messages, in any order: the same JSON comes back."""
    check(messages)
