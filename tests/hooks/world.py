"""Sessions of coding agents: the events in the format of each host, and the transcript that the host writes."""

import json
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Literal
from uuid import UUID

from memolog import Config, Memory, Message, ObservationConfig, ReflectionConfig
from memolog.apps.hooks.entry import Options, handle
from memolog.apps.hooks.sweep import Sweep
from memolog.core.message import TextPart, ToolCallPart, ToolResultPart
from memolog.testing import FakeClock

SMALL = Config(
    observation=ObservationConfig(message_tokens=3_000, previous_tokens=300),
    reflection=ReflectionConfig(observation_tokens=1_500),
)
Host = Literal["claude-code", "codex", "cursor", "gemini"]
Step = tuple[str, Any]
"""A line of the transcript, or an event, in the order in which a host makes them."""


def nobody(_: Options) -> None:
    """Start no sweep, because the test runs it."""


@dataclass(slots=True, kw_only=True)
class Session:
    host: Host
    folder: Path
    clock: FakeClock
    name: str = "0b5b1c1e-0000-4000-8000-000000000001"
    project: str = ""
    numbers: random.Random = field(default_factory=lambda: random.Random(7))
    said: list[str] = field(default_factory=list[str])
    """The messages in the order of the transcript."""

    @property
    def transcript(self) -> Path:
        return self.folder / f"{self.name}.jsonl"

    def event(self, kind: str, **fields: Any) -> dict[str, Any]:
        if self.host == "cursor":
            common: dict[str, Any] = {"conversation_id": self.name, "workspace_roots": [self.project]}
        else:
            common = {"session_id": self.name, "transcript_path": str(self.transcript), "cwd": self.project}
        return {**common, "hook_event_name": kind, **fields}

    def turn(self, prompt: str, *, tools: int = 2) -> Iterator[Step]:
        """Yield the lines of the transcript and the events of one turn."""
        turn = str(UUID(int=self.numbers.getrandbits(128)))
        extra = {"turn_id": turn} if self.host == "codex" else {}
        yield "event", self.event("UserPromptSubmit", prompt=prompt, **extra)
        yield from self._line("user", prompt)
        for number in range(tools):
            call = f"call_{self.numbers.getrandbits(40):010x}"
            command, output = f"make test-{number} # {call}", f"{call}: {self.numbers.randint(1, 99)} passed"
            yield from self._line("call", command, call)
            yield from self._line("result", output, call)
            told = {"tool_name": "Bash", "tool_input": {"command": command}, "tool_use_id": call}
            yield "event", self.event("PostToolUse", **told, tool_response={"stdout": output, "stderr": ""}, **extra)
        answer = f"Done with: {prompt} ({turn[:8]})"
        yield from self._line("assistant", answer)
        yield "event", self.event("Stop", last_assistant_message=answer, stop_hook_active=False, **extra)

    def _line(self, kind: str, text: str, call: str = "") -> Iterator[Step]:
        self.clock.advance(seconds=self.numbers.randint(1, 20))
        self.said.append(f"{kind} {call or text}")
        build = self._claude_line if self.host == "claude-code" else self._codex_line
        yield "line", build(kind, text, call)

    def _claude_line(self, kind: str, text: str, call: str) -> dict[str, Any]:
        contents: dict[str, Any] = {
            "user": text,
            "assistant": [{"type": "text", "text": text}],
            "call": [{"type": "tool_use", "id": call, "name": "Bash", "input": {"command": text}}],
            "result": [{"type": "tool_result", "tool_use_id": call, "content": text}],
        }
        role = "assistant" if kind in {"assistant", "call"} else "user"
        return {
            "type": role,
            "uuid": str(UUID(int=self.numbers.getrandbits(128))),
            "sessionId": self.name,
            "timestamp": self.clock.now().isoformat(),
            "message": {"role": role, "content": contents[kind]},
        }

    def _codex_line(self, kind: str, text: str, call: str) -> dict[str, Any]:
        items: dict[str, Any] = {
            "user": {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]},
            "assistant": {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]},
            "call": {"type": "function_call", "name": "shell", "call_id": call, "arguments": json.dumps({"cmd": text})},
            "result": {"type": "function_call_output", "call_id": call, "output": text},
        }
        at = self.clock.now().isoformat()
        return {"timestamp": at, "type": "response_item", "payload": items[kind]}

    def write(self, line: dict[str, Any]) -> None:
        if self.host == "codex" and not self.transcript.exists():
            head = {"type": "session_meta", "payload": {"id": self.name, "cwd": self.project}}
            self.transcript.write_text(json.dumps(head) + "\n", "utf-8")
        with self.transcript.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


@dataclass(slots=True, kw_only=True)
class Desk:
    """A database with hooks."""

    address: str
    clock: FakeClock
    config: Config = SMALL
    resource: str | None = "project"

    @property
    def db(self) -> Path:
        return Path(self.address)

    def options(self, host: str) -> Options:
        named = ["--resource", self.resource] if self.resource else []
        return Options([host, "--db", self.address, *named], {})

    def tell(self, host: str, event: dict[str, Any], at: datetime | None = None) -> str:
        moment = (at or self.clock.now()).timestamp()
        return handle(self.options(host), json.dumps(event).encode(), at=moment, wake=nobody)

    def live(self, session: Session, steps: Iterable[Step]) -> None:
        """Write the lines of some steps to the transcript, and send their events to the hooks."""
        for kind, what in steps:
            session.write(what) if kind == "line" else self.tell(session.host, what)

    def memory(self) -> Memory:
        return Memory(self.address, config=self.config, clock=self.clock)

    async def sweep(self) -> None:
        await Sweep(self.options("sweep").spool, self.address, self.config, self.clock).run()

    async def later(self, **duration: float) -> None:
        """Wait (by default until every session is over), and sweep."""
        self.clock.advance(**(duration or {"hours": 1}))
        await self.sweep()

    async def messages(self, thread: str, resource: str | None = None) -> tuple[Message, ...]:
        async with self.memory() as memory:
            return (await memory.thread(thread, resource=resource or str(self.resource)).messages(limit=10_000)).items


def brief(messages: tuple[Message, ...]) -> list[str]:
    """Return messages in the form of `Session.said`, one line for each part."""
    lines: list[str] = []
    for message in messages:
        for part in message.parts:
            match part:
                case TextPart():
                    lines.append(f"{message.role} {part.text}")
                case ToolCallPart():
                    lines.append(f"call {part.id}")
                case ToolResultPart():
                    lines.append(f"result {part.call_id}")
                case _:
                    lines.append(f"{message.role} {part.type}")
    return lines
