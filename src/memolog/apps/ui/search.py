"""Search, with the filters of the call and the parts of each score; and recall, the exact words behind a reference."""

from typing import TYPE_CHECKING, Any, Final, cast

from starlette.requests import Request
from starlette.responses import Response

from memolog.apps.ui.view import Page, memory_of, resource_of, show
from memolog.errors import InputError, MemologError
from memolog.search.values import SOURCES

if TYPE_CHECKING:
    from memolog.search.values import RecallPage, Source

_RESULTS: Final = 20
# Without a resource, this many resources are searched, and this many results of each are shown.
_RESOURCES: Final = 12
_OF_EACH: Final = 5


async def search(request: Request) -> Response:
    """Show the results of a query: of one resource with filters, or the best ones of the latest active resources."""
    given = request.query_params
    query, resource = given.get("q", "").strip(), given.get("resource")
    chosen = tuple(name for name in given.getlist("source") if name in SOURCES)
    values: dict[str, Any] = {
        "sources": SOURCES,
        "chosen": chosen,
        "by": given.get("by", "message"),
        "around": given.get("context", ""),
    }
    if not query:
        return show(request, "search.html", answers=(), known=(), **values)
    memory = memory_of(request)
    named = cast("tuple[Source, ...]", chosen) or None
    if given.get("thread") and not resource:
        raise InputError("A thread belongs to a resource, and the search names none.", then="Name the resource too.")
    asked: dict[str, Any] = {
        "context": 1 if given.get("context") == "1" else 0,
        "sources": named,
        "by": "thread" if given.get("by") == "thread" else "message",
        "explain": True,
    }
    if resource:
        found = await memory.resource(resource).search(
            query, thread=given.get("thread") or None, limit=_RESULTS, cursor=given.get("cursor"), **asked
        )
        return show(request, "search.html", answers=[(resource, found)], known=(), **values)
    # A search is for one resource. The best ones of several cannot be ranked with each other, so each has its own list.
    known = await memory.latest_resources(limit=_RESOURCES + 1)
    answers = [
        (one.id, await memory.resource(one.id).search(query, limit=_OF_EACH, **asked)) for one in known[:_RESOURCES]
    ]
    return show(request, "search.html", answers=[pair for pair in answers if pair[1].results], known=known, **values)


async def recall(request: Request) -> Response:
    """Show the exact words behind a reference: a group, an observation, a message or a span."""
    given = request.query_params
    reference = given.get("ref", "").strip()
    page: RecallPage | None = None
    problem: MemologError | None = None
    if reference:
        try:
            page = await resource_of(request).recall(
                reference,
                thread=given.get("thread") or None,
                detail="full" if given.get("detail") == "full" else "low",
                cursor=given.get("cursor"),
            )
        except MemologError as error:
            problem = error
    return show(request, "recall.html", reference=reference, recalled=page, problem=problem, detail=given.get("detail"))


PAGES = (
    Page(path="/search", title="Search", endpoint=search),
    Page(path="/recall", title="Recall", endpoint=recall, about="resource"),
)
