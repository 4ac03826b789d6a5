"""A small world for tools to act on: five tasks, a conversation, a log and a working memory, always the same."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from kit.talk import hold
from memolog import AssistantMessage, Memory, UserMessage
from memolog.memory import Tools
from memolog.testing import FakeClock, ScriptedModel

__all__ = ["CODE", "World", "world"]

CODE = "export const LoginSchema = z.object({ email: z.string().email(), password: z.string().min(8) })"


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """A memory with something in it, and the tools of its thread."""

    memory: Memory
    tools: Tools


@asynccontextmanager
async def world(address: str = ":memory:") -> AsyncGenerator[World]:
    """Open a memory in which T-2 waits for T-1, T-3 and T-4 are ready, and T-5 is closed."""
    async with Memory(address, model=ScriptedModel(), clock=FakeClock()) as memory:
        async with memory.thread("t1", resource="alice").turn() as turn:
            await turn.prepare(UserMessage("Please write the login schema.", id="m1"))
            await turn.record(AssistantMessage(f"Here it is, in src/schemas/auth.ts:\n{CODE}", id="m2"))
        await memory.thread("t1", resource="alice").observe()
        await hold(memory, UserMessage("Now the endpoint.", id="m3"))
        tasks = memory.resource("alice").tasks(session="setup")
        await tasks.create("Write the login schema", labels=["auth"], priority=1)
        await tasks.create("Add the login endpoint", blocked_by=["T-1"], type="feature")
        await tasks.create("Write the docs", labels=["docs"], priority=3)
        await tasks.create("Fix the flaky test", type="bug")
        await tasks.create("Set up the project")
        await tasks.claim("T-5")
        await tasks.close("T-5", summary="Fastify, vitest, pnpm")
        await (
            memory.resource("alice")
            .working_memory()
            .replace("# Project\n\nName: Tally\n\n# Decisions\n\n- Fastify\n", who="setup")
        )
        yield World(memory=memory, tools=memory.resource("alice").tools(thread="t1", session="s1"))
