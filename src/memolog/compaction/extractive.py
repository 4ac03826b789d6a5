"""Build the texts of compacted messages: one summary for the context, and a search text and a brief for each message.

Identifiers and lines of code stay searchable. The lines may come from a model or from the embedded observer.
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
from memolog.text.cutting import cut, cut_tokens
from memolog.text.escape import short_line
from memolog.text.redaction import Redactor
from memolog.text.tokens import TokenCounter
from memolog.text.word_lists import UNSPACED_LETTERS

_ORDER: Final[dict[Priority, int]] = {"high": 0, "done": 0, "medium": 1, "low": 2}
# A message no longer than this is its own brief.
_SHORT: Final = 240
_BRIEF: Final = 1_200
_LINE: Final = 600
# A line about more messages than this is kept with the first of them only.
_FEW: Final = 3
# A summary has at most half the tokens of its messages, and at least one line.
_SHARE: Final = 2
_LEAST_TOKENS: Final = 60
_LOOKED_AT: Final = 40_000
_CODE_LINES: Final = 60
_CODE_LINE: Final = 200
_NAMES: Final = 200
_FENCE: Final = re.compile(r"^[ \t]{0,8}(```|~~~)")
_CODE: Final = re.compile(
    r"^\s*(?:[$>#]\s?\w|(?:def|class|import|from|return|func|fn|let|const|var|public|private|async|await|export|SELECT|INSERT"
    r"|UPDATE|CREATE|ALTER|DROP)\b.*[\w)};:'\"]$|[@}\])]|[\w.\[\]\"']+\s*[:+*/-]?=[^=>]|[\w./-]+\([^()]*\)[;:{]?\s*$)"
    r"|[{};]\s*$|^\S*(?:Error|Exception)\b"
)
# A word, path, address or number; not a run of a script without spaces, which is a sentence.
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
    """Return the compact texts of a batch of live messages. Deterministic."""
    said = [message for message in messages if not message.own]
    inside = {message.seq for message in said}
    clean = [_clean(line, redactor) for line in lines if line.text.strip() and inside & set(line.seqs)]
    told = clean or [_clean(line, redactor) for line in _own_words(said)]
    return CompactTexts(
        summary=_summary(messages, told, counter),
        rows=tuple(_row(message, _about(message.seq, told, inside), redactor) for message in messages),
    )


def words_left(text: str) -> str:
    """Return what of an indexed text stays when the raw text is removed: names, numbers and identifiers.

    Each once and in alphabetical order, so that no sentence can be put together from them again.
    """
    words = {word for word in _WORD.findall(text) if len(word) <= _LONGEST_LEFT}
    return " ".join(sorted(word for word in words if is_name(word) and word.lower() not in STOP))


def _clean(line: SummaryLine, redactor: Redactor) -> SummaryLine:
    return replace(line, text=redactor.redact(short_line(line.text, _LINE)))


def _own_words(said: Iterable[Message]) -> Iterator[SummaryLine]:
    """Yield the beginning of each message, used if there are no lines about them."""
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
    kept: list[int] = []
    for index in order:
        size = counter.count(f"* {lines[index].text}\n")
        if size <= room:
            kept.append(index)
            room -= size
    if not kept and lines:
        return f"{head}\n* {cut_tokens(lines[order[0]].text, max(room, 1), counter)}"
    kept.sort(key=lambda index: (min(lines[index].seqs), index))
    return "\n".join([head, *(f"* {lines[index].text}" for index in kept)])


def _about(seq: int, lines: Sequence[SummaryLine], inside: set[int]) -> list[str]:
    """Return the lines that speak of one message."""
    found: list[str] = []
    for line in lines:
        cited = sorted(inside & set(line.seqs))
        if seq in cited and (len(cited) <= _FEW or seq == cited[0]):
            found.append(line.text)
    return found


def _row(message: Message, about: Sequence[str], redactor: Redactor) -> RowTexts:
    if message.own:
        # Answers of the memory's own tools are not indexed.
        return RowTexts(seq=message.seq, search=message.search, brief=message.search)
    text = redactor.redact("\n".join(_texts(message)))
    own = short_line(text, _SHORT)
    brief = cut(own if len(text) <= _SHORT else "\n".join(about) or own, _BRIEF)
    search = "\n".join(dict.fromkeys([brief, *_code_lines(text), " ".join(_names(text))]))
    return RowTexts(seq=message.seq, search=search.strip(), brief=brief)


def _code_lines(text: str) -> Iterator[str]:
    """Yield the lines of a text that are code: in a fence, or by their form."""
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
    """Yield the readable text of each part, cut to a bound."""
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
