"""x."""
from memolog.domain.message import UserMessage
from memolog.store import Store


async def test_save(store: Store) -> None:
    """Saves."""
    saved = await store.messages.save("alice", "t", UserMessage("hi"))
    assert saved.added == 1
