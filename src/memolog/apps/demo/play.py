"""Play the demo: the conversation, its scenes, the crash, the proof that nothing was lost, and the summary."""

import re
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from functools import partial
from pathlib import Path
from textwrap import wrap
from typing import Final, cast

from memolog import Context
from memolog.apps.demo.crash import Killed, kill_midway
from memolog.apps.demo.screen import WIDTH, Level, Screen, cut_to
from memolog.apps.demo.script import (
    CACHED_PRICE,
    CONFIG,
    PRICE,
    RESOURCE,
    THREADS,
    Exchange,
    Played,
    Step,
    open_memory,
    play_exchange,
    script,
)
from memolog.core.message import AssistantMessage, Message, NewMessage, ToolCallPart, parts_to_json
from memolog.db.postgres_address import safe_url
from memolog.errors import InputError
from memolog.events import Activated, Event, GenerationMade, Recovered, RunEnded, RunStarted, Windows
from memolog.memory import Memory, Thread
from memolog.testing import FakeClock


@dataclass(slots=True)
class Happened:
    """Counts of what the memory did."""

    observed: int = 0
    """Number of background observations."""
    lines: int = 0
    activations: int = 0
    reflections: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    """Tokens of the log before and after each reflection."""
    recovered: list[str] = field(default_factory=list[str])


@dataclass(slots=True)
class Narrator:
    """Shows and counts the events of a memory."""

    screen: Screen
    happened: Happened = field(default_factory=Happened)
    spans: dict[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])
    """Messages of each run."""
    covered: dict[str, int] = field(default_factory=dict[str, int])
    """Last message of each thread that its log covers."""
    levels: dict[str, Level] = field(default_factory=dict[str, Level])

    def hear(self, event: Event) -> None:
        """Count an event, and show it if it matters to a newcomer."""
        match event:
            case RunStarted(first_seq=int(first), last_seq=int(last)):
                self.spans[event.run] = (first, last)
            case RunEnded(run_kind="observe"):
                self._observed(event)
            case Activated():
                self._activated(event)
            case GenerationMade(generation_kind="reflection"):
                self._reflected(event)
            case Recovered():
                self.happened.recovered.append(event.run)
                first, last = self.spans.get(event.run, (0, 0))
                self._tell("crash", event, f"a new process takes over messages {first}–{last}")
            case Windows(thread=str(thread)):
                self.levels[thread] = Level(
                    messages=event.message_tokens,
                    messages_limit=event.message_limit,
                    log=event.observation_tokens,
                    log_limit=event.observation_limit,
                )
                self.screen.levels(self.levels)
            case _:
                pass

    def _observed(self, event: RunEnded) -> None:
        self.happened.observed += 1
        self.happened.lines += event.observations
        first, last = self.spans.get(event.run, (0, 0))
        lines = f"{event.observations} line{'' if event.observations == 1 else 's'}"
        self._tell("note", event, f"in the background: messages {first}–{last} → {lines}, kept aside")

    def _activated(self, event: Activated) -> None:
        self.happened.activations += 1
        first = self.covered.get(event.thread or "", 0) + 1
        self.covered[event.thread or ""] = event.last_seq
        text = (
            f"into the log: messages {first}–{event.last_seq} leave the prompt, {event.tokens:,} tokens stand for them"
        )
        self._tell("log", event, text)

    def _reflected(self, event: GenerationMade) -> None:
        self.happened.reflections.append((event.tokens_before, event.tokens_after))
        self._tell("fold", event, f"log condensed: {event.tokens_before:,} → {event.tokens_after:,} tokens")

    def _tell(self, style: str, event: Event, text: str) -> None:
        self.screen.line(_IN, (f"· {event.thread} {text}", style))


_ALL = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """Counts that show that nothing was lost."""

    said: int
    word_for_word: int
    """Number of messages that are stored once, in order, with equal content."""
    in_prompt: int
    behind_log: int
    """Number of messages that the log covers."""

    @property
    def holds(self) -> bool:
        """Return whether nothing was lost."""
        return self.said == self.word_for_word == self.in_prompt + self.behind_log


async def prove(memory: Memory, said: Mapping[str, Sequence[NewMessage]]) -> Proof:
    """Read everything back and compare it with the script."""
    count = same = in_prompt = behind = 0
    for name, messages in said.items():
        thread = memory.thread(name, resource=RESOURCE)
        rows = await _live(thread)
        count += len(messages)
        same += sum(
            (row.seq, row.id, row.role, parts_to_json(row.parts))
            == (number, one.id, one.role, parts_to_json(one.parts))
            for number, (row, one) in enumerate(zip(rows, messages, strict=False), start=1)
        )
        cursor, shown = (await thread.status()).cursor, (await thread.context()).messages
        in_prompt += len({message.seq for message in shown if message.seq is not None and message.seq > cursor})
        behind += await _behind(thread)
    return Proof(said=count, word_for_word=same, in_prompt=in_prompt, behind_log=behind)


async def _live(thread: Thread) -> list[Message]:
    return [message for message in (await thread.messages(limit=_ALL)).items if message.state == "live"]


async def _behind(thread: Thread) -> int:
    """Return how many messages the log covers; 0 if its spans have a gap, overlap or end elsewhere."""
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


CODE_QUERY: Final = "constraint that refuses overlapping reservations"
_IN: Final = "             "
_WORD: Final = re.compile(r"[^\W_]{3,}")
_FIGURE: Final = re.compile(r"(?<!\d)\d++ (?:cents|euros)")
_COMMON: Final = frozenset({"the", "and", "last", "what", "how", "much", "about", "most", "sprint", "member", "argue"})
_FENCE: Final = "```"


@dataclass(slots=True)
class Shown:
    """Results of the scenes."""

    task: dict[str, object] = field(default_factory=dict[str, object])
    question: dict[str, object] = field(default_factory=dict[str, object])
    code: dict[str, object] = field(default_factory=dict[str, object])


# ---------------------------------------------------------------- a task


async def open_tasks(memory: Memory, screen: Screen) -> None:
    """Create the two tasks of the conversation."""
    tasks = memory.resource(RESOURCE).tasks(session="api", thread="api", who="Mira")
    first = await tasks.create("Stop double bookings", type="bug", priority=1)
    second = await tasks.create("Open reservations to all members", type="feature", blocked_by=[first.handle])
    screen.line(_IN, (f"task {first.handle} opened: {first.title}", "title"))
    screen.line(_IN, (f"task {second.handle} opened: {second.title} (waits for {first.handle})", "title"))


async def start_task(memory: Memory, screen: Screen) -> None:
    """Claim the next task; later messages are linked to it."""
    claimed = await memory.resource(RESOURCE).tasks(session="api", thread="api").claim_next()
    if claimed:
        screen.line(_IN, (f"task {claimed.task.handle} claimed: what is said now is linked to it", "title"))


async def close_task(memory: Memory, screen: Screen, shown: Shown, _context: Context, step: Step) -> NewMessage:
    """Close the task with a drafted summary that cites its sources."""
    await memory.thread("api", resource=RESOURCE).observe()
    tasks = memory.resource(RESOURCE).tasks(session="api", thread="api")
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
    """Answer from the log: find the line that shares most words with the question, then its source message."""
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
    found = await memory.resource(RESOURCE).search(best, thread="api", sources=["observation", "reflection"], limit=1)
    page = await memory.resource(RESOURCE).recall(found.results[0].id, detail="full") if found.results else None
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
    """Search for the code in plain words, and recall the message that contains it."""
    answer = await memory.resource(RESOURCE).search(CODE_QUERY, thread="api", sources=["raw"], limit=5)
    screen.line(_IN, (f"search  “{CODE_QUERY}”: {answer.total} hits", "title"))
    best = next((hit for hit in answer.results if hit.message and _written(hit.message.parts)), None)
    written = _written(best.message.parts) if best and best.message else ""
    page = await memory.resource(RESOURCE).recall(best.id, detail="full", tokens=1_000) if best else None
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
    """Return the content that a tool call wrote, if any."""
    for part in parts:
        arguments = part.arguments if isinstance(part, ToolCallPart) else None
        if isinstance(arguments, Mapping) and (content := cast("Mapping[str, object]", arguments).get("content")):
            return str(content)
    return ""


def _escaped(text: str) -> str:
    """Return a text as it is escaped in JSON."""
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


@dataclass(slots=True)
class Demo:
    """One run of the demo on one database."""

    address: str
    screen: Screen
    clock: FakeClock = field(default_factory=FakeClock)
    played: Played = field(default_factory=Played)
    shown: Shown = field(default_factory=Shown)
    killed: Killed | None = None
    survived: int = 0
    """How many messages of the killed process were found afterwards."""
    proof: Proof | None = None
    narrator: Narrator = field(init=False)

    def __post_init__(self) -> None:
        self.narrator = Narrator(self.screen)

    async def play(self) -> None:
        """Play everything; the results are in the fields."""
        exchanges = script()
        crash = next(number for number, exchange in enumerate(exchanges) if exchange.scene == "crash")
        self._introduce(exchanges)
        async with self._open("first") as memory:
            await _refuse_used(memory)
            await self._days(memory, exchanges[:crash], frozenset())
        stored = await self._crash(exchanges, crash)
        async with self._open("second") as memory:
            memory_has = await _stored(memory)
            self.survived = len(memory_has & set(stored))
            there = f"{self.survived} of {len(stored)} messages that it had saved are there"
            self.screen.line(_IN, (f"restarted: {there}", "good"))
            for thread in THREADS:
                self.narrator.covered[thread] = (await memory.thread(thread, resource=RESOURCE).status()).cursor
            await self._days(memory, exchanges[crash:], memory_has, crash)
            self.proof = await prove(memory, self.played.said)
        await self.screen.pause(0.5)

    def _open(self, name: str) -> Memory:
        memory = open_memory(self.address, self.clock, name)
        memory.subscribe(self.narrator.hear)
        return memory

    def _introduce(self, exchanges: tuple[Exchange, ...]) -> None:
        line = self.screen.line
        count = sum(2 * len(exchange.steps) for exchange in exchanges)
        days = len({exchange.at.date() for exchange in exchanges})
        line(("Memolog: a long memory for AI agents", "title"))
        line()
        line(
            f"Mira and her assistant build Toolshed, a tool library: {days} days, {len(THREADS)} conversations, {count} messages."
        )
        line("What they say is scripted. What the memory does with it is real, and needs no key and no network.")
        line(
            f"So that everything happens soon, windows are small: {CONFIG.threshold:,} tokens of messages (usually 30,000)"
        )
        line(f"and {CONFIG.reflect_at:,} tokens of log (usually 40,000).")

    # ------------------------------------------------------------ days

    async def _days(
        self, memory: Memory, exchanges: tuple[Exchange, ...], stored: frozenset[str], number: int = 0
    ) -> None:
        day: date | None = exchanges[0].at.date() if number else None
        for exchange in exchanges:
            if exchange.at.date() != day:
                if day is not None:
                    self.screen.day_ends(self.narrator.levels)
                day = exchange.at.date()
                await self._day(exchange)
            if exchange.steps[0].given.id not in stored:
                self._said(exchange)
            await self._exchange(memory, exchange, stored)
            await self.screen.pause(0.12)
        if exchanges[-1].scene != "crash" and stored:
            self.screen.day_ends(self.narrator.levels)

    async def _day(self, exchange: Exchange) -> None:
        self.screen.line()
        self.screen.line((f"{exchange.at:%A} {exchange.at.day} {exchange.at:%B}", "title"))
        await self.screen.pause(0.3)

    def _said(self, exchange: Exchange) -> None:
        head = f"  {exchange.at:%H:%M}  {exchange.thread}  "
        self.screen.line((head, "dim"), ("Mira ", "user"), cut_to(exchange.said, WIDTH - len(head) - 5))

    async def _exchange(self, memory: Memory, exchange: Exchange, stored: frozenset[str]) -> None:
        play = partial(play_exchange, memory, self.clock, exchange, self.played, stored=stored)
        match exchange.scene:
            case "question":
                await play(answer=partial(ask, memory, exchange, self.screen, self.shown))
            case "exact-code":
                await play(answer=partial(self._code, memory))
            case "claim-task":
                await start_task(memory, self.screen)
                await play()
            case "open-task":
                await play()
                await open_tasks(memory, self.screen)
            case "close-task":
                await play(answer=partial(close_task, memory, self.screen, self.shown))
            case _:
                await play()
        if exchange.scene:
            await self.screen.pause(1.2)

    async def _code(self, memory: Memory, _context: Context, step: Step) -> NewMessage:
        return await fetch_code(memory, step, self.played.said["api"], self.screen, self.shown)

    # ------------------------------------------------------------ the crash

    async def _crash(self, exchanges: tuple[Exchange, ...], number: int) -> tuple[str, ...]:
        """Let another process play on until it is killed; returns the ids that it stored."""
        self.screen.day_ends(self.narrator.levels)
        await self._day(exchanges[number])
        killed = self.killed = await kill_midway(self.address, number)
        for exchange in exchanges[number:]:
            if exchange.steps[0].given.id in killed.saved:
                self._said(exchange)
        first, last = killed.span
        self.narrator.spans[killed.run] = killed.span
        self.screen.line(
            _IN,
            (
                f"killed: the process dies (exit code {killed.exit_code}) while it notes messages {first}–{last}",
                "crash",
            ),
        )
        await self.screen.pause(1.2)
        return killed.saved


async def _stored(memory: Memory) -> frozenset[str]:
    found = [await _live(memory.thread(thread, resource=RESOURCE)) for thread in THREADS]
    return frozenset(message.id for rows in found for message in rows)


async def _refuse_used(memory: Memory) -> None:
    """Refuse a database that has messages already: they would be counted as part of the demo."""
    if (await memory.resource(RESOURCE).threads(limit=1)).items:
        raise InputError(
            f"{safe_url(memory.address)} has conversations of “{RESOURCE}” already.",
            why="The demo checks that the database holds exactly its own messages.",
            then="Pass --db with a new file, or omit it.",
        )


def summary(demo: Demo) -> dict[str, object]:
    """Return the results as JSON values."""
    exchanges, happened, tally, proof = script(), demo.narrator.happened, demo.played.tally, demo.proof
    said = demo.played.said
    with_memory, without = tally.with_memory, tally.without
    killed = demo.killed
    return {
        "database": safe_url(demo.address),
        "messages": sum(map(len, said.values())),
        "tool_calls": sum(message.role == "tool" for messages in said.values() for message in messages),
        "days": len({exchange.at.date() for exchange in exchanges}),
        "threads": len(said),
        "requests": tally.requests,
        "background_runs": happened.observed,
        "lines": happened.lines,
        "activations": happened.activations,
        "reflections": [{"before": before, "after": after} for before, after in happened.reflections],
        "crash": {
            "exit_code": killed.exit_code if killed else None,
            "saved_before": len(killed.saved) if killed else 0,
            "there_after": demo.survived,
            "recovered": killed is not None and killed.run in happened.recovered,
        },
        "question": demo.shown.question,
        "exact_code": demo.shown.code,
        "task": demo.shown.task,
        "tokens": {
            "without_memory": without.sent,
            "with_memory": with_memory.sent,
            "saved": round(1 - with_memory.sent / max(1, without.sent), 3),
            "longest_request": {"without_memory": tally.largest[0], "with_memory": tally.largest[1]},
        },
        "prompt_cache_reuse": round(with_memory.reused / max(1, with_memory.sent), 3),
        "prompt_cache_reuse_warm": round(with_memory.reused / max(1, tally.warm_sent), 3),
        "cost": {
            "without_memory": round(without.cost, 4),
            "with_memory": round(with_memory.cost, 4),
            "price_per_million": PRICE,
            "cached_price_per_million": CACHED_PRICE,
        },
        "word_for_word": proof.word_for_word if proof else 0,
        "in_prompt": proof.in_prompt if proof else 0,
        "behind_log": proof.behind_log if proof else 0,
        "nothing_lost": proof is not None and proof.holds,
        "next": commands(demo.address),
    }


def went_well(demo: Demo) -> bool:
    """Return whether every scene succeeded and nothing was lost."""
    happened, shown, killed, proof = demo.narrator.happened, demo.shown, demo.killed, demo.proof
    is_recovered = killed is not None and killed.run in happened.recovered and demo.survived == len(killed.saved)
    is_answered = shown.question.get("answered_from_log") and not shown.question.get("in_recent_messages")
    is_closed = shown.task.get("status") == "closed" and shown.task.get("citations")
    is_whole = proof is not None and proof.holds
    return bool(
        happened.reflections and is_recovered and is_answered and shown.code.get("exact") and is_closed and is_whole
    )


def commands(address: str) -> list[str]:
    """Return commands to try next, without the password of the address."""
    program, place = _program(), shlex.quote(safe_url(address))
    return [
        f"{program} log --thread api --db {place}",
        f'{program} search "late fee" --db {place}',
        f"{program} context --thread api --db {place}",
    ]


def _program() -> str:
    """Return the name of the command, or its path if the shell does not find it."""
    beside = Path(sys.executable).parent / "memolog"
    if shutil.which("memolog") or not beside.exists():
        return "memolog"
    here = Path.cwd()
    return shlex.quote(str(beside.relative_to(here) if beside.is_relative_to(here) else beside))


def show(demo: Demo, screen: Screen) -> None:
    """Show the figures, and what to try next."""
    tally, happened, proof = demo.played.tally, demo.narrator.happened, demo.proof
    sent, whole = tally.with_memory, tally.without
    less = 1 - sent.sent / max(1, whole.sent)
    reuse, warm = sent.reused / max(1, sent.sent), sent.reused / max(1, tally.warm_sent)
    screen.line()
    screen.line(("What it came to", "title"))
    rows = (
        ("memory", f"{happened.lines} lines written, {happened.activations} times into the log,"),
        ("", f"condensed {len(happened.reflections)} times, by the embedded observer, for nothing"),
        (
            "tokens",
            f"{whole.sent:,} without memory, {sent.sent:,} with it: {less:.0%} less in {tally.requests} requests",
        ),
        ("longest", f"the longest request: {tally.largest[0]:,} tokens without memory, {tally.largest[1]:,} with it"),
        ("cache", f"{reuse:.0%} of what was sent came from the prompt cache; {warm:.0%} where it was warm"),
        ("cost", f"${whole.cost:.2f} without memory, ${sent.cost:.2f} with it, at a sample price:"),
        ("", f"${PRICE:.2f} a million tokens, ${CACHED_PRICE:.2f} if they are cached"),
    )
    for name, text in rows:
        screen.line((f"  {name:<9}", "dim"), text)
    if proof:
        mark = "nothing lost" if proof.holds else "SOMETHING IS MISSING"
        screen.line(
            ("  checked  ", "dim"),
            (mark, "good" if proof.holds else "crash"),
            f": {proof.word_for_word} of {proof.said} messages are there word for word,",
        )
        screen.line("           ", f"{proof.in_prompt} in the prompts, {proof.behind_log} behind the lines of the logs")
    screen.line()
    screen.line(("The database is yours to explore:", "title"))
    for command in commands(demo.address):
        screen.line(f"  {command}")
