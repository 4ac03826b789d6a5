"""Split a reply into its tagged sections, without thoughts and code fences. Linear in the length of the reply."""

import re
from dataclasses import dataclass, field
from typing import Final

from memolog.observer.drafts import MOST_REPLY, FaultNotes
from memolog.text.escape import clean

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
# Our tags, and those of chat templates that leak. Tags that code and web pages use too are not included: lines may mention
# them, and `<` is escaped wherever a line is shown.
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
    """None if the reply had no such section."""
    hints: dict[str, str] = field(default_factory=dict[str, str])
    """Current task, suggested response, title and off-track, by their tags."""
    loose: str = ""
    """What stood outside every section."""
    unclosed: str = ""
    """The section that never ended."""


# ---------------------------------------------------------------- cleaning

_THOUGHTS: Final = re.compile(
    r"<[ \t]*(think|thinking|thought|thoughts|analysis|scratchpad)\b[^<>\n]{0,100}>", re.IGNORECASE
)
_END_OF_THOUGHTS: Final = re.compile(r"</think(?:ing)?>", re.IGNORECASE)
_BEFORE_THOUGHTS: Final = re.compile(r"<think|<observations", re.IGNORECASE)
_ANSWER: Final = re.compile(r"\n(?=[ \t]*<observations)", re.IGNORECASE)
FENCE: Final = re.compile(r"[ \t]*(?:```|~~~)")


def cleaned(reply: str, notes: FaultNotes) -> str:
    """Return the readable text of a reply: bounded, with plain line ends, without thoughts."""
    if len(reply) > MOST_REPLY:
        notes.note("too_large", f"{len(reply):,} characters")
        reply = reply[:MOST_REPLY]
    return _without_thoughts(clean(reply), notes).strip()


def _without_thoughts(text: str, notes: FaultNotes) -> str:
    """Remove thoughts: those between tags, and those before a closing tag whose opening tag is missing."""
    at = orphan = _orphan_end(text)
    kept: list[str] = []
    endless: set[str] = set()
    while hit := _THOUGHTS.search(text, at):
        if hit.start() != orphan and not _starts_line(text, hit.start()):
            # In the middle of a line it is part of the text.
            kept.append(text[at : hit.end()])
            at = hit.end()
            continue
        kept.append(text[at : hit.start()])
        notes.note("thinking", "thoughts beside the answer")
        name = hit[1].lower()
        end = None if name in endless else re.compile(rf"</{name}>", re.IGNORECASE).search(text, hit.end())
        if end is None:
            # Thoughts that never end reach to the answer, or to the end of the reply.
            endless.add(name)
            end = _ANSWER.search(text, hit.end())
        at = len(text) if end is None else end.end()
    if orphan:
        notes.note("thinking", "thoughts before the answer")
    return "".join([*kept, text[at:]])


def _orphan_end(text: str) -> int:
    """Return where the answer begins after thoughts that only have an end, or 0."""
    end = _END_OF_THOUGHTS.search(text)
    return end.end() if end and not _BEFORE_THOUGHTS.search(text, 0, end.start()) else 0


def _starts_line(text: str, at: int) -> bool:
    return not text[max(at - 200, 0) : at].rpartition("\n")[2].strip()


def without_fence(text: str) -> str:
    """Return a text without the code fence that wraps all of it."""
    lines = text.strip().split("\n")
    if len(lines) > 1 and FENCE.match(lines[0]):
        end = len(lines) - 1 if lines[-1].strip() in {"```", "~~~"} else len(lines)
        return "\n".join(lines[1:end])
    return text


def without_tags(text: str, notes: FaultNotes) -> str:
    """Return a line without our tags and tags of chat templates; other tags stay."""
    if "<" not in text and "[" not in text:
        return text
    plain = _FORGED.sub("", text)
    if plain != text:
        notes.note("forged_tag", text)
    bare = _FOREIGN.sub("", plain)
    if bare != plain:
        notes.note("foreign_tag", text)
    return bare


# ---------------------------------------------------------------- taking apart


class _SectionReader:
    """Sorts the lines of a reply into sections."""

    def __init__(self, notes: FaultNotes) -> None:
        self.texts: dict[str, list[str]] = {"": []}
        self.current = ""
        self.notes = notes

    def take(self, line: str) -> None:
        """Take one line: tags at its beginning, text, the tag that ends the section, and what comes after it."""
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
        """Read the section tags from here on; return where the text begins."""
        while tag := _SECTION_TAG.match(line, at):
            name = _name(tag[2])
            if name is None:
                break
            self._turn(name, is_end=bool(tag[1]))
            at = tag.end()
        return at

    def _end(self, line: str, at: int) -> re.Match[str] | None:
        """Return the tag that ends the present section on this line."""
        if not self.current:
            return None
        return next((end for end in _CLOSING.finditer(line, at) if _name(end[1]) == self.current), None)

    def _turn(self, name: str, *, is_end: bool) -> None:
        if is_end:
            self.current = "" if name == self.current else self.current
        elif name != "observations" and name in self.texts:
            # Only the first section counts; a second one repeats text that the model read.
            self.notes.note("forged_tag", f"a second <{name}>")
            self.current = "ignored"
            self.texts.setdefault("ignored", [])
        else:
            self.current = name
            self.texts.setdefault(name, [])

    def _text(self, text: str) -> None:
        if _LONE_TAG.fullmatch(text):
            self.notes.note("foreign_tag", text)
        else:
            self.texts[self.current].append(text)


def _name(tag: str) -> str | None:
    return _KNOWN.get(tag.lower().replace("_", "-").replace(" ", "-"))


def sections(text: str, notes: FaultNotes) -> Sections:
    """Return the sections of a reply, found by tags or, if it has none, by headings."""
    reader = _SectionReader(notes)
    for line in text.split("\n"):
        reader.take(line)
    if len(reader.texts) == 1:
        return _by_headings(text)
    joined = {name: "\n".join(lines).strip("\n") for name, lines in reader.texts.items()}
    return Sections(
        observations=joined.pop("observations", None),
        loose=joined.pop(""),
        unclosed=reader.current if reader.current != "ignored" else "",
        hints={name: body for name, body in joined.items() if name != "ignored"},
    )


_HEADING: Final = re.compile(
    r"[ \t]*(#{1,6}[ \t]*|\*\*|__)?(observations?|current[ _-]task|suggested[ _-]response|(?:thread[ _-])?title|off[ _-]track)"
    r"[ \t]*(\*\*|__)?[ \t]*([:：])?[ \t]*(?:\*\*|__)?[ \t]*",
    re.IGNORECASE,
)


def _by_headings(text: str) -> Sections:
    texts: dict[str, list[str]] = {"": []}
    current = ""
    for line in text.split("\n"):
        hit = _HEADING.match(line)
        if hit and (hit[4] or (hit[1] and hit.end() == len(line))):
            current = _name(hit[2]) or ""
            texts.setdefault(current, [])
            line = line[hit.end() :]  # noqa: PLW2901 - the rest of the heading's line is the section's first
        texts[current].append(line)
    joined = {name: "\n".join(lines).strip("\n") for name, lines in texts.items()}
    return Sections(observations=joined.pop("observations", None), loose=joined.pop(""), hints=joined)


# ---------------------------------------------------------------- threads

THREAD_OPENING: Final = r"<thread\b[ \t]*+(?:[a-z]{1,10}[ \t]*+=)?[ \t]*+[\"']?([^\"'<>\s/]{1,60})[\"']?[ \t]*>"
"""The tag that opens the section of a thread; its group is the alias."""
_THREAD: Final = re.compile(
    rf"[ \t]*(?:{THREAD_OPENING}"
    r"|#{1,6}[ \t]*(?:thread[ \t]+)?[\"'`<]?([^\"'`<>\s:]{1,60})[\"'`>]?[ \t]*+:?[ \t]*+$)",
    re.IGNORECASE,
)
_THREAD_TAG: Final = re.compile(r"(<thread[ \t][^<>\n]{1,80}>|</thread>)", re.IGNORECASE)
_THREAD_END: Final = re.compile(r"[ \t]*</thread>[ \t]*$", re.IGNORECASE)


def thread_sections(text: str, aliases: frozenset[str], notes: FaultNotes) -> dict[str, str]:
    """Return what a reply says about each thread, by alias; threads that were not asked about are left out."""
    found: dict[str, list[str]] = {}
    current: list[str] = []
    for line in _THREAD_TAG.sub(r"\n\1\n", text).split("\n"):
        hit = _THREAD.match(line)
        name = (hit[1] or hit[2]) if hit else None
        if hit and name in aliases:
            current = found.setdefault(name or "", [])
            current.append(line[hit.end() :])
        elif hit and hit[1]:
            notes.note("forged_tag", f"the thread {name}, which was not asked about")
            current = []
        elif _THREAD_END.match(line):
            current = []
        else:
            current.append(line)
    return {name: "\n".join(lines) for name, lines in found.items()}
