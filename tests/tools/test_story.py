"""A story through the tools alone: what one session planned, said and closed, another finds, recalls and finishes."""

import json
from typing import Any

from kit.engines import engines
from memolog import AssistantMessage, Memory, ToolCallPart, ToolMessage, UserMessage
from memolog.memory import Tools
from memolog.turn import Turn

RESOURCE = "project"
CODE = """export const LoginSchema = z.object({
  email: z.string().email().max(254),
  password: z.string().min(8),
})"""
engine_name = engines("sqlite", "postgres")


async def ask(tools: Tools, name: str, **arguments: Any) -> dict[str, Any]:
    """Call a tool as a model does, with JSON as text."""
    answer = await tools.call(name, json.dumps(arguments))
    assert answer["success"], (name, arguments, answer)
    return answer


async def use(turn: Turn, tools: Tools, action: str, **arguments: Any) -> None:
    """Change tasks within a turn, as an agent does: the call and its result are part of the conversation."""
    name = f"{action} {next(iter(arguments.values()))}"
    tool = "memory-search" if action == "update_context" else "task-mutate"
    call = ToolCallPart(id=name, name=tool, arguments={"action": action, **arguments})
    await turn.record(AssistantMessage([call]))
    answer = await ask(tools, tool, action=action, **arguments)
    await turn.prepare(ToolMessage(call.id, json.dumps(answer), name=call.name))


async def plan_and_work(memory: Memory) -> None:
    """Session 1: plan, claim, talk, write facts down, close."""
    tools = memory.resource(RESOURCE).tools(thread="monday", session="s1")
    schema, endpoint = "Write the login schema", "Add the login endpoint"
    async with memory.thread("monday", resource=RESOURCE).turn() as turn:
        await turn.prepare(UserMessage("We need a login. Plan it, then write the schema."))
        await use(turn, tools, "create", title=schema, priority=1)
        await use(turn, tools, "create", title=endpoint, blocked_by=[schema])
        await use(turn, tools, "create", title="Document the login", blocked_by=[endpoint])
        await use(turn, tools, "claim", task=schema)
        await turn.record(AssistantMessage(f"The schema is in src/schemas/auth.ts:\n\n{CODE}"))
    async with memory.thread("monday", resource=RESOURCE).turn() as turn:
        await turn.prepare(UserMessage("Good. We use Fastify, remember that. Close the task."))
        await use(turn, tools, "update_context", section="Decisions", text="- Fastify, not Express")
        summary = "LoginSchema (email, password of 8 or more) in src/schemas/auth.ts; zod"
        await use(turn, tools, "close", task="current", summary=summary)
        await turn.record(AssistantMessage("Done: the schema is closed, the endpoint is ready."))
    await memory.thread("monday", resource=RESOURCE).finalize()


async def test_two_sessions(address: str) -> None:
    """Session 2 knows the database alone: it asks, searches, recalls the exact code, sees the facts, and closes the rest."""
    async with Memory(address) as memory:
        await plan_and_work(memory)
    async with Memory(address) as memory:
        async with memory.thread("tuesday", resource=RESOURCE).turn() as turn:
            await turn.prepare(UserMessage("Go on with the login."))
        tools = memory.resource(RESOURCE).tools(thread="tuesday", session="s2")
        ready = await ask(tools, "task-query", action="ready")
        assert [task["title"] for task in ready["tasks"]] == ["Add the login endpoint"]
        assert ready["counts"] == {"ready": 1, "blocked": 1, "in_progress": 0}
        await ask(tools, "task-mutate", action="claim", task=ready["tasks"][0]["handle"])
        task = (await ask(tools, "task-query", action="search", query="login schema", related=True))["tasks"][0]
        assert task["title"] == "Write the login schema"
        assert "src/schemas/auth.ts" in task["summary"]
        found = (await ask(tools, "memory-search", action="search", query="LoginSchema auth.ts"))["results"]
        hit = next(one for one in found if one["source"] == "raw" and one["role"] == "assistant")
        assert CODE in (await ask(tools, "memory-search", action="recall", target=hit["id"], detail="full"))["text"]
        facts = await ask(tools, "memory-search", action="recall", target="working-memory")
        assert "Fastify, not Express" in json.dumps(facts)
        closing = {"action": "close", "task": "current", "claim_next": True}
        first = await ask(tools, "task-mutate", summary="POST /login", **closing)
        assert [ref["title"] for ref in first["unblocked"]] == ["Document the login"]
        assert first["next"]["task"]["title"] == "Document the login"
        assert (await ask(tools, "task-mutate", summary="docs/login.md", **closing))["next"] is None
        assert (await ask(tools, "task-query", action="ready"))["tasks"] == []
        async with memory.thread("tuesday", resource=RESOURCE).turn() as turn:
            assert "Fastify, not Express" in (await turn.prepare(UserMessage("What is left?"))).render()
