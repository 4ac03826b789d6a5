"""Values of a parsed reply: lines, hints and faults; and the checks for runaway text, refusals, chatter and error pages."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, time
from typing import Final, Literal, TypeAlias, cast, get_args

from memolog.core.exact_json import JsonObject, nothing
from memolog.core.observation import Priority
from memolog.text.escape import short_line
from memolog.text.tokens import TokenCounter

FaultKind: TypeAlias = Literal[
    "empty",  # no observation, and no word that there is none
    "degenerate",  # it repeats itself, or has an endless line
    "refusal",
    "nonsense",  # an error page, a trace or an error object where an answer should be
    "too_large",
    "unparsable",
    "cut_off",  # it ends before its observations do
    "cut_off_hint",  # it ends inside a later section, which is dropped
    "echo",  # a line, a hint or all of it repeats the prompt
    "copied",  # a line that only repeats the log, dropped
    "apology",  # a refusal written as a line, dropped
    "uncovered",  # statements of users that only the embedded observer observed
    "unfounded",  # a line that says nothing of what was said, dropped
    "over_long",  # a line was cut
    "too_many",  # lines beyond the most were dropped
    "forged_tag",  # one of our tags where none belongs
    "foreign_tag",  # a tag of some template
    "unknown_citation",  # of a message or line that was not shown
    "wrong_date",  # impossible, or not that of the messages
    "untagged",  # no section: the lines were found without
    "prose",  # text beside the lines, dropped
    "duplicate",  # a line said twice
    "thinking",  # thoughts beside the answer, dropped
]
FATAL: Final[frozenset[str]] = frozenset({"empty", "degenerate", "refusal", "nonsense", "too_large", "unparsable"})
"""Faults that make a reply unusable."""

MOST_REPLY: Final = 1_000_000
"""Characters of a reply that are read; useful replies are far shorter."""
LONGEST_LINE: Final = 50_000
"""A line beyond this is runaway text."""
MOST_LINE: Final = 10_000
"""A line is cut here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A kind of fault, with the detail of its first occurrence and the number of occurrences."""

    kind: FaultKind
    detail: str
    count: int = 1


class FaultNotes:
    """Collects faults while a reply is read, counted by kind so that their number is bounded."""

    def __init__(self) -> None:
        self._found: dict[FaultKind, Fault] = {}

    def note(self, kind: FaultKind, detail: str) -> None:
        """Add one fault; the detail of the first of each kind is kept."""
        self.take([Fault(kind=kind, detail=short_line(detail, 120))])

    def take(self, faults: Iterable[Fault]) -> None:
        """Add the faults of another reply or section."""
        for fault in faults:
            known = self._found.get(fault.kind)
            self._found[fault.kind] = replace(known, count=known.count + fault.count) if known else fault

    @property
    def has_fatal(self) -> bool:
        """Whether a fault makes the reply unusable."""
        return not FATAL.isdisjoint(self._found)

    def faults(self) -> tuple[Fault, ...]:
        """Return what was wrong, the worst kinds first."""
        return tuple(self._found[kind] for kind in get_args(FaultKind) if kind in self._found)


# ---------------------------------------------------------------- runaway text

# Longer than a list item, since items may differ in one digit only; a loop repeats windows of any length.
_WINDOW: Final = 160
# A loop is at the end of a reply, or the whole reply is one.
_LOOKED_AT: Final = 100_000
_LEAST: Final = 1_500
_TAIL: Final = 3_000
_MOST_REPEATED: Final = 0.6
_MOST_REPEATED_AT_END: Final = 0.85
_SPACES: Final = re.compile(r"\s+")


def is_degenerate(text: str) -> bool:
    """Return whether a text repeats itself: most of its windows occur earlier in it."""
    flat = _SPACES.sub(" ", text[:_LOOKED_AT] + text[max(len(text) - _LOOKED_AT, _LOOKED_AT) :])
    if len(flat) < _LEAST:
        return False
    return _repeated(flat) > _MOST_REPEATED or _repeated(flat[-_TAIL:]) > _MOST_REPEATED_AT_END


def _repeated(text: str) -> float:
    """Return the share of windows that are not the first of their kind."""
    count = len(text) - _WINDOW
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
_MOST_REFUSAL: Final = 1_500
_AROUND: Final = " *#>-\"'"


def is_refusal(lines: Sequence[str]) -> bool:
    """Return whether plain prose is a refusal."""
    text = " ".join(lines).strip(_AROUND)
    return len(text) <= _MOST_REFUSAL and bool(_REFUSAL.match(text[:200]))


def is_apology(text: str) -> bool:
    """Return whether one line of a reply is the model's own refusal: the log never speaks as "I".

    A refusal of the assistant that was observed says whose it is.
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
"""Of a script without spaces between words."""


def is_chatter(line: str) -> bool:
    """Return whether a line without any mark of ours is talk: an announcement, a word or two, or the model about itself.

    The log speaks of users and assistants, and never as "I".
    """
    text = line.strip(_AROUND)
    if text.endswith((":", "：")) or _FRAME.match(text):
        return True
    is_long = len(re.findall(r"\w+", text)) >= _FEWEST_WORDS
    return not is_long and sum(char.isalpha() and not char.isascii() for char in text) < _FEWEST_LETTERS


# ---------------------------------------------------------------- what no model wrote

# Something of ours: a section, a mark, or a bullet that cites.
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
_MOST_GATEWAY: Final = 400
_ERROR_KEYS: Final = frozenset(
    {"error", "errors", "detail", "exception", "fault", "traceback", "stacktrace", "errorcode"}
)
ANSWER_KEYS: Final = frozenset({"observations", "reflections", "items", "log", "lines", "memories", "notes", "entries"})
"""Names under which a reply in JSON holds its lines."""


def is_nonsense(text: str) -> bool:
    """Return whether a reply is an error page, an error object or a stack trace and contains no line."""
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
    """Without mark, time, citations and braces; a "(meaning …)" stays where it was written."""
    about: date | None = None
    """The day of the first "(meaning …)"."""
    parent: int | None = None
    """The index of the line that this one stands under."""
    verbatim: str | None = None
    category: str | None = None
    files: tuple[str, ...] = ()
    metadata: JsonObject = field(default_factory=nothing)


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft(_Line):
    """One line of an observer's reply."""

    said_at: datetime
    cites: tuple[int, ...] = ()
    """Numbers of messages that were shown; a line without any under a parent has the parent's."""
    observer: str | None = None
    """The observer that wrote the line, if it is not the one that was called."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HintsDraft:
    """The hints of a reply; None where it has none."""

    current_task: str | None = None
    """Empty if the reply says that there is none."""
    task_at: datetime | None = None
    """When the task was said, where it comes from one message."""
    suggested_response: str | None = None
    title: str | None = None
    working_memory: str | None = None
    """The new text of the whole document; None if it is unchanged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parsed:
    """A parsed reply of an observer, with its faults."""

    observations: tuple[Draft, ...] = ()
    hints: HintsDraft = field(default_factory=HintsDraft)
    faults: tuple[Fault, ...] = ()
    nothing: bool = False
    """It said that nothing is worth keeping."""
    known: tuple[Draft, ...] = ()
    """Lines that were dropped because the log has them from the same day: what they cite is covered all the same."""

    def has(self, kind: FaultKind) -> bool:
        """Return whether the reply has a fault of this kind."""
        return any(fault.kind == kind for fault in self.faults)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReflectedDraft(_Line):
    """One line of a reflector's reply."""

    merges: tuple[str, ...] = ()
    """The short ids that it stands for; empty where it named none that was shown."""
    on: date | None = None
    at: time | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedReflection:
    """A parsed reply of a reflector, with its faults."""

    lines: tuple[ReflectedDraft, ...] = ()
    hints: HintsDraft = field(default_factory=HintsDraft)
    off_track: str | None = None
    """What the work drifted to and how to return; None while it is on track."""
    threads: "Mapping[str, ParsedReflection]" = field(default_factory=lambda: dict[str, ParsedReflection]())  # noqa: PLW0108 - the class is not there yet
    """If several threads share the log: the hints and off-track of each, by its alias; without lines."""
    faults: tuple[Fault, ...] = ()

    def tokens(self, counter: TokenCounter) -> int:
        """Return the tokens of all lines."""
        return sum(counter.count(line.text) for line in self.lines)
