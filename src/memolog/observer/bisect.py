"""Observe a span part by part after a model failed on the whole of it several times.

Finds the messages that the model refuses and puts a line in their place, inside the run that holds the span.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Final, TypeAlias

from memolog.core.message import Message
from memolog.errors import MemologError
from memolog.log.decide import closed_ends
from memolog.log.runner import RunFault
from memolog.log.state import weights_of
from memolog.observer.budget import Ask
from memolog.observer.drafts import Draft, Parsed
from memolog.observer.llm import Observed, Observer, embedded_answer, join_answers
from memolog.observer.prompt import ObserveInput, Prompt
from memolog.observer.reply import failure
from memolog.observer.transcript import numbered
from memolog.text.redaction import Redactor
from memolog.text.tokens import TokenCounter

TRIES: Final = 4
"""How often a span is tried as a whole, with growing delays, before it is divided."""
_TRIES_AWAY: Final = 7
"""The same for a model that could not be reached."""
_MOST_CALLS: Final = 32
"""The most calls for one span; a single bad message is found in far fewer."""
_STAND_IN: Final = "What was said here could not be observed; recall has the exact words"

Units: TypeAlias = Sequence[tuple[Message, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class DividedAnswer:
    """The joined answers, how many messages the model did not observe, and why."""

    observed: Observed
    missing: int = 0
    """Messages that the model refused: a line stands in their place."""
    embedded: int = 0
    """Messages that the embedded observer observed, because no answer about them was usable."""
    error: str = ""


@dataclass(slots=True, kw_only=True)
class _Part:
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
) -> DividedAnswer:
    """Observe a span in halves, quarters and so on; where a single message is refused, a line says that it is missing.

    `is_alive` says that the model has answered about other spans meanwhile. If it has not and refuses every part, the model is
    at fault, and the fault of the first part is raised. A model whose answers about all parts are unusable is not asked
    further: the embedded observer observes the span.
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
                # It answers, but no answer is usable.
                whole.fault = RunFault(str(part.fault))
                return await _joined([whole], given, attempt, counter)
            if not is_alive:
                raise part.fault
        if part.answer is None and len(part.units) > 1 and calls < _MOST_CALLS:
            todo.extend(part.halves())
        else:
            done.append(part)
    return await _joined(sorted(done, key=lambda part: part.first), given, attempt, counter)


async def _ask(part: _Part, observer: Observer, given: ObserveInput, redactor: Redactor, ask: Ask) -> None:
    try:
        answer = (await observer.observe([replace(given, messages=part.messages)], redactor, ask))[0]
    except RunFault as fault:
        part.fault = fault
    except MemologError:
        # A spent budget or a lost database is not about the messages.
        raise
    except Exception as error:  # noqa: BLE001 - an unreadable answer must not hold up the log
        part.fault = RunFault(f"{type(error).__name__}: {error}", cause="refused")
    else:
        problem = None if answer.parsed.nothing else failure(answer.parsed)
        if answer.last_seq is not None:
            problem = "cut off: it is about the first messages only"
        part.answer, part.fault = (answer, None) if problem is None else (None, RunFault(problem))


async def _joined(parts: Sequence[_Part], given: ObserveInput, attempt: int, counter: TokenCounter) -> DividedAnswer:
    """Join the answers in their order, and fill each stretch that has none.

    Words that the model refuses are replaced by a line that says so: the embedded observer would repeat them in the log, which
    is shown to the model again. After any other fault the embedded observer observes the stretch.
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
            answers.append(await embedded_answer(given, messages, counter))
    return DividedAnswer(observed=join_answers(answers), missing=missing, embedded=embedded, error=error)


def _is_refused(part: _Part) -> bool | None:
    """Return whether the model refused the words of a part; None if it was answered."""
    if part.answer is not None:
        return None
    return part.fault is None or part.fault.is_about_words


def _units(messages: Sequence[Message]) -> Units:
    """Return the smallest parts: a message, or a call with its results."""
    units: list[tuple[Message, ...]] = []
    start = 0
    for end in closed_ends(weights_of(messages)):
        units.append(tuple(messages[start : end + 1]))
        start = end + 1
    return [*units, tuple(messages[start:])] if start < len(messages) else units


def _stand_in(messages: Sequence[Message], given: ObserveInput) -> Observed:
    """Return one line that says that something is missing, with the messages as its sources."""
    shown = numbered(messages, given.zone)
    draft = Draft(priority="medium", text=_STAND_IN, said_at=shown[0].at, cites=tuple(s.number for s in shown))
    return Observed(parsed=Parsed(observations=(draft,)), prompt=Prompt(system="", text="", shown=shown))
