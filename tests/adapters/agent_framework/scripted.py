"""A scripted chat client of Agent Framework, made of the library's own layers, and what its tests share. No network."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any

from agent_framework import (
    BaseChatClient,
    ChatMiddlewareLayer,
    ChatResponse,
    ChatResponseUpdate,
    Content,
    FunctionInvocationLayer,
    Message,
    ResponseStream,
    tool,
)

from adapters.kit import Prompts, forecast, split_edge

Script = Callable[[list[Message]], Any]


class Received:
    """One request as the client received it."""

    def __init__(self, instructions: str, messages: Sequence[Message], options: Mapping[str, Any]) -> None:
        self.instructions, self.options = instructions, options
        self.messages, self.edge = list(messages), None
        for place in reversed(range(len(messages))):
            if messages[place].role == "user":
                last = messages[place]
                *others, end = last.contents
                text, self.edge = split_edge(end.text or "")
                if self.edge:
                    self.messages[place] = Message(
                        "user", [*others, text] if text else others, message_id=last.message_id
                    )
                break

    @property
    def text(self) -> str:
        """Return the exact text of the request without its edge."""
        return "\n\n".join([self.instructions, *map(_line, self.messages)])


def _line(message: Message) -> str:
    if message.role != "user":
        return message.to_json()
    # A user message is open at its end, because the next question may be added to it.
    return "\n\n".join(["user", *(one.text or str(one.to_dict()) for one in message.contents)])


class Scripted(FunctionInvocationLayer[Any], ChatMiddlewareLayer[Any], BaseChatClient[Any]):
    """Answers with what its script makes of the messages; an exception in place of an answer is raised."""

    def __init__(self, script: Script, *, prompts: Prompts | None = None, **options: Any) -> None:
        super().__init__(**options)
        self.script, self.prompts = script, prompts
        self.received: list[Received] = []
        self.stuck: asyncio.Event | None = None
        self.model = "scripted-1"

    def _answer(self, messages: Sequence[Message], options: Mapping[str, Any]) -> ChatResponse:
        request = Received(str(options.get("instructions") or ""), messages, options)
        self.received.append(request)
        if self.prompts is not None:
            self.prompts.add(request.text)
        answer = self.script(request.messages)
        if isinstance(answer, BaseException):
            raise answer
        # What a provider would report: a script that made numbers up would teach the memory wrong ones.
        size = len(request.text.encode()) // 5
        usage: Any = {"input_token_count": size, "output_token_count": 10, "total_token_count": size + 10}
        return ChatResponse(messages=[answer], response_id=f"r{len(self.received)}", usage_details=usage)

    async def _wait(self) -> None:
        if self.stuck is not None:
            self.stuck.set()
            await asyncio.Event().wait()

    def _inner_get_response(
        self, *, messages: Sequence[Message], stream: bool, options: Mapping[str, Any], **kwargs: Any
    ) -> Awaitable[ChatResponse] | ResponseStream[ChatResponseUpdate, ChatResponse]:
        async def whole() -> ChatResponse:
            response = self._answer(messages, options)
            await self._wait()
            return response

        async def pieces() -> AsyncIterator[ChatResponseUpdate]:
            response = self._answer(messages, options)
            first = True
            for content in response.messages[0].contents:
                words = str(content.text).split(" ") if content.type == "text" else []
                parts = [Content.from_text(word if n == 0 else f" {word}") for n, word in enumerate(words)] or [content]
                for part in parts:
                    yield ChatResponseUpdate(role="assistant", contents=[part], response_id=response.response_id)
                    if first:
                        await self._wait()
                        first = False
            usage = Content.from_usage(response.usage_details or {})
            yield ChatResponseUpdate(role="assistant", contents=[usage], response_id=response.response_id)

        return self._build_response_stream(pieces()) if stream else whole()


def last_question(messages: Sequence[Message]) -> str:
    """Return what the user said last."""
    return next(message.text for message in reversed(messages) if message.role == "user")


def told(text: str) -> Message:
    """Return an answer."""
    return Message("assistant", [text])


def called(name: str, id_: str, arguments: str) -> Message:
    """Return an answer that calls a tool."""
    return Message("assistant", [Content.from_function_call(id_, name, arguments=arguments)])


@tool(approval_mode="never_require")
def weather(city: str) -> str:
    """Tell the weather."""
    return forecast(city)
