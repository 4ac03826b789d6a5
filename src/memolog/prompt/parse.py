"""Parse an observer's reply into drafts and faults.

Never raises; linear in the length of the reply. `failure` says whether the reply may become memory.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, time, tzinfo
from typing import Final

from memolog.prompt.drafts import Draft, Parsed, ParsedReflection
from memolog.prompt.faults import FATAL, FaultNotes
from memolog.prompt.lines import Line
from memolog.prompt.reading import Read, parents, read_reply
from memolog.prompt.references import Known
from memolog.prompt.sections import cleaned, thread_sections
from memolog.prompt.transcript import Shown, in_zone

__all__ = ["failure", "parse_batch", "parse_observations"]

_DEFAULT: Final = "medium"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Times:
    """The times of the messages, from which the time of a line is computed."""

    by_number: Mapping[int, datetime]
    base: datetime
    zone: tzinfo
    first: date
    last: date

    @classmethod
    def of(cls, shown: Sequence[Shown], base: datetime, zone: tzinfo) -> "_Times":
        moments = {message.number: in_zone(message.at, zone) for message in shown}
        start = in_zone(base, zone)
        days = [start.date(), *(moment.date() for moment in moments.values())]
        return cls(by_number=moments, base=start, zone=zone, first=min(days), last=max(days))

    def said_at(self, line: Line, parent: Draft | None, notes: FaultNotes) -> datetime:
        """Return when a line was said: from the messages it cites, else the message nearest to its time, else its parent."""
        cited = sorted(self.by_number[number] for number in line.refs)
        if cited:
            return self._among(cited, line, notes)
        day = self._day(line.on, notes)
        if line.at is None and parent is not None and day in {None, parent.said_at.date()}:
            return parent.said_at
        day = day or (parent.said_at if parent else self.base).date()
        if line.at is not None:
            return self._nearest(self._moment(day, line.at))
        if day == self.base.date():
            return self.base
        first = min((moment for moment in self.by_number.values() if moment.date() == day), default=None)
        return first or self._moment(day, time())

    def _among(self, cited: list[datetime], line: Line, notes: FaultNotes) -> datetime:
        """Return the moment of the cited messages that is nearest to what the line says."""
        if line.on and line.on not in {moment.date() for moment in cited}:
            notes.note("wrong_date", f"{line.on.isoformat()}: {line.text}")
            return cited[0]
        if line.at is None:
            return next((moment for moment in cited if line.on in {None, moment.date()}), cited[0])
        said = self._moment(line.on or cited[0].date(), line.at)
        return min(cited, key=lambda moment: abs(moment.timestamp() - said.timestamp()))

    def _nearest(self, said: datetime) -> datetime:
        """Return the moment of the message nearest to a time, on that day if there is one: models invent times."""
        same_day = [moment for moment in self.by_number.values() if moment.date() == said.date()]
        among = same_day or self.by_number.values()
        return min(among, key=lambda moment: abs(moment.timestamp() - said.timestamp()), default=said)

    def _day(self, day: date | None, notes: FaultNotes) -> date | None:
        """Return the day that a line names, if anything was said on it."""
        if day is None or not self.by_number or self.first <= day <= self.last:
            return day
        notes.note("wrong_date", day.isoformat())
        return None

    def _moment(self, day: date, at: time) -> datetime:
        return datetime.combine(day, at, tzinfo=self.zone)


def parse_observations(
    reply: str, shown: Sequence[Shown], *, base: datetime, zone: tzinfo, is_cut_off: bool = False
) -> Parsed:
    """Return what an observer's reply says about the messages that it was shown.

    `base` is the time of lines without a time and without citations, such as that of the first message. `is_cut_off` is true
    if the provider reported that the reply reached its limit.
    """
    notes = FaultNotes()
    return _parsed(cleaned(reply, notes), shown, base, zone, notes, is_cut_off=is_cut_off)


def _parsed(
    text: str, shown: Sequence[Shown], base: datetime, zone: tzinfo, notes: FaultNotes, *, is_cut_off: bool = False
) -> Parsed:
    read = read_reply(text, Known.of(message.number for message in shown), notes, is_cut_off=is_cut_off)
    drafts = _drafts(read, _Times.of(shown, base, zone), notes)
    if not drafts and not read.nothing and not notes.has_fatal:
        notes.note("empty", "no observation, and no word that there is none")
    return Parsed(observations=drafts, hints=read.hints, faults=notes.faults(), nothing=read.nothing and not drafts)


def _drafts(read: Read, times: _Times, notes: FaultNotes) -> tuple[Draft, ...]:
    drafts: list[Draft] = []
    for line, parent in zip(read.lines, parents(read.lines), strict=True):
        above = None if parent is None else drafts[parent]
        drafts.append(
            Draft(
                priority=line.priority or (above.priority if above else _DEFAULT),
                text=line.text,
                said_at=times.said_at(line, above, notes),
                about=line.about,
                parent=parent,
                verbatim=line.verbatim,
                cites=line.refs or (above.cites if above else ()),
                category=line.facts.category,
                files=line.facts.files,
                metadata=dict(line.facts.other),
            )
        )
    return tuple(drafts)


# ---------------------------------------------------------------- several threads


def parse_batch(
    reply: str, shown: Sequence[Shown], *, aliases: Mapping[str, str], base: datetime, zone: tzinfo
) -> dict[str, Parsed]:
    """Return what a reply says about each thread of a batch, by thread id; `aliases` names the thread of each alias.

    Where the reply has no sections for threads, lines are assigned by the messages they cite. A thread without a line fails
    alone. `base` and `zone` are used for a thread of which no message was shown.
    """
    notes = FaultNotes()
    text = cleaned(reply, notes)
    by_thread = {thread: [message for message in shown if message.thread == thread] for thread in aliases.values()}
    told = thread_sections(text, frozenset(aliases), notes)
    if not told and len(aliases) > 1:
        return _by_citations(text, shown, by_thread, base, zone, notes)
    if not told:
        told = dict.fromkeys(aliases, text)
    common = notes.faults()
    results: dict[str, Parsed] = {}
    for alias, thread in aliases.items():
        own = FaultNotes()
        own.take(common)
        mine = by_thread[thread]
        # Each conversation has the zone of its own user.
        start, place = (mine[0].at, mine[0].at.tzinfo or zone) if mine else (base, zone)
        results[thread] = _parsed(told.get(alias, ""), mine, start, place, own)
    return results


def _by_citations(
    text: str,
    shown: Sequence[Shown],
    by_thread: Mapping[str, list[Shown]],
    base: datetime,
    zone: tzinfo,
    notes: FaultNotes,
) -> dict[str, Parsed]:
    whole = _parsed(text, shown, base, zone, notes)
    owners = {message.number: message.thread for message in shown}
    results: dict[str, Parsed] = {}
    for thread in by_thread:
        places = [
            place for place, draft in enumerate(whole.observations) if draft.cites and owners[draft.cites[0]] == thread
        ]
        drafts = tuple(_moved(whole.observations[place], places, owners, thread) for place in places)
        own = FaultNotes()
        own.take(whole.faults)
        own.note("untagged", "no sections for threads")
        if not drafts and not own.has_fatal:
            own.note("empty", "nothing that belongs to this thread")
        results[thread] = Parsed(observations=drafts, faults=own.faults())
    return results


def _moved(draft: Draft, places: list[int], owners: Mapping[int, str], thread: str) -> Draft:
    """Return a draft as one of fewer: its parent's new index, and only the citations of its own thread."""
    parent = places.index(draft.parent) if draft.parent in places else None
    return replace(draft, parent=parent, cites=tuple(number for number in draft.cites if owners[number] == thread))


# ---------------------------------------------------------------- may it be used


def failure(parsed: Parsed | ParsedReflection) -> str | None:
    """Return why a reply must not become memory, or None if it may.

    A reflection that was cut off must not. Lines of an observer's reply before the cut may; the caller handles the rest.
    """
    fatal = FATAL if isinstance(parsed, Parsed) else FATAL | {"cut_off", "cut_off_hint"}
    for fault in parsed.faults:
        if fault.kind in fatal:
            return f"{fault.kind.replace('_', ' ')}: {fault.detail}"
    has_lines = bool(parsed.observations or parsed.nothing) if isinstance(parsed, Parsed) else bool(parsed.lines)
    return None if has_lines else "empty: no line in it"
