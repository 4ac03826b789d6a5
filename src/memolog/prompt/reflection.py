"""Parse a reflector's reply: lines that name the lines of the log they stand for."""

import re
from collections.abc import Collection
from typing import Final

from memolog.domain.observation import MARKS
from memolog.prompt.drafts import ParsedReflection, ReflectedDraft
from memolog.prompt.faults import FaultNotes
from memolog.prompt.reading import hints_of, parents, read_reply
from memolog.prompt.references import Known
from memolog.prompt.sections import THREAD_OPENING, cleaned, sections

__all__ = ["parse_reflection"]

_ID: Final = re.compile(r"o(\d{1,9})")
_LEADING_ID: Final = re.compile(r"^([ \t]*(?:[*•-][ \t]+)?)o\d{1,9}[:.)]?[ \t]+(?=\S)", re.MULTILINE)


# Lines are shown with the names of their threads before the mark; in an answer the name opens the text.
_LEADING_NAMES: Final = re.compile(
    r"^([ \t]*(?:[*•-][ \t]+)?)(t\d{1,9}(?:,[ ]?t\d{1,9})*)[:.)]?[ \t]+"
    rf"((?:{'|'.join(MARKS.values())})[ \t]*(?:\(\d\d?:\d\d\)[ \t]*)?)",
    re.MULTILINE,
)
_THREAD: Final = re.compile(rf"{THREAD_OPENING}(.*?)(?:</thread>|\Z)", re.DOTALL | re.IGNORECASE)


def parse_reflection(
    reply: str, ids: Collection[str], aliases: Collection[str] = (), *, is_cut_off: bool = False
) -> ParsedReflection:
    """Return what a reflector's reply says about the lines with these short ids (o1, o2 …).

    `aliases` are the short names of the threads (t1, t2 …) where several share the log: what the reply says of where one of
    them stands is in a section of that thread. `is_cut_off` says that the provider reported that the reply reached its limit.
    """
    notes = FaultNotes()
    if is_cut_off:
        notes.note("cut_off", "the reply reached its limit")
    numbers = {int(hit[1]): name for name in ids if (hit := _ID.fullmatch(name))}
    # Some put an id before the line, as they were shown them: what counts is the list at its end.
    text = _LEADING_ID.sub(r"\1", cleaned(reply, notes))
    of_threads: dict[str, ParsedReflection] = {}
    if aliases:
        text = _LEADING_NAMES.sub(_named, text)
        text, of_threads = _of_threads(text, frozenset(aliases), notes)
    read = read_reply(text, Known.of(numbers), notes)
    drafts: list[ReflectedDraft] = []
    for line, parent in zip(read.lines, parents(read.lines), strict=True):
        above = None if parent is None else drafts[parent]
        drafts.append(
            ReflectedDraft(
                priority=line.priority or (above.priority if above else "medium"),
                text=line.text,
                merges=tuple(numbers[number] for number in line.refs),
                on=line.on or (above.on if above else None),
                at=line.at,
                about=line.about,
                parent=parent,
                verbatim=line.verbatim,
                category=line.facts.category,
                files=line.facts.files,
                metadata=dict(line.facts.other),
            )
        )
    if not drafts and not notes.has_fatal:
        notes.note("empty", "no line: a reflection never replaces lines by nothing")
    return ParsedReflection(
        lines=tuple(drafts),
        hints=read.hints,
        off_track=read.off_track,
        threads=of_threads,
        faults=notes.faults(),
    )


def _named(hit: re.Match[str]) -> str:
    """Return the opening of a line with the name of its thread after the mark; several names are no name."""
    return f"{hit[1]}{hit[3]}" + ("" if "," in hit[2] else f"{hit[2]}: ")


def _of_threads(text: str, aliases: frozenset[str], notes: FaultNotes) -> tuple[str, dict[str, ParsedReflection]]:
    """Return a reply without the sections of threads, and what they say; lines that stand in one are kept."""
    found: dict[str, ParsedReflection] = {}

    def taken(hit: re.Match[str]) -> str:
        inside = sections(hit[2], notes)
        if hit[1] in aliases:
            hints, off_track = hints_of(inside.hints, notes)
            found.setdefault(hit[1], ParsedReflection(hints=hints, off_track=off_track))
        else:
            notes.note("forged_tag", f"the thread {hit[1]}, which was not shown")
        lines = inside.loose if inside.observations is None else inside.observations
        return f"\n<observations>\n{lines}\n</observations>\n" if lines.strip() else ""

    return _THREAD.sub(taken, text), found
