"""Parse the reply of an observer or a reflector into drafts, hints and faults.

A reply may have sections between tags, be Markdown or JSON, and be cut off. The functions never raise because of a bad reply:
text that cannot be used becomes a fault.
"""

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, time
from typing import Any, Final, cast

from memolog.core.observation import MARKS, Priority
from memolog.observer.drafts import (
    ANSWER_KEYS,
    FATAL,
    LONGEST_LINE,
    MOST_LINE,
    Draft,
    Faults,
    HintsDraft,
    Parsed,
    ParsedReflection,
    ReflectedDraft,
    is_apology,
    is_chatter,
    is_degenerate,
    is_nonsense,
    is_refusal,
    selected,
)
from memolog.observer.reply_lines import (
    PRIORITY_WORDS,
    THREAD_OPENING,
    Known,
    Line,
    Sections,
    cleaned,
    read_lines,
    sections,
    thread_sections,
    without_fence,
    without_tags,
)
from memolog.observer.transcript import Shown, in_zone
from memolog.text.cut import cut
from memolog.text.dates import find_date
from memolog.text.escape import short_line, unescape
from memolog.text.word_lists import NOTHING

_LEADING_ID: Final = re.compile(r"^([ \t]*(?:[*•-][ \t]+)?)o\d{1,9}[:.)]?[ \t]+(?=\S)", re.MULTILINE)


# In the prompt, the names of threads (t1, t2 …) precede the mark of a line. If a model writes them there too,
# `parse_reflection` moves the name behind the mark.
_LEADING_NAMES: Final = re.compile(
    r"^([ \t]*(?:[*•-][ \t]+)?)(t\d{1,9}(?:,[ ]?t\d{1,9})*)[:.)]?[ \t]+"
    rf"((?:{'|'.join(MARKS.values())})[ \t]*(?:\(\d\d?:\d\d\)[ \t]*)?)",
    re.MULTILINE,
)
_THREAD: Final = re.compile(rf"{THREAD_OPENING}(.*?)(?:</thread>|\Z)", re.DOTALL | re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reply:
    lines: tuple[Line, ...] = ()
    hints: HintsDraft = field(default_factory=HintsDraft)
    nothing: bool = False


class _Times:
    """Computes the time of a line from the times of the messages."""

    def __init__(self, shown: Sequence[Shown], base: datetime) -> None:
        self._zone = base.tzinfo or UTC
        self._by_number = {message.number: in_zone(message.at, self._zone) for message in shown}
        self._base = in_zone(base, self._zone)
        self._days = sorted({self._base.date(), *(moment.date() for moment in self._by_number.values())})

    def said_at(self, line: Line, parent: Draft | None, faults: Faults) -> datetime:
        """Return the time of a line. If the line has citations, this is the time of one of the cited messages.

        For a line without citations, the first rule that applies decides:
        1. A line without a time has the time of its parent. This rule is skipped if the line has no parent, or has another
           date than its parent.
        2. A line with a time has the time of the nearest message.
        3. A line on the day of `base` has the time `base`. A line on another day has the time of the first message of that day,
           or midnight if there is no such message.
        """
        cited = sorted(self._by_number[number] for number in line.refs)
        if cited:
            return self._among(cited, line, faults)
        day = line.on
        if day and self._by_number and not self._days[0] <= day <= self._days[-1]:
            faults.note("wrong_date", day.isoformat())
            day = None
        if line.at is None and parent is not None and day in {None, parent.said_at.date()}:
            return parent.said_at
        day = day or (parent.said_at if parent else self._base).date()
        same_day = [moment for moment in self._by_number.values() if moment.date() == day]
        if line.at is not None:
            # Models invent times, so use the time of the nearest message, if possible of a message on the day of the line.
            return self._nearest(day, line.at, same_day or list(self._by_number.values()))
        if day == self._base.date():
            return self._base
        return min(same_day, default=datetime.combine(day, time(), tzinfo=self._zone))

    def _among(self, cited: list[datetime], line: Line, faults: Faults) -> datetime:
        if line.on and line.on not in {moment.date() for moment in cited}:
            faults.note("wrong_date", f"{line.on.isoformat()}: {line.text}")
            return cited[0]
        if line.at is None:
            return next((moment for moment in cited if line.on in {None, moment.date()}), cited[0])
        return self._nearest(line.on or cited[0].date(), line.at, cited)

    def _nearest(self, day: date, at: time, among: Sequence[datetime]) -> datetime:
        if len(among) == 1:
            return among[0]
        said = datetime.combine(day, at, tzinfo=self._zone)
        return min(among, key=lambda moment: abs(moment.timestamp() - said.timestamp()), default=said)


def parse_observations(reply: str, shown: Sequence[Shown], *, base: datetime, is_cut_off: bool = False) -> Parsed:
    """Return the parsed reply of an observer about the messages in `shown`.

    `base` is the time for lines without time and citations, usually the time of the first message. Times in the reply are in
    the zone of `base`. `is_cut_off` is True if the provider reported that the reply reached its maximum length.
    """
    faults = Faults()
    return _parsed(cleaned(reply, faults), shown, base, faults, is_cut_off=is_cut_off)


def _parsed(text: str, shown: Sequence[Shown], base: datetime, faults: Faults, *, is_cut_off: bool = False) -> Parsed:
    read = _read_reply(text, Known(message.number for message in shown), faults, is_cut_off=is_cut_off)
    times, drafts = _Times(shown, base), list[Draft]()
    for line, parent in zip(read.lines, _parents(read.lines), strict=True):
        above = None if parent is None else drafts[parent]
        cites = line.refs or (above.cites if above else ())
        fields = _fields(line, parent, above)
        drafts.append(Draft(**fields, said_at=times.said_at(line, above, faults), cites=cites))
    if not drafts and not read.nothing and not faults.has_fatal:
        faults.note("empty", "no observation, and no statement that nothing is worth observing")
    nothing = read.nothing and not drafts
    return Parsed(observations=tuple(drafts), hints=read.hints, faults=faults, nothing=nothing)


def _fields(line: Line, parent: int | None, above: Draft | ReflectedDraft | None) -> dict[str, Any]:
    return {
        "priority": line.priority or (above.priority if above else "medium"),
        "text": line.text,
        "about": line.about,
        "parent": parent,
        "verbatim": line.verbatim,
        "category": line.category,
        "files": line.files,
        "metadata": line.metadata,
    }


def parse_batch(reply: str, shown: Sequence[Shown], *, aliases: Mapping[str, str], base: datetime) -> dict[str, Parsed]:
    """Return the parsed answer for each thread of a batch, by thread id. `aliases` maps each alias in the reply to a thread id.

    An answer without lines has a fatal fault such as "empty", unless it says that nothing is worth observing. The time `base` is
    used for a thread without shown messages.

    If the reply has no sections for threads, a single thread gets all lines. For several threads, the first citation of a line
    decides its thread, and `base` is used for all threads. Each answer then has the fault "untagged". An answer without lines
    always has a fatal fault.
    """
    faults = Faults()
    text = cleaned(reply, faults)
    by_thread = {thread: [message for message in shown if message.thread == thread] for thread in aliases.values()}
    bodies = thread_sections(text, frozenset(aliases), faults)
    if not bodies and len(aliases) > 1:
        return _by_citations(text, shown, by_thread, base, faults)
    if not bodies:
        bodies = dict.fromkeys(aliases, text)
    results: dict[str, Parsed] = {}
    for alias, thread in aliases.items():
        mine = by_thread[thread]
        # The users of two threads may be in different zones.
        results[thread] = _parsed(bodies.get(alias, ""), mine, mine[0].at if mine else base, Faults(faults))
    return results


def _by_citations(
    text: str, shown: Sequence[Shown], by_thread: Mapping[str, list[Shown]], base: datetime, faults: Faults
) -> dict[str, Parsed]:
    whole = _parsed(text, shown, base, faults)
    owners = {message.number: message.thread for message in shown}
    results: dict[str, Parsed] = {}
    for thread in by_thread:
        found = whole.observations
        places = [place for place, draft in enumerate(found) if draft.cites and owners[draft.cites[0]] == thread]
        drafts = tuple(
            replace(draft, cites=tuple(number for number in draft.cites if owners[number] == thread))
            for draft in selected(found, places)
        )
        own = Faults(whole.faults)
        own.note("untagged", "no sections for threads")
        if not drafts and not own.has_fatal:
            own.note("empty", "no line cites a message of this thread")
        results[thread] = Parsed(observations=drafts, faults=own)
    return results


def parse_reflection(
    reply: str, count: int, aliases: Collection[str] = (), *, is_cut_off: bool = False
) -> ParsedReflection:
    """Return the parsed reply of a reflector that was shown `count` lines with the short ids o1, o2 and so on.

    `aliases` are the short names of the threads (t1, t2 …) if several threads share the log. Then the reply has a section with
    hints for each thread. `is_cut_off` is True if the provider reported that the reply reached its maximum length.
    """
    faults = Faults()
    if is_cut_off:
        faults.note("cut_off", "the reply reached its maximum length")
    # In the prompt, a short id precedes each line. If the model copied the id, remove it: only ids at the end of a line count.
    text = _LEADING_ID.sub(r"\1", cleaned(reply, faults))
    of_threads: dict[str, HintsDraft] = {}
    if aliases:
        # Move the name of a thread behind the mark. If a line has two or more names, drop them.
        text = _LEADING_NAMES.sub(lambda hit: f"{hit[1]}{hit[3]}" + ("" if "," in hit[2] else f"{hit[2]}: "), text)
        text, of_threads = _of_threads(text, frozenset(aliases), faults)
    read = _read_reply(text, Known(range(1, count + 1)), faults)
    drafts: list[ReflectedDraft] = []
    for line, parent in zip(read.lines, _parents(read.lines), strict=True):
        above = None if parent is None else drafts[parent]
        merges = tuple(f"o{number}" for number in line.refs)
        on = line.on or (above.on if above else None)
        drafts.append(ReflectedDraft(**_fields(line, parent, above), merges=merges, on=on, at=line.at))
    if not drafts and not faults.has_fatal:
        faults.note("empty", "the reply has no line, but a reflection must not delete all lines")
    return ParsedReflection(lines=tuple(drafts), hints=read.hints, threads=of_threads, faults=faults)


def _of_threads(text: str, aliases: frozenset[str], faults: Faults) -> tuple[str, dict[str, HintsDraft]]:
    """Return two values: the reply, with the section of each thread reduced to its lines, and the hints by thread alias."""
    found: dict[str, HintsDraft] = {}

    def replacement(hit: re.Match[str]) -> str:
        inside = sections(hit[2], faults)
        if hit[1] in aliases:
            found.setdefault(hit[1], _hints_of(inside.hints, faults))
        else:
            faults.note("forged_tag", f"the thread {hit[1]}, which was not shown")
        lines = inside.loose if inside.observations is None else inside.observations
        return f"\n<observations>\n{lines}\n</observations>\n" if lines.strip() else ""

    return _THREAD.sub(replacement, text), found


def failure(parsed: Parsed | ParsedReflection) -> str | None:
    """Return the reason why a reply is unusable; None if it is usable.

    A reflection that was cut off is unusable. An observer's reply that was cut off is usable up to the cut, and the caller must
    have the rest observed again.
    """
    fatal = FATAL if isinstance(parsed, Parsed) else FATAL | {"cut_off", "cut_off_hint"}
    for kind in parsed.faults.kinds:
        if kind in fatal:
            return f"{kind.replace('_', ' ')}: {parsed.faults[kind]}"
    has_lines = bool(parsed.observations or parsed.nothing) if isinstance(parsed, Parsed) else bool(parsed.lines)
    return None if has_lines else "empty: the reply has no line"


# ---------------------------------------------------------------- sections and lines

_MOST_DUPLICATES: Final = 10


def _read_reply(text: str, known: Known, faults: Faults, *, is_cut_off: bool = False) -> _Reply:
    """Return the lines and hints of a cleaned reply. `is_cut_off` is True if the provider reported that the end is missing."""
    if not text:
        faults.note("empty", "no text")
        return _Reply()
    if is_degenerate(text) or max(map(len, text.split("\n"))) > LONGEST_LINE:
        faults.note("degenerate", text[-80:])
        return _Reply()
    if is_nonsense(without_fence(text)):
        faults.note("nonsense", text)
        return _Reply()
    found = _found(text, faults)
    body = found.loose if found.observations is None else found.observations
    if found.observations is None:
        faults.note("untagged", "no section of observations")
    if found.unclosed and found.unclosed != "observations":
        # An incomplete hint or working memory must not replace the complete old one.
        faults.note("cut_off_hint", f"<{found.unclosed}> has no closing tag")
        found.hints.pop(found.unclosed, None)
    hints = _hints_of(found.hints, faults)
    words = body.strip()
    # The reply may say that nothing is worth observing. An empty section does not say so.
    if 0 < len(words) <= _LONGEST_NOTHING and "\n" not in words and _NOTHING.fullmatch(words):
        if found.observations is None and _ONE_WORD.fullmatch(words):
            # Outside of a section, a single word such as "none" may come from a program that failed to get an answer.
            faults.note("empty", body)
            return _Reply()
        return _Reply(hints=hints, nothing=True)
    is_torn = found.unclosed == "observations" or (is_cut_off and found.observations is None)
    lines = _checked_lines(found, body, known, faults, is_torn=is_torn)
    return _Reply(lines=tuple(lines), hints=hints)


def _found(text: str, faults: Faults) -> Sections:
    """Return the sections of a reply that has tags, headings or JSON. JSON inside the section of observations is read too."""
    plain = without_fence(text)
    if whole := _json_reply(plain, faults):
        return Sections(observations=whole[0], hints=whole[1])
    found = sections(plain, faults)
    if inner := _json_reply(without_fence(found.observations or ""), faults):
        found.observations, found.unclosed = inner[0], ""
        found.hints = {**inner[1], **found.hints}
    return found


def _checked_lines(found: Sections, body: str, known: Known, faults: Faults, *, is_torn: bool) -> list[Line]:
    lines = read_lines(body, known, faults)
    if found.observations is not None:
        # Some models close the section too early. So rows outside of all sections with a bullet and a mark are lines too.
        lines += [line for line in read_lines(found.loose, known, Faults()) if line.is_bullet and line.priority]
    if lines and not any(line.is_marked for line in lines):
        if is_refusal([line.text for line in lines]):
            faults.note("refusal", lines[0].text)
            return []
        useful = [line for line in lines if not is_chatter(line.text)]
        if not useful:
            faults.note("empty", f"the reply has no observation: {lines[0].text}")
            return []
        lines = useful
    if is_torn:
        faults.note("cut_off", "the reply ends inside the observations")
        while lines and not lines[-1].refs:
            # Citations are at the end of a line, so a last line without citations may be incomplete.
            lines.pop()
    elif not lines and any(char.isalnum() for char in body):
        faults.note("unparsable", body)
    kept = [line for line in lines if not is_apology(line.text)]
    if len(kept) < len(lines):
        refused = next(line.text for line in lines if is_apology(line.text))
        faults.note("apology" if kept else "refusal", refused)
    return _without_duplicates(kept, faults)


def _without_duplicates(lines: list[Line], faults: Faults) -> list[Line]:
    seen: set[tuple[object, ...]] = set()
    kept: list[Line] = []
    for line in lines:
        key = (line.text, line.on, line.at, line.refs, line.is_result, line.verbatim)
        if key in seen:
            faults.note("duplicate", line.text)
        else:
            seen.add(key)
            kept.append(line)
    if len(lines) - len(kept) >= max(_MOST_DUPLICATES, len(kept)):
        faults.note("degenerate", f"{len(lines) - len(kept)} lines are repeated")
        return []
    return kept


def _parents(lines: Sequence[Line]) -> list[int | None]:
    """Return the index of each line's parent, usually the last line before it with less indentation; None for no parent."""
    above: list[tuple[int, int]] = []
    found: list[int | None] = []
    for place, line in enumerate(lines):
        # A line that begins with an arrow is a result. Without indentation, it belongs under the last top-level line.
        indent = above[0][0] + 1 if line.is_result and above and line.indent <= above[0][0] else line.indent
        while above and above[-1][0] >= indent:
            above.pop()
        found.append(above[-1][1] if above else None)
        above.append((indent, place))
    return found


# ---------------------------------------------------------------- empty replies, and hints

_WORTH: Final = r"(?:here )?(?:is )?(?:worth|to) (?:keep|record|remember|not|observ|report|add|log)\w*.{0,40}"
_NOTHINGS: Final = (
    rf"(?:there (?:is|was) )?nothing(?: new| notable| of note| relevant| significant)?(?: {_WORTH})?",
    r"(?:there (?:are|were) )?no (?:new |notable |relevant )?observations?(?: (?:to|worth|for|in this)\b.{0,40})?",
    NOTHING,
    r"nichts(?: neues| wichtiges| relevantes)?(?: (?:festzuhalten|zu notieren|zu merken|erwähnenswertes))?",
    r"keine (?:neuen )?beobachtungen",
    r"rien(?: de nouveau)?(?: à (?:retenir|noter|signaler))?|aucune (?:nouvelle )?observation",
    r"nada(?: nuevo)?(?: que (?:guardar|anotar|registrar))?|sin (?:nuevas )?observaciones",
    r"ничего(?: нового| важного)?",
    r"(?:没有|无)(?:什么)?(?:新的)?(?:值得(?:保留|记录|记住))?的?(?:内容|观察|信息|事项)?",
    r"(?:特に)?(?:なし|ありません)",
    r"لا شيء(?: جديد| يستحق .{0,30})?",
)
_NOTHING: Final = re.compile(rf"\W*(?:{'|'.join(_NOTHINGS)})\W*", re.IGNORECASE)
_ONE_WORD: Final = re.compile(rf"\W*(?:{NOTHING})\W*", re.IGNORECASE)
_EMPTY_HINT: Final = re.compile(rf"\W*(?:{NOTHING}|unchanged|no change)?\W*", re.IGNORECASE)
_NO_TASK: Final = re.compile(rf"\W*(?:{NOTHING}|nothing(?: left)?(?: to do)?)\W*", re.IGNORECASE)
_ON_TRACK: Final = re.compile(rf"\W*(?:{NOTHING}|no|on[ -]track|not? off[ -]track|nein)?\W*", re.IGNORECASE)
_LONGEST_NOTHING: Final = 120
_MOST_HINT: Final = 2_000
_MOST_TITLE: Final = 120


def _hints_of(texts: dict[str, str], faults: Faults) -> HintsDraft:
    task = _hint(texts.get("current-task"), faults)
    if task is None and _NO_TASK.fullmatch(texts.get("current-task", "")[:100]):
        # An explicit "none" ends the current task. A missing section does not end it.
        task = ""
    response = _hint(texts.get("suggested-response"), faults)
    title = _hint(texts.get("thread-title"), faults)
    title = cut(re.sub(r"\s+", " ", title or "").strip("\"'“”*#` "), _MOST_TITLE) or None
    off_track = _hint(texts.get("off-track"), faults)
    return HintsDraft(
        current_task=task,
        suggested_response=response,
        title=title,
        working_memory=_document(texts.get("working-memory")),
        off_track=None if off_track is None or _ON_TRACK.fullmatch(off_track) else off_track,
    )


def _document(text: str | None) -> str | None:
    plain = unescape(without_fence(text or "")).strip("\n")
    return None if not plain.strip() or _EMPTY_HINT.fullmatch(plain) else f"{plain}\n"


def _hint(text: str | None, faults: Faults) -> str | None:
    plain = unescape(without_tags(cut(text or "", _MOST_HINT), faults)).strip()
    return None if _EMPTY_HINT.fullmatch(plain[:100]) and len(plain) < 100 else plain  # noqa: PLR2004 - longer than any such word


# ---------------------------------------------------------------- replies in JSON

_TEXTS: Final = ("text", "observation", "content", "description", "summary", "fact", "note", "value", "message")
_INSIDE: Final = ("children", "details", "sub", "subitems", "results", "outcomes", "observations")
_TIMES: Final = ("time", "timestamp", "saidat", "at", "datetime", "when")
_CITE_KEYS: Final = "cites citations citation sources source messages refs references ids merges"
_CITES: Final = tuple(_CITE_KEYS.split())
_ABOUT: Final = ("about", "meaning", "refersto", "eventdate", "targetdate")
_HINTS: Final = {
    "currenttask": "current-task",
    "suggestedresponse": "suggested-response",
    "threadtitle": "thread-title",
    "title": "thread-title",
    "offtrack": "off-track",
    "workingmemory": "working-memory",
}
_PRIORITIES: Final[dict[str, Priority]] = {
    **PRIORITY_WORDS,
    **{mark: priority for priority, mark in MARKS.items()},
    **dict.fromkeys(("1", "p1"), "high"),
    **dict.fromkeys(("2", "p2"), "medium"),
    **dict.fromkeys(("3", "p3"), "low"),
}
_MARK_KEYS: Final = ("priority", "importance", "level", "mark")
_OTHER_KEYS: Final = ("date", "files", "file", "verbatim", "id", "metadata", "parent", "thread", "role", "number")
_STRUCTURE: Final = frozenset((*_TEXTS, *_INSIDE, *_TIMES, *_CITES, *_ABOUT, *_HINTS, *_MARK_KEYS, *_OTHER_KEYS))
"""JSON fields with a fixed meaning.

Any other field becomes a fact in braces, if its name matches `_FIELD` and its value is a text or a number.
"""
_FIELD: Final = re.compile(r"[a-z]{2,21}")
_DEEPEST: Final = 4
_MOST_FAILURES: Final = 20
_LOOKS_LIKE: Final = re.compile(r"\s*(?:\{\s*(?:\"|\}|\Z)|\[\s*(?:[\{\"\]]|\Z))")
_CLOCK: Final = re.compile(r"\d{1,2}[:：]\d{2}")


def _json_reply(text: str, faults: Faults) -> tuple[str, dict[str, str]] | None:
    """Return the lines of a reply in JSON as text, and its hints by tag; None if the reply is not JSON."""
    if not _LOOKS_LIKE.match(text):
        return None
    try:
        value: object = json.loads(text)
    except (ValueError, RecursionError):
        value = _salvaged(text)
        if not value:
            return None
    hints: dict[str, str] = {}
    lines = "\n".join(_lines(value, 0, hints))
    if not lines:
        faults.note("unparsable", "JSON without observations")
    return lines, hints


def _salvaged(text: str) -> list[object]:
    """Return the complete objects in truncated JSON. If the outer object is incomplete, return the complete objects inside it."""
    decoder, found, at, failures = json.JSONDecoder(), list[object](), 0, 0
    while failures < _MOST_FAILURES and (at := text.find("{", at)) >= 0:
        try:
            value, at = decoder.raw_decode(text, at)
            found.append(value)
        except (ValueError, RecursionError):
            failures += 1
            at += 1
    return found


def _lines(value: object, depth: int, hints: dict[str, str]) -> Iterator[str]:
    if depth > _DEEPEST:
        return
    if isinstance(value, str):
        yield from (f"{'  ' * depth}* {short_line(row, MOST_LINE)}" for row in value.split("\n") if row.strip())
    elif isinstance(value, list):
        for item in cast("list[object]", value):
            yield from _lines(item, depth, hints)
    elif isinstance(value, Mapping):
        yield from _object(_normal(cast("Mapping[object, object]", value)), depth, hints)


def _normal(value: Mapping[object, object]) -> dict[str, object]:
    keys = [(str(key), item) for key, item in value.items()]
    return {key if find_date(key) else re.sub(r"[\s_-]+", "", key).lower(): item for key, item in keys}


def _object(entry: dict[str, object], depth: int, hints: dict[str, str]) -> Iterator[str]:
    text = _first(entry, _TEXTS)
    if isinstance(text, str):
        yield from _entry(entry, text, depth)
        for name in _INSIDE:
            if isinstance(entry.get(name), list) and entry[name] is not text:
                yield from _lines(entry[name], depth + 1, hints)
        return
    if not depth:
        hints.update({tag: item for name, tag in _HINTS.items() if isinstance(item := entry.get(name), str)})
    if isinstance(day := entry.get("date"), str):
        yield f"Date: {short_line(day, 60)}"
    for key, item in entry.items():
        # Some models use dates as keys.
        if found := find_date(key):
            yield f"Date: {found.day.isoformat() if found.day else key}"
            yield from _lines(item, depth, hints)
        elif key in ANSWER_KEYS:
            yield from _lines(item, depth, hints)


def _first(entry: dict[str, object], names: tuple[str, ...]) -> object:
    return next((entry[name] for name in names if entry.get(name)), None)


def _entry(entry: dict[str, object], text: str, depth: int) -> Iterator[str]:
    given = _PRIORITIES.get(str(_first(entry, _MARK_KEYS)).strip().lower())
    mark = f"{MARKS[given]} " if given else ""
    if isinstance(day := entry.get("date"), str):
        yield f"Date: {short_line(day, 60)}"
    about = find_date(str(_first(entry, _ABOUT) or ""))
    meaning = f" (meaning {about.day.isoformat()})" if about and about.day and "(meaning" not in text else ""
    yield f"{'  ' * depth}* {mark}{_when(entry)}{short_line(text, MOST_LINE)}{meaning}{_facts(entry)}{_cited(entry)}"
    verbatim = entry.get("verbatim")
    if isinstance(verbatim, str):
        yield from (f"{'  ' * depth}  | {row}" for row in verbatim.split("\n"))


def _when(entry: dict[str, object]) -> str:
    moment = str(_first(entry, _TIMES) or "")
    found = find_date(f"{moment} {entry.get('date') or ''}")
    clock = _CLOCK.search(moment)
    day = f"{found.day.isoformat()} " if found and found.day else ""
    return f"({day}{clock[0]}) " if clock else ""


def _facts(entry: dict[str, object]) -> str:
    files = entry.get("files") or entry.get("file")
    names = cast("list[object]", files) if isinstance(files, list) else [files] if files else []
    facts = [f"files={', '.join(map(str, names))}"] if names else []
    inner = entry.get("metadata")
    fields = {**entry, **(_normal(cast("Mapping[object, object]", inner)) if isinstance(inner, Mapping) else {})}
    facts += [
        f"{name}={item}"
        for name, item in fields.items()
        if name not in _STRUCTURE and _FIELD.fullmatch(name) and isinstance(item, str | int | float) and item != ""
    ]
    safe = [re.sub(r"[{};\n]", " ", fact) for fact in facts]
    return f" {{{'; '.join(safe)}}}" if safe else ""


def _cited(entry: dict[str, object]) -> str:
    cites = _first(entry, _CITES)
    items = cast("list[object]", cites) if isinstance(cites, list) else [cites]
    numbers = [number for item in items for number in re.findall(r"[o#]?\d{1,9}", str(item))] if cites else []
    return f" [{','.join(numbers)}]" if numbers else ""
