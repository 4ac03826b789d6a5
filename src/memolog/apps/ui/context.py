"""The context: what the model would see now, or what it saw at an earlier request, and what had changed since the one before."""

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from starlette.requests import Request
from starlette.responses import Response

from memolog.apps.ui.view import Page, number_of, show, thread_of
from memolog.errors import NotFound

if TYPE_CHECKING:
    from memolog.context.context import Context

_TAIL: Final = 60
# A longer difference is cut.
_DIFF_LINES: Final = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class Reuse:
    """How much of a context a prompt cache can take from the request before: the equal bytes at its beginning."""

    bytes: int
    whole: int

    @property
    def share(self) -> float:
        """Return the share of the context that is reused."""
        return self.bytes / self.whole if self.whole else 0.0


async def context(request: Request) -> Response:
    """Show a context with its blocks and messages, the size of each part, and the difference to the request before."""
    chosen, number = thread_of(request), number_of(request, "n")
    info = await chosen.info()
    last = max((record.number for record in await chosen.contexts(limit=1)), default=0)
    made = await (chosen.context() if number is None else chosen.seen(number))
    before_number = last if number is None else number - 1
    before: Context | None = None
    lost = ""
    if before_number >= 1:
        try:
            before = await chosen.seen(before_number)
        except NotFound as error:
            lost = error.what
    text = made.render_without_edge()
    reuse, changes = None, list[tuple[str, str]]()
    if before is not None:
        earlier = before.render_without_edge()
        reuse = Reuse(bytes=_equal_bytes(earlier, text), whole=len(text.encode("utf-8", "replace")))
        changes = _changes(earlier, text)
    full = request.query_params.get("all") == "yes"
    messages = made.messages
    return show(
        request,
        "context.html",
        info=info,
        made=made,
        number=number,
        last=last,
        before_number=before_number if before is not None else None,
        lost=lost,
        reuse=reuse,
        changes=changes[:_DIFF_LINES],
        more_changes=max(0, len(changes) - _DIFF_LINES),
        messages=messages if full else messages[-_TAIL:],
        hidden=0 if full else max(0, len(messages) - _TAIL),
    )


def _equal_bytes(first: str, second: str) -> int:
    """Return how many bytes are equal at the beginning of two texts."""
    one, other = first.encode("utf-8", "replace"), second.encode("utf-8", "replace")
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[:middle] == other[:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _changes(first: str, second: str) -> list[tuple[str, str]]:
    """Return the lines of the difference of two texts, each with its kind: add, cut or at."""
    kinds = {"+": "add", "-": "cut", "@": "at"}
    lines: Sequence[str] = list(difflib.unified_diff(first.splitlines(), second.splitlines(), lineterm="", n=1))[2:]
    return [(kinds.get(line[:1], ""), line) for line in lines]


PAGES = (Page(path="/context", title="Context", endpoint=context, about="thread"),)
