"""Examine and repair a database: its rows, the file under them, and the search index."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from memolog.config import Config
from memolog.domain.diagnosis import Finding, FindingKind, Report
from memolog.runtime.kit import Kit
from memolog.runtime.redacting import for_the_index
from memolog.store.checks import Found
from memolog.store.sqlite_files import copy_before_repair, damage_in, rebuild_indexes
from memolog.tokens import TokenCounter

__all__ = ["examine"]


async def examine(kit: Kit, resource: str | None, config: Config, counter: TokenCounter, *, repair: bool) -> Report:
    """Return what is wrong with the rows of one resource or of all, and with the file; `repair` mends what is safe."""
    doctor, redact = kit.store.doctor, for_the_index(config)

    async def look() -> tuple[Found, ...]:
        rows = await doctor.examine(resource, count=counter.count, redact=redact, render=kit.core.rerender)
        return *rows, *await _in_file(kit, config)

    found = await look()
    if not repair:
        return await doctor.report(resource, found, left=found)
    file, copy = kit.store.engine.file, None
    if file is not None and found:
        stamp = kit.clock.now().strftime("%Y%m%dT%H%M%S")
        copy = str(await asyncio.to_thread(copy_before_repair, file, stamp))
    await doctor.repair(found)
    if file is not None:
        await asyncio.to_thread(rebuild_indexes, file, timeout=config.busy_timeout)
    for name in (resource,) if resource is not None else await doctor.resources():
        await kit.store.indexing.catch_up(name, redact)
    return replace(await doctor.report(resource, found, await look()), copy=copy, index_rebuilt=True)


async def _in_file(kit: Kit, config: Config) -> Sequence[Found]:
    file = kit.store.engine.file
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
