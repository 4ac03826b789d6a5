"""Session files of Claude Code: one JSON object a line, one line a message or part of one.

Knows its lines. A side chain (a sub-agent) is a thread of its own. What the host made itself (summaries, snapshots, queue
operations) is no message, and is counted as left out.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from memolog.domain.message import NewMessage
from memolog.domain.transfer import Skipped
from memolog.transfer.anthropic import blocks, role_of
from memolog.transfer.values import Conversation, Data, as_data, message, moment, stable_id

__all__ = ["fits", "read"]


@dataclass(slots=True, kw_only=True)
class _Session:
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])
    title: str | None = None
    messages: list[NewMessage] = field(default_factory=list[NewMessage])


def fits(lines: Iterable[Data]) -> bool:
    """Tell whether these are lines of such a file."""
    return any("sessionId" in line and ("uuid" in line or "leafUuid" in line) for line in lines)


def read(lines: Iterable[tuple[int, Data]], name: str) -> Iterator[Conversation]:
    """Yield the sessions of a file."""
    sessions: dict[str, _Session] = {}
    skipped: list[Skipped] = []
    title: str | None = None
    for number, line in lines:
        if line.get("type") == "summary":
            title = str(line.get("summary", "")) or title
            continue
        why = _why_not(line)
        if why:
            skipped.append(Skipped(where=f"{name}, line {number}", why=why))
            continue
        one = _message(line)
        thread = str(line.get("sessionId") or name)
        if line.get("isSidechain"):
            thread = f"{thread}-{line.get('agentId') or 'side'}"
        session = sessions.setdefault(thread, _Session())
        session.messages.append(one)
        for key in ("cwd", "gitBranch", "version"):
            if line.get(key):
                session.metadata.setdefault(key, line[key])
    for thread, session in sessions.items():
        yield Conversation(
            thread=thread,
            title=title,
            messages=tuple(session.messages),
            metadata={"source": "claude-code", **session.metadata},
            skipped=tuple(skipped),
        )
        skipped = []
    if skipped and not sessions:
        yield Conversation(thread=name, messages=(), skipped=tuple(skipped))


def _why_not(line: Mapping[str, Any]) -> str | None:
    if line.get("type") not in {"user", "assistant"}:
        return f"a line of type {line.get('type')!s:.40} is no message"
    if line.get("isMeta"):
        return "the host wrote it, not a person or a model"
    if line.get("isCompactSummary"):
        return "a summary that the host made of messages that are here themselves"
    if not blocks(as_data(line.get("message")).get("content")):
        return "it is empty"
    return None


def _message(line: Data) -> NewMessage:
    inner = as_data(line.get("message"))
    parts = blocks(inner.get("content"))
    metadata = {"model": inner["model"]} if inner.get("model") else {}
    role = role_of(str(inner.get("role") or line.get("type")), parts)
    at = moment(line.get("timestamp"))
    return message(role, parts, id=str(line.get("uuid") or stable_id(line)), at=at, metadata=metadata)
