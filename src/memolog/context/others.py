"""Show what was said in other conversations and is in no log yet, shortened to a budget."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Final

from memolog.context.dates import clock, local
from memolog.context.escape import element, escape, one_line
from memolog.context.pairs import is_compacted
from memolog.context.view import OtherThread
from memolog.context.wording import OTHER_CONVERSATION
from memolog.domain.lookalikes import quoted_label
from memolog.domain.message import FilePart, Message, Part, TextPart, ToolCallPart, ToolResultPart
from memolog.tokens import TokenCounter, count_text, cut, cut_middle

__all__ = ["render_others", "said_lines"]

# Enough for what was asked or answered; search finds the rest.
_MESSAGE_CHARACTERS: Final = 400
_RESULT_CHARACTERS: Final = 120
_SAMPLE_CHARACTERS: Final = 16
_TITLE_CHARACTERS: Final = 80


@dataclass(frozen=True, kw_only=True)
class _Line:
    at: datetime
    thread: int
    position: int
    message: Message
    said: str
    zone: str | None

    @cached_property
    def text(self) -> str:
        """Return the line; most are never shown, so only those are made that may be."""
        return _line(self.message, self.said, self.zone)


def render_others(
    others: Sequence[OtherThread],
    *,
    budget: int,
    zone: str | None,
    counter: TokenCounter,
    more: tuple[int, int] = (0, 0),
) -> str:
    """Return the other conversations as blocks within a budget of tokens, the newest first.

    What is not shown is counted; `more` are the conversations, and their messages, that are not among these.
    """
    lines = [line for index, other in enumerate(others) for line in _lines(index, other, zone)]
    lines.sort(key=lambda line: (line.at, line.thread, line.position), reverse=True)
    totals = {index: other.earlier for index, other in enumerate(others)}
    for line in lines:
        totals[line.thread] += 1
    chosen = _affordable(lines, others, budget, counter)
    while True:
        text = _blocks(others, chosen, totals, more)
        if count_text(text, counter) <= budget:
            return text
        if not chosen:
            return ""
        chosen = chosen[:-1]


def _affordable(
    lines: Sequence[_Line], others: Sequence[OtherThread], budget: int, counter: TokenCounter
) -> list[_Line]:
    """Return the newest lines that fit with the blocks they stand in, as far as that can be told line by line."""
    left, chosen, opened = budget, list[_Line](), set[int]()
    for line in lines:
        text = line.text
        if line.thread not in opened:
            opened.add(line.thread)
            text = _block(others[line.thread], [text])
        left -= count_text(text, counter)
        if left < 0:
            break
        chosen.append(line)
    return chosen


def _blocks(
    others: Sequence[OtherThread], chosen: Sequence[_Line], totals: dict[int, int], more: tuple[int, int]
) -> str:
    """Return a block a thread, the one with the newest message first; inside, the lines are in their order."""
    blocks: list[str] = []
    for index in dict.fromkeys(line.thread for line in chosen):
        shown = sorted((line for line in chosen if line.thread == index), key=lambda line: line.position)
        hidden = totals[index] - len(shown)
        earlier = [f"[{_count(hidden, 'earlier message')} not shown]"] if hidden else []
        blocks.append(_block(others[index], [*earlier, *(line.text for line in shown)]))
    told = {line.thread for line in chosen}
    untold = [total for index, total in totals.items() if total and index not in told]
    if threads := more[0] + len(untold):
        messages = _count(more[1] + sum(untold), "message")
        blocks.append(f"[{_count(threads, 'other conversation')} with {messages} not shown]")
    return "\n".join(blocks)


def _block(other: OtherThread, lines: Sequence[str]) -> str:
    body = "\n".join([OTHER_CONVERSATION, *lines])
    return element("other-conversation", body, thread=other.alias, title=cut(other.title or "", _TITLE_CHARACTERS))


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


def said_lines(messages: Sequence[Message], zone: str | None) -> Iterator[tuple[int, str]]:
    """Yield the place and a short line of each message that says something; ours and those that are gone do not."""
    for position, said in _sayings(messages):
        yield position, _line(messages[position], said, zone)


def _sayings(messages: Sequence[Message]) -> Iterator[tuple[int, str]]:
    """Yield the place of each message that says something, and what it says."""
    summary: str | None = None
    for position, message in enumerate(messages):
        if message.state != "live" or message.own or (is_compacted(message) and message.injection in {"", summary}):
            continue
        summary = message.injection if is_compacted(message) else None
        said = message.injection if is_compacted(message) else " ".join(filter(None, map(_said, message.parts)))
        if said and _says_something(said):
            yield position, said


def _says_something(said: str) -> bool:
    """Return whether anything is left of a text on one line, without making that line where its beginning shows it."""
    is_plain = len(said) > _MESSAGE_CHARACTERS or any(map(str.isalnum, said[:_SAMPLE_CHARACTERS]))
    return is_plain or bool(one_line(said))


def _line(message: Message, said: str, zone: str | None) -> str:
    text = one_line(cut_middle(said, _MESSAGE_CHARACTERS, " … "))
    return f"({clock(message.created_at, zone)}) {_who(message)}: {text}"


def _lines(index: int, other: OtherThread, zone: str | None) -> Iterator[_Line]:
    for position, said in _sayings(other.messages):
        message = other.messages[position]
        at = local(message.created_at, None)
        yield _Line(at=at, thread=index, position=position, message=message, said=said, zone=zone)


def _who(message: Message) -> str:
    """Return the role, and the name in quotation marks: no name passes for a role."""
    return " ".join(filter(None, (message.role, escape(quoted_label(message.speaker or "")))))


def _tool(part: ToolResultPart) -> str:
    name = quoted_label(part.name or "", is_tool=True)
    return f"tool {name}" if name else "a tool"


def _said(part: Part) -> str:
    """Return a part in a few words; reasoning and unknown parts are left out."""
    match part:
        case TextPart():
            return part.text
        case ToolCallPart():
            return f"[called {quoted_label(part.name, is_tool=True)}]"
        case ToolResultPart():
            answer = part.content if isinstance(part.content, str) else ""
            answer = f": {cut_middle(answer, _RESULT_CHARACTERS, ' … ')}" if answer else ""
            return f"[{_tool(part)} {'failed' if part.is_error else 'answered'}{answer}]"
        case FilePart():
            return f"[file {quoted_label(part.name or part.media_type, is_tool=True)}]"
        case _:
            return ""
