"""Measure how much important content of real conversations is in the log of the embedded observer.

Every conversation is held with the default settings: turns on a SQLite file, background runs and activation. The rest is observed
at the end. Then the whole log is condensed to half by a reflection. Speed is the speed of the observer alone. The definitions are
those of the README of the data, and the text that a prefix would show is measured. The data is not part of the project; without
it, the benchmark says so and ends with exit code 0. The last line is one JSON object.
"""

import argparse
import asyncio
import gzip
import json
import re
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

from memolog.context.tail import closed_cuts
from memolog.core.config import Config, ReflectionConfig
from memolog.core.message import Message, NewMessage, Part, ReasoningPart, Role, TextPart, ToolCallPart, ToolResultPart
from memolog.core.observation import Observation
from memolog.core.setting_kinds import KeepRecent
from memolog.memory import Memory
from memolog.observer.extractive.observer import observe
from memolog.observer.prompt import ObserveInput
from memolog.testing import FakeClock
from memolog.text.message_tokens import count_parts
from memolog.text.tokens import HeuristicCounter
from table import table

CHAT = "longmemeval_oracle_dev.json.gz"
CODING = "coding_sessions_dev.json.gz"
SPAN_TOKENS = 6_000
COUNTER = HeuristicCounter()

STOP = frozenset(
    """
    a about above after again against all also am an and any are aren't as at be because been before being below between both
    but by can can't cannot could couldn't did didn't do does doesn't doing don't down during each few for from further had
    hadn't has hasn't have haven't having he her here hers herself him himself his how i i'd i'll i'm i've if in into is isn't
    it it's its itself just let's me more most my myself no nor not now of off on once only or other our ours ourselves out
    over own same she should shouldn't so some such than that that's the their theirs them themselves then there there's
    these they they're this those through to too under until up very was wasn't we we'd we'll we're we've were weren't what
    what's when where which while who whom why will with won't would wouldn't you you'd you'll you're you've your yours
    yourself
    """.replace("'", "").split()
)


# ---------------------------------------------------------------- words, as the README of the data defines them


def bare(word: str) -> str:
    """Return a word in lower case without punctuation."""
    return re.sub(r"[\W_]", "", word).lower()


def words(text: str) -> set[str]:
    """Return the words of a text."""
    return {word for token in text.split() if (word := bare(token))}


def entities(text: str) -> set[str]:
    """Return the words that contain a digit or are capitalised inside a sentence."""
    found: set[str] = set()
    for sentence in re.split(r"(?<=[.!?:])\s+|\n", text):
        for place, token in enumerate(sentence.split()):
            letters = token.lstrip("\"'“‘(*[`_")
            if any(map(str.isdigit, token)) or (place and letters[:1].isupper() and bare(token) not in STOP):
                found.add(bare(token))
    return found - {""}


def share(wanted: set[str], kept: set[str]) -> float | None:
    """Return how many of the wanted words are present, in percent. None if no word is wanted."""
    return 100 * len(wanted & kept) / len(wanted) if wanted else None


def mean(values: Iterable[float | None]) -> float:
    """Return the mean of the values that are not None."""
    found = [value for value in values if value is not None]
    return sum(found) / len(found) if found else float("nan")


# ---------------------------------------------------------------- the pipeline


@dataclass
class Kept:
    """The log of some messages, before and after a reflection."""

    raw: int = 0
    text: str = ""
    reflected: str = ""
    lost: list[str] = field(default_factory=list[str])
    seconds: float = 0.0
    observed: int = 0
    activations: int = 0

    def add(self, other: "Kept") -> None:
        """Add the values of another conversation."""
        self.raw += other.raw
        self.text += other.text
        self.reflected += other.reflected
        self.lost += other.lost
        self.seconds += other.seconds
        self.observed += other.observed
        self.activations += other.activations


def plain(text: str) -> str:
    """Return rendered text with its entities replaced by characters."""
    return text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")


class Pipeline:
    """Two memories on one file: one holds the conversations with the default settings, the other condenses their logs to half."""

    def __init__(self, path: Path) -> None:
        self.clock = FakeClock()
        everything = KeepRecent(hours=0, observations=0)
        self.memory = Memory(path, clock=self.clock)
        self.condensing = Memory(
            path, clock=self.clock, config=Config(reflection=ReflectionConfig(keep_recent=everything))
        )

    async def aclose(self) -> None:
        """Close both."""
        await self.memory.aclose()
        await self.condensing.aclose()

    async def keep(self, messages: Sequence[Message], resource: str, thread: str) -> Kept:
        """Return the log of a conversation, before and after a reflection to half its size."""
        kept = Kept(raw=sum(len(text_of(message)) for message in messages))
        kept.seconds, kept.observed = observing_speed(messages)
        await self._live(messages, resource, thread)
        await self.memory.thread(thread, resource=resource).finalize()
        kept.text, lines = await self._log(self.memory, resource, thread)
        if not lines:
            return kept
        events = await (await self.memory.open()).store.journal.events(resource, thread=thread, limit=100_000)
        kept.activations = sum(event.kind == "Activated" for event in events)
        await self.condensing.thread(thread, resource=resource).reflect()
        kept.reflected, after = await self._log(self.condensing, resource, thread)
        # Names for which the list of names had no space are stored in its metadata. Search finds them.
        traced = kept.reflected + " ".join(str(line.metadata.get("dropped_identifiers", "")) for line in after)
        before = {name for line in lines for name in names(line.text) if name}
        kept.lost = sorted(name for name in before if name not in traced)
        return kept

    async def _live(self, messages: Sequence[Message], resource: str, thread: str) -> None:
        """Hold the conversation turn by turn. A turn begins with a user message."""
        starts = [place for place, row in enumerate(messages) if row.role == "user" or place == 0]
        for start, end in zip(starts, [*starts[1:], len(messages)], strict=True):
            async with self.memory.thread(thread, resource=resource).turn() as turn:
                for row in messages[start:end]:
                    self.clock.time = row.created_at
                    said = NewMessage(role=row.role, parts=row.parts)
                    if row.role == "assistant":
                        await turn.record(said)
                    else:
                        await turn.prepare(said)
                    await self.memory.settled()

    async def _log(self, memory: Memory, resource: str, thread: str) -> tuple[str, tuple[Observation, ...]]:
        """Return the log as a prefix shows it, and its observations."""
        store = (await memory.open()).store
        snapshot = await store.logs.snapshot(resource, thread, "thread")
        lines = await store.logs.observations(
            snapshot.resource, snapshot.log.pk, [group.id for group in snapshot.groups]
        )
        text = "".join(f"{plain(group.text)}\n" for group in snapshot.groups if group.text)
        return text, tuple(line for line in lines if line.state == "active")


def observing_speed(messages: Sequence[Message]) -> tuple[float, int]:
    """Return the processor time in seconds of the observer for some messages, and the size of the messages in bytes."""
    start = time.process_time()
    for span in spans(messages):
        observe(ObserveInput(messages=span))
    return time.process_time() - start, sum(len(text_of(row).encode("utf-8", "replace")) for row in messages)


def spans(messages: Sequence[Message]) -> Iterator[tuple[Message, ...]]:
    """Yield consecutive spans of about 6,000 tokens. No span ends between a tool call and its result."""
    cuts = [cut for cut in closed_cuts(messages) if 0 < cut < len(messages)]
    start = 0
    for cut, after in zip(cuts, [*cuts[1:], len(messages)], strict=True):
        if sum(row.tokens for row in messages[start:after]) > SPAN_TOKENS:
            yield tuple(messages[start:cut])
            start = cut
    yield tuple(messages[start:])


NAMES = re.compile(
    r"[\w.@~+-]*(?:/[\w.@~+-]+)+|\b\w+\.[a-z]\w{1,4}\b|\b[a-z]+[A-Z]\w*|\b\w*[a-z]\w*_\w+|\b[A-Z][a-z]+[A-Z]\w+"
    r"|\b\d+(?:[.:,-]\d+)*\b"
)


def names(text: str) -> set[str]:
    """Return the identifiers of a text: paths, symbols and numbers."""
    return {hit.strip(".,-:+~") for hit in NAMES.findall(re.sub(r"\(meaning [^)]*\)", "", text))}


def text_of(message: Message) -> str:
    """Return the text of all parts of a message."""
    pieces: list[str] = []
    for part in message.parts:
        match part:
            case TextPart() | ReasoningPart():
                pieces.append(part.text)
            case ToolCallPart():
                pieces.append(part.arguments if isinstance(part.arguments, str) else json.dumps(part.arguments))
            case ToolResultPart():
                pieces.append(part.content if isinstance(part.content, str) else json.dumps(part.content))
            case _:
                pass
    return "\n".join(pieces)


def message(seq: int, role: Role, parts: tuple[Part, ...], at: datetime) -> Message:
    """Return a stored message."""
    tokens = count_parts(role, parts, COUNTER)
    return Message(
        id=f"m{seq}", resource="bench", thread="t", seq=seq, role=role, parts=parts, created_at=at, tokens=tokens
    )


# ---------------------------------------------------------------- chat


def chat_messages(session: list[dict[str, Any]], when: str) -> list[Message]:
    """Return one session of the chat data."""
    at = datetime.strptime(re.sub(r" \(\w+\)", "", when), "%Y/%m/%d %H:%M").replace(tzinfo=UTC)
    return [
        message(seq, cast("Role", turn["role"]), (TextPart(text=turn["content"]),), at)
        for seq, turn in enumerate(session, 1)
    ]


async def chat(questions: Sequence[dict[str, Any]], pipeline: Pipeline) -> tuple[dict[str, float], Kept]:
    """Measure the chat data."""
    rows: list[tuple[float | None, ...]] = []
    total = Kept()
    for question in questions:
        kept = Kept()
        turns = [turn for session in question["haystack_sessions"] for turn in session]
        for number, (session, when) in enumerate(
            zip(question["haystack_sessions"], question["haystack_dates"], strict=True)
        ):
            kept.add(await pipeline.keep(chat_messages(session, when), question["question_id"], f"session-{number}"))
        gold = "\n".join(turn["content"] for turn in turns if turn.get("has_answer"))
        wanted, content, there = entities(gold), words(gold) - STOP, words(kept.text)
        answer: float | None = None
        if question["question_type"] == "single-session-assistant":
            said = words("\n".join(turn["content"] for turn in turns))
            answer = share((words(str(question["answer"])) - STOP) & said, there)
        rows.append((share(wanted, there), share(content, there), answer, share(wanted, words(kept.reflected))))
        total.add(kept)
    columns = list(zip(*rows, strict=True))
    found = {
        "questions": len(rows),
        "ratio": total.raw / len(total.text),
        "entities_kept": mean(columns[0]),
        "words_kept": mean(columns[1]),
        "assistant_answer_words_kept": mean(columns[2]),
        "reflected_share": len(total.reflected) / len(total.text),
        "reflected_entities_kept": mean(columns[3]),
        "reflected_identifiers_lost": len(total.lost),
        "activations": total.activations,
    }
    return found, total


# ---------------------------------------------------------------- coding

EDITS = re.compile(r"edit|write|create|patch", re.IGNORECASE)
CHANGED = re.compile(
    r"[Ff]ile (?:created successfully at: )?(/?[\w./@+-]+\.\w+) has been (?:updated|created|written)"
    r"|created successfully at: (\S+)"
)
FAILED = re.compile(r"\A\s*(?:```\w*\n)?\s*(?:Exit code [1-9]|<tool_use_error>|Error\b)")
ERROR_LINE = re.compile(
    r"^[^\n]*(?:error|exception|fail|panic|undefined|cannot|not found|no such)[^\n]*$", re.MULTILINE | re.IGNORECASE
)

PRINTED = re.compile(
    r"^(?:--- FAIL[^\n]*|FAIL\b[^\n]*|panic: [^\n]*|fatal: [^\n]*|[Ee]rror: [^\n]*|ERROR[^\n]*"
    r"|[\w./-]+\.go:\d+:\d+: [^\n]*)$",
    re.MULTILINE,
)


def coding_messages(session: dict[str, Any]) -> list[Message]:
    """Return one session of the coding data."""
    made: list[Message] = []
    at = datetime(2026, 1, 1, tzinfo=UTC)
    for seq, row in enumerate(session["messages"], 1):
        parts: list[Part] = []
        if row["role"] == "tool":
            parts.append(ToolResultPart(call_id=row["tool_call_id"], content=row.get("content") or ""))
        else:
            if row.get("reasoning"):
                parts.append(ReasoningPart(text=row["reasoning"]))
            if row.get("content"):
                parts.append(TextPart(text=row["content"]))
            if call := row.get("tool_call"):
                parts.append(ToolCallPart(id=call["id"], name=call["name"], arguments=call["arguments"]))
        # A few rows have no time. They get the time of the row before.
        at = datetime.fromisoformat(row["at"]) if row["at"] else at
        made.append(message(seq, cast("Role", row["role"]), tuple(parts), at))
    return made


def edited_paths(messages: Iterable[Message]) -> set[str]:
    """Return the files that were edited or created, if the call or the result contains their names."""
    found: set[str] = set()
    for part in (part for row in messages for part in row.parts):
        if isinstance(part, ToolResultPart) and isinstance(part.content, str):
            found.update(one or other for one, other in CHANGED.findall(part.content[:2_000]))
        if isinstance(part, ToolCallPart) and EDITS.search(part.name) and isinstance(part.arguments, dict):
            arguments = cast("dict[str, object]", part.arguments)
            found.update(str(arguments[key]) for key in ("file_path", "path") if key in arguments)
    return found


def error_names(messages: Iterable[Message]) -> set[str]:
    """Return the identifiers in error lines of failed results and of program output."""
    found: set[str] = set()
    calls = {part.id: part for row in messages for part in row.parts if isinstance(part, ToolCallPart)}
    for part in (part for row in messages for part in row.parts):
        if isinstance(part, ToolResultPart) and isinstance(part.content, str):
            pattern = ERROR_LINE if part.is_error or FAILED.match(part.content) else PRINTED
            # The content of a file or a search is not an error of this session, even if it contains such words.
            if pattern is PRINTED and (part.call_id not in calls or calls[part.call_id].name != "Bash"):
                continue
            for line in pattern.findall(re.sub(r"</?tool_use_error>", "", part.content)):
                found.update(names(line[:1_000]))
    return found - {""}


async def coding(sessions: Sequence[dict[str, Any]], pipeline: Pipeline) -> tuple[dict[str, float], Kept]:
    """Measure the coding data."""
    total = Kept()
    paths: list[bool] = []
    errors: list[bool] = []
    after: list[bool] = []
    for session in sessions:
        messages = coding_messages(session)
        kept = await pipeline.keep(messages, "coding", str(session["session"]))
        edited, failing = edited_paths(messages), error_names(messages)
        paths += [path in kept.text for path in edited]
        errors += [name in kept.text for name in failing]
        after += [path in kept.reflected for path in edited]
        total.add(kept)
    found = {
        "sessions": len(sessions),
        "ratio": total.raw / len(total.text),
        "edited_paths": len(paths),
        "edited_paths_kept": 100 * mean(paths),
        "error_identifiers": len(errors),
        "error_identifiers_kept": 100 * mean(errors),
        "reflected_share": len(total.reflected) / len(total.text),
        "reflected_edited_paths_kept": 100 * mean(after),
        "reflected_identifiers_lost": len(total.lost),
        "activations": total.activations,
    }
    return found, total


# ---------------------------------------------------------------- running


def load(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a data file."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return json.load(file)


async def measured(
    questions: Sequence[dict[str, Any]], sessions: Sequence[dict[str, Any]]
) -> tuple[dict[str, float], Kept, dict[str, float], Kept]:
    """Measure both kinds of conversations, each in a separate file."""
    with tempfile.TemporaryDirectory() as folder:
        for_chat, for_work = Pipeline(Path(folder) / "chat.db"), Pipeline(Path(folder) / "coding.db")
        try:
            return *(await chat(questions, for_chat)), *(await coding(sessions, for_work))
        finally:
            await for_chat.aclose()
            await for_work.aclose()


def main(arguments: Sequence[str]) -> None:
    """Measure, and print a table for people and one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    here = Path(__file__).resolve().parents[1]
    parser.add_argument("--data", type=Path, default=here.parent / "shared" / "data", help="the folder with the data")
    parser.add_argument("--questions", type=int, default=0, help="the number of questions; 0: all")
    given = parser.parse_args(arguments)
    missing = [name for name in (CHAT, CODING) if not (given.data / name).is_file()]
    if missing:
        print(f"The data is not there: {', '.join(missing)}. Name its folder with --data; nothing was measured.")
        print(json.dumps({"skipped": f"no {', '.join(missing)}"}))
        return
    questions = [row for row in load(given.data / CHAT) if not row["question_id"].endswith("_abs")]
    said, talk, done, work = asyncio.run(measured(questions[: given.questions or None], load(given.data / CODING)))
    observed, seconds = talk.observed + work.observed, talk.seconds + work.seconds
    speed = observed / 1e6 / max(seconds, 1e-9)
    print(table(["chat (LongMemEval, development half)", "value"], said.items()))
    print()
    print(table(["coding sessions", "value"], done.items()))
    print(f"\n{speed:.2f} MB a second and core, observing {observed / 1e6:.1f} MB")
    print(json.dumps({"chat": rounded(said), "coding": rounded(done), "mb_per_s": round(speed, 2)}))


def rounded(values: dict[str, float]) -> dict[str, float]:
    """Return the figures, rounded."""
    return {name: round(value, 2) for name, value in values.items()}


if __name__ == "__main__":
    main(sys.argv[1:])
