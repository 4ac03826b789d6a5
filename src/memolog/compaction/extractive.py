"""Build the texts of compacted messages: a summary of the batch for the context, and a search text and a brief for each message.

A search text consists of the brief, lines of code and identifiers. When the message is older, the brief replaces the search text.
The lines of a summary come from the log, a model or the embedded observer. Without such lines, the beginnings of the messages
are used.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from memolog.compaction.store import RowTexts, SummaryLine
from memolog.core.exact_json import content_text
from memolog.core.message import FilePart, Message, Part, TextPart, ToolCallPart, ToolResultPart
from memolog.core.observation import Priority
from memolog.observer.extractive.sentences import STOP, identifiers_of, is_name
from memolog.text.cut import cut, cut_tokens
from memolog.text.escape import short_line
from memolog.text.redaction import Redactor
from memolog.text.tokens import TokenCounter
from memolog.text.word_lists import UNSPACED_LETTERS

_ORDER: Final[dict[Priority, int]] = {"high": 0, "done": 0, "medium": 1, "low": 2}
# The brief of a message with at most this many characters is its whole text.
_SHORT: Final = 240
# Maximum characters of a brief, and of a line of a summary.
_BRIEF: Final = 1_200
_LINE: Final = 600
# If a line is about more messages than this, it is stored only in the texts of the first of these messages.
_FEW: Final = 3
# The tokens of a summary are at most the tokens of its messages divided by _SHARE, but always at least _LEAST_TOKENS are allowed.
_SHARE: Final = 2
_LEAST_TOKENS: Final = 60
_LOOKED_AT: Final = 40_000  # maximum characters that are read of a part
_CODE_LINES: Final = 60  # maximum number of code lines in a search text
_CODE_LINE: Final = 200  # maximum characters of each code line
_NAMES: Final = 200  # maximum number of names in a search text
_FENCE: Final = re.compile(r"^[ \t]{0,8}(```|~~~)")
_CODE: Final = re.compile(
    r"^\s*(?:[$>#]\s?\w|(?:def|class|import|from|return|func|fn|let|const|var|public|private|async|await|export|SELECT|INSERT"
    r"|UPDATE|CREATE|ALTER|DROP)\b.*[\w)};:'\"]$|[@}\])]|[\w.\[\]\"']+\s*[:+*/-]?=[^=>]|[\w./-]+\([^()]*\)[;:{]?\s*$)"
    r"|[{};]\s*$|^\S*(?:Error|Exception)\b"
)
# A word, path, address or number. Letters of scripts without spaces do not match, because there a match would be a sentence.
_WORD: Final = re.compile(rf"[^\W{UNSPACED_LETTERS}]+(?:[./\\:@#-]+[^\W{UNSPACED_LETTERS}]+)*")
_LONGEST_LEFT: Final = 120
_WHO: Final = {"user": "User", "assistant": "Assistant", "tool": "Tool", "system": "System"}


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactTexts:
    """The summary of a batch, and the texts of its messages."""

    summary: str
    rows: tuple[RowTexts, ...]


def compact_texts(
    messages: Sequence[Message], lines: Sequence[SummaryLine], counter: TokenCounter, redactor: Redactor
) -> CompactTexts:
    """Return the compact texts of a batch of live messages. The same input gives the same texts."""
    spoken = [message for message in messages if not message.own]
    inside = {message.seq for message in spoken}
    clean = [_clean(line, redactor) for line in lines if line.text.strip() and inside & set(line.seqs)]
    used = clean or [_clean(line, redactor) for line in _own_words(spoken)]
    return CompactTexts(
        summary=_summary(messages, used, counter),
        rows=tuple(_row(message, _about(message.seq, used, inside), redactor) for message in messages),
    )


def words_left(text: str) -> str:
    """Return the names, numbers and identifiers of an indexed text. They stay searchable when the raw text is removed.

    Each word comes once, in alphabetical order, so that the sentences of the raw text cannot be reconstructed.
    """
    words = {word for word in _WORD.findall(text) if len(word) <= _LONGEST_LEFT}
    return " ".join(sorted(word for word in words if is_name(word) and word.lower() not in STOP))


def _clean(line: SummaryLine, redactor: Redactor) -> SummaryLine:
    return replace(line, text=redactor.redact(short_line(line.text, _LINE)))


def _own_words(said: Iterable[Message]) -> Iterator[SummaryLine]:
    """Yield the beginning of each message. Used if there are no lines about the messages."""
    for message in said:
        text = short_line("\n".join(_texts(message)), _SHORT)
        if text:
            yield SummaryLine(text=f"{_WHO[message.role]}: {text}", seqs=(message.seq,))


def _summary(messages: Sequence[Message], lines: Sequence[SummaryLine], counter: TokenCounter) -> str:
    """Return the most important lines that fit, in the order of their messages."""
    first, last = messages[0].created_at.date().isoformat(), messages[-1].created_at.date().isoformat()
    number = f"{len(messages)} {'message' if len(messages) == 1 else 'messages'}"
    head = f"{first if first == last else f'{first} to {last}'}, {number}:"
    room = max(_LEAST_TOKENS, sum(message.tokens for message in messages) // _SHARE) - counter.count(head)
    order = sorted(range(len(lines)), key=lambda index: (_ORDER[lines[index].priority], index))
    chosen: list[int] = []
    for index in order:
        size = counter.count(f"* {lines[index].text}\n")
        if size <= room:
            chosen.append(index)
            room -= size
    if not chosen and lines:
        return f"{head}\n* {cut_tokens(lines[order[0]].text, max(room, 1), counter)}"
    chosen.sort(key=lambda index: (min(lines[index].seqs), index))
    return "\n".join([head, *(f"* {lines[index].text}" for index in chosen)])


def _about(seq: int, lines: Sequence[SummaryLine], inside: set[int]) -> list[str]:
    """Return the lines about one message."""
    found: list[str] = []
    for line in lines:
        cited = sorted(inside & set(line.seqs))
        if seq in cited and (len(cited) <= _FEW or seq == cited[0]):
            found.append(line.text)
    return found


def _row(message: Message, about: Sequence[str], redactor: Redactor) -> RowTexts:
    if message.own:
        # Calls and results of Memolog's own tools are not indexed, so the search text of this message stays as it is.
        return RowTexts(seq=message.seq, search=message.search, brief=message.search)
    text = redactor.redact("\n".join(_texts(message)))
    own = short_line(text, _SHORT)
    brief = cut(own if len(text) <= _SHORT else "\n".join(about) or own, _BRIEF)
    search = "\n".join(dict.fromkeys([brief, *_code_lines(text), " ".join(_names(text))]))
    return RowTexts(seq=message.seq, search=search.strip(), brief=brief)


def _code_lines(text: str) -> Iterator[str]:
    """Yield the lines of a text that are inside a code fence or look like code."""
    fenced, found = False, 0
    for line in text.splitlines():
        if _FENCE.match(line):
            fenced = not fenced
            continue
        short = line.strip()[:_CODE_LINE]
        if short and (fenced or _CODE.search(line[: 2 * _CODE_LINE])):
            yield short
            found += 1
            if found >= _CODE_LINES:
                return


def _names(text: str) -> list[str]:
    return [name for name in identifiers_of(text) if name.strip()][:_NAMES]


def _texts(message: Message) -> Iterator[str]:
    """Yield the text of each part that has text, cut to at most `_LOOKED_AT` characters."""
    for part in message.parts:
        text = _text(part)
        if text.strip():
            yield cut(text, _LOOKED_AT)


def _text(part: Part) -> str:
    match part:
        case TextPart():
            return part.text
        case ToolCallPart():
            return f"{part.name} {content_text(part.arguments)}"
        case ToolResultPart():
            return content_text(part.content)
        case FilePart():
            return " ".join(filter(None, (part.name, part.media_type)))
        case _:
            return ""
