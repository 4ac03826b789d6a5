"""The Agents SDK with memory, with the scripted model, items, guardrails, hooks and handoffs of the SDK."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from agents import (
    Agent,
    CodeInterpreterTool,
    GuardrailFunctionOutput,
    InputGuardrailTripwireTriggered,
    OutputGuardrailTripwireTriggered,
    RunConfig,
    RunHooks,
    Runner,
    RunState,
    Session,
    Usage,
    function_tool,
    input_guardrail,
    output_guardrail,
)
from agents.run import CallModelData, ModelInputData
from agents.testing import ScriptedModel, assistant_message, function_call
from openai.types.responses import (
    ResponseCodeInterpreterToolCall,
    ResponseFunctionWebSearch,
    ResponseOutputItemDoneEvent,
    ResponseOutputMessage,
    ResponseReasoningItem,
    ResponseTextDeltaEvent,
)
from openai.types.responses.response_usage import InputTokensDetails

from adapters.kit import SMALL, brief, stored
from memolog import InputError, Memory, TextPart
from memolog.adapters.openai_agents import MemologSession

QUIET = RunConfig(tracing_disabled=True)


@function_tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@input_guardrail
def no_secrets(_context: Any, _agent: Any, said: Any) -> GuardrailFunctionOutput:
    """Stop an agent run whose input contains a secret."""
    return GuardrailFunctionOutput(output_info=None, tripwire_triggered="secret" in json.dumps(said[-1]))


@output_guardrail
def no_lies(_context: Any, _agent: Any, said: Any) -> GuardrailFunctionOutput:
    """Stop the model when it lies."""
    return GuardrailFunctionOutput(output_info=None, tripwire_triggered="lie" in str(said))


class Talk:
    """A session with a scripted model, and an agent that uses both."""

    def __init__(self, memory: Memory, thread: str = "t1", **options: Any) -> None:
        self.memory, self.model = memory, ScriptedModel()
        self.session = MemologSession(memory, thread=thread, resource="alice", **options)
        self.agent = Agent[Any](
            name="helper",
            instructions="Be brief.",
            model=self.model,
            tools=[add, *self.session.tools()],
            input_guardrails=[no_secrets],
            output_guardrails=[no_lies],
        )
        self.answers = 0

    def says(self, text: str) -> list[Any]:
        """Return one answer of the model, with an id as a provider gives it."""
        self.answers += 1
        return [assistant_message(text, item_id=f"msg_{self.session.thread}_{self.answers}")]

    async def ask(self, text: Any, *steps: Any, **options: Any) -> str:
        """Run the agent and return its answer."""
        self.model.extend(steps)
        result = await self.session.run(self.agent, text, **{"run_config": QUIET, **options})
        return str(result.final_output)

    async def stream(self, text: Any, *steps: Any) -> None:
        """Run the agent as a stream and read the stream to its end."""
        self.model.extend(steps)
        async with self.session.stream(self.agent, text, run_config=QUIET) as result:
            async for _ in result.stream_events():
                pass

    async def lines(self) -> list[str]:
        """Return what is stored, a line a part."""
        return brief(await stored(self.memory, "alice", self.session.thread))


@pytest.fixture
async def memory(tmp_path: Path) -> AsyncIterator[Memory]:
    """Return a memory with small windows on a file."""
    async with Memory(tmp_path / "memolog.db", config=SMALL) as opened:
        yield opened


@pytest.fixture
def talk(memory: Memory) -> Talk:
    """Return a conversation."""
    return Talk(memory)


# ---------------------------------------------------------------- runs that end early


async def test_a_cancelled_run_keeps_what_was_said(talk: Talk) -> None:
    """A run that is cancelled inside a tool leaves a call without a result; the next prompt shows the pair mended."""
    started, never = asyncio.Event(), asyncio.Event()

    @function_tool
    async def wait() -> str:
        """Wait for ever."""
        started.set()
        await never.wait()
        return "never"

    talk.agent.tools.append(wait)
    run = asyncio.create_task(talk.ask("Wait.", [function_call("wait", {}, call_id="c1")]))
    await started.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert await talk.lines() == ["user: Wait.", "call c1: wait"]
    await talk.ask("Never mind.", talk.says("Fine."))
    sent = talk.model.calls[-1].input
    kinds = [item.get("type", item.get("role")) for item in sent]
    assert kinds == ["user", "function_call", "function_call_output", "assistant", "user"]
    assert sent[1]["call_id"] == sent[2]["call_id"] == "c1"
    assert await talk.lines() == ["user: Wait.", "call c1: wait", "user: Never mind.", "assistant: Fine."]


# ---------------------------------------------------------------- guardrails


@pytest.mark.parametrize("is_streamed", [False, True])
async def test_a_tripwire_takes_the_turn_back(talk: Talk, is_streamed: bool) -> None:
    """If a guardrail rejects the question or the answer, the whole turn is withdrawn."""
    run = talk.stream if is_streamed else talk.ask
    await run("Hello.", talk.says("Hello."))
    kept = await talk.lines()
    with pytest.raises(InputGuardrailTripwireTriggered):
        await run("My secret is 42.", talk.says("Oh."))
    talk.model = ScriptedModel()
    talk.agent.model = talk.model
    assert await talk.lines() == kept
    with pytest.raises(OutputGuardrailTripwireTriggered):
        await run("Add.", [function_call("add", {"a": 1, "b": 2}, call_id="c1")], talk.says("This is a lie."))
    assert await talk.lines() == kept
    await run("Goodbye.", talk.says("Bye."))
    assert await talk.lines() == [*kept, "user: Goodbye.", "assistant: Bye."]


async def test_an_answer_that_was_refused_is_not_saved_by_hand_either(talk: Talk) -> None:
    """With `wiring` the session does not get the tripwire, so answers are saved after the SDK has accepted them."""
    talk.model.extend([talk.says("This is a lie.")])
    with pytest.raises(OutputGuardrailTripwireTriggered):
        await Runner.run(talk.agent, "Tell me.", **talk.session.wiring(run_config=QUIET))
    assert await talk.lines() == ["user: Tell me."]


# ---------------------------------------------------------------- agents with agents


async def test_a_handoff_stays_one_conversation(talk: Talk) -> None:
    """The next agent has its own instructions and the same memory."""
    other = Agent[Any](name="other", instructions="Be long.", model=talk.model)
    talk.agent.handoffs = [other]
    await talk.ask("Hand me over.", [function_call("transfer_to_other", {}, call_id="c1")], talk.says("I am other."))
    last = talk.model.calls[-1]
    assert str(last.system_instructions).startswith("Be long.")
    assert [item.get("type", item.get("role")) for item in last.input] == [
        "user",
        "function_call",
        "function_call_output",
    ]
    assert await talk.lines() == [
        "user: Hand me over.",
        "call c1: transfer_to_other",
        "result c1",
        "assistant: I am other.",
    ]


async def test_an_agent_as_a_tool_talks_apart(talk: Talk) -> None:
    """The messages of the inner agent are not stored, only the call and its result."""
    inner = Agent[Any](name="inner", instructions="Be inner.", model=talk.model)
    talk.agent.tools.append(inner.as_tool("ask_inner", "Ask the inner agent."))
    call = [function_call("ask_inner", {"input": "What is it?"}, call_id="c1")]
    await talk.ask("Ask the inner one.", call, talk.says("It is so."), talk.says("Inner says it is so."))
    within = talk.model.calls[1]
    assert (within.system_instructions, within.input[0]["content"]) == ("Be inner.", "What is it?")
    assert await talk.lines() == [
        "user: Ask the inner one.",
        "call c1: ask_inner",
        "result c1",
        "assistant: Inner says it is so.",
    ]


async def test_an_approval_in_between_saves_nothing_twice(tmp_path: Path) -> None:
    """An agent run that waits for a person continues with another memory. The call is stored once, followed by its result."""

    @function_tool(needs_approval=True)
    def launch() -> str:
        """Launch it."""
        return "launched"

    async with Memory(tmp_path / "memolog.db") as memory:
        talk = Talk(memory)
        talk.agent.tools.append(launch)
        talk.model.extend([[function_call("launch", {}, call_id="c1")]])
        paused = await talk.session.run(talk.agent, "Launch it.", run_config=QUIET)
        assert len(paused.interruptions) == 1
        kept = paused.to_state().to_string()
    async with Memory(tmp_path / "memolog.db") as memory:
        talk = Talk(memory)
        talk.agent.tools.append(launch)
        state = await RunState.from_string(talk.agent, kept)
        state.approve(state.get_interruptions()[0])
        assert await talk.ask(state, talk.says("It is up.")) == "It is up."
        assert await talk.lines() == ["user: Launch it.", "call c1: launch", "result c1", "assistant: It is up."]


# ---------------------------------------------------------------- what the caller brings


@pytest.mark.parametrize("is_streamed", [False, True])
async def test_history_that_the_caller_supplies_is_not_saved_again(talk: Talk, is_streamed: bool) -> None:
    """If the caller sends the whole conversation with a new question, every message is stored once."""
    talk.model.extend([[function_call("add", {"a": 1, "b": 2}, call_id="c1")], talk.says("Three.")])
    first = await talk.session.run(talk.agent, "How much is 1 + 2?", run_config=QUIET)
    known = first.to_input_list()
    assert len(known) == 4
    run = talk.stream if is_streamed else talk.ask
    await run([*known, {"role": "user", "content": "And 2 + 2?"}], talk.says("Four."))
    assert await talk.lines() == [
        "user: How much is 1 + 2?",
        "call c1: add",
        "result c1",
        "assistant: Three.",
        "user: And 2 + 2?",
        "assistant: Four.",
    ]


@pytest.mark.parametrize("is_streamed", [False, True])
async def test_ids_that_a_provider_uses_again(talk: Talk, is_streamed: bool) -> None:
    """Some providers use the same call ids in every answer. Each call still has its own result."""
    run = talk.stream if is_streamed else talk.ask
    for number in range(3):
        await run(f"Add {number}.", [function_call("add", {"a": number, "b": 1}, call_id="call_0")], talk.says("Done."))
        sent = talk.model.calls[-1].input
        assert sent[-1]["output"] == str(number + 1)
    lines = await talk.lines()
    assert [line for line in lines if "call_0" in line] == ["call call_0: add", "result call_0"] * 3


async def test_own_hooks_filters_and_callbacks_are_kept(talk: Talk) -> None:
    """Hooks and callbacks of the caller are called. The filter of the caller is last and gets the request with memory."""
    heard: list[str] = []

    class Hooks(RunHooks[Any]):
        async def on_llm_start(self, context: Any, agent: Any, system_prompt: Any, input_items: Any) -> None:
            heard.append("start")

        async def on_llm_end(self, context: Any, agent: Any, response: Any) -> None:
            heard.append("end")

        async def on_tool_end(self, context: Any, agent: Any, tool: Any, result: object) -> None:
            heard.append("tool")

    def own_filter(data: CallModelData[Any]) -> ModelInputData:
        return ModelInputData(input=data.model_data.input, instructions=f"{data.model_data.instructions}\n\nMine.")

    config = RunConfig(
        tracing_disabled=True,
        call_model_input_filter=own_filter,
        session_input_callback=lambda history, new: [*history[-2:], {"role": "user", "content": "By the way."}, *new],
    )
    call = [function_call("add", {"a": 1, "b": 2}, call_id="c1")]
    await talk.ask("Add.", call, talk.says("Three."), run_config=config, hooks=Hooks())
    assert heard == ["start", "end", "tool", "start", "end"]
    assert str(talk.model.calls[-1].system_instructions).endswith("Mine.")
    assert (await talk.lines())[:2] == ["user: By the way.", "user: Add."]


async def test_usage_is_learned(talk: Talk) -> None:
    """The reported usage is stored, with the cached tokens as a separate number."""
    usage = Usage(
        requests=1,
        input_tokens=1_000,
        output_tokens=20,
        total_tokens=1_020,
        input_tokens_details=InputTokensDetails(cached_tokens=600, cache_write_tokens=0),
    )
    talk.model.set_default_usage(usage)
    await talk.ask("Hello.", talk.says("Hello."))
    kit = await talk.memory.open()
    total = await kit.store.ledger.total("alice", thread="t1")
    assert (total.requests, total.input_tokens, total.cache_read_tokens, total.output_tokens) == (1, 400, 600, 20)


# ---------------------------------------------------------------- the session by itself


async def test_it_is_a_session(talk: Talk) -> None:
    """The object is a session of the SDK, and an agent run without the wiring stores its history in it."""
    assert isinstance(talk.session, Session)
    session = talk.session
    assert await session.get_items() == []
    assert await session.pop_item() is None
    await session.clear_session()
    talk.model.extend([talk.says("One."), talk.says("Two.")])
    for text in ("First.", "Second."):
        await Runner.run(talk.agent, text, session=session, run_config=QUIET)
    assert len(talk.model.calls[-1].input) == 3
    everything: list[Any] = await session.get_items()
    assert [item["content"] for item in everything if item["role"] == "user"] == ["First.", "Second."]
    newest = await session.get_items(limit=1)
    assert newest == everything[-1:]
    assert await session.pop_item() == newest[0]
    assert await session.pop_item() == {"role": "user", "content": "Second."}
    assert await talk.lines() == ["user: First.", "assistant: One."]
    await session.clear_session()
    assert await session.get_items() == []


def reasoning() -> Any:
    """Return encrypted reasoning."""
    return ResponseReasoningItem(id="rs_1", type="reasoning", summary=[], encrypted_content="gAAAA-opaque")


REAL: list[Callable[[], Any]] = [
    reasoning,
    lambda: function_call("add", '{"a": 1,  "b":2}', call_id="c1", item_id="fc_1"),
    lambda: ResponseFunctionWebSearch.model_validate(
        {"id": "ws_1", "type": "web_search_call", "status": "completed", "action": {"type": "search", "query": "x"}}
    ),
    lambda: ResponseCodeInterpreterToolCall.model_validate(
        {
            "id": "ci_1",
            "type": "code_interpreter_call",
            "status": "completed",
            "container_id": "cntr_1",
            "code": "1 + 1",
            "outputs": [{"type": "logs", "logs": "2"}],
        }
    ),
    lambda: ResponseOutputMessage.model_validate(
        {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "status": "completed",
            "phase": "final_answer",
            "content": [
                {
                    "type": "output_text",
                    "text": "See there.",
                    "annotations": [
                        {
                            "type": "url_citation",
                            "url": "https://example.org",
                            "title": "T",
                            "start_index": 0,
                            "end_index": 3,
                        }
                    ],
                    "logprobs": [],
                },
                {"type": "refusal", "refusal": "Not that."},
            ],
        }
    ),
]


async def test_real_items_come_back_exactly(memory: Memory) -> None:
    """Items of all kinds are returned as the same JSON and in the same order, saved together or one by one."""
    items = [make().model_dump(exclude_unset=True) for make in REAL]
    said: list[Any] = [
        {
            "role": "user",
            "content": [
                {"type": "input_text", "text": "Look."},
                {"type": "input_image", "image_url": "https://example.org/a.png", "detail": "low"},
            ],
        },
        {"role": "developer", "content": "Be careful."},
        *items,
        {"type": "function_call_output", "call_id": "c1", "output": [{"type": "input_text", "text": "3"}]},
        {"type": "something_new", "id": "sn_1", "data": {"deep": [1, None, 2.5]}},
    ]
    for thread, batches in (("once", [said]), ("apart", [[item] for item in said])):
        session = MemologSession(memory, thread=thread, resource="alice")
        for batch in batches:
            await session.add_items(batch)
        assert await session.get_items() == said, thread
        assert [await session.pop_item() for _ in said] == said[::-1], thread
        assert await session.pop_item() is None


async def test_thoughts_pass_through_in_order(talk: Talk) -> None:
    """Reasoning between calls is sent back before the call that followed it."""
    talk.agent.tools.append(
        CodeInterpreterTool(tool_config={"type": "code_interpreter", "container": {"type": "auto"}})
    )
    call = function_call("add", {"a": 1, "b": 2}, call_id="c1", item_id="fc_1")
    await talk.ask("Think.", [reasoning(), call], talk.says("Three."))
    # The edge is in the last user message, so that nothing is between the reasoning and the result of the call.
    sent = talk.model.calls[-1].input
    assert [item.get("type", item.get("role")) for item in sent] == [
        "user",
        "reasoning",
        "function_call",
        "function_call_output",
    ]
    assert sent[1] == reasoning().model_dump(exclude_unset=True)
    rows = await stored(talk.memory, "alice", "t1")
    assert not any("<now>" in part.text for row in rows for part in row.parts if isinstance(part, TextPart))


@pytest.mark.parametrize("history", [-1, "20", None])
async def test_a_history_that_cannot_be(tmp_path: Path, history: Any) -> None:
    """A negative number, a text and None are rejected."""
    async with Memory(tmp_path / "m.db") as memory:
        with pytest.raises(InputError, match="whole number"):
            MemologSession(memory, thread="t1", resource="alice", history=history)


# ---------------------------------------------------------------- streams that are left half-way


class Slow(ScriptedModel):
    """A model that streams reasoning and an answer word by word, and stops before its last word."""

    words = ("It", " rains", " in", " Rome", " today.")

    async def stream_response(self, *_: Any, **__: Any) -> AsyncIterator[Any]:
        """Yield the events of the Responses API."""
        thought = ResponseReasoningItem(id="rs_1", summary=[], type="reasoning")
        yield ResponseOutputItemDoneEvent(
            item=thought, output_index=0, sequence_number=0, type="response.output_item.done"
        )
        for number, word in enumerate(self.words, start=1):
            if number == len(self.words):
                await asyncio.Event().wait()
            yield ResponseTextDeltaEvent(
                content_index=0,
                delta=word,
                item_id="msg_1",
                logprobs=[],
                output_index=1,
                sequence_number=number,
                type="response.output_text.delta",
            )


async def read(talk: Talk, leave: Callable[[Any], object]) -> None:
    """Read three words of a stream, then call `leave`, and stop reading if it returns True."""
    left = 3
    async with talk.session.stream(talk.agent, "How is the weather?", run_config=QUIET) as result:
        async for event in result.stream_events():
            left -= event.type == "raw_response_event" and event.data.type == "response.output_text.delta"
            if not left and leave(result):
                break


@pytest.mark.parametrize("how", ["break", "cancel", "cancelled task"])
async def test_a_stream_left_half_way_keeps_what_was_read(talk: Talk, how: str) -> None:
    """The words that the caller read are the answer, and the next request is valid: no reasoning without what follows it."""
    talk.agent.model = Slow()
    if how == "break":
        await read(talk, lambda _: True)
    elif how == "cancel":
        await read(talk, lambda result: result.cancel())
    else:
        reached = asyncio.Event()
        reading = asyncio.create_task(read(talk, lambda _: reached.set()))
        await reached.wait()
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
    asked, answer = await stored(talk.memory, "alice", "t1")
    assert asked.text == "How is the weather?"
    # Cancelling a task takes effect at its next pause, so it may have read one word more.
    assert (answer.role, answer.text) in {("assistant", "It rains in"), ("assistant", "It rains in Rome")}
    talk.agent.model = talk.model
    await talk.ask("And tomorrow?", talk.says("Sun."))
    sent: Any = talk.model.calls[-1].input
    assert [item.get("type") or item.get("role") for item in sent] == ["user", "reasoning", "message", "user"]
    assert (await talk.lines())[-2:] == ["user: And tomorrow?", "assistant: Sun."]


async def test_a_stream_that_is_left_after_its_answer(talk: Talk) -> None:
    """A whole answer is stored once, whether the caller read all of its events or only the first."""
    talk.model.extend([[function_call("add", {"a": 1, "b": 2}, call_id="c1")], talk.says("It is three.")])
    async with talk.session.stream(talk.agent, "1 + 2?", run_config=QUIET) as result:
        async for event in result.stream_events():
            if event.type == "run_item_stream_event" and event.name == "message_output_created":
                break
    rows = await stored(talk.memory, "alice", "t1")
    assert [row.role for row in rows] == ["user", "assistant", "tool", "assistant"]
    assert rows[-1].text == "It is three."
