"""Pairs: which tool call a result answers.

A result belongs to the latest open call of its id in its own turn, and only if that turn has none, to the latest of the thread:
turns that overlap may use the same ids, and some providers use them again and again.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from memolog.domain.message import Message, Part, ToolCallPart, ToolResultPart

__all__ = ["Answered", "OpenCalls", "Place", "is_question", "part_at", "results_of_calls"]

Place: TypeAlias = tuple[int, int]
"""Where a part stands: the number of its message, and its number in there."""


class Answered(NamedTuple):
    """The call that a result answers, and whether it came in time."""

    call: Place
    is_in_time: bool


@dataclass(slots=True)
class _Open:
    place: Place
    turn: str | None
    is_closed: bool = False
    is_only_for_its_turn: bool = False

    def asked(self, turn: str | None) -> None:
        # The call's own turn goes on beside another one, others do not.
        if turn is None or self.turn is None or turn == self.turn:
            self.is_closed = True
        self.is_only_for_its_turn = True

    def takes(self, turn: str | None) -> bool:
        return not self.is_closed and (not self.is_only_for_its_turn or turn == self.turn)

    def is_beside(self, place: Place, turn: str | None) -> bool:
        """Tell whether a further call of the same id leaves this one open: one of the same message, or of another turn."""
        return self.place[0] == place[0] or (turn is not None and self.turn is not None and turn != self.turn)


class OpenCalls:
    """The calls that wait for a result, as the messages of a thread are read in their order."""

    def __init__(self) -> None:
        self._waiting: dict[str, list[_Open]] = {}

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(self, call_id: str, place: Place, turn: str | None) -> None:
        """Open a call."""
        beside = [call for call in self._waiting.get(call_id, ()) if call.is_beside(place, turn)]
        self._waiting[call_id] = [*beside, _Open(place, turn)]

    def answer(self, call_id: str, turn: str | None) -> Answered | None:
        """Return the call that a result answers, which waits no longer; None if no call of its id waits."""
        waiting = self._waiting.get(call_id)
        if not waiting:
            return None
        latest = next((call for call in reversed(waiting) if call.turn == turn), waiting[-1])
        call = next(one for one in waiting if one.place[0] == latest.place[0])
        waiting.remove(call)
        if not waiting:
            del self._waiting[call_id]
        return Answered(call.place, call.takes(turn))

    def unasked(self) -> list[Place]:
        """Return the calls that wait, and behind which no user has asked anything yet."""
        return [call.place for calls in self._waiting.values() for call in calls if not call.is_only_for_its_turn]

    def ask(self, turn: str | None) -> None:
        """Note that a user asked something: what is answered after it, in the same turn or in none, comes too late."""
        for calls in self._waiting.values():
            for call in calls:
                call.asked(turn)


def is_question(message: Message) -> bool:
    """Return whether a user says something here, beside or without results of tools."""
    said = any(not isinstance(part, ToolResultPart) for part in message.parts)
    return message.role == "user" and message.state == "live" and said


def part_at(messages: Sequence[Message], place: Place) -> Part:
    """Return the part at a place."""
    return messages[place[0]].parts[place[1]]


def results_of_calls(messages: Sequence[Message]) -> dict[Place, Place]:
    """Return the place of each call's result, also of one that came late."""
    found: dict[Place, Place] = {}
    waiting = OpenCalls()
    for number, message in enumerate(messages):
        for place, part in enumerate(message.parts):
            if isinstance(part, ToolCallPart):
                waiting.add(part.id, (number, place), message.turn)
            elif isinstance(part, ToolResultPart) and (answered := waiting.answer(part.call_id, message.turn)):
                found[answered.call] = (number, place)
        if is_question(message):
            waiting.ask(message.turn)
    return found
