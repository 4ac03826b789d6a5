"""Read and change the working memory, with every version of it.

A change is made from a version that the caller has read, or from the present version. If another writer was first, the change is
applied to the new version, or refused because both changed the same part.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from types import MappingProxyType
from typing import Any

from memolog.core.clock import Clock, from_micros
from memolog.core.document import Document, DocumentVersion, Proposal
from memolog.core.exact_json import JsonObject, decode, dumps, encode, loads, object_text, pack, unpack
from memolog.core.thread import Hints
from memolog.db.engine import Engine, TimedCalls, reads
from memolog.db.queries import Row, Script, load_queries
from memolog.db.scope import LAST, CleanValue, check_ids, check_limit, check_number, check_optional_ids, reading_thread
from memolog.errors import Conflict, DocumentConflict, DocumentNotFound, InputError
from memolog.working_memory.document import Change, NewContent, author_of_conflict, checked, replaced, settled

q = load_queries("working_memory/working_memory")

OBSERVER = "observer"
"""The author of changes that an observation proposes."""
_ATTEMPTS = 8
_MOST_BLAMED = 200
"""At most this many versions are searched for the author of the parts that conflict with a change."""
_WHOLE = 0
"""The document of the whole resource has this number instead of the key of a thread."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """The working memory that a context shows. The keys are the scopes `resource` and `thread`."""

    before: Mapping[str, str] = field(default_factory=dict[str, str])
    """The texts at the beginning of the generation, which the prefix shows."""
    now: Mapping[str, str] = field(default_factory=dict[str, str])
    """The present texts."""
    versions: Mapping[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])
    """The numbers of both versions. 0 means that there was no document."""


NO_FACTS = Facts()


class WorkingMemories(TimedCalls):
    """Reads and changes documents. Each call is limited to one resource."""

    def __init__(self, engine: Engine, clock: Clock, clean: CleanValue | None = None) -> None:
        super().__init__(engine, clock)
        self._clean = clean

    @reads
    def get(self, resource: str, thread: str | None = None) -> Script[Document | None]:
        """Return the document of a resource or of one of its threads, or None if there is none."""
        thread_pk = yield from _thread_pk(resource, thread)
        rows = yield q.document(resource=resource, thread_pk=thread_pk)
        return _document(rows[0], resource, thread) if rows else None

    @reads
    def to_search(self, resource: str, *, limit: int) -> Script[tuple[tuple[str | None, str, datetime], ...]]:
        """Return the documents of a resource and of its threads, the newest first, each as thread, present text and time."""
        check_ids(resource=resource)
        rows = yield q.documents_to_search(resource=resource, limit=limit)
        return tuple((row.thread, unpack(row.text) or "", from_micros(row.at)) for row in rows)

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
        """Apply a change and store the result as a new version. Nothing is written if nothing changes.

        `read` is the version that the change was made from. Later changes of other parts are kept, and a later change of the
        same part raises DocumentConflict. Without `read` the change is applied to the present version.
        """
        check_ids(author=who)
        now, clean = self._now(), self._clean

        def cleaned(document: Document | None) -> NewContent:
            wanted = change(document)
            return wanted if clean is None else replace(wanted, text=str(clean(wanted.text)))

        def script() -> Script[Document]:
            thread_pk = yield from _thread_pk(resource, thread)
            return (yield from changing(resource, thread, thread_pk, cleaned, who=who, most=most, read=read, now=now))

        attempts = 0
        while True:
            try:
                return await self.engine.write(script, name="working_memory.change")
            except Conflict as conflict:
                # If another writer was first, apply the change to its version.
                attempts += 1
                if isinstance(conflict, DocumentConflict) or attempts == _ATTEMPTS:
                    raise

    @reads
    def version(self, resource: str, number: int, *, thread: str | None = None) -> Script[DocumentVersion]:
        """Return one version. Raise DocumentNotFound if it does not exist."""
        thread_pk = yield from _thread_pk(resource, thread)
        return (yield from _version(resource, thread_pk, number))

    @reads
    def versions(
        self, resource: str, thread: str | None = None, *, limit: int = 50, before: int | None = None
    ) -> Script[tuple[DocumentVersion, ...]]:
        """Return the versions, the newest first. Pass the lowest number as `before` to get older versions."""
        check_limit(limit)
        end = LAST if before is None else check_number("before", before)
        thread_pk = yield from _thread_pk(resource, thread)
        rows = yield q.versions_before(resource=resource, thread_pk=thread_pk, before=end, limit=limit)
        return tuple(map(_version_from_row, rows))


# ---------------------------------------------------------------- pieces of scripts


def _thread_pk(resource: str, thread: str | None) -> Script[int]:
    check_ids(resource=resource)
    check_optional_ids(thread=thread)
    return _WHOLE if thread is None else (yield from reading_thread(resource, thread)).pk


def _version(resource: str, thread_pk: int, number: int) -> Script[DocumentVersion]:
    if not 0 < number <= LAST:
        raise InputError(f"The version must be 1 or more, got {number}.", then="See versions().")
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
    """Apply a change as part of a larger script. Raise Conflict if another writer was first."""
    yield q.lock_document(resource=resource, thread_pk=thread_pk)
    rows = yield q.document(resource=resource, thread_pk=thread_pk)
    present = _document(rows[0], resource, thread) if rows else None
    number = present.current.number if present else 0
    if read is None or read == number:
        wanted = change(present)
    elif present is None or read > number or read < 0:
        raise InputError(f"There is no version {read} of the working memory to change.", then="Read it again.")
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
            # The error names the author of the conflicting parts, who may not be the author of the latest version.
            since = min(number - 1 - read, _MOST_BLAMED)
            between = yield q.versions_before(resource=resource, thread_pk=thread_pk, before=number, limit=since)
            by = author_of_conflict(present, base, [_version_from_row(row) for row in reversed(between)], change)
            raise DocumentConflict(read, number, by, conflict.parts) from None
    wanted = checked(wanted, most)
    if present is not None and wanted == NewContent(
        text=present.current.text, format=present.format, schema=present.schema
    ):
        return present
    document_pk = rows[0].pk if rows else None
    yield from _writing(resource, thread_pk, document_pk, number, wanted, who, now)
    written = DocumentVersion(number=number + 1, text=wanted.text, by=who, at=from_micros(now))
    return Document(resource=resource, thread=thread, format=wanted.format, current=written, schema=wanted.schema)


def _writing(
    resource: str, thread_pk: int, document_pk: int | None, number: int, wanted: NewContent, who: str, now: int
) -> Script[None]:
    schema = None if wanted.schema is None else object_text("The schema", wanted.schema)
    if document_pk is None:
        made = yield q.create_document(
            resource=resource, thread_pk=thread_pk or None, format=wanted.format, schema=schema
        )
        document_pk = made[0].pk if made else None
    else:
        made = yield q.advance_document(document_pk=document_pk, version=number, format=wanted.format, schema=schema)
    if not made:
        raise Conflict("The working memory has changed since it was read.", then="Read it again.")
    yield q.add_version(document_pk=document_pk, version=number + 1, now=now, who=pack(who), text=pack(wanted.text))


def copying_document(resource: str, source_pk: int, target_pk: int, now: int) -> Script[None]:
    """Copy the present text of a thread's document to its clone."""
    rows = yield q.document(resource=resource, thread_pk=source_pk)
    if rows:
        row = rows[0]
        made = yield q.create_document(resource=resource, thread_pk=target_pk, format=row.format, schema=row.schema)
        yield q.add_version(document_pk=made[0].pk, version=1, now=now, who=row.who, text=row.text)


def with_proposal(
    hints: Hints | None, proposal: Proposal | None, of_threads: Mapping[str, Hints] = MappingProxyType({})
) -> str | None:
    """Return as JSON what activating a group changes: hints, and the working memory. Return None if it changes neither."""
    effects: dict[str, Any] = dict(encode(hints)) if hints else {}
    if of_threads:
        effects["threads"] = {thread: encode(said) for thread, said in of_threads.items()}
    if proposal is not None:
        effects["proposal"] = encode(proposal)
    return dumps(effects) if effects else None


def applying(log_pk: int, thread_pk: int, hints: str | None, now: int) -> Script[Document | None]:
    """Apply the change of the working memory that a group proposes. Return None if there is none or it is refused."""
    effects: JsonObject = loads(hints) if hints else {}
    if "proposal" not in effects:
        return None
    proposal = decode(Proposal, effects["proposal"])
    resource = (yield q.resource_of_log(log_pk=log_pk))[0].resource
    name = (yield q.thread_name(thread_pk=thread_pk))[0].id
    where = (name, thread_pk) if proposal.of_thread else (None, _WHOLE)
    change = replaced(proposal.text)
    try:
        return (
            yield from changing(resource, *where, change, who=OBSERVER, most=proposal.most, read=proposal.base, now=now)
        )
    except (DocumentConflict, InputError, DocumentNotFound):
        # A later change, the maximum size or the schema does not allow the change, so the present version stays.
        return None


# ---------------------------------------------------------------- what a context shows


def present_versions(log_pk: int) -> Script[str | None]:
    """Return the numbers of the present versions as JSON. A generation stores them, because its prefix shows these versions."""
    log = (yield q.resource_of_log(log_pk=log_pk))[0]
    rows = yield q.present_versions(resource=log.resource, thread_pk=log.thread_pk)
    return dumps({str(row.thread_pk): row.version for row in rows}) if rows else None


def reading_facts(resource: str, thread_pk: int, kept: str | None, *, has_log: bool) -> Script[Facts]:
    """Return the working memory that a context of this thread shows. `kept` is the JSON of `present_versions`."""
    rows = yield q.shown_documents(resource=resource, thread_pk=thread_pk)
    if not rows:
        return NO_FACTS
    known: JsonObject = loads(kept) if kept else {}
    before, now, versions = dict[str, str](), dict[str, str](), dict[str, tuple[int, int]]()
    for row in rows:
        name = "thread" if row.thread_pk else "resource"
        now[name] = unpack(row.text) or ""
        # Without a log there is no generation yet. The first one will begin with the present version.
        began = int(known.get(str(row.thread_pk), 0)) if has_log else row.version
        versions[name] = (began, row.version)
        if began == row.version:
            before[name] = now[name]
        elif began:
            old = yield q.version_of(resource=resource, thread_pk=row.thread_pk, version=began)
            before[name] = (unpack(old[0].text) or "") if old else ""
    return Facts(before=before, now=now, versions=versions)


def _document(row: Row, resource: str, thread: str | None) -> Document:
    return Document(
        resource=resource,
        thread=thread,
        format=row.format,
        schema=loads(row.schema) if row.schema else None,
        current=_version_from_row(row),
    )


def _version_from_row(row: Row) -> DocumentVersion:
    return DocumentVersion(
        number=row.version, text=unpack(row.text) or "", by=unpack(row.who) or "", at=from_micros(row.at)
    )
