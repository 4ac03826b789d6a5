"""The embedded reflector: many lines in, fewer out, and nothing that has a name lost without a trace.

Knows what outlives what: user statements and finished work before everything else, new before old, 🟢 goes first. Every line
says which ones it stands for. Knows no model.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from memolog.domain.observation import TRACES, Observation, Priority
from memolog.extractive.choosing import Candidate, choose
from memolog.extractive.identifiers import lost_from
from memolog.extractive.words import weights_of
from memolog.prompt.build import ReflectInput
from memolog.prompt.drafts import ParsedReflection, ReflectedDraft
from memolog.prompt.escape import clean, one_line
from memolog.prompt.transcript import said_in_zone
from memolog.tokens import TokenCounter

__all__ = ["TRACE", "reflect"]


@dataclass(frozen=True, slots=True)
class _Entry:
    """An observation, taken apart."""

    index: int
    observation: Observation
    lead: str
    """Who speaks, which stays whatever else goes."""
    pieces: tuple[str, ...]

    @property
    def name(self) -> str:
        return f"o{self.index + 1}"


_LEAD: Final = re.compile(r"(?:->|(?:User|Assistant|System)(?: [^:;]{1,60})?:|asked:|User asked:|User confirmed:) ")
_PIECE: Final = re.compile(r"; (?=\S)")
_FACTORS: Final[Mapping[Priority, float]] = {"high": 4.0, "done": 6.0, "medium": 1.0, "low": 0.2}
_OLDEST: Final = 0.6
_NEWEST: Final = 1.4
_KEPT: Final[frozenset[Priority]] = frozenset({"high", "done"})
_LEVELS: Final = (1.0, 0.8, 0.6, 0.4, 0.2)
_TRIES: Final = 6
TRACE: Final = TRACES[0]
"""How the line begins that names what was left out."""
_TRACE_SHARE: Final = 0.5
_LONGEST: Final = 9_000


def reflect(given: ReflectInput, counter: TokenCounter) -> ParsedReflection:
    """Return fewer lines that say what the observations said, within the target where names leave room for it.

    Never empty where something was given, and never larger. The same input gives the same lines, byte for byte.
    """
    entries = [_entry(index, observation) for index, observation in enumerate(given.observations)]
    if not entries:
        return ParsedReflection()
    size = sum(counter.count(entry.observation.text) for entry in entries)
    level = _LEVELS[min(max(given.level, 0), len(_LEVELS) - 1)]
    target = max(min(given.target_tokens, int(size * level) if given.level else given.target_tokens), 1)
    unique, stands_for = _unique(entries)
    if sum(counter.count(entry.observation.text) for entry in unique) <= target:
        return _reflection(given, unique, {entry.index: entry.pieces for entry in unique}, stands_for, [])
    best = _condensed(given, unique, stands_for, target, counter)
    while _size(best, counter) >= size and len(best.lines) > 1:
        # Names alone can be longer than the lines were: what is left out here, the generation lists.
        best = replace(best, lines=_shorter(best.lines))
    if _size(best, counter) > size:
        return _reflection(given, entries, {entry.index: entry.pieces for entry in entries}, {}, [])
    return best


def _condensed(
    given: ReflectInput,
    entries: Sequence[_Entry],
    stands_for: Mapping[int, list[str]],
    target: int,
    counter: TokenCounter,
) -> ParsedReflection:
    """Return a reflection near the target: what is left out leaves its names, and they take room too."""
    characters = sum(len(entry.observation.text) for entry in entries)
    tokens = max(sum(counter.count(entry.observation.text) for entry in entries), 1)
    each = characters / tokens
    room = target * each
    best: ParsedReflection | None = None
    for _ in range(_TRIES):
        chosen = _chosen(entries, room)
        kept = [text for entry in entries for text in chosen.get(entry.index, ())]
        lost = lost_from((entry.observation.text for entry in entries), [*kept, *_leads(entries, chosen)])
        lost = list(dict.fromkeys([*lost, *_still_missing(given.missing, kept)]))
        made = _reflection(given, entries, chosen, stands_for, _within(lost, given.trace_tokens, counter))
        if best is None or _size(made, counter) < _size(best, counter):
            best = made
        over = _size(made, counter) - target
        if over <= 0:
            return made
        room -= max(over * each, room / 12)
        if room < target * each * _TRACE_SHARE / 2:
            break
    return best if best is not None else ParsedReflection()


def _leads(entries: Sequence[_Entry], chosen: Mapping[int, tuple[str, ...]]) -> list[str]:
    return [entry.lead for entry in entries if entry.index in chosen]


def _within(names: Sequence[str], most: int | None, counter: TokenCounter) -> list[str]:
    """Return as many names as one line may hold; what finds no room is the loss guard's to list."""
    kept, room = list(names), most
    while kept and room is not None and counter.count(f"{TRACE}{', '.join(kept)}") > room:
        kept = kept[: len(kept) * 9 // 10]
    return kept


def _still_missing(missing: Sequence[str], kept: Sequence[str]) -> list[str]:
    return [one_line(name, 200) for name in missing if name.strip() and not any(name in text for text in kept)]


def _size(parsed: ParsedReflection, counter: TokenCounter) -> int:
    return sum(counter.count(line.text) for line in parsed.lines)


def _shorter(lines: tuple[ReflectedDraft, ...]) -> tuple[ReflectedDraft, ...]:
    """Return the lines with half of the last one, or without it."""
    last = lines[-1]
    words = last.text.split(", ")
    if len(words) < 2:  # noqa: PLR2004 - nothing to halve
        return lines[:-1]
    return (*lines[:-1], replace(last, text=", ".join(words[: len(words) // 2])))


# ---------------------------------------------------------------- taking apart


def _entry(index: int, observation: Observation) -> _Entry:
    text = one_line(clean(observation.text), _LONGEST)
    lead = _LEAD.match(text)
    body = text[lead.end() :] if lead else text
    return _Entry(index, observation, lead[0] if lead else "", tuple(filter(None, _PIECE.split(body))))


def _unique(entries: Sequence[_Entry]) -> tuple[list[_Entry], dict[int, list[str]]]:
    """Return the lines without repetitions, and which ones each stands for beside itself: the newest stays."""
    newest: dict[tuple[str, Priority], int] = {}
    for entry in entries:
        newest[entry.observation.text.casefold(), entry.observation.priority] = entry.index
    stands_for: dict[int, list[str]] = {}
    for entry in entries:
        stays = newest[entry.observation.text.casefold(), entry.observation.priority]
        if stays != entry.index:
            stands_for.setdefault(stays, []).append(entry.name)
    stay = set(newest.values())
    return [entry for entry in entries if entry.index in stay], stands_for


# ---------------------------------------------------------------- choosing


def _chosen(entries: Sequence[_Entry], room: float) -> dict[int, tuple[str, ...]]:
    """Return the pieces of each line that are kept: the best one of every 🔴 and ✅ first, 🟢 only if there is room."""
    # Lines that only name what was left out earlier are written anew: two of them would be one too many.
    told = [entry for entry in entries if not entry.observation.text.startswith(TRACES)] or list(entries)
    places = [(entry, number) for entry in told for number in range(len(entry.pieces))]
    candidates = [_candidate(entry, number, len(entries)) for entry, number in places]
    forced = {_first(entry) for entry in told if entry.observation.priority in _KEPT and entry.pieces}
    known: set[str] = set()
    taken: set[int] = set()
    for index, (entry, number) in enumerate(places):
        if (entry.index, number) in forced and room > 0:
            taken.add(index)
            known.update(candidates[index].weights)
            room -= candidates[index].cost + 2
    left = [index for index in range(len(places)) if index not in taken]
    taken |= {left[index] for index in choose([candidates[index] for index in left], room, known)}
    chosen: dict[int, list[str]] = {}
    for index in sorted(taken):
        entry, number = places[index]
        chosen.setdefault(entry.index, []).append(entry.pieces[number])
    return {index: tuple(pieces) for index, pieces in chosen.items()}


def _first(entry: _Entry) -> tuple[int, int]:
    """Return the piece of a line that says most for its length."""
    worth = [sum(weights_of(piece).values()) / (len(piece) + 20) for piece in entry.pieces]
    return entry.index, worth.index(max(worth))


def _candidate(entry: _Entry, number: int, count: int) -> Candidate:
    piece = entry.pieces[number]
    age = _OLDEST + (_NEWEST - _OLDEST) * (entry.index + 1) / max(count, 1)
    factor = _FACTORS[entry.observation.priority] * age
    lead = len(entry.lead) if number == 0 else 0
    return Candidate(weights_of(piece), len(piece) + lead, factor)


# ---------------------------------------------------------------- putting together


def _reflection(
    given: ReflectInput,
    entries: Sequence[_Entry],
    chosen: Mapping[int, tuple[str, ...]],
    stands_for: Mapping[int, list[str]],
    lost: Sequence[str],
) -> ParsedReflection:
    lines: list[ReflectedDraft] = []
    places: dict[tuple[str, int], int] = {}
    for entry in entries:
        pieces = chosen.get(entry.index, ())
        if not pieces and entry.pieces:
            continue
        observation = entry.observation
        names = (*stands_for.get(entry.index, ()), entry.name)
        parent = None if observation.parent is None else places.get((observation.group, observation.parent))
        text = one_line(entry.lead + "; ".join(pieces), _LONGEST)
        places[observation.group, observation.ordinal] = len(lines)
        if lines and parent is not None and _continues(lines[-1], parent, observation, entry):
            lines[-1] = _joined(lines[-1], text.removeprefix(entry.lead), names, observation)
            places[observation.group, observation.ordinal] = len(lines) - 1
            continue
        lines.append(_draft(given, observation, text, names, parent))
    if lost:
        gone = tuple(entry.name for entry in entries if entry.index not in chosen) or (entries[-1].name,)
        lines.append(ReflectedDraft(priority="medium", text=f"{TRACE}{', '.join(lost)}", merges=gone))
    return ParsedReflection(lines=tuple(lines or [_last_resort(given, entries)]))


def _continues(last: ReflectedDraft, parent: int, observation: Observation, entry: _Entry) -> bool:
    """Tell whether a line can be added to the one before it: same parent, same weight, same speaker."""
    return (
        last.parent == parent
        and last.priority == observation.priority
        and last.about is None
        and observation.about is None
        and not last.verbatim
        and not observation.verbatim
        and (entry.lead == "" or last.text.startswith(entry.lead))
        and len(last.text) < _LONGEST // 4
    )


def _joined(last: ReflectedDraft, text: str, names: tuple[str, ...], observation: Observation) -> ReflectedDraft:
    return replace(
        last,
        text=f"{last.text}; {text}",
        merges=(*last.merges, *names),
        files=tuple(dict.fromkeys((*last.files, *observation.files))),
        category=last.category if last.category == observation.category else None,
    )


def _draft(
    given: ReflectInput, observation: Observation, text: str, names: tuple[str, ...], parent: int | None
) -> ReflectedDraft:
    said = said_in_zone(observation, given.zone)
    return ReflectedDraft(
        priority=observation.priority,
        text=text,
        merges=names,
        on=said.date() if said else None,
        at=said.time() if said else None,
        about=observation.about,
        parent=parent,
        verbatim=observation.verbatim,
        category=observation.category,
        files=observation.files,
        metadata=observation.metadata,
    )


def _last_resort(given: ReflectInput, entries: Sequence[_Entry]) -> ReflectedDraft:
    """Return one line where no piece fitted: the newest of the weightiest, as much of it as may stand."""
    best = max(entries, key=lambda entry: (_FACTORS[entry.observation.priority], entry.index))
    return _draft(given, best.observation, one_line(best.observation.text, _LONGEST), (best.name,), None)
