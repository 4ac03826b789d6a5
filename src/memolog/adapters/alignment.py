"""Compare the messages that a client sends with those that are stored: which are new, and where the client went back.

A client may send the whole conversation, its end, or only what is new, and may have changed earlier answers: some remove
reasoning, some send a reference instead of the text. So conversations are compared by what users said and by the ids of messages
and of tool calls. Answers are matched by their place.

1. The last question of the list that is stored, after the same questions before it, is where both agree. What the list has
   after it is new.
2. What is stored after it and is not in the list was left by the client: the user edited a question or wants another answer.
   The thread is then rewound.
3. A list without any answer may be only what is new. A beginning that equals the unanswered end of the thread is a repeated
   request, and the rest is new. Only the same first question again, when nothing followed its answer, is a wish for another one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Generic, TypeAlias, TypeVar

from memolog.adapters.roundtrip import Said, json_text
from memolog.core.message import FilePart, Message, NewMessage, ReasoningPart, TextPart, ToolCallPart, ToolResultPart

Mark: TypeAlias = tuple[str, ...]
S = TypeVar("S", bound=Said)


@dataclass(frozen=True, slots=True, kw_only=True)
class Aligned:
    """The result of a comparison."""

    new: tuple[NewMessage, ...]
    repeated: tuple[Message, ...] = ()
    """The unanswered stored messages that the list repeats."""
    rewind_to: int | None = None
    """The number of the last stored message that the client still has, if it went back; 0 if it has none."""


@dataclass(slots=True)
class _Exchange(Generic[S]):
    """A message of a user, and what follows until the next one. The first may have no message of a user."""

    question: S | None
    rest: list[S] = field(default_factory=list[S])

    @property
    def messages(self) -> list[S]:
        return [*([] if self.question is None else [self.question]), *self.rest]


def align(given: Sequence[NewMessage], stored: Sequence[Message], *, is_beginning: bool = True) -> Aligned:
    """Compare a list of messages with the live messages at the end of a thread.

    `is_beginning`: the stored messages begin where the thread begins.
    """
    if not any(said.role == "assistant" for said in given):
        return _without_history(given, stored, is_beginning=is_beginning)
    here, there = _exchanges(given), _exchanges(stored)
    found = _agreement(here, there)
    if found is None:
        return _by_answers(given, stored)
    i, j = found
    new, last = _continued(here[i], there[j], is_last=i == len(here) - 1)
    new += [said for one in here[i + 1 :] for said in one.messages]
    after = [row for row in stored if row.seq > last]
    has_left = bool(after) and (j < len(there) - 1 or (not new and given[-1].role != "assistant"))
    if not has_left:
        return Aligned(new=tuple(new), repeated=_unanswered(there[j], new) if j == len(there) - 1 else ())
    return Aligned(new=tuple(new), rewind_to=last)


def _without_history(given: Sequence[NewMessage], stored: Sequence[Message], *, is_beginning: bool) -> Aligned:
    marks = [marks_of(said) for said in given]
    answers = [place for place, row in enumerate(stored) if row.role == "assistant"]
    since = stored[answers[-1] + 1 :] if answers else stored
    for count in range(min(len(given), len(since)), 0, -1):
        if marks[:count] == [marks_of(row) for row in since[-count:]]:
            return Aligned(new=tuple(given[count:]), repeated=tuple(since[-count:]))
    if is_beginning and stored and not since:
        asked = stored[: len(given)]
        rest = stored[len(given) :]
        if marks == [marks_of(row) for row in asked] and all(row.role != "user" for row in rest):
            return Aligned(new=(), rewind_to=asked[-1].seq)
    return Aligned(new=tuple(given))


def _exchanges(messages: Sequence[S]) -> list[_Exchange[S]]:
    found: list[_Exchange[S]] = []
    for said in messages:
        if said.role == "user" and not _is_result(said):
            found.append(_Exchange(said))
        elif not found:
            found.append(_Exchange(None, [said]))
        else:
            found[-1].rest.append(said)
    return found


def _is_result(said: Said) -> bool:
    return any(isinstance(part, ToolResultPart) for part in said.parts)


def _agreement(here: Sequence[_Exchange[NewMessage]], there: Sequence[_Exchange[Message]]) -> tuple[int, int] | None:
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


_Key: TypeAlias = tuple[tuple[Mark, ...], str | None] | None


def _key(one: _Exchange[S]) -> _Key:
    return None if one.question is None else (marks_of(one.question), one.question.id)


def _is_same(one: _Key, other: _Key) -> bool:
    if one is None or other is None:
        return False
    # An id that is stored is the message, whatever a client made of its text; without one the text decides.
    return (one[1] is not None and one[1] == other[1]) or (bool(one[0]) and one[0] == other[0])


def _has_same_answer(here: _Exchange[NewMessage], there: _Exchange[Message]) -> bool:
    return bool(here.rest and there.rest) and marks_of(here.rest[-1]) == marks_of(there.rest[-1])


def _follows(asked: Sequence[_Key], known: Sequence[_Key], i: int, j: int, *, is_whole: bool) -> bool:
    least = 0 if is_whole else i - 1
    for back in range(1, min(i - max(least, 0), j) + 1):
        if asked[i - back] is None:
            break
        if not _is_same(asked[i - back], known[j - back]):
            return False
    # The list goes further back than the thread.
    return not (is_whole and i > j and asked[0] is not None)


def _continued(
    here: _Exchange[NewMessage], there: _Exchange[Message], *, is_last: bool
) -> tuple[list[NewMessage], int]:
    """Return what an exchange of the list has after the stored one, and the last stored row that both have."""
    last = there.question.seq if there.question is not None else 0
    rows = list(there.rest)
    calls = {part.call_id: row for row in rows for part in row.parts if isinstance(part, ToolResultPart)}
    for place, said in enumerate(here.rest):
        results = [part.call_id for part in said.parts if isinstance(part, ToolResultPart)]
        if results:
            if not all(call in calls for call in results):
                # Some results are stored, the others are new.
                return list(here.rest[place:]), last
            last = max(last, *(calls[call].seq for call in results))
            rows = [row for row in rows if row.seq > last]
            continue
        answer = next((row for row in rows if row.role == said.role), None)
        if answer is None:
            return list(here.rest[place:]), last
        last = answer.seq
        rows = [row for row in rows if row.seq > last]
    if not is_last:
        # The user has said something since: what the client has not kept of the answer stays.
        last = max([last, *(row.seq for row in rows)])
    return [], last


def _unanswered(there: _Exchange[Message], new: Sequence[NewMessage]) -> tuple[Message, ...]:
    """Return the end of the thread that a request repeats: messages after its last answer, if the list adds none before."""
    rows = there.messages
    answers = [place for place, row in enumerate(rows) if row.role == "assistant"]
    return () if new else tuple(rows[answers[-1] + 1 :] if answers else rows)


def _by_answers(given: Sequence[NewMessage], stored: Sequence[Message]) -> Aligned:
    """Compare by the last answer that is stored, where no question of the list is: of equal answers the latest counts."""
    places = {
        marks[-1]: place for place, row in enumerate(stored) if row.role == "assistant" and (marks := marks_of(row))
    }
    for place in range(len(given) - 1, -1, -1):
        marks = marks_of(given[place]) if given[place].role == "assistant" else ()
        if marks and marks[-1] in places:
            since = stored[places[marks[-1]] + 1 :]
            rest = _without_history(given[place + 1 :], since, is_beginning=False)
            return Aligned(new=rest.new, repeated=rest.repeated)
    rest = _without_history(given, stored, is_beginning=False)
    return Aligned(new=rest.new, repeated=rest.repeated)


def marks_of(said: Said) -> tuple[Mark, ...]:
    """Return the marks by which messages are compared, one for each part. Reasoning and surrounding space are ignored."""
    marks: list[Mark] = []
    for part in said.parts:
        match part:
            case TextPart():
                marks.append((said.role, "text", part.text.strip()))
            case ToolCallPart():
                marks.append(("call", part.id, part.name))
            case ToolResultPart():
                marks.append(("result", part.call_id))
            case FilePart():
                marks.append((said.role, "file", part.media_type, part.url or sha256(part.data or b"").hexdigest()))
            case ReasoningPart():
                pass
            case _:
                marks.append((said.role, "unknown", json_text(part.data)))
    return tuple(mark for mark in marks if mark[-1] or mark[0] in {"call", "result"})
