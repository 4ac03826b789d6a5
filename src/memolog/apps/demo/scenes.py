"""What else happens on the way: a task, a question about long ago, the exact code.

Knows the public face of a memory and shows what it answers. Each scene returns what it proved, by looking, not by assuming.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from textwrap import wrap
from typing import Final, cast

from memolog.apps.demo.screen import WIDTH, Screen, cut_to
from memolog.apps.demo.script import RESOURCE, Exchange, Step
from memolog.context import Context
from memolog.domain.message import AssistantMessage, NewMessage, ToolCallPart
from memolog.runtime.memory import Memory

__all__ = ["CODE_QUERY", "Shown", "ask", "close_task", "fetch_code", "open_tasks", "start_task"]

CODE_QUERY: Final = "constraint that refuses overlapping reservations"
_IN: Final = "             "
_WORD: Final = re.compile(r"[^\W_]{3,}")
_FIGURE: Final = re.compile(r"(?<!\d)\d++ (?:cents|euros)")
_COMMON: Final = frozenset({"the", "and", "last", "what", "how", "much", "about", "most", "sprint", "member", "argue"})
_FENCE: Final = "```"


@dataclass(slots=True)
class Shown:
    """What the scenes proved."""

    task: dict[str, object] = field(default_factory=dict[str, object])
    question: dict[str, object] = field(default_factory=dict[str, object])
    code: dict[str, object] = field(default_factory=dict[str, object])


# ---------------------------------------------------------------- a task


async def open_tasks(memory: Memory, screen: Screen) -> None:
    """Open the two tasks that the conversation speaks of."""
    tasks = memory.tasks(RESOURCE, session="api", thread="api", who="Mira")
    first = await tasks.create("Stop double bookings", type="bug", priority=1)
    second = await tasks.create("Open reservations to all members", type="feature", blocked_by=[first.handle])
    screen.line(_IN, (f"task {first.handle} opened: {first.title}", "title"))
    screen.line(_IN, (f"task {second.handle} opened: {second.title} (waits for {first.handle})", "title"))


async def start_task(memory: Memory, screen: Screen) -> None:
    """Claim what is most pressing; what is said from now on belongs to it."""
    claimed = await memory.tasks(RESOURCE, session="api", thread="api").claim_next()
    if claimed:
        screen.line(_IN, (f"task {claimed.task.handle} claimed: what is said now is linked to it", "title"))


async def close_task(memory: Memory, screen: Screen, shown: Shown, _context: Context, step: Step) -> NewMessage:
    """Close the task with a summary that is drafted from the log, each line with its source."""
    await memory.observe("api", RESOURCE)
    tasks = memory.tasks(RESOURCE, session="api", thread="api")
    held = await tasks.claim("T-1")
    draft = await tasks.draft_summary(held.task.handle, most=7)
    closed = await tasks.close(held.task.handle, summary=draft.text)
    linked = await tasks.about(held.task.handle)
    _, *lines = draft.text.splitlines()
    screen.line(
        _IN, (f"task {closed.task.handle} closed, summary drafted from its {linked.total_messages} messages:", "title")
    )
    for line in lines:
        marks = "".join(re.findall(r"\[\d+\]", line)[-3:])
        body = re.sub(r"\s*(?:\[\d+\])+$", "", line)
        screen.line(_IN, f"  {cut_to(body, WIDTH - len(_IN) - len(marks) - 3)} ", (marks, "note"))
    spans = [
        f"[{n}] messages {a}–{b}" if a != b else f"[{n}] message {a}" for n, (_, a, b) in enumerate(draft.sources, 1)
    ]
    screen.line(_IN, (f"  {cut_to('sources: ' + ', '.join(spans), WIDTH - len(_IN) - 2)}", "note"))
    for ref in closed.unblocked:
        screen.line(_IN, (f"task {ref.handle} is ready now: {ref.title}", "title"))
    shown.task = {
        "handle": closed.task.handle,
        "status": closed.task.status,
        "citations": len(draft.sources),
        "cited_messages": [[thread, first, last] for thread, first, last in draft.sources],
        "linked_messages": linked.total_messages,
        "unblocked": [ref.handle for ref in closed.unblocked],
        "summary": draft.text,
    }
    return step.reply


# ---------------------------------------------------------------- a question about long ago


async def ask(
    memory: Memory, exchange: Exchange, screen: Screen, shown: Shown, context: Context, step: Step
) -> NewMessage:
    """Answer from the log: find its line that shares most words with the question, then the words behind that line."""
    recent = " ".join(message.text for message in context.tail[:-1])
    wanted = {word for word in _words(exchange.said) if word not in _COMMON}
    lines = [line.strip(" *") for line in context.system.splitlines() if line.lstrip().startswith("*")]
    best = max(lines, key=lambda line: len(wanted & set(_words(line))), default="")
    answer = _text(step.reply)
    facts = _FIGURE.findall(answer)
    tokens, count = context.tokens.total, len(context.tail)
    screen.line(_IN, f"the model is given {tokens:,} tokens: the log, and the last {count} messages word for word")
    screen.line(_IN, ("the answer is not in those messages; the log has it:", "title"))
    _quote(screen, best, "log")
    found = await memory.search(best, RESOURCE, thread="api", sources=["observation", "reflection"], limit=1)
    page = await memory.recall(found.results[0].id, RESOURCE, detail="full") if found.results else None
    behind = page.items[0] if page and page.items else None
    words = behind.pieces[0].text if behind and behind.pieces else ""
    if behind:
        screen.line(_IN, (f"and leads back to message {behind.seq} of {_day(behind.at)}, word for word:", "title"))
        _quote(screen, words, "code")
    screen.line(_IN, ("answer  ", "good"), cut_to(answer, WIDTH - len(_IN) - 8))
    shown.question = {
        "asked": exchange.said,
        "answer": answer,
        "line": best,
        "message": behind.seq if behind else None,
        "words": words,
        "in_recent_messages": any(fact in recent for fact in facts),
        "answered_from_log": bool(facts) and all(fact in best and fact in words for fact in facts),
    }
    return step.reply


def _quote(screen: Screen, text: str, style: str) -> None:
    for row in wrap(text, WIDTH - len(_IN) - 4):
        screen.line(_IN, (f"  │ {row}", style))


def _day(at: datetime) -> str:
    return f"{at.day} {at:%B}"


def _words(text: str) -> list[str]:
    return [word.lower().removesuffix("s") for word in _WORD.findall(text)]


def _text(message: NewMessage) -> str:
    return "\n".join(str(getattr(part, "text", "")) for part in message.parts)


# ---------------------------------------------------------------- the exact code


async def fetch_code(memory: Memory, step: Step, said: list[NewMessage], screen: Screen, shown: Shown) -> NewMessage:
    """Search for the code in the words of a person, and fetch the message in which it was written."""
    answer = await memory.search(CODE_QUERY, RESOURCE, thread="api", sources=["raw"], limit=5)
    screen.line(_IN, (f"search  “{CODE_QUERY}”: {answer.total} hits", "title"))
    best = next((hit for hit in answer.results if hit.message and _written(hit.message.parts)), None)
    written = _written(best.message.parts) if best and best.message else ""
    page = await memory.recall(best.id, RESOURCE, detail="full", tokens=1_000) if best else None
    exact = [_written(message.parts) for message in said if "EXCLUDE USING gist" in _written(message.parts)]
    if best:
        screen.line(_IN, (f"recall  message {best.seq} of {_day(best.at)}, hit {best.rank}, word for word:", "title"))
    for line in filter(str.strip, written.splitlines()):
        screen.line(_IN, (f"  │ {line}", "code"))
    recalled = page.items[0].pieces[0].text if page and page.items and page.items[0].pieces else ""
    shown.code = {
        "query": CODE_QUERY,
        "rank": best.rank if best else None,
        "message": best.seq if best else None,
        "code": written,
        "exact": bool(written) and [written] == exact and _escaped(written) in recalled,
    }
    return AssistantMessage(f"{_text(step.reply)}\n\n{_FENCE}sql\n{written}{_FENCE}")


def _written(parts: tuple[object, ...]) -> str:
    """Return what a call was given to write, if it is one."""
    for part in parts:
        arguments = part.arguments if isinstance(part, ToolCallPart) else None
        if isinstance(arguments, Mapping) and (content := cast("Mapping[str, object]", arguments).get("content")):
            return str(content)
    return ""


def _escaped(text: str) -> str:
    """Return a text as it stands inside JSON."""
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
