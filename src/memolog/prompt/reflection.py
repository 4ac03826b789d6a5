"""Reading a reflector's reply: lines that say which lines of the log they stand for.

Knows short ids, and nothing of the observations behind them: moments, sources and trust come from what was merged.
"""

import re
from collections.abc import Collection
from typing import Final

from memolog.prompt.drafts import ParsedReflection, ReflectedDraft
from memolog.prompt.faults import FaultNotes
from memolog.prompt.reading import parents, read_reply
from memolog.prompt.references import Known
from memolog.prompt.sections import cleaned

__all__ = ["parse_reflection"]

_ID: Final = re.compile(r"o(\d{1,9})")
_LEADING_ID: Final = re.compile(r"^([ \t]*(?:[*•-][ \t]+)?)o\d{1,9}[:.)]?[ \t]+(?=\S)", re.MULTILINE)


def parse_reflection(reply: str, ids: Collection[str]) -> ParsedReflection:
    """Return what a reflector's reply says about the lines with these short ids (o1, o2 …)."""
    notes = FaultNotes()
    numbers = {int(hit[1]): name for name in ids if (hit := _ID.fullmatch(name))}
    # Some put an id before the line, as they were shown them: what counts is the list at its end.
    text = _LEADING_ID.sub(r"\1", cleaned(reply, notes))
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
    return ParsedReflection(lines=tuple(drafts), hints=read.hints, off_track=read.off_track, faults=notes.faults())
