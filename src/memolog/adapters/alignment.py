"""Compare the messages that a client sends with the stored messages: find new messages, and whether the client went back.

A client may send the whole conversation, its last messages or only new messages. It may have changed earlier answers: some
clients remove reasoning, others send a reference instead of the text. So questions are compared by content and id, tool results
by the id of the call, and answers by position.

1. Find the last question that both the list and the thread contain, with equal questions before it. Messages of the list after
   the shared messages are new. Equal questions are told apart by the ids of their tool calls, then by their answers. If these
   do not decide, and the list begins like the thread, the messages are counted from the beginning.
2. Stored messages after the shared ones may be missing in the list, because the user edited a question or wants another answer.
   Then the client went back, and the thread is rewound. This needs two shared questions, or a shared question with its answer,
   because a single short question may be equal by chance.
3. A list without any answer may contain only new messages. If it begins with the unanswered messages at the end of the thread,
   these messages are a repeated request, and the rest is new. If the answer at the end of the thread is incomplete because the
   provider cut it, and the list is the same request again, the thread is rewound to the request.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Generic, TypeAlias, TypeVar

from memolog.context.context import ContextMessage
from memolog.core.message import Message, NewMessage, TextPart, ToolResultPart, tool_key
from memolog.transfer.conversation import marks_of

CUT: Final = "is_cut"
"""The metadata of an answer has this name if the stream of the provider ended before the answer was complete."""

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
    given: Sequence[NewMessage],
    stored: Sequence[Said],
    *,
    rewinds: bool = False,
    is_beginning: bool = False,
    is_whole: bool = False,
) -> Aligned:
    """Compare a list of messages with the live messages at the end of a thread.

    `rewinds` means that the caller rewinds the thread if the client went back. Without it, a question that the client asks again
    counts as new. `is_beginning` means that `stored` begins with the first live message of the thread. `is_whole`
    means that the client always sends its whole conversation.
    """
    if not has_answer(given):
        if rewinds and (kept := _before_cut(given, stored)):
            return Aligned(new=(), kept=kept)
        return _without_history(given, stored, is_whole=is_whole and is_beginning and rewinds)
    here, there = _exchanges(given), _exchanges(stored)
    pairing = _Pairing(here, there)
    found = _aligned(given, stored, here, there, pairing.agreement(is_beginning=is_beginning), rewinds=rewinds)
    # If the list has nothing else, the client wants another answer to a stored result, and the result is asked again.
    return replace(found, new=tuple(pairing.not_stored(found.new, stored[: found.kept])) or found.new)


def _aligned(
    given: Sequence[NewMessage],
    stored: Sequence[S],
    here: Sequence[_Exchange[NewMessage]],
    there: Sequence[_Exchange[S]],
    found: tuple[int, int] | None,
    *,
    rewinds: bool,
) -> Aligned:
    """Compare the messages after the last exchange that both share. `found` is its index in each list."""
    if found is None:
        return _by_answers(given, stored)
    i, j = found
    new, kept, is_other = _continued(here[i], there[j], is_last=i == len(here) - 1)
    new += [said for one in here[i + 1 :] for said in one.messages]
    is_behind = j < len(there) - 1 or is_other or (not new and given[-1].role != "assistant")
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
    return bool(i and j and _is_same(_key(here[i - 1]), _key(there[j - 1]))) or _is_confirmed(here[i], there[j])


def _is_confirmed(here: _Exchange[NewMessage], there: _Exchange[S]) -> bool:
    """Return whether the answers of two exchanges agree.

    A client may have shortened the answer, for example removed reasoning. So it is enough if one text contains the other.
    """
    answer, known = _answer(here), _answer(there)
    return bool(here.rest) and (answer in known or (bool(known) and known in answer))


def _answer(one: _Exchange[S]) -> str:
    """Return the text of an answer, with one space between words."""
    return " ".join(word for said in one.rest for word in _text(said).split())


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


def _before_cut(given: Sequence[NewMessage], stored: Sequence[Said]) -> int:
    """Return the number of stored messages before an incomplete answer at the end, if the list is the same request again.

    Otherwise return 0.
    """
    count = len(stored)
    while count and getattr(stored[count - 1], "metadata", {}).get(CUT):
        count -= 1
    asked = [marks(said) for said in given]
    since = [marks(row) for row in after_last_answer(stored[:count])]
    return count if asked and count < len(stored) and asked == since[-len(asked) :] else 0


def _without_history(given: Sequence[NewMessage], stored: Sequence[Said], *, is_whole: bool) -> Aligned:
    asked = [marks(said) for said in given]
    since = after_last_answer(stored)
    for count in range(min(len(given), len(since)), 0, -1):
        if asked[:count] == [marks(row) for row in since[-count:]]:
            return Aligned(new=tuple(given[count:]), repeated=count)
    is_first = is_whole and stored and not since and asked == [marks(row) for row in stored[: len(given)]]
    if is_first and all(row.role != "user" for row in stored[len(given) :]):
        # Only the first question and its answer are stored, and the client asks for another answer.
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


class _Pairing(Generic[S]):
    """Finds the exchanges that a list and a thread share."""

    def __init__(self, here: Sequence[_Exchange[NewMessage]], there: Sequence[_Exchange[S]]) -> None:
        self._here, self._there = here, there
        self._asked, self._known = [_key(one) for one in here], [_key(one) for one in there]
        self._calls_here, self._calls_there = [_calls(one) for one in here], [_calls(one) for one in there]
        self._place_here, self._place_there = _places(self._calls_here), _places(self._calls_there)

    def agreement(self, *, is_beginning: bool) -> tuple[int, int] | None:
        """Return the last exchange that both lists share, as its index in each list; None if they share none."""
        count = self._same_beginning() if is_beginning else 0
        found = self._at_end()
        if found and found[0] > count - 1:
            return found
        found = found or self._anywhere()
        if not count or found is None:
            return found
        agreed, other = self._confirmed(count - 1, count - 1), self._confirmed(*found)
        # If no answer agrees, prefer the pair that covers more of the list.
        is_first = agreed > other or (agreed == other and (agreed[0] > 0 or count > found[0]))
        return (count - 1, count - 1) if is_first else found

    def not_stored(self, new: Sequence[NewMessage], kept: Sequence[S]) -> Iterator[NewMessage]:
        """Yield the new messages without the tool calls and results that are in `kept`, the messages that stay live."""
        stored = {part for said in kept for part in _pair_ids(said)}
        owners = {id(said): i for i, one in enumerate(self._here) for said in one.rest}
        for said in new:
            i = owners.get(id(said))
            known = {part for part in _pair_ids(said) if part in stored and self._is_stored_call(i, part[1])}
            if not known:
                yield said
            elif said.role != "assistant" and (rest := [part for part in said.parts if tool_key(part) not in known]):
                yield replace(said, parts=tuple(rest))

    def _is_stored_call(self, i: int | None, call: str) -> bool:
        """Return whether a call in exchange `i` of the list is the stored call with this id, not a call with the same id."""
        if i is None or call not in self._place_there or self._place_here.get(call, i) != i:
            return False
        is_repeated = call not in self._place_here and call in self._calls_here[i]
        return not is_repeated and (
            self._asked[i] is None or _is_same(self._asked[i], self._known[self._place_there[call]])
        )

    def _same_beginning(self) -> int:
        """Return how many exchanges at the beginning are the same."""
        count = 0
        for i in range(min(len(self._here), len(self._there))):
            is_greeting = i == 0 and self._asked[0] is None is self._known[0]
            if not (_is_confirmed(self._here[0], self._there[0]) if is_greeting else self._is_same(i, i)):
                break
            count += 1
        return count

    def _at_end(self) -> tuple[int, int] | None:
        """Return where the list has the last exchange of the thread with its answer. Earlier exchanges do not matter then."""
        j = len(self._there) - 1
        for i in range(len(self._here) - 2, -1, -1):
            if j >= 0 and self._is_same(i, j) and _has_same_answer(self._here[i], self._there[j]):
                return i, j
        return None

    def _anywhere(self) -> tuple[int, int] | None:
        """Return the last exchange that both lists share.

        The exchanges before it must be the same, but the list may begin later than the thread. If no exchange fulfils this, only
        the exchange directly before must be the same, because a client may leave out earlier exchanges.
        """
        for is_whole in (True, False):
            for i in range(len(self._here) - 1, -1, -1):
                for j in range(len(self._there) - 1, -1, -1):
                    if self._is_same(i, j) and self._follows(i, j, is_whole=is_whole):
                        return i, j
        return None

    def _is_same(self, i: int, j: int) -> bool:
        """Return whether two exchanges have the same question, and no call of one of them is in another exchange."""
        return (
            _is_same(self._asked[i], self._known[j])
            and all(self._place_there.get(call, j) == j for call in self._calls_here[i])
            and all(self._place_here.get(call, i) == i for call in self._calls_there[j])
        )

    def _follows(self, i: int, j: int, *, is_whole: bool) -> bool:
        """Return whether the exchanges before `i` and `j` are the same: with `is_whole` all of them, otherwise the one before."""
        first = 0 if is_whole else i - 1
        for back in range(1, min(i - max(first, 0), j) + 1):
            if self._asked[i - back] is None:
                break
            if not self._is_same(i - back, j - back):
                return False
        # If the list has more exchanges before `i` than the thread before `j`, not all of them can be the same.
        return not (is_whole and i > j and self._asked[0] is not None)

    def _confirmed(self, i: int, j: int) -> tuple[int, int]:
        """Return how many answers agree, from `i` and `j` back to the first question that differs, and how many are equal."""
        agreed = equal = 0
        while i >= 0 and j >= 0 and (self._is_same(i, j) or self._asked[i] is None is self._known[j]):
            here, there = self._here[i], self._there[j]
            agreed += _is_confirmed(here, there)
            # One of two answers to the same question may contain the other.
            equal += bool(here.rest) and _answer(here) == _answer(there)
            i, j = i - 1, j - 1
        return agreed, equal


def _calls(one: _Exchange[S]) -> list[str]:
    """Return the ids of the tool calls of an exchange, in order. An id that a model uses several times appears several times."""
    return [call for said in one.rest for kind, call in _pair_ids(said) if kind == "call"]


def _pair_ids(said: Said) -> list[tuple[str, str]]:
    return [found for part in said.parts if (found := tool_key(part))]


def _places(calls: Sequence[Sequence[str]]) -> dict[str, int]:
    """Return the exchange of each tool call. Some models use an id again and again, so repeated ids are left out."""
    counts = Counter(call for some in calls for call in some)
    return {call: place for place, some in enumerate(calls) for call in some if counts[call] == 1}


_Key: TypeAlias = tuple[list[str], str | None] | None


def _key(one: _Exchange[S]) -> _Key:
    return None if one.question is None else (marks(one.question), getattr(one.question, "id", None))


def _is_same(one: _Key, other: _Key) -> bool:
    if one is None or other is None:
        return False
    # Messages with the same id are the same, even if the client changed the text. Otherwise the content must be equal.
    return (one[1] is not None and one[1] == other[1]) or one[0] == other[0]


def _has_same_answer(here: _Exchange[NewMessage], there: _Exchange[S]) -> bool:
    return bool(here.rest and there.rest) and marks(here.rest[-1]) == marks(there.rest[-1])


def _continued(
    here: _Exchange[NewMessage], there: _Exchange[S], *, is_last: bool
) -> tuple[list[NewMessage], int, bool]:
    """Compare two exchanges with the same question.

    Return the messages that only the exchange of the list has, the stored index after the last message that both have, and
    whether the next stored message is not in the list: it has other tool calls, or the list has another result there.
    """
    first = there.end - len(there.rest)
    at = 0
    rows: dict[tuple[str, str], list[int]] = {}
    for place, row in enumerate(there.rest):
        for one in _pair_ids(row):
            rows.setdefault(one, []).append(place)
    for place, said in enumerate(here.rest):
        if (found := _taken(rows, said)) is not None:
            at = max(at, found + 1)
            continue
        kinds = {kind for kind, _ in _pair_ids(said)}
        following = [n for n in range(at, len(there.rest)) if there.rest[n].role == said.role]
        is_other = bool("call" in kinds and following and _pair_ids(there.rest[following[0]]))
        if "result" in kinds or is_other or not following:
            return list(here.rest[place:]), first + at, is_other or _is_late(said, there.rest, at)
        at = following[0] + 1
    # If another question follows in the list, messages that the client removed from this answer stay stored.
    return [], first + at if is_last else there.end, False


def _is_late(said: NewMessage, rest: Sequence[Said], at: int) -> bool:
    """Return whether a message has the result of a call before `at`, and the model has answered without it."""
    calls = {call for row in rest[:at] for kind, call in _pair_ids(row) if kind == "call"}
    is_result = any(kind == "result" and call in calls for kind, call in _pair_ids(said))
    return is_result and any(row.role == "assistant" for row in rest[at:])


def _taken(rows: dict[tuple[str, str], list[int]], said: Said) -> int | None:
    """Remove the calls and results of a message from `rows`, and return the last place. None if one of them is not there."""
    ids = _pair_ids(said)
    if not ids or not all(rows.get(one) for one in ids):
        return None
    return max([rows[one].pop(0) for one in ids])


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
