"""Build the prompts of the observer and the reflector from the texts under `texts/`, whose version is stored with every result.

Also finds in plain words what each mode looks for: the embedded observer adds such sentences, and lines get their fields.
"""

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, tzinfo
from functools import cache
from importlib.resources import files
from typing import Final, get_args

from memolog.core.message import FilePart, Message, ToolResultPart
from memolog.core.observation import KEPT, MARKS, UNVERIFIED, Observation
from memolog.core.settings import Mode, Voice
from memolog.core.thread import Hints
from memolog.errors import InputError
from memolog.observer.drafts import Draft, Parsed
from memolog.observer.evidence import source_text
from memolog.observer.extractors import Wanted, wanted_section
from memolog.observer.transcript import Shown, last_lines, said_in_zone, transcript
from memolog.text.escape import clean, closed, escape, short_line
from memolog.text.lookalikes import quoted_label
from memolog.text.redaction import REDACTION, Redactor
from memolog.text.tokens import TokenCounter

MODES: Final[tuple[str, ...]] = get_args(Mode)
VOICES: Final[tuple[str, ...]] = get_args(Voice)
LEVELS: Final = range(5)
"""The compression levels: 0 gives no hint, 4 keeps about two parts in ten."""

# Increased by hand when the wording changes in meaning; the digest changes with every edit.
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
_LEVEL: Final = re.compile(r"^## (\d)\n", re.MULTILINE)


@cache
def _text(name: str) -> str:
    found = files("memolog.observer").joinpath("texts", f"{name}.md").read_text("utf-8")
    # A checkout may have changed the line ends; the version must not depend on them.
    return found.replace("\r\n", "\n").strip()


def _version() -> str:
    digest = hashlib.sha256()
    for name in sorted(_NAMES):
        digest.update(f"{name}\n{_text(name)}\n\n".encode())
    return f"{_EDITION}-{digest.hexdigest()[:12]}"


PROMPT_VERSION: Final = _version()
"""An edition number and a digest of all texts."""


def observer_system(mode: str, voice: str, custom: str = "", *, keeps_document: bool = False) -> str:
    """Return the observer's instructions for a mode and a voice, with those of the application after them.

    `keeps_document` adds how the working memory is kept.
    """
    document = [_text("working_memory")] if keeps_document else []
    return "\n\n".join([*_observing(mode, voice), *document, *_of_the_application(custom)])


def reflector_system(mode: str, voice: str, custom: str = "") -> str:
    """Return the reflector's instructions, with what the observer was told about lines."""
    heading = "# How the lines were written\n\nThese were the observer's instructions; do not carry them out."
    # The observer's input and output format is left out: the reflector would take it for its own.
    observer, *rest = _observing(mode, voice)
    quoted = "\n\n".join([observer[observer.index(_ABOUT_LINES) :], *rest])
    quoted = f"\n{quoted}".replace("\n# ", "\n## ").strip()
    return "\n\n".join([_text("reflector"), *_of_the_application(custom), heading, quoted])


def level_text(level: int, *, said_too_long: bool = True) -> str:
    """Return what a compression level asks for; beyond the last, the last.

    `said_too_long=False` leaves out that the last answer was too long: it may have left out too much instead.
    """
    pieces = _LEVEL.split(_text("levels"))
    texts = dict(zip(map(int, pieces[1::2]), pieces[2::2], strict=True))
    text = texts[min(max(level, LEVELS[0]), LEVELS[-1])].strip()
    return text if said_too_long or not text.startswith(_TOO_LONG) else text.partition(". ")[2]


def _observing(mode: str, voice: str) -> list[str]:
    return [_text("observer"), _text(f"voice_{voice}"), _text(f"mode_{mode}")]


def _of_the_application(custom: str) -> list[str]:
    return [f"# Instructions of this application\n\n{custom.strip()}"] if custom.strip() else []


# ---------------------------------------------------------------- prompts

# Small models follow best what stands at the end of a prompt.
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
    """A request to a model, and what is needed to parse the reply."""

    system: str
    text: str
    version: str = PROMPT_VERSION
    shown: tuple[Shown, ...] = ()
    """The messages that may be cited."""
    ids: Mapping[str, str] = field(default_factory=dict[str, str])
    """The observations that may be merged: the id of each, by the short one that the model sees."""
    files: tuple[FilePart, ...] = ()
    """What is attached, in the order in which the text lists it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObserveInput:
    """One thread's share of an observer prompt."""

    messages: tuple[Message, ...]
    before: tuple[Message, ...] = ()
    """The messages right before these, which they may answer; neither observed nor shown."""
    previous: str = ""
    """The end of the log, rendered."""
    previous_tokens: int = 2_000
    most_tokens: int = 50_000
    """The most tokens of messages in one prompt; longer spans are split into several prompts."""
    hints: Hints = field(default_factory=Hints)
    mode: Mode = "default"
    voice: Voice = "coding"
    custom: str = ""
    """The application's own instructions, added after ours."""
    zone: tzinfo = UTC
    alias: str = "t1"
    wanted: tuple[Wanted, ...] = ()
    """Values of the application that are asked for as well."""
    attach_files: bool = False
    """Whether images and documents are shown as they are, beside their placeholders."""
    document: str | None = None
    """The working memory, where the observer keeps it."""
    document_most: int = 0
    """How many characters it may have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReflectInput:
    """What is to be condensed, and how far."""

    observations: tuple[Observation, ...]
    target_tokens: int
    level: int = 0
    missing: tuple[str, ...] = ()
    """Identifiers that the last answer lost."""
    omitted: tuple[str, ...] = ()
    """The ids of 🔴 and ✅ lines that the last answer no longer says."""
    vague: tuple[str, ...] = ()
    """Lines of the last answer that stood for many others and said hardly anything of them."""
    hints: Hints = field(default_factory=Hints)
    mode: Mode = "default"
    voice: Voice = "coding"
    custom: str = ""
    zone: tzinfo = UTC
    """The zone of lines that have none of their own."""
    aliases: Mapping[str, str] = field(default_factory=dict[str, str])
    """The short name of each thread; empty where the log is of one thread."""
    thread_hints: Mapping[str, Hints] = field(default_factory=dict[str, Hints])
    """The hints of each thread that has some, where several share the log."""


def observer_prompt(
    given: ObserveInput, counter: TokenCounter, *, redactor: Redactor = REDACTION, first: int = 1
) -> Prompt:
    """Return the prompt that observes one span of one thread; its messages are numbered from `first` on."""
    text, shown = _thread(given, counter, given.most_tokens, redactor, first)
    wanted = _section("wanted", wanted_section(given.wanted))
    return _observer_prompt([given], [text], shown, _ASK, wanted, counter, redactor)


def observer_batch_prompt(
    inputs: Sequence[ObserveInput], counter: TokenCounter, *, redactor: Redactor = REDACTION
) -> Prompt:
    """Return the prompt that observes spans of several threads at once, each under its alias.

    The end of the log, which they share, is shown once, before the threads; it, mode, voice and the application's instructions
    are those of the first. Message numbers run on from thread to thread, so that each number names one message. Each thread
    has an equal share of `most_tokens`.
    """
    if not inputs:
        raise InputError("`inputs` is empty.", then="Pass at least one thread to observe.")
    blocks, shown = list[str](), list[Shown]()
    for given in inputs:
        text, seen = _thread(given, counter, given.most_tokens // len(inputs), redactor, len(shown) + 1)
        blocks.append(f'<thread id="{_alias(given.alias)}">\n{text}\n</thread>')
        shown.extend(seen)
    return _observer_prompt(inputs, blocks, shown, _ASK_BATCH, "", counter, redactor)


def _observer_prompt(
    inputs: Sequence[ObserveInput],
    blocks: Sequence[str],
    shown: Sequence[Shown],
    ask: str,
    wanted: str,
    counter: TokenCounter,
    redactor: Redactor,
) -> Prompt:
    first = inputs[0]
    aliases = ", ".join(_alias(given.alias) for given in inputs)
    # The log may be older than the application's own patterns.
    lines = redactor.redact(last_lines(closed(first.previous), first.previous_tokens, counter))
    log_end = _section("log-end", lines)
    repeated = _ASK_REPEATED if log_end else ""
    keeps = any(given.document is not None for given in inputs)
    asked = ask.format(aliases=aliases, messages=_ask_messages(shown), repeated=repeated)
    asked = f"{asked} {_ASK_DOCUMENT}" if keeps else asked
    listed, files = _attachments(inputs, shown, redactor)
    return Prompt(
        system=observer_system(first.mode, first.voice, first.custom, keeps_document=keeps),
        text="\n\n".join(filter(None, (log_end, *blocks, listed, wanted, asked))),
        shown=tuple(shown),
        files=files,
    )


def reflector_prompt(given: ReflectInput) -> Prompt:
    """Return the prompt that condenses observations, which it numbers o1, o2 … in their order."""
    ids = {f"o{number}": observation.id for number, observation in enumerate(given.observations, 1)}
    ask = _ASK_REFLECTION.format(last=len(ids))
    sections = [
        _section("log", _log(given)),
        _section("hints", _hints(given.hints) or _shared_hints(given)),
        _section("target", _target(given)),
        _section("missing", _missing(given)),
        " ".join(filter(None, (_ASK_REFLECTION_SHARED if given.aliases else "", ask))),
    ]
    system = reflector_system(given.mode, given.voice, given.custom)
    return Prompt(system=system, text="\n\n".join(filter(None, sections)), ids=ids)


def _ask_messages(shown: Sequence[Shown]) -> str:
    if not shown:
        return ""
    days = list(dict.fromkeys(message.at.date().isoformat() for message in shown))
    few = ", ".join(days) if len(days) <= _MOST_DAYS else f"{days[0]} … {days[-1]}"
    ask = _ASK_MESSAGE if len(shown) == 1 else _ASK_MESSAGES
    return ask.format(first=shown[0].number, last=shown[-1].number, days=_ASK_DAYS.format(days=few))


# ---------------------------------------------------------------- sections

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
_ALIAS_CHARACTERS: Final = 40
_MOST_FILES: Final = 20
_MOST_DAYS: Final = 20
_MOST_FILE_BYTES: Final = 20_000_000


def _thread(
    given: ObserveInput, counter: TokenCounter, most_tokens: int, redactor: Redactor, first: int
) -> tuple[str, tuple[Shown, ...]]:
    read = transcript(
        given.messages, counter=counter, zone=given.zone, most_tokens=most_tokens, redactor=redactor, first=first
    )
    sections = [
        _section("hints", redactor.redact(_hints(given.hints))),
        _document(given, redactor),
        _section("transcript", read.text or "(no messages)"),
    ]
    return "\n\n".join(filter(None, sections)), read.shown


def _attachments(
    inputs: Sequence[ObserveInput], shown: Sequence[Shown], redactor: Redactor
) -> tuple[str, tuple[FilePart, ...]]:
    """Return the list of what is attached, and the files themselves: as many as a request may carry."""
    numbers = {(message.thread, message.seq): message.number for message in shown}
    room, lines, files = _MOST_FILE_BYTES, list[str](), list[FilePart]()
    messages = (message for given in inputs if given.attach_files for message in given.messages)
    for message in messages:
        number = numbers.get((message.thread, message.seq))
        if number is None or message.own:
            continue
        for file in _files_of(message):
            size = len(file.data or b"")
            if len(files) == _MOST_FILES or size > room:
                continue
            room -= size
            files.append(file)
            name = escape(quoted_label(redactor.redact(file.name or file.media_type), 80, is_tool=True))
            lines.append(f"{len(files)}. {name}, of message [{number}]")
    return _section("attached", "\n".join(lines)), tuple(files)


def _files_of(message: Message) -> list[FilePart]:
    """Return the files of a message that a model can see."""
    found: list[FilePart] = []
    for part in message.parts:
        found += part.files if isinstance(part, ToolResultPart) else (part,) if isinstance(part, FilePart) else ()
    seen = [file for file in found if file.media_type.startswith("image/") or file.media_type == "application/pdf"]
    return [file for file in seen if file.data is not None or (file.url or "").startswith("https://")]


def _document(given: ObserveInput, redactor: Redactor) -> str:
    if given.document is None:
        return ""
    text = escape(clean(redactor.redact(given.document))).strip("\n") or "(empty)"
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
    told = ((given.aliases.get(thread), _hints(hints)) for thread, hints in given.thread_hints.items())
    return "\n".join(f"{_alias(name)} {line}" for name, text in told if name for line in text.split("\n") if line)


def _alias(alias: str) -> str:
    return escape(short_line(alias, _ALIAS_CHARACTERS)).replace('"', "'")


def _target(given: ReflectInput) -> str:
    kept = sum(line.tokens for line in given.observations if line.priority in KEPT)
    by_subject = f" {_BY_SUBJECT}" if kept >= given.target_tokens else ""
    is_lossy = bool(given.missing or given.omitted or given.vague)
    level = level_text(given.level, said_too_long=not is_lossy)
    return f"At most {given.target_tokens:,} tokens in all. {level}{by_subject}"


def _missing(given: ReflectInput) -> str:
    """Return what the last answer lost: statements first, then lines that say too little, then names."""
    lines = {
        line.id: (f"o{number} {MARKS[line.priority]} ", line.text) for number, line in enumerate(given.observations, 1)
    }
    pieces: list[str] = []
    for ask, lost in (
        (_MISSING_LINES, [lines[name] for name in given.omitted if name in lines]),
        (_MISSING_DETAIL, [("", text) for text in given.vague]),
        (_MISSING_NAMES, [("", name) for name in given.missing]),
    ):
        pieces += [ask] if lost else []
        pieces += [f"- {head}{escape(short_line(text, _MISSING_CHARACTERS))}" for head, text in lost[:_MOST_MISSING]]
    return "\n".join(pieces)


# ---------------------------------------------------------------- the log as the reflector sees it


def _log(given: ReflectInput) -> str:
    lines: list[str] = []
    depths: dict[tuple[str, int | None], int] = {}
    day = ""
    for number, observation in enumerate(given.observations, 1):
        said = said_in_zone(observation, given.zone)
        if said and said.date().isoformat() != day:
            day = said.date().isoformat()
            lines.append(f"Date: {day}")
        # Lines above it that are not shown do not count.
        depth = 1 + depths.get((observation.group, observation.parent), -1)
        depths[observation.group, observation.ordinal] = depth
        indent = "  " * depth
        names = _short_names(observation, given.aliases)
        time = f" ({said:%H:%M})" if said else ""
        lines.append(f"{indent}o{number} {names}{MARKS[observation.priority]}{time} {_line_text(observation)}")
        if observation.verbatim:
            lines.extend(f"{indent}  | {row}" for row in escape(clean(observation.verbatim)).split("\n"))
    return "\n".join(lines)


def _short_names(observation: Observation, aliases: Mapping[str, str]) -> str:
    threads = dict.fromkeys(source.thread for source in observation.sources)
    names = [_alias(aliases[thread]) for thread in threads if thread in aliases]
    return f"{','.join(names)} " if names else ""


def _line_text(observation: Observation) -> str:
    about = observation.about.isoformat() if observation.about else ""
    # A date that the text does not contain was added later and is shown.
    is_told = about in observation.text or "(meaning " in observation.text
    meaning = f" (meaning {about})" if about and not is_told else ""
    doubt = f"{UNVERIFIED} " if observation.is_unverified else ""
    return f"{doubt}{escape(short_line(observation.text, 10_000))}{meaning}"


# ---------------------------------------------------------------- what a mode looks for

_MOST_FINDINGS: Final = 20
_MOST_OF_MESSAGE: Final = 3
_MOST_SCANNED: Final = 100_000
_LONGEST_FINDING: Final = 300
_SHORTEST_FINDING: Final = 8
_SENTENCES: Final = re.compile(r"\n+|(?<=[.!?])\s+(?=[A-Z\"'`(])")
_OPENING: Final = re.compile(r"^[\s>*•#|-]+(?:\d{1,3}[.)]\s)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Search:
    """What a mode looks for: a pattern of sentences, their category, and the patterns of their fields."""

    sentence: re.Pattern[str]
    category: str
    fields: Mapping[str, re.Pattern[str]]


def _search(sentence: str, category: str, **fields: str) -> _Search:
    compiled = {name: re.compile(pattern, re.IGNORECASE) for name, pattern in fields.items()}
    return _Search(sentence=re.compile(sentence, re.IGNORECASE), category=category, fields=compiled)


_ERROR: Final = _search(
    r"\b[\w.]{0,60}(?:Error|Exception|Panic)\b(?=[:( ]|\Z)|\bTraceback\b|\bERR_\w+|\bE\d{4}\b|\bexit code [1-9]",
    "error",
    error_type=r"\b([\w.]{0,60}(?:Error|Exception))\b(?=[:( ]|\Z)",
    stack_trace=r"\bat (\S{1,200}:\d{1,7}(?::\d{1,7})?)|(File \"[^\"]{1,200}\", line \d{1,7})",
)
_NOT_FOUND: Final = _search(
    r"\bnot found\b|\bno (?:results|matches|such|occurrences)\b|\bnothing found\b|\b0 (?:results|matches)\b|\bdoes not exist\b"
    r"|\bcould not find\b|\bnicht gefunden\b|\bkeine Treffer\b|\bno se encontr|\bintrouvable\b",
    "gap",
    not_found=r"\b(?:no (?:results|matches|occurrences) (?:for|of)|could not find|no such)\s+[`\"']?([^`\"'\n.;,]{2,80})"
    r"|[`\"']([^`\"'\n]{2,80})[`\"'] (?:was |is )?not found",
)
_TESTS: Final = _search(
    r"\b\d+ (?:tests? )?(?:passed|failed|skipped|errors?)\b|\bcoverage\b.{0,40}\d|\bflaky\b|\buntested\b",
    "test",
    tests=r"((?:\d+ (?:tests? )?(?:passed|failed|skipped)(?:, | and )?){1,4})",
    coverage=r"\bcoverage\b[^\d\n]{0,40}(\d{1,3}(?:[.,]\d+)?\s?%)|(\d{1,3}(?:[.,]\d+)?\s?%)[^\n]{0,20}\bcoverage\b",
)
_CAUSE: Final = _search(
    r"\broot cause\b|\bcaused by\b|\bthe cause (?:is|was)\b|\breproduc|\bregression\b|\bdie Ursache\b|\bla causa\b",
    "finding",
    root_cause=r"\b(?:root cause(?: is| was)?:?|caused by|the cause (?:is|was))\s*([^\n.;]{3,120})",
)
_CHANGE: Final = _search(
    r"\b(?:renamed?|moved?|extracted?|inlined?|deprecated?|replaced?)\b.{0,80}(?:->|\bto\b|\binto\b|\bwith\b|\bfrom\b)"
    r"|\bbreaking change\b|\bbreaks\b|\bcallers?\b|\bdepend(?:s|ants|ents) on\b|\bused by\b",
    "change",
    breaks=r"\bbreaks\s+([^\n.;]{3,120})",
    dependants=r"\b(?:used by|callers? (?:is|are|in):?)\s+([^\n.;]{3,120})",
)
_SOURCE: Final = _search(
    r"https?://\S{4,}|\baccording to\b|\bet al\.|\bdoi:|\bpublished (?:in|by)\b",
    "source",
    sources=r"(https?://[^\s<>\"')\]]{4,300})|\baccording to ([^\n,.;]{3,100})",
)
_SYMPTOM: Final = _search(
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
    """Return what was observed, with the sentences of assistant and tools that the mode looks for and no line holds.

    Messages are cited by number, from 1. At most three sentences of a message and twenty in all are added, each cut to 300
    characters.
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
    """Return a line with the fields of its mode that can be read from its words and that it does not have yet."""
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
