"""Guards around the model: a turn that passes is stored, and a turn that a guard stops is withdrawn."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from adapters.kit import brief, stored
from adapters.provider import APIS, Driver, Provider, Reply, wrap
from memolog import (
    AssistantMessage,
    Config,
    Context,
    InputError,
    Memory,
    NewMessage,
    SyncMemory,
    ToolCallPart,
    ToolMessage,
    UnknownPart,
    UserMessage,
)
from memolog.adapters.guards import Checked, Guard, Guards, GuardStopped

SECRET = "the launch code is 0000"
each = pytest.mark.parametrize("driver", APIS.values(), ids=lambda driver: driver.name)


def no_codes(checked: Checked) -> str | None:
    """Stop whatever has the code in it, on either side."""
    return "No launch codes" if "launch code" in checked.text else None


async def no_anger(checked: Checked) -> str | None:
    """Stop what is said in anger, after some thought."""
    await asyncio.sleep(0)
    return "Calm down!" if "!!" in checked.text else None


def broken(checked: Checked) -> str | None:
    """Fail at what it should judge."""
    raise ValueError(checked.side)


async def echo(context: Context) -> NewMessage:
    """Answer with what was said last."""
    return AssistantMessage(f"You said: {context.tail[-1].text}")


GUARDS = Guards(input=[no_anger], output=[no_codes])


async def test_what_passes_is_remembered(address: str) -> None:
    """Both sides of a turn that no guard stops."""
    async with Memory(address) as memory:
        answer = await GUARDS.run(memory, "t1", "alice", UserMessage("hello"), model=echo)
        assert answer == AssistantMessage("You said: hello")
        assert brief(await stored(memory, "alice", "t1")) == ["user: hello", "assistant: You said: hello"]


@pytest.mark.parametrize(("text", "side", "guard"), [("Why!!", "input", "no_anger"), (SECRET, "output", "no_codes")])
async def test_what_is_stopped_is_gone(address: str, text: str, side: str, guard: str) -> None:
    """Nothing of a stopped turn stays in contexts, in search or in the log."""
    async with Memory(address, config=Config(strict=True)) as memory:
        await GUARDS.run(memory, "t1", "alice", UserMessage("hello"), model=echo)
        with pytest.raises(GuardStopped, match=guard) as caught:
            await GUARDS.run(memory, "t1", "alice", UserMessage(text), model=echo)
        assert (caught.value.side, caught.value.guard) == (side, guard)
        assert "start another turn" in str(caught.value)
        assert brief(await stored(memory, "alice", "t1")) == ["user: hello", "assistant: You said: hello"]
        await memory.thread("t1", resource="alice").observe()
        assert (await memory.resource("alice").search(text)).results == ()
        async with memory.thread("t1", resource="alice").turn() as turn:
            assert text not in (await turn.prepare(UserMessage("again"))).render()


async def test_what_is_stopped_is_kept_until_it_is_forgotten(address: str) -> None:
    """The rows of a stopped turn are withdrawn and have their text; forgetting deletes the text, as the guide says."""
    async with Memory(address) as memory:
        thread, resource = memory.thread("t1", resource="alice"), memory.resource("alice")
        with pytest.raises(GuardStopped):
            await GUARDS.run(memory, "t1", "alice", UserMessage(SECRET), model=echo)
        withdrawn = (await thread.messages()).items
        assert [(one.state, one.text) for one in withdrawn] == [("withdrawn", SECRET)]
        assert (await resource.forget(thread="t1", message=withdrawn[0].id)).messages
        assert [(one.state, one.text) for one in (await thread.messages()).items] == [("forgotten", "")]


ANSWER = {"choices": [{"message": {"role": "assistant", "content": "You said: hello"}}]}


@pytest.mark.parametrize("answer", ["You said: hello", ANSWER, ANSWER["choices"][0]["message"]], ids=str)
@pytest.mark.parametrize("question", ["hello", {"role": "user", "content": "hello"}], ids=str)
async def test_a_guarded_turn_takes_what_a_turn_takes(question: Any, answer: Any) -> None:
    """Guards get the text of a plain text, of a dict and of a whole response, and such an answer of the model is returned."""
    seen: list[str] = []
    watching = Guards(
        input=[lambda checked: seen.append(checked.text)], output=[lambda checked: seen.append(checked.text)]
    )

    async def model(context: Context) -> Any:
        del context
        return answer

    async with Memory(":memory:") as memory:
        assert await watching.run(memory, "t1", "alice", question, model=model) == answer
        async with watching.turn(memory, "t1", "alice") as turn:
            await turn.prepare(question, ephemeral=UserMessage("be brief"))
            await turn.record(answer)
        expected = ["user: hello", "assistant: You said: hello"]
        assert brief(await stored(memory, "alice", "t1")) == 2 * expected
        assert seen == ["hello", "You said: hello", "hello\n\nbe brief", "You said: hello"]
        with pytest.raises(GuardStopped):
            await Guards(input=[no_codes]).run(memory, "t1", "alice", SECRET, model=model)
        with pytest.raises(InputError):
            await watching.run(memory, "t1", "alice", 7, model=model)  # pyright: ignore[reportArgumentType]
        async with watching.turn(memory, "t1", "alice") as turn:
            with pytest.raises(InputError):
                await turn.record(7)  # pyright: ignore[reportArgumentType]
        assert brief(await stored(memory, "alice", "t1")) == 2 * expected


async def test_a_later_step_takes_the_earlier_ones_with_it() -> None:
    """In a tool loop the whole turn is withdrawn, with the messages recorded before the guard stopped it."""
    async with Memory(":memory:") as memory:
        async with GUARDS.turn(memory, "t1", "alice") as turn:
            await turn.prepare(UserMessage("look it up"))
            await turn.record(AssistantMessage(ToolCallPart(id="c1", name="look")))
            await turn.prepare(ToolMessage("c1", "42"))
            assert len(await stored(memory, "alice", "t1")) == 3
            with pytest.raises(GuardStopped):
                await turn.record(AssistantMessage(SECRET))
        assert await stored(memory, "alice", "t1") == []


def called(arguments: Any) -> NewMessage:
    """Return an answer that calls a tool."""
    return AssistantMessage(ToolCallPart(id="c1", name="send", arguments=arguments))


@pytest.mark.parametrize(
    "arguments",
    [
        {"to": {"all": [1, SECRET]}},
        '{"to": "the launch code is 0000"}',
        ' {"to": "the launch\\u0020code is 0000"}',
        '{"to": "the launch code is',
        SECRET,
    ],
    ids=["object", "JSON", "escaped", "cut off", "text"],
)
async def test_an_output_guard_reads_the_arguments_of_calls(arguments: Any) -> None:
    """The model must not leak through a tool what it may not say."""
    async with Memory(":memory:") as memory:
        async with GUARDS.turn(memory, "t1", "alice") as turn:
            await turn.prepare(UserMessage("send it"))
            with pytest.raises(GuardStopped, match="no_codes"):
                await turn.record(called(arguments))
        assert await stored(memory, "alice", "t1") == []


@pytest.mark.parametrize(
    "content", [SECRET, {"rows": [{"note": SECRET}]}, f'["{SECRET}"]'], ids=["text", "object", "JSON"]
)
async def test_an_input_guard_reads_the_results_of_tools(content: Any) -> None:
    """What a tool returned is checked before the model gets it."""
    guards = Guards(input=[no_codes])
    async with Memory(":memory:") as memory:
        async with guards.turn(memory, "t1", "alice") as turn:
            await turn.prepare(UserMessage("look it up"))
            await turn.record(called({"q": "x"}))
            with pytest.raises(GuardStopped, match="no_codes"):
                await turn.prepare(ToolMessage("c1", content))
        assert await stored(memory, "alice", "t1") == []


def test_the_text_of_what_is_checked() -> None:
    """Texts, names of tools, and the names and values of arguments and results, one part after the other."""
    said = (
        AssistantMessage(["One moment.", ToolCallPart(id="c1", name="send", arguments='{"to": "Bob", "n": 2}')]),
        ToolMessage("c1", {"sent": True, "to": None}),
        AssistantMessage(UnknownPart(data={"type": "web_search_call", "query": "launch sites"})),
    )
    text = Checked(side="output", messages=said, context=Context()).text
    assert text == "One moment.\n\nsend\nto\nBob\nn\n2\n\nsent\nTrue\nto\n\ntype\nweb_search_call\nquery\nlaunch sites"


@pytest.mark.parametrize("guards", [Guards(input=[broken]), Guards(output=[broken])], ids=["input", "output"])
async def test_a_guard_that_fails_stops_the_turn(guards: Guards) -> None:
    """A guard that raises an exception stops the turn, and the caller gets the exception."""
    async with Memory(":memory:") as memory:
        with pytest.raises(ValueError, match="put"):
            await guards.run(memory, "t1", "alice", UserMessage("hello"), model=echo)
        assert await stored(memory, "alice", "t1") == []


@pytest.mark.parametrize("side", ["input", "output"])
@pytest.mark.parametrize("returned", [False, True, 0, [], "", " ", 7], ids=repr)
async def test_a_guard_that_returns_something_else(side: str, returned: object) -> None:
    """A result that is neither None nor a text discards the turn, and the error names the guard."""

    def odd(_: Checked) -> Any:
        return returned

    async def odd_later(checked: Checked) -> Any:
        return odd(checked)

    async with Memory(":memory:") as memory:
        for guard in (odd, odd_later):
            with pytest.raises(InputError, match=f"The {side} guard {guard.__name__} returned .* must return None"):
                await Guards(**{side: [guard]}).run(memory, "t1", "alice", UserMessage("hello"), model=echo)
        assert await stored(memory, "alice", "t1") == []


@pytest.mark.parametrize(
    "given",
    [no_codes, None, "no_codes", ["no_codes"], [None], {no_codes}],
    ids=["a function", "none", "a name", "names", "nones", "a set"],
)
def test_what_is_no_list_of_guards(given: Any) -> None:
    """A wrong list is rejected when Guards is created, not at the first turn."""
    for side in ("input", "output"):
        with pytest.raises(InputError, match=rf"themselves: Guards\({side}="):
            Guards(**{side: given})


async def test_a_guard_sees_memory() -> None:
    """An input guard gets the context of the model, with the ephemeral messages."""
    seen: list[Checked] = []

    def watch(checked: Checked) -> None:
        seen.append(checked)

    guards = Guards(input=[watch], output=[watch])
    async with Memory(":memory:") as memory:
        await guards.run(memory, "t1", "alice", UserMessage("one"), model=echo)
        async with guards.turn(memory, "t1", "alice") as turn:
            await turn.prepare(UserMessage("two"), ephemeral=[UserMessage("by the way")])
        async with guards.turn(memory, "t1", "alice") as turn:
            await turn.prepare(UserMessage("three"))
            await turn.discard()
    assert [(one.side, one.text) for one in seen] == [
        ("input", "one"),
        ("output", "You said: one"),
        ("input", "two\n\nby the way"),
        ("input", "three"),
    ]
    assert [message.text for message in seen[2].context.tail] == ["one", "You said: one", "two"]


@each
@pytest.mark.parametrize("is_streamed", [False, True], ids=["whole", "streamed"])
async def test_with_a_wrapped_client(driver: Driver, *, is_streamed: bool) -> None:
    """A client with a guarded turn is stopped before the model is called or after its answer, streamed or not."""
    provider = Provider(driver, lambda _: Reply(text=SECRET))

    async def ask(turn: Any, text: str) -> None:
        client = wrap(driver, provider.async_client(), memory, turn=turn)
        result = await driver.call(client)(**driver.said(text), **({"stream": True} if is_streamed else {}))
        if is_streamed:
            async for _ in result:
                pass

    async with Memory(":memory:") as memory:
        for text, side, asked in (("Why!!", "input", 0), ("hello", "output", 1)):
            with pytest.raises(GuardStopped) as caught:
                async with GUARDS.turn(memory, "t1", "alice") as turn:
                    await ask(turn, text)
            assert (caught.value.side, len(provider.bodies)) == (side, asked)
        assert await stored(memory, "alice", "t1") == []


@each
def test_without_waiting(driver: Driver, tmp_path: Path) -> None:
    """A synchronous client with guards that use the memory and may block."""
    provider = Provider(driver, lambda _: Reply(text="Yes."))

    def once(checked: Checked) -> str | None:
        found = memory.resource("alice").search(checked.text, thread="t1").results
        return "Said before" if len(found) > 1 else None

    guards: list[Guard] = [once, no_anger]
    with SyncMemory(str(tmp_path / "memolog.db")) as memory:
        for text, is_stopped in (("argon2id", False), ("Why!!", True), ("argon2id", True)):
            try:
                with Guards(input=guards).sync_turn(memory, "t1", "alice") as turn:
                    client = wrap(driver, provider.client(), memory, turn=turn)
                    driver.call(client)(**driver.said(text))
            except GuardStopped:
                assert is_stopped
            else:
                assert not is_stopped
        with Guards().sync_turn(memory, "t1", "alice") as turn:
            assert len(turn.prepare(UserMessage("by hand")).tail) == 3
            turn.record(AssistantMessage("yes"))
            turn.discard()
    assert len(provider.bodies) == 1


async def test_a_memory_of_the_wrong_kind(tmp_path: Path) -> None:
    """Asynchronous turns need a Memory, and synchronous turns need a SyncMemory. An address is rejected without showing it."""
    wrong: Any = "postgresql://alice:secret@host/db"
    for begin in (GUARDS.turn, GUARDS.sync_turn):
        with pytest.raises(InputError, match="got str") as told:
            begin(wrong, "t1", "alice")
        assert "secret" not in str(told.value)
    async with Memory(tmp_path / "m.db") as memory:
        wrong = memory
        with pytest.raises(InputError, match="must be a SyncMemory, got Memory"):
            GUARDS.sync_turn(wrong, "t1", "alice")
    with SyncMemory(str(tmp_path / "m.db")) as wrong, pytest.raises(InputError, match="must be a Memory, got Sync"):
        await GUARDS.run(wrong, "t1", "alice", UserMessage("hello"), model=echo)
