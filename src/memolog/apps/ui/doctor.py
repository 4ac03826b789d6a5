"""The doctor: check the stored rows of a resource or of the whole database, and show what it finds."""

from starlette.requests import Request
from starlette.responses import Response

from memolog.apps.ui.view import Page, memory_of, show

# The most findings of one kind that the page shows. All of one kind have the same cause.
_SHOWN = 20


async def doctor(request: Request) -> Response:
    """Show a form, and after it was sent the findings. The check reads every row, so opening the page does not start it."""
    resource = request.query_params.get("resource") or None
    report = None
    if request.query_params.get("check"):
        report = await memory_of(request).doctor(resource)
    return show(request, "doctor.html", report=report, most=_SHOWN)


PAGES = (Page(path="/doctor", title="Doctor", endpoint=doctor),)
