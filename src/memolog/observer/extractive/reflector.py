"""The embedded reflector: condense observations to a target size.

User statements (🔴) and finished work (✅) are kept. A statement that a newer statement replaces is moved into the newer one. The
other lines are ranked by how many new words they have for their length, and the best are kept. Each new line lists the old lines
that it replaces.
"""

import re
from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from memolog.core.deadline import at_once
from memolog.core.observation import KEPT, TRACES, Observation, Priority
from memolog.observer.drafts import ParsedReflection, ReflectedDraft
from memolog.observer.extractive.sentences import (
    Candidate,
    Entry,
    Listing,
    choosing,
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
# Factors by which the value of a piece is multiplied.
_PROSE: Final = 0.6
_HEAD: Final = 4.0
_DETAIL: Final = 0.5
_LATER_ITEM: Final = 0.3  # for items of a list after the first `_FIRST_ITEMS`
_QUESTION: Final = 0.3
_REPEATED: Final = 0.0  # for a call that is repeated later, and for passed tests
_ERROR: Final = 1.5
_OLDEST: Final = 0.7
_NEWEST: Final = 1.3
_LEVELS: Final = (1.0, 0.8, 0.6, 0.4, 0.2)  # the target as a share of the size of the input, by level
_HEAD_BONUS: Final = 3.0
_FIRST_ITEMS: Final = 5
# The limit for the result is at least the smaller of two numbers: `_FLOOR` characters, and the share `_FLOOR_SHARE` of the input.
_FLOOR: Final = 1_650
_FLOOR_SHARE: Final = 0.75
_LINE: Final = 18  # the approximate number of characters of a line that are not in its text
_JOINED: Final = 460  # the maximum number of characters of a joined line
_TRIES: Final = 8  # maximum number of attempts to reach the target
_LONGEST: Final = 9_000  # the maximum number of characters of a line
_LONG_WORD: Final = 5  # minimum letters of a word by which statements are compared
_RARE: Final = 3  # a word that is in more statements than this does not show that a statement is replaced
_REPLACED: Final = 160  # maximum characters of a statement or question that is moved into another line
_ABOUT: Final = " (This is about: "
_CLOSE: Final = 6  # a question is added to a statement that is at most this many lines below the question


@dataclass(slots=True)
class _Unit:
    """A part of a line that is kept or deleted as a whole."""

    text: str
    candidate: Candidate
    listing: int = -1
    """The index of the list, within its line, to which the item belongs."""
    entry: Entry | None = None
    is_detail: bool = False


@dataclass(slots=True)
class _Entry:
    """An observation, split into units."""

    index: int
    observation: Observation
    lead: str
    """The speaker at the beginning of the line, which is always kept."""
    sentences: list[str]
    topics: list[str] = field(default_factory=list[str])
    units: list[_Unit] = field(default_factory=list[_Unit])
    files: tuple[str, ...] = ()
    merges: list[str] = field(default_factory=list[str])
    """The names (such as `o3`) of the input lines whose content is in this line, with the name of this line itself."""
    before: list[str] = field(default_factory=list[str])
    """The texts of the older statements that this line replaces. They are shown as "(before: …)"."""
    about: str = ""
    """The question to which the statement refers."""

    @property
    def is_kept(self) -> bool:
        return self.observation.priority in KEPT

    @property
    def stays(self) -> bool:
        """Whether the line is kept regardless of the target: statements, finished work, and lines about changed files."""
        return self.is_kept or (self.observation.category == "change" and self.observation.priority == "medium")


def reflect(given: ReflectInput, counter: TokenCounter) -> ParsedReflection:
    """Return the observations condensed to the target, or to a larger size if the target cannot be reached.

    User statements and finished work are kept even if they exceed the target. For an input that is not empty, the result is not
    empty and not larger than the input. The function is deterministic.
    """
    return at_once(reflecting(given, counter))


def reflecting(given: ReflectInput, counter: TokenCounter) -> Generator[None, None, ParsedReflection]:
    """Return what `reflect` returns, and yield after each line."""
    if not given.observations:
        return ParsedReflection()
    before: list[_Entry] = []
    for index, observation in enumerate(given.observations):
        before.append(_entry(index, observation))
        yield
    size = sum(counter.count(entry.observation.text) for entry in before)
    characters = sum(len(entry.observation.text) for entry in before)
    level = _LEVELS[min(max(given.level, 0), len(_LEVELS) - 1)]
    target = max(min(given.target_tokens, int(size * level) if given.level else given.target_tokens), 1)
    yield
    entries = yield from _unique(before)
    yield
    if sum(counter.count(entry.observation.text) for entry in entries) <= target:
        return (yield from _reflection(given, entries, {one.index: set(range(len(one.units))) for one in entries}))
    yield from _supersede(entries)
    _refer(entries)
    yield
    floor = min(_FLOOR, characters * _FLOOR_SHARE)
    per_token = characters / max(size, 1)
    limit = max(target, int(floor / per_token))
    best = yield from _condensed(given, entries, target * per_token, counter, limit)
    if not best.lines or best.tokens(counter) > size:
        return (yield from _unchanged(given, before))
    return best


def _condensed(
    given: ReflectInput, entries: Sequence[_Entry], characters: float, counter: TokenCounter, limit: int
) -> Generator[None, None, ParsedReflection]:
    """Return a reflection of about `limit` tokens. Lines that must stay can make it larger."""
    units = [(entry, place) for entry in entries if not entry.stays for place in range(len(entry.units))]
    candidates, starts = list[Candidate](), dict[int, int]()
    for entry, place in units:
        starts.setdefault(entry.index, len(candidates))
        candidate = entry.units[place].candidate
        needs = None if candidate.needs is None else starts[entry.index] + candidate.needs
        candidates.append(candidate._replace(needs=needs))
    staying = [entry for entry in entries if entry.stays]
    spent = sum(len(entry.lead) + len(_words(entry)) + _LINE for entry in staying)
    known: set[str] = set()
    for entry in staying:
        known.update(weights_of(_words(entry)))
        yield
    per_token = characters / max(given.target_tokens, 1)
    reflection = ParsedReflection()
    characters = max(characters, limit * per_token)
    for _ in range(_TRIES):
        chosen, _ = yield from choosing(candidates, characters - spent, set(known))
        places: dict[int, set[int]] = {entry.index: set(range(len(entry.units))) for entry in staying}
        for index in chosen:
            entry, place = units[index]
            places.setdefault(entry.index, set()).add(place)
        reflection = yield from _reflection(given, entries, places)
        over = reflection.tokens(counter) - limit
        if over <= 0 or not chosen:
            break
        characters -= max(over * per_token, characters / 20)
    return reflection


# ---------------------------------------------------------------- entries


def _entry(index: int, observation: Observation) -> _Entry:
    text = short_line(clean(observation.text), _LONGEST)
    name = f"o{index + 1}"
    listing = read_listing(text) if observation.priority not in KEPT else None
    if listing:
        who, listings = listing
        entry = _Entry(index, observation, who, [], [one.topic for one in listings], merges=[name])
        for place, one in enumerate(listings):
            entry.units += _items(place, one, len(entry.units))
        return entry
    lead = _LEAD.match(text)
    body = text[lead.end() :] if lead else text
    texts = sentences(body) or [body]
    entry = _Entry(index, observation, lead[0] if lead else "", texts, files=observation.files, merges=[name])
    entry.units = [
        _Unit(sentence, Candidate(weights_of(sentence), len(sentence) + _LINE / len(entry.sentences)))
        for sentence in entry.sentences
    ]
    return entry


def _items(place: int, listing: Listing, first: int) -> list[_Unit]:
    """Return two units for each item of a list: its head, and its details, which are kept only with the head.

    `first` is the index of the first of these units in the units of the line.
    """
    units: list[_Unit] = []
    share = (len(listing.topic) + _LINE) / max(len(listing.entries), 1)
    for number, item in enumerate(listing.entries):
        factor = _HEAD if number < _FIRST_ITEMS else _HEAD * _LATER_ITEM
        weights = weights_of(item.text, is_head=True)
        head = Candidate(weights, len(item.text) + 5 + share, factor, _HEAD_BONUS)
        at = first + len(units)
        units.append(_Unit(item.text, head, place, item))
        if item.details:
            words = " ".join(item.details)
            units.append(
                _Unit(words, Candidate(weights_of(words), len(words) + 3, _DETAIL, needs=at), place, item, True)
            )
    return units


def _unique(entries: Sequence[_Entry]) -> Generator[None, None, list[_Entry]]:
    """Return the lines without repetition: of several equal lines only the newest, and lines about changed files joined.

    Lines that only list omitted names (TRACES) are left out.
    """
    newest: dict[tuple[str, bool], _Entry] = {}
    for entry in entries:
        newest[entry.observation.text.casefold(), entry.is_kept] = entry
    stay: list[_Entry] = []
    for entry in entries:
        last = newest[entry.observation.text.casefold(), entry.is_kept]
        if last is not entry:
            last.merges += entry.merges
        elif not entry.observation.text.startswith(TRACES):
            stay.append(entry)
    yield
    stay = _joined_changes(stay or [entries[-1]])
    yield from _weigh(stay)
    return stay


def _joined_changes(entries: Sequence[_Entry]) -> list[_Entry]:
    """Join lines about changed files into the last of them, if the verb, the day and the thread are the same."""
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
            newer.merges += entry.merges
    return stay[::-1]


def _weigh(entries: Sequence[_Entry]) -> Generator[None]:
    """Set the factor of every unit from its kind, its age, and whether a later line makes it obsolete."""
    later: set[str] = set()
    answered = {(entry.observation.group, entry.observation.parent) for entry in entries}
    for entry in reversed(entries):
        yield
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


# ---------------------------------------------------------------- replaced statements


def _supersede(entries: Sequence[_Entry]) -> Generator[None]:
    """Move statements into the newer statements that replace them, and delete small talk."""
    statements = [entry for entry in entries if entry.observation.priority == "high" and not entry.observation.verbatim]
    places: dict[str, list[int]] = {}
    for place, entry in enumerate(statements):
        if len(entry.sentences) > 1:
            entry.sentences[:] = [one for one in entry.sentences if not is_filler(one)] or entry.sentences
        for word in {word for sentence in entry.sentences for word in _telling(sentence)}:
            places.setdefault(word, []).append(place)
        yield
    for place, entry in enumerate(statements):
        yield
        gone = " ".join(filter(None, map(replaced_in, entry.sentences)))
        if not gone:
            continue
        names = {word.lower() for word in words_of(gone) if is_name(word)}
        words = {word for word in names & _telling(gone) or _telling(gone) if len(places.get(word, ())) <= _RARE}
        for older in sorted({older for word in words for older in places.get(word, ()) if older < place}):
            if statements[older].sentences:
                _replace(statements[older], entry, words)


def _refer(entries: Sequence[_Entry]) -> None:
    """If a statement begins with a pronoun, append the question before it to the statement. The question may be deleted later."""
    asked: _Entry | None = None
    for entry in entries:
        if _ASKED.match(entry.observation.text):
            asked = entry
        elif entry.observation.priority == "high":
            if asked and entry.sentences and dangles(entry.sentences[0]) and _ABOUT not in entry.observation.text:
                words = " ".join(asked.sentences)
                if len(words) <= _REPLACED and entry.index - asked.index <= _CLOSE:
                    entry.about = f"{_ABOUT}{words})"
                    entry.merges += asked.merges
            asked = None


def _replace(older: _Entry, newer: _Entry, words: set[str]) -> None:
    """Move the older line into the newer line if every sentence of the older line is replaced and the older line is short."""
    if not all(words & _telling(one) and not one.endswith(("?", ":")) for one in older.sentences):
        return
    gone = _MEANING.sub("", " ".join(older.sentences)).rstrip(". ")
    if len(gone) <= _REPLACED:
        newer.before += [gone, *older.before]
        newer.merges += older.merges
        older.sentences.clear()
        older.before.clear()


def _telling(sentence: str) -> set[str]:
    """Return the names and longer words of a sentence, by which statements are compared."""
    return {
        word.lower()
        for word in words_of(sentence)
        if (len(word) >= _LONG_WORD or is_name(word)) and weights_of(word, is_head=True)
    }


# ---------------------------------------------------------------- reflections


def _reflection(
    given: ReflectInput, entries: Sequence[_Entry], chosen: Mapping[int, set[int]]
) -> Generator[None, None, ParsedReflection]:
    lines: list[ReflectedDraft] = []
    places: dict[tuple[str, int], int] = {}
    for entry in entries:
        observation = entry.observation
        for text in _texts(entry, chosen.get(entry.index, set())):
            # A line that replaces several lines has no parent.
            is_below = observation.parent is not None and len(entry.merges) == 1
            parent = places.get((observation.group, observation.parent or 0)) if is_below else None
            draft = _draft(given, entry, short_line(text, _LONGEST), parent)
            if lines and _continues(lines[-1], draft, entry):
                lines[-1] = _joined(lines[-1], draft, entry)
            else:
                lines.append(draft)
            places.setdefault((observation.group, observation.ordinal), len(lines) - 1)
        yield
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
            if unit.is_detail:
                items[-1] = unit.entry
            else:
                items.append(unit.entry._replace(details=()))
        if items:
            listings.append(Listing(topic, tuple(items)))
    return list(listing_lines(entry.lead, listings))


def _continues(last: ReflectedDraft, draft: ReflectedDraft, entry: _Entry) -> bool:
    """Return whether a line can be appended to the line before it: same parent, priority, speaker, day and time, and no list."""
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
        merges=tuple(sorted(dict.fromkeys(entry.merges), key=lambda name: int(name[1:]))),
        on=said.date() if said else None,
        at=said.time() if said else None,
        about=observation.about,
        parent=parent,
        verbatim=observation.verbatim,
        category=observation.category,
        files=entry.files or observation.files,
        metadata=observation.metadata,
    )


def _unchanged(given: ReflectInput, entries: Sequence[_Entry]) -> Generator[None, None, ParsedReflection]:
    places: dict[tuple[str, int | None], int] = {
        (entry.observation.group, entry.observation.ordinal): place for place, entry in enumerate(entries)
    }
    lines: list[ReflectedDraft] = []
    for place, entry in enumerate(entries):
        observation = entry.observation
        parent = places.get((observation.group, observation.parent), place)
        draft = _draft(given, entry, short_line(observation.text, _LONGEST), parent if parent < place else None)
        lines.append(replace(draft, merges=(f"o{entry.index + 1}",), files=observation.files))
        yield
    return ParsedReflection(lines=tuple(lines))
