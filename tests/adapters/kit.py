"""What every adapter must show, whatever the library: each message stored once, in order, and prompts that extend each other.

Knows the store and the events. Knows no library: a test translates what its library's model received into one text.
"""

from collections.abc import Sequence

from memolog import Config, Event, Memory, Message, ObservationConfig, ReflectionConfig
from memolog.domain.message import ReasoningPart, TextPart, ToolCallPart, ToolResultPart
from memolog.runtime.events import Activated, GenerationMade

__all__ = ["SMALL", "Prompts", "brief", "check_pairs", "stored"]

# Windows so small that a conversation of two hundred turns crosses them again and again.
SMALL = Config(
    observation=ObservationConfig(message_tokens=3_000, previous_tokens=300),
    reflection=ReflectionConfig(observation_tokens=1_500),
)


class Prompts:
    """The prompts that a library's model received, without their edges, each with how often the log had changed by then."""

    def __init__(self) -> None:
        self.sent: list[tuple[int, str]] = []
        self.changes = 0

    def watch(self, memory: Memory) -> None:
        """Count the changes of this memory's log; call it again after a restart."""
        memory.subscribe(self._hear)

    def _hear(self, event: Event) -> None:
        self.changes += isinstance(event, Activated | GenerationMade)

    def add(self, without_edge: str) -> None:
        """Keep one prompt as exact text: instructions, then messages, in the order of the wire, without the edge."""
        self.sent.append((self.changes, without_edge))

    def check(self, *, least_changes: int = 2) -> None:
        """Each prompt extends the one before it byte for byte, unless the log was activated in between."""
        assert self.changes >= least_changes, f"the log changed {self.changes} times: nothing was put to the test"
        pairs = list(zip(self.sent, self.sent[1:], strict=False))
        compared = [(a, b) for (before, a), (after, b) in pairs if before == after]
        assert len(compared) >= len(pairs) / 2, "nearly every prompt follows a change of the log"
        for number, (earlier, later) in enumerate(compared):
            assert later.startswith(earlier), f"pair {number}: {_difference(earlier, later)}"


def _difference(earlier: str, later: str) -> str:
    same = next(
        (n for n, (a, b) in enumerate(zip(earlier, later, strict=False)) if a != b), min(map(len, (earlier, later)))
    )
    return f"after {same:,} characters {earlier[same : same + 200]!r} became {later[same : same + 200]!r}"


async def stored(memory: Memory, resource: str, thread: str) -> list[Message]:
    """Return all messages of a thread as the store has them; no id twice."""
    kit = await memory.open()
    rows = [row for row in await kit.store.messages.after(resource, thread, 0) if row.state == "live"]
    ids = [row.id for row in rows]
    assert len(ids) == len(set(ids)), "an id is stored twice"
    return rows


def brief(messages: Sequence[Message]) -> list[str]:
    """Return a line a part: who, and what is said, called or returned. Compare it with what the test knows was said."""
    lines: list[str] = []
    for message in messages:
        for part in message.parts:
            match part:
                case TextPart():
                    lines.append(f"{message.role}: {part.text}")
                case ToolCallPart():
                    lines.append(f"call {part.id}: {part.name}")
                case ToolResultPart():
                    lines.append(f"result {part.call_id}")
                case ReasoningPart():
                    lines.append("reasoning")
                case _:
                    lines.append(f"{message.role}: <{type(part).__name__}>")
    return lines


def check_pairs(messages: Sequence[Message]) -> None:
    """Every call has its one result, after it."""
    parts = [part for message in messages for part in message.parts]
    calls = [part.id for part in parts if isinstance(part, ToolCallPart)]
    results = [part.call_id for part in parts if isinstance(part, ToolResultPart)]
    assert len(calls) == len(set(calls)), "a call is stored twice"
    assert sorted(calls) == sorted(results), set(calls) ^ set(results)
    for id_ in calls:
        called = next(n for n, part in enumerate(parts) if isinstance(part, ToolCallPart) and part.id == id_)
        answered = next(n for n, part in enumerate(parts) if isinstance(part, ToolResultPart) and part.call_id == id_)
        assert called < answered, f"{id_} is answered before it is called"
