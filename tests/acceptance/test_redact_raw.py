"""With `redact_raw` no secret reaches the database, in whatever part of a message it stands."""

from pathlib import Path

import pytest

from memolog.config import Config
from memolog.domain.errors import ConfigError, MessageConflict
from memolog.domain.message import (
    AssistantMessage,
    FilePart,
    NewMessage,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolMessage,
    ToolResultPart,
    UnknownPart,
    UserMessage,
)
from memolog.prompt.without_secrets import without_secrets
from memolog.runtime.memory import Memory

# Put together here, so that this file does not hold what looks like a key.
KEY = "sk-ant-" + "api03-" + "Ab3dEf6hIj9kLm2nOp5qRs8tUv1wXy4z" * 2
PASSWORD = "hunter" + "22-is-mine"
RAW = Config(redact_raw=True)


def messages() -> list[NewMessage]:
    """Return a message for every place that a secret can stand in."""
    return [
        UserMessage(f"Use {KEY} for the deploy."),
        AssistantMessage(
            [
                ReasoningPart(text=f"They gave me {KEY}.", signature="signed"),
                ToolCallPart(
                    id="c1", name="login", arguments={"user": "mira", "password": PASSWORD, "tries": [1, None]}
                ),
            ]
        ),
        ToolMessage("c1", {"nested": [{"token": KEY}], "note": f"api_key = '{KEY}'"}, name="login"),
        AssistantMessage([ToolCallPart(id="c2", name="run", arguments=f'{{"password": "{PASSWORD}"}}')]),
        NewMessage(
            role="tool",
            parts=(
                ToolResultPart(
                    call_id="c2",
                    content="ok",
                    files=(FilePart(media_type="text/plain", data=f"key {KEY}\n".encode(), name="env.txt"),),
                ),
            ),
        ),
        UserMessage([FilePart(media_type="image/png", url=f"https://example.com/x.png?sig={'a1' * 20}")]),
        UserMessage([UnknownPart(data={"kind": "later", "said": KEY})]),
        NewMessage(role="user", parts=(TextPart(text="Go on."),), metadata={"header": f"Bearer {KEY}"}),
    ]


def bytes_in(folder: Path) -> bytes:
    """Return all that is in the files of a folder."""
    return b"".join(file.read_bytes() for file in folder.iterdir())


async def test_no_byte_of_a_secret_is_stored(tmp_path: Path) -> None:
    """Neither in the files nor in what recall shows; the words around it stay, and the rest of each value."""
    path = tmp_path / "memory.db"
    async with Memory(path, config=RAW) as memory:
        async with memory.turn("t1", "alice") as turn:
            await turn.prepare(*messages())
            await turn.record(AssistantMessage(f"Done with {KEY}."))
        await memory.observe("t1", "alice")
        page = await memory.recall("1-9", "alice", thread="t1", detail="full", tokens=10_000)
        store = (await memory.open()).store
        stored = (await store.messages.page("alice", "t1", limit=20)).items
        assert (await memory.doctor()).is_healthy
    files = bytes_in(tmp_path)
    assert b"alice" in files
    assert [secret for secret in (KEY, PASSWORD, "a1" * 20) if secret.encode() in files] == []
    assert "Use [redacted: Anthropic key] for the deploy." in page.text
    call = stored[1].parts[1]
    assert isinstance(call, ToolCallPart)
    assert isinstance(call.arguments, dict)
    assert (call.arguments["user"], call.arguments["tries"]) == ("mira", [1, None])
    thought = stored[1].parts[0]
    assert isinstance(thought, ReasoningPart)
    assert thought.signature is None


async def test_without_it_messages_are_exact(tmp_path: Path) -> None:
    """Raw is byte-exact unless somebody asks for less."""
    path = tmp_path / "memory.db"
    async with Memory(path) as memory, memory.turn("t1", "alice") as turn:
        await turn.prepare(*messages())
    assert KEY.encode() in bytes_in(tmp_path)


async def test_saving_again_changes_nothing() -> None:
    """A message is compared as it is stored: again is no change, more is growth, something else is refused."""
    said = UserMessage(f"Use {KEY}.", id="m1")
    async with Memory(":memory:", config=RAW) as memory:
        store = (await memory.open()).store
        await store.messages.save("alice", "t1", said)
        assert (await store.messages.save("alice", "t1", said)).added == 0
        more = UserMessage([TextPart(text=f"Use {KEY}."), TextPart(text=f"Twice {KEY}.")], id="m1")
        assert (await store.messages.save("alice", "t1", more)).added == 1
        with pytest.raises(MessageConflict):
            await store.messages.save("alice", "t1", UserMessage("Use nothing.", id="m1"))


def test_what_has_no_secret_is_the_very_same() -> None:
    """Nothing is copied or changed where nothing is to be taken out."""
    said = AssistantMessage(
        [ReasoningPart(text="x", signature="signed"), ToolCallPart(id="c", name="n", arguments={"a": [1.5, True]})]
    )
    assert without_secrets(said) is said


async def test_a_turn_cannot_have_its_own() -> None:
    """It belongs to the database; a setting that would be ignored is refused."""
    async with Memory(":memory:") as memory:
        with pytest.raises(ConfigError, match="redact_raw"):
            memory.turn("t1", "alice", settings={"redact_raw": True})


async def test_further_patterns_are_secrets_everywhere(tmp_path: Path) -> None:
    """What a configuration calls a secret is in no log and no index; with `redact_raw`, in no file."""
    for is_raw in (False, True):
        config = Config(redact_patterns="ticket: TCK-[0-9]+\nbadge: (?:badge )(?P<secret>B[0-9]{6})", redact_raw=is_raw)
        folder = tmp_path / str(is_raw)
        folder.mkdir()
        async with Memory(folder / "memory.db", config=config) as memory:
            async with memory.turn("t1", "alice") as turn:
                await turn.prepare(UserMessage("Please close TCK-4711 for badge B123456 before Friday."))
                await turn.record(AssistantMessage("TCK-4711 is closed."))
            await memory.observe("t1", "alice")
            async with memory.turn("t1", "alice") as turn:
                context = await turn.prepare(UserMessage("Thanks."))
            found = await memory.search("4711", "alice")
        shown = context.system.replace("[redacted,", "[redacted:")
        assert "close [redacted: ticket] for badge [redacted: badge] before" in shown
        assert "4711" not in context.system
        assert "B123456" not in context.system
        assert found.results == ()
        assert (b"4711" in bytes_in(folder)) is not is_raw


@pytest.mark.parametrize("text", ["TCK-[0-9]+", "ticket: (", ": x", "ticket: a*", "ticket:", " ", "x: a\ny"])
def test_patterns_that_cannot_work_are_refused(text: str) -> None:
    """No kind, no expression, a broken one, or one that is found everywhere."""
    with pytest.raises(ConfigError, match="redact_patterns"):
        Config(redact_patterns=text)


def test_patterns_that_would_do_nothing_are_refused() -> None:
    """A setting is never dropped in silence."""
    with pytest.raises(ConfigError, match="nothing would be removed"):
        Config(redact=False, redact_patterns="ticket: TCK-[0-9]+")
