"""A gateway between the official clients and a scripted provider, all on loopback and in this process."""

import json
from collections.abc import AsyncGenerator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import anthropic
import httpx
import openai

from adapters.kit import brief, stored
from adapters.provider import APIS as DRIVERS
from adapters.provider import Json
from gateway.upstream import Call, Script, Upstream, running
from memolog import Config, Memory
from memolog.apps.gateway import GatewaySettings, serve

__all__ = ["APIS", "Conversation", "World", "opened"]

APIS = tuple(DRIVERS)
KEY = "sk-the-clients-own-key"


@dataclass(frozen=True, slots=True)
class World:
    memory: Memory
    upstream: Upstream
    url: str
    openai: openai.AsyncOpenAI
    anthropic: anthropic.AsyncAnthropic
    http: httpx.AsyncClient
    upstream_url: str = ""

    async def lines(self, thread: str = "t1", resource: str = "alice") -> list[str]:
        """Return the stored messages, one line for each part, without reasoning."""
        return [line for line in brief(await stored(self.memory, resource, thread)) if line != "reasoning"]

    def talk(self, api: str, thread: str = "t1", resource: str = "alice", **options: Any) -> "Conversation":
        return Conversation(self, api, {"x-memolog-thread": thread, "x-memolog-resource": resource}, **options)


@asynccontextmanager
async def opened(
    address: Any, script: Script, *, config: Config | None = None, retries: int = 0, **settings: Any
) -> AsyncGenerator[World]:
    """Run a provider, a gateway and clients while the block runs."""
    async with AsyncExitStack() as stack:
        upstream = Upstream(script)
        provider = await stack.enter_async_context(running(upstream))
        memory = await stack.enter_async_context(Memory(address, config=config or Config()))
        given: dict[str, Any] = {"openai": f"{provider}/v1", "anthropic": provider, "google": provider, **settings}
        known = GatewaySettings(**given)
        at = await stack.enter_async_context(serve(memory, known, port=0))
        first = openai.AsyncOpenAI(base_url=f"{at.url}/v1", api_key=KEY, max_retries=retries)
        second = anthropic.AsyncAnthropic(base_url=at.url, api_key=KEY, max_retries=retries)
        http = httpx.AsyncClient(base_url=at.url, trust_env=False, timeout=120)
        for client in (first, second):
            stack.push_async_callback(client.close)
        stack.push_async_callback(http.aclose)
        yield World(memory, upstream, at.url, first, second, http, provider)


class Conversation:
    """A conversation of one client. With `is_whole`, the client sends the whole conversation with every request."""

    def __init__(
        self, world: World, api: str, headers: dict[str, str], *, is_whole: bool = False, is_streamed: bool = False
    ) -> None:
        self.world, self.driver, self.headers = world, DRIVERS[api], headers
        self.is_whole, self.is_streamed = is_whole, is_streamed
        self.history: list[Any] = []

    async def say(self, text: str) -> str | Call:
        return await self._send(self.driver.said(text))

    async def answer(self, *calls: tuple[str, str]) -> str | Call:
        return await self._send(self.driver.results(calls))

    async def _send(self, request: Json) -> str | Call:
        api = self.driver.name
        key = "input" if api == "responses" else "messages"
        given = [{"role": "user", "content": request[key]}] if isinstance(request[key], str) else request[key]
        opening, new = (given[:1], given[1:]) if api == "chat" else ([], given)
        if self.is_whole:
            request = {**request, key: [*opening, *self.history, *new]}
        done = await self._ask({**request, "extra_body": {"temperature": 0.5}, "extra_headers": self.headers})
        answers = {"chat": lambda: [done.choices[0].message], "responses": lambda: done.output}
        kept = [_plain(item.model_dump(exclude_none=True)) for item in answers.get(api, lambda: done.content)()]
        self.history += [*new, *([{"role": "assistant", "content": kept}] if api == "messages" else kept)]
        return next(_calls(kept), self.driver.text(done))

    async def _ask(self, request: Json) -> Any:
        create = self.driver.call(self.world.anthropic if self.driver.name == "messages" else self.world.openai)
        if not self.is_streamed:
            return await create(**request)
        kind = {"chat": "completion", "responses": "response", "messages": "message"}[self.driver.name]
        resource: Any = getattr(create, "__self__", None)
        async with resource.stream(**request) as stream:
            return await getattr(stream, f"get_final_{kind}")()


def _plain(value: Any) -> Any:
    """Return an answer without the fields that the client library has added."""
    if isinstance(value, dict):
        added = {"parsed", "parsed_arguments", "parsed_output", "index"}
        return {name: _plain(item) for name, item in value.items() if name not in added}
    return [_plain(item) for item in value] if isinstance(value, list) else value


def _calls(kept: list[Json]) -> Iterator[Call]:
    for item in kept:
        for call in item.get("tool_calls", ()):
            yield Call(call["id"], call["function"]["name"], json.loads(call["function"]["arguments"]))
        if item.get("type") == "function_call":
            yield Call(item["call_id"], item["name"], json.loads(item["arguments"]))
        if item.get("type") == "tool_use":
            yield Call(item["id"], item["name"], item["input"])
