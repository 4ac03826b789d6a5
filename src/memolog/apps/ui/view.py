"""What all pages share: the list of pages, the memory of a request, and the rendering of templates."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias
from urllib.parse import parse_qsl, urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from memolog.apps.ui import charts, formats
from memolog.apps.ui.guard import UiSettings
from memolog.errors import InputError
from memolog.memory import Memory, Resource, Thread

Endpoint: TypeAlias = Callable[[Request], Awaitable[Response]]
Subject: TypeAlias = Literal["memory", "resource", "thread"]
# No database counts further. Larger numbers would not fit into its columns.
_MOST: Final = 10**15
# The parameters of an address that say what a page is about. They are in the links to the other pages too.
_SUBJECTS: Final = ("resource", "thread")


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One page: its address, its title in the navigation, and the function that answers."""

    path: str
    title: str
    endpoint: Endpoint
    about: Subject = "memory"
    """What the page is about. The navigation shows the pages about a thread only where a thread is chosen."""
    is_listed: bool = True
    """Whether the navigation shows it."""
    methods: tuple[str, ...] = ("GET",)


class Ui:
    """What the pages of one server share."""

    def __init__(self, memory: Memory, settings: UiSettings, pages: Sequence[Page], ending: asyncio.Event) -> None:
        self.memory, self.settings, self.pages, self.ending = memory, settings, tuple(pages), ending
        self._environment = Environment(
            loader=PackageLoader("memolog.apps.ui"),
            # Everything is escaped, whatever the name of a template ends with.
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            auto_reload=False,
        )
        self._environment.filters |= formats.FILTERS
        shared: dict[str, Any] = {**charts.CHARTS, "address": address, "may_write": settings.write}
        self._environment.globals.update(shared)

    def render(self, template: str, values: Mapping[str, Any]) -> str:
        """Return a template with values."""
        return self._environment.get_template(template).render(values)


def ui_of(request: Request) -> Ui:
    """Return what the pages share."""
    found: Ui = request.app.state.ui
    return found


def memory_of(request: Request) -> Memory:
    """Return the memory that is inspected."""
    return ui_of(request).memory


def resource_of(request: Request) -> Resource:
    """Return the resource of the address. Raise InputError if the address has none."""
    return memory_of(request).resource(named(request, "resource"))


def thread_of(request: Request) -> Thread:
    """Return the thread of the address. Raise InputError if the address has none."""
    return memory_of(request).thread(named(request, "thread"), resource=named(request, "resource"))


def named(request: Request, name: str) -> str:
    """Return a parameter of the address. Raise InputError if it is missing."""
    value = request.query_params.get(name)
    if not value:
        raise InputError(f"The address names no {name}.", then="Choose one on the overview.")
    return value


async def form_of(request: Request) -> dict[str, str]:
    """Return the fields of a form that was sent. Line ends are those of Unix, as in what is stored."""
    body = (await request.body()).decode("utf-8", "replace")
    return {name: value.replace("\r\n", "\n") for name, value in parse_qsl(body, keep_blank_values=True)}


def field_of(form: Mapping[str, str], name: str) -> str:
    """Return a field of a form. Raise InputError if it is missing or empty."""
    value = form.get(name, "").strip()
    if not value:
        raise InputError(f"The field `{name}` is empty.", then="Go back and fill it in.")
    return value


def number_of(request: Request, name: str) -> int | None:
    """Return a whole number of the address from 0 on, or None if it is missing. Raise InputError for anything else."""
    value = request.query_params.get(name)
    if not value:
        return None
    with suppress(ValueError):
        if 0 <= (found := int(value)) <= _MOST:
            return found
    raise InputError(
        f"`{name}` must be a whole number from 0 to {_MOST:,}, got {value[:40]!r}.", then="Follow a link of the page."
    )


def address(path: str, **parameters: object) -> str:
    """Return the address of a page. Parameters without a value are left out."""
    named = {name: value for name, value in parameters.items() if value is not None and value not in ("", ())}
    return f"{path}?{urlencode(named, doseq=True)}" if named else path


def show(request: Request, template: str, *, status: int = 200, **values: Any) -> Response:
    """Return a page. Its template extends `base.html`, and gets `values`."""
    ui = ui_of(request)
    subjects = {name: request.query_params.get(name) or "" for name in _SUBJECTS}
    page = next((one for one in ui.pages if one.path == request.url.path), None)
    common = {
        "page": page,
        "status": status,
        "subject": subjects,
        "navigation": _navigation(ui, subjects, request.url.path),
        "here": address(request.url.path, **dict(request.query_params)),
        "csrf": ui.settings.csrf,
        "query": request.query_params.get("q", ""),
        "now": ui.memory.clock.now(),
    }
    return HTMLResponse(ui.render(template, common | values), status)


def _navigation(ui: Ui, subjects: Mapping[str, str], path: str) -> list[dict[str, object]]:
    """Return the entries of the navigation: pages about everything, and those about the chosen resource and thread."""
    is_known = {
        "memory": True,
        "resource": bool(subjects["resource"]),
        "thread": bool(subjects["resource"] and subjects["thread"]),
    }
    entries: list[dict[str, object]] = []
    for page in ui.pages:
        if page.is_listed and is_known[page.about]:
            about = {} if page.about == "memory" else {name: subjects[name] for name in _SUBJECTS}
            entries.append(
                {
                    "title": page.title,
                    "about": page.about,
                    "href": address(page.path, **about),
                    "is_current": page.path == path,
                }
            )
    return entries


WHO: Final = "inspector"
"""The author of changes to tasks and working memory, as it stands in their histories."""


def see(path: str, **parameters: object) -> Response:
    """Send the browser to another page, after a form was processed."""
    return RedirectResponse(address(path, **parameters), 303)
