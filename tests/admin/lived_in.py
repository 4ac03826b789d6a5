"""A database that was really lived in, made by the true pipeline: turns, tools, reflections, tasks, compaction, withdrawals.

What was said carries words that nothing else holds, so that a test can tell whether any of it is left.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from crash.survivors import select
from memolog import (
    AssistantMessage,
    Config,
    Extractor,
    Message,
    ModelReply,
    ModelRequest,
    ObservationConfig,
    ReflectionConfig,
    ToolCallPart,
    ToolMessage,
    UserMessage,
)
from memolog.core.run import Usage
from memolog.db.sqlite import SqliteEngine
from memolog.memory import Memory
from memolog.store import Store
from memolog.testing import FakeClock, ScriptedModel

_MESSAGE: Final = re.compile(r"^<message>\[(\d+)\][^\n]*\n(.*?)\n</message>", re.MULTILINE | re.DOTALL)
_THREAD: Final = re.compile(r'^<thread id="([^"]+)">$', re.MULTILINE)
_LINE: Final = re.compile(r"^\s*(o\d+) (.*)$", re.MULTILINE)
_CODE: Final = re.compile(r"qz\w+")


def word(resource: str, thread: str, number: int) -> str:
    """Return the word that one exchange of a thread has for itself."""
    return f"qz{resource}{thread}{''.join(chr(97 + int(digit)) for digit in str(number))}w"


def settings(**changes: Any) -> Config:
    """Return small windows, so that a short talk goes through everything."""
    given: dict[str, Any] = {
        "observation": ObservationConfig(message_tokens=600, previous_tokens=200),
        "reflection": ReflectionConfig(observation_tokens=400),
        "keep_prompts": True,
        "activate_after_idle": False,
    }
    return Config(**{**given, **changes})


class Echo:
    """A model whose lines hold the words of what they cite, and whose reflections join two lines in one."""

    name = "echo"

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Answer with the words of what was asked about."""
        text = self._reflected(request.text) if request.purpose == "reflect" else self._observed(request.text)
        usage = Usage(model=self.name, input_tokens=10, output_tokens=5, cost=0.001, kind=request.purpose)
        return ModelReply(text=text, usage=usage)

    def _observed(self, text: str) -> str:
        names = _THREAD.findall(text)
        if not names:
            return self._section(text)
        bodies = _THREAD.split(text)[2::2]
        parts = (
            f'<thread id="{name}">\n{self._section(body)}\n</thread>' for name, body in zip(names, bodies, strict=True)
        )
        return "\n".join(parts)

    def _section(self, text: str) -> str:
        shown = [(number, _CODE.findall(body)) for number, body in _MESSAGE.findall(text)]
        lines = [f"* 🔴 They spoke of {' and '.join(codes[:2])} [{number}]" for number, codes in shown if codes]
        if not lines:
            return "<observations>\nNothing worth keeping.\n</observations>"
        last = next(codes[0] for _, codes in reversed(shown) if codes)
        hints = f"<current-task>Finish {last}</current-task>\n<suggested-response>About {last}</suggested-response>"
        return "<observations>\n" + "\n".join(lines) + f"\n</observations>\n{hints}"

    def _reflected(self, text: str) -> str:
        found = [(name, _CODE.findall(body)) for name, body in _LINE.findall(text)]
        pairs = [found[at : at + 2] for at in range(0, len(found), 2)]
        lines = [
            f"* 🔴 Both {' '.join(code for _, codes in pair for code in codes[:1])} [{', '.join(name for name, _ in pair)}]"
            for pair in pairs
        ]
        return "<observations>\n" + "\n".join(lines) + "\n</observations>"


def _topic(messages: Sequence[Message]) -> str:
    return " ".join(_CODE.findall(" ".join(message.text for message in messages)))


def memory_at(address: str, clock: FakeClock, **options: Any) -> Memory:
    """Return a memory with small windows and a scripted model, unless other options are given."""
    chosen: dict[str, Any] = {"model": ScriptedModel(), "config": settings(), **options}
    return Memory(address, clock=clock, **chosen)


def opened(address: str, clock: FakeClock, **changes: Any) -> Memory:
    """Return a memory with small windows, a model that echoes, and an extractor."""
    topics = Extractor(key="topics", function=_topic)
    return memory_at(address, clock, model=Echo(), config=settings(**changes), extractors=[topics])


async def live(
    memory: Memory, clock: FakeClock, resource: str, *, threads: Sequence[str] = ("a", "b"), turns: int = 16
) -> None:
    """Let a resource talk in its threads, work on tasks, compact, reflect, withdraw and search."""
    for number in range(turns):
        for thread in threads:
            await _exchange(memory, resource, thread, number)
            await memory.settled()
        clock.advance(minutes=7)
    for thread in threads:
        await memory.thread(thread, resource=resource).observe()
        # A reflection in the background may have ended by now. Another one would condense its lines again.
        await memory.settled()
        if not any(made.kind == "reflection" for made in await memory.thread(thread, resource=resource).history()):
            await memory.thread(thread, resource=resource).reflect()
        await memory.thread(thread, resource=resource).compact(keep=6)
        async with memory.thread(thread, resource=resource).turn() as turn:
            await turn.prepare(UserMessage(f"Take this back: {word(resource, thread, 99)}"))
            await turn.discard()
        await (
            memory.resource(resource)
            .working_memory(thread=thread)
            .replace(f"# Notes\nqz{resource}{thread}notes", who="me")
        )
    for text in ("first", "second"):
        await memory.resource(resource).items().put(("facts",), "dog", {"text": f"qz{resource}{text}items"})
        await memory.resource(resource).working_memory().replace(f"# Facts\nqz{resource}{text}facts", who="me")
    await _tasks(memory, resource, threads[0])
    await memory.thread(threads[0], resource=resource).observe()
    await memory.resource(resource).search(word(resource, threads[0], 1))
    await memory.settled()


async def _exchange(memory: Memory, resource: str, thread: str, number: int) -> None:
    code = word(resource, thread, number)
    async with memory.thread(thread, resource=resource).turn(model="answering") as turn:
        await turn.prepare(
            UserMessage(f"Please look into {code} and tell me all that there is to know about it, in detail.", id=code)
        )
        if number % 3 == 0:
            call = ToolCallPart(id=f"c{code}", name="read", arguments={"path": f"src/{code}tool.py"})
            await turn.record(AssistantMessage([call], id=f"call-{code}"))
            await turn.prepare(ToolMessage(f"c{code}", f"def {code}tool(): pass\n" * 8, id=f"result-{code}"))
        usage = Usage(model="answering", input_tokens=100, output_tokens=10, cost=0.01)
        answer = f"I looked into {code}answer: it is made of small parts, each of which is tested by itself."
        await turn.record(AssistantMessage(answer, id=f"answer-{code}"), usage=usage)


async def _tasks(memory: Memory, resource: str, thread: str) -> None:
    tasks = memory.resource(resource).tasks(session="s1", who="me", thread=thread)
    first = await tasks.create(f"Fix qz{resource}firsttask", labels=["qz"])
    second = await tasks.create(f"Then qz{resource}secondtask", blocked_by=[first.handle])
    await tasks.create(f"Below qz{resource}thirdtask", parent=second.handle)
    await tasks.claim(first.handle)
    await _exchange(memory, resource, thread, 50)
    await tasks.attach(second.handle, [word(resource, thread, 2)])


# ---------------------------------------------------------------- looking for what is left

_SQLITE_TABLES = "SELECT name FROM sqlite_master WHERE type = 'table'"
_POSTGRES_TABLES = "SELECT table_name FROM information_schema.tables WHERE table_schema = current_schema()"


async def dump(store: Store) -> dict[str, list[str]]:
    """Return every row of every table as text; in a file also what the index keeps under its own tables."""
    is_sqlite = isinstance(store.engine, SqliteEngine)
    (names,) = await select(store, _SQLITE_TABLES if is_sqlite else _POSTGRES_TABLES)
    # The words of a database in memory are in no file, and gone with the process.
    left_out = "search_index" if is_sqlite and store.engine.file is None else "no table"
    tables = sorted(name for (name,) in names if name != "search_index" and not name.startswith(left_out))
    answers = await select(store, *(f'SELECT * FROM "{name}"' for name in tables))
    return {name: sorted(map(str, rows)) for name, rows in zip(tables, answers, strict=True)}


def rows_of(dumped: dict[str, list[str]], text: str) -> list[str]:
    """Return the tables that hold a text, each with one of its rows."""
    return [f"{name}: {row[:300]}" for name, rows in dumped.items() for row in rows if text in row]


def names_in(folder: Path) -> list[str]:
    """Return the names of what is in a folder."""
    return sorted(found.name for found in folder.iterdir())


def files_holding(path: str, *texts: str) -> list[str]:
    """Return the files of a database, and of its copies, that hold one of these texts."""
    held: list[str] = []
    for file in sorted(Path(path).parent.iterdir()):
        content = file.read_bytes().lower()
        held += [f"{file.name}: {text}" for text in texts if text.encode() in content]
    return held
