"""What a provider refuses for good is taken back, in every framework; what fails for a while is kept, and stands once.

The models are those that each library has for tests, or made of its own classes; the errors are those that libraries raise.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from langchain.agents import create_agent
from langchain_core.messages import BaseMessage
from pydantic_ai.exceptions import FallbackExceptionGroup, ModelHTTPError

from adapters.langchain.scripted import Scripted, told
from adapters.worlds import WORLDS, AgentFramework, Call, Heard, Script, Step, World, http_error
from memolog import Memory, SyncMemory
from memolog.adapters.langchain import MemoryMiddleware
from memolog.adapters.provider_limits import is_refusal


def asked(heard: Heard) -> Step:
    """Answer, after the tool where it was asked for."""
    calls = "look" in heard.asked and heard.roles[-1] != "tool"
    return [Call("weather", "c1", {"city": "poison"})] if calls else "Yes."


def answering(failing: Callable[[str], Exception | None]) -> Script:
    """Return a script that answers, unless the provider fails at a request with this text."""
    return lambda heard: failing(heard.text) or asked(heard)


every_world = pytest.mark.parametrize("kind", WORLDS, ids=lambda kind: kind.__name__)


@every_world
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("status", [400, 413, 415, 422])
async def test_what_is_refused_does_not_kill_its_thread(
    kind: type[World], status: int, streamed: bool, tmp_path: Path
) -> None:
    """A rejected message is withdrawn. The messages before and after it stay."""
    async with Memory(tmp_path / "memolog.db") as memory:
        world = kind(memory, answering(lambda said: world.error(status) if "poison" in said else None))
        await world.ask("one")
        with pytest.raises(Exception, match="status"):
            await world.ask("poison", streamed=streamed)
        assert await world.lines() == ["user: one", "assistant: Yes."]
        await world.ask("two", streamed=streamed)
        assert await world.lines() == ["user: one", "assistant: Yes.", "user: two", "assistant: Yes."]


@every_world
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
async def test_what_fails_for_a_while_is_kept_and_stands_once(
    kind: type[World], streamed: bool, tmp_path: Path
) -> None:
    """After a status 5xx or 429, a timeout or a lost connection the question stays. If it is sent again, it is stored once."""
    request: Any = httpx.Request("POST", "http://provider.test/v1")
    failures: list[Exception] = []
    async with Memory(tmp_path / "memolog.db") as memory:
        world = kind(memory, answering(lambda _: failures.pop() if failures else None))
        await world.ask("one")
        for error in (
            world.error(500),
            world.error(429),
            openai.APITimeoutError(request=request),
            openai.APIConnectionError(request=request),
        ):
            failures.append(error)
            with pytest.raises(type(error)):
                await world.ask("two", streamed=streamed)
            failures.clear()
            assert await world.lines() == ["user: one", "assistant: Yes.", "user: two"]
        await world.ask("two", streamed=streamed)
        assert await world.lines() == ["user: one", "assistant: Yes.", "user: two", "assistant: Yes."]
        # Answered, the same words are another question.
        await world.ask("two")
        assert await world.lines() == [
            *("user: one", "assistant: Yes."),
            *("user: two", "assistant: Yes."),
            *("user: two", "assistant: Yes."),
        ]


@every_world
async def test_what_failed_first_and_is_refused_then_goes(kind: type[World], tmp_path: Path) -> None:
    """A question that stayed after a failure is withdrawn if it is sent again and rejected."""
    statuses: list[int] = []
    async with Memory(tmp_path / "memolog.db") as memory:
        world = kind(memory, answering(lambda said: world.error(statuses[-1]) if "poison" in said else None))
        await world.ask("one")
        for status, kept in ((500, ["user: poison"]), (400, [])):
            statuses.append(status)
            with pytest.raises(Exception, match="status"):
                await world.ask("poison")
            assert await world.lines() == ["user: one", "assistant: Yes.", *kept]
        await world.ask("two")
        assert await world.lines() == ["user: one", "assistant: Yes.", "user: two", "assistant: Yes."]


@every_world
async def test_only_what_was_refused_of_a_turn_goes(kind: type[World], tmp_path: Path) -> None:
    """A tool call of the model stays. The result that the provider rejects is withdrawn."""
    async with Memory(tmp_path / "memolog.db") as memory:
        world = kind(memory, answering(lambda said: world.error(413) if "sunny in poison" in said else None))
        with pytest.raises(Exception, match="status"):
            await world.ask("look")
        assert await world.lines() == ["user: look", "call c1: weather"]
        await world.ask("two")
        assert await world.lines() == ["user: look", "call c1: weather", "user: two", "assistant: Yes."]


@pytest.mark.parametrize(
    "kind", [kind for kind in WORLDS if kind is not AgentFramework], ids=lambda kind: kind.__name__
)
async def test_a_tool_that_is_refused_elsewhere_takes_nothing_back(kind: type[World], tmp_path: Path) -> None:
    """An HTTP status in the error of a tool is not a rejection by the provider."""
    async with Memory(tmp_path / "memolog.db") as memory:
        world = kind(memory, answering(lambda _: None))
        world.tool_error = http_error(400)
        with pytest.raises(Exception, match="status 400"):
            await world.ask("look")
        assert await world.lines() == ["user: look", "call c1: weather"]


def test_without_waiting(tmp_path: Path) -> None:
    """LangChain without `await`: the same."""
    with SyncMemory(str(tmp_path / "memolog.db")) as memory:

        def answer(messages: list[BaseMessage]) -> Any:
            return http_error(400) if "poison" in str(messages) else told("Yes.")

        bot: Any = create_agent(
            Scripted(script=answer), [], middleware=[MemoryMiddleware(memory, resource="alice", tools=False)]
        )
        here = {"configurable": {"thread_id": "t1"}}
        for text in ("poison", "two"):
            try:
                bot.invoke({"messages": [{"role": "user", "content": text}]}, here)
            except openai.APIStatusError:
                assert text == "poison"
        with memory.thread("t1", resource="alice").turn() as turn:
            assert [message.text for message in turn.prepare().messages] == ["two", "Yes."]


def raised_from(error: Exception, cause: BaseException) -> Exception:
    """Return an error that another one led to."""
    error.__cause__ = cause
    return error


class Boto(Exception):
    """An error as the AWS client raises it."""

    def __init__(self) -> None:
        super().__init__("An error occurred (ValidationException)")
        self.response = {"Error": {"Code": "ValidationException"}, "ResponseMetadata": {"HTTPStatusCode": 400}}


class Coded(Exception):
    """An error that calls its status a code."""

    code = 400


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (http_error(400), True),
        (http_error(401), False),
        (http_error(404), False),
        (http_error(429), False),
        (http_error(500), False),
        (httpx.HTTPStatusError("", request=httpx.Request("GET", "http://x"), response=httpx.Response(422)), True),
        (ModelHTTPError(415, "m", None), True),
        (Boto(), True),
        (Coded(), True),
        (raised_from(RuntimeError("wrapped"), http_error(413)), True),
        (raised_from(RuntimeError("wrapped"), raised_from(ValueError("twice"), http_error(400))), True),
        (raised_from(http_error(500), http_error(400)), False),
        (FallbackExceptionGroup("all failed", [http_error(400), ModelHTTPError(422, "m", None)]), True),
        (FallbackExceptionGroup("all failed", [http_error(400), http_error(503)]), False),
        (TimeoutError("too slow"), False),
        (ConnectionError("gone"), False),
        (ValueError("status 400"), False),
    ],
    ids=repr,
)
def test_which_errors_are_refusals(error: BaseException, expected: bool) -> None:
    """The HTTP status decides, in the error or in its cause. In a group of errors, all must be rejections."""
    assert is_refusal(error) is expected
