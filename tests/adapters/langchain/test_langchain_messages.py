"""LangChain's messages come back from ours with the same JSON, through the store's own form."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    HumanMessage,
    ToolMessage,
    message_chunk_to_message,
)

from adapters.kit import JSON_VALUES, PICTURE, PICTURE_TEXT, through_the_store
from memolog.adapters.langchain import from_langchain, to_langchain
from memolog.adapters.langchain.messages import usage_of
from memolog.core.message import (
    AssistantMessage,
    FilePart,
    NewMessage,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    UnknownPart,
    UserMessage,
)


def there_and_back(message: BaseMessage) -> BaseMessage:
    """Return a message after a stay in the store: its parts go through JSON."""
    (back,) = to_langchain(through_the_store(from_langchain(message)))
    return back


TEXTS = st.text(max_size=20)
BLOCKS = st.one_of(
    TEXTS,
    st.fixed_dictionaries(
        {"type": st.just("text"), "text": TEXTS}, optional={"annotations": st.just([]), "index": JSON_VALUES}
    ),
    st.fixed_dictionaries(
        {"type": st.just("thinking"), "thinking": TEXTS}, optional={"signature": TEXTS, "index": JSON_VALUES}
    ),
    st.fixed_dictionaries(
        {"type": st.just("reasoning")},
        optional={
            "reasoning": TEXTS,
            "summary": JSON_VALUES,
            "extras": JSON_VALUES,
            "encrypted_content": TEXTS,
            "id": TEXTS,
        },
    ),
    st.fixed_dictionaries(
        {"type": st.just("image")}, optional={"base64": TEXTS, "url": TEXTS, "source": JSON_VALUES, "data": JSON_VALUES}
    ),
    st.fixed_dictionaries({"type": st.just("image_url"), "image_url": TEXTS | st.fixed_dictionaries({"url": TEXTS})}),
    st.fixed_dictionaries(
        {"type": st.just("tool_use"), "id": st.sampled_from("ab"), "name": TEXTS, "input": JSON_VALUES}
    ),
    st.fixed_dictionaries({"type": TEXTS}, optional={"anything": JSON_VALUES}),
)
CALLS = st.fixed_dictionaries(
    {"name": TEXTS, "args": st.dictionaries(TEXTS, JSON_VALUES, max_size=2), "id": st.sampled_from(["a", "b", None])}
)
BROKEN = st.fixed_dictionaries(
    {
        "name": TEXTS | st.none(),
        "args": TEXTS | st.none(),
        "id": st.sampled_from(["c", None]),
        "error": TEXTS | st.none(),
    }
)


@given(
    content=TEXTS | st.lists(BLOCKS, max_size=4),
    calls=st.lists(CALLS, max_size=3),
    broken=st.lists(BROKEN, max_size=2),
    name=st.none() | TEXTS,
    kwargs=st.dictionaries(TEXTS, JSON_VALUES, max_size=2),
)
def test_any_answer_comes_back(
    content: Any, calls: list[Any], broken: list[Any], name: str | None, kwargs: Any
) -> None:
    """Whatever blocks and calls an answer is made of."""
    broken = [{**one, "type": "invalid_tool_call"} for one in broken]
    message = AIMessage(
        content, tool_calls=calls, invalid_tool_calls=broken, name=name, response_metadata=kwargs, id="a"
    )
    assert there_and_back(message).model_dump() == message.model_dump()


@given(content=TEXTS | st.lists(BLOCKS, max_size=4), artifact=JSON_VALUES, name=st.none() | TEXTS)
def test_any_result_and_any_question_come_back(content: Any, artifact: Any, name: str | None) -> None:
    """Whatever blocks they are made of."""
    result = ToolMessage(content, tool_call_id="c", artifact=artifact, name=name, id="t")
    assert there_and_back(result).model_dump() == result.model_dump()
    question = HumanMessage(content, name=name, id="h")
    assert there_and_back(question).model_dump() == question.model_dump()


def test_what_is_said_is_in_the_parts() -> None:
    """Observers, search and counts read parts, so they must say what the message says."""
    message = AIMessage(
        [
            {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
            {"type": "text", "text": "so"},
            {"type": "tool_use", "id": "c1", "name": "f", "input": {"x": 1}},
        ],
        id="a",
        tool_calls=[{"name": "f", "args": {"x": 1}, "id": "c1"}],
        invalid_tool_calls=[{"name": "g", "args": "{", "id": "c2", "error": "e", "type": "invalid_tool_call"}],
    )
    thought, text, call, broken = from_langchain(message).parts
    assert isinstance(thought, ReasoningPart)
    assert (thought.text, thought.signature) == ("hm", "c2ln")
    assert isinstance(text, TextPart)
    assert text.text == "so"
    assert isinstance(call, ToolCallPart)
    assert (call.id, call.name, call.arguments) == ("c1", "f", {"x": 1})
    assert isinstance(broken, ToolCallPart)
    assert (broken.id, broken.name, broken.arguments) == ("c2", "g", "{")


def test_the_bytes_of_a_picture_are_bytes() -> None:
    """Wherever a provider puts them; in a result they are no text of it."""
    spelt: list[dict[str, Any]] = [
        {"type": "image", "base64": PICTURE_TEXT, "mime_type": "image/jpeg"},
        {"type": "image_url", "image_url": {"url": f"data:image/jpeg;base64,{PICTURE_TEXT}"}},
        {"type": "image", "source": {"type": "base64", "media_type": "image/jpeg", "data": PICTURE_TEXT}},
    ]
    for block in spelt:
        (part,) = from_langchain(HumanMessage([block])).parts
        assert isinstance(part, FilePart)
        assert (part.media_type, part.data) == ("image/jpeg", PICTURE)
        (result,) = from_langchain(ToolMessage([block], tool_call_id="c")).parts
        assert isinstance(result, ToolResultPart)
        assert PICTURE_TEXT not in str(result.content)
        assert result.files[0].data == PICTURE


def test_a_chunk_is_the_message_it_adds_up_to() -> None:
    """Streaming leaves chunks behind in hand-made states."""
    chunk = AIMessageChunk(content="half", id="a") + AIMessageChunk(content=" an answer", id="a")
    assert there_and_back(chunk) == message_chunk_to_message(chunk)


def test_an_artifact_that_is_no_json_is_left_out() -> None:
    """It never went to the model; everything else of the message stays."""
    message = ToolMessage("42", tool_call_id="c", artifact=object(), id="t")
    back = there_and_back(message)
    assert isinstance(back, ToolMessage)
    assert (back.content, back.tool_call_id, back.id, back.artifact) == ("42", "c", "t", None)


def test_what_another_library_saved_can_be_shown() -> None:
    """A thread may have been begun elsewhere: standard blocks, arguments as objects, thoughts that are not ours left out."""
    (said,) = to_langchain(UserMessage("hello", speaker="ann"))
    assert said == HumanMessage("hello", name="ann")
    file = FilePart(media_type="application/pdf", data=b"pdf", name="a.pdf")
    (asked,) = to_langchain(UserMessage(["see", file]))
    assert asked.content == [
        {"type": "text", "text": "see"},
        {"type": "file", "base64": "cGRm", "mime_type": "application/pdf", "filename": "a.pdf"},
    ]
    thought, unknown = ReasoningPart(text="hm", signature="theirs"), UnknownPart(data={"kind": "theirs"})
    call = ToolCallPart(id="c", name="f", arguments='{"x": 1}')
    (answer,) = to_langchain(AssistantMessage([thought, unknown, "so", call]))
    assert isinstance(answer, AIMessage)
    assert answer.content == [{"type": "text", "text": "so"}]
    assert answer.tool_calls == [{"name": "f", "args": {"x": 1}, "id": "c", "type": "tool_call"}]
    results = (ToolResultPart(call_id="c", content={"n": 1}), ToolResultPart(call_id="d", content=None, is_error=True))
    one, two = to_langchain(NewMessage(role="tool", parts=results))
    assert (one.content, two.content) == ('{"n":1}', "")
    assert isinstance(two, ToolMessage)
    assert two.status == "error"


def test_usage_tells_the_cache_apart() -> None:
    """LangChain's input counts what the cache held."""
    message = AIMessage(
        "x",
        usage_metadata={
            "input_tokens": 10,
            "output_tokens": 2,
            "total_tokens": 12,
            "input_token_details": {"cache_read": 4, "cache_creation": 1},
        },
    )
    usage = usage_of(message, "m")
    assert usage is not None
    assert (usage.model, usage.input_tokens, usage.output_tokens) == ("m", 5, 2)
    assert (usage.cache_read_tokens, usage.cache_write_tokens) == (4, 1)
    assert usage_of(AIMessage("x"), "m") is None
