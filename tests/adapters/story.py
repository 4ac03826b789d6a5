"""A long conversation in which much goes wrong, for any adapter, and the contract that must hold after every turn.

A `Caller` is a program that uses one adapter. The story decides what is asked and what the provider answers, and knows what must
be stored. All choices follow from a seed.
"""

import json
import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import pytest

from adapters.kit import Prompts, brief, check_pairs, stored
from adapters.provider import APIS, Driver, Json, Provider, Reply
from adapters.rules import FAULTS
from memolog import Config, Memory, ObservationConfig, ReflectionConfig, Thread
from memolog.testing import FakeClock

RESOURCE, THREAD = "alice", "t1"
INSTRUCTIONS: Final = "Be exact."
# Windows so small that the log takes over every few turns and is often reflected.
TINY: Final = Config(
    observation=ObservationConfig(message_tokens=1_200, previous_tokens=200),
    reflection=ReflectionConfig(observation_tokens=1_000),
)
# The stored messages that are compared after every turn.
_NEAR: Final = 40
_LAST: Final = 2**62
# A provider refuses every request that contains this word.
POISON: Final = "poisoned"


class Caller(ABC):
    """A program that talks to a model through one adapter."""

    api: str = "chat"
    keeps_failed: bool = True
    """Whether the program still has the question after the last failure."""
    rewinds: bool = True
    """Whether the adapter rewinds the thread if the program goes back. Otherwise the program does it itself."""
    hears_streams: bool = True
    """Whether the adapter hears the pieces of a stream. Then the words of a stream that broke are stored."""

    def __init__(self, seed: random.Random, look: Callable[[int], str]) -> None:
        self.chance, self.look = seed, look
        self.memory: Any = None

    @property
    def driver(self) -> Driver:
        """Return the API that the program uses."""
        return APIS[self.api]

    @abstractmethod
    async def open(self, memory: Memory, provider: Provider) -> None:
        """Begin, or begin again after a restart, with a memory that was just opened."""

    async def close(self) -> None:  # noqa: B027 - most programs have nothing to end
        """End the program, before the memory is closed."""

    @abstractmethod
    async def ask(self, text: str, *, streamed: bool) -> None:
        """Ask a question, call the tools that the model wants, and wait for the last answer."""

    @abstractmethod
    async def leave(self, text: str) -> None:
        """Ask a question, and stop reading after the first piece of the answer."""

    @abstractmethod
    async def back(self, question: str) -> None:
        """Go back to before a question. Another question is asked next."""


@dataclass(slots=True)
class Exchange:
    """A question and what must be stored after it. A line in `maybe` may be missing."""

    question: str
    lines: list[str] = field(default_factory=list[str])
    maybe: str | None = None
    is_failed: bool = False
    is_lost: bool = False
    """Whether the program does not have the failed question any more."""

    @property
    def words(self) -> list[str]:
        """Return the words that occur only in this exchange."""
        return [word for line in [self.question, *self.lines] for word in line.split() if word[-4:].isdigit()]


class Story:
    """One conversation."""

    def __init__(self, make: Callable[..., Caller], seed: str, address: str) -> None:
        self.chance = random.Random(seed)
        self.caller = make(self.chance, self._look)
        self.provider = Provider(self.caller.driver, self._reply)
        self.address, self.clock = address, FakeClock()
        self.prompts = Prompts()
        self.talk: list[Exchange] = []
        self.did: list[str] = []
        self.gone: set[str] = set()
        self._plan: list[Reply] = []
        self._asked, self._number, self._result = "", 0, ""
        self._tools: Any = None
        self.memory: Memory

    @property
    def thread(self) -> Thread:
        """Return the thread of the conversation."""
        return self.memory.thread(THREAD, resource=RESOURCE)

    # ------------------------------------------------------------ the provider

    def _reply(self, body: Json) -> Reply:
        text = json.dumps(body, ensure_ascii=False)
        if POISON in text:
            if POISON not in self._asked and POISON not in self._result:
                FAULTS.append(f"{self.did[-1]}: what was refused is sent again")
            return Reply(status=400)
        FAULTS.extend(f"{self.did[-1]}: {word} was withdrawn and is sent" for word in self.gone if word in text)
        if self._asked not in text:
            FAULTS.append(f"{self.did[-1]}: the question is not sent: {self._asked}")
        if not self._plan:
            FAULTS.append(f"{self.did[-1]}: a request is sent that nobody asked for")
            return Reply(text="?")
        self.prompts.add(json.dumps(body.get("tools")) + "\n\n" + self.caller.driver.prompt(body))
        return self._plan.pop(0)

    def _look(self, n: int) -> str:
        return self._result or f"Found {n}. " + "The tool goes on to say what it has found in its files. " * 3

    # ------------------------------------------------------------ telling it

    async def tell(self, turns: int) -> None:
        """Hold the conversation and check it after every turn."""
        await self._open()
        for number in range(turns):
            self.clock.advance(seconds=20)
            act = self.plain if number < 3 else self.chance.choices(*self._acts())[0]
            self.did.append(f"turn {number} {act.__name__}")
            await act()
            await self.memory.settled()
            await self._check_end()
            assert FAULTS == [], self.did[-3:]
        await self._close(turns)

    def _acts(self) -> tuple[list[Any], list[int]]:
        last = self.talk[-1]
        acts: dict[Any, int] = {
            self.plain: 60,
            self.tools: 40,
            self.refused: 8,
            self.refused_result: 6,
            self.down: 8,
            self.down_after_tools: 8,
            self.cut: 8,
            self.cut_calls: 6,
            self.left: 8,
            self.restart: 6,
        }
        if len(self.talk) > 5:
            acts |= {self.edited: 12, self.regenerated: 12}
        if last.is_failed and not last.lines and not last.maybe:
            acts[self.repeated] = 60
        return list(acts), list(acts.values())

    async def _open(self) -> None:
        self.memory = await Memory(self.address, config=TINY, clock=self.clock).__aenter__()
        self.prompts.watch(self.memory)
        await self.caller.open(self.memory, self.provider)

    async def _close(self, turns: int) -> None:
        rows = await stored(self.memory, RESOURCE, THREAD)
        log = await self.thread.history()
        await self.caller.close()
        await self.memory.aclose()
        lines = [line for line in brief(rows) if line != "reasoning"]
        assert lines == [line for one in self.talk for line in (f"user: {one.question}", *one.lines)]
        unanswered = {line.split()[1][:-1] for line in lines if line.startswith("call ")} - {
            line.split()[1] for line in lines if line.startswith("result ")
        }
        check_pairs([row for row in rows if not unanswered & {getattr(part, "id", "") for part in row.parts}])
        # Every fifth turn changes the thread itself, so fewer prompts can be compared than in a quiet conversation.
        self.prompts.check(least_changes=turns // 15)
        assert len(log) > turns // 60, "the log was never reflected"

    def _new(self, said: str = "") -> Exchange:
        """Return the next exchange. A program that has lost its last question is behind the thread, which is then rewound."""
        if self.talk and self.talk[-1].is_lost:
            self._withdraw(1)
        self._number += 1
        text = f"Please look at item{self._number:04d}: what do we know about its tests, its owner and its plan? {said}"
        self._asked = text.strip()
        return Exchange(self._asked)

    def _withdraw(self, count: int) -> None:
        for one in self.talk[len(self.talk) - count :]:
            self.gone.update(one.words)
        del self.talk[len(self.talk) - count :]

    def _answer(self) -> str:
        self._number += 1
        return f"It is reply{self._number:04d}: we keep the tests, the owner is Nora, and the plan stays as it is until May."

    def _calls(self, count: int) -> tuple[Reply, list[str]]:
        self._number += 1
        ids = tuple(f"call{letter}{self._number:04d}" for letter in "abc"[:count])
        return Reply(calls=tuple((id_, "look") for id_ in ids)), list(ids)

    async def _fail(self, work: Any) -> None:
        with pytest.raises(Exception) as raised:
            await work
        assert not isinstance(raised.value, AssertionError), raised.value

    def _failed(self, one: Exchange) -> None:
        one.is_failed, one.is_lost = True, not self.caller.keeps_failed
        self.talk.append(one)

    @property
    def _is_streamed(self) -> bool:
        return self.chance.random() < 0.4

    # ------------------------------------------------------------ turns

    async def plain(self) -> None:
        """Ask a question."""
        one = self._new()
        await self._answered(one)

    async def _answered(self, one: Exchange) -> None:
        answer = self._answer()
        self._plan = [Reply(text=answer)]
        await self.caller.ask(one.question, streamed=self._is_streamed)
        one.lines.append(f"assistant: {answer}")
        one.is_failed = one.is_lost = False
        self.talk.append(one)

    async def tools(self) -> None:
        """Ask a question for which the model calls one to three tools at once, once or twice."""
        one = self._new()
        for _ in range(self.chance.choice([1, 1, 2])):
            reply, ids = self._calls(self.chance.randint(1, 3))
            self._plan.append(reply)
            one.lines += [*(f"call {id_}: look" for id_ in ids), *(f"result {id_}" for id_ in ids)]
        answer = self._answer()
        self._plan.append(Reply(text=answer))
        await self.caller.ask(one.question, streamed=self._is_streamed)
        one.lines.append(f"assistant: {answer}")
        self.talk.append(one)

    async def refused(self) -> None:
        """Ask a question that the provider refuses for good."""
        one = self._new(POISON)
        await self._fail(self.caller.ask(one.question, streamed=self._is_streamed))
        self._asked = ""

    async def refused_result(self) -> None:
        """Call a tool whose result the provider refuses for good."""
        one = self._new()
        reply, ids = self._calls(1)
        self._plan, self._result = [reply], f"Found what is {POISON}."
        await self._fail(self.caller.ask(one.question, streamed=self._is_streamed))
        self._result = ""
        one.lines += [f"call {id_}: look" for id_ in ids]
        self._failed(one)

    async def down(self) -> None:
        """Ask a question while the provider is out of order."""
        one = self._new()
        self._plan = [Reply(status=self.chance.choice([500, 529, 429]))]
        await self._fail(self.caller.ask(one.question, streamed=self._is_streamed))
        self._failed(one)

    async def down_after_tools(self) -> None:
        """Call tools, after which the provider is out of order."""
        one = self._new()
        reply, ids = self._calls(2)
        self._plan = [reply, Reply(status=500)]
        await self._fail(self.caller.ask(one.question, streamed=self._is_streamed))
        one.lines += [*(f"call {id_}: look" for id_ in ids), *(f"result {id_}" for id_ in ids)]
        self._failed(one)

    async def repeated(self) -> None:
        """Ask the question again whose request failed: it is stored once."""
        one = self.talk.pop()
        self._asked = one.question
        await self._answered(one)

    async def cut(self) -> None:
        """Lose the connection in the middle of an answer."""
        one, answer = self._new(), self._answer()
        events = self.caller.driver.events(self.caller.driver.answer(Reply(text=answer), 0, 0))
        spoken = next(place for place, event in enumerate(events, start=1) if f"'{answer[:3]}'" in str(event))
        self._plan = [Reply(text=answer, cut=spoken)]
        await self._fail(self.caller.ask(one.question, streamed=True))
        one.lines += [f"assistant: {answer[:3]}"] * self.caller.hears_streams
        self._failed(one)

    async def cut_calls(self) -> None:
        """Lose the connection in the middle of tool calls: no half call is stored."""
        one = self._new()
        reply, _ = self._calls(2)
        events = self.caller.driver.events(self.caller.driver.answer(reply, 0, 0))
        begun = next(place for place, event in enumerate(events, start=1) if "look" in str(event))
        self._plan = [Reply(calls=reply.calls, cut=begun)]
        await self._fail(self.caller.ask(one.question, streamed=True))
        self._failed(one)

    async def left(self) -> None:
        """Stop reading in the middle of an answer."""
        one, answer = self._new(), self._answer()
        self._plan = [Reply(text=answer)]
        await self.caller.leave(one.question)
        one.maybe = answer
        self._failed(one)

    async def edited(self) -> None:
        """Go back, and ask another question instead."""
        count = self.chance.randint(1, 3)
        await self._back(count)
        await (self.plain if self.chance.random() < 0.7 else self.tools)()

    async def regenerated(self) -> None:
        """Ask for another answer, up to three times."""
        for _ in range(self.chance.choice([1, 1, 3])):
            question = self.talk[-1].question
            if self.talk[-1].is_failed:
                return await self.plain()
            await self._back(1)
            self.gone.difference_update(Exchange(question).words)
            self._asked = question
            await self._answered(Exchange(question))
        return None

    async def _back(self, count: int) -> None:
        if self.talk[-1].is_lost:
            self._withdraw(1)
        question = self.talk[-count].question
        if not self.caller.rewinds:
            rows = await stored(self.memory, RESOURCE, THREAD)
            before = [row.seq for row in rows if row.seq < next(r.seq for r in reversed(rows) if r.text == question)]
            await self.thread.rewind(to=before[-1])
        await self.caller.back(question)
        self._withdraw(count)

    async def restart(self) -> None:
        """Close the memory and open it again."""
        await self.caller.close()
        await self.memory.aclose()
        await self._open()
        await self.plain()

    # ------------------------------------------------------------ the contract

    async def _check_end(self) -> None:
        """Compare the latest stored messages with what must be stored."""
        page = await self.thread.messages(before=_LAST, limit=_NEAR)
        lines = [line for line in brief([row for row in page.items if row.state == "live"]) if line != "reasoning"]
        last = self.talk[-1]
        if last.maybe is not None:
            # How much of a stream is read before it is left depends on the library.
            said = lines[-1].removeprefix("assistant: ") if lines[-1].startswith("assistant: ") else None
            if said is not None and last.maybe.startswith(said):
                last.lines.append(lines[-1])
            last.maybe = None
        expected = list(_lines(self.talk))[-len(lines) :] if lines else []
        assert lines == expected, (self.did[-4:], _short(lines), _short(expected))


def _short(lines: list[str]) -> list[str]:
    """Return the end of each line that tells it from the others."""
    return [
        line.split(":")[0] + "".join(f" {word.strip(':')}" for word in line.split() if any(map(str.isdigit, word)))
        for line in lines[-12:]
    ]


def _lines(talk: list[Exchange]) -> Iterator[str]:
    for one in talk[-_NEAR:]:
        yield f"user: {one.question}"
        yield from one.lines
