"""The working memory of a resource or a thread: its text, its versions, and the difference between any two of them."""

from typing import TYPE_CHECKING, cast

from starlette.requests import Request
from starlette.responses import Response

from memolog.apps.ui.view import WHO, Page, form_of, number_of, resource_of, see, show
from memolog.core.exact_json import JsonObject, loads
from memolog.errors import InputError

if TYPE_CHECKING:
    from memolog.working_memory.calls import WorkingMemory

_A_PAGE = 20


async def working_memory(request: Request) -> Response:
    """Show the present text, or an old version, with the versions beside it."""
    resource, thread = resource_of(request), request.query_params.get("thread") or None
    of_thread = request.query_params.get("of") == "thread" and thread is not None
    memory = resource.working_memory(thread=thread if of_thread else None)
    document, before = await memory.read(), number_of(request, "before")
    versions = await memory.versions(limit=_A_PAGE + 1, before=before)
    old, new = number_of(request, "old"), number_of(request, "new")
    diff = await memory.diff(old, new) if document is not None and old is not None else None
    return show(
        request,
        "working_memory.html",
        document=document,
        of_thread=of_thread,
        versions=versions[:_A_PAGE],
        older=versions[_A_PAGE - 1].number if len(versions) > _A_PAGE else None,
        newest=before is None,
        old=old,
        new=new,
        diff=diff,
    )


async def change(request: Request) -> Response:
    """Store a new text, or an old one again. Later changes of other sections stay, and one of the same section is an error."""
    resource, form = resource_of(request), await form_of(request)
    thread, of = request.query_params.get("thread") or None, request.query_params.get("of")
    memory = resource.working_memory(thread=thread if of == "thread" else None)
    restored, read = form.get("restore", ""), form.get("version", "")
    if restored:
        await memory.restore(_version(restored), who=WHO)
    else:
        await memory.replace(
            await _content(memory, form.get("text", "")), who=WHO, version=_version(read) if read else None
        )
    return see("/working-memory", resource=resource.id, thread=thread, of=of)


def _version(value: str) -> int:
    if not value.isdecimal():
        raise InputError(f"`version` must be a whole number, got {value[:40]!r}.", then="Reload the page.")
    return int(value)


async def _content(memory: "WorkingMemory", text: str) -> str | JsonObject:
    """Return the text of a form as the content of a document: an object if the document is JSON."""
    document = await memory.read()
    if document is None or document.format != "json":
        return text
    try:
        value = loads(text)
    except ValueError as error:
        raise InputError(f"The text is not JSON: {error}.", then="Go back and correct it.") from None
    if not isinstance(value, dict):
        raise InputError("The text must be a JSON object.", then="Go back and correct it.")
    return cast("JsonObject", value)


PAGES = (
    Page(path="/working-memory", title="Working memory", endpoint=working_memory, about="resource"),
    Page(
        path="/working-memory/change",
        title="Change the working memory",
        endpoint=change,
        about="resource",
        is_listed=False,
        methods=("POST",),
    ),
)
