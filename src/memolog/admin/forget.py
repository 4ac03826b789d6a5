"""Forget messages, observations, threads or a resource: remove the rows, what was made of them, and the copies beside the file.

Also clear the bytes that deleted rows leave in the file.
"""

import asyncio
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from memolog.core.reports import Forgotten
from memolog.db.sqlite_files import clean_file, copies_of
from memolog.errors import InputError

if TYPE_CHECKING:
    from memolog.connection import Components, Connection


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
