"""Recall through the public face, on every engine: the exact words behind whatever the log shows."""

import base64
import re
from typing import Any

import pytest

from contract.raw_sql import run_sql, set_state
from kit.engines import a_memory
from kit.talk import hold
from memolog import (
    AssistantMessage,
    Config,
    FilePart,
    InputError,
    NotFound,
    ObservationConfig,
    RecallPage,
    ReflectionConfig,
    Span,
    TextPart,
    ToolCallPart,
    ToolMessage,
    ToolResultPart,
    UserMessage,
)
from memolog.core.message import NewMessage
from memolog.memory import Memory
from memolog.testing import FakeClock, ScriptedModel

SMALL = Config(
    observation=ObservationConfig(message_tokens=1_000, previous_tokens=200),
    reflection=ReflectionConfig(observation_tokens=600),
)
HUGE = "".join(f"line {number}: naïve 👩‍👩‍👧 <tag> &amp; 🇩🇪🇫🇷 日本語 \U0001f9d1\U0001f3fd\r\n" for number in range(900))
memory = a_memory(model=ScriptedModel, config=SMALL)


async def say(memory: Memory, *messages: NewMessage, thread: str = "t1", resource: str = "alice") -> None:
    """Save messages of a thread."""
    await (await memory.open()).store.messages.save(resource, thread, messages)


async def look_up(memory: Memory, rounds: int = 4, thread: str = "t1") -> None:
    """Hold an exchange with a tool, some times over; its results do not name their tool."""
    for number in range(rounds):
        tool = "read" if number % 2 == 0 else "bash"
        await say(
            memory,
            UserMessage(f"question {number}", id=f"u{number}"),
            AssistantMessage([ToolCallPart(id=f"c{number}", name=tool, arguments={"n": number})], id=f"a{number}"),
            ToolMessage(f"c{number}", f"result {number} " + "and more of it " * 40, id=f"r{number}"),
            AssistantMessage(f"answer {number}", id=f"f{number}"),
            thread=thread,
        )


async def pages(memory: Memory, reference: Any, *, back_from: str | None = None, **options: Any) -> list[RecallPage]:
    """Return every page of a reference, forward, or back from a cursor."""
    found: list[RecallPage] = []
    cursor = back_from
    while True:
        page = await memory.resource("alice").recall(reference, cursor=cursor, **options)
        found.append(page)
        cursor = page.previous if back_from else page.next
        if cursor is None:
            return found


def seqs(*found: RecallPage) -> list[int]:
    """Return which messages pages show, each once."""
    return list(dict.fromkeys(item.seq for page in found for item in page.items))


def words(found: list[RecallPage], part: int = 0) -> str:
    """Return what pages show of one part of the first message, put together."""
    first = [item for page in found for item in page.items if item.seq == 1]
    return "".join(piece.text for item in first for piece in item.pieces if piece.part == part)


# ---------------------------------------------------------------- what can be referred to


async def test_a_group_leads_to_its_messages(memory: Memory) -> None:
    """The id that the prefix shows is enough."""
    await look_up(memory)
    await memory.thread("t1", resource="alice").observe()
    prefix = (await hold(memory, "go on")).render()
    handles = re.findall(r'<observations id="(g\d+)"', prefix)
    assert handles
    found = [seq for handle in handles for seq in seqs(*(await pages(memory, handle, thread="t1")))]
    assert found == list(range(1, 17))
    page = await memory.resource("alice").recall(handles[0])
    assert page.items[0].pieces[0].text == "question 0"


async def test_an_observation_leads_to_what_it_cites(memory: Memory) -> None:
    """A line's id leads to the messages of its sources and to no others."""
    await look_up(memory)
    await memory.thread("t1", resource="alice").observe()
    kit = await memory.open()
    snapshot = await kit.store.logs.snapshot("alice", "t1", "thread")
    handles = {group.id: group.handle for group in snapshot.groups}
    for line in await kit.store.logs.observations(snapshot.resource, snapshot.log.pk, list(handles)):
        cited = [seq for source in line.sources for seq in range(source.span.first, source.span.last + 1)]
        assert seqs(*(await pages(memory, line.id))) == cited
        # The number of the line in its group is as good as its id, with the thread and, where one has it, without.
        handle = f"{handles[line.group]}.{line.ordinal}"
        assert seqs(*(await pages(memory, handle))) == cited
        assert seqs(*(await pages(memory, handle, thread="t1"))) == cited
        told = (
            await memory.resource("alice")
            .tools(thread="t1")
            .call("memory-search", {"action": "recall", "target": handle})
        )
        assert told["success"], told
        assert told["messages"] == len(cited)
    for missing in ("g1.999", "g999.1"):
        with pytest.raises(NotFound):
            await memory.resource("alice").recall(missing, thread="t1")
        with pytest.raises(NotFound):
            await memory.resource("mallory").recall(missing)


async def test_a_reflection_leads_through_what_it_merged(memory: Memory) -> None:
    """However often the log was condensed, its lines lead to the messages."""
    await look_up(memory)
    await memory.thread("t1", resource="alice").observe()
    await memory.thread("t1", resource="alice").reflect()
    kit = await memory.open()
    snapshot = await kit.store.logs.snapshot("alice", "t1", "thread")
    head = snapshot.groups[0]
    assert head.kind == "reflection"
    # Without sources of its own the line still leads to what the lines under it cite.
    await run_sql(
        kit.store,
        "DELETE FROM observation_sources WHERE observation_pk IN "
        "(SELECT o.pk FROM observations o JOIN groups g ON g.pk = o.group_pk WHERE g.kind = 'reflection')",
    )
    by_group = seqs(*(await pages(memory, head.handle, thread="t1")))
    assert by_group
    lines = await kit.store.logs.observations(snapshot.resource, snapshot.log.pk, [head.id])
    assert seqs(*(await pages(memory, lines[0].id))) == by_group
    assert seqs(*(await pages(memory, head.id))) == by_group


@pytest.mark.parametrize(
    "reference", ["3-6", "#3-#6", "t1 3-6", "t1 #3 - 6", "t1:3..6", "3 to 6", Span(first=3, last=6)]
)
async def test_a_span_in_any_spelling(memory: Memory, reference: Any) -> None:
    """A span is a value, or a text as people write it."""
    await look_up(memory)
    page = await memory.resource("alice").recall(reference, thread="t1")
    assert (seqs(page), page.next, page.previous) == ([3, 4, 5, 6], None, None)


@pytest.mark.parametrize("reference", ["r1", 7, "7", "#7", "t1 7"])
async def test_a_message_is_a_place_to_go_on_from(memory: Memory, reference: Any) -> None:
    """A message's page begins with it and goes on through its thread, in either direction."""
    await look_up(memory)
    page = await memory.resource("alice").recall(reference, thread="t1", tokens=200, detail="full")
    assert page.items[0].id == "r1"
    later = await pages(memory, reference, thread="t1", tokens=200, detail="full")
    assert seqs(*later) == list(range(7, 17))
    assert page.previous is not None
    earlier = await pages(memory, reference, thread="t1", tokens=200, detail="full", back_from=page.previous)
    assert seqs(*reversed(earlier)) == list(range(1, 7))
    assert earlier[-1].previous is None


async def test_shared_logs_know_threads_by_their_alias(address: str, clock: FakeClock) -> None:
    """Where threads share a log, models call them t1, t2; so does recall."""
    config = SMALL.with_overrides({"scope": "resource"})
    async with Memory(address, model=ScriptedModel(), config=config, clock=clock) as memory:
        await look_up(memory, 2, thread="shopping")
        await look_up(memory, 1, thread="holidays")
        await memory.thread("shopping", resource="alice").observe()
        await memory.thread("holidays", resource="alice").observe()
        aliases = {name: await _alias(memory, name) for name in ("shopping", "holidays")}
        for name, alias in aliases.items():
            page = await memory.resource("alice").recall(f"{alias} 1-2")
            assert {item.thread for item in page.items} == {name}
            assert page.text.startswith(f"{alias} #1 ")
            assert (await memory.resource("alice").recall("1-2", thread=alias)).items == page.items
        assert seqs(await memory.resource("alice").recall("g1", tokens=4_000))


async def _alias(memory: Memory, thread: str) -> str:
    store = (await memory.open()).store
    log = (await store.logs.snapshot("alice", thread, "resource")).log
    return f"t{(await store.logs.aliases('alice', log.pk, [thread]))[thread]}"


# ---------------------------------------------------------------- what is refused


async def test_what_is_foreign_looks_like_what_is_missing(memory: Memory) -> None:
    """Nobody learns from an error whether somebody else has it."""
    await look_up(memory)
    await memory.thread("t1", resource="alice").observe()
    store = (await memory.open()).store
    snapshot = await store.logs.snapshot("alice", "t1", "thread")
    group = snapshot.groups[0]
    line = (await store.logs.observations(snapshot.resource, snapshot.log.pk, [group.id]))[0]
    await say(memory, UserMessage("hello", id="mine"), resource="mallory", thread="own")
    for reference in (group.handle, group.id, line.id, "u0", "t1 1-3"):
        assert (await memory.resource("alice").recall(reference, thread="t1")).items
        with pytest.raises(NotFound) as caught:
            await memory.resource("mallory").recall(reference)
        with pytest.raises(NotFound) as missing:
            await memory.resource("nobody").recall(reference)
        assert str(caught.value) == str(missing.value)
        with pytest.raises(NotFound):
            await memory.resource("mallory").recall(reference, thread="t1")
    # A cursor of somebody else's page opens nothing either.
    page = await memory.resource("alice").recall("t1 1-16", tokens=200)
    stolen = await memory.resource("mallory").recall("own 1", cursor=page.next)
    assert [item.id for item in stolen.items] in ([], ["mine"])


async def test_references_that_say_too_little(memory: Memory) -> None:
    """What could mean several things is refused, with what to add."""
    for thread in ("t1", "t2"):
        await say(memory, UserMessage("hello", id="same"), thread=thread)
        await memory.thread(thread, resource="alice").observe()
    for reference in ("same", "g1", "g1.1", "1", 1, "1-2", Span(first=1, last=1)):
        with pytest.raises(InputError) as caught:
            await memory.resource("alice").recall(reference)
        assert caught.value.then
        if reference in {"same", "g1", "g1.1"}:
            assert "t1, t2" in caught.value.what
        assert (await memory.resource("alice").recall(reference, thread="t2")).items[0].thread == "t2"


@pytest.mark.parametrize(
    ("reference", "options"),
    [
        ("", {}),
        ("a\x00b", {}),
        (True, {}),
        (1.5, {}),
        (None, {}),
        ("5-2", {}),
        ("t1 1", {"detail": "medium"}),
        ("t1 1", {"types": ["video"]}),
        ("t1 1", {"tokens": 0}),
        ("t1 1", {"part": -1}),
        ("t1 1", {"types": "tool"}),
        ("t1 1", {"types": 3}),
        ("t1 1", {"tokens": "500"}),
        ("t1 1", {"tokens": 500.5}),
        ("t1 1", {"part": "0"}),
        ("t1 1", {"part": True}),
        ("t1 1", {"cursor": "nonsense"}),
        ("t1 1", {"cursor": "f.1.2"}),
        ("t1 1", {"cursor": "b.x.1.1.1"}),
    ],
)
async def test_bad_input_says_what_to_do(memory: Memory, reference: Any, options: dict[str, Any]) -> None:
    """Nothing that a caller can hand in is a crash."""
    await look_up(memory, 1)
    with pytest.raises(InputError) as caught:
        await memory.resource("alice").recall(reference, thread="t1", **options)
    assert caught.value.then


@pytest.mark.parametrize(
    "cursor", [f"{d}.{'.'.join([str(n)] * 4)}" for d in "fb" for n in (-(2**63), -1, 0, 2**63 - 1)]
)
async def test_cursors_that_lead_nowhere(memory: Memory, cursor: str) -> None:
    """A cursor that was never given out shows what lies there: something of the place, or nothing."""
    await look_up(memory, 1)
    page = await memory.resource("alice").recall("t1 1-4", cursor=cursor, detail="full")
    assert set(seqs(page)) <= {1, 2, 3, 4}


async def test_numbers_beyond_the_end_are_not_found(memory: Memory) -> None:
    """A number that no message has is missing; a span is cut to what there is."""
    await look_up(memory, 1)
    for reference in (5, 0, "t1 99", "t1 5-9", "t1 999999999999999999"):
        with pytest.raises(NotFound):
            await memory.resource("alice").recall(reference, thread="t1")
    assert seqs(await memory.resource("alice").recall("t1 3-999999999999999999")) == [3, 4]


# ---------------------------------------------------------------- what is shown


async def test_tombstones_say_so_and_nothing_else(memory: Memory) -> None:
    """What was withdrawn or forgotten keeps its place without its text."""
    await look_up(memory, 2)
    store = (await memory.open()).store
    await set_state(store, "u0", "withdrawn")
    await set_state(store, "f0", "forgotten")
    for detail in ("low", "full"):
        page = await memory.resource("alice").recall("t1 1-4", detail=detail)
        assert [item.state for item in page.items] == ["withdrawn", "live", "live", "forgotten"]
        assert page.items[0].pieces == page.items[3].pieces == ()
        assert "question 0" not in page.text
        assert "answer 0" not in page.text
        assert "[withdrawn]" in page.text
        assert "[forgotten]" in page.text


async def test_what_memory_answered_is_left_out(memory: Memory) -> None:
    """Results of our own tools are no memory."""
    call = ToolCallPart(id="c", name="memory-search", arguments={"query": "x"})
    answer = ToolResultPart(call_id="c", content="what was found")
    await say(
        memory,
        UserMessage("look it up"),
        NewMessage(role="assistant", parts=(call,), own=True),
        NewMessage(role="tool", parts=(answer,), own=True),
        AssistantMessage("done"),
    )
    for detail in ("low", "full"):
        assert seqs(await memory.resource("alice").recall("t1 1-4", detail=detail)) == [1, 4]


async def test_parts_by_type_and_tool(memory: Memory) -> None:
    """Who looks for what a tool said reads nothing else."""
    await look_up(memory)
    results = await memory.resource("alice").recall("t1 1-16", types=["tool_result"], detail="full", tokens=20_000)
    assert results == await memory.resource("alice").recall(
        "t1 1-16", types="tool_result", detail="full", tokens=20_000
    )
    assert seqs(results) == [3, 7, 11, 15]
    of_read = await memory.resource("alice").recall("t1 1-16", tool="read", tokens=20_000)
    assert seqs(of_read) == [2, 3, 10, 11]
    assert {piece.tool for item in of_read.items for piece in item.pieces} == {"read"}
    # The call stands before the span: the result is still known by its tool.
    assert seqs(await memory.resource("alice").recall("t1 3-5", tool="read")) == [3]
    assert (await memory.resource("alice").recall("t1 1-16", tool="none")).items == ()


async def test_low_detail_is_a_line_a_message(memory: Memory) -> None:
    """A glance shows each message in short; a tool's result shorter still."""
    await say(memory, UserMessage("why? " * 500), AssistantMessage(HUGE), ToolMessage("c", HUGE))
    page = await memory.resource("alice").recall("t1 1-3")
    assert len(page.text.splitlines()) == 3
    assert all(len(piece.text) <= 240 for item in page.items for piece in item.pieces)
    assert len(page.items[2].pieces[0].text) <= 120
    assert page.items[1].pieces[0].length == len(HUGE)
    assert "<tag> &amp;" in page.text


@pytest.mark.parametrize("tokens", [200, 777, 5_000])
async def test_a_huge_part_is_read_in_pieces(memory: Memory, tokens: int) -> None:
    """Page by page, forward and back, the pieces are the part, character for character, and no grapheme is torn."""
    parts = [TextPart(text="before"), TextPart(text=HUGE), TextPart(text=""), TextPart(text="after")]
    await say(memory, AssistantMessage(parts, id="huge"), UserMessage("thanks"))
    found = await pages(memory, "huge", tokens=tokens, detail="full")
    assert [words(found, part) for part in range(4)] == [part.text for part in parts]
    assert all(page.tokens <= tokens for page in found)
    back = await pages(memory, "huge", tokens=tokens, detail="full", back_from=found[-1].previous)
    back = [*reversed(back), found[-1]]
    assert [words(back, part) for part in range(4)] == [part.text for part in parts]
    assert all(page.tokens <= tokens for page in back)
    pieces = [piece for page in (*found, *back) for item in page.items for piece in item.pieces if piece.part == 1]
    assert not any(piece.text.startswith(("\u200d", "\n", "\U0001f3fd")) for piece in pieces)
    alone = await pages(memory, "huge", tokens=tokens, detail="full", part=1)
    assert words(alone, 1) == HUGE
    assert {piece.part for page in alone for item in page.items for piece in item.pieces} == {1}


async def test_files_are_described(memory: Memory) -> None:
    """A file is named with its kind and size; its bytes are not a text."""
    file = FilePart(media_type="image/png", data=b"\x89PNG" * 100, name="plan.png")
    result = ToolResultPart(call_id="c", content="see the file", name="draw", files=(file,))
    await say(memory, UserMessage([file]), NewMessage(role="tool", parts=(result,)))
    page = await memory.resource("alice").recall("t1 1-2", detail="full")
    assert page.items[0].pieces[0].text == "plan.png, image/png, 400 bytes"
    assert page.items[1].pieces[0].files == ("plan.png, image/png, 400 bytes",)
    assert page.text.count("plan.png") == 2


PDF = FilePart(media_type="application/pdf", data=bytes(range(256)) * 40, name="plan.pdf")


async def test_a_file_is_returned(memory: Memory) -> None:
    """A file comes back as it was stored: its bytes, or its address, also from the result of a tool."""
    link = FilePart(media_type="application/pdf", url="https://example.com/law.pdf", name="law.pdf")
    result = ToolResultPart(call_id="c", content="see the file", name="draw", files=(PDF, link))
    await say(memory, UserMessage(["Look.", PDF, link]), NewMessage(role="tool", parts=(result,)))
    page = await memory.resource("alice").recall("t1 1-2", detail="full")
    assert [piece.stored for piece in page.items[0].pieces] == [(), (PDF,), (link,)]
    assert page.items[1].pieces[0].stored == (PDF, link)
    assert "[file, part 1]\nplan.pdf, application/pdf, 10,240 bytes" in page.text
    assert "[file, part 2]\nlaw.pdf, application/pdf, https://example.com/law.pdf" in page.text
    low = await memory.resource("alice").recall("t1 1-2")
    assert [piece.stored for item in low.items for piece in item.pieces] == [()] * 4


@pytest.mark.parametrize("as_url", [False, True])
async def test_the_bytes_of_one_file(memory: Memory, as_url: bool) -> None:
    """One file alone is shown as base64, in pieces on several pages, which together are the whole file."""
    encoded = base64.b64encode(PDF.data or b"").decode()
    address = FilePart(media_type="application/pdf", url=f"data:application/pdf;base64,{encoded}", name="plan.pdf")
    await say(memory, UserMessage(["Look.", address if as_url else PDF], id="m1"))
    found = await pages(memory, "m1", detail="full", part=1)
    assert len(found) > 1
    assert words(found, 1) == encoded
    pieces = [piece for page in found for item in page.items for piece in item.pieces]
    assert {piece.encoding for piece in pieces} == {"base64"}
    assert "[file] plan.pdf, application/pdf, 10,240 bytes" in found[0].text
    shown = await memory.resource("alice").recall("t1 1-1")
    assert encoded[:40] not in shown.text


async def test_a_text_file_is_read(memory: Memory) -> None:
    """The words of a text file are words like any others."""
    notes = FilePart(media_type="text/markdown; charset=utf-8", data=HUGE.encode(), name="notes.md")
    await say(memory, UserMessage([notes], id="m1"))
    found = await pages(memory, "m1", detail="full")
    assert words(found, 0) == HUGE
    assert "[file] notes.md, text/markdown" in found[0].text
    assert "notes.md" in (await memory.resource("alice").recall("t1 1-1")).text


async def test_a_read_only_memory_recalls(address: str, engine_name: str, clock: FakeClock) -> None:
    """Looking back writes nothing."""
    if engine_name == "memory":
        return
    async with Memory(address, config=SMALL, clock=clock) as memory:
        await look_up(memory, 1)
    async with Memory(address, config=SMALL.with_overrides({"read_only": True}), clock=clock) as memory:
        assert seqs(await memory.resource("alice").recall("t1 1-4")) == [1, 2, 3, 4]
