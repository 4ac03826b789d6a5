"""LangChain's agent with summarisation at 30,000 tokens and a SQLite checkpointer. All other settings are the defaults."""

import json
import sqlite3
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from harness import SYSTEM, Meter, Run, Step, condensed, versions
from langchain.agents import create_agent
from langchain.agents.middleware import SummarizationMiddleware
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langgraph.checkpoint.sqlite import SqliteSaver

TRIGGER_TOKENS = 30_000
RUN = Run("langgraph")
RESULTS: list[str] = []


def text_of(message: BaseMessage) -> str:
    """Return a message as JSON, for the trace."""
    calls = [{key: call[key] for key in ("id", "name", "args")} for call in getattr(message, "tool_calls", [])]
    return json.dumps({"role": message.type, "content": message.content, "tool_calls": calls}, ensure_ascii=False)


class Agent(BaseChatModel):
    """The scripted model of the agent. In W2 it stops the meter when it is asked, and starts it when it has answered."""

    answer: Callable[[], AIMessage]
    meter: Any = None
    thread: str = ""

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: object, **_: object) -> "Agent":
        """Accept tools."""
        del tools
        return self

    def _generate(self, messages: list[BaseMessage], *_: object, **__: object) -> ChatResult:
        if self.meter:
            self.meter.__exit__()
        with RUN.scripted as scripted:
            answer = self.answer()
            scripted.call("agent", self.thread, [text_of(message) for message in messages], str(answer.content))
        if self.meter:
            self.meter.__enter__()
        return ChatResult(generations=[ChatGeneration(message=answer)])


class Summarizer(BaseChatModel):
    """The scripted model that writes summaries."""

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def _generate(self, messages: list[BaseMessage], *_: object, **__: object) -> ChatResult:
        with RUN.scripted as scripted:
            summary = "\n".join(f"* {line}" for line in condensed(str(messages[-1].content).split("<messages>")[-1]))
            scripted.call("observer", "", [text_of(message) for message in messages], summary)
        return ChatResult(generations=[ChatGeneration(message=AIMessage(content=summary))])


@tool
def lookup(query: str) -> str:
    """Look something up."""
    del query
    return RESULTS[-1]


def agent_of(model: Agent, path: Path) -> Any:
    """Return an agent with memory."""
    for file in path.parent.glob(path.name + "*"):
        file.unlink()
    return create_agent(
        model,
        tools=[lookup] if RUN.workload == "W2" else [],
        system_prompt=SYSTEM,
        checkpointer=SqliteSaver(sqlite3.connect(path, check_same_thread=False)),
        middleware=[SummarizationMiddleware(model=Summarizer(), trigger=("tokens", TRIGGER_TOKENS))],
    )


def play(path: Path, steps: list[Step], meter: Meter) -> int:
    """Go through the steps. Return how often the answer was another one than the scripted one."""
    remaining = iter(steps)
    wrong = 0

    def next_answer() -> AIMessage:
        step = next(remaining)
        if call := step.answer.get("call"):
            following = steps[steps.index(step) + 1] if step is not steps[-1] else step
            RESULTS.append(str(following.given.get("content")))
            return AIMessage(content="", tool_calls=[{"id": call["id"], "name": "lookup", "args": call["arguments"]}])
        return AIMessage(content=step.answer["content"])

    is_one_turn = RUN.workload == "W2"
    model = Agent(answer=next_answer, meter=meter if is_one_turn else None)
    agent = agent_of(model, path)
    settings = {"recursion_limit": 20 * len(steps) + 50}
    for step in steps[:1] if is_one_turn else steps:
        model.thread = step.thread
        given = {"messages": [{"role": "user", "content": step.given["content"]}]}
        if is_one_turn:
            meter.__enter__()
        with nullcontext() if is_one_turn else meter:
            reply = agent.invoke(given, {**settings, "configurable": {"thread_id": step.thread}})
        if is_one_turn:
            meter.__exit__()
        expected = steps[-1] if is_one_turn else step
        wrong += reply["messages"][-1].content != expected.answer["content"]
    return wrong


def main() -> None:
    """Run one workload."""
    play(RUN.folder / "langgraph-warm.db", RUN.steps(30), RUN.warm())
    path = RUN.folder / f"{RUN.stem}.db"
    RUN.begin()
    errors = play(path, RUN.steps(), RUN.turn)
    names = ("langchain", "langgraph", "langgraph-checkpoint-sqlite")
    RUN.end(path, errors=errors, versions=versions(*names))


main()
