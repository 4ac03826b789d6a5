"""Conversations from other systems: every part in its place, true times, and a second import that changes nothing."""

import json
from pathlib import Path
from typing import Any

import pytest

from admin.lived_in import memory_at
from memolog.core.message import (
    FilePart,
    Message,
    NewMessage,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    UnknownPart,
)
from memolog.core.reports import ImportReport
from memolog.errors import InputError
from memolog.testing import FakeClock
from memolog.transfer.conversation import moment
from memolog.transfer.detect import detect, read_source

PNG = "iVBORw0KGgo="


def claude_code() -> list[dict[str, Any]]:
    """Return a session of Claude Code, with a sub-agent, host lines and a half line to come."""
    base = {"sessionId": "cc-1", "cwd": "/work", "gitBranch": "main", "version": "2.1", "isSidechain": False}

    def line(uuid: str, at: int, role: str, content: Any, **more: Any) -> dict[str, Any]:
        inner = {"role": role, "content": content, **({"model": "claude"} if role == "assistant" else {})}
        moment_ = f"2026-01-05T10:0{at}:00.000Z"
        return {**base, "uuid": uuid, "timestamp": moment_, "type": role, "message": inner, **more}

    use = {"type": "tool_use", "id": "toolu_1", "name": "Read", "input": {"file_path": "a.py"}}
    result = {
        "type": "tool_result",
        "tool_use_id": "toolu_1",
        "content": [{"type": "text", "text": "x = 1"}],
        "is_error": False,
    }
    return [
        {"type": "summary", "summary": "Reading a.py", "leafUuid": "u5"},
        {"type": "file-history-snapshot", "messageId": "x", "sessionId": "cc-1", "uuid": "s"},
        line("u1", 0, "user", "Read a.py"),
        line(
            "u2",
            1,
            "assistant",
            [{"type": "thinking", "thinking": "Hm.", "signature": "sig"}, {"type": "text", "text": "Yes."}],
        ),
        line("u3", 1, "assistant", [use]),
        line("u4", 2, "user", [result]),
        line("u5", 3, "assistant", [{"type": "text", "text": "It sets x."}]),
        line("m1", 3, "user", "Caveat: by the host", isMeta=True),
        line("p1", 4, "user", "Look around", isSidechain=True, agentId="a1"),
    ]


def codex() -> list[dict[str, Any]]:
    """Return a session of Codex."""

    def item(at: int, payload: dict[str, Any]) -> dict[str, Any]:
        return {"timestamp": f"2026-01-05T11:0{at}:00.000Z", "type": "response_item", "payload": payload}

    def said(role: str, text: str) -> dict[str, Any]:
        kind = "output_text" if role == "assistant" else "input_text"
        return {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}

    meta = {"id": "cx-1", "cwd": "/work", "cli_version": "0.9", "git": {"branch": "main"}}
    return [
        {"timestamp": "2026-01-05T11:00:00.000Z", "type": "session_meta", "payload": meta},
        item(0, said("user", "<environment_context>\n  <cwd>/work</cwd>\n</environment_context>")),
        item(1, said("user", "List the files")),
        {"timestamp": "2026-01-05T11:01:00.000Z", "type": "event_msg", "payload": {"type": "user_message"}},
        item(
            2,
            {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Use ls."}], "encrypted_content": "zzz"},
        ),
        item(2, {"type": "function_call", "name": "shell", "arguments": '{"command":["ls"]}', "call_id": "call_1"}),
        item(3, {"type": "function_call_output", "call_id": "call_1", "output": "a.py"}),
        item(4, said("assistant", "There is a.py.")),
    ]


OPENAI = {
    "id": "chat-1",
    "messages": [
        {"role": "system", "content": "Be brief."},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "What is this?"},
                {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}},
            ],
        },
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"n":1}'}}],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "a cat"},
        {"role": "assistant", "content": "A cat."},
        {"role": "assistant", "content": ""},
    ],
}
ANTHROPIC = {
    "system": "Be kind.",
    "messages": [
        {"role": "user", "content": "Weather?"},
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "Let me see."},
                {"type": "tool_use", "id": "t1", "name": "weather", "input": {"city": "Ulm"}},
            ],
        },
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "rain", "is_error": True}],
        },
    ],
}


def node(name: str, parent: str, role: str, content: Any, **more: Any) -> dict[str, Any]:
    """Return a message in the tree of a ChatGPT conversation. A text is its content, or content is passed as it is."""
    inner = {"content_type": "text", "parts": [content]} if isinstance(content, str) else content
    return {name: {"parent": parent, "message": {"id": name, "author": {"role": role}, "content": inner, **more}}}


CODE = {"content_type": "code", "text": "print(1)"}
CHATGPT = [
    {
        "conversation_id": "gpt-1",
        "title": "Names",
        "create_time": 1767600000.0,
        "current_node": "n4",
        "mapping": {
            "n0": {"id": "n0", "message": None, "parent": None},
            **node("n1", "n0", "user", "Name a cat", create_time=1767600060.5),
            **node("n2", "n1", "assistant", "Tom, on another branch"),
            **node("n3", "n1", "assistant", CODE, recipient="python", create_time=1767600070),
            **node("n4", "n3", "assistant", "Mia", create_time=1767600080),
        },
    }
]
CLAUDE = [
    {
        "uuid": "cl-1",
        "name": "Trees",
        "created_at": "2026-01-02T08:00:00.000000Z",
        "chat_messages": [
            {
                "uuid": "a",
                "sender": "human",
                "created_at": "2026-01-02T08:00:01Z",
                "text": "An oak?",
                "content": [{"type": "text", "text": "An oak?"}],
                "attachments": [{"file_name": "t.txt", "extracted_content": "leaves"}],
            },
            {"uuid": "b", "sender": "assistant", "created_at": "2026-01-02T08:00:09Z", "text": "Yes.", "content": []},
            {"uuid": "c", "sender": "assistant", "created_at": "2026-01-02T08:00:09Z", "text": "", "content": []},
        ],
    }
]
PYDANTIC_AI = [
    {
        "kind": "request",
        "parts": [
            {"part_kind": "system-prompt", "content": "Be exact.", "timestamp": "2026-01-03T08:00:00Z"},
            {
                "part_kind": "user-prompt",
                "content": ["See", {"kind": "binary", "media_type": "image/png", "data": PNG}],
                "timestamp": "2026-01-03T08:00:01Z",
            },
        ],
    },
    {
        "kind": "response",
        "model_name": "m",
        "timestamp": "2026-01-03T08:00:02Z",
        "parts": [
            {"part_kind": "thinking", "content": "Hm", "signature": "s"},
            {"part_kind": "tool-call", "tool_name": "see", "args": '{"a":1}', "tool_call_id": "p1"},
        ],
    },
    {
        "kind": "request",
        "parts": [
            {"part_kind": "tool-return", "tool_name": "see", "content": {"x": 1}, "tool_call_id": "p1"},
        ],
    },
]
LANGCHAIN = [
    {"type": "human", "data": {"content": "Add 1 and 2", "type": "human", "id": "h1"}},
    {
        "type": "ai",
        "data": {
            "content": [
                {"type": "text", "text": "Adding."},
                {"type": "tool_use", "id": "l1", "name": "add", "input": {}},
            ],
            "tool_calls": [{"name": "add", "args": {"a": 1, "b": 2}, "id": "l1"}],
            "id": "a1",
        },
    },
    {"type": "tool", "data": {"content": "3", "tool_call_id": "l1", "name": "add", "status": "success"}},
    {"lc": 1, "type": "constructor", "id": ["langchain", "schema", "AIMessage"], "kwargs": {"content": "It is 3."}},
]


def written(path: Path, content: Any, *, by_line: bool = False) -> Path:
    """Write JSON, or JSON lines with half a line at the end."""
    if by_line:
        path.write_text("".join(f"{json.dumps(line)}\n" for line in content) + '{"half')
    else:
        path.write_text(json.dumps(content))
    return path


CASES: dict[str, tuple[Any, bool, list[str]]] = {
    "claude-code": (claude_code(), True, ["user", "assistant", "assistant", "tool", "assistant"]),
    "codex": (codex(), True, ["user", "assistant", "assistant", "tool", "assistant"]),
    "openai": (OPENAI, False, ["system", "user", "assistant", "tool", "assistant"]),
    "anthropic": (ANTHROPIC, False, ["system", "user", "assistant", "tool"]),
    "chatgpt": (CHATGPT, False, ["user", "assistant", "assistant"]),
    "claude": (CLAUDE, False, ["user", "assistant"]),
    "pydantic-ai": (PYDANTIC_AI, False, ["system", "user", "assistant", "tool"]),
    "langchain": (LANGCHAIN, False, ["user", "assistant", "tool", "assistant"]),
}
SKIPPED = {"claude-code": 3, "codex": 3, "openai": 1, "chatgpt": 1, "claude": 1}


def parts_of(messages: tuple[NewMessage, ...], kind: type[Any]) -> list[Any]:
    """Return the parts of a kind, in order."""
    return [part for message in messages for part in message.parts if isinstance(part, kind)]


@pytest.mark.parametrize("name", CASES)
async def test_a_format_is_found_and_imported_once(name: str, clock: FakeClock, tmp_path: Path) -> None:
    """Found by its content; all of it is saved or told; the second time nothing changes, and a dry run says so before."""
    content, by_line, roles = CASES[name]
    path = written(tmp_path / "some.file", content, by_line=by_line)
    assert detect(path) == name
    async with memory_at(str(tmp_path / "m.db"), clock) as memory:
        with pytest.raises(InputError, match="`resource` is missing"):
            await memory.import_from(path)
        told = await memory.import_from(path, resource="alice", dry_run=True)
        report: ImportReport = await memory.import_from(path, resource="alice")
        again = await memory.import_from(path, resource="alice")
        store = (await memory.open()).store
        thread = next(iter(read_source(path, name))).thread
        saved: tuple[Message, ...] = await store.messages.after("alice", thread)
    assert (told.threads, told.messages) == (report.threads, report.messages)
    assert [message.role for message in saved] == roles
    assert len(report.skipped) == SKIPPED.get(name, 0), report.skipped
    assert all(skip.where and skip.why for skip in report.skipped)
    assert again.has_changed_nothing
    assert again.unchanged["message"] == report.messages
    known = [part for message in saved for part in message.parts]
    assert not any(isinstance(part, UnknownPart) for part in known)


def test_claude_code_parts(tmp_path: Path) -> None:
    """Thinking keeps its signature, results stand under their call, a sub-agent is a thread of its own."""
    path = written(tmp_path / "s.jsonl", claude_code(), by_line=True)
    main, side, *_ = read_source(path, "claude-code")
    assert (main.thread, main.title, side.thread) == ("cc-1", "Reading a.py", "cc-1-a1")
    assert main.metadata["gitBranch"] == "main"
    assert parts_of(main.messages, ReasoningPart) == [ReasoningPart(text="Hm.", signature="sig")]
    assert parts_of(main.messages, ToolCallPart)[0].arguments == {"file_path": "a.py"}
    assert parts_of(main.messages, ToolResultPart)[0].content == "x = 1"
    assert main.messages[0].created_at == moment("2026-01-05T10:00:00+00:00")


def test_codex_parts(tmp_path: Path) -> None:
    """Calls keep the text of their arguments, encrypted reasoning stays as it is."""
    path = written(tmp_path / "s.jsonl", codex(), by_line=True)
    session, *_ = read_source(path, "codex")
    assert session.thread == "cx-1"
    assert session.metadata == {"source": "codex", "cwd": "/work", "cli_version": "0.9", "branch": "main"}
    assert parts_of(session.messages, ToolCallPart)[0].arguments == '{"command":["ls"]}'
    assert parts_of(session.messages, ReasoningPart) == [ReasoningPart(text="Use ls.", encrypted="zzz")]
    assert len({message.id for message in session.messages}) == 5


def test_other_parts(tmp_path: Path) -> None:
    """Files, calls, results and errors of the other formats."""

    def read(name: str) -> tuple[NewMessage, ...]:
        return next(iter(read_source(written(tmp_path / name, CASES[name][0]), name))).messages

    for name in ("openai", "pydantic-ai"):
        assert [file.data for file in parts_of(read(name), FilePart)] == [b"\x89PNG\r\n\x1a\n"]
    assert parts_of(read("anthropic"), ToolResultPart)[0].is_error
    assert [call.arguments for call in parts_of(read("langchain"), ToolCallPart)] == [{"a": 1, "b": 2}]
    assert parts_of(read("pydantic-ai"), ToolResultPart)[0].content == {"x": 1}
    assert parts_of(read("claude"), TextPart)[1].text == "t.txt\nleaves"
    chatgpt = read("chatgpt")
    assert parts_of(chatgpt, ToolCallPart)[0].name == "python"
    assert chatgpt[0].created_at == moment(1767600060.5)


async def test_a_session_that_goes_on(clock: FakeClock, tmp_path: Path) -> None:
    """What was said since the last import is added, and the thread is as young as that."""
    path = written(tmp_path / "s.jsonl", claude_code()[:5], by_line=True)
    async with memory_at(str(tmp_path / "m.db"), clock) as memory:
        await memory.import_from(path, resource="alice")
        written(path, claude_code(), by_line=True)
        report = await memory.import_from(path, resource="alice")
        assert (report.threads, report.messages, report.unchanged["message"]) == (1, 3, 3)
        thread = await (await memory.open()).store.threads.get("alice", "cc-1")
        assert thread.updated_at == moment("2026-01-05T10:03:00Z")
        assert thread.created_at == moment("2026-01-05T10:00:00Z")


async def test_a_file_that_was_read_into_other_parts_before(clock: FakeClock, tmp_path: Path) -> None:
    """A row of an older release stays, and counts as unchanged; other words under its id are told."""
    returned = [{"type": "text", "text": "3"}, {"type": "image", "base64": PNG, "mime_type": "image/png"}]
    said: list[Any] = [
        {"type": "human", "id": "h1", "content": "Add."},
        {"type": "tool", "id": "t1", "content": returned, "tool_call_id": "c1"},
        {"type": "ai", "id": "a1", "content": "Three."},
    ]
    path = written(tmp_path / "s.json", said)
    before = NewMessage(role="tool", id="t1", parts=(ToolResultPart(call_id="c1", content="3\n"),))
    async with memory_at(str(tmp_path / "m.db"), clock) as memory:
        await memory.thread("s", resource="alice").save(
            [before, NewMessage(role="assistant", id="a1", parts=(TextPart(text="No."),))]
        )
        report = await memory.import_from(path, resource="alice")
        stored = await memory.resource("alice").message("t1", thread="s")
    assert (report.messages, report.unchanged["message"]) == (1, 1)
    assert [skip.where for skip in report.skipped] == ["s, message a1"]
    assert stored[0].parts == before.parts


async def test_a_folder_of_sessions(clock: FakeClock, tmp_path: Path) -> None:
    """Every file of a folder is looked at; what is in no known format is told."""
    folder = tmp_path / "sessions" / "deep"
    folder.mkdir(parents=True)
    written(folder / "a.jsonl", claude_code(), by_line=True)
    written(folder / "b.jsonl", codex(), by_line=True)
    (folder / "c.json").write_text('{"nothing": 1}')
    async with memory_at(str(tmp_path / "m.db"), clock) as memory:
        report = await memory.import_from(tmp_path / "sessions", resource="alice")
        with pytest.raises(InputError, match="does not exist"):
            await memory.import_from(tmp_path / "nowhere", resource="alice")
    assert report.threads == 3
    assert any(skip.where == "c.json" for skip in report.skipped)


@pytest.mark.parametrize("text", ["", "hello", "[1, 2]", '{"a": 1}', "[" * 100_000])
async def test_what_is_no_format_is_refused(text: str, clock: FakeClock, tmp_path: Path) -> None:
    """In words, with the formats that are known."""
    path = tmp_path / "x.json"
    path.write_text(text)
    async with memory_at(str(tmp_path / "m.db"), clock) as memory:
        with pytest.raises(InputError, match="pydantic-ai"):
            await memory.import_from(path, resource="alice")
