"""The thread: its messages, its log, and the sources of the observation that is selected, in three columns."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from starlette.requests import Request
from starlette.responses import Response

from memolog.apps.ui.view import Page, number_of, resource_of, show, thread_of
from memolog.core.message import Message, ToolCallPart
from memolog.core.observation import Observation, Span
from memolog.core.run import KeptPrompt
from memolog.memory import Resource, Thread

if TYPE_CHECKING:
    from memolog.log.inspection import LogPage, Origin
    from memolog.log.status import Status

_MESSAGES: Final = 40
_LINES: Final = 60
# Messages before the one that is looked for.
_LEAD: Final = 6
# Messages of each source that are quoted, and sources of one observation.
_QUOTED: Final = 4
_SOURCES: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A window of messages, oldest first, and the numbers at which the windows beside it begin."""

    items: tuple[Message, ...]
    earlier: int | None
    later: int | None

    @property
    def span(self) -> Span | None:
        """Return the numbers of the window. None if it is empty."""
        return Span(first=self.items[0].seq, last=self.items[-1].seq) if self.items else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Quote:
    """Some messages of one source."""

    thread: str
    span: Span
    messages: tuple[Message, ...]


async def thread(request: Request) -> Response:
    """Show a window of the messages, a page of the log, and where the selected line comes from."""
    chosen, resource = thread_of(request), resource_of(request)
    info, status = await chosen.info(), await chosen.status()
    at, line = number_of(request, "at"), request.query_params.get("line")
    origin = await resource.origin(line) if line else None
    spans = _own_spans(origin.observation, chosen.id) if origin else []
    window = await _window(request, chosen, info.last_seq, at, spans)
    of_messages = request.query_params.get("log") == "messages"
    log: LogPage | None = None
    if not of_messages or window.span:
        log = await chosen.log_page(
            messages=window.span if of_messages else None,
            before=request.query_params.get("logbefore"),
            limit=_LINES,
        )
        # A line that is no longer in the log, or far up in it, is among those of its messages.
        if line and not of_messages and window.span and line not in {one.id for one in log.lines}:
            beside = await chosen.log_page(messages=window.span, limit=_LINES)
            if line in {one.id for one in beside.lines}:
                log, of_messages = beside, True
    prompts: tuple[KeptPrompt, ...] = ()
    if origin and origin.group.run:
        prompts = await chosen.prompts(origin.group.run.id)
    of_lines = {one.id: _own_spans(one, chosen.id) for one in (log.lines if log else ())}
    return show(
        request,
        "thread.html",
        info=info,
        thread_status=status,
        messages=window,
        states={message.seq: _state(message, status) for message in window.items},
        calls={
            part.id: part.name for message in window.items for part in message.parts if isinstance(part, ToolCallPart)
        },
        lit=_numbers(spans, at),
        log=log,
        of_messages=of_messages,
        logbefore=request.query_params.get("logbefore"),
        spans=of_lines,
        # Without a selected line, those that come from the message of the address are lit.
        lit_lines={one for one, found in of_lines.items() if not line and at in Numbers(found)},
        line=line,
        at=at,
        origin=origin,
        quotes=await _quotes(resource, origin) if origin else (),
        prompts=prompts,
    )


def _own_spans(line: Observation, thread: str) -> list[Span]:
    return [source.span for source in line.sources if source.thread == thread]


def _numbers(spans: Iterable[Span], at: int | None) -> "Numbers":
    return Numbers([*spans, *([Span(first=at, last=at)] if at else [])])


class Numbers:
    """The numbers of messages that are lit."""

    def __init__(self, spans: Sequence[Span]) -> None:
        self._spans = spans

    def __contains__(self, seq: int | None) -> bool:
        return seq is not None and any(seq in span for span in self._spans)


async def _window(request: Request, chosen: Thread, last: int, at: int | None, spans: Sequence[Span]) -> Shown:
    """Return the window that the address asks for: by a number, around the selected line, or the newest messages."""
    before, after = number_of(request, "before"), number_of(request, "after")
    if before is None and after is None:
        place = at if at is not None else max((span.first for span in spans), default=None)
        # The newest window is chosen if the place is in it.
        after = None if place is None or place > last - _MESSAGES + _LEAD else max(0, place - _LEAD - 1)
        before = last + 1 if after is None else None
    if before is not None:
        page = await chosen.messages(before=before, limit=_MESSAGES)
    else:
        page = await chosen.messages(after=after, limit=_MESSAGES)
    items = page.items
    if not items:
        return Shown(items=(), earlier=None, later=None)
    return Shown(
        items=items,
        earlier=items[0].seq if items[0].seq > 1 else None,
        later=items[-1].seq if items[-1].seq < last else None,
    )


def _state(message: Message, status: "Status") -> str:
    """Return what became of a message: in the tail, observed, condensed, withdrawn or forgotten."""
    if message.state != "live":
        return message.state
    if message.seq > status.cursor:
        return "tail"
    return "condensed" if message.level else "observed"


async def _quotes(resource: Resource, origin: "Origin") -> tuple[Quote, ...]:
    """Return the first messages of each source of an observation."""
    quotes: list[Quote] = []
    for source in origin.observation.sources[:_SOURCES]:
        of = resource.thread(source.thread)
        limit = min(_QUOTED, len(source.span))
        page = await of.messages(after=source.span.first - 1, limit=limit)
        quotes.append(Quote(thread=source.thread, span=source.span, messages=page.items))
    return tuple(quotes)


async def message(request: Request) -> Response:
    """Show one whole message with its continuations."""
    chosen = thread_of(request)
    rows = await resource_of(request).message(request.query_params.get("id", ""), thread=chosen.id)
    return show(request, "message.html", rows=rows)


PAGES = (
    Page(path="/thread", title="Thread", endpoint=thread, about="thread"),
    Page(path="/message", title="Message", endpoint=message, about="thread", is_listed=False),
)
