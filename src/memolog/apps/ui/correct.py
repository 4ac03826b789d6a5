"""One observation with its origin and the forms that correct, retract and reinstate it, and the form that forgets."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from memolog.apps.ui.view import Page, address, field_of, form_of, memory_of, named, resource_of, see, show
from memolog.core.message import Message, part_text
from memolog.core.observation import MARKS, Observation, Span
from memolog.core.reports import Forgotten
from memolog.errors import Conflict, InputError, NotFound
from memolog.memory import Resource

# The most sources of an observation that are shown, and the most messages of each.
_SOURCES: Final = 8
_MESSAGES: Final = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Quote:
    """The messages of one source of an observation."""

    thread: str
    span: Span
    messages: tuple[Message, ...]


async def observation(request: Request) -> Response:
    """Show what an observation says, the messages that it comes from, and what became of it."""
    resource = resource_of(request)
    origin = await resource.origin(named(request, "id"))
    one = origin.observation
    before = one.metadata.get("edit_of")
    return show(
        request,
        "observation.html",
        origin=origin,
        one=one,
        quotes=await _quotes(resource, one),
        before=await _known(resource, before) if isinstance(before, str) else None,
        priorities=MARKS,
    )


async def _known(resource: Resource, observation: str) -> Observation | None:
    """Return an observation, or None if it was forgotten."""
    try:
        return (await resource.origin(observation)).observation
    except NotFound:
        return None


async def _quotes(resource: Resource, observation: Observation) -> Sequence[Quote]:
    quotes: list[Quote] = []
    for source in observation.sources[:_SOURCES]:
        page = await resource.thread(source.thread).messages(
            after=source.span.first - 1, limit=min(_MESSAGES, len(source.span))
        )
        found = tuple(one for one in page.items if one.seq in source.span)
        quotes.append(Quote(thread=source.thread, span=source.span, messages=found))
    return quotes


def _back(request: Request, observation: str) -> Response:
    query = request.query_params
    return see("/observation", resource=query.get("resource"), thread=query.get("thread"), id=observation)


async def correct(request: Request) -> Response:
    """Replace the text or the priority of an observation, and show the new one."""
    resource, form = resource_of(request), await form_of(request)
    priority = form.get("priority") or None
    if priority is not None and priority not in MARKS:
        raise InputError(f"There is no priority {priority[:40]!r}.", then=f"Use one of {', '.join(MARKS)}.")
    one, text = named(request, "id"), field_of(form, "text")
    if (await resource.origin(one)).observation.state == "retracted":
        raise Conflict(
            "Somebody has corrected or retracted this line since the page was loaded.",
            why=f"You wrote: {text}",
            then="Find the present line in its thread, and correct that one.",
        )
    made = await resource.edit_observation(one, text, priority=priority)
    return _back(request, made.id)


async def retract(request: Request) -> Response:
    """Hide an observation from the model."""
    return _back(request, (await resource_of(request).retract(named(request, "id"))).id)


async def reinstate(request: Request) -> Response:
    """Undo a retraction."""
    return _back(request, (await resource_of(request).reinstate(named(request, "id"))).id)


# ---------------------------------------------------------------- forgetting


def _target(request: Request) -> tuple[dict[str, str], str, str]:
    """Return what is to be forgotten as arguments of `forget`, in words, and what must be typed to confirm it."""
    query = request.query_params
    what, resource, thread = query.get("what", ""), named(request, "resource"), query.get("thread") or ""
    if what == "observation":
        return {"observation": named(request, "id")}, f"the observation {named(request, 'id')}", "forget"
    if what == "message":
        of_thread = {"thread": thread} if thread else {}
        return {"message": named(request, "id"), **of_thread}, f"the message {named(request, 'id')}", "forget"
    if what == "thread":
        return {"thread": named(request, "thread")}, f"the thread {thread} of {resource}", thread
    if what == "resource":
        return {}, f"the whole memory of {resource}", resource
    raise InputError(
        f"Nothing of the kind {what[:40]!r} can be forgotten.", then="Use observation, message, thread or resource."
    )


async def _said(request: Request) -> str:
    """Return the words of the observation or the message that is to be forgotten, so that nobody has to know it by its id."""
    resource, query = resource_of(request), request.query_params
    if query.get("what") == "observation":
        return (await resource.origin(named(request, "id"))).observation.text
    if query.get("what") == "message":
        rows = await resource.message(named(request, "id"), thread=query.get("thread") or None)
        return " ".join(part_text(part) for row in rows for part in row.parts)
    return ""


async def forget(request: Request) -> Response:
    """Show what would go, with a form in which its name must be typed; and after that was done, what has gone."""
    arguments, words, phrase = _target(request)
    may_write = memory_of(request).config.read_only is False
    typed, gone = "", None
    chosen: dict[str, Any] = dict(arguments)
    if request.method == "POST":
        typed = (await form_of(request)).get("typed", "").strip()
        # A page shows several spaces as one, and none at the ends.
        if typed.split() == phrase.split():
            gone = await resource_of(request).forget(**chosen)
    report = gone
    if report is None and may_write:
        report = await resource_of(request).forget(**chosen, dry_run=True)
    values: dict[str, Any] = {
        "what": request.query_params.get("what"),
        "words": words,
        "phrase": phrase,
        "text": "" if gone else await _said(request),
        "wrong": request.method == "POST" and gone is None,
        "gone": gone is not None,
        "report": report,
        "counts": _counts(report) if report is not None else [],
        "again": address("/forget", **dict(request.query_params)),
    }
    return show(request, "forget.html", status=400 if values["wrong"] else 200, **values)


def _counts(report: Forgotten) -> list[tuple[str, int]]:
    counts = [
        ("threads", len(report.threads)),
        ("messages", report.messages),
        ("observations", len(report.observations)),
        ("reflections made again", len(report.reflections)),
        ("groups", report.groups),
        ("running runs", report.runs),
        ("current tasks of threads", report.hints),
        ("versions of working memory", report.working_memory),
        ("tasks", report.tasks),
        ("links of tasks", report.task_links),
        ("stored prompts", report.prompts),
        ("extracted values", report.extracts),
        ("compactions", report.compactions),
        ("records of contexts", report.contexts),
        ("events", report.events),
        ("entries of the search index", report.index),
    ]
    return [(name, count) for name, count in counts if count]


def _post(path: str, title: str, endpoint: Any) -> Page:
    return Page(path=path, title=title, endpoint=endpoint, about="resource", is_listed=False, methods=("POST",))


PAGES = (
    Page(path="/observation", title="Observation", endpoint=observation, about="resource", is_listed=False),
    _post("/observation/correct", "Correct", correct),
    _post("/observation/retract", "Retract", retract),
    _post("/observation/reinstate", "Reinstate", reinstate),
    Page(path="/forget", title="Forget", endpoint=forget, about="resource", is_listed=False, methods=("GET", "POST")),
)
