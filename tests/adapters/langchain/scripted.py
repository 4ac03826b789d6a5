"""A scripted chat model of LangChain, and what its tests share. No network."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage, SystemMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.tools import tool
from pydantic import Field

from adapters.kit import Prompts, forecast, split_edge

Script = Callable[[list[BaseMessage]], AIMessage]


class Scripted(BaseChatModel):
    """Answers with what its script makes of the messages; an exception in place of an answer is raised."""

    script: Any
    received: list[list[BaseMessage]] = Field(default_factory=list)
    prompts: Any = None
    stuck: Any = None
    model_name: str = "scripted-1"

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Runnable[Any, AIMessage]:
        """Ignore the tools, because the script chooses the calls."""
        return self.bind(**{name: value for name, value in kwargs.items() if value is not None})

    def _answer(self, messages: list[BaseMessage]) -> AIMessage:
        self.received.append(list(messages))
        if isinstance(self.prompts, Prompts):
            self.prompts.add(plain(without_edge(messages)))
        answer = self.script(without_edge(messages))
        if isinstance(answer, BaseException):
            raise answer
        # What a provider would report: a script that made numbers up would teach the memory wrong ones.
        size = sum(len(plain([one]).encode()) for one in messages) // 4
        usage = {"input_tokens": size, "output_tokens": 10, "total_tokens": size + 10}
        return answer.model_copy(update={"usage_metadata": usage})

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=self._answer(messages))])

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        result = self._generate(messages)
        await self._wait()
        return result

    async def _wait(self) -> None:
        if self.stuck is not None:
            self.stuck.set()
            await asyncio.Event().wait()

    def _chunks(self, messages: list[BaseMessage]) -> Iterator[ChatGenerationChunk]:
        answer = self._answer(messages)
        words = str(answer.content).split(" ") if answer.content else []
        for number, word in enumerate(words):
            text = word if number == 0 else f" {word}"
            yield ChatGenerationChunk(message=AIMessageChunk(content=text))
        calls: Any = [
            {
                "name": call["name"],
                "args": json.dumps(call["args"]),
                "id": call["id"],
                "index": n,
                "type": "tool_call_chunk",
            }
            for n, call in enumerate(answer.tool_calls)
        ]
        yield ChatGenerationChunk(
            message=AIMessageChunk(
                content="", tool_call_chunks=calls, usage_metadata=answer.usage_metadata, chunk_position="last"
            )
        )

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        yield from self._chunks(messages)

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        for number, chunk in enumerate(self._chunks(messages)):
            if number == 1:
                await self._wait()
            yield chunk


def edge_of(messages: Sequence[BaseMessage]) -> str | None:
    """Return the edge: the end of the last user message."""
    texts = [one.text for one in messages if isinstance(one, HumanMessage)]
    return split_edge(texts[-1])[1] if texts else None


def without_edge(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """Return a prompt without its edge."""
    return [
        one.model_copy(update={"content": split_edge(one.content)[0]})
        if isinstance(one, HumanMessage) and isinstance(one.content, str)
        else one
        for one in messages
    ]


def plain(messages: Sequence[BaseMessage]) -> str:
    """Return the exact text of messages. Instructions and user messages are open at their end, because they grow."""
    grow = (SystemMessage, HumanMessage)
    return "\n\n".join(f"{one.type} {one.text}" if isinstance(one, grow) else one.model_dump_json() for one in messages)


def last_question(messages: Sequence[BaseMessage]) -> str:
    """Return what the user said last."""
    return next(str(one.content) for one in reversed(messages) if isinstance(one, HumanMessage))


def told(text: str, **fields: Any) -> AIMessage:
    """Return an answer."""
    return AIMessage(**{"content": text, **fields})


def called(name: str, id_: str, **arguments: Any) -> AIMessage:
    """Return an answer that calls a tool."""
    return told("", tool_calls=[{"name": name, "args": arguments, "id": id_, "type": "tool_call"}])


@tool
def weather(city: str) -> str:
    """Tell the weather."""
    return forecast(city)
