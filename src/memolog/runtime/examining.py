"""Examining a database, and repairing it: the rows, the file under them, and the index over them.

Knows the order: look, copy, repair, index again, look again. Knows not what is wrong with a row: that is in the store.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from memolog.config import Config
from memolog.domain.diagnosis import Finding, Report
from memolog.runtime.kit import Kit
from memolog.runtime.redacting import for_the_index
from memolog.store.checks import Found
from memolog.store.sqlite_files import copy_before_repair, damage_in, rebuild_indexes
from memolog.tokens import TokenCounter

__all__ = ["examine"]


async def examine(kit: Kit, resource: str | None, config: Config, counter: TokenCounter, *, repair: bool) -> Report:
    """Return what is wrong with the rows of a resource, or of all, and with the file; repair what is safe if told to."""
    doctor, redact = kit.store.doctor, for_the_index(config)
    found = (
        *await doctor.examine(resource, count=counter.count, redact=redact, render=kit.core.rerender),
        *await _in_file(kit, config),
    )
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
    left = (
        *await doctor.examine(resource, count=counter.count, redact=redact, render=kit.core.rerender),
        *await _in_file(kit, config),
    )
    return replace(await doctor.report(resource, found, left), copy=copy, index_rebuilt=True)


async def _in_file(kit: Kit, config: Config) -> Sequence[Found]:
    file = kit.store.engine.file
    if file is None or config.read_only:
        return ()
    broken, indexes = await asyncio.to_thread(damage_in, file, timeout=config.busy_timeout)
    damage = [
        Found(
            finding=Finding(
                kind="damage",
                where=file,
                explanation=f"SQLite says: {line}. Go back to a backup, or save what is left with its .recover command.",
                is_safe=False,
            )
        )
        for line in broken
    ]
    words = [
        Found(
            finding=Finding(
                kind="index-word",
                where=file,
                explanation=f"The index of words does not match its documents ({line}): searches miss some.",
                is_safe=True,
            )
        )
        for line in indexes
    ]
    return [*damage, *words]
