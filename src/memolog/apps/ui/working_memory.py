"""The working memory of a resource or a thread: its text, its versions, and the difference between any two of them."""

from starlette.requests import Request
from starlette.responses import Response

from memolog.apps.ui.view import Page, number_of, resource_of, show

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


PAGES = (Page(path="/working-memory", title="Working memory", endpoint=working_memory, about="resource"),)
