"""LangChain's messages come back from ours with the same JSON, through the store's own form."""

import base64
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    ChatMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
    message_chunk_to_message,
)

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
    parts_from_json,
)
from memolog.messages.validation import check_message

PIXEL = base64.b64encode(b"\x89PNG not a picture, but its bytes").decode()


def there_and_back(message: BaseMessage) -> BaseMessage:
    """Return a message after a stay in the store: its parts go through JSON."""
    made = from_langchain(message)
    parts = parts_from_json(check_message(made))
    back = to_langchain(NewMessage(role=made.role, parts=parts, speaker=made.speaker))
    assert len(back) == 1
    return back[0]


CORPUS: list[Any] = [
    HumanMessage("plain", id="h1"),
    HumanMessage("", id="h2"),
    HumanMessage("named", id="h3", name="ann", additional_kwargs={"k": [1, None, {"a": "ü"}]}),
    HumanMessage(["two", "items"], id="h4"),
    HumanMessage([{"type": "text", "text": "a"}, "b", {"type": "text", "text": "c", "cache_control": {"type": "x"}}]),
    HumanMessage([], id="h5"),
    HumanMessage([{"type": "text", "text": "look"}, {"type": "image", "base64": PIXEL, "mime_type": "image/jpeg"}]),
    HumanMessage([{"type": "image", "url": "https://example.org/a.png"}]),
    HumanMessage([{"type": "image", "file_id": "file-1"}]),
    HumanMessage([{"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}", "detail": "low"}}]),
    HumanMessage([{"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}]),
    HumanMessage([{"type": "image_url", "image_url": "https://example.org/a.png"}]),
    HumanMessage([{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}}]),
    HumanMessage([{"type": "image", "source_type": "base64", "mime_type": "image/png", "data": PIXEL}]),
    HumanMessage([{"type": "image", "base64": "not base64!", "mime_type": "image/png"}]),
    HumanMessage([{"type": "input_audio", "input_audio": {"data": PIXEL, "format": "mp3"}}]),
    HumanMessage([{"type": "file", "base64": PIXEL, "mime_type": "application/pdf", "filename": "a.pdf"}]),
    HumanMessage(
        [{"type": "file", "file": {"filename": "a.pdf", "file_data": f"data:application/pdf;base64,{PIXEL}"}}]
    ),
    HumanMessage([{"type": "unheard_of", "deep": {"er": [1, 2.5, True]}}]),
    HumanMessage([{"type": "text", "text": None, "odd": 1}]),
    SystemMessage("be kind", id="s1"),
    ChatMessage(content="as a role", role="assistant", id="c1"),
    ChatMessage(content="as another", role="critic"),
    AIMessage("", id="a0"),
    AIMessage(
        "yes",
        id="a1",
        name="planner",
        response_metadata={"model_name": "m-1", "finish_reason": "stop", "logprobs": None},
        usage_metadata={
            "input_tokens": 10,
            "output_tokens": 2,
            "total_tokens": 12,
            "input_token_details": {"cache_read": 4, "cache_creation": 1},
        },
    ),
    AIMessage("", id="a2", tool_calls=[{"name": "f", "args": {"x": 1}, "id": "c1", "type": "tool_call"}]),
    AIMessage("", id="a3", tool_calls=[{"name": "f", "args": {}, "id": None, "type": "tool_call"}]),
    AIMessage(
        "both",
        id="a4",
        tool_calls=[{"name": "f", "args": {"x": 1}, "id": "c1"}, {"name": "g", "args": {}, "id": "c2"}],
        invalid_tool_calls=[
            {"name": "h", "args": "{broken", "id": "c3", "error": "no JSON", "type": "invalid_tool_call"}
        ],
        additional_kwargs={
            "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]
        },
    ),
    AIMessage(
        "",
        id="a5",
        invalid_tool_calls=[{"name": None, "args": None, "id": None, "error": None, "type": "invalid_tool_call"}],
    ),
    AIMessage(
        [
            {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
            {"type": "redacted_thinking", "data": "opaque"},
            {"type": "text", "text": "so", "citations": [{"cited_text": "x"}]},
            {"type": "tool_use", "id": "c1", "name": "f", "input": {"x": 1}},
            {"type": "tool_use", "id": "c2", "name": "g", "input": {}, "caller": {"type": "direct"}},
        ],
        id="a6",
        tool_calls=[{"name": "f", "args": {"x": 1}, "id": "c1"}, {"name": "g", "args": {}, "id": "c2"}],
    ),
    AIMessage(
        [
            {
                "type": "reasoning",
                "id": "rs_1",
                "summary": [{"type": "summary_text", "text": "one"}],
                "encrypted_content": "e",
            },
            {"type": "text", "text": "so", "id": "msg_1", "annotations": []},
            {"type": "function_call", "call_id": "c1", "id": "fc_1", "name": "f", "arguments": '{"x": 1}'},
        ],
        id="a7",
        tool_calls=[{"name": "f", "args": {"x": 1}, "id": "c1"}],
        response_metadata={"id": "resp_1", "model_provider": "openai"},
    ),
    AIMessage(
        content_blocks=[
            {"type": "reasoning", "reasoning": "hm", "extras": {"signature": "c2ln"}},
            {"type": "text", "text": "so"},
            {"type": "tool_call", "id": "c1", "name": "f", "args": {"x": 1}},
            {"type": "server_tool_call", "id": "ws_1", "name": "web_search", "args": {"query": "q"}},
            {"type": "non_standard", "value": {"a": 1}},
        ],
        id="a8",
        response_metadata={"output_version": "v1"},
    ),
    # Calls in another order than their blocks: kept whole, since the parts alone cannot say so.
    AIMessage(
        [
            {"type": "tool_use", "id": "c2", "name": "g", "input": {}},
            {"type": "tool_use", "id": "c1", "name": "f", "input": {}},
        ],
        tool_calls=[{"name": "f", "args": {}, "id": "c1"}, {"name": "g", "args": {}, "id": "c2"}],
    ),
    # The same id twice.
    AIMessage("", tool_calls=[{"name": "f", "args": {}, "id": "c1"}, {"name": "g", "args": {"y": 2}, "id": "c1"}]),
    ToolMessage("42", tool_call_id="c1", id="t1", name="f"),
    ToolMessage("", tool_call_id="c1", status="error", artifact={"rows": [1, 2]}),
    ToolMessage(
        [{"type": "text", "text": "a"}, {"type": "image", "base64": PIXEL, "mime_type": "image/png"}, "b"],
        tool_call_id="c",
    ),
    ToolMessage([], tool_call_id="c"),
    ToolMessage("x", tool_call_id="c", additional_kwargs={"a": 1}, response_metadata={"b": 2}),
]


@pytest.mark.parametrize("message", CORPUS, ids=lambda one: f"{one.type}-{str(one.content)[:40]}")
def test_a_message_comes_back_with_the_same_json(message: BaseMessage) -> None:
    """Every field of every kind, in the order in which it was."""
    back = there_and_back(message)
    assert type(back) is type(message)
    assert back.model_dump_json() == message.model_dump_json()


TEXTS = st.text(max_size=20)
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS, lambda inner: st.lists(inner, max_size=2), max_leaves=4
)
BLOCKS = st.one_of(
    TEXTS,
    st.fixed_dictionaries(
        {"type": st.just("text"), "text": TEXTS}, optional={"annotations": st.just([]), "index": JSON}
    ),
    st.fixed_dictionaries(
        {"type": st.just("thinking"), "thinking": TEXTS}, optional={"signature": TEXTS, "index": JSON}
    ),
    st.fixed_dictionaries(
        {"type": st.just("reasoning")},
        optional={"reasoning": TEXTS, "summary": JSON, "extras": JSON, "encrypted_content": TEXTS, "id": TEXTS},
    ),
    st.fixed_dictionaries(
        {"type": st.just("image")}, optional={"base64": TEXTS, "url": TEXTS, "source": JSON, "data": JSON}
    ),
    st.fixed_dictionaries({"type": st.just("image_url"), "image_url": TEXTS | st.fixed_dictionaries({"url": TEXTS})}),
    st.fixed_dictionaries({"type": st.just("tool_use"), "id": st.sampled_from("ab"), "name": TEXTS, "input": JSON}),
    st.fixed_dictionaries({"type": TEXTS}, optional={"anything": JSON}),
)
CALLS = st.fixed_dictionaries(
    {"name": TEXTS, "args": st.dictionaries(TEXTS, JSON, max_size=2), "id": st.sampled_from(["a", "b", None])}
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
    kwargs=st.dictionaries(TEXTS, JSON, max_size=2),
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


@given(content=TEXTS | st.lists(BLOCKS, max_size=4), artifact=JSON, name=st.none() | TEXTS)
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
        {"type": "image", "base64": PIXEL, "mime_type": "image/jpeg"},
        {"type": "image_url", "image_url": {"url": f"data:image/jpeg;base64,{PIXEL}"}},
        {"type": "image", "source": {"type": "base64", "media_type": "image/jpeg", "data": PIXEL}},
    ]
    for block in spelt:
        (part,) = from_langchain(HumanMessage([block])).parts
        assert isinstance(part, FilePart)
        assert (part.media_type, part.data) == ("image/jpeg", base64.b64decode(PIXEL))
        (result,) = from_langchain(ToolMessage([block], tool_call_id="c")).parts
        assert isinstance(result, ToolResultPart)
        assert PIXEL not in str(result.content)
        assert result.files[0].data == base64.b64decode(PIXEL)


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
