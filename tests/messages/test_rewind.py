"""Rewind a thread to an earlier message, and return to a branch."""

from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

import pytest

from contract.meanwhile import Scribe
from kit.engines import a_memory
from kit.talk import hold, listen, logged, of_kind, store_of, stored_texts
from memolog import (
    AssistantMessage,
    Config,
    InputError,
    Memory,
    ObservationConfig,
    ToolCallPart,
    ToolMessage,
    UserMessage,
)
from memolog.core.observation import Span
from memolog.errors import BranchNotFound, MessageNotFound, ThreadNotFound, TurnRunning
from memolog.events import Withdrawn
from memolog.memory import Thread
from memolog.testing import FakeClock

SMALL = Config(observation=ObservationConfig(message_tokens=20_000, previous_tokens=200))
memory = a_memory(SMALL)

TALK = (
    ("My sister Nora lives in Oslo.", "Noted."),
    ("I work at the harbour office.", "Good to know."),
    ("We decided to paint the hall green.", "Green it is."),
)


async def talk(memory: Memory, turns: Sequence[tuple[str, str]] = TALK) -> Thread:
    """Hold a conversation; return its thread."""
    for said, answer in turns:
        await hold(memory, said, answer)
    return memory.thread("t1", resource="alice")


async def shown(thread: Thread) -> list[str]:
    """Return the texts that the model is shown."""
    return [message.text for message in (await thread.context()).messages]


async def test_a_rewind_withdraws_what_comes_after(memory: Memory) -> None:
    """The context, search and the log know only what is left; the rows stay as tombstones and the branch is listed."""
    thread = await talk(memory)
    events = listen(memory)
    branch = await thread.rewind(to=4)
    assert branch is not None
    assert (branch.id, branch.kept_to, branch.messages, branch.preview) == ("b1", 4, 2, TALK[2][0])
    assert await thread.branches() == (branch,)
    assert await shown(thread) == [*TALK[0], *TALK[1]]
    assert not (await thread.search("paint the hall")).results
    assert [row.state for row in (await thread.messages()).items] == ["live"] * 4 + ["withdrawn"] * 2
    assert [event.messages for event in of_kind(events, Withdrawn)] == [2]
    context = await hold(memory, "We decided to paint the hall blue.", "Blue it is.")
    assert [message.text for message in context.messages] == [*TALK[0], *TALK[1], "We decided to paint the hall blue."]
    assert (await thread.messages()).items[-1].seq == 8


async def test_earlier_contexts_are_seen_as_they_were(memory: Memory) -> None:
    """A rewind does not change what earlier requests showed. A turn that was discarded stays out of sight."""
    thread = memory.thread("t1", resource="alice")
    contexts = [await hold(memory, said, answer) for said, answer in TALK]
    async with thread.turn() as turn:
        await turn.prepare("This is a secret.")
        await turn.discard()
    await thread.rewind(to=4)
    contexts.append(await hold(memory, "Blue, please.", "Blue it is."))
    await thread.rewind(to=2)
    contexts.append(await hold(memory, "Never mind.", "All right."))
    await thread.restore_branch("b2")
    contexts.append(await hold(memory, "Blue again.", "Blue."))
    numbers = (1, 2, 3, 5, 6, 7)
    for number, context in zip(numbers, contexts, strict=True):
        assert (await thread.seen(number)).render() == context.render(), number
    assert "secret" not in (await thread.seen(4)).render()


@pytest.mark.parametrize("stops", ["another's message", "an open turn", "an unanswered question", ""])
async def test_only_own_ended_turns_are_withdrawn(memory: Memory, stops: str) -> None:
    """A rewind for one client stops at messages of others, and at turns that have not ended, also inside a tool call."""
    thread = memory.thread("t1", resource="alice")
    for number in range(120):
        turn = thread.turn()
        turn.id_prefix = "mine-"
        async with turn:
            await turn.prepare(f"question {number}")
            await turn.record("yes")
    async with thread.turn() as last:
        last.id_prefix = "mine-"
        if stops:
            await last.prepare("and this?")
        if stops != "an unanswered question" and stops:
            await last.record("yes")
        if stops == "an open turn":
            assert await thread.rewind(to=2, only_turns=last.id) is None
        if stops == "an unanswered question":
            assert await thread.rewind(to=2, only_turns="") is None
    branch = await thread.rewind(to=2, only_turns="mine-")
    assert (branch is None) == bool(stops)


async def test_a_rewind_to_the_end_changes_nothing(memory: Memory) -> None:
    """There is nothing to withdraw, so there is no branch."""
    thread = await talk(memory)
    assert await thread.rewind(to=6) is None
    assert await thread.branches() == ()
    assert await thread.rewind(to=0) is not None
    assert await shown(thread) == []


async def test_a_message_is_named_by_its_id(memory: Memory) -> None:
    """All rows of the message stay, also those that were added to it later."""
    thread = memory.thread("t1", resource="alice")
    await thread.save([UserMessage("One.", id="u1"), AssistantMessage("Two.", id="a1"), UserMessage("Three.", id="u2")])
    await thread.rewind(to="a1")
    assert await shown(thread) == ["One.", "Two."]
    with pytest.raises(MessageNotFound):
        await thread.rewind(to="u2")


async def test_the_log_forgets_groups_after_the_cut(memory: Memory) -> None:
    """A group wholly after it shows no line any more; cursors and numbers do not go back."""
    thread = await talk(memory, TALK[:2])
    await thread.observe()
    await talk(memory, TALK[2:])
    before = await thread.observe()
    await thread.rewind(to=4)
    assert "green" not in (await thread.context()).system
    assert "Oslo" in (await thread.context()).system
    assert (await thread.status()).cursor == before.cursor == 6
    assert not any("green" in line.text for line in await logged(memory) if line.state == "active")
    report = await memory.doctor()
    assert report.findings == ()


async def test_the_history_says_what_removed_messages(address: str, clock: FakeClock, tmp_path: Path) -> None:
    """Also if all of it happened at one moment in another thread of a shared log, and after an export."""
    config = SMALL.with_overrides({"scope": "resource"})
    async with Memory(address, config=config, clock=clock) as memory:
        thread, other = (memory.thread(name, resource="alice") for name in ("t1", "t2"))
        await hold(memory, "I keep a boat in the harbour.", "Noted.")
        for said, answer in TALK:
            await hold(memory, said, answer, thread="t2")
        await thread.observe()
        await other.observe()
        await other.rewind(to=4)
        rows = (await other.messages()).items
        assert rows[2].turn is not None
        await other.withdraw(rows[2].turn)
        await memory.resource("alice").forget(message=rows[0].id)
        made = await thread.history()
        assert [one.cause for one in made if one.kind == "forget"] == ["rewind", "discard", None]
        await memory.export(tmp_path / "export.jsonl")
    async with Memory(":memory:", config=config, clock=clock) as copy:
        await copy.import_from(tmp_path / "export.jsonl")
        assert [one.cause for one in await copy.thread("t1", resource="alice").history()] == [one.cause for one in made]


async def counts(thread: Thread) -> tuple[int, int]:
    """Return the number of live messages, and how many of them the log covers."""
    status = await thread.status()
    return status.live, status.covered


async def test_live_messages_are_counted(memory: Memory) -> None:
    """The rows that a rewind or `forget` left are not counted, before and after the cursor."""
    thread = await talk(memory)
    await thread.observe()
    await hold(memory, "We sold the boat.", "Noted.")
    assert await counts(thread) == (8, 6)
    await memory.resource("alice").forget(message=(await thread.messages()).items[0].id)
    assert await counts(thread) == (7, 5)
    await thread.rewind(to=4)
    assert await counts(thread) == (3, 3)


async def test_a_group_across_the_cut_is_observed_again(memory: Memory) -> None:
    """The messages that stay are in the log, the others are not."""
    thread = await talk(memory)
    await thread.observe()
    await thread.rewind(to=3)
    system = (await thread.context()).system
    assert "Oslo" in system
    assert "harbour office" in system
    assert "green" not in system
    assert (await memory.doctor()).findings == ()
    await hold(memory, "The hall stays white.", "Fine.")
    await thread.observe()
    assert "white" in (await thread.context()).system


async def test_a_reflection_across_the_cut_keeps_what_stays(memory: Memory, clock: FakeClock) -> None:
    """A reflected line from both sides of the cut is replaced by observations of the messages that stay."""
    thread = await talk(memory, TALK[:1])
    await thread.observe()
    await talk(memory, TALK[1:])
    scribe = Scribe(await store_of(memory), clock)
    await scribe.observe("t1", "The harbour office is green.")
    await scribe.activate("t1")
    await scribe.reflect("t1", "Nora, the harbour office and the green hall.")
    await thread.rewind(to=3)
    assert [group.kind for group in await thread.as_of(clock.now())] == ["reflection"]
    for stays in ("Oslo", "harbour office"):
        assert sum(stays in line.text for line in await scribe.lines("t1")) == 1
        assert stays in (await thread.context()).system
    assert "green" not in (await thread.context()).system
    assert (await memory.doctor()).findings == ()
    # The groups below the reflection have the same observations.
    await thread.restore(0)
    assert "harbour office" in (await thread.context()).system
    assert "green" not in (await thread.context()).system
    await thread.rewind(to=2)
    assert [line.text for line in await scribe.lines("t1") if "harbour" in line.text] == []
    assert (await memory.doctor()).findings == ()


async def test_returning_to_a_branch(memory: Memory) -> None:
    """Its messages are appended as new rows under their ids, and what was there becomes a branch."""
    thread = await talk(memory)
    first = await thread.rewind(to=2)
    assert first is not None
    await hold(memory, "I work at the airport.", "I see.")
    second = await thread.restore_branch(first.id)
    assert second is not None
    assert (second.id, second.kept_to, second.preview) == ("b2", 2, "I work at the airport.")
    assert await thread.branches() == (second,)
    assert await shown(thread) == [*TALK[0], *TALK[1], *TALK[2]]
    rows = [row for row in (await thread.messages()).items if row.state == "live"]
    assert [row.seq for row in rows] == [1, 2, 9, 10, 11, 12]
    assert (await thread.search("paint the hall")).results
    with pytest.raises(BranchNotFound):
        await thread.restore_branch(first.id)
    await thread.restore_branch(second.id)
    assert await shown(thread) == [*TALK[0], "I work at the airport.", "I see."]
    assert (await memory.doctor()).findings == ()


async def test_branches_of_branches(memory: Memory) -> None:
    """A branch has its own beginning, also where the thread was rewound before it since."""
    thread = await talk(memory)
    await thread.rewind(to=4)
    await hold(memory, "We decided on blue.", "Blue.")
    await thread.rewind(to=1)
    await thread.restore_branch("b1")
    assert await shown(thread) == [*TALK[0], *TALK[1], *TALK[2]]
    assert [branch.id for branch in await thread.branches()] == ["b2"]


async def test_a_forgotten_message_does_not_come_back(memory: Memory) -> None:
    """A branch without its forgotten messages is returned to without them."""
    thread = memory.thread("t1", resource="alice")
    await thread.save([UserMessage("One.", id="u1"), UserMessage("Secret.", id="u2"), UserMessage("Three.", id="u3")])
    await thread.rewind(to=1)
    await thread.forget(message="u2")
    assert [(branch.messages, branch.preview) for branch in await thread.branches()] == [(1, "Three.")]
    await thread.restore_branch("b1")
    assert await shown(thread) == ["One.", "Three."]


async def test_hints_go_back(memory: Memory) -> None:
    """The task in hand is the one of the messages that are left."""
    thread = await talk(memory, [("Please fix the login page.", "I begin with the form.")])
    await thread.observe()
    before = (await thread.info()).hints
    await talk(memory, [("Now please write the annual report.", "I begin with the figures.")])
    await thread.observe()
    assert (await thread.info()).hints.current_task != before.current_task
    await thread.rewind(to=2)
    assert (await thread.info()).hints.current_task == before.current_task


async def test_wrong_arguments(memory: Memory) -> None:
    """Each mistake is named."""
    thread = memory.thread("t1", resource="alice")
    with pytest.raises(ThreadNotFound):
        await thread.rewind(to=1)
    with pytest.raises(ThreadNotFound):
        await thread.branches()
    await talk(memory)
    with pytest.raises(InputError, match="0 or more"):
        await thread.rewind(to=-1)
    with pytest.raises(InputError, match="whole number"):
        await thread.rewind(to=1.5)  # pyright: ignore[reportArgumentType]
    with pytest.raises(BranchNotFound, match="b7"):
        await thread.restore_branch("b7")


async def test_an_export_has_the_branches(memory: Memory, tmp_path: Path) -> None:
    """After an import the branch can be returned to."""
    thread = await talk(memory)
    await thread.rewind(to=2)
    await memory.export(tmp_path / "export.jsonl")
    async with Memory(":memory:", config=SMALL, clock=memory.clock) as other:
        await other.import_from(tmp_path / "export.jsonl")
        elsewhere = other.thread("t1", resource="alice")
        assert await elsewhere.branches() == await thread.branches()
        await elsewhere.restore_branch("b1")
        assert await shown(elsewhere) == [*TALK[0], *TALK[1], *TALK[2]]


async def test_two_processes(memory: Memory, address: str, engine_name: str) -> None:
    """What one memory rewound, another that has the thread in its cache no longer shows."""
    if engine_name == "memory":
        pytest.skip("a database in memory has one process")
    thread = await talk(memory)
    async with Memory(address, config=SMALL, clock=memory.clock) as other:
        elsewhere = other.thread("t1", resource="alice")
        assert len(await shown(elsewhere)) == 6
        await thread.rewind(to=2)
        assert await shown(elsewhere) == [*TALK[0]]
        assert await stored_texts(other) == [*TALK[0]]


async def test_another_answer_to_a_question_in_the_log(memory: Memory) -> None:
    """The log covers the question, so the tail begins with it. It stays there when its new answer follows."""
    thread = await talk(memory)
    await thread.observe()
    await thread.rewind(to=5)
    async with thread.turn() as turn:
        first = await turn.prepare()
        await turn.record("Then green.")
    second = await hold(memory, "And the door?", "White.")
    assert [message.text for message in first.tail] == [TALK[2][0]]
    assert second.render_without_edge().startswith(first.render_without_edge())
    assert [message.text for message in second.tail] == [TALK[2][0], "Then green.", "And the door?"]


@pytest.mark.parametrize("elsewhere", [False, True])
@pytest.mark.parametrize("is_answered", [False, True])
async def test_a_running_turn_is_not_withdrawn(
    memory: Memory, address: str, engine_name: str, elsewhere: bool, is_answered: bool
) -> None:
    """A user edits a question while its answer comes: the turn must end first, so that no answer stays without its question."""
    if elsewhere and (engine_name == "memory" or is_answered):
        pytest.skip(
            "a database in memory has one process, and another process knows only of turns that wait for an answer"
        )
    thread = await talk(memory, TALK[:2])
    branch = await thread.rewind(to=2)
    assert branch is not None
    other = Memory(address, config=SMALL, clock=memory.clock) if elsewhere else nullcontext(memory)
    async with other as editing:
        edited = editing.thread("t1", resource="alice")
        async with thread.turn() as turn:
            await turn.prepare("What is in the hall?")
            if is_answered:
                await turn.record(AssistantMessage([ToolCallPart(id="c1", name="look")]))
            with pytest.raises(TurnRunning, match=turn.id) as raised:
                await edited.rewind(to=2)
            assert raised.value.turn == turn.id
            with pytest.raises(TurnRunning, match=turn.id):
                await edited.restore_branch(branch.id)
            if is_answered:
                await turn.prepare(ToolMessage("c1", "a chair"))
            await turn.record("A chair.")
        assert await stored_texts(memory) == [*TALK[0], "What is in the hall?", *[""] * 2 * is_answered, "A chair."]
        assert await edited.rewind(to=2) is not None
    assert await stored_texts(memory) == [*TALK[0]]


async def test_the_turn_of_a_process_that_ended_is_withdrawn(memory: Memory, clock: FakeClock) -> None:
    """A process that was killed never ends its turn. It must not prevent a rewind for ever."""
    thread = await talk(memory, TALK[:1])
    store = await store_of(memory)
    await store.messages.save("alice", "t1", [UserMessage("And now?")], turn="lost", owner="killed")
    with pytest.raises(TurnRunning, match="lost"):
        await thread.rewind(to=2)
    clock.advance(minutes=5)
    assert await thread.rewind(to=2) is not None


async def test_restored_messages_keep_their_tasks(memory: Memory) -> None:
    """Messages that were saved while a task was active, and messages that were linked to it, are linked again."""
    tasks = memory.resource("alice").tasks(session="one", thread="t1")
    first, second = await tasks.create("Paint the hall"), await tasks.create("Move to Oslo")
    await tasks.claim(first.id)
    thread = await talk(memory, TALK[:2])
    await tasks.close(first.id, summary="done")
    await hold(memory, *TALK[2])
    await tasks.attach(second.id, Span(first=1, last=1), thread="t1")

    async def linked() -> list[list[str]]:
        return [[one.message.text for one in (await tasks.about(task.id)).messages] for task in (first, second)]

    before = await linked()
    assert [len(texts) for texts in before] == [4, 1]
    await tasks.claim(second.id)
    branch = await thread.rewind(to=0)
    assert branch is not None
    assert await linked() == [[], []]
    await thread.restore_branch(branch.id)
    assert await linked() == before
    assert (await memory.doctor()).is_healthy


@pytest.mark.parametrize("to", [0, 1])
async def test_a_message_of_several_rows_is_restored(memory: Memory, to: int) -> None:
    """A message that grew has several rows. Some of them may have stayed."""
    thread = memory.thread("t1", resource="alice")
    for parts in (["One."], ["One.", "Two."], ["One.", "Two.", "Three."]):
        await thread.save([AssistantMessage(parts, id="m1")])
    branch = await thread.rewind(to=to)
    assert branch is not None
    await thread.restore_branch(branch.id)
    assert await stored_texts(memory) == ["One.", "Two.", "Three."]


async def test_a_preview_shows_the_beginning(memory: Memory) -> None:
    """A long text is cut at its end. A branch that begins with a tool call shows the call."""
    thread = memory.thread("t1", resource="alice")
    words = "It begins here. " + "and goes on, " * 20
    await thread.save([AssistantMessage([ToolCallPart(id="c1", name="look", arguments={"at": "hall"})])])
    await thread.save([ToolMessage("c1", "a chair"), UserMessage(words)])
    previews = [branch.preview for to in (2, 1, 0) if (branch := await thread.rewind(to=to))]
    assert [words.startswith(previews[0]), len(previews[0])] == [True, 80]
    assert previews[1:] == ["a chair", 'look({"at":"hall"})']
    assert [branch.preview for branch in await thread.branches()] == previews
