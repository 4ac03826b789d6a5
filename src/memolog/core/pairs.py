"""Match tool results to tool calls.

A result belongs to the latest message of the same turn that has an open call with its id, and there to the first such call. If
the turn has no such message, the latest such message of the thread is used. Overlapping turns may use the same ids, and some
providers reuse ids.
"""

from collections import deque
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
    is_too_late: bool = False
    is_only_for_its_turn: bool = False

    def is_in_time(self, turn: str | None) -> bool:
        return not self.is_too_late and (not self.is_only_for_its_turn or turn == self.turn)


class OpenCalls:
    """The calls without a result, while the messages of a thread are read in order.

    Each call is added, moved and removed at most once, so that reading a thread takes linear time.
    """

    def __init__(self) -> None:
        self._by_id: dict[str, dict[str | None, deque[_Open]]] = {}
        """The open calls of each id by turn. The calls of a turn are in one message, and the turn of the latest call is last."""
        self._since_question: dict[PartPlace, _Open] = {}
        """Calls that no user message follows yet."""
        self._only_for_turn: dict[str, list[_Open]] = {}
        """Calls that only their own turn can still answer, by turn."""

    def __bool__(self) -> bool:
        return bool(self._by_id)

    def add(self, call_id: str, place: PartPlace, turn: str | None) -> None:
        """Open a call.

        Calls with this id in earlier messages can no longer be answered, unless both calls have a turn and the turns differ.
        """
        by_turn = self._by_id.setdefault(call_id, {})
        same = by_turn.get(turn)
        if same is None or same[0].place[0] != place[0]:
            for ended in (turn, None) if turn is not None else tuple(by_turn):
                for call in by_turn.pop(ended, ()):
                    self._since_question.pop(call.place, None)
        self._since_question[place] = call = _Open(place, turn)
        by_turn.setdefault(turn, deque()).append(call)

    def answer(self, call_id: str, turn: str | None) -> Answered | None:
        """Remove and return the call that a result answers. None means that no call with this id is open."""
        by_turn = self._by_id.get(call_id)
        if not by_turn:
            return None
        if turn in by_turn:
            answered, calls = turn, by_turn[turn]
        else:
            # Take out the last turn and put it back, because reading only the last key of a dict may take linear time.
            answered, calls = by_turn.popitem()
            by_turn[answered] = calls
        call = calls.popleft()
        self._since_question.pop(call.place, None)
        if not calls:
            del by_turn[answered]
        if not by_turn:
            del self._by_id[call_id]
        return Answered(call.place, call.is_in_time(turn))

    def since_question(self) -> list[PartPlace]:
        """Return the open calls that no user message follows yet."""
        return list(self._since_question)

    def add_question(self, turn: str | None) -> None:
        """Record a user message. After it, results are too late for earlier calls of its turn and for calls without a turn.

        If the user message has no turn, results are too late for all earlier calls.
        """
        # Another turn that runs at the same time may still answer its own calls.
        ended = [turn] if turn is not None else list(self._only_for_turn)
        for call in (call for one in ended for call in self._only_for_turn.pop(one, ())):
            call.is_too_late = True
        for call in self._since_question.values():
            call.is_only_for_its_turn = True
            if turn is None or call.turn is None or turn == call.turn:
                call.is_too_late = True
            else:
                self._only_for_turn.setdefault(call.turn, []).append(call)
        self._since_question.clear()


def is_question(message: Message) -> bool:
    """Return whether a message is live, has the role "user", and has a part that is not a tool result."""
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
            waiting.add_question(message.turn)
    return found
