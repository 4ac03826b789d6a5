"""Checks and messages that the tests of all adapters share; no library is needed."""

import base64
import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from hypothesis import strategies as st

from memolog import Config, Event, Memory, Message, NewMessage, ObservationConfig, ReflectionConfig
from memolog.context.context import Block, Context, ContextMessage
from memolog.core.message import ReasoningPart, TextPart, ToolCallPart, ToolResultPart, parts_from_json
from memolog.events import Activated, GenerationMade, Withdrawn
from memolog.messages.validation import check_message
from memolog.text.escape import fixed_text
from memolog.transfer.exact import Json

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
        self.changes += isinstance(event, Activated | GenerationMade | Withdrawn)

    def add(self, without_edge: str) -> None:
        """Keep one prompt as exact text: instructions, then messages, in the order of the wire, without the edge."""
        self.sent.append((self.changes, without_edge))

    def check(self, *, least_changes: int = 2) -> None:
        """Each prompt extends the one before it byte for byte, unless the log or the thread was changed in between."""
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


# ---------------------------------------------------------------- a long conversation

TOOL_EVERY = 7


def calls(number: int) -> list[str]:
    """Return the ids of the calls that a question needs: one for every seventh, two for every fourteenth."""
    needed = 0 if number % TOOL_EVERY else 2 - number % (2 * TOOL_EVERY) // TOOL_EVERY
    return [f"call-{number}{letter}" for letter in ("", "b")[:needed]]


def question(number: int) -> str:
    """Return a question of the user."""
    return f"Question {number} please: what about module_{number}.py, which has {number} tests and fails on Tuesdays?"


def answer(number: int) -> str:
    """Return the answer to a question."""
    return f"Answer {number}: we keep module_{number}.py and its {number} tests as they are, and go on from there."


def expected(numbers: range) -> list[str]:
    """Return what a store must hold after these questions."""
    lines: list[str] = []
    for number in numbers:
        lines.append(f"user: {question(number)}")
        lines += [f"call {id_}: weather" for id_ in calls(number)] + [f"result {id_}" for id_ in calls(number)]
        lines.append(f"assistant: {answer(number)}")
    return lines


def forecast(city: str) -> str:
    """Return what the tool `weather` answers."""
    if city == "nowhere":
        raise ValueError("there is no weather there")
    return f"It is sunny in {city}. " + "The forecast goes on like this for days. " * 6


# ---------------------------------------------------------------- translation

PICTURE = b"\x89PNG not a picture, but its bytes"
PICTURE_TEXT = base64.b64encode(PICTURE).decode()
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
_TEXTS = st.text(max_size=8)
JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | _TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXTS, inner, max_size=3),
    max_leaves=6,
)


def foreign(name: str) -> list[Any]:
    """Return the messages of one library in `fixtures/foreign`: one of every kind."""
    return [one for case in foreign_cases(name) for one in case["foreign"]]


def foreign_cases(name: str) -> list[Any]:
    """Return the messages of one library, each with the rows that an earlier release stored for it."""
    return json.loads((Path(__file__).parents[1] / "fixtures" / "foreign" / f"{name}.json").read_text("utf-8"))


def exact(value: Any) -> str:
    """Return JSON text in which True is not 1; the order of fields means nothing in JSON."""
    return json.dumps(value, sort_keys=True)


def through_the_store(message: NewMessage) -> NewMessage:
    """Return the message as the store gives it back."""
    return replace(message, parts=parts_from_json(check_message(message)))


_EDGE: Final = re.compile(
    r"(?:\A|\n\n)(?:<(?:current-task|earlier-task|earlier-suggestion|suggested-response|working-memory"
    r"|other-conversation|tasks|plans|now)\b|" + re.escape(fixed_text("context/recalled")) + r").*</now>\Z",
    re.DOTALL,
)


def split_edge(text: str) -> tuple[str, str | None]:
    """Return a user message without the edge at its end, and the edge if there is one."""
    found = _EDGE.search(text)
    return (text[: found.start()], found.group().strip()) if found else (text, None)


def split_messages(messages: Sequence[Json]) -> tuple[list[Json], str | None]:
    """Return messages of OpenAI without the edge at the end of the last user message, and the edge."""
    made, edge = list(messages), None
    for place in reversed(range(len(made))):
        if made[place].get("role") == "user":
            content = made[place]["content"]
            text, edge = split_edge(content if isinstance(content, str) else content[-1].get("text", ""))
            if edge:
                kept = text if isinstance(content, str) else [*content[:-1], {**content[-1], "text": text}]
                made[place] = {**made[place], "content": kept}
            break
    return made, edge


def line_of(message: Json) -> str:
    """Return a message as exact text. A user message is open at its end, because the next question may be added to it."""
    content = message.get("content")
    if isinstance(content, list) and all("text" in block for block in content):
        content = "\n\n".join(block["text"] for block in content)
    if message.get("role") == "user" and isinstance(content, str):
        return f"user {content}"
    return json.dumps(message, sort_keys=True)


def context_of(messages: Sequence[NewMessage], *, log: Sequence[str] = (), edge: str = "") -> Context:
    """Return a context of these messages, with these groups in its log and this edge."""
    return Context(
        blocks=tuple(Block(name=f"group {n}", text=text, tokens=1, stable=True) for n, text in enumerate(log)),
        tail=tuple(
            ContextMessage(role=one.role, parts=through_the_store(one).parts, seq=n, speaker=one.speaker)
            for n, one in enumerate(messages, start=1)
        ),
        edge=(Block(name="now", text=edge, tokens=1, stable=False),) if edge else (),
    )
