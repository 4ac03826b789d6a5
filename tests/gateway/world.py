"""A gateway between the official clients and a scripted provider, all on loopback and in this process."""

import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import anthropic
import httpx
import openai

from adapters.kit import brief, stored
from gateway.upstream import Call, Script, Upstream, running
from memolog import Config, Memory
from memolog.apps.gateway import GatewaySettings, serve

__all__ = ["APIS", "Conversation", "World", "opened"]

APIS = ("chat", "responses", "messages")
MODEL = "model-1"
KEY = "sk-the-clients-own-key"


@dataclass(frozen=True, slots=True)
class World:
    """All of it, running."""

    memory: Memory
    upstream: Upstream
    url: str
    openai: openai.AsyncOpenAI
    anthropic: anthropic.AsyncAnthropic
    http: httpx.AsyncClient
    upstream_url: str = ""

    async def lines(self, thread: str = "t1", resource: str = "alice") -> list[str]:
        """Return what is stored, a line a part, without what the model thought."""
        return [line for line in brief(await stored(self.memory, resource, thread)) if line != "reasoning"]

    def talk(self, api: str, thread: str = "t1", resource: str = "alice", **options: Any) -> "Conversation":
        """Return a conversation with one of the clients."""
        return Conversation(self, api, {"x-memolog-thread": thread, "x-memolog-resource": resource}, **options)


@asynccontextmanager
async def opened(
    address: Any, script: Script, *, config: Config | None = None, retries: int = 0, **settings: Any
) -> AsyncGenerator[World]:
    """Run everything; nothing is left after the block."""
    async with AsyncExitStack() as stack:
        upstream = Upstream(script)
        provider = await stack.enter_async_context(running(upstream))
        memory = await stack.enter_async_context(Memory(address, config=config or Config()))
        given: dict[str, Any] = {"openai": f"{provider}/v1", "anthropic": provider, **settings}
        known = GatewaySettings(**given)
        at = await stack.enter_async_context(serve(memory, known, port=0))
        first = openai.AsyncOpenAI(base_url=f"{at.url}/v1", api_key=KEY, max_retries=retries)
        second = anthropic.AsyncAnthropic(base_url=at.url, api_key=KEY, max_retries=retries)
        http = httpx.AsyncClient(base_url=at.url, trust_env=False)
        for client in (first, second):
            stack.push_async_callback(client.close)
        stack.push_async_callback(http.aclose)
        yield World(memory, upstream, at.url, first, second, http, provider)


class Conversation:
    """One client that talks, and keeps the whole conversation itself if it is of that kind."""

    def __init__(
        self, world: World, api: str, headers: dict[str, str], *, is_whole: bool = False, is_streamed: bool = False
    ) -> None:
        self.world, self.api, self.headers = world, api, headers
        self.is_whole, self.is_streamed = is_whole, is_streamed
        self.history: list[Any] = []

    async def say(self, text: str) -> str | Call:
        """Say something; return what the model answers."""
        return await self._send([{"role": "user", "content": text}])

    async def answer(self, *calls: tuple[str, str]) -> str | Call:
        """Hand in what tools answered."""
        results: list[Any]
        if self.api == "chat":
            results = [{"role": "tool", "tool_call_id": id_, "content": text} for id_, text in calls]
        elif self.api == "responses":
            results = [{"type": "function_call_output", "call_id": id_, "output": text} for id_, text in calls]
        else:
            blocks = [{"type": "tool_result", "tool_use_id": id_, "content": text} for id_, text in calls]
            results = [{"role": "user", "content": blocks}]
        return await self._send(results)

    async def _send(self, new: Sequence[Any]) -> str | Call:
        self.history += new
        given = self.history if self.is_whole else list(new)
        ask = {"chat": self._chat, "responses": self._responses, "messages": self._messages}[self.api]
        try:
            answer, kept = await ask(given)
        except BaseException:
            # A client that tries again says the same again.
            del self.history[len(self.history) - len(new) :]
            raise
        self.history += kept
        return answer

    async def _chat(self, given: list[Any]) -> tuple[str | Call, list[Any]]:
        create: Any = self.world.openai.chat.completions.create
        said = [{"role": "system", "content": "Be brief."}, *given]
        options: Any = {"model": MODEL, "messages": said, "extra_headers": self.headers, "temperature": 0.5}
        if not self.is_streamed:
            done = await create(**options)
            message = done.choices[0].message
        else:
            async with self.world.openai.chat.completions.stream(**options) as stream:
                message = (await stream.get_final_completion()).choices[0].message
        kept = message.model_dump(exclude_none=True, exclude={"parsed"})
        for call in kept.get("tool_calls", ()):
            call["function"].pop("parsed_arguments", None)
            call.pop("index", None)
        if message.tool_calls:
            call = message.tool_calls[0]
            return Call(call.id, call.function.name, json.loads(call.function.arguments)), [kept]
        return message.content or "", [kept]

    async def _responses(self, given: list[Any]) -> tuple[str | Call, list[Any]]:
        options: Any = {"model": MODEL, "input": given, "instructions": "Be brief.", "extra_headers": self.headers}
        if not self.is_streamed:
            done: Any = await self.world.openai.responses.create(**options)
        else:
            async with self.world.openai.responses.stream(**options) as stream:
                done = await stream.get_final_response()
        kept = [item.model_dump(exclude_none=True, exclude={"parsed_arguments"}) for item in done.output]
        for item in kept:
            for block in item.get("content", ()):
                block.pop("parsed", None)
        call = next((item for item in done.output if item.type == "function_call"), None)
        if call is not None:
            return Call(call.call_id, call.name, json.loads(call.arguments)), kept
        return done.output_text, kept

    async def _messages(self, given: list[Any]) -> tuple[str | Call, list[Any]]:
        options: Any = {
            "model": MODEL,
            "max_tokens": 100,
            "messages": given,
            "system": "Be brief.",
            "extra_headers": self.headers,
        }
        if not self.is_streamed:
            done: Any = await self.world.anthropic.messages.create(**options)
        else:
            async with self.world.anthropic.messages.stream(**options) as stream:
                done = await stream.get_final_message()
        blocks = [block.model_dump(exclude_none=True, exclude={"parsed_output"}) for block in done.content]
        kept = [{"role": "assistant", "content": blocks}]
        used = next((block for block in done.content if block.type == "tool_use"), None)
        if used is not None:
            return Call(used.id, used.name, dict(used.input)), kept
        return "".join(block.text for block in done.content if block.type == "text"), kept
