"""The cost of a resource or a thread: by day, by kind of work and model, and by thread."""

from collections import defaultdict
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from memolog.apps.ui.view import Page, memory_of, number_of, resource_of, show
from memolog.errors import InputError

_DAYS: Final = (7, 30, 90, 365)
_THREADS: Final = 25


async def cost(request: Request) -> Response:
    """Show what was spent in the last days."""
    resource, memory = resource_of(request), memory_of(request)
    days = number_of(request, "days") or _DAYS[1]
    if days not in _DAYS:
        raise InputError(
            f"The page shows {', '.join(map(str, _DAYS))} days, got {days}.", then="Follow a link of the page."
        )
    only = request.query_params.get("thread") if request.query_params.get("of") == "thread" else None
    today = memory.clock.now().astimezone(UTC).date()
    since = datetime.combine(today - timedelta(days=days - 1), datetime.min.time(), UTC)
    by_day = await memory.usage_by_day(since=since, resource=resource.id, thread=only)
    spent: defaultdict[str, float] = defaultdict(float)
    tokens: defaultdict[str, float] = defaultdict(float)
    for one in by_day:
        spent[one.day.isoformat()] += one.total.cost
        tokens[one.day.isoformat()] += one.total.input_tokens + one.total.output_tokens
    # A model without a known price costs nothing. Then the tokens say more.
    chosen = spent if sum(spent.values()) else tokens
    dates = [(today - timedelta(days=ago)).isoformat() for ago in reversed(range(days))]
    values: dict[str, Any] = {
        "days": days,
        "choices": _DAYS,
        "of_thread": only is not None,
        "total": await resource.usage(thread=only, since=since),
        "ever": await resource.usage(thread=only),
        "by_model": await resource.usage_by_model(thread=only, since=since),
        "by_thread": () if only else await resource.usage_by_thread(since=since, limit=_THREADS),
        "plot": [(date, chosen[date]) for date in dates],
        "is_cost": chosen is spent,
    }
    return show(request, "cost.html", **values)


PAGES = (Page(path="/cost", title="Cost", endpoint=cost, about="resource"),)
