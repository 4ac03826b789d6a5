"""Turn parsed lines of a reply into observations, and guard a reflection against loss.

Code, not the model, sets ids, sources and trust, and redacts secrets. A line without citations counts as citing all messages of
the span. The trust of a line is the lowest trust of the cited messages. `loss` contains the rules for the lines that a
reflection must not lose. If these lines alone exceed the limit of the log, the oldest of them are archived.
"""

import re
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from math import fsum
from typing import Final, Required, TypedDict, TypeVar, Unpack, cast

from memolog.core.deadline import at_once
from memolog.core.exact_json import JsonObject
from memolog.core.message import Message
from memolog.core.observation import KEPT, MARKS, Observation, Priority, Source, Span, Trust
from memolog.core.setting_kinds import Mode
from memolog.core.thread import Hints
from memolog.observer.drafts import Draft, HintsDraft, Parsed, ParsedReflection, ReflectedDraft
from memolog.observer.evidence import Evidence, source_text, support
from memolog.observer.judge import (
    Spoken,
    Voices,
    cited_places,
    log_voices,
    lowest,
    renumbered,
    trust_of,
    trusted_hints,
)
from memolog.observer.loss import ResultLine, is_bare_list, lost, lost_lines, unsaid, vague
from memolog.observer.prompt import Gaps, ObserveInput, with_fields
from memolog.observer.transcript import Shown, in_zone, said_in_zone
from memolog.text.identifiers import content_words
from memolog.text.redaction import REDACTION, Redactor
from memolog.text.tokens import TokenCounter

_SAME: Final = 0.5  # minimum share of words in the message that a line without citations comes from
_MEANING: Final = re.compile(r"[ ]?\(meaning ([^()\n]{1,80})\)", re.IGNORECASE)
_OFF_TRACK: Final = "The work has left what was asked for. "


@dataclass(frozen=True, slots=True, kw_only=True)
class NewGroup:
    """A group that is being written: its id, and what its lines need: a function for new ids, a token counter and a redactor."""

    id: str
    new_id: Callable[[], str]
    counter: TokenCounter
    redactor: Redactor = REDACTION


class _Made(TypedDict, total=False):
    """The fields of an observation that do not come from its draft alone."""

    priority: Required[Priority]
    said_at: Required[datetime | None]
    zone: Required[str | None]
    sources: Required[tuple[Source, ...]]
    trust: Required[Trust]
    files: Required[tuple[str, ...]]
    metadata: Required[JsonObject]
    merges: tuple[str, ...]
    grounded: bool


def draft_hints(
    new: HintsDraft,
    given: ObserveInput,
    messages: Sequence[Message],
    *,
    foreign: Sequence[Evidence] = (),
    log: Voices | None = None,
    spoken: Spoken | None = None,
) -> tuple[Hints, tuple[str, ...]]:
    """Return the hints that the messages, the earlier hints or the lines of the log support, and a fault if a hint was dropped.

    A dropped or missing hint is None. Activation replaces None by the thread's hint at that time, because other groups that were
    observed at the same time may be activated first. `log` has the voices of `given.lines` and `spoken` the texts of the
    messages, if they are known already.
    """
    redacted = Hints(
        current_task=_redacted(new.current_task, given.redactor),
        suggested_response=_redacted(new.suggested_response, given.redactor),
        title=_redacted(new.title, given.redactor),
    )
    if log is None:
        log = log_voices(given.lines)
    trusted = trusted_hints(redacted, messages, given.hints, foreign=foreign, log=log, spoken=spoken)
    at = new.at if trusted.current_task and new.at else messages[-1].created_at if messages else None
    return replace(trusted, at=at), () if trusted == redacted else ("untrusted_hint",)


def reflected_hints(
    said: HintsDraft, old: Hints, lines: Sequence[Observation], redactor: Redactor
) -> tuple[Hints | None, tuple[str, ...]]:
    """Return the hints of a thread after a reflection (None if they do not change), and their faults.

    A warning that the work is off track becomes the suggested response.
    """
    response = f"{_OFF_TRACK}{said.off_track}" if said.off_track else said.suggested_response
    redacted = Hints(
        current_task=_redacted(said.current_task, redactor), suggested_response=_redacted(response, redactor)
    )
    said_at = [line.said_at for line in lines if line.said_at]
    trusted = trusted_hints(redacted, (), old, log=log_voices(lines), said_at=said_at)
    faults = () if trusted == redacted else ("untrusted_hint",)
    new = replace(
        old,
        current_task=old.current_task if trusted.current_task is None else trusted.current_task or None,
        suggested_response=trusted.suggested_response or old.suggested_response,
    )
    return (None if new == old else new), faults


def observations_from(
    parsed: Parsed,
    messages: Sequence[Message],
    shown: Sequence[Shown],
    thread: str,
    group: NewGroup,
    mode: Mode = "default",
) -> tuple[Observation, ...]:
    """Return the observations of one span. The metadata of each contains the mode in which it was observed."""
    return at_once(making_observations(parsed, messages, shown, thread, group, mode))


def making_observations(
    parsed: Parsed,
    messages: Sequence[Message],
    shown: Sequence[Shown],
    thread: str,
    group: NewGroup,
    mode: Mode = "default",
) -> Generator[None, None, tuple[Observation, ...]]:
    """Return what `observations_from` returns, and yield after each line."""
    if not messages:
        return ()
    by_seq = {message.seq: message for message in messages}
    # A message may have thousands of parts, so its trust is computed once and not for each line.
    trusts: dict[int, Trust] = {message.seq: trust_of(message) for message in messages}
    seqs = {one.number: one.seq for one in shown if one.thread == thread and one.seq in by_seq}
    made: list[Observation] = []
    sources_of_all = cache(lambda: [(message, Evidence(source_text(message))) for message in messages])
    for ordinal, found in enumerate(parsed.observations, start=1):
        draft = _without_secrets(with_fields(found, mode), group.redactor)
        cited = sorted({seqs[number] for number in draft.cites if number in seqs})
        said_by = [by_seq[seq] for seq in cited or by_seq]
        made.append(
            _observation(
                draft,
                draft.text,
                ordinal,
                group,
                said_at=draft.said_at if cited else _moment_of(draft, sources_of_all()),
                priority=draft.priority,
                zone=min(said_by, key=lambda message: abs(message.created_at - draft.said_at)).zone,
                sources=_sources(thread, cited or sorted(by_seq)),
                trust=lowest(trusts[seq] for seq in cited or by_seq),
                files=draft.files,
                metadata={**draft.metadata, "mode": mode},
            )
        )
        yield
    return tuple(made)


def _observation(
    draft: Draft | ReflectedDraft, text: str, ordinal: int, group: NewGroup, **more: Unpack[_Made]
) -> Observation:
    return Observation(
        id=group.new_id(),
        group=group.id,
        ordinal=ordinal,
        text=text,
        about=draft.about,
        parent=None if draft.parent is None else draft.parent + 1,
        verbatim=draft.verbatim,
        category=draft.category,
        tokens=group.counter.count(text),
        **more,
    )


def _moment_of(draft: Draft, sources: Sequence[tuple[Message, Evidence]]) -> datetime:
    """Return the time of the message that a line without citations comes from.

    This is the message with the most words of the line, if it has at least half of them; else the message nearest in time.
    """
    zone = draft.said_at.tzinfo or UTC
    found = [(support(draft.text, evidence), in_zone(message.created_at, zone)) for message, evidence in sources]
    best, moment = max(found, key=lambda one: one[0])
    return moment if best >= _SAME else min((at for _, at in found), key=lambda at: abs(at - draft.said_at))


def reflections_from(
    parsed: ParsedReflection,
    lines: Sequence[Observation],
    group: NewGroup,
    aliases: Mapping[str, str],
) -> Generator[None, None, tuple[Observation, ...]]:
    """Return the observations of a reflection. Each has the sources of the observations that it merges. Yield after each.

    `aliases` maps each thread of a shared log to its short name. A text from one thread loses the short name at its beginning.
    """
    made: list[Observation] = []
    for ordinal, found in enumerate(parsed.lines, start=1):
        draft = _without_secrets(found, group.redactor)
        merged = _merged(draft, lines)
        # A line that cites no observation gets the sources of all, so that no source is lost.
        roots = merged or list(lines)
        text = _without_name(draft.text, roots, aliases)
        said_at, zone = _said_at(draft, roots)
        made.append(
            _observation(
                draft,
                text,
                ordinal,
                group,
                priority=weight_of(draft.priority, merged),
                said_at=said_at,
                zone=zone,
                sources=merged_sources(roots),
                merges=tuple(line.id for line in merged),
                trust=lowest(line.trust for line in roots),
                grounded=all(line.grounded for line in roots),
                files=tuple(dict.fromkeys(name for line in merged for name in line.files)),
                metadata=_merged_fields(draft.metadata, merged),
            )
        )
        yield
    return tuple(made)


def _merged(draft: ReflectedDraft, lines: Sequence[Observation]) -> list[Observation]:
    """Return the lines that a draft merges. The short id of the first line is o1."""
    return [lines[int(name[1:]) - 1] for name in draft.merges]


def _merged_fields(metadata: JsonObject, merged: Sequence[Observation]) -> JsonObject:
    """Return the fields of a merged line.

    These are the fields of the draft, the fields of the old line if only one was merged, and the mode if all old lines have the
    same mode.
    """
    fields = {**(merged[0].metadata if len(merged) == 1 else {}), **metadata}
    fields.pop("mode", None)
    modes = {line.mode for line in merged}
    mode = modes.pop() if len(modes) == 1 else None
    return {**fields, "mode": mode} if mode else fields


def weight_of(priority: Priority, merged: Iterable[Observation]) -> Priority:
    """Return the priority of a line that merges others. It is 🔴 or ✅ if a merged line has that priority.

    With a lower priority, the next reflection could drop a statement of the user.
    """
    if priority in KEPT:
        return priority
    weights = {line.priority for line in merged}
    return "high" if "high" in weights else "done" if "done" in weights else priority


def _without_name(text: str, roots: Sequence[Observation], aliases: Mapping[str, str]) -> str:
    """Return a text without the alias of its thread at the beginning, if all sources are in that thread."""
    threads = {source.thread for root in roots for source in root.sources}
    name = aliases.get(threads.pop()) if len(threads) == 1 else None
    rest = text.removeprefix(f"{name}:").lstrip() if name else text
    return rest or text


def _redacted(text: str | None, redactor: Redactor) -> str | None:
    return redactor.redact(text) if text else text


_DraftT = TypeVar("_DraftT", Draft, ReflectedDraft)


def _without_secrets(draft: _DraftT, redactor: Redactor) -> _DraftT:
    """Return a draft without secrets. Messages were redacted before, but a model may join the parts of a secret."""
    text, verbatim = _meaning_once(redactor.redact(draft.text)), _redacted(draft.verbatim, redactor)
    files = tuple(map(redactor.redact, draft.files))
    metadata = cast("JsonObject", redactor.value(dict(draft.metadata))) if draft.metadata else draft.metadata
    if (text, verbatim, files, metadata) == (draft.text, draft.verbatim, draft.files, draft.metadata):
        return draft
    return replace(draft, text=text, verbatim=verbatim, files=files, metadata=metadata)


def _meaning_once(text: str) -> str:
    if "(" not in text:
        return text
    seen: set[str] = set()

    def first(hit: re.Match[str]) -> str:
        is_new = hit[1].casefold() not in seen
        seen.add(hit[1].casefold())
        return hit[0] if is_new else ""

    return _MEANING.sub(first, text)


def _said_at(draft: ReflectedDraft, roots: Sequence[Observation]) -> tuple[datetime | None, str | None]:
    """Return the time and zone of the earliest merged line on the day of the draft, else of the earliest merged line."""
    moments = [(said, line.said_at, line.zone) for line in roots if line.said_at and (said := said_in_zone(line, UTC))]
    same_day = [found for found in moments if found[0].date() == draft.on]
    if not moments:
        return None, roots[-1].zone
    _, moment, zone = min(same_day or moments, key=lambda found: found[1])
    return moment, zone


def _sources(thread: str, seqs: Iterable[int]) -> tuple[Source, ...]:
    spans: list[Span] = []
    for seq in seqs:
        if spans and spans[-1].last == seq - 1:
            spans[-1] = Span(first=spans[-1].first, last=seq)
        else:
            spans.append(Span(first=seq, last=seq))
    return tuple(Source(thread=thread, span=span) for span in spans)


def merged_sources(lines: Sequence[Observation]) -> tuple[Source, ...]:
    """Return the messages that the lines cite. Consecutive messages are one span."""
    seqs: dict[str, set[int]] = {}
    for thread, seq in (place for line in lines for place in cited_places(line)):
        seqs.setdefault(thread, set()).add(seq)
    return tuple(source for thread, found in seqs.items() for source in _sources(thread, sorted(found)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Guarded:
    """The lines of a reflection after the loss guard."""

    observations: tuple[Observation, ...]
    carried: int
    """The number of lines that code copied from the old log, because the reflection lost them."""
    omitted: tuple[str, ...]
    """The ids of merged old lines with a name that the result does not contain. These lines count as dropped."""


def gaps_of(drafts: Sequence[ReflectedDraft], lines: Sequence[Observation]) -> Generator[None, None, Gaps]:
    """Return the losses of an answer compared with the old lines. Yield after each line."""
    result: list[ResultLine] = []
    texts: list[str] = []
    for draft in drafts:
        merged = _merged(draft, lines)
        # The text of a nested line is checked together with the text of its parent.
        above = f"{texts[draft.parent]}\n" if draft.parent is not None else ""
        texts.append(_words(draft))
        if not is_bare_list(draft.text):
            priority = weight_of(draft.priority, merged)
            result.append(ResultLine(above + texts[-1], (line.id for line in merged), priority))
    omitted = yield from unsaid(lines, result)
    names = yield from lost(lines, [new.text for new in result])
    return Gaps(
        omitted=tuple(line.id for line in omitted),
        names=names,
        vague=tuple(new.text for new in vague(lines, result)),
    )


# Kept lines of an earlier reflection that are nearest to the new lines are shown with them, up to this share of their tokens.
_RELATED: Final = 0.5


def lines_to_condense(
    lines: Sequence[Observation],
) -> Generator[None, None, tuple[tuple[Observation, ...], tuple[Observation, ...]]]:
    """Return the lines that a reflector is shown, and the lines that stay as they are, both in their order.

    Yield after each line whose words are read.

    A 🔴 or ✅ line of an earlier reflection is condensed already and must not be dropped, so it stays unless it is among the
    lines that share most words with the new ones. A line stays or is shown together with its parent and its nested lines.
    """
    families: dict[tuple[str, int], list[Observation]] = {}
    roots: dict[tuple[str, int], tuple[str, int]] = {}
    for line in sorted(lines, key=lambda line: line.ordinal):
        place = line.group, line.ordinal
        above = (line.group, line.parent or 0)
        roots[place] = roots.get(above, place)
        families.setdefault(roots[place], []).append(line)
    old = [family for family in families.values() if all(line.merges and line.priority in KEPT for line in family)]
    old_ids = {line.id for family in old for line in family}
    new = [line for line in lines if line.id not in old_ids]
    if not old or not new:
        return tuple(lines), ()
    words: list[set[str]] = []
    for family in old:
        words.append(set())
        for line in family:
            words[-1].update(content_words(line.text))
            yield
    counts = Counter(word for several in words for word in several)
    said = set[str]()
    for line in new:
        said.update(content_words(line.text))
        yield
    # The sum of a set must not depend on the order of the set, which differs between processes.
    near = [fsum(1 / counts[word] for word in several & said) for several in words]
    room = _RELATED * sum(line.tokens for line in new)
    for place in sorted(range(len(old)), key=near.__getitem__, reverse=True):
        room -= sum(line.tokens for line in old[place])
        if room < 0 or not near[place]:
            break
        old_ids.difference_update(line.id for line in old[place])
    return (
        tuple(line for line in lines if line.id not in old_ids),
        tuple(line for line in lines if line.id in old_ids),
    )


def guarded(
    made: Sequence[Observation],
    lines: Sequence[Observation],
    group: NewGroup,
    *,
    staying: Sequence[Observation] = (),
) -> Generator[None, None, Guarded]:
    """Return the lines of a reflection, with a copy of every 🔴 and ✅ line that they lost, and without bare lists of names.

    Yield after each line. A line of the reflection that merges only lines copied in this way is dropped. `staying` are lines that
    were not shown to the reflector. They are copied too, and do not count as lost.
    """
    new = [line for line in made if not is_bare_list(line.text)]
    missing = yield from unsaid(lines, _result_lines(new))
    missing_ids = {line.id for line in missing}
    new = [line for line in new if not line.merges or not missing_ids.issuperset(line.merges)]
    kept = list(renumbered(made, new))
    kept += _carried([*missing, *staying], group, after=len(kept))
    others = [line for line in lines if line.id not in missing_ids]
    merged = {name for line in kept for name in line.merges}
    without_names = yield from lost_lines(others, [_words(line) for line in kept])
    return Guarded(
        observations=tuple(kept),
        carried=len(missing),
        omitted=tuple(line.id for line in without_names if line.id in merged),
    )


def _result_lines(lines: Sequence[Observation]) -> list[ResultLine]:
    texts = {line.ordinal: _words(line) for line in lines}
    whole = ("\n".join(filter(None, (texts.get(line.parent or 0), texts[line.ordinal]))) for line in lines)
    return [ResultLine(text, line.merges, line.priority) for text, line in zip(whole, lines, strict=True)]


def _words(line: ReflectedDraft | Observation) -> str:
    about = f" (meaning {line.about.isoformat()})" if line.about else ""
    return f"{line.text}{about}\n{line.verbatim or ''}"


def _carried(lines: Sequence[Observation], group: NewGroup, *, after: int) -> list[Observation]:
    """Return copies of lines for another group. A line stays under its parent if the parent is copied too."""
    ordinals = {(line.group, line.ordinal): after + number for number, line in enumerate(lines, start=1)}
    return [
        replace(
            line,
            id=group.new_id(),
            group=group.id,
            ordinal=after + number,
            parent=None if line.parent is None else ordinals.get((line.group, line.parent)),
            merges=(line.id,),
            state="active",
        )
        for number, line in enumerate(lines, start=1)
    ]


# ---------------------------------------------------------------- the archive

_ARCHIVED, _SUBJECT, _SINCE = "archived", "subject", "since"
# Archive until a quarter of the limit is free, so that the next reflections need not archive lines again.
_ROOM: Final = 0.75
_MOST_SUBJECTS: Final = 12  # maximum number of subjects, without "other things"
_OTHER: Final = "other things"


def unchanged(lines: Sequence[Observation], group: NewGroup) -> Guarded:
    """Return copies of the lines as a reflection that changes nothing, so that some of them can be archived."""
    return Guarded(observations=tuple(_carried(lines, group, after=0)), carried=len(lines), omitted=())


def archived(kept: Guarded, limit: int, group: NewGroup) -> Generator[None, None, Guarded]:
    """Archive the oldest 🔴 and ✅ lines if all 🔴 and ✅ lines together exceed `limit` tokens.

    One line for each subject replaces the archived lines and contains their number and days. Nothing is lost: search finds
    the archived lines, recall returns their messages, and `restore` returns them to the log. Yield after each line.
    """
    lines = kept.observations
    size = 0
    for line in lines:
        if line.priority in KEPT:
            size += _weight(line, group.counter)
            yield
    if size <= limit:
        return kept
    over = size - round(_ROOM * limit)
    earlier = [line for line in lines if isinstance(line.metadata.get(_ARCHIVED), int)]
    earlier_ids = {line.id for line in earlier}
    candidates = sorted((line for line in lines if line.priority in KEPT and line.id not in earlier_ids), key=_age)
    leaving: list[Observation] = []
    while candidates and over > 0:
        leaving.append(candidates.pop(0))
        over -= _weight(leaving[-1], group.counter)
    gone = earlier_ids | {line.id for line in leaving}
    rest = renumbered(lines, [line for line in lines if line.id not in gone])
    subjects = yield from _by_subject(leaving, earlier)
    archive: list[Observation] = []
    for number, (subject, found) in enumerate(subjects.items(), start=1):
        archive.append(_archive_line(subject, found, earlier, len(rest) + number, group))
        yield
    return replace(kept, observations=(*rest, *archive))


def _weight(line: Observation, counter: TokenCounter) -> int:
    return counter.count(f"* {MARKS[line.priority]} (00:00) {line.text}")


def _age(line: Observation) -> tuple[bool, datetime, int]:
    return line.said_at is None, line.said_at or datetime.min.replace(tzinfo=UTC), line.ordinal


def _by_subject(
    lines: Sequence[Observation], earlier: Sequence[Observation]
) -> Generator[None, None, dict[str, list[Observation]]]:
    """Return the lines by subject: a subject of the existing archive, a word that several lines share, or "other things"."""
    found: dict[str, list[Observation]] = {str(line.metadata[_SUBJECT]): [] for line in earlier}
    words: dict[str, Sequence[str]] = {}
    for line in lines:
        words[line.id] = content_words(line.text)
        yield
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
    ordinal: int,
    group: NewGroup,
) -> Observation:
    """Return the archive line of a subject. It includes the earlier archive lines of the same subject."""
    before = [line for line in earlier if line.metadata.get(_SUBJECT) == subject]
    # A line that merges several lines counts as that many lines.
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
        id=group.new_id(),
        group=group.id,
        ordinal=ordinal,
        priority="high",
        text=text,
        said_at=newest.said_at,
        zone=newest.zone,
        sources=merged_sources(all_lines),
        merges=tuple(dict.fromkeys(merged for line in all_lines for merged in line.merges)),
        trust=lowest(line.trust for line in all_lines),
        metadata={_ARCHIVED: count, _SUBJECT: subject, _SINCE: days[0] if days else None},
        tokens=group.counter.count(text),
    )
