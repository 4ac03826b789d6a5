"""The overview: resources and threads with their newest activity, health, backlog and cost."""

from starlette.requests import Request
from starlette.responses import Response

from memolog.apps.ui.view import Page, memory_of, show


async def overview(request: Request) -> Response:
    """Show the resources."""
    return show(request, "overview.html", resources=await memory_of(request).resources())


PAGES = (Page(path="/", title="Overview", endpoint=overview),)
