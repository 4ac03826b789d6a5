"""Time: how large the requests of a thread were, the generations of its log, and what the log said at any moment."""

import asyncio
import difflib
from collections.abc import Sequence
from datetime import datetime
from itertools import accumulate, pairwise
from math import log1p
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from starlette.requests import Request
from starlette.responses import Response

from memolog.apps.ui.formats import brief, counted, plain
from memolog.apps.ui.view import Page, address, form_of, number_of, see, show, thread_of, ui_of
from memolog.core.observation import Generation
from memolog.errors import InputError
from memolog.memory import Thread

if TYPE_CHECKING:
    from memolog.log.journal import StoredEvent
    from memolog.log.snapshot import GroupRow

_REQUESTS: Final = 200
_ACTIVATIONS: Final = 200
_GENERATIONS: Final = 25
# A longer difference is cut.
_LINES: Final = 400
# Seconds that a page waits for a model. After that the work goes on, and the page shows its result when it is there.
_PATIENCE: Final = 20.0


# A pause of this many seconds is drawn nearly in proportion, a longer one shorter than it was.
_SHORT_PAUSE: Final = 3600.0

Mark: TypeAlias = tuple[datetime, str, str, str]
"""What happened: its moment, its class in the style sheet, its words, and its link or nothing."""


async def timeline(request: Request) -> Response:
    """Show the sizes of requests, the generations, a difference between two of them, and the log at a moment."""
    thread = thread_of(request)
    history = (await thread.history())[::-1]
    below = number_of(request, "below")
    shown = [one for one in history if below is None or one.number < below]
    sizes = await thread.sizes(before=number_of(request, "before"), limit=_REQUESTS)
    activations = await _activations(request, thread)
    old, new, at = number_of(request, "old"), number_of(request, "new"), _moment(request)
    groups = await thread.as_of(at) if at is not None else ()
    marks = _marks(request, history[:_ACTIVATIONS], activations)
    values: dict[str, Any] = {
        "generations": shown[:_GENERATIONS],
        "below": shown[_GENERATIONS - 1].number if len(shown) > _GENERATIONS else None,
        "current": history[0].number if history else 0,
        "sizes": sizes,
        "with_memory": [one.tokens for one in sizes],
        "without": [one.whole for one in sizes],
        "earlier": sizes[0].number if sizes and sizes[0].number > 1 else None,
        "marks": _placed(marks) if marks else (),
        "first": marks[0][0] if marks else None,
        "last": marks[-1][0] if marks else None,
        "old": old,
        "new": new,
        "changes": await _changes(thread, old, new) if old is not None and new is not None else None,
        "at": request.query_params.get("at", ""),
        "then": [group.text for group in groups] if at is not None else None,
        "note": request.query_params.get("note", ""),
    }
    return show(request, "timeline.html", **values)


async def _activations(request: Request, thread: Thread) -> "Sequence[StoredEvent]":
    resource = ui_of(request).memory.resource(thread.resource)
    return await resource.journal(thread=thread.id, kinds="Activated", limit=_ACTIVATIONS)


def _marks(request: Request, history: Sequence[Generation], activations: "Sequence[StoredEvent]") -> list[Mark]:
    """Return the activations and generations in the order of time."""
    query = request.query_params
    found: list[Mark] = []
    for event in activations:
        words = f"{event.at.astimezone():%Y-%m-%d %H:%M}: {counted(len(event.data['groups']), 'group')} activated"
        found.append((event.at, "activation", words, ""))
    for one in history:
        if one.number:
            size = f"{brief(one.tokens_before)} → {brief(one.tokens_after)} tokens"
            words = f"{one.created_at.astimezone():%Y-%m-%d %H:%M}: generation {one.number}, {one.kind}, {size}"
            kind = "generation" if one.kind == "reflection" else "rewrite"
            href = address(
                "/time",
                resource=query.get("resource"),
                thread=query.get("thread"),
                old=str(one.number - 1),
                new=one.number,
            )
            found.append((one.created_at, kind, words, href))
    return sorted(found, key=lambda mark: mark[0])


def _placed(found: Sequence[Mark]) -> list[tuple[float, str, str, str]]:
    """Return marks with their places from 0 to 1. The longer a pause is, the more it is shortened."""
    reached = list(
        accumulate(
            (log1p((now[0] - before[0]).total_seconds() / _SHORT_PAUSE) for before, now in pairwise(found)), initial=0.0
        )
    )
    whole = reached[-1] or 1.0
    return [(place / whole, kind, words, href) for place, (_, kind, words, href) in zip(reached, found, strict=True)]


def _moment(request: Request) -> datetime | None:
    """Return the moment that was asked for. Without a zone it is meant in the zone of this machine, as the page shows times."""
    value = request.query_params.get("at", "")
    if not value:
        return None
    try:
        return datetime.fromisoformat(value).astimezone()
    except (ValueError, OverflowError):
        raise InputError(
            f"`at` must be a date with a time, got {value[:40]!r}.", then="Write 2026-03-14T09:15."
        ) from None


async def _changes(thread: Thread, old: int, new: int) -> list[tuple[str, str]]:
    """Return the lines of the difference between two generations, with their kinds."""
    before, after = [_lines(await thread.groups(generation=number)) for number in (old, new)]
    kinds = {"+": "add", "-": "cut", "@": "place"}
    made = difflib.unified_diff(before, after, lineterm="", n=1)
    lines = [(kinds.get(line[:1], "same"), plain(line)) for line in list(made)[2:]]
    left = len(lines) - _LINES
    return [*lines[:_LINES], *([("place", f"and {left:,} more lines")] if left > 0 else [])]


def _lines(groups: "Sequence[GroupRow]") -> list[str]:
    return [line for group in groups for line in group.text.splitlines()]


# ---------------------------------------------------------------- changes

_working: Final = set[asyncio.Task[object]]()


async def work(request: Request) -> Response:
    """Observe, activate or reflect now, or restore a generation. A model may take long: then the work goes on behind the page."""
    thread, form = thread_of(request), await form_of(request)
    match form.get("work"):
        case "observe":
            doing = thread.observe()
        case "activate":
            doing = thread.activate()
        case "reflect":
            doing = thread.reflect()
        case "restore":
            number = form.get("generation", "")
            if not number.isdecimal():
                raise InputError(f"`generation` must be a number, got {number[:40]!r}.", then="Reload the page.")
            doing = thread.restore(int(number))
        case other:
            raise InputError(f"There is no work {other!r:.40}.", then="Use a form of the page.")
    task: asyncio.Task[object] = asyncio.create_task(doing)
    _working.add(task)
    task.add_done_callback(_working.discard)
    done, _ = await asyncio.wait({task}, timeout=_PATIENCE)
    if done:
        task.result()
    note = "done" if done else "begun"
    return see("/time", resource=thread.resource, thread=thread.id, note=note)


PAGES = (
    Page(path="/time", title="Time", endpoint=timeline, about="thread"),
    Page(path="/time/work", title="Work", endpoint=work, about="thread", is_listed=False, methods=("POST",)),
)
