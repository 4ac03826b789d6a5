"""The context pack at the start of a session, sub-agents, and tools of Memolog."""

import json
from pathlib import Path
from typing import Any

import pytest

from hooks.world import Desk, Session, brief


async def remember(desk: Desk) -> None:
    """Create a memory with a finished session, a task and a working memory."""
    for event in [
        {"hook_event_name": "UserPromptSubmit", "prompt": "We always use argon2id for passwords.", "turn_id": "1"},
        {"hook_event_name": "Stop", "last_assistant_message": "I will use argon2id.", "turn_id": "1"},
        {"hook_event_name": "SessionEnd", "reason": "other"},
    ]:
        desk.tell("codex", {"session_id": "old", "cwd": "x", **event})
    await desk.sweep()
    async with desk.memory() as memory:
        await memory.resource("project").tasks().create("Rotate the signing key")
        await memory.resource("project").working_memory().replace("# Facts\n\nThe API lives in server/.", who="user")


def started(desk: Desk, host: str, **fields: Any) -> Any:
    """Return the answer to the start of a session."""
    names = {"cursor": ("sessionStart", "conversation_id")}.get(host, ("SessionStart", "session_id"))
    said = desk.tell(host, {"hook_event_name": names[0], names[1]: "new", "cwd": "x", "source": "startup", **fields})
    return json.loads(said) if said else None


@pytest.mark.parametrize("host", ["claude-code", "codex", "gemini", "cursor"])
@pytest.mark.parametrize("source", ["startup", "compact"])
async def test_a_session_begins_with_a_pack(desk: Desk, host: str, source: str) -> None:
    """The pack has log, working memory and tasks, in the format of the host, also after the host compacted."""
    await remember(desk)
    answer = started(desk, host, source=source)
    if host == "cursor":
        text = answer.pop("additional_context")
    else:
        told = answer.pop("hookSpecificOutput")
        text = told["additionalContext"]
        assert told["hookEventName"] == "SessionStart"
    assert answer == {}
    assert all(words in text for words in ("argon2id", "Rotate the signing key", "The API lives in server/."))
    assert len(text) < 9_500


async def test_the_budget_is_kept(desk: Desk) -> None:
    """The pack of a long memory is not longer than its limit."""
    await remember(desk)
    for number in range(300):
        event = {"hook_event_name": "UserPromptSubmit", "prompt": f"Remember number {number} of the long list."}
        desk.tell("codex", {"session_id": "long", "cwd": "x", "turn_id": str(number), **event})
    await desk.sweep()
    whole = started(desk, "claude-code")["hookSpecificOutput"]["additionalContext"]
    assert 5_000 < len(whole) < 9_500


def test_without_a_memory_nothing_is_said(desk: Desk) -> None:
    """The answer to the first session is empty, and no database is created."""
    assert started(desk, "claude-code") is None
    assert not desk.db.exists()


async def test_what_the_host_is_about_to_forget_is_observed_first(desk: Desk, tmp_path: Path) -> None:
    """Before the host compacts a session, the session is observed, so the next pack contains it."""
    session = Session(host="claude-code", folder=tmp_path, clock=desk.clock, project=str(tmp_path), name="new")
    desk.live(session, session.turn("The staging database is called heron."))
    await desk.sweep()
    async with desk.memory() as memory:
        assert (await memory.thread("new", resource="project").status()).groups == 0
    desk.tell("claude-code", session.event("PreCompact", trigger="auto"))
    await desk.sweep()
    async with desk.memory() as memory:
        assert (await memory.thread("new", resource="project").status()).groups > 0
    assert "heron" in started(desk, "claude-code", source="compact")["hookSpecificOutput"]["additionalContext"]


async def test_a_sub_agent_has_a_thread_of_its_own(desk: Desk, tmp_path: Path) -> None:
    """Events and transcript of a sub-agent are stored in one thread, apart from the session."""
    session = Session(host="claude-code", folder=tmp_path, clock=desk.clock, project=str(tmp_path))
    desk.live(session, session.turn("look around"))
    side = Session(host="claude-code", folder=tmp_path, clock=desk.clock, project=str(tmp_path), name="side")
    told = {"agent_id": "a1", "agent_transcript_path": str(side.transcript)}
    for kind, what in side.turn("find the tests"):
        if kind == "line":
            side.write({**what, "sessionId": session.name, "isSidechain": True, "agentId": "a1"})
        elif what["hook_event_name"] == "PostToolUse":
            desk.tell("claude-code", {**what, "session_id": session.name, "agent_id": "a1"})
        elif what["hook_event_name"] == "Stop":
            event = {**what, "session_id": session.name, "hook_event_name": "SubagentStop", **told}
            desk.tell("claude-code", event)
    await desk.sweep()
    await desk.later()
    assert brief(await desk.messages(session.name)) == session.said
    assert brief(await desk.messages(f"{session.name}-a1")) == side.said


async def test_memory_does_not_remember_itself(desk: Desk, tmp_path: Path) -> None:
    """The pack in a transcript is not stored. Calls of our own tools are stored and marked as own."""
    await remember(desk)
    session = Session(host="codex", folder=tmp_path, clock=desk.clock, project=str(tmp_path))
    pack = started(desk, "codex")["hookSpecificOutput"]["additionalContext"]
    items = [
        {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": pack}]},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "what did we say?"}]},
        {"type": "function_call", "call_id": "c1", "name": "mcp__memolog__memory-search", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "found: argon2id"},
    ]
    for item in items:
        session.write({"timestamp": desk.clock.now().isoformat(), "type": "response_item", "payload": item})
    event = session.event("PostToolUse", tool_name="mcp__memolog__memory-search", tool_use_id="c1", tool_input={})
    desk.tell("codex", {**event, "tool_response": "found: argon2id", "turn_id": "t"})
    await desk.sweep()
    stored = await desk.messages(session.name)
    assert brief(stored) == ["user what did we say?", "call c1", "result c1"]
    assert [message.own for message in stored] == [False, True, True]


@pytest.mark.parametrize(
    ("host", "told", "is_own"),
    [
        ("claude-code", {"tool_name": "mcp__memolog__memory-search"}, True),
        ("claude-code", {"tool_name": "mcp__notes__memory-search"}, False),
        ("codex", {"tool_name": "mcp__notes__memory_search"}, False),
        ("gemini", {"tool_name": "memory-search", "mcp_context": {"server_name": "memolog"}}, True),
        ("gemini", {"tool_name": "memory-search", "mcp_context": {"server_name": "notes"}}, False),
        ("gemini", {"tool_name": "mcp_notes_memory-search", "mcp_context": {"server_name": "notes"}}, False),
    ],
)
async def test_a_tool_of_another_server_is_remembered(desk: Desk, host: str, told: Any, is_own: bool) -> None:
    """Only tools of our own server are marked as own, not tools of other servers with the same name."""
    kind = "AfterTool" if host == "gemini" else "PostToolUse"
    event = {"hook_event_name": kind, "session_id": "s1", "cwd": "/p", "tool_use_id": "c1", "tool_input": {}, **told}
    desk.tell(host, {**event, "tool_response": "found: argon2id", "turn_id": "t", "timestamp": "1"})
    desk.clock.advance(hours=1)
    await desk.sweep()
    assert [message.own for message in await desk.messages("s1")] == [is_own, is_own]


async def test_a_session_that_nobody_ended_is_observed_in_the_end(desk: Desk, tmp_path: Path) -> None:
    """A session without events for 30 minutes is over, and the next sweep observes it."""
    session = Session(host="claude-code", folder=tmp_path, clock=desk.clock, project=str(tmp_path))
    desk.live(session, session.turn("The queue is called sparrow."))
    await desk.sweep()
    spool = desk.options("claude-code").spool
    assert len(spool.sizes()) == 1
    await desk.later(minutes=10)
    assert len(spool.sizes()) == 1
    # A line came after the last event: an interrupted turn tells nobody.
    session.write(session._claude_line("assistant", "One more thing.", ""))
    await desk.later(minutes=30)
    assert spool.sizes() == {}
    assert brief(await desk.messages(session.name)) == [*session.said, "assistant One more thing."]
    async with desk.memory() as memory:
        status = await memory.thread(session.name, resource="project").status()
    assert status.groups > 0
    assert status.backlog_tokens == 0


async def test_a_command_of_the_host_is_one_prompt(desk: Desk, tmp_path: Path) -> None:
    """A host may write a command in another form into its transcript. The command is stored once."""
    session = Session(host="claude-code", folder=tmp_path, clock=desk.clock, project=str(tmp_path))
    desk.tell("claude-code", session.event("UserPromptSubmit", prompt="/review src/auth.ts"))
    text = "<command-message>review</command-message>\n<command-name>/review</command-name>"
    session.write(session._claude_line("user", f"{text}\n<command-args>src/auth.ts</command-args>", ""))
    await desk.sweep()
    await desk.later()
    assert len(await desk.messages(session.name)) == 1


async def test_what_a_host_adds_to_a_prompt_makes_no_second_one(desk: Desk, tmp_path: Path) -> None:
    """A host may add the open files to a prompt in its transcript. The prompt is stored once."""
    session = Session(host="codex", folder=tmp_path, clock=desk.clock, project=str(tmp_path))
    for number, prompt in enumerate(("rename the login schema everywhere", "yes")):
        desk.tell("codex", session.event("UserPromptSubmit", prompt=prompt, turn_id=str(number)))
        text = f"# Context from my editor\nopen: a.ts\n\n## My request\n{prompt}\n"
        session.write(session._codex_line("user", text, ""))
        desk.clock.advance(minutes=5)
    await desk.sweep()
    await desk.later()
    assert len(await desk.messages(session.name)) == 2


async def test_a_session_that_goes_on_from_another_repeats_nothing(desk: Desk, tmp_path: Path) -> None:
    """A host may copy the lines of an old session into a new transcript. They are not stored again."""
    old = Session(host="claude-code", folder=tmp_path, clock=desk.clock, project=str(tmp_path), name="old")
    new = Session(host="claude-code", folder=tmp_path, clock=desk.clock, project=str(tmp_path), name="new")
    new.numbers.seed(99)
    for kind, what in old.turn("the old one"):
        if kind == "line":
            old.write(what)
            new.write({**what, "sessionId": "new"})
        else:
            desk.tell("claude-code", what)
    await desk.sweep()
    for round_ in range(2):
        desk.live(new, new.turn(f"the new one {round_}"))
        await desk.sweep()
    await desk.later()
    assert brief(await desk.messages("old")) == old.said
    assert brief(await desk.messages("new")) == new.said
