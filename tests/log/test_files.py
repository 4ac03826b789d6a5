"""Large files stay in the tail while a user asks about them: only text, or too many files, move them into the log."""

import pytest

from kit.engines import OpenMemory, memories
from kit.talk import RESOURCE, THREAD, hold, store_of
from memolog import AssistantMessage, Config, FilePart, TextPart, ToolCallPart, Usage, UserMessage
from memolog.context.context import Context
from memolog.core.message import NewMessage, ToolResultPart
from memolog.memory import Memory
from memolog.testing import FakeClock, ScriptedModel

opened = memories(make_model=ScriptedModel)
PAGES = b"%PDF-1.7\n" + b"<< /Type /Page >>\n" * 20
BOOK = FilePart(media_type="application/pdf", data=PAGES, name="book.pdf")
LAW = FilePart(media_type="application/pdf", url="https://example.com/law.pdf", name="law.pdf")
TALK = FilePart(media_type="video/mp4", url="https://example.com/talk.mp4", name="talk.mp4")
MODEL = "claude-sonnet-4-5"


def with_file(question: str, *files: FilePart) -> NewMessage:
    """Return a question about files."""
    return UserMessage([TextPart(text=question), *files])


def files_in(context: Context) -> list[str | None]:
    """Return the names of the files that a context shows."""
    found = [part for message in context.tail for part in message.parts]
    inner = [file for part in found if isinstance(part, ToolResultPart) for file in part.files]
    return [part.name for part in (*found, *inner) if isinstance(part, FilePart)]


async def ask(memory: Memory, said: str | NewMessage, *, reported: int = 0, thread: str = THREAD) -> Context:
    """Hold a turn whose provider reports so many tokens; 0 reports nothing."""
    async with memory.thread(thread, resource=RESOURCE).turn(model=MODEL) as turn:
        context = await turn.prepare(said)
        usage = Usage(model=MODEL, input_tokens=reported, output_tokens=5) if reported else None
        await turn.record(AssistantMessage("It says so on page 3."), usage=usage)
    await memory.settled()
    return context


@pytest.mark.parametrize("file", [BOOK, LAW, TALK], ids=lambda file: file.name)
@pytest.mark.parametrize("reported", [0, 6_000])
async def test_a_file_does_not_evict_itself(
    opened: OpenMemory, clock: FakeClock, file: FilePart, reported: int
) -> None:
    """A file is in every request while nothing else fills the tail, also after a pause in which the cache went cold."""
    memory = opened()
    await ask(memory, with_file("What does it say?", file), reported=reported)
    for number in range(5):
        clock.advance(minutes=10)
        context = await ask(memory, f"And on page {number}?", reported=reported)
        assert files_in(context) == [file.name], f"the file is gone at question {number + 2}"


async def test_a_file_in_a_tool_result_does_not_evict_itself(opened: OpenMemory) -> None:
    """A document that a tool returned stays like one that the user sent."""
    memory = opened()
    async with memory.thread(THREAD, resource=RESOURCE).turn(model=MODEL) as turn:
        await turn.prepare("Read the law.")
        await turn.record(AssistantMessage([ToolCallPart(id="c1", name="read", arguments={})]))
        result = ToolResultPart(call_id="c1", content="attached", name="read", files=(LAW,))
        await turn.prepare(NewMessage(role="tool", parts=(result,)))
        await turn.record("Done.")
    await memory.settled()
    assert files_in(await ask(memory, "What is in § 1?")) == ["law.pdf"]
    assert files_in(await ask(memory, "What is in § 2?")) == ["law.pdf"]


async def test_text_moves_a_file_into_the_log(opened: OpenMemory) -> None:
    """When the text of the tail reaches the limit, the file is observed with the messages around it."""
    memory = opened()
    await ask(memory, with_file("What does it say?", BOOK))
    for number in range(8):
        await ask(memory, f"Question {number}: " + "lorem ipsum dolor " * 1_200)
    context = await ask(memory, "And now?")
    assert files_in(context) == []
    assert context.blocks


async def test_the_newest_files_stay(opened: OpenMemory) -> None:
    """If the files together would fill half of the model's window, the oldest leave and the newest stays."""
    memory = opened()
    names = [f"{number}.pdf" for number in range(8)]
    for name in names:
        file = FilePart(media_type="application/pdf", url=f"https://example.com/{name}", name=name)
        context = await ask(memory, with_file(f"What is in {name}?", file))
        assert name in files_in(context)
    shown = files_in(await ask(memory, "Compare the last two."))
    assert shown == names[-len(shown) :]
    assert 2 <= len(shown) < len(names)


async def test_reported_usage_bounds_a_file(opened: OpenMemory) -> None:
    """What a provider reports replaces the estimate: eight short documents by address are all shown."""
    memory = opened()
    names = [f"{number}.pdf" for number in range(8)]
    for number, name in enumerate(names, start=1):
        file = FilePart(media_type="application/pdf", url=f"https://example.com/{name}", name=name)
        await ask(memory, with_file(f"What is in {name}?", file), reported=3_000 * number)
    context = await ask(memory, "Compare them all.", reported=24_050)
    assert files_in(context) == names
    assert 20_000 < context.tokens.total < 25_000


async def test_a_file_does_not_change_the_calibration(opened: OpenMemory) -> None:
    """The estimate of a file is corrected, and not the factor for all texts of the model."""
    memory = opened()
    await ask(memory, with_file("What does it say?", LAW), reported=5_000)
    await ask(memory, "And on page 2?", reported=5_050)
    ledger = (await store_of(memory)).ledger
    assert 0.9 < (await ledger.calibration(RESOURCE, MODEL)).factor < 1.1
    rows = await (await store_of(memory)).messages.after(RESOURCE, THREAD, 0)
    assert 4_500 < rows[0].tokens < 5_000


async def test_images_keep_their_count(opened: OpenMemory) -> None:
    """An image is counted well by its size. A report does not change it, and many images fill the tail like text."""
    memory = opened()
    image = FilePart(media_type="image/png", url="https://example.com/a.png", width=2_000, height=2_000, name="a.png")
    await ask(memory, with_file("What is this?", image), reported=90_000)
    store = await store_of(memory)
    before = (await store.messages.after(RESOURCE, THREAD, 0))[0].tokens
    assert 700 < before < 900
    for number in range(40):
        await ask(memory, with_file(f"And this, {number}?", image, image))
    status = await memory.thread(THREAD, resource=RESOURCE).status()
    assert status.cursor > 1
    assert status.messages.tokens < 36_000


async def test_a_shared_log_counts_files_alike(opened: OpenMemory) -> None:
    """In resource scope, the files of other threads do not fill the tail either."""
    memory = opened(Config(scope="resource"))
    for thread in ("a", "b", "c"):
        await ask(memory, with_file("What does it say?", LAW), thread=thread)
    for thread in ("a", "b", "c"):
        assert files_in(await ask(memory, "And on page 2?", thread=thread)) == ["law.pdf"]


async def test_a_clone_keeps_what_was_reported(opened: OpenMemory) -> None:
    """A copied thread counts its files as the original does."""
    memory = opened()
    await ask(memory, with_file("What does it say?", LAW), reported=5_000)
    copy = await memory.thread(THREAD, resource=RESOURCE).clone()
    store = await store_of(memory)
    rows = [(await store.messages.after(RESOURCE, thread, 0))[0] for thread in (THREAD, copy.id)]
    assert rows[0].tokens == rows[1].tokens < 5_000


async def test_a_context_limit_counts_whole_files(opened: OpenMemory) -> None:
    """A hard limit is for the whole context, so a file counts in full there."""
    memory = opened(Config(context_tokens=40_000))
    context = await hold(memory, with_file("What do they say?", BOOK, LAW), "Much.")
    assert files_in(context) == []
    assert context.shortened
