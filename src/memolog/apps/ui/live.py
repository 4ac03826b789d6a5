"""Tell open pages about changes, as server-sent events. Changes of other processes are found by looking at the database."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import suppress

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from memolog.apps.ui.view import Page, memory_of, ui_of
from memolog.core.exact_json import dumps, encode
from memolog.errors import MemologError

# Seconds without a change after which a comment is sent, so that a broken connection is noticed.
_QUIET = 15.0
# The most new decisions and runs that one event has. A page that shows more loads itself again.
_MOST = 50


async def events(request: Request) -> Response:
    """Send an event `changed` after each change: of a resource if the address names one, else of the whole database."""
    stream = _changes(request, request.query_params.get("resource"), request.query_params.get("thread"))
    headers = {"x-accel-buffering": "no"}
    return StreamingResponse(stream, media_type="text/event-stream", headers=headers)


async def _changes(request: Request, resource: str | None, thread: str | None) -> AsyncGenerator[str]:
    """Yield server-sent events. Each `changed` has the new decisions, runs and activations of the resource."""
    memory, ui = memory_of(request), ui_of(request)
    loop = asyncio.get_running_loop()
    one = memory.resource(resource) if resource else None
    look = one.revision if one is not None else memory.revision
    before = await look()
    number = 0
    if one is not None:
        number = max((event.number for event in await one.journal(limit=1)), default=0)
    sent = loop.time()
    # A browser that loses the connection tries again after this time.
    yield "retry: 2000\n\n"
    while not (ui.ending.is_set() or await request.is_disconnected()):
        with suppress(TimeoutError):
            await asyncio.wait_for(ui.ending.wait(), ui.settings.every)
            return
        try:
            now = await look()
            new = (
                await one.journal(thread=thread, after=number, limit=_MOST) if one is not None and now != before else ()
            )
        except MemologError:
            # The database is busy or away. The page stays as it is, and the next look may succeed.
            continue
        if now != before:
            number = max((event.number for event in new), default=number)
            told = [{"number": e.number, "kind": e.kind, "thread": e.thread, "at": encode(e.at)} for e in new]
            yield f"event: changed\ndata: {dumps({'events': told})}\n\n"
            before, sent = now, loop.time()
        elif loop.time() - sent > _QUIET:
            yield ": nothing new\n\n"
            sent = loop.time()


PAGES = (Page(path="/events", title="Events", endpoint=events, is_listed=False),)
