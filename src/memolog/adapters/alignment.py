"""Compare the messages that a client sends with those that are stored: which are new, and where the client went back.

A client may send the whole conversation, its end, or only what is new, and may have changed earlier answers: some remove
reasoning, some send a reference instead of the text. So conversations are compared by what users said and by the ids of messages
and of tool calls. Answers are matched by their place.

1. The last question of the list that is stored, after the same questions before it, is where both agree. What the list has
   after it is new.
2. What is stored after it and is not in the list was left by the client: the user edited a question or wants another answer.
   The thread is then rewound.
3. A list without any answer may be only what is new. A beginning that equals the unanswered end of the thread is a repeated
   request, and the rest is new. If the client is known to send whole conversations, the first question again is a wish for
   another answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeAlias, TypeVar

from memolog.context.context import ContextMessage
from memolog.core.message import Message, NewMessage, ToolResultPart
from memolog.transfer.conversation import marks_of

Said: TypeAlias = NewMessage | Message | ContextMessage
S = TypeVar("S", bound=Said)


@dataclass(frozen=True, slots=True, kw_only=True)
class Aligned:
    """The result of a comparison."""

    new: tuple[NewMessage, ...]
    repeated: int = 0
    """How many messages at the end of the thread have no answer and are repeated by the list."""
    kept: int | None = None
    """How many of the stored messages the client still has, if it went back; otherwise None."""


@dataclass(slots=True)
class _Exchange(Generic[S]):
    """A message of a user, and what follows until the next one. The first exchange may have no message of a user."""

    start: int
    """The index of its first message."""
    question: S | None
    rest: list[S] = field(default_factory=list[S])

    @property
    def messages(self) -> list[S]:
        """All messages of the exchange."""
        return [*([] if self.question is None else [self.question]), *self.rest]

    @property
    def end(self) -> int:
        """The index after its last message."""
        return self.start + len(self.messages)


def align(given: Sequence[NewMessage], stored: Sequence[Said], *, is_whole: bool = False) -> Aligned:
    """Compare a list of messages with the live messages at the end of a thread.

    `is_whole`: the client always sends all that it has, and the stored messages are the whole thread.
    """
    if not has_answer(given):
        return _without_history(given, stored, is_whole=is_whole)
    here, there = _exchanges(given), _exchanges(stored)
    found = _agreement(here, there)
    if found is None:
        return _by_answers(given, stored)
    i, j = found
    new, kept = _continued(here[i], there[j], is_last=i == len(here) - 1)
    new += [said for one in here[i + 1 :] for said in one.messages]
    is_behind = j < len(there) - 1 or (not new and given[-1].role != "assistant")
    if kept < len(stored) and is_behind and not _is_example(stored, kept):
        return Aligned(new=tuple(new), kept=kept)
    if j < len(there) - 1:
        return Aligned(new=tuple(new))
    return Aligned(new=tuple(new), repeated=0 if new else _unanswered(stored))


def has_answer(given: Sequence[Said]) -> bool:
    """Return whether a list has a message of the assistant."""
    return any(said.role == "assistant" for said in given)


def _is_example(stored: Sequence[Said], kept: int) -> bool:
    """Return whether the client supplied all answers that both have: examples that it sends with every request.

    Such an answer was saved in the same turn as the question after it.
    """
    turns = [getattr(said, "turn", None) for said in stored]
    answers = [place for place, said in enumerate(stored[:kept]) if said.role == "assistant"]
    return bool(answers) and all(
        turns[place] is not None
        and place + 1 < len(stored)
        and stored[place + 1].role == "user"
        and turns[place] == turns[place + 1]
        for place in answers
    )


def _unanswered(stored: Sequence[Said]) -> int:
    """Return how many messages at the end of the thread have no answer."""
    answers = [place for place, said in enumerate(stored) if said.role == "assistant"]
    return len(stored) - (answers[-1] + 1 if answers else 0)


def _without_history(given: Sequence[NewMessage], stored: Sequence[Said], *, is_whole: bool) -> Aligned:
    asked = [marks(said) for said in given]
    since = stored[len(stored) - _unanswered(stored) :]
    for count in range(min(len(given), len(since)), 0, -1):
        if asked[:count] == [marks(row) for row in since[-count:]]:
            return Aligned(new=tuple(given[count:]), repeated=count)
    is_first = is_whole and stored and not since and asked == [marks(row) for row in stored[: len(given)]]
    if is_first and all(row.role != "user" for row in stored[len(given) :]):
        # The first question again, and only its answer is stored.
        return Aligned(new=(), kept=len(given))
    return Aligned(new=tuple(given))


def _exchanges(messages: Sequence[S]) -> list[_Exchange[S]]:
    found: list[_Exchange[S]] = []
    for place, said in enumerate(messages):
        if said.role == "user" and not _is_result(said):
            found.append(_Exchange(place, said))
        elif not found:
            found.append(_Exchange(place, None, [said]))
        else:
            found[-1].rest.append(said)
    return found


def _is_result(said: Said) -> bool:
    return any(isinstance(part, ToolResultPart) for part in said.parts)


def _agreement(here: Sequence[_Exchange[NewMessage]], there: Sequence[_Exchange[S]]) -> tuple[int, int] | None:
    """Return the last exchange that both have after the same exchanges before it, by its place in both lists.

    A list may begin later than the thread. If a client left out something in between, the exchange before must still be the same.
    """
    asked = [_key(one) for one in here]
    known = [_key(one) for one in there]
    for i in range(len(asked) - 2, -1, -1):
        # The list has the end of the thread, with its answer: it goes on from there, whatever it left out before.
        if known and _is_same(asked[i], known[-1]) and _has_same_answer(here[i], there[-1]):
            return i, len(known) - 1
    for is_whole in (True, False):
        for i in range(len(asked) - 1, -1, -1):
            for j in range(len(known) - 1, -1, -1):
                if _is_same(asked[i], known[j]) and _follows(asked, known, i, j, is_whole=is_whole):
                    return i, j
    return None


_Key: TypeAlias = tuple[list[str], str | None] | None


def _key(one: _Exchange[S]) -> _Key:
    return None if one.question is None else (marks(one.question), getattr(one.question, "id", None))


def _is_same(one: _Key, other: _Key) -> bool:
    if one is None or other is None:
        return False
    # An id that is stored is the message, whatever a client made of its text; without one the text decides.
    return (one[1] is not None and one[1] == other[1]) or (bool(one[0]) and one[0] == other[0])


def _has_same_answer(here: _Exchange[NewMessage], there: _Exchange[S]) -> bool:
    return bool(here.rest and there.rest) and marks(here.rest[-1]) == marks(there.rest[-1])


def _follows(asked: Sequence[_Key], known: Sequence[_Key], i: int, j: int, *, is_whole: bool) -> bool:
    least = 0 if is_whole else i - 1
    for back in range(1, min(i - max(least, 0), j) + 1):
        if asked[i - back] is None:
            break
        if not _is_same(asked[i - back], known[j - back]):
            return False
    # The list goes further back than the thread.
    return not (is_whole and i > j and asked[0] is not None)


def _continued(here: _Exchange[NewMessage], there: _Exchange[S], *, is_last: bool) -> tuple[list[NewMessage], int]:
    """Return what an exchange of the list has after the stored one, and the index after the last message that both have."""
    first = there.end - len(there.rest)
    at = 0
    results = {
        part.call_id: place
        for place, row in enumerate(there.rest)
        for part in row.parts
        if isinstance(part, ToolResultPart)
    }
    for place, said in enumerate(here.rest):
        calls = [part.call_id for part in said.parts if isinstance(part, ToolResultPart)]
        if calls and all(call in results for call in calls):
            at = max(at, *(results[call] + 1 for call in calls))
            continue
        following = [n for n in range(at, len(there.rest)) if there.rest[n].role == said.role]
        if calls or not following:
            return list(here.rest[place:]), first + at
        at = following[0] + 1
    # After a new question, what the client has not kept of an answer stays.
    return [], first + at if is_last else there.end


def _by_answers(given: Sequence[NewMessage], stored: Sequence[Said]) -> Aligned:
    """Compare by the last answer that is stored, if no question of the list is. Of equal answers the latest counts."""
    places = {found[-1]: place for place, row in enumerate(stored) if row.role == "assistant" and (found := marks(row))}
    start = 0
    for place in range(len(given) - 1, -1, -1):
        found = marks(given[place]) if given[place].role == "assistant" else []
        if found and found[-1] in places:
            start, stored = place + 1, stored[places[found[-1]] + 1 :]
            break
    return _without_history(given[start:], stored, is_whole=False)


def marks(said: Said) -> list[str]:
    """Return the marks by which messages are compared, one for each part."""
    return marks_of(said.role, said.parts)
