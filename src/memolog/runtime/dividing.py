"""Observe a span part by part after a model failed on the whole of it several times.

Finds the messages that the model refuses and puts a line in their place, inside the run that holds the span.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Final, TypeAlias

from memolog.decide import closed_ends
from memolog.domain.errors import MemologError
from memolog.domain.message import Message
from memolog.prompt.build import ObserveInput, Prompt
from memolog.prompt.drafts import Draft, Parsed
from memolog.prompt.parse import failure
from memolog.prompt.redact import Redactor
from memolog.prompt.transcript import Shown, in_zone
from memolog.runtime.asking import Ask
from memolog.runtime.minds import Observed, Observer, put_together, stood_in
from memolog.runtime.runner import RunFault
from memolog.runtime.views import weights_of
from memolog.tokens import TokenCounter

__all__ = ["TRIES", "Divided", "observe_in_parts"]

TRIES: Final = 4
"""So often is a span tried as a whole, ever more slowly, before it is divided."""
_TRIES_AWAY: Final = 7
"""A model that was not there may come back: what it did not answer in time is waited for a little longer."""
_MOST_CALLS: Final = 32
"""For a span in which nothing at all can be observed; one message among many is found in far fewer."""
_STAND_IN: Final = "What was said here could not be observed; recall has the exact words"

Units: TypeAlias = Sequence[tuple[Message, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Divided:
    """What the parts came to, and how many messages the model did not observe, and why."""

    observed: Observed
    missing: int = 0
    """Messages whose words the model does not take: a line says where they are."""
    embedded: int = 0
    """Messages that the embedded observer observed, because no answer about them was of use."""
    error: str = ""


@dataclass(slots=True, kw_only=True)
class _Part:
    """Some messages in a row, and what was answered about them."""

    first: int
    units: Units
    answer: Observed | None = None
    fault: RunFault | None = None

    @property
    def messages(self) -> tuple[Message, ...]:
        return tuple(message for unit in self.units for message in unit)

    def halves(self) -> "tuple[_Part, _Part]":
        middle = len(self.units) // 2
        second = _Part(first=self.first + middle, units=self.units[middle:], fault=self.fault)
        return _Part(first=self.first, units=self.units[:middle], fault=self.fault), second


async def observe_in_parts(
    observer: Observer,
    given: ObserveInput,
    redactor: Redactor,
    ask: Ask,
    *,
    attempt: int,
    is_alive: bool,
    counter: TokenCounter,
) -> Divided:
    """Observe a span in halves, quarters and so on; where a single message is refused, a line says that it is missing.

    `is_alive` says that the model has answered about other spans meanwhile. Raises the fault of the first part if it has not,
    and refuses every part: then it is the model that is in trouble, and not what was said. A model that answers and whose
    answers are of no use about any part is not asked further: the embedded observer observes the span.
    """
    whole = _Part(first=0, units=_units(given.messages))
    todo = deque(whole.halves() if len(whole.units) > 1 else (whole,))
    least = len(todo)
    done: list[_Part] = []
    has_answered, calls = False, 0
    while todo:
        part = todo.popleft()
        if calls < _MOST_CALLS:
            calls += 1
            await _ask(part, observer, given, redactor, ask)
        has_answered = has_answered or part.answer is not None
        if calls == least and part.fault is not None and not has_answered:
            if part.fault.cause == "answer" and not (part.fault.declines and is_alive):
                # It answers, and never to any use.
                whole.fault = RunFault(str(part.fault))
                return await _put_together([whole], given, attempt, counter)
            if not is_alive:
                raise part.fault
        if part.answer is None and len(part.units) > 1 and calls < _MOST_CALLS:
            todo.extend(part.halves())
        else:
            done.append(part)
    return await _put_together(sorted(done, key=lambda part: part.first), given, attempt, counter)


async def _ask(part: _Part, observer: Observer, given: ObserveInput, redactor: Redactor, ask: Ask) -> None:
    try:
        answer = (await observer.observe([replace(given, messages=part.messages)], redactor, ask))[0]
    except RunFault as fault:
        part.fault = fault
    except MemologError:
        # A spent budget or a lost database is no matter of what was said.
        raise
    except Exception as error:  # noqa: BLE001 - what cannot be read for whatever reason must not hold up the log
        part.fault = RunFault(f"{type(error).__name__}: {error}", cause="refused")
    else:
        problem = None if answer.parsed.nothing else failure(answer.parsed)
        if answer.last_seq is not None:
            problem = "cut off: it is about the first messages only"
        part.answer, part.fault = (answer, None) if problem is None else (None, RunFault(problem))


async def _put_together(parts: Sequence[_Part], given: ObserveInput, attempt: int, counter: TokenCounter) -> Divided:
    """Return the answers in their order, and something for each stretch that has none.

    Where the model refuses the words, that is a line which says so. The embedded observer could say more, but in the words
    that the model refuses: the end of the log is shown with the next span, and the reflector reads all of it, so they would
    fail as well. Whatever else went wrong is no matter of the words, and the embedded observer observes them.
    """
    answers: list[Observed] = []
    missing, embedded, error = 0, 0, ""
    for is_refused, group in groupby(parts, key=_is_refused):
        stretch = list(group)
        messages = [message for part in stretch for message in part.messages]
        if is_refused is None:
            answers += [part.answer for part in stretch if part.answer is not None]
            continue
        for fault in (part.fault for part in stretch if part.fault is not None):
            if fault.cause == "denied" or (fault.cause == "away" and attempt <= _TRIES_AWAY):
                raise fault
            error = error or str(fault)
        if is_refused:
            missing += len(messages)
            answers.append(_stand_in(messages, given))
        else:
            embedded += len(messages)
            answers.append(await stood_in(given, messages, counter))
    return Divided(observed=put_together(answers), missing=missing, embedded=embedded, error=error)


def _is_refused(part: _Part) -> bool | None:
    """Return whether the words of a part are refused; None if it was answered."""
    if part.answer is not None:
        return None
    return part.fault is None or part.fault.is_about_words


def _units(messages: Sequence[Message]) -> Units:
    """Return what may be asked about alone: a message, or a call with its results."""
    units: list[tuple[Message, ...]] = []
    start = 0
    for end in closed_ends(weights_of(messages)):
        units.append(tuple(messages[start : end + 1]))
        start = end + 1
    return [*units, tuple(messages[start:])] if start < len(messages) else units


def _stand_in(messages: Sequence[Message], given: ObserveInput) -> Observed:
    """Return one line that says where something is missing, with the messages as its sources."""
    shown = tuple(
        Shown(number=number, thread=m.thread, seq=m.seq, role=m.role, at=in_zone(m.created_at, given.zone))
        for number, m in enumerate(messages, start=1)
    )
    draft = Draft(priority="medium", text=_STAND_IN, said_at=shown[0].at, cites=tuple(s.number for s in shown))
    return Observed(parsed=Parsed(observations=(draft,)), prompt=Prompt(system="", text="", shown=shown))
