"""Guards of Agent Framework around memory and the model: a stopped turn is withdrawn."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from agent_framework import (
    Agent,
    AgentContext,
    AgentMiddleware,
    AgentResponse,
    AgentSession,
    ChatContext,
    ChatMiddleware,
    ChatResponse,
    ChatResponseUpdate,
    Content,
    Message,
    MiddlewareFailure,
    MiddlewareTermination,
    ResponseStream,
)

from adapters.agent_framework.scripted import Scripted, called, last_question, told, weather
from adapters.kit import brief, stored
from memolog import Memory
from memolog.adapters.agent_framework import MemoryGuard, MemoryProvider

Next = Callable[[], Awaitable[None]]
REFUSAL = "I cannot help with that."


def script(messages: list[Message]) -> Message:
    """Answer; a question about the weather needs a tool, one about the secret is answered with it."""
    # If the turn before has no answer, its question is the beginning of the same message.
    about = last_question(messages).rpartition("\n\n")[2]
    if "weather" in about and messages[-1].role != "tool":
        return called("weather", "c1", '{"city": "Rome"}')
    return told("write to spy@example.org" if "secret" in about else f"about {about}")


def said(text: str) -> Message:
    """Return what the user says."""
    return Message("user", [text], message_id=text)


def is_bad(message: Message) -> bool:
    """Tell whether a message is one that these guards stop."""
    text = message.text + "".join(str(content.result) for content in message.contents if content.call_id)
    return any(word in text for word in ("bad", "spy@", "sunny"))


def refusal(stream: bool) -> Any:
    """Return what a guard says in place of the model."""
    response = ChatResponse(messages=[Message("assistant", [REFUSAL])])
    if not stream:
        return response

    async def updates() -> Any:
        yield ChatResponseUpdate(role="assistant", contents=[Content.from_text(REFUSAL)])

    return ResponseStream(updates(), finalizer=ChatResponse.from_updates)


class AtTheDoor(AgentMiddleware):
    """Ends a run before it begins."""

    async def process(self, context: AgentContext, call_next: Next) -> None:
        if is_bad(context.messages[-1]):
            context.result = AgentResponse(messages=[Message("assistant", [REFUSAL])])
            raise MiddlewareTermination
        await call_next()


class BeforeEachRequest(ChatMiddleware):
    """Answers in place of the model."""

    async def process(self, context: ChatContext, call_next: Next) -> None:
        if is_bad(context.messages[-1]):
            context.result = refusal(context.stream)
            return
        await call_next()


class AfterEachAnswer(ChatMiddleware):
    """Replaces an answer."""

    async def process(self, context: ChatContext, call_next: Next) -> None:
        await call_next()
        if isinstance(context.result, ChatResponse):
            if is_bad(context.result.messages[-1]):
                context.result = refusal(stream=False)
            return

        def masked(update: ChatResponseUpdate) -> ChatResponseUpdate:
            kept = [c for c in update.contents if "spy@" not in (c.text or "")]
            return ChatResponseUpdate(role="assistant", contents=kept, response_id=update.response_id)

        context.stream_transform_hooks.append(masked)


class AfterTheRun(AgentMiddleware):
    """Replaces what a run has answered."""

    async def process(self, context: AgentContext, call_next: Next) -> None:
        await call_next()
        if isinstance(context.result, AgentResponse) and is_bad(context.result.messages[-1]):
            context.result = AgentResponse(messages=[Message("assistant", [REFUSAL])])


class Raising(ChatMiddleware):
    """Raises when the model has said what it should not."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    async def process(self, context: ChatContext, call_next: Next) -> None:
        await call_next()
        if isinstance(context.result, ChatResponse):
            if is_bad(context.result.messages[-1]):
                raise self._error
            return

        def check(update: ChatResponseUpdate) -> ChatResponseUpdate:
            if "spy@" in update.text:
                raise self._error
            return update

        context.stream_transform_hooks.append(check)


async def talk(bot: Agent[Any], texts: list[str], *, stream: bool) -> list[str]:
    """Say each in turn and return what was answered."""
    session = AgentSession(session_id="t1")
    answers: list[str] = []
    for text in texts:
        if stream:
            answers.append((await bot.run(said(text), session=session, stream=True).get_final_response()).text)
        else:
            answers.append((await bot.run(said(text), session=session)).text)
    return answers


def guarded(memory: Memory, client: Scripted, *guards: Any, **options: Any) -> Agent[Any]:
    """Return an agent with memory and guards."""
    provider = MemoryProvider(memory, resource="alice", **options)
    return Agent(client, tools=[weather], context_providers=[provider], middleware=[MemoryGuard(provider), *guards])


KEPT = ["user: one", "assistant: about one", "user: two", "assistant: about two"]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize(
    ("guard", "text"),
    [
        (BeforeEachRequest(), "a bad question"),
        (BeforeEachRequest(), "what about the weather"),
        (AfterEachAnswer(), "tell me the secret"),
    ],
    ids=["question", "result-at-a-later-step", "answer"],
)
async def test_a_guard_that_answers_for_the_model(tmp_path: Path, guard: Any, text: str, stream: bool) -> None:
    """The stopped turn is withdrawn, the refusal is not stored, and the turns before and after stay."""
    async with Memory(tmp_path / "m.db") as memory:
        client = Scripted(script)
        bot = guarded(memory, client, guard)
        answers = await talk(bot, ["one", text, "two"], stream=stream)
        rows = await stored(memory, "alice", "t1")
        found = await memory.resource("alice").search("spy")
    assert "spy@" not in answers[1]
    assert brief(rows) == KEPT
    assert found.results == ()
    assert text not in client.received[-1].text


@pytest.mark.parametrize(
    ("guard", "text"),
    [(BeforeEachRequest(), "a bad question"), (AfterEachAnswer(), "the secret"), (AfterTheRun(), "the secret")],
    ids=["question", "answer", "run"],
)
async def test_a_first_turn_that_is_stopped(tmp_path: Path, guard: Any, text: str) -> None:
    """The history of the library contains the stopped turn, but it is not saved as an earlier conversation."""
    async with Memory(tmp_path / "m.db") as memory:
        client = Scripted(script)
        await talk(guarded(memory, client, guard), [text, "one", "two"], stream=False)
        rows = await stored(memory, "alice", "t1")
    assert brief(rows) == KEPT
    assert text not in client.received[-1].text


@pytest.mark.parametrize(
    ("guard", "text"), [(AtTheDoor(), "a bad question"), (AfterTheRun(), "the secret")], ids=["before", "after"]
)
async def test_a_guard_around_the_whole_run(tmp_path: Path, guard: Any, text: str) -> None:
    """Nothing of the turn stays, whether the guard ends the agent run before it begins or replaces its answer at the end."""
    async with Memory(tmp_path / "m.db") as memory:
        bot = guarded(memory, Scripted(script), guard)
        answers = await talk(bot, ["one", text, "two"], stream=False)
        rows = await stored(memory, "alice", "t1")
    assert answers[1] == REFUSAL
    assert brief(rows) == KEPT


@pytest.mark.parametrize("guard", [AfterEachAnswer(), AfterTheRun()], ids=["request", "run"])
async def test_words_that_are_to_be_kept(tmp_path: Path, guard: Any) -> None:
    """With `keep_rewritten` only the replaced answer is stored."""
    async with Memory(tmp_path / "m.db") as memory:
        bot = guarded(memory, Scripted(script), guard, keep_rewritten=True)
        await talk(bot, ["one", "the secret", "two"], stream=False)
        rows = await stored(memory, "alice", "t1")
        found = await memory.resource("alice").search("spy")
    assert brief(rows) == [*KEPT[:2], "user: the secret", f"assistant: {REFUSAL}", *KEPT[2:]]
    assert found.results == ()


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_a_guard_that_raises(tmp_path: Path, stream: bool) -> None:
    """An exception of a guard discards the turn. An exception of the provider does not."""
    async with Memory(tmp_path / "m.db") as memory:
        stopped = guarded(memory, Scripted(script), Raising(MiddlewareFailure("no")))
        await talk(stopped, ["one"], stream=stream)
        with pytest.raises(MiddlewareFailure):
            await talk(stopped, ["the secret"], stream=stream)
        assert brief(await stored(memory, "alice", "t1")) == KEPT[:2]
        failed = guarded(memory, Scripted(script), Raising(ConnectionError("gone")))
        with pytest.raises(ConnectionError):
            await talk(failed, ["the secret"], stream=stream)
        await talk(failed, ["two"], stream=stream)
        rows = await stored(memory, "alice", "t1")
    lines = brief(rows)
    assert lines[:3] == [*KEPT[:2], "user: the secret"]
    assert lines[-2:] == KEPT[2:]
