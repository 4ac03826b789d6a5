"""The database of the command line tests. It is created once, and copied for every test.

It has two threads of one resource, a log with generations, buffered groups, tasks in every state, and versions of working memory.
Beside it are an empty database, and `shared.db`, whose scope was changed from thread to resource.
"""

import json
import os
import re
import shlex
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer.main
from typer.testing import CliRunner

from memolog.apps.cli.main import app
from memolog.core.config import Config, ObservationConfig, ReflectionConfig
from memolog.core.message import AssistantMessage, ToolCallPart, ToolMessage, UserMessage
from memolog.core.run import Usage
from memolog.memory import Memory
from memolog.testing import FakeClock

RESOURCE = "alice"
CONFIG = Config(
    observation=ObservationConfig(message_tokens=900, previous_tokens=200),
    reflection=ReflectionConfig(observation_tokens=500),
)
SUBJECTS = (
    ("Please store refresh tokens hashed, they live for 30 days", "server/db/tokens.ts", "refresh_tokens"),
    ("The API lives in server/, the client in client/", "server/routes/users.ts", "usersRouter"),
    ("We prefer argon2id over bcrypt and deploy on Fridays", "server/auth/hash.ts", "hashPassword"),
    ("The login schema needs a password of at least 12 characters", "server/schemas/auth.ts", "LoginSchema"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        return json.loads(self.out)


def run(*arguments: str, stdin: str | None = None) -> Said:
    """Run a command in this process, without a terminal."""
    done = CliRunner().invoke(app, list(arguments), input=stdin, catch_exceptions=True)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return Said(code=done.exit_code, out=done.stdout, err=done.stderr)


@contextmanager
def inside(folder: Path) -> Generator[None]:
    """Work in a folder, without environment variables of Memolog."""
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("MEMOLOG_") or name == "COLUMNS"]:
            patch.delenv(name)
        (folder / "home").mkdir(exist_ok=True)
        patch.setenv("HOME", str(folder / "home"))
        patch.chdir(folder)
        yield


@contextmanager
def local_zone(name: str) -> Generator[None]:
    """Use a time zone as that of this machine."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", name)
        time.tzset()
        yield
    time.tzset()


async def build(path: Path, *, clock: FakeClock | None = None) -> None:
    """Create the database, an export and a backup of it, and other databases, in the same folder.

    `clock` is that of the commands that follow. The default is the clock of the system.
    """
    now, clock = clock, FakeClock()
    async with Memory(path, config=CONFIG, clock=clock) as memory:
        await _talk(memory, clock, "notes", SUBJECTS[1:2])
        await memory.thread("notes", resource=RESOURCE).observe()
        lines = await memory.thread("notes", resource=RESOURCE).log()
        await memory.resource(RESOURCE).retract(lines[1].id)
        await memory.thread("notes", resource=RESOURCE).compact()
        for day in range(4):
            await _talk(memory, clock, "atlas", SUBJECTS)
            clock.advance(days=1)
            if day % 2:
                await memory.thread("atlas", resource=RESOURCE).reflect()
        await _plan(memory)
        await _note(memory)
        await _talk(memory, clock, "atlas", SUBJECTS[:1])
    async with Memory(path.with_name("empty.db")):
        pass
    await _share(path.with_name("shared.db"))
    # The task is claimed with the clock of the commands, so that it is still held when they run.
    async with Memory(path, clock=now) as memory:
        await memory.resource(RESOURCE).tasks(session="agent-7").claim("T-3", lease=timedelta(days=1).total_seconds())
        await memory.export(path.with_name("alice.jsonl"))
        await memory.backup(path.with_name("backup.db"))


async def _share(path: Path) -> None:
    """Create a database whose scope was changed after two threads got their logs. The thread `drafts` has a branch."""
    clock = FakeClock()
    async with Memory(path, config=CONFIG, clock=clock) as memory:
        for thread, subjects in (("red", SUBJECTS[:1]), ("drafts", SUBJECTS[1:3])):
            await _talk(memory, clock, thread, subjects)
            await memory.thread(thread, resource=RESOURCE).observe()
        await memory.thread("drafts", resource=RESOURCE).rewind(to=4)
    config = CONFIG.with_overrides({"scope": "resource", "observe": False})
    async with (
        Memory(path, config=config, clock=clock) as memory,
        memory.thread("new", resource=RESOURCE).turn() as turn,
    ):
        await turn.prepare(UserMessage("Hello"))


async def _talk(memory: Memory, clock: FakeClock, thread: str, subjects: Sequence[tuple[str, str, str]]) -> None:
    for number, (said, file, name) in enumerate(subjects):
        call = f"call-{number}-{clock.now():%d%H%M}"
        async with memory.thread(thread, resource=RESOURCE).turn(zone="Europe/Berlin") as turn:
            await turn.prepare(UserMessage(f"{said}. Day {clock.now():%d}."))
            # Two runs at the same time would end in the order in which the machine serves them.
            await memory.settled()
            await turn.record(AssistantMessage(ToolCallPart(id=call, name="edit_file", arguments={"path": file})))
            await turn.prepare(ToolMessage(call, f"{file}: export const {name} = 1 // changed\n" * 4, name="edit_file"))
            await memory.settled()
            usage = Usage(model="small", input_tokens=400, output_tokens=20, cost=0.001)
            await turn.record(AssistantMessage(f"{name} is in {file} now, all tests pass."), model="small", usage=usage)
        clock.advance(minutes=7)
        await memory.settled()


async def _plan(memory: Memory) -> None:
    """Create tasks: T-1 blocks T-2, T-3 is held by an agent, T-4 is closed, T-5 and T-6 are duplicates."""
    tasks = memory.resource(RESOURCE).tasks(session="agent-7")
    await tasks.create("Store refresh tokens hashed", description="SHA-256 before they are stored", labels=["security"])
    await tasks.create("Rotate refresh tokens on each use", blocked_by=["T-1"])
    await tasks.create("Write the changelog", priority=3)
    await tasks.create("Fix the failing deploy", type="bug", priority=0)
    await tasks.create("Update the login page text", priority=4)
    await tasks.create("Update the text of the login page", priority=4)
    await tasks.close("T-4", summary="fly.toml named the old host.")
    messages = (await memory.thread("atlas", resource=RESOURCE).messages(limit=8)).items
    await tasks.attach("T-1", [message.id for message in messages])


async def _note(memory: Memory) -> None:
    facts = memory.resource(RESOURCE).working_memory()
    await facts.replace("# Facts\n\n- The API lives in server/.\n", who="alice")
    await facts.edit_section("Decisions", "- argon2id over bcrypt", who="agent-7")
    await memory.resource(RESOURCE).working_memory(thread="notes").start(who="alice", value={"city": "Porto"})


_EXAMPLE = re.compile(r"^ *Example: memolog (.+)$", re.MULTILINE)


def names() -> list[tuple[str, ...]]:
    """Return the words that name each command."""
    return list(_names(typer.main.get_command(app), ()))


def _names(command: Any, words: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    if not hasattr(command, "commands"):
        yield words
        return
    for name, inner in command.commands.items():
        yield from _names(inner, (*words, name))


def help_of(words: tuple[str, ...]) -> str:
    """Return what `--help` prints."""
    done = run(*words, "--help")
    assert done.code == 0
    return done.out


def examples_of(words: tuple[str, ...]) -> list[list[str]]:
    """Return the arguments of each example in the help text of a command."""
    found = _EXAMPLE.findall(help_of(words))
    assert found, f"memolog {' '.join(words)} --help has no example"
    return [shlex.split(line) for line in found]


@cache
def examples() -> list[tuple[tuple[str, ...], list[str]]]:
    """Return every example of every command, with the words that name the command."""
    return [(words, arguments) for words in names() for arguments in examples_of(words)]
