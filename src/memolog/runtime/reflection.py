"""The loss guard at work: what a reflection must not lose is carried over, and what it leaves out is listed.

The rules are in `grounding.loss`. This module applies them to the drafts of a reply (to ask once more) and to the observations
that are about to replace a slice.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from memolog.domain.observation import Observation
from memolog.grounding import Said, is_bare_list, lost, lost_lines, unsaid, vague
from memolog.prompt.drafts import ReflectedDraft
from memolog.runtime.drafting import weight_of

__all__ = ["Gaps", "Guarded", "gaps_of", "guarded"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Gaps:
    """What an answer of the reflector leaves to be desired."""

    omitted: tuple[str, ...] = ()
    """The ids of 🔴 and ✅ lines that it no longer says."""
    names: tuple[str, ...] = ()
    """Paths, symbols and names that it no longer has."""
    vague: tuple[str, ...] = ()
    """Its lines that stand for many others and say hardly anything of them."""

    def __bool__(self) -> bool:
        return bool(self.omitted or self.names or self.vague)

    @property
    def size(self) -> tuple[int, int, int]:
        """Return how much is missing; a smaller tuple is the better answer."""
        return len(self.vague), len(self.omitted), len(self.names)


@dataclass(frozen=True, slots=True, kw_only=True)
class Guarded:
    """The lines of a reflection, with what code carried over and what none of them says."""

    observations: tuple[Observation, ...]
    carried: int
    """How many of them are lines of the slice, unchanged."""
    omitted: tuple[str, ...]
    """The ids of lines that some line stands for, but whose names no line has any more: they count as dropped."""


def gaps_of(drafts: Sequence[ReflectedDraft], ids: Mapping[str, str], lines: Sequence[Observation]) -> Gaps:
    """Return what the drafts of an answer no longer say of the lines; `ids` are those of the short ids that drafts name."""
    by_id = {line.id: line for line in lines}
    result: list[Said] = []
    texts: list[str] = []
    for draft in drafts:
        merged = [by_id[ids[name]] for name in draft.merges if name in ids and ids[name] in by_id]
        # What stands under a line is read together with it.
        above = f"{texts[draft.parent]}\n" if draft.parent is not None else ""
        texts.append(_words(draft))
        if not is_bare_list(draft.text):
            priority = weight_of(draft.priority, merged)
            result.append(Said(above + texts[-1], (line.id for line in merged), priority))
    return Gaps(
        omitted=tuple(line.id for line in unsaid(lines, result)),
        names=lost(lines, [said.text for said in result]),
        vague=tuple(said.text for said in vague(lines, result)),
    )


def guarded(
    made: Sequence[Observation], lines: Sequence[Observation], new_id: Callable[[], str], group: str
) -> Guarded:
    """Return the lines of a reflection without bare lists of names, and with every 🔴 and ✅ line that they no longer say.

    A line that only stands for what is carried over goes: it says nothing beside it.
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


def _said(lines: Sequence[Observation]) -> list[tuple[Observation, Said]]:
    texts = {line.ordinal: _words(line) for line in lines}
    return [
        (
            line,
            Said(
                "\n".join(filter(None, (texts.get(line.parent or 0), texts[line.ordinal]))), line.merges, line.priority
            ),
        )
        for line in lines
    ]


def _words(line: ReflectedDraft | Observation) -> str:
    about = f" (meaning {line.about.isoformat()})" if line.about else ""
    return f"{line.text}{about}\n{line.verbatim or ''}"


def _renumbered(kept: Sequence[Observation], before: Sequence[Observation]) -> list[Observation]:
    """Return the lines in their order; one whose parent goes stands by itself."""
    if len(kept) == len(before):
        return list(kept)
    places = {line.ordinal: place for place, line in enumerate(kept, start=1)}
    return [
        replace(line, ordinal=place, parent=places.get(line.parent) if line.parent is not None else None)
        for place, line in enumerate(kept, start=1)
    ]


def _carried(lines: Sequence[Observation], new_id: Callable[[], str], group: str, *, after: int) -> list[Observation]:
    """Return copies of lines for another group; one whose parent is carried over too stays under it."""
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
