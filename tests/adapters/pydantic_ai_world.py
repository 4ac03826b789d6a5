"""What the tests of the Pydantic AI adapter share: a scripted model that tells what it was sent.

Knows the library's own model for tests. Knows nothing of what a test expects.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace

from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
    ModelResponsePart,
    TextPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, DeltaToolCalls, FunctionModel
from pydantic_ai.usage import RequestUsage

from adapters.kit import Prompts, split_edge

Answer = Callable[[list[ModelMessage], AgentInfo], ModelResponse]


def words(prompt: UserPromptPart) -> str:
    """Return the text of a prompt."""
    content = prompt.content
    return content if isinstance(content, str) else "\n\n".join(one for one in content if isinstance(one, str))


def edge_of(messages: list[ModelMessage]) -> str | None:
    """Return the edge: the end of the last prompt that has a text."""
    prompts = [part for message in messages for part in message.parts if isinstance(part, UserPromptPart)]
    said = [text for prompt in prompts if (text := words(prompt))]
    return split_edge(said[-1])[1] if said else None


def rendered(messages: list[ModelMessage], info: AgentInfo) -> str:
    """Return a prompt as exact text without its edge: instructions, then a line a part, as a provider would get them."""
    lines = [info.instructions or ""]
    for message in messages:
        for part in message.parts:
            if isinstance(part, UserPromptPart):
                lines.append(f"user {split_edge(words(part))[0]}")
            else:
                called = (getattr(part, "tool_name", ""), getattr(part, "args", ""), getattr(part, "tool_call_id", ""))
                lines.append(f"{message.kind} {part.part_kind} {called!r} {getattr(part, 'content', None)!r}")
    return "\n\n".join(lines)


class Script:
    """A model that answers by a function, streaming or not, and keeps every prompt it was sent."""

    def __init__(self, answer: Answer | None = None, *, prompts: Prompts | None = None) -> None:
        self.answer = answer or self.echo
        self.prompts = prompts or Prompts()
        self.requests: list[list[ModelMessage]] = []
        self.infos: list[AgentInfo] = []
        self.asked = asyncio.Event()
        self.breaks = True
        self.model = FunctionModel(self._whole, stream_function=self._stream, model_name="scripted")

    def echo(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        """Answer with what was said last."""
        del info
        return ModelResponse([TextPart(f"you said: {self.said(messages)}")])

    @staticmethod
    def said(messages: list[ModelMessage]) -> str:
        """Return the newest words of the user; empty after results of tools."""
        said = ""
        for part in messages[-1].parts:
            if isinstance(part, UserPromptPart):
                # An unanswered question may be part of the same prompt.
                said = split_edge(words(part))[0].rpartition("\n\n")[2]
            elif isinstance(part, ToolReturnPart):
                said = ""
        return said

    async def _hear(self, messages: list[ModelMessage], info: AgentInfo) -> None:
        self.requests.append(list(messages))
        self.infos.append(info)
        self.prompts.add(rendered(messages, info))
        if "hang" in self.said(messages):
            self.asked.set()
            await asyncio.Event().wait()
        if self.breaks and "break" in self.said(messages):
            raise RuntimeError("the provider is down")

    async def _whole(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        await self._hear(messages, info)
        response = self.answer(messages, info)
        # As a provider would count; what the library estimates for a model of tests is far too little.
        size = len(rendered(messages, info).encode()) // 4
        return replace(response, usage=RequestUsage(input_tokens=size, cache_read_tokens=size // 2, output_tokens=9))

    async def _stream(self, messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str | DeltaToolCalls]:
        await self._hear(messages, info)
        for part in self.answer(messages, info).parts:
            assert isinstance(part, TextPart)
            for word in part.content.split(" "):
                yield f"{word} "


def saying(*parts: ModelResponsePart) -> Answer:
    """Return an answer that is always the same, even the same object."""
    response = ModelResponse(list(parts))

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        del messages, info
        return response

    return answer


async def asked(script: Script, run: Awaitable[object]) -> "asyncio.Future[object]":
    """Start a run and wait until its model is being asked; a run that ends before that tells why."""
    script.asked.clear()
    task = asyncio.ensure_future(run)
    waiting = asyncio.ensure_future(script.asked.wait())
    await asyncio.wait({task, waiting}, return_when=asyncio.FIRST_COMPLETED)
    if task.done():
        waiting.cancel()
        raise AssertionError(f"the run ended before its model was asked: {task!r}")
    return task
