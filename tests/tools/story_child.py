"""The two sessions of the story, each a process of its own that knows nothing but the database and the tools.

story_child.py first ADDRESS     plans, claims, talks, closes, writes facts down
story_child.py second ADDRESS    asks what is ready, finds, recalls, closes the rest; tells what it saw as JSON
"""

import asyncio
import json
import sys
from typing import Any

from memolog import AssistantMessage, Memory, ToolCallPart, ToolMessage, UserMessage
from memolog.memory import Tools
from memolog.turn import Turn

RESOURCE = "project"
CODE = """export const LoginSchema = z.object({
  email: z.string().email().max(254),
  password: z.string().min(8),
})"""


async def _ask(tools: Tools, name: str, **arguments: Any) -> dict[str, Any]:
    answer = await tools.call(name, json.dumps(arguments))
    assert answer["success"], (name, arguments, answer)
    return answer


async def _used(turn: Turn, tools: Tools, number: int, name: str, **arguments: Any) -> dict[str, Any]:
    """Call a tool within a turn, as an agent does: the call and its result are part of the conversation."""
    await turn.record(AssistantMessage([ToolCallPart(id=f"c{number}", name=name, arguments=arguments)]))
    answer = await _ask(tools, name, **arguments)
    await turn.prepare(ToolMessage(f"c{number}", json.dumps(answer), name=name))
    return answer


async def first(address: str) -> None:
    """Session 1."""
    async with Memory(address) as memory:
        async with memory.thread("monday", resource=RESOURCE).turn() as turn:
            await turn.prepare(UserMessage("We need a login. Plan it, then write the schema."))
            tools = memory.resource(RESOURCE).tools(thread="monday", session="s1")
            await _used(turn, tools, 1, "task-mutate", action="create", title="Write the login schema", priority=1)
            endpoint = "Add the login endpoint"
            await _used(
                turn, tools, 2, "task-mutate", action="create", title=endpoint, blocked_by=["Write the login schema"]
            )
            await _used(
                turn, tools, 3, "task-mutate", action="create", title="Document the login", blocked_by=[endpoint]
            )
            await _used(turn, tools, 4, "task-mutate", action="claim", task="Write the login schema")
            await turn.record(AssistantMessage(f"The schema is in src/schemas/auth.ts:\n\n{CODE}"))
        async with memory.thread("monday", resource=RESOURCE).turn() as turn:
            await turn.prepare(UserMessage("Good. We use Fastify, remember that. Close the task."))
            facts = {"section": "Decisions", "text": "- Fastify, not Express"}
            await _used(turn, tools, 5, "task-mutate", action="update_context", **facts)
            summary = "LoginSchema (email, password of 8 or more) in src/schemas/auth.ts; zod"
            await _used(turn, tools, 6, "task-mutate", action="close", task="current", summary=summary)
            await turn.record(AssistantMessage("Done: the schema is closed, the endpoint is ready."))
        await memory.thread("monday", resource=RESOURCE).finalize()


async def second(address: str) -> dict[str, Any]:
    """Session 2."""
    seen: dict[str, Any] = {}
    async with Memory(address) as memory:
        async with memory.thread("tuesday", resource=RESOURCE).turn() as turn:
            await turn.prepare(UserMessage("Go on with the login."))
        tools = memory.resource(RESOURCE).tools(thread="tuesday", session="s2")
        seen["ready"] = await _ask(tools, "task-query", action="ready")
        await _ask(tools, "task-mutate", action="claim", task=seen["ready"]["tasks"][0]["handle"])
        seen["task"] = await _ask(tools, "task-query", action="search", query="login schema", related=True)
        seen["search"] = await _ask(tools, "memory-search", action="search", query="LoginSchema auth.ts")
        hit = next(one for one in seen["search"]["results"] if one["source"] == "raw" and one["role"] == "assistant")
        seen["recall"] = await _ask(tools, "memory-search", action="recall", target=hit["id"], detail="full")
        seen["facts"] = await _ask(tools, "memory-search", action="recall", target="working-memory")
        closing = {"action": "close", "claim_next": True}
        seen["first"] = await _ask(tools, "task-mutate", task="current", summary="POST /login", **closing)
        seen["second"] = await _ask(tools, "task-mutate", task="current", summary="docs/login.md", **closing)
        seen["left"] = await _ask(tools, "task-query", action="ready")
        async with memory.thread("tuesday", resource=RESOURCE).turn() as turn:
            context = await turn.prepare(UserMessage("What is left?"))
            seen["context"] = context.render()
    return seen


if __name__ == "__main__":
    which, where = sys.argv[1:]
    if which == "first":
        asyncio.run(first(where))
    else:
        sys.stdout.write(json.dumps(asyncio.run(second(where))))
