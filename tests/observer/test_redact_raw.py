"""With `redact_raw` no secret reaches the database, in whatever part of a message it stands."""

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote

import pytest

from kit.talk import hold, listen
from memolog.core.config import Config
from memolog.core.exact_json import JsonValue
from memolog.core.message import (
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
from memolog.errors import ConfigError, InputError, MessageConflict
from memolog.memory import Memory
from memolog.observer.model import ModelReply, ModelRequest
from memolog.observer.model_choice import FallbackModel
from memolog.testing import ScriptedModel
from memolog.text.redaction import without_secrets
from memolog.turn import Turn

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
        async with memory.thread("t1", resource="alice").turn() as turn:
            await turn.prepare(*messages())
            await turn.record(AssistantMessage(f"Done with {KEY}."))
        await memory.thread("t1", resource="alice").observe()
        page = await memory.resource("alice").recall("1-9", thread="t1", detail="full", tokens=10_000)
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


async def test_speakers_tasks_and_working_memory_are_covered(tmp_path: Path) -> None:
    """Secrets are removed from names of speakers, from tasks and their summaries, and from working memory."""
    async with Memory(tmp_path / "memory.db", config=RAW) as memory:
        async with memory.thread("t1", resource="alice").turn() as turn:
            await turn.prepare(replace(UserMessage("Hello."), speaker=f"Mira {KEY}"))
            await turn.record(AssistantMessage("Hello."))
        tasks = memory.resource("alice").tasks(thread="t1")
        task = await tasks.create(
            f"Use {KEY}", description=f"password = '{PASSWORD}'", labels=["kept", KEY], metadata={"password": PASSWORD}
        )
        await tasks.edit(task.handle, description=f"Now with {KEY}.")
        await tasks.label(task.handle, add=[f"{KEY}-2"])
        await tasks.claim(task.handle)
        await tasks.close(task.handle, summary=f"Signed in with {KEY}.")
        await tasks.reopen(task.handle, why=f"{KEY} was wrong")
        notes = memory.resource("alice").working_memory()
        await notes.replace(f"# Access\n\npassword: {PASSWORD}\nkey {KEY}\n", who="mira")
        document = await notes.read()
        shown = await tasks.get(task.handle)
    assert document is not None
    assert "[redacted: Anthropic key]" in document.current.text
    assert (shown.title, shown.labels) == ("Use [redacted: Anthropic key]", frozenset({"kept"}))
    assert [secret for secret in (KEY, PASSWORD) if secret.encode() in bytes_in(tmp_path)] == []


# Shapes that tools are called with and answer with: plain, nested, as text, as text inside text, in pieces, encoded.
SHAPES: dict[str, Callable[[str], object]] = {
    "line": lambda key: {"out": f"line one\n{key}\nline three"},
    "tab": lambda key: {"out": f"name\t{key}\tend"},
    "list": lambda key: [f"a\n{key}", {"b": [f"c\r\n{key}"]}],
    "text": lambda key: json.dumps({"out": f"one\n{key}"}),
    "text in text": lambda key: json.dumps({"out": json.dumps({"env": f"A=1\nB={key}"})}),
    "three deep": lambda key: json.dumps([json.dumps([json.dumps([f"x\n{key}"])])]),
    "address": lambda key: {"url": f"https://x.example.com/?q={quote(f'token={key}&x', safe='')}"},
    "name": lambda key: {key: "a name"},
    "parts": lambda key: [{"type": "text", "text": f"one\n{key}"}],
    "coloured": lambda key: {"out": f"\x1b[32m{key}\x1b[0m"},
    "unicode": lambda key: f'{{"out": "one\\u000a{key}"}}',
    "command": lambda key: {"argv": ["deploy", "--token", key]},
}


async def use_tools(turn: Turn, keys: Mapping[str, str]) -> None:
    """Call a tool with a key in each shape, and answer with the same."""
    for name, shape in SHAPES.items():
        value = cast("JsonValue", shape(keys[name]))
        call = ToolCallPart(id=name, name="run", arguments=value)
        await turn.record(AssistantMessage([call]), ToolMessage(name, value, name="run", is_error=True))
    await turn.record(AssistantMessage([ToolCallPart(id="w", name="in", arguments={"password": "swordfish"})]))
    await turn.record(ToolMessage("w", {"env": [{"name": "DB_PASS", "value": "swordfish"}]}, name="in"))


@pytest.mark.parametrize("is_raw", [False, True], ids=["observed", "stored"])
async def test_no_shape_of_a_tool_lets_a_key_through(tmp_path: Path, is_raw: bool) -> None:
    """Not to the observer's model, not into the log, the index or the answer of a search; with `redact_raw` not into the file."""
    model = ScriptedModel(["<observations>\n* 🟡 Assistant deployed [1]\n</observations>"] * 3)
    keys = {name: f"ghp_{number:02d}{'Ab3dEf6hIj9kLm2nOp5qRs8tUv1wXy4z'}" for number, name in enumerate(SHAPES)}
    path = tmp_path / "memory.db"
    async with Memory(path, model=model, config=Config(redact_raw=is_raw)) as memory:
        async with memory.thread("t1", resource="alice").turn() as turn:
            await turn.prepare(UserMessage("Deploy it."))
            await use_tools(turn, keys)
        await memory.thread("t1", resource="alice").observe()
        found = [await memory.resource("alice").search(f'"{key}"') for key in (*keys.values(), "swordfish")]
    asked = "".join(request.text for request in model.requests)
    assert "deploy" in asked
    secrets = (*keys.values(), "swordfish")
    assert [secret for secret in secrets if secret in asked] == []
    assert [answer.results for answer in found if answer.results] == []
    assert [secret for secret in secrets if secret.encode() in bytes_in(tmp_path)] == ([] if is_raw else [*secrets])


async def test_no_shape_reaches_the_log_of_the_embedded_observer() -> None:
    """The embedded observer reads texts, arguments and results, and none of their secrets reaches the log."""
    key = f"ghp_{'Ab3dEf6hIj9kLm2nOp5qRs8tUv1wXy4z99'}"
    async with Memory(":memory:") as memory:
        async with memory.thread("t1", resource="alice").turn() as turn:
            await turn.prepare(UserMessage(f"My key is {key}, keep it."))
            await use_tools(turn, dict.fromkeys(SHAPES, key))
        await memory.thread("t1", resource="alice").observe()
        shown = (await hold(memory, "And now?")).system
    assert "Assistant" in shown
    assert [secret for secret in (key, "swordfish") if secret in shown] == []


class Leaky:
    """A model of one's own that says what it was called with when it fails."""

    name = "own:model"

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Fail with a key."""
        raise RuntimeError(f"401 for key {KEY}\nwith password={PASSWORD}")


async def leaky(request: ModelRequest) -> str:
    """Fail with a key."""
    raise ValueError(f'{{"error": "bad header Authorization: Bearer {KEY}", "password": "{PASSWORD}"}}')


@pytest.mark.parametrize(
    "model", [Leaky(), leaky, FallbackModel(Leaky(), leaky)], ids=["class", "function", "fallback"]
)
async def test_errors_of_models_are_redacted(tmp_path: Path, model: Any, caplog: pytest.LogCaptureFixture) -> None:
    """In the status, in events, in the journal, in the log of the program, in kept prompts, in an export and in the file."""
    out = tmp_path / "export.jsonl"
    with caplog.at_level(logging.DEBUG, logger="memolog"):
        async with Memory(tmp_path / "memory.db", model=model, config=Config(keep_prompts=True)) as memory:
            events = listen(memory)
            await hold(memory, "Hello there, my friend of many years.", "Hello.")
            # Not `observe`, which would wait until the model may be asked again.
            await memory.thread("t1", resource="alice").buffer()
            await memory.settled()
            logging.getLogger("memolog").error("it failed", exc_info=RuntimeError(f"with {KEY}"))
            status = repr(await memory.thread("t1", resource="alice").status())
            await memory.export(out, resource="alice")
    told = "".join(map(repr, events))
    assert "[redacted: " in told
    logged = caplog.text + "".join(str(record.exc_text) for record in caplog.records)
    everywhere = [status, told, logged, bytes_in(tmp_path).decode("utf-8", "replace")]
    assert [secret for secret in (KEY, PASSWORD) for text in everywhere if secret in text] == []


async def test_names_of_items_have_no_secret(tmp_path: Path) -> None:
    """A key or a namespace with a secret is refused, and the error does not quote it. Values lose their secrets."""
    async with Memory(tmp_path / "m.db", config=RAW) as memory:
        items = memory.resource("alice").items()
        for namespace, key in (("logins",), KEY), (("logins", KEY), "k"):
            with pytest.raises(InputError, match="contains a secret") as refused:
                await items.put(namespace, key, {"a": 1})
            assert KEY not in str(refused.value)
            await items.delete(namespace, key)
        await items.put(("logins",), "k", {"note": KEY})
        (item,) = await items.list()
    assert (item.key, KEY in str(item.value)) == ("k", False)
    assert KEY.encode() not in bytes_in(tmp_path)
    async with Memory(":memory:") as memory:
        await memory.resource("alice").items().put((KEY,), KEY, {})


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


async def test_further_patterns_are_secrets_everywhere(tmp_path: Path) -> None:
    """What a configuration calls a secret is in no log and no index; with `redact_raw`, in no file."""
    for is_raw in (False, True):
        config = Config(redact_patterns="ticket: TCK-[0-9]+\nbadge: (?:badge )(?P<secret>B[0-9]{6})", redact_raw=is_raw)
        folder = tmp_path / str(is_raw)
        folder.mkdir()
        async with Memory(folder / "memory.db", config=config) as memory:
            await hold(memory, "Please close TCK-4711 for badge B123456 before Friday.", "TCK-4711 is closed.")
            await memory.thread("t1", resource="alice").observe()
            context = await hold(memory, "Thanks.")
            found = await memory.resource("alice").search("4711")
        shown = context.system.replace("[redacted,", "[redacted:")
        assert "close [redacted: ticket] for badge [redacted: badge] before" in shown
        assert "4711" not in context.system
        assert "B123456" not in context.system
        assert found.results == ()
        # The number alone could be part of a random id.
        assert (b"TCK-4711" in bytes_in(folder)) is not is_raw


@pytest.mark.parametrize("text", ["TCK-[0-9]+", "ticket: (", ": x", "ticket: a*", "ticket:", " ", "x: a\ny"])
def test_patterns_that_cannot_work_are_refused(text: str) -> None:
    """Refused are patterns without a kind or an expression, broken ones, ones that match everywhere, and ones without effect."""
    with pytest.raises(ConfigError, match="redact_patterns"):
        Config(redact_patterns=text)
    with pytest.raises(ConfigError, match="would remove nothing"):
        Config(redact=False, redact_patterns="ticket: TCK-[0-9]+")


@pytest.mark.parametrize("text", [f"The key is {KEY}", f"The password is {PASSWORD}", f"Deploys use token={KEY} now"])
async def test_a_fact_with_a_secret_is_known(text: str) -> None:
    """The second time it is recognised, although it is stored without the secret."""
    async with Memory(":memory:", config=RAW) as memory:
        tools = memory.resource("alice").tools()
        first, second = [await tools.call("memory-search", {"action": "remember", "text": text}) for _ in range(2)]
        document = await memory.resource("alice").working_memory().read()
    assert "remembered" in first
    assert second.get("known") is True
    assert document is not None
    assert document.current.number == 1
    assert KEY not in document.current.text
