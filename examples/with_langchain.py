"""A LangChain agent with a long memory. It uses a fake model of LangChain, so no key and no network is needed.

Run it with `python examples/with_langchain.py`. To use a real model, replace `Scripted` by `init_chat_model("provider:model")`.
Needs `pip install "memolog[langchain]"`.
"""

from collections.abc import Sequence
from typing import Any

from langchain.agents import create_agent  # pyright: ignore[reportUnknownVariableType]
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.outputs import ChatResult
from langchain_core.runnables import Runnable

from memolog import SyncMemory
from memolog.adapters.langchain import MemoryMiddleware


class Scripted(GenericFakeChatModel):
    """Returns the scripted answers one after the other, and prints how many messages it got."""

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Runnable[Any, AIMessage]:
        """Accept any tools. The script decides which tool is called."""
        del tools
        return self.bind(**{name: value for name, value in kwargs.items() if value is not None})

    def _generate(self, messages: list[BaseMessage], *rest: Any, **more: Any) -> ChatResult:
        print(f"  the model reads {len(messages)} messages")
        return super()._generate(messages, *rest, **more)


SEARCH = {"name": "memory-search", "args": {"action": "search", "query": "argon2id"}, "id": "call-1"}
SCRIPT = [
    AIMessage("argon2id, with 64 MiB and three passes."),
    AIMessage("", tool_calls=[SEARCH]),
    AIMessage("We settled on argon2id, with 64 MiB and three passes."),
]


def main() -> None:
    """Hold two conversations. In the second one the model searches for a fact from the first one."""
    with SyncMemory("with_langchain.db") as memory:
        agent: Any = create_agent(
            Scripted(messages=iter(SCRIPT)),
            system_prompt="You help with a web service.",
            middleware=[MemoryMiddleware(memory, resource="alice")],
        )
        for thread, question in (
            ("monday", "Which hash should we use for passwords?"),
            ("tuesday", "What did we decide about password hashes?"),
        ):
            print(f"{thread}: {question}")
            done = agent.invoke({"messages": [("user", question)]}, {"configurable": {"thread_id": thread}})
            for message in done["messages"]:
                if isinstance(message, ToolMessage):
                    print(f"  memory-search found: {'64 MiB' in str(message.content)}")
            print(f"  {done['messages'][-1].content}")


if __name__ == "__main__":
    main()
