"""Live through a history: hold its conversations in real turns at their dates, and observe them in the background as in life."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from memolog import Config, Memory, Model, ModelReply, ModelRequest, NotFound, Thread
from memolog.apps.eval.budget import MeteredModel, Purse
from memolog.apps.eval.datasets import History, Said
from memolog.models import Price

EMBEDDED: Final = "extractive"
# A slow machine must not change what a memory contains.
_PATIENCE: Final = {"turn_timeout": 600.0, "queue_timeout": 600.0, "busy_timeout": 120.0, "statement_timeout": 300.0}
# The process of the evaluation observes. Once the budget is spent, messages wait instead of being observed by other means.
# A message that cannot be saved stops the evaluation: the memory would be judged by what it never got.
_HERE: Final = {"background": "loop", "over_budget": "wait", "read_only": False, "strict": True}
QUESTIONS: Final = "questions"
"""The thread in which questions are asked if the log is shared by several conversations."""


class HistoryClock:
    """A clock that shows the time of the message that is being said."""

    def __init__(self, at: datetime) -> None:
        self.at = at

    def now(self) -> datetime:
        """Return the time of the history."""
        return self.at


class ObservingModels:
    """The models that observe and reflect for one history, as one model. The costs are stored under the role of the request."""

    def __init__(self, observe: Model | None, reflect: Model | None) -> None:
        self._observe, self._reflect = observe, reflect
        self.name = (observe or reflect or _Nobody()).name

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Return the answer of the model for the purpose of the request."""
        model = self._reflect if request.purpose == "reflect" else self._observe
        return await (model or _Nobody()).complete(request)


class _Nobody:
    """Takes the place of a model in a role that the embedded observer has. It is never called."""

    name = EMBEDDED

    async def complete(self, request: ModelRequest) -> ModelReply:
        raise AssertionError(f"the embedded observer was asked to {request.purpose}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Observers:
    """The models that observe and reflect. None stands for the embedded observer."""

    observe: Model | None = None
    reflect: Model | None = None
    prices: tuple[Price | None, Price | None] = (None, None)

    def memory(self, path: Path, history: History, config: Config, purse: Purse) -> tuple[Memory, HistoryClock]:
        """Return a memory for one history, and its clock."""
        embedded = {
            f"{section}.model": EMBEDDED if model is None else None
            for section, model in (("observation", self.observe), ("reflection", self.reflect))
        }
        settings = {**embedded, **_PATIENCE, "scope": history.scope, **_HERE}
        clock = HistoryClock(history.messages[0].at)
        metered = [
            model and MeteredModel(model, purse, role=role, history=history.id, price=price)
            for model, role, price in zip(
                (self.observe, self.reflect), ("observe", "reflect"), self.prices, strict=True
            )
        ]
        model = ObservingModels(*metered) if any(metered) else EMBEDDED
        return Memory(path, model=model, clock=clock, config=config.with_overrides(settings)), clock


async def live(memory: Memory, clock: HistoryClock, history: History, purse: Purse) -> str:
    """Live through what is not stored yet. Return what could not be observed, or an empty text."""
    problems = list[str]()
    for place, session in enumerate(history.sessions):
        thread = memory.thread(session.thread, resource=history.id)
        try:
            stored = (await thread.info()).last_seq
        except NotFound:
            stored = 0
        before = sum(len(one.messages) for one in history.sessions[:place] if one.thread == session.thread)
        for turn in _turns(session.messages[max(0, stored - before) :]):
            purse.check()
            await _hold(memory, clock, history, session.thread, turn)
        # Other conversations are observed when they are left behind, as `memolog worker` and `finalize` do.
        until = history.sessions[place + 1].messages[0].at if place + 1 < len(history.sessions) else _asked(history)
        after = memory.config.sweep_after
        if (
            history.scope == "resource"
            and after is not None
            and until - session.messages[-1].at > timedelta(seconds=after)
        ):
            clock.at = max(clock.at, session.messages[-1].at + timedelta(seconds=after))
            status = await thread.finalize()
            purse.check()
            if status.backlog_tokens:
                problems.append(
                    f"{status.backlog_tokens} tokens of {session.thread} were not observed: {status.last_error}"
                )
    await _arrive(memory, clock, history)
    status = await question_thread(memory, history).status()
    if history.scope == "thread" and status.breaker_open:
        problems.append(f"{status.backlog_tokens} tokens were not observed: {status.last_error}")
    purse.check()
    await memory.resource(history.id).index()
    return "; ".join(problems)


def _asked(history: History) -> datetime:
    return min(question.at for question in history.questions)


def _turns(messages: Sequence[Said]) -> list[Sequence[Said]]:
    """Return the messages of each turn. A turn begins with a message of the user. Without messages there is none."""
    starts = [place for place, said in enumerate(messages) if said.role == "user" or place == 0]
    ends = [*starts[1:], len(messages)]
    return [messages[start:end] for start, end in zip(starts, ends, strict=False)]


async def _hold(memory: Memory, clock: HistoryClock, history: History, thread: str, turn: Sequence[Said]) -> None:
    async with memory.thread(thread, resource=history.id).turn(zone=history.zone) as held:
        for said in turn:
            clock.at = max(clock.at, said.at)
            await (held.record if said.role == "assistant" else held.prepare)(said.message())
    # Minutes pass before the user goes on, so that runs in the background end.
    await memory.settled()


async def _arrive(memory: Memory, clock: HistoryClock, history: History) -> None:
    """Begin a turn at the time of the questions and take it back: what is due by then, such as an activation, happens."""
    clock.at = max(clock.at, _asked(history))
    async with question_thread(memory, history).turn(zone=history.zone) as turn:
        await turn.prepare("Hello.")
        await turn.discard()
    await memory.settled()


def question_thread(memory: Memory, history: History) -> Thread:
    """Return the thread in which the questions are asked."""
    thread = history.sessions[-1].thread if history.scope == "thread" else QUESTIONS
    return memory.thread(thread, resource=history.id)
