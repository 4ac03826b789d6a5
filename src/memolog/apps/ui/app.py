"""The inspector as an application and as a server."""

import asyncio
import logging
import traceback
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from mimetypes import guess_type
from pathlib import Path
from typing import Any, Final

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from memolog.apps.network import check_token, is_loopback, open_socket, serving, url_of
from memolog.apps.ui import (
    context,
    correct,
    cost,
    doctor,
    live,
    overview,
    search,
    tasks,
    thread,
    timeline,
    why,
    working_memory,
)
from memolog.apps.ui.guard import STATIC, TOKEN, App, Guard, Refusal, UiSettings
from memolog.apps.ui.view import Endpoint, Page, Ui, address, show
from memolog.errors import ConfigError, Conflict, InputError, MemologError, NotFound, StoreBusy
from memolog.memory import Memory

_log = logging.getLogger("memolog.ui")
_FILES: Final = Path(__file__).with_name("static")
_WORDS: Final = {
    400: "That cannot be done",
    401: "Who are you?",
    403: "Not allowed",
    404: "Not found",
    405: "Not possible",
    409: "Not possible now",
    500: "Something went wrong",
    503: "The database is busy",
}
# Seconds that open requests have at the end.
_GRACE: Final = 5

PAGES: Final[tuple[Page, ...]] = (
    *overview.PAGES,
    *search.PAGES,
    *doctor.PAGES,
    *why.PAGES,
    *tasks.PAGES,
    *working_memory.PAGES,
    *cost.PAGES,
    *thread.PAGES,
    *context.PAGES,
    *timeline.PAGES,
    *correct.PAGES,
    *live.PAGES,
)
"""All pages, in the order of the navigation."""


def ui_app(memory: Memory, settings: UiSettings, *, ending: asyncio.Event | None = None) -> App:
    """Return the inspector as an ASGI application. The application does not close the memory.

    Set `ending` before the server stops, so that the streams of live events end.
    """
    ui = Ui(memory, settings, PAGES, ending or asyncio.Event())
    routes = [Route(page.path, _guarded(page.endpoint), methods=list(page.methods)) for page in PAGES]
    app = Starlette(
        routes=[*routes, Route(f"{STATIC}{{name}}", _static)],
        exception_handlers={
            MemologError: _memory_failed,
            HTTPException: _not_answered,
        },
    )
    app.state.ui = ui

    def refuse(refusal: Refusal) -> App:
        return HTMLResponse(
            ui.render("refused.html", _error(refusal.status, refusal.what, refusal.then) | {"asks": refusal.asks}),
            refusal.status,
        )

    return Guard(app, settings, refuse)


async def _static(request: Request) -> Response:
    """Return a file of the style sheet or of a script."""
    name = request.path_params["name"]
    known = {path.name: path for path in _FILES.iterdir()}
    if name not in known:
        raise HTTPException(404)
    kind = guess_type(name)[0] or "text/plain"
    return Response(known[name].read_bytes(), media_type=kind, headers={"cache-control": "no-cache"})


# ---------------------------------------------------------------- errors


def _error(status: int, what: str, then: str = "", why: str = "") -> dict[str, Any]:
    return {"status": status, "title": _WORDS.get(status, "Not answered"), "what": what, "why": why, "then": then}


async def _memory_failed(request: Request, error: Exception) -> Response:
    assert isinstance(error, MemologError)  # noqa: S101 - it is registered for this class only
    match error:
        case NotFound():
            status = 404
        case InputError():
            status = 400
        case Conflict():
            status = 409
        case StoreBusy():
            status = 503
        case _:
            status = 500
    return show(request, "error.html", **_error(status, error.what, error.then, error.why))


async def _not_answered(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101
    what = {
        404: "There is no page at this address.",
        405: "This page cannot be used in this way.",
    }.get(error.status_code, error.detail)
    values = _error(error.status_code, what, "Start from the overview.")
    return show(request, "error.html", **values)


def _guarded(endpoint: Endpoint) -> Endpoint:
    """Return a function that answers with a page also if `endpoint` fails for a reason that is an error of this program.

    The text of an error may quote a message, so the log has only its type and its place.
    """

    async def answered(request: Request) -> Response:
        try:
            return await endpoint(request)
        except (MemologError, HTTPException):
            raise
        except Exception as error:  # noqa: BLE001 - shown and logged
            frame = traceback.extract_tb(error.__traceback__)[-1]
            what = f"{type(error).__name__} at {Path(frame.filename).name}:{frame.lineno}"
            _log.error("The page %s failed: %s", request.url.path, what)
            advice = "Reload the page. If it fails again, report this line."
            return show(request, "error.html", **_error(500, f"The page failed: {what}.", advice))

    return answered


# ---------------------------------------------------------------- server


@dataclass(frozen=True, slots=True, kw_only=True)
class Listening:
    """Address of a running inspector."""

    host: str
    port: int
    token: str

    @property
    def base(self) -> str:
        """Return the address without the token."""
        return url_of(self.host, self.port)

    @property
    def url(self) -> str:
        """Return the address with the token. Who has it, sees everything."""
        return address(f"{self.base}/", **{TOKEN: self.token})


@asynccontextmanager
async def serve(
    memory: Memory, settings: UiSettings, *, host: str = "127.0.0.1", port: int = 8585
) -> AsyncGenerator[Listening]:
    """Run the inspector while the block runs, and yield its address. Port 0 means any free port."""
    check_token(settings.token, "The token of the inspector", ConfigError)
    if is_loopback(host) != settings.only_here:
        raise ConfigError(f"`only_here` must be {is_loopback(host)} for the address {host}.")
    ending = asyncio.Event()
    config = uvicorn.Config(
        ui_app(memory, settings, ending=ending),
        log_config=None,
        access_log=False,
        server_header=False,
        lifespan="on",
        timeout_graceful_shutdown=_GRACE,
    )
    listener = open_socket(host, port)
    async with serving(config, listener):
        try:
            yield Listening(host=host, port=listener.getsockname()[1], token=settings.token)
        finally:
            ending.set()
