"""Store the vectors of messages and observations, and find the vectors that are near the vector of a query.

The vectors of a resource are searched exactly: by PostgreSQL if the extension pgvector is there, else with numpy. Vectors
that were read stay in memory, up to a limit. Vectors of a set have rising keys, so only new ones are read again. The transaction
that reads the hits also checks that their vectors still exist, because other processes may have deleted some.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from memolog.core.clock import to_micros
from memolog.db.engine import Calls, Engine
from memolog.db.queries import Row, Script, load_queries
from memolog.db.scope import FIRST, check_ids
from memolog.search.analysis import Redact
from memolog.search.embedding import Array, Matrix, Near, in_bytes, place_of, text_of_line, text_of_message

q = load_queries("search/vectors")
_SET_BITS: Final = 32
# The documents that are put into the queue in one transaction when an embedder is new.
_FILLED_AT_ONCE: Final = 2_000
# The vectors that are read or deleted at a time.
_PAGE: Final = 2_048
# The vectors of earlier times that are prepared for pgvector in one transaction.
_MIRRORED_AT_ONCE: Final = 1_000
# The maximum memory of all vectors that stay in memory. Larger sets are read for each query, page by page.
_MOST_BYTES: Final = 128 * 1024 * 1024
# With more products than this the similarity is computed in a worker thread. They take about half a millisecond.
_BRIEF: Final = 500_000
# If more than this share of the vectors in memory was deleted, all are read again.
_MOST_DEAD: Final = 0.25
# A process that makes vectors is dead if it has not begun a batch for so long.
_CLAIM: Final = timedelta(minutes=2)


class Wanted(NamedTuple):
    """A text without a vector."""

    pk: int
    """The key in the queue."""
    doc: int
    resource: str
    text: str
    thread: str | None = None
    """The thread to which its cost belongs, if there is one."""


class Vectors(Calls):
    """Reads and writes vectors. The vectors of each embedder are apart, and never compared with those of another one."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self._matrices: OrderedDict[int, Matrix] = OrderedDict()
        """By set, the vectors in memory, the set that was used last at the end."""
        self._reading: dict[int, asyncio.Lock] = {}

    # ------------------------------------------------------------ embedders

    async def chosen(self, name: str) -> tuple[int, int, bool] | None:
        """Return key and dimension of an embedder, and whether it was chosen last. None if it was never used."""
        rows = await self.engine.fetch(q.embedder_named(name=name), lambda row: row)
        return (rows[0].pk, rows[0].dimension, rows[0].chosen == rows[0].newest) if rows else None

    async def choose(self, name: str, dimension: int) -> int:
        """Choose an embedder, and return its key. When its vectors are complete, those of others are deleted."""
        check_ids(embedder=name)

        def script() -> Script[int]:
            return (yield q.choose_embedder(name=name, dimension=dimension, first=FIRST))[0].pk

        return await self.engine.write(script, name="vectors.choose")

    # ------------------------------------------------------------ making

    async def claim(self, embedder: int, owner: str, now: datetime) -> bool | None:
        """Claim the making of vectors for this process. Return False if another process makes them.

        Return None if the embedder was replaced by another one.
        """
        at = to_micros(now)

        def script() -> Script[bool | None]:
            end = to_micros(now + _CLAIM)
            rows = yield q.claim_making(embedder_pk=embedder, owner=owner, now=at, made_until=end)
            if rows:
                return True
            return False if (yield q.read_embedder(embedder_pk=embedder)) else None

        return await self.engine.write(script, name="vectors.claim")

    async def release(self, embedder: int, owner: str) -> None:
        """Let other processes make vectors."""

        def script() -> Script[None]:
            yield q.end_making(embedder_pk=embedder, owner=owner)

        await self.engine.write(script, name="vectors.release")

    async def batch(
        self, embedder: int, redact: Redact, *, limit: int, resource: str | None = None, after: int = 0
    ) -> list[Wanted] | None:
        """Return the next texts without a vector, of one resource or of all. Return None if the embedder was replaced.

        `after` is the key in the queue after which they are.
        """
        while is_filled := await self._fill(embedder):
            pass
        if is_filled is None:
            return None

        def script() -> Script[tuple[Sequence[Row], Sequence[Row], Sequence[Row]]]:
            if resource is None:
                rows = yield q.wanted(embedder_pk=embedder, limit=limit, after=after)
            else:
                rows = yield q.wanted_of(embedder_pk=embedder, resource=resource, limit=limit, after=after)
            docs = [row.doc for row in rows]
            if not docs:
                return rows, (), ()
            return rows, (yield q.message_texts(docs=docs)), (yield q.line_texts(docs=docs))

        rows, messages, lines = await self.engine.read(script, brief=False)
        texts = await asyncio.to_thread(_texts, messages, lines, redact)
        threads: dict[int, str | None] = {row.doc: row.thread for row in (*messages, *lines)}
        return [Wanted(row.pk, row.doc, row.resource, texts.get(row.doc, ""), threads.get(row.doc)) for row in rows]

    async def _fill(self, embedder: int) -> bool | None:
        """Put the next documents into the queue of a new embedder. Return whether there may be more, or None if it is gone."""
        rows = await self.engine.fetch(q.read_embedder(embedder_pk=embedder), lambda row: row)
        if not rows or rows[0].filled is None:
            return False if rows else None

        def script() -> Script[bool]:
            known = yield q.read_embedder(embedder_pk=embedder)
            if not known or known[0].filled is None:
                return False
            after = known[0].filled
            last = (yield q.next_to_fill(after=after, limit=_FILLED_AT_ONCE))[0].doc
            if last is not None:
                scopes = [row.scope_pk for row in (yield q.scopes_to_fill(after=after, up_to=last))]
                yield q.lock_scope.many([{"scope_pk": pk} for pk in scopes])
                yield q.fill(embedder_pk=embedder, after=after, up_to=last, scopes=scopes)
            yield q.set_filled(embedder_pk=embedder, filled=last)
            return last is not None

        return await self.engine.write(script, name="vectors.fill", brief=False)

    async def add(self, embedder: int, made: Sequence[tuple[Wanted, Array | None]]) -> int | None:
        """Store vectors of texts that have not changed since they were read. Return how many texts waited.

        A text without a vector only leaves the queue. Return None if the embedder was replaced.
        """
        coded = await asyncio.to_thread(lambda: {one.pk: in_bytes(array) for one, array in made if array is not None})

        def script() -> Script[int | None]:
            if not (yield q.read_embedder(embedder_pk=embedder)):
                return None
            rows = yield q.claim_wanted(pks=[one.pk for one, _ in made])
            claimed = {row.pk for row in rows}
            by_resource: dict[str, list[Wanted]] = {}
            for one, array in made:
                if array is not None and one.pk in claimed:
                    by_resource.setdefault(one.resource, []).append(one)
            # In a fixed order, to avoid deadlocks.
            for resource, some in sorted(by_resource.items()):
                taken = (yield q.take_set(embedder_pk=embedder, resource=resource, count=len(some)))[0]
                first = (taken.pk << _SET_BITS) + taken.last - len(some) + 1
                values = [
                    {"pk": pk, "place": place_of(one.doc), "scale": coded[one.pk][0], "vector": coded[one.pk][1]}
                    for pk, one in enumerate(some, first)
                ]
                yield q.add_vector.many(values)
            return len(claimed)

        return await self.engine.write(script, name="vectors.add", brief=False)

    async def forget_older(self, embedder: int) -> bool:
        """Delete some vectors of embedders that were chosen before. Return whether there are more."""

        def script() -> Script[bool]:
            known = yield q.read_embedder(embedder_pk=embedder)
            if not known:
                return False
            chosen = known[0].chosen
            old = yield q.older_set(chosen=chosen)
            if not old:
                yield q.forget_older_queue(chosen=chosen)
                yield q.forget_older(chosen=chosen)
                return False
            first = old[0].pk << _SET_BITS
            yield q.delete_vectors(first=first, last=first + (1 << _SET_BITS) - 1)
            yield q.delete_set(pk=old[0].pk)
            return True

        return await self.engine.write(script, name="vectors.forget", brief=False)

    async def waiting(self, embedder: int, resource: str) -> int:
        """Return how many texts of a resource are in the queue."""
        step = q.count_wanted_of(embedder_pk=embedder, resource=resource)
        return (await self.engine.fetch(step, tuple[int]))[0][0]

    async def mirror(self) -> bool:
        """Prepare some vectors for pgvector, if it was installed after they were made. Return whether there may be more."""
        if self.engine.dialect != "postgres":
            return False

        def script() -> Script[bool]:
            return (yield q.mirror(most=_MIRRORED_AT_ONCE))[0].mirrored > 0

        return await self.engine.write(script, name="vectors.mirror", brief=False)

    # ------------------------------------------------------------ finding

    async def nearest(
        self, resource: str, embedder: int, query: Array, *, count: int, least: float, threads: Sequence[str] = ()
    ) -> list[Near]:
        """Return the texts of a resource that are nearest to a query, the nearest first."""
        check_ids(resource=resource)

        is_postgres = self.engine.dialect == "postgres"
        set_of = q.mirrored_set_of if is_postgres else q.set_of

        def script() -> Script[tuple[Row | None, list[int], list[Near] | None]]:
            sets = yield set_of(resource=resource, embedder_pk=embedder)
            rows = (yield q.thread_pks(resource=resource, threads=list(threads))) if threads else ()
            thread_pks = [row.pk for row in rows]
            if not sets or (threads and not thread_pks):
                return None, [], []
            if not is_postgres or not sets[0].is_mirrored:
                return sets[0], thread_pks, None
            near = yield q.nearest(
                set_pk=sets[0].pk, query=query.tolist(), most=count, lowest=least, threads=thread_pks
            )
            return sets[0], thread_pks, [Near(*row) for row in near]

        found, thread_pks, near = await self.engine.read(script, brief=not is_postgres)
        if found is None or near is not None:
            return near or []
        first = found.pk << _SET_BITS
        if found.last * len(query) > _MOST_BYTES:
            return await self._nearest_by_page(first, first + found.last, query, count, least, thread_pks)
        matrix = await self._matrix(found.pk, first + found.last, len(query))
        return await _scored(matrix, query, count, least, thread_pks)

    async def _matrix(self, set_pk: int, last: int, dimension: int) -> Matrix:
        """Return the vectors of a set up to `last`, and read those that are not in memory."""
        async with self._reading.setdefault(set_pk, asyncio.Lock()):
            matrix = self._matrices.get(set_pk)
            if matrix is None or matrix.dead > _MOST_DEAD * matrix.size:
                matrix = Matrix(dimension)
            self._matrices[set_pk] = matrix
            self._matrices.move_to_end(set_pk)
            after = max(matrix.last, set_pk << _SET_BITS)
            while after < last and (rows := await self._page(after, last)):
                await asyncio.to_thread(matrix.add, rows)
                after = matrix.last
        used = sum(one.bytes for one in self._matrices.values())
        while used > _MOST_BYTES and len(self._matrices) > 1:
            forgotten, oldest = self._matrices.popitem(last=False)
            self._reading.pop(forgotten, None)
            used -= oldest.bytes
        return matrix

    async def _page(self, after: int, last: int) -> Sequence[Row]:
        step = q.vectors_after(after=after, last=last, limit=_PAGE)
        return await self.engine.fetch(step, lambda row: row, brief=False)

    async def _nearest_by_page(
        self, after: int, last: int, query: Array, count: int, least: float, threads: Sequence[int]
    ) -> list[Near]:
        """Return the nearest texts of a set that is too large for memory."""
        best: list[Near] = []
        while rows := await self._page(after, last):
            matrix = Matrix(len(query))
            await asyncio.to_thread(matrix.add, rows)
            best += await _scored(matrix, query, count, least, threads)
            best = sorted(best, key=lambda near: (-near.similarity, -near.place))[:count]
            after = matrix.last
        return best

    def removed(self, near: Sequence[Near], alive: Collection[int]) -> None:
        """Note that vectors in memory were deleted from the database: those that are near but not `alive`."""
        gone: dict[int, list[int]] = {}
        for one in near:
            if one.pk not in alive:
                gone.setdefault(one.pk >> _SET_BITS, []).append(one.pk)
        for set_pk, pks in gone.items():
            if set_pk in self._matrices:
                self._matrices[set_pk].remove(pks)


async def _scored(matrix: Matrix, query: Array, count: int, least: float, threads: Sequence[int]) -> list[Near]:
    if matrix.size * matrix.dimension > _BRIEF:
        return await asyncio.to_thread(matrix.nearest, query, count, least, threads)
    return matrix.nearest(query, count, least, threads)


def _texts(messages: Sequence[Row], lines: Sequence[Row], redact: Redact) -> dict[int, str]:
    return {row.doc: text_of_message(row, redact) for row in messages} | {
        row.doc: text_of_line(row, redact) for row in lines
    }
