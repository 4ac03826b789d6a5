"""Compare the messages that a client sends with the stored messages: find new messages, and whether the client went back.

A client may send the whole conversation, its last messages or only new messages. It may have changed earlier answers: some
clients remove reasoning, others send a reference instead of the text. So questions are compared by content and id, tool results
by the id of the call, and answers by position.

1. Find the last question that both the list and the thread contain, with equal questions before it. Messages of the list after
   the shared messages are new.
2. Stored messages after the shared ones may be missing in the list, because the user edited a question or wants another answer.
   Then the client went back, and the thread is rewound. This needs two shared questions, or a shared question with its answer,
   because a single short question may be equal by chance.
3. A list without any answer may contain only new messages. If it begins with the unanswered messages at the end of the thread,
   these messages are a repeated request, and the rest is new. If a client that always sends whole conversations sends only the
   first question again, the user wants another answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeAlias, TypeVar

from memolog.context.context import ContextMessage
from memolog.core.message import Message, NewMessage, TextPart, ToolResultPart
from memolog.transfer.conversation import marks_of

Said: TypeAlias = NewMessage | Message | ContextMessage
S = TypeVar("S", bound=Said)


@dataclass(frozen=True, slots=True, kw_only=True)
class Aligned:
    """The result of a comparison."""

    new: tuple[NewMessage, ...]
    repeated: int = 0
    """The number of unanswered messages at the end of the thread that the list repeats."""
    kept: int | None = None
    """The number of stored messages that the client still has; None if the client did not go back."""


@dataclass(slots=True)
class _Exchange(Generic[S]):
    """A question (a user message) and the messages up to the next question. The first exchange may have no question."""

    start: int
    """The index of its first message."""
    question: S | None
    rest: list[S] = field(default_factory=list[S])

    @property
    def messages(self) -> list[S]:
        return [*([] if self.question is None else [self.question]), *self.rest]

    @property
    def end(self) -> int:
        """The index after its last message."""
        return self.start + len(self.messages)


def align(
    given: Sequence[NewMessage], stored: Sequence[Said], *, rewinds: bool = False, is_whole: bool = False
) -> Aligned:
    """Compare a list of messages with the live messages at the end of a thread.

    `rewinds` means that the caller rewinds the thread if the client went back. Without it, a question that the client asks again
    counts as new. `is_whole` means that the client always sends its whole conversation, and that `stored` is the whole thread.
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
        if not _is_certain(here, there, i, j):
            return _by_answers(given, stored)
        return Aligned(new=tuple(new), kept=kept) if rewinds else Aligned(new=tuple(new) or after_last_answer(given))
    if kept < len(stored) and is_behind:
        # The shared messages are examples that the client sends with every request, so an equal question is asked again.
        return Aligned(new=tuple(new) or after_last_answer(given))
    if j < len(there) - 1:
        return Aligned(new=tuple(new))
    return Aligned(new=tuple(new), repeated=0 if new else len(after_last_answer(stored)))


def has_answer(given: Sequence[Said]) -> bool:
    """Return whether a list contains an assistant message."""
    return any(said.role == "assistant" for said in given)


def after_last_answer(said: Sequence[S]) -> tuple[S, ...]:
    """Return the messages after the last assistant message. Without such a message, return all messages."""
    answers = [index for index, one in enumerate(said) if one.role == "assistant"]
    return tuple(said[answers[-1] + 1 :]) if answers else tuple(said)


def _is_certain(here: Sequence[_Exchange[NewMessage]], there: Sequence[_Exchange[S]], i: int, j: int) -> bool:
    """Return whether two equal questions belong to one conversation: the questions before them or their answers agree too."""
    if i and j and _is_same(_key(here[i - 1]), _key(there[j - 1])):
        return True
    answer, known = (" ".join(" ".join(_text(said).split()) for said in one.rest) for one in (here[i], there[j]))
    # A client may have shortened the answer, for example removed reasoning. So it is enough if one text contains the other.
    return bool(here[i].rest) and (answer in known or (bool(known) and known in answer))


def _text(said: Said) -> str:
    return " ".join(part.text for part in said.parts if isinstance(part, TextPart))


def _is_example(stored: Sequence[Said], kept: int) -> bool:
    """Return whether all answers that list and thread share are examples, which the client sends with every request.

    The answer of an example was saved in the same turn as the question after it.
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


def _without_history(given: Sequence[NewMessage], stored: Sequence[Said], *, is_whole: bool) -> Aligned:
    asked = [marks(said) for said in given]
    since = after_last_answer(stored)
    for count in range(min(len(given), len(since)), 0, -1):
        if asked[:count] == [marks(row) for row in since[-count:]]:
            return Aligned(new=tuple(given[count:]), repeated=count)
    is_first = is_whole and stored and not since and asked == [marks(row) for row in stored[: len(given)]]
    if is_first and all(row.role != "user" for row in stored[len(given) :]):
        # Only the first question and its answer are stored, and the client sends the question again.
        return Aligned(new=(), kept=len(given))
    return Aligned(new=tuple(given))


def _exchanges(messages: Sequence[S]) -> list[_Exchange[S]]:
    found: list[_Exchange[S]] = []
    for place, said in enumerate(messages):
        if said.role == "user" and not any(isinstance(part, ToolResultPart) for part in said.parts):
            found.append(_Exchange(place, said))
        elif not found:
            found.append(_Exchange(place, None, [said]))
        else:
            found[-1].rest.append(said)
    return found


def _agreement(here: Sequence[_Exchange[NewMessage]], there: Sequence[_Exchange[S]]) -> tuple[int, int] | None:
    """Return the last exchange that both lists share, as its index in each list; None if they share none.

    The exchanges before it must be the same, but the list may begin later than the thread. If no exchange fulfils this, only the
    exchange directly before must be the same, because a client may leave out earlier exchanges.
    """
    asked = [_key(one) for one in here]
    known = [_key(one) for one in there]
    for i in range(len(asked) - 2, -1, -1):
        # The list contains the last exchange of the thread with its answer, so earlier exchanges do not matter.
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
    # Messages with the same id are the same, even if the client changed the text. Otherwise the content must be equal.
    return (one[1] is not None and one[1] == other[1]) or (bool(one[0]) and one[0] == other[0])


def _has_same_answer(here: _Exchange[NewMessage], there: _Exchange[S]) -> bool:
    return bool(here.rest and there.rest) and marks(here.rest[-1]) == marks(there.rest[-1])


def _follows(asked: Sequence[_Key], known: Sequence[_Key], i: int, j: int, *, is_whole: bool) -> bool:
    """Return whether the exchanges before `i` and `j` are the same: with `is_whole` all of them, otherwise the one before."""
    first = 0 if is_whole else i - 1
    for back in range(1, min(i - max(first, 0), j) + 1):
        if asked[i - back] is None:
            break
        if not _is_same(asked[i - back], known[j - back]):
            return False
    # If the list has more exchanges before `i` than the thread before `j`, not all of them can be the same.
    return not (is_whole and i > j and asked[0] is not None)


def _continued(here: _Exchange[NewMessage], there: _Exchange[S], *, is_last: bool) -> tuple[list[NewMessage], int]:
    """Return the messages that only the exchange of the list has, and the stored index after the last message that both have."""
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
    # If another question follows in the list, messages that the client removed from this answer stay stored.
    return [], first + at if is_last else there.end


def _by_answers(given: Sequence[NewMessage], stored: Sequence[Said]) -> Aligned:
    """Compare the messages after the last answer that both lists share. Of equal stored answers the latest is used."""
    places = {found[-1]: place for place, row in enumerate(stored) if row.role == "assistant" and (found := marks(row))}
    start = 0
    for place in range(len(given) - 1, -1, -1):
        found = marks(given[place]) if given[place].role == "assistant" else []
        if found and found[-1] in places:
            start, stored = place + 1, stored[places[found[-1]] + 1 :]
            break
    return _without_history(given[start:], stored, is_whole=False)


def marks(said: Said) -> list[str]:
    """Return the texts by which messages are compared. Reasoning and blank texts are ignored."""
    return marks_of(said.role, said.parts)
