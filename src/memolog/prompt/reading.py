"""Parse what replies of observers and reflectors have in common: lines, hints, refusals and "nothing"."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from memolog.domain.word_lists import NOTHING
from memolog.prompt.drafts import HintsDraft
from memolog.prompt.escape import unescape
from memolog.prompt.faults import (
    LONGEST_LINE,
    FaultNotes,
    is_apology,
    is_chatter,
    is_degenerate,
    is_nonsense,
    is_refusal,
)
from memolog.prompt.from_json import json_reply
from memolog.prompt.lines import Line, read_lines
from memolog.prompt.references import Known
from memolog.prompt.sections import Sections, sections, without_fence, without_tags
from memolog.tokens import cut

__all__ = ["Read", "hints_of", "parents", "read_reply"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """The lines and hints of a reply."""

    lines: tuple[Line, ...] = ()
    hints: HintsDraft = field(default_factory=HintsDraft)
    off_track: str | None = None
    nothing: bool = False


def read_reply(text: str, known: Known, notes: FaultNotes, *, is_cut_off: bool = False) -> Read:
    """Return the lines and hints of a cleaned reply; `is_cut_off` says that its end is known to be missing."""
    if not text:
        notes.note("empty", "no text")
        return Read()
    if is_degenerate(text) or max(map(len, text.split("\n"))) > LONGEST_LINE:
        notes.note("degenerate", text[-80:])
        return Read()
    if is_nonsense(without_fence(text)):
        notes.note("nonsense", text)
        return Read()
    found = _found(text, notes)
    body = found.loose if found.observations is None else found.observations
    if found.observations is None:
        notes.note("untagged", "no section of observations")
    if found.unclosed and found.unclosed != "observations":
        # An incomplete hint or document must not replace a complete one.
        notes.note("cut_off_hint", f"<{found.unclosed}> never ends")
        found.hints.pop(found.unclosed, None)
    hints, off_track = hints_of(found.hints, notes)
    hints = replace(hints, working_memory=_document(found.hints.get("working-memory")))
    if _is_nothing(body):
        if found.observations is None and _ONE_WORD.fullmatch(body.strip()):
            # Outside a section, a single word may also come from a program that has no answer.
            notes.note("empty", body)
            return Read()
        return Read(hints=hints, off_track=off_track, nothing=True)
    is_torn = found.unclosed == "observations" or (is_cut_off and found.observations is None)
    lines = _lines(found, body, known, notes, is_torn=is_torn)
    return Read(lines=tuple(lines), hints=hints, off_track=off_track)


def _found(text: str, notes: FaultNotes) -> Sections:
    """Return the sections of a reply, be it tagged, in Markdown or in JSON, as a whole or inside its section."""
    plain = without_fence(text)
    whole = json_reply(plain)
    if whole:
        return Sections(observations=_json_lines(whole[0], notes), hints=whole[1])
    found = sections(plain, notes)
    inner = json_reply(without_fence(found.observations or ""))
    if inner:
        found.observations = _json_lines(inner[0], notes)
        found.hints = {**inner[1], **found.hints}
        found.unclosed = ""
    return found


def _json_lines(lines: str, notes: FaultNotes) -> str:
    if not lines:
        notes.note("unparsable", "JSON without observations")
    return lines


# ---------------------------------------------------------------- lines


def _lines(found: Sections, body: str, known: Known, notes: FaultNotes, *, is_torn: bool) -> list[Line]:
    lines = read_lines(body, known, notes)
    if found.observations is not None:
        # Some close the section too early: what is marked like a line is one.
        silent = FaultNotes()
        lines += [line for line in read_lines(found.loose, known, silent) if line.is_bullet and line.priority]
    if lines and not any(line.is_marked for line in lines):
        if is_refusal([line.text for line in lines]):
            notes.note("refusal", lines[0].text)
            return []
        said = [line for line in lines if not is_chatter(line.text)]
        if not said:
            notes.note("empty", f"no observation in it: {lines[0].text}")
            return []
        lines = said
    if is_torn:
        notes.note("cut_off", "its observations never end")
        while lines and not lines[-1].is_cited:
            # Citations stand at the end of a line, so a line without them may be incomplete.
            lines.pop()
    elif not lines and any(char.isalnum() for char in body):
        notes.note("unparsable", body)
    return _without_duplicates(_without_apologies(lines, notes), notes)


def _without_apologies(lines: list[Line], notes: FaultNotes) -> list[Line]:
    """Return the lines without those in which the model itself refuses."""
    kept = [line for line in lines if not is_apology(line.text)]
    if len(kept) < len(lines):
        refused = next(line.text for line in lines if is_apology(line.text))
        notes.note("apology" if kept else "refusal", refused)
    return kept


_MOST_DUPLICATES: Final = 10


def _without_duplicates(lines: list[Line], notes: FaultNotes) -> list[Line]:
    seen: set[tuple[object, ...]] = set()
    kept: list[Line] = []
    for line in lines:
        key = (line.text, line.on, line.at, line.refs, line.is_result, line.verbatim)
        if key in seen:
            notes.note("duplicate", line.text)
        else:
            seen.add(key)
            kept.append(line)
    if len(lines) - len(kept) >= max(_MOST_DUPLICATES, len(kept)):
        notes.note("degenerate", f"{len(lines) - len(kept)} lines are repeated")
        return []
    return kept


def parents(lines: Sequence[Line]) -> list[int | None]:
    """Return for each line the index of the one it stands under: the nearest before it that is indented less."""
    above: list[tuple[int, int]] = []
    found: list[int | None] = []
    for place, line in enumerate(lines):
        # A result without indentation still belongs under what led to it.
        indent = above[0][0] + 1 if line.is_result and above and line.indent <= above[0][0] else line.indent
        while above and above[-1][0] >= indent:
            above.pop()
        found.append(above[-1][1] if above else None)
        above.append((indent, place))
    return found


# ---------------------------------------------------------------- nothing, and hints

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


def _is_nothing(body: str) -> bool:
    """Return whether the reply says in words that there is nothing; an empty section says nothing at all."""
    words = body.strip()
    return 0 < len(words) <= _LONGEST_NOTHING and "\n" not in words and bool(_NOTHING.fullmatch(words))


def hints_of(texts: dict[str, str], notes: FaultNotes) -> tuple[HintsDraft, str | None]:
    """Return the hints among the sections of a reply, by tag, and what it says of work that is off track."""
    task = _hint(texts.get("current-task"), notes)
    if task is None and _NO_TASK.fullmatch(texts.get("current-task", "")[:100]):
        # Only an explicit "none" ends the current task; a missing section does not.
        task = ""
    response = _hint(texts.get("suggested-response"), notes)
    title = _hint(texts.get("thread-title"), notes)
    title = cut(re.sub(r"\s+", " ", title or "").strip("\"'“”*#` "), _MOST_TITLE) or None
    off_track = _hint(texts.get("off-track"), notes)
    hints = HintsDraft(current_task=task, suggested_response=response, title=title)
    return hints, None if off_track is None or _ON_TRACK.fullmatch(off_track) else off_track


def _document(text: str | None) -> str | None:
    plain = unescape(without_fence(text or "")).strip("\n")
    return None if not plain.strip() or _EMPTY_HINT.fullmatch(plain) else f"{plain}\n"


def _hint(text: str | None, notes: FaultNotes) -> str | None:
    plain = unescape(without_tags(cut(text or "", _MOST_HINT), notes)).strip()
    return None if _EMPTY_HINT.fullmatch(plain[:100]) and len(plain) < 100 else plain  # noqa: PLR2004 - far above any such word
