"""Build the prompts of the observer and the reflector from the files in `texts/`, whose version is stored with every result.

The module also finds the sentences that a mode looks for, such as errors. The embedded observer adds these sentences as lines. A
line with such a sentence gets the category and the fields of the mode.
"""

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, tzinfo
from typing import Final, get_args

from memolog.core.message import FilePart, Message, ToolResultPart
from memolog.core.observation import KEPT, MARKS, UNVERIFIED, Observation
from memolog.core.setting_kinds import Mode, Voice
from memolog.core.thread import Hints
from memolog.errors import InputError
from memolog.observer.drafts import Draft, Parsed
from memolog.observer.evidence import source_text
from memolog.observer.extractors import Wanted, wanted_section
from memolog.observer.transcript import PartWriter, Shown, Transcript, last_lines, said_in_zone, transcript
from memolog.text.escape import clean, closed, escape, fixed_text, short_line
from memolog.text.lookalikes import quoted_label
from memolog.text.redaction import REDACTION, Redactor
from memolog.text.tokens import TokenCounter

MODES: Final[tuple[str, ...]] = get_args(Mode)
VOICES: Final[tuple[str, ...]] = get_args(Voice)
LEVELS: Final = range(5)
"""The compression levels: 0 adds no instruction, 4 asks for about two tenths of the length."""

# Increase this number when the meaning of a text changes. The digest changes with every edit.
_EDITION: Final = 2
_NAMES: Final = (
    "observer",
    "reflector",
    "levels",
    "working_memory",
    *(f"mode_{mode}" for mode in MODES),
    *(f"voice_{voice}" for voice in VOICES),
)
_ABOUT_LINES: Final = "# What the marks mean"
_TOO_LONG: Final = "Your last answer was"
_LEVEL: Final = re.compile(r"^## \d\n", re.MULTILINE)


def _text(name: str) -> str:
    return fixed_text(f"observer/{name}")


def _version() -> str:
    digest = hashlib.sha256()
    for name in sorted(_NAMES):
        digest.update(f"{name}\n{_text(name)}\n\n".encode())
    return f"{_EDITION}-{digest.hexdigest()[:12]}"


PROMPT_VERSION: Final = _version()
"""An edition number and a digest of all texts."""


def observer_system(mode: str, voice: str, custom: str = "", *, keeps_document: bool = False) -> str:
    """Return the observer's instructions for a mode and a voice, followed by those of the application (`custom`).

    `keeps_document` adds instructions for the working memory.
    """
    document = [_text("working_memory")] if keeps_document else []
    return "\n\n".join([*_observing(mode, voice), *document, *_of_the_application(custom)])


def reflector_system(mode: str, voice: str, custom: str = "") -> str:
    """Return the reflector's instructions, with a quotation of the observer's instructions about lines."""
    heading = "# How the lines were written\n\nThese were the observer's instructions; do not carry them out."
    # The observer's input and output format is left out, because the reflector would use it too.
    observer, *rest = _observing(mode, voice)
    quoted = "\n\n".join([observer[observer.index(_ABOUT_LINES) :], *rest])
    quoted = f"\n{quoted}".replace("\n# ", "\n## ").strip()
    return "\n\n".join([_text("reflector"), *_of_the_application(custom), heading, quoted])


def level_text(level: int, *, said_too_long: bool = True) -> str:
    """Return the instructions of a compression level.

    Pass `said_too_long=False` if the last answer was short enough but lost details. Then the instructions do not say that it was
    too long.
    """
    text = _LEVEL.split(_text("levels"))[level + 1].strip()
    return text if said_too_long or not text.startswith(_TOO_LONG) else text.partition(". ")[2]


def _observing(mode: str, voice: str) -> list[str]:
    return [_text("observer"), _text(f"voice_{voice}"), _text(f"mode_{mode}")]


def _of_the_application(custom: str) -> list[str]:
    return [f"# Instructions of this application\n\n{custom.strip()}"] if custom.strip() else []


# ---------------------------------------------------------------- prompts

# The main instructions are repeated at the end of a prompt, because small models follow the end best.
_ASK: Final = (
    "Write the <observations> of this transcript now. {messages} Then write <current-task>, <suggested-response> and "
    "<thread-title>, as in the format above. Answer no message.{repeated}"
)
_ASK_REPEATED: Final = " Repeat nothing that the log says already."
_ASK_MESSAGES: Final = (
    "Go through the messages one after the other, from [{first}] to [{last}]: at least one line for each that states, decides, "
    "asks or does something. End every line with the number of its message in brackets, such as [{first}]. Copy times from the "
    "messages. {days}"
)
_ASK_MESSAGE: Final = (
    "There is one message, [{first}]: a line for each thing that it states, asks or does. End every line with its number in "
    "brackets: [{first}]. Copy the time from the message. {days}"
)
_ASK_DAYS: Final = "Write a Date line for every day: {days}."
_ASK_BATCH: Final = (
    "Write the observations now. These are separate conversations: answer each in its own section, "
    '<thread id="…"> with <observations>, <current-task>, <suggested-response>, <thread-title> and </thread>, one for '
    "each of: {aliases}. {messages} Cite only message numbers of that conversation, and do not name conversations in the lines. "
    "Answer no message.{repeated}"
)
_ASK_DOCUMENT: Final = "Add <working-memory> only if it must change."
_ASK_REFLECTION: Final = (
    "Write the condensed lines now, in the format above. Go through the log from o1 to o{last}: every 🔴 and ✅ line must still "
    "be said. End every line with the ids it stands for, such as [o1,o2]. Write a Date line for every day."
)


_ASK_REFLECTION_SHARED: Final = (
    "These are lines of several conversations. Where the work of one has left what its user asked for, or its hints should "
    'change, say so in a section of its own: <thread id="t2"> with <off-track>, <current-task> or <suggested-response> and '
    "</thread>."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """A request to a model, with the numbered messages that are needed to parse the reply."""

    system: str
    text: str
    shown: tuple[Shown, ...] = ()
    """The messages that the reply may cite."""
    files: tuple[FilePart, ...] = ()
    """The attached files, in the order of the list in the text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObserveInput:
    """The data of one thread for an observer prompt."""

    messages: tuple[Message, ...]
    before: tuple[Message, ...] = ()
    """The messages directly before `messages`, which may ask questions that `messages` answer. The log may not cover them yet.

    They are not in the prompt. Only the embedded observer reads them, and it removes their secrets then.
    """
    previous: str = ""
    """The end of the log, rendered."""
    lines: tuple[Observation, ...] = ()
    """The lines of the log in `previous`."""
    previous_tokens: int = 2_000
    """The maximum tokens of `previous` in the prompt. If there are few new messages, it has fewer."""
    most_tokens: int = 50_000
    """The maximum tokens of messages in one prompt. Longer spans are split into several prompts."""
    hints: Hints = field(default_factory=Hints)
    mode: Mode = "default"
    voice: Voice = "coding"
    custom: str = ""
    """The instructions of the application, which follow those of Memolog."""
    zone: tzinfo = UTC
    redactor: Redactor = REDACTION
    """Removes secrets from all texts in the prompt."""
    alias: str = "t1"
    wanted: tuple[Wanted, ...] = ()
    """The values of the application that the prompt asks for too."""
    attach_files: bool = False
    """Whether images and documents are attached. The transcript has a placeholder for each of them in any case."""
    document: str | None = None
    """The text of the working memory; None if the observer does not write it."""
    document_most: int = 0
    """The maximum characters of the working memory."""

    def writer(self, counter: TokenCounter, most_tokens: int) -> PartWriter:
        """Return the writer for a transcript of at most `most_tokens` tokens."""
        return PartWriter(counter=counter, zone=self.zone, most_tokens=most_tokens, redactor=self.redactor)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gaps:
    """The losses of a reflector's answer."""

    omitted: tuple[str, ...] = ()
    """The ids of 🔴 and ✅ lines that the answer lost."""
    names: tuple[str, ...] = ()
    """The identifiers and names that the answer lost."""
    vague: tuple[str, ...] = ()
    """The lines of the answer that merge many lines and contain hardly any of their words."""

    def __bool__(self) -> bool:
        return bool(self.omitted or self.names or self.vague)

    @property
    def size(self) -> tuple[int, int, int]:
        """Return the numbers of vague lines, lost lines and lost names. The better answer has the smaller tuple."""
        return len(self.vague), len(self.omitted), len(self.names)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReflectInput:
    """The observations that a reflector condenses, and the wanted length of the result."""

    observations: tuple[Observation, ...]
    target_tokens: int
    level: int = 0
    gaps: Gaps = field(default_factory=Gaps)
    """The losses of the last answer."""
    hints: Hints = field(default_factory=Hints)
    mode: Mode = "default"
    voice: Voice = "coding"
    custom: str = ""
    zone: tzinfo = UTC
    """The zone for lines without a zone."""
    aliases: Mapping[str, str] = field(default_factory=dict[str, str])
    """The short name of each thread, if several threads share the log; else empty."""
    thread_hints: Mapping[str, Hints] = field(default_factory=dict[str, Hints])
    """The hints of each thread that has any, if several threads share the log."""


def observer_prompt(given: ObserveInput, counter: TokenCounter, *, first: int = 1) -> Prompt:
    """Return the prompt to observe one span of one thread. The first message has the number `first`."""
    sections, read = _thread(given, counter, given.most_tokens, first)
    wanted = _section("wanted", wanted_section(given.wanted))
    return _observer_prompt(
        [given], [*sections, _section("transcript", read.text or _NO_MESSAGES)], read.shown, _ASK, wanted, counter
    )


def observer_batch_prompt(inputs: Sequence[ObserveInput], counter: TokenCounter) -> Prompt:
    """Return the prompt to observe spans of several threads at once. Each thread has a section with its alias.

    The end of the log, the mode, the voice and the application's instructions come from the first input and occur once. The
    numbers of messages continue from thread to thread, so that no two messages have the same number. Each thread gets an equal
    share of `most_tokens`.
    """
    if not inputs:
        raise InputError("`inputs` is empty.", then="Pass at least one thread to observe.")
    blocks, shown = list[str](), list[Shown]()
    for given in inputs:
        sections, read = _thread(given, counter, given.most_tokens // len(inputs), len(shown) + 1)
        body = "\n\n".join([*sections, read.text or _NO_MESSAGES])
        blocks.append(f'<thread id="{_alias(given.alias)}">\n{body}\n</thread>')
        shown.extend(read.shown)
    return _observer_prompt(inputs, blocks, shown, _ASK_BATCH, "", counter)


def _observer_prompt(
    inputs: Sequence[ObserveInput],
    blocks: Sequence[str],
    shown: Sequence[Shown],
    ask: str,
    wanted: str,
    counter: TokenCounter,
) -> Prompt:
    first = inputs[0]
    aliases = ", ".join(_alias(given.alias) for given in inputs)
    # The log may contain secrets from a time before the application defined its redaction patterns.
    room = min(first.previous_tokens, max(_LEAST_PREVIOUS, _new_tokens(inputs) // _PREVIOUS_SHARE))
    lines = first.redactor.redact(last_lines(closed(first.previous), room, counter))
    log_end = _section("log-end", lines)
    repeated = _ASK_REPEATED if log_end else ""
    keeps = any(given.document is not None for given in inputs)
    asked = ask.format(aliases=aliases, messages=_ask_messages(shown), repeated=repeated)
    asked = f"{asked} {_ASK_DOCUMENT}" if keeps else asked
    listed, files = _attachments(inputs, shown)
    return Prompt(
        system=observer_system(first.mode, first.voice, first.custom, keeps_document=keeps),
        text="\n\n".join(filter(None, (log_end, *blocks, listed, wanted, asked))),
        shown=tuple(shown),
        files=files,
    )


def reflector_prompt(given: ReflectInput) -> Prompt:
    """Return the prompt to condense observations. In it, the observations have the ids o1, o2 … in their order."""
    ask = _ASK_REFLECTION.format(last=len(given.observations))
    sections = [
        _section("log", _log(given)),
        _section("hints", _hints(given.hints) or _shared_hints(given)),
        _section("target", _target(given)),
        _section("missing", _missing(given)),
        " ".join(filter(None, (_ASK_REFLECTION_SHARED if given.aliases else "", ask))),
    ]
    system = reflector_system(given.mode, given.voice, given.custom)
    return Prompt(system=system, text="\n\n".join(filter(None, sections)))


def _ask_messages(shown: Sequence[Shown]) -> str:
    if not shown:
        return ""
    days = list(dict.fromkeys(message.at.date().isoformat() for message in shown))
    few = ", ".join(days) if len(days) <= _MOST_DAYS else f"{days[0]} … {days[-1]}"
    ask = _ASK_MESSAGE if len(shown) == 1 else _ASK_MESSAGES
    return ask.format(first=shown[0].number, last=shown[-1].number, days=_ASK_DAYS.format(days=few))


def _new_tokens(inputs: Sequence[ObserveInput]) -> int:
    return sum(message.tokens for given in inputs for message in given.messages)


# ---------------------------------------------------------------- sections

# The end of the log is at most a fifth as long as the new messages, so that short spans cost in proportion to their length.
_PREVIOUS_SHARE: Final = 5
_LEAST_PREVIOUS: Final = 400
_HINT_CHARACTERS: Final = 2_000
_MOST_MISSING: Final = 200
_MISSING_CHARACTERS: Final = 200
_BY_SUBJECT: Final = "The 🔴 and ✅ lines alone are as long as that: merge them by subject, and let each still be said."
_MISSING_LINES: Final = (
    'Your last answer no longer says these lines. Say each again with its words, its numbers and its "not" or "never", '
    "alone or merged with lines about the same thing, and cite its id."
)
_MISSING_DETAIL: Final = (
    "These lines of your last answer stand for many others and say hardly anything of them. Say what happened."
)
_MISSING_NAMES: Final = (
    "Your last answer lost these names. Name each in the line it belongs to; never list names alone."
)
_NO_MESSAGES: Final = "(no messages)"
_ALIAS_CHARACTERS: Final = 40
_MOST_FILES: Final = 20
_MOST_DAYS: Final = 20
_MOST_FILE_BYTES: Final = 20_000_000


def _thread(given: ObserveInput, counter: TokenCounter, most_tokens: int, first: int) -> tuple[list[str], Transcript]:
    """Return the sections before the transcript of a thread, and the transcript."""
    read = transcript(given.messages, given.writer(counter, most_tokens), first)
    hints = _section("hints", given.redactor.redact(_hints(given.hints)))
    return list(filter(None, (hints, _document(given)))), read


def _attachments(inputs: Sequence[ObserveInput], shown: Sequence[Shown]) -> tuple[str, tuple[FilePart, ...]]:
    """Return the section that lists the attached files, and the files. Files beyond the limits of a request are left out."""
    numbers = {(message.thread, message.seq): message.number for message in shown}
    room, lines, files = _MOST_FILE_BYTES, list[str](), list[FilePart]()
    messages = ((given, message) for given in inputs if given.attach_files for message in given.messages)
    for given, message in messages:
        number = numbers.get((message.thread, message.seq))
        if number is None or message.own:
            continue
        for file in _files_of(message):
            size = len(file.data or b"")
            if len(files) == _MOST_FILES or size > room:
                continue
            room -= size
            files.append(file)
            name = escape(quoted_label(given.redactor.redact(file.name or file.media_type), 80, is_tool=True))
            lines.append(f"{len(files)}. {name}, of message [{number}]")
    return _section("attached", "\n".join(lines)), tuple(files)


def _files_of(message: Message) -> list[FilePart]:
    found: list[FilePart] = []
    for part in message.parts:
        found += part.files if isinstance(part, ToolResultPart) else (part,) if isinstance(part, FilePart) else ()
    visible = [file for file in found if file.media_type.startswith("image/") or file.media_type == "application/pdf"]
    return [file for file in visible if file.data is not None or (file.url or "").startswith("https://")]


def _document(given: ObserveInput) -> str:
    if given.document is None:
        return ""
    text = escape(clean(given.redactor.redact(given.document))).strip("\n") or "(empty)"
    return f'<working-memory most="{given.document_most} characters">\n{text}\n</working-memory>'


def _section(tag: str, body: str) -> str:
    return f"<{tag}>\n{body}\n</{tag}>" if body.strip() else ""


def _hints(hints: Hints) -> str:
    named = (
        ("current task", hints.current_task),
        ("suggested response", hints.suggested_response),
        ("title", hints.title),
    )
    return "\n".join(f"{name}: {escape(short_line(text, _HINT_CHARACTERS))}" for name, text in named if text)


def _shared_hints(given: ReflectInput) -> str:
    texts = ((given.aliases.get(thread), _hints(hints)) for thread, hints in given.thread_hints.items())
    return "\n".join(f"{_alias(name)} {line}" for name, text in texts if name for line in text.split("\n") if line)


def _alias(alias: str) -> str:
    return escape(short_line(alias, _ALIAS_CHARACTERS)).replace('"', "'")


def _target(given: ReflectInput) -> str:
    kept = sum(line.tokens for line in given.observations if line.priority in KEPT)
    by_subject = f" {_BY_SUBJECT}" if kept >= given.target_tokens else ""
    level = level_text(given.level, said_too_long=not given.gaps)
    return f"At most {given.target_tokens:,} tokens in all. {level}{by_subject}"


def _missing(given: ReflectInput) -> str:
    """Return the lost statements, the vague lines and the lost names of the last answer, with instructions."""
    lines = {
        line.id: (f"o{number} {MARKS[line.priority]} ", line.text) for number, line in enumerate(given.observations, 1)
    }
    pieces: list[str] = []
    for ask, lost in (
        (_MISSING_LINES, [lines[name] for name in given.gaps.omitted if name in lines]),
        (_MISSING_DETAIL, [("", text) for text in given.gaps.vague]),
        (_MISSING_NAMES, [("", name) for name in given.gaps.names]),
    ):
        pieces += [ask] if lost else []
        pieces += [f"- {head}{escape(short_line(text, _MISSING_CHARACTERS))}" for head, text in lost[:_MOST_MISSING]]
    return "\n".join(pieces)


# ---------------------------------------------------------------- the log in a reflector prompt


def _log(given: ReflectInput) -> str:
    lines: list[str] = []
    depths: dict[tuple[str, int | None], int] = {}
    day = ""
    for number, observation in enumerate(given.observations, 1):
        said = said_in_zone(observation, given.zone)
        if said and said.date().isoformat() != day:
            day = said.date().isoformat()
            lines.append(f"Date: {day}")
        # A line whose parent is not shown is not indented.
        depth = 1 + depths.get((observation.group, observation.parent), -1)
        depths[observation.group, observation.ordinal] = depth
        indent = "  " * depth
        threads = dict.fromkeys(source.thread for source in observation.sources)
        names = ",".join(_alias(given.aliases[thread]) for thread in threads if thread in given.aliases)
        time = f" ({said:%H:%M})" if said else ""
        mark = f"{names} {MARKS[observation.priority]}".lstrip()
        lines.append(f"{indent}o{number} {mark}{time} {_line_text(observation)}")
        if observation.verbatim:
            lines.extend(f"{indent}  | {row}" for row in escape(clean(observation.verbatim)).split("\n"))
    return "\n".join(lines)


def _line_text(observation: Observation) -> str:
    about = observation.about.isoformat() if observation.about else ""
    # The day is added only if the text does not contain it.
    has_day = about in observation.text or "(meaning " in observation.text
    meaning = f" (meaning {about})" if about and not has_day else ""
    doubt = f"{UNVERIFIED} " if observation.is_unverified else ""
    return f"{doubt}{escape(short_line(observation.text, 10_000))}{meaning}"


# ---------------------------------------------------------------- findings of a mode

_MOST_FINDINGS: Final = 20
_MOST_OF_MESSAGE: Final = 3
_MOST_SCANNED: Final = 100_000
_LONGEST_FINDING: Final = 300
_SHORTEST_FINDING: Final = 8
_SENTENCES: Final = re.compile(r"\n+|(?<=[.!?])\s+(?=[A-Z\"'`(])")
_OPENING: Final = re.compile(r"^[\s>*•#|-]+(?:\d{1,3}[.)]\s)?")


class _Search:
    """A pattern for sentences that a mode looks for, their category, and the patterns for their fields."""

    def __init__(self, sentence: str, category: str, **fields: str) -> None:
        self.sentence, self.category = re.compile(sentence, re.IGNORECASE), category
        self.fields = {name: re.compile(pattern, re.IGNORECASE) for name, pattern in fields.items()}


_ERROR: Final = _Search(
    r"\b[\w.]{0,60}(?:Error|Exception|Panic)\b(?=[:( ]|\Z)|\bTraceback\b|\bERR_\w+|\bE\d{4}\b|\bexit code [1-9]",
    "error",
    error_type=r"\b([\w.]{0,60}(?:Error|Exception))\b(?=[:( ]|\Z)",
    stack_trace=r"\bat (\S{1,200}:\d{1,7}(?::\d{1,7})?)|(File \"[^\"]{1,200}\", line \d{1,7})",
)
_NOT_FOUND: Final = _Search(
    r"\bnot found\b|\bno (?:results|matches|such|occurrences)\b|\bnothing found\b|\b0 (?:results|matches)\b|\bdoes not exist\b"
    r"|\bcould not find\b|\bnicht gefunden\b|\bkeine Treffer\b|\bno se encontr|\bintrouvable\b",
    "gap",
    not_found=r"\b(?:no (?:results|matches|occurrences) (?:for|of)|could not find|no such)\s+[`\"']?([^`\"'\n.;,]{2,80})"
    r"|[`\"']([^`\"'\n]{2,80})[`\"'] (?:was |is )?not found",
)
_TESTS: Final = _Search(
    r"\b\d+ (?:tests? )?(?:passed|failed|skipped|errors?)\b|\bcoverage\b.{0,40}\d|\bflaky\b|\buntested\b",
    "test",
    tests=r"((?:\d+ (?:tests? )?(?:passed|failed|skipped)(?:, | and )?){1,4})",
    coverage=r"\bcoverage\b[^\d\n]{0,40}(\d{1,3}(?:[.,]\d+)?\s?%)|(\d{1,3}(?:[.,]\d+)?\s?%)[^\n]{0,20}\bcoverage\b",
)
_CAUSE: Final = _Search(
    r"\broot cause\b|\bcaused by\b|\bthe cause (?:is|was)\b|\breproduc|\bregression\b|\bdie Ursache\b|\bla causa\b",
    "finding",
    root_cause=r"\b(?:root cause(?: is| was)?:?|caused by|the cause (?:is|was))\s*([^\n.;]{3,120})",
)
_CHANGE: Final = _Search(
    r"\b(?:renamed?|moved?|extracted?|inlined?|deprecated?|replaced?)\b.{0,80}(?:->|\bto\b|\binto\b|\bwith\b|\bfrom\b)"
    r"|\bbreaking change\b|\bbreaks\b|\bcallers?\b|\bdepend(?:s|ants|ents) on\b|\bused by\b",
    "change",
    breaks=r"\bbreaks\s+([^\n.;]{3,120})",
    dependants=r"\b(?:used by|callers? (?:is|are|in):?)\s+([^\n.;]{3,120})",
)
_SOURCE: Final = _Search(
    r"https?://\S{4,}|\baccording to\b|\bet al\.|\bdoi:|\bpublished (?:in|by)\b",
    "source",
    sources=r"(https?://[^\s<>\"')\]]{4,300})|\baccording to ([^\n,.;]{3,100})",
)
_SYMPTOM: Final = _Search(
    r"\b(?:timed? ?out|hangs?|crash(?:es|ed)?|leak(?:s|ed)?|stalls?|refused|deadlock|OOM|FATAL|WARN(?:ING)?)\b",
    "finding",
    symptom=r"([^\n.;]{0,60}\b(?:timed? ?out|hangs?|crash(?:es|ed)?|leak(?:s|ed)?|deadlock)\b[^\n.;]{0,60})",
)
_LOOKED_FOR: Final[Mapping[Mode, tuple[_Search, ...]]] = {
    "default": (),
    "explore": (_NOT_FOUND,),
    "bug_fixing": (_ERROR, _CAUSE),
    "refactoring": (_CHANGE,),
    "testing": (_TESTS, _ERROR),
    "debugging": (_ERROR, _SYMPTOM, _CAUSE),
    "research": (_SOURCE, _NOT_FOUND),
}


def with_findings(parsed: Parsed, messages: Sequence[Message], mode: Mode) -> Parsed:
    """Add the sentences of the assistant and of tools that the mode looks for, unless a line contains them already.

    The first of `messages` has the number 1. At most three sentences of a message and twenty in all are added, each shortened
    to 300 characters.
    """
    if not _LOOKED_FOR[mode]:
        return parsed
    known = "\n".join(draft.text for draft in parsed.observations)
    found: list[Draft] = []
    for number, message in enumerate(messages, start=1):
        if message.own or message.role not in {"assistant", "tool"}:
            continue
        fresh = [text for text in _findings(source_text(message), mode) if text[:_LONGEST_FINDING] not in known]
        for text in fresh[:_MOST_OF_MESSAGE]:
            who = "Result" if message.role == "tool" else "Assistant"
            line = f"{who}: {short_line(text, _LONGEST_FINDING)}"
            found.append(Draft(priority="medium", text=line, said_at=message.created_at, cites=(number,)))
            known += f"\n{text}"
    if not found:
        return parsed
    return replace(parsed, observations=(*parsed.observations, *found[:_MOST_FINDINGS]), nothing=False)


def with_fields(draft: Draft, mode: Mode) -> Draft:
    """Return a line with the category and the fields of the mode that are found in its text. Existing fields stay."""
    fields: dict[str, str] = {}
    category = draft.category
    for search in _LOOKED_FOR[mode]:
        if not search.sentence.search(draft.text):
            continue
        category = category or search.category
        for name, pattern in search.fields.items():
            hit = pattern.search(draft.text)
            value = next(filter(None, hit.groups()), "").strip(" ,") if hit else ""
            if value:
                fields.setdefault(name, value)
    if not fields and category == draft.category:
        return draft
    return replace(draft, category=category, metadata={**fields, **draft.metadata})


def _findings(text: str, mode: Mode) -> Iterator[str]:
    for piece in _SENTENCES.split(text[:_MOST_SCANNED]):
        sentence = _OPENING.sub("", piece).strip()
        if len(sentence) >= _SHORTEST_FINDING and any(search.sentence.search(sentence) for search in _LOOKED_FOR[mode]):
            yield sentence
