"""Split a reply into its tagged sections, and parse their lines, in time linear in the length of the reply.

A model's reasoning and code fences are removed. A line has a priority mark, a time, a text, citations (such as [3]), facts in
braces, and verbatim text in the rows below it.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import date, time
from itertools import islice
from typing import Final

from memolog.core.observation import CODE_METADATA, MARKS, UNVERIFIED, Priority
from memolog.observer.drafts import LONGEST_LINE, MOST_LINE, MOST_REPLY, Faults
from memolog.text.cut import cut
from memolog.text.dates import TIME, date_heading, find_date, read_time
from memolog.text.escape import clean, unescape
from memolog.text.word_lists import MEANING

_KNOWN: Final = {
    "observations": "observations",
    "observation": "observations",
    "reflections": "observations",
    "reflection": "observations",
    "current-task": "current-task",
    "suggested-response": "suggested-response",
    "thread-title": "thread-title",
    "title": "thread-title",
    "off-track": "off-track",
    "working-memory": "working-memory",
}
# Tags of Memolog and of chat templates, which `without_tags` removes from lines. Tags of HTML and code are not included,
# because a line may mention them. They do no harm, because a line is escaped wherever it is shown.
_OURS: Final = "observations?|reflections?|current-task|suggested-response|thread-title|off-track|working-memory"
_PROMPT: Final = "transcript|log-end|hints|left-out|attached|wanted|other-conversation"
_TEMPLATE: Final = r"think(?:ing)?|scratchpad|tool_(?:call|response|result)s?|function_calls?"
_SECTION_TAG: Final = re.compile(
    r"[ \t]*<(/?)[ \t]*([A-Za-z][A-Za-z_ -]{1,24}?)(?:[ \t]++[^<>\n]{0,100})?[ \t]*+/?>[ \t]*+"
)
_CLOSING: Final = re.compile(r"</[ \t]*([A-Za-z][A-Za-z_ -]{1,24}?)[ \t]*>")
_LONE_TAG: Final = re.compile(r"[ \t]*</?[A-Za-z][\w:-]{0,40}(?:[ \t][^<>\n]{0,200})?/?>[ \t]*")
_FORGED: Final = re.compile(rf"</?[ \t]*(?:{_OURS}|{_PROMPT})\b[^<>\n]{{0,100}}>", re.IGNORECASE)
_FOREIGN: Final = re.compile(
    rf"</?(?:{_TEMPLATE})\b[^<>\n]{{0,100}}>|<\|[^<>|\n]{{1,40}}\|>|<[｜|][^<>\n]{{1,40}}[｜|]>|\[/?INST\]|</?s>",
    re.IGNORECASE,
)


@dataclass(slots=True, kw_only=True)
class Sections:
    """The texts of a reply by section."""

    observations: str | None = None
    """None if the reply has no section of observations."""
    hints: dict[str, str] = field(default_factory=dict[str, str])
    """The texts of current task, suggested response, title, working memory, and `off-track` (a warning that the work has left the
    request of the user), by tag."""
    loose: str = ""
    """The text outside of all sections."""
    unclosed: str = ""
    """The name of the last section, if its closing tag is missing; else empty."""


# ---------------------------------------------------------------- cleaning

_THOUGHTS: Final = re.compile(
    r"<[ \t]*(think|thinking|thought|thoughts|analysis|scratchpad)\b[^<>\n]{0,100}>", re.IGNORECASE
)
_END_OF_THOUGHTS: Final = re.compile(r"</think(?:ing)?>", re.IGNORECASE)
_BEFORE_THOUGHTS: Final = re.compile(r"<think|<observations", re.IGNORECASE)
_ANSWER: Final = re.compile(r"\n(?=[ \t]*<observations)", re.IGNORECASE)
FENCE: Final = re.compile(r"[ \t]*(?:```|~~~)")


def cleaned(reply: str, faults: Faults) -> str:
    """Return the text of a reply with a limited length and plain line ends, without the model's reasoning."""
    if len(reply) > MOST_REPLY:
        faults.note("too_large", f"{len(reply):,} characters")
        reply = reply[:MOST_REPLY]
    return _without_thoughts(clean(reply), faults).strip()


def _without_thoughts(text: str, faults: Faults) -> str:
    """Remove reasoning between tags, and reasoning before a closing tag without an opening tag."""
    at = orphan = _orphan_end(text)
    kept: list[str] = []
    endless: set[str] = set()
    while hit := _THOUGHTS.search(text, at):
        before = text[max(hit.start() - 200, 0) : hit.start()].rpartition("\n")[2]
        if hit.start() != orphan and before.strip():
            # A tag in the middle of a line is part of the text.
            kept.append(text[at : hit.end()])
            at = hit.end()
            continue
        kept.append(text[at : hit.start()])
        faults.note("thinking", "reasoning beside the answer")
        name = hit[1].lower()
        end = None if name in endless else re.compile(rf"</{name}>", re.IGNORECASE).search(text, hit.end())
        if end is None:
            # Without a closing tag, the reasoning ends before the observations or at the end of the reply.
            endless.add(name)
            end = _ANSWER.search(text, hit.end())
        at = len(text) if end is None else end.end()
    if orphan:
        faults.note("thinking", "reasoning before the answer")
    return "".join([*kept, text[at:]])


def _orphan_end(text: str) -> int:
    """Return the position after a closing tag of reasoning that has no opening tag; 0 if there is none."""
    end = _END_OF_THOUGHTS.search(text)
    return end.end() if end and not _BEFORE_THOUGHTS.search(text, 0, end.start()) else 0


def without_fence(text: str) -> str:
    """Return a text without the code fence around the whole text."""
    lines = text.strip().split("\n")
    if len(lines) > 1 and FENCE.match(lines[0]):
        end = len(lines) - 1 if lines[-1].strip() in {"```", "~~~"} else len(lines)
        return "\n".join(lines[1:end])
    return text


def without_tags(text: str, faults: Faults) -> str:
    """Return a line without tags of Memolog and of chat templates. Other tags stay."""
    if "<" not in text and "[" not in text:
        return text
    plain = _FORGED.sub("", text)
    if plain != text:
        faults.note("forged_tag", text)
    bare = _FOREIGN.sub("", plain)
    if bare != plain:
        faults.note("foreign_tag", text)
    return bare


# ---------------------------------------------------------------- sections


class _SectionReader:
    def __init__(self, faults: Faults) -> None:
        self.texts: dict[str, list[str]] = {"": []}
        self.current = ""
        self.faults = faults

    def take(self, line: str) -> None:
        """Add one row of the reply. A row may contain several sections, each with an opening tag, text and a closing tag."""
        at = 0
        while at < len(line) or not at:
            at = self._tags(line, at)
            if at and at == len(line):
                return
            end = self._end(line, at)
            self._text(line[at : end.start() if end else len(line)])
            if end is None:
                return
            self.current, at = "", end.end()

    def _tags(self, line: str, at: int) -> int:
        """Read the section tags at a position, and return the position after them."""
        while tag := _SECTION_TAG.match(line, at):
            name = _name(tag[2])
            if name is None:
                break
            self._turn(name, is_end=bool(tag[1]))
            at = tag.end()
        return at

    def _end(self, line: str, at: int) -> re.Match[str] | None:
        """Return the closing tag of the current section in this row; None if there is none."""
        if not self.current:
            return None
        return next((end for end in _CLOSING.finditer(line, at) if _name(end[1]) == self.current), None)

    def _turn(self, name: str, *, is_end: bool) -> None:
        if is_end:
            self.current = "" if name == self.current else self.current
        elif name != "observations" and name in self.texts:
            # Only the first section of a name counts. A second one is usually copied from the messages.
            self.faults.note("forged_tag", f"a second <{name}>")
            self.current = "ignored"
        else:
            self.current = name
        self.texts.setdefault(self.current, [])

    def _text(self, text: str) -> None:
        if _LONE_TAG.fullmatch(text):
            self.faults.note("foreign_tag", text)
        else:
            self.texts[self.current].append(text)


def _name(tag: str) -> str | None:
    return _KNOWN.get(tag.lower().replace("_", "-").replace(" ", "-"))


def sections(text: str, faults: Faults) -> Sections:
    """Return the sections of a reply by their tags. If the reply has no tags, headings separate the sections."""
    reader = _SectionReader(faults)
    for line in text.split("\n"):
        reader.take(line)
    texts = reader.texts if len(reader.texts) > 1 else _by_headings(text)
    joined = {name: "\n".join(lines).strip("\n") for name, lines in texts.items() if name != "ignored"}
    unclosed = reader.current if reader.current != "ignored" else ""
    return Sections(
        observations=joined.pop("observations", None), loose=joined.pop(""), unclosed=unclosed, hints=joined
    )


_HEADING: Final = re.compile(
    r"[ \t]*(#{1,6}[ \t]*|\*\*|__)?(observations?|current[ _-]task|suggested[ _-]response|(?:thread[ _-])?title|off[ _-]track)"
    r"[ \t]*(\*\*|__)?[ \t]*([:：])?[ \t]*(?:\*\*|__)?[ \t]*",
    re.IGNORECASE,
)


def _by_headings(text: str) -> dict[str, list[str]]:
    texts: dict[str, list[str]] = {"": []}
    current = ""
    for line in text.split("\n"):
        hit = _HEADING.match(line)
        if hit and (hit[4] or (hit[1] and hit.end() == len(line))):
            current = _name(hit[2]) or ""
            texts.setdefault(current, [])
            line = line[hit.end() :]  # noqa: PLW2901 - the text after the heading is the first line of the section
        texts[current].append(line)
    return texts


# ---------------------------------------------------------------- threads

THREAD_OPENING: Final = r"<thread\b[ \t]*+(?:[a-z]{1,10}[ \t]*+=)?[ \t]*+[\"']?([^\"'<>\s/]{1,60})[\"']?[ \t]*>"
"""A pattern for the opening tag of a thread's section. Capture group 1 is the alias of the thread in the prompt, such as t1."""
_THREAD: Final = re.compile(
    rf"[ \t]*(?:{THREAD_OPENING}"
    r"|#{1,6}[ \t]*(?:thread[ \t]+)?[\"'`<]?([^\"'`<>\s:]{1,60})[\"'`>]?[ \t]*+:?[ \t]*+$)",
    re.IGNORECASE,
)
_THREAD_TAG: Final = re.compile(r"(<thread[ \t][^<>\n]{1,80}>|</thread>)", re.IGNORECASE)
_THREAD_END: Final = re.compile(r"[ \t]*</thread>[ \t]*$", re.IGNORECASE)


def thread_sections(text: str, aliases: frozenset[str], faults: Faults) -> dict[str, str]:
    """Return the section of each thread by alias. Sections of unknown threads are left out."""
    found: dict[str, list[str]] = {}
    current: list[str] = []
    for line in _THREAD_TAG.sub(r"\n\1\n", text).split("\n"):
        hit = _THREAD.match(line)
        name = (hit[1] or hit[2]) if hit else None
        if hit and name in aliases:
            current = found.setdefault(name or "", [])
            current.append(line[hit.end() :])
        elif hit and hit[1]:
            faults.note("forged_tag", f"the thread {name}, which was not shown")
            current = []
        elif _THREAD_END.match(line):
            current = []
        else:
            current.append(line)
    return {name: "\n".join(lines) for name, lines in found.items()}


_MOST_LINES: Final = 2_000  # maximum lines of a section
_MOST_ROWS: Final = 100  # maximum rows of text of one line
_MOST_VERBATIM: Final = 20_000  # maximum characters


class Known:
    """The numbers that a reply may cite."""

    def __init__(self, numbers: Iterable[int]) -> None:
        self.members = frozenset(numbers)
        self._ordered = sorted(self.members)

    def between(self, first: int, last: int) -> list[int]:
        """Return the known numbers from `first` to `last`, both included. A huge range is fast too."""
        return self._ordered[bisect_left(self._ordered, first) : bisect_right(self._ordered, last)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One parsed line of a reply."""

    text: str
    indent: int = 0
    is_result: bool = False
    """The line begins with an arrow. It is the result of an earlier line, and belongs under it."""
    is_bullet: bool = False
    priority: Priority | None = None
    on: date | None = None
    at: time | None = None
    about: date | None = None
    refs: tuple[int, ...] = ()
    metadata: Mapping[str, str] = field(default_factory=dict[str, str])
    """The facts in braces at the end of the line, by normalised name. Line numbers of files are in `lines`, as path:number."""
    category: str | None = None
    files: tuple[str, ...] = ()
    verbatim: str | None = None

    @property
    def is_marked(self) -> bool:
        """Whether this looks like a line of the log. Prose has no bullet, mark, time or citation."""
        return self.is_bullet or bool(self.priority or self.refs) or self.at is not None


# ---------------------------------------------------------------- all lines

_AROUND: Final = " \t.;,[]()【】（）"
_VERBATIM: Final = re.compile(r"[ \t]*[|>│](?: (.*)|(.*))\Z", re.DOTALL)
_RULE: Final = re.compile(r"[\s*_=\-–—#]*\Z")
_ANY_HEADING: Final = re.compile(r"[ \t]*#{1,6}[ \t]")
PRIORITY_WORDS: Final[dict[str, Priority]] = {
    **dict.fromkeys(("high", "critical", "important", "red"), "high"),
    **dict.fromkeys(("medium", "normal", "yellow", "med"), "medium"),
    **dict.fromkeys(("low", "minor", "green", "info"), "low"),
    **dict.fromkeys(("done", "completed", "complete", "finished", "x"), "done"),
}


def read_lines(text: str, known: Known, faults: Faults) -> list[Line]:
    """Return the lines of a section, each with the date of the heading above it.

    If at least one line looks like a line of the log, lines that look like prose are dropped.
    """
    lines = list(islice(_all_lines(text, known, faults), _MOST_LINES + 1))
    if len(lines) > _MOST_LINES:
        faults.note("too_many", f"more than {_MOST_LINES:,} lines")
        del lines[_MOST_LINES:]
    if not any(line.is_marked for line in lines):
        return lines
    for line in lines:
        if not line.is_marked:
            faults.note("prose", line.text)
    return [line for line in lines if line.is_marked]


def _all_lines(text: str, known: Known, faults: Faults) -> Iterator[Line]:
    gathered = _LineRows(known, faults)
    for kind, raw in _with_kinds(text):
        if kind == "verbatim":
            gathered.verbatim.append(raw)
        elif kind == "gap":
            gathered.has_gap = True
        elif heading := date_heading(raw):
            yield from gathered.finished()
            gathered.day = heading.day
            if heading.day is None:
                faults.note("wrong_date", raw)
        else:
            if gathered.first and _is_reference(raw, known):
                gathered.rows.append(f"[{raw.strip(_AROUND)}]")
                continue
            found = Faults()
            line = _line(raw, known, found, gathered.day)
            if gathered.goes_on(line):
                gathered.rows.append(raw.strip())
                continue
            yield from gathered.finished()
            gathered.begin(raw, line, found)
    yield from gathered.finished()


class _LineRows:
    """Collects the rows of text that belong to one line, until the next line begins."""

    def __init__(self, known: Known, faults: Faults) -> None:
        self.known, self.faults = known, faults
        self.day: date | None = None
        self.first: Line | None = None
        self.faults_of_first = Faults()
        self.rows: list[str] = []
        self.verbatim: list[str] = []
        self.has_gap = False

    def begin(self, raw: str, line: Line, found: Faults) -> None:
        self.faults_of_first = found
        self.first, self.rows, self.verbatim, self.has_gap = line, [raw], [], False

    def goes_on(self, line: Line) -> bool:
        if not self.first or not self.first.is_bullet or self.verbatim or len(self.rows) > _MOST_ROWS:
            return False
        is_bare = bool(line.text) and not (line.is_bullet or line.is_result or line.priority or line.at)
        return is_bare and (line.indent > self.first.indent or (bool(line.refs) and not self.has_gap))

    def finished(self) -> Iterator[Line]:
        if self.first:
            line = self.first
            if len(self.rows) > 1:
                line = _line(" ".join(self.rows), self.known, self.faults, self.day)
            else:
                self.faults.add(self.faults_of_first)
            if line.text:
                yield replace(line, verbatim=_verbatim(self.verbatim, self.faults)) if self.verbatim else line
        self.first = None


def _verbatim(rows: list[str], faults: Faults) -> str | None:
    text = "\n".join(rows).strip("\n")
    if len(text) > _MOST_VERBATIM:
        faults.note("over_long", f"{len(text):,} characters of verbatim text")
    return unescape(without_tags(cut(text, _MOST_VERBATIM), faults)) if text.strip() else None


def _with_kinds(text: str) -> Iterator[tuple[str, str]]:
    """Yield the kind and the text of each row: "verbatim", "line", or "gap" with an empty text.

    A gap is an empty row, a horizontal rule, or a heading that is not a date.
    """
    fenced: list[str] | None = None
    seen = False
    for raw in text.split("\n"):
        if FENCE.match(raw):
            if fenced is None and seen:
                fenced = []
            elif fenced is not None:
                yield from _block(fenced)
                fenced = None
        elif fenced is not None:
            fenced.append(raw)
        elif (hit := _VERBATIM.match(raw)) and seen:
            yield "verbatim", hit[1] if hit[1] is not None else hit[2]
        elif _RULE.match(raw) or (_ANY_HEADING.match(raw) and not date_heading(raw)):
            yield "gap", ""
        else:
            seen = seen or not date_heading(raw)
            yield "line", raw
    yield from _block(fenced or [])


def _block(rows: list[str]) -> Iterator[tuple[str, str]]:
    """Yield the rows of a fenced block. They are lines if at least one has a bullet and a mark, else verbatim text."""
    has_line = any((bullet := _BULLET.match(row)) and _MARK.match(row, bullet.end()) for row in rows)
    yield from (("line" if has_line else "verbatim", row) for row in rows)


# ---------------------------------------------------------------- one line

_MEANING: Final = re.compile(rf"[ ]?{MEANING}[ ]*([^()（）\n]{{4,60}})[)）]", re.IGNORECASE)
_TAB: Final = "    "
_DOUBT: Final = re.compile(rf"(?:{re.escape(UNVERIFIED)}\s*)+", re.IGNORECASE)


def _line(raw: str, known: Known, faults: Faults, day: date | None) -> Line:
    """Return a line of the log. `day` is the date of the heading above it, for a line without a date of its own."""
    raw = cut(raw.replace("\t", _TAB), LONGEST_LINE)
    indent = len(raw) - len(raw.lstrip(" "))
    bullet = _BULLET.match(raw)
    head = _Head(raw[bullet.end() :] if bullet else raw.strip())
    if head.wrong_date:
        faults.note("wrong_date", head.wrong_date)
    text = unescape(without_tags(head.rest, faults)).strip()
    # Only Memolog may mark a line as "(unverified)". Remove the mark, because a model may have copied it from a line of the log.
    text = _DOUBT.sub("", text) if "(" in text else text
    text, refs = _take_references(text, known, faults)
    if not refs and head.priority is not None and head.at is None:
        # Some small models write the citation where the time belongs.
        text, refs = _take_leading_references(text, known)
    text, facts = _take_facts(text)
    if len(text) > MOST_LINE:
        faults.note("over_long", f"{len(text):,} characters")
        text = cut(text, MOST_LINE)
    text, about = _about(text, faults)
    return Line(
        text=_tidy(text),
        indent=indent,
        is_result=head.is_result,
        is_bullet=bullet is not None,
        priority=head.priority,
        on=head.on or day,
        at=head.at,
        about=about,
        refs=refs,
        metadata=facts,
        category=_normal(facts.pop("category", ""))[:_MOST_WORD] or None,
        files=_take_files(facts),
    )


def _about(text: str, faults: Faults) -> tuple[str, date | None]:
    """Return the text, and the day in its first "(meaning …)". A "(meaning …)" with an impossible day is removed."""
    if "(" not in text and "（" not in text:
        return text, None
    first: date | None = None

    def check(hit: re.Match[str]) -> str:
        nonlocal first
        found = find_date(hit[1])
        if found and found.day is None:
            faults.note("wrong_date", hit[0])
            return ""
        first = first or (found.day if found else None)
        return hit[0]

    return _MEANING.sub(check, text), first


def _tidy(text: str) -> str:
    text = text.strip()
    if text.count("**") % 2:
        text = text.replace("**", "", 1) if text.startswith("**") or "**" in text[:40] else text
    return text.strip() if any(char.isalnum() for char in text) else ""


# ---------------------------------------------------------------- the head of a line

_OTHER_MARKS: Final[dict[str, Priority]] = {
    **dict.fromkeys("🟥❗‼🔺🚨⭐❤", "high"),
    **dict.fromkeys("🟨🟠🟧🔶💛", "medium"),
    **dict.fromkeys("🟩🔵⚪⚫💚", "low"),
    **dict.fromkeys("☑✔✓🏁🎉", "done"),
}
_BY_MARK: Final[dict[str, Priority]] = {**_OTHER_MARKS, **{mark: name for name, mark in MARKS.items()}}
_BULLET: Final = re.compile(r"[ \t]*(?:[*•‣◦▪·+–—-](?=[\s🔴🟡🟢✅])|\d{1,3}[.)](?=\s))[ \t]*")
_MARK: Final = re.compile(rf"([{''.join(_BY_MARK)}])[\ufe0e\ufe0f]?[ \t]*")
_ANY_WORD: Final = "|".join(PRIORITY_WORDS)
_PRIORITY_WORD: Final = re.compile(
    rf"(?:\[({_ANY_WORD})\]|\(({_ANY_WORD})\)|(high|medium|low|done|critical|important)(?=:))[: \t]*",
    re.IGNORECASE,
)
_TODO: Final = re.compile(r"\[ \][ \t]*")
_WHEN: Final = re.compile(
    rf"(?:[(（\[]\s?(?:(?P<day>[^()\[\]\n]{{4,30}}?)[ T,]{{1,2}})?(?P<time>{TIME})(?:\s?[-–—]\s?{TIME})?\s?(?:UTC|GMT|Z)?"
    r"(?:[+-]\d\d:?\d\d)?\s?[)）\]]"
    rf"|(?P<bare>(?:\d{{4}}-\d\d-\d\d[ T])?\d{{1,2}}:\d\d(?::\d\d)?Z?)(?=[ \t]))[ \t]*(?:[-–—:|](?=\s))?[ \t]*"
)
_WEEKDAY: Final = re.compile(r"[^\W\d]{2,12}\.?,?")
_ARROW: Final = re.compile(r"(?:->|=>|→|⇒|➜|↳)[ \t]*")
_EMPHASIS: Final = re.compile(r"(?:\*\*|__)[ \t]*")
_MOST_HEADS: Final = 8  # maximum number of marks, times and arrows before the text


class _Head:
    """The mark, the time and the arrow before the text of a line, in any order."""

    def __init__(self, text: str) -> None:
        self.priority: Priority | None = None
        self.on: date | None = None
        self.at: time | None = None
        self.is_result = False
        self.wrong_date = ""
        self.rest = text
        for _ in range(_MOST_HEADS):
            if not (self._mark() or self._when() or self._arrow()):
                break

    def _mark(self) -> bool:
        if hit := _MARK.match(self.rest):
            self.priority = self.priority or _BY_MARK[hit[1]]
        elif self.priority is None and (hit := _PRIORITY_WORD.match(self.rest)):
            self.priority = PRIORITY_WORDS[(hit[1] or hit[2] or hit[3]).lower()]
        elif not (hit := _TODO.match(self.rest)):
            return False
        self.rest = self.rest[hit.end() :]
        return True

    def _when(self) -> bool:
        hit = _WHEN.match(self.rest) if self.at is None else None
        if not hit:
            return False
        day = hit["day"] or hit["bare"] or ""
        found = find_date(day)
        if hit["day"] and not found and not _WEEKDAY.fullmatch(hit["day"]):
            return False
        self.on = found.day if found else None
        self.wrong_date = day if found and found.day is None else ""
        # Read only the part after the last space or "T", because the date before it could be read as a time.
        self.at = read_time(hit["time"] or re.split(r"[ T]", hit["bare"])[-1])
        self.rest = self.rest[hit.end() :]
        return True

    def _arrow(self) -> bool:
        hit = _ARROW.match(self.rest)
        if hit:
            self.is_result = True
        elif not (self.rest[:2] in {"**", "__"} and (hit := _EMPHASIS.match(self.rest)) and self._emphasis(hit)):
            return False
        self.rest = self.rest[hit.end() :] if hit else self.rest
        return True

    def _emphasis(self, hit: re.Match[str]) -> bool:
        """Return whether these bold marks can be dropped, because a priority mark, a time or nothing follows them."""
        after = self.rest[hit.end() :]
        return bool(_MARK.match(after) or _PRIORITY_WORD.match(after) or _WHEN.match(after) or not after.strip())


# ---------------------------------------------------------------- citations

_REFERENCE_WORD: Final = r"(?:messages?|msgs?|merge[sd]?|merging|from|ids?|sources?|cites?|see|lines?)[ .:]*"
_ITEM: Final = r"[#mo]?\d{1,9}"
_BETWEEN: Final = r"(?:[ ]*(?:[,;、，،/&+–—-]|\band\b|\bto\b|\.\.)[ ]*|[ ]+)"
# A separator between items is required. Otherwise digits could be split into items in many ways, which makes the match slow.
_LIST: Final = rf"[ ]*(?:{_REFERENCE_WORD})?{_ITEM}(?:{_BETWEEN}(?:{_REFERENCE_WORD})?{_ITEM}){{0,5000}}[ ]*"
_AT_END: Final = re.compile(rf"(?:[\[【]{_LIST}[\]】]|[(（][ ]*{_REFERENCE_WORD}{_LIST}[)）])[ .;,]*\Z", re.IGNORECASE)
_IN_FRONT: Final = re.compile(rf"[\[【(（]({_LIST})[\]】)）][ ]*+(?:[:–—-](?=\s))?[ ]*+(?=\S)", re.IGNORECASE)
_ALONE: Final = re.compile(rf"\s*[\[【(（]({_LIST})[\]】)）][ .;,]*", re.IGNORECASE)
_INSIDE: Final = re.compile(rf"(?<=\s)[\[【]({_LIST})[\]】](?=[\s.,;:)]|\Z)", re.IGNORECASE)
_RANGE: Final = re.compile(rf"({_ITEM})[ ]*(?:–|—|-|\.\.|\bto\b)[ ]*({_ITEM})|({_ITEM})", re.IGNORECASE)
# Maximum characters of one bracket, and maximum number of brackets at the end of a line. They limit the time for a line with
# many brackets.
_LONGEST_REFERENCES: Final = 20_000
_MOST_GROUPS: Final = 50


def _take_references(text: str, known: Known, faults: Faults) -> tuple[str, tuple[int, ...]]:
    """Return the text without its citations, and the cited numbers that were in the prompt, in ascending order."""
    found: set[int] = set()
    for _ in range(_MOST_GROUPS):
        end = text[-_LONGEST_REFERENCES:]
        opened = max(end.rfind("["), end.rfind("【"), end.rfind("("), end.rfind("（"))
        if opened < 0 or not (hit := _AT_END.match(end, opened)):
            break
        found.update(_numbers(hit[0], known, faults))
        text = text[: len(text) - len(end) + opened].rstrip()
    text = _inside(text, known, found)
    return text, tuple(sorted(found))


def _take_leading_references(text: str, known: Known) -> tuple[str, tuple[int, ...]]:
    """Return the text without the numbers in brackets at its beginning, and the numbers.

    If one of the numbers was not in the prompt, the result is the unchanged text and an empty tuple.
    """
    hit = _IN_FRONT.match(text[:_LONGEST_REFERENCES])
    numbers = _shown(hit[1], known) if hit else ()
    return (text[hit.end() :], numbers) if hit and numbers else (text, ())


def _is_reference(row: str, known: Known) -> bool:
    hit = _ALONE.fullmatch(row) if len(row) <= _LONGEST_REFERENCES else None
    return bool(hit and _shown(hit[1], known))


def _shown(group: str, known: Known) -> tuple[int, ...]:
    """Return the numbers in a bracket if all of them were in the prompt, else an empty tuple."""
    faults = Faults()
    numbers = _numbers(group, known, faults)
    return () if faults else tuple(sorted(set(numbers)))


def _inside(text: str, known: Known, found: set[int]) -> str:
    """Return the text without known citations in its middle, and add their numbers to `found`. Text in backticks stays."""
    if "[" not in text and "【" not in text:
        return text
    pieces = text.split("`")
    step = 2 if len(pieces) % 2 else 1

    def swap(hit: re.Match[str]) -> str:
        numbers = [int(item.lstrip("#moMO")) for item in re.findall(_ITEM, hit[1], re.IGNORECASE)]
        if not known.members.issuperset(numbers):
            return hit[0]
        found.update(_numbers(hit[1], known, Faults()))
        return ""

    for at in range(0, len(pieces), step):
        bare = _INSIDE.sub(swap, pieces[at])
        if bare != pieces[at]:
            pieces[at] = re.sub(r" {2,}| (?=[.,;:])", lambda gap: " " if len(gap[0]) > 1 else "", bare)
    return "`".join(pieces).rstrip()


def _numbers(group: str, known: Known, faults: Faults) -> list[int]:
    numbers: list[int] = []
    for first, last, single in _RANGE.findall(group):
        low, high = sorted(int(item.lstrip("#moMO")) for item in (first or single, last or single))
        if not {low, high} <= known.members:
            faults.note("unknown_citation", group.strip())
        numbers.extend(known.between(low, high))
    return numbers


# ---------------------------------------------------------------- facts in braces

_NAMES: Final = {
    **{name: name for name in ("category", "root_cause", "coverage", "breaks", "confidence", "status", "symptom")},
    **dict.fromkeys(("type", "kind"), "category"),
    **dict.fromkeys(("file", "files", "path", "paths"), "files"),
    **dict.fromkeys(("line", "lines"), "lines"),
    **dict.fromkeys(("query", "queries", "queries_tried"), "queries"),
    **dict.fromkeys(("source", "sources"), "sources"),
    **dict.fromkeys(("test", "tests"), "tests"),
    **dict.fromkeys(("variable", "variables"), "variables"),
    **dict.fromkeys(("dependant", "dependants", "dependent", "dependents"), "dependants"),
    **dict.fromkeys(("cause", "rootcause"), "root_cause"),
    **dict.fromkeys(("error_type", "errortype", "exception"), "error_type"),
    **dict.fromkeys(("stack_trace", "stacktrace", "stack", "traceback"), "stack_trace"),
    **dict.fromkeys(("not_found", "notfound"), "not_found"),
    **dict.fromkeys(("breaking", "breaking_change", "what_breaks"), "breaks"),
}
_RESERVED: Final = CODE_METADATA | {"mode", "observer"}
"""Names of facts that only Memolog may set, not a model."""
_BRACES: Final = re.compile(r"\{([^{}\n]{3,1500})\}[ .]*\Z")
_HUMP: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")
_NEXT: Final = re.compile(r"[;,]\s*(?=[A-Za-z][A-Za-z_ -]{1,20}[=:])")
_EQUALS: Final = re.compile(r"\s*[A-Za-z][A-Za-z_ -]{1,20}?\s*=")
_PAIR: Final = re.compile(r"\s*([A-Za-z][A-Za-z_ -]{1,20}?)\s*+[=:]\s*(.+)", re.DOTALL)
_FILE: Final = re.compile(r"(.+?)[:#]L?(\d{1,7}(?:-L?\d{1,7})?)")
_LONGEST_FACTS: Final = 1_600  # maximum characters of all facts of a line
_MOST_VALUE: Final = 500  # maximum characters of the value of a fact
_MOST_WORD: Final = 40  # maximum characters of a category
_MOST_FILES: Final = 50
_MOST_FIELDS: Final = 20  # maximum number of facts with unknown names


def _take_facts(text: str) -> tuple[str, dict[str, str]]:
    """Return the text without the facts in braces at its end, and the facts by normalised name.

    Facts with unknown names are included, up to `_MOST_FIELDS`. If the braces contain other text, they are not removed.
    """
    hit = _BRACES.search(text, max(len(text) - _LONGEST_FACTS, 0)) if text.rstrip(" .").endswith("}") else None
    if not hit:
        return text, {}
    pairs = [_PAIR.fullmatch(piece) for piece in _NEXT.split(hit[1])]
    found = {_normal(pair[1]): (pair[2].rstrip() or pair[2])[:_MOST_VALUE] for pair in pairs if pair}
    are_facts = found.keys() & _NAMES.keys() or all(_EQUALS.match(piece) for piece in _NEXT.split(hit[1]))
    if len(found) < len(pairs) or not are_facts:
        return text, {}
    free = [(name, value) for name, value in found.items() if name not in _NAMES and name not in _RESERVED]
    known = {_NAMES[name]: value for name, value in found.items() if name in _NAMES}
    return text[: hit.start()].rstrip(), {**dict(free[:_MOST_FIELDS]), **known}


def _normal(name: str) -> str:
    return re.sub(r"[\s-]+", "_", _HUMP.sub("_", name.strip()).lower())


def _take_files(facts: dict[str, str]) -> tuple[str, ...]:
    """Remove the files from the facts of a line, and return them. Line numbers after a file become the fact `lines`."""
    names = [name.strip() for name in facts.pop("files", "").split(",")][:_MOST_FILES]
    hits = [(name, _FILE.fullmatch(name)) for name in names if name]
    if numbered := [f"{hit[1]}:{hit[2].replace('L', '')}" for _, hit in hits if hit]:
        facts["lines"] = ", ".join(numbered)
    return tuple(dict.fromkeys(hit[1] if hit else name for name, hit in hits))
