"""Build the prompts of the observer and the reflector. The wording is in `texts/`; foreign text is escaped between our tags."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, tzinfo
from typing import Final

from memolog.config.sizes import Mode
from memolog.domain.errors import InputError
from memolog.domain.lookalikes import quoted_label
from memolog.domain.message import FilePart, Message, ToolResultPart
from memolog.domain.observation import KEPT, MARKS, UNVERIFIED, Observation
from memolog.domain.thread import Hints
from memolog.prompt.escape import clean, closed, escape, short_line
from memolog.prompt.extracts import Wanted, wanted_section
from memolog.prompt.redact import REDACTION, Redactor
from memolog.prompt.shorten import last_lines
from memolog.prompt.transcript import Shown, said_in_zone, transcript
from memolog.prompt.wording import PROMPT_VERSION, Voice, level_text, observer_system, reflector_system
from memolog.tokens import TokenCounter

__all__ = [
    "ObserveInput",
    "Prompt",
    "ReflectInput",
    "observer_batch_prompt",
    "observer_prompt",
    "reflector_prompt",
]

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
    keeps = given.document is not None
    system = observer_system(given.mode, given.voice, given.custom, keeps_document=keeps)
    listed, files = _attachments([given], shown, redactor)
    wanted = _section("wanted", wanted_section(given.wanted))
    log_end = _log_end(given, counter, redactor)
    ask = _ASK.format(messages=_ask_messages(shown), repeated=_ASK_REPEATED if log_end else "")
    ask = f"{ask} {_ASK_DOCUMENT}" if keeps else ask
    parts = (log_end, text, listed, wanted, ask)
    return Prompt(system=system, text="\n\n".join(filter(None, parts)), shown=shown, files=files)


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
    first, blocks, shown = inputs[0], list[str](), list[Shown]()
    for given in inputs:
        text, seen = _thread(given, counter, given.most_tokens // len(inputs), redactor, len(shown) + 1)
        blocks.append(f'<thread id="{_alias(given.alias)}">\n{text}\n</thread>')
        shown.extend(seen)
    aliases = ", ".join(_alias(given.alias) for given in inputs)
    log_end = _log_end(first, counter, redactor)
    repeated = _ASK_REPEATED if log_end else ""
    ask = _ASK_BATCH.format(aliases=aliases, messages=_ask_messages(shown), repeated=repeated)
    keeps = any(given.document is not None for given in inputs)
    ask = f"{ask} {_ASK_DOCUMENT}" if keeps else ask
    system = observer_system(first.mode, first.voice, first.custom, keeps_document=keeps)
    listed, files = _attachments(inputs, shown, redactor)
    text = "\n\n".join(filter(None, (log_end, *blocks, listed, ask)))
    return Prompt(system=system, text=text, shown=tuple(shown), files=files)


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
    """Return the request to go through the messages, with their numbers and days."""
    if not shown:
        return ""
    days = list(dict.fromkeys(message.at.date().isoformat() for message in shown))
    few = ", ".join(days) if len(days) <= _MOST_DAYS else f"{days[0]} … {days[-1]}"
    ask = _ASK_MESSAGE if len(shown) == 1 else _ASK_MESSAGES
    return ask.format(first=shown[0].number, last=shown[-1].number, days=_ASK_DAYS.format(days=few))


# ---------------------------------------------------------------- sections


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


def _log_end(given: ObserveInput, counter: TokenCounter, redactor: Redactor) -> str:
    # The log may be older than the application's own patterns.
    return _section("log-end", redactor.redact(last_lines(closed(given.previous), given.previous_tokens, counter)))


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
    found: list[FilePart] = []
    for part in message.parts:
        files = part.files if isinstance(part, ToolResultPart) else (part,) if isinstance(part, FilePart) else ()
        found += [file for file in files if _can_be_seen(file)]
    return found


def _can_be_seen(file: FilePart) -> bool:
    is_kind = file.media_type.startswith("image/") or file.media_type == "application/pdf"
    return is_kind and (file.data is not None or (file.url or "").startswith("https://"))


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
    pieces: list[str] = []
    if given.omitted:
        numbers = {observation.id: number for number, observation in enumerate(given.observations, 1)}
        shown = [(numbers[name], given.observations[numbers[name] - 1]) for name in given.omitted if name in numbers]
        pieces.append(_MISSING_LINES)
        pieces += [
            f"- o{number} {MARKS[line.priority]} {escape(short_line(line.text, _MISSING_CHARACTERS))}"
            for number, line in shown[:_MOST_MISSING]
        ]
    if given.vague:
        pieces.append(_MISSING_DETAIL)
        pieces += [f"- {escape(short_line(text, _MISSING_CHARACTERS))}" for text in given.vague[:_MOST_MISSING]]
    if given.missing:
        pieces.append(_MISSING_NAMES)
        pieces += [f"- {escape(short_line(name, _MISSING_CHARACTERS))}" for name in given.missing[:_MOST_MISSING]]
    return "\n".join(pieces)


# ---------------------------------------------------------------- the log as the reflector sees it


def _log(given: ReflectInput) -> str:
    lines: list[str] = []
    depths: dict[tuple[str, int], int] = {}
    day = ""
    for number, observation in enumerate(given.observations, 1):
        said = said_in_zone(observation, given.zone)
        if said and said.date().isoformat() != day:
            day = said.date().isoformat()
            lines.append(f"Date: {day}")
        depth = _depth(observation, depths)
        indent = "  " * depth
        names = _short_names(observation, given.aliases)
        time = f" ({said:%H:%M})" if said else ""
        lines.append(f"{indent}o{number} {names}{MARKS[observation.priority]}{time} {_words(observation)}")
        lines.extend(f"{indent}  | {row}" for row in _verbatim(observation))
    return "\n".join(lines)


def _depth(observation: Observation, depths: dict[tuple[str, int], int]) -> int:
    """Return how deep a line stands under others of its group that are shown as well."""
    above = -1 if observation.parent is None else depths.get((observation.group, observation.parent), -1)
    depths[observation.group, observation.ordinal] = above + 1
    return above + 1


def _short_names(observation: Observation, aliases: Mapping[str, str]) -> str:
    threads = dict.fromkeys(source.thread for source in observation.sources)
    names = [_alias(aliases[thread]) for thread in threads if thread in aliases]
    return f"{','.join(names)} " if names else ""


def _words(observation: Observation) -> str:
    about = observation.about.isoformat() if observation.about else ""
    # A date that the text does not contain was added later and is shown.
    is_told = about in observation.text or "(meaning " in observation.text
    meaning = f" (meaning {about})" if about and not is_told else ""
    doubt = f"{UNVERIFIED} " if observation.is_unverified else ""
    return f"{doubt}{escape(short_line(observation.text, 10_000))}{meaning}"


def _verbatim(observation: Observation) -> list[str]:
    return escape(clean(observation.verbatim)).split("\n") if observation.verbatim else []
