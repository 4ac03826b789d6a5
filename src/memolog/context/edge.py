"""Build the edge: the last blocks of a context, such as the current time, tasks and hints. They are never stored.

At the first step of a turn, the edge follows the last message. At later steps it stays before the tool results.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from memolog.context.context import Block
from memolog.context.tail import is_compacted
from memolog.core.cache import remembered
from memolog.core.message import FilePart, Message, Part, TextPart, ToolCallPart, ToolResultPart
from memolog.core.pairs import is_question
from memolog.core.zones import zone_of
from memolog.text.cut import cut, cut_middle
from memolog.text.dates import age, clock, day_name, local, relative_days, shifted
from memolog.text.escape import element, escape, fixed_text, one_line
from memolog.text.lookalikes import quoted, quoted_label, visible
from memolog.text.message_tokens import count_text
from memolog.text.tokens import TokenCounter

if TYPE_CHECKING:
    from memolog.context.build import View
    from memolog.log.snapshot import OtherTail

OTHER_CONVERSATION: Final = fixed_text("context/other_conversation")
_PASSED: Final = fixed_text("context/passed")
_PASSED_DONE: Final = fixed_text("context/passed_done")
_RECALLED: Final = fixed_text("context/recalled")
_WORKING_MEMORY_BOTH: Final = fixed_text("context/working_memory_both")
_WORKING_MEMORY_CHANGED: Final = fixed_text("context/working_memory_changed")
_WORKING_MEMORY_EMPTIED: Final = fixed_text("context/working_memory_emptied")
# A message, a tool's result and a title are cut to at most this many characters. Search finds the whole text.
_MESSAGE_CHARACTERS: Final = 400
_RESULT_CHARACTERS: Final = 120
_TITLE_CHARACTERS: Final = 80
_SAMPLE_CHARACTERS: Final = 16
_REMEMBERED: Final = 1024
_REMEMBERED_CHARACTERS: Final = 4_096
OTHERS: Final = "other-conversations"
"""The name of the block that is shortened if the context exceeds its limit."""
PASSED_DAYS: Final = 7
"""The number of days after its date for which a plan is shown."""
_MOST_PLANS: Final = 5
# Time zones and tests see several days at once.
_DAYS: Final = 16


def edge_blocks(view: View, *, others_tokens: int) -> tuple[Block, ...]:
    """Return the blocks of the edge. The other conversations have at most `others_tokens` tokens.

    At later steps of a turn, the tool results follow the edge. If the edge changes, the provider cannot take these results from
    its cache. So at these steps the edge must change as rarely as possible: the other conversations are left out, and the time
    advances in whole hours.
    """
    if is_later := bool(view.snapshot.tail) and view.snapshot.tail[-1].role == "tool":
        view = replace(view, now=_hourly(view))
    texts = [
        ("hints", _hints(view)),
        ("working-memory", _working_memory(view)),
        (OTHERS, "" if is_later else _others(view, others_tokens)),
        ("tasks", tasks_element(view.task_lines)),
        ("recalled", _recalled(view)),
        ("plans", _plans(view)),
        ("now", _now(view)),
    ]
    return tuple(
        Block(name=name, text=text, tokens=count_text(text, view.counter), stable=False) for name, text in texts if text
    )


def _hourly(view: View) -> datetime:
    """Return the time of the newest user message plus the whole hours since. Without one, return the start of this hour."""
    asked = [message.created_at for message in (*view.snapshot.repeated, *view.snapshot.tail) if is_question(message)]
    if not asked or asked[-1] > view.now:
        return view.now.replace(minute=0, second=0, microsecond=0)
    return view.now - (view.now - asked[-1]) % timedelta(hours=1)


def _others(view: View, tokens: int) -> str:
    others = view.snapshot.beside
    if others is None:
        return ""
    more = others.more_threads, others.more_messages
    return render_others(others.tails, budget=tokens, zone=view.zone, counter=view.counter, more=more)


def _hints(view: View) -> str:
    """Return the current task and the suggested response.

    If a user message is newer than the hints, their tags say "earlier", because that message may be a new request.
    """
    hints = view.snapshot.thread.hints
    said = age(hints.at, view.now) if hints.at else None
    if any(message.seq > hints.last_seq and is_question(message) for message in reversed(view.snapshot.tail)):
        given = {"earlier-task": hints.current_task, "earlier-suggestion": hints.suggested_response}
    else:
        given = {"current-task": hints.current_task, "suggested-response": hints.suggested_response}
    return "\n".join(element(tag, _hint(text), said=said) for tag, text in given.items() if text)


@remembered(_REMEMBERED)
def _hint(text: str) -> str:
    return escape(quoted(visible(text.strip())))


def working_memory_text(texts: Mapping[str, str]) -> str | None:
    """Return the working memory as a context shows it, or None if it is empty. `texts` maps each scope to its document.

    The document of the thread comes after the document of the resource. The text says that the thread's document has precedence.
    """
    present = {scope: text.strip() for scope, text in texts.items() if text.strip()}
    if len(present) > 1:
        # str.format cannot be used, because the documents may contain braces.
        first, _, rest = _WORKING_MEMORY_BOTH.partition("{resource}")
        second, _, last = rest.partition("{thread}")
        return "".join([first, present["resource"], second, present["thread"], last])
    return next(iter(present.values()), None)


def _working_memory(view: View) -> str:
    """Return the current working memory, if the prefix shows another version."""
    facts = view.snapshot.facts
    before, now = working_memory_text(facts.before) or "", working_memory_text(facts.now) or ""
    if before == now:
        return ""
    notice = f"{_WORKING_MEMORY_CHANGED}\n" if before.strip() else ""
    body = f"{notice}{escape(now)}" if now.strip() else _WORKING_MEMORY_EMPTIED
    return element("working-memory", body)


def tasks_element(task_lines: Iterable[str]) -> str:
    """Return the lines of tasks as an element, or an empty text if there are no lines."""
    lines = [f"* {line}" for line in map(one_line, task_lines) if line]
    return element("tasks", "\n".join(lines)) if lines else ""


def _recalled(view: View) -> str:
    texts = [escape(text.strip()) for text in view.recalled if text.strip()]
    return "\n".join([_RECALLED, *(element("recalled", text) for text in texts)]) if texts else ""


def _plans(view: View) -> str:
    """Return the newest plans for past days. The text says that they are taken as done (`assume_done`) or not known to be."""
    today = local(view.now, view.zone).date()
    first = shifted(today, -PASSED_DAYS)
    passed = [(plan.about, plan.text) for plan in view.plans if plan.about and first <= plan.about < today]
    passed.sort(key=lambda plan: plan[0], reverse=True)
    words = _PASSED_DONE if view.config.assume_done else _PASSED
    # Each line begins with the day, so the day is removed from the text.
    plain = [(day, text.replace(f" (meaning {day.isoformat()})", "")) for day, text in passed[:_MOST_PLANS]]
    lines = [f"* {day.isoformat()} ({words}): {one_line(text)}" for day, text in plain]
    return element("plans", "\n".join(lines)) if lines else ""


def _now(view: View) -> str:
    now = local(view.now, view.zone)
    today: date = now.date()
    clock_line = f"{day_name(today)}, {now.hour:02}:{now.minute:02} ({one_line(zone_of(view.zone)[1])})"
    return element("now", f"{clock_line}\n{_relative_lines(today)}")


@lru_cache(_DAYS)
def _relative_lines(today: date) -> str:
    return "\n".join(f"{words}: {meaning}" for words, meaning in relative_days(today))


def said_lines(messages: Sequence[Message], zone: str | None) -> Iterator[tuple[int, str]]:
    """Yield the position of each message that has text, and a short line. Withdrawn messages and Memolog's own are skipped."""
    for position, text in _spoken(messages):
        yield position, _line(messages[position], text, zone)


def render_others(
    others: Sequence[OtherTail],
    *,
    budget: int,
    zone: str | None,
    counter: TokenCounter,
    more: tuple[int, int] = (0, 0),
) -> str:
    """Return the other conversations as blocks within a budget of tokens, the newest first.

    The text says how many messages are not shown. `more` is the number of further conversations and of their messages.
    """
    said = [
        (other.messages[position].created_at, index, position, text)
        for index, other in enumerate(others)
        for position, text in _spoken(other.messages)
    ]
    totals = Counter({index: other.earlier for index, other in enumerate(others)})
    totals.update(index for _, index, _, _ in said)
    chosen: list[_OtherLine] = []
    opened: set[int] = set()
    left = budget
    for _, index, position, words in sorted(said, reverse=True):
        line = _OtherLine(index, position, _line(others[index].messages[position], words, zone))
        # The first line of a conversation needs the tags of its block too.
        text = line.text if index in opened else _conversation_block(others[index], [line.text])
        opened.add(index)
        left -= count_text(text, counter)
        if left < 0:
            break
        chosen.append(line)
    while True:
        text = _conversation_blocks(others, chosen, totals, more)
        if count_text(text, counter) <= budget:
            return text
        if not chosen:
            return ""
        chosen.pop()


class _OtherLine(NamedTuple):
    thread: int
    position: int
    text: str


def _conversation_blocks(
    others: Sequence[OtherTail], chosen: Sequence[_OtherLine], totals: Mapping[int, int], more: tuple[int, int]
) -> str:
    """Return one block per thread, the thread with the newest message first. Lines stay in the order of the messages."""
    blocks: list[str] = []
    for index in dict.fromkeys(line.thread for line in chosen):
        shown = sorted((line for line in chosen if line.thread == index), key=lambda line: line.position)
        hidden = totals[index] - len(shown)
        earlier = [f"[{_count(hidden, 'earlier message')} not shown]"] if hidden else []
        blocks.append(_conversation_block(others[index], [*earlier, *(line.text for line in shown)]))
    shown_threads = {line.thread for line in chosen}
    hidden_totals = [total for index, total in totals.items() if total and index not in shown_threads]
    if threads := more[0] + len(hidden_totals):
        messages = _count(more[1] + sum(hidden_totals), "message")
        blocks.append(f"[{_count(threads, 'other conversation')} with {messages} not shown]")
    return "\n".join(blocks)


def _conversation_block(other: OtherTail, lines: Sequence[str]) -> str:
    body = "\n".join([OTHER_CONVERSATION, *lines])
    return element("other-conversation", body, thread=other.name, title=cut(other.title or "", _TITLE_CHARACTERS))


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


def _spoken(messages: Sequence[Message]) -> Iterator[tuple[int, str]]:
    """Yield position and text of each message that has a text."""
    summary: str | None = None
    for position, message in enumerate(messages):
        if message.state != "live" or message.own or (is_compacted(message) and message.injection in {"", summary}):
            continue
        summary = message.injection if is_compacted(message) else None
        text = message.injection if is_compacted(message) else " ".join(filter(None, map(_part_words, message.parts)))
        if text and _has_text(text):
            yield position, text


def _has_text(text: str) -> bool:
    """Return whether a text has visible content. Call the slow `one_line` only if the beginning does not show it."""
    is_plain = len(text) > _MESSAGE_CHARACTERS or any(map(str.isalnum, text[:_SAMPLE_CHARACTERS]))
    return is_plain or bool(one_line(text))


def _line(message: Message, said: str, zone: str | None) -> str:
    text = _short(said) if len(said) <= _REMEMBERED_CHARACTERS else _on_one_line(said)
    # The name of the speaker is in quotation marks, so that it does not look like a role.
    who = f"{message.role} {escape(quoted_label(message.speaker))}".rstrip() if message.speaker else message.role
    return f"({clock(message.created_at, zone)}) {who}: {text}"


def _on_one_line(said: str) -> str:
    return one_line(cut_middle(said, _MESSAGE_CHARACTERS))


# The messages of other threads are shown at every request, so their short texts are cached.
_short = remembered(_REMEMBERED)(_on_one_line)


def _part_words(part: Part) -> str:
    """Return a short text of a part. The text is empty for reasoning and unknown parts."""
    match part:
        case TextPart():
            return part.text
        case ToolCallPart():
            return f"[called {quoted_label(part.name, is_tool=True)}]"
        case ToolResultPart():
            answer = part.content if isinstance(part.content, str) else ""
            answer = f": {cut_middle(answer, _RESULT_CHARACTERS)}" if answer else ""
            name = quoted_label(part.name or "", is_tool=True)
            tool = f"tool {name}" if name else "a tool"
            return f"[{tool} {'failed' if part.is_error else 'answered'}{answer}]"
        case FilePart():
            return f"[file {quoted_label(part.name or part.media_type, is_tool=True)}]"
        case _:
            return ""
