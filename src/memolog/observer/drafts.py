"""The parsed reply of a model (lines, hints and faults), and checks for endless repetition, refusals, chatter and error pages."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, time
from typing import Final, Literal, TypeAlias, cast, get_args

from memolog.core.exact_json import JsonObject, nothing
from memolog.core.observation import Priority
from memolog.core.thread import Hints
from memolog.text.escape import short_line
from memolog.text.tokens import TokenCounter

FaultKind: TypeAlias = Literal[
    "empty",  # no observation, and no statement that nothing is worth observing
    "degenerate",  # the reply repeats the same text over and over, or has an extremely long line
    "refusal",
    "nonsense",  # an error page, a stack trace or an error object instead of an answer
    "too_large",
    "unparsable",
    "cut_off",  # the reply ends inside the observations section
    "cut_off_hint",  # the reply ends inside a later section, and that section was dropped
    "echo",  # a line, a hint or the whole reply repeats the prompt
    "copied",  # a line that only repeats the log was dropped
    "apology",  # a refusal that was written as a line was dropped
    "uncovered",  # only the embedded observer observed some statements of users
    "unfounded",  # a line that has no support in the messages was dropped
    "over_long",  # a line was shortened
    "too_many",  # lines beyond the maximum number were dropped
    "forged_tag",  # one of Memolog's tags in a wrong place, or for a thread that was not shown
    "foreign_tag",  # a tag of a chat template
    "unknown_citation",  # a line cites a message or line that was not shown
    "wrong_date",  # a date does not exist, or no message has it
    "untagged",  # the reply has no sections, but lines were recognised
    "prose",  # text between the lines was dropped
    "duplicate",  # a line occurs twice
    "thinking",  # the model's reasoning beside the answer was dropped
]
FATAL: Final[frozenset[str]] = frozenset({"empty", "degenerate", "refusal", "nonsense", "too_large", "unparsable"})
"""Faults that make a reply unusable."""

MOST_REPLY: Final = 1_000_000
"""At most this many characters of a reply are read. Useful replies are far shorter."""
LONGEST_LINE: Final = 50_000
"""A reply with a line of more characters is degenerate."""
MOST_LINE: Final = 10_000
"""A line is shortened to at most this many characters."""


class Faults(dict[FaultKind, str]):
    """The kinds of faults in a reply, each with the detail of its first occurrence."""

    def note(self, kind: FaultKind, detail: str) -> None:
        """Add a fault. If the reply already has a fault of this kind, nothing changes."""
        self.setdefault(kind, short_line(detail, 120))

    def add(self, others: "Faults") -> None:
        """Add the faults that the reply does not have yet."""
        for kind, detail in others.items():
            self.setdefault(kind, detail)

    @property
    def has_fatal(self) -> bool:
        """Whether a fault makes the reply unusable."""
        return not FATAL.isdisjoint(self)

    @property
    def kinds(self) -> tuple[FaultKind, ...]:
        """The kinds in the order of `FaultKind`, so that the fatal kinds are first."""
        return tuple(kind for kind in get_args(FaultKind) if kind in self)


# ---------------------------------------------------------------- endless repetition

# Characters of a window, which is a piece of the reply at any position. A window is longer than a list item, because the items
# of a useful list may differ in one digit only.
_WINDOW: Final = 160
_LOOKED_AT: Final = 100_000  # characters that are checked at the beginning and at the end of a reply
_SHORT: Final = 100_000  # in a longer text, the time for searching blocks could grow too much
_LEAST: Final = 1_500  # texts with fewer characters are never degenerate
_TAIL: Final = 3_000  # this many last characters are checked once more, alone
_MOST_REPEATED: Final = 0.6  # a text with a larger share of repeated windows is degenerate
_MOST_REPEATED_AT_END: Final = 0.85
_SPACES: Final = re.compile(r"\s+")


def is_degenerate(text: str) -> bool:
    """Return whether most windows of a text, or of its end, occur earlier in the same text."""
    if len(text) < _LEAST:
        return False
    flat = _SPACES.sub(" ", text[:_LOOKED_AT] + text[max(len(text) - _LOOKED_AT, _LOOKED_AT) :])
    if len(flat) < _LEAST:
        return False
    return _repeated(flat) > _MOST_REPEATED or _repeated(flat[-_TAIL:]) > _MOST_REPEATED_AT_END


def _repeated(text: str) -> float:
    """Return the share of windows that occur earlier in a text, or 0 if it is certainly at most `_MOST_REPEATED`."""
    count = len(text) - _WINDOW
    # A window contains at least one of the blocks of half its size that begin at a multiple of this size. So if a window occurs
    # earlier, its block does too, and each block is in `block + 1` windows. Searching for the blocks of a short text is faster.
    block = _WINDOW // 2
    starts = range(0, len(text) - block + 1 if len(text) <= _SHORT else 0, block)
    fresh, most = 0, len(starts) - _MOST_REPEATED * count / (block + 1)
    for start in starts:
        fresh += text.find(text[start : start + block]) == start
        if fresh > most:
            return 0.0
    return 1 - len({hash(text[at : at + _WINDOW]) for at in range(count)}) / count if count > 0 else 0.0


# ---------------------------------------------------------------- refusals

_DEEDS: Final = "help|assist|do|process|comply|provide|create|generate|continue|fulfil|complete|write|observe"
_REFUSALS: Final = (
    r"i(?:['’]m| am) (?:very |really |so )?sorry\b.{0,40}\b(?:can|unable|not able)",
    r"(?:i(?:['’]m| am) )?sorry,? (?:but )?i (?:can|am|won)",
    rf"i (?:can(?:no|['’])t|won['’]t|will not) (?:{_DEEDS})",
    r"i(?:['’]m| am) (?:unable|not able) to",
    r"as an ai\b",
    r"unfortunately,? (?:i (?:can|am)|th(?:is|e) (?:request|content|conversation))",
    r"(?:this )?(?:content|message|text) (?:was |has been )?(?:omitted|removed|withheld|redacted)\b",
    r"n/?a\W*\Z",
    r"(?:es )?tut mir (?:sehr )?leid",
    r"leider kann ich",
    r"ich kann (?:dabei|dir|ihnen|das) (?:leider )?nicht",
    r"lo siento",
    r"no puedo (?:ayudar|hacer|procesar|continuar)",
    r"je suis (?:vraiment )?désolée?",
    r"je ne peux pas",
    r"mi dispiace",
    r"non posso (?:aiutar|far|elaborar|continuare)",
    r"(?:me )?desculpe",
    r"não posso (?:ajudar|fazer|processar|continuar)",
    r"het spijt me",
    r"ik kan (?:je|u|dat|hier) ",
    r"(?:很?抱歉|对不起)",
    r"我(?:无法|不能)",
    r"申し訳",
    r"عذر[اً]",
    r"(?:к сожалению|извините)",
)
_REFUSAL: Final = re.compile("|".join(_REFUSALS), re.IGNORECASE)
_MOST_REFUSAL: Final = 1_500  # maximum characters of a refusal
_AROUND: Final = " *#>-\"'"


def is_refusal(lines: Sequence[str]) -> bool:
    """Return whether lines of plain text are a refusal of the model to answer."""
    text = " ".join(lines).strip(_AROUND)
    return len(text) <= _MOST_REFUSAL and bool(_REFUSAL.match(text[:200]))


def is_apology(text: str) -> bool:
    """Return whether one line of a reply is a refusal of the observing model.

    A line that contains "assistant" is no refusal. It is an observation that the assistant refused something.
    """
    plain = text.strip(_AROUND)
    return bool(_REFUSAL.match(plain[:200])) and "assistant" not in plain.lower()


# ---------------------------------------------------------------- talk beside an answer

_FRAME: Final = re.compile(
    r"(?:sure(?: thing)?|certainly|of course|absolutely|ok(?:ay)?|alright|all right|got it|understood|great|done|yes|no problem)"
    r"\s*(?:[!,.:;–—-]|$)"
    r"|here(?:['’]s| is| are)\b|below (?:is|are)\b|the following (?:is|are)\b|let me\b|i(?:['’](?:m|ll|ve|d))?[ ,]"
    r"|please (?:provide|share|send|let|paste)\b|how can i\b"
    r"|you(?:['’](?:re|ll|d|ve))? (?:can|could|should|may|might|must|need|want|will|would)\b",
    re.IGNORECASE,
)
_FEWEST_WORDS: Final = 3
_FEWEST_LETTERS: Final = 4
"""A line with this many non-ASCII letters is not short, because Chinese and Japanese have no spaces between words."""


def is_chatter(line: str) -> bool:
    """Return whether a line without a priority mark is an announcement, very short, or a statement of the model about itself."""
    text = line.strip(_AROUND)
    if text.endswith((":", "：")) or _FRAME.match(text):
        return True
    is_long = len(re.findall(r"\w+", text)) >= _FEWEST_WORDS
    return not is_long and sum(char.isalpha() and not char.isascii() for char in text) < _FEWEST_LETTERS


# ---------------------------------------------------------------- error pages and traces

# A part of the reply format: a section, a priority mark, or a bullet with a citation.
_OURS: Final = re.compile(
    r"<[ \t]*(?:observation|reflection)|[🔴🟡🟢✅]|^[ \t]*[*•-][^\n]{1,500}\[o?\d+[^\n\]]{0,60}\]",
    re.IGNORECASE | re.MULTILINE,
)
_PAGE: Final = re.compile(
    r"\s*(?:<\?xml\b|<!doctype\b|<html\b|<head\b|<body\b)|[\s\S]{0,200}?<title>[^<]{0,200}</title>", re.IGNORECASE
)
_TRACE: Final = re.compile(
    r"^[ \t]*Traceback \(most recent call last\):"
    r"|^[ \t]*File \"[^\"\n]{1,300}\", line \d+, in "
    r"|^[ \t]+at [^\n(]{1,200}\([^\n)]{1,300}:\d+(?::\d+)?\)"
    r"|^goroutine \d+ \[|^panic: |^thread '[^'\n]{1,80}' panicked at ",
    re.MULTILINE,
)
_STATUS: Final = (
    r"bad gateway|(?:gateway|request) time-?out|service (?:temporarily )?unavailable|internal server error|too many requests"
    r"|unauthori[sz]ed|forbidden|bad request|payload too large|not found|overloaded|rate limit(?:ed| reached| exceeded)?"
    r"|upstream (?:connect error|request timeout)|no healthy upstream|connection (?:refused|reset)|quota exceeded"
)
_GATEWAY: Final = re.compile(
    rf"\W*(?:(?:http(?:/[\d.]+)?|error|status|code|fatal)\W*){{0,3}}(?:[45]\d\d\W+)?(?:{_STATUS})\b"
    r"|\W*error(?: code)?\W*[45]\d\d\b",
    re.IGNORECASE,
)
_MOST_GATEWAY: Final = 400  # maximum characters of an error message of a gateway
_ERROR_KEYS: Final = frozenset(
    {"error", "errors", "detail", "exception", "fault", "traceback", "stacktrace", "errorcode"}
)
ANSWER_KEYS: Final = frozenset({"observations", "reflections", "items", "log", "lines", "memories", "notes", "entries"})
"""Keys under which a reply in JSON has its lines."""


def is_nonsense(text: str) -> bool:
    """Return whether a reply is an error page, an error object or a stack trace, without any observation."""
    if _is_error_object(text):
        return True
    if _OURS.search(text):
        return False
    is_short = len(text) <= _MOST_GATEWAY
    return bool(_PAGE.match(text) or _TRACE.search(text) or (is_short and _GATEWAY.match(text)))


def _is_error_object(text: str) -> bool:
    if text[:1] not in {"{", "["} or len(text) > _LOOKED_AT:
        return False
    try:
        value: object = json.loads(text)
    except (ValueError, RecursionError):
        return False
    if isinstance(value, list):
        several = cast("list[object]", value)
        value = several[0] if len(several) == 1 else None
    if not isinstance(value, dict):
        return False
    table = cast("dict[str, object]", value)
    keys = {re.sub(r"[\W_]", "", key).lower() for key, item in table.items() if item}
    return bool(keys & _ERROR_KEYS) and not keys & ANSWER_KEYS


@dataclass(frozen=True, slots=True, kw_only=True)
class _Line:
    priority: Priority
    text: str
    """The text without priority mark, time, citations and braces. A "(meaning …)" is part of the text."""
    about: date | None = None
    """The day in the first "(meaning …)" of the text."""
    parent: int | None = None
    """The index of the parent line, if this line is indented under another line."""
    verbatim: str | None = None
    category: str | None = None
    files: tuple[str, ...] = ()
    metadata: JsonObject = field(default_factory=nothing)


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft(_Line):
    """One line of an observer's reply."""

    said_at: datetime
    cites: tuple[int, ...] = ()
    """The numbers of the cited messages in the transcript. A line without citations has those of its parent."""


def selected(drafts: Sequence[Draft], places: Sequence[int]) -> tuple[Draft, ...]:
    """Return the lines with these indexes. A line whose parent is left out moves under its nearest remaining ancestor."""
    new = {place: number for number, place in enumerate(places)}

    def above(place: int | None) -> int | None:
        while place is not None and place not in new:
            place = drafts[place].parent
        return None if place is None else new[place]

    chosen = ((drafts[place], above(drafts[place].parent)) for place in places)
    return tuple(draft if draft.parent == parent else replace(draft, parent=parent) for draft, parent in chosen)


@dataclass(frozen=True, slots=True, kw_only=True)
class HintsDraft(Hints):
    """The hints of a reply. None stands for a missing hint, and an empty current task for the end of the task."""

    working_memory: str | None = None
    """The new text of the whole working memory; None if the text does not change."""
    off_track: str | None = None
    """How the work differs from the request of the user, and how to return; None if it does not. Only a reflector sets it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parsed:
    """A parsed reply of an observer, with its faults."""

    observations: tuple[Draft, ...] = ()
    hints: HintsDraft = field(default_factory=HintsDraft)
    faults: Faults = field(default_factory=Faults)
    nothing: bool = False
    """The reply says that nothing is worth observing."""
    known: tuple[Draft, ...] = ()
    """Lines that were dropped because the log has them from the same day. The messages that they cite count as covered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReflectedDraft(_Line):
    """One line of a reflector's reply."""

    merges: tuple[str, ...] = ()
    """The short ids of the observations that this line replaces; empty if it cites none of the observations shown."""
    on: date | None = None
    at: time | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedReflection:
    """A parsed reply of a reflector, with its faults."""

    lines: tuple[ReflectedDraft, ...] = ()
    hints: HintsDraft = field(default_factory=HintsDraft)
    threads: Mapping[str, HintsDraft] = field(default_factory=dict[str, HintsDraft])
    """The hints of each thread by the alias of the thread, if several threads share the log."""
    faults: Faults = field(default_factory=Faults)

    def tokens(self, counter: TokenCounter) -> int:
        """Return the tokens of all lines."""
        return sum(counter.count(line.text) for line in self.lines)
