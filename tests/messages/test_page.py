"""A page of results is iterable."""

from memolog import Memory


async def test_a_page_yields_its_items(address: str) -> None:
    """`for message in await thread.messages()` and `len` use the items of the page."""
    async with Memory(address) as memory:
        thread = memory.thread("t1", resource="alice")
        async with thread.turn() as turn:
            await turn.prepare("Hello.")
            await turn.record("Good morning.")
        page = await thread.messages()
        assert ([message.text for message in page], len(page)) == (["Hello.", "Good morning."], 2)
        assert len(await thread.messages(after=2)) == 0
