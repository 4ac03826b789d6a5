"""The embedded reflector: condense observations to a target size.

User statements (🔴) and finished work (✅) stay; a statement that a newer one replaces is moved into it. Of the rest, lines
with most new content for their length stay. Each line names the lines that it stands for.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from memolog.core.observation import KEPT, TRACES, Observation, Priority
from memolog.observer.drafts import ParsedReflection, ReflectedDraft
from memolog.observer.extractive.sentences import (
    Candidate,
    Entry,
    Listing,
    choose,
    is_name,
    listing_lines,
    read_listing,
    sentences,
    weights_of,
    words_of,
)
from memolog.observer.extractive.statements import dangles, is_filler, replaced_in
from memolog.observer.prompt import ReflectInput
from memolog.observer.transcript import said_in_zone
from memolog.text.escape import clean, short_line
from memolog.text.tokens import TokenCounter

_LEAD: Final = re.compile(r"(?:->|(?:User|Assistant|System)(?: [^:;]{1,60})?:|asked:) ")
_ASKED: Final = re.compile(r"(?:User(?: [^:;]{1,60})? )?asked: ")
_PASSED: Final = re.compile(r"\b\d+ (?:tests? )?(?:pass\w*|ok)\b(?!.*\bfail)", re.IGNORECASE)
_CALL: Final = re.compile(
    r"Assistant (?!listed )(?:ran|called|changed|edited|created|updated|read|searched|fetched)\b[^:]{1,200}"
)
_CHANGED: Final = re.compile(r"(Assistant (?:changed|edited|created|updated|wrote|modified|deleted)) (?=\S)")
_MEANING: Final = re.compile(r" \(meaning [^)]{0,200}\)")
_FACTORS: Final[Mapping[Priority, float]] = {"high": 4.0, "done": 4.0, "medium": 1.0, "low": 0.2}
_PROSE: Final = 0.6
_HEAD: Final = 4.0
_HEAD_BONUS: Final = 3.0
_DETAIL: Final = 0.5
_FIRST_ITEMS: Final = 5
_LATER_ITEM: Final = 0.3
_QUESTION: Final = 0.3
_REPEATED: Final = 0.0
_ERROR: Final = 1.5
_OLDEST: Final = 0.7
_NEWEST: Final = 1.3
_LEVELS: Final = (1.0, 0.8, 0.6, 0.4, 0.2)
_FLOOR: Final = 1_650
"""A result need not be shorter than this, if it is at most three quarters of the log."""
_FLOOR_SHARE: Final = 0.75
_LINE: Final = 18
_JOINED: Final = 460
_TRIES: Final = 8
_LONGEST: Final = 9_000
_LONG_WORD: Final = 5
_RARE: Final = 3
_REPLACED: Final = 160
_ABOUT: Final = " (This is about: "
_CLOSE: Final = 6


@dataclass(slots=True)
class _Unit:
    """A piece of a line that is kept or dropped as a whole."""

    text: str
    candidate: Candidate
    listing: int = -1
    """Which list of its line it is an item of."""
    entry: Entry | None = None
    detail: bool = False


@dataclass(slots=True)
class _Entry:
    """An observation, split into units."""

    index: int
    observation: Observation
    lead: str
    """The speaker, which is always kept."""
    sentences: list[str]
    topics: list[str] = field(default_factory=list[str])
    units: list[_Unit] = field(default_factory=list[_Unit])
    files: tuple[str, ...] = ()
    names: list[str] = field(default_factory=list[str])
    """The lines that it stands for."""
    before: list[str] = field(default_factory=list[str])
    """What its statements replace."""
    about: str = ""
    """The question that they refer to."""

    @property
    def is_kept(self) -> bool:
        return self.observation.priority in KEPT

    @property
    def stays(self) -> bool:
        """Whether it is kept regardless of the target: statements, finished work, and lines about changed files."""
        return self.is_kept or (self.observation.category == "change" and self.observation.priority == "medium")


def reflect(given: ReflectInput, counter: TokenCounter) -> ParsedReflection:
    """Return the observations condensed to the target, as far as possible.

    User statements and finished work are kept whatever the target. The result is never empty and never larger than the input.
    Deterministic.
    """
    if not given.observations:
        return ParsedReflection()
    before = [_entry(index, observation) for index, observation in enumerate(given.observations)]
    size = sum(counter.count(entry.observation.text) for entry in before)
    characters = sum(len(entry.observation.text) for entry in before)
    level = _LEVELS[min(max(given.level, 0), len(_LEVELS) - 1)]
    target = max(min(given.target_tokens, int(size * level) if given.level else given.target_tokens), 1)
    entries = _unique(before)
    if sum(counter.count(entry.observation.text) for entry in entries) <= target:
        return _reflection(given, entries, {entry.index: set(range(len(entry.units))) for entry in entries})
    _supersede(entries)
    _refer(entries)
    least = min(_FLOOR, characters * _FLOOR_SHARE)
    each = characters / max(size, 1)
    best = _condensed(given, entries, target * each, counter, max(target, int(least / each)))
    if not best.lines or best.tokens(counter) > size:
        return _as_it_was(given, before)
    return best


def _condensed(
    given: ReflectInput, entries: Sequence[_Entry], room: float, counter: TokenCounter, most: int
) -> ParsedReflection:
    """Return a reflection near the target; statements alone may exceed it."""
    units = [(entry, place) for entry in entries if not entry.stays for place in range(len(entry.units))]
    candidates, starts = list[Candidate](), dict[int, int]()
    for entry, place in units:
        starts.setdefault(entry.index, len(candidates))
        candidate = entry.units[place].candidate
        needs = None if candidate.needs is None else starts[entry.index] + candidate.needs
        candidates.append(candidate._replace(needs=needs))
    kept = [entry for entry in entries if entry.stays]
    spent = sum(len(entry.lead) + len(_words(entry)) + _LINE for entry in kept)
    known = {word for entry in kept for word in weights_of(_words(entry))}
    each = room / max(given.target_tokens, 1)
    made = ParsedReflection()
    room = max(room, most * each)
    for _ in range(_TRIES):
        chosen, _ = choose(candidates, room - spent, set(known))
        places: dict[int, set[int]] = {entry.index: set(range(len(entry.units))) for entry in kept}
        for index in chosen:
            entry, place = units[index]
            places.setdefault(entry.index, set()).add(place)
        made = _reflection(given, entries, places)
        over = made.tokens(counter) - most
        if over <= 0 or not chosen:
            break
        room -= max(over * each, room / 20)
    return made


# ---------------------------------------------------------------- taking apart


def _entry(index: int, observation: Observation) -> _Entry:
    text = short_line(clean(observation.text), _LONGEST)
    name = f"o{index + 1}"
    listing = read_listing(text) if observation.priority not in KEPT else None
    if listing:
        who, listings = listing
        entry = _Entry(index, observation, who, [], [one.topic for one in listings], names=[name])
        for place, one in enumerate(listings):
            entry.units += _items(place, one, len(entry.units))
        return entry
    lead = _LEAD.match(text)
    body = text[lead.end() :] if lead else text
    said = sentences(body) or [body]
    entry = _Entry(index, observation, lead[0] if lead else "", said, files=observation.files, names=[name])
    entry.units = [
        _Unit(sentence, Candidate(weights_of(sentence), len(sentence) + _LINE / len(entry.sentences)))
        for sentence in entry.sentences
    ]
    return entry


def _items(place: int, listing: Listing, first: int) -> list[_Unit]:
    """Return the items of a list as units, each with its detail, which needs it; `first` is the place of the first unit."""
    made: list[_Unit] = []
    share = (len(listing.topic) + _LINE) / max(len(listing.entries), 1)
    for number, item in enumerate(listing.entries):
        factor = _HEAD if number < _FIRST_ITEMS else _HEAD * _LATER_ITEM
        weights = weights_of(item.text, is_head=True)
        head = Candidate(weights, len(item.text) + 5 + share, factor, _HEAD_BONUS)
        at = first + len(made)
        made.append(_Unit(item.text, head, place, item))
        if item.details:
            words = " ".join(item.details)
            made.append(
                _Unit(words, Candidate(weights_of(words), len(words) + 3, _DETAIL, needs=at), place, item, True)
            )
    return made


def _unique(entries: Sequence[_Entry]) -> list[_Entry]:
    """Return the lines without repetitions, of which the newest is kept, and without lists of names."""
    newest: dict[tuple[str, bool], _Entry] = {}
    for entry in entries:
        newest[entry.observation.text.casefold(), entry.is_kept] = entry
    stay: list[_Entry] = []
    for entry in entries:
        last = newest[entry.observation.text.casefold(), entry.is_kept]
        if last is not entry:
            last.names += entry.names
        elif not entry.observation.text.startswith(TRACES):
            stay.append(entry)
    stay = _joined_changes(stay or [entries[-1]])
    _weigh(stay)
    return stay


def _joined_changes(entries: Sequence[_Entry]) -> list[_Entry]:
    """Join the lines about files that were changed in one way, on one day, in one thread into the last of them."""
    stay: list[_Entry] = []
    last: dict[tuple[str, object, object], _Entry] = {}
    for entry in reversed(entries):
        observation = entry.observation
        change = _CHANGED.match(observation.text) if observation.category == "change" and not entry.is_kept else None
        if change is None:
            stay.append(entry)
            continue
        day = observation.said_at.date() if observation.said_at else None
        key = (change[1], day, tuple(source.thread for source in observation.sources[:1]))
        newer = last.get(key)
        files = dict.fromkeys((*entry.files, *(newer.files if newer else ())))
        text = f"{change[1]} {', '.join(files)}"
        if newer is None or len(text) > _JOINED:
            last[key] = entry
            stay.append(entry)
        else:
            newer.files, newer.sentences = tuple(files), [text]
            newer.units = [_Unit(text, Candidate(weights_of(text), len(text) + _LINE))]
            newer.names += entry.names
    return stay[::-1]


def _weigh(entries: Sequence[_Entry]) -> None:
    """Set the factor of every piece: by its kind, its age, and whether something later makes it obsolete."""
    later: set[str] = set()
    answered = {(entry.observation.group, entry.observation.parent) for entry in entries}
    for entry in reversed(entries):
        observation = entry.observation
        age = _OLDEST + (_NEWEST - _OLDEST) * (entry.index + 1) / max(entries[-1].index + 1, 1)
        factor = _FACTORS[observation.priority] * age
        call = _CALL.match(observation.text)
        if call and not entry.is_kept:
            is_error = observation.category == "error"
            if (call[0] in later and not is_error) or _PASSED.search(observation.text):
                factor *= _REPEATED
            elif observation.category == "change":
                factor *= _HEAD
            elif is_error:
                factor *= _ERROR
            later.add(call[0])
        elif _ASKED.match(observation.text):
            factor *= _QUESTION if (observation.group, observation.ordinal) in answered else 2 * _QUESTION
        elif not entry.topics:
            factor *= _PROSE
        for unit in entry.units:
            own = unit.candidate.factor if entry.topics else 1.0
            if _PASSED.search(unit.text) and not entry.is_kept:
                own *= _REPEATED
            unit.candidate = unit.candidate._replace(factor=own * factor)


def _words(entry: _Entry) -> str:
    before = f" (before: {'; '.join(entry.before)})" if entry.before else ""
    return " ".join(entry.sentences) + entry.about + before


# ---------------------------------------------------------------- what newer statements replace


def _supersede(entries: Sequence[_Entry]) -> None:
    """Move statements into the newer statements that replace them, and drop small talk."""
    kept = [entry for entry in entries if entry.observation.priority == "high" and not entry.observation.verbatim]
    places: dict[str, list[int]] = {}
    for place, entry in enumerate(kept):
        if len(entry.sentences) > 1:
            entry.sentences[:] = [one for one in entry.sentences if not is_filler(one)] or entry.sentences
        for word in {word for sentence in entry.sentences for word in _telling(sentence)}:
            places.setdefault(word, []).append(place)
    for place, entry in enumerate(kept):
        gone = " ".join(filter(None, map(replaced_in, entry.sentences)))
        if not gone:
            continue
        names = {word.lower() for word in words_of(gone) if is_name(word)}
        words = {word for word in names & _telling(gone) or _telling(gone) if len(places.get(word, ())) <= _RARE}
        for older in sorted({older for word in words for older in places.get(word, ()) if older < place}):
            if kept[older].sentences:
                _replace(kept[older], entry, words)


def _refer(entries: Sequence[_Entry]) -> None:
    """Add the question before it to a statement with a pronoun, since the question may be dropped."""
    asked: _Entry | None = None
    for entry in entries:
        if _ASKED.match(entry.observation.text):
            asked = entry
        elif entry.observation.priority == "high":
            if asked and entry.sentences and dangles(entry.sentences[0]) and _ABOUT not in entry.observation.text:
                words = " ".join(asked.sentences)
                if len(words) <= _REPLACED and entry.index - asked.index <= _CLOSE:
                    entry.about = f"{_ABOUT}{words})"
                    entry.names += asked.names
            asked = None


def _replace(older: _Entry, newer: _Entry, words: set[str]) -> None:
    """Move a line into the newer one, if all of its sentences are replaced."""
    if not all(words & _telling(one) and not one.endswith(("?", ":")) for one in older.sentences):
        return
    gone = _MEANING.sub("", " ".join(older.sentences)).rstrip(". ")
    if len(gone) <= _REPLACED:
        newer.before += [gone, *older.before]
        newer.names += older.names
        older.sentences.clear()
        older.before.clear()


def _telling(sentence: str) -> set[str]:
    """Return the names and longer words of a sentence, by which statements are compared."""
    return {
        word.lower()
        for word in words_of(sentence)
        if (len(word) >= _LONG_WORD or is_name(word)) and weights_of(word, is_head=True)
    }


# ---------------------------------------------------------------- putting together


def _reflection(given: ReflectInput, entries: Sequence[_Entry], chosen: Mapping[int, set[int]]) -> ParsedReflection:
    lines: list[ReflectedDraft] = []
    places: dict[tuple[str, int], int] = {}
    for entry in entries:
        observation = entry.observation
        for text in _texts(entry, chosen.get(entry.index, set())):
            # A line that stands for several lines has no parent.
            is_below = observation.parent is not None and len(entry.names) == 1
            parent = places.get((observation.group, observation.parent or 0)) if is_below else None
            draft = _draft(given, entry, short_line(text, _LONGEST), parent)
            if lines and _continues(lines[-1], draft, entry):
                lines[-1] = _joined(lines[-1], draft, entry)
            else:
                lines.append(draft)
            places.setdefault((observation.group, observation.ordinal), len(lines) - 1)
    return ParsedReflection(lines=tuple(lines))


def _texts(entry: _Entry, chosen: set[int]) -> Iterable[str]:
    if entry.is_kept:
        return [entry.lead + _words(entry)] if entry.sentences else []
    if not chosen:
        return []
    if not entry.topics:
        return [entry.lead + " ".join(entry.units[place].text for place in sorted(chosen))]
    listings: list[Listing] = []
    for number, topic in enumerate(entry.topics):
        items: list[Entry] = []
        for place in sorted(chosen):
            unit = entry.units[place]
            if unit.listing != number or unit.entry is None:
                continue
            if unit.detail:
                items[-1] = unit.entry
            else:
                items.append(unit.entry._replace(details=()))
        if items:
            listings.append(Listing(topic, tuple(items)))
    return list(listing_lines(entry.lead, listings))


def _continues(last: ReflectedDraft, draft: ReflectedDraft, entry: _Entry) -> bool:
    """Return whether a line can be added to the one before it: same place, weight, speaker, and about the same time."""
    is_beside = (last.priority, last.parent, last.on, last.at) == (draft.priority, draft.parent, draft.on, draft.at)
    is_plain = not (entry.topics or last.verbatim or draft.verbatim or (last.about and draft.about))
    is_same = bool(entry.lead) and last.text.startswith(entry.lead) and last.category != "error"
    return is_beside and is_plain and is_same and len(last.text) + len(draft.text) <= _JOINED


def _joined(last: ReflectedDraft, draft: ReflectedDraft, entry: _Entry) -> ReflectedDraft:
    return replace(
        last,
        text=f"{last.text} {draft.text.removeprefix(entry.lead)}",
        merges=(*last.merges, *draft.merges),
        about=last.about or draft.about,
        files=tuple(dict.fromkeys((*last.files, *draft.files))),
        category=last.category if last.category == draft.category else None,
    )


def _draft(given: ReflectInput, entry: _Entry, text: str, parent: int | None) -> ReflectedDraft:
    observation = entry.observation
    said = said_in_zone(observation, given.zone)
    return ReflectedDraft(
        priority=observation.priority,
        text=text,
        merges=tuple(sorted(dict.fromkeys(entry.names), key=lambda name: int(name[1:]))),
        on=said.date() if said else None,
        at=said.time() if said else None,
        about=observation.about,
        parent=parent,
        verbatim=observation.verbatim,
        category=observation.category,
        files=entry.files or observation.files,
        metadata=observation.metadata,
    )


def _as_it_was(given: ReflectInput, entries: Sequence[_Entry]) -> ParsedReflection:
    places: dict[tuple[str, int | None], int] = {
        (entry.observation.group, entry.observation.ordinal): place for place, entry in enumerate(entries)
    }
    lines: list[ReflectedDraft] = []
    for place, entry in enumerate(entries):
        observation = entry.observation
        parent = places.get((observation.group, observation.parent), place)
        draft = _draft(given, entry, short_line(observation.text, _LONGEST), parent if parent < place else None)
        lines.append(replace(draft, merges=(f"o{entry.index + 1}",), files=observation.files))
    return ParsedReflection(lines=tuple(lines))
