"""Build the edge: the blocks after the last message, which depend on the present and are never stored."""

from collections.abc import Iterator
from datetime import date
from typing import Final

from memolog.context.dates import age, day_name, local, relative_days, shifted
from memolog.context.escape import element, escape, one_line
from memolog.context.others import render_others
from memolog.context.value import Block
from memolog.context.view import View
from memolog.context.wording import PASSED, PASSED_DONE, RECALLED, WORKING_MEMORY_CHANGED, WORKING_MEMORY_EMPTIED
from memolog.domain.lookalikes import quoted, visible
from memolog.domain.pairs import is_question
from memolog.domain.zones import zone_of
from memolog.tokens import count_text

__all__ = ["OTHERS", "PASSED_DAYS", "edge_blocks"]

OTHERS: Final = "other-conversations"
"""The name of the block that gives way when there is too little room."""

PASSED_DAYS: Final = 7
"""How long a plan is shown after its day."""
_MOST_PLANS: Final = 5


def edge_blocks(view: View, *, others_tokens: int) -> tuple[Block, ...]:
    """Return the blocks of the edge, with the other conversations within that many tokens."""
    texts = [
        ("hints", _hints(view)),
        ("working-memory", _working_memory(view)),
        (OTHERS, _others(view, others_tokens)),
        ("tasks", _tasks(view)),
        ("recalled", _recalled(view)),
        ("plans", _plans(view)),
        ("now", _now(view)),
    ]
    return tuple(_block(view, name, text) for name, text in texts if text)


def _others(view: View, tokens: int) -> str:
    return render_others(view.others, budget=tokens, zone=view.zone, counter=view.counter, more=view.more_others)


def _block(view: View, name: str, text: str) -> Block:
    return Block(name=name, text=text, tokens=count_text(text, view.counter), stable=False)


def _hints(view: View) -> str:
    """Return where the work stands, or where it stood before the user said something that the hints do not know of.

    What the user said since is in the tail. Whether it is a new request is for the model to judge: the task before it may go on,
    but it is not called the current one.
    """
    hints = view.hints
    said = age(hints.at, view.now) if hints.at else None
    if any(message.seq > hints.last_seq and is_question(message) for message in reversed(view.tail)):
        given = {"earlier-task": hints.current_task, "earlier-suggestion": hints.suggested_response}
    else:
        given = {"current-task": hints.current_task, "suggested-response": hints.suggested_response}
    return "\n".join(
        element(tag, escape(quoted(visible(text.strip()))), said=said) for tag, text in given.items() if text
    )


def _working_memory(view: View) -> str:
    """Return the present working memory, if the prefix holds another."""
    before, now = view.working_memory or "", view.working_memory_now or ""
    if before == now:
        return ""
    told = f"{WORKING_MEMORY_CHANGED}\n" if before.strip() else ""
    body = f"{told}{escape(now)}" if now.strip() else WORKING_MEMORY_EMPTIED
    return element("working-memory", body)


def _tasks(view: View) -> str:
    lines = [f"* {line}" for line in map(one_line, view.task_lines) if line]
    return element("tasks", "\n".join(lines)) if lines else ""


def _recalled(view: View) -> str:
    texts = [escape(text.strip()) for text in view.recalled if text.strip()]
    return "\n".join([RECALLED, *(element("recalled", text) for text in texts)]) if texts else ""


def _plans(view: View) -> str:
    """Return what was planned for the last days: that its day has passed does not mean that it was done."""
    today = local(view.now, view.zone).date()
    passed = [(day, text) for day, text in view.plans if shifted(today, -PASSED_DAYS) <= day < today]
    passed.sort(key=lambda plan: plan[0], reverse=True)
    words = PASSED_DONE if view.assume_done else PASSED
    # The day stands in front: a line that says it once more in brackets need not.
    plain = [(day, text.replace(f" (meaning {day.isoformat()})", "")) for day, text in passed[:_MOST_PLANS]]
    lines = [f"* {day.isoformat()} ({words}): {one_line(text)}" for day, text in plain]
    return element("plans", "\n".join(lines)) if lines else ""


def _now(view: View) -> str:
    return element("now", "\n".join(_now_lines(view)))


def _now_lines(view: View) -> Iterator[str]:
    now = local(view.now, view.zone)
    today: date = now.date()
    yield f"{day_name(today)}, {now.hour:02}:{now.minute:02} ({one_line(zone_of(view.zone)[1])})"
    for words, meaning in relative_days(today):
        yield f"{words}: {meaning}"
