"""Store spooled events in the database, together with the transcripts of the hosts, and observe the new messages.

Only one process at a time does this. For each session, a sweep takes the events, saves new messages, writes back events that
must wait, and deletes the taken events. After a crash the next sweep repeats these steps, and no message is stored twice.
"""

import asyncio
import contextlib
import os
from collections.abc import Generator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from importlib import import_module
from typing import Any, Final

from memolog.apps.hooks.reconcile import Heard, Reconciled, Record, heard_of, reconcile, thread_of, transcript_of
from memolog.apps.hooks.spool import Spool, make_private, note, spool_of
from memolog.core.clock import Clock, SystemClock
from memolog.core.config import Config
from memolog.core.message import Message
from memolog.errors import MemologError, MessageNotFound, ThreadNotFound
from memolog.memory import Memory, Resource
from memolog.transfer.conversation import Conversation

IDLE: Final = timedelta(minutes=30)
"""A session without events for this long is over. Not every host reports the end of a session."""
# A page size that is larger than any thread.
_ALL: Final = 2**31


def sweep(address: str, config_file: str | None = None) -> None:
    """Store and observe the spooled events of a database. Return at once if another process runs a sweep of this database."""
    spool = spool_of(address, os.environ)
    with contextlib.suppress(OSError, AttributeError):
        os.nice(10)
    config = Config.load(toml=config_file, environment=os.environ)
    asyncio.run(Sweep(spool, address, config).run())


@contextlib.contextmanager
def only_one(path: str) -> Generator[bool]:
    """Try to lock a file while the block runs, and yield whether this process has the lock. The lock ends with the process."""
    file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        yield _locked(file)
    finally:
        os.close(file)


def _locked(file: int) -> bool:
    try:
        if os.name == "nt":
            lock: Any = import_module("msvcrt")
            lock.locking(file, lock.LK_NBLCK, 1)
        else:
            lock = import_module("fcntl")
            lock.flock(file, lock.LOCK_EX | lock.LOCK_NB)
    except OSError:
        return False
    return True


class _Session:
    """The events of one session, in order of time, and values that are computed from them."""

    def __init__(self, records: Sequence[Record], now: datetime) -> None:
        self.records = sorted(records, key=_time)
        self.last = datetime.fromtimestamp(max(map(_time, records), default=0.0), UTC)
        self.is_over = now - self.last >= IDLE
        # Observe everything now if the session ends or the host is about to compact it.
        self.wants_log = self.is_over or any(one.get("kind") in {"end", "compact"} for one in records)
        # A session may change its folder. It belongs to the resource of the folder where it started.
        self.resource = next(iter(self._values("resource")), "")
        self.host = next(iter(self._values("host")), "")
        self.transcripts = self._values("transcript")

    def _values(self, name: str) -> list[str]:
        """Return the different values of a field, in order of time."""
        return list(dict.fromkeys(str(one[name]) for one in self.records if one.get(name)))


def _time(record: Record) -> float:
    return float(record.get("at") or 0)


class Sweep:
    """One process that stores the spooled events of a database."""

    def __init__(self, spool: Spool, address: str, config: Config, clock: Clock | None = None) -> None:
        self.spool, self.address, self.config, self.clock = spool, address, config, clock or SystemClock()

    async def run(self) -> None:
        """Store all events, including events that arrive meanwhile."""
        make_private(self.spool.folder)
        seen: dict[str, int] = {}
        # Another sweep exits at once while this sweep has the lock. So look for new events again after the lock is released.
        while (sizes := self.spool.sizes()) != seen:
            with only_one(f"{self.spool.folder}/sweep.lock") as is_ours:
                if not is_ours:
                    return
                seen = await self._all(sizes)

    async def _all(self, sizes: dict[str, int]) -> dict[str, int]:
        """Store the events of all sessions. Return the size that the events of each session have if none has arrived since."""
        seen = dict(sizes)
        todo = [name for name in sizes if self._has_work(self.spool.peek(name))]
        if not todo:
            return seen
        async with Memory(self.address, config=self.config, clock=self.clock) as memory:
            for name in todo:
                try:
                    seen[name] = await self._session(memory, name)
                except (MemologError, OSError) as error:
                    note(self.spool, os.environ, self.clock.now().timestamp(), f"sweep of {name}: {error}")
        return {name: size for name, size in seen.items() if size}

    def _has_work(self, records: Sequence[Record]) -> bool:
        return any(one.get("kind") != "seen" for one in records) or _Session(records, self.clock.now()).is_over

    async def _session(self, memory: Memory, name: str) -> int:
        """Store the events of one session, and return the number of bytes that are written back to the spool."""
        records = self.spool.take(name)
        if not records:
            self.spool.drop(name)
            return 0
        session = _Session(records, self.clock.now())
        resource = memory.resource(session.resource)
        reconciled = await self._reconcile(resource, session)
        await self._save(resource, session, reconciled)
        await self._observe(resource, session, [one.thread for one in reconciled])
        # A tool event has two messages, so its record may wait twice. Write it back once.
        waiting = {id(heard.record): heard.record for one in reconciled for heard in one.waiting}
        written_back = [] if session.is_over else [*waiting.values(), _seen(session)]
        size = self.spool.append(name, *written_back) if written_back else 0
        self.spool.drop(name)
        return size

    async def _reconcile(self, resource: Resource, session: _Session) -> list[Reconciled]:
        """Return the messages to save and the events to keep, for each thread of a session."""
        heard = await _not_forgotten(resource, heard_of(session.records))
        written = dict[str, Conversation]()
        is_missing = False
        for path in session.transcripts:
            found = transcript_of(session.host, path)
            is_missing = is_missing or found is None
            for one in found or ():
                before = written.get(one.thread)
                written[one.thread] = replace(one, messages=(*before.messages, *one.messages)) if before else one
        # Events wait for lines of a transcript that was read, or of a transcript that the host may not have written yet.
        has_source = bool(written) or is_missing
        threads = dict.fromkeys([*written, *(thread_of(one) for one in session.records)])
        return [
            reconcile(
                thread,
                await _rows(resource, thread),
                await _own_lines(resource, written.get(thread)),
                [one for one in heard if one.thread == thread],
                is_over=session.is_over or not has_source,
            )
            for thread in threads
        ]

    async def _save(self, resource: Resource, session: _Session, reconciled: Sequence[Reconciled]) -> None:
        for one in reconciled:
            if not one.messages:
                continue
            report = await resource.thread(one.thread).import_messages(one.messages, source=session.host)
            for skipped in report.skipped:
                note(self.spool, os.environ, self.clock.now().timestamp(), f"{skipped.where}: {skipped.why}")

    async def _observe(self, resource: Resource, session: _Session, threads: Sequence[str]) -> None:
        """Observe all messages of a session that ends or is compacted. Observe other sessions only if it is due."""
        for thread in map(resource.thread, threads):
            with contextlib.suppress(ThreadNotFound):
                await thread.info()
                await (thread.observe() if session.wants_log else thread.advance())


def _seen(session: _Session) -> Record:
    """Return a record that keeps the resource and the first transcript of a session for the next sweep."""
    first = session.records[0]
    names = {key: first[key] for key in ("session", "host") if key in first}
    seen: Record = {"kind": "seen", "at": session.last.timestamp(), "resource": session.resource, **names}
    return {**seen, "transcript": session.transcripts[0]} if session.transcripts else seen


async def _not_forgotten(resource: Resource, heard: Sequence[Heard]) -> list[Heard]:
    """Return the reported messages without those that were deleted with `forget`."""
    left: list[Heard] = []
    for thread in dict.fromkeys(one.thread for one in heard):
        some = [one for one in heard if one.thread == thread]
        gone = await resource.thread(thread).forgotten([one.message for one in some])
        left += [one for index, one in enumerate(some) if index not in gone]
    return left


async def purge(resource: Resource, spool: Spool) -> int:
    """Remove events with forgotten messages of a resource from a spool, and return the number of removed events.

    If a sweep is running, nothing is removed, because the sweep skips forgotten messages.
    """
    removed = 0
    if not spool.sizes():
        return removed
    with only_one(f"{spool.folder}/sweep.lock") as is_ours:
        # Take each session twice, because the first `take` may return the events that an interrupted sweep had taken.
        for name in [*spool.sizes(), *spool.sizes()] if is_ours else ():
            records = spool.take(name)
            session = _Session(records, SystemClock().now())
            if session.resource == resource.id:
                heard = heard_of(records)
                left = await _not_forgotten(resource, heard)
                kept = {id(one.record) for one in left}
                gone = {id(one.record) for one in heard} - kept
                removed += len(gone)
                records = [one for one in records if id(one) not in gone]
            if records:
                spool.append(name, *records)
            spool.drop(name)
    return removed


async def _own_lines(resource: Resource, written: Conversation | None) -> Conversation | None:
    """Return a transcript without messages of an earlier session. A host copies them if the user continues that session."""
    first = next(iter(written.messages), None) if written else None
    if written is None or first is None or first.id is None:
        return written
    try:
        (row, *_) = await resource.message(first.id)
    except MessageNotFound:
        return written
    if row.thread == written.thread:
        return written
    there = {one.id for one in await _rows(resource, row.thread)}
    return replace(written, messages=tuple(one for one in written.messages if one.id not in there))


async def _rows(resource: Resource, thread: str) -> tuple[Message, ...]:
    """Return every message of a thread, also tombstones."""
    try:
        return (await resource.thread(thread).messages(limit=_ALL)).items
    except ThreadNotFound:
        return ()
