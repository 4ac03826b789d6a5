"""An agent of Microsoft Agent Framework with a long memory. The client is scripted, so no key and no network is needed.

Run it with `python examples/with_agent_framework.py`. To use a real model, replace `Scripted` by a chat client of the library.
Needs `pip install "memolog[agent-framework]"`.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Iterator, Mapping, Sequence
from typing import Any

from agent_framework import (
    Agent,
    AgentSession,
    BaseChatClient,
    ChatMiddlewareLayer,
    ChatResponse,
    ChatResponseUpdate,
    Content,
    FunctionInvocationLayer,
    Message,
    ResponseStream,
)

from memolog import Memory
from memolog.adapters.agent_framework import MemoryProvider


class Scripted(FunctionInvocationLayer[Any], ChatMiddlewareLayer[Any], BaseChatClient[Any]):
    """Returns the scripted answers one after the other, and prints how many messages it got."""

    def __init__(self, lines: Iterator[Message]) -> None:
        super().__init__()
        self._lines = lines

    def _inner_get_response(
        self, *, messages: Sequence[Message], stream: bool, options: Mapping[str, Any], **kwargs: Any
    ) -> Awaitable[ChatResponse] | ResponseStream[ChatResponseUpdate, ChatResponse]:
        del options, kwargs
        print(f"  the model reads {len(messages)} messages")
        line = next(self._lines)

        async def whole() -> ChatResponse:
            return ChatResponse(messages=[line])

        async def pieces() -> AsyncIterator[ChatResponseUpdate]:
            yield ChatResponseUpdate(role="assistant", contents=line.contents)

        return self._build_response_stream(pieces()) if stream else whole()


SEARCH = Content.from_function_call("call-1", "memory-search", arguments='{"action": "search", "query": "argon2id"}')
SCRIPT = [
    Message("assistant", ["argon2id, with 64 MiB and three passes."]),
    Message("assistant", [SEARCH]),
    Message("assistant", ["We settled on argon2id, with 64 MiB and three passes."]),
]


async def main() -> None:
    """Hold two conversations. In the second one the model searches for a fact from the first one."""
    async with Memory("with_agent_framework.db") as memory:
        agent = Agent(
            Scripted(iter(SCRIPT)),
            "You help with a web service.",
            context_providers=[MemoryProvider(memory, resource="alice")],
        )
        for thread, question in (
            ("monday", "Which hash should we use for passwords?"),
            ("tuesday", "What did we decide about password hashes?"),
        ):
            print(f"{thread}: {question}")
            done = await agent.run(question, session=AgentSession(session_id=thread))
            for message in done.messages:
                if message.role == "tool":
                    print(f"  memory-search found: {'64 MiB' in str(message.contents[0].result)}")
            print(f"  {done.text.strip()}")


if __name__ == "__main__":
    asyncio.run(main())
