"""The overview: threads with their newest activity and their sizes, health, backlog and cost."""

import asyncio
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from starlette.requests import Request
from starlette.responses import Response

from memolog.apps.ui.view import Page, memory_of, show

if TYPE_CHECKING:
    from memolog.log.inspection import UsageDay

_RESOURCES: Final = 12
_THREADS: Final = 25
_DAYS: Final = 30


async def overview(request: Request) -> Response:
    """Show a page of the threads of all resources, or of one. The first page has the figures of the whole database."""
    memory, resource = memory_of(request), request.query_params.get("resource")
    after = request.query_params.get("after")
    threads = await memory.overview(resource=resource, limit=_THREADS, after=after)
    if after is not None:
        return show(request, "overview.html", threads=threads, figures=None, resources=())
    today = memory.clock.now().astimezone(UTC)
    start = datetime.combine(today.date() - timedelta(days=_DAYS - 1), datetime.min.time(), UTC)
    resources, usage, activity = await asyncio.gather(
        memory.latest_resources(limit=_RESOURCES + 1),
        memory.usage_by_day(since=start, resource=resource),
        memory.activity(),
    )
    figures = {"activity": activity, **_cost(usage, today)}
    return show(
        request,
        "overview.html",
        threads=threads,
        figures=figures,
        resources=() if resource else resources[:_RESOURCES],
        more_resources=len(resources) > _RESOURCES,
    )


def _cost(usage: "tuple[UsageDay, ...]", today: datetime) -> dict[str, object]:
    """Return the cost and the tokens of today and of the last days."""
    cost: defaultdict[str, float] = defaultdict(float)
    tokens: defaultdict[str, int] = defaultdict(int)
    for one in usage:
        day = one.day.isoformat()
        cost[day] += one.total.cost
        tokens[day] += one.total.input_tokens + one.total.output_tokens + one.total.cache_read_tokens
        tokens[day] += one.total.cache_write_tokens
    days = [(today.date() - timedelta(days=ago)).isoformat() for ago in reversed(range(_DAYS))]
    # Models without a price cost nothing. Then the tokens say more.
    chosen = cost if sum(cost.values()) else tokens
    return {
        "cost_today": cost[days[-1]],
        "cost": sum(cost.values()),
        "tokens": sum(tokens.values()),
        "days": [(day, chosen[day]) for day in days],
        "is_cost": chosen is cost,
    }


PAGES = (Page(path="/", title="Overview", endpoint=overview),)
