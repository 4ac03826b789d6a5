"""Messages without content: an empty result is sent, an empty answer is not, and the rules of the providers hold."""

from typing import Any, Final

import pytest

from adapters.kit import context_of
from adapters.provider import APIS, Driver, Provider, Reply, wrap
from adapters.rules import Rules
from memolog import Memory, NewMessage, ToolMessage
from memolog.adapters.anthropic import messages as anthropic
from memolog.adapters.openai import chat, responses

each = pytest.mark.parametrize("driver", APIS.values(), ids=lambda driver: driver.name)

_ASKED: Final = chat.from_messages(
    [
        {"role": "user", "content": "Delete it."},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
        },
    ]
)


def _results(content: Any) -> dict[str, tuple[NewMessage, ...]]:
    block = {"type": "tool_result", "tool_use_id": "c1", "content": content}
    return {
        "chat": chat.from_messages([{"role": "tool", "tool_call_id": "c1", "content": content}]),
        "responses": responses.from_items([{"type": "function_call_output", "call_id": "c1", "output": content}]),
        "messages": anthropic.from_messages([{"role": "user", "content": [block]}]),
        "ours": (ToolMessage("c1", content),),
    }


@pytest.mark.parametrize("content", ["", None, [], [{"type": "text", "text": ""}]], ids=repr)
@pytest.mark.parametrize("form", ["chat", "responses", "messages", "ours"])
def test_an_empty_result_is_sent(form: str, content: Any) -> None:
    """A result without content is sent as an empty text in every API, whatever form it had."""
    context, rules = context_of([*_ASKED, *_results(content)[form]]), Rules()
    written, items, said = context.to_openai(), context.to_responses(), context.to_anthropic(cache=None)
    assert written[-1] == {"role": "tool", "tool_call_id": "c1", "content": ""}
    assert items["input"][-1] == {"type": "function_call_output", "call_id": "c1", "output": ""}
    assert said["messages"][-1]["content"] == [{"type": "tool_result", "tool_use_id": "c1", "content": ""}]
    assert rules.chat({"messages": written}) == rules.responses(items) == rules.messages(said) == []


@each
async def test_an_empty_result_of_a_wrapped_client(driver: Driver) -> None:
    """The provider accepts the request after an empty result, and the next one."""
    replies = iter([Reply(calls=(("c1", "f"),)), Reply(text="Done."), Reply(text="Yes.")])
    provider = Provider(driver, lambda _: next(replies))
    async with Memory(":memory:") as memory:
        call = driver.call(wrap(driver, provider.async_client(), memory, thread="t1", resource="alice"))
        await call(**driver.said("Delete it."))
        assert driver.text(await call(**driver.results([("c1", "")]))) == "Done."
        assert driver.text(await call(**driver.said("Is it gone?"))) == "Yes."
