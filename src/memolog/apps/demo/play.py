"""Play the demo: a scripted conversation with a real memory, a process that is killed, and a check that nothing was lost.

The demo starts this module as another process, which it then kills. The argument is the number of an exchange. The
process plays the conversation from this exchange on, without output. When its first background run starts, it prints the ids of
the messages that it has saved, and waits.
"""

import asyncio
import json
import os
import re
import shlex
import shutil
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from pathlib import Path
from random import Random
from textwrap import wrap
from typing import Any, Final, cast

from memolog import (
    AssistantMessage,
    Config,
    Context,
    Event,
    InputError,
    KeepRecent,
    MemologError,
    Memory,
    Message,
    NewMessage,
    ObservationConfig,
    ReflectionConfig,
    Thread,
    ToolCallPart,
)
from memolog.apps.demo.screen import WIDTH, Screen, cut_to
from memolog.apps.demo.script import THREADS, ZONE, Exchange, script, text_of
from memolog.core.message import parts_to_json
from memolog.db.postgres_address import safe_url
from memolog.events import Activated, GenerationMade, Recovered, RunEnded, RunStarted, Windows
from memolog.testing import FakeClock
from memolog.text.message_tokens import count_message

RESOURCE: Final = "mira"
CONFIG: Final = Config(
    observation=ObservationConfig(message_tokens=1_200, buffer_tokens=0.3, previous_tokens=200),
    reflection=ReflectionConfig(observation_tokens=2_400, keep_recent=KeepRecent(hours=12, observations=12)),
    # Activate after a night but not after a lunch break, so that the windows fill during the day.
    activate_after_idle=10 * 3600,
    task_lease=24 * 3600,
)
_ALL: Final = 1_000_000
# Sample prices in US dollars for a million input tokens: not cached, and cached.
_PRICE: Final = 3.0
_CACHED_PRICE: Final = 0.3
# Time that a provider keeps a prompt in its cache.
_WARM: Final = timedelta(minutes=5)
_INDENT: Final = "             "
_CODE_QUERY: Final = "constraint that refuses overlapping reservations"
_WORD: Final = re.compile(r"[^\W_]{3,}")
_FIGURE: Final = re.compile(r"(?<!\d)\d++ (?:cents|euros)")
# Words of the question that do not help to find its answer.
_COMMON: Final = frozenset({"the", "and", "last", "what", "how", "much", "about", "most", "sprint", "member", "argue"})
_FENCE: Final = "```"


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Tokens of one request to the model."""

    sent: int
    """Number of tokens with memory."""
    reused: float
    """Number of tokens in `sent` that the prompt cache has."""
    whole: int
    """Number of tokens without memory, if the client sends the whole conversation."""
    whole_reused: int
    """Number of tokens in `whole` that the prompt cache has."""
    is_warm: bool
    """Whether the prompt cache still has the previous request of the thread."""


class Demo:
    """Plays the demo once on one database."""

    def __init__(self, address: str, screen: Screen) -> None:
        self.address, self.screen, self.clock = address, screen, FakeClock()
        self.said: dict[str, list[NewMessage]] = {}
        """Saved messages of each thread."""
        self._tokens: Counter[str] = Counter()
        """Number of tokens of the saved messages of each thread."""
        self._requests: list[Request] = []
        self._last: dict[str, tuple[datetime, str, int]] = {}
        """Last request of each thread: its time, its text, and the number of tokens of the whole conversation."""
        self._events: list[Event] = []
        self._spans: dict[str, tuple[int, int]] = {}
        """First and last message of each run."""
        self._covered: dict[str, int] = {}
        """Last message of each thread that its log covers."""
        self._levels: dict[str, Windows] = {}
        self._day: date | None = None
        self._shown: dict[str, dict[str, Any]] = {}
        """Results of the scenes, for the summary."""

    async def play(self) -> dict[str, Any]:
        """Play the whole demo, and return its results as JSON values."""
        exchanges = script()
        crash = next(number for number, exchange in enumerate(exchanges) if exchange.scene == "crash")
        self._introduce()
        async with self.open("first") as memory:
            await _refuse_used(memory)
            await self.exchanges(memory, exchanges[:crash])
        killed = await self._crash(crash)
        async with self.open("second") as memory:
            threads = [memory.thread(name, resource=RESOURCE) for name in THREADS]
            stored = frozenset([message.id for thread in threads for message in await _live(thread)])
            survived = len(stored & set(killed["saved"]))
            words = f"restarted: {survived} of {len(killed['saved'])} messages that it had saved are there"
            self.screen.line(_INDENT, (words, "good"))
            for thread in threads:
                self._covered[thread.id] = (await thread.status()).cursor
            await self.exchanges(memory, exchanges[crash:], stored)
            self.screen.day_ends(self._levels)
            proof = await self._prove(threads)
        await self.screen.pause(0.5)
        self._shown["crash"] = {
            "exit_code": killed["exit_code"],
            "saved_before": len(killed["saved"]),
            "there_after": survived,
            "recovered": killed["run"] in {event.run for event in self._events if isinstance(event, Recovered)},
        }
        return self._summary() | proof | {"next": _commands(self.address)}

    def open(self, name: str) -> Memory:
        """Return the memory of one process. Ids are computed from `name`, so they are the same each time."""
        chance = Random(name).getrandbits  # noqa: S311 - not a secret
        memory = Memory(self.address, config=CONFIG, clock=self.clock, chance=chance)
        memory.subscribe(self._hear)
        return memory

    def _introduce(self) -> None:
        count = sum(len(exchange.messages) for exchange in script())
        size = f"{_days()} days, {len(THREADS)} conversations, {count} messages"
        limit, log_limit = f"{CONFIG.threshold:,}", f"{CONFIG.reflect_at:,}"
        self.screen.line(("Memolog: a long memory for AI agents", "title"))
        for line in (
            "",
            f"Mira and her assistant build Toolshed, a tool library: {size}.",
            "What they say is scripted. What the memory does with it is real, and needs no key and no network.",
            f"So that everything happens soon, windows are small: {limit} tokens of messages (usually 30,000)",
            f"and {log_limit} tokens of log (usually 40,000).",
        ):
            self.screen.line(line)

    # ------------------------------------------------------------ events

    def _hear(self, event: Event) -> None:
        """Store an event, and print it if it is interesting for a newcomer."""
        self._events.append(event)
        thread = event.thread or ""
        match event:
            case RunStarted(first_seq=int(first), last_seq=int(last)):
                self._spans[event.run] = (first, last)
            case RunEnded(run_kind="observe"):
                first, last = self._spans.get(event.run, (0, 0))
                lines = f"{event.observations} line{'' if event.observations == 1 else 's'}"
                self._note(f"{thread} in the background: messages {first}–{last} → {lines}, kept aside", "note")
            case Activated():
                first = self._covered.get(thread, 0) + 1
                self._covered[thread] = event.last_seq
                tokens = f"{event.tokens:,} tokens stand for them"
                self._note(
                    f"{thread} into the log: messages {first}–{event.last_seq} leave the prompt, {tokens}", "log"
                )
            case GenerationMade(generation_kind="reflection"):
                tokens = f"{event.tokens_before:,} → {event.tokens_after:,} tokens"
                self._note(f"{thread} log condensed: {tokens}", "fold")
            case Recovered():
                first, last = self._spans.get(event.run, (0, 0))
                self._note(f"{thread} a new process takes over messages {first}–{last}", "crash")
            case Windows():
                self._levels[thread] = event
                self.screen.levels(self._levels)
            case _:
                pass

    def _note(self, text: str, style: str) -> None:
        self.screen.line(_INDENT, (f"· {text}", style))

    def _title(self, text: str) -> None:
        self.screen.line(_INDENT, (text, "title"))

    def _quote(self, text: str, style: str) -> None:
        for row in wrap(text, WIDTH - len(_INDENT) - 4):
            self.screen.line(_INDENT, (f"  │ {row}", style))

    # ------------------------------------------------------------ the conversation

    async def exchanges(
        self, memory: Memory, exchanges: tuple[Exchange, ...], stored: frozenset[str] = frozenset()
    ) -> None:
        """Play exchanges. Replies whose ids are in `stored` were saved by the killed process, so their steps are skipped."""
        for exchange in exchanges:
            await self._begin_day(exchange)
            if exchange.messages[0].id not in stored:
                self._show_said(exchange)
            if exchange.scene == "claim-task":
                await self._claim_task(memory)
            await self._exchange(memory, exchange, stored)
            if exchange.scene == "open-task":
                await self._open_tasks(memory)
            await self.screen.pause(1.2 if exchange.scene else 0.12)

    async def _begin_day(self, exchange: Exchange) -> None:
        if exchange.at.date() != self._day:
            if self._day is not None:
                self.screen.day_ends(self._levels)
            self._day = exchange.at.date()
            self.screen.line()
            self.screen.line((f"{exchange.at:%A} {exchange.at.day} {exchange.at:%B}", "title"))
            await self.screen.pause(0.3)

    def _show_said(self, exchange: Exchange) -> None:
        head = f"  {exchange.at:%H:%M}  {exchange.thread}  "
        self.screen.line((head, "dim"), ("Mira ", "user"), cut_to(exchange.said, WIDTH - len(head) - 5))

    async def _exchange(self, memory: Memory, exchange: Exchange, stored: frozenset[str]) -> None:
        async with memory.thread(exchange.thread, resource=RESOURCE).turn(zone=ZONE) as turn:
            for given, reply in exchange.steps:
                if reply.id in stored:
                    self._add(memory, exchange.thread, given, reply)
                    continue
                self.clock.time = given.created_at or self.clock.time
                context = await turn.prepare(given)
                self._add(memory, exchange.thread, given)
                self._count(exchange.thread, context)
                if reply is exchange.messages[-1]:
                    reply = await self._scene(memory, exchange, context, reply)  # noqa: PLW2901
                self.clock.time = reply.created_at or self.clock.time
                await turn.record(reply)
                self._add(memory, exchange.thread, reply)
                # Wait for background work after each step, so that the output is the same whenever the demo is played.
                await memory.settled()
        await memory.settled()

    def _add(self, memory: Memory, thread: str, *messages: NewMessage) -> None:
        self.said.setdefault(thread, []).extend(messages)
        self._tokens[thread] += sum(count_message(message, memory.counter) for message in messages)

    def _count(self, thread: str, context: Context) -> None:
        text, tokens, whole = context.render_without_edge(), context.tokens, self._tokens[thread]
        at, before, history = self._last.get(thread, (datetime.min.replace(tzinfo=self.clock.time.tzinfo), "", 0))
        is_warm = self.clock.time - at < _WARM
        same = len(os.path.commonprefix([before, text])) / max(1, len(text))  # noqa: RUF071 - characters are meant
        request = Request(
            sent=tokens.total,
            reused=same * (tokens.prefix + tokens.tail) if is_warm else 0,
            whole=whole,
            whole_reused=history if is_warm else 0,
            is_warm=is_warm,
        )
        self._requests.append(request)
        self._last[thread] = (self.clock.time, text, whole)

    # ------------------------------------------------------------ scenes

    async def _scene(self, memory: Memory, exchange: Exchange, context: Context, reply: NewMessage) -> NewMessage:
        """Play the scene of an exchange before its last reply, and return this reply."""
        match exchange.scene:
            case "question":
                await self._ask(memory, exchange.said, context, text_of(reply))
            case "exact-code":
                code = await self._fetch_code(memory)
                answer = AssistantMessage(f"{text_of(reply)}\n\n{_FENCE}sql\n{code}{_FENCE}")
                return replace(reply, parts=answer.parts)
            case "close-task":
                await self._close_task(memory)
            case _:
                pass
        return reply

    async def _open_tasks(self, memory: Memory) -> None:
        tasks = memory.resource(RESOURCE).tasks(session="api", thread="api", who="Mira")
        first = await tasks.create("Stop double bookings", type="bug", priority=1)
        second = await tasks.create("Open reservations to all members", type="feature", blocked_by=[first.handle])
        self._title(f"task {first.handle} opened: {first.title}")
        self._title(f"task {second.handle} opened: {second.title} (waits for {first.handle})")

    async def _claim_task(self, memory: Memory) -> None:
        """Claim the next task. Later messages are linked to this task."""
        if claimed := await memory.resource(RESOURCE).tasks(session="api", thread="api").claim_next():
            self._title(f"task {claimed.task.handle} claimed: what is said now is linked to it")

    async def _close_task(self, memory: Memory) -> None:
        """Close the task with a summary that is drafted from its messages and cites them."""
        await memory.thread("api", resource=RESOURCE).observe()
        tasks = memory.resource(RESOURCE).tasks(session="api", thread="api")
        name = (await tasks.claim("T-1")).task.handle
        draft = await tasks.draft_summary(name, most=7)
        closed = await tasks.close(name, summary=draft.text)
        linked = (await tasks.about(name)).total_messages
        self._title(f"task {name} closed, summary drafted from its {linked} messages:")
        for line in draft.text.splitlines()[1:]:
            marks = "".join(re.findall(r"\[\d+\]", line)[-3:])
            body = re.sub(r"\s*(?:\[\d+\])+$", "", line)
            self.screen.line(_INDENT, f"  {cut_to(body, WIDTH - len(_INDENT) - len(marks) - 3)} ", (marks, "note"))
        spans = [
            f"[{n}] messages {a}–{b}" if a != b else f"[{n}] message {a}"
            for n, (_, a, b) in enumerate(draft.sources, 1)
        ]
        self.screen.line(_INDENT, (f"  {cut_to('sources: ' + ', '.join(spans), WIDTH - len(_INDENT) - 2)}", "note"))
        for ref in closed.unblocked:
            self._title(f"task {ref.handle} is ready now: {ref.title}")
        self._shown["task"] = {
            "handle": name,
            "status": closed.task.status,
            "citations": len(draft.sources),
            "cited_messages": [list(source) for source in draft.sources],
            "linked_messages": linked,
            "unblocked": [ref.handle for ref in closed.unblocked],
            "summary": draft.text,
        }

    async def _ask(self, memory: Memory, asked: str, context: Context, answer: str) -> None:
        """Answer a question from the log: find the line with most words of the question, then its source message."""
        recent = " ".join(message.text for message in context.tail[:-1])
        wanted = _words(asked) - _COMMON
        lines = [line.strip(" *") for line in context.system.splitlines() if line.lstrip().startswith("*")]
        best = max(lines, key=lambda line: len(wanted & _words(line)), default="")
        facts = _FIGURE.findall(answer)
        given = f"{context.tokens.total:,} tokens: the log, and the last {len(context.tail)} messages word for word"
        self.screen.line(_INDENT, f"the model is given {given}")
        self._title("the answer is not in those messages; the log has it:")
        self._quote(best, "log")
        resource = memory.resource(RESOURCE)
        found = await resource.search(best, thread="api", sources=["observation", "reflection"], limit=1)
        (source, *_) = (await resource.recall(found.results[0].id, detail="full")).items
        words = source.pieces[0].text
        self._title(f"and leads back to message {source.seq} of {source.at.day} {source.at:%B}, word for word:")
        self._quote(words, "code")
        self.screen.line(_INDENT, ("answer  ", "good"), cut_to(answer, WIDTH - len(_INDENT) - 8))
        self._shown["question"] = {
            "asked": asked,
            "answer": answer,
            "line": best,
            "message": source.seq,
            "words": words,
            "in_recent_messages": any(fact in recent for fact in facts),
            "answered_from_log": bool(facts) and all(fact in best and fact in words for fact in facts),
        }

    async def _fetch_code(self, memory: Memory) -> str:
        """Search for the code in plain words, recall the message that contains it, and return the code."""
        resource = memory.resource(RESOURCE)
        answer = await resource.search(_CODE_QUERY, thread="api", sources=["raw"], limit=5)
        self._title(f"search  “{_CODE_QUERY}”: {answer.total} hits")
        best, code = next((hit, code) for hit in answer.results if hit.message and (code := _written(hit.message)))
        self._title(f"recall  message {best.seq} of {best.at.day} {best.at:%B}, hit {best.rank}, word for word:")
        for line in filter(str.strip, code.splitlines()):
            self.screen.line(_INDENT, (f"  │ {line}", "code"))
        recalled = (await resource.recall(best.id, detail="full", tokens=1_000)).items[0].pieces[0].text
        exact = [_written(message) for message in self.said["api"] if "EXCLUDE USING gist" in _written(message)]
        self._shown["exact_code"] = {
            "query": _CODE_QUERY,
            "rank": best.rank,
            "message": best.seq,
            "code": code,
            "exact": [code] == exact and json.dumps(code)[1:-1] in recalled,
        }
        return code

    async def _crash(self, number: int) -> dict[str, Any]:
        """Start a process that continues the conversation, and kill it. Return its report and its exit code."""
        await self._begin_day(script()[number])
        killed = await kill_midway(self.address, number)
        for exchange in script()[number:]:
            if exchange.messages[0].id in killed["saved"]:
                self._show_said(exchange)
        first, last = self._spans[killed["run"]] = killed["span"]
        words = f"killed: the process dies (exit code {killed['exit_code']}) while it notes messages {first}–{last}"
        self.screen.line(_INDENT, (words, "crash"))
        await self.screen.pause(1.2)
        return killed

    # ------------------------------------------------------------ results

    async def _prove(self, threads: list[Thread]) -> dict[str, Any]:
        """Compare the stored messages with the script, and count the messages that are in the prompts and behind the logs."""
        same = in_prompt = behind = 0
        for thread in threads:
            said, cursor = self.said[thread.id], (await thread.status()).cursor
            same += sum(
                (row.seq, row.id, row.role, parts_to_json(row.parts))
                == (number, one.id, one.role, parts_to_json(one.parts))
                for number, (row, one) in enumerate(zip(await _live(thread), said, strict=False), start=1)
            )
            shown = (await thread.context()).messages
            in_prompt += len({message.seq for message in shown if message.seq is not None and message.seq > cursor})
            behind += await _behind(thread)
        said_count = sum(map(len, self.said.values()))
        is_whole = said_count == same == in_prompt + behind
        return {"word_for_word": same, "in_prompt": in_prompt, "behind_log": behind, "nothing_lost": is_whole}

    def _summary(self) -> dict[str, Any]:
        messages = [message for thread in self.said.values() for message in thread]
        runs = [event for event in self._events if isinstance(event, RunEnded) and event.run_kind == "observe"]
        made = [event for event in self._events if isinstance(event, GenerationMade)]
        requests = self._requests
        sent, whole = sum(one.sent for one in requests), sum(one.whole for one in requests)
        reused, kept = sum(one.reused for one in requests), sum(one.whole_reused for one in requests)
        longest, with_memory = max((one.whole, one.sent) for one in requests)
        return {
            "database": safe_url(self.address),
            "messages": len(messages),
            "tool_calls": sum(message.role == "tool" for message in messages),
            "days": _days(),
            "threads": len(self.said),
            "requests": len(requests),
            "background_runs": len(runs),
            "lines": sum(event.observations for event in runs),
            "activations": sum(isinstance(event, Activated) for event in self._events),
            "reflections": [
                {"before": event.tokens_before, "after": event.tokens_after}
                for event in made
                if event.generation_kind == "reflection"
            ],
            **{name: self._shown[name] for name in ("crash", "question", "exact_code", "task")},
            "tokens": {
                "without_memory": whole,
                "with_memory": sent,
                "saved": round(1 - sent / whole, 3),
                "longest_request": {"without_memory": longest, "with_memory": with_memory},
            },
            "prompt_cache_reuse": round(reused / sent, 3),
            "prompt_cache_reuse_warm": round(reused / sum(one.sent for one in requests if one.is_warm), 3),
            "cost": {
                "without_memory": _cost(whole, kept),
                "with_memory": _cost(sent, reused),
                "price_per_million": _PRICE,
                "cached_price_per_million": _CACHED_PRICE,
            },
        }


async def _refuse_used(memory: Memory) -> None:
    """Raise if the database has messages already, because they would be counted as part of the demo."""
    if (await memory.resource(RESOURCE).threads(limit=1)).items:
        raise InputError(
            f"{safe_url(memory.address)} has conversations of “{RESOURCE}” already.",
            why="The demo checks that the database contains only the messages of the demo.",
            then="Pass --db with a new file, or omit it.",
        )


async def _live(thread: Thread) -> list[Message]:
    return [message for message in (await thread.messages(limit=_ALL)).items if message.state == "live"]


async def _behind(thread: Thread) -> int:
    """Return the number of messages that the log covers.

    Return 0 if the spans of its groups have gaps or overlap, or do not end at the cursor.
    """
    status = await thread.status()
    spans: set[tuple[int, int]] = set()
    for generation in range(status.generation + 1):
        # Groups that a reflection covers are in the log of the generation before it.
        groups = await thread.groups(generation=generation)
        spans |= {(group.span.first, group.span.last) for group in groups if group.span is not None}
    end = 0
    for first, last in sorted(spans):
        if first != end + 1:
            return 0
        end = last
    return end if end == status.cursor else 0


def _days() -> int:
    return len({exchange.at.date() for exchange in script()})


def _words(text: str) -> set[str]:
    return {word.lower().removesuffix("s") for word in _WORD.findall(text)}


def _written(message: Message | NewMessage) -> str:
    """Return the content of the file that a tool call wrote. Return an empty text if there is none."""
    calls = (part.arguments for part in message.parts if isinstance(part, ToolCallPart))
    given = (cast("Mapping[str, object]", arguments) for arguments in calls if isinstance(arguments, Mapping))
    return next((str(arguments["content"]) for arguments in given if "content" in arguments), "")


def _cost(sent: int, reused: float) -> float:
    return round(((sent - reused) * _PRICE + reused * _CACHED_PRICE) / 1_000_000, 4)


def _commands(address: str) -> list[str]:
    """Return commands to try next, without the password of the address."""
    program, place = _program(), shlex.quote(safe_url(address))
    lines = ("log --thread api", 'search "late fee"', "context --thread api", "ui")
    return [f"{program} {line} --db {place}" for line in lines]


def _program() -> str:
    """Return the name of the command, or its path if the shell does not find it."""
    beside = Path(sys.executable).parent / "memolog"
    if shutil.which("memolog") or not beside.exists():
        return "memolog"
    here = Path.cwd()
    return shlex.quote(str(beside.relative_to(here) if beside.is_relative_to(here) else beside))


def went_well(result: Mapping[str, Any]) -> bool:
    """Return whether every scene succeeded and nothing was lost."""
    crash, question, task = result["crash"], result["question"], result["task"]
    is_recovered = crash["recovered"] and crash["there_after"] == crash["saved_before"]
    is_answered = question["answered_from_log"] and not question["in_recent_messages"]
    is_closed = task["status"] == "closed" and task["citations"]
    is_exact, is_whole = result["exact_code"]["exact"], result["nothing_lost"]
    return bool(result["reflections"] and is_recovered and is_answered and is_exact and is_closed and is_whole)


def show(result: Mapping[str, Any], screen: Screen) -> None:
    """Print the numbers, and commands to try next."""
    tokens, cost = result["tokens"], result["cost"]
    sent, whole, longest = tokens["with_memory"], tokens["without_memory"], tokens["longest_request"]
    reuse, warm = result["prompt_cache_reuse"], result["prompt_cache_reuse_warm"]
    rows = (
        ("memory", f"{result['lines']} lines written, {result['activations']} times into the log,"),
        ("", f"condensed {len(result['reflections'])} times, by the embedded observer, for nothing"),
        (
            "tokens",
            f"{whole:,} without memory, {sent:,} with it: {tokens['saved']:.0%} less in {result['requests']} requests",
        ),
        (
            "longest",
            f"the longest request: {longest['without_memory']:,} tokens without memory, {longest['with_memory']:,} with it",
        ),
        ("cache", f"{reuse:.0%} of what was sent came from the prompt cache; {warm:.0%} where it was warm"),
        (
            "cost",
            f"${cost['without_memory']:.2f} without memory, ${cost['with_memory']:.2f} with it, at a sample price:",
        ),
        ("", f"${_PRICE:.2f} a million tokens, ${_CACHED_PRICE:.2f} if they are cached"),
    )
    screen.line()
    screen.line(("What it came to", "title"))
    for name, text in rows:
        screen.line((f"  {name:<9}", "dim"), text)
    mark = ("nothing lost", "good") if result["nothing_lost"] else ("SOMETHING IS MISSING", "crash")
    found = f": {result['word_for_word']} of {result['messages']} messages are there word for word,"
    screen.line(("  checked  ", "dim"), mark, found)
    places = f"{result['in_prompt']} in the prompts, {result['behind_log']} behind the lines of the logs"
    screen.line("           ", places)
    screen.line()
    screen.line(("The database is yours to explore:", "title"))
    for command in result["next"]:
        screen.line(f"  {command}")


# ---------------------------------------------------------------- the process that is killed


async def kill_midway(address: str, number: int) -> dict[str, Any]:
    """Start a process that plays from an exchange on, and kill it when it observes. Return its report and exit code."""
    command = (sys.executable, "-m", "memolog.apps.demo.play", str(number))
    # The address of the database may contain a password. It is passed in a variable, because every user of the machine can see
    # the arguments of a process.
    environment = {**os.environ, "MEMOLOG_DB": address}
    process = await asyncio.create_subprocess_exec(*command, env=environment, stdin=PIPE, stdout=PIPE, stderr=DEVNULL)
    report = await process.stdout.readline() if process.stdout else b""
    if report:
        process.kill()
    code = await process.wait()
    if not report:
        raise MemologError(
            "The process ended before it could be killed.",
            why=f"Its exit code is {code}.",
            then="Run the demo again with a new --db.",
        )
    return {**json.loads(report), "exit_code": code}


async def _be_killed(address: str, number: int) -> None:
    demo = Demo(address, Screen(quiet=True))

    def hear(event: Event) -> None:
        if isinstance(event, RunStarted) and event.first_seq is not None:
            saved = [message.id for thread in demo.said.values() for message in thread]
            print(json.dumps({"run": event.run, "span": [event.first_seq, event.last_seq], "saved": saved}), flush=True)
            # The run is claimed but not finished. Wait here until the process is killed.
            sys.stdin.read()

    async with demo.open("victim") as memory:
        memory.subscribe(hear)
        await demo.exchanges(memory, script()[number:])


if __name__ == "__main__":
    asyncio.run(_be_killed(os.environ["MEMOLOG_DB"], int(sys.argv[1])))
