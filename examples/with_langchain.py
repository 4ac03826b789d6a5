"""A LangChain agent with a long memory, on LangChain's own fake model: no key, no network.

Run it with `python examples/with_langchain.py`. Put `init_chat_model("provider:model")` in place of `Scripted` for a real one.
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
    """Says its lines one after the other, and shows how much it was given to read."""

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Runnable[Any, AIMessage]:
        """Take any tools: what is called is in the script."""
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
    """Hold two conversations; in the second the model looks up what was said in the first."""
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
