"""Forgetting: remove rows, what was made of them, the copies beside the file, and the bytes that deleted rows leave in it."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from memolog.admin.doctor import Found
from memolog.core.config import Config
from memolog.core.reports import Finding, FindingKind, Forgotten, Report
from memolog.db.sqlite_files import clean_file, copies_of, copy_before_repair, damage_in, rebuild_indexes
from memolog.errors import InputError
from memolog.text.redaction import for_the_index
from memolog.text.tokens import TokenCounter

if TYPE_CHECKING:
    from memolog.components import Components
    from memolog.connection import Connection


async def forget(
    connection: "Connection",
    resource: str,
    *,
    thread: str | None,
    message: str | None,
    observation: str | None,
    dry_run: bool,
) -> Forgotten:
    """Forget a message, an observation, a thread or, if nothing else is named, the whole resource."""
    components = await connection.open_to_write()
    store, render = components.store, components.core.rerender
    if observation is not None:
        if thread is not None or message is not None:
            raise InputError("An observation is named by its id alone.", then="Leave thread and message out.")
        gone = await store.line_edits.delete(resource, observation, render=render, dry_run=dry_run)
    elif message is not None:
        gone = await store.forgetting.message(resource, message, thread=thread, render=render, dry_run=dry_run)
    elif thread is not None:
        gone = await store.forgetting.thread(resource, thread, render=render, dry_run=dry_run)
    else:
        gone = await store.forgetting.resource(resource, dry_run=dry_run)
    if not dry_run and message is None and observation is None:
        # What a turn could not save yet must not come back later.
        components.outbox.forget(resource, thread)
    if not dry_run:
        components.store.empty_caches()
    return await _clean(connection, components, gone)


async def forget_older(connection: "Connection", resource: str, *, dry_run: bool) -> Forgotten:
    """Forget what is older than the settings under `retention` allow."""
    components = await connection.open_to_write()
    keep = connection.config.retention

    def days_ago(days: int | None) -> datetime | None:
        return None if days is None else connection.clock.now() - timedelta(days=days)

    gone = await components.store.forgetting.older(
        resource,
        messages=days_ago(keep.message_days),
        prompts=days_ago(keep.prompt_days),
        events=days_ago(keep.journal_days),
        render=components.core.rerender,
        dry_run=dry_run,
    )
    if gone == Forgotten(resource=resource, dry_run=dry_run):
        return gone
    if not dry_run:
        components.store.empty_caches()
    return await _clean(connection, components, gone)


async def _clean(connection: "Connection", components: "Components", gone: Forgotten) -> Forgotten:
    """Remove the copies that still hold it, and the bytes that deleted rows leave behind."""
    file = components.store.engine.file
    if file is None:
        return gone
    copies = await asyncio.to_thread(copies_of, file)
    gone = replace(gone, copies=tuple(str(copy) for copy in copies))
    if gone.dry_run:
        return gone
    await asyncio.to_thread(_remove, copies)
    is_clean = await asyncio.to_thread(clean_file, file, timeout=connection.config.busy_timeout)
    return replace(gone, is_clean=is_clean)


def _remove(copies: list[Path]) -> None:
    for copy in copies:
        copy.unlink(missing_ok=True)


async def examine(
    components: "Components", resource: str | None, config: Config, counter: TokenCounter, *, repair: bool
) -> Report:
    """Return what is wrong with the rows of one resource or of all, and with the file; `repair` mends what is safe."""
    doctor, redact = components.store.doctor, for_the_index(config)

    async def look() -> tuple[Found, ...]:
        rows = await doctor.examine(resource, count=counter.count, redact=redact, render=components.core.rerender)
        return *rows, *await _in_file(components, config)

    found = await look()
    if not repair:
        return await doctor.report(resource, found, left=found)
    file, copy = components.store.engine.file, None
    if file is not None and found:
        stamp = components.clock.now().strftime("%Y%m%dT%H%M%S")
        copy = str(await asyncio.to_thread(copy_before_repair, file, stamp))
    await doctor.repair(found)
    if file is not None:
        await asyncio.to_thread(rebuild_indexes, file, timeout=config.busy_timeout)
    for name in (resource,) if resource is not None else await doctor.resources():
        await components.store.indexing.catch_up(name, redact)
    return replace(await doctor.report(resource, found, await look()), copy=copy, index_rebuilt=True)


async def _in_file(components: "Components", config: Config) -> Sequence[Found]:
    file = components.store.engine.file
    if file is None or config.read_only:
        return ()
    broken, indexes = await asyncio.to_thread(damage_in, file, timeout=config.busy_timeout)
    damage = "SQLite reports: {}. Restore a backup, or save what is left with the .recover command of sqlite3."
    words = "The index of words does not match its documents ({}): searches miss some."
    return [
        *(_finding("damage", file, damage.format(line), is_safe=False) for line in broken),
        *(_finding("index-word", file, words.format(line), is_safe=True) for line in indexes),
    ]


def _finding(kind: FindingKind, file: str, explanation: str, *, is_safe: bool) -> Found:
    return Found(finding=Finding(kind=kind, where=file, explanation=explanation, is_safe=is_safe))
