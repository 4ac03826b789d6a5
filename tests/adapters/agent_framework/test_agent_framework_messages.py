"""Agent Framework's messages come back from ours with the same JSON, through the store's own form."""

from typing import Any

from agent_framework import Content, Message
from hypothesis import given
from hypothesis import strategies as st

from adapters.kit import JSON_VALUES, PICTURE, PICTURE_TEXT, through_the_store
from memolog.adapters.agent_framework import from_agent_framework, to_agent_framework
from memolog.adapters.agent_framework.messages import said_in, usage_of
from memolog.core.message import (
    AssistantMessage,
    FilePart,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolMessage,
    ToolResultPart,
    UnknownPart,
    UserMessage,
)

SHOWN = Content.from_data(PICTURE, "image/png")
CALL = Content.from_function_call("c1", "weather", arguments='{"city": "Rome"}')


def there_and_back(message: Message) -> Message:
    """Return a message after a stay in the store: its parts go through JSON."""
    return to_agent_framework(through_the_store(from_agent_framework(message)))


TEXTS = st.text(max_size=20)
MORE = st.dictionaries(TEXTS.filter(lambda key: not key.startswith("_")), JSON_VALUES, max_size=2)
CONTENTS = st.one_of(
    st.builds(Content.from_text, TEXTS, additional_properties=MORE),
    st.builds(Content, st.just("text_reasoning"), text=st.none() | TEXTS, protected_data=st.none() | TEXTS),
    st.builds(Content.from_function_call, TEXTS, TEXTS, arguments=TEXTS | MORE),
    st.builds(Content.from_function_result, TEXTS, result=TEXTS),
    st.builds(Content.from_data, st.binary(max_size=20), st.just("image/png")),
    st.builds(Content, st.just("uri"), uri=TEXTS, media_type=st.just("image/png")),
    st.builds(Content, st.just("data"), uri=TEXTS.map("data:x/y;base64,".__add__)),
)


@given(
    role=st.sampled_from(["user", "assistant", "tool", "developer", "other"]),
    contents=st.lists(CONTENTS, max_size=4),
    name=st.none() | TEXTS,
    id_=st.none() | TEXTS,
    more=MORE,
)
def test_any_message_comes_back(
    role: str, contents: list[Content], name: str | None, id_: str | None, more: Any
) -> None:
    """Whatever it is made of."""
    message = Message(role, contents, author_name=name, message_id=id_, additional_properties=more)
    assert there_and_back(message).to_dict() == message.to_dict()


def test_what_is_said_is_in_the_parts() -> None:
    """Observers, search and counts read parts, so they must say what the message says."""
    thought = Content.from_text_reasoning(text="hm", protected_data="opaque")
    parts = from_agent_framework(Message("assistant", [thought, Content.from_text("so"), CALL, SHOWN])).parts
    reasoning, text, call, picture = parts
    assert isinstance(reasoning, ReasoningPart)
    assert (reasoning.text, reasoning.encrypted) == ("hm", "opaque")
    assert isinstance(text, TextPart)
    assert text == TextPart(text="so")
    assert isinstance(call, ToolCallPart)
    assert (call.id, call.name, call.arguments) == ("c1", "weather", '{"city": "Rome"}')
    assert isinstance(picture, FilePart)
    assert (picture.media_type, picture.data) == ("image/png", PICTURE)
    result = Content.from_function_result("c1", result=[Content.from_text("see"), SHOWN])
    (answer,) = from_agent_framework(Message("tool", [result])).parts
    assert isinstance(answer, ToolResultPart)
    assert answer.files[0].data == PICTURE
    assert PICTURE_TEXT not in str((answer.content, answer.extra))


def test_what_steers_a_run_is_not_said() -> None:
    """Approvals are between a person and the program."""
    asked = Content.from_function_approval_request("r1", CALL)
    message = Message("assistant", ["may I?", asked])
    said = said_in(message)
    assert said is not None
    assert len(said.parts) == 1
    assert said_in(Message("assistant", [asked])) is None


def test_what_another_library_saved_can_be_shown() -> None:
    """A thread may have been begun elsewhere: standard contents, thoughts that are not ours left out."""
    said = to_agent_framework(UserMessage("hello", speaker="ann"))
    assert said.to_dict() == Message("user", ["hello"], author_name="ann").to_dict()
    thought, unknown = ReasoningPart(text="hm", signature="theirs"), UnknownPart(data=["theirs"])
    call = ToolCallPart(id="c", name="f", arguments={"x": 1})
    file = FilePart(media_type="image/png", data=PICTURE)
    answer = to_agent_framework(AssistantMessage([thought, unknown, "so", call, file]))
    assert [content.type for content in answer.contents] == ["text", "function_call", "data"]
    assert answer.contents[1].parse_arguments() == {"x": 1}
    result = to_agent_framework(ToolMessage("c", {"n": 1}, is_error=True))
    assert result.role == "tool"
    assert result.contents[0].result == '{"n":1}'
    assert result.contents[0].exception is not None


def test_usage_tells_the_cache_apart() -> None:
    """The library's input counts what the cache held."""
    usage = usage_of(
        {
            "input_token_count": 10,
            "output_token_count": 2,
            "cache_read_input_token_count": 4,
            "cache_creation_input_token_count": 1,
        },
        "m",
    )
    assert usage is not None
    assert (usage.model, usage.input_tokens, usage.output_tokens) == ("m", 5, 2)
    assert (usage.cache_read_tokens, usage.cache_write_tokens) == (4, 1)
    assert usage_of(None, "m") is None
