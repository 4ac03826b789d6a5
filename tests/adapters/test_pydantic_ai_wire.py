"""What goes over the wire to real providers' endpoints, by the library's own models over a scripted transport."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from anthropic import AsyncAnthropic
from openai import AsyncOpenAI
from pydantic_ai import Agent
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider

from memolog import Memory
from memolog.adapters.pydantic_ai import MemoryCapability


@pytest.fixture
async def memory(tmp_path: Path) -> AsyncIterator[Memory]:
    """Return a memory of this test alone."""
    async with Memory(str(tmp_path / "memolog.db")) as one:
        yield one


class Upstream:
    """A provider that answers from a list and keeps every body it was sent."""

    def __init__(self, *answers: dict[str, Any]) -> None:
        self.answers, self.bodies = list(answers), list[dict[str, Any]]()

    def answer(self, content: bytes) -> dict[str, Any]:
        """Return the next answer; the last one again and again."""
        self.bodies.append(json.loads(content))
        return self.answers[min(len(self.bodies), len(self.answers)) - 1]

    @property
    def http(self) -> httpx2.AsyncClient:
        """Return a transport that leads here."""

        def answer(request: httpx2.Request) -> httpx2.Response:
            return httpx2.Response(200, json=self.answer(request.content))

        return httpx2.AsyncClient(transport=httpx2.MockTransport(answer))


def claude(content: list[dict[str, Any]], stop: str = "end_turn") -> dict[str, Any]:
    """Return an answer of Anthropic's endpoint."""
    usage = {"input_tokens": 10, "output_tokens": 5, "cache_read_input_tokens": 90, "cache_creation_input_tokens": 0}
    named = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-of-tests"}
    return {**named, "content": content, "stop_reason": stop, "stop_sequence": None, "usage": usage}


def marked(blocks: list[dict[str, Any]]) -> list[int]:
    """Return which blocks carry a cache mark."""
    return [number for number, block in enumerate(blocks) if "cache_control" in block]


async def test_anthropic_gets_its_signed_thoughts_and_a_mark_before_the_edge(memory: Memory) -> None:
    """Blocks that a model signed come back byte for byte; what is stable ends in a cache mark; usage is kept apart."""
    thought = {"type": "thinking", "thinking": "let me look", "signature": "RXJvQ0NrWUlCeGdD"}
    hidden = {"type": "redacted_thinking", "data": "ZW5jcnlwdGVk"}
    call = {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"where": "server/"}}
    upstream = Upstream(claude([thought, hidden, call], "tool_use"), claude([{"type": "text", "text": "found it"}]))
    client = AsyncAnthropic(api_key="none", http_client=upstream.http)
    model = AnthropicModel("claude-of-tests", provider=AnthropicProvider(anthropic_client=client))
    agent = Agent(model, instructions="Be kind.", capabilities=[MemoryCapability(memory, "alice")])
    agent.tool_plain(name="look")(lambda where: f"seen {where}")  # pyright: ignore[reportUnknownLambdaType]
    await agent.run("the API lives in server/", conversation_id="t1")
    await agent.run("where is it?", conversation_id="t1")
    first, second, third = upstream.bodies
    assert second["messages"][1]["content"] == third["messages"][1]["content"] == [thought, hidden, call]
    # Between the calls nothing follows the results, or the provider would drop the thoughts. The edge stays where it was.
    assert [block["type"] for block in second["messages"][-1]["content"]] == ["tool_result"]
    assert marked(second["messages"][-1]["content"]) == [0]
    assert [block["text"] for block in second["messages"][0]["content"]] == [
        block["text"] for block in first["messages"][0]["content"]
    ]
    for body in (first, third):
        last = body["messages"][-1]["content"]
        assert "<now>" in last[-1]["text"]
        assert marked(last) == [len(last) - 2]
    assert (await memory.thread("t1", resource="alice").status()).usage.cache_read_tokens == 270


def chat(message: dict[str, Any]) -> dict[str, Any]:
    """Return an answer of the Chat Completions endpoint."""
    usage = {
        "prompt_tokens": 100,
        "completion_tokens": 5,
        "total_tokens": 105,
        "prompt_tokens_details": {"cached_tokens": 60},
    }
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", **message}}
    return {"id": "c1", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice], "usage": usage}


def response(output: list[dict[str, Any]]) -> dict[str, Any]:
    """Return an answer of the Responses endpoint."""
    details = {"input_tokens_details": {"cached_tokens": 60}, "output_tokens_details": {"reasoning_tokens": 0}}
    usage = {"input_tokens": 100, "output_tokens": 5, "total_tokens": 105, **details}
    plain = {"parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "status": "completed"}
    return {"id": "r1", "object": "response", "created_at": 1, "model": "m", "output": output, "usage": usage, **plain}


CHAT = chat({"content": "noted"})
RESPONSE = response(
    [
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAAAB"},
        {
            "type": "message",
            "id": "msg_1",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": "noted", "annotations": []}],
        },
    ]
)


@pytest.mark.parametrize(
    ("kind", "answer", "key"),
    [(OpenAIChatModel, CHAT, "messages"), (OpenAIResponsesModel, RESPONSE, "input")],
    ids=["chat", "responses"],
)
async def test_openai_gets_items_that_extend_each_other(
    memory: Memory, kind: Any, answer: dict[str, Any], key: str
) -> None:
    """Everything up to the edge of one request opens the next. One system message, then user and assistant by turns."""
    upstream = Upstream(answer)
    client = AsyncOpenAI(api_key="none", http_client=upstream.http)
    model = kind("gpt-5-mini", provider=OpenAIProvider(openai_client=client))
    agent = Agent(model, instructions="Be kind.", capabilities=[MemoryCapability(memory, "alice")])
    for number in range(4):
        await agent.run(f"turn {number}", conversation_id="t1")
    for earlier, later in zip(upstream.bodies, upstream.bodies[1:], strict=False):
        before, after = json.dumps(earlier[key][:-1]), json.dumps(later[key])
        assert after.startswith(before[:-1])
        assert "<now>" in json.dumps(earlier[key][-1])
        assert {**earlier, key: None} == {**later, key: None}
    if key == "messages":
        assert [one["role"] for one in upstream.bodies[-1][key]] == ["system", *["user", "assistant"] * 3, "user"]
    if key == "input":
        thoughts = [item for item in upstream.bodies[-1][key] if item.get("type") == "reasoning"]
        assert [thought["encrypted_content"] for thought in thoughts] == ["gAAAAAB"] * 3
    assert (await memory.thread("t1", resource="alice").status()).usage.cache_read_tokens == 240


async def test_answers_of_concurrent_turns_are_one_message(memory: Memory) -> None:
    """Two questions that were answered at once are one question and one answer, as strict servers demand; nothing is lost."""
    bodies, are_both_asked = list[dict[str, Any]](), asyncio.Event()

    async def answer(request: httpx2.Request) -> httpx2.Response:
        number = len(bodies)
        bodies.append(json.loads(request.content))
        if number == 1:
            are_both_asked.set()
        await are_both_asked.wait()
        return httpx2.Response(200, json=chat({"content": f"Answer {number}."}))

    http = httpx2.AsyncClient(transport=httpx2.MockTransport(answer))
    model = OpenAIChatModel("m", provider=OpenAIProvider(openai_client=AsyncOpenAI(api_key="none", http_client=http)))
    agent = Agent(model, instructions="Be kind.", capabilities=[MemoryCapability(memory, "alice")])
    await asyncio.gather(*(agent.run(asked, conversation_id="t1") for asked in ("One?", "Two?")))
    await agent.run("Three?", conversation_id="t1")
    sent = bodies[-1]["messages"]
    assert [one["role"] for one in sent] == ["system", "user", "assistant", "user"]
    words = ["One?", "Two?", "Answer 0.", "Answer 1.", "Three?"]
    assert [word for word in words if word in json.dumps(sent)] == words
