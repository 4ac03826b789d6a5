"""Guard a reflection against loss: carry over lines that must be kept, and list what is left out.

`loss` holds the rules. When the kept lines alone exceed the log, the oldest go to an archive.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final

from memolog.core.observation import KEPT, MARKS, Observation
from memolog.observer.drafts import ReflectedDraft
from memolog.observer.loss import ResultLine, is_bare_list, lost, lost_lines, unsaid, vague
from memolog.observer.observations import merged_sources, weight_of
from memolog.observer.trust import lowest
from memolog.text.identifiers import content_words
from memolog.text.tokens import TokenCounter


@dataclass(frozen=True, slots=True, kw_only=True)
class Gaps:
    """What an answer of the reflector lacks."""

    omitted: tuple[str, ...] = ()
    """The ids of 🔴 and ✅ lines that it lost."""
    names: tuple[str, ...] = ()
    """Paths, symbols and names that it lost."""
    vague: tuple[str, ...] = ()
    """Its lines that merge many others and keep hardly anything of them."""

    def __bool__(self) -> bool:
        return bool(self.omitted or self.names or self.vague)

    @property
    def size(self) -> tuple[int, int, int]:
        """Return how much is missing; a smaller tuple is the better answer."""
        return len(self.vague), len(self.omitted), len(self.names)


@dataclass(frozen=True, slots=True, kw_only=True)
class Guarded:
    """The lines of a reflection with those that code carried over, and what is lost."""

    observations: tuple[Observation, ...]
    carried: int
    """How many of them are lines of the slice, unchanged."""
    omitted: tuple[str, ...]
    """The ids of merged lines whose names are lost: they count as dropped."""


def gaps_of(drafts: Sequence[ReflectedDraft], ids: Mapping[str, str], lines: Sequence[Observation]) -> Gaps:
    """Return what the drafts of an answer lost of the lines; `ids` maps the short ids in drafts to ids."""
    by_id = {line.id: line for line in lines}
    result: list[ResultLine] = []
    texts: list[str] = []
    for draft in drafts:
        merged = [by_id[ids[name]] for name in draft.merges if name in ids and ids[name] in by_id]
        # A nested line is read together with its parent.
        above = f"{texts[draft.parent]}\n" if draft.parent is not None else ""
        texts.append(_words(draft))
        if not is_bare_list(draft.text):
            priority = weight_of(draft.priority, merged)
            result.append(ResultLine(above + texts[-1], (line.id for line in merged), priority))
    return Gaps(
        omitted=tuple(line.id for line in unsaid(lines, result)),
        names=lost(lines, [said.text for said in result]),
        vague=tuple(said.text for said in vague(lines, result)),
    )


def guarded(
    made: Sequence[Observation], lines: Sequence[Observation], new_id: Callable[[], str], group: str
) -> Guarded:
    """Return the lines of a reflection without bare lists of names, and with every 🔴 and ✅ line that they lost.

    A line that merges only carried-over lines is dropped.
    """
    told = [line for line in made if not is_bare_list(line.text)]
    missing = unsaid(lines, [said for _, said in _said(told)])
    gone = {line.id for line in missing}
    told = [line for line in told if not line.merges or not gone.issuperset(line.merges)]
    kept = _renumbered(told, made)
    kept += _carried(missing, new_id, group, after=len(kept))
    rest = [line for line in lines if line.id not in gone]
    merged = {name for line in kept for name in line.merges}
    left = lost_lines(rest, [_words(line) for line in kept])
    return Guarded(
        observations=tuple(kept),
        carried=len(missing),
        omitted=tuple(line.id for line in left if line.id in merged),
    )


def _said(lines: Sequence[Observation]) -> list[tuple[Observation, ResultLine]]:
    texts = {line.ordinal: _words(line) for line in lines}
    return [
        (
            line,
            ResultLine(
                "\n".join(filter(None, (texts.get(line.parent or 0), texts[line.ordinal]))), line.merges, line.priority
            ),
        )
        for line in lines
    ]


def _words(line: ReflectedDraft | Observation) -> str:
    about = f" (meaning {line.about.isoformat()})" if line.about else ""
    return f"{line.text}{about}\n{line.verbatim or ''}"


def _renumbered(kept: Sequence[Observation], before: Sequence[Observation]) -> list[Observation]:
    """Renumber the lines; a line whose parent is dropped becomes a top-level line."""
    if len(kept) == len(before):
        return list(kept)
    places = {line.ordinal: place for place, line in enumerate(kept, start=1)}
    return [
        replace(line, ordinal=place, parent=places.get(line.parent) if line.parent is not None else None)
        for place, line in enumerate(kept, start=1)
    ]


def _carried(lines: Sequence[Observation], new_id: Callable[[], str], group: str, *, after: int) -> list[Observation]:
    """Copy lines to another group; a line stays under its parent if that is copied too."""
    places = {(line.group, line.ordinal): after + place for place, line in enumerate(lines, start=1)}
    return [
        replace(
            line,
            id=new_id(),
            group=group,
            ordinal=after + place,
            parent=None if line.parent is None else places.get((line.group, line.parent)),
            merges=(line.id,),
            state="active",
        )
        for place, line in enumerate(lines, start=1)
    ]


# ---------------------------------------------------------------- the archive

_ARCHIVED, _SUBJECT, _SINCE = "archived", "subject", "since"
# Make room for a tenth of the log, so that the next reflection is not due at once.
_ROOM: Final = 0.9
_MOST_SUBJECTS: Final = 12
_OTHER: Final = "other things"


def kept_tokens(lines: Iterable[Observation], counter: TokenCounter) -> int:
    """Return the tokens of the 🔴 and ✅ lines in the log, with mark and time."""
    return sum(_weight(line, counter) for line in lines if line.priority in KEPT)


def unchanged(lines: Sequence[Observation], new_id: Callable[[], str], group: str) -> Guarded:
    """Return the lines of a slice as an unchanged reflection, so that some of them can be archived."""
    return Guarded(observations=tuple(_carried(lines, new_id, group, after=0)), carried=len(lines), omitted=())


def archived(kept: Guarded, limit: int, new_id: Callable[[], str], group: str, counter: TokenCounter) -> Guarded:
    """Archive the oldest 🔴 and ✅ lines if these lines alone exceed `limit` tokens.

    One line a subject replaces them with their number and days. They count as kept: search finds them, recall has their
    messages, and `restore` brings them back.
    """
    lines = kept.observations
    over = kept_tokens(lines, counter) - round(_ROOM * limit)
    if kept_tokens(lines, counter) <= limit:
        return kept
    earlier = [line for line in lines if isinstance(line.metadata.get(_ARCHIVED), int)]
    known = {line.id for line in earlier}
    candidates = sorted((line for line in lines if line.priority in KEPT and line.id not in known), key=_age)
    leaving: list[Observation] = []
    for line in candidates:
        if over <= 0:
            break
        over -= _weight(line, counter)
        leaving.append(line)
    gone = known | {line.id for line in leaving}
    rest = _renumbered([line for line in lines if line.id not in gone], lines)
    told = [
        _archive_line(subject, found, earlier, new_id(), group, ordinal=len(rest) + place, counter=counter)
        for place, (subject, found) in enumerate(_by_subject(leaving, earlier).items(), start=1)
    ]
    return replace(kept, observations=(*rest, *told))


def _weight(line: Observation, counter: TokenCounter) -> int:
    return counter.count(f"* {MARKS[line.priority]} (00:00) {line.text}")


def _age(line: Observation) -> tuple[bool, datetime, int]:
    return line.said_at is None, line.said_at or datetime.min.replace(tzinfo=UTC), line.ordinal


def _by_subject(lines: Sequence[Observation], earlier: Sequence[Observation]) -> dict[str, list[Observation]]:
    """Group lines by the word that most of them share; subjects of the existing archive come first."""
    found: dict[str, list[Observation]] = {str(line.metadata[_SUBJECT]): [] for line in earlier}
    words = {line.id: content_words(line.text) for line in lines}
    counts = Counter(word for several in words.values() for word in several)
    for line in lines:
        shared = [word for word in words[line.id] if counts[word] > 1 or word in found]
        subject = max(shared, key=lambda word: (word in found, counts[word], len(word)), default=_OTHER)
        if subject not in found and len(found) >= _MOST_SUBJECTS:
            subject = _OTHER
        found.setdefault(subject, []).append(line)
    return found


def _archive_line(
    subject: str,
    lines: Sequence[Observation],
    earlier: Sequence[Observation],
    name: str,
    group: str,
    *,
    ordinal: int,
    counter: TokenCounter,
) -> Observation:
    """Return the archive line of a subject; an earlier one about the same subject is merged into it."""
    before = [line for line in earlier if line.metadata.get(_SUBJECT) == subject]
    # A merged line counts as all lines that it merges.
    count = sum(max(1, len(line.merges)) for line in lines) + sum(int(line.metadata[_ARCHIVED]) for line in before)
    all_lines = [*before, *lines]
    days = [line.said_at.date().isoformat() for line in all_lines if line.said_at]
    days = sorted([*days, *(str(line.metadata[_SINCE]) for line in before if line.metadata.get(_SINCE))])
    period = f", {days[0]} to {days[-1]}" if days else ""
    hint = "" if subject == _OTHER else f' with "{subject}"'
    things = "statement" if count == 1 else "statements"
    text = f"Archive: {count} {things} about {subject}{period}; search memory{hint} to read them"
    newest = max(all_lines, key=_age)
    return Observation(
        id=name,
        group=group,
        ordinal=ordinal,
        priority="high",
        text=text,
        said_at=newest.said_at,
        zone=newest.zone,
        sources=merged_sources(all_lines),
        merges=tuple(dict.fromkeys(merged for line in all_lines for merged in line.merges)),
        trust=lowest(line.trust for line in all_lines),
        metadata={_ARCHIVED: count, _SUBJECT: subject, _SINCE: days[0] if days else None},
        tokens=counter.count(text),
    )
