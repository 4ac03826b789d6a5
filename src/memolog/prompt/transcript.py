"""Render messages as the transcript that an observer reads: numbered, dated in the zone of the user, and bounded."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, tzinfo
from typing import Final

from memolog.domain.calendar_names import ENGLISH_WEEKDAYS
from memolog.domain.message import Message, Role
from memolog.domain.observation import Observation
from memolog.domain.pairs import results_of_calls
from memolog.domain.zones import zone_of
from memolog.prompt.pieces import Calls, PartWriter, Piece, calls_of, pieces_of
from memolog.prompt.redact import REDACTION, Redactor
from memolog.prompt.shorten import shorten
from memolog.tokens import TokenCounter, share

__all__ = ["Shown", "Transcript", "in_zone", "said_in_zone", "split", "transcript"]

_LEAST_TOKENS: Final = 200
# A message cut below this size is useless: some messages are left out instead.
_LEAST_MESSAGE: Final = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A message that the observer sees, under the number by which it is cited."""

    number: int
    thread: str
    seq: int
    role: Role
    at: datetime
    """When it was said, in the zone of the transcript."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transcript:
    """What the observer reads of a span."""

    text: str
    shown: tuple[Shown, ...]
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    """One message, ready to be written."""

    shown: Shown
    header: str
    pieces: tuple[Piece, ...]
    tokens: int = field(default=0)

    @property
    def text(self) -> str:
        bodies = "\n".join(piece.text for piece in self.pieces)
        return f"<message>{self.header}\n{bodies}\n</message>"

    @property
    def day(self) -> str:
        at = self.shown.at
        return f"<day>{ENGLISH_WEEKDAYS[at.weekday()]} {at.date().isoformat()}, UTC{at.isoformat()[-6:]}</day>"


def said_in_zone(observation: Observation, zone: tzinfo) -> datetime | None:
    """Return when a line was said, in its own zone, or in `zone` if it has none."""
    if observation.said_at is None:
        return None
    return in_zone(observation.said_at, zone_of(observation.zone)[0] if observation.zone else zone)


def in_zone(moment: datetime, zone: tzinfo) -> datetime:
    """Return a moment in the zone, or in UTC if it is out of range there; to the second."""
    try:
        local = moment.astimezone(zone)
    except (OverflowError, ValueError):
        local = moment.astimezone(UTC)
    return local.replace(microsecond=0)


def transcript(
    messages: Sequence[Message],
    *,
    counter: TokenCounter,
    zone: tzinfo = UTC,
    most_tokens: int = 100_000,
    redactor: Redactor = REDACTION,
    first: int = 1,
) -> Transcript:
    """Return the messages as the observer reads them, numbered from `first`, within `most_tokens` (at least 200).

    What was withdrawn or forgotten is left out. What is too long is cut in the middle, and says so; if there are too many
    messages to show a little of each, those in the middle are left out, and a line says how many.
    """
    writer = PartWriter(counter=counter, most_tokens=most_tokens, redactor=redactor)
    entries = _entries(messages, zone, writer, first)
    most = max(most_tokens, _LEAST_TOKENS)
    budget = most
    text = _written(entries, 0)
    tokens = counter.count(text)
    while tokens > most:
        kept, left_out = _fitting(entries, budget, counter)
        text = _written(kept, left_out)
        tokens = counter.count(text)
        if tokens <= most:
            entries = kept
            break
        # Tags and dates count too: the next try has a smaller budget.
        budget -= max(tokens - most, most // 20)
    return Transcript(text=text, shown=tuple(entry.shown for entry in entries), tokens=tokens)


def split(
    messages: Sequence[Message],
    most_tokens: int,
    *,
    counter: TokenCounter,
    zone: tzinfo = UTC,
    redactor: Redactor = REDACTION,
) -> tuple[tuple[Message, ...], ...]:
    """Return consecutive pieces whose transcripts have at most so many tokens, tool calls together with their results.

    What belongs together and is too long is one piece; its transcript is cut if `transcript` is given the same bound.
    Every message is in exactly one piece, also those that are not shown.
    """
    writer = PartWriter(counter=counter, most_tokens=most_tokens, redactor=redactor)
    pieces: list[list[Message]] = []
    room, day = 0, ""
    for unit in _units(messages):
        entries = _entries(unit, zone, writer, 1)
        cost, day_after = _cost(entries, day, counter)
        if not pieces or cost > room:
            pieces.append([])
            room = max(most_tokens, _LEAST_TOKENS)
            cost, day_after = _cost(entries, "", counter)
        pieces[-1].extend(unit)
        room, day = room - cost, day_after
    return tuple(map(tuple, pieces))


def _cost(entries: Sequence[_Entry], day: str, counter: TokenCounter) -> tuple[int, str]:
    """Return what some messages add to a piece that stands at a day, and the day it stands at then."""
    cost = 0
    for entry in entries:
        if entry.day != day:
            day = entry.day
            cost += counter.count(day) + 1
        cost += entry.tokens
    return cost, day


def _units(messages: Sequence[Message]) -> Iterable[list[Message]]:
    """Yield the shortest runs of messages after which no tool call waits for its result."""
    unit: list[Message] = []
    # A call without a result does not hold a unit open.
    reach: dict[int, int] = {}
    for (call, _), (result, _) in results_of_calls(messages).items():
        reach[call] = max(reach.get(call, 0), result)
    held = -1
    for number, message in enumerate(messages):
        unit.append(message)
        held = max(held, reach.get(number, number))
        if held <= number:
            yield unit
            unit = []
    if unit:
        yield unit


# ---------------------------------------------------------------- writing


def _entries(messages: Sequence[Message], zone: tzinfo, writer: PartWriter, first: int) -> list[_Entry]:
    live = [message for message in messages if message.state == "live"]
    calls = calls_of(live)
    entries = [_entry(message, calls, zone, writer, number) for number, message in enumerate(live, first)]
    return [replace(entry, tokens=writer.counter.count(entry.text) + 1) for entry in entries]


def _entry(message: Message, calls: Calls, zone: tzinfo, writer: PartWriter, number: int) -> _Entry:
    at = in_zone(message.created_at, zone)
    shown = Shown(number=number, thread=message.thread, seq=message.seq, role=message.role, at=at)
    # The role comes first and names are quoted, so that no name looks like a role.
    speaker = f" {writer.name(message.speaker)}" if message.speaker else ""
    again = " (continued)" if message.continuation else ""
    header = f"[{number}] {at:%H:%M} {message.role}{speaker}{again}:"
    return _Entry(shown=shown, header=header, pieces=pieces_of(message, calls, writer))


def _written(entries: Sequence[_Entry], left_out: int) -> str:
    lines: list[str] = []
    day = ""
    for place, entry in enumerate(entries):
        if left_out and place == (len(entries) + 1) // 2:
            lines.append(_left_out(left_out))
        if entry.day != day:
            day = entry.day
            lines.append(day)
        lines.append(entry.text)
    if left_out and len(entries) <= 1:
        lines.append(_left_out(left_out))
    return "\n".join(lines)


def _left_out(count: int) -> str:
    return f"<left-out>{count:,} messages</left-out>"


# ---------------------------------------------------------------- fitting


def _fitting(entries: Sequence[_Entry], budget: int, counter: TokenCounter) -> tuple[list[_Entry], int]:
    """Return the messages within a budget, the long ones cut, and how many of the middle were left out."""
    most = max(budget // _LEAST_MESSAGE, 0)
    kept = list(entries)
    if len(entries) > most and share([entry.tokens for entry in entries], budget) < _LEAST_MESSAGE:
        kept = [*entries[: (most + 1) // 2], *entries[len(entries) - most // 2 :]]
    cap = share([entry.tokens for entry in kept], budget)
    return [_cut(entry, cap, counter) for entry in kept], len(entries) - len(kept)


def _cut(entry: _Entry, most: int, counter: TokenCounter) -> _Entry:
    """Return the message within so many tokens: each of its parts gives up the same, short ones nothing."""
    if entry.tokens <= most:
        return entry
    entry = _fewer(entry, most, counter)
    bodies = [counter.count(piece.body) for piece in entry.pieces]
    cap = share(bodies, most - _frame(entry, counter))
    pieces = tuple(
        piece if size <= cap else replace(piece, body=shorten(piece.body, cap, counter))
        for piece, size in zip(entry.pieces, bodies, strict=True)
    )
    return replace(entry, pieces=pieces, tokens=min(entry.tokens, most))


def _fewer(entry: _Entry, most: int, counter: TokenCounter) -> _Entry:
    """Return the message without its middle parts, if there are so many that their tags alone would fill it."""
    each = _frame(entry, counter) / max(len(entry.pieces), 1)
    many = max(int(most / 2 / max(each, 1)), 2)
    left_out = len(entry.pieces) - many
    if left_out <= 0:
        return entry
    mark = Piece(open=f"<left-out>{left_out:,} parts</left-out>")
    return replace(entry, pieces=(*entry.pieces[: many // 2], mark, *entry.pieces[-(many - many // 2) :]))


def _frame(entry: _Entry, counter: TokenCounter) -> int:
    bare = tuple(replace(piece, body="") for piece in entry.pieces)
    return counter.count(replace(entry, pieces=bare).text)
