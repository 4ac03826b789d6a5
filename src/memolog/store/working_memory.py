"""Working memory in the store: the present document, every version of it, and what a context shows.

Knows the rows of documents. A change names the version it was made from or is made on what is there; exactly one writer wins,
and the other's change is made again on what the winner wrote, or refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from memolog.documents.changes import Change, Wanted, author_of_conflict, checked, replaced, settled
from memolog.domain.clock import Clock
from memolog.domain.codec import JsonObject, decode, dumps, encode, loads, object_text, pack, unpack
from memolog.domain.errors import Conflict, DocumentConflict, DocumentNotFound, InputError, ThreadNotFound
from memolog.domain.moments import from_micros, to_micros
from memolog.domain.thread import Hints
from memolog.domain.working_memory import Document, DocumentVersion, Proposal
from memolog.store.engine import Engine
from memolog.store.scope import LAST, CleanValue, check_id, check_limit, check_number
from memolog.store.sql import Row, Script, load_queries

__all__ = [
    "NO_FACTS",
    "OBSERVER",
    "Facts",
    "WorkingMemories",
    "applying",
    "changing",
    "copying_document",
    "present_versions",
    "reading_facts",
    "with_proposal",
]

q = load_queries("working_memory")
logs = load_queries("logs")

OBSERVER = "observer"
"""Who a change is by that was made from the log."""
_ATTEMPTS = 8
_MOST_BLAMED = 200
"""How many of the latest versions are looked through for who wrote what a change runs into."""
_WHOLE = 0
"""Stands for the resource where a thread's key is asked for; no thread has it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """The working memory that a context shows: as it was when the generation began, and as it is."""

    before: Mapping[str, str] = field(default_factory=dict[str, str])
    """The texts by scope: resource, thread."""
    now: Mapping[str, str] = field(default_factory=dict[str, str])
    versions: Mapping[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])
    """The version of each, then and now (0: there was none)."""


NO_FACTS = Facts()


class WorkingMemories:
    """The working memory of every resource, one resource at a time."""

    def __init__(self, engine: Engine, clock: Clock, clean: CleanValue | None = None) -> None:
        self._engine, self._clock, self._clean = engine, clock, clean

    async def get(self, resource: str, thread: str | None = None) -> Document | None:
        """Return the document of a resource, or of one of its threads; None if there is none."""
        _check(resource, thread)

        def script() -> Script[Document | None]:
            thread_pk = yield from _thread_pk(resource, thread)
            return (yield from _get(resource, thread, thread_pk))

        return await self._engine.read(script)

    async def change(
        self,
        resource: str,
        change: Change,
        *,
        thread: str | None = None,
        who: str,
        most: int,
        read: int | None = None,
    ) -> Document:
        """Make a change and keep it as a new version; nothing is written where nothing changes.

        `read` is the version that the change was made from: what others wrote since is kept if it touches other parts, and
        a DocumentConflict if not. Without it the change is made on whatever is there.
        """
        _check(resource, thread)
        check_id("author", who)
        now, clean = to_micros(self._clock.now()), self._clean

        def cleaned(document: Document | None) -> Wanted:
            wanted = change(document)
            return wanted if clean is None else replace(wanted, text=str(clean(wanted.text)))

        def script() -> Script[Document]:
            thread_pk = yield from _thread_pk(resource, thread)
            return (yield from changing(resource, thread, thread_pk, cleaned, who=who, most=most, read=read, now=now))

        for _ in range(_ATTEMPTS - 1):
            try:
                return await self._engine.write(script, name="working_memory.change")
            except DocumentConflict:
                raise
            except Conflict:
                # Somebody was first: the change is made again, on what they wrote.
                continue
        return await self._engine.write(script, name="working_memory.change")

    async def version(self, resource: str, number: int, *, thread: str | None = None) -> DocumentVersion:
        """Return one version; raises DocumentNotFound."""
        _check(resource, thread)

        def script() -> Script[DocumentVersion]:
            thread_pk = yield from _thread_pk(resource, thread)
            return (yield from _version(resource, thread_pk, number))

        return await self._engine.read(script)

    async def versions(
        self, resource: str, thread: str | None = None, *, limit: int = 50, before: int | None = None
    ) -> tuple[DocumentVersion, ...]:
        """Return the versions, newest first; pass the last number as `before` for older ones."""
        _check(resource, thread)
        check_limit(limit)
        end = LAST if before is None else check_number("before", before)

        def script() -> Script[tuple[DocumentVersion, ...]]:
            thread_pk = yield from _thread_pk(resource, thread)
            rows = yield q.versions_before(resource=resource, thread_pk=thread_pk, before=end, limit=limit)
            return tuple(map(_version_from_row, rows))

        return await self._engine.read(script)


# ---------------------------------------------------------------- pieces of scripts


def _check(resource: str, thread: str | None) -> None:
    check_id("resource", resource)
    if thread is not None:
        check_id("thread", thread)


def _thread_pk(resource: str, thread: str | None) -> Script[int]:
    if thread is None:
        return _WHOLE
    rows = yield logs.thread_head(resource=resource, thread=thread)
    if not rows:
        raise ThreadNotFound(thread)
    return rows[0][0]


def _get(resource: str, thread: str | None, thread_pk: int) -> Script[Document | None]:
    rows = yield q.document(resource=resource, thread_pk=thread_pk)
    return _document(rows[0], resource, thread) if rows else None


def _version(resource: str, thread_pk: int, number: int) -> Script[DocumentVersion]:
    if not 0 < number <= LAST:
        raise InputError(f"Versions begin at 1, {number} is none.", then="See versions().")
    rows = yield q.version_of(resource=resource, thread_pk=thread_pk, version=number)
    if not rows:
        raise DocumentNotFound(f"The working memory has no version {number}.", then="See versions().")
    return _version_from_row(rows[0])


def changing(
    resource: str,
    thread: str | None,
    thread_pk: int,
    change: Change,
    *,
    who: str,
    most: int,
    now: int,
    read: int | None = None,
) -> Script[Document]:
    """Make a change within a larger script; raises Conflict if another writer was first."""
    yield q.lock_document(resource=resource, thread_pk=thread_pk)
    rows = yield q.document(resource=resource, thread_pk=thread_pk)
    present = _document(rows[0], resource, thread) if rows else None
    number = present.current.number if present else 0
    if read is None or read == number:
        wanted = change(present)
    elif present is None or read > number or read < 0:
        raise InputError(f"This change was made from version {read}, which does not exist.", then="Read it again.")
    else:
        base = (
            (yield from _version(resource, thread_pk, read))
            if read
            else DocumentVersion(number=0, text="", by=who, at=present.current.at)
        )
        try:
            wanted = settled(present, base, change)
        except DocumentConflict as conflict:
            if not conflict.parts:
                raise
            # The latest version may be by another, even by whoever makes this change: who is named is who wrote these parts.
            since = min(number - 1 - read, _MOST_BLAMED)
            between = yield q.versions_before(resource=resource, thread_pk=thread_pk, before=number, limit=since)
            by = author_of_conflict(present, base, [_version_from_row(row) for row in reversed(between)], change)
            raise DocumentConflict(read, number, by, conflict.parts) from None
    wanted = checked(wanted, most)
    if present is not None and wanted == Wanted(
        text=present.current.text, format=present.format, schema=present.schema
    ):
        return present
    document_pk = rows[0][0] if rows else None
    yield from _writing(resource, thread_pk, document_pk, number, wanted, who, now)
    written = DocumentVersion(number=number + 1, text=wanted.text, by=who, at=from_micros(now))
    return Document(resource=resource, thread=thread, format=wanted.format, current=written, schema=wanted.schema)


def _writing(
    resource: str, thread_pk: int, document_pk: int | None, number: int, wanted: Wanted, who: str, now: int
) -> Script[None]:
    schema = None if wanted.schema is None else object_text("The schema", wanted.schema)
    if document_pk is None:
        made = yield q.create_document(
            resource=resource, thread_pk=thread_pk or None, format=wanted.format, schema=schema
        )
        document_pk = made[0][0] if made else None
    else:
        made = yield q.advance_document(document_pk=document_pk, version=number, format=wanted.format, schema=schema)
    if not made:
        raise Conflict("The working memory has changed since it was read.", then="Read it again.")
    yield q.add_version(document_pk=document_pk, version=number + 1, now=now, who=pack(who), text=pack(wanted.text))


def copying_document(resource: str, source_pk: int, target_pk: int, now: int) -> Script[None]:
    """Give a thread's clone the present text of its document."""
    rows = yield q.document(resource=resource, thread_pk=source_pk)
    if rows:
        _, format_, schema, _, text, who, _ = rows[0]
        made = yield q.create_document(resource=resource, thread_pk=target_pk, format=format_, schema=schema)
        yield q.add_version(document_pk=made[0][0], version=1, now=now, who=who, text=text)


def with_proposal(
    hints: Hints | None, proposal: Proposal | None, of_threads: Mapping[str, Hints] = MappingProxyType({})
) -> str | None:
    """Return what takes effect when a group is activated: the hints, and what would become of the working memory.

    A reflection of a shared log has hints for several threads.
    """
    told: dict[str, Any] = dict(encode(hints)) if hints else {}
    if of_threads:
        told["threads"] = {thread: encode(said) for thread, said in of_threads.items()}
    if proposal is not None:
        told["proposal"] = encode(proposal)
    return dumps(told) if told else None


def applying(log_pk: int, thread_pk: int, hints: str | None, now: int) -> Script[Document | None]:
    """Let what a group proposes become the working memory; None if it proposes nothing, or nothing that is allowed."""
    told: JsonObject = loads(hints) if hints else {}
    if "proposal" not in told:
        return None
    proposal = decode(Proposal, told["proposal"])
    owner = yield q.resource_of_log(log_pk=log_pk)
    names = yield q.thread_name(thread_pk=thread_pk)
    resource, name = owner[0][0], names[0][0]
    where = (name, thread_pk) if proposal.of_thread else (None, _WHOLE)
    change = replaced(proposal.text)
    try:
        return (
            yield from changing(resource, *where, change, who=OBSERVER, most=proposal.most, read=proposal.base, now=now)
        )
    except (DocumentConflict, InputError, DocumentNotFound):
        # Somebody has written there since, or size or schema refuse it: what is there holds.
        return None


# ---------------------------------------------------------------- what a context shows


def present_versions(log_pk: int) -> Script[str | None]:
    """Return which versions there are now, as a generation keeps them: the prefix shows these until the next one."""
    owner = yield q.resource_of_log(log_pk=log_pk)
    resource, thread_pk = owner[0]
    rows = yield q.present_versions(resource=resource, thread_pk=thread_pk)
    return dumps({str(pk): version for pk, version in rows}) if rows else None


def reading_facts(resource: str, thread_pk: int, kept: str | None, *, has_log: bool) -> Script[Facts]:
    """Return what a context of this thread shows; `kept` is what its generation began with."""
    rows = yield q.shown_documents(resource=resource, thread_pk=thread_pk)
    if not rows:
        return NO_FACTS
    known: JsonObject = loads(kept) if kept else {}
    before, now, versions = dict[str, str](), dict[str, str](), dict[str, tuple[int, int]]()
    for pk, version, text, _, _ in rows:
        name = "thread" if pk else "resource"
        now[name] = unpack(text) or ""
        # Without a log there is no generation, and what is there now is what the first one will begin with.
        began = int(known.get(str(pk), 0)) if has_log else version
        versions[name] = (began, version)
        if began == version:
            before[name] = now[name]
        elif began:
            old = yield q.version_of(resource=resource, thread_pk=pk, version=began)
            before[name] = (unpack(old[0][1]) or "") if old else ""
    return Facts(before=before, now=now, versions=versions)


def _document(row: Row, resource: str, thread: str | None) -> Document:
    return Document(
        resource=resource,
        thread=thread,
        format=row[1],
        schema=loads(row[2]) if row[2] else None,
        current=_version_from_row(row[3:7]),
    )


def _version_from_row(row: Row) -> DocumentVersion:
    return DocumentVersion(number=row[0], text=unpack(row[1]) or "", by=unpack(row[2]) or "", at=from_micros(row[3]))
