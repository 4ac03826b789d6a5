"""A scripted model of Pydantic AI that stores the requests it gets, for the tests of the adapter."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import replace

from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
    ModelResponsePart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, DeltaToolCalls, FunctionModel
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
    """A model that answers with the result of a function, streamed or not, and stores every request."""

    def __init__(self, answer: Answer | None = None, *, prompts: Prompts | None = None) -> None:
        self.answer = answer or self.echo
        self.prompts = prompts or Prompts()
        self.requests: list[list[ModelMessage]] = []
        self.infos: list[AgentInfo] = []
        self.stuck: asyncio.Event | None = None
        """Set when the model is called. The model then never answers, or only with one word of a stream."""
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

    def _answer(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        self.requests.append(list(messages))
        self.infos.append(info)
        self.prompts.add(rendered(messages, info))
        return self.answer(messages, info)

    async def _wait(self) -> None:
        if self.stuck is not None:
            self.stuck.set()
            await asyncio.Event().wait()

    async def _whole(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        response = self._answer(messages, info)
        await self._wait()
        # A provider would report about this many tokens. The estimate of the library is far too small.
        size = len(rendered(messages, info).encode()) // 4
        return replace(response, usage=RequestUsage(input_tokens=size, cache_read_tokens=size // 2, output_tokens=9))

    async def _stream(self, messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str | DeltaToolCalls]:
        for place, part in enumerate(self._answer(messages, info).parts):
            if isinstance(part, ToolCallPart):
                yield {place: DeltaToolCall(part.tool_name, json.dumps(part.args), tool_call_id=part.tool_call_id)}
            elif isinstance(part, TextPart):
                for number, word in enumerate(part.content.split(" ")):
                    yield word if number == 0 else f" {word}"
                    await self._wait()


def saying(*parts: ModelResponsePart) -> Answer:
    """Return an answer that is always the same, even the same object."""
    response = ModelResponse(list(parts))

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        del messages, info
        return response

    return answer
