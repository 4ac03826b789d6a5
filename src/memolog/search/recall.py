"""Recall pages of exact messages from a reference."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, cast, get_args

from memolog.core.message import Message, ToolResultPart
from memolog.db.scope import FIRST, check_choices, check_number, page_key, page_token
from memolog.errors import InputError
from memolog.search.recall_page import LEAST_TOKENS, PageDraft, PartFilter
from memolog.search.recall_store import Place, Position, Reference
from memolog.search.values import Detail, PartType, RecallPage
from memolog.text.tokens import TokenCounter

if TYPE_CHECKING:
    from memolog.store import Store

# Rows are read in growing batches: most pages need few, and a filter may skip many.
_FIRST_BATCH: Final = 12
_LAST_BATCH: Final = 200
# A page ends after this many rows even if none matched; its cursor continues.
_MOST_ROWS: Final = 5_000
_FORWARD: Final = "f"
_BACK: Final = "b"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallRequest:
    """The arguments of a recall."""

    reference: Reference
    thread: str | None = None
    detail: Detail = "low"
    types: Collection[PartType] | PartType = ()
    tool: str | None = None
    part: int | None = None
    tokens: int = 2_000
    cursor: str | None = None

    def __post_init__(self) -> None:
        if self.detail not in get_args(Detail):
            raise InputError(f"`detail` must be 'low' or 'full', got {self.detail!r}.", then='Pass detail="full".')
        # A single type may be passed without a list.
        object.__setattr__(self, "types", check_choices("type of part", self.types, get_args(PartType)))
        if check_number("tokens", self.tokens, then="Pass a number, such as tokens=2000.") < LEAST_TOKENS:
            raise InputError(
                f"`tokens` must be {LEAST_TOKENS} or more, got {self.tokens}.",
                then=f"Pass tokens={LEAST_TOKENS} or more.",
            )
        if self.part is not None and check_number("part", self.part) < 0:
            raise InputError(f"`part` must be 0 or more, got {self.part}.", then="Count the parts of a message from 0.")


async def recall(
    store: "Store", counter: TokenCounter, resource: str, request: RecallRequest, *, shared: bool
) -> RecallPage:
    """Return a page of the messages behind a reference."""
    place = await store.recall.find(
        resource, request.reference, thread=request.thread, shared=shared, alone=request.part is not None
    )
    wanted = PartFilter(
        types=frozenset(cast("Collection[PartType]", request.types)), tool=request.tool, part=request.part
    )
    labels = {stretch.thread: stretch.label for stretch in place.stretches if stretch.label}
    if len({stretch.thread for stretch in place.stretches}) > 1:
        labels = {stretch.thread: stretch.label or stretch.thread for stretch in place.stretches}
    draft = PageDraft(counter=counter, tokens=request.tokens, detail=request.detail, wanted=wanted, labels=labels)
    walk = _Walk(store, resource, place, draft)
    is_back, position = _read_cursor(request.cursor, place.start)
    stopped = await walk.fill(position, back=is_back)
    if is_back:
        after, before = f"{_FORWARD}.{page_token(position)}", stopped and f"{_BACK}.{page_token(stopped)}"
    else:
        after = stopped and f"{_FORWARD}.{page_token(stopped)}"
        before = f"{_BACK}.{page_token(position)}" if position > place.begins else None
    return RecallPage(
        items=tuple(draft.items),
        text=draft.text,
        tokens=counter.count(draft.text),
        detail=request.detail,
        next=after,
        previous=before,
    )


class _Walk:
    def __init__(self, store: "Store", resource: str, place: Place, draft: PageDraft) -> None:
        self._store, self._resource, self._place, self._draft = store, resource, place, draft
        self._keys = {stretch.thread: stretch.thread_pk for stretch in place.stretches}

    async def fill(self, position: Position, *, back: bool) -> Position | None:
        """Fill the page forwards or backwards from a position; return where to continue, None at the end."""
        batch, looked = _FIRST_BATCH, 0
        while looked < _MOST_ROWS:
            rows = await self._store.recall.rows(self._resource, self._place, position, back=back, limit=batch)
            await self._learn_tools(rows[::-1] if back else rows)
            for message in _said(rows):
                here = self._keys[message.thread], message.seq
                at = position[2:] if position[:2] == here else None
                stopped = self._draft.add(message, at, back=back)
                if stopped is not None:
                    return *here, *stopped
            if len(rows) < batch:
                return None
            position = self._keys[rows[-1].thread], rows[-1].seq + (0 if back else 1), 0, 0
            looked, batch = looked + len(rows), min(2 * batch, _LAST_BATCH)
        return position

    async def _learn_tools(self, rows: tuple[Message, ...]) -> None:
        """Find the names of the tools of these rows, since a result need not have it."""
        self._draft.learn(rows)
        nameless = {
            part.call_id: message
            for message in reversed(rows)
            for part in message.parts
            if isinstance(part, ToolResultPart) and not part.name and part.call_id not in self._draft.tools
        }
        for message in {message.seq: message for message in nameless.values()}.values():
            if any(call not in self._draft.tools for call, owner in nameless.items() if owner is message):
                self._draft.learn(await self._store.recall.calls_before(self._resource, message.thread, message.seq))


def _said(rows: Iterable[Message]) -> Iterable[Message]:
    return (message for message in rows if not message.own)


def _read_cursor(cursor: str | None, start: Position) -> tuple[bool, Position]:
    if cursor is None:
        return False, start
    direction, _, rest = cursor.partition(".") if isinstance(cursor, str) else ("", "", "")  # pyright: ignore[reportUnnecessaryIsInstance]
    if direction not in {_FORWARD, _BACK}:
        raise InputError(
            f"`cursor` must be the `next` or `previous` of a page, got {cursor!r}.", then="Pass it unchanged."
        )
    thread_pk, seq, part, character = page_key(rest, (FIRST,) * 4)
    return direction == _BACK, (thread_pk, max(seq, 0), max(part, 0), max(character, 0))
