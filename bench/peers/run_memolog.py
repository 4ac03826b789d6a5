"""Memolog with default settings and a scripted observer, in one event loop. Background work is waited for and counted.

The scripted agent reports its usage in exact tokens, as providers do. Memolog estimates tokens and calibrates its estimate with
the reported ones.
"""

import asyncio
import json
import re
from pathlib import Path
from typing import Any

from harness import RESOURCE, SYSTEM, Meter, Run, Step, condensed, versions
from splintr import Tokenizer

from memolog import (
    AssistantMessage,
    Config,
    Memory,
    ModelReply,
    ModelRequest,
    NewMessage,
    ToolCallPart,
    ToolMessage,
    Usage,
    UserMessage,
)

_TOKENIZER = Tokenizer.from_pretrained("o200k_base")

_THREAD = re.compile(r'^<thread id="([^"]+)">$', re.MULTILINE)
_DAY = re.compile(r"^<day>\w+ (\d{4}-\d\d-\d\d)", re.MULTILINE)
_MESSAGE = re.compile(r"^<message>\[(\d+)\] (\d\d:\d\d) (\w+):?\n(.*?)^</message>$", re.MULTILINE | re.DOTALL)
_LINE = re.compile(r"^\s*(o\d+) (?:(t\d+) )?(?:(🔴|🟡|🟢|✅) )?(?:\((\d\d:\d\d)\) )?(.*)$")
# The scripted reflector makes one line of three.
_MERGED = 3


def observations(text: str) -> str:
    """Return the observations of a transcript: 🔴 for the user, 🟡 for answers and tools, each with its message."""
    day = _DAY.findall(text)
    lines = [f"Date: {day[0]}"] if day else []
    numbers: list[str] = []
    for number, at, role, content in _MESSAGE.findall(text):
        numbers.append(number)
        mark = "🔴" if role == "user" else "🟡"
        lines += [f"* {mark} ({at}) {words} [{number}]" for words in condensed(content) if words]
    if not numbers:
        lines.append("Nothing worth keeping.")
    body = "\n".join(lines)
    return f"<observations>\n{body}\n</observations>\n<current-task>Continue the conversation</current-task>"


def observed(text: str) -> str:
    """Return the reply of the observer for one thread or for several."""
    parts = _THREAD.split(text)
    if len(parts) == 1:
        return observations(text)
    sections = zip(parts[1::2], parts[2::2], strict=True)
    return "\n".join(f'<thread id="{name}">\n{observations(body)}\n</thread>' for name, body in sections)


def reflected(text: str) -> str:
    """Return the reply of the reflector: one line for three, with the words of every 🔴 line among them."""
    lines: list[str] = []
    held: list[tuple[str, str, str, str]] = []

    def put() -> None:
        if held:
            kept = [row for row in held if row[1] == "🔴"] or held[:1]
            mark, at = kept[-1][1] or "🟡", kept[-1][2]
            said = "; ".join(row[3] for row in kept)
            lines.append(f"* {mark} ({at or '00:00'}) {said} [{','.join(row[0] for row in held)}]")
            held.clear()

    of_thread: str | None = None
    for line in text.split("<target>", maxsplit=1)[0].splitlines():
        if line.startswith("Date:"):
            put()
            lines.append(line)
        elif found := _LINE.match(line):
            name, thread, mark, at, said = found.groups()
            if thread != of_thread or len(held) == _MERGED:
                put()
            of_thread = thread
            held.append((name, mark or "🟡", at or "", f"{thread}: {said}" if thread else said))
    put()
    body = "\n".join(lines)
    return f"<observations>\n{body}\n</observations>"


class Counts:
    """The exact tokens of texts. A text is counted once and not kept."""

    def __init__(self) -> None:
        self._known: dict[int, int] = {}

    def of(self, texts: list[str]) -> int:
        """Return the tokens of all texts."""
        for text in texts:
            if hash(text) not in self._known:
                self._known[hash(text)] = len(_TOKENIZER.encode(text))
        return sum(self._known[hash(text)] for text in texts)


class Observer:
    """A scripted model for the observer and the reflector."""

    name = "scripted"

    def __init__(self, run: Run) -> None:
        self._run = run

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Answer at once. The time of this call is not counted."""
        with self._run.scripted as scripted:
            is_observer = request.purpose == "observe"
            text = observed(request.text) if is_observer else reflected(request.text)
            system = json.dumps({"role": "system", "content": request.system}, ensure_ascii=False)
            messages = [system, json.dumps(request.text, ensure_ascii=False)]
            scripted.call("observer" if is_observer else "reflector", "", messages, text)
        await asyncio.sleep(0)
        return ModelReply(text=text)


def message_of(value: dict[str, Any]) -> NewMessage:
    """Return a message of a workload as a value of Memolog."""
    match value:
        case {"role": "user", "content": str(text)}:
            return UserMessage(text)
        case {"role": "tool", "call": {"id": str(name)}, "content": str(text)}:
            return ToolMessage(name, text, name="lookup")
        case {"call": {"id": str(name)}}:
            return AssistantMessage(ToolCallPart(id=name, name="lookup", arguments=value["call"]["arguments"]))
        case _:
            return AssistantMessage(str(value["content"]))


async def play(run: Run, memory: Memory, steps: list[Step], meter: Meter, background: Meter) -> None:
    """Go through the steps. A step of W2 is one request of a single long turn, a step of the others is a whole turn."""
    is_one_turn = run.workload == "W2"
    turn, counts = None, Counts()
    for step in steps:
        given, answer = message_of(step.given), message_of(step.answer)
        with meter:
            if turn is None:
                turn = memory.thread(step.thread, resource=RESOURCE).turn()
                await turn.__aenter__()
            context = await turn.prepare(given)
            request = context.to_openai(system=SYSTEM)
            with run.scripted as scripted:
                texts = [json.dumps(message, ensure_ascii=False) for message in request]
                scripted.call("agent", step.thread, texts, "")
                usage = Usage(model="scripted", input_tokens=counts.of(texts), output_tokens=counts.of([str(answer)]))
            # Every model yields to the event loop at least once.
            await asyncio.sleep(0)
            await turn.record(answer, usage=usage)
            if not is_one_turn or step is steps[-1]:
                await turn.__aexit__(None, None, None)
                turn = None
        with background:
            await memory.settled()


async def main() -> None:
    """Run one workload."""
    run = Run("memolog")
    config = Config.from_dict({"scope": run.scope})

    async def on(path: Path, steps: list[Step], meter: Meter, background: Meter) -> None:
        for file in path.parent.glob(path.name + "*"):
            file.unlink()
        async with Memory(str(path), model=Observer(run), config=config) as memory:
            await play(run, memory, steps, meter, background)
            with background:
                await memory.settled()
                # The index is otherwise made when the process is idle, or at the first search.
                await memory.resource(RESOURCE).index()

    await on(run.folder / f"{run.stem}-warm.db", run.steps(30), run.warm(), run.warm())
    path = run.folder / f"{run.stem}.db"
    run.begin()
    await on(path, run.steps(), run.turn, run.background)
    run.end(path, versions=versions("memolog"))


if __name__ == "__main__":
    asyncio.run(main())
