"""The conversations of `memolog eval talks`, and an exam that asks how much of them the memory keeps.

Each JSON file is one conversation of an invented user: its messages, the facts that a careful reader would want remembered,
and questions with answers. `sit` lives a conversation through the public API with the embedded observer, condenses the log
twice, and says which facts stand in it before and after.
"""

import json
import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, get_args
from zoneinfo import ZoneInfo

from pydantic import TypeAdapter

import memolog.apps.eval
from memolog import (
    Config,
    KeepRecent,
    Memory,
    NewMessage,
    Observation,
    ObservationConfig,
    ReflectionConfig,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)
from memolog.core.observation import TRACES
from memolog.testing import FakeClock

Kind: TypeAlias = Literal[
    "allergy", "prohibition", "correction", "preference", "decision", "appointment", "personal", "number", "outcome"
]
KINDS: Final = frozenset(get_args(Kind))
MUST: Final = frozenset({"allergy", "prohibition", "correction"})
"""The kinds of which none may be missing."""

TALKS: Final = Path(memolog.apps.eval.__file__).parent / "talks"
_LONGEST: Final = 500
"""A longer line counts as none: it was copied, not observed."""
_RESOURCE: Final = "reader"

# Several groups arise in every conversation, and each span holds several exchanges. Nothing is too recent to be condensed,
# and no turn gives up on a slow machine.
_CONFIG: Final = Config(
    observation=ObservationConfig(message_tokens=2_000, buffer_tokens=0.4),
    reflection=ReflectionConfig(keep_recent=KeepRecent(hours=0, observations=0)),
    activate_after_idle=False,
    turn_timeout=600,
)


# ---------------------------------------------------------------- the data


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """One message. `dates` are the days and periods that its words mean, as "2026-05-19" or "2026-05-01/2026-05-31"."""

    role: Literal["user", "assistant", "tool"]
    at: datetime
    text: str
    dates: tuple[str, ...] = ()
    calls: tuple[dict[str, Any], ...] = ()
    call: str = ""
    """The tool call that this is the result of."""
    error: bool = False

    def message(self) -> NewMessage:
        if self.role == "tool":
            return NewMessage(
                role="tool", parts=(ToolResultPart(call_id=self.call, content=self.text, is_error=self.error),)
            )
        calls = tuple(ToolCallPart(id=one["id"], name=one["name"], arguments=one["arguments"]) for one in self.calls)
        return NewMessage(role=self.role, parts=(TextPart(text=self.text), *calls))

    @property
    def size(self) -> int:
        return len(self.text) + sum(len(json.dumps(one["arguments"], ensure_ascii=False)) for one in self.calls)

    def may_mean(self, day: str) -> bool:
        """Tell whether its words mean a day ("2026-05-19") or a month ("2026-05")."""
        written = re.findall(r"\b\d{4}-\d\d-\d\d\b", self.text)
        return any(_lies_in(day, given) for given in (*self.dates, *written))


def _lies_in(day: str, given: str) -> bool:
    first, _, last = given.partition("/")
    last = last or first
    return first[: len(day)] <= day <= last[: len(day)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """Something that the user stated.

    It is kept if one line of the log holds a spelling of each group of `words`. `context` names messages that the statement
    refers to ("number 4 sounds good"), `date` is the day that a relative or partial date means, `replaces` the fact that this
    one corrects.
    """

    id: str
    message: int
    kind: Kind
    words: tuple[tuple[str, ...], ...]
    context: tuple[int, ...] = ()
    date: str | None = None
    replaces: str | None = None

    def is_in(self, text: str) -> bool:
        return all(any(stands(word, text) for word in spellings) for spellings in self.words)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question with its answer and the messages it follows from; without an answer it cannot be known.

    `absent` are words with which an answer would stand in the conversation.
    """

    question: str
    type: str
    answer: str | None
    evidence: tuple[int, ...]
    absent: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """One conversation with what is to be remembered of it."""

    name: str
    language: str
    zone: str
    about: str
    messages: tuple[Said, ...]
    facts: tuple[Fact, ...]
    questions: tuple[Question, ...]

    @property
    def size(self) -> int:
        return sum(said.size for said in self.messages)

    @property
    def replaced(self) -> frozenset[str]:
        """Return the facts that a later one corrects: a condensed log may leave them out."""
        return frozenset(fact.replaces for fact in self.facts if fact.replaces)

    def turn_of(self, fact: Fact) -> range:
        """Return the places of the messages from a statement to the last one before the user speaks again."""
        later = range(fact.message + 1, len(self.messages))
        return range(fact.message, next((place for place in later if self.messages[place].role == "user"), later.stop))


@cache
def conversations() -> tuple[Conversation, ...]:
    """Read all conversations, by name."""
    reader = TypeAdapter(Conversation)
    return tuple(reader.validate_json(path.read_bytes()) for path in sorted(TALKS.glob("*.json")))


# ---------------------------------------------------------------- words

_ENDINGS: Final = "(?:ing|ed|es|en|er|em|as|os|'s|s|d|e|n|r|a|o|i)?"
_WITHOUT_SPACES: Final = re.compile("[\u3040-\u30ff\u3400-\u9fff]")


def stands(word: str, text: str) -> bool:
    """Tell whether a word or phrase stands in a text: whole, in any case, lightly inflected."""
    word, text = _plain(word), _plain(text)
    if _WITHOUT_SPACES.search(word):
        return word in text
    return _pattern(word).search(_WITHOUT_SPACES.sub(" ", text)) is not None


@cache
def _pattern(word: str) -> re.Pattern[str]:
    if word == "not":
        return re.compile(r"\b(?:not|cannot|\w+n't)\b")
    inner = r"\s+".join(map(_inflected, word.split()))
    # A number is no part of a longer one.
    before = r"(?<!\w)(?<!\d[.,])" if word[0].isalnum() else ""
    after = r"(?!\w)(?![.,]\d)" if word[-1].isalnum() else ""
    return re.compile(f"{before}{inner}{after}")


def _inflected(word: str) -> str:
    if not word.isalpha() or len(word) < 4:
        return re.escape(word)
    stem = re.sub(f"{_ENDINGS}$", "", word)
    return re.escape(stem if len(stem) >= 4 else word) + _ENDINGS


def _plain(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold().replace("’", "'")


# ---------------------------------------------------------------- the exam

_MEANING: Final = re.compile(r"\(meaning ([^()]*)\)")
_DAY: Final = re.compile(r"\b\d{4}-\d\d(?:-\d\d)?\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """A log at one moment: its lines, its rendered text and its generation."""

    lines: tuple[Observation, ...]
    text: str
    generation: int

    def holds(self, fact: Fact, conversation: Conversation) -> bool:
        """Tell whether one line says a fact.

        Copied passages and lists of bare names do not count. Of a choice ("number 4 sounds good") the line that offered it
        does not count either: the line must come from the turn in which it was chosen.
        """
        told = conversation.turn_of(fact) if fact.context else None
        return any(
            fact.is_in(line.text)
            for line in self.lines
            if len(line.text) <= _LONGEST
            and not line.text.startswith(TRACES)
            and (told is None or any(number - 1 in told for number in _cited(line)))
        )

    def wrong_dates(self, conversation: Conversation) -> Iterator[str]:
        """Yield the lines that give a date which none of the messages they cite means, or stand under a wrong day."""
        zone = ZoneInfo(conversation.zone)
        for line in self.lines:
            cited = [conversation.messages[number - 1] for number in _cited(line)]
            said = ", ".join(sorted({one.at.astimezone(zone).date().isoformat() for one in cited}))
            days = [day for meaning in _MEANING.findall(line.text) for day in _DAY.findall(meaning)]
            days += [line.about.isoformat()] if line.about else []
            wrong = [day for day in days if not any(one.may_mean(day) for one in cited)]
            if wrong:
                yield f"{line.text} <- said {said}; wrong: {', '.join(dict.fromkeys(wrong))}"
            spoken = line.said_at.astimezone(zone).date().isoformat() if line.said_at else None
            if spoken and cited and spoken not in said:
                yield f"{line.text} <- stands under {spoken}, said {said}"


def _cited(line: Observation) -> list[int]:
    return [number for source in line.sources for number in range(source.span.first, source.span.last + 1)]


@dataclass(frozen=True, kw_only=True)
class Sitting:
    """What a conversation left in the log, before and after two reflections."""

    conversation: Conversation
    log: Log
    reflected: Log

    @cached_property
    def missing(self) -> tuple[Fact, ...]:
        """Return the facts that the log should hold and does not."""
        return tuple(fact for fact in self.conversation.facts if not self.log.holds(fact, self.conversation))

    @cached_property
    def missing_reflected(self) -> tuple[Fact, ...]:
        """Return the same of the condensed log."""
        return tuple(fact for fact in self.asked_reflected if not self.reflected.holds(fact, self.conversation))

    @property
    def asked_reflected(self) -> tuple[Fact, ...]:
        """Return the facts that the condensed log should hold: those that nothing replaced."""
        return tuple(fact for fact in self.conversation.facts if fact.id not in self.conversation.replaced)

    def wrong_dates(self) -> tuple[str, ...]:
        before, after = self.log.wrong_dates(self.conversation), self.reflected.wrong_dates(self.conversation)
        return tuple(dict.fromkeys((*before, *after)))

    def explained(self, facts: Sequence[Fact]) -> str:
        """Return facts with the statements they come from, a line each."""
        return "\n".join(
            f"  {self.conversation.name} [{fact.message}] {fact.kind} {fact.id}: "
            f"{' + '.join('|'.join(group) for group in fact.words)}  <- {self.conversation.messages[fact.message].text!r}"
            for fact in facts
        )


async def sit(conversation: Conversation) -> Sitting:
    """Live a conversation turn by turn, observe all of it, then condense the log twice."""
    clock = FakeClock(conversation.messages[0].at)
    async with Memory(":memory:", model="extractive", clock=clock, config=_CONFIG) as memory:
        await _live(memory, clock, conversation)
        await memory.thread(conversation.name, resource=_RESOURCE).observe()
        log = await _log(memory, conversation.name)
        for _ in range(2):
            await memory.thread(conversation.name, resource=_RESOURCE).reflect()
        return Sitting(conversation=conversation, log=log, reflected=await _log(memory, conversation.name))


async def _live(memory: Memory, clock: FakeClock, conversation: Conversation) -> None:
    messages = conversation.messages
    starts = [place for place, said in enumerate(messages) if said.role == "user"]
    for start, end in zip(starts, [*starts[1:], len(messages)], strict=True):
        async with memory.thread(conversation.name, resource=_RESOURCE).turn(zone=conversation.zone) as turn:
            for said in messages[start:end]:
                clock.time = said.at
                await (turn.record if said.role == "assistant" else turn.prepare)(said.message())
                await memory.settled()


async def _log(memory: Memory, thread: str) -> Log:
    store = (await memory.open()).store
    snapshot = await store.logs.snapshot(_RESOURCE, thread, "thread")
    lines = await store.logs.observations(snapshot.resource, snapshot.log.pk, [group.id for group in snapshot.groups])
    return Log(
        lines=tuple(line for line in lines if line.state == "active"),
        text="\n".join(group.text for group in snapshot.groups if group.text),
        generation=snapshot.log.generation,
    )
