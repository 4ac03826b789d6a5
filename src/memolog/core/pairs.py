"""Match tool results to tool calls.

A result belongs to the latest open call with its id in the same turn. If that turn has no such call, the result belongs to the
latest one of the thread. Overlapping turns may use the same ids, and some providers reuse ids.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from memolog.core.message import Message, Part, ToolCallPart, ToolResultPart

PartPlace: TypeAlias = tuple[int, int]
"""The position of a part: the index of its message, and its index in the message."""


class Answered(NamedTuple):
    """The call that a result answers, and whether the result came in time."""

    call: PartPlace
    is_in_time: bool


@dataclass(slots=True, eq=False)
class _Open:
    place: PartPlace
    turn: str | None
    is_closed: bool = False
    is_only_for_its_turn: bool = False

    def takes(self, turn: str | None) -> bool:
        return not self.is_closed and (not self.is_only_for_its_turn or turn == self.turn)

    def is_beside(self, place: PartPlace, turn: str | None) -> bool:
        """Return whether another call with the same id leaves this one open: a call of the same message, or of another turn."""
        return self.place[0] == place[0] or (turn is not None and self.turn is not None and turn != self.turn)


class OpenCalls:
    """The calls without a result, while the messages of a thread are read in order.

    Each call is visited a fixed number of times, so that reading a thread takes linear time.
    """

    def __init__(self) -> None:
        self._waiting: dict[str, list[_Open]] = {}
        self._unasked: dict[PartPlace, _Open] = {}
        """Calls that no user message follows yet."""
        self._beside: dict[str, list[_Open]] = {}
        """Calls that only their own turn can still answer, by turn."""

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(self, call_id: str, place: PartPlace, turn: str | None) -> None:
        """Open a call."""
        waiting = self._waiting.setdefault(call_id, [])
        if waiting and waiting[-1].place[0] != place[0]:
            for call in waiting:
                if not call.is_beside(place, turn):
                    self._unasked.pop(call.place, None)
            waiting[:] = [call for call in waiting if call.is_beside(place, turn)]
        waiting.append(call := _Open(place, turn))
        self._unasked[place] = call

    def answer(self, call_id: str, turn: str | None) -> Answered | None:
        """Remove and return the call that a result answers. None means that no call with this id is open."""
        waiting = self._waiting.get(call_id)
        if not waiting:
            return None
        latest = next((call for call in reversed(waiting) if call.turn == turn), waiting[-1])
        at = next(at for at, one in enumerate(waiting) if one.place[0] == latest.place[0])
        call = waiting.pop(at)
        self._unasked.pop(call.place, None)
        if not waiting:
            del self._waiting[call_id]
        return Answered(call.place, call.takes(turn))

    def unasked(self) -> list[PartPlace]:
        """Return the open calls that no user message follows yet."""
        return list(self._unasked)

    def ask(self, turn: str | None) -> None:
        """Record a user message. Later results of earlier calls, in the same turn or outside of a turn, are too late."""
        # Another turn that runs at the same time may still answer its own calls.
        ended = [turn] if turn is not None else list(self._beside)
        for call in (call for one in ended for call in self._beside.pop(one, ())):
            call.is_closed = True
        for call in self._unasked.values():
            call.is_only_for_its_turn = True
            if turn is None or call.turn is None or turn == call.turn:
                call.is_closed = True
            else:
                self._beside.setdefault(call.turn, []).append(call)
        self._unasked.clear()


def is_question(message: Message) -> bool:
    """Return whether a live user message has more than tool results."""
    has_content = any(not isinstance(part, ToolResultPart) for part in message.parts)
    return message.role == "user" and message.state == "live" and has_content


def part_at(messages: Sequence[Message], place: PartPlace) -> Part:
    """Return the part at a place."""
    return messages[place[0]].parts[place[1]]


def results_of_calls(messages: Sequence[Message]) -> dict[PartPlace, PartPlace]:
    """Return the position of the result of each call, including late results."""
    found: dict[PartPlace, PartPlace] = {}
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
